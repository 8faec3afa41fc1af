//! [`SqliteStore`]: everything in one SQLite file. The schema and every statement are plain `.sql` files in `host/sql/`,
//! which hosts in other languages use too; here they are bound, run and read, and nothing is decided.

mod failure;
mod open;
mod operator;
mod remains;
mod rows;

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant as Clock};

use rusqlite::{Connection, OptionalExtension, Row, ToSql, Transaction, TransactionBehavior, named_params};

use crate::allowance::Allowance;
use crate::contract::*;
use crate::search::Query;
use crate::store::{Access, AuditRow, Memories, Rows, Store, StoreFailure};

pub(crate) use open::read_header;

/// A statement of `host/sql/`, by its file's name.
macro_rules! sql {
    ($name:literal) => {
        const { crate::sqlite_store::statement(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/", $name, ".sql"))) }
    };
}
use sql;

/// A statement without the comment before it: prepared statements are found by their text, which is hashed each time.
const fn statement(file: &str) -> &str {
    let mut rest = file;
    while let [b'-', b'-', ..] = rest.as_bytes() {
        let mut end = 0;
        while end < rest.len() && rest.as_bytes()[end] != b'\n' {
            end += 1;
        }
        rest = rest.split_at(if end < rest.len() { end + 1 } else { end }).1;
    }
    rest
}

/// How to open a file.
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    /// How long to wait for another process before answering [`StoreFailure::Busy`]. At most 24 days.
    pub busy_timeout: Duration,
    /// Whether to make the file if it is not there. Its directory must be.
    pub create: bool,
}

impl Default for SqliteOptions {
    /// Five seconds, and the file is made.
    fn default() -> Self {
        SqliteOptions { busy_timeout: Duration::from_secs(5), create: true }
    }
}

/// Memories, directory, snapshots, settings and audit in one SQLite file, which several processes may use at once.
///
/// Storage functions that write answer `Other` outside a unit of work that writes. Instants beyond `i64::MAX`
/// milliseconds are `TooLarge`. A key or an id with a NUL byte in it is no row's.
pub struct SqliteStore {
    connection: Connection,
    busy_timeout: Duration,
    unit: Option<Access>,
    opened: Clock,
    /// Milliseconds since it was opened, at which the statement that is running is stopped.
    deadline: Arc<AtomicU64>,
    /// How long a statement may take.
    patience: Duration,
    /// How far commits wait for the disk: a value of `PRAGMA synchronous`.
    synchronous: &'static str,
    /// Whether they ever do.
    sync: bool,
    /// The file's data version at which its schema was last found readable.
    checked: u32,
    /// Text was overwritten or deleted, and the log may still hold it.
    scrub: Scrub,
    /// The file says that its log must be cut off.
    scrub_noted: bool,
    /// A memory was erased, or nobody knows what: what SQLite has moved within the file must go too.
    thorough: bool,
    /// The disk has failed this connection: the next unit gets a new one. What SQLite keeps in memory may not go together
    /// any more: its search index has been seen to take a sound file for damaged then.
    failed: Cell<bool>,
}

/// Where an erased text may still be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scrub {
    /// Nowhere.
    Clean,
    /// In the log, once the open unit is kept.
    Pending,
    /// In the log.
    Due,
}

/// How long one statement may take: a component's limit of time is looked at between its calls, not inside of one.
const PATIENCE: Duration = Duration::from_secs(5);

/// How many matches of a search are ranked: bm25 takes about a microsecond for each.
const RANKED: i64 = 2_000;

type Params<'a> = &'a [(&'a str, &'a dyn ToSql)];

impl SqliteStore {
    /// Open the store at `path`.
    ///
    /// `Absent`: there is no such file, and `create` is not set; or it cannot be opened. `Damaged`: it is not SQLite, was
    /// cut off, or belongs to another application. `Busy`: locked for longer than the busy timeout. `Other`: it may only
    /// be read, or a newer program has changed it in a way that this one does not know. The file is left as it is in all
    /// these cases.
    pub fn open(path: impl AsRef<Path>, options: &SqliteOptions) -> Rows<SqliteStore> {
        // SQLite counts milliseconds in an `int`.
        const LONGEST: Duration = Duration::from_millis(i32::MAX as u64);
        let options = &SqliteOptions { busy_timeout: options.busy_timeout.min(LONGEST), ..*options };
        SqliteStore::over(open::open(path.as_ref(), options)?, options.busy_timeout)
    }

    /// A store that is lost when it is dropped.
    pub fn in_memory() -> Rows<SqliteStore> {
        SqliteStore::over(open::in_memory()?, Duration::ZERO)
    }

    fn over(mut connection: Connection, busy_timeout: Duration) -> Rows<SqliteStore> {
        /// How often, in steps of SQLite's machine, the clock is looked at. A step may look through a long text.
        const STEPS: i32 = 500;
        let opened = Clock::now();
        let deadline = Arc::new(AtomicU64::new(u64::MAX));
        let end = deadline.clone();
        let is_late = move || opened.elapsed().as_millis() > u128::from(end.load(Ordering::Relaxed));
        connection.progress_handler(STEPS, Some(is_late))?;
        Ok(SqliteStore {
            connection,
            busy_timeout,
            unit: None,
            opened,
            deadline,
            patience: PATIENCE,
            synchronous: "FULL",
            sync: true,
            checked: 0,
            scrub: Scrub::Clean,
            scrub_noted: false,
            thorough: false,
            failed: Cell::new(false),
        })
    }

    /// Never wait for the disk: after a power cut the file may be damaged. For stores that are thrown away.
    pub fn without_sync(mut self) -> SqliteStore {
        self.sync = false;
        self
    }

    /// Whether erased text may still be in the file's log, since somebody is reading: it goes with the next unit of work
    /// that writes after that, in whichever process.
    pub fn is_scrub_due(&self) -> bool {
        self.scrub != Scrub::Clean
    }

    /// The same file, as a new process would open it.
    pub(crate) fn reopen(self) -> Rows<SqliteStore> {
        let path = self.connection.path().map(String::from).unwrap_or_default();
        if path.is_empty() {
            return Ok(self);
        }
        let options = SqliteOptions { busy_timeout: self.busy_timeout, create: false };
        drop(self);
        SqliteStore::open(path, &options)
    }

    /// For `conformance`: every column of a memory.
    pub(crate) fn memory_row(&self, id: &str) -> Rows<Option<serde_json::Value>> {
        let columns = "SELECT json_object('id', id, 'active', active, 'trusted', trusted, 'priority', priority,
            'version', version, 'created-at', created_at, 'updated-at', updated_at, 'expires-at', expires_at,
            'uses', uses, 'used-at', used_at, 'memory-id', memory_id, 'audience', audience, 'owner', owner,
            'project', project, 'category', category, 'attributes', attributes, 'body', body)
            FROM memories WHERE memory_id = ?1";
        let row: Option<String> = self.connection.query_row(columns, [id], |row| row.get(0)).optional()?;
        row.map(|row| serde_json::from_str(&row).map_err(|error| StoreFailure::Damaged(error.to_string()))).transpose()
    }

    /// For `conformance`: another connection's long write, until the answer is dropped.
    pub(crate) fn lock(&self) -> Rows<Connection> {
        let other = Connection::open(self.connection.path().unwrap_or_default())?;
        other.execute_batch("BEGIN IMMEDIATE")?;
        Ok(other)
    }

    /// For `conformance`: change a stored page behind its checksum's back.
    pub(crate) fn damage_page(&mut self, snapshot_ref: &str, number: u32) -> Rows<bool> {
        let changed = self.connection.execute(
            "UPDATE pages SET text = text || '.' WHERE number = ?2
             AND snapshot = (SELECT id FROM snapshots WHERE snapshot_ref = ?1)",
            (snapshot_ref, number),
        )?;
        Ok(changed == 1)
    }

    /// Run a statement that is stopped when it takes too long. Outside of this nothing is: a commit must not be, and the
    /// time between two statements is nobody's.
    fn in_time<T>(&self, statement: impl FnOnce() -> rusqlite::Result<T>) -> Rows<T> {
        let end = self.opened.elapsed().saturating_add(self.patience);
        self.deadline.store(u64::try_from(end.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
        let done = statement();
        self.deadline.store(u64::MAX, Ordering::Relaxed);
        self.noting(done)
    }

    /// The same, with a note if it was the disk that failed.
    fn noting<T>(&self, done: rusqlite::Result<T>) -> Rows<T> {
        done.map_err(|error| {
            self.failed.set(self.failed.get() || failure::is_of_machine(&error));
            error.into()
        })
    }

    /// A new connection, if the disk has failed this one.
    fn renew(&mut self) -> Rows<()> {
        if !self.failed.get() {
            return Ok(());
        }
        if let Some(path) = self.connection.path().filter(|path| !path.is_empty()) {
            let options = SqliteOptions { busy_timeout: self.busy_timeout, create: false };
            let mut renewed = SqliteStore::open(path, &options)?;
            (renewed.scrub, renewed.thorough, renewed.sync) = (self.scrub, self.thorough, self.sync);
            *self = renewed;
        }
        Ok(())
    }

    /// All rows of a statement.
    fn read<T>(&self, sql: &str, params: Params, read: impl FnMut(&Row) -> rusqlite::Result<T>) -> Rows<Vec<T>> {
        self.in_time(|| {
            let mut statement = self.connection.prepare_cached(sql)?;
            statement.query_map(params, read)?.collect()
        })
    }

    /// The rows of a statement of which this column is their number, which grows from row to row. R20: an index in which a
    /// disk has lost a bit names one of them twice, in place of another.
    fn read_numbered<T>(
        &self,
        sql: &str,
        params: Params,
        column: usize,
        mut read: impl FnMut(&Row) -> rusqlite::Result<T>,
    ) -> Rows<Vec<T>> {
        let rows: Vec<(i64, T)> = self.read(sql, params, |row| Ok((row.get(column)?, read(row)?)))?;
        if rows.iter().zip(rows.iter().skip(1)).any(|(row, next)| next.0 <= row.0) {
            return Err(StoreFailure::Damaged("an index names a row twice".into()));
        }
        Ok(rows.into_iter().map(|(_, row)| row).collect())
    }

    /// The rows of a statement whose first column is the position, from 0, in a list of `count`; `None` where there is
    /// no row.
    fn read_placed<T>(
        &self,
        count: usize,
        sql: &str,
        params: Params,
        mut read: impl FnMut(&Row) -> rusqlite::Result<T>,
    ) -> Rows<Vec<Option<T>>> {
        let mut placed: Vec<Option<T>> = (0..count).map(|_| None).collect();
        if count == 0 {
            return Ok(placed);
        }
        for (position, row) in self.read(sql, params, |row| Ok((rows::position(row)?, read(row)?)))? {
            match placed.get_mut(position) {
                Some(place) => *place = Some(row),
                None => return Err(StoreFailure::Damaged("a row that was not asked for".into())),
            }
        }
        Ok(placed)
    }

    /// Run a statement that writes, and say how many rows it changed.
    fn change(&self, sql: &str, params: Params) -> Rows<usize> {
        self.may_change()?;
        self.in_time(|| self.connection.prepare_cached(sql)?.execute(params))
    }

    /// Run a statement that writes and answers with rows.
    fn change_returning<T>(
        &self,
        sql: &str,
        params: Params,
        read: impl FnMut(&Row) -> rusqlite::Result<T>,
    ) -> Rows<Vec<T>> {
        self.may_change()?;
        self.read(sql, params, read)
    }

    fn may_change(&self) -> Rows<()> {
        if !self.unit.is_some_and(Access::writes) {
            return Err(StoreFailure::Other("this writes, and no unit of work that writes is open".into()));
        }
        if self.connection.is_autocommit() {
            return Err(StoreFailure::Other("this unit of work was undone after an error".into()));
        }
        Ok(())
    }

    /// Let the next commit wait for the disk, or not. Cannot be changed inside a transaction.
    fn wait_for_disk(&mut self, access: Access) -> Rows<()> {
        let synchronous = match access {
            _ if !self.sync => "OFF",
            Access::Relaxed => "NORMAL",
            // Nothing is committed.
            Access::Read => return Ok(()),
            Access::Write => "FULL",
        };
        if self.synchronous != synchronous {
            self.connection.pragma_update(None, "synchronous", synchronous)?;
            self.synchronous = synchronous;
        }
        Ok(())
    }

    /// Text is about to be erased: keep it out of the log, once the unit is kept. The unit itself notes that in the file, so
    /// that whoever writes next does it if this process ends before.
    fn erasing(&mut self) -> Rows<()> {
        if !self.scrub_noted {
            self.change(sql!("store_scrub"), named_params! { ":scrub": true })?;
            self.scrub_noted = true;
        }
        if self.scrub == Scrub::Clean {
            self.scrub = Scrub::Pending;
        }
        Ok(())
    }

    /// Move the log into the file and cut it off, so that erased text is not left in it; and write the file anew, if copies
    /// of what was erased may be left in there. Waits for nobody: a reader that still needs the log, and whoever writes, put
    /// it off until the next unit that writes, or until the store is dropped.
    fn scrub(&mut self) {
        let scrubbed = self.connection.busy_timeout(Duration::ZERO).map_err(Into::into).and_then(|()| self.scrubbed());
        match scrubbed {
            Ok(Some(seen)) => {
                (self.scrub, self.thorough) = (Scrub::Clean, false);
                // Where the note stays, the next one who writes does it again: it is not worth waiting for the disk.
                if self.scrub_noted && self.wait_for_disk(Access::Relaxed).is_ok() {
                    self.scrub_noted = !matches!(self.unset_scrub(seen), Ok(true));
                }
            }
            Ok(None) | Err(_) => self.scrub = Scrub::Due,
        }
        let _ = self.connection.busy_timeout(self.busy_timeout);
    }

    /// Whether it could be done: the file's data version, as of before.
    fn scrubbed(&self) -> Rows<Option<u32>> {
        let checkpoint = |pragma| self.connection.query_row(pragma, [], |row| row.get::<_, bool>(0));
        // The first moves the pages, and lets others write meanwhile; the second needs them to wait, for a moment.
        let cut_off = || -> Rows<bool> {
            checkpoint("PRAGMA wal_checkpoint(PASSIVE)")?;
            Ok(!checkpoint("PRAGMA wal_checkpoint(TRUNCATE)")?)
        };
        let mut seen = open::data_version(&self.connection);
        let mut is_cut_off = cut_off()?;
        if is_cut_off && self.thorough && remains::are_left(&self.connection)? {
            // The copy of the whole file that it makes may be larger than the machine's memory.
            let written = self.connection.execute_batch("PRAGMA temp_store = FILE; VACUUM");
            self.connection.execute_batch("PRAGMA temp_store = MEMORY")?;
            written?;
            seen = open::data_version(&self.connection);
            is_cut_off = cut_off()?;
        }
        Ok(is_cut_off.then_some(seen))
    }

    /// Take the note out of the file, unless another one has written since: that note may be its own.
    fn unset_scrub(&self, seen: u32) -> rusqlite::Result<bool> {
        let unit = Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)?;
        if open::data_version(&self.connection) != seen {
            return Ok(false);
        }
        unit.execute(sql!("store_scrub"), named_params! { ":scrub": false })?;
        unit.commit().map(|()| true)
    }

    /// R17: what FTS5's own `secure-delete` leaves of deleted terms.
    fn erase_terms(&self) -> Rows<()> {
        let left = self.read(sql!("memories_erase_left"), &[], |row| row.get::<_, String>(0))?.pop();
        let Some(term) = left else { return Ok(()) };
        let other =
            |op: Option<&str>| self.change(sql!("memories_erase_other"), named_params! { ":op": op, ":term": term });
        other(None)?;
        self.change(sql!("memories_erase_again"), &[])?;
        other(Some("delete"))?;
        Ok(())
    }

    /// What to look for first: the rarest of the query's words and runs, as many as have no more than [`RANKED`] matches
    /// together, and at least one. Ranking is what takes time, and common words rank next to nothing. And all that has any
    /// match: where the rare ones find too little, since their matches are not for this reader, they must not hide what
    /// the common ones find.
    fn rare_terms(&self, query: &Query) -> Rows<Option<(String, String)>> {
        let mut counted = Vec::new();
        for term in query.expressions() {
            let params = named_params! { ":term": term, ":most": RANKED };
            let count = self.read(sql!("memories_search_count"), params, |row| row.get::<_, i64>(0))?.into_iter().sum();
            if count > 0 {
                counted.push((count, term));
            }
        }
        counted.sort_by_key(|(count, _)| *count);
        let all = counted.iter().map(|(_, term)| term.as_str()).collect::<Vec<_>>().join(" OR ");
        let mut sum = 0;
        let rare = counted.into_iter().enumerate().take_while(|(place, (count, _))| {
            sum += count;
            *place == 0 || sum <= RANKED
        });
        let terms: Vec<String> = rare.map(|(_, (_, term))| term).collect();
        Ok((!terms.is_empty()).then(|| (terms.join(" OR "), all)))
    }

    /// The pages of these snapshots, put with them. `page`: only that one.
    fn with_pages(&self, rows: Vec<Option<Snapshot>>, page: Option<u32>) -> Rows<Vec<Option<Frozen>>> {
        let refs = rows::texts(rows.iter().map(|row| row.as_ref().map_or("", |row| row.snapshot_ref.as_str())))?;
        let mut frozen: Vec<Option<Frozen>> =
            rows.into_iter().map(|row| row.map(|snapshot| Frozen { snapshot, pages: Vec::new() })).collect();
        let pages = self.read(sql!("snapshots_pages"), named_params! { ":refs": refs, ":page": page }, |row| {
            Ok((rows::position(row)?, rows::page(row, 1)?))
        })?;
        for (position, page) in pages {
            match frozen.get_mut(position) {
                Some(Some(frozen)) => frozen.pages.push(page),
                _ => return Err(StoreFailure::Damaged("a page of no snapshot".into())),
            }
        }
        Ok(frozen)
    }

    fn insert_memory_ids(&self, snapshot: &Snapshot) -> Rows<()> {
        let memory_ids = rows::texts(snapshot.memory_ids.iter().map(String::as_str))?;
        self.change(
            sql!("snapshots_insert_memories"),
            named_params! { ":snapshot_ref": snapshot.snapshot_ref, ":memory_ids": memory_ids },
        )?;
        Ok(())
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        if self.unit.is_some() {
            self.roll_back();
        }
        if self.scrub == Scrub::Due {
            self.scrub();
        }
    }
}

impl Memories for SqliteStore {
    fn memories(&mut self, ids: &[String], max_bytes: u32) -> Rows<Vec<Option<Memory>>> {
        let mut allowance = Allowance::of(max_bytes);
        let asked = rows::texts(ids.iter().map(String::as_str))?;
        let found = self.read_placed(ids.len(), sql!("memories_get"), named_params! { ":ids": asked }, |row| {
            // A row that cannot be read is left out.
            Ok(rows::memory(row, 1, &mut allowance).ok())
        })?;
        Ok(found.into_iter().map(Option::flatten).collect())
    }

    fn search(&mut self, filter: &SearchFilter, query: &str, limit: u32, max_bytes: u32) -> Rows<Vec<Memory>> {
        let Some((rare, all)) = self.rare_terms(&Query::parse(query))? else { return Ok(Vec::new()) };
        let projects = rows::texts(filter.projects.iter().map(String::as_str))?;
        let at = rows::instant(filter.at)?;
        let run = |terms: &str| {
            let mut allowance = Allowance::of(max_bytes);
            let params = named_params! {
                ":terms": terms,
                ":owner": filter.owner,
                ":shared_in": filter.shared_in,
                ":projects": projects,
                ":at": at,
                ":trusted_only": filter.trusted_only,
                ":most": RANKED,
                ":limit": limit,
            };
            // A row that cannot be read is left out.
            self.read(sql!("memories_search"), params, |row| Ok(rows::memory(row, 0, &mut allowance).ok()))
        };
        let mut found = run(&rare)?;
        if found.len() < limit as usize && all.len() > rare.len() {
            found = run(&all)?;
        }
        Ok(found.into_iter().flatten().collect())
    }

    fn erase(&mut self, ids: &[String]) -> Rows<Vec<String>> {
        self.erasing()?;
        self.thorough = true;
        let ids = rows::texts(ids.iter().map(String::as_str))?;
        // The bodies may be many and long, and the index large.
        self.patience = PATIENCE.saturating_mul(60);
        let erased = self
            .change_returning(sql!("memories_erase"), named_params! { ":ids": ids }, |row| row.get(0))
            .and_then(|there| self.erase_terms().map(|()| there));
        self.patience = PATIENCE;
        erased
    }

    fn record_access(&mut self, ids: &[String], at: Instant) -> Rows<()> {
        let ids = rows::texts(ids.iter().map(String::as_str))?;
        self.change(sql!("memories_record_access"), named_params! { ":ids": ids, ":at": rows::instant(at)? })?;
        Ok(())
    }
}

impl Store for SqliteStore {
    fn begin_unit(&mut self, access: Access) -> Rows<()> {
        if self.unit.is_some() {
            return Err(StoreFailure::Other("a unit of work is open already".into()));
        }
        let begin = match access {
            Access::Read => "BEGIN DEFERRED",
            Access::Write | Access::Relaxed => "BEGIN IMMEDIATE",
        };
        self.renew()?;
        self.wait_for_disk(access)?;
        self.connection.prepare_cached(begin)?.execute([])?;
        self.unit = Some(access);
        match access {
            // Its first statement fixes what it sees; whether that may be read is asked before the unit ends.
            Access::Read => Ok(()),
            Access::Write | Access::Relaxed => {
                let schema = open::check_schema(&self.connection, access).inspect_err(|_| self.roll_back())?;
                self.scrub_noted = schema.scrub;
                if schema.scrub {
                    // It may be another's note, also where this one has something to take out itself.
                    self.thorough = true;
                    if self.scrub == Scrub::Clean {
                        self.scrub = Scrub::Due;
                    }
                }
                Ok(())
            }
        }
    }

    fn commit(&mut self) -> Rows<()> {
        if self.unit.is_none() {
            return Err(StoreFailure::Other("no unit of work is open".into()));
        }
        if self.unit == Some(Access::Read) {
            let version = open::data_version(&self.connection);
            if version == 0 || version != self.checked {
                open::check_schema(&self.connection, Access::Read).inspect_err(|_| self.roll_back())?;
                self.checked = version;
            }
        }
        let committed = self.connection.prepare_cached("COMMIT").and_then(|mut commit| commit.execute([]));
        self.noting(committed).inspect_err(|_| self.roll_back())?;
        let wrote = self.unit.take().is_some_and(Access::writes);
        if wrote && self.scrub != Scrub::Clean {
            self.scrub();
        }
        Ok(())
    }

    fn roll_back(&mut self) {
        if !self.connection.is_autocommit() {
            // Nothing can be done about an error here; SQLite then undoes it when the connection is closed.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        self.unit = None;
        // A note of its own is undone with the unit. One that was there before is found by the next unit that writes.
        self.scrub_noted = false;
        if self.scrub == Scrub::Pending {
            (self.scrub, self.thorough) = (Scrub::Clean, false);
        }
    }

    fn sessions(&mut self, keys: &[SessionKey]) -> Rows<Vec<Option<Session>>> {
        let asked = rows::keys(keys)?;
        self.read_placed(keys.len(), sql!("directory_sessions"), named_params! { ":keys": asked }, |row| {
            rows::session(row, 1)
        })
    }

    fn projects(&mut self, ids: &[String]) -> Rows<Vec<Option<Project>>> {
        let asked = rows::texts(ids.iter().map(String::as_str))?;
        self.read_placed(ids.len(), sql!("directory_projects"), named_params! { ":ids": asked }, |row| {
            rows::project(row, 1)
        })
    }

    fn workspace_projects(&mut self, workspace: &str) -> Rows<Vec<Project>> {
        self.read(sql!("directory_workspace_projects"), named_params! { ":workspace": workspace }, |row| {
            rows::project(row, 0)
        })
    }

    fn links(&mut self, agent: &str, others: &[String]) -> Rows<Vec<Link>> {
        let others = rows::texts(others.iter().map(String::as_str))?;
        self.read(sql!("directory_links"), named_params! { ":agent": agent, ":others": others }, rows::link)
    }

    fn insert_snapshot(&mut self, frozen: &Frozen) -> Rows<()> {
        let Frozen { snapshot, pages } = frozen;
        if pages.len() != snapshot.pages as usize {
            return Err(StoreFailure::Damaged(format!(
                "{} says that it has {} pages, and has {}",
                snapshot.snapshot_ref,
                snapshot.pages,
                pages.len()
            )));
        }
        self.change(
            sql!("snapshots_insert_snapshot"),
            named_params! {
                ":snapshot_ref": snapshot.snapshot_ref,
                ":owner_harness": snapshot.owner.harness,
                ":owner_session": snapshot.owner.id,
                ":created_at": rows::instant(snapshot.created_at)?,
                ":expires_at": rows::instant(snapshot.expires_at)?,
                ":keep_until": rows::instant(snapshot.keep_until)?,
                ":revoked_at": snapshot.revoked_at.map(rows::instant).transpose()?,
                ":pages": snapshot.pages,
                ":state": snapshot.state,
            },
        )?;
        self.insert_memory_ids(snapshot)?;
        for page in pages {
            self.change(
                sql!("snapshots_insert_page"),
                named_params! {
                    ":snapshot_ref": snapshot.snapshot_ref,
                    ":number": page.number,
                    ":checksum": page.check,
                    ":state": page.state,
                    ":text": page.text,
                },
            )?;
        }
        Ok(())
    }

    fn snapshots(&mut self, refs: &[String], pages: Selection) -> Rows<Vec<Option<Frozen>>> {
        let asked = rows::texts(refs.iter().map(String::as_str))?;
        let found = self.read_placed(refs.len(), sql!("snapshots_get"), named_params! { ":refs": asked }, |row| {
            rows::snapshot(row, 1)
        })?;
        match pages {
            Selection::None => {
                let bare = |snapshot| Frozen { snapshot, pages: Vec::new() };
                Ok(found.into_iter().map(|row| row.map(bare)).collect())
            }
            Selection::One(page) => self.with_pages(found, Some(page)),
            Selection::All => self.with_pages(found, None),
        }
    }

    fn revoke(&mut self, refs: &[String], at: Instant) -> Rows<()> {
        let refs = rows::texts(refs.iter().map(String::as_str))?;
        self.change(sql!("snapshots_revoke"), named_params! { ":refs": refs, ":at": rows::instant(at)? })?;
        Ok(())
    }

    fn overwrite(&mut self, frozen: &[Frozen]) -> Rows<()> {
        self.erasing()?;
        // Also where the memories are in another store, which erases them itself or not.
        self.thorough = true;
        for Frozen { snapshot, pages } in frozen {
            let name = &snapshot.snapshot_ref;
            self.change(
                sql!("snapshots_overwrite_state"),
                named_params! { ":snapshot_ref": name, ":state": snapshot.state },
            )?;
            let refs = rows::texts([name.as_str()])?;
            self.change(sql!("snapshots_delete_memories"), named_params! { ":refs": refs })?;
            self.insert_memory_ids(snapshot)?;
            for page in pages {
                self.change(
                    sql!("snapshots_overwrite_page"),
                    named_params! {
                        ":snapshot_ref": name,
                        ":number": page.number,
                        ":checksum": page.check,
                        ":state": page.state,
                        ":text": page.text,
                    },
                )?;
            }
        }
        Ok(())
    }

    fn pinned(&mut self, memory_ids: &[String], at: Instant) -> Rows<Vec<String>> {
        let asked = rows::texts(memory_ids.iter().map(String::as_str))?;
        let params = named_params! { ":memory_ids": asked, ":at": rows::instant(at)? };
        let pinned = self.read_placed(memory_ids.len(), sql!("snapshots_pinned"), params, |row| row.get(1))?;
        Ok(pinned.into_iter().flatten().collect())
    }

    fn holding(&mut self, memory_ids: &[String], limit: u32) -> Rows<Vec<Frozen>> {
        let memory_ids = rows::texts(memory_ids.iter().map(String::as_str))?;
        let params = named_params! { ":memory_ids": memory_ids, ":limit": limit };
        let found = self.read(sql!("snapshots_holding"), params, |row| rows::snapshot(row, 0).map(Some))?;
        Ok(self.with_pages(found, None)?.into_iter().flatten().collect())
    }

    fn expired(&mut self, at: Instant, limit: u32) -> Rows<Vec<Snapshot>> {
        let params = named_params! { ":at": rows::instant(at)?, ":limit": limit };
        self.read(sql!("snapshots_expired"), params, |row| rows::snapshot(row, 0))
    }

    fn strip(&mut self, refs: &[String], keep_until: Instant) -> Rows<()> {
        self.erasing()?;
        let refs = rows::texts(refs.iter().map(String::as_str))?;
        self.change(sql!("snapshots_strip_pages"), named_params! { ":refs": refs })?;
        self.change(sql!("snapshots_delete_memories"), named_params! { ":refs": refs })?;
        let params = named_params! { ":refs": refs, ":keep_until": rows::instant(keep_until)? };
        self.change(sql!("snapshots_strip"), params)?;
        Ok(())
    }

    fn remove(&mut self, refs: &[String]) -> Rows<()> {
        self.erasing()?;
        let refs = rows::texts(refs.iter().map(String::as_str))?;
        self.change(sql!("snapshots_remove"), named_params! { ":refs": refs })?;
        Ok(())
    }

    fn insert_hand_over(&mut self, hand_over: &HandOver) -> Rows<bool> {
        let inserted = self.change(
            sql!("snapshots_insert_hand_over"),
            named_params! {
                ":hand_over": hand_over.id,
                ":parent_harness": hand_over.parent.harness,
                ":parent_session": hand_over.parent.id,
                ":call_id": hand_over.call_id,
                ":agent_type": hand_over.agent_type,
                ":snapshot_ref": hand_over.snapshot_ref,
                ":ids_key": hand_over.ids_key,
                ":children": hand_over.children,
                ":created_at": rows::instant(hand_over.created_at)?,
                ":expires_at": rows::instant(hand_over.expires_at)?,
                ":keep_until": rows::instant(hand_over.keep_until)?,
                ":task_digest": hand_over.task_digest,
                ":task_head": hand_over.task_head,
                ":task": hand_over.task,
                ":state": hand_over.state,
            },
        )?;
        Ok(inserted > 0)
    }

    fn find_hand_overs(&mut self, filter: &OfferFilter, limit: u32) -> Rows<Vec<Offer>> {
        let mut offers = self.read(
            sql!("snapshots_find_hand_overs"),
            named_params! {
                ":parent_harness": filter.parent.harness,
                ":parent_session": filter.parent.id,
                ":call_id": filter.call_id,
                ":snapshot_ref": filter.snapshot_ref,
                ":ids_key": filter.ids_key,
                ":task_digest": filter.task_digest,
                ":within": filter.within,
                ":agent_type": filter.agent_type,
                ":open_only": filter.open_only,
                ":with_task": filter.with_task,
                ":limit": limit,
            },
            rows::offer,
        )?;
        offers.reverse();
        Ok(offers)
    }

    fn insert_delivery(&mut self, delivery: &Delivery) -> Rows<bool> {
        let inserted = self.change(
            sql!("snapshots_insert_delivery"),
            named_params! {
                ":child_harness": delivery.child.harness,
                ":child_session": delivery.child.id,
                ":occasion": delivery.occasion,
                ":snapshot_ref": delivery.snapshot_ref,
                ":hand_over": delivery.hand_over,
                ":place": delivery.place,
                ":at": rows::instant(delivery.at)?,
                ":keep_until": rows::instant(delivery.keep_until)?,
                ":state": delivery.state,
                ":checksum": delivery.check,
                ":notice": delivery.notice,
            },
        )?;
        Ok(inserted > 0)
    }

    fn deliveries(&mut self, child: &SessionKey) -> Rows<Vec<Given>> {
        let params = named_params! { ":child_harness": child.harness, ":child_session": child.id };
        self.read_numbered(sql!("snapshots_deliveries"), params, 25, rows::given)
    }

    fn replay(
        &mut self,
        child: &SessionKey,
        snapshot_ref: Option<&str>,
        page: u32,
        at: Instant,
    ) -> Rows<Vec<StoredPage>> {
        self.read_numbered(
            sql!("snapshots_replay"),
            named_params! {
                ":child_harness": child.harness,
                ":child_session": child.id,
                ":snapshot_ref": snapshot_ref,
                ":page": page,
                ":at": rows::instant(at)?,
            },
            6,
            rows::stored_page,
        )
    }

    fn end_deliveries(&mut self, child: &SessionKey, at: Instant) -> Rows<()> {
        let key = named_params! { ":child_harness": child.harness, ":child_session": child.id };
        let at = rows::instant(at)?;
        let with_time = named_params! { ":child_harness": child.harness, ":child_session": child.id, ":at": at };
        self.change(sql!("snapshots_end_deliveries_1"), with_time)?;
        self.change(sql!("snapshots_end_deliveries_2"), key)?;
        self.change(sql!("snapshots_end_deliveries_3"), key)?;
        Ok(())
    }

    fn remove_unattached(&mut self, at: Instant, limit: u32) -> Rows<u32> {
        self.erasing()?;
        let at = rows::instant(at)?;
        let params = named_params! { ":at": at, ":limit": limit };
        let hand_overs = self.change(sql!("snapshots_remove_unattached_1"), params)?;
        let deliveries = self.change(sql!("snapshots_remove_unattached_2"), params)?;
        Ok(u32::try_from(hand_overs + deliveries).unwrap_or(u32::MAX))
    }

    fn settings(&mut self, project: Option<&str>, names: &[String]) -> Rows<Vec<Option<String>>> {
        let asked = rows::texts(names.iter().map(String::as_str))?;
        let params = named_params! { ":project": project, ":names": asked };
        let values = self.read_placed(names.len(), sql!("environment_settings"), params, |row| row.get(1))?;
        Ok(values.into_iter().map(Option::flatten).collect())
    }

    fn append_audit(&mut self, rows: &[AuditRow]) -> Rows<()> {
        if self.unit.is_none() {
            return self.unit_of(Access::Write, |store| store.append_audit(rows));
        }
        for row in rows {
            self.change(
                sql!("audit_append"),
                named_params! {
                    ":at": rows::instant(row.at)?,
                    ":rolled_back": row.rolled_back,
                    ":harness": row.session.as_ref().map(|key| &key.harness),
                    ":session": row.session.as_ref().map(|key| &key.id),
                    ":export": row.export,
                    ":component": row.component,
                    ":action": row.entry.action,
                    ":outcome": row.entry.outcome,
                    ":snapshot_refs": rows::json(&row.entry.snapshot_refs)?,
                    ":memory_ids": rows::json(&row.entry.memory_ids)?,
                    ":attributes": rows::json(&row.entry.attributes)?,
                },
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::config::DbConfig;

    use super::*;

    /// One that would never end is stopped, and the next one is not.
    #[test]
    fn a_statement_that_takes_too_long_is_stopped() {
        let mut store = SqliteStore::in_memory().unwrap();
        store.patience = Duration::from_millis(20);
        let endless = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
        let stopped = store.read(endless, &[], |row| row.get::<_, i64>(0));
        assert!(matches!(&stopped, Err(StoreFailure::Other(why)) if why.contains("too long")), "{stopped:?}");
        assert_eq!(store.read("SELECT 1", &[], |row| row.get::<_, i64>(0)).unwrap(), [1]);
    }

    /// What comes long after a statement is none of that statement's time.
    #[test]
    fn a_store_that_was_idle_goes_on() {
        let mut store = SqliteStore::in_memory().unwrap();
        store.patience = Duration::from_millis(20);
        store.read("SELECT 1", &[], |row| row.get::<_, i64>(0)).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        for access in [Access::Read, Access::Write, Access::Relaxed].into_iter().cycle().take(3_000) {
            store.begin_unit(access).unwrap();
            store.commit().unwrap();
        }
    }

    /// What the file's safety rests on, asked of the connection that the store itself uses.
    #[test]
    fn every_connection_is_set_up() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.db");
        for _ in 0..2 {
            let store = SqliteStore::open(&path, &SqliteOptions::default()).unwrap();
            let number =
                |pragma: &str| -> i64 { store.connection.pragma_query_value(None, pragma, |row| row.get(0)).unwrap() };
            assert_eq!(number("synchronous"), 2, "FULL");
            assert_eq!(number("foreign_keys"), 1);
            assert_eq!(number("secure_delete"), 1);
            assert_eq!(number("journal_size_limit"), 8 << 20);
            assert_eq!(number("busy_timeout"), 5_000);
            let mode: String = store.connection.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
            assert_eq!(mode, "wal");
            let is_set = |config| store.connection.db_config(config).unwrap();
            assert!(is_set(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG));
            assert!(!is_set(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE));
        }
    }
}
