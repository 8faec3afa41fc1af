//! A sweep of 100,000 expired snapshots by `memory-prefetch sweep`, while this process writes to the same store:
//! `cargo bench --bench sweep`. Prints how long the writer waited for its turn, without and with the sweep beside it. And
//! the erasure of a memory that 10,000 snapshots hold, in one unit of work.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant as Clock};

use memory_prefetch::Runtime;
use memory_prefetch::contract::*;
use memory_prefetch::operator::{NewMemory, NewSession, Operator};
use memory_prefetch::sqlite_store::{SqliteOptions, SqliteStore};
use memory_prefetch::store::{Access, AuditRow, Store};
use rusqlite::{Connection, params};

const SNAPSHOTS: u32 = 100_000;
const BYTES: usize = 2_000;

type Failed = Box<dyn std::error::Error>;

fn main() -> Result<(), Failed> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("store.db");
    let mut store = SqliteStore::open(&path, &SqliteOptions::default())?;
    fill(&path)?;

    let alone = Clock::now();
    let mut quiet = waits(&mut store, || Ok(alone.elapsed() < Duration::from_secs(5)))?;
    let started = Clock::now();
    let mut sweep = Command::new(env!("CARGO_BIN_EXE_memory-prefetch"))
        .args(["--store", &format!("sqlite:{}", path.display()), "sweep"])
        .stdout(Stdio::null())
        .spawn()?;
    let mut beside = waits(&mut store, || Ok(running(&mut sweep)?))?;
    let took = started.elapsed();

    let left: u32 =
        Connection::open(&path)?.query_row("SELECT count(*) FROM snapshots WHERE pages > 0", [], |row| row.get(0))?;
    println!("{SNAPSHOTS} expired snapshots of {BYTES} bytes, {left} left, in {took:.1?}");
    println!("a writer's wait for its turn, alone    {}", shown(&mut quiet));
    println!("the same, beside the sweep             {}", shown(&mut beside));
    erase()
}

fn erase() -> Result<(), Failed> {
    const HOLDERS: u32 = 10_000;
    let dir = tempfile::tempdir()?;
    let mut store = SqliteStore::open(dir.path().join("store.db"), &SqliteOptions::default())?;
    let (id, workspace) = ("p".to_owned(), None);
    store.put_project(&Project { id, workspace, memory_on: true, trusted: true, attributes: vec![] })?;
    let key = SessionKey { harness: "bench".into(), id: "s".into() };
    let (agent, project) = (Some("a".into()), Some("p".into()));
    store.put_session(&NewSession { key: key.clone(), agent, project, parent: None, memory_on: true })?;
    let mut ids = Vec::new();
    for number in 0..4 {
        let memory = NewMemory::new(
            "a",
            "p",
            format!("{number} {}", "The cart keeps its lines in the order of adding. ".repeat(10)),
        );
        ids.push(store.add_memory(&memory, 0)?);
    }
    let mut prefetch = Runtime::builder().build()?.open(store)?;
    for number in 0..HOLDERS {
        let memory = MemoryField::PrefetchIds(NamedIds { ids: ids.clone(), mode: Mode::Frozen });
        let request = Request::new(format!("task {number}")).with_memory(memory, Capacity::bytes(100_000));
        prefetch.delegate(&key, &request)?;
    }
    let start = Clock::now();
    let erased = prefetch.forget(&ids[1..2])?;
    println!("a memory erased from {} snapshots in     {:.2?}", erased.snapshots, start.elapsed());
    Ok(())
}

fn running(child: &mut Child) -> std::io::Result<bool> {
    match child.try_wait()? {
        None => Ok(true),
        Some(status) if status.success() => Ok(false),
        Some(status) => Err(std::io::Error::other(format!("the sweep failed: {status}"))),
    }
}

/// Durable writes, one after the other with a short pause, and how long each waited for the lock.
fn waits(store: &mut SqliteStore, mut more: impl FnMut() -> Result<bool, Failed>) -> Result<Vec<Duration>, Failed> {
    let mut waits = Vec::new();
    while more()? {
        let start = Clock::now();
        store.begin_unit(Access::Write)?;
        waits.push(start.elapsed());
        let entry = Entry {
            action: "bench".into(),
            outcome: "done".into(),
            snapshot_refs: vec![],
            memory_ids: vec![],
            attributes: vec![],
        };
        let (export, component) = ("bench".into(), String::new());
        store.append_audit(&[AuditRow { at: 0, session: None, export, component, rolled_back: false, entry }])?;
        store.commit()?;
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(waits)
}

fn fill(path: &std::path::Path) -> Result<(), Failed> {
    let mut connection = Connection::open(path)?;
    let transaction = connection.transaction()?;
    let text = "The cart keeps its lines in the order of adding. ".repeat(BYTES / 49);
    for number in 0..SNAPSHOTS {
        transaction
            .prepare_cached(
                "INSERT INTO snapshots (created_at, expires_at, keep_until, pages, snapshot_ref, owner_harness,
                 owner_session, state) VALUES (1, 2, 2, 1, ?1, 'h', 's', '{}')",
            )?
            .execute([format!("snap_{number:039}")])?;
        let id = transaction.last_insert_rowid();
        transaction
            .prepare_cached("INSERT INTO snapshot_memories (snapshot, position, memory_id) VALUES (?1, 0, ?2)")?
            .execute(params![id, format!("m{}", number % 1_000)])?;
        transaction
            .prepare_cached("INSERT INTO pages (snapshot, number, checksum, state, text) VALUES (?1, 1, '', '', ?2)")?
            .execute(params![id, text])?;
        transaction
            .prepare_cached(
                "INSERT INTO hand_overs (snapshot, children, created_at, expires_at, keep_until, parent_harness,
                 parent_session, hand_over, task_digest, task_head, state, task) VALUES (?1, 1, 1, 2, 2, 'h', 's', ?2, 'd', 't', '{}', 't')",
            )?
            .execute(params![id, format!("hand_{number:039}")])?;
    }
    transaction.commit()?;
    Ok(())
}

/// Median, 99th of a hundred, and the longest. Sorts.
fn shown(times: &mut [Duration]) -> String {
    times.sort_unstable();
    let at = |part: usize| times.get(times.len() * part / 100).or(times.last()).copied().unwrap_or_default();
    format!("{:.2?}, at 99% {:.2?}, longest {:.2?}, of {}", at(50), at(99), at(100), times.len())
}
