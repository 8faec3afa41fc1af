//! What an error of SQLite means to the caller: which may be tried again, which need a person.

use rusqlite::ffi::{self, ErrorCode};

use crate::store::StoreFailure;

impl From<rusqlite::Error> for StoreFailure {
    fn from(error: rusqlite::Error) -> StoreFailure {
        use rusqlite::Error::*;
        match &error {
            SqliteFailure(code, text) => of_sqlite(*code, text.as_deref()),
            SqlInputError { error: code, msg, .. } => of_sqlite(*code, Some(msg)),
            // A value of another type than the schema says, or a text that is not UTF-8.
            FromSqlConversionFailure(..)
            | IntegralValueOutOfRange(..)
            | InvalidColumnType(..)
            | Utf8Error(..)
            | QueryReturnedNoRows => StoreFailure::Damaged(error.to_string()),
            _ => StoreFailure::Other(error.to_string()),
        }
    }
}

fn of_sqlite(code: ffi::Error, text: Option<&str>) -> StoreFailure {
    let text = text.map_or_else(|| code.to_string(), str::to_owned);
    match code.code {
        // A lost race for the write-ahead log's locks is one more kind of busy.
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed => {
            StoreFailure::Busy(text)
        }
        ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt => StoreFailure::Damaged(text),
        ErrorCode::CannotOpen => StoreFailure::Absent(text),
        ErrorCode::TooBig => StoreFailure::TooLarge(text),
        ErrorCode::OperationInterrupted => StoreFailure::Other("a statement took too long and was stopped".into()),
        ErrorCode::DiskFull => StoreFailure::Other(format!("no space is left for it: {text}")),
        ErrorCode::ReadOnly => StoreFailure::Other(format!("it may only be read: {text}")),
        ErrorCode::SystemIoFailure => StoreFailure::Other(format!("reading or writing its file failed: {text}")),
        // Two rows with one id, or a row that names another which is not there.
        ErrorCode::ConstraintViolation if is_reference(code.extended_code) => StoreFailure::Damaged(text),
        _ => StoreFailure::Other(text),
    }
}

/// Whether the disk, or memory, has failed SQLite in the middle of something.
pub(super) fn is_of_machine(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::SystemIoFailure | ErrorCode::DiskFull | ErrorCode::CannotOpen | ErrorCode::OutOfMemory)
    )
}

fn is_reference(extended: std::os::raw::c_int) -> bool {
    matches!(
        extended,
        ffi::SQLITE_CONSTRAINT_UNIQUE | ffi::SQLITE_CONSTRAINT_PRIMARYKEY | ffi::SQLITE_CONSTRAINT_FOREIGNKEY
    )
}
