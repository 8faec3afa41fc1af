//! A disk that fails, and one that loses its power: SQLite's default file system, wrapped. What a thread does with files
//! can be made to fail at one operation, or from one on; and what a thread has written is remembered together with what
//! was not yet synced, so that any state can be made in which a power cut could have left the files.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::fs;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::Once;

use rusqlite::ffi::{self, sqlite3_file, sqlite3_io_methods, sqlite3_vfs};

use super::chance::Chance;

/// An operation on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Open,
    Read,
    Write,
    Truncate,
    Sync,
    Size,
    Lock,
    Delete,
    Access,
    Map,
}

/// What is to fail.
#[derive(Debug, Clone)]
pub struct Fault {
    /// Only these count, and fail.
    pub kinds: &'static [Kind],
    /// From 1.
    pub number: usize,
    /// Everything of these kinds after it fails too.
    pub lasting: bool,
    /// The code that SQLite gets; `None`: that of the operation.
    pub code: Option<c_int>,
    /// Of what is written, the first half arrives.
    pub halves: bool,
}

/// What has become of a file that this thread has open.
#[derive(Clone, Default)]
struct Medium {
    /// As of the last sync.
    synced: Vec<u8>,
    /// Since then, in order.
    pending: Vec<Change>,
    there: bool,
    /// That it is there, or not, is on the disk.
    named: bool,
    /// The file of this name before it, if its end is not on the disk.
    before: Option<Vec<u8>>,
}

#[derive(Clone)]
enum Change {
    Write(usize, Vec<u8>),
    Truncate(usize),
}

/// What is on the disk, and what may be.
#[derive(Clone, Default)]
pub struct Media(BTreeMap<PathBuf, Medium>);

#[derive(Default)]
struct Disk {
    fault: Option<Fault>,
    /// How many operations of the fault's kinds there were.
    counted: usize,
    failed: usize,
    media: Option<Media>,
    /// Take what is on the disk at each operation with a number among these (ascending).
    moments: Vec<usize>,
    operations: usize,
    taken: Vec<Media>,
    temporary: usize,
}

thread_local! {
    static DISK: RefCell<Disk> = RefCell::default();
}

/// Let operations of this thread fail. They are counted from now on.
pub fn fail(fault: Fault) {
    DISK.with_borrow_mut(|disk| (disk.fault, disk.counted, disk.failed) = (Some(fault), 0, 0));
}

/// Let nothing fail any more. How many operations have failed.
pub fn mend() -> usize {
    DISK.with_borrow_mut(|disk| {
        disk.fault = None;
        disk.failed
    })
}

/// How many files without a name this thread has opened: they lie in the directory for temporary files.
pub fn temporary() -> usize {
    DISK.with_borrow(|disk| disk.temporary)
}

/// Remember from now on what this thread writes. The files of this directory are taken for synced as they are.
pub fn record(directory: &Path) {
    let mut media = Media::default();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let synced = fs::read(&path).unwrap();
        media.0.insert(path, Medium { synced, there: true, named: true, ..Medium::default() });
    }
    DISK.with_borrow_mut(|disk| disk.media = Some(media));
}

/// Take what is on the disk at the operations with these numbers, counted from now on.
pub fn take_at(moments: Vec<usize>) {
    DISK.with_borrow_mut(|disk| (disk.moments, disk.operations, disk.taken) = (moments, 0, Vec::new()));
}

/// What was taken since.
pub fn taken() -> Vec<Media> {
    DISK.with_borrow_mut(|disk| std::mem::take(&mut disk.taken))
}

/// What is on the disk now.
pub fn media() -> Media {
    DISK.with_borrow(|disk| disk.media.clone().expect("it is recorded"))
}

impl Media {
    fn medium(&mut self, path: &Path) -> &mut Medium {
        self.0.entry(path.to_owned()).or_default()
    }

    /// SQLite syncs the directory too where it makes a log, and where it says so when it deletes one.
    fn sync_names(&mut self) {
        for medium in self.0.values_mut() {
            medium.named = true;
            medium.before = None;
        }
    }

    /// Write files as a power cut may leave them, into another directory: what was synced is there; of what was not, any
    /// part, by sector.
    pub fn cut(&self, into: &Path, chance: &mut Chance) {
        let sector = [512, 4_096][chance.below(2)];
        // Nothing that was not synced, everything, or some.
        let odds = [0, 0, 5, 10, 15, 19, 20][chance.below(7)];
        for (path, medium) in &self.0 {
            let name = path.file_name().unwrap();
            let is_there = if medium.named { medium.there } else { chance.one_in(2) };
            let bytes = match (is_there, &medium.before) {
                (true, _) if medium.there => medium.after_cut(sector, odds, chance),
                (true, Some(before)) => before.clone(),
                (true, None) => medium.synced.clone(),
                (false, Some(before)) if chance.one_in(2) => before.clone(),
                (false, _) => continue,
            };
            fs::write(into.join(name), bytes).unwrap();
        }
    }
}

impl Medium {
    fn after_cut(&self, sector: usize, odds: usize, chance: &mut Chance) -> Vec<u8> {
        let mut bytes = self.synced.clone();
        for change in &self.pending {
            match change {
                Change::Truncate(size) if chance.below(20) < odds => bytes.truncate(*size),
                Change::Truncate(_) => {}
                Change::Write(offset, written) => {
                    let mut from = 0;
                    while from < written.len() {
                        let to = (((offset + from) / sector + 1) * sector - offset).min(written.len());
                        let mut part = &written[from..to];
                        if chance.below(20) < odds {
                            if chance.one_in(16) {
                                part = &part[..chance.below(part.len())];
                            }
                            put(&mut bytes, offset + from, part);
                        } else if offset + from >= self.synced.len() && chance.one_in(4) {
                            // The file has grown, and what is there is anything.
                            let noise: Vec<u8> = part.iter().map(|_| chance.next() as u8).collect();
                            put(&mut bytes, offset + from, &noise);
                        }
                        from = to;
                    }
                }
            }
        }
        bytes
    }

    fn sync(&mut self) {
        for change in std::mem::take(&mut self.pending) {
            match change {
                Change::Write(offset, written) => put(&mut self.synced, offset, &written),
                Change::Truncate(size) => self.synced.truncate(size),
            }
        }
    }
}

fn put(bytes: &mut Vec<u8>, offset: usize, part: &[u8]) {
    if bytes.len() < offset + part.len() {
        bytes.resize(offset + part.len(), 0);
    }
    bytes[offset..offset + part.len()].copy_from_slice(part);
}

/// One operation: whether it fails, and with which code; `Some((code, true))`: after the first half was written.
fn operation(kind: Kind) -> Option<(c_int, bool)> {
    DISK.with_borrow_mut(|disk| {
        disk.operations += 1;
        if disk.moments.first() == Some(&disk.operations) {
            disk.moments.remove(0);
            disk.taken.extend(disk.media.clone());
        }
        let fault = disk.fault.clone().filter(|fault| fault.kinds.contains(&kind))?;
        disk.counted += 1;
        let fails = disk.counted == fault.number || (fault.lasting && disk.counted > fault.number);
        if !fails {
            return None;
        }
        disk.failed += 1;
        let own = match kind {
            Kind::Open => ffi::SQLITE_CANTOPEN,
            Kind::Read => ffi::SQLITE_IOERR_READ,
            Kind::Write => ffi::SQLITE_IOERR_WRITE,
            Kind::Truncate => ffi::SQLITE_IOERR_TRUNCATE,
            Kind::Sync => ffi::SQLITE_IOERR_FSYNC,
            Kind::Size => ffi::SQLITE_IOERR_FSTAT,
            Kind::Lock => ffi::SQLITE_IOERR_LOCK,
            Kind::Delete => ffi::SQLITE_IOERR_DELETE,
            Kind::Access => ffi::SQLITE_IOERR_ACCESS,
            Kind::Map => ffi::SQLITE_IOERR_SHMMAP,
        };
        Some((fault.code.unwrap_or(own), fault.halves))
    })
}

fn recorded(file: *mut sqlite3_file, change: impl FnOnce(&mut Media, &Path)) {
    DISK.with_borrow_mut(|disk| {
        // SAFETY: SQLite hands over files that `open` has filled in.
        if let (Some(media), Some(path)) = (&mut disk.media, unsafe { &(*file.cast::<File>()).path }) {
            change(media, path);
        }
    });
}

/// A file of ours; the one of the wrapped file system follows it in memory.
#[repr(C, align(8))]
struct File {
    base: sqlite3_file,
    path: Option<PathBuf>,
    is_log: bool,
}

/// What follows our part.
unsafe fn real(file: *mut sqlite3_file) -> *mut sqlite3_file {
    unsafe { file.cast::<u8>().add(size_of::<File>()).cast() }
}

unsafe fn wrapped(vfs: *mut sqlite3_vfs) -> *mut sqlite3_vfs {
    unsafe { (*vfs).pAppData.cast() }
}

/// Pass a call on to the wrapped file.
macro_rules! pass {
    ($file:expr, $method:ident $(, $argument:expr)*) => {{
        let file = real($file);
        ((*(*file).pMethods).$method.unwrap())(file $(, $argument)*)
    }};
}

unsafe extern "C" fn open(
    vfs: *mut sqlite3_vfs,
    name: *const c_char,
    file: *mut sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    unsafe {
        (*file).pMethods = ptr::null();
        if let Some((code, _)) = operation(Kind::Open) {
            return code;
        }
        if name.is_null() {
            DISK.with_borrow_mut(|disk| disk.temporary += 1);
        }
        let path = if name.is_null() { None } else { Some(PathBuf::from(CStr::from_ptr(name).to_str().unwrap())) };
        let code = ((*wrapped(vfs)).xOpen.unwrap())(wrapped(vfs), name, real(file), flags, out_flags);
        if (*real(file)).pMethods.is_null() {
            return code;
        }
        let is_log = flags & (ffi::SQLITE_OPEN_WAL | ffi::SQLITE_OPEN_MAIN_JOURNAL) != 0;
        let ours = File { base: sqlite3_file { pMethods: &raw const METHODS }, path, is_log };
        file.cast::<File>().write(ours);
        recorded(file, |media, path| match media.0.get_mut(path) {
            // It was just made, by SQLite or by whoever opens it.
            None => drop(media.0.insert(path.to_owned(), Medium { there: true, ..Medium::default() })),
            Some(medium) if !medium.there => {
                let old = std::mem::take(medium);
                let before = if old.named { None } else { Some(old.synced) };
                *medium = Medium { there: true, before, ..Medium::default() };
            }
            Some(_) => {}
        });
        code
    }
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    unsafe {
        let code = pass!(file, xClose);
        ptr::drop_in_place(file.cast::<File>());
        (*file).pMethods = ptr::null();
        code
    }
}

unsafe extern "C" fn read(file: *mut sqlite3_file, to: *mut c_void, amount: c_int, offset: i64) -> c_int {
    match operation(Kind::Read) {
        Some((code, _)) => code,
        None => unsafe { pass!(file, xRead, to, amount, offset) },
    }
}

unsafe extern "C" fn write(file: *mut sqlite3_file, from: *const c_void, amount: c_int, offset: i64) -> c_int {
    let fault = operation(Kind::Write);
    let amount = match fault {
        None => amount,
        Some((_, true)) => amount / 2,
        Some((code, false)) => return code,
    };
    unsafe {
        let code = if amount > 0 { pass!(file, xWrite, from, amount, offset) } else { ffi::SQLITE_OK };
        if code == ffi::SQLITE_OK && amount > 0 {
            let written = std::slice::from_raw_parts(from.cast::<u8>(), amount as usize).to_vec();
            recorded(file, |media, path| media.medium(path).pending.push(Change::Write(offset as usize, written)));
        }
        fault.map_or(code, |(code, _)| code)
    }
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, size: i64) -> c_int {
    if let Some((code, _)) = operation(Kind::Truncate) {
        return code;
    }
    let code = unsafe { pass!(file, xTruncate, size) };
    if code == ffi::SQLITE_OK {
        recorded(file, |media, path| media.medium(path).pending.push(Change::Truncate(size as usize)));
    }
    code
}

/// The real file is not synced: no test takes the machine's power, and what would be lost is remembered here.
unsafe extern "C" fn sync(file: *mut sqlite3_file, _flags: c_int) -> c_int {
    if let Some((code, _)) = operation(Kind::Sync) {
        return code;
    }
    let is_log = unsafe { (*file.cast::<File>()).is_log };
    recorded(file, |media, path| {
        let medium = media.medium(path);
        medium.sync();
        if is_log && !medium.named {
            media.sync_names();
        }
    });
    ffi::SQLITE_OK
}

unsafe extern "C" fn file_size(file: *mut sqlite3_file, size: *mut i64) -> c_int {
    match operation(Kind::Size) {
        Some((code, _)) => code,
        None => unsafe { pass!(file, xFileSize, size) },
    }
}

unsafe extern "C" fn lock(file: *mut sqlite3_file, level: c_int) -> c_int {
    match operation(Kind::Lock) {
        Some((code, _)) => code,
        None => unsafe { pass!(file, xLock, level) },
    }
}

unsafe extern "C" fn unlock(file: *mut sqlite3_file, level: c_int) -> c_int {
    unsafe { pass!(file, xUnlock, level) }
}

unsafe extern "C" fn is_reserved(file: *mut sqlite3_file, answer: *mut c_int) -> c_int {
    unsafe { pass!(file, xCheckReservedLock, answer) }
}

unsafe extern "C" fn control(file: *mut sqlite3_file, operation: c_int, argument: *mut c_void) -> c_int {
    unsafe { pass!(file, xFileControl, operation, argument) }
}

unsafe extern "C" fn sector_size(file: *mut sqlite3_file) -> c_int {
    unsafe { pass!(file, xSectorSize) }
}

unsafe extern "C" fn characteristics(file: *mut sqlite3_file) -> c_int {
    unsafe { pass!(file, xDeviceCharacteristics) }
}

unsafe extern "C" fn map(
    file: *mut sqlite3_file,
    page: c_int,
    size: c_int,
    extend: c_int,
    to: *mut *mut c_void,
) -> c_int {
    match operation(Kind::Map) {
        Some((code, _)) => code,
        None => unsafe { pass!(file, xShmMap, page, size, extend, to) },
    }
}

unsafe extern "C" fn map_lock(file: *mut sqlite3_file, offset: c_int, n: c_int, flags: c_int) -> c_int {
    if flags & ffi::SQLITE_SHM_LOCK != 0
        && let Some((code, _)) = operation(Kind::Lock)
    {
        return code;
    }
    unsafe { pass!(file, xShmLock, offset, n, flags) }
}

unsafe extern "C" fn map_barrier(file: *mut sqlite3_file) {
    unsafe { pass!(file, xShmBarrier) }
}

unsafe extern "C" fn unmap(file: *mut sqlite3_file, delete: c_int) -> c_int {
    unsafe { pass!(file, xShmUnmap, delete) }
}

unsafe extern "C" fn delete(vfs: *mut sqlite3_vfs, name: *const c_char, sync_directory: c_int) -> c_int {
    if let Some((code, _)) = operation(Kind::Delete) {
        return code;
    }
    unsafe {
        let code = ((*wrapped(vfs)).xDelete.unwrap())(wrapped(vfs), name, 0);
        let path = PathBuf::from(CStr::from_ptr(name).to_str().unwrap());
        DISK.with_borrow_mut(|disk| {
            let Some(media) = disk.media.as_mut().filter(|_| code == ffi::SQLITE_OK) else { return };
            if let Some(medium) = media.0.get_mut(&path) {
                // What it was is what may come back.
                (medium.there, medium.named) = (false, false);
                medium.pending.clear();
            }
            if sync_directory != 0 {
                media.sync_names();
            }
        });
        code
    }
}

unsafe extern "C" fn access(vfs: *mut sqlite3_vfs, name: *const c_char, flags: c_int, answer: *mut c_int) -> c_int {
    match operation(Kind::Access) {
        Some((code, _)) => code,
        None => unsafe { ((*wrapped(vfs)).xAccess.unwrap())(wrapped(vfs), name, flags, answer) },
    }
}

static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    // Without xFetch, which is the third version's: files are not mapped, but for the log's index.
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(is_reserved),
    xFileControl: Some(control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(characteristics),
    xShmMap: Some(map),
    xShmLock: Some(map_lock),
    xShmBarrier: Some(map_barrier),
    xShmUnmap: Some(unmap),
    xFetch: None,
    xUnfetch: None,
};

/// Put it under all files that this process opens from now on. Threads that ask for nothing notice nothing.
pub fn install() {
    static ONCE: Once = Once::new();
    // SAFETY: the copy of the default file system is whole, and lives as long as the process; what it does not override
    // takes no file, and the wrapped one's functions do not look at which of the two they are called for.
    ONCE.call_once(|| unsafe {
        let default = ffi::sqlite3_vfs_find(ptr::null());
        let ours = Box::leak(Box::new(*default));
        ours.zName = c"failing".as_ptr();
        ours.pAppData = default.cast();
        ours.pNext = ptr::null_mut();
        ours.szOsFile = size_of::<File>() as c_int + (*default).szOsFile;
        ours.xOpen = Some(open);
        ours.xDelete = Some(delete);
        ours.xAccess = Some(access);
        assert_eq!(ffi::sqlite3_vfs_register(ours, 1), ffi::SQLITE_OK);
    });
}
