//! Processes that are killed at random moments, by SIGKILL, while they delegate, deliver, forget and sweep, several on
//! one file. After each, the file is opened again, and must hold what was acknowledged, whole, and nothing else.
//!
//! `MEMORY_PREFETCH_CRASHES=N` kills N processes instead of 1,000.

#[path = "reliability/chance.rs"]
mod chance;
#[path = "reliability/history.rs"]
#[allow(dead_code)] // the other two use the rest
mod history;
#[path = "reliability/processes.rs"]
#[allow(dead_code)] // the other two use the rest
mod processes;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use memory_prefetch::{Runtime, SqliteStore};
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use chance::Chance;
use history::{Call, Done, Lane, PATIENT, Prefetch, Step};
use processes::Worker;

const CRASHES: &str = "MEMORY_PREFETCH_CRASHES";

/// What a process is to do until it is killed.
#[derive(Serialize, Deserialize)]
struct Job {
    path: PathBuf,
    cache: PathBuf,
    lane: Lane,
    seed: u64,
    at: u64,
    far: bool,
}

fn open(runtime: &Runtime, path: &Path) -> Prefetch {
    runtime.open(SqliteStore::open(path, &PATIENT).unwrap()).unwrap()
}

fn work(job: Job) {
    /// More than any is given time for.
    const STEPS: u64 = 1_000;
    let Job { path, cache, mut lane, seed, at, far } = job;
    let mut chance = Chance::new(seed);
    let runtime = Runtime::builder().cache_dir(cache).build().unwrap();
    let mut prefetch = open(&runtime, &path);
    processes::say("open", &());
    for at in at..at + STEPS {
        let call = Call { at, step: lane.choose(&mut chance, at, far) };
        processes::say("step", &call);
        let done = loop {
            match history::run(&mut prefetch, &lane.name, &call) {
                Err(error) if history::is_busy(&error) => continue,
                done => break done.unwrap(),
            }
        };
        processes::say("done", &done);
        lane.apply(&call, &done);
    }
    panic!("nobody has killed this process");
}

/// When a process is killed.
#[derive(Clone, Copy)]
enum Moment {
    /// So long after it was started: while it opens the file, mostly.
    Started,
    /// In its first call, from that of this number on, of this verb, if one is named and comes soon.
    Step(usize, Option<&'static str>),
    /// After the call of this number.
    Done(usize),
}

/// What a process has said.
#[derive(Default)]
struct Heard {
    done: Vec<(Call, Done)>,
    going: Option<Call>,
    opened: bool,
}

/// Listen to it, kill it at that moment, and hear the rest.
fn kill(mut worker: Worker, moment: Moment, delay: Duration) -> Heard {
    let mut heard = Heard::default();
    let mut listen = |worker: &mut Worker, until: Option<Moment>| {
        let mut steps = 0;
        while let Some((word, what)) = worker.hear() {
            match word.as_str() {
                "open" => heard.opened = true,
                "step" => {
                    let call: Call = serde_json::from_str(&what).unwrap();
                    steps += 1;
                    let is_one = |verb| verb == call.step.verb() || steps > 50;
                    let is_due = matches!(until, Some(Moment::Step(n, verb)) if n <= steps && verb.is_none_or(is_one));
                    heard.going = Some(call);
                    if is_due {
                        return;
                    }
                }
                _ => {
                    heard.done.push((heard.going.take().unwrap(), serde_json::from_str(&what).unwrap()));
                    if matches!(until, Some(Moment::Done(n)) if n == steps) {
                        return;
                    }
                }
            }
        }
    };
    if !matches!(moment, Moment::Started) {
        listen(&mut worker, Some(moment));
    }
    std::thread::sleep(delay);
    worker.kill();
    listen(&mut worker, None);
    assert!(!worker.end(), "it ended before it was killed");
    heard
}

/// What has happened in all files.
#[derive(Default)]
struct Figures {
    kills: AtomicUsize,
    files: AtomicUsize,
    opening: AtomicUsize,
    between: AtomicUsize,
    acknowledged: AtomicUsize,
    /// By verb: killed inside of it, and how often its mark was there and was not.
    inside: Mutex<BTreeMap<&'static str, [usize; 3]>>,
}

/// How many processes are killed on one file.
const ROUNDS: u64 = 9;

/// One file, from before it is made until everything in it is swept.
fn one_file(figures: &Figures, runtime: &Runtime, cache: &Path, chance: &mut Chance) {
    let directory = Kept(Some(tempfile::tempdir().unwrap()));
    let directory = directory.0.as_ref().unwrap().path();
    let path = directory.join("store.db");
    let mut lanes = [Lane::new("a"), Lane::new("b")];
    for round in 0..ROUNDS {
        let start = 1_800_000_000_000 + round * 10_000;
        // Everything is swept by one process alone: what the other hands over would go before it is claimed.
        let far = round == ROUNDS - 1;
        let at_work = if far { 1 } else { lanes.len() };
        let heard: Vec<Heard> = std::thread::scope(|scope| {
            let start_one = |lane: &Lane| {
                let job = Job {
                    path: path.clone(),
                    cache: cache.into(),
                    lane: lane.clone(),
                    seed: chance.next(),
                    at: start,
                    far,
                };
                let worker = processes::start("killed_at_random", &job);
                let steps = 1 + chance.below(if far { 20 } else { 8 });
                let verb = chance.pick(vec!["delegate", "deliver", "forget", "sweep"]);
                let moment = match chance.below(8) {
                    0 => Moment::Started,
                    1 => Moment::Done(steps),
                    2 => Moment::Step(steps, None),
                    _ => Moment::Step(steps, verb),
                };
                let longest = match moment {
                    Moment::Started => 120_000,
                    Moment::Done(_) => 300,
                    Moment::Step(..) => [2_000, 10_000, 30_000][chance.below(3)],
                };
                let delay = Duration::from_micros(chance.below(longest) as u64);
                scope.spawn(move || kill(worker, moment, delay))
            };
            let killers: Vec<_> = lanes[..at_work].iter().map(start_one).collect();
            killers.into_iter().map(|killer| killer.join().unwrap()).collect()
        });

        let mut going = Vec::new();
        for (lane, heard) in lanes.iter_mut().zip(heard) {
            figures.kills.fetch_add(1, Ordering::Relaxed);
            figures.acknowledged.fetch_add(heard.done.len(), Ordering::Relaxed);
            heard.done.iter().for_each(|(call, done)| lane.apply(call, done));
            match &heard.going {
                None if heard.opened => figures.between.fetch_add(1, Ordering::Relaxed),
                None => figures.opening.fetch_add(1, Ordering::Relaxed),
                Some(_) => 0,
            };
            going.push(heard.going);
        }

        let mut prefetch = open(runtime, &path);
        let connection = Connection::open(&path).unwrap();
        history::check_any(&connection);
        for (lane, call) in lanes.iter().zip(&going) {
            let Some(call) = call else { continue };
            let mut inside = figures.inside.lock().unwrap();
            let counts = inside.entry(call.step.verb()).or_default();
            counts[0] += 1;
            match history::was_done(&connection, &lane.name, call) {
                Some(true) => counts[1] += 1,
                Some(false) => counts[2] += 1,
                None => {}
            }
        }
        drop(connection);
        history::check_left(&mut prefetch, &path, &mut lanes, &going, start + 9_000);
        if round == ROUNDS - 2 {
            claim_all(&mut prefetch, &path, &mut lanes, chance, start + 9_000);
        }
        history::close(prefetch, directory, &lanes);
    }
    figures.files.fetch_add(1, Ordering::Relaxed);
}

/// What was acknowledged can be claimed.
fn claim_all(prefetch: &mut Prefetch, path: &Path, lanes: &mut [Lane], chance: &mut Chance, at: u64) {
    for lane in &mut *lanes {
        while let Some(step) = lane.claim(chance, at) {
            let call = Call { at, step };
            let done = history::run(prefetch, &lane.name, &call).unwrap();
            lane.apply(&call, &done);
        }
    }
    history::check(prefetch, path, lanes, at + 1);
}

/// A directory that stays if the test fails.
struct Kept(Option<tempfile::TempDir>);

impl Drop for Kept {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(directory) = self.0.take()
        {
            println!("the store is left in {}", directory.keep().display());
        }
    }
}

#[test]
fn killed_at_random() {
    if let Some(job) = processes::job() {
        return work(job);
    }
    let crashes = chance::number(CRASHES, 1_000);
    let seed = chance::seed();
    let cache = tempfile::tempdir().unwrap();
    let runtime = Runtime::builder().cache_dir(cache.path()).build().unwrap();
    let figures = Figures::default();
    std::thread::scope(|scope| {
        let files = |number| {
            let (figures, runtime, cache) = (&figures, &runtime, cache.path());
            move || {
                let mut chance = Chance::new(seed.wrapping_add(number));
                while figures.kills.load(Ordering::Relaxed) < crashes {
                    one_file(figures, runtime, cache, &mut chance);
                }
            }
        };
        let at_once: Vec<_> = (0..2).map(|number| scope.spawn(files(number))).collect();
        for thread in at_once {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });

    let Figures { kills, files, opening, between, acknowledged, inside } = figures;
    let inside = inside.into_inner().unwrap();
    println!("{kills:?} processes killed on {files:?} files, after {acknowledged:?} acknowledged calls in all");
    println!("{opening:?} while they started and opened the file, {between:?} between two calls; inside of a call:");
    for (verb, [count, done, undone]) in &inside {
        println!("{verb:>14} {count:5}, of which {done} had left their mark and {undone} had not");
    }
    // A test that kills nobody in the middle of something shows nothing.
    let often = crashes / 100;
    for step in [
        Step::Delegate { call: String::new(), ids: vec![], children: 1, brief: false, in_pages: false },
        Step::Deliver { call: String::new(), snapshot_ref: None, child: String::new() },
        Step::Forget { ids: vec![] },
    ] {
        let [_, done, undone] = inside.get(step.verb()).copied().unwrap_or_default();
        let least = often / 5;
        assert!(done >= least && undone >= least, "{}: killed too seldom while it was going on", step.verb());
    }
    let sweeps = inside.get("sweep").map_or(0, |counts| counts[0]);
    assert!(sweeps >= often && opening.into_inner() >= often, "sweeping and opening: killed too seldom");
}
