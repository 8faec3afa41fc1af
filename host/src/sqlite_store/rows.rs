//! From rows to the contract's records and back. Whatever comes out of the file is checked: a value of the wrong type, a
//! number out of range or a text that is not UTF-8 is an error of its column.

use rusqlite::types::{FromSqlError, Type};
use rusqlite::{Result, Row};
use serde::de::DeserializeOwned;

use crate::allowance::Allowance;
use crate::contract::*;
use crate::store::{AuditRow, Rows, StoreFailure};

/// An instant as SQLite holds it. `TooLarge` beyond the year 292,278,994.
pub(super) fn instant(at: Instant) -> Rows<i64> {
    i64::try_from(at).map_err(|_| StoreFailure::TooLarge(format!("{at} is too late an instant for this store")))
}

/// A list of texts as one JSON parameter. A text with a NUL is written as null, which equals nothing: SQLite would read
/// it as the part before the NUL, and so as another name.
pub(super) fn texts<'a>(list: impl IntoIterator<Item = &'a str>) -> Rows<String> {
    json(&list.into_iter().map(whole).collect::<Vec<_>>())
}

/// A list of session keys as one JSON parameter.
pub(super) fn keys(list: &[SessionKey]) -> Rows<String> {
    json(&list.iter().map(|key| (whole(&key.harness), whole(&key.id))).collect::<Vec<_>>())
}

fn whole(text: &str) -> Option<&str> {
    (!text.contains('\0')).then_some(text)
}

/// Anything else that is stored as JSON, and only read by hosts.
pub(super) fn json(value: &impl serde::Serialize) -> Rows<String> {
    serde_json::to_string(value).map_err(|error| StoreFailure::Other(error.to_string()))
}

fn from_json<T: DeserializeOwned>(row: &Row, index: usize) -> Result<T> {
    let text = row.get_ref(index)?.as_str()?;
    serde_json::from_str(text)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(index, Type::Text, Box::new(error)))
}

/// The first column of a statement that answers a list: which place the row has in it, from 0.
pub(super) fn position(row: &Row) -> Result<usize> {
    let position: i64 = row.get(0)?;
    usize::try_from(position).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(0, position))
}

fn read_instant(row: &Row, index: usize) -> Result<Instant> {
    let at: i64 = row.get(index)?;
    Instant::try_from(at).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(index, at))
}

fn read_instant_if(row: &Row, index: usize) -> Result<Option<Instant>> {
    row.get::<_, Option<i64>>(index)?
        .map(|at| Instant::try_from(at).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(index, at)))
        .transpose()
}

fn session_key(row: &Row, index: usize) -> Result<SessionKey> {
    Ok(SessionKey { harness: row.get(index)?, id: row.get(index + 1)? })
}

fn session_key_if(row: &Row, index: usize) -> Result<Option<SessionKey>> {
    Ok(match (row.get(index)?, row.get(index + 1)?) {
        (Some(harness), Some(id)) => Some(SessionKey { harness, id }),
        _ => None,
    })
}

fn audience(row: &Row, index: usize) -> Result<Audience> {
    match row.get_ref(index)?.as_str()? {
        "agent" => Ok(Audience::Agent),
        "project" => Ok(Audience::Project),
        "workspace" => Ok(Audience::Workspace),
        _ => Err(FromSqlError::InvalidType.into()),
    }
}

/// How an audience is stored.
pub(super) fn audience_word(audience: Audience) -> &'static str {
    match audience {
        Audience::Agent => "agent",
        Audience::Project => "project",
        Audience::Workspace => "workspace",
    }
}

/// A memory, from column `first` on; its body if the allowance admits it. A row that cannot be read does not count.
pub(super) fn memory(row: &Row, first: usize, allowance: &mut Allowance) -> Result<Memory> {
    let body = row.get_ref(first + 12)?.as_str()?;
    let mut memory = Memory {
        id: row.get(first)?,
        owner: row.get(first + 1)?,
        project: row.get(first + 2)?,
        audience: audience(row, first + 3)?,
        active: row.get(first + 4)?,
        expires_at: read_instant_if(row, first + 5)?,
        trusted: row.get(first + 6)?,
        category: row.get(first + 7)?,
        priority: row.get(first + 8)?,
        version: row.get::<_, i64>(first + 9)?.to_string(),
        updated_at: read_instant_if(row, first + 10)?,
        attributes: from_json(row, first + 11)?,
        bytes: u32::try_from(body.len()).map_err(|_| FromSqlError::OutOfRange(i64::MAX))?,
        body: None,
    };
    memory.body = allowance.admits(body.len()).then(|| body.to_owned());
    Ok(memory)
}

/// How often a memory was used, and when last.
pub(super) fn uses(row: &Row) -> Result<(u32, Option<Instant>)> {
    Ok((row.get(0)?, read_instant_if(row, 1)?))
}

/// A project, from column `first` on.
pub(super) fn project(row: &Row, first: usize) -> Result<Project> {
    Ok(Project {
        id: row.get(first)?,
        workspace: row.get(first + 1)?,
        memory_on: row.get(first + 2)?,
        trusted: row.get(first + 3)?,
        attributes: from_json(row, first + 4)?,
    })
}

/// A session with its project, from column `first` on.
pub(super) fn session(row: &Row, first: usize) -> Result<Session> {
    let known = row.get::<_, Option<String>>(first + 7)?.is_some();
    Ok(Session {
        key: session_key(row, first)?,
        memory_on: row.get(first + 2)?,
        agent: row.get(first + 3)?,
        project: if known { Some(project(row, first + 7)?) } else { None },
        parent: session_key_if(row, first + 4)?,
        attributes: from_json(row, first + 6)?,
    })
}

/// A link.
pub(super) fn link(row: &Row) -> Result<Link> {
    Ok(Link {
        from_agent: row.get(0)?,
        to_agent: row.get(1)?,
        direction: if row.get(2)? { Direction::TwoWay } else { Direction::OneWay },
        kind: row.get(3)?,
        attributes: from_json(row, 4)?,
    })
}

/// A snapshot, from column `first` on.
pub(super) fn snapshot(row: &Row, first: usize) -> Result<Snapshot> {
    Ok(Snapshot {
        snapshot_ref: row.get(first)?,
        owner: session_key(row, first + 1)?,
        created_at: read_instant(row, first + 3)?,
        expires_at: read_instant(row, first + 4)?,
        keep_until: read_instant(row, first + 5)?,
        revoked_at: read_instant_if(row, first + 6)?,
        pages: row.get(first + 7)?,
        state: row.get(first + 8)?,
        memory_ids: from_json(row, first + 9)?,
    })
}

/// A page, from column `first` on.
pub(super) fn page(row: &Row, first: usize) -> Result<Page> {
    Ok(Page {
        number: row.get(first)?,
        check: row.get(first + 1)?,
        state: row.get(first + 2)?,
        text: row.get(first + 3)?,
    })
}

/// A hand-over without its id, from column `first` on.
fn hand_over(row: &Row, id: String, first: usize) -> Result<HandOver> {
    Ok(HandOver {
        id,
        parent: session_key(row, first)?,
        call_id: row.get(first + 2)?,
        agent_type: row.get(first + 3)?,
        snapshot_ref: row.get(first + 4)?,
        ids_key: row.get(first + 5)?,
        children: row.get(first + 6)?,
        created_at: read_instant(row, first + 7)?,
        expires_at: read_instant(row, first + 8)?,
        keep_until: read_instant(row, first + 9)?,
        task_digest: row.get(first + 10)?,
        task_head: row.get(first + 11)?,
        task: row.get(first + 12)?,
        state: row.get(first + 13)?,
    })
}

/// A hand-over and how many places are taken.
pub(super) fn offer(row: &Row) -> Result<Offer> {
    Ok(Offer { hand_over: hand_over(row, row.get(0)?, 1)?, taken: row.get(15)?, next_place: row.get(16)? })
}

/// A delivery with its hand-over.
pub(super) fn given(row: &Row) -> Result<Given> {
    let taken: Option<String> = row.get(4)?;
    Ok(Given {
        delivery: Delivery {
            child: session_key(row, 0)?,
            occasion: row.get(2)?,
            snapshot_ref: row.get(3)?,
            hand_over: taken.clone(),
            place: row.get(5)?,
            at: read_instant(row, 6)?,
            keep_until: read_instant(row, 7)?,
            state: row.get(8)?,
            check: row.get(9)?,
            notice: row.get(10)?,
        },
        hand_over: taken.map(|id| hand_over(row, id, 11)).transpose()?,
    })
}

/// One text of a replay.
pub(super) fn stored_page(row: &Row) -> Result<StoredPage> {
    Ok(StoredPage {
        snapshot_ref: row.get(0)?,
        revoked_at: read_instant_if(row, 1)?,
        pages: row.get(2)?,
        check: row.get(3)?,
        text: match row.get(4)? {
            Some(text) => text,
            None => row.get(5)?,
        },
    })
}

/// An audit entry.
pub(super) fn audit(row: &Row) -> Result<AuditRow> {
    Ok(AuditRow {
        at: read_instant(row, 0)?,
        session: session_key_if(row, 1)?,
        export: row.get(3)?,
        component: row.get(4)?,
        rolled_back: row.get(5)?,
        entry: Entry {
            action: row.get(6)?,
            outcome: row.get(7)?,
            snapshot_refs: from_json(row, 8)?,
            memory_ids: from_json(row, 9)?,
            attributes: from_json(row, 10)?,
        },
    })
}
