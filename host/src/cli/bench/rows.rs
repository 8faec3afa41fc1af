//! The rows of `bench`.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use memory_prefetch::contract::{Claim, Delegated, DelegationOutcome, DeliveryOutcome, Hints, MemoryField, SessionKey};
use memory_prefetch::limits::Limits;
use memory_prefetch::store::{Access, Rows, Store};
use memory_prefetch::{KEPT_INSTANCES, Prefetch, Runtime, SqliteOptions, SqliteStore, tokens};
use memory_prefetch_component::contract as policy;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, Row as SqlRow};

use super::super::app::App;
use super::super::failure::{Exit, Failure};
use super::fixture::{self, MEMORIES, PARENT, child, key};
use super::large;
use super::measure::{Spread, Times, timed, turn_by_turn, with_warm_up};
use super::native::{self, Native};
use super::{Figure, Measured, Scope, Unit, tell};

/// The bar for what every harness ships.
const MAX_COMPONENT_BYTES: f64 = 400.0 * 1024.0;

/// Reads one page, as a program that knows where it is would.
const READ: &str =
    "SELECT p.text FROM snapshots AS s JOIN pages AS p ON p.snapshot = s.id AND p.number = 1 WHERE s.snapshot_ref = ?1";

/// Delegate and deliver, through the component and natively.
pub(super) fn component(app: &App, scope: &Scope) -> Result<Vec<Figure>, Failure> {
    let mut figures = Vec::new();
    for (sync, what, bar, rounds) in [
        (true, "delegate + deliver, durable: component / native", 1.05, 1_000),
        (false, "delegate + deliver, no sync: component / native", 1.4, 2_000),
    ] {
        let rounds = scope.rounds(rounds);
        let dir = directory()?;
        let children = with_warm_up(rounds);
        let (ids, store) = filled(&dir.path().join("component.sqlite"), children, sync)?;
        let mut prefetch = runtime(app)?.open(store)?;
        let (_, store) = filled(&dir.path().join("native.sqlite"), children, sync)?;
        let mut policy = Native { store };
        let [component, native] = turn_by_turn(
            rounds,
            [
                &mut |round| {
                    let (took, ()) = timed(|| {
                        let name = delegate(&mut prefetch, &task(round), &ids)?;
                        deliver(&mut prefetch, &child(round), Claim::SnapshotRef(name)).map(drop)
                    })?;
                    Ok::<_, Failure>(took)
                },
                &mut |round| {
                    let request = native::request(&fixture::request(&task(round), &ids));
                    let (took, ()) = timed(|| natively(&mut policy, &child(round), &request))?;
                    Ok(took)
                },
            ],
        )?;
        let measured = [("component", &component), ("native", &native)];
        figures.push(ratio("component", what, measured, Some(bar)));
    }
    Ok(figures)
}

/// A replay against a read of the same bytes.
pub(super) fn replay(app: &App, scope: &Scope) -> Result<Vec<Figure>, Failure> {
    let dir = directory()?;
    let path = dir.path().join("store.sqlite");
    let (ids, store) = filled(&path, 1 + KEPT_INSTANCES, true)?;
    let mut prefetch = runtime(app)?.open(store)?;
    let me = child(0);
    let name = delegate(&mut prefetch, &task(0), &ids)?;
    let text = deliver(&mut prefetch, &me, Claim::SnapshotRef(name.clone()))?;
    let options = SqliteOptions { create: false, ..SqliteOptions::default() };
    let mut policy = Native { store: SqliteStore::open(&path, &options)? };
    let mut rows = SqliteStore::open(&path, &options)?;
    let mut other = prefetch.runtime().open(SqliteStore::open(&path, &options)?)?;

    let raw = connection(&path)?;
    // As programs read: the statement comes from the connection's cache. And the least that it can take.
    let read = || raw.prepare_cached(READ)?.query_row([&name], text_of);
    let mut held = raw.prepare(READ).map_err(sqlite)?;
    let same = read().map_err(sqlite)? == text
        && prefetch.replay(&me)?.into_iter().map(|block| block.text).eq([text.as_str()])
        && policy.replay(&me).map_err(native_failed)?.into_iter().map(|block| block.text).eq([text.as_str()]);
    if !same {
        return Err(broken("a replay is not what was delivered"));
    }
    let rounds = scope.rounds(20_000);
    let [replay, cached, least, natively, store] = turn_by_turn(
        rounds,
        [
            &mut |_| Ok::<_, Failure>(timed(|| prefetch.replay(&me))?.0),
            &mut |_| Ok(timed(read).map_err(sqlite)?.0),
            &mut |_| Ok(timed(|| held.query_row([&name], text_of)).map_err(sqlite)?.0),
            &mut |_| Ok(timed(|| policy.replay(&me)).map_err(native_failed)?.0),
            &mut |_| Ok(timed(|| in_unit(&mut rows, |store| store.replay(&me, None, 1, 0)))?.0),
        ],
    )?;
    // An instance serves one caller, and those of the last callers are kept. With one caller more than that, each has to wait
    // for a new one.
    let [new, turns, again] = turn_by_turn(
        scope.rounds(5_000),
        [
            &mut |_| {
                for number in 1..=KEPT_INSTANCES {
                    other.replay(&child(number))?;
                }
                Ok::<_, Failure>(timed(|| other.replay(&me))?.0)
            },
            &mut |_| {
                prefetch.replay(&child(1))?;
                Ok(timed(|| prefetch.replay(&me))?.0)
            },
            &mut |_| Ok(timed(read).map_err(sqlite)?.0),
        ],
    )?;
    let read = ("read", &cached);
    Ok(vec![
        ratio("replay", "replay / one raw read of the same bytes", [("replay", &replay), read], Some(2.2)),
        ratio("replay", "replay / a read whose statement is held", [("replay", &replay), ("read", &least)], None),
        ratio("replay", "native replay / one raw read", [("native", &natively), read], None),
        ratio("replay", "the store's part of a replay / one raw read", [("store", &store), read], None),
        ratio("replay", "replay after another child's / one raw read", [("replay", &turns), ("read", &again)], None),
        ratio("replay", "replay in a new instance / one raw read", [("replay", &new), ("read", &again)], None),
    ])
}

/// A durable delegate against a durable insert.
pub(super) fn insert(app: &App, scope: &Scope) -> Result<Vec<Figure>, Failure> {
    let dir = directory()?;
    let (ids, store) = filled(&dir.path().join("store.sqlite"), 1, true)?;
    let mut prefetch = runtime(app)?.open(store)?;
    let name = delegate(&mut prefetch, "first", &ids)?;
    let text = deliver(&mut prefetch, &child(0), Claim::SnapshotRef(name))?;
    let plain = connection(&dir.path().join("plain.sqlite"))?;
    let set_up =
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE texts (id INTEGER PRIMARY KEY, text TEXT)";
    plain.execute_batch(set_up).map_err(sqlite)?;
    let insert = || plain.prepare_cached("INSERT INTO texts (text) VALUES (?1)")?.execute([&text]);
    let [delegate, insert] = turn_by_turn(
        scope.rounds(1_000),
        [&mut |round| Ok::<_, Failure>(timed(|| delegate(&mut prefetch, &task(round), &ids))?.0), &mut |_| {
            Ok(timed(insert).map_err(sqlite)?.0)
        }],
    )?;
    let measured = [("delegate", &delegate), ("insert", &insert)];
    Ok(vec![ratio("insert", "durable delegate / one durable insert of the block", measured, Some(1.3))])
}

/// New processes.
pub(super) fn start(app: &App, scope: &Scope) -> Result<Vec<Figure>, Failure> {
    let program =
        std::env::current_exe().map_err(|error| broken(&format!("this program's file is unknown: {error}")))?;
    let dir = directory()?;
    let path = dir.path().join("store.sqlite");
    let rounds = scope.rounds(200);
    // Two deliver in each round, and one is what replays.
    let again = 2 * with_warm_up(rounds);
    let (ids, store) = filled(&path, again + 1, true)?;
    let mut prefetch = runtime(app)?.open(store)?;
    let mut name = String::new();
    for number in 0..=again {
        name = delegate(&mut prefetch, &task(number), &ids)?;
    }
    drop(prefetch);

    // The code that the first one compiles is for the others; the user's own cache is left alone.
    let ours = |verb: &str, number: usize| {
        let mut command = Command::new(&program);
        command.env("HOME", dir.path()).env("XDG_CACHE_HOME", dir.path().join("cache"));
        command.env_remove("MEMORY_PREFETCH_MEMORIES");
        if let Some(component) = app.component() {
            command.arg("--component").arg(component);
        }
        command.args(["--store", &format!("sqlite:{}", path.display()), verb, "--session", &format!("child-{number}")]);
        if verb == "deliver" {
            command.args(["--parent", PARENT, "--task", &task(number)]);
        }
        command
    };
    let block = Process::start(&mut ours("deliver", again))?.all()?;
    let theirs = || {
        let mut command = Command::new("sqlite3");
        command.arg(&path).arg(READ.replace("?1", &format!("'{name}'")));
        command
    };
    let has_sqlite3 =
        Command::new("sqlite3").arg("--version").stdout(Stdio::null()).status().is_ok_and(|it| it.success());
    // It ends a value with a line break.
    let row = if has_sqlite3 { Process::start(&mut theirs())?.all()?.len() } else { 0 };
    if block.len() < MEMORIES * fixture::BODY || (has_sqlite3 && row < MEMORIES * fixture::BODY) {
        return Err(broken("a process did not print the block"));
    }
    let until = |mut command: Command, bytes| {
        let (took, process) = timed(|| Process::start(&mut command)?.read(bytes))?;
        process.all()?;
        Ok::<_, Failure>(took)
    };
    let [deliver, replay, ended, sqlite3] = turn_by_turn(
        rounds,
        [
            &mut |round| until(ours("deliver", 2 * round), block.len()),
            &mut |_| until(ours("replay", again), block.len()),
            &mut |round| Ok(timed(|| Process::start(&mut ours("deliver", 2 * round + 1))?.all())?.0),
            &mut |_| if has_sqlite3 { until(theirs(), row) } else { Ok(Duration::ZERO) },
        ],
    )?;
    let mut figures = vec![
        alone("start", "new process to delivered block", &deliver, Some(20e-3)),
        alone("start", "new process to replayed block", &replay, Some(20e-3)),
        alone("start", "new process that delivers, to its end", &ended, None),
    ];
    if has_sqlite3 {
        let against = ("sqlite3", &sqlite3);
        figures.extend([
            ratio(
                "start",
                "deliver in a new process / sqlite3 that reads the row",
                [("deliver", &deliver), against],
                Some(2.0),
            ),
            ratio(
                "start",
                "replay in a new process / sqlite3 that reads the row",
                [("replay", &replay), against],
                Some(2.0),
            ),
        ]);
    } else {
        tell(app, "  the program sqlite3 is not here: there is nothing to compare a new process with");
    }
    Ok(figures)
}

/// A process whose output is read as it comes.
struct Process {
    child: Child,
    output: ChildStdout,
    read: Vec<u8>,
}

impl Process {
    fn start(command: &mut Command) -> Result<Process, Failure> {
        let started = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut child = started.map_err(|error| broken(&format!("a process cannot be started: {error}")))?;
        let output = child.stdout.take().ok_or_else(|| broken("a process has no output"))?;
        Ok(Process { child, output, read: Vec::new() })
    }

    /// Until so many bytes are there.
    fn read(mut self, bytes: usize) -> Result<Process, Failure> {
        self.read.resize(bytes, 0);
        let all = self.output.read_exact(&mut self.read);
        all.map_err(|error| broken(&format!("a process printed less than it should: {error}")))?;
        Ok(self)
    }

    /// Until its end.
    fn all(mut self) -> Result<Vec<u8>, Failure> {
        let read = self.output.read_to_end(&mut self.read);
        match read.and_then(|_| self.child.wait()) {
            Ok(status) if status.success() => Ok(self.read),
            Ok(status) => Err(broken(&format!("a process failed ({status})"))),
            Err(error) => Err(broken(&format!("a process cannot be read: {error}"))),
        }
    }
}

/// A large store against a small one.
pub(super) fn scale(app: &App, scope: &Scope) -> Result<Vec<Figure>, Failure> {
    let rounds = scope.rounds(1_000);
    let dir = directory()?;
    let by = if scope.quick { 10 } else { 1 };
    let size = large::Size { memories: 1_000_000 / by, snapshots: 100_000 / by };
    let kept = scope.scale_dir.as_deref().unwrap_or(dir.path());
    fs::create_dir_all(kept).map_err(|error| broken(&format!("{} cannot be made: {error}", kept.display())))?;
    let path = kept.join(format!("large-{}-{}.sqlite", size.memories, size.snapshots));
    let runtime = runtime(app)?;
    if !path.exists() {
        large::make(&runtime, &path, size, |line| tell(app, line))?;
    }
    let small = dir.path().join("small.sqlite");
    large::make(&runtime, &small, large::Size { memories: 1_000, snapshots: 100 }, |_| {})?;

    let mut figures = Vec::new();
    for (sync, with) in [(true, "durable"), (false, "no sync")] {
        let mut large = opened(&runtime, &path, rounds, sync)?;
        let mut small = opened(&runtime, &small, rounds, sync)?;
        let ids: Vec<String> = (0..MEMORIES).map(|number| format!("m{number}")).collect();
        let one = |opened: &mut Opened, round| -> Result<Duration, Failure> {
            let session = opened.child(round);
            let task = format!("task of {}", session.id);
            delegate(&mut opened.prefetch, &task, &ids)?;
            let hints = Hints { task: Some(task), agent_type: None, registers_all: true };
            Ok(timed(|| deliver(&mut opened.prefetch, &session, Claim::ParentSession(hints)))?.0)
        };
        let [in_large, in_small] =
            turn_by_turn(rounds, [&mut |round| one(&mut large, round), &mut |round| one(&mut small, round)])?;
        let what = format!("deliver, {with}: {} memories, {} snapshots / 1000, 100", size.memories, size.snapshots);
        figures.push(ratio("scale", &what, [("large", &in_large), ("small", &in_small)], Some(1.3)));
    }
    Ok(figures)
}

/// A store with children of this run.
struct Opened {
    prefetch: Prefetch<SqliteStore>,
    run: String,
}

impl Opened {
    fn child(&self, round: usize) -> SessionKey {
        key(&format!("{}-{round}", self.run))
    }
}

fn opened(runtime: &Runtime, path: &Path, rounds: usize, sync: bool) -> Result<Opened, Failure> {
    let options = SqliteOptions { create: false, ..SqliteOptions::default() };
    // A store that is kept has those of earlier runs.
    let run = format!("run-{:016x}", random()?);
    let mut store = SqliteStore::open(path, &options)?.without_sync();
    for round in 0..with_warm_up(rounds) {
        fixture::add_session(&mut store, key(&format!("{run}-{round}")), Some(key(PARENT)))?;
    }
    let store = if sync { SqliteStore::open(path, &options)? } else { store };
    Ok(Opened { prefetch: runtime.open(store)?, run })
}

fn random() -> Result<u64, Failure> {
    getrandom::u64().map_err(|error| broken(&format!("no randomness: {error}")))
}

/// Sizes.
pub(super) fn size(app: &App, _: &Scope) -> Result<Vec<Figure>, Failure> {
    let runtime = runtime(app)?;
    let foreign = runtime.world().imports.iter().filter(|name| name.starts_with("wasi")).count();
    Ok(vec![
        fixed("size", "component", Unit::Bytes, runtime.component().len() as f64, Some(MAX_COMPONENT_BYTES)),
        fixed("size", "WASI interfaces that it imports", Unit::Count, foreign as f64, Some(0.0)),
    ])
}

/// What a parent writes.
pub(super) fn pasting(_: &App, _: &Scope) -> Result<Vec<Figure>, Failure> {
    const TOKENIZER: &str = "o200k_base";
    let pasted: Vec<String> = (0..MEMORIES).map(fixture::body).collect();
    let ids: Vec<String> = (0..MEMORIES).map(|number| format!("m{number}")).collect();
    let named = serde_json::json!({ "memory": { "prefetch_ids": ids } }).to_string();
    let texts: Vec<&str> = pasted.iter().map(String::as_str).chain([named.as_str()]).collect();
    let counts = tokens::count(TOKENIZER, &texts).ok_or_else(|| broken("the tokenizer is not there"))?;
    let (named, pasted) =
        counts.split_last().map(|(named, pasted)| (*named, pasted.iter().sum::<u32>())).unwrap_or_default();
    let tokens = |what, count: u32| fixed("pasting", what, Unit::Count, f64::from(count), None);
    Ok(vec![
        tokens("output tokens (o200k) of 20 memories, pasted", pasted),
        tokens("the same, named in the delegation field", named),
        tokens("saved by each delegation", pasted.saturating_sub(named)),
    ])
}

fn ratio(row: &'static str, what: &str, measured: [(&'static str, &Times); 2], bar: Option<f64>) -> Figure {
    let [(_, one), (_, other)] = measured;
    let value = one.against(other);
    let measured = measured.iter().map(|(what, times)| Measured { what, spread: times.spread() }).collect();
    Figure { measured, ..figure(row, what, Unit::Times, value, bar) }
}

fn alone(row: &'static str, what: &str, times: &Times, bar: Option<f64>) -> Figure {
    figure(row, what, Unit::Seconds, times.spread(), bar)
}

fn fixed(row: &'static str, what: &str, unit: Unit, value: f64, bar: Option<f64>) -> Figure {
    figure(row, what, unit, Spread::exactly(value), bar)
}

fn figure(row: &'static str, what: &str, unit: Unit, value: Spread, bar: Option<f64>) -> Figure {
    let met = bar.map(|bar| value.median <= bar);
    Figure { row, what: what.to_owned(), unit, value, bar, met, measured: Vec::new() }
}

/// A new store with the memories and so many children.
pub(super) fn filled(path: &Path, children: usize, sync: bool) -> Result<(Vec<String>, SqliteStore), Failure> {
    let mut store = SqliteStore::open(path, &SqliteOptions::default())?.without_sync();
    let ids = fixture::fill(&mut store, children)?;
    let store = if sync { SqliteStore::open(path, &SqliteOptions::default())? } else { store };
    Ok((ids, store))
}

fn task(number: usize) -> String {
    format!("Task {number}: review the checkout's forms, and say what is missing.")
}

pub(super) fn delegate(prefetch: &mut Prefetch<SqliteStore>, task: &str, ids: &[String]) -> Result<String, Failure> {
    match prefetch.delegate(&key(PARENT), &fixture::request(task, ids))? {
        DelegationOutcome::HandedOver(Delegated { memory: Some(MemoryField::SnapshotRef(name)), .. }) => Ok(name),
        other => Err(broken(&format!("a delegation was answered {other:?}"))),
    }
}

pub(super) fn deliver(
    prefetch: &mut Prefetch<SqliteStore>,
    child: &SessionKey,
    claim: Claim,
) -> Result<String, Failure> {
    let answer = prefetch.deliver(child, "start", &claim)?;
    match answer.block {
        Some(block) if answer.outcome == DeliveryOutcome::Delivered && !answer.replayed => Ok(block.text),
        _ => Err(broken(&format!("a delivery was answered {:?}", answer.outcome))),
    }
}

fn natively(policy: &mut Native, child: &SessionKey, request: &policy::Request) -> Result<(), Failure> {
    let outcome = policy.delegate(&key(PARENT), request).map_err(native_failed)?;
    let policy::DelegationOutcome::HandedOver(policy::Delegated {
        memory: Some(policy::MemoryField::SnapshotRef(name)),
        ..
    }) = outcome
    else {
        return Err(broken(&format!("a native delegation was answered {outcome:?}")));
    };
    let answer = policy.deliver(child, "start", &policy::Claim::SnapshotRef(name)).map_err(native_failed)?;
    match answer.outcome {
        policy::DeliveryOutcome::Delivered => Ok(()),
        other => Err(broken(&format!("a native delivery was answered {other:?}"))),
    }
}

fn in_unit<T>(store: &mut SqliteStore, read: impl FnOnce(&mut SqliteStore) -> Rows<T>) -> Rows<T> {
    store.begin_unit(Access::Read)?;
    let rows = read(store)?;
    store.commit()?;
    Ok(rows)
}

fn connection(path: &Path) -> Result<Connection, Failure> {
    let connection = Connection::open(path).map_err(sqlite)?;
    // Or each use of a cached statement would prepare it anew, which takes three times as long as the read.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(sqlite)?;
    Ok(connection)
}

fn text_of(row: &SqlRow) -> rusqlite::Result<String> {
    row.get(0)
}

/// As a program that goes on for long has it: with instances in a pool.
pub(super) fn runtime(app: &App) -> Result<Runtime, Failure> {
    app.runtime_with(Limits::default())
}

pub(super) fn directory() -> Result<tempfile::TempDir, Failure> {
    tempfile::tempdir().map_err(|error| broken(&format!("no directory for the stores can be made: {error}")))
}

pub(super) fn sqlite(error: rusqlite::Error) -> Failure {
    broken(&format!("plain SQLite failed: {error}"))
}

fn native_failed(error: native::NativeError) -> Failure {
    broken(&error.to_string())
}

pub(super) fn broken(why: &str) -> Failure {
    Failure::new(Exit::Component, "bench", why)
}
