//! `audit list`.

use memory_prefetch::contract::{Instant, SessionKey};
use memory_prefetch::operator::{AuditFilter, Operator};
use memory_prefetch::store::AuditRow;
use serde::Serialize;
use serde_json::{Map, Value};

use super::app::{App, Missing};
use super::failure::Failure;
use super::terminal::{escaped, name, names, table};
use super::values::{self, rfc3339, session_name, shown};

/// What was decided, for whom and why
#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// List decisions, youngest first: delegated, delivered, refused, revoked, forgotten, swept, recalled across a link
    ///
    /// An entry says when, who called, what came of it and which snapshots and memories it was about. It never holds the
    /// text of a memory or of a task. UNDONE marks those whose call failed: what it had written was rolled back. With
    /// --json each entry also names the exported function, the digest of the component that decided, and reasons that
    /// no agent is told (why an id was unavailable, for instance).
    #[command(after_help = "Example:\n  memory-prefetch audit list --session lead --since 24h")]
    List {
        /// Only what this session asked for
        #[arg(long, value_name = "SESSION", value_parser = values::session)]
        session: Option<SessionKey>,
        /// Only from then on: RFC 3339, or how long ago (90m, 24h, 7d)
        #[arg(long, value_name = "TIME", value_parser = since)]
        since: Option<Since>,
        /// At most this many
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        limit: u32,
    },
}

/// A point in time, or how long it is ago.
#[derive(Debug, Clone, Copy)]
pub enum Since {
    At(Instant),
    Ago(u64),
}

fn since(text: &str) -> Result<Since, String> {
    let ago = |ago: std::time::Duration| Since::Ago(u64::try_from(ago.as_millis()).unwrap_or(u64::MAX));
    values::instant(text).map(Since::At).or_else(|_| {
        values::duration(text)
            .map(ago)
            .map_err(|_| "neither an instant (2026-01-01T00:00:00Z) nor how long ago (90m, 24h, 7d)".to_owned())
    })
}

#[derive(Serialize)]
struct Shape {
    at: String,
    /// Null: the operator.
    session: Option<String>,
    action: String,
    outcome: String,
    undone: bool,
    snapshot_refs: Vec<String>,
    memory_ids: Vec<String>,
    details: Map<String, Value>,
    export: String,
    component: String,
}

impl From<AuditRow> for Shape {
    fn from(row: AuditRow) -> Shape {
        // Some hold a JSON array of ids, others a plain text.
        let value = |text: String| serde_json::from_str::<Vec<String>>(&text).map_or(Value::String(text), Value::from);
        Shape {
            at: rfc3339(row.at),
            session: row.session.as_ref().map(session_name),
            action: row.entry.action,
            outcome: row.entry.outcome,
            undone: row.rolled_back,
            snapshot_refs: row.entry.snapshot_refs,
            memory_ids: row.entry.memory_ids,
            details: row.entry.attributes.into_iter().map(|(name, text)| (name, value(text))).collect(),
            export: row.export,
            component: row.component,
        }
    }
}

/// Run it.
pub fn run(verb: Verb, app: &App) -> Result<(), Failure> {
    let Verb::List { session, since, limit } = verb;
    let since = since.map(|since| match since {
        Since::At(at) => at,
        Since::Ago(ago) => app.now().saturating_sub(ago),
    });
    let mut rows = app.store(Missing::Refuse)?.all_audit(&AuditFilter { session, since }, limit.saturating_add(1))?;
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    if app.out.json {
        #[derive(Serialize)]
        struct List {
            entries: Vec<Shape>,
            more: bool,
        }
        return app.out.object(&List { entries: rows.into_iter().map(Shape::from).collect(), more });
    }
    if rows.is_empty() {
        return app.out.text("No entries.\n");
    }
    let cells: Vec<Vec<String>> = rows.iter().map(cells).collect();
    app.out.text(&table(&["TIME", "SESSION", "ACTION", "OUTCOME", "", "SNAPSHOTS", "MEMORIES", "DETAILS"], &cells))?;
    if more {
        app.out.note("there are more: raise --limit");
    }
    Ok(())
}

fn cells(row: &AuditRow) -> Vec<String> {
    let session = row.session.as_ref().map_or("operator".to_owned(), |key| name(&session_name(key)));
    let undone = if row.rolled_back { "UNDONE" } else { "" };
    let entry = &row.entry;
    let details: Vec<String> =
        entry.attributes.iter().map(|(name, value)| format!("{} {}", escaped(name), escaped(value))).collect();
    vec![
        shown(row.at),
        session,
        escaped(&entry.action),
        escaped(&entry.outcome),
        undone.to_owned(),
        some(&entry.snapshot_refs),
        some(&entry.memory_ids),
        details.join(", "),
    ]
}

/// A few of many names: a sweep may have a thousand.
fn some(all: &[String]) -> String {
    const SHOWN: usize = 4;
    match all.get(..SHOWN) {
        _ if all.is_empty() => "-".to_owned(),
        Some(first) if all.len() > SHOWN => format!("{} and {} more", names(first), all.len() - SHOWN),
        _ => names(all),
    }
}
