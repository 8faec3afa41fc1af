//! The figures of docs/performance.md: `cargo bench --bench figures`. Each is a ratio of two things that are measured
//! in the same run, turn by turn; medians, with the middle half's spread. `COMPONENT=PATH` measures another component.

use std::hint::black_box;
use std::time::{Duration, Instant as Clock};

use memory_prefetch::contract::*;
use memory_prefetch::operator::{NewMemory, NewSession, Operator};
use memory_prefetch::sqlite_store::{SqliteOptions, SqliteStore};
use memory_prefetch::store::{Access, Store, StoreFailure};
use memory_prefetch::{Prefetch, Runtime};
use rusqlite::Connection;
use rusqlite::config::DbConfig;

const ROUNDS: usize = 2_000;
const MEMORIES: usize = 20;

fn key(id: &str) -> SessionKey {
    SessionKey { harness: "bench".into(), id: id.into() }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("store.db");
    let mut store = SqliteStore::open(&path, &SqliteOptions::default())?;
    store.put_project(&Project {
        id: "p".into(),
        workspace: None,
        memory_on: true,
        trusted: true,
        attributes: vec![],
    })?;
    let parent = Some(key("parent"));
    for (id, parent) in [("parent", None), ("child", parent)] {
        let (agent, project) = (Some("a".into()), Some("p".into()));
        store.put_session(&NewSession { key: key(id), agent, project, parent, memory_on: true })?;
    }
    let mut ids = Vec::new();
    for number in 0..MEMORIES {
        let memory = NewMemory {
            id: Some(format!("m{number}")),
            owner: Some("a".into()),
            project: Some("p".into()),
            audience: Audience::Agent,
            category: "FACT".into(),
            priority: 0,
            trusted: true,
            expires_at: None,
            body: format!("{number}: {}", "The cart keeps its lines in the order of adding. ".repeat(20)),
        };
        ids.push(store.add_memory(&memory, 0)?);
    }

    let cold = Clock::now();
    let builder = match std::env::var_os("COMPONENT") {
        Some(path) => Runtime::builder().component_file(path),
        None => Runtime::builder(),
    };
    let runtime = builder.build()?;
    let compile = cold.elapsed();
    let cache = dir.path().join("cache");
    Runtime::builder().cache_dir(&cache).build()?;
    let warm = Clock::now();
    Runtime::builder().cache_dir(&cache).build()?;
    let cached = warm.elapsed();

    let mut prefetch = runtime.open(store)?;
    let request = |number: usize| {
        let memory = MemoryField::PrefetchIds(NamedIds { ids: ids.clone(), mode: Mode::Frozen });
        Request::new(format!("task {number}")).with_memory(memory, Capacity::bytes(1_000_000))
    };
    let snapshot = delegate(&mut prefetch, &request(0))?;
    let answer = prefetch.deliver(&key("child"), "start", &Claim::SnapshotRef(snapshot.clone()))?;
    let text = answer.block.ok_or("no block")?.text;

    let raw = Connection::open(&path)?;
    // Or each use of a cached statement would prepare it anew, which takes three times as long as the read.
    raw.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    const READ: &str = "SELECT p.text FROM snapshots AS s JOIN pages AS p ON p.snapshot = s.id AND p.number = 1 WHERE s.snapshot_ref = ?1";
    let text_of = |row: &rusqlite::Row| row.get::<_, String>(0);
    // As programs read: the statement comes from the connection's cache. And the least that it can take.
    let read = || raw.prepare_cached(READ)?.query_row([&snapshot], text_of);
    let mut held = raw.prepare(READ)?;
    assert_eq!(read()?, text);

    let mut helds = Vec::new();
    let (mut replays, mut reads, mut rows) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        helds.push(timed(|| black_box(held.query_row([&snapshot], text_of).map(|text| text.len()))));
        reads.push(timed(|| black_box(read().map(|text| text.len()))));
        let store = prefetch.store();
        rows.push(timed(|| {
            store.begin_unit(Access::Read)?;
            let pages = store.replay(&key("child"), None, 1, 0)?;
            store.commit()?;
            Ok::<_, StoreFailure>(black_box(pages.len()))
        }));
        replays.push(timed(|| black_box(prefetch.replay(&key("child")).map(|blocks| blocks.len()))));
    }
    // An instance serves one caller: after another one's call there is a new one.
    let mut turns = Vec::new();
    for _ in 0..ROUNDS {
        prefetch.replay(&key("parent"))?;
        turns.push(timed(|| black_box(prefetch.replay(&key("child")).map(|blocks| blocks.len()))));
    }
    let mut delegations = Vec::new();
    for number in 1..=200 {
        delegations.push(timed(|| delegate(&mut prefetch, &request(number)).map(|name| name.len())));
    }

    println!("block of {MEMORIES} memories of 1 KB     {} bytes", text.len());
    println!("component                      {} bytes", runtime.component().len());
    println!("memory of the instance         {} bytes", prefetch.memory_bytes());
    println!("compile · load from cache      {compile:?} · {cached:?}");
    println!("raw SQLite read of the block   {}", shown(&mut reads));
    println!("the same, statement held       {}", shown(&mut helds));
    println!("the store's part of a replay   {}", shown(&mut rows));
    println!("replay through the component   {}", shown(&mut replays));
    println!("the same, in turn with others  {}", shown(&mut turns));
    println!("durable delegate               {}", shown(&mut delegations));
    println!("replay / raw read              {:.2}x", ratio(&replays, &reads));
    println!("replay / statement held        {:.2}x", ratio(&replays, &helds));
    Ok(())
}

fn delegate(prefetch: &mut Prefetch<SqliteStore>, request: &Request) -> Result<String, String> {
    match prefetch.delegate(&key("parent"), request) {
        Ok(DelegationOutcome::HandedOver(Delegated { memory: Some(MemoryField::SnapshotRef(name)), .. })) => Ok(name),
        other => Err(format!("{other:?}")),
    }
}

fn timed<T, E: std::fmt::Debug>(what: impl FnOnce() -> Result<T, E>) -> Duration {
    let start = Clock::now();
    what().expect("to work");
    start.elapsed()
}

/// Median, and the middle half. Sorts.
fn shown(times: &mut [Duration]) -> String {
    times.sort_unstable();
    let at = |quarter: usize| times[times.len() * quarter / 4];
    format!("{:?} ({:?} to {:?})", at(2), at(1), at(3))
}

/// Of sorted times.
fn ratio(one: &[Duration], other: &[Duration]) -> f64 {
    one[one.len() / 2].as_secs_f64() / other[other.len() / 2].as_secs_f64()
}
