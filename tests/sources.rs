//! The stores of other programs as sources of memories: what is read of them, who sees it, and that no byte of theirs is
//! changed. Fixtures are made here; their programs are played by processes of their own.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use memory_prefetch::contract::*;
use memory_prefetch::environment::Clock;
use memory_prefetch::operator::{NewSession, Operator};
use memory_prefetch::sources::Options;
use memory_prefetch::store::{Memories, Place, StoreFailure};
use memory_prefetch::{CallError, MagicContext, Prefetch, Runtime, Spacebot, SqliteOptions, SqliteStore};
use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, params};
use tempfile::TempDir;

const NOW: Instant = 1_800_000_000_000;

const HASTY: Options = Options { busy_timeout: Duration::ZERO, trusted: true };

// The fixtures.

/// What a connection of magic-context has and ours does not.
fn own_functions(connection: &Connection) {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function("mc_own", 1, flags, |_| Ok(1)).unwrap();
}

const MEMORIES: &str = "
    CREATE TABLE memories (
        id INTEGER PRIMARY KEY AUTOINCREMENT, project_path TEXT NOT NULL, category TEXT NOT NULL, content TEXT NOT NULL,
        normalized_hash TEXT, importance INTEGER, scope TEXT DEFAULT 'project', shareable INTEGER DEFAULT 0,
        source_session_id TEXT, source_type TEXT, seen_count INTEGER DEFAULT 1, retrieval_count INTEGER DEFAULT 0,
        first_seen_at INTEGER, created_at INTEGER, updated_at INTEGER, last_seen_at INTEGER, last_retrieved_at INTEGER,
        status TEXT DEFAULT 'active', expires_at INTEGER, verification_status TEXT, superseded_by_memory_id INTEGER,
        merged_from TEXT, metadata_json TEXT);";

const WORKSPACES: &str = "
    CREATE TABLE workspaces (id INTEGER PRIMARY KEY, name TEXT, share_categories TEXT DEFAULT '[\"CONSTRAINTS\"]');
    CREATE TABLE workspace_members (
        workspace_id INTEGER, project_path TEXT, display_name TEXT, display_path TEXT, added_at INTEGER);";

/// With all that calls what only its own program has.
const OWN: &str = "
    CREATE INDEX memories_own ON memories (mc_own(content));
    CREATE INDEX memories_some ON memories (project_path) WHERE mc_own(status) = 1;
    CREATE TRIGGER memories_added AFTER INSERT ON memories BEGIN SELECT mc_own(new.id); END;
    CREATE VIEW memories_seen AS SELECT mc_own(id) FROM memories;
    CREATE TABLE schema_migrations (version INTEGER PRIMARY KEY, applied_at INTEGER);
    INSERT INTO schema_migrations VALUES (60, 1), (99, 2);";

/// A directory with the database of magic-context in it, in WAL mode and closed.
struct Context {
    dir: TempDir,
}

impl Context {
    fn of(sql: &[&str]) -> Context {
        let context = Context { dir: tempfile::tempdir().unwrap() };
        context.change("PRAGMA journal_mode = WAL");
        sql.iter().for_each(|sql| context.change(sql));
        context
    }

    /// As of today, with workspaces.
    fn new() -> Context {
        Context::of(&[MEMORIES, WORKSPACES, OWN])
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("context.db")
    }

    /// What its own program did some time ago. No connection of this process may be open.
    fn change(&self, sql: &str) {
        let connection = Connection::open(self.path()).unwrap();
        own_functions(&connection);
        connection.execute_batch(sql).unwrap();
        drop(connection);
        settle(&self.path());
    }

    fn add(&self, id: i64, project: &str, category: &str, content: &str) {
        let connection = Connection::open(self.path()).unwrap();
        own_functions(&connection);
        let sql = "INSERT INTO memories (id, project_path, category, content, importance, updated_at) VALUES (?, ?, ?, ?, 50, ?)";
        connection.execute(sql, params![id, project, category, content, 1_000 + id]).unwrap();
        drop(connection);
        settle(&self.path());
    }

    fn open(&self) -> MagicContext {
        MagicContext::open(self.path(), &HASTY).unwrap()
    }

    fn failure(&self) -> StoreFailure {
        MagicContext::open(self.path(), &HASTY).err().expect("it was opened")
    }

    fn bytes(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        bytes(self.dir.path())
    }
}

/// As if it had been changed an hour ago.
fn settle(path: &Path) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(3600)).unwrap();
}

/// Every file below a directory, but for the index of a log, which readers share. Read by another process: closing a
/// file drops the locks that this one has on it.
fn bytes(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(bytes(&path));
        } else if !path.to_string_lossy().ends_with("-shm") {
            let output = Command::new("cat").arg(&path).output().unwrap();
            assert!(output.status.success());
            found.insert(path, output.stdout);
        }
    }
    found
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

// The programs that the databases belong to.

/// Set for a child process: the database that it has open.
const FILE: &str = "SOURCE_TEST_FILE";

/// A process that has the database open and does what it is told.
struct Program {
    child: Child,
    replies: BufReader<ChildStdout>,
}

impl Program {
    fn start(path: &Path) -> Program {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "the_program_that_it_belongs_to", "--nocapture", "--test-threads=1"])
            .env(FILE, path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let replies = BufReader::new(child.stdout.take().unwrap());
        Program { child, replies }
    }

    #[track_caller]
    fn run(&mut self, sql: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{}", sql.replace('\n', " ")).unwrap();
        let mut line = String::new();
        while !line.contains("reply: ") {
            line.clear();
            assert!(self.replies.read_line(&mut line).unwrap() > 0, "it has ended");
        }
        assert!(line.contains("reply: done"), "{line}");
    }

    /// End it in the middle of what it does.
    fn crash(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

/// Not a test: what [`Program::start`] runs.
#[test]
fn the_program_that_it_belongs_to() {
    let Some(path) = std::env::var_os(FILE) else { return };
    let connection = Connection::open(path).unwrap();
    own_functions(&connection);
    for line in std::io::stdin().lines() {
        match connection.execute_batch(&line.unwrap()) {
            Ok(()) => println!("reply: done"),
            Err(error) => println!("reply: {error}"),
        }
    }
}

// What asks.

fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(|text| (*text).to_owned()).collect()
}

/// One unit of work that reads.
fn unit<M: Memories, T>(
    source: &mut M,
    work: impl FnOnce(&mut M) -> Result<T, StoreFailure>,
) -> Result<T, StoreFailure> {
    source.begin()?;
    let done = work(source);
    source.end();
    done
}

fn rows(source: &mut impl Memories, ids: &[&str]) -> Vec<Option<Memory>> {
    unit(source, |source| source.memories(&texts(ids), u32::MAX)).unwrap()
}

fn bodies(source: &mut impl Memories, ids: &[&str]) -> Vec<Option<String>> {
    rows(source, ids).into_iter().map(|row| row.and_then(|row| row.body)).collect()
}

fn row(source: &mut impl Memories, id: &str) -> Memory {
    rows(source, &[id]).pop().flatten().unwrap_or_else(|| panic!("no row {id}"))
}

fn key(id: &str) -> SessionKey {
    SessionKey { harness: "local".into(), id: id.into() }
}

/// The component over a store of our own, with a session in each project, named after it, of an agent named after it,
/// each with a child `child of …`.
struct Component {
    prefetch: Prefetch<SqliteStore>,
    _dir: TempDir,
}

impl Component {
    fn over(source: impl Memories + 'static, projects: &[&str]) -> Component {
        let dir = tempfile::tempdir().unwrap();
        let mut store = SqliteStore::open(dir.path().join("own.db"), &SqliteOptions::default()).unwrap();
        for project in projects {
            let (id, agent) = (project.to_string(), format!("agent of {project}"));
            let row = Project { id, workspace: None, memory_on: true, trusted: true, attributes: Vec::new() };
            store.put_project(&row).unwrap();
            store.add_agent(&agent).unwrap();
            let mut session = NewSession {
                key: key(project),
                agent: Some(agent),
                project: Some(project.to_string()),
                parent: None,
                memory_on: true,
            };
            store.put_session(&session).unwrap();
            session.parent = Some(std::mem::replace(&mut session.key, key(&format!("child of {project}"))));
            store.put_session(&session).unwrap();
        }
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sources");
        let mut runtime = Runtime::builder().cache_dir(cache).build().unwrap();
        runtime.set_clock(Clock::Fixed(NOW));
        Component { prefetch: runtime.open(store).unwrap().with_memories(source), _dir: dir }
    }

    fn get(&mut self, session: &str, ids: &[&str]) -> (Vec<String>, Vec<String>) {
        let found = self.prefetch.get(&key(session), &texts(ids)).unwrap();
        (found.memories.into_iter().map(|view| view.body).collect(), found.unavailable)
    }

    fn sees(&mut self, session: &str, id: &str) -> bool {
        self.get(session, &[id]).1.is_empty()
    }

    fn recall(&mut self, session: &str, query: &str) -> Vec<String> {
        let found = self.prefetch.recall(&key(session), None, query, 10).unwrap();
        found.into_iter().map(|view| view.id).collect()
    }

    fn delegate(&mut self, session: &str, ids: &[&str]) -> Receipt {
        let named = MemoryField::PrefetchIds(NamedIds { ids: texts(ids), mode: Mode::Frozen });
        let request = Request::new("the task").with_memory(named, Capacity::bytes(100_000));
        match self.prefetch.delegate(&key(session), &request).unwrap() {
            DelegationOutcome::HandedOver(Delegated { receipt: Some(receipt), .. }) => receipt,
            other => panic!("{other:?}"),
        }
    }

    fn deliver(&mut self, session: &str, receipt: &Receipt) -> String {
        let claim = Claim::SnapshotRef(receipt.snapshot_ref.clone().unwrap());
        let answer = self.prefetch.deliver(&key(&format!("child of {session}")), "start", &claim).unwrap();
        assert_eq!(answer.outcome, DeliveryOutcome::Delivered);
        answer.block.unwrap().text
    }
}

// One database, and nothing of it changes.

#[test]
fn delegated_from_by_id_with_no_copy_made() {
    let context = Context::new();
    let body = " Totals are in cents.\r\n\t日本語 🦀 \u{feff}</memory>\n\n";
    context.add(11, "git:a", "PROJECT_RULES", body);
    let before = context.bytes();
    let unchanged = |what: &str| {
        assert!(context.bytes() == before, "{what} changed it");
        assert_eq!(names(context.dir.path()), ["context.db"], "{what} left something beside it");
    };
    let mut component = Component::over(context.open(), &["git:a"]);
    unchanged("opening");
    assert_eq!(component.get("git:a", &["11", "12"]), (vec![body.to_owned()], texts(&["12"])));
    unchanged("get");
    assert_eq!(component.recall("git:a", "cents"), ["11"]);
    unchanged("recall");
    let receipt = component.delegate("git:a", &["11", "12"]);
    unchanged("delegate");
    assert_eq!(receipt.items.iter().map(|item| item.id.as_str()).collect::<Vec<_>>(), ["11"]);
    assert_eq!(receipt.unavailable, ["12"]);
    let block = component.deliver("git:a", &receipt);
    assert!(block.contains(body), "{block}");
    unchanged("deliver");
    assert_eq!(
        component.prefetch.forget(&texts(&["11"])).unwrap().memories,
        [""; 0],
        "a row of theirs is not ours to erase"
    );
    unchanged("forget");
    assert_eq!(component.prefetch.store().all_memories(0, 10).unwrap(), []);
    drop(component);
    unchanged("closing");
}

#[test]
fn what_was_frozen_stays_when_the_source_changes() {
    let context = Context::new();
    context.add(1, "git:a", "PROJECT_RULES", "as it was");
    let mut component = Component::over(context.open(), &["git:a"]);
    let receipt = component.delegate("git:a", &["1"]);
    let mut program = Program::start(&context.path());
    program.run("UPDATE memories SET content = 'as it is'");
    assert!(component.deliver("git:a", &receipt).contains("as it was"));
    assert_eq!(component.get("git:a", &["1"]).0, ["as it is"]);
    let version = component.delegate("git:a", &["1"]).items[0].version.clone();
    assert_ne!(version, receipt.items[0].version);
    program.run("UPDATE memories SET seen_count = seen_count + 1, updated_at = updated_at + 1");
    assert_eq!(component.delegate("git:a", &["1"]).items[0].version, version, "the body is the same");
    program.end();
}

#[test]
fn what_was_given_needs_the_source_no_more() {
    let context = Context::new();
    context.add(1, "git:a", "PROJECT_RULES", "one");
    let mut component = Component::over(context.open(), &["git:a"]);
    let receipt = component.delegate("git:a", &["1"]);
    let text = component.deliver("git:a", &receipt);
    fs::remove_dir_all(context.dir.path()).unwrap();
    let replayed = component.prefetch.replay(&key("child of git:a")).unwrap();
    assert_eq!(replayed.into_iter().map(|block| block.text).collect::<Vec<_>>(), [text]);
    let failure = component.prefetch.get(&key("git:a"), &texts(&["1"])).unwrap_err();
    assert!(matches!(failure, CallError::Policy(Error::Store(StoreError::Absent(_)))), "{failure:?}");
}

#[cfg(unix)]
#[test]
fn a_link_to_the_database_and_another_file_in_its_place() {
    let context = Context::new();
    context.add(1, "git:a", "X", "one");
    let elsewhere = tempfile::tempdir().unwrap();
    let link = elsewhere.path().join("link.db");
    std::os::unix::fs::symlink(context.path(), &link).unwrap();
    let mut source = MagicContext::open(&link, &HASTY).unwrap();
    assert_eq!(bodies(&mut source, &["1"]), [Some("one".to_owned())]);
    // The log is beside the file, and not beside the link.
    let mut program = Program::start(&context.path());
    program.run("UPDATE memories SET content = 'in the log'");
    settle(&context.path());
    assert_eq!(bodies(&mut source, &["1"]), [Some("in the log".to_owned())]);
    let mut fresh = MagicContext::open(&link, &HASTY).unwrap();
    assert_eq!(bodies(&mut fresh, &["1"]), [Some("in the log".to_owned())]);
    program.end();

    let other = Context::new();
    other.add(1, "git:a", "X", "restored");
    for suffix in ["-wal", "-shm"] {
        let _ = fs::remove_file(context.dir.path().join(format!("context.db{suffix}")));
    }
    fs::rename(other.path(), context.path()).unwrap();
    assert_eq!(bodies(&mut source, &["1"]), [Some("restored".to_owned())]);
    // With as many changes of its schema behind it, and another one.
    let old = MEMORIES.replace("importance INTEGER, ", "");
    let other = Context::of(&[&old, WORKSPACES, OWN]);
    other.change("INSERT INTO memories (id, project_path, category, content) VALUES (1, 'git:a', 'X', 'older')");
    fs::rename(other.path(), context.path()).unwrap();
    assert_eq!(bodies(&mut source, &["1"]), [Some("older".to_owned())]);
    assert_eq!(names(elsewhere.path()), ["link.db"]);
}

#[test]
fn a_database_that_its_program_writes_to() {
    let context = Context::new();
    context.add(1, "git:a", "PROJECT_RULES", "one");
    let mut program = Program::start(&context.path());
    program.run("PRAGMA wal_autocheckpoint = 0");
    program.run("INSERT INTO memories (project_path, category, content) VALUES ('git:a', 'X', 'two')");
    program.run("BEGIN IMMEDIATE");
    program.run("INSERT INTO memories (project_path, category, content) VALUES ('git:a', 'X', 'three')");

    let before = context.bytes();
    assert!(before[&context.dir.path().join("context.db-wal")].len() > 4_096, "nothing is in the log");
    let mut component = Component::over(context.open(), &["git:a"]);
    let all = ["1", "2", "3"];
    assert_eq!(component.get("git:a", &all), (texts(&["one", "two"]), texts(&["3"])));
    assert_eq!(component.recall("git:a", "two three"), ["2"]);
    let receipt = component.delegate("git:a", &all);
    assert!(component.deliver("git:a", &receipt).contains("two"));
    assert!(context.bytes() == before, "reading changed it");
    program.run("COMMIT");
    assert_eq!(component.get("git:a", &all).0, ["one", "two", "three"]);

    // A unit sees one state, whatever is committed meanwhile.
    let mut source = context.open();
    source.begin().unwrap();
    assert_eq!(source.memories(&texts(&["4"]), 100), Ok(vec![None]));
    program.run("INSERT INTO memories (project_path, category, content) VALUES ('git:a', 'X', 'four')");
    assert_eq!(source.memories(&texts(&["4"]), 100), Ok(vec![None]));
    source.end();
    assert_eq!(bodies(&mut source, &["4"]), [Some("four".to_owned())]);
    program.run("PRAGMA wal_checkpoint(TRUNCATE)");
    assert_eq!(bodies(&mut source, &["4"]), [Some("four".to_owned())]);
    program.end();
}

#[test]
fn a_log_that_a_crash_has_left() {
    for with_index in [true, false] {
        let context = Context::new();
        let mut program = Program::start(&context.path());
        program.run("INSERT INTO memories (project_path, category, content) VALUES ('git:a', 'X', 'in the log')");
        program.run("BEGIN");
        program.run("INSERT INTO memories (project_path, category, content) VALUES ('git:a', 'X', 'never committed')");
        program.crash();
        if !with_index {
            fs::remove_file(context.dir.path().join("context.db-shm")).unwrap();
        }
        settle(&context.path());
        let before = context.bytes();
        let mut component = Component::over(context.open(), &["git:a"]);
        assert_eq!(component.get("git:a", &["1", "2"]), (texts(&["in the log"]), texts(&["2"])));
        let receipt = component.delegate("git:a", &["1"]);
        assert!(component.deliver("git:a", &receipt).contains("in the log"));
        drop(component);
        assert!(context.bytes() == before, "with_index: {with_index}");
    }
}

#[test]
fn a_database_at_rest_whose_program_starts_while_it_is_read() {
    let context = Context::new();
    context.add(1, "git:a", "X", "one");
    let mut source = context.open();
    source.begin().unwrap();
    assert!(source.memories(&texts(&["1"]), 100).unwrap()[0].is_some());
    let mut program = Program::start(&context.path());
    program.run("INSERT INTO memories (project_path, category, content) VALUES ('git:a', 'X', 'two')");
    // It was read without a lock, so nothing more of it can be believed.
    for _ in 0..2 {
        assert!(matches!(source.memories(&texts(&["1"]), 100), Err(StoreFailure::Busy(_))));
        assert!(matches!(source.places(&texts(&["git:a"])), Err(StoreFailure::Busy(_))));
    }
    source.end();
    assert_eq!(bodies(&mut source, &["2"]), [Some("two".to_owned())]);
    program.end();

    // Also if it has come and gone: then the time of the file is another one.
    let context = Context::new();
    let mut source = context.open();
    source.begin().unwrap();
    assert_eq!(source.memories(&texts(&["1"]), 100), Ok(vec![None]));
    let mut program = Program::start(&context.path());
    program.run("INSERT INTO memories (project_path, category, content) VALUES ('git:a', 'X', 'one')");
    program.end();
    assert_eq!(names(context.dir.path()), ["context.db"]);
    assert!(matches!(source.memories(&texts(&["1"]), 100), Err(StoreFailure::Busy(_))));
    source.end();
    assert_eq!(bodies(&mut source, &["1"]), [Some("one".to_owned())]);
}

#[cfg(unix)]
#[test]
fn a_directory_that_may_not_be_written() {
    use std::os::unix::fs::PermissionsExt;
    let context = Context::new();
    context.add(1, "git:a", "X", "one");
    let allow = |mode| fs::set_permissions(context.dir.path(), fs::Permissions::from_mode(mode)).unwrap();
    allow(0o500);
    assert_eq!(bodies(&mut context.open(), &["1"]), [Some("one".to_owned())]);
    allow(0o700);
    let mut program = Program::start(&context.path());
    program.run("INSERT INTO memories (project_path, category, content) VALUES ('git:a', 'X', 'two')");
    program.crash();
    fs::remove_file(context.dir.path().join("context.db-shm")).unwrap();
    settle(&context.path());
    allow(0o500);
    let before = context.bytes();
    // The superuser may write anyway.
    if fs::write(context.dir.path().join("probe"), "").is_err() {
        let failure = context.failure();
        assert!(matches!(&failure, StoreFailure::Absent(why) if why.contains("-shm")), "{failure}");
        assert!(context.bytes() == before);
    }
    allow(0o700);
}

#[test]
fn a_database_with_a_rollback_journal() {
    let context = Context::new();
    context.add(1, "git:a", "X", "one");
    context.change("PRAGMA journal_mode = DELETE");
    let before = context.bytes();
    assert_eq!(bodies(&mut context.open(), &["1"]), [Some("one".to_owned())]);
    assert_eq!(names(context.dir.path()), ["context.db"]);
    assert!(context.bytes() == before);

    let mut program = Program::start(&context.path());
    program.run("BEGIN EXCLUSIVE");
    assert!(matches!(context.failure(), StoreFailure::Busy(_)));
    program.run("COMMIT");
    assert!(MagicContext::open(context.path(), &HASTY).is_ok());

    // More than it may hold in memory: it is half written into the file when it crashes.
    program.run("PRAGMA cache_size = 2");
    program.run("BEGIN");
    program.run(
        "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 500) INSERT INTO memories
         (project_path, category, content) SELECT 'git:a', 'X', printf('%01000d', n) FROM n",
    );
    program.crash();
    assert_eq!(names(context.dir.path()), ["context.db", "context.db-journal"]);
    let before = context.bytes();
    let failure = context.failure();
    assert!(matches!(&failure, StoreFailure::Other(why) if why.contains("start its own program")), "{failure}");
    assert!(context.bytes() == before);
}

#[test]
fn files_that_are_no_such_database() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("context.db");
    let failure = |path: &Path| MagicContext::open(path, &HASTY).err().expect("it was opened");
    assert!(matches!(failure(&path), StoreFailure::Absent(_)));
    assert!(matches!(failure(dir.path()), StoreFailure::Absent(_)));
    assert!(names(dir.path()).is_empty());
    // SQLite would delete the log of an empty file.
    fs::write(&path, "").unwrap();
    fs::write(dir.path().join("context.db-wal"), "precious").unwrap();
    let before = bytes(dir.path());
    assert!(matches!(failure(&path), StoreFailure::Absent(_)));
    assert!(bytes(dir.path()) == before);
    fs::remove_file(dir.path().join("context.db-wal")).unwrap();
    for text in ["x".to_owned(), "SQLite format 3\0".to_owned(), "no database ".repeat(1_000)] {
        fs::write(&path, &text).unwrap();
        let failure = failure(&path);
        assert!(matches!(failure, StoreFailure::Damaged(_)), "{failure}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}

#[test]
fn a_name_that_means_something_to_sqlite() {
    let context = Context::new();
    context.add(1, "git:a", "X", "one");
    for name in ["file:x?mode=memory", "%41 b#?c&immutable=0", "ü'\"", ":memory:"] {
        let path = context.dir.path().join(name);
        fs::copy(context.path(), &path).unwrap();
        settle(&path);
        let mut source = MagicContext::open(&path, &HASTY).unwrap();
        assert_eq!(bodies(&mut source, &["1"]), [Some("one".to_owned())], "{name}");
    }
    assert_eq!(names(context.dir.path()).len(), 5);
}

// Schemas.

#[test]
fn an_old_schema_shares_nothing() {
    let old = "CREATE TABLE memories (id INTEGER PRIMARY KEY AUTOINCREMENT, project_path TEXT, category TEXT,
                   content TEXT, status TEXT, expires_at INTEGER, updated_at INTEGER);
               INSERT INTO memories VALUES (1, 'git:a', 'CONSTRAINTS', 'a', 'active', NULL, 7),
                   (2, 'git:b', 'CONSTRAINTS', 'b', 'permanent', NULL, 8), (3, 'git:a', 'X', 'c', 'archived', NULL, 9);";
    let context = Context::of(&[old]);
    let mut source = context.open();
    let found = row(&mut source, "1");
    assert_eq!((found.audience, found.priority, found.updated_at), (Audience::Project, 0, Some(7)));
    let mut component = Component::over(source, &["git:a", "git:b"]);
    assert_eq!(component.get("git:a", &["1", "2", "3"]), (texts(&["a"]), texts(&["2", "3"])));
    assert_eq!(component.get("git:b", &["1", "2", "3"]), (texts(&["b"]), texts(&["1", "3"])));
}

#[test]
fn the_least_that_is_needed() {
    let least = "CREATE TABLE Memories (ID INTEGER PRIMARY KEY, project_path, content, STATUS);
                 INSERT INTO memories VALUES (1, 'git:a', 'a', 'active')";
    assert_eq!(bodies(&mut Context::of(&[least]).open(), &["1"]), [Some("a".to_owned())]);

    let without = |missing: &str| {
        let columns = ["id", "project_path", "content", "status"];
        let columns: Vec<&str> = columns.into_iter().filter(|column| *column != missing).collect();
        Context::of(&[&format!("CREATE TABLE memories ({})", columns.join(", "))])
    };
    for missing in ["id", "project_path", "content", "status"] {
        let failure = without(missing).failure();
        let named = format!("column memories.{missing}");
        assert!(matches!(&failure, StoreFailure::Damaged(why) if why.contains(&named)), "{failure}");
    }
    for other in [
        "CREATE TABLE notes (id)",
        "CREATE VIEW memories AS SELECT 1 AS id, 'p' AS project_path, 'c' AS content, 'active' AS status",
    ] {
        let failure = Context::of(&[other]).failure();
        assert!(matches!(&failure, StoreFailure::Damaged(why) if why.contains("table memories")), "{failure}");
    }
}

static LOGGED: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Logger;

impl log::Log for Logger {
    fn enabled(&self, _: &log::Metadata) -> bool {
        true
    }
    fn log(&self, record: &log::Record) {
        LOGGED.lock().unwrap().push(format!("{} {}", record.level(), record.args()));
    }
    fn flush(&self) {}
}

#[test]
fn a_newer_schema_is_read_and_said_once() {
    let _ = log::set_logger(&Logger);
    log::set_max_level(log::LevelFilter::Warn);
    let newer = "ALTER TABLE memories ADD COLUMN embedding_of_tomorrow BLOB; CREATE TABLE of_tomorrow (x);";
    let warnings = |context: &Context| {
        let path = context.path().display().to_string();
        LOGGED.lock().unwrap().iter().filter(|line| line.starts_with("WARN") && line.contains(&path)).count()
    };
    for version in ["INSERT INTO schema_migrations VALUES (101, 3)", "PRAGMA user_version = 101"] {
        let context = Context::new();
        context.change(newer);
        context.change(version);
        context.add(1, "git:a", "X", "one");
        let mut source = context.open();
        for _ in 0..3 {
            assert_eq!(bodies(&mut source, &["1"]), [Some("one".to_owned())]);
        }
        assert_eq!(warnings(&context), 1, "{version}");
    }
    let known = Context::new();
    known.change("INSERT INTO schema_migrations VALUES (100, 3)");
    known.open();
    assert_eq!(warnings(&known), 0);
}

#[test]
fn a_schema_that_changes_while_it_is_open() {
    let context = Context::of(&[MEMORIES, WORKSPACES]);
    context.add(1, "git:a", "X", "one");
    let mut source = context.open();
    assert_eq!(row(&mut source, "1").priority, 50);
    let mut program = Program::start(&context.path());
    program.run("ALTER TABLE memories DROP COLUMN importance");
    assert_eq!(row(&mut source, "1").priority, 0);
    program.run("ALTER TABLE memories ADD COLUMN importance INTEGER DEFAULT 7");
    assert_eq!(row(&mut source, "1").priority, 7);
    program.run("DROP TABLE workspace_members");
    assert_eq!(row(&mut source, "1").audience, Audience::Project);
    program.run("ALTER TABLE memories RENAME TO memories_2");
    let failure = unit(&mut source, |source| source.memories(&texts(&["1"]), 100)).unwrap_err();
    assert!(matches!(&failure, StoreFailure::Damaged(why) if why.contains("table memories")), "{failure}");
    program.run("ALTER TABLE memories_2 RENAME TO memories");
    assert_eq!(bodies(&mut source, &["1"]), [Some("one".to_owned())]);
    program.end();
}

// Rows.

#[test]
fn a_row_is_what_its_columns_say() {
    let context = Context::new();
    context.add(7, "git:a", "ARCHITECTURE", "body");
    context.change("UPDATE memories SET importance = 90, updated_at = 1700000000000");
    let mut found = row(&mut context.open(), "7");
    assert_eq!(std::mem::take(&mut found.version).len(), 16);
    let expected = Memory {
        id: "7".into(),
        owner: Some("project:git:a".into()),
        project: Some("git:a".into()),
        audience: Audience::Project,
        active: true,
        expires_at: None,
        trusted: true,
        category: "ARCHITECTURE".into(),
        priority: 90,
        version: String::new(),
        updated_at: Some(1_700_000_000_000),
        bytes: 4,
        body: Some("body".into()),
        attributes: Vec::new(),
    };
    assert_eq!(found, expected);
}

#[test]
fn only_the_decimal_text_is_the_id() {
    let context = Context::new();
    context.add(1, "git:a", "X", "one");
    context.add(11, "git:a", "X", "eleven");
    let mut source = context.open();
    for other in ["01", "1.0", " 1", "1 ", "+1", "1e0", "0x1", "１", "", "1\0", "-1", "9223372036854775808"] {
        assert_eq!(rows(&mut source, &[other]), [None], "{other:?}");
    }
    let found = bodies(&mut source, &["11", "2", "1", "11"]);
    assert_eq!(found, [Some("eleven".into()), None, Some("one".into()), Some("eleven".into())]);
}

#[test]
fn rows_that_are_not_in_use_and_rows_that_cannot_be_read() {
    let context = Context::new();
    for id in 1..=16 {
        context.add(id, "git:a", "X", "b");
    }
    let sets = [
        (2, "status = 'permanent'"),
        (3, "status = 'archived'"),
        (4, "status = NULL"),
        (5, "status = 'ACTIVE'"),
        (6, "superseded_by_memory_id = 1"),
        (7, "expires_at = 1800000000000"),
        (8, "expires_at = 1800000000001"),
        (9, "expires_at = 'tomorrow'"),
        (10, "expires_at = -1"),
        (11, "expires_at = 1.5"),
        (12, "content = CAST(x'ff' AS TEXT)"),
        (13, "content = x'6162'"),
        (14, "project_path = ''"),
        (15, "importance = -3"),
        (16, "importance = 9000000000, updated_at = 'soon'"),
    ];
    for (id, set) in sets {
        context.change(&format!("UPDATE memories SET {set} WHERE id = {id}"));
    }
    let mut source = context.open();
    let all: Vec<String> = (1..=16).map(|id| id.to_string()).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let found = rows(&mut source, &all);
    let missing: Vec<&str> = all.iter().zip(&found).filter(|(_, row)| row.is_none()).map(|(id, _)| *id).collect();
    assert_eq!(missing, ["9", "10", "11", "12", "13"]);
    assert_eq!(found[13].as_ref().map(|row| (row.owner.clone(), row.project.clone())), Some((None, None)));
    assert_eq!(found[14].as_ref().map(|row| row.priority), Some(0));
    assert_eq!(found[15].as_ref().map(|row| (row.priority, row.updated_at)), Some((u32::MAX, None)));
    let mut component = Component::over(source, &["git:a"]);
    let seen: Vec<&str> = all.into_iter().filter(|id| component.sees("git:a", id)).collect();
    assert_eq!(seen, ["1", "2", "8", "15", "16"]);
    let mut recalled = component.recall("git:a", "b");
    recalled.sort();
    assert_eq!(recalled, ["1", "15", "16", "2", "8"]);
}

#[test]
fn bodies_are_given_as_long_as_they_fit() {
    let context = Context::new();
    for (id, body) in [(1, "12345"), (2, "123"), (3, "1")] {
        context.add(id, "git:a", "X", body);
    }
    let mut source = context.open();
    let found = unit(&mut source, |source| source.memories(&texts(&["1", "2", "3"]), 7)).unwrap();
    let found: Vec<_> = found.into_iter().flatten().map(|row| (row.bytes, row.body)).collect();
    assert_eq!(found, [(5, Some("12345".into())), (3, None), (1, None)]);
    assert!(source.memories(&texts(&["1"]), 7).is_err(), "no unit is open");
}

// Who sees what.

#[test]
fn another_project_of_the_workspace_sees_what_is_shared_with_it() {
    let context = Context::new();
    context.change(
        "INSERT INTO workspaces VALUES (1, 'w', '[\"CONSTRAINTS\",\"ARCHITECTURE\"]'), (2, 'v', '[\"CONSTRAINTS\"]');
         INSERT INTO workspace_members (workspace_id, project_path) VALUES
             (1, 'git:a'), (1, 'git:b'), (2, 'git:c'), (3, 'git:d')",
    );
    // Whether git:a sees it, too.
    let cases = [
        (1, "CONSTRAINTS", 1, "project", true),
        (2, "ARCHITECTURE", 1, "ecosystem", true),
        (3, "CONSTRAINTS", 1, "universe", true),
        (4, "CONSTRAINTS", 0, "project", false),
        (5, "CONFIG_VALUES", 1, "project", false),
        (6, "constraints", 1, "project", false),
        (7, "CONSTRAINTS", 1, "private", false),
        (8, "CONSTRAINTS", 2, "project", false),
    ];
    for (id, category, shareable, scope, _) in cases {
        context.add(id, "git:b", category, "shared word");
        context.change(&format!("UPDATE memories SET shareable = {shareable}, scope = '{scope}' WHERE id = {id}"));
    }
    // Of a project in another workspace, in one that is not there, in none.
    for (id, project) in [(21, "git:c"), (22, "git:d"), (23, "git:e")] {
        context.add(id, project, "CONSTRAINTS", "shared word");
        context.change(&format!("UPDATE memories SET shareable = 1 WHERE id = {id}"));
    }
    let mut component = Component::over(context.open(), &["git:a", "git:b", "git:c", "git:d", "git:e"]);
    for (id, category, shareable, scope, shared) in cases {
        let id = id.to_string();
        assert_eq!(component.sees("git:a", &id), shared, "{category} {shareable} {scope}");
        assert!(component.sees("git:b", &id), "its own project sees {id}");
        for stranger in ["git:c", "git:d", "git:e"] {
            assert!(!component.sees(stranger, &id), "{stranger} sees {id}");
        }
    }
    for (id, own) in [("21", "git:c"), ("22", "git:d"), ("23", "git:e")] {
        for project in ["git:a", "git:b", "git:c", "git:d", "git:e"] {
            assert_eq!(component.sees(project, id), project == own, "{project} {id}");
        }
    }
    let mut recalled = component.recall("git:a", "shared");
    recalled.sort();
    assert_eq!(recalled, ["1", "2", "3"]);
    assert_eq!(component.recall("git:c", "shared"), ["21"]);
    assert_eq!(component.recall("git:e", "shared"), ["23"]);
    let receipt = component.delegate("git:a", &["1", "4", "21"]);
    assert_eq!(receipt.unavailable, ["4", "21"]);
}

#[test]
fn what_is_no_list_of_categories_shares_nothing() {
    let lists = [
        ("'[\"CONSTRAINTS\"]'", true),
        ("'[\"X\", \"CONSTRAINTS\"]'", true),
        ("'[]'", false),
        ("''", false),
        ("NULL", false),
        ("'CONSTRAINTS'", false),
        ("'\"CONSTRAINTS\"'", false),
        ("'[\"CONSTRAINTS\"'", false),
        ("'[\"CONSTRAINTS\"] x'", false),
        ("'[\"CONSTRAINTS\", 1]'", false),
        ("'{\"0\": \"CONSTRAINTS\"}'", false),
        ("'null'", false),
        ("x'5b5d'", false),
        ("1", false),
    ];
    let context = Context::new();
    context.add(1, "git:b", "CONSTRAINTS", "b");
    context.change(
        "UPDATE memories SET shareable = 1; INSERT INTO workspaces VALUES (1, 'w', NULL);
         INSERT INTO workspace_members (workspace_id, project_path) VALUES (1, 'git:a'), (1, 'git:b')",
    );
    for (list, shared) in lists {
        context.change(&format!("UPDATE workspaces SET share_categories = {list}"));
        let mut component = Component::over(context.open(), &["git:a", "git:b"]);
        assert_eq!(component.sees("git:a", "1"), shared, "{list}");
        assert!(component.sees("git:b", "1"), "{list}");
    }
}

#[test]
fn a_project_counts_as_in_one_workspace() {
    let context = Context::new();
    context.add(1, "git:b", "CONSTRAINTS", "b");
    context.add(2, "git:c", "CONSTRAINTS", "c");
    context.change(
        "UPDATE memories SET shareable = 1;
         INSERT INTO workspaces VALUES (10, 'ten', '[\"CONSTRAINTS\"]'), (9, 'nine', '[]');
         INSERT INTO workspace_members (workspace_id, project_path) VALUES
             (10, 'git:a'), (10, 'git:b'), (9, 'git:b'), (8, 'git:b'), (10, NULL), (10, 'git:z')",
    );
    let mut source = context.open();
    let place = |workspace: &str| Some(Place { workspace: Some(workspace.into()) });
    let asked = texts(&["git:a", "git:b", "git:c", "git:z", "git:unknown", "git:A", ""]);
    let places = unit(&mut source, |source| source.places(&asked)).unwrap();
    let (ten, nine) = (place("magic-context:10"), place("magic-context:9"));
    assert_eq!(places, [ten.clone(), nine, Some(Place { workspace: None }), ten, None, None, None]);
    let members = |source: &mut MagicContext, name: &str| unit(source, |source| source.members(name)).unwrap();
    assert_eq!(members(&mut source, "magic-context:10"), ["git:a", "git:z"]);
    assert_eq!(members(&mut source, "magic-context:9"), ["git:b"]);
    for other in ["magic-context:8", "magic-context:1", "ten", ""] {
        assert_eq!(members(&mut source, other), [""; 0], "{other}");
    }
    assert_eq!(row(&mut source, "1").audience, Audience::Project, "what git:b is in shares nothing");
    assert!(!Component::over(source, &["git:a"]).sees("git:a", "1"));
}

/// As later schemas may have it.
#[test]
fn workspaces_whose_ids_are_texts() {
    let workspaces = "CREATE TABLE workspaces (id TEXT PRIMARY KEY, share_categories TEXT);
        CREATE TABLE workspace_members (workspace_id, project_path TEXT);
        INSERT INTO workspaces VALUES ('w-b', '[\"X\"]'), ('w-a', '[]'), ('7', '[\"X\"]');
        INSERT INTO workspace_members VALUES ('w-b', 'git:a'), ('w-a', 'git:a'), ('w-a', 'git:b'), (7, 'git:b'),
            ('W-B', 'git:c');";
    let context = Context::of(&[MEMORIES, workspaces]);
    let asked = texts(&["git:a", "git:b", "git:c"]);
    let places = unit(&mut context.open(), |source| source.places(&asked)).unwrap();
    let names: Vec<_> = places.into_iter().map(|place| place.and_then(|place| place.workspace)).collect();
    assert_eq!(names, [Some("magic-context:w-a".into()), Some("magic-context:7".into()), None]);
}

/// R10: the source's word about its projects counts, not the directory's.
#[test]
fn a_workspace_of_the_directory_does_not_open_the_source() {
    let context = Context::new();
    context.add(1, "git:b", "CONSTRAINTS", "b");
    context.change(
        "UPDATE memories SET shareable = 1; INSERT INTO workspaces VALUES (1, 'w', '[\"CONSTRAINTS\"]');
         INSERT INTO workspace_members (workspace_id, project_path) VALUES (1, 'git:b')",
    );
    let mut component = Component::over(context.open(), &["git:a", "git:b"]);
    for id in ["git:a", "git:b"] {
        let workspace = Some("magic-context:1".into());
        let row = Project { id: id.into(), workspace, memory_on: true, trusted: true, attributes: Vec::new() };
        component.prefetch.store().put_project(&row).unwrap();
    }
    // It does not know git:a, so the user's own word holds for it, and names that workspace.
    assert!(component.sees("git:a", "1"));
    context_in_use(&context, "INSERT INTO memories (project_path, category, content) VALUES ('git:a', 'X', 'a')");
    assert!(!component.sees("git:a", "1"), "now it knows git:a, and has it in no workspace");
}

fn context_in_use(context: &Context, sql: &str) {
    let mut program = Program::start(&context.path());
    program.run(sql);
    program.end();
}

#[test]
fn what_the_user_does_not_trust_is_handed_to_nobody() {
    let context = Context::new();
    context.add(1, "git:a", "X", "one");
    let source = MagicContext::open(context.path(), &Options { trusted: false, ..HASTY }).unwrap();
    let mut component = Component::over(source, &["git:a"]);
    assert!(!component.sees("git:a", "1"));
    assert!(component.recall("git:a", "one").is_empty());
    let receipt = component.delegate("git:a", &["1"]);
    assert_eq!((receipt.items.len(), receipt.unavailable), (0, texts(&["1"])));
}

#[test]
fn a_search_takes_the_best_of_what_the_filter_admits() {
    let context = Context::new();
    context.add(1, "git:a", "X", "login form");
    context.add(2, "git:a", "X", "the LOGIN page");
    context.add(3, "git:a", "X", "logins");
    context.add(4, "git:b", "X", "login form");
    context.add(5, "git:a", "X", "日本語のログイン");
    let mut source = context.open();
    let filter = SearchFilter {
        owner: "project:git:a".into(),
        shared_in: None,
        projects: texts(&["git:a", "git:b"]),
        at: NOW,
        trusted_only: true,
    };
    let mut search = |filter: &SearchFilter, query: &str, limit, max| {
        let found = unit(&mut source, |source| source.search(filter, query, limit, max)).unwrap();
        found.into_iter().map(|row| (row.id, row.body.is_some())).collect::<Vec<_>>()
    };
    let hit = |id: &str, body| (id.to_owned(), body);
    assert_eq!(search(&filter, "form login", 10, 100), [hit("1", true), hit("2", true)], "two words before one");
    assert_eq!(search(&filter, "login", 10, 100), [hit("2", true), hit("1", true)], "the youngest first");
    assert_eq!(search(&filter, "login", 1, 100), [hit("2", true)]);
    assert_eq!(search(&filter, "login", 10, 14), [hit("2", true), hit("1", false)]);
    assert_eq!(search(&filter, "本語", 10, 100), [hit("5", true)]);
    assert_eq!(search(&filter, "\" OR *", 10, 100), []);
    let shared = SearchFilter { owner: "planner".into(), shared_in: Some("git:b".into()), ..filter.clone() };
    assert_eq!(search(&shared, "login", 10, 100), [hit("4", true)], "the audience of a project is that project");
    assert_eq!(search(&SearchFilter { projects: Vec::new(), ..filter.clone() }, "login", 10, 100), []);
    assert_eq!(search(&SearchFilter { owner: "planner".into(), ..filter }, "login", 10, 100), []);
}

// Spacebot.

const SPACEBOT: &str = "
    CREATE TABLE memories (
        id TEXT PRIMARY KEY, content TEXT NOT NULL, memory_type TEXT NOT NULL, importance REAL NOT NULL DEFAULT 0.5,
        created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, updated_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
        last_accessed_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, access_count INTEGER NOT NULL DEFAULT 0,
        source TEXT, channel_id TEXT, forgotten INTEGER NOT NULL DEFAULT 0);";

/// An instance with the agents `main` and `helper`, and `empty`, which has no database.
struct Instance {
    dir: TempDir,
}

impl Instance {
    fn new() -> Instance {
        let instance = Instance { dir: tempfile::tempdir().unwrap() };
        fs::create_dir_all(instance.dir.path().join("data")).unwrap();
        for agent in ["main", "helper", "empty"] {
            fs::create_dir_all(instance.agent(agent).join("data")).unwrap();
        }
        for agent in ["main", "helper"] {
            instance.change(agent, &format!("PRAGMA journal_mode = WAL; {SPACEBOT}"));
        }
        instance
    }

    fn agent(&self, name: &str) -> PathBuf {
        self.dir.path().join("agents").join(name)
    }

    fn change(&self, agent: &str, sql: &str) {
        let path = self.agent(agent).join("data/spacebot.db");
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        settle(&path);
    }

    fn add(&self, agent: &str, id: &str, content: &str) {
        self.change(
            agent,
            &format!("INSERT INTO memories (id, content, memory_type) VALUES ('{id}', '{content}', 'fact')"),
        );
    }

    fn open(&self) -> Spacebot {
        Spacebot::open(self.dir.path(), &HASTY).unwrap()
    }

    fn project(&self) -> String {
        memory_prefetch::project_identity(self.dir.path()).unwrap()
    }

    /// The component, with a session of each agent.
    fn component(&self) -> Component {
        let project = self.project();
        let mut component = Component::over(self.open(), &[&project]);
        for agent in ["main", "helper", "empty", "elsewhere"] {
            component.prefetch.store().add_agent(agent).unwrap();
            let (agent, project) = (Some(agent.to_owned()), Some(project.clone()));
            let mut session =
                NewSession { key: key(agent.as_deref().unwrap()), agent, project, parent: None, memory_on: true };
            component.prefetch.store().put_session(&session).unwrap();
            session.parent = Some(session.key.clone());
            session.key.id = format!("child of {}", session.key.id);
            component.prefetch.store().put_session(&session).unwrap();
        }
        component
    }
}

#[test]
fn a_memory_of_spacebot_is_its_agents_own() {
    let instance = Instance::new();
    instance.add("main", "m-1", "the main word");
    instance.add("helper", "h-1", "the helping word");
    let before = bytes(instance.dir.path());
    let mut source = instance.open();
    let mut found = row(&mut source, "m-1");
    assert!(found.updated_at.take().is_some() && found.version.len() == 16);
    found.version.clear();
    let expected = Memory {
        id: "m-1".into(),
        owner: Some("main".into()),
        project: Some(instance.project()),
        audience: Audience::Agent,
        active: true,
        expires_at: None,
        trusted: true,
        category: "fact".into(),
        priority: 500,
        version: String::new(),
        updated_at: None,
        bytes: 13,
        body: Some("the main word".into()),
        attributes: Vec::new(),
    };
    assert_eq!(found, expected);
    drop(source);

    let mut component = instance.component();
    assert_eq!(component.get("main", &["m-1", "h-1"]), (texts(&["the main word"]), texts(&["h-1"])));
    assert_eq!(component.get("helper", &["m-1", "h-1"]), (texts(&["the helping word"]), texts(&["m-1"])));
    let receipt = component.delegate("main", &["m-1", "h-1"]);
    assert_eq!(receipt.unavailable, ["h-1"]);
    assert!(component.deliver("main", &receipt).contains("the main word"));
    assert_eq!(component.recall("main", "word"), ["m-1"]);
    drop(component);
    assert!(bytes(instance.dir.path()) == before, "not even the count of uses");
}

#[test]
fn links_to_agents_of_spacebot_are_the_users() {
    let instance = Instance::new();
    instance.add("main", "m-1", "the main word");
    instance.add("helper", "h-1", "the helping word");
    let mut component = instance.component();
    for target in ["helper", "empty", "elsewhere"] {
        let link = Link {
            from_agent: "main".into(),
            to_agent: target.into(),
            direction: Direction::OneWay,
            kind: "peer".into(),
            attributes: Vec::new(),
        };
        component.prefetch.store().add_link(&link).unwrap();
    }
    let before = bytes(instance.dir.path());
    let mut recall = |from: &str, target: &str| component.prefetch.recall(&key(from), Some(target), "word", 10);
    let found = recall("main", "helper").unwrap();
    assert_eq!(found.iter().map(|view| view.id.as_str()).collect::<Vec<_>>(), ["h-1"]);
    for (from, target, expected) in [
        ("helper", "main", Error::WrongDirection),
        ("helper", "empty", Error::NoLink),
        ("main", "empty", Error::StoreNotAvailable),
        ("main", "elsewhere", Error::StoreNotAvailable),
    ] {
        match recall(from, target) {
            Err(CallError::Policy(error)) => assert_eq!(error, expected, "{from} {target}"),
            other => panic!("{from} {target}: {other:?}"),
        }
    }
    assert_eq!(component.get("main", &["m-1", "h-1"]).1, [""; 0]);
    assert!(bytes(instance.dir.path()) == before);
}

#[test]
fn an_id_that_two_agents_have_is_nobodys() {
    let instance = Instance::new();
    for agent in ["main", "helper"] {
        instance.add(agent, "twice", "a word");
        instance.add(agent, agent, "a word");
    }
    let mut component = instance.component();
    assert_eq!(component.get("main", &["twice", "main"]), (texts(&["a word"]), texts(&["twice"])));
    assert_eq!(component.recall("main", "word"), ["main"]);
}

#[test]
fn every_directory_of_spacebot() {
    let instance = Instance::new();
    instance.add("main", "m-1", "main");
    instance.add("helper", "h-1", "helper");
    let owners = |dir: &Path| -> Vec<Option<String>> {
        let mut source = Spacebot::open(dir, &HASTY).unwrap();
        rows(&mut source, &["m-1", "h-1"]).into_iter().map(|row| row.and_then(|row| row.owner)).collect()
    };
    let (main, helper) = (Some("main".to_owned()), Some("helper".to_owned()));
    assert_eq!(owners(instance.dir.path()), [main.clone(), helper.clone()]);
    assert_eq!(owners(&instance.dir.path().join("agents")), [main.clone(), helper]);
    assert_eq!(owners(&instance.agent("main")), [main, None]);
    let elsewhere = tempfile::tempdir().unwrap();
    for dir in [&instance.agent("empty"), elsewhere.path(), &instance.dir.path().join("missing")] {
        assert!(matches!(Spacebot::open(dir, &HASTY), Err(StoreFailure::Absent(_))), "{}", dir.display());
    }

    // An agent that comes while it is open.
    let mut source = instance.open();
    assert_eq!(rows(&mut source, &["n-1"]), [None]);
    fs::create_dir_all(instance.agent("new").join("data")).unwrap();
    instance.change("new", SPACEBOT);
    instance.add("new", "n-1", "new");
    assert_eq!(row(&mut source, "n-1").owner.as_deref(), Some("new"));

    instance.change("helper", "ALTER TABLE memories RENAME COLUMN forgotten TO lost");
    let failure = Spacebot::open(instance.dir.path(), &HASTY).err().unwrap();
    assert!(matches!(&failure, StoreFailure::Damaged(why) if why.contains("column memories.forgotten")), "{failure}");
}

#[test]
fn what_spacebot_writes_into_its_columns() {
    let instance = Instance::new();
    let at = |text: &str| format!("updated_at = '{text}'");
    let times = [
        (at("2026-02-11T10:00:00.123456789+00:00"), Some(1_770_804_000_123)),
        (at("2026-02-11T12:00:00+02:00"), Some(1_770_804_000_000)),
        (at("2026-02-11T10:00:00Z"), Some(1_770_804_000_000)),
        (at("2026-02-11 10:00:00"), Some(1_770_804_000_000)),
        ("updated_at = 1770804000".to_owned(), Some(1_770_804_000_000)),
        ("updated_at = 1770804000123".to_owned(), Some(1_770_804_000_123)),
        (at("yesterday"), None),
        (at(""), None),
        (at("1969-01-01 00:00:00"), None),
        ("updated_at = x'00'".to_owned(), None),
    ];
    instance.add("main", "m-1", "a word");
    for (set, expected) in times {
        instance.change("main", &format!("UPDATE memories SET {set}"));
        assert_eq!(row(&mut instance.open(), "m-1").updated_at, expected, "{set}");
    }
    for (importance, expected) in
        [("0.0", 0), ("0.6", 600), ("0.9996", 1000), ("1", 1000), ("7.5", 1000), ("-1", 0), ("1e999", 1000)]
    {
        instance.change("main", &format!("UPDATE memories SET importance = {importance}"));
        assert_eq!(row(&mut instance.open(), "m-1").priority, expected, "{importance}");
    }
    for (forgotten, active) in [("0", true), ("1", false), ("2", false), ("'no'", false)] {
        instance.change("main", &format!("UPDATE memories SET forgotten = {forgotten}"));
        assert_eq!(row(&mut instance.open(), "m-1").active, active, "{forgotten}");
    }
    instance.change("main", "UPDATE memories SET forgotten = 0, content = CAST(x'6162ff' AS TEXT)");
    assert_eq!(rows(&mut instance.open(), &["m-1"]), [None]);
    assert_eq!(rows(&mut instance.open(), &["M-1"]), [None]);
}

#[test]
fn an_agent_that_is_writing() {
    let instance = Instance::new();
    let path = instance.agent("main").join("data/spacebot.db");
    let mut program = Program::start(&path);
    program.run("INSERT INTO memories (id, content, memory_type) VALUES ('m-1', 'in the log', 'fact')");
    program.run("BEGIN IMMEDIATE");
    program.run("UPDATE memories SET content = 'not committed'");
    let before = bytes(instance.dir.path());
    let mut component = instance.component();
    assert_eq!(component.get("main", &["m-1"]).0, ["in the log"]);
    assert_eq!(component.recall("main", "log"), ["m-1"]);
    drop(component);
    assert!(bytes(instance.dir.path()) == before);
    program.run("COMMIT");
    program.end();
}
