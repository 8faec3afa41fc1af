//! Runs scenario files (tests/scenarios/README.md says what is in one) against a component and a store. Any host in any
//! language runs the same files, so nothing here is part of their meaning.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::contract::*;
use crate::environment::Clock;
use crate::json;
use crate::memory_store::MemoryStore;
use crate::operator::{AuditFilter, MemoryEdit, NewMemory, NewSession, Operator};
use crate::runtime::{Prefetch, Runtime};
use crate::sqlite_store::{SqliteOptions, SqliteStore};
use crate::store::{AuditRow, StoreFailure};

/// A store that scenarios can be run on.
pub trait Testbed: Operator + Sized + 'static {
    /// What a new process would find.
    fn restart(self) -> Result<Self, StoreFailure>;
    /// Change a stored page without the checksum's knowledge, as a failing disk would. `false`: there is no such page.
    fn damage_page(&mut self, snapshot_ref: &str, number: u32) -> Result<bool, StoreFailure>;
    /// A memory's row as the store holds it, with `uses` and `used-at`.
    fn memory_row(&mut self, id: &str) -> Result<Option<Value>, StoreFailure>;
    /// Another process that writes, until it is dropped.
    type Lock;
    /// Start such a write.
    fn lock(&mut self) -> Result<Self::Lock, StoreFailure>;
}

impl Testbed for MemoryStore {
    fn restart(self) -> Result<Self, StoreFailure> {
        Ok(self)
    }
    fn damage_page(&mut self, snapshot_ref: &str, number: u32) -> Result<bool, StoreFailure> {
        Ok(self.damage_page(snapshot_ref, number))
    }
    fn memory_row(&mut self, id: &str) -> Result<Option<Value>, StoreFailure> {
        Ok(MemoryStore::memory_row(self, id))
    }
    type Lock = crate::memory_store::Lock;
    fn lock(&mut self) -> Result<Self::Lock, StoreFailure> {
        Ok(MemoryStore::lock(self))
    }
}

impl Testbed for SqliteStore {
    fn restart(self) -> Result<Self, StoreFailure> {
        self.reopen()
    }
    fn damage_page(&mut self, snapshot_ref: &str, number: u32) -> Result<bool, StoreFailure> {
        self.damage_page(snapshot_ref, number)
    }
    fn memory_row(&mut self, id: &str) -> Result<Option<Value>, StoreFailure> {
        SqliteStore::memory_row(self, id)
    }
    type Lock = rusqlite::Connection;
    fn lock(&mut self) -> Result<Self::Lock, StoreFailure> {
        SqliteStore::lock(self)
    }
}

/// The stores that scenarios can be run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// A new SQLite file for each scenario.
    Sqlite,
    /// Plain collections.
    Memory,
}

/// How long a call waits for another process, which in a scenario never comes to an end by itself.
const BUSY: Duration = Duration::from_millis(50);

/// Run the scenarios of these files and directories, and report each as it ends. Answers how many passed and failed.
pub fn run(
    paths: &[PathBuf],
    runtime: &Runtime,
    backend: Backend,
    mut report: impl FnMut(&Report),
) -> Result<(u32, u32), String> {
    let (mut passed, mut failed) = (0, 0);
    for file in files(paths)? {
        let count = |outcome: Report| {
            if outcome.failure.is_none() {
                passed += 1
            } else {
                failed += 1
            }
            report(&outcome);
        };
        match backend {
            Backend::Memory => run_file(&file, runtime, || Ok(MemoryStore::new()), count),
            Backend::Sqlite => {
                let dir = tempfile::tempdir().map_err(|error| format!("no temporary directory: {error}"))?;
                let mut number = 0;
                let open = || {
                    number += 1;
                    SqliteStore::open(
                        dir.path().join(format!("{number}.db")),
                        &SqliteOptions { busy_timeout: BUSY, create: true },
                    )
                };
                run_file(&file, runtime, open, count);
            }
        }
    }
    Ok((passed, failed))
}

/// What came of one scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// `FILE/NAME`.
    pub name: String,
    /// Why it failed; `None`: it passed.
    pub failure: Option<String>,
}

type Outcome<T> = Result<T, String>;

/// The scenario files among these paths; of a directory, every `.json` file directly in it, by name.
///
/// An unreadable path, or one without scenarios, is an error: a run of nothing must not look like a success.
pub fn files(paths: &[PathBuf]) -> Outcome<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in paths {
        let shown = path.display();
        if !path.is_dir() {
            found.push(path.clone());
            continue;
        }
        let entries = std::fs::read_dir(path).map_err(|error| format!("{shown}: {error}"))?;
        let mut inside: Vec<PathBuf> = Vec::new();
        for entry in entries {
            let file = entry.map_err(|error| format!("{shown}: {error}"))?.path();
            if file.extension().is_some_and(|extension| extension == "json") {
                inside.push(file);
            }
        }
        if inside.is_empty() {
            return Err(format!("{shown} has no .json file in it"));
        }
        inside.sort();
        found.extend(inside);
    }
    Ok(found)
}

/// Run every scenario of one file, each on a fresh store from `open`. A file that cannot be read is one failure.
pub fn run_file<B: Testbed>(
    file: &Path,
    runtime: &Runtime,
    mut open: impl FnMut() -> Result<B, StoreFailure>,
    mut report: impl FnMut(Report),
) {
    let stem = file.file_stem().unwrap_or(file.as_os_str()).to_string_lossy().into_owned();
    let parsed = std::fs::read_to_string(file)
        .map_err(|error| error.to_string())
        .and_then(|text| serde_json::from_str(&text).map_err(|error| format!("not JSON: {error}")))
        .and_then(|value| File::read(&value));
    let file = match parsed {
        Ok(file) => file,
        Err(why) => return report(Report { name: stem, failure: Some(why) }),
    };
    for scenario in &file.scenarios {
        let failure = open()
            .map_err(|error| error.to_string())
            .and_then(|store| Run::start(runtime, store, &file)?.scenario(&file, scenario))
            .err();
        report(Report { name: format!("{stem}/{}", scenario.name), failure });
    }
}

struct File {
    now: Instant,
    variables: Map<String, Value>,
    setup: Vec<Value>,
    scenarios: Vec<Scenario>,
}

struct Scenario {
    name: String,
    steps: Vec<Value>,
}

impl File {
    fn read(value: &Value) -> Outcome<File> {
        let object = fields(value, &["rules", "about", "now", "let", "setup", "scenarios"])?;
        array(object, "rules")?;
        text(object, "about")?;
        let variables = object.get("let").map_or(Ok(Map::new()), |value| {
            value.as_object().cloned().ok_or_else(|| "let is not an object".to_owned())
        })?;
        let setup = if object.contains_key("setup") { array(object, "setup")?.clone() } else { Vec::new() };
        let mut scenarios: Vec<Scenario> = Vec::new();
        for value in array(object, "scenarios")? {
            let object = fields(value, &["name", "about", "steps"])?;
            let name = text(object, "name")?.to_owned();
            let steps = array(object, "steps")?.clone();
            if !steps.iter().any(|step| step.get("expect").is_some()) {
                return Err(format!("scenario {name:?} expects nothing, so it cannot fail"));
            }
            if scenarios.iter().any(|other| other.name == name) {
                return Err(format!("two scenarios are called {name:?}"));
            }
            scenarios.push(Scenario { name, steps });
        }
        if scenarios.is_empty() {
            return Err("there are no scenarios in it".into());
        }
        let now = object.get("now").and_then(Value::as_u64).ok_or("now is not an instant in milliseconds")?;
        Ok(File { now, variables, setup, scenarios })
    }
}

struct Run<'a, B: Testbed> {
    runtime: &'a Runtime,
    prefetch: Option<Prefetch<B>>,
    now: Instant,
    variables: Map<String, Value>,
    /// Audit entries that a step has looked at.
    audited: usize,
    /// Another process that writes.
    lock: Option<B::Lock>,
}

impl<'a, B: Testbed> Run<'a, B> {
    fn start(runtime: &'a Runtime, store: B, file: &File) -> Outcome<Run<'a, B>> {
        let mut run =
            Run { runtime, prefetch: None, now: file.now, variables: file.variables.clone(), audited: 0, lock: None };
        run.open(store)?;
        Ok(run)
    }

    fn open(&mut self, store: B) -> Outcome<()> {
        let mut prefetch = self.runtime.open(store).map_err(|error| error.to_string())?;
        prefetch.set_clock(Clock::Fixed(self.now));
        self.prefetch = Some(prefetch);
        Ok(())
    }

    fn scenario(mut self, file: &File, scenario: &Scenario) -> Outcome<()> {
        for (place, steps) in [("setup", &file.setup), ("step", &scenario.steps)] {
            for (number, step) in (1..).zip(steps) {
                self.step(step).map_err(|why| format!("{place} {number}: {why}"))?;
            }
        }
        Ok(())
    }

    fn prefetch(&mut self) -> Outcome<&mut Prefetch<B>> {
        self.prefetch.as_mut().ok_or_else(|| "the store was lost at a restart".to_owned())
    }

    fn store(&mut self) -> Outcome<&mut B> {
        Ok(self.prefetch()?.store())
    }

    fn step(&mut self, step: &Value) -> Outcome<()> {
        const KINDS: [&str; 17] = [
            "call",
            "put-agent",
            "put-project",
            "remove-project",
            "put-session",
            "put-alias",
            "remove-session",
            "put-link",
            "remove-links",
            "add-memory",
            "edit-memory",
            "archive-memory",
            "put-setting",
            "clock",
            "restart",
            "damage-page",
            "lock",
        ];
        let object = step.as_object().ok_or("it is not an object")?;
        let kind = object.keys().find(|key| KINDS.contains(&key.as_str()) || ["audit", "row"].contains(&key.as_str()));
        let kind = kind.ok_or_else(|| format!("it is none of {}, audit, row", KINDS.join(", ")))?.as_str();
        match kind {
            "call" => return self.call(object),
            "audit" => return self.audit(object),
            "row" => return self.row(object),
            _ => {}
        }
        fields(step, &[kind, "about"])?;
        let value = self.filled(&object[kind])?;
        let now = self.now;
        let failed = |error: StoreFailure| error.to_string();
        match kind {
            "put-agent" => {
                self.store()?.add_agent(value.as_str().ok_or("an agent is a string")?).map_err(failed)?;
            }
            "put-project" => {
                let object = fields(&value, &["id", "workspace", "memory-on", "trusted"])?;
                let project = Project {
                    id: text(object, "id")?.to_owned(),
                    workspace: optional_text(object, "workspace")?,
                    memory_on: flag(object, "memory-on", true)?,
                    trusted: flag(object, "trusted", true)?,
                    attributes: Vec::new(),
                };
                self.store()?.put_project(&project).map_err(failed)?;
            }
            "remove-project" => {
                self.store()?.remove_project(value.as_str().ok_or("a project is a string")?).map_err(failed)?;
            }
            "put-session" => {
                let object = fields(&value, &["key", "agent", "project", "parent", "memory-on"])?;
                let session = NewSession {
                    key: key(object.get("key"))?,
                    agent: optional_text(object, "agent")?,
                    project: optional_text(object, "project")?,
                    parent: object.get("parent").map(|value| key(Some(value))).transpose()?,
                    memory_on: flag(object, "memory-on", true)?,
                };
                self.store()?.put_session(&session).map_err(failed)?;
            }
            "put-alias" => {
                let object = fields(&value, &["alias", "of"])?;
                let known = self.store()?.add_alias(&key(object.get("alias"))?, &key(object.get("of"))?);
                if !known.map_err(failed)? {
                    return Err("there is no such session to alias".into());
                }
            }
            "remove-session" => {
                self.store()?.remove_session(&key(Some(&value))?).map_err(failed)?;
            }
            "put-link" => {
                let object = fields(&value, &["from", "to", "direction", "kind"])?;
                let link = Link {
                    from_agent: text(object, "from")?.to_owned(),
                    to_agent: text(object, "to")?.to_owned(),
                    direction: match text(object, "direction")? {
                        "one-way" => Direction::OneWay,
                        "two-way" => Direction::TwoWay,
                        other => return Err(format!("{other:?} is no direction")),
                    },
                    kind: optional_text(object, "kind")?.unwrap_or_else(|| "peer".to_owned()),
                    attributes: Vec::new(),
                };
                self.store()?.add_link(&link).map_err(failed)?;
            }
            "remove-links" => {
                let object = fields(&value, &["from", "to"])?;
                self.store()?.remove_links(text(object, "from")?, text(object, "to")?).map_err(failed)?;
            }
            "add-memory" => {
                let memory = new_memory(&value)?;
                self.store()?.add_memory(&memory, now).map_err(failed)?;
            }
            "edit-memory" => {
                let object =
                    fields(&value, &["id", "body", "category", "audience", "priority", "trusted", "expires-at"])?;
                let edit = MemoryEdit {
                    body: optional_text(object, "body")?,
                    category: optional_text(object, "category")?,
                    audience: object.get("audience").map(|_| audience(object)).transpose()?,
                    priority: optional_number(object, "priority")?
                        .map(|n| u32::try_from(n).map_err(|error| error.to_string()))
                        .transpose()?,
                    trusted: object.get("trusted").map(|_| flag(object, "trusted", true)).transpose()?,
                    expires_at: object.get("expires-at").map(|_| optional_number(object, "expires-at")).transpose()?,
                };
                if !self.store()?.edit_memory(text(object, "id")?, &edit, now).map_err(failed)? {
                    return Err("there is no such memory to edit".into());
                }
            }
            "archive-memory" => {
                let id = value.as_str().ok_or("a memory id is a string")?;
                if !self.store()?.archive_memory(id, true).map_err(failed)? {
                    return Err("there is no such memory to archive".into());
                }
            }
            "put-setting" => {
                let object = fields(&value, &["project", "name", "value"])?;
                let project = optional_text(object, "project")?;
                let setting = optional_text(object, "value")?;
                self.store()?
                    .put_setting(project.as_deref(), text(object, "name")?, setting.as_deref())
                    .map_err(failed)?;
            }
            "clock" => {
                let object = fields(&value, &["add-seconds", "set"])?;
                self.now = match (optional_number(object, "set")?, object.get("add-seconds").and_then(Value::as_i64)) {
                    (Some(at), None) => at,
                    (None, Some(seconds)) => {
                        now.checked_add_signed(seconds.saturating_mul(1000)).ok_or("the clock would leave its range")?
                    }
                    _ => return Err("a clock step has either set or add-seconds".into()),
                };
                let clock = Clock::Fixed(self.now);
                self.prefetch()?.set_clock(clock);
            }
            "restart" => {
                let prefetch = self.prefetch.take().ok_or("the store was lost at a restart")?;
                let store = prefetch.into_store().restart().map_err(failed)?;
                self.open(store)?;
            }
            "lock" => {
                self.lock = None;
                if value.as_bool().ok_or("lock is true or false")? {
                    self.lock = Some(self.store()?.lock().map_err(failed)?);
                }
            }
            "damage-page" => {
                let object = fields(&value, &["snapshot-ref", "number"])?;
                let number = optional_number(object, "number")?.and_then(|n| u32::try_from(n).ok()).unwrap_or(1);
                if !self.store()?.damage_page(text(object, "snapshot-ref")?, number).map_err(failed)? {
                    return Err("there is no such page to damage".into());
                }
            }
            _ => return Err(format!("{kind} is not a step")),
        }
        Ok(())
    }

    fn call(&mut self, step: &Map<String, Value>) -> Outcome<()> {
        fields(&Value::Object(step.clone()), &["call", "about", "args", "expect", "save"])?;
        let name = text(step, "call")?.to_owned();
        let args = self.filled(step.get("args").unwrap_or(&json!({})))?;
        let args = args.as_object().ok_or("args is not an object")?.clone();
        let prefetch = self.prefetch()?;
        let mut answer = json::call(prefetch, &name, &args).map_err(|error| format!("{name}: {error}"))?;
        let host_calls = prefetch.last_host_calls();
        if let Some(object) = answer.as_object_mut() {
            object.insert("host-calls".into(), host_calls.into());
        }
        if let Some(expected) = step.get("expect") {
            let expected = self.filled(expected)?;
            check_expectation(&expected)?;
            matches(&expected, &answer, "").map_err(|why| format!("{name}: {why}"))?;
        } else if answer.get("error").is_some() {
            return Err(format!("{name} failed and nothing was expected of it: {answer}"));
        }
        self.save(step, &answer)
    }

    /// Keep parts of an answer as variables.
    fn save(&mut self, step: &Map<String, Value>, answer: &Value) -> Outcome<()> {
        let Some(saved) = step.get("save") else { return Ok(()) };
        for (variable, pointer) in saved.as_object().ok_or("save is not an object")? {
            let pointer = pointer.as_str().ok_or("save names a JSON pointer for each variable")?;
            let value = answer.pointer(pointer).ok_or_else(|| format!("nothing at {pointer} in {answer}"))?;
            self.variables.insert(variable.clone(), value.clone());
        }
        Ok(())
    }

    /// A memory's row, whatever its columns are.
    fn row(&mut self, step: &Map<String, Value>) -> Outcome<()> {
        fields(&Value::Object(step.clone()), &["row", "about", "expect", "save"])?;
        let id = self.filled(&step["row"])?;
        let id = id.as_str().ok_or("a memory id is a string")?;
        let row = self.store()?.memory_row(id).map_err(|error| error.to_string())?.unwrap_or(Value::Null);
        if let Some(expected) = step.get("expect") {
            let expected = self.filled(expected)?;
            check_expectation(&expected)?;
            matches(&expected, &row, "row")?;
        }
        self.save(step, &row)
    }

    /// The audit entries since the last such step, oldest first.
    fn audit(&mut self, step: &Map<String, Value>) -> Outcome<()> {
        const ALL: u32 = 100_000;
        fields(&Value::Object(step.clone()), &["audit", "about", "expect"])?;
        let expected = self.filled(step.get("expect").ok_or("an audit step needs expect")?)?;
        check_expectation(&expected)?;
        let mut rows = self.store()?.all_audit(&AuditFilter::default(), ALL).map_err(|error| error.to_string())?;
        rows.reverse();
        let new: Vec<Value> = rows.iter().skip(self.audited).map(audit_json).collect();
        self.audited = rows.len();
        matches(&expected, &Value::Array(new), "audit")
    }

    /// `value` with `$name` replaced by variables, and `{"$repeat": [text, n]}` and `{"$join": […]}` by their texts.
    fn filled(&self, value: &Value) -> Outcome<Value> {
        fill(&self.variables, value, MAX_DEPTH, &mut { MAX_FILLED })
    }
}

/// How deep a value may be with its variables filled in, which may use others, or themselves.
const MAX_DEPTH: u32 = 160;

/// How large, in bytes or thereabouts: variables that use others twice double at each step.
const MAX_FILLED: usize = 64 << 20;

fn fill(variables: &Map<String, Value>, value: &Value, depth: u32, room: &mut usize) -> Outcome<Value> {
    const EACH: usize = 32;
    let depth = depth.checked_sub(1).ok_or("variables use each other too deeply, or in a circle")?;
    let mut take = |bytes: usize| {
        *room = room.checked_sub(bytes.saturating_add(EACH)).ok_or("this makes too long a text, or too many values")?;
        Ok::<(), String>(())
    };
    Ok(match value {
        Value::String(text) => match text.strip_prefix('$') {
            None => {
                take(text.len())?;
                value.clone()
            }
            Some(literal) if literal.starts_with('$') => {
                take(literal.len())?;
                Value::String(literal.to_owned())
            }
            Some(name) => {
                let value = variables.get(name).ok_or_else(|| format!("there is no variable {name:?}"))?;
                // Variables of `let` may use others.
                fill(variables, value, depth, room)?
            }
        },
        Value::Array(values) => {
            take(0)?;
            Value::Array(values.iter().map(|value| fill(variables, value, depth, room)).collect::<Outcome<_>>()?)
        }
        Value::Object(object) if object.contains_key("$repeat") => {
            let parts = fill(variables, &object["$repeat"], depth, room)?;
            let (text, times) = (parts.get(0).and_then(Value::as_str), parts.get(1).and_then(Value::as_u64));
            let (Some(text), Some(times)) = (text, times) else { return Err("$repeat is [text, times]".into()) };
            let times = usize::try_from(times).map_err(|error| error.to_string())?;
            *room = room.checked_sub(times.saturating_mul(text.len())).ok_or("$repeat makes too long a text")?;
            Value::String(text.repeat(times))
        }
        Value::Object(object) if object.contains_key("$join") => {
            let parts = fill(variables, &object["$join"], depth, room)?;
            let parts = parts.as_array().ok_or("$join is an array of texts")?;
            let texts: Option<Vec<&str>> = parts.iter().map(Value::as_str).collect();
            Value::String(texts.ok_or("$join is an array of texts")?.concat())
        }
        Value::Object(object) => {
            take(object.keys().map(String::len).sum())?;
            let field = |(name, value): (&String, &Value)| Ok((name.clone(), fill(variables, value, depth, room)?));
            Value::Object(object.iter().map(field).collect::<Outcome<_>>()?)
        }
        other => {
            take(0)?;
            other.clone()
        }
    })
}

/// Whether an expectation says something: a condition that is misspelt or has a wrong operand must not pass, also not
/// inside `$not`.
fn check_expectation(expected: &Value) -> Outcome<()> {
    match expected {
        Value::Object(object) => object.iter().try_for_each(|(name, operand)| {
            let is_texts = operand.is_string()
                || operand.as_array().is_some_and(|list| !list.is_empty() && list.iter().all(Value::is_string));
            match name.as_str() {
                "$contains" | "$lacks" | "$starts-with" | "$once" if is_texts => Ok(()),
                "$bytes" | "$at-most-bytes" | "$length" | "$at-most" | "$at-least" if operand.is_u64() => Ok(()),
                "$not" | "$has" => check_expectation(operand),
                name if name.starts_with('$') => {
                    Err(format!("{name} is no condition, or has a wrong operand: {operand}"))
                }
                _ => check_expectation(operand),
            }
        }),
        Value::Array(values) => values.iter().try_for_each(check_expectation),
        _ => Ok(()),
    }
}

/// Whether `actual` is what `expected` says; `at` is the place, for the message.
fn matches(expected: &Value, actual: &Value, at: &str) -> Outcome<()> {
    let differs =
        |what: &str| Err(format!("at {}: {what}, but it is {}", if at.is_empty() { "/" } else { at }, brief(actual)));
    match expected {
        Value::Object(object) if object.keys().any(|key| key.starts_with('$')) => {
            for (operator, operand) in object {
                if !holds(operator, operand, actual)? {
                    return differs(&format!("expected {operator} {}", brief(operand)));
                }
            }
            Ok(())
        }
        Value::Object(object) => {
            for (name, expected) in object {
                match actual.get(name) {
                    Some(actual) => matches(expected, actual, &format!("{at}/{name}"))?,
                    None => return differs(&format!("expected a field {name:?}")),
                }
            }
            Ok(())
        }
        Value::Array(values) => match actual.as_array() {
            Some(actual) if actual.len() == values.len() => (0..)
                .zip(values.iter().zip(actual))
                .try_for_each(|(index, (expected, actual))| matches(expected, actual, &format!("{at}/{index}"))),
            _ => differs(&format!("expected {} elements", values.len())),
        },
        _ if expected == actual => Ok(()),
        _ => differs(&format!("expected {}", brief(expected))),
    }
}

fn holds(operator: &str, operand: &Value, actual: &Value) -> Outcome<bool> {
    let texts = || -> Outcome<Vec<String>> {
        let texts: Option<Vec<String>> = match operand {
            Value::String(text) => Some(vec![text.clone()]),
            Value::Array(values) => values.iter().map(|value| value.as_str().map(String::from)).collect(),
            _ => None,
        };
        texts.filter(|texts| !texts.is_empty()).ok_or_else(|| format!("{operator} takes a text or several"))
    };
    let number = || operand.as_u64().ok_or_else(|| format!("{operator} takes a number"));
    let text = actual.as_str();
    Ok(match operator {
        "$contains" => texts()?.iter().all(|part| text.is_some_and(|text| text.contains(part))),
        "$lacks" => texts()?.iter().all(|part| text.is_some_and(|text| !text.contains(part))),
        "$starts-with" => texts()?.iter().all(|part| text.is_some_and(|text| text.starts_with(part))),
        "$once" => texts()?.iter().all(|part| text.is_some_and(|text| text.matches(part.as_str()).count() == 1)),
        "$bytes" => text.map(|text| text.len() as u64) == Some(number()?),
        "$at-most-bytes" => text.is_some_and(|text| number().is_ok_and(|max| text.len() as u64 <= max)),
        "$length" => actual.as_array().map(|values| values.len() as u64) == Some(number()?),
        "$at-most" => actual.as_u64().is_some_and(|n| number().is_ok_and(|max| n <= max)),
        "$at-least" => actual.as_u64().is_some_and(|n| number().is_ok_and(|min| n >= min)),
        "$not" => matches(operand, actual, "").is_err(),
        "$has" => {
            actual.as_array().is_some_and(|values| values.iter().any(|value| matches(operand, value, "").is_ok()))
        }
        _ => return Err(format!("there is no operator {operator}")),
    })
}

fn brief(value: &Value) -> String {
    const SHOWN: usize = 600;
    let text = value.to_string();
    match text.char_indices().nth(SHOWN) {
        None => text,
        Some((cut, _)) => format!("{}… ({} bytes)", text.get(..cut).unwrap_or_default(), text.len()),
    }
}

fn audit_json(row: &AuditRow) -> Value {
    let session = row.session.as_ref().map(|key| json!({ "harness": key.harness, "id": key.id }));
    json!({
        "at": row.at,
        "session": session,
        "export": row.export,
        "rolled-back": row.rolled_back,
        "action": row.entry.action,
        "outcome": row.entry.outcome,
        "snapshot-refs": row.entry.snapshot_refs,
        "memory-ids": row.entry.memory_ids,
        "attributes": row.entry.attributes,
    })
}

fn new_memory(value: &Value) -> Outcome<NewMemory> {
    let object = fields(
        value,
        &["id", "owner", "project", "audience", "category", "priority", "trusted", "expires-at", "body"],
    )?;
    let priority = optional_number(object, "priority")?.unwrap_or(0);
    Ok(NewMemory {
        id: optional_text(object, "id")?,
        owner: optional_text(object, "owner")?,
        project: optional_text(object, "project")?,
        audience: audience(object)?,
        category: optional_text(object, "category")?.unwrap_or_default(),
        priority: u32::try_from(priority).map_err(|error| error.to_string())?,
        trusted: flag(object, "trusted", true)?,
        expires_at: optional_number(object, "expires-at")?,
        body: text(object, "body")?.to_owned(),
    })
}

fn audience(object: &Map<String, Value>) -> Outcome<Audience> {
    match optional_text(object, "audience")?.as_deref() {
        None | Some("agent") => Ok(Audience::Agent),
        Some("project") => Ok(Audience::Project),
        Some("workspace") => Ok(Audience::Workspace),
        Some(other) => Err(format!("{other:?} is no audience")),
    }
}

fn key(value: Option<&Value>) -> Outcome<SessionKey> {
    let object = fields(value.ok_or("a session key is missing")?, &["harness", "id"])?;
    Ok(SessionKey { harness: text(object, "harness")?.to_owned(), id: text(object, "id")?.to_owned() })
}

/// The object, if it has no other keys than these: a misspelt one would be a check that never fails.
fn fields<'a>(value: &'a Value, known: &[&str]) -> Outcome<&'a Map<String, Value>> {
    let object = value.as_object().ok_or_else(|| format!("{} is not an object", brief(value)))?;
    match object.keys().find(|key| !known.contains(&key.as_str())) {
        Some(unknown) => Err(format!("unknown key {unknown:?}: known are {}", known.join(", "))),
        None => Ok(object),
    }
}

fn array<'a>(object: &'a Map<String, Value>, name: &str) -> Outcome<&'a Vec<Value>> {
    object.get(name).and_then(Value::as_array).ok_or_else(|| format!("{name} is not an array"))
}

fn text<'a>(object: &'a Map<String, Value>, name: &str) -> Outcome<&'a str> {
    object.get(name).and_then(Value::as_str).ok_or_else(|| format!("{name} is not a string"))
}

fn optional_text(object: &Map<String, Value>, name: &str) -> Outcome<Option<String>> {
    match object.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(_) => text(object, name).map(|text| Some(text.to_owned())),
    }
}

fn optional_number(object: &Map<String, Value>, name: &str) -> Outcome<Option<u64>> {
    match object.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value.as_u64().map(Some).ok_or_else(|| format!("{name} is not a whole number")),
    }
}

fn flag(object: &Map<String, Value>, name: &str, default: bool) -> Outcome<bool> {
    match object.get(name) {
        None => Ok(default),
        Some(value) => value.as_bool().ok_or_else(|| format!("{name} is not true or false")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_said() {
        let actual = json!({ "a": [1, { "b": "some text" }], "c": null });
        for expected in [
            json!({}),
            json!({ "a": [1, { "b": { "$contains": ["some", "text"], "$lacks": "other" } }] }),
            json!({ "a": { "$length": 2, "$has": { "b": { "$starts-with": "so", "$bytes": 9 } } }, "c": null }),
            json!({ "a": { "$not": [1] } }),
        ] {
            assert_eq!(matches(&expected, &actual, ""), Ok(()));
        }
        for expected in [
            json!({ "a": [1] }),
            json!({ "d": 1 }),
            json!({ "c": 0 }),
            json!({ "a": [1, { "b": { "$contains": ["some", "other"] } }] }),
            json!({ "a": [1, { "b": { "$once": "e" } }] }),
            json!({ "a": { "$length": 1 } }),
            json!({ "c": { "$lacks": "x" } }),
            json!({ "a": { "$unknown": 1 } }),
        ] {
            assert!(matches(&expected, &actual, "").is_err(), "{expected}");
        }
    }

    #[test]
    fn a_misspelt_condition_is_an_error_everywhere() {
        for expected in [
            json!({ "$contians": "x" }),
            json!({ "a": [{ "$not": { "$contians": "x" } }] }),
            json!({ "$has": { "$length": "3" } }),
            json!({ "$lacks": [] }),
        ] {
            assert!(check_expectation(&expected).is_err(), "{expected}");
        }
        assert!(check_expectation(&json!({ "a": { "$not": { "$contains": ["x"], "$bytes": 1 } } })).is_ok());
    }

    #[test]
    fn variables_that_never_end_are_an_error() {
        let filled = |variables: Value, value: Value| {
            fill(variables.as_object().unwrap(), &value, MAX_DEPTH, &mut { MAX_FILLED })
        };
        assert_eq!(
            filled(json!({ "a": ["$b", "$b"], "b": "x" }), json!({ "v": "$a" })),
            Ok(json!({ "v": ["x", "x"] }))
        );
        assert_eq!(filled(json!({ "a": "x" }), json!({ "$repeat": ["$a", 3] })), Ok(json!("xxx")));
        let circle = json!({ "a": "$b", "b": ["$a"] });
        assert!(filled(circle, json!("$a")).is_err_and(|why| why.contains("circle")));
        // Each twice the one before: 2^40 of the last.
        let names: Vec<String> = (0..40).map(|n| format!("v{n}")).collect();
        let mut doubled = json!({ "v40": "x" });
        for (n, name) in names.iter().enumerate() {
            doubled[name] = json!([format!("$v{}", n + 1), format!("$v{}", n + 1)]);
        }
        assert!(filled(doubled, json!("$v0")).is_err_and(|why| why.contains("too many")));
        let long = json!({ "$repeat": [{ "$repeat": ["xxxxxxxx", 8_000_000] }, 2] });
        assert!(filled(json!({}), long).is_err_and(|why| why.contains("too long")));
        assert!(filled(json!({}), json!({ "$repeat": ["x", u64::MAX] })).is_err());
    }

    #[test]
    fn files_that_check_nothing_are_refused() {
        let file = |steps: Value| json!({ "rules": ["R0"], "about": "x", "now": 0, "scenarios": [{ "name": "a", "steps": steps }] });
        assert!(File::read(&file(json!([{ "call": "about.describe", "expect": { "ok": {} } }]))).is_ok());
        assert!(File::read(&file(json!([{ "call": "about.describe" }]))).is_err_and(|why| why.contains("cannot fail")));
        assert!(File::read(&json!({ "rules": [], "about": "x", "now": 0, "scenarios": [] })).is_err());
        assert!(File::read(&json!({ "rule": "R0" })).is_err_and(|why| why.contains("unknown key")));
    }
}
