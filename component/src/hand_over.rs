//! Hand-overs: a delegation that waits for its child, and how a child finds its own without a guess (R14, R23, R26).

use std::collections::BTreeSet;

use serde::Serialize;

use crate::contract::*;
use crate::session::damaged;
use crate::snapshot::Order;
use crate::state::{cases, fields, from_json, to_json};

/// The most hand-overs of one parent that are looked at: the youngest.
pub const LIMIT: u32 = 1_000;

/// R14: what a delegation hands over.
#[derive(Clone, Serialize)]
pub enum Kind {
    /// A snapshot.
    Frozen,
    /// Ids, resolved each time.
    Live(Order),
    /// It named no memory.
    Nothing,
    /// Memory was off for the parent.
    MemoryOff,
    /// It was refused.
    Refused(Refusal),
}

cases!(Kind: Frozen, Nothing, MemoryOff; Live, Refused);

/// `hand-over.state`.
#[derive(Clone, Serialize)]
pub struct State {
    /// What it hands over.
    pub kind: Kind,
    /// Equal for hand-overs that give a child the same memories.
    pub content: String,
    /// Equal for the same request (R26).
    pub request: String,
    /// R14: the ids and the mode that were asked for.
    pub asked: Option<NamedIds>,
    /// R27, R29: the child's capacity.
    pub capacity: Option<Capacity>,
    /// The field that the parent was given to pass on.
    pub memory: Option<MemoryField>,
    /// What the parent was warned of.
    pub warnings: Vec<String>,
}

fields!(State: kind, content, request, asked, capacity, memory, warnings);

/// The component's part of a hand-over row.
pub fn state(row: &HandOver) -> Result<State, Error> {
    from_json(&row.state).ok_or_else(|| damaged(&format!("the state of {} cannot be read", row.id)))
}

/// R22: how a list of ids is looked up.
pub fn ids_key(ids: &[String]) -> String {
    to_json(&ids)
}

/// R22: of hand-overs with the equal list, those of the mode that the child names, if there are any.
pub fn prefer_mode(offers: Vec<Offer>, mode: Mode) -> Result<Vec<Offer>, Error> {
    let mut preferred = Vec::new();
    for offer in &offers {
        if state(&offer.hand_over)?.asked.is_some_and(|asked| asked.mode == mode) {
            preferred.push(offer.clone());
        }
    }
    Ok(if preferred.is_empty() { offers } else { preferred })
}

/// All hand-overs of one parent.
pub fn all_of(parent: &SessionKey) -> OfferFilter {
    OfferFilter {
        parent: parent.clone(),
        call_id: None,
        snapshot_ref: None,
        ids_key: None,
        within: None,
        agent_type: None,
        open_only: false,
    }
}

/// What a search among a parent's hand-overs finds.
pub enum Match {
    /// None is this child's.
    Nothing,
    /// Several with different memories are.
    Ambiguous(u32),
    /// It is taken.
    Taken,
    /// It waited too long.
    Expired(Offer),
    /// It waits. The oldest first, the others are interchangeable with it.
    Waiting(Vec<Offer>),
}

/// R23: by the child's text. Candidates are all of the parent's, taken and expired ones included: the equal task, else
/// the longest that the text contains. A harness puts a preamble before the task, so a shorter task of a sibling may
/// also be contained.
pub fn by_task(offers: Vec<Offer>, text: &str, now: Instant) -> Result<Match, Error> {
    let of_text = |offer: &Offer| !offer.hand_over.task.is_empty() && text.contains(&offer.hand_over.task);
    let longest = offers.iter().filter(|offer| of_text(offer)).max_by_key(|offer| offer.hand_over.task.len());
    // Two tasks of equal length that are both contained and differ: neither is "the longest".
    let Some(length) = longest.map(|offer| offer.hand_over.task.len()) else { return Ok(Match::Nothing) };
    let group: Vec<Offer> =
        offers.into_iter().filter(|offer| of_text(offer) && offer.hand_over.task.len() == length).collect();
    let open = open(group.clone());
    // One that expired unclaimed counts: the child that asks may be its own.
    let kinds = kinds(&open)?;
    if kinds > 1 {
        return Ok(Match::Ambiguous(kinds));
    }
    Ok(pick(group, now))
}

/// R23: without a text, where the harness registers every delegation: the only one that waits.
pub fn only_one(offers: Vec<Offer>, now: Instant) -> Match {
    let open = open(offers);
    let (waiting, expired): (Vec<Offer>, Vec<Offer>) =
        open.into_iter().partition(|offer| offer.hand_over.expires_at > now);
    match (waiting.len(), expired.len()) {
        (1, _) => Match::Waiting(waiting),
        (0, 1) => pick(expired, now),
        (0, 0) => Match::Nothing,
        (0, n) | (n, _) => Match::Ambiguous(n as u32),
    }
}

/// Of hand-overs that are interchangeable: the oldest that waits, else why none does.
pub fn pick(offers: Vec<Offer>, now: Instant) -> Match {
    if offers.is_empty() {
        return Match::Nothing;
    }
    let mut open = open(offers);
    let Some(oldest) = open.first().cloned() else { return Match::Taken };
    open.retain(|offer| offer.hand_over.expires_at > now);
    if open.is_empty() { Match::Expired(oldest) } else { Match::Waiting(open) }
}

/// R23, R28: hand-overs that this child could not be told apart by, since they have the same text and other memories.
pub fn warn_of_twins(offers: &[Offer], task: &str, content: &str) -> Result<Option<String>, Error> {
    let mut twins = 0;
    for offer in offers {
        let open = offer.taken < offer.hand_over.children;
        if open && !task.is_empty() && offer.hand_over.task == task && state(&offer.hand_over)?.content != content {
            twins += 1;
        }
    }
    Ok((twins > 0).then(|| {
        format!(
            "{twins} unclaimed delegation(s) of this session have the same task text and other memories: a child that is \
             recognised by its text alone will get none of them. Pass on the snapshot ref, or use another text."
        )
    }))
}

fn open(mut offers: Vec<Offer>) -> Vec<Offer> {
    offers.retain(|offer| offer.taken < offer.hand_over.children);
    offers
}

/// How many different contents these have.
fn kinds(offers: &[Offer]) -> Result<u32, Error> {
    let mut contents = BTreeSet::new();
    for offer in offers {
        contents.insert(state(&offer.hand_over)?.content);
    }
    Ok(contents.len() as u32)
}
