//! Memories of other programs, read where they are: nothing is copied, and no byte of theirs is changed. Each is a
//! [`Memories`](crate::store::Memories) for `Prefetch::with_memories`; delegations and snapshots stay in our own file.
//! What each program's columns mean is said here, and who may see a memory is decided where it always is.

mod magic_context;
mod read_only;
mod spacebot;

use std::cmp::Reverse;
use std::time::Duration;

pub use magic_context::MagicContext;
pub use spacebot::Spacebot;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};

use crate::allowance::Allowance;
use crate::contract::*;
use crate::environment::sha256;
use crate::search::{Query, admits};
use crate::store::{Memories, Rows, StoreFailure};

/// How a source is read.
#[derive(Debug, Clone)]
pub struct Options {
    /// How long to wait for the source's own program before answering `Busy`. At most 24 days.
    pub busy_timeout: Duration,
    /// Whether the user trusts what is in it (R9): the `trusted` of each of its memories.
    pub trusted: bool,
}

impl Default for Options {
    /// Five seconds, and trusted.
    fn default() -> Self {
        Options { busy_timeout: Duration::from_secs(5), trusted: true }
    }
}

/// A source that cannot be opened. What was frozen, and what names no memory, goes on without it; whatever reads a memory
/// answers with the failure.
#[derive(Debug, Clone)]
pub struct Unreachable(pub StoreFailure);

impl Memories for Unreachable {
    fn memories(&mut self, ids: &[String], _: u32) -> Rows<Vec<Option<Memory>>> {
        if ids.is_empty() { Ok(Vec::new()) } else { Err(self.0.clone()) }
    }

    fn search(&mut self, _: &SearchFilter, _: &str, _: u32, _: u32) -> Rows<Vec<Memory>> {
        Err(self.0.clone())
    }

    fn record_access(&mut self, _: &[String], _: Instant) -> Rows<()> {
        Ok(())
    }

    fn erase(&mut self, _: &[String]) -> Rows<Vec<String>> {
        Ok(Vec::new())
    }
}

/// The columns of a table, or `None` if there is no such table. Views and virtual tables are none of ours: they may call
/// what only their own program has.
fn columns(connection: &Connection, table: &str) -> Rows<Option<Vec<String>>> {
    let mut find = connection.prepare(
        "SELECT 1 FROM sqlite_schema
          WHERE type = 'table' AND lower(name) = ?1 AND upper(ltrim(sql)) NOT LIKE 'CREATE VIRTUAL%'",
    )?;
    if !find.exists([table])? {
        return Ok(None);
    }
    let mut list = connection.prepare("SELECT lower(name) FROM pragma_table_xinfo(?1)")?;
    let names = list.query_map([table], |row| row.get(0))?;
    Ok(Some(names.collect::<rusqlite::Result<_>>()?))
}

fn has(columns: &[String], name: &str) -> bool {
    columns.iter().any(|column| column == name)
}

/// `name` where the table has it, else NULL.
fn column_or_null(columns: &[String], name: &'static str) -> &'static str {
    if has(columns, name) { name } else { "NULL" }
}

/// A source whose table or column this program cannot do without is not there.
fn lacks(path: &std::path::Path, what: &str) -> StoreFailure {
    StoreFailure::Damaged(format!(
        "{} has no {what}: it is not what it was said to be, or too old or too new",
        path.display()
    ))
}

/// A text of another program's column; `None` if it is of another type, or not UTF-8.
fn text<'a>(row: &'a Row, index: usize) -> rusqlite::Result<Option<&'a str>> {
    Ok(match row.get_ref(index)? {
        ValueRef::Text(bytes) => std::str::from_utf8(bytes).ok(),
        _ => None,
    })
}

/// As [`text`], and an empty one is none.
fn name(row: &Row, index: usize) -> rusqlite::Result<Option<String>> {
    Ok(text(row, index)?.filter(|text| !text.is_empty()).map(String::from))
}

fn integer(row: &Row, index: usize) -> rusqlite::Result<Option<i64>> {
    Ok(match row.get_ref(index)? {
        ValueRef::Integer(number) => Some(number),
        _ => None,
    })
}

/// The row with what depends on its body, and the body if the allowance admits it.
///
/// Its version is of the body alone: the time of the update is renewed for counts as well.
fn with_body(mut memory: Memory, body: &str, allowance: &mut Allowance) -> Option<Memory> {
    memory.bytes = u32::try_from(body.len()).ok()?;
    memory.version = sha256(body.as_bytes());
    memory.version.truncate(16);
    memory.body = allowance.admits(body.len()).then(|| body.to_owned());
    Some(memory)
}

/// The rows that a search found so far, without their bodies.
struct Hits<'a> {
    filter: &'a SearchFilter,
    query: Query,
    /// Score, time and id.
    found: Vec<(u32, Option<Instant>, String)>,
}

impl<'a> Hits<'a> {
    fn new(filter: &'a SearchFilter, query: &str) -> Hits<'a> {
        Hits { filter, query: Query::parse(query), found: Vec::new() }
    }

    fn consider(&mut self, row: &Memory, body: &str) {
        if !admits(self.filter, row) {
            return;
        }
        let score = self.query.score(body);
        if score > 0 {
            self.found.push((score, row.updated_at, row.id.clone()));
        }
    }

    /// Best first, then the youngest.
    fn best(mut self, limit: u32) -> Vec<String> {
        self.found.sort_by(|a, b| (Reverse(a.0), Reverse(a.1), &a.2).cmp(&(Reverse(b.0), Reverse(b.1), &b.2)));
        self.found.into_iter().take(limit as usize).map(|(.., id)| id).collect()
    }
}
