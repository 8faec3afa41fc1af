//! Disks that fail. Operations on files fail, each in a run of its own, once or from then on, while the host delegates,
//! delivers, forgets, sweeps, opens and makes a store; files meet a limit of their size; the power is cut at any moment.
//! What is answered is an error of the store or the right thing, never a panic; what was acknowledged is on the disk; and
//! what was not is there whole or not at all.
//!
//! `MEMORY_PREFETCH_FAULTS=1` lets every operation fail; without it, about one in 5, chosen by chance.
//! `MEMORY_PREFETCH_CUTS=N` cuts the power of N files instead of 3, `MEMORY_PREFETCH_LIMITS=N` lets N meet a limit instead
//! of 4.

#[path = "reliability/chance.rs"]
mod chance;
#[path = "reliability/disk.rs"]
mod disk;
#[path = "reliability/history.rs"]
#[allow(dead_code)] // the other two use the rest
mod history;
#[path = "reliability/processes.rs"]
#[allow(dead_code)] // the other two use the rest
mod processes;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use memory_prefetch::operator::Operator;
use memory_prefetch::store::StoreFailure;
use memory_prefetch::{CallError, Runtime, SqliteStore};
use rusqlite::ffi;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use chance::Chance;
use disk::{Fault, Kind, Media};
use history::{Call, Done, Lane, PATIENT, Prefetch, Step};

const EVERY: &str = "MEMORY_PREFETCH_FAULTS";
const CUTS: &str = "MEMORY_PREFETCH_CUTS";
const LIMITS: &str = "MEMORY_PREFETCH_LIMITS";

const START: u64 = 1_800_000_000_000;
/// After all calls, before anything expires.
const LATER: u64 = START + 10_000;

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::builder().build().unwrap())
}

fn open(path: &Path) -> Result<Prefetch, StoreFailure> {
    Ok(runtime().open(SqliteStore::open(path, &PATIENT)?).unwrap())
}

fn place() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    (directory, path)
}

/// A store with some of everything in it, closed, and what it holds.
fn template() -> (TempDir, Lane) {
    let (directory, path) = place();
    let mut lane = Lane::new("a");
    let mut chance = Chance::new(7);
    let mut prefetch = open(&path).unwrap();
    for at in START..START + 40 {
        let step = lane.choose(&mut chance, at, false);
        // So that there is something to sweep.
        if !matches!(step, Step::Sweep { .. }) {
            call(&mut prefetch, &mut lane, Call { at, step });
        }
    }
    // So that there is something to claim.
    while lane.claim(&mut chance, START + 40).is_none() {
        let step = lane.delegate(&mut chance);
        call(&mut prefetch, &mut lane, Call { at: START + 40, step });
    }
    history::check(&mut prefetch, &path, std::slice::from_mut(&mut lane), LATER);
    (directory, lane)
}

fn call(prefetch: &mut Prefetch, lane: &mut Lane, call: Call) {
    let done = history::run(prefetch, &lane.name, &call).unwrap();
    lane.apply(&call, &done);
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// The step of this verb that comes first, always the same: a failure is repeated with the seed of its run.
fn step_of(verb: &str, lane: &Lane) -> Step {
    let mut chance = Chance::new(11);
    for _ in 0..10_000 {
        let step = lane.clone().choose(&mut chance, START + 100, false);
        if step.verb() == verb && !matches!(step, Step::Sweep { limit, .. } if limit < 1_000) {
            return step;
        }
    }
    panic!("no step is to {verb}")
}

/// What was left of a store can be opened, holds what was acknowledged, and the call that was going on can be made again.
fn check_left(media: &Media, lane: &Lane, going: Option<&Call>, chance: &mut Chance) {
    let (directory, path) = place();
    media.cut(directory.path(), chance);
    let mut lanes = [lane.clone()];
    let mut prefetch = open(&path).unwrap_or_else(|failure| panic!("after a power cut: {failure}"));
    history::check_left(&mut prefetch, &path, &mut lanes, &[going.cloned()], LATER);
    history::close(prefetch, directory.path(), &lanes);
}

/// Once, halfway, for good.
const FAULTS: &[(&str, Fault)] = &[
    ("a write", once(&[Kind::Write])),
    (
        "a write, for want of room, halfway",
        Fault { code: Some(ffi::SQLITE_FULL), halves: true, ..once(&[Kind::Write]) },
    ),
    ("all writes, for want of room", Fault { code: Some(ffi::SQLITE_FULL), ..for_good(&[Kind::Write]) }),
    ("a sync", once(&[Kind::Sync])),
    ("all syncs", for_good(&[Kind::Sync])),
    ("a truncation", once(&[Kind::Truncate])),
    ("a read", once(&[Kind::Read])),
    ("a map of the log's index", once(&[Kind::Map])),
    ("a lock", once(&[Kind::Lock])),
    ("a lock, held by another", Fault { code: Some(ffi::SQLITE_BUSY), ..once(&[Kind::Lock]) }),
    ("a look at a file", once(&[Kind::Open, Kind::Size, Kind::Access, Kind::Delete])),
    ("everything", for_good(ALL)),
];

const ALL: &[Kind] = &[
    Kind::Open,
    Kind::Read,
    Kind::Write,
    Kind::Truncate,
    Kind::Sync,
    Kind::Size,
    Kind::Lock,
    Kind::Delete,
    Kind::Access,
    Kind::Map,
];

/// Which operations are to fail: every one, or by chance about one in so many. Those that write a file anew are many and
/// alike, so of a sample the gaps grow.
fn numbers(chance: &mut Chance) -> impl Iterator<Item = usize> + use<> {
    let every = every();
    let mut chance = Chance::new(chance.next());
    std::iter::successors(Some(1), move |number| {
        Some(if every == 1 { number + 1 } else { number + 1 + chance.below(2 * every - 1) + number / 8 })
    })
}

fn every() -> usize {
    chance::number(EVERY, 5).max(1)
}

const fn once(kinds: &'static [Kind]) -> Fault {
    Fault { kinds, number: 1, lasting: false, code: None, halves: false }
}

const fn for_good(kinds: &'static [Kind]) -> Fault {
    Fault { lasting: true, ..once(kinds) }
}

/// Disks fail: that is not busy, not damage, and not "nothing there".
fn check_failure(failure: &StoreFailure, fault: &Fault) {
    let is_busy = fault.code == Some(ffi::SQLITE_BUSY);
    match failure {
        StoreFailure::Busy(_) if is_busy => {}
        // A log or a file that cannot be opened.
        StoreFailure::Absent(_) if fault.kinds.contains(&Kind::Open) => {}
        StoreFailure::Other(why) if fault.code == Some(ffi::SQLITE_FULL) => {
            assert!(why.contains("no space is left"), "{why}");
        }
        StoreFailure::Other(_) if !is_busy => {}
        failure => panic!("{failure:?}"),
    }
}

fn failure_of(error: CallError) -> StoreFailure {
    use memory_prefetch::contract::{Error, StoreError};
    match error {
        CallError::Store(failure) => failure,
        CallError::Policy(Error::Store(StoreError::Busy(why))) => StoreFailure::Busy(why),
        CallError::Policy(Error::Store(StoreError::Absent(why))) => StoreFailure::Absent(why),
        CallError::Policy(Error::Store(StoreError::Damaged(why))) => StoreFailure::Damaged(why),
        CallError::Policy(Error::Store(StoreError::Other(why))) => StoreFailure::Other(why),
        other => panic!("not an error of the store: {other:?}"),
    }
}

/// Every verb, with every fault, at every operation.
fn every_operation_fails(verbs: &[&str]) {
    disk::install();
    let (template, lane) = template();
    let mut counts: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
    let mut chance = Chance::new(chance::seed());
    for verb in verbs {
        let going = Call { at: START + 100, step: step_of(verb, &lane) };
        for (what, fault) in FAULTS {
            for number in numbers(&mut chance) {
                let fault = Fault { number, ..fault.clone() };
                let case = format!("{verb}, and {what} fails, number {number}");
                let (directory, path) = place();
                copy(template.path(), directory.path());
                let mut lanes = [lane.clone()];
                disk::record(directory.path());
                let mut prefetch = open(&path).unwrap();
                disk::fail(fault.clone());
                let done = history::run(&mut prefetch, &lane.name, &going);
                let failed = disk::mend();
                let counts = counts.entry(verb).or_default();
                counts[0] += failed.min(1);
                let going = match done {
                    Ok(done) => {
                        lanes[0].apply(&going, &done);
                        None
                    }
                    Err(error) => {
                        assert!(failed > 0, "{case}: {error}");
                        counts[1] += 1;
                        check_failure(&failure_of(error), &fault);
                        Some(&going)
                    }
                };
                let context = Context(&case);
                check_left(&disk::media(), &lanes[0], going, &mut chance);
                // And this process goes on, on a disk that is whole again.
                history::check_left(&mut prefetch, &path, &mut lanes, &[going.cloned()], LATER);
                history::close(prefetch, directory.path(), &lanes);
                drop(context);
                if failed == 0 {
                    break;
                }
            }
        }
    }
    for (verb, [failed, answered]) in counts {
        println!("{verb:>14}: {failed:4} times an operation failed, {answered} times the call did");
        assert!(failed >= FAULTS.len() / 2, "{verb}: hardly anything has failed");
    }
}

/// A process forgets, and from some operation on its disk is gone, and then the process itself, before it has cut off the
/// log. Another one that has the store open all the time takes the text out of the log when it writes next.
#[test]
fn an_erasure_that_was_not_finished_is_finished_by_others() {
    disk::install();
    let (template, lane) = template();
    let mut left = 0;
    for verb in ["forget", "sweep", "memory edit"] {
        let going = Call { at: START + 100, step: step_of(verb, &lane) };
        for number in (1..).step_by(every()) {
            let case = format!("{verb}, and everything fails from number {number} on");
            let context = Context(&case);
            let (directory, path) = place();
            copy(template.path(), directory.path());
            let mut lanes = [lane.clone()];
            let mut other = SqliteStore::open(&path, &PATIENT).unwrap();
            let mut prefetch = open(&path).unwrap();
            disk::fail(Fault { number, ..for_good(ALL) });
            let done = history::run(&mut prefetch, &lane.name, &going);
            drop(prefetch);
            let failed = disk::mend();
            if let Ok(done) = done {
                lanes[0].apply(&going, &done);
                left += usize::from(history::is_left(directory.path(), &lanes, true).is_some());
                other.add_agent("bob").unwrap();
                assert_eq!(history::is_left(directory.path(), &lanes, true), None);
                assert!(!other.is_scrub_due());
            }
            drop(context);
            if failed == 0 {
                break;
            }
        }
    }
    println!("{left} times the log was left to others");
    assert!(left > 0, "the log was never left");
}

/// What SQLite keeps in memory may not go together any more after its disk has failed it: its search index has taken a sound
/// file for damaged. The call is made again in the same process, on a disk that is whole.
#[test]
fn a_process_whose_disk_has_failed_goes_on() {
    disk::install();
    let (template, lane) = template();
    let going = Call { at: START + 100, step: step_of("memory edit", &lane) };
    let mut again = 0;
    for number in 1.. {
        let case = format!("everything fails from number {number} on");
        let context = Context(&case);
        let (directory, path) = place();
        copy(template.path(), directory.path());
        let mut prefetch = open(&path).unwrap();
        disk::fail(Fault { number, ..for_good(ALL) });
        let done = history::run(&mut prefetch, &lane.name, &going);
        let failed = disk::mend();
        if done.is_err() {
            history::run(&mut prefetch, &lane.name, &going).unwrap();
            again += 1;
        }
        drop(context);
        if failed == 0 {
            break;
        }
    }
    assert!(again > 10, "nothing has failed");
}

/// R17: a copy of a page that SQLite makes for a statement's sake would be in a temporary file, and stay on the disk when that
/// is deleted.
#[test]
fn no_copy_goes_to_a_temporary_file() {
    disk::install();
    let (_directory, path) = place();
    let mut prefetch = open(&path).unwrap();
    let mut lane = Lane::new("a");
    let mut chance = Chance::new(5);
    call(&mut prefetch, &mut lane, Call { at: START, step: Step::SetUp });
    let mut all = Vec::new();
    for _ in 0..40 {
        let step = lane.add();
        if let Step::Add { id } = &step {
            all.push(id.clone());
        }
        call(&mut prefetch, &mut lane, Call { at: START, step });
    }
    for at in START + 1..START + 40 {
        let mut step = lane.delegate(&mut chance);
        if let Step::Delegate { ids, in_pages, .. } = &mut step {
            (*ids, *in_pages) = (all.clone(), true);
        }
        call(&mut prefetch, &mut lane, Call { at, step });
    }
    for at in START + 40..START + 80 {
        let step = lane.choose(&mut chance, at, true);
        call(&mut prefetch, &mut lane, Call { at, step });
    }
    assert_eq!(disk::temporary(), 0);
}

/// Says what went on, if that has failed.
struct Context<'a>(&'a str);

impl Drop for Context<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("{}", self.0);
        }
    }
}

#[test]
fn a_disk_fails_while_a_parent_delegates() {
    every_operation_fails(&["delegate", "revoke"]);
}

#[test]
fn a_disk_fails_while_a_child_is_served() {
    every_operation_fails(&["deliver", "session end"]);
}

#[test]
fn a_disk_fails_while_memories_change() {
    every_operation_fails(&["memory add", "memory edit", "recall"]);
}

#[test]
fn a_disk_fails_while_texts_are_erased() {
    every_operation_fails(&["forget", "sweep"]);
}

/// A file that is not there, one that is, and one that a process has left with its log.
#[test]
fn a_disk_fails_while_a_store_is_opened() {
    disk::install();
    let (template, lane) = template();
    let left = tempfile::tempdir().unwrap();
    {
        let (directory, path) = place();
        copy(template.path(), directory.path());
        let mut prefetch = open(&path).unwrap();
        call(&mut prefetch, &mut lane.clone(), Call { at: START + 100, step: lane.clone().add() });
        for name in ["store.db", "store.db-wal"] {
            fs::copy(directory.path().join(name), left.path().join(name)).unwrap();
        }
    }
    let mut left_lane = lane.clone();
    let added = Call { at: START + 100, step: left_lane.add() };
    left_lane.apply(&added, &Done::Plain);
    let nothing = tempfile::tempdir().unwrap();

    let mut chance = Chance::new(chance::seed());
    for (start, from, lane) in [
        ("a store that is not there", &nothing, &Lane::new("a")),
        ("a store", &template, &lane),
        ("a store that was left with its log", &left, &left_lane),
    ] {
        let (mut failures, mut refused) = (0, 0);
        for (what, fault) in FAULTS {
            for number in numbers(&mut chance) {
                let fault = Fault { number, ..fault.clone() };
                let case = format!("{start}, and {what} fails, number {number}");
                let context = Context(&case);
                let (directory, path) = place();
                copy(from.path(), directory.path());
                disk::record(directory.path());
                disk::fail(fault.clone());
                let opened = open(&path);
                let failed = disk::mend();
                failures += failed.min(1);
                if let Err(failure) = &opened {
                    assert!(failed > 0, "{failure}");
                    refused += 1;
                    check_failure(failure, &fault);
                }
                check_left(&disk::media(), lane, None, &mut chance);
                drop(opened);
                let mut prefetch = open(&path).unwrap();
                let mut lanes = [lane.clone()];
                history::check(&mut prefetch, &path, &mut lanes, LATER);
                drop(context);
                if failed == 0 {
                    break;
                }
            }
        }
        println!("{start}: {failures:4} times an operation failed, opening it {refused} times");
        assert!(refused >= FAULTS.len() / 2, "{start}: hardly anything has failed");
    }
}

/// The power is cut at any moment: of what was written and not synced, any part is on the disk.
#[test]
fn the_power_is_cut() {
    disk::install();
    let files = chance::number(CUTS, 3);
    let mut chance = Chance::new(chance::seed());
    let (mut cuts, mut inside) = (0, 0);
    for number in 0..files {
        let (directory, path) = place();
        let mut lane = Lane::new("a");
        disk::record(directory.path());
        let mut moments = Vec::new();
        let mut moment = 0;
        while moment < 6_000 {
            // While the file is made, at many operations, for one file at all.
            let gap = if moment >= 150 { 120 } else { [1, 6][number.min(1)] };
            moment += 1 + chance.below(gap);
            moments.push(moment);
        }
        disk::take_at(moments);
        let mut left: Vec<(Media, Lane, Option<Call>)> = Vec::new();
        let mut at = START;
        for _ in 0..3 {
            let mut prefetch = open(&path).unwrap();
            left.extend(disk::taken().into_iter().map(|media| (media, lane.clone(), None)));
            for _ in 0..15 {
                at += 1;
                let going = Call { at, step: lane.choose(&mut chance, at, false) };
                let done = history::run(&mut prefetch, &lane.name, &going).unwrap();
                left.extend(disk::taken().into_iter().map(|media| (media, lane.clone(), Some(going.clone()))));
                lane.apply(&going, &done);
                // What was acknowledged is there, if the power is cut now.
                left.push((disk::media(), lane.clone(), None));
            }
            drop(prefetch);
            left.extend(disk::taken().into_iter().map(|media| (media, lane.clone(), None)));
        }
        drop(directory);
        for (media, lane, going) in &left {
            check_left(media, lane, going.as_ref(), &mut chance);
            inside += usize::from(going.is_some());
        }
        cuts += left.len();
    }
    println!("{cuts} power cuts of {files} files, {inside} of them while a call was going on");
    assert!(inside >= 10 * files, "too few while a call was going on");
}

/// What a process does whose files may not grow beyond a limit.
#[derive(Serialize, Deserialize)]
struct Job {
    path: PathBuf,
    cache: PathBuf,
    lane: Lane,
    seed: u64,
    at: u64,
    /// It goes on after the first error, when the limit is lifted; or it ends there, and closes nothing.
    goes_on: bool,
}

#[cfg(unix)]
fn limit_files(bytes: Option<u64>) {
    use rustix::process::{Resource, Rlimit, setrlimit};
    setrlimit(Resource::Fsize, Rlimit { current: bytes, maximum: None }).unwrap();
}

#[cfg(unix)]
fn work(job: Job) {
    let Job { path, cache, mut lane, seed, mut at, goes_on } = job;
    let mut chance = Chance::new(seed);
    let runtime = Runtime::builder().cache_dir(cache).build().unwrap();
    let size = |path: &Path| fs::metadata(path).map_or(0, |found| found.len());
    let log = path.with_extension("db-wal");
    // Somewhere in the middle of what comes: the log's file, or the store's when the log is moved into it.
    let mut limit = |path: &Path| {
        let room = [3_000, 20_000, 60_000][chance.below(3)];
        limit_files(Some(size(path).max(size(&log)) + chance.below(room) as u64));
        chance.next()
    };
    let mut choice = Chance::new(limit(&path));
    let mut opened = None;
    for _ in 0..60 {
        if opened.is_none() {
            match SqliteStore::open(&path, &PATIENT) {
                Ok(store) => opened = Some(runtime.open(store).unwrap()),
                Err(failure) => {
                    assert!(matches!(failure, StoreFailure::Other(_)), "{failure:?}");
                    processes::say("refused", &());
                    if !goes_on {
                        std::process::exit(0);
                    }
                    limit_files(None);
                    continue;
                }
            }
        }
        let prefetch = opened.as_mut().unwrap();
        at += 1;
        let going = Call { at, step: lane.choose(&mut choice, at, false) };
        processes::say("step", &going);
        let done = match history::run(prefetch, &lane.name, &going) {
            Ok(done) => done,
            Err(error) => {
                let failure = failure_of(error);
                assert!(matches!(failure, StoreFailure::Other(_)), "{failure:?}");
                processes::say("failed", &());
                if !goes_on {
                    std::process::exit(0);
                }
                limit_files(None);
                history::check_left(prefetch, &path, std::slice::from_mut(&mut lane), &[Some(going)], at);
                processes::say("resolved", &lane);
                limit(&path);
                continue;
            }
        };
        lane.apply(&going, &done);
        processes::say("done", &done);
    }
    // The store is closed, as far as that is possible.
}

/// A disk quota, as the system itself has it: what is written beyond it is cut short, then refused.
#[cfg(unix)]
#[test]
fn files_meet_a_limit() {
    if let Some(job) = processes::job() {
        return work(job);
    }
    let files = chance::number(LIMITS, 4);
    let mut chance = Chance::new(chance::seed());
    let cache = tempfile::tempdir().unwrap();
    Runtime::builder().cache_dir(cache.path()).build().unwrap();
    let (mut failed, mut refused) = (0, 0);
    for number in 0..files {
        let (directory, path) = place();
        let mut lanes = [Lane::new("a")];
        for round in 0..4 {
            let at = START + round * 100;
            let (lane, seed) = (lanes[0].clone(), chance.next());
            let goes_on = chance.one_in(2);
            let job = Job { path: path.clone(), cache: cache.path().into(), lane, seed, at, goes_on };
            let mut worker = processes::start_unlimited("files_meet_a_limit", &job);
            let mut going: Option<Call> = None;
            while let Some((word, what)) = worker.hear() {
                match word.as_str() {
                    "step" => going = Some(serde_json::from_str(&what).unwrap()),
                    "done" => lanes[0].apply(&going.take().unwrap(), &serde_json::from_str(&what).unwrap()),
                    "resolved" => {
                        lanes[0] = serde_json::from_str(&what).unwrap();
                        going = None;
                    }
                    "failed" => failed += 1,
                    _ => refused += 1,
                }
            }
            assert!(worker.end(), "file {number}");
            let mut prefetch = open(&path).unwrap_or_else(|failure| panic!("file {number}: {failure}"));
            history::check_left(&mut prefetch, &path, &mut lanes, &[going], at + 90);
            history::close(prefetch, directory.path(), &lanes);
        }
    }
    println!("{files} files: {failed} calls failed at the limit, and opening did {refused} times");
    assert!(failed >= files && refused > 0, "the limit was seldom met");
}
