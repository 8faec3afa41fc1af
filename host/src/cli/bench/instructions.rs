//! What callgrind counts, once each: `cargo xtask instructions` runs this under it. It counts inside of the functions
//! `measured_…` only, so they must not be inlined, and their names are what it looks for.

use memory_prefetch::contract::{Block, Claim, SessionKey, View};
use memory_prefetch::{CallError, Prefetch, SqliteStore};

use super::super::app::App;
use super::super::failure::Failure;
use super::fixture::{self, PARENT, child, key};
use super::rows::{delegate, deliver, directory, filled, runtime};

/// What is not done for the first time: statements are prepared, memory is there.
const WARM_UP: usize = 3;

/// Do each once.
pub fn run(app: &App) -> Result<(), Failure> {
    let dir = directory()?;
    let (ids, store) = filled(&dir.path().join("store.sqlite"), WARM_UP + 1, false)?;
    let mut prefetch = runtime(app)?.open(store)?;
    for number in 0..WARM_UP {
        let name = delegate(&mut prefetch, &format!("task {number}"), &ids)?;
        deliver(&mut prefetch, &child(number), Claim::SnapshotRef(name))?;
        prefetch.replay(&child(number))?;
        prefetch.recall(&key(PARENT), None, QUERY, LIMIT)?;
    }
    // Each by a session that has called nothing just before: an instance is made too, as in a harness.
    let me = child(WARM_UP);
    let name = measured_delegate(&mut prefetch, "task", &ids)?;
    measured_deliver(&mut prefetch, &me, Claim::SnapshotRef(name))?;
    measured_recall(&mut prefetch)?;
    prefetch.replay(&me)?;
    // But for this one, which a child does before each of its requests.
    measured_replay(&mut prefetch, &me)?;
    Ok(())
}

/// How many results.
const LIMIT: u32 = fixture::MEMORIES as u32;

const QUERY: &str = "cart tax";

#[inline(never)]
fn measured_delegate(prefetch: &mut Prefetch<SqliteStore>, task: &str, ids: &[String]) -> Result<String, Failure> {
    delegate(prefetch, task, ids)
}

#[inline(never)]
fn measured_deliver(prefetch: &mut Prefetch<SqliteStore>, child: &SessionKey, claim: Claim) -> Result<String, Failure> {
    deliver(prefetch, child, claim)
}

#[inline(never)]
fn measured_replay(prefetch: &mut Prefetch<SqliteStore>, child: &SessionKey) -> Result<Vec<Block>, CallError> {
    prefetch.replay(child)
}

#[inline(never)]
fn measured_recall(prefetch: &mut Prefetch<SqliteStore>) -> Result<Vec<View>, CallError> {
    prefetch.recall(&key(PARENT), None, QUERY, LIMIT)
}
