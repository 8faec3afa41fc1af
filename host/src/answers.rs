//! What an answer may name. A component is trusted to decide, and may name only what it was handed in this unit of work:
//! refs and ids that the caller named, and rows that the store showed to it. So a wrong one cannot make a caller act on
//! things that are not there, and a hostile one cannot pass on ids and refs that it kept or made up.
//!
//! `state` of stored rows is the component's own and is not read. What an answer takes from there (the ids that were
//! unavailable when a snapshot was made, for instance) is not checked.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use crate::contract::{self, *};

/// What was named and should not have been.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub(crate) struct Nonsense(pub String);

pub(crate) type Checked = Result<(), Nonsense>;

/// What one unit of work has handed to the component, as far as answers may name it.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Memory rows that `memories.get` answered with.
    got: BTreeSet<String>,
    /// Memory rows that `memories.search` answered with.
    found: BTreeSet<String>,
    /// By ref.
    snapshots: BTreeMap<String, Known>,
    /// A hand-over or a delivery was shown, and its `state` may name any id.
    stored: bool,
    /// A hand-over was found by its call id: that of an earlier try of this call.
    earlier: bool,
    /// How many snapshots were overwritten.
    overwritten: usize,
}

#[derive(Debug, Default)]
struct Known {
    /// Number of its pages, if a row said so.
    pages: Option<u32>,
    /// Its memories, if its own row was shown or made.
    memories: Option<Vec<String>>,
    /// The component made it in this unit.
    inserted: bool,
}

// Recording. Every replay waits for it: no more than one short string for a row, and nothing of the bodies.
impl Seen {
    /// The caller names this ref.
    pub fn named(&mut self, snapshot_ref: &str) {
        self.known(snapshot_ref);
    }

    pub fn request(&mut self, request: &Request) {
        if let Some(MemoryField::SnapshotRef(name)) = &request.memory {
            self.named(name);
        }
    }

    pub fn claim(&mut self, claim: &Claim) {
        if let Claim::SnapshotRef(name) = claim {
            self.named(name);
        }
    }

    fn known(&mut self, snapshot_ref: &str) -> &mut Known {
        self.snapshots.entry(snapshot_ref.to_owned()).or_default()
    }

    pub fn got(&mut self, rows: &[Option<Memory>]) {
        for row in rows.iter().flatten() {
            // Rows are read twice, once without their bodies.
            if !self.got.contains(&row.id) {
                self.got.insert(row.id.clone());
            }
        }
    }

    pub fn found(&mut self, rows: &[Memory]) {
        self.found.extend(rows.iter().map(|row| row.id.clone()));
    }

    pub fn snapshot(&mut self, row: &Snapshot) {
        let known = self.known(&row.snapshot_ref);
        known.pages = Some(row.pages);
        known.memories = Some(row.memory_ids.clone());
    }

    pub fn inserted(&mut self, row: &Snapshot) {
        self.snapshot(row);
        self.known(&row.snapshot_ref).inserted = true;
    }

    pub fn overwritten(&mut self, snapshots: usize) {
        self.overwritten = self.overwritten.saturating_add(snapshots);
    }

    pub fn page(&mut self, row: &StoredPage) {
        if let Some(name) = &row.snapshot_ref {
            self.known(name).pages = Some(row.pages);
        }
    }

    pub fn offers(&mut self, filter: &OfferFilter, rows: &[Offer]) {
        self.earlier |= filter.call_id.is_some() && !rows.is_empty();
        rows.iter().for_each(|row| self.hand_over(&row.hand_over));
    }

    pub fn given(&mut self, row: &Given) {
        self.stored = true;
        if let Some(name) = &row.delivery.snapshot_ref {
            self.known(name);
        }
        if let Some(row) = &row.hand_over {
            self.hand_over(row);
        }
    }

    fn hand_over(&mut self, row: &HandOver) {
        self.stored = true;
        if let Some(name) = &row.snapshot_ref {
            self.known(name);
        }
    }
}

/// What the caller asked for.
struct Asked<'a> {
    /// R2: how a policy reads ids.
    ids: BTreeSet<&'a str>,
    /// The answer may come from a `state`, where other ids stand.
    elsewhere: bool,
}

/// `orchestrator.estimate` and `delegate`.
pub(crate) fn delegation(seen: &Seen, request: &Request, outcome: &DelegationOutcome) -> Checked {
    let asked = match &request.memory {
        // The sizes of what does not fit are from the snapshot's state.
        Some(MemoryField::SnapshotRef(name)) => {
            Asked { ids: BTreeSet::new(), elsewhere: seen.was_stored(name) || seen.earlier }
        }
        Some(MemoryField::PrefetchIds(named)) => Asked { ids: distinct(&named.ids), elsewhere: seen.earlier },
        None => Asked { ids: BTreeSet::new(), elsewhere: seen.earlier },
    };
    match outcome {
        DelegationOutcome::MemoryOff => Ok(()),
        DelegationOutcome::Refused(refusal) => seen.refusal(refusal, &asked),
        DelegationOutcome::HandedOver(delegated) => {
            match &delegated.memory {
                Some(MemoryField::SnapshotRef(name)) => seen.ref_known(name)?,
                // Names, since the child's host reads them again.
                Some(MemoryField::PrefetchIds(named)) => {
                    let ids: Vec<String> = named.ids.iter().map(|name| plain(name).to_owned()).collect();
                    seen.asked(&ids, &asked)?;
                }
                None => {}
            }
            delegated.receipt.as_ref().map_or(Ok(()), |receipt| seen.receipt(receipt, &asked))
        }
    }
}

/// `orchestrator.revalidate`.
pub(crate) fn revalidated(seen: &Seen, snapshot_ref: &str, receipt: &Receipt) -> Checked {
    if receipt.snapshot_ref.as_deref() != Some(snapshot_ref) {
        return nonsense("a receipt of another snapshot than", snapshot_ref);
    }
    seen.receipt(receipt, &Asked { ids: BTreeSet::new(), elsewhere: false })
}

/// `child.deliver`.
pub(crate) fn delivery(seen: &Seen, claim: &Claim, answer: &Answer) -> Checked {
    let ids = match claim {
        Claim::Ids(carried) => distinct(&carried.ids.ids),
        Claim::SnapshotRef(_) | Claim::ParentSession(_) => BTreeSet::new(),
    };
    let asked = Asked { ids, elsewhere: seen.stored };
    if let DeliveryOutcome::Refused(refusal) = &answer.outcome {
        seen.refusal(refusal, &asked)?;
    }
    if let Some(block) = &answer.block {
        seen.block(block, 1)?;
    }
    answer.receipt.as_ref().map_or(Ok(()), |receipt| seen.receipt(receipt, &asked))
}

/// `child.replay`.
pub(crate) fn replayed(seen: &Seen, blocks: &[Block]) -> Checked {
    blocks.iter().try_for_each(|block| seen.block(block, 1))
}

/// `child.page`.
pub(crate) fn page(seen: &Seen, snapshot_ref: &str, number: u32, block: &Block) -> Checked {
    if block.snapshot_ref.as_deref() != Some(snapshot_ref) {
        return nonsense("a page of another snapshot than", snapshot_ref);
    }
    seen.block(block, number)
}

/// `tools.get`: every id that was asked for, once, in the order asked, here or there.
pub(crate) fn found(seen: &Seen, ids: &[String], found: &Found) -> Checked {
    if let Some(view) = found.memories.iter().find(|view| !seen.shown(&view.id)) {
        return nonsense("a memory that the store did not show", &view.id);
    }
    let mut memories = found.memories.iter().map(|view| view.id.as_str()).peekable();
    let mut unavailable = found.unavailable.iter().map(String::as_str).peekable();
    for id in in_order(ids) {
        if memories.next_if(|name| *name == id).is_none() && unavailable.next_if(|name| *name == id).is_none() {
            return nonsense("not at its place what was asked for", id);
        }
    }
    match memories.next().or_else(|| unavailable.next()) {
        Some(other) => nonsense("a memory that was not asked for", other),
        None => Ok(()),
    }
}

/// `tools.recall`.
pub(crate) fn recalled(seen: &Seen, limit: u32, views: &[View]) -> Checked {
    if views.len() > limit as usize {
        return nonsense("more results than", &limit.to_string());
    }
    let mut ids = BTreeSet::new();
    match views.iter().find(|view| !seen.found.contains(&view.id) || !ids.insert(view.id.as_str())) {
        Some(view) => nonsense("a memory that no search showed, or twice", &view.id),
        None => Ok(()),
    }
}

/// `upkeep.evictable`: in the order asked.
pub(crate) fn evictable(asked: &[String], answer: &[String]) -> Checked {
    let mut asked = in_order(asked).into_iter();
    match answer.iter().find(|id| !asked.any(|asked| asked == id.as_str())) {
        Some(id) => nonsense("a memory that was not asked for, or not at its place", id),
        None => Ok(()),
    }
}

/// `upkeep.sweep`: at most `limit` each of snapshots that lost their bytes, snapshots, hand-overs and deliveries.
pub(crate) fn swept(limit: u32, swept: &Swept) -> Checked {
    if swept.removed <= limit.saturating_mul(4) {
        return Ok(());
    }
    nonsense("more rows than a sweep may remove", &swept.removed.to_string())
}

/// `upkeep.forget`.
pub(crate) fn forgotten(seen: &Seen, forgotten: &Forgotten) -> Checked {
    if forgotten.snapshots as usize <= seen.overwritten {
        return Ok(());
    }
    nonsense("more snapshots than were overwritten", &forgotten.snapshots.to_string())
}

/// `wire.decode`: what it names stands in the field.
pub(crate) fn decoded(json: &str, delegation: &Delegation) -> Checked {
    let names = match &delegation.memory {
        Some(MemoryField::SnapshotRef(name)) => std::slice::from_ref(name),
        Some(MemoryField::PrefetchIds(named)) => named.ids.as_slice(),
        None => return Ok(()),
    };
    let written = serde_json::from_str(json).unwrap_or(serde_json::Value::Null);
    let field = |name: &str| written.get("memory").and_then(|memory| memory.get(name));
    let ids = field("prefetch_ids").and_then(serde_json::Value::as_array).into_iter().flatten();
    // R2: a number is its decimal string.
    let ids = ids.map(|id| id.as_str().map_or_else(|| id.to_string(), |id| plain(id).to_owned()));
    let known: BTreeSet<String> =
        ids.chain(field("snapshot_ref").and_then(serde_json::Value::as_str).map(String::from)).collect();
    match names.iter().find(|name| !known.contains(plain(name))) {
        Some(name) => nonsense("what is not in the field", name),
        None => Ok(()),
    }
}

/// `wire.parse-markers`.
pub(crate) fn marked(text: &str, marked: &Marked) -> Checked {
    inside(text, &marked.ids)
}

/// Any export's error. `caller` may be named as `HARNESS/ID`, or by its id.
pub(crate) fn error(seen: &Seen, caller: Option<&SessionKey>, error: &contract::Error) -> Checked {
    let is_caller =
        |name: &str| caller.is_some_and(|key| name == key.id || name == format!("{}/{}", key.harness, key.id));
    match error {
        contract::Error::Unavailable(names) => {
            names.iter().filter(|name| !is_caller(name)).try_for_each(|name| seen.ref_known(name))
        }
        // A damaged notice has no ref.
        contract::Error::Corrupt(name) if name.starts_with("snap_") => seen.ref_known(name),
        _ => Ok(()),
    }
}

impl Seen {
    fn ref_known(&self, name: &str) -> Checked {
        if self.snapshots.contains_key(name) {
            return Ok(());
        }
        nonsense("a ref that nobody named and no row has", name)
    }

    /// Whether the store showed the row of this snapshot.
    fn was_stored(&self, name: &str) -> bool {
        self.snapshots.get(name).is_some_and(|known| known.memories.is_some() && !known.inserted)
    }

    /// Whether the store showed the row of this memory.
    fn shown(&self, id: &String) -> bool {
        self.got.contains(id) || self.found.contains(id)
    }

    fn asked(&self, ids: &[String], asked: &Asked) -> Checked {
        match ids.iter().find(|id| !asked.elsewhere && !asked.ids.contains(id.as_str()) && !self.shown(id)) {
            Some(id) => nonsense("a memory that was not asked for", id),
            None => Ok(()),
        }
    }

    fn omissions(&self, omitted: &[Omission], asked: &Asked) -> Checked {
        match omitted.iter().find(|omission| !asked.elsewhere && !self.shown(&omission.id)) {
            Some(omission) => nonsense("a memory that the store did not show", &omission.id),
            None => Ok(()),
        }
    }

    fn refusal(&self, refusal: &Refusal, asked: &Asked) -> Checked {
        match refusal {
            Refusal::Unavailable(ids) => self.asked(ids, asked),
            Refusal::OverCapacity(shortfall) => self.omissions(&shortfall.sizes, asked),
            Refusal::OtherWorkspace | Refusal::Policy(_) => Ok(()),
        }
    }

    fn block(&self, block: &Block, number: u32) -> Checked {
        if block.page != number || number > block.pages {
            return nonsense("a page that was not asked for", &format!("{} of {}", block.page, block.pages));
        }
        block.snapshot_ref.as_deref().map_or(Ok(()), |name| self.pages(name, block.pages))
    }

    /// Whether this ref may be named, and has so many pages.
    fn pages(&self, name: &str, pages: u32) -> Checked {
        self.ref_known(name)?;
        match self.snapshots.get(name).and_then(|known| known.pages) {
            Some(known) if known != pages => nonsense("another number of pages than it has", name),
            _ => Ok(()),
        }
    }

    fn receipt(&self, receipt: &Receipt, asked: &Asked) -> Checked {
        if receipt.pages == 0 {
            return nonsense("a receipt without", "pages");
        }
        if let Some(name) = &receipt.snapshot_ref {
            self.pages(name, receipt.pages)?;
            if self.was_stored(name) {
                // What it lacks is told by its state; what it has, by its row, but for what was erased since.
                let known = self.snapshots.get(name).and_then(|known| known.memories.as_ref());
                let ids: BTreeSet<&String> = known.into_iter().flatten().collect();
                return match receipt.items.iter().find(|item| !item.removed && !ids.contains(&item.id)) {
                    Some(item) => nonsense("a memory that is not in the snapshot", &item.id),
                    None => Ok(()),
                };
            }
        }
        if let Some(item) = receipt.items.iter().find(|item| !self.shown(&item.id)) {
            return nonsense("a memory that the store did not show", &item.id);
        }
        self.asked(&receipt.unavailable, asked)?;
        self.omissions(&receipt.omitted, asked)
    }
}

/// R2: ids as a policy reads them: without one leading `#`, duplicates collapsed to the first.
fn in_order(ids: &[String]) -> Vec<&str> {
    let mut seen = BTreeSet::new();
    ids.iter().map(|id| plain(id)).filter(|id| seen.insert(*id)).collect()
}

fn distinct(ids: &[String]) -> BTreeSet<&str> {
    ids.iter().map(|id| plain(id)).collect()
}

fn plain(id: &str) -> &str {
    id.strip_prefix('#').unwrap_or(id)
}

fn inside(text: &str, names: &[String]) -> Checked {
    match names.iter().find(|name| !text.contains(name.as_str())) {
        Some(name) => nonsense("what is not in the text", name),
        None => Ok(()),
    }
}

/// The offender is the component's text: clipped, and without anything that a terminal would obey.
fn nonsense(what: &str, offender: &str) -> Checked {
    const SHOWN: usize = 48;
    let shown: String = offender.chars().take(SHOWN).collect();
    let more = if shown.len() < offender.len() { "…" } else { "" };
    Err(Nonsense(format!("{what} {shown:?}{more}")))
}
