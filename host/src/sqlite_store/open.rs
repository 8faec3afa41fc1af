//! Opening and creating the file: whether it is ours, whether this program may use it, and how the connection is set up.
//! Nothing is changed before the file is known to be ours, and several processes may do this at once.

use std::fs::{self, OpenOptions};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant as Clock};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension, ffi};

use crate::store::{Access, Rows, StoreFailure};

use super::SqliteOptions;

/// 'memp': stands in the header of every file of ours, and of no other application's.
const APPLICATION_ID: i32 = 0x6d65_6d70;

/// The migrations, from 1 on. An additive one raises nothing but `store.schema`.
const MIGRATIONS: &[&str] = &[include_str!("../../sql/migrations/001.sql")];

/// How many statements stay prepared: all of them.
const STATEMENTS: usize = 128;

/// Bytes to which the log is cut when it begins anew, twice as many as SQLite lets come together before it moves them into
/// the file. Writing over them is faster than making the log longer, by a third of a delegation; an erasure cuts off all
/// of it.
const LOG: i64 = 8 << 20;

/// The numbers in the table `store`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Schema {
    schema: i64,
    oldest_reader: i64,
    oldest_writer: i64,
    /// Its log must be cut off.
    pub(super) scrub: bool,
}

/// The schema that this program knows.
fn known() -> i64 {
    MIGRATIONS.len() as i64
}

/// Open the file at `path`.
pub(super) fn open(path: &Path, options: &SqliteOptions) -> Rows<Connection> {
    let end = Clock::now() + options.busy_timeout;
    // An absolute path is never taken for `:memory:` or a URI.
    let path = std::path::absolute(path).map_err(|error| StoreFailure::Absent(error.to_string()))?;
    let shown = path.display();
    create(&path, options.create)?;

    let connection =
        Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)
            .map_err(|error| match StoreFailure::from(error) {
                StoreFailure::Absent(why) => StoreFailure::Absent(format!("{shown} cannot be opened: {why}")),
                failure => failure,
            })?;
    connection.busy_timeout(options.busy_timeout)?;
    // Whatever is found below, closing must not move a log into a file that was refused.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, size_of(&log_of(&path)) > 0)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    if connection.is_readonly("main")? {
        return Err(read_only(&path));
    }

    recognise(&connection, &path)?;
    patiently(end, || claim(&connection, &path))?;
    let found = patiently(end, || find_schema(&connection))?;
    if let Some(schema) = found {
        allow(schema, Access::Read)?;
    }
    patiently(end, || write_ahead_log(&connection))?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "journal_size_limit", LOG)?;
    set_up(&connection)?;
    if found.is_none_or(|found| found.schema < known()) {
        patiently(end, || migrate(&connection))?;
    }
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
    Ok(connection)
}

/// A store that is lost when it is closed.
pub(super) fn in_memory() -> Rows<Connection> {
    let connection = Connection::open_in_memory()?;
    set_up(&connection)?;
    migrate(&connection)?;
    Ok(connection)
}

/// A number that changes whenever another connection has written to the file, as of this connection's last read. Costs
/// no statement.
pub(super) fn data_version(connection: &Connection) -> u32 {
    let mut version: u32 = 0;
    // SAFETY: the connection is open and used by this thread only; SQLITE_FCNTL_DATA_VERSION writes one unsigned int.
    let code = unsafe {
        ffi::sqlite3_file_control(
            connection.handle(),
            c"main".as_ptr(),
            ffi::SQLITE_FCNTL_DATA_VERSION,
            (&raw mut version).cast(),
        )
    };
    // 0 is never a version: without an answer everything counts as changed.
    if code == ffi::SQLITE_OK { version } else { 0 }
}

/// The first read of a transaction: fixes what it sees, and refuses if another program has changed the schema since.
pub(super) fn check_schema(connection: &Connection, access: Access) -> Rows<Schema> {
    let mut statement = connection.prepare_cached(include_str!("../../sql/store_schema.sql"))?;
    let schema = statement.query_row([], read_schema)?;
    allow(schema, access)?;
    Ok(schema)
}

fn allow(found: Schema, access: Access) -> Rows<()> {
    let (oldest, what) = match access {
        Access::Read => (found.oldest_reader, "read"),
        Access::Write | Access::Relaxed => (found.oldest_writer.max(found.oldest_reader), "change"),
    };
    if known() >= oldest {
        return Ok(());
    }
    Err(StoreFailure::Other(format!(
        "a newer program has changed this store (schema {}); to {what} it, a program that knows schema {oldest} is needed, \
         and this one knows {}. Update memory-prefetch",
        found.schema,
        known()
    )))
}

/// What can be said without opening the file, and making it if it is not there. Mode 0600; the log's files take it over.
fn create(path: &Path, create: bool) -> Rows<()> {
    // Closing a file drops the locks that this process holds on it, also those of SQLite. So nothing opens it here but
    // the one who makes it, and nobody else in this process opens it meanwhile.
    static CREATING: Mutex<()> = Mutex::new(());
    let _creating = CREATING.lock().unwrap_or_else(PoisonError::into_inner);
    let shown = path.display();
    if let Ok(found) = fs::metadata(path) {
        if !found.is_file() {
            return Err(StoreFailure::Absent(format!("{shown} is not a file")));
        }
        if found.permissions().readonly() {
            return Err(read_only(path));
        }
        if !create && (found.len() == 0 || is_unfinished(path)) {
            return Err(StoreFailure::Absent(format!("{shown} is empty: no store was made there yet")));
        }
        return Ok(());
    }
    if !create {
        return Err(StoreFailure::Absent(format!("there is no file {shown}")));
    }
    let mut new = OpenOptions::new();
    new.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut new, 0o600);
    match new.open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(StoreFailure::Absent(format!("{shown} cannot be created: {error}"))),
    }
}

/// Whether the file is empty or ours, by its header alone: no lock, no recovery of a log, no change.
fn recognise(connection: &Connection, path: &Path) -> Rows<()> {
    let shown = path.display();
    let damaged = |why: &str| Err(StoreFailure::Damaged(format!("{shown} {why}; it was left as it is")));
    if size_of(path) == 0 {
        // SQLite would delete the log of a file that was cut to nothing. Looked at twice, since another process may just
        // have filled the file.
        if size_of(&log_of(path)) > 0 && size_of(path) == 0 {
            return damaged("is empty, and its log is not");
        }
        return Ok(());
    }
    if is_unfinished(path) {
        return Ok(());
    }
    let header = read_header(connection)?;
    let size = size_of(path);
    if size < header.len() as u64 {
        return damaged("is too short to be a store");
    }
    if &header[..16] != b"SQLite format 3\0" {
        return damaged("is not an SQLite file");
    }
    let application = i32::from_be_bytes([header[68], header[69], header[70], header[71]]);
    if application != APPLICATION_ID {
        return damaged("belongs to another application");
    }
    // 1 stands for 65536, which does not fit.
    let page = match u16::from_be_bytes([header[16], header[17]]) {
        1 => 65_536,
        page => u64::from(page),
    };
    // A write that failed halfway, or a power cut, may leave the last page incomplete. Then it is in the log, which SQLite
    // moves into the file anew; and a file that lacks more than that is damage to SQLite, too.
    if page < 512 || (!size.is_multiple_of(page) && size_of(&log_of(path)) == 0) {
        return damaged("was cut off");
    }
    Ok(())
}

/// How large a file is; 0 if it is not there.
fn size_of(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |found| found.len())
}

/// The first bytes of the file.
pub(crate) fn read_header(connection: &Connection) -> Rows<[u8; 100]> {
    let mut header = [0; 100];
    read_at(connection, &mut header, 0)?;
    Ok(header)
}

/// What is in the file itself, read through SQLite's own handle: a second handle, when it is closed, would drop the locks
/// of every connection of this process. Zeroes what a short file does not have.
pub(super) fn read_at(connection: &Connection, bytes: &mut [u8], offset: i64) -> Rows<()> {
    let size =
        i32::try_from(bytes.len()).map_err(|_| StoreFailure::TooLarge("more than SQLite reads at once".into()))?;
    // SAFETY: the connection is open and used by this thread only. SQLITE_FCNTL_FILE_POINTER gives the file object that
    // belongs to it, which lives as long as it does and whose methods are those of the VFS; xRead writes at most `size`
    // bytes.
    let code = unsafe {
        let mut file: *mut ffi::sqlite3_file = std::ptr::null_mut();
        ffi::sqlite3_file_control(
            connection.handle(),
            c"main".as_ptr(),
            ffi::SQLITE_FCNTL_FILE_POINTER,
            (&raw mut file).cast(),
        );
        let methods = if file.is_null() { std::ptr::null() } else { (*file).pMethods };
        match if methods.is_null() { None } else { (*methods).xRead } {
            Some(read) => read(file, bytes.as_mut_ptr().cast(), size, offset),
            None => ffi::SQLITE_CANTOPEN,
        }
    };
    match code {
        ffi::SQLITE_OK | ffi::SQLITE_IOERR_SHORT_READ => Ok(()),
        code => Err(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None).into()),
    }
}

/// Whether the first transaction on this file was not finished: its journal says that the file was empty before. Whatever
/// is in the file, SQLite empties it again as soon as a transaction begins, unless the other one is still going on.
fn is_unfinished(path: &Path) -> bool {
    /// Magic bytes, number of records, a random number, number of pages before.
    const HEADER: usize = 20;
    const MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
    let mut header = [0; HEADER];
    // A journal has no locks that closing it could drop.
    let read = fs::File::open(beside(path, "-journal")).and_then(|mut journal| journal.read_exact(&mut header));
    read.is_ok() && header[..8] == MAGIC && header[16..] == [0; 4]
}

/// Make an empty file ours, so that its header says so from the first byte on.
fn claim(connection: &Connection, path: &Path) -> Rows<()> {
    if size_of(path) > 0 && !is_unfinished(path) {
        return Ok(());
    }
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let claimed = claim_inside(connection, path);
    let end = if claimed.is_ok() { "COMMIT" } else { "ROLLBACK" };
    let ended = connection.execute_batch(end);
    if !connection.is_autocommit() {
        connection.execute_batch("ROLLBACK")?;
    }
    claimed.and(ended.map_err(Into::into))
}

fn claim_inside(connection: &Connection, path: &Path) -> Rows<()> {
    let application: i32 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    if application == APPLICATION_ID {
        return Ok(());
    }
    // Whoever filled it since it was found empty is not one of us.
    let objects: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if application != 0 || objects > 0 {
        let shown = path.display();
        return Err(StoreFailure::Damaged(format!("{shown} belongs to another application; it was left as it is")));
    }
    connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    Ok(())
}

/// The numbers in the table `store`, if there is one.
fn find_schema(connection: &Connection) -> Rows<Option<Schema>> {
    let there = connection
        .query_row("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'store'", [], |_| Ok(()))
        .optional()?;
    if there.is_none() {
        return Ok(None);
    }
    Ok(Some(connection.query_row(include_str!("../../sql/store_schema.sql"), [], read_schema)?))
}

fn read_schema(row: &rusqlite::Row) -> rusqlite::Result<Schema> {
    Ok(Schema { schema: row.get(0)?, oldest_reader: row.get(1)?, oldest_writer: row.get(2)?, scrub: row.get(3)? })
}

/// Switching to a write-ahead log can answer "busy" without having waited.
fn write_ahead_log(connection: &Connection) -> Rows<()> {
    let mode: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
    if mode == "wal" {
        return Ok(());
    }
    let mode: String = connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if mode == "wal" {
        return Ok(());
    }
    Err(StoreFailure::Other("its file system cannot hold a write-ahead log; keep the store on a local disk".into()))
}

/// What every connection of ours has.
fn set_up(connection: &Connection) -> Rows<()> {
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "secure_delete", true)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    // What a statement has changed is copied before, in case that it fails; those copies stay out of other directories.
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    // A search looks at rows all over the file; SQLite's own 2 MB hold too little of a large store.
    connection.pragma_update(None, "cache_size", -16_384)?;
    // Without it a statement is planned anew for each value that is bound to it.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(())
}

/// Run the migrations that the file lacks, all or none of them.
fn migrate(connection: &Connection) -> Rows<()> {
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let done = migrate_inside(connection);
    let ended = connection.execute_batch(if done.is_ok() { "COMMIT" } else { "ROLLBACK" });
    if !connection.is_autocommit() {
        connection.execute_batch("ROLLBACK")?;
    }
    done.and(ended.map_err(Into::into))
}

fn migrate_inside(connection: &Connection) -> Rows<()> {
    // Another process may have been faster.
    let found = find_schema(connection)?;
    if let Some(found) = found {
        if found.schema >= known() {
            return Ok(());
        }
        allow(found, Access::Write)?;
    }
    let done = found.map_or(0, |found| usize::try_from(found.schema).unwrap_or(0));
    for migration in MIGRATIONS.iter().skip(done) {
        connection.execute_batch(migration)?;
    }
    Ok(())
}

/// Try again while it is busy, until `end`.
fn patiently<T>(end: Clock, mut attempt: impl FnMut() -> Rows<T>) -> Rows<T> {
    let mut pause = Duration::from_millis(1);
    loop {
        match attempt() {
            Err(StoreFailure::Busy(_)) if Clock::now() < end => {
                thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(25));
            }
            answer => return answer,
        }
    }
}

fn log_of(path: &Path) -> PathBuf {
    beside(path, "-wal")
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push(ending);
    beside.into()
}

fn read_only(path: &Path) -> StoreFailure {
    StoreFailure::Other(format!("{} may only be read; allow writing to it, or use another file", path.display()))
}
