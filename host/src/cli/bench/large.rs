//! A large store, made by multiplying a small one inside of SQLite.

use std::path::Path;

use memory_prefetch::contract::Claim;
use memory_prefetch::{Runtime, SqliteOptions, SqliteStore};
use rusqlite::{Connection, params};

use super::super::failure::Failure;
use super::fixture::{self, child};
use super::rows::{delegate, deliver, sqlite};

/// How many rows.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    pub memories: u32,
    pub snapshots: u32,
}

/// Memories are added in so many at a time.
const CHUNK: u32 = 50_000;

/// Makes the store at `path`, whole or not at all: the memories of `fixture` among others of 100 bytes, and snapshots of two
/// memories, each delegated and delivered, of a hundred other parents for each ten thousand.
pub fn make(runtime: &Runtime, path: &Path, size: Size, tell: impl Fn(&str)) -> Result<(), Failure> {
    let unfinished = path.with_extension("unfinished");
    for file in [unfinished.clone(), unfinished.with_extension("unfinished-wal")] {
        let _ = std::fs::remove_file(file);
    }
    let mut store = SqliteStore::open(&unfinished, &SqliteOptions::default())?.without_sync();
    let ids = fixture::fill(&mut store, 1)?;
    let mut prefetch = runtime.open(store)?;
    let name = delegate(&mut prefetch, "template", &ids[..2])?;
    deliver(&mut prefetch, &child(0), Claim::SnapshotRef(name))?;
    drop(prefetch);

    let connection = Connection::open(&unfinished).map_err(sqlite)?;
    let filled = fill(&connection, size, tell).map_err(sqlite);
    drop(connection);
    filled?;
    std::fs::rename(&unfinished, path)
        .map_err(|error| super::rows::broken(&format!("{} cannot be made: {error}", path.display())))
}

fn fill(connection: &Connection, size: Size, tell: impl Fn(&str)) -> rusqlite::Result<()> {
    connection.execute_batch("PRAGMA synchronous = OFF; PRAGMA cache_size = -200000")?;
    for from in (0..size.memories).step_by(CHUNK as usize) {
        let to = size.memories.min(from + CHUNK);
        connection.execute(
            "WITH RECURSIVE n (i) AS (SELECT ?1 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?2)
             INSERT INTO memories (trusted, priority, created_at, updated_at, memory_id, audience, owner, project, category, body)
             SELECT 1, 0, 0, 0, 'other-' || i, 'agent', 'planner', 'checkout', 'decision',
                    printf('w%d keeps w%d in the order of w%d, since w%d and w%d asked for w%d in w%d; see note w%d',
                           i % 9973, i % 8999, i % 7919, i % 6997, i % 5987, i % 4999, i % 3989, i) FROM n",
            params![from, to],
        )?;
        tell(&format!("  {to} of {} memories", size.memories));
    }
    tell(&format!("  {} snapshots", size.snapshots));
    let numbers = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)";
    // Ids go on where the template's are.
    for rows in [
        "INSERT INTO snapshots (id, created_at, expires_at, keep_until, pages, snapshot_ref, owner_harness, owner_session, state)
         SELECT t.id + i, t.created_at, t.expires_at, t.keep_until, t.pages, printf('snap_%039d', i), t.owner_harness,
                'other-' || (i % 1000), t.state FROM n, (SELECT * FROM snapshots WHERE id = 1) AS t",
        "INSERT INTO snapshot_memories (snapshot, position, memory_id)
         SELECT t.snapshot + i, t.position, 'other-' || (i * 7 + t.position) FROM n, (SELECT * FROM snapshot_memories WHERE snapshot = 1) AS t",
        "INSERT INTO pages (snapshot, number, checksum, state, text)
         SELECT t.snapshot + i, t.number, t.checksum, t.state, t.text FROM n, (SELECT * FROM pages WHERE snapshot = 1) AS t",
        "INSERT INTO hand_overs (id, snapshot, children, created_at, expires_at, keep_until, parent_harness, parent_session,
                                 hand_over, ids_key, task_digest, task_head, state, task)
         SELECT t.id + i, t.snapshot + i, t.children, t.created_at, t.expires_at, t.keep_until, t.parent_harness,
                'other-' || (i % 1000), printf('hand_%039d', i), t.ids_key || i, printf('%064d', i), t.task_head, t.state,
                t.task FROM n, (SELECT * FROM hand_overs WHERE id = 1) AS t",
        "INSERT INTO deliveries (id, snapshot, hand_over, place, at, keep_until, child_harness, child_session, occasion, state)
         SELECT t.id + i, t.snapshot + i, t.hand_over + i, t.place, t.at, t.keep_until, t.child_harness,
                'other-child-' || i, t.occasion, t.state FROM n, (SELECT * FROM deliveries WHERE id = 1) AS t",
    ] {
        connection.execute(&format!("{numbers} {rows}"), [size.snapshots])?;
    }
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
}
