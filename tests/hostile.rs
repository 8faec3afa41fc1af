//! Components that want to harm: each limit and each check of an answer has a guest that breaks it (tests/guest), on both
//! stores. Whatever it does, the host answers with a typed error in finite time, nothing is written but audit entries, and
//! the next call works (F27, F28).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

use memory_prefetch::contract::*;
use memory_prefetch::environment::Clock;
use memory_prefetch::exports::Export;
use memory_prefetch::limits::{Limits, Stopped};
use memory_prefetch::operator::{AuditFilter, NewMemory, NewSession, Operator};
use memory_prefetch::store::{Memories, Rows, StoreFailure};
use memory_prefetch::{CallError, LoadError, MemoryStore, Prefetch, Runtime, SqliteOptions, SqliteStore};
use wasm_encoder as wasm;

const GUEST: &[u8] = include_bytes!(env!("MEMORY_PREFETCH_TEST_GUEST"));

/// A body that is larger than what is left of `bytes_in` after some reads.
const LARGE: usize = 100_000;

fn limits() -> Limits {
    Limits {
        memory: 8 << 20,
        table_elements: 10_000,
        time: Duration::from_secs(1),
        host_calls: 500,
        bytes_in: 2 << 20,
        bytes_out: 2 << 20,
        ..Limits::default()
    }
}

fn guest() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::builder().component_bytes(GUEST).limits(limits()).build().unwrap())
}

fn policy() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::builder().build().unwrap())
}

fn key(id: &str) -> SessionKey {
    SessionKey { harness: "h".into(), id: id.into() }
}

/// A store with memories `1` (large) and `2` and `3` (small) of the agent `a` in the project `p`.
struct Bed<S: Operator + 'static> {
    store: Option<S>,
    /// Everything that is stored, but for the audit.
    rows: fn(&mut S, &Path) -> String,
    dir: tempfile::TempDir,
}

impl Bed<MemoryStore> {
    fn memory() -> Bed<MemoryStore> {
        let rows = |store: &mut MemoryStore, _: &Path| {
            let all = format!("{store:?}");
            // The audit is its last field.
            all.split_once("audit: [").expect("a field for the audit").0.to_owned()
        };
        Bed { store: Some(MemoryStore::new()), rows, dir: tempfile::tempdir().unwrap() }.seeded()
    }
}

impl Bed<SqliteStore> {
    fn sqlite() -> Bed<SqliteStore> {
        let dir = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(file(dir.path()), &SqliteOptions::default()).unwrap();
        Bed { store: Some(store), rows: |_, dir| tables(&file(dir)), dir }.seeded()
    }
}

fn file(dir: &Path) -> PathBuf {
    dir.join("store.db")
}

/// Every row of every table, read as another process would.
fn tables(path: &Path) -> String {
    let connection = rusqlite::Connection::open(path).unwrap();
    let mut names = connection
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'audit%' ORDER BY name")
        .unwrap();
    let names: Vec<String> = names.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert!(names.iter().any(|name| name == "snapshots"), "{names:?}");
    let mut all = String::new();
    for name in names {
        let condition = if name == "sqlite_sequence" { "WHERE name NOT LIKE 'audit%'" } else { "" };
        let mut statement = connection.prepare(&format!("SELECT * FROM \"{name}\" {condition}")).unwrap();
        let columns = statement.column_count();
        let mut rows = statement.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let values: Vec<_> = (0..columns).map(|column| row.get_ref(column).unwrap()).collect();
            all += &format!("{name}: {values:?}\n");
        }
    }
    all
}

impl<S: Operator + 'static> Bed<S> {
    fn seeded(mut self) -> Self {
        let store = self.store();
        let project =
            Project { id: "p".into(), workspace: None, memory_on: true, trusted: true, attributes: Vec::new() };
        store.put_project(&project).unwrap();
        self.session("s", None);
        for (id, bytes) in [("1", LARGE), ("2", 100), ("3", 100)] {
            let memory = NewMemory { id: Some(id.into()), ..NewMemory::new("a", "p", "body ".repeat(bytes / 5)) };
            self.store().add_memory(&memory, 0).unwrap();
        }
        self
    }

    fn session(&mut self, id: &str, parent: Option<&str>) {
        let session = NewSession {
            key: key(id),
            agent: Some("a".into()),
            project: Some("p".into()),
            parent: parent.map(key),
            memory_on: true,
        };
        self.store().put_session(&session).unwrap();
    }

    fn store(&mut self) -> &mut S {
        self.store.as_mut().unwrap()
    }

    fn rows(&mut self) -> String {
        (self.rows)(self.store.as_mut().unwrap(), self.dir.path())
    }

    /// Call a component over this store.
    fn with<T: Send + 'static>(
        &mut self,
        runtime: &Runtime,
        call: impl FnOnce(&mut Prefetch<S>) -> T + Send + 'static,
    ) -> T {
        let prefetch = runtime.open(self.store.take().unwrap()).unwrap();
        self.run(prefetch, call)
    }

    /// A call that does not end fails here.
    fn run<T: Send + 'static>(
        &mut self,
        mut prefetch: Prefetch<S>,
        call: impl FnOnce(&mut Prefetch<S>) -> T + Send + 'static,
    ) -> T {
        let (answer, store) = in_time(move || {
            let answer = call(&mut prefetch);
            (answer, prefetch.into_store())
        });
        self.store = Some(store);
        answer
    }

    /// A child `id` of the session `s` that was given the memories `2` and `3`: its snapshot.
    fn child(&mut self, id: &'static str) -> String {
        self.session(id, Some("s"));
        self.with(policy(), move |prefetch| {
            let memory = MemoryField::PrefetchIds(named(&["2", "3"]));
            let request = Request::new(id).with_memory(memory, Capacity::bytes(10_000));
            let DelegationOutcome::HandedOver(delegated) = prefetch.delegate(&key("s"), &request).unwrap() else {
                panic!("it was not handed over")
            };
            let Some(MemoryField::SnapshotRef(name)) = delegated.memory else { panic!("no ref") };
            prefetch.deliver(&key(id), &name, &Claim::SnapshotRef(name.clone())).unwrap();
            name
        })
    }
}

fn named(ids: &[&str]) -> NamedIds {
    NamedIds { ids: texts(ids), mode: Mode::Frozen }
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// What this gives, if it gives it before a minute is over.
fn in_time<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> T {
    let (give, take) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let _ = give.send(what());
    });
    match take.recv_timeout(Duration::from_secs(60)) {
        Ok(given) => given,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("the host did not stop the component"),
        Err(mpsc::RecvTimeoutError::Disconnected) => match thread.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => unreachable!("it gave nothing"),
        },
    }
}

fn delegate<S: Operator + 'static>(prefetch: &mut Prefetch<S>, task: &str) -> Result<DelegationOutcome, CallError> {
    prefetch.delegate(&key("s"), &Request::new(task))
}

/// Each of these functions as a test on each store.
macro_rules! on_both_stores {
    ($($test:ident)*) => {
        mod in_memory {
            $(#[test] fn $test() { super::$test(super::Bed::memory()) })*
        }
        mod on_sqlite {
            $(#[test] fn $test() { super::$test(super::Bed::sqlite()) })*
        }
    };
}

on_both_stores! {
    whoever_breaks_a_limit_is_stopped
    answers_name_nothing_unknown
    each_export_calls_only_its_imports
    an_instance_serves_one_caller
    nothing_of_a_stopped_instance_is_left
    audit_entries_survive_a_roll_back
    what_is_too_large_to_read_is_an_error
}

/// What comes of a word of the guest's.
#[derive(Clone, Copy)]
enum Expected {
    /// It is honest.
    Works,
    Stopped(Stopped),
    /// Trapped, for a reason with this in it.
    Trapped(&'static str),
    Fails,
    /// The import answered so, and the guest passed it on.
    TooLarge,
}

/// Every word of the guest's list `limit`.
const LIMITS: &[(&str, Expected)] = &[
    ("ok", Expected::Works),
    ("write, then fail", Expected::Fails),
    ("write, then trap", Expected::Trapped("unreachable")),
    ("write, then loop", Expected::Stopped(Stopped::OutOfTime)),
    ("panic", Expected::Trapped("unreachable")),
    ("loop", Expected::Stopped(Stopped::OutOfTime)),
    ("recurse", Expected::Trapped("out of bounds memory access")),
    ("recurse without variables", Expected::Trapped("call stack exhausted")),
    ("grow", Expected::Trapped("unreachable")),
    ("flood of calls", Expected::Stopped(Stopped::TooManyHostCalls)),
    ("flood of reads", Expected::Stopped(Stopped::TooManyHostCalls)),
    ("flood of lines", Expected::Stopped(Stopped::TooManyHostCalls)),
    ("flood of entries", Expected::Stopped(Stopped::TooMuch)),
    ("flood of hashes", Expected::Stopped(Stopped::TooMuch)),
    ("read until refused", Expected::TooLarge),
    ("name too many rows", Expected::TooLarge),
    ("ask for all snapshots", Expected::TooLarge),
    ("huge answer", Expected::Stopped(Stopped::TooMuch)),
    ("huge list", Expected::Stopped(Stopped::TooMuch)),
    ("huge argument", Expected::Stopped(Stopped::TooMuch)),
    ("huge row", Expected::Stopped(Stopped::TooMuch)),
    ("huge line", Expected::Stopped(Stopped::TooMuch)),
    ("huge entry", Expected::Stopped(Stopped::TooMuch)),
    ("invalid answer", Expected::Trapped("utf-8")),
    ("invalid argument", Expected::Trapped("utf-8")),
    ("invalid row", Expected::Trapped("utf-8")),
    ("invalid line", Expected::Trapped("utf-8")),
    ("invalid entry", Expected::Trapped("utf-8")),
    ("too much randomness", Expected::Stopped(Stopped::BadArgument)),
    ("tell", Expected::Fails),
    ("grow, then tell", Expected::Fails),
    ("remember", Expected::Works),
    ("remember, then fail", Expected::Fails),
    ("remember, then trap", Expected::Trapped("unreachable")),
    ("remember, then loop", Expected::Stopped(Stopped::OutOfTime)),
    // The last, since what it writes stays.
    ("write", Expected::Works),
];

fn whoever_breaks_a_limit_is_stopped<S: Operator + 'static>(mut bed: Bed<S>) {
    for (word, expected) in LIMITS {
        let before = bed.rows();
        let answer = bed.with(guest(), move |prefetch| {
            let answer = delegate(prefetch, word);
            assert_eq!(delegate(prefetch, "ok").unwrap(), DelegationOutcome::MemoryOff, "after {word}");
            answer
        });
        let as_expected = match (expected, &answer) {
            (Expected::Works, Ok(DelegationOutcome::MemoryOff)) => true,
            (Expected::Stopped(expected), Err(CallError::Stopped { why, .. })) => expected == why,
            (Expected::Trapped(part), Err(CallError::Trapped { why, .. })) => why.contains(part),
            (Expected::Fails, Err(CallError::Policy(Error::Other(_)))) => true,
            (Expected::TooLarge, Err(CallError::Policy(Error::Store(StoreError::TooLarge(_))))) => true,
            _ => false,
        };
        assert!(as_expected, "{word}: {answer:?}");
        if *word == "write" {
            assert_ne!(bed.rows(), before, "what is compared here must show what is written");
        } else {
            assert!(bed.rows() == before, "{word} has written something");
        }
    }
}

/// An answer that names what it was not given: the guest's list, the word, and what the error says.
const NONSENSE: &[(Export, &str, &str)] = &[
    (Export::Delegate, "unknown ref", "snap_000"),
    (Export::Delegate, "unknown id", "foreign"),
    (Export::Delegate, "unknown snapshot", "snap_000"),
    (Export::Delegate, "unknown item", "foreign"),
    (Export::Delegate, "unknown unavailable", "foreign"),
    (Export::Delegate, "unknown omitted", "foreign"),
    (Export::Delegate, "no pages", "pages"),
    (Export::Delegate, "unknown refused", "foreign"),
    (Export::Delegate, "unknown size", "foreign"),
    (Export::Delegate, "unknown error", "snap_000"),
    (Export::Delegate, "unknown damage", "snap_000"),
    (Export::Revalidate, "other snapshot", "another snapshot"),
    (Export::Revalidate, "other pages", "number of pages"),
    (Export::Revalidate, "foreign item", "foreign"),
    (Export::Deliver, "unknown ref", "snap_000"),
    (Export::Deliver, "page 0", "0 of 1"),
    (Export::Deliver, "page 2", "2 of 3"),
    (Export::Deliver, "other pages", "number of pages"),
    (Export::Deliver, "unknown snapshot", "snap_000"),
    (Export::Deliver, "unknown item", "foreign"),
    (Export::Deliver, "foreign item", "foreign"),
    (Export::Deliver, "unknown refused", "foreign"),
    (Export::Replay, "unknown ref", "snap_000"),
    (Export::Replay, "page 2", "2 of 2"),
    (Export::Replay, "other pages", "number of pages"),
    (Export::Page, "other ref", "another snapshot"),
    (Export::Page, "other number", "2 of 2"),
    (Export::Page, "page of none", "1 of 0"),
    (Export::Page, "other pages", "number of pages"),
    (Export::Get, "unseen", "did not show"),
    (Export::Get, "not asked", "foreign"),
    (Export::Get, "missing", "2"),
    (Export::Get, "twice", "not asked"),
    (Export::Get, "backwards", "place"),
    (Export::Recall, "unseen", "no search"),
    (Export::Recall, "too many", "more results"),
    (Export::Recall, "twice", "twice"),
    (Export::Evictable, "not asked", "foreign"),
    (Export::Evictable, "twice", "place"),
    (Export::Forget, "too many", "overwritten"),
    (Export::Sweep, "too many", "4001"),
    (Export::Decode, "unknown ref", "snap_000"),
    (Export::Decode, "unknown id", "foreign"),
    (Export::ParseMarkers, "unknown id", "foreign"),
];

fn answers_name_nothing_unknown<S: Operator + 'static>(mut bed: Bed<S>) {
    let estimates = NONSENSE.iter().filter(|case| case.0 == Export::Delegate);
    let estimates = estimates.map(|(_, word, names)| (Export::Estimate, *word, *names));
    for (export, word, names) in NONSENSE.iter().copied().chain(estimates) {
        // The words are ids of sessions, which have something to be shown.
        let snapshot_ref = bed.child(word);
        let before = bed.rows();
        let prefetch = guest().open(bed.store.take().unwrap()).unwrap().with_memories(OneMemory);
        let error = bed.run(prefetch, move |prefetch| {
            let error = call(prefetch, export, word, &snapshot_ref).expect_err(word);
            assert_eq!(delegate(prefetch, "ok").unwrap(), DelegationOutcome::MemoryOff);
            error
        });
        match &error {
            CallError::Nonsense { export: found, what } => {
                assert_eq!(*found, export.name());
                assert!(what.contains(names) && what.len() < 200, "{export:?} {word}: {what}");
            }
            other => panic!("{export:?} {word}: {other:?}"),
        }
        assert!(bed.rows() == before, "{export:?} {word} has written something");
        if [Export::Delegate, Export::Deliver].contains(&export) {
            let audit = bed.store().all_audit(&AuditFilter::default(), 1).unwrap();
            assert!(audit[0].rolled_back && audit[0].export == export.name(), "{audit:?}");
        }
    }
}

/// A source of memories that finds the memory `1` whatever is looked for.
struct OneMemory;

impl OneMemory {
    fn memory() -> Memory {
        Memory {
            id: "1".into(),
            owner: Some("a".into()),
            project: Some("p".into()),
            audience: Audience::Agent,
            active: true,
            expires_at: None,
            trusted: true,
            category: String::new(),
            priority: 0,
            version: "1".into(),
            updated_at: None,
            bytes: 4,
            body: Some("body".into()),
            attributes: Vec::new(),
        }
    }
}

impl Memories for OneMemory {
    fn memories(&mut self, ids: &[String], _: u32) -> Rows<Vec<Option<Memory>>> {
        Ok(vec![None; ids.len()])
    }
    fn search(&mut self, _: &SearchFilter, _: &str, _: u32, _: u32) -> Rows<Vec<Memory>> {
        Ok(vec![OneMemory::memory()])
    }
    fn record_access(&mut self, _: &[String], _: Instant) -> Rows<()> {
        Err(StoreFailure::Other("this source is only read".into()))
    }
    fn erase(&mut self, _: &[String]) -> Rows<Vec<String>> {
        Ok(Vec::new())
    }
}

/// Any export, with `word` where the guest looks for one.
fn call<S: Operator + 'static>(
    prefetch: &mut Prefetch<S>,
    export: Export,
    word: &str,
    snapshot_ref: &str,
) -> Result<(), CallError> {
    let session = key(word);
    let request = Request::new("t").with_memory(MemoryField::PrefetchIds(named(&["2", "3"])), Capacity::bytes(10_000));
    match export {
        Export::Estimate => prefetch.estimate(&session, &request).map(drop),
        Export::Delegate => prefetch.delegate(&session, &request).map(drop),
        Export::Revalidate => prefetch.revalidate(&session, snapshot_ref).map(drop),
        Export::Revoke => prefetch.revoke(&session, snapshot_ref),
        Export::Deliver => prefetch.deliver(&session, "later", &Claim::SnapshotRef(snapshot_ref.to_owned())).map(drop),
        Export::Replay => prefetch.replay(&session).map(drop),
        Export::Page => prefetch.page(&session, snapshot_ref, 1).map(drop),
        Export::Get => prefetch.get(&session, &texts(&["2", "3"])).map(drop),
        Export::Recall => prefetch.recall(&session, None, "body", 5).map(drop),
        Export::Evictable => prefetch.evictable(&texts(&[word, "2"])).map(drop),
        Export::Sweep => {
            let place = words("import").iter().position(|import| import == word);
            prefetch.sweep(place.map_or(1000, |place| place as u32 + 1)).map(drop)
        }
        Export::SessionEnded => prefetch.session_ended(&session),
        Export::Forget => prefetch.forget(&texts(&[word])).map(drop),
        Export::Encode => prefetch.encode(&Delegation { task: word.to_owned(), memory: None }).map(drop),
        Export::Decode => prefetch.decode(word).map(drop),
        Export::ParseMarkers => prefetch.parse_markers(word).map(drop),
        Export::Describe => prefetch.describe().map(drop),
    }
}

/// A list of the guest's.
fn words(list: &str) -> Vec<String> {
    static ALL: OnceLock<Vec<(String, String)>> = OnceLock::new();
    let all = ALL.get_or_init(|| guest().open(MemoryStore::new()).unwrap().describe().unwrap().attributes);
    all.iter().filter(|(name, _)| name == list).map(|(_, word)| word.clone()).collect()
}

/// No behaviour of the guest's is without a case here.
#[test]
fn every_word_of_the_guest_has_a_case() {
    let all = guest().open(MemoryStore::new()).unwrap().describe().unwrap().attributes;
    let imports = words("import").into_iter().map(|word| ("import".to_owned(), word));
    let limits = LIMITS.iter().map(|(word, _)| ("limit".to_owned(), (*word).to_owned()));
    let nonsense = NONSENSE.iter().map(|(export, word, _)| (export.name().to_owned(), (*word).to_owned()));
    let cases: BTreeSet<_> = imports.chain(limits).chain(nonsense).collect();
    assert_eq!(cases, BTreeSet::from_iter(all));
}

/// Calls by name are checked as well: scenarios go that way.
#[test]
fn a_call_by_name_is_checked_too() {
    let mut prefetch = guest().open(MemoryStore::new()).unwrap();
    let args = serde_json::json!({ "session": { "harness": "h", "id": "missing" }, "ids": ["2"] });
    let error = memory_prefetch::json::call(&mut prefetch, "tools.get", args.as_object().unwrap()).unwrap_err();
    assert!(matches!(error, memory_prefetch::json::JsonError::Failed(CallError::Nonsense { .. })), "{error}");
}

/// Which exports may call an import that writes (docs/hosts.md).
const WRITING: &[(&str, &[Export])] = &[
    ("memories.record-access", &[Export::Recall]),
    ("snapshots.insert-snapshot", &[Export::Delegate, Export::Deliver]),
    ("snapshots.insert-hand-over", &[Export::Delegate]),
    ("snapshots.insert-delivery", &[Export::Deliver]),
    ("snapshots.revoke", &[Export::Revoke]),
    ("snapshots.overwrite", &[Export::Forget]),
    ("snapshots.end-deliveries", &[Export::SessionEnded]),
    ("snapshots.strip", &[Export::Sweep]),
    ("snapshots.remove", &[Export::Sweep]),
    ("snapshots.remove-unattached", &[Export::Sweep]),
];

fn may_call(export: Export, import: &str) -> bool {
    let without_store = [Export::Encode, Export::Decode, Export::ParseMarkers, Export::Describe];
    match (import, WRITING.iter().find(|(name, _)| *name == import)) {
        (_, Some((_, exports))) => exports.contains(&export),
        ("environment.log", _) => true,
        ("environment.settings", _) => !without_store.contains(&export) || export == Export::ParseMarkers,
        _ => !without_store.contains(&export),
    }
}

fn each_export_calls_only_its_imports<S: Operator + 'static>(mut bed: Bed<S>) {
    let before = bed.rows();
    bed.with(guest(), |prefetch| {
        let imports = words("import");
        assert_eq!(imports.len(), 30);
        // `describe` has no argument that could ask it to.
        for export in Export::ALL.into_iter().filter(|export| *export != Export::Describe) {
            for import in &imports {
                let answer = call(prefetch, export, import, "snap_0");
                let as_expected = match &answer {
                    Err(CallError::Stopped { why: Stopped::ForbiddenImport, .. }) => !may_call(export, import),
                    Err(CallError::Policy(Error::Other(_))) => may_call(export, import),
                    Ok(()) => may_call(export, import) && export == Export::ParseMarkers,
                    Err(_) => false,
                };
                assert!(as_expected, "{export:?} {import}: {answer:?}");
            }
        }
        delegate(prefetch, "ok").unwrap();
    });
    assert!(bed.rows() == before);
}

/// What an instance has kept from calls before, if this session is served by it.
fn kept<S: Operator + 'static>(prefetch: &mut Prefetch<S>, session: &SessionKey) -> String {
    said(prefetch.delegate(session, &Request::new("tell")))
}

fn said<T: std::fmt::Debug>(answer: Result<T, CallError>) -> String {
    match answer {
        Err(CallError::Policy(Error::Other(said))) => said,
        other => panic!("{other:?}"),
    }
}

/// What a component keeps in its memory never reaches another session, in an instance of its own or in memory that was
/// another's.
fn an_instance_serves_one_caller<S: Operator + 'static>(mut bed: Bed<S>) {
    for instances in [0, Limits::default().instances] {
        let limits = Limits { instances, ..limits() };
        let runtime = Runtime::builder().component_bytes(GUEST).limits(limits).build().unwrap();
        bed.with(&runtime, serves_one_caller);
    }
}

fn serves_one_caller<S: Operator + 'static>(prefetch: &mut Prefetch<S>) {
    const ALICE: &str = "kept: alice, and marks";
    let (alice, bob) = (key("alice"), key("bob"));
    let elsewhere = SessionKey { harness: "other".into(), ..alice.clone() };
    let remember = |prefetch: &mut Prefetch<S>| {
        prefetch.delegate(&alice, &Request::new("remember")).unwrap();
        assert_eq!(kept(prefetch, &alice), ALICE, "the same session has the same instance");
    };
    remember(prefetch);
    for other in [&bob, &elsewhere] {
        assert_eq!(kept(prefetch, other), "kept: ");
        assert_eq!(kept(prefetch, &alice), ALICE, "and keeps it while others have theirs");
    }
    assert_eq!(said(prefetch.evictable(&texts(&["tell"]))), "kept: ", "the operator");
    assert_eq!(kept(prefetch, &alice), ALICE);

    // Its instance makes room for others in the end, and they do not find what it left, as far as its memory reached.
    for number in 0..20 {
        let other = key(&number.to_string());
        assert_eq!(said(prefetch.delegate(&other, &Request::new("grow, then tell"))), "kept: ");
    }
    assert_eq!(kept(prefetch, &alice), "kept: ");

    // Nor do instances that have grown take more memory together than one may: three of these do.
    for name in ["carl", "dora", "emil"] {
        prefetch.delegate(&key(name), &Request::new("remember")).unwrap();
    }
    assert_eq!(kept(prefetch, &key("emil")), "kept: emil, and marks");
    assert_eq!(kept(prefetch, &key("carl")), "kept: ");

    // What is erased in the store is in no instance.
    remember(prefetch);
    prefetch.forget(&texts(&["tell"])).unwrap_err();
    assert_eq!(kept(prefetch, &alice), "kept: ");

    // Whose text `wire` is given is not said: each call is a caller of its own.
    let delegation = Delegation { task: "a secret".into(), memory: None };
    remember(prefetch);
    assert_eq!(said(prefetch.decode("tell")), "kept: ");
    prefetch.encode(&delegation).unwrap_err();
    assert_eq!(said(prefetch.decode("tell")), "kept: ");
    prefetch.encode(&delegation).unwrap_err();
    assert_eq!(prefetch.parse_markers("tell").unwrap().text, "kept: ");
}

/// F28: an instance that trapped, or was stopped, is gone; one that answered an error is not.
fn nothing_of_a_stopped_instance_is_left<S: Operator + 'static>(mut bed: Bed<S>) {
    bed.with(guest(), |prefetch| {
        for (task, left) in [
            ("remember, then trap", "kept: "),
            ("remember, then loop", "kept: "),
            ("remember, then fail", "kept: s, and marks"),
        ] {
            delegate(prefetch, task).unwrap_err();
            assert_eq!(kept(prefetch, &key("s")), left, "{task}");
        }
    });
}

/// The audit outlives the unit that it is about, and the host says what the guest could have forged.
fn audit_entries_survive_a_roll_back<S: Operator + 'static>(mut bed: Bed<S>) {
    bed.with(guest(), |prefetch| {
        prefetch.set_clock(Clock::Fixed(5_000));
        delegate(prefetch, "write, then trap").unwrap_err();
        delegate(prefetch, "write, then loop").unwrap_err();
        delegate(prefetch, "write, then fail").unwrap_err();
        delegate(prefetch, "write").unwrap();
    });
    let rows = bed.store().all_audit(&AuditFilter::default(), 10).unwrap();
    let rolled_back: Vec<bool> = rows.iter().map(|row| row.rolled_back).collect();
    assert_eq!(rolled_back, [false, true, true, true]);
    for row in rows {
        assert_eq!(
            (row.at, row.export.as_str(), row.component.as_str()),
            (5_000, "orchestrator.delegate", guest().digest())
        );
        assert_eq!(row.session, Some(key("s")));
    }
}

/// Huge in: what a caller hands over, and what imports answer.
fn what_is_too_large_to_read_is_an_error<S: Operator + 'static>(mut bed: Bed<S>) {
    let small = Limits { bytes_in: LARGE / 2, ..Limits::default() };
    let runtime = Runtime::builder().limits(small).build().unwrap();
    let before = bed.rows();
    bed.with(&runtime, |prefetch| {
        let huge = "x".repeat(LARGE);
        let exports = Export::ALL.into_iter().filter(|export| ![Export::Sweep, Export::Describe].contains(export));
        for export in exports {
            let error = call(prefetch, export, &huge, "snap_0").unwrap_err();
            assert!(matches!(error, CallError::RequestTooLarge { limit, .. } if limit == LARGE / 2), "{error:?}");
        }
        let ask = |ids: &[&str]| {
            Request::new("t").with_memory(MemoryField::PrefetchIds(named(ids)), Capacity::bytes(1_000_000))
        };
        let huge_parts = [
            Request { agent_type: Some(huge.clone()), ..Request::new("t") },
            Request { call_id: Some(huge.clone()), ..Request::new("t") },
            Request { attributes: vec![("a".into(), huge.clone())], ..Request::new("t") },
            Request { priorities: vec![(huge.clone(), 1)], ..Request::new("t") },
            Request { capacity: Some(Capacity::tokens(1, huge.clone())), ..Request::new("t") },
            ask(&[&huge]),
        ];
        for request in huge_parts {
            let error = prefetch.delegate(&key("s"), &request).unwrap_err();
            assert!(matches!(error, CallError::RequestTooLarge { .. }), "{error:?}");
        }

        let error = prefetch.delegate(&key("s"), &ask(&["1"])).unwrap_err();
        assert!(matches!(error, CallError::Policy(Error::Store(StoreError::TooLarge(_)))), "{error:?}");
        let outcome = prefetch.estimate(&key("s"), &ask(&["2"])).unwrap();
        assert!(matches!(outcome, DelegationOutcome::HandedOver(_)), "{outcome:?}");
    });
    assert!(bed.rows() == before);
}

/// A source of large memories, and the most bytes that it was ever asked for.
struct Large(Arc<AtomicU32>);

impl Memories for Large {
    fn memories(&mut self, ids: &[String], max_bytes: u32) -> Rows<Vec<Option<Memory>>> {
        self.0.fetch_max(max_bytes, Ordering::Relaxed);
        let body = (max_bytes as usize >= LARGE).then(|| "x".repeat(LARGE));
        let memory = Memory { bytes: LARGE as u32, body, ..OneMemory::memory() };
        Ok(ids.iter().map(|_| Some(memory.clone())).collect())
    }
    fn search(&mut self, _: &SearchFilter, _: &str, _: u32, _: u32) -> Rows<Vec<Memory>> {
        Ok(Vec::new())
    }
    fn record_access(&mut self, _: &[String], _: Instant) -> Rows<()> {
        Ok(())
    }
    fn erase(&mut self, _: &[String]) -> Rows<Vec<String>> {
        Ok(Vec::new())
    }
}

/// The guest asks for 4 GiB.
#[test]
fn no_store_reads_more_than_may_be_handed_over() {
    let mut bed = Bed::memory();
    let asked = Arc::new(AtomicU32::new(0));
    let prefetch = guest().open(bed.store.take().unwrap()).unwrap().with_memories(Large(asked.clone()));
    let error = bed.run(prefetch, |prefetch| delegate(prefetch, "read until refused").unwrap_err());
    assert!(matches!(error, CallError::Policy(Error::Store(StoreError::TooLarge(_)))), "{error:?}");
    let most = asked.swap(0, Ordering::Relaxed) as usize;
    assert!(most > LARGE && most <= limits().bytes_in, "{most}");

    let prefetch = guest().open(bed.store.take().unwrap()).unwrap().with_memories(Large(asked.clone()));
    bed.run(prefetch, |prefetch| delegate(prefetch, "name too many rows").unwrap_err());
    assert_eq!(asked.load(Ordering::Relaxed), 0, "so many rows do not fit, whatever is in them");
}

/// The guest, and beside it a core module that the component instantiates so many times. It runs before any export can.
fn guest_with(module: &wasm::Module, instances: u32) -> Vec<u8> {
    use wasm::ComponentSection;
    let mut bytes = GUEST.to_vec();
    let index = core_modules(&bytes);
    wasm::ModuleSection(module).append_to_component(&mut bytes);
    let mut section = wasm::InstanceSection::new();
    for _ in 0..instances {
        section.instantiate::<[(&str, wasm::ModuleArg); 0], &str>(index, []);
    }
    section.append_to_component(&mut bytes);
    bytes
}

/// How many core modules a component has, outside of components in it. A section is its id, its size and its content.
fn core_modules(component: &[u8]) -> u32 {
    const PREAMBLE: usize = 8;
    const CORE_MODULE: u8 = 1;
    let (mut rest, mut count) = (&component[PREAMBLE..], 0);
    while let [id, tail @ ..] = rest {
        let length = tail.iter().position(|byte| byte & 0x80 == 0).unwrap() + 1;
        let size = tail[..length].iter().rev().fold(0, |size, byte| size << 7 | usize::from(byte & 0x7f));
        count += u32::from(*id == CORE_MODULE);
        rest = &tail[length + size..];
    }
    count
}

/// A core module with these tables (elements) and this memory (pages), and a function that runs at its start.
fn module(tables: &[u64], memory: Option<u64>, start: impl FnOnce(&mut wasm::InstructionSink)) -> wasm::Module {
    let mut module = wasm::Module::new();
    let mut types = wasm::TypeSection::new();
    types.ty().function([], []);
    let mut functions = wasm::FunctionSection::new();
    functions.function(0);
    let mut all = wasm::TableSection::new();
    for minimum in tables {
        all.table(wasm::TableType {
            element_type: wasm::RefType::FUNCREF,
            table64: false,
            minimum: *minimum,
            maximum: None,
            shared: false,
        });
    }
    let mut memories = wasm::MemorySection::new();
    if let Some(minimum) = memory {
        memories.memory(wasm::MemoryType {
            minimum,
            maximum: None,
            memory64: false,
            shared: false,
            page_size_log2: None,
        });
    }
    let mut body = wasm::Function::new([]);
    start(&mut body.instructions());
    body.instructions().end();
    let mut code = wasm::CodeSection::new();
    code.function(&body);
    module.section(&types).section(&functions).section(&all).section(&memories);
    module.section(&wasm::StartSection { function_index: 0 }).section(&code);
    module
}

/// Trap if the table does not grow by so many elements.
fn grow_table(by: i32) -> impl Fn(&mut wasm::InstructionSink) {
    move |code| {
        code.ref_null(wasm::HeapType::FUNC).i32_const(by).table_grow(0);
        code.i32_const(-1).i32_eq().if_(wasm::BlockType::Empty).unreachable().end();
    }
}

/// Grow as long as it is let, then trap.
fn grow_forever(grow: impl Fn(&mut wasm::InstructionSink)) -> impl Fn(&mut wasm::InstructionSink) {
    move |code| {
        code.loop_(wasm::BlockType::Empty);
        grow(code);
        code.i32_const(-1).i32_ne().br_if(0).end().unreachable();
    }
}

/// Tables, memory and time are limited before the first export runs, and all instances together have one limit.
#[test]
fn instances_are_limited_while_they_are_made() {
    let nothing = |_: &mut wasm::InstructionSink| {};
    let one_table = |by| module(&[1], None, grow_table(by));
    let grown_table = grow_forever(|code| {
        code.ref_null(wasm::HeapType::FUNC).i32_const(64).table_grow(0);
    });
    let grown_memory = grow_forever(|code| {
        code.i32_const(1).memory_grow(0);
    });
    let endless = |code: &mut wasm::InstructionSink| {
        code.loop_(wasm::BlockType::Empty).br(0).end();
    };
    let pages = |bytes: usize| Some((bytes >> 16) as u64);
    let cases: &[(&str, wasm::Module, u32, Expected)] = &[
        ("a table that grows within the limit", one_table(9_000), 1, Expected::Works),
        ("a table that grows over the limit", one_table(11_000), 1, Expected::Trapped("unreachable")),
        ("a table that grows forever", module(&[1], None, grown_table), 1, Expected::Trapped("unreachable")),
        ("a large table", module(&[9_000], None, nothing), 1, Expected::Works),
        ("a table that is too large", module(&[11_000], None, nothing), 1, Expected::Trapped("table")),
        ("tables that are too large together", module(&[6_000, 6_000], None, nothing), 1, Expected::Trapped("table")),
        ("the same table again", module(&[6_000], None, nothing), 2, Expected::Trapped("table")),
        ("a memory", module(&[], pages(5 << 20), nothing), 1, Expected::Works),
        ("a memory that is too large", module(&[], pages(9 << 20), nothing), 1, Expected::Trapped("memory")),
        ("the same memory again", module(&[], pages(5 << 20), nothing), 2, Expected::Trapped("memory")),
        ("a memory that grows forever", module(&[], Some(1), grown_memory), 1, Expected::Trapped("unreachable")),
        ("as many instances", module(&[], None, nothing), 5, Expected::Works),
        ("too many instances", module(&[], None, nothing), 50, Expected::Trapped("instance")),
        ("a start that never ends", module(&[], None, endless), 1, Expected::Stopped(Stopped::OutOfTime)),
    ];
    for (about, module, instances, expected) in cases {
        let bytes = guest_with(module, *instances);
        let runtime = Runtime::builder().component_bytes(bytes).limits(limits()).build().expect(about);
        let mut bed = Bed::memory();
        let before = bed.rows();
        let answer = bed.with(&runtime, |prefetch| delegate(prefetch, "ok"));
        let as_expected = match (expected, &answer) {
            (Expected::Works, Ok(_)) => true,
            (Expected::Trapped(part), Err(CallError::Trapped { why, .. })) => why.contains(part),
            (Expected::Stopped(expected), Err(CallError::Stopped { why, .. })) => why == expected,
            _ => false,
        };
        assert!(as_expected, "{about}: {answer:?}");
        assert!(bed.rows() == before, "{about}");
        // The store goes on with another component.
        bed.with(guest(), |prefetch| delegate(prefetch, "ok")).unwrap();
    }
}

/// The instance after the last one that a runtime may have.
#[test]
fn one_instance_too_many_is_told_of() {
    let runtime =
        Runtime::builder().component_bytes(GUEST).limits(Limits { instances: 2, ..limits() }).build().unwrap();
    let mut open: Vec<_> = (0..3).map(|_| runtime.open(MemoryStore::new()).unwrap()).collect();
    let mut last = open.pop().unwrap();
    let told = |prefetch: &mut Prefetch<MemoryStore>| match prefetch.evictable(&texts(&["tell"])) {
        Err(CallError::Stopped { why, .. }) => Some(why),
        _ => None,
    };
    assert_eq!(open.iter_mut().map(told).collect::<Vec<_>>(), [None, None]);
    assert_eq!(told(&mut last), Some(Stopped::TooManyInstances));
    // Those that are there make room for another caller's.
    for prefetch in &mut open {
        assert_eq!(kept(prefetch, &key("alice")), "kept: ");
    }
    drop(open);
    assert_eq!(told(&mut last), None);
}

/// An export of another type is found before any of them has done anything, whichever is called.
#[test]
fn exports_of_other_types_are_found_at_the_first_call() {
    // Fields of `about.info`, which nothing else has, and of `upkeep.swept`.
    for (from, to) in [("block-prefix", "block-prefax"), ("removed", "remowed")] {
        let bytes = replaced(GUEST, from, to);
        let runtime = Runtime::builder().component_bytes(bytes).limits(limits()).build().unwrap();
        let mut bed = Bed::memory();
        let before = bed.rows();
        let answer = bed.with(&runtime, |prefetch| delegate(prefetch, "ok"));
        assert!(matches!(&answer, Err(CallError::Trapped { why, .. }) if why.contains("type")), "{to}: {answer:?}");
        assert!(bed.rows() == before, "{to}");
        assert!(matches!(runtime.open(MemoryStore::new()).unwrap().describe(), Err(CallError::Trapped { .. })), "{to}");
    }
}

/// F29: before anything runs, with both sides named.
#[test]
fn what_this_host_does_not_offer_is_named() {
    let unknown = [
        ("agent-memory:prefetch/memories@0.1.0", "agent-memory:prefetch/memoirs0@0.1.0"),
        ("agent-memory:prefetch/memories@0.1.0", "agent-memory:prefetch/memories@0.9.0"),
        ("agent-memory:prefetch/memories@0.1.0", "another-memory:prefetch/memory@0.1.0"),
        ("record-access", "record-recess"),
    ];
    for (from, to) in unknown {
        let bytes = replaced(GUEST, from, to);
        let loaded = Runtime::builder().component_bytes(bytes).build();
        let error = loaded.and_then(|runtime| runtime.open(MemoryStore::new()).map(drop)).expect_err(to);
        assert!(matches!(error, LoadError::OtherWorld { .. }), "{error:?}");
        let error = error.to_string();
        assert!(error.contains(to) && error.contains("offers [imports] agent-memory:prefetch/types@0.1.0"), "{error}");
    }
}

/// Names of the same length, so that it stays a valid file.
fn replaced(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len(), "{to}");
    let mut bytes = bytes.to_vec();
    let places: Vec<usize> =
        (0..=bytes.len() - from.len()).filter(|at| bytes[*at..].starts_with(from.as_bytes())).collect();
    assert!(!places.is_empty(), "{from}");
    for at in places {
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
    }
    bytes
}
