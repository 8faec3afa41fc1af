//! The operator's side: what may be evicted, what nobody can get any more, sessions that are over, and erasure (R17 to
//! R19). How a body is cut out of a page is for `erasure`.

use crate::contract::*;
use crate::session::damaged;
use crate::settings::{self, later};
use crate::{Imports, audit, erasure, ids, session};

/// The most memories that one call names.
const MAX_IDS: u32 = 1_000;

/// The most rows of each kind that one sweep deletes.
const MAX_SWEEP: u32 = 1_000;

/// How many snapshots an erasure holds at a time, or one where they are too large together.
const BATCH: u32 = 8;

fn list(memory_ids: &[String]) -> Result<Vec<String>, Error> {
    if memory_ids.is_empty() || memory_ids.len() > MAX_IDS as usize {
        let count = memory_ids.len();
        return Err(Error::Malformed(format!("{count} memory ids: 1 to {MAX_IDS} are allowed in one call")));
    }
    ids::list(memory_ids, MAX_IDS)
}

/// `upkeep.evictable`, R19.
pub fn evictable<I: Imports>(imports: &mut I, memory_ids: &[String]) -> Result<Vec<String>, Error> {
    let mut ids = list(memory_ids)?;
    let now = imports.now();
    let pinned = imports.pinned(&ids, now)?;
    ids.retain(|id| !pinned.contains(id));
    Ok(ids)
}

/// `upkeep.sweep`, R18, R19: bytes that can be neither claimed nor replayed go, a tombstone says why for a while, then
/// that goes too.
pub fn sweep<I: Imports>(imports: &mut I, limit: u32) -> Result<Swept, Error> {
    if !(1..=MAX_SWEEP).contains(&limit) {
        return Err(Error::Malformed(format!("limit {limit}: 1 to {MAX_SWEEP} are allowed")));
    }
    let now = imports.now();
    let settings = settings::load(imports, None);
    let over = imports.expired(now, limit)?;
    if over.iter().any(|row| row.keep_until > now) || over.len() > limit as usize {
        return Err(damaged("snapshots.expired answered with snapshots that are needed"));
    }
    let (mut frozen, mut tombstones) = (Vec::new(), Vec::new());
    for row in &over {
        let list = if row.pages > 0 { &mut frozen } else { &mut tombstones };
        list.push(row.snapshot_ref.clone());
    }
    if !frozen.is_empty() {
        imports.strip(&frozen, later(now, settings.replay))?;
    }
    if !tombstones.is_empty() {
        imports.remove(&tombstones)?;
    }
    let unattached = imports.remove_unattached(now, limit)?;
    for (outcome, refs) in [("stripped", frozen), ("removed", tombstones)] {
        if !refs.is_empty() {
            audit::swept(imports, outcome, refs);
        }
    }
    Ok(Swept {
        removed: (over.len() as u32).saturating_add(unattached),
        more: over.len() == limit as usize || unattached >= limit,
    })
}

/// `upkeep.session-ended`, R18.
pub fn session_ended<I: Imports>(imports: &mut I, key: &SessionKey) -> Result<(), Error> {
    session::check(key)?;
    let now = imports.now();
    imports.end_deliveries(key, now)?;
    let name = vec![("session".to_owned(), session::name(key))];
    audit::record(imports, "session-ended", "done", None, Vec::new(), name);
    Ok(())
}

/// `upkeep.forget`, R17.
pub fn forget<I: Imports>(imports: &mut I, memory_ids: &[String]) -> Result<Forgotten, Error> {
    let ids = list(memory_ids)?;
    let mut refs: Vec<String> = Vec::new();
    let (mut batch, mut last) = (BATCH, 0);
    loop {
        let held = match imports.holding(&ids, batch) {
            Err(StoreError::TooLarge(_)) if batch > 1 => {
                batch = 1;
                continue;
            }
            held => held?,
        };
        if held.is_empty() {
            break;
        }
        // Those that were overwritten hold them no longer.
        let before = refs.get(last..).unwrap_or_default();
        if held.iter().any(|frozen| before.contains(&frozen.snapshot.snapshot_ref)) {
            return Err(damaged("snapshots.holding answered with a snapshot that was overwritten"));
        }
        last = refs.len();
        let mut erased = Vec::new();
        for frozen in held {
            refs.push(frozen.snapshot.snapshot_ref.clone());
            erased.push(erasure::without(imports, frozen, &ids));
        }
        imports.overwrite(&erased)?;
    }
    let snapshots = refs.len() as u32;
    audit::forgotten(imports, refs, ids);
    Ok(Forgotten { snapshots })
}
