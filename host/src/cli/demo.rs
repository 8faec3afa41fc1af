//! `demo`: the whole story on a throw-away store. Every line that says that something is so has just been compared; one
//! that does not hold makes the program fail.

use std::path::Path;
use std::time::Duration;

use memory_prefetch::contract::{
    Budget, Capacity, Claim, Delegated, Delegation, DelegationOutcome, DeliveryOutcome, Direction, Error, Hints, Link,
    Memory, MemoryField, Mode, NamedIds, Overflow, Project, Refusal, Request, SessionKey,
};
use memory_prefetch::environment::sha256;
use memory_prefetch::operator::{MemoryEdit, NewMemory, NewSession, Operator};
use memory_prefetch::store::{Memories, StoreFailure};
use memory_prefetch::{CallError, Prefetch, Runtime, SqliteOptions, SqliteStore};
use serde::Serialize;

use super::app::App;
use super::failure::{Exit, Failure};
use super::shapes::{omission_lines, size};
use super::terminal::{Output, count, escaped, names, visible_json};

/// Tell the whole story on a throw-away store: delegate, edit, restart, deliver, and compare
///
/// Nothing of yours is read or changed. Exit code 5 if anything is not as it should be.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  memory-prefetch demo")]
pub struct Args {}

/// What the story is about.
const OLD: &str = "The login form never autofills: the password manager of a large customer breaks on it.\n";
const NEW: &str = "The login form autofills the user name again since the new release.\n";
const TOTALS: &str = "Totals are in cents, never in floats; 固定小数 🧮.";
const NOTE: &str = "Rates are rounded half to even.";
const ROOM: u32 = 2000;
const TASK: &str = "Review the login form of the checkout.";

/// Run it.
pub fn run(_: Args, app: &App) -> Result<(), Failure> {
    let dir = tempfile::tempdir()
        .map_err(|error| StoreFailure::Other(format!("there is no place for a throw-away store: {error}")))?;
    let file = dir.path().join("store.sqlite");
    let mut story = Story { out: app.out, chapter: 0, checks: Vec::new() };
    let runtime = app.runtime()?;
    let lead = key("lead");
    let child = key("review-1");

    story.chapter("Agents, sessions and memories.")?;
    let mut prefetch = open(&runtime, &file)?;
    seed(prefetch.store(), app)?;
    story.say(&[
        "The agent planner works in the session lead, and reviewer in the session review-1, whose parent is lead.",
        "planner has the memories 11 and 55 in the project checkout.",
    ])?;

    story.chapter("lead delegates a task, and names what its child needs: 11, 55, and 99, which does not exist.")?;
    let request = request(&["11", "55", "99"], ROOM);
    let DelegationOutcome::HandedOver(Delegated { memory, receipt: Some(receipt), .. }) =
        prefetch.delegate(&lead, &request)?
    else {
        return Err(broken("the delegation was not handed over"));
    };
    let line = prefetch.encode(&Delegation { task: request.task.clone(), memory })?;
    story.say(&["The delegation, as it is passed on:", ""])?;
    story.quote(&visible_json(&line))?;
    let frozen: Vec<String> =
        receipt.items.iter().map(|item| format!("{} ({} bytes)", item.id, item.size.bytes)).collect();
    story.say(&[
        "",
        &format!("Frozen: {}. Unavailable: {}.", frozen.join(", "), names(&receipt.unavailable)),
        &format!("The block takes {}; the child has room for {ROOM}.", size(receipt.size)),
    ])?;
    let digests: Vec<&str> = receipt.items.iter().map(|item| item.sha256.as_str()).collect();
    let bodies = [sha256(OLD.as_bytes()), sha256(TOTALS.as_bytes())];
    story.check("the receipt has the SHA-256 of both original texts", digests == bodies)?;

    story.chapter("Memory 11 is edited, and everything is restarted, before the child has even begun.")?;
    let edit = MemoryEdit { body: Some(NEW.into()), ..MemoryEdit::default() };
    prefetch.store().edit_memory("11", &edit, app.now())?;
    drop(prefetch);
    let mut prefetch = open(&runtime, &file)?;
    let now = row(prefetch.store(), "11")?;
    story.check("the store has the new text of 11", now.body.as_deref() == Some(NEW))?;

    story.chapter("The child asks what its parent handed over. This is in its context before its first token:")?;
    let claim = Claim::ParentSession(Hints { task: Some(TASK.into()), agent_type: None, registers_all: true });
    let first = prefetch.deliver(&child, "start", &claim)?;
    let block = first.block.clone().ok_or_else(|| broken("there is no block"))?;
    story.say(&[""])?;
    story.quote(block.text.trim_end())?;
    story.say(&[""])?;
    story.check("it was delivered", first.outcome == DeliveryOutcome::Delivered)?;
    let has = |body: &str| block.text.contains(&format!("\n{body}\n"));
    story.check("the texts are those that were frozen, byte for byte", has(OLD) && has(TOTALS) && !has(NEW))?;
    let items = first.receipt.as_ref().map(|receipt| (&receipt.items, &receipt.unavailable));
    story.check(
        "the child's receipt lists the same memories as its parent's",
        items == Some((&receipt.items, &receipt.unavailable)),
    )?;
    story.check("the child is told that 99 is unavailable", block.text.contains("not delivered: \"99\""))?;

    story.chapter("Its context is compacted, or its process restarted: the child asks again.")?;
    drop(prefetch);
    let mut prefetch = open(&runtime, &file)?;
    let again = prefetch.deliver(&child, "start", &claim)?;
    story.check("it is the same answer, and says that it is", again.replayed && !first.replayed)?;
    let bytes = block.text.len();
    story.check(&format!("all {bytes} bytes are the same"), again.block.as_ref() == Some(&block))?;
    story.check("`replay`, which only reads, gives them too", prefetch.replay(&child)? == [block])?;

    story.chapter("A child with little room: 60 tokens. (11 has its new text by now.)")?;
    let outcome = prefetch.delegate(&lead, &self::request(&["11", "55"], 60))?;
    let refused = match outcome {
        DelegationOutcome::Refused(Refusal::OverCapacity(shortfall)) => Some(shortfall),
        _ => None,
    };
    if let Some(shortfall) = &refused {
        let (needed, budget) = (shortfall.needed, shortfall.budget);
        story.say(&[&format!("Refused: the block takes {needed} tokens, and {budget} are allowed.")])?;
        for line in omission_lines(&shortfall.sizes) {
            story.say(&[&format!("  {line}")])?;
        }
    }
    let sized = refused.is_some_and(|shortfall| shortfall.sizes.len() == 2 && shortfall.needed > shortfall.budget);
    story.check("nothing is cut off in silence: every memory is named with its size", sized)?;

    story.chapter("Links: archivist has a memory of its own, note-1.")?;
    let before = row(prefetch.store(), "note-1")?;
    let closed = prefetch.get(&child, &["note-1".into()])?;
    story.check("reviewer cannot read it", closed.memories.is_empty() && closed.unavailable == ["note-1"])?;
    let missing = prefetch.get(&child, &["note-2".into()])?;
    let alike = missing.memories.is_empty() && missing.unavailable == ["note-2"];
    story.check("nor learn that it is there: note-2, which is missing, is unavailable alike", alike)?;
    let link = Link {
        from_agent: "reviewer".into(),
        to_agent: "archivist".into(),
        direction: Direction::OneWay,
        kind: "peer".into(),
        attributes: Vec::new(),
    };
    prefetch.store().add_link(&link)?;
    story.say(&["A one-way link from reviewer to archivist is added."])?;
    let opened = prefetch.get(&child, &["note-1".into()])?;
    let bodies: Vec<&str> = opened.memories.iter().map(|view| view.body.as_str()).collect();
    story.check("reviewer can read note-1 by its id", bodies == [NOTE])?;
    let found = prefetch.recall(&child, Some("archivist"), "How are rates rounded?", 5)?;
    let bodies: Vec<&str> = found.iter().map(|view| view.body.as_str()).collect();
    story.check("and find it: recall, \"How are rates rounded?\"", bodies == [NOTE])?;
    let back = prefetch.recall(&key("archive-1"), Some("reviewer"), "Ask", 5);
    let told = matches!(back, Err(CallError::Policy(Error::WrongDirection)));
    story.check("archivist cannot recall from reviewer, and is told that the link runs the other way", told)?;
    let back = prefetch.get(&key("archive-1"), &["review-note".into()])?;
    story.check("nor read it by its id", back.memories.is_empty())?;
    let unused = prefetch.store().memory_use("note-1")?;
    story.check(
        "reading changed nothing of note-1",
        row(prefetch.store(), "note-1")? == before && unused == Some((0, None)),
    )?;

    story.chapter("Memory 55 is erased, everywhere.")?;
    let erased = prefetch.forget(&["55".into()])?;
    story.check("the memory is gone, also from the snapshot", erased.memories == ["55"] && erased.snapshots == 1)?;
    let after = prefetch.replay(&child)?;
    let text = after.first().map(|block| block.text.clone()).unwrap_or_default();
    story.check("the child reads [erased] in its place", text.contains("\n[erased]\n") && !text.contains(TOTALS))?;
    story.check("memory 11 is there as it was frozen", text.contains(&format!("\n{OLD}\n")))?;
    drop(prefetch);
    let bytes: Vec<u8> = files(dir.path())?;
    let left = bytes.windows("固定小数".len()).any(|window| window == "固定小数".as_bytes());
    story.check("none of its words is left in the store's files", !left)?;

    story.end()
}

/// Every byte of every file of the store.
fn files(dir: &Path) -> Result<Vec<u8>, Failure> {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for entry in std::fs::read_dir(dir)? {
            bytes.extend(std::fs::read(entry?.path())?);
        }
        Ok(bytes)
    };
    read().map_err(|error| StoreFailure::Other(format!("the store's files cannot be read: {error}")).into())
}

fn key(id: &str) -> SessionKey {
    SessionKey { harness: super::values::LOCAL.into(), id: id.into() }
}

fn open(runtime: &Runtime, file: &Path) -> Result<Prefetch<SqliteStore>, Failure> {
    let options = SqliteOptions { busy_timeout: Duration::from_secs(5), create: true };
    Ok(runtime.open(SqliteStore::open(file, &options)?)?)
}

fn seed(store: &mut SqliteStore, app: &App) -> Result<(), Failure> {
    let project = Project {
        id: "checkout".into(),
        workspace: Some("shop".into()),
        memory_on: true,
        trusted: true,
        attributes: Vec::new(),
    };
    store.put_project(&project)?;
    for (agent, session, parent) in
        [("planner", "lead", None), ("reviewer", "review-1", Some("lead")), ("archivist", "archive-1", None)]
    {
        store.add_agent(agent)?;
        store.put_session(&NewSession {
            key: key(session),
            agent: Some(agent.into()),
            project: Some(project.id.clone()),
            parent: parent.map(key),
            memory_on: true,
        })?;
    }
    for (owner, id, category, body) in [
        ("planner", "11", "decision", OLD),
        ("planner", "55", "convention", TOTALS),
        ("archivist", "note-1", "", NOTE),
        ("reviewer", "review-note", "", "Ask twice."),
    ] {
        let memory = NewMemory {
            id: Some(id.into()),
            category: category.into(),
            ..NewMemory::new(owner, project.id.clone(), body)
        };
        store.add_memory(&memory, app.now())?;
    }
    Ok(())
}

fn request(ids: &[&str], tokens: u32) -> Request {
    let ids = ids.iter().map(|id| (*id).to_owned()).collect();
    Request {
        memory: Some(MemoryField::PrefetchIds(NamedIds { ids, mode: Mode::Frozen })),
        capacity: Some(Capacity { budget: Budget::Tokens(tokens), model: None, overflow: Overflow::Refuse }),
        ..Request::new(TASK)
    }
}

/// The whole row, to be compared.
fn row(store: &mut SqliteStore, id: &str) -> Result<Memory, Failure> {
    let found = store.memories(&[id.to_owned()], u32::MAX)?.pop().flatten();
    found.ok_or_else(|| broken(&format!("the memory {id} is lost")))
}

fn broken(why: &str) -> Failure {
    Failure::new(Exit::Component, "demo", why)
}

/// Tells it, and counts what holds.
struct Story {
    out: Output,
    chapter: u32,
    checks: Vec<Check>,
}

#[derive(Serialize)]
struct Check {
    what: String,
    ok: bool,
}

#[derive(Serialize)]
struct Shape<'a> {
    checks: &'a [Check],
}

impl Story {
    fn chapter(&mut self, title: &str) -> Result<(), Failure> {
        self.chapter += 1;
        let blank = if self.chapter == 1 { "" } else { "\n" };
        self.text(&format!("{blank}{}. {title}\n", self.chapter))
    }

    fn say(&self, lines: &[&str]) -> Result<(), Failure> {
        lines.iter().try_for_each(|line| self.text(&format!("   {}\n", escaped(line)).replace("   \n", "\n")))
    }

    fn quote(&self, text: &str) -> Result<(), Failure> {
        text.lines().try_for_each(|line| self.text(&format!("   | {}\n", escaped(line))))
    }

    fn check(&mut self, what: &str, ok: bool) -> Result<(), Failure> {
        self.checks.push(Check { what: what.to_owned(), ok });
        self.text(&format!("   {} {what}\n", if ok { "[ok]" } else { "[WRONG]" }))
    }

    fn text(&self, text: &str) -> Result<(), Failure> {
        if self.out.json { Ok(()) } else { self.out.text(text) }
    }

    fn end(self) -> Result<(), Failure> {
        let wrong = self.checks.iter().filter(|check| !check.ok).count();
        if self.out.json {
            self.out.object(&Shape { checks: &self.checks })?;
        }
        if wrong > 0 {
            return Err(broken(&format!("{} did not hold", count(wrong, "comparison", "comparisons"))));
        }
        let held = self.checks.len();
        self.text(&format!("\nAll {held} comparisons hold. The throw-away store is gone.\n"))
    }
}
