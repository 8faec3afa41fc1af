//! Hand-overs: a delegation that waits for its child, and how a child finds its own without a guess (R14, R23, R26).

use std::collections::BTreeSet;

use serde::Serialize;

use crate::Imports;
use crate::contract::*;
use crate::session::damaged;
use crate::snapshot::Order;
use crate::state::{cases, fields, open, seal, to_json};

/// The most hand-overs that one search looks at: the youngest that fit. Where there are more, the one that was meant may
/// be among those that were not looked at, so that none is taken ([`Match::Ambiguous`]).
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
    open(&columns(row), &row.state).ok_or_else(|| damaged(&format!("the state of {} cannot be read", row.id)))
}

/// Put the component's part into a hand-over row, which has all its other columns.
pub fn write_state(row: &mut HandOver, state: &State) {
    row.state = seal(&columns(row), state);
}

/// R20: what the state of a row is bound to: all that no storage function changes by itself, but for the task, which is
/// not always read and has its digest.
fn columns(row: &HandOver) -> String {
    let names = (&row.id, &row.parent, &row.call_id, &row.agent_type, &row.snapshot_ref, &row.ids_key);
    to_json(&(names, row.children, row.created_at, row.expires_at, &row.task_digest))
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

/// How a task begins: what a store searches for.
pub fn head(task: &str) -> &str {
    const BYTES: usize = 64;
    let end = (0..=BYTES.min(task.len())).rev().find(|end| task.is_char_boundary(*end));
    task.get(..end.unwrap_or(0)).unwrap_or_default()
}

/// Tells one task from another.
pub fn task_digest<I: Imports>(imports: &mut I, task: &str) -> Result<String, Error> {
    let mut digests = imports.sha256(&[task.to_owned()]);
    match (digests.pop(), digests.len()) {
        (Some(digest), 0) => Ok(digest),
        _ => Err(damaged("environment.sha256 answered with another number of digests than was asked for")),
    }
}

/// All hand-overs of one parent.
pub fn all_of(parent: &SessionKey) -> OfferFilter {
    OfferFilter {
        parent: parent.clone(),
        call_id: None,
        snapshot_ref: None,
        ids_key: None,
        task_digest: None,
        within: None,
        agent_type: None,
        open_only: false,
        with_task: false,
    }
}

/// What a search among a parent's hand-overs finds.
pub enum Match {
    /// None is this child's, or it has what is.
    Nothing,
    /// Several with different memories are.
    Ambiguous(u32),
    /// It is taken by others.
    Taken(Offer),
    /// It waited too long.
    Expired(Offer),
    /// It was taken back.
    Revoked(Offer),
    /// It waits. The oldest of those that are interchangeable.
    Waiting(Offer),
}

/// Who looks, and when.
pub struct Seeker<'a> {
    /// Ids of the hand-overs that this child has been served from.
    pub has: &'a [String],
    /// Ids of those of which it holds a place and was not served, since memory was off or it was refused.
    pub holds: &'a [String],
    /// Refs of the snapshots, among those of the hand-overs, that were revoked.
    pub revoked: &'a [String],
    /// The time.
    pub now: Instant,
}

impl Seeker<'_> {
    fn is_revoked(&self, offer: &Offer) -> bool {
        offer.hand_over.snapshot_ref.as_ref().is_some_and(|name| self.revoked.contains(name))
    }

    fn is_over(&self, offer: &Offer) -> bool {
        offer.hand_over.expires_at <= self.now || self.is_revoked(offer)
    }

    fn over(&self, offer: Offer) -> Match {
        if self.is_revoked(&offer) { Match::Revoked(offer) } else { Match::Expired(offer) }
    }

    fn is_open(&self, offer: &Offer) -> bool {
        is_open(offer) || self.holds.contains(&offer.hand_over.id)
    }

    fn is_waiting(&self, offer: &Offer) -> bool {
        self.is_open(offer) && !self.is_over(offer)
    }
}

/// R23: what the child's text says of the hand-overs that a search found.
pub enum Text<'a> {
    /// It is the task of all of them.
    Equal,
    /// Their tasks may stand in it.
    Around(&'a str),
}

/// R23: by the child's text. Candidates are all of the parent's, taken, expired and revoked ones included: the equal
/// task, else the longest that the text contains. A harness puts a preamble before the task, so a shorter task of a
/// sibling may also be contained; and a text may contain two of equal length, neither of which is the longest.
///
/// Same task, different memories: which one is this child's cannot be told, also where one of them is taken. (Its child
/// may have come back as another session, for instance.)
pub fn by_task(mut group: Vec<Offer>, text: Text, agent_type: Option<&str>, seeker: &Seeker) -> Result<Match, Error> {
    if group.len() >= LIMIT as usize {
        return Ok(Match::Ambiguous(LIMIT));
    }
    if let Text::Around(text) = text {
        group.retain(|offer| !offer.hand_over.task.is_empty() && text.contains(&offer.hand_over.task));
        let longest = group.iter().map(|offer| offer.hand_over.task.len()).max().unwrap_or(0);
        group.retain(|offer| offer.hand_over.task.len() == longest);
    }
    // The kind of agent comes after the text: the longest task is this child's or nobody's, never a shorter one.
    group.retain(|offer| match (agent_type, &offer.hand_over.agent_type) {
        (Some(kind), Some(wanted)) => kind == wanted,
        _ => true,
    });
    match contents(group.iter())? {
        0 | 1 => Ok(pick(group, seeker)),
        n => Ok(Match::Ambiguous(n)),
    }
}

/// R22, R23: by the equal list of ids. Those that are taken have their children, and one that was refused has no field
/// that a child could know its ids from, unless there is no other; of the rest, all must give the same.
pub fn by_ids(mut offers: Vec<Offer>, seeker: &Seeker) -> Result<Match, Error> {
    if offers.len() >= LIMIT as usize {
        return Ok(Match::Ambiguous(LIMIT));
    }
    let mut handed_over = Vec::new();
    for offer in &offers {
        if !matches!(state(&offer.hand_over)?.kind, Kind::Refused(_)) {
            handed_over.push(offer.clone());
        }
    }
    if !handed_over.is_empty() {
        offers = handed_over;
    }
    match contents(offers.iter().filter(|offer| seeker.is_open(offer)))? {
        0 => Ok(pick(offers, seeker)),
        1 => {
            let open =
                offers.iter().find(|offer| seeker.is_open(offer)).map(|offer| state(&offer.hand_over)).transpose()?;
            let content = open.map(|state| state.content);
            let mut alike = Vec::new();
            for offer in offers {
                if Some(state(&offer.hand_over)?.content) == content {
                    alike.push(offer);
                }
            }
            Ok(pick(alike, seeker))
        }
        n => Ok(Match::Ambiguous(n)),
    }
}

/// R23: without a text, where the harness registers every delegation: the only one that waits.
pub fn only_one(mut offers: Vec<Offer>, registers_all: bool, seeker: &Seeker) -> Match {
    if offers.len() >= LIMIT as usize {
        return Match::Ambiguous(LIMIT);
    }
    offers.retain(|offer| seeker.is_open(offer));
    let waiting = offers.iter().filter(|offer| seeker.is_waiting(offer)).count() as u32;
    match (waiting, offers.len()) {
        (1, _) if registers_all => {
            offers.retain(|offer| seeker.is_waiting(offer));
            pick(offers, seeker)
        }
        (0, 0 | 1) => pick(offers, seeker),
        (0, n) => Match::Ambiguous(n as u32),
        (n, _) => Match::Ambiguous(n),
    }
}

/// Of hand-overs that are interchangeable: the oldest that waits, else why none does. A child that has one of them takes
/// no other (R26): that is its sibling's.
pub fn pick(mut offers: Vec<Offer>, seeker: &Seeker) -> Match {
    let has = |offer: &Offer| seeker.has.contains(&offer.hand_over.id);
    if let Some(own) = offers.iter().rposition(has) {
        let own = offers.swap_remove(own);
        return if seeker.is_over(&own) { seeker.over(own) } else { Match::Nothing };
    }
    let held = offers.iter().position(|offer| seeker.holds.contains(&offer.hand_over.id) && seeker.is_waiting(offer));
    if let Some(oldest) = held.or_else(|| offers.iter().position(|offer| seeker.is_waiting(offer))) {
        return Match::Waiting(offers.swap_remove(oldest));
    }
    if let Some(youngest) = offers.iter().rposition(|offer| seeker.is_open(offer)) {
        return seeker.over(offers.swap_remove(youngest));
    }
    offers.pop().map_or(Match::Nothing, Match::Taken)
}

/// R23, R28: hand-overs that a child could not be told apart by, since they have the same text and other memories.
pub fn warn_of_twins(of_task: &[Offer], content: &str) -> Result<Option<String>, Error> {
    let mut twins = 0;
    for offer in of_task {
        if state(&offer.hand_over)?.content != content {
            twins += 1;
        }
    }
    Ok((twins > 0).then(|| {
        format!(
            "{twins} earlier delegation(s) of this session have the same task text and other memories: a child that is \
             recognised by its text alone will get none of them. Pass on the snapshot ref, or use another text."
        )
    }))
}

fn is_open(offer: &Offer) -> bool {
    offer.taken < offer.hand_over.children
}

/// How many different contents these have.
fn contents<'a>(offers: impl Iterator<Item = &'a Offer>) -> Result<u32, Error> {
    let mut contents = BTreeSet::new();
    for offer in offers {
        contents.insert(state(&offer.hand_over)?.content);
    }
    Ok(contents.len() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(number: u32, task: &str, content: &str) -> Offer {
        let key = SessionKey { harness: "h".into(), id: "s".into() };
        let state = State {
            kind: Kind::Frozen,
            content: content.into(),
            request: String::new(),
            asked: None,
            capacity: None,
            memory: None,
            warnings: Vec::new(),
        };
        let mut hand_over = HandOver {
            id: format!("hand_{number}"),
            parent: key,
            call_id: None,
            agent_type: None,
            snapshot_ref: None,
            ids_key: None,
            children: 1,
            created_at: 0,
            expires_at: 10,
            keep_until: 10,
            task_digest: String::new(),
            task_head: head(task).into(),
            task: task.into(),
            state: String::new(),
        };
        write_state(&mut hand_over, &state);
        Offer { hand_over, taken: 0, next_place: 0 }
    }

    const NOBODY: Seeker = Seeker { has: &[], holds: &[], revoked: &[], now: 0 };

    /// R23: where a search may have been cut, the longest task that was found need not be the longest.
    #[test]
    fn nothing_is_taken_from_a_search_that_may_have_been_cut() {
        let offers = |count| (0..count).map(|n| offer(n, "Fix it", "one")).collect::<Vec<_>>();
        assert!(matches!(by_task(offers(LIMIT - 1), Text::Around("Fix it"), None, &NOBODY), Ok(Match::Waiting(_))));
        assert!(matches!(by_task(offers(LIMIT), Text::Around("Fix it"), None, &NOBODY), Ok(Match::Ambiguous(LIMIT))));
        assert!(matches!(by_ids(offers(LIMIT), &NOBODY), Ok(Match::Ambiguous(LIMIT))));
        assert!(matches!(only_one(offers(LIMIT), true, &NOBODY), Match::Ambiguous(LIMIT)));
    }

    #[test]
    fn a_head_ends_between_characters() {
        assert_eq!(head(""), "");
        assert_eq!(head("Fix it"), "Fix it");
        assert_eq!(head(&"x".repeat(100)).len(), 64);
        assert_eq!(head(&"固".repeat(100)).len(), 63);
    }
}
