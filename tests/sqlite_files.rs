//! What only `SqliteStore` must do: which files it opens, how several processes use one, what the file keeps and what it
//! must not keep, and that nothing in it can make the host panic.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use memory_prefetch::contract::*;
use memory_prefetch::operator::{AuditFilter, MemoryEdit, NewMemory, NewSession, Operator};
use memory_prefetch::sqlite_store::{SqliteOptions, SqliteStore};
use memory_prefetch::store::{Access, AuditRow, Memories, Rows, Store, StoreFailure};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, named_params};
use tempfile::TempDir;

/// Long enough that it passes even where the disk is slow.
const PATIENT: SqliteOptions = SqliteOptions { busy_timeout: Duration::from_secs(60), create: true };
/// Does not wait.
const HASTY: SqliteOptions = SqliteOptions { busy_timeout: Duration::ZERO, create: true };
const EXISTING: SqliteOptions = SqliteOptions { busy_timeout: Duration::ZERO, create: false };

fn place() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    (directory, path)
}

fn key(id: &str) -> SessionKey {
    SessionKey { harness: "local".into(), id: id.into() }
}

fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(|text| (*text).to_owned()).collect()
}

fn memory(id: Option<&str>, body: &str) -> NewMemory {
    NewMemory { id: id.map(Into::into), audience: Audience::Project, ..NewMemory::new("ada", "web", body) }
}

fn frozen(name: &str, memory_ids: &[&str], text: &str) -> Frozen {
    Frozen {
        snapshot: Snapshot {
            snapshot_ref: name.into(),
            owner: key("parent"),
            created_at: 10,
            expires_at: 100,
            keep_until: 100,
            revoked_at: None,
            memory_ids: texts(memory_ids),
            pages: 1,
            state: "{}".into(),
        },
        pages: vec![Page { number: 1, text: text.into(), check: "check".into(), state: "{}".into() }],
    }
}

fn delivery(child: &str, snapshot_ref: Option<&str>) -> Delivery {
    Delivery {
        child: key(child),
        occasion: "start".into(),
        snapshot_ref: snapshot_ref.map(Into::into),
        hand_over: None,
        place: 0,
        at: 20,
        keep_until: 500,
        state: "{}".into(),
        check: None,
        notice: None,
    }
}

fn write<T>(store: &mut SqliteStore, work: impl FnOnce(&mut SqliteStore) -> Rows<T>) -> T {
    store.begin_unit(Access::Write).unwrap();
    let done = work(store).unwrap();
    store.commit().unwrap();
    done
}

/// A store with a row of each kind, closed.
fn filled(path: &Path) {
    let mut store = SqliteStore::open(path, &PATIENT).unwrap();
    store.add_memory(&memory(Some("11"), "eleven"), 1).unwrap();
    store
        .put_session(&NewSession { key: key("parent"), agent: None, project: None, parent: None, memory_on: true })
        .unwrap();
    write(&mut store, |store| {
        store.insert_snapshot(&frozen("snap_1", &["11"], "text"))?;
        store.insert_delivery(&delivery("child", Some("snap_1")))
    });
}

/// Change a file behind the store's back, rules off.
fn tamper(path: &Path, sql: &str) {
    let connection = Connection::open(path).unwrap();
    connection.pragma_update(None, "ignore_check_constraints", true).unwrap();
    connection.pragma_update(None, "foreign_keys", false).unwrap();
    connection.execute_batch(sql).unwrap();
}

/// As [`tamper`], with columns that take any type.
fn tamper_with_types(path: &Path, sql: &str) {
    let connection = Connection::open(path).unwrap();
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, false).unwrap();
    connection.pragma_update(None, "writable_schema", true).unwrap();
    connection
        .execute_batch(
            "UPDATE sqlite_schema SET sql = replace(replace(replace(sql, ' STRICT', ''), 'NOT NULL', ''), 'INTEGER ', 'ANY ')
              WHERE type = 'table' AND name IN ('memories', 'snapshots', 'pages', 'deliveries', 'sessions', 'projects');
             UPDATE sqlite_schema SET sql = replace(sql, 'ANY PRIMARY KEY', 'INTEGER PRIMARY KEY');",
        )
        .unwrap();
    drop(connection);
    tamper(path, sql);
}

/// What opening this file says, after which it has the same bytes as before and nothing lies beside it.
fn refused(path: &Path, options: &SqliteOptions) -> StoreFailure {
    let before = fs::read(path).unwrap();
    let beside = |path: &Path| fs::read_dir(path.parent().unwrap()).unwrap().count();
    let files = beside(path);
    let failure = SqliteStore::open(path, options).err().expect("it was opened");
    assert!(fs::read(path).unwrap() == before, "the file was changed");
    assert_eq!(beside(path), files, "a file was left beside it");
    failure
}

// Files that are refused.

#[test]
fn a_file_that_is_not_there() {
    let (directory, path) = place();
    assert!(matches!(SqliteStore::open(&path, &EXISTING), Err(StoreFailure::Absent(_))));
    assert!(!path.exists());
    let nowhere = directory.path().join("no").join("directory");
    assert!(matches!(SqliteStore::open(nowhere, &PATIENT), Err(StoreFailure::Absent(_))));
    assert!(matches!(SqliteStore::open(directory.path(), &PATIENT), Err(StoreFailure::Absent(_))));
    fs::write(&path, "").unwrap();
    assert!(matches!(refused(&path, &EXISTING), StoreFailure::Absent(_)));
}

#[test]
fn a_name_that_sqlite_would_take_for_something_else() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["file:x?mode=memory", "%41", "a b#?c"] {
        let path = directory.path().join(name);
        SqliteStore::open(&path, &PATIENT).unwrap();
        assert!(fs::metadata(path).unwrap().len() > 0, "{name}");
    }
}

#[test]
fn a_file_that_is_not_sqlite() {
    let (_directory, path) = place();
    for bytes in ["x".to_owned(), "not a database ".repeat(1_000), "SQLite format 3".into(), "\0".repeat(4_096)] {
        fs::write(&path, bytes).unwrap();
        let failure = refused(&path, &PATIENT);
        assert!(matches!(failure, StoreFailure::Damaged(_)), "{failure}");
    }
}

#[test]
fn a_file_of_another_application() {
    let (_directory, path) = place();
    for setting in ["PRAGMA application_id = 7", "PRAGMA application_id = 0", "PRAGMA journal_mode = WAL"] {
        let _ = fs::remove_file(&path);
        Connection::open(&path).unwrap().execute_batch(&format!("{setting}; CREATE TABLE theirs (x);")).unwrap();
        let failure = refused(&path, &PATIENT);
        assert!(matches!(&failure, StoreFailure::Damaged(why) if why.contains("another application")), "{failure}");
    }
}

/// Opening it would move the log of a program that crashed into the file.
#[test]
fn a_log_of_another_application_is_left_alone() {
    let (directory, path) = place();
    let theirs = Connection::open(&path).unwrap();
    theirs.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1);").unwrap();
    let crashed = directory.path().join("crashed.db");
    fs::copy(&path, &crashed).unwrap();
    fs::copy(directory.path().join("store.db-wal"), directory.path().join("crashed.db-wal")).unwrap();
    let log = fs::read(directory.path().join("crashed.db-wal")).unwrap();
    assert!(matches!(refused(&crashed, &PATIENT), StoreFailure::Damaged(_)));
    assert!(fs::read(directory.path().join("crashed.db-wal")).unwrap() == log);
}

#[test]
fn a_file_that_was_cut_off() {
    let (_directory, path) = place();
    filled(&path);
    let whole = fs::read(&path).unwrap();
    for size in [1, 15, 99, 100, 512, 4_095, 4_096, 4_097, whole.len() / 2, whole.len() - 4_096, whole.len() - 1] {
        fs::write(&path, &whole[..size]).unwrap();
        let failure = refused(&path, &PATIENT);
        assert!(matches!(failure, StoreFailure::Damaged(_)), "at {size}: {failure}");
    }
    fs::write(&path, &whole).unwrap();
    SqliteStore::open(&path, &PATIENT).unwrap();
}

/// A disk was full, or the power was cut, while the log was moved into the file. All of it is in the log still.
#[test]
fn a_file_whose_end_was_half_written_beside_its_log() {
    let (directory, path) = place();
    filled(&path);
    let mut store = SqliteStore::open(&path, &PATIENT).unwrap();
    store.add_memory(&memory(Some("55"), &"fifty-five ".repeat(2_000)), 1).unwrap();
    let left = directory.path().join("left.db");
    for ending in [1, 511, 4_095] {
        let mut bytes = fs::read(&path).unwrap();
        bytes.extend(vec![0xa5; ending]);
        fs::write(&left, bytes).unwrap();
        fs::copy(directory.path().join("store.db-wal"), directory.path().join("left.db-wal")).unwrap();
        let mut left = SqliteStore::open(&left, &EXISTING).unwrap();
        assert_eq!(left.all_memories(0, 9).unwrap().len(), 2);
    }
    // Without one, it is what was cut off.
    let mut bytes = fs::read(&left).unwrap();
    bytes.push(0);
    fs::write(&left, bytes).unwrap();
    assert!(matches!(refused(&left, &PATIENT), StoreFailure::Damaged(_)));
}

/// A process was killed, or the power was cut, while it made the store: what it wrote into the file is undone, not refused.
#[test]
fn a_file_whose_first_transaction_was_not_finished() {
    let (directory, path) = place();
    let mut journal = vec![0; 512];
    journal[..8].copy_from_slice(&[0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7]);
    // No page before, sectors of 512 bytes, pages of 4096.
    journal[16..28].copy_from_slice(&[0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 16, 0]);
    let whole = {
        filled(&path);
        fs::read(&path).unwrap()
    };
    for bytes in [&whole[..], &whole[..4_096], &whole[..512], &whole[..50], &[0; 4_096], &[0xa5; 1_000]] {
        fs::write(&path, bytes).unwrap();
        fs::write(directory.path().join("store.db-journal"), &journal).unwrap();
        assert!(matches!(SqliteStore::open(&path, &EXISTING), Err(StoreFailure::Absent(_))));
        let mut store = SqliteStore::open(&path, &PATIENT).unwrap();
        store.add_agent("ada").unwrap();
        assert_eq!(store.all_memories(0, 9).unwrap(), []);
        drop(store);
        // It is one of ours again.
        assert_eq!(SqliteStore::open(&path, &EXISTING).unwrap().agents().unwrap(), ["ada"]);
    }
    // The journal of a file that had pages before says nothing of the kind.
    journal[19] = 1;
    fs::write(&path, "not a database ".repeat(1_000)).unwrap();
    fs::write(directory.path().join("store.db-journal"), &journal).unwrap();
    assert!(matches!(refused(&path, &PATIENT), StoreFailure::Damaged(_)));
}

/// SQLite would throw the log away, and with it what was committed.
#[test]
fn a_file_that_was_cut_to_nothing_beside_its_log() {
    let (directory, path) = place();
    filled(&path);
    let log = directory.path().join("store.db-wal");
    fs::write(&log, "committed").unwrap();
    fs::write(&path, "").unwrap();
    assert!(matches!(refused(&path, &PATIENT), StoreFailure::Damaged(_)));
    assert_eq!(fs::read(&log).unwrap(), b"committed");
}

/// Damage further back shows when it is read, as an error and not as a panic or as "nothing there".
#[test]
fn damage_in_the_middle() {
    let (_directory, path) = place();
    filled(&path);
    let whole = fs::read(&path).unwrap();
    for start in (4_096..whole.len()).step_by(4_096) {
        let mut bytes = whole.clone();
        bytes[start..start + 4_096].fill(0xa5);
        fs::write(&path, &bytes).unwrap();
        let Ok(mut store) = SqliteStore::open(&path, &PATIENT) else { continue };
        let _ = store.begin_unit(Access::Read);
        for failure in [
            store.memories(&texts(&["11"]), 99).err(),
            store.snapshots(&texts(&["snap_1"]), Selection::All).err(),
            store.replay(&key("child"), None, 1, 0).err(),
            store.sessions(&[key("parent")]).err(),
        ] {
            assert!(matches!(failure, None | Some(StoreFailure::Damaged(_))), "at {start}: {failure:?}");
        }
    }
}

#[test]
fn a_file_that_may_only_be_read() {
    let (_directory, path) = place();
    filled(&path);
    let mut permissions = fs::metadata(&path).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&path, permissions).unwrap();
    let failure = refused(&path, &PATIENT);
    assert!(matches!(&failure, StoreFailure::Other(why) if why.contains("only be read")), "{failure}");
}

#[test]
fn a_schema_that_this_program_may_not_read() {
    let (_directory, path) = place();
    filled(&path);
    tamper(&path, "UPDATE store SET schema = 9, oldest_reader = 8, oldest_writer = 8");
    let failure = refused(&path, &PATIENT);
    assert!(matches!(&failure, StoreFailure::Other(why) if why.contains("newer program")), "{failure}");
}

/// A newer program crashed: its log must not be moved into the file by one that may not even read it.
#[test]
fn a_log_of_a_newer_program_is_left_alone() {
    let (directory, path) = place();
    filled(&path);
    let newer = Connection::open(&path).unwrap();
    newer.execute_batch("UPDATE store SET schema = 9, oldest_reader = 9, oldest_writer = 9").unwrap();
    let crashed = directory.path().join("crashed.db");
    let log = directory.path().join("crashed.db-wal");
    fs::copy(&path, &crashed).unwrap();
    fs::copy(directory.path().join("store.db-wal"), &log).unwrap();
    let before = (fs::read(&crashed).unwrap(), fs::read(&log).unwrap());
    let failure = SqliteStore::open(&crashed, &PATIENT).err().unwrap();
    assert!(matches!(&failure, StoreFailure::Other(why) if why.contains("newer program")), "{failure}");
    assert!((fs::read(&crashed).unwrap(), fs::read(&log).unwrap()) == before);
}

#[test]
fn a_schema_that_this_program_may_only_read() {
    let (_directory, path) = place();
    filled(&path);
    tamper(&path, "UPDATE store SET schema = 9, oldest_writer = 8; CREATE TABLE of_a_later_version (x);");
    let before = fs::read(&path).unwrap();
    let mut store = SqliteStore::open(&path, &PATIENT).unwrap();
    store.begin_unit(Access::Read).unwrap();
    assert_eq!(store.replay(&key("child"), None, 1, 0).unwrap().len(), 1);
    store.commit().unwrap();
    let failure = store.begin_unit(Access::Write).unwrap_err();
    assert!(matches!(&failure, StoreFailure::Other(why) if why.contains("newer program")), "{failure}");
    assert!(store.add_agent("ada").is_err());
    drop(store);
    assert!(fs::read(&path).unwrap() == before);
}

/// An additive change by a newer program locks nobody out.
#[test]
fn a_newer_schema_that_only_adds() {
    let (_directory, path) = place();
    filled(&path);
    tamper(&path, "UPDATE store SET schema = 9; ALTER TABLE memories ADD COLUMN mood TEXT; CREATE TABLE more (x);");
    let mut store = SqliteStore::open(&path, &PATIENT).unwrap();
    assert_eq!(store.add_memory(&memory(None, "text"), 1).unwrap(), "2");
}

/// The numbers are looked at again in each unit: a newer program may come while this one runs.
#[test]
fn a_schema_that_changes_meanwhile() {
    let (_directory, path) = place();
    let mut store = SqliteStore::open(&path, &PATIENT).unwrap();
    tamper(&path, "UPDATE store SET schema = 9, oldest_writer = 9");
    assert!(matches!(store.begin_unit(Access::Write), Err(StoreFailure::Other(_))));
    store.begin_unit(Access::Read).unwrap();
    store.commit().unwrap();
    tamper(&path, "UPDATE store SET oldest_reader = 9");
    // What was read is not given out.
    store.begin_unit(Access::Read).unwrap();
    store.replay(&key("child"), None, 1, 0).unwrap();
    assert!(matches!(store.commit(), Err(StoreFailure::Other(_))));
}

// Locks.

/// F22: busy is busy, and never "nothing there".
#[test]
fn a_locked_file_is_busy() {
    let (_directory, path) = place();
    filled(&path);
    let mut store = SqliteStore::open(&path, &HASTY).unwrap();
    let mut other = SqliteStore::open(&path, &HASTY).unwrap();
    other.begin_unit(Access::Write).unwrap();
    assert!(matches!(store.begin_unit(Access::Write), Err(StoreFailure::Busy(_))));
    assert!(matches!(store.add_agent("ada"), Err(StoreFailure::Busy(_))));
    // Readers wait for nobody, and a file can be opened beside a writer.
    store.begin_unit(Access::Read).unwrap();
    assert_eq!(store.replay(&key("child"), None, 1, 0).unwrap().len(), 1);
    store.commit().unwrap();
    SqliteStore::open(&path, &HASTY).unwrap();
    other.roll_back();
    store.begin_unit(Access::Write).unwrap();
}

#[test]
fn a_file_that_another_program_keeps_to_itself_is_busy() {
    let (_directory, path) = place();
    filled(&path);
    let other = Connection::open(&path).unwrap();
    other
        .execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN IMMEDIATE; UPDATE store SET schema = 1; COMMIT;")
        .unwrap();
    for options in [HASTY, SqliteOptions { busy_timeout: Duration::from_millis(50), create: true }] {
        let failure = SqliteStore::open(&path, &options).err().unwrap();
        assert!(matches!(failure, StoreFailure::Busy(_)), "{failure}");
    }
    drop(other);
    SqliteStore::open(&path, &HASTY).unwrap();
}

#[test]
fn a_fresh_file_that_is_locked_is_busy() {
    let (_directory, path) = place();
    fs::write(&path, "").unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    assert!(matches!(SqliteStore::open(&path, &HASTY), Err(StoreFailure::Busy(_))));
    other.execute_batch("ROLLBACK").unwrap();
    SqliteStore::open(&path, &HASTY).unwrap();
}

/// A unit that reads sees one state, whatever others write.
#[test]
fn a_reading_unit_sees_one_state() {
    let (_directory, path) = place();
    filled(&path);
    let mut reader = SqliteStore::open(&path, &PATIENT).unwrap();
    let mut writer = SqliteStore::open(&path, &PATIENT).unwrap();
    let body = |store: &mut SqliteStore| store.memories(&texts(&["11"]), 99).unwrap().pop().flatten().unwrap().body;
    reader.begin_unit(Access::Read).unwrap();
    // The first read fixes what the unit sees.
    assert_eq!(reader.projects(&[]).unwrap(), []);
    assert_eq!(body(&mut reader).as_deref(), Some("eleven"));
    let edit = MemoryEdit { body: Some("changed".into()), ..MemoryEdit::default() };
    writer.edit_memory("11", &edit, 2).unwrap();
    assert_eq!(body(&mut reader).as_deref(), Some("eleven"));
    reader.commit().unwrap();
    assert_eq!(body(&mut reader).as_deref(), Some("changed"));
}

// Processes.

/// Set for a child process: the file to use.
const FILE: &str = "STORE_TEST_FILE";
/// Set for a child process: its number.
const NUMBER: &str = "STORE_TEST_NUMBER";

/// Start this test again in processes of its own.
fn in_processes(test: &str, path: &Path, count: u32) -> Vec<Child> {
    let start = |number: u32| {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(FILE, path)
            .env(NUMBER, number.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    (0..count).map(start).collect()
}

fn wait_for(children: Vec<Child>) {
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// R25: two processes racing make one delivery.
#[test]
fn eight_processes_deliver_to_one_child() {
    if let Some(path) = std::env::var_os(FILE) {
        let mut store = SqliteStore::open(&path, &PATIENT).unwrap();
        let number = std::env::var(NUMBER).unwrap();
        let row = Delivery { state: number, ..delivery("racer", Some("snap_1")) };
        write(&mut store, |store| store.insert_delivery(&row));
        return;
    }
    let (_directory, path) = place();
    filled(&path);
    wait_for(in_processes("eight_processes_deliver_to_one_child", &path, 8));
    let mut store = SqliteStore::open(&path, &EXISTING).unwrap();
    assert_eq!(store.deliveries(&key("racer")).unwrap().len(), 1);
}

/// Several stores on one file in one process: opening one more must not drop the locks of those that are there. Without
/// them another program could take the file for itself, or older versions of SQLite delete the log when they close it.
#[test]
fn opening_does_not_drop_the_locks_of_this_process() {
    if let Some(path) = std::env::var_os(FILE) {
        let other = Connection::open(path).unwrap();
        other.busy_timeout(Duration::ZERO).unwrap();
        other.pragma_update(None, "locking_mode", "EXCLUSIVE").unwrap();
        let read = other.query_row("SELECT count(*) FROM agents", [], |_| Ok(()));
        assert_eq!(read.unwrap_err().sqlite_error_code(), Some(rusqlite::ErrorCode::DatabaseBusy));
        return;
    }
    let (_directory, path) = place();
    let mut store = SqliteStore::open(&path, &PATIENT).unwrap();
    drop(SqliteStore::open(&path, &PATIENT).unwrap());
    drop(SqliteStore::open(&path, &EXISTING).unwrap());
    wait_for(in_processes("opening_does_not_drop_the_locks_of_this_process", &path, 1));
    store.add_agent("ada").unwrap();
}

/// Whoever opens a file that was just made may meet another that still reads it without a log.
#[test]
fn a_fresh_file_that_is_being_read_is_waited_for() {
    let (_directory, path) = place();
    let reader = Connection::open(&path).unwrap();
    reader.execute_batch("PRAGMA application_id = 1835363696; BEGIN; SELECT count(*) FROM sqlite_schema;").unwrap();
    assert!(matches!(SqliteStore::open(&path, &HASTY), Err(StoreFailure::Busy(_))));
    std::thread::scope(|scope| {
        let opening = scope.spawn(|| SqliteStore::open(&path, &PATIENT).map(drop));
        std::thread::sleep(Duration::from_millis(100));
        reader.execute_batch("COMMIT").unwrap();
        opening.join().unwrap().unwrap();
    });
}

/// What was committed is there after a crash, and what was not is not.
#[test]
fn a_process_that_ends_in_the_middle() {
    if let Some(path) = std::env::var_os(FILE) {
        let mut store = SqliteStore::open(&path, &PATIENT).unwrap();
        write(&mut store, |store| store.insert_snapshot(&frozen("snap_2", &[], "kept")));
        store.begin_unit(Access::Write).unwrap();
        store.insert_snapshot(&frozen("snap_3", &[], "lost")).unwrap();
        // No destructor runs, no log is moved.
        std::process::exit(0);
    }
    let (_directory, path) = place();
    filled(&path);
    wait_for(in_processes("a_process_that_ends_in_the_middle", &path, 1));
    let mut store = SqliteStore::open(&path, &HASTY).unwrap();
    let found = store.snapshots(&texts(&["snap_1", "snap_2", "snap_3"]), Selection::None).unwrap();
    assert_eq!(found.iter().map(Option::is_some).collect::<Vec<_>>(), [true, true, false]);
    store.begin_unit(Access::Write).unwrap();
}

// What the file keeps.

#[cfg(unix)]
#[test]
fn only_its_owner_may_open_the_file() {
    use std::os::unix::fs::PermissionsExt;
    let (directory, path) = place();
    let mut store = SqliteStore::open(&path, &PATIENT).unwrap();
    store.add_agent("ada").unwrap();
    let mut names = Vec::new();
    for entry in fs::read_dir(directory.path()).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", entry.file_name());
        names.push(entry.file_name());
    }
    names.sort();
    assert_eq!(names, ["store.db", "store.db-shm", "store.db-wal"]);
}

/// F21.
#[test]
fn reads_never_write() {
    let (directory, path) = place();
    filled(&path);
    let mut store = SqliteStore::open(&path, &PATIENT).unwrap();
    store.put_setting(None, "max-ids", Some("9")).unwrap();
    let bytes = || {
        let read = |name: &str| fs::read(directory.path().join(name)).unwrap();
        (read("store.db"), read("store.db-wal"))
    };
    let before = bytes();
    store.begin_unit(Access::Read).unwrap();
    let key = key("child");
    let filter = OfferFilter {
        parent: key.clone(),
        call_id: None,
        snapshot_ref: None,
        ids_key: None,
        task_digest: None,
        within: None,
        agent_type: None,
        open_only: false,
        with_task: true,
    };
    store.memories(&texts(&["11"]), 99).unwrap();
    store.sessions(std::slice::from_ref(&key)).unwrap();
    store.projects(&texts(&["web"])).unwrap();
    store.workspace_projects("w").unwrap();
    store.links("ada", &texts(&["bob"])).unwrap();
    store.snapshots(&texts(&["snap_1"]), Selection::All).unwrap();
    store.pinned(&texts(&["11"]), 1).unwrap();
    store.holding(&texts(&["11"]), 9).unwrap();
    store.expired(1_000, 9).unwrap();
    store.find_hand_overs(&filter, 9).unwrap();
    store.deliveries(&key).unwrap();
    store.replay(&key, None, 1, 0).unwrap();
    store.settings(None, &texts(&["max-ids"])).unwrap();
    store.all_memories(0, 9).unwrap();
    store.all_audit(&AuditFilter::default(), 9).unwrap();
    store.commit().unwrap();
    assert!(bytes() == before);
    // Opening and closing do not write either.
    let shared = SqliteStore::open(&path, &PATIENT).unwrap();
    drop(shared);
    assert!(bytes() == before);
    drop(store);
    let before = fs::read(&path).unwrap();
    let mut store = SqliteStore::open(&path, &PATIENT).unwrap();
    store.begin_unit(Access::Read).unwrap();
    store.replay(&key, None, 1, 0).unwrap();
    store.roll_back();
    drop(store);
    assert!(fs::read(&path).unwrap() == before);
}

/// R2: also not after deletion, not after closing, and not for whoever writes SQL.
#[test]
fn an_id_is_never_given_out_again() {
    let (_directory, path) = place();
    let mut store = SqliteStore::open(&path, &PATIENT).unwrap();
    for expected in ["1", "2", "3"] {
        assert_eq!(store.add_memory(&memory(None, "text"), 1).unwrap(), expected);
    }
    store.add_memory(&memory(Some("5"), "text"), 1).unwrap();
    write(&mut store, |store| store.erase(&texts(&["3", "5", "nobody"])));
    assert_eq!(store.memories(&texts(&["2", "3", "5"]), 99).unwrap().iter().flatten().count(), 1);
    drop(store);
    let mut store = SqliteStore::open(&path, &PATIENT).unwrap();
    assert!(matches!(store.add_memory(&memory(Some("3"), "text"), 1), Err(StoreFailure::Other(_))));
    let fresh = store.add_memory(&memory(None, "text"), 1).unwrap();
    assert!(!["1", "2", "3", "5"].contains(&fresh.as_str()), "{fresh}");
    let direct = Connection::open(&path).unwrap();
    let insert = "INSERT INTO memories (trusted, priority, created_at, updated_at, memory_id, audience, category, body)
                  VALUES (1, 0, 0, 0, '3', 'agent', '', '')";
    assert!(direct.execute(insert, []).is_err());
}

/// Every file beside the store, in one.
fn all_bytes(directory: &TempDir) -> Vec<u8> {
    let entries = fs::read_dir(directory.path()).unwrap();
    entries.flat_map(|entry| fs::read(entry.unwrap().path()).unwrap()).collect()
}

fn holds(directory: &TempDir, text: &str) -> bool {
    all_bytes(directory).windows(text.len()).any(|window| window == text.as_bytes())
}

type Erase = fn(&mut SqliteStore) -> Rows<()>;

/// R17: FTS5 left the old places of a word that fills a page of the index, where a body was replaced in one transaction.
#[test]
fn no_word_of_a_replaced_body_is_left() {
    const WORD: &str = "replaceme";
    for times in [1, 1_000, 2_000, 3_000, 3_500, 4_000, 6_000] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.db");
        let mut store = SqliteStore::open(&path, &SqliteOptions::default()).unwrap();
        let body = format!("{WORD} ").repeat(times);
        store.add_memory(&memory(Some("1"), &body), 1).unwrap();
        for edit in [format!("{body}again"), body.replace(' ', "-")] {
            store.edit_memory("1", &MemoryEdit { body: Some(edit), ..MemoryEdit::default() }, 2).unwrap();
        }
        write(&mut store, |store| store.erase(&texts(&["1"])));
        drop(store);
        let file = std::fs::read(&path).unwrap();
        let left = file.windows(WORD.len()).any(|part| part == WORD.as_bytes());
        assert!(!left, "{times} times");
    }
}

/// R17: an erased text is neither in the file nor in its log once the unit is kept.
#[test]
fn erased_text_does_not_survive() {
    let secret = |name: &str| format!("SECRET-{name}-").repeat(2_000);
    let erase: [(&str, Erase); 5] = [
        ("overwrite", |store| store.overwrite(&[frozen("snap_2", &[], "short")])),
        ("strip", |store| store.strip(&texts(&["snap_2"]), 1)),
        ("remove", |store| store.remove(&texts(&["snap_2"]))),
        ("erase", |store| store.erase(&texts(&["55"])).map(drop)),
        ("unattached", |store| store.remove_unattached(1_000, 9).map(drop)),
    ];
    for (name, erase) in erase {
        let (directory, path) = place();
        filled(&path);
        let mut store = SqliteStore::open(&path, &PATIENT).unwrap();
        let secret = secret(name);
        match name {
            "erase" => drop(store.add_memory(&memory(Some("55"), &secret), 1).unwrap()),
            "unattached" => {
                let told = Delivery { notice: Some(secret), check: Some("c".into()), ..delivery("told", None) };
                assert!(write(&mut store, |store| store.insert_delivery(&told)));
            }
            _ => write(&mut store, |store| store.insert_snapshot(&frozen("snap_2", &["11"], &secret))),
        }
        let mark = format!("SECRET-{name}-");
        assert!(holds(&directory, &mark), "{name}");
        write(&mut store, erase);
        assert!(!holds(&directory, &mark), "{name}");
    }
}

/// R17, R42: nor is any of its words in the search index, however its terms were spread over the index by then: among many
/// others, merged or not, edited, archived, with words that begin like others.
#[test]
fn no_word_of_an_erased_memory_is_left() {
    let (directory, path) = place();
    let mut store = SqliteStore::open(&path, &PATIENT).unwrap();
    // Words that surround those that are erased, in every page of the index.
    let filler = |from: usize, to: usize| {
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch("PRAGMA foreign_keys = ON; PRAGMA secure_delete = ON; BEGIN IMMEDIATE").unwrap();
        for n in from..to {
            let words: Vec<String> = (0..40)
                .map(|k| format!("{}{:x}", ["qu", "zy", "ab", "xw"][k % 4], (n * 40 + k) * 7_919 % 99_991))
                .collect();
            connection
                .execute(
                    "INSERT INTO memories (trusted, priority, created_at, updated_at, memory_id, audience, owner, project,
                     category, body) VALUES (1, 0, 1, 1, ?1, 'project', 'ada', 'web', '', ?2)",
                    (format!("filler {n}"), words.join(" ")),
                )
                .unwrap();
        }
        connection.execute_batch("COMMIT").unwrap();
    };
    let unique = |name: &str| -> Vec<String> {
        ["quokkazeit", "zyzzyvaform", "abfrakt", "xwlongwordthatnobodyelsehas"]
            .map(|word| format!("{word}{name}"))
            .to_vec()
    };
    let cases = ["plain", "edited", "archived", "merged", "old"];
    let add = |store: &mut SqliteStore, name: &str| {
        let body = format!("{} and 固定{name}小数 SQLiteを使う", unique(name).join(" "));
        store.add_memory(&memory(Some(name), &body), 1).unwrap();
    };
    add(&mut store, "old");
    filler(0, 750);
    // So many that they fill pages of the index, and begin others.
    let many: Vec<String> = (0..300).map(|n| format!("many {n}")).collect();
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch("PRAGMA secure_delete = ON; BEGIN IMMEDIATE").unwrap();
    for (n, id) in many.iter().enumerate() {
        let word = |k: usize| format!("zyvkq{:x} xw{:x}vkq", n * 40 + k, (n * 40 + k) * 7_919);
        let words: Vec<String> = (0..40).map(word).collect();
        connection
            .execute(
                "INSERT INTO memories (trusted, priority, created_at, updated_at, memory_id, audience, owner, project,
                 category, body) VALUES (1, 0, 1, 1, ?1, 'project', 'ada', 'web', '', ?2)",
                (id, words.join(" ")),
            )
            .unwrap();
    }
    connection.execute_batch("COMMIT").unwrap();
    drop(connection);
    filler(750, 1_500);
    for name in &cases[..4] {
        add(&mut store, name);
    }
    filler(1_500, 3_000);
    Connection::open(&path)
        .unwrap()
        .execute_batch("PRAGMA secure_delete = ON; INSERT INTO memory_words (memory_words, rank) VALUES ('merge', 16)")
        .unwrap();
    let edit = MemoryEdit { body: Some("short".into()), ..MemoryEdit::default() };
    store.edit_memory("edited", &edit, 2).unwrap();
    store.archive_memory("archived", true).unwrap();
    for word in unique("plain") {
        assert!(holds(&directory, &word), "{word}");
    }
    for name in cases {
        write(&mut store, |store| store.erase(&texts(&[name])));
        for word in unique(name) {
            // Also not the part that tells it from its neighbours.
            let rest = &word[2..];
            assert!(!holds(&directory, &word) && !holds(&directory, rest), "{word} of {name}");
        }
    }
    assert!(holds(&directory, "vkq"));
    write(&mut store, |store| store.erase(&many));
    assert!(!holds(&directory, "vkq"));
    let filter =
        SearchFilter { owner: "ada".into(), shared_in: None, projects: texts(&["web"]), at: 1, trusted_only: true };
    store.begin_unit(Access::Read).unwrap();
    assert_eq!(store.search(&filter, "quokkazeitplain 固定 SQLite", 9, u32::MAX).unwrap(), []);
    store.commit().unwrap();
    let sound: i64 = Connection::open(&path)
        .unwrap()
        .query_row("SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'", [], |row| row.get(0))
        .unwrap();
    assert_eq!(sound, 0);
}

/// Rows of many lengths, of which two thirds were made longer or shorter, so that SQLite had to make room.
fn fill_with_moved(path: &Path) {
    let body = |n: usize, version: usize| format!("[{n:05} {version}]").repeat([5, 15, 25, 60][(7 * n + version) % 4]);
    let connection = Connection::open(path).unwrap();
    connection.execute_batch("PRAGMA secure_delete = ON; BEGIN IMMEDIATE").unwrap();
    for n in 0..600 {
        let sql = "INSERT INTO memories (trusted, priority, created_at, updated_at, memory_id, audience, owner, project, category, body)
                   VALUES (1, 0, 1, 1, ?1, 'project', 'ada', 'web', '', ?2)";
        connection.execute(sql, (n.to_string(), body(n, 1))).unwrap();
    }
    for n in (0..600).map(|n| n * 7 % 600).filter(|n| n % 3 != 0) {
        connection.execute("UPDATE memories SET body = ?2 WHERE memory_id = ?1", (n.to_string(), body(n, 2))).unwrap();
    }
    connection.execute_batch("COMMIT").unwrap();
}

/// SQLite moves rows from page to page, to make room for others, and leaves copies behind.
#[test]
fn no_copy_of_an_erased_memory_is_left_where_it_was_once() {
    let (directory, path) = place();
    let mut store = SqliteStore::open(&path, &PATIENT).unwrap();
    fill_with_moved(&path);
    let erased: Vec<usize> = (0..600).filter(|n| n % 5 == 0).collect();
    let ids: Vec<String> = erased.iter().map(usize::to_string).collect();
    write(&mut store, |store| store.erase(&ids));
    let bytes = all_bytes(&directory);
    let found: HashSet<&[u8]> = bytes.windows(7).filter(|window| window[0] == b'[').collect();
    let left: Vec<&usize> = erased.iter().filter(|n| found.contains(format!("[{n:05} ").as_bytes())).collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(!store.is_scrub_due());
    assert_eq!(store.all_memories(0, 999).unwrap().len(), 480);
    assert!(found.contains(&b"[00001 "[..]));
}

/// Who has something of its own to take out may find another's note: that one may have erased a memory.
#[test]
fn the_note_of_another_erasure_is_not_taken_for_ones_own() {
    let (directory, path) = place();
    let mut first = SqliteStore::open(&path, &PATIENT).unwrap();
    fill_with_moved(&path);
    let reader = Connection::open(&path).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM memories").unwrap();
    let edit = MemoryEdit { body: Some("short".into()), ..MemoryEdit::default() };
    first.edit_memory("1", &edit, 2).unwrap();
    assert!(first.is_scrub_due());
    let ids: Vec<String> = (0..600).filter(|n| n % 5 == 0).map(|n: usize| n.to_string()).collect();
    let mut second = SqliteStore::open(&path, &PATIENT).unwrap();
    write(&mut second, |store| store.erase(&ids));
    assert!(second.is_scrub_due());
    drop(second);
    reader.execute_batch("COMMIT").unwrap();
    first.add_agent("another").unwrap();
    assert!(!first.is_scrub_due());
    let bytes = all_bytes(&directory);
    let found: HashSet<&[u8]> = bytes.windows(7).filter(|window| window[0] == b'[').collect();
    let left: Vec<_> = ids.iter().filter(|id| found.contains(format!("[{id:0>5} ").as_bytes())).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// A large file is not written anew for each memory that is erased.
#[test]
fn the_file_is_written_anew_only_if_it_has_copies() {
    let (_directory, path) = place();
    let mut store = SqliteStore::open(&path, &PATIENT).unwrap();
    for id in ["one", "two", "three"] {
        store.add_memory(&memory(Some(id), &format!("the body of {id}")), 1).unwrap();
    }
    // VACUUM raises it.
    let connection = Connection::open(&path).unwrap();
    let version = || connection.pragma_query_value(None, "schema_version", |row| row.get::<_, i64>(0)).unwrap();
    let before = version();
    write(&mut store, |store| store.erase(&texts(&["one", "three"])));
    assert_eq!(version(), before);
    fill_with_moved(&path);
    write(&mut store, |store| store.erase(&texts(&["0"])));
    let anew = version();
    assert!(anew > before);
    write(&mut store, |store| store.erase(&texts(&["5"])));
    assert_eq!(version(), anew);
}

/// FTS5 keeps how the first term of each page begins, whole where its neighbour is close, also when that term is deleted.
#[test]
fn no_erased_word_is_left_between_the_pages_of_the_index() {
    let (directory, path) = place();
    let mut store = SqliteStore::open(&path, &PATIENT).unwrap();
    let number = |n: usize| format!("{}", 4_929_000_000_000_000_u64 + 7 * n as u64);
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch("PRAGMA secure_delete = ON; BEGIN IMMEDIATE").unwrap();
    for n in 0..10_000 {
        connection
            .execute(
                "INSERT INTO memories (trusted, priority, created_at, updated_at, memory_id, audience, owner, project,
                 category, body) VALUES (1, 0, 1, 1, ?1, 'project', 'ada', 'web', '', ?2)",
                (n.to_string(), format!("card {}", number(n))),
            )
            .unwrap();
    }
    connection.execute_batch("COMMIT").unwrap();
    let between = |connection: &Connection| -> Vec<String> {
        let mut statement = connection
            .prepare("SELECT CAST(substr(term, 2) AS TEXT) FROM memory_words_idx WHERE length(term) > 1")
            .unwrap();
        statement.raw_query().mapped(|row| row.get(0)).collect::<Result<_, _>>().unwrap()
    };
    let kept = between(&connection);
    let whole: Vec<usize> = (0..10_000).filter(|n| kept.contains(&number(*n))).collect();
    assert!(!whole.is_empty(), "this test has lost its point: {kept:?}");
    let ids: Vec<String> = whole.iter().map(usize::to_string).collect();
    assert_eq!(write(&mut store, |store| store.erase(&ids)).len(), ids.len());
    for n in &whole {
        assert!(!holds(&directory, &number(*n)), "{}", number(*n));
    }
    let check = "INSERT INTO memory_words (memory_words, rank) VALUES ('integrity-check', 1)";
    connection.execute_batch(check).unwrap();
    // All of them: an index without a term.
    let all: Vec<String> = (0..10_000).map(|n| n.to_string()).collect();
    write(&mut store, |store| store.erase(&all));
    assert!(!holds(&directory, "49290"));
    connection.execute_batch(check).unwrap();
    assert_eq!(between(&connection), [""; 0]);
}

/// What another program does to the rows by the usual ways round a conflict: refused, so that the index and R2 hold.
#[test]
fn no_other_program_can_put_an_id_to_a_second_use() {
    let (directory, path) = place();
    let mut store = SqliteStore::open(&path, &PATIENT).unwrap();
    store.add_memory(&memory(Some("one"), "zyzzyva"), 1).unwrap();
    store.add_memory(&memory(Some("two"), "other"), 1).unwrap();
    store.add_memory(&memory(Some("gone"), "quokka"), 1).unwrap();
    write(&mut store, |store| store.erase(&texts(&["gone"])));
    let connection = Connection::open(&path).unwrap();
    let insert = |or: &str, id: &str| {
        connection.execute(
            &format!(
                "INSERT {or} INTO memories (trusted, priority, created_at, updated_at, memory_id, audience, category, body)
                 VALUES (1, 0, 1, 1, ?1, 'agent', '', 'new')"
            ),
            [id],
        )
    };
    for or in ["", "OR REPLACE", "OR IGNORE", "OR FAIL", "OR ABORT"] {
        for id in ["one", "gone"] {
            assert!(insert(or, id).is_err(), "{or} {id}");
        }
    }
    for change in ["memory_id = 'one'", "memory_id = 'new'", "id = 77", "rowid = 77"] {
        for or in ["", "OR REPLACE", "OR IGNORE"] {
            let change = format!("UPDATE {or} memories SET {change} WHERE memory_id = 'two'");
            assert!(connection.execute(&change, []).is_err(), "{change}");
        }
    }
    let check = "INSERT INTO memory_words (memory_words, rank) VALUES ('integrity-check', 1)";
    connection.execute_batch(check).unwrap();
    store.archive_memory("two", true).unwrap();
    connection.execute_batch(check).unwrap();
    write(&mut store, |store| store.erase(&texts(&["one", "two"])));
    assert!(!holds(&directory, "zyzzyva"));
    connection.execute_batch(check).unwrap();
}

/// A log that could not be cut off is cut off by whoever writes next, in whichever process.
#[test]
fn erased_text_is_taken_out_of_the_log_by_another_process_too() {
    let (directory, path) = place();
    let secret = "SECRET-LATER-".repeat(2_000);
    let mut reader = SqliteStore::open(&path, &HASTY).unwrap();
    let mut store = SqliteStore::open(&path, &HASTY).unwrap();
    let mut other = SqliteStore::open(&path, &HASTY).unwrap();
    write(&mut store, |store| store.insert_snapshot(&frozen("snap_1", &["11"], &secret)));
    reader.begin_unit(Access::Read).unwrap();
    reader.snapshots(&texts(&["snap_1"]), Selection::None).unwrap();
    write(&mut store, |store| store.strip(&texts(&["snap_1"]), 1));
    assert!(store.is_scrub_due() && holds(&directory, "SECRET-LATER-"));
    reader.commit().unwrap();
    // The process that erased it does nothing more.
    assert!(!other.is_scrub_due());
    other.add_agent("ada").unwrap();
    assert!(!other.is_scrub_due() && !holds(&directory, "SECRET-LATER-"));
    let noted: bool =
        Connection::open(&path).unwrap().query_row("SELECT scrub FROM store", [], |row| row.get(0)).unwrap();
    assert!(!noted);
    drop((reader, store));
}

/// A reader keeps the log for a while; the next unit that writes, or closing, makes up for it.
#[test]
fn erased_text_is_taken_out_of_the_log_later_if_a_reader_needs_it() {
    let (directory, path) = place();
    let secret = "SECRET-READER-".repeat(2_000);
    let mut store = SqliteStore::open(&path, &HASTY).unwrap();
    let mut reader = SqliteStore::open(&path, &HASTY).unwrap();
    write(&mut store, |store| store.insert_snapshot(&frozen("snap_1", &["11"], &secret)));
    reader.begin_unit(Access::Read).unwrap();
    assert!(reader.snapshots(&texts(&["snap_1"]), Selection::None).unwrap()[0].is_some());
    write(&mut store, |store| store.strip(&texts(&["snap_1"]), 1));
    let found = reader.snapshots(&texts(&["snap_1"]), Selection::All).unwrap();
    assert_eq!(found[0].as_ref().unwrap().pages[0].text, secret);
    reader.commit().unwrap();
    store.add_agent("ada").unwrap();
    assert!(!holds(&directory, "SECRET-READER-"));
    drop(reader);
}

/// A memory that is edited leaves no old text behind either.
#[test]
fn replaced_bodies_do_not_survive() {
    let (directory, path) = place();
    let mut store = SqliteStore::open(&path, &PATIENT).unwrap();
    store.add_memory(&memory(Some("11"), &"SECRET-EDIT-".repeat(2_000)), 1).unwrap();
    store.edit_memory("11", &MemoryEdit { body: Some("short".into()), ..MemoryEdit::default() }, 2).unwrap();
    assert!(!holds(&directory, "SECRET-EDIT-"));
}

// What comes out of the file.

/// F20: a date that cannot be read never means "never".
#[test]
fn a_memory_that_cannot_be_read_is_left_out() {
    for (column, value) in [
        ("body", "CAST(x'ff41' AS TEXT)"),
        ("body", "CAST(x'e59b' AS TEXT)"),
        ("body", "x'41'"),
        ("body", "NULL"),
        ("expires_at", "-1"),
        ("expires_at", "'2026-01-01'"),
        ("expires_at", "'never'"),
        ("expires_at", "1.5"),
        ("expires_at", "x'00'"),
        ("priority", "-1"),
        ("priority", "4294967296"),
        ("version", "NULL"),
        ("updated_at", "'yesterday'"),
        ("audience", "'everybody'"),
        ("audience", "NULL"),
        ("active", "'yes'"),
        ("trusted", "NULL"),
        ("category", "CAST(x'80' AS TEXT)"),
        ("owner", "CAST(x'80' AS TEXT)"),
        ("attributes", "'{'"),
        ("attributes", "NULL"),
    ] {
        let (_directory, path) = place();
        filled(&path);
        SqliteStore::open(&path, &PATIENT).unwrap().add_memory(&memory(Some("55"), "fine"), 1).unwrap();
        tamper_with_types(&path, &format!("UPDATE memories SET {column} = {value} WHERE memory_id = '11'"));
        let mut store = SqliteStore::open(&path, &PATIENT).unwrap();
        for max_bytes in [0, 99] {
            let rows = store.memories(&texts(&["11", "55"]), max_bytes).unwrap();
            assert!(rows[0].is_none() && rows[1].is_some(), "{column} = {value}: {rows:?}");
        }
        assert_eq!(store.all_memories(0, 9).unwrap().len(), 1, "{column} = {value}");
    }
}

#[test]
fn any_other_row_that_cannot_be_read_is_damage() {
    for (change, read) in [
        ("UPDATE snapshots SET keep_until = NULL", "snapshots"),
        ("UPDATE snapshots SET revoked_at = 'x'", "replay"),
        ("UPDATE snapshots SET revoked_at = -1", "replay"),
        ("UPDATE snapshots SET pages = -1", "replay"),
        ("UPDATE snapshots SET state = CAST(x'ff' AS TEXT)", "snapshots"),
        ("UPDATE pages SET text = CAST(x'ff' AS TEXT)", "replay"),
        ("UPDATE pages SET text = x'41'", "replay"),
        ("UPDATE pages SET text = NULL", "replay"),
        ("UPDATE pages SET checksum = NULL", "replay"),
        ("UPDATE pages SET text = NULL", "snapshots"),
        ("UPDATE deliveries SET at = 1.5", "deliveries"),
        ("UPDATE deliveries SET state = NULL", "deliveries"),
        ("UPDATE deliveries SET place = -1", "deliveries"),
        ("UPDATE sessions SET memory_on = NULL", "sessions"),
        ("UPDATE sessions SET attributes = '[1]'", "sessions"),
    ] {
        let (_directory, path) = place();
        filled(&path);
        tamper_with_types(&path, change);
        let mut store = SqliteStore::open(&path, &PATIENT).unwrap();
        let failure = match read {
            "snapshots" => store.snapshots(&texts(&["snap_1"]), Selection::All).err(),
            "replay" => store.replay(&key("child"), None, 1, 0).err(),
            "deliveries" => store.deliveries(&key("child")).err(),
            _ => store.sessions(&[key("parent")]).err(),
        };
        assert!(matches!(failure, Some(StoreFailure::Damaged(_))), "{change}: {failure:?}");
    }
}

#[test]
fn instants_beyond_the_store_are_too_large() {
    let mut store = SqliteStore::in_memory().unwrap();
    store.begin_unit(Access::Write).unwrap();
    let mut late = frozen("snap_1", &[], "text");
    late.snapshot.keep_until = u64::MAX;
    assert!(matches!(store.insert_snapshot(&late), Err(StoreFailure::TooLarge(_))));
    assert!(matches!(store.pinned(&texts(&["11"]), u64::MAX), Err(StoreFailure::TooLarge(_))));
    late.snapshot.keep_until = i64::MAX as u64;
    store.insert_snapshot(&late).unwrap();
}

#[test]
fn audit_of_a_later_version_can_be_read() {
    let (_directory, path) = place();
    let mut store = SqliteStore::open(&path, &PATIENT).unwrap();
    let entry = Entry {
        action: "new".into(),
        outcome: "done".into(),
        snapshot_refs: vec![],
        memory_ids: vec![],
        attributes: vec![],
    };
    let row = AuditRow {
        at: 1,
        session: None,
        export: "later.function".into(),
        component: String::new(),
        rolled_back: false,
        entry,
    };
    store.append_audit(&[row]).unwrap();
    assert_eq!(store.all_audit(&AuditFilter::default(), 9).unwrap()[0].export, "later.function");
}

#[test]
fn uses_are_counted() {
    let (_directory, path) = place();
    filled(&path);
    let mut store = SqliteStore::open(&path, &PATIENT).unwrap();
    write(&mut store, |store| store.record_access(&texts(&["11", "nobody"]), 30));
    write(&mut store, |store| store.record_access(&texts(&["11"]), 20));
    let used = Connection::open(&path)
        .unwrap()
        .query_row("SELECT uses, used_at FROM memories", [], |row| Ok((row.get(0)?, row.get(1)?)));
    assert_eq!(used.unwrap(), (2, 30));
}

// Plans.

/// The SQL of one file.
fn statement(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("sql").join(name)).unwrap()
}

fn plan(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    statement.raw_query().mapped(|row| row.get(3)).collect::<Result<_, _>>().unwrap()
}

/// No statement of a component reads a table from one end to the other, and none sorts; each is legal in a file that has
/// never been analysed.
#[test]
fn every_statement_uses_an_index() {
    let (_directory, path) = place();
    SqliteStore::open(&path, &PATIENT).unwrap();
    let connection = Connection::open(&path).unwrap();
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).unwrap();
    let mut seen = 0;
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("sql")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if !name.ends_with(".sql") {
            continue;
        }
        let sql = statement(&name);
        assert!(sql.starts_with("-- "), "{name} does not say what it takes");
        let plan = plan(&connection, &sql);
        if name.starts_with("operator_") || name.starts_with("store_") {
            continue;
        }
        seen += 1;
        for line in plan {
            // What is scanned is a list from the caller, or the few rows of a subquery that were just looked up.
            let scan = line.starts_with("SCAN")
                && !line.contains("VIRTUAL TABLE")
                && !line.starts_with("SCAN held")
                && !line.starts_with("SCAN parent")
                && !line.starts_with("SCAN (subquery")
                && !line.starts_with("SCAN hits")
                && !line.starts_with("SCAN holding")
                // Each page of the search index, when something was erased from it.
                && !line.starts_with("SCAN page EXISTS")
                && !line.starts_with("SCAN best")
                && !line.starts_with("SCAN CONSTANT ROW");
            // Which matches are best is not known before they are ranked; few are told apart.
            let sorts = line.contains("TEMP B-TREE")
                && name != "memories_search.sql"
                && !(name == "snapshots_holding.sql" && line.ends_with("DISTINCT"));
            assert!(!scan && !sorts, "{name}: {line}");
        }
    }
    assert!(seen > 30, "only {seen} statements");
}

/// The statement that every replay waits for: each table by an index, in this order.
#[test]
fn replay_is_one_indexed_read() {
    let (_directory, path) = place();
    filled(&path);
    let connection = Connection::open(&path).unwrap();
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).unwrap();
    let plan = plan(&connection, &statement("snapshots_replay.sql"));
    let tables: Vec<&str> = plan
        .iter()
        .filter(|line| {
            ["SEARCH found ", "SEARCH d ", "SEARCH s ", "SEARCH p "].iter().any(|table| line.starts_with(table))
        })
        .map(|line| line.split(" (").next().unwrap())
        .collect();
    assert_eq!(
        tables,
        [
            "SEARCH found USING COVERING INDEX deliveries_child",
            "SEARCH d USING INTEGER PRIMARY KEY",
            "SEARCH s USING INTEGER PRIMARY KEY",
            "SEARCH p USING INDEX sqlite_autoindex_pages_1",
        ],
        "{plan:#?}"
    );
    assert!(plan.iter().all(|line| line.starts_with("SEARCH") || line.starts_with("SCALAR SUBQUERY")), "{plan:#?}");
}

/// The planner's guarantee: a statement stays as it was prepared, whatever is bound to it.
#[test]
fn statements_are_not_prepared_anew() {
    let (_directory, path) = place();
    filled(&path);
    let connection = Connection::open(&path).unwrap();
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).unwrap();
    let mut replay = connection.prepare(&statement("snapshots_replay.sql")).unwrap();
    for child in ["child", "nobody", "child"] {
        let params = named_params! {
            ":child_harness": "local", ":child_session": child, ":snapshot_ref": None::<&str>, ":page": 1, ":at": 0,
        };
        let rows: Vec<i64> = replay.query_map(params, |row| row.get(2)).unwrap().collect::<Result<_, _>>().unwrap();
        assert_eq!(rows.len(), usize::from(child == "child"));
    }
    assert_eq!(replay.get_status(rusqlite::StatementStatus::RePrepare), 0);
}

/// `expired` and `remove-unattached` must not slow down with the number of rows that stay: the rows that a sweep steps
/// over are those that it takes.
#[test]
fn sweeping_steps_over_what_it_takes_only() {
    let (_directory, path) = place();
    let mut store = SqliteStore::open(&path, &PATIENT).unwrap();
    write(&mut store, |store| {
        for number in 0..500 {
            let mut row = frozen(&format!("snap_{number}"), &["11"], "text");
            row.snapshot.keep_until = 1_000 + number;
            store.insert_snapshot(&row)?;
        }
        Ok(())
    });
    let connection = Connection::open(&path).unwrap();
    let mut expired = connection.prepare(&statement("snapshots_expired.sql")).unwrap();
    let rows = expired.query_map(named_params! { ":at": 1_002, ":limit": 100 }, |_| Ok(())).unwrap().count();
    assert_eq!(rows, 3);
    assert_eq!(expired.get_status(rusqlite::StatementStatus::FullscanStep), 0);
    assert_eq!(expired.get_status(rusqlite::StatementStatus::Sort), 0);
    assert!(expired.get_status(rusqlite::StatementStatus::VmStep) < 500);
}

/// A call is found by its own index, however much its parent has delegated; so is a snapshot.
#[test]
fn one_call_is_found_among_many() {
    let (_directory, path) = place();
    let mut store = SqliteStore::open(&path, &PATIENT).unwrap();
    write(&mut store, |store| {
        store.insert_snapshot(&frozen("snap_1", &[], "text"))?;
        for number in 0..500 {
            store.insert_hand_over(&HandOver {
                id: format!("hand_{number}"),
                parent: key("parent"),
                call_id: Some(format!("call_{number}")),
                agent_type: None,
                snapshot_ref: (number == 7).then(|| "snap_1".into()),
                ids_key: None,
                children: 1,
                created_at: 1,
                expires_at: 2,
                keep_until: 3,
                task_digest: "digest".into(),
                task_head: "task".into(),
                task: "task".into(),
                state: "{}".into(),
            })?;
        }
        Ok(())
    });
    let connection = Connection::open(&path).unwrap();
    let mut find = connection.prepare(&statement("snapshots_find_hand_overs.sql")).unwrap();
    for (call_id, snapshot_ref, count) in
        [(Some("call_7"), None, 1), (Some("call"), None, 0), (None, Some("snap_1"), 1)]
    {
        let params = named_params! {
            ":parent_harness": "local", ":parent_session": "parent", ":call_id": call_id, ":snapshot_ref": snapshot_ref,
            ":ids_key": None::<&str>, ":task_digest": None::<&str>, ":within": None::<&str>, ":agent_type": None::<&str>, ":open_only": false, ":with_task": true,
            ":limit": 1_000,
        };
        assert_eq!(find.query_map(params, |_| Ok(())).unwrap().count(), count);
        assert!(find.reset_status(rusqlite::StatementStatus::VmStep) < 500);
    }
}
