//! Many processes and threads on one file: a fresh one that all open at once; all verbs mixed, by 64 threads in 8 processes;
//! and 1,000 children of one parent who claim at once. Nothing is lost, nothing is delivered twice or to another child, and
//! nobody gets an error but `busy`, after the time that was set for it.
//!
//! `MEMORY_PREFETCH_CROWD_SECONDS=60` keeps the crowd at it for a minute instead of 10 seconds.

#[path = "reliability/chance.rs"]
mod chance;
#[path = "reliability/history.rs"]
#[allow(dead_code)] // the other two use the rest
mod history;
#[path = "reliability/processes.rs"]
#[allow(dead_code)] // the other two use the rest
mod processes;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use memory_prefetch::contract::*;
use memory_prefetch::environment::{Clock, sha256};
use memory_prefetch::limits::Limits;
use memory_prefetch::operator::{NewMemory, NewSession, Operator};
use memory_prefetch::store::{Access, Store};
use memory_prefetch::{Runtime, SqliteOptions, SqliteStore};
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use chance::Chance;
use history::{Call, Done, Lane, PATIENT, Prefetch, Step};
use processes::Worker;

const SECONDS: &str = "MEMORY_PREFETCH_CROWD_SECONDS";

const PROCESSES: usize = 8;
const START: u64 = 1_800_000_000_000;

fn key(id: &str) -> SessionKey {
    SessionKey { harness: "local".into(), id: id.into() }
}

/// The next thing that it says, which is this.
fn expect(worker: &mut Worker, word: &str) {
    let said = worker.hear();
    assert!(said.as_ref().is_some_and(|(said, _)| said == word), "{said:?} instead of {word}");
}

// A fresh file.

/// F23: 100 times.
#[test]
fn eight_processes_open_a_fresh_file_at_once() {
    if let Some(number) = processes::job::<usize>() {
        for line in std::io::stdin().lock().lines() {
            let path = PathBuf::from(line.unwrap());
            processes::say("ready", &());
            // Start together.
            while !path.with_extension("go").exists() {
                std::thread::yield_now();
            }
            let mut store = SqliteStore::open(&path, &PATIENT).unwrap();
            store.add_agent(&number.to_string()).unwrap();
            drop(store);
            processes::say("made", &());
        }
        return;
    }
    let test = "eight_processes_open_a_fresh_file_at_once";
    let mut workers: Vec<Worker> = (0..PROCESSES).map(|number| processes::start(test, &number)).collect();
    for _ in 0..100 {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.db");
        workers.iter_mut().for_each(|worker| worker.tell(path.to_str().unwrap()));
        workers.iter_mut().for_each(|worker| expect(worker, "ready"));
        fs::write(path.with_extension("go"), "").unwrap();
        workers.iter_mut().for_each(|worker| expect(worker, "made"));
        let existing = SqliteOptions { create: false, ..PATIENT };
        let agents = SqliteStore::open(&path, &existing).unwrap().agents().unwrap();
        assert_eq!(agents, ["0", "1", "2", "3", "4", "5", "6", "7"]);
        history::check_any(&Connection::open(&path).unwrap());
    }
    for mut worker in workers {
        worker.tell_no_more();
        assert!(worker.end());
    }
}

// All verbs.

const THREADS: usize = 8;

/// The memories and delegations that all share.
const POOL: &str = "pool";

#[derive(Serialize, Deserialize)]
struct Job {
    path: PathBuf,
    cache: PathBuf,
    process: usize,
    seed: u64,
    seconds: u64,
    pool: Vec<String>,
}

/// What a claim of what all share was answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Claimed {
    child: String,
    snapshot_ref: String,
    /// `None`: others had taken it.
    digest: Option<String>,
}

/// All delegations of the pool are made, and claimed, at this time.
const POOLED: u64 = START + 100;

fn one_of_a_crowd(job: &Job, runtime: &Runtime, thread: usize, start: &Barrier) {
    let options = SqliteOptions::default();
    let mut prefetch = runtime.open(SqliteStore::open(&job.path, &options).unwrap()).unwrap();
    let mut lane = Lane::new(&format!("l{}{thread}", job.process));
    let mut chance = Chance::new(job.seed.wrapping_add(thread as u64));
    start.wait();
    let began = Instant::now();
    for number in 1.. {
        if began.elapsed() > Duration::from_secs(job.seconds) {
            break;
        }
        let at = START + 1_000 + number;
        let called = Instant::now();
        let name = format!("{POOL}-{}", (job.process * THREADS + thread) as u64 * 100_000 + number);
        let answered = match chance.below(4) {
            // What nobody else touches.
            0 | 1 => {
                let call = Call { at, step: lane.choose(&mut chance, at, false) };
                history::run(&mut prefetch, &lane.name, &call).map(|done| {
                    lane.apply(&call, &done);
                    processes::say("lane", &(&lane.name, call, done));
                })
            }
            2 => {
                let first = chance.below(job.pool.len() - 1);
                let ids = job.pool[first..first + 2].to_vec();
                let children = 1 + chance.below(3) as u32;
                let step = Step::Delegate { call: name, ids, children, brief: false, in_pages: false };
                let call = Call { at: POOLED, step };
                history::run(&mut prefetch, POOL, &call).map(|done| processes::say("delegated", &(call, done)))
            }
            // One of the last that anybody has made, for a child of its own, or for one that others serve just now too.
            _ => {
                let racer = format!("{POOL}-racer-{}", began.elapsed().as_millis() / 40);
                let child = if chance.one_in(3) { racer } else { name };
                claim(&mut prefetch, &child, &mut chance).map(|claimed| {
                    claimed.into_iter().for_each(|claimed| processes::say("claimed", &claimed));
                })
            }
        };
        match answered {
            Ok(()) => processes::say("counted", &()),
            Err(error) if history::is_busy(&error) => {
                let waited = called.elapsed();
                assert!(waited >= options.busy_timeout, "busy after {waited:?}: {error}");
                processes::say("busy", &());
            }
            Err(error) => panic!("{error}"),
        }
    }
}

fn claim(
    prefetch: &mut Prefetch,
    child: &str,
    chance: &mut Chance,
) -> Result<Option<Claimed>, memory_prefetch::CallError> {
    prefetch.set_clock(Clock::Fixed(POOLED));
    let lead = key(&format!("{POOL}-lead"));
    let mut recent = prefetch.store().all_snapshots(0, 40)?;
    recent.retain(|one| one.snapshot.owner == lead);
    let Some(one) = chance.pick(recent) else { return Ok(None) };
    let snapshot_ref = one.snapshot.snapshot_ref;
    let (agent, project) = (Some("ada".into()), Some("web".into()));
    prefetch.store().put_session(&NewSession {
        key: key(child),
        agent,
        project,
        parent: Some(lead),
        memory_on: true,
    })?;
    let answer = prefetch.deliver(&key(child), "start", &Claim::SnapshotRef(snapshot_ref.clone()))?;
    let block = answer.block.unwrap_or_else(|| panic!("{child} is told nothing"));
    let digest = match answer.outcome {
        DeliveryOutcome::Delivered => Some(sha256(block.text.as_bytes())),
        DeliveryOutcome::Taken => None,
        outcome => panic!("{child} of {snapshot_ref}: {outcome:?}"),
    };
    // Where another one was faster to serve this child, it is that one's.
    let snapshot_ref = block.snapshot_ref.unwrap_or(snapshot_ref);
    Ok(Some(Claimed { child: child.into(), snapshot_ref, digest }))
}

#[test]
fn a_crowd_mixes_all_verbs() {
    if let Some(job) = processes::job::<Job>() {
        let runtime = Runtime::builder().cache_dir(&job.cache).build().unwrap();
        let start = Barrier::new(THREADS);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (job, runtime, start) = (&job, &runtime, &start);
                scope.spawn(move || one_of_a_crowd(job, runtime, thread, start));
            }
        });
        return;
    }
    let seconds = chance::number(SECONDS, 10) as u64;
    let seed = chance::seed();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let cache = tempfile::tempdir().unwrap();
    let runtime = Runtime::builder().cache_dir(cache.path()).build().unwrap();
    let mut prefetch = runtime.open(SqliteStore::open(&path, &PATIENT).unwrap()).unwrap();
    let mut pool = Lane::new(POOL);
    let steps = [Step::SetUp].into_iter().chain((0..8).map(|n| Step::Add { id: format!("{POOL}-{n}") }));
    for step in steps {
        let call = Call { at: START, step };
        let done = history::run(&mut prefetch, POOL, &call).unwrap();
        pool.apply(&call, &done);
    }
    drop(prefetch);

    let mut workers: Vec<Worker> = (0..PROCESSES)
        .map(|process| {
            let pool = (0..8).map(|n| format!("{POOL}-{n}")).collect();
            let seed = seed.wrapping_add(process as u64 * 1_000);
            let job = Job { path: path.clone(), cache: cache.path().into(), process, seed, seconds, pool };
            processes::start("a_crowd_mixes_all_verbs", &job)
        })
        .collect();
    let mut lanes: BTreeMap<String, Lane> = BTreeMap::new();
    let mut calls: BTreeMap<String, String> = BTreeMap::new();
    let mut claims: Vec<Claimed> = Vec::new();
    let (mut counts, mut busy) = (Vec::new(), 0);
    let heard: Vec<Vec<(String, String)>> = std::thread::scope(|scope| {
        let listen = |worker: &'_ mut Worker| {
            let mut heard = Vec::new();
            while let Some(said) = worker.hear() {
                heard.push(said);
            }
            heard
        };
        let listeners: Vec<_> = workers.iter_mut().map(|worker| scope.spawn(move || listen(worker))).collect();
        listeners.into_iter().map(|listener| listener.join().unwrap()).collect()
    });
    workers.into_iter().for_each(|worker| assert!(worker.end()));
    for heard in heard {
        let mut count = 0;
        for (word, what) in heard {
            match word.as_str() {
                "lane" => {
                    let (name, call, done): (String, Call, Done) = serde_json::from_str(&what).unwrap();
                    lanes.entry(name.clone()).or_insert_with(|| Lane::new(&name)).apply(&call, &done);
                }
                "delegated" => {
                    let (call, done): (Call, Done) = serde_json::from_str(&what).unwrap();
                    pool.apply(&call, &done);
                    let (Step::Delegate { call, .. }, Done::Delegated { snapshot_ref, .. }) = (call.step, done) else {
                        panic!("{word}: {what}")
                    };
                    calls.insert(snapshot_ref, call);
                }
                "claimed" => claims.push(serde_json::from_str(&what).unwrap()),
                "counted" => count += 1,
                _ => busy += 1,
            }
        }
        counts.push(count);
    }

    // R25: whoever asked for a child, however many at once, got one answer.
    let mut told: BTreeMap<String, Vec<Claimed>> = BTreeMap::new();
    for claimed in claims {
        told.entry(claimed.child.clone()).or_default().push(claimed);
    }
    let connection = Connection::open(&path).unwrap();
    let is_full = |claimed: &Claimed| -> bool {
        connection
            .query_row(
                "SELECT children = (SELECT count(*) FROM deliveries WHERE hand_over = h.id)
                   FROM hand_overs AS h WHERE call_id = ?1",
                [&calls[&claimed.snapshot_ref]],
                |row| row.get(0),
            )
            .unwrap()
    };
    let (mut taken, mut raced) = (0, 0);
    for (child, claimed) in &told {
        raced += usize::from(claimed.len() > 1);
        let first = &claimed[0];
        match &first.digest {
            Some(digest) => {
                assert!(claimed.iter().all(|one| one == first), "{claimed:?}");
                let call = calls[&first.snapshot_ref].clone();
                let step = Step::Deliver { call, snapshot_ref: None, child: child.clone() };
                pool.apply(&Call { at: POOLED, step }, &Done::Delivered { digest: digest.clone() });
            }
            // It was taken: as many children have it as it is for. Which one was asked for first is not known.
            None => {
                taken += 1;
                assert!(claimed.iter().all(|one| one.digest.is_none()), "{claimed:?}");
                assert!(claimed.iter().any(is_full), "{claimed:?}, and there was room");
            }
        }
    }
    assert!(taken > 0 && raced > 0, "nobody has raced");
    let told_only: i64 =
        connection.query_row("SELECT count(*) FROM deliveries WHERE hand_over IS NULL", [], |row| row.get(0)).unwrap();
    assert_eq!(told_only, taken, "answers that nobody was given");
    // Their answers are notices; the rest is what the check knows of.
    connection.execute("DELETE FROM deliveries WHERE hand_over IS NULL", []).unwrap();
    drop(connection);

    let mut lanes: Vec<Lane> = [pool].into_iter().chain(lanes.into_values()).collect();
    let mut prefetch = runtime.open(SqliteStore::open(&path, &PATIENT).unwrap()).unwrap();
    history::check(&mut prefetch, &path, &mut lanes, START + 900_000);
    history::close(prefetch, directory.path(), &lanes);

    let sum: usize = counts.iter().sum();
    println!("{sum} calls in {seconds} s, by process {counts:?}; {busy} times busy; {} children served", told.len());
    println!("{taken} of them too late; {raced} were served by several at once");
    // Nobody starves: each process gets a good part of what is its share.
    let least = counts.iter().min().unwrap();
    assert!(least * PROCESSES * 4 >= sum, "some have had no turn: {counts:?}");
}

/// Whoever waits for its turn is not stopped for that: it has been `busy` timeouts' matter, and not the component's, whose
/// time begins when it runs.
#[test]
fn waiting_for_others_takes_none_of_the_components_time() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let time = Duration::from_secs(1);
    let limits = Limits { time, ..Limits::default() };
    let runtime = Runtime::builder().limits(limits).build().unwrap();
    let mut prefetch = runtime.open(SqliteStore::open(&path, &PATIENT).unwrap()).unwrap();
    let mut other = SqliteStore::open(&path, &PATIENT).unwrap();
    other.begin_unit(Access::Write).unwrap();
    std::thread::scope(|scope| {
        let call = scope.spawn(move || prefetch.sweep(10).map(drop));
        std::thread::sleep(3 * time);
        other.roll_back();
        call.join().unwrap().unwrap();
    });
}

// One parent's children.

const CHILDREN: usize = 1_000;

#[derive(Serialize, Deserialize)]
struct Claiming {
    path: PathBuf,
    cache: PathBuf,
    process: usize,
}

/// Of which others are the beginning.
fn task(number: usize) -> String {
    format!("Do task {number}")
}

fn mark(number: usize) -> String {
    format!("[what child {number} needs]")
}

fn claim_as(runtime: &Runtime, path: &Path, number: usize, start: &Barrier) {
    let mut prefetch = runtime.open(SqliteStore::open(path, &PATIENT).unwrap()).unwrap();
    prefetch.set_clock(Clock::Fixed(START));
    // Every other one has a preamble before its task.
    let text = if number.is_multiple_of(2) { task(number) } else { format!("You are helpful.\n\n{}", task(number)) };
    let hints = Hints { task: Some(text), agent_type: None, registers_all: true };
    start.wait();
    let answer = prefetch.deliver(&key(&format!("child {number}")), "start", &Claim::ParentSession(hints)).unwrap();
    assert_eq!(answer.outcome, DeliveryOutcome::Delivered, "child {number}");
    processes::say("claimed", &(number, answer.block.unwrap().text));
}

#[test]
fn a_thousand_children_claim_at_once() {
    if let Some(Claiming { path, cache, process }) = processes::job() {
        let runtime = Runtime::builder().cache_dir(cache).build().unwrap();
        let mine: Vec<usize> = (0..CHILDREN).filter(|number| number % PROCESSES == process).collect();
        let start = Barrier::new(mine.len() + 1);
        std::thread::scope(|scope| {
            for number in mine {
                let (runtime, path, start) = (&runtime, &path, &start);
                scope.spawn(move || claim_as(runtime, path, number, start));
            }
            processes::say("ready", &());
            std::io::stdin().lock().read_line(&mut String::new()).unwrap();
            start.wait();
        });
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let cache = tempfile::tempdir().unwrap();
    let runtime = Runtime::builder().cache_dir(cache.path()).build().unwrap();
    let mut store = SqliteStore::open(&path, &PATIENT).unwrap();
    let project = Project { id: "web".into(), workspace: None, memory_on: true, trusted: true, attributes: vec![] };
    store.put_project(&project).unwrap();
    let session = |id: &str, parent: Option<&str>| NewSession {
        key: key(id),
        agent: Some("ada".into()),
        project: Some("web".into()),
        parent: parent.map(key),
        memory_on: true,
    };
    store.put_session(&session("lead", None)).unwrap();
    let mut prefetch = runtime.open(store).unwrap();
    prefetch.set_clock(Clock::Fixed(START));
    for number in 0..CHILDREN {
        let memory = NewMemory {
            id: Some(number.to_string()),
            audience: Audience::Project,
            ..NewMemory::new("ada", "web", mark(number))
        };
        prefetch.store().add_memory(&memory, START).unwrap();
        prefetch.store().put_session(&session(&format!("child {number}"), Some("lead"))).unwrap();
        let named = NamedIds { ids: vec![number.to_string()], mode: Mode::Frozen };
        let request = Request::new(task(number)).with_memory(MemoryField::PrefetchIds(named), Capacity::bytes(10_000));
        let outcome = prefetch.delegate(&key("lead"), &request).unwrap();
        assert!(matches!(outcome, DelegationOutcome::HandedOver(_)), "{outcome:?}");
    }

    let start = |process| {
        let job = Claiming { path: path.clone(), cache: cache.path().into(), process };
        processes::start("a_thousand_children_claim_at_once", &job)
    };
    let mut workers: Vec<Worker> = (0..PROCESSES).map(start).collect();
    workers.iter_mut().for_each(|worker| expect(worker, "ready"));
    workers.iter_mut().for_each(|worker| worker.tell("go"));
    let mut seen = BTreeSet::new();
    for mut worker in workers {
        while let Some((_, what)) = worker.hear() {
            let (number, text): (usize, String) = serde_json::from_str(&what).unwrap();
            assert!(text.contains(&mark(number)), "child {number} got {text}");
            assert_eq!(text.matches("[what child").count(), 1, "child {number} got {text}");
            assert!(seen.insert(number));
        }
        assert!(worker.end());
    }
    assert_eq!(seen.len(), CHILDREN);
    let connection = Connection::open(&path).unwrap();
    history::check_any(&connection);
    let taken: i64 = connection
        .query_row("SELECT count(DISTINCT hand_over) FROM deliveries WHERE place = 0", [], |row| row.get(0))
        .unwrap();
    assert_eq!(taken, CHILDREN as i64);
}
