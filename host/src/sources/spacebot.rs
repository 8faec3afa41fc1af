//! The memories of spacebot: one SQLite file per agent, `data/spacebot.db` in the agent's directory. The directories of
//! an instance's agents are in its directory `agents`. All of an instance is one project, the one that `project id` says
//! of the directory that was named; a memory is its agent's own, and links are those of the user's directory.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row};

use crate::allowance::Allowance;
use crate::contract::*;
use crate::project_identity::project_identity;
use crate::store::{Memories, Rows, StoreFailure};

use super::read_only::{ReadOnly, SchemaVersion};
use super::{Hits, Options, column_or_null, columns, has, integer, lacks, name, text, with_body};

/// The memories of the agents of one spacebot instance, or of one of them, read only.
///
/// Ids are its own. An id that two agents have is nobody's: it cannot be said whose memory is meant.
pub struct Spacebot {
    place: Agents,
    /// The project of all its memories.
    project: String,
    options: Options,
    agents: BTreeMap<String, Agent>,
    /// Whether a unit of work is open.
    unit: bool,
    /// Whether it has looked which agents there are.
    listed: bool,
}

/// Where the agents are.
enum Agents {
    /// Each directory in this one is an agent's.
    In(PathBuf),
    /// This directory is one agent's.
    One(PathBuf),
}

/// One agent's file.
struct Agent {
    file: ReadOnly,
    schema: Option<Schema>,
    /// Whether the open unit of work reads from it.
    begun: bool,
}

struct Schema {
    version: SchemaVersion,
    /// What is read of `memories`: expressions, in the order that [`read`] takes them.
    memory: String,
}

impl Spacebot {
    /// Open an instance's directory, its directory `agents`, or the directory of one agent.
    ///
    /// `Absent`: it is none of these. `Damaged`, `Busy`: a file in it, as for `MagicContext`. `Other`: its project's
    /// identity cannot be said.
    pub fn open(directory: impl AsRef<Path>, options: &Options) -> Rows<Spacebot> {
        let directory = std::path::absolute(directory).map_err(|error| StoreFailure::Absent(error.to_string()))?;
        let shown = directory.display();
        if !directory.is_dir() {
            return Err(StoreFailure::Absent(format!("there is no directory {shown}")));
        }
        let place = if directory.join("agents").is_dir() {
            Agents::In(directory.join("agents"))
        } else if file_of(&directory).is_file() {
            Agents::One(directory.clone())
        } else {
            Agents::In(directory.clone())
        };
        let project = project_identity(&directory).map_err(|error| StoreFailure::Other(error.to_string()))?;
        let mut source =
            Spacebot { place, project, options: options.clone(), agents: BTreeMap::new(), unit: false, listed: false };
        source.begin()?;
        let found = source.files();
        source.end();
        if found? == 0 {
            return Err(StoreFailure::Absent(format!(
                "there is no agent's database below {shown}: name the directory of an instance, which has agents/, or of \
                 one agent, which has data/spacebot.db"
            )));
        }
        Ok(source)
    }

    /// How many agents have a file, each of them opened.
    fn files(&mut self) -> Rows<usize> {
        let mut found = 0;
        for name in self.names()? {
            match self.agent(&name, |_, _| Ok(())) {
                Ok(()) => found += 1,
                Err(StoreFailure::Absent(_)) => {}
                Err(failure) => return Err(failure),
            }
        }
        Ok(found)
    }

    /// Read from one agent's file. `Absent`: there is no such agent, or it has no file.
    fn agent<T>(&mut self, name: &str, read: impl FnOnce(&Connection, &Schema) -> Rows<T>) -> Rows<T> {
        self.names()?;
        let agent = self
            .agents
            .get_mut(name)
            .ok_or_else(|| StoreFailure::Absent(format!("there is no agent {} in it", name.escape_debug())))?;
        agent.begin()?;
        let schema = agent.schema.as_ref().ok_or_else(|| StoreFailure::Other("its schema is not known".into()))?;
        agent.file.read(|connection| read(connection, schema))
    }

    /// The agents, as the unit first found them. A unit that reads nothing does not look.
    fn names(&mut self) -> Rows<Vec<String>> {
        if !self.unit {
            return Err(StoreFailure::Other("no unit of work is open".into()));
        }
        if !self.listed {
            let mut kept = std::mem::take(&mut self.agents);
            for (name, directory) in self.list()? {
                let agent = kept.remove(&name).unwrap_or_else(|| Agent::new(&directory, self.options.busy_timeout));
                self.agents.insert(name, agent);
            }
            self.listed = true;
        }
        Ok(self.agents.keys().cloned().collect())
    }

    /// The agents whose directories are there now.
    fn list(&self) -> Rows<Vec<(String, PathBuf)>> {
        let named = |path: PathBuf| Some((path.file_name()?.to_str()?.to_owned(), path));
        match &self.place {
            Agents::One(path) => Ok(named(path.clone()).into_iter().collect()),
            Agents::In(path) => {
                let unreadable =
                    |error: std::io::Error| StoreFailure::Absent(format!("{} cannot be read: {error}", path.display()));
                let mut found = Vec::new();
                for entry in fs::read_dir(path).map_err(unreadable)? {
                    let path = entry.map_err(unreadable)?.path();
                    if path.is_dir() {
                        found.extend(named(path));
                    }
                }
                Ok(found)
            }
        }
    }
}

impl Agent {
    fn new(directory: &Path, busy_timeout: Duration) -> Agent {
        Agent { file: ReadOnly::new(file_of(directory), busy_timeout), schema: None, begun: false }
    }

    /// Each file is seen at one point in time, from the first time that the unit reads from it.
    fn begin(&mut self) -> Rows<()> {
        if self.begun {
            return Ok(());
        }
        let version = self.file.begin()?;
        if self.schema.as_ref().is_none_or(|schema| schema.version != version) {
            let path = self.file.path().to_owned();
            let found = self.file.read(|connection| find_schema(connection, version, &path));
            self.schema = Some(found.inspect_err(|_| self.file.end())?);
        }
        self.begun = true;
        Ok(())
    }

    fn end(&mut self) {
        self.file.end();
        self.begun = false;
    }
}

fn file_of(directory: &Path) -> PathBuf {
    directory.join("data").join("spacebot.db")
}

fn find_schema(connection: &Connection, version: SchemaVersion, path: &Path) -> Rows<Schema> {
    let there = columns(connection, "memories")?.ok_or_else(|| lacks(path, "table memories"))?;
    for needed in ["id", "content", "forgotten"] {
        if !has(&there, needed) {
            return Err(lacks(path, &format!("column memories.{needed}")));
        }
    }
    let memory = [
        "id",
        column_or_null(&there, "memory_type"),
        column_or_null(&there, "importance"),
        column_or_null(&there, "updated_at"),
        "forgotten",
        "content",
    ];
    Ok(Schema { version, memory: memory.join(", ") })
}

/// The row and its text, in the order of [`Schema::memory`]; `None` for one that cannot be read.
fn read<'a>(row: &'a Row, agent: &str, project: &str, trusted: bool) -> rusqlite::Result<Option<(Memory, &'a str)>> {
    let (Some(id), Some(body)) = (name(row, 0)?, text(row, 5)?) else { return Ok(None) };
    let importance = match row.get_ref(2)? {
        ValueRef::Real(importance) => importance,
        ValueRef::Integer(importance) => importance as f64,
        _ => 0.0,
    };
    let memory = Memory {
        id,
        owner: Some(agent.to_owned()),
        project: Some(project.to_owned()),
        audience: Audience::Agent,
        active: integer(row, 4)? == Some(0),
        expires_at: None,
        trusted,
        category: text(row, 1)?.unwrap_or_default().to_owned(),
        // From 0 to 1 there, and never out of range here.
        priority: (importance * 1_000.0).round().clamp(0.0, 1_000.0) as u32,
        version: String::new(),
        updated_at: instant(row, 3)?,
        bytes: 0,
        body: None,
        attributes: Vec::new(),
    };
    Ok(Some((memory, body)))
}

/// A time as spacebot writes it, with an offset, or as its schema's own default does, without one and in UTC; or in
/// seconds or milliseconds since 1970. `None`: it cannot be read.
fn instant(row: &Row, index: usize) -> rusqlite::Result<Option<Instant>> {
    /// In milliseconds 1973, in seconds the year 5138.
    const SECONDS_BEFORE: i64 = 100_000_000_000;
    let milliseconds = match row.get_ref(index)? {
        ValueRef::Integer(number) if number < SECONDS_BEFORE => number.checked_mul(1_000),
        ValueRef::Integer(number) => Some(number),
        ValueRef::Text(bytes) => std::str::from_utf8(bytes).ok().and_then(|text| {
            let in_utc = || TimeZone::UTC.to_timestamp(text.parse::<DateTime>().ok()?).ok();
            text.parse::<Timestamp>().ok().or_else(in_utc).map(Timestamp::as_millisecond)
        }),
        _ => None,
    };
    Ok(milliseconds.and_then(|at| Instant::try_from(at).ok()))
}

impl Memories for Spacebot {
    fn begin(&mut self) -> Rows<()> {
        self.end();
        self.unit = true;
        Ok(())
    }

    fn end(&mut self) {
        self.unit = false;
        self.listed = false;
        self.agents.values_mut().for_each(Agent::end);
    }

    fn memories(&mut self, ids: &[String], max_bytes: u32) -> Rows<Vec<Option<Memory>>> {
        let mut found: Vec<Vec<(Memory, String)>> = ids.iter().map(|_| Vec::new()).collect();
        let (project, trusted) = (self.project.clone(), self.options.trusted);
        for name in self.names()? {
            let looked = self.agent(&name, |connection, schema| {
                // By the bytes of the id, whatever the column's own collation is (R2).
                let sql = format!("SELECT {} FROM memories WHERE id = ?1 COLLATE BINARY", schema.memory);
                let mut statement = connection.prepare_cached(&sql)?;
                for (id, rows) in ids.iter().zip(&mut found) {
                    let row = statement.query_row([id], |row| {
                        Ok(read(row, &name, &project, trusted)?.map(|(memory, body)| (memory, body.to_owned())))
                    });
                    rows.extend(row.optional()?.flatten().filter(|(memory, _)| memory.id == *id));
                }
                Ok(())
            });
            match looked {
                // An agent without a file has no memories.
                Ok(()) | Err(StoreFailure::Absent(_)) => {}
                Err(failure) => return Err(failure),
            }
        }
        let mut allowance = Allowance::of(max_bytes);
        let only = |mut rows: Vec<(Memory, String)>| if rows.len() == 1 { rows.pop() } else { None };
        let rows = found
            .into_iter()
            .map(|rows| only(rows).and_then(|(memory, body)| with_body(memory, &body, &mut allowance)));
        Ok(rows.collect())
    }

    fn search(&mut self, filter: &SearchFilter, query: &str, limit: u32, max_bytes: u32) -> Rows<Vec<Memory>> {
        let (project, trusted) = (self.project.clone(), self.options.trusted);
        // Nobody else shares with the owner: every memory here is its agent's own.
        let best = self.agent(&filter.owner, |connection, schema| {
            let mut statement = connection.prepare_cached(&format!("SELECT {} FROM memories", schema.memory))?;
            let mut rows = statement.query([])?;
            let mut hits = Hits::new(filter, query);
            while let Some(row) = rows.next()? {
                if let Some((memory, body)) = read(row, &filter.owner, &project, trusted)? {
                    hits.consider(&memory, body);
                }
            }
            Ok(hits.best(limit))
        })?;
        Ok(self.memories(&best, max_bytes)?.into_iter().flatten().collect())
    }

    fn record_access(&mut self, _: &[String], _: Instant) -> Rows<()> {
        Ok(())
    }

    fn erase(&mut self, _: &[String]) -> Rows<Vec<String>> {
        Ok(Vec::new())
    }
}
