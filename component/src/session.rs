//! The calling session as the directory knows it (R24), and whether memory is on for it (R8, R13). The host tells who
//! calls; nothing here believes a task text.

use crate::block::quoted;
use crate::contract::*;
use crate::{Imports, ids};

/// The longest session id in bytes. Some harnesses use file paths.
const MAX_BYTES: usize = 1024;

/// R24: `key` has both parts.
pub fn check(key: &SessionKey) -> Result<(), Error> {
    ids::check("harness", &key.harness, ids::MAX_BYTES)?;
    ids::check("session id", &key.id, MAX_BYTES)
}

/// The session with this key. `unavailable`: there is none.
pub fn find<I: Imports>(imports: &mut I, key: &SessionKey) -> Result<Session, Error> {
    check(key)?;
    lookup(imports, key)?.ok_or_else(|| Error::Unavailable(vec![name(key)]))
}

/// The session with this key, if the directory has it.
pub fn lookup<I: Imports>(imports: &mut I, key: &SessionKey) -> Result<Option<Session>, Error> {
    let mut rows = imports.sessions(std::slice::from_ref(key))?;
    match (rows.pop(), rows.len()) {
        (Some(row), 0) => Ok(row),
        _ => Err(damaged("directory.sessions answered with another number of rows than was asked for")),
    }
}

/// R8, R13: whether memory is on for this session. Both switches must be; an unknown project is off.
pub fn memory_on(session: &Session) -> bool {
    session.memory_on && session.project.as_ref().is_some_and(|project| project.memory_on)
}

/// R10: whether two projects may share: the same one, or both in one workspace. No workspace shares with nobody, and a
/// workspace without a name is none.
pub fn may_share(one: &Project, other: &Project) -> bool {
    let named = |project: &Project| project.workspace.as_deref().is_some_and(|name| !name.is_empty());
    one.id == other.id || (named(one) && one.workspace == other.workspace)
}

/// R20: whether the projects of two sessions may share.
pub fn together(one: &Session, other: &Session) -> bool {
    matches!((&one.project, &other.project), (Some(one), Some(other)) if may_share(one, other))
}

/// `HARNESS/S`, as people write it.
pub fn name(key: &SessionKey) -> String {
    format!("{}/{}", key.harness, key.id)
}

/// A key for a sentence.
pub fn shown(key: &SessionKey) -> String {
    quoted(&name(key))
}

/// The host broke its contract.
pub fn damaged(what: &str) -> Error {
    Error::Store(StoreError::Damaged(what.into()))
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Error {
        Error::Store(error)
    }
}
