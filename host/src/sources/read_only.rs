//! One SQLite file of another program, read and never changed: neither the file, nor its log, nor what lies beside it if
//! that can be helped.
//!
//! A connection that SQLite opened for reading only writes to neither the file nor the `-wal`: it does not checkpoint,
//! does not recover a journal, does not delete a log. It reads what is committed, in a log too, beside a program that
//! writes and after one that crashed. To read a file in WAL mode it must have the shared index `-shm`, and makes that and
//! an empty `-wal` where they are missing, and leaves them there. A file in WAL mode that nobody has open has neither.
//! Such a file *at rest* is read as one that does not change (`immutable=1`): without a lock, and without anything made
//! beside it, so also in a directory that may not be written. That is right only as long as it is at rest. A program
//! that opens it makes the `-shm` before it does anything else, and whatever it writes changes the time of the file. So
//! both are looked at again after each read: if they are not as before, what was read is thrown away, and the answer is
//! `Busy`; the next unit then reads it as one that is in use.

use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, ffi};

use crate::sqlite_store::read_header;
use crate::store::{Rows, StoreFailure};

/// A file that was changed this recently may be changed again without its time showing it.
const SETTLED: Duration = Duration::from_secs(2);

/// The file, opened when it is first needed.
pub(super) struct ReadOnly {
    path: PathBuf,
    busy_timeout: Duration,
    open: Option<Open>,
    /// How often it was opened.
    opened: u64,
    /// Whether a unit of work is open.
    unit: bool,
}

struct Open {
    connection: Connection,
    /// Which file it is, whatever is at the path by now.
    file: FileId,
    /// What a file that is read as one that does not change looked like.
    at_rest: Option<Rest>,
}

/// Another one whenever the schema may be another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SchemaVersion {
    /// What SQLite counts, in one file.
    number: i64,
    /// At a path there may be another file by now.
    opened: u64,
}

/// Tells a file from another one that was put in its place, where the system does.
#[derive(Debug, PartialEq, Eq)]
struct FileId(u64, u64);

impl FileId {
    fn of(found: &Metadata) -> FileId {
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            FileId(found.dev(), found.ino())
        }
        #[cfg(not(unix))]
        {
            let _ = found;
            FileId(0, 0)
        }
    }
}

/// What a change of the file would change.
#[derive(Debug, PartialEq, Eq)]
struct Rest {
    len: u64,
    modified: SystemTime,
}

impl ReadOnly {
    /// Does not touch the file.
    pub fn new(path: PathBuf, busy_timeout: Duration) -> ReadOnly {
        // SQLite counts milliseconds in an `int`.
        const LONGEST: Duration = Duration::from_millis(i32::MAX as u64);
        ReadOnly { path, busy_timeout: busy_timeout.min(LONGEST), open: None, opened: 0, unit: false }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Start seeing one state of it, and say which schema that has.
    pub fn begin(&mut self) -> Rows<SchemaVersion> {
        self.end();
        let begun = self.try_begin();
        match &begun {
            Ok(_) => self.unit = true,
            // The next one starts anew.
            Err(_) => self.open = None,
        }
        begun
    }

    fn try_begin(&mut self) -> Rows<SchemaVersion> {
        let found = fs::metadata(&self.path).map_err(|error| self.absent(&error.to_string()))?;
        if !found.is_file() {
            return Err(self.absent("it is not a file"));
        }
        // SQLite would delete the log of a file that was cut to nothing.
        if found.len() == 0 {
            return Err(self.absent("it is empty, its program has stored nothing in it"));
        }
        let rest = at_rest(&self.path);
        let file = FileId::of(&found);
        let is_good = |open: &Open| open.file == file && (open.at_rest.is_none() || open.at_rest == rest);
        let open = match self.open.take().filter(is_good) {
            Some(open) => open,
            None => {
                self.opened += 1;
                self.connect(file, rest)?
            }
        };
        let begun = open.connection.execute_batch("BEGIN DEFERRED").and_then(|()| {
            // The first read fixes what the unit sees.
            open.connection.query_row("PRAGMA schema_version", [], |row| row.get(0))
        });
        let number = begun.map_err(|error| self.explain(error))?;
        self.open = Some(open);
        self.check(SchemaVersion { number, opened: self.opened })
    }

    fn connect(&self, file: FileId, rest: Option<Rest>) -> Rows<Open> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(&self.path, flags).map_err(|error| self.explain(error))?;
        // Without a log the usual locks make nothing beside the file.
        let at_rest = rest.filter(|_| read_header(&connection).is_ok_and(|header| header[18] == 2));
        if at_rest.is_some() {
            connection = Connection::open_with_flags(immutable(&self.path), flags | OpenFlags::SQLITE_OPEN_URI)
                .map_err(|error| self.explain(error))?;
        }
        connection.busy_timeout(self.busy_timeout)?;
        connection.pragma_update(None, "query_only", true)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        Ok(Open { connection, file, at_rest })
    }

    /// Read something. [`ReadOnly::begin`] comes first.
    pub fn read<T>(&mut self, read: impl FnOnce(&Connection) -> Rows<T>) -> Rows<T> {
        let Some(open) = self.open.as_ref().filter(|_| self.unit) else {
            return Err(StoreFailure::Other("no unit of work is open".into()));
        };
        let found = read(&open.connection);
        // Also if it failed: a file that is being changed may look damaged.
        self.check(())?;
        found
    }

    /// Whether a file that was read as one that does not change did not.
    fn check<T>(&self, read: T) -> Rows<T> {
        match self.open.as_ref().and_then(|open| open.at_rest.as_ref()) {
            Some(rest) if quiet(&self.path).as_ref() != Some(rest) => Err(StoreFailure::Busy(format!(
                "{} was just opened or changed by its own program",
                self.path.display()
            ))),
            _ => Ok(read),
        }
    }

    /// The unit is over.
    pub fn end(&mut self) {
        self.unit = false;
        if let Some(open) = &self.open
            && !open.connection.is_autocommit()
            && open.connection.execute_batch("ROLLBACK").is_err()
        {
            self.open = None;
        }
    }

    fn absent(&self, why: &str) -> StoreFailure {
        StoreFailure::Absent(format!("{} cannot be read: {why}", self.path.display()))
    }

    /// What an error of SQLite means for a file that is another program's.
    fn explain(&self, error: rusqlite::Error) -> StoreFailure {
        let shown = self.path.display();
        let code = error.sqlite_error().map_or(0, |error| error.extended_code);
        match code & 0xff {
            // A journal of a program that crashed, or a log that only a writer may recover.
            ffi::SQLITE_READONLY => StoreFailure::Other(format!(
                "{shown} was left half written by a program that ended early, and repairing it would change it: start its \
                 own program once"
            )),
            ffi::SQLITE_CANTOPEN if changed_just_now(&self.path) => {
                StoreFailure::Busy(format!("{shown} was changed just now"))
            }
            ffi::SQLITE_CANTOPEN => StoreFailure::Absent(format!(
                "{shown} cannot be opened: this user may not read it, or may not write in its directory, where reading a \
                 file that is in use takes a file {shown}-shm"
            )),
            ffi::SQLITE_NOTADB => StoreFailure::Damaged(format!("{shown} is not an SQLite file")),
            _ => error.into(),
        }
    }
}

/// Nobody has it open in WAL mode, and it was not changed just now.
fn at_rest(path: &Path) -> Option<Rest> {
    quiet(path).filter(|_| !changed_just_now(path))
}

/// The file as it is, if nothing that belongs to it lies beside it.
fn quiet(path: &Path) -> Option<Rest> {
    // SQLite puts them beside the file that a link leads to.
    let path = &fs::canonicalize(path).ok()?;
    let beside = ["-wal", "-shm", "-journal"].iter().any(|suffix| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        // What cannot be looked at counts as there.
        Path::new(&name).try_exists().unwrap_or(true)
    });
    let found = fs::metadata(path).ok()?;
    (!beside).then_some(Rest { len: found.len(), modified: found.modified().ok()? })
}

fn changed_just_now(path: &Path) -> bool {
    let modified = fs::metadata(path).and_then(|found| found.modified());
    let age = modified.ok().and_then(|modified| SystemTime::now().duration_since(modified).ok());
    age.is_none_or(|age| age < SETTLED)
}

/// The file as a URI that says that it does not change. Every byte that could mean something in a URI is escaped.
fn immutable(path: &Path) -> String {
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' => uri.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => uri.push(char::from(*byte)),
            byte => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri + "?immutable=1"
}
