//! The child's side: deliver, replay, page (R20, R22 to R28). What a hand-over is and which one a child may take is
//! for `hand_over`.

use serde::Serialize;

use crate::capacity::Limit;
use crate::contract::*;
use crate::hand_over::{self, Kind, Match};
use crate::session::{damaged, may_share, memory_on};
use crate::settings::{self, Settings, later};
use crate::snapshot::{self, Order, Standing, compose};
use crate::state::{fields, from_json, to_json};
use crate::{Imports, audit, block, ids, session};

/// `delivery.state`.
#[derive(Serialize)]
struct State {
    /// What came of it.
    outcome: DeliveryOutcome,
    /// R27: what its text takes of the child's context.
    size: Option<Size>,
    /// Live ids that the child named itself.
    own: Option<Order>,
}

fields!(State: outcome, size, own);

/// What a claim comes to, before it is stored.
struct Finding {
    outcome: DeliveryOutcome,
    /// The hand-over whose place is taken.
    offer: Option<Offer>,
    text: Text,
}

/// Where the text comes from.
enum Text {
    /// There is none, or it is a notice.
    Notice,
    /// A snapshot that is stored, with page 1, and what page 1 takes.
    Stored(Box<Frozen>, Size),
    /// A snapshot of the child's own, still to be inserted.
    New(Box<Frozen>, Size),
    /// Composed now and stored nowhere; the order, if the child named the ids itself.
    Live(Box<(Block, Receipt)>, Option<Order>),
}

/// `child.deliver`.
pub fn deliver<I: Imports>(imports: &mut I, key: &SessionKey, occasion: &str, claim: &Claim) -> Result<Answer, Error> {
    ids::check("occasion", occasion, ids::MAX_BYTES)?;
    if let Claim::SnapshotRef(name) = claim {
        snapshot::check_ref(name)?;
    }
    let me = session::find(imports, key)?;
    let parent = match &me.parent {
        Some(key) => session::lookup(imports, key)?,
        None => None,
    };
    let settings = settings::load(imports, me.project.as_ref().map(|project| project.id.as_str()));
    let given = imports.deliveries(&me.key)?;
    if let Some(earlier) = given.iter().find(|given| given.delivery.occasion == occasion) {
        return repeat(imports, &me, parent.as_ref(), earlier, &settings);
    }

    let mut finding = find(imports, &me, parent.as_ref(), claim, &given, &settings)?;
    // R13: zero bytes, not even a notice, whatever else is the case.
    if !memory_on(&me) {
        finding = Finding { outcome: DeliveryOutcome::MemoryOff, offer: finding.offer, text: Text::Notice };
    }
    store(imports, &me, occasion, finding, &settings)
}

/// `child.replay`. One store call.
pub fn replay<I: Imports>(imports: &mut I, child: &SessionKey) -> Result<Vec<Block>, Error> {
    session::check(child)?;
    let rows = imports.replay(child, None, 1)?;
    let mut blocks = Vec::with_capacity(rows.len());
    for row in rows {
        if row.revoked_at.is_none() {
            blocks.push(checked(imports, row, 1)?);
        }
    }
    Ok(blocks)
}

/// `child.page`.
pub fn page<I: Imports>(imports: &mut I, child: &SessionKey, snapshot_ref: &str, number: u32) -> Result<Block, Error> {
    session::check(child)?;
    snapshot::check_ref(snapshot_ref)?;
    let mut rows = imports.replay(child, Some(snapshot_ref), number)?;
    if let Some(row) = rows.pop() {
        if row.revoked_at.is_some() {
            return Err(Error::Revoked);
        }
        return checked(imports, row, number);
    }
    match imports.replay(child, Some(snapshot_ref), 1)?.pop() {
        Some(row) => {
            Err(Error::Malformed(format!("there is no page {number}: {} has 1 to {}", snapshot_ref, row.pages)))
        }
        None => Err(Error::Unavailable(vec![snapshot_ref.to_owned()])),
    }
}

fn checked<I: Imports>(imports: &mut I, row: StoredPage, number: u32) -> Result<Block, Error> {
    snapshot::verify(imports, row.snapshot_ref.as_deref(), &row.text, &row.check)?;
    Ok(Block { snapshot_ref: row.snapshot_ref, page: number, pages: row.pages, text: row.text })
}

/// R22, R23: what this claim is for.
fn find<I: Imports>(
    imports: &mut I,
    me: &Session,
    parent: Option<&Session>,
    claim: &Claim,
    given: &[Given],
    settings: &Settings,
) -> Result<Finding, Error> {
    let now = imports.now();
    match claim {
        Claim::SnapshotRef(name) => {
            let Some(frozen) = snapshot::lookup(imports, name, Selection::One(1))? else {
                return Err(audit::unavailable(imports, "deliver", name));
            };
            if frozen.snapshot.owner == me.key {
                return own_snapshot(imports, me, frozen, now);
            }
            // R15: the owner's direct children, and nobody else.
            let Some(owner) = parent.filter(|parent| parent.key == frozen.snapshot.owner) else {
                return Err(audit::unavailable(imports, "deliver", name));
            };
            let filter = OfferFilter { snapshot_ref: Some(name.clone()), ..hand_over::all_of(&owner.key) };
            let offers = imports.find_hand_overs(&filter, hand_over::LIMIT)?;
            from_match(imports, me, owner, hand_over::pick(offers, now), given, settings)
        }
        Claim::Ids(carried) => {
            let ids = ids::list(&carried.ids.ids, settings.max_ids)?;
            let named = NamedIds { ids, mode: carried.ids.mode };
            if let Some(parent) = parent {
                let filter =
                    OfferFilter { ids_key: Some(hand_over::ids_key(&named.ids)), ..hand_over::all_of(&parent.key) };
                let offers = imports.find_hand_overs(&filter, hand_over::LIMIT)?;
                if !offers.is_empty() {
                    let matched = hand_over::pick(hand_over::prefer_mode(offers, named.mode)?, now);
                    return from_match(imports, me, parent, matched, given, settings);
                }
            }
            own_ids(imports, me, named, carried.capacity.clone(), given, settings)
        }
        Claim::ParentSession(hints) => {
            let Some(parent) = parent else { return Ok(say(DeliveryOutcome::Nothing, None)) };
            let mut filter = OfferFilter { agent_type: hints.agent_type.clone(), ..hand_over::all_of(&parent.key) };
            let matched = match hints.task.as_deref().filter(|task| !task.is_empty()) {
                Some(task) => {
                    filter.within = Some(task.to_owned());
                    hand_over::by_task(imports.find_hand_overs(&filter, hand_over::LIMIT)?, task, now)?
                }
                None => {
                    filter.open_only = true;
                    let offers = imports.find_hand_overs(&filter, hand_over::LIMIT)?;
                    let waiting = offers.iter().filter(|offer| offer.hand_over.expires_at > now).count() as u32;
                    match (waiting, hints.registers_all) {
                        (0, _) | (_, true) => hand_over::only_one(offers, now),
                        (n, false) => Match::Ambiguous(n),
                    }
                }
            };
            from_match(imports, me, parent, matched, given, settings)
        }
    }
}

/// R15: the owner reads its own snapshot; no place is taken.
fn own_snapshot<I: Imports>(imports: &mut I, me: &Session, frozen: Frozen, now: Instant) -> Result<Finding, Error> {
    if !memory_on(me) {
        return Ok(say(DeliveryOutcome::MemoryOff, None));
    }
    match snapshot::standing(&frozen.snapshot, now) {
        Standing::Revoked => Ok(say(DeliveryOutcome::Revoked, None)),
        Standing::Expired => Ok(say(DeliveryOutcome::Expired, None)),
        Standing::Ready => {
            let size = first_page(imports, &frozen)?;
            Ok(Finding { outcome: DeliveryOutcome::Delivered, offer: None, text: Text::Stored(Box::new(frozen), size) })
        }
    }
}

/// R22: ids that no hand-over names: the child's own visibility and budget, frozen for this child.
fn own_ids<I: Imports>(
    imports: &mut I,
    me: &Session,
    named: NamedIds,
    capacity: Option<Capacity>,
    given: &[Given],
    settings: &Settings,
) -> Result<Finding, Error> {
    if !memory_on(me) {
        return Ok(say(DeliveryOutcome::MemoryOff, None));
    }
    let Some(capacity) = capacity else {
        return Err(Error::Malformed("no hand-over names these ids, and no capacity was given to resolve them".into()));
    };
    if named.mode == Mode::Live && capacity.overflow == Overflow::Paginate {
        return Err(Error::Malformed("live ids cannot be paginated, since no page of them is stored".into()));
    }
    let limit = Limit::of(&capacity);
    let order = Order { ids: named.ids, capacity, priorities: Vec::new(), strict: false };
    if named.mode == Mode::Live {
        return live(imports, me, order.clone(), Some(order), None, settings);
    }
    let name = snapshot::new_ref(imports)?;
    let composed = match compose(imports, me, &order, Some(&name), settings)? {
        Ok(composed) => composed,
        Err((refusal, _)) => return Ok(say(DeliveryOutcome::Refused(refusal), None)),
    };
    let size = composed.state.page_sizes.first().copied().unwrap_or(NO_SIZE);
    if let Some(refusal) = beside(&limit, given, size, &composed.state.items)? {
        return Ok(say(DeliveryOutcome::Refused(refusal), None));
    }
    // It is claimed already: nobody else shall claim it.
    let frozen = composed.freeze(&name, &me.key, composed.at);
    Ok(Finding { outcome: DeliveryOutcome::Delivered, offer: None, text: Text::New(Box::new(frozen), size) })
}

/// R20, R23, R28: the hand-over that was found, or why there is none.
fn from_match<I: Imports>(
    imports: &mut I,
    me: &Session,
    owner: &Session,
    matched: Match,
    given: &[Given],
    settings: &Settings,
) -> Result<Finding, Error> {
    let offers = match matched {
        Match::Nothing => return Ok(say(DeliveryOutcome::Nothing, None)),
        Match::Taken => return Ok(say(DeliveryOutcome::Taken, None)),
        Match::Ambiguous(n) => return Ok(say(DeliveryOutcome::Ambiguous(n), None)),
        Match::Expired(offer) => return expired(imports, offer),
        Match::Waiting(offers) => offers,
    };
    // Interchangeable ones: the oldest that was not revoked.
    let mut finding = say(DeliveryOutcome::Nothing, None);
    for offer in offers {
        finding = take(imports, me, owner, offer, given, settings)?;
        if finding.outcome != DeliveryOutcome::Revoked {
            break;
        }
    }
    Ok(finding)
}

fn take<I: Imports>(
    imports: &mut I,
    me: &Session,
    owner: &Session,
    offer: Offer,
    given: &[Given],
    settings: &Settings,
) -> Result<Finding, Error> {
    let state = hand_over::state(&offer.hand_over)?;
    match &state.kind {
        Kind::Nothing => return Ok(say(DeliveryOutcome::Nothing, Some(offer))),
        Kind::MemoryOff => return Ok(say(DeliveryOutcome::MemoryOff, Some(offer))),
        Kind::Refused(refusal) => return Ok(say(DeliveryOutcome::Refused(refusal.clone()), Some(offer))),
        Kind::Frozen | Kind::Live(_) => {}
    }
    // R20: memory still on for both sides, and the child in the owner's workspace.
    if !memory_on(me) || !memory_on(owner) {
        return Ok(say(DeliveryOutcome::MemoryOff, Some(offer)));
    }
    match (&me.project, &owner.project) {
        (Some(own), Some(other)) if may_share(own, other) => {}
        _ => return Ok(say(DeliveryOutcome::Refused(Refusal::OtherWorkspace), Some(offer))),
    }
    if let Kind::Live(order) = state.kind {
        return live(imports, owner, order, None, Some(offer), settings);
    }

    let name = offer.hand_over.snapshot_ref.clone().unwrap_or_default();
    let Some(frozen) = snapshot::lookup(imports, &name, Selection::One(1))? else {
        return Err(damaged(&format!("{} has lost its snapshot", offer.hand_over.id)));
    };
    match snapshot::standing(&frozen.snapshot, imports.now()) {
        // Nobody takes a place of what is gone.
        Standing::Revoked => return Ok(say(DeliveryOutcome::Revoked, None)),
        Standing::Expired => return Ok(say(DeliveryOutcome::Expired, None)),
        Standing::Ready => {}
    }
    let size = first_page(imports, &frozen)?;
    if let Some(capacity) = &state.capacity {
        let items = snapshot::state(&frozen.snapshot)?.items;
        if let Some(refusal) = beside(&Limit::of(capacity), given, size, &items)? {
            return Ok(say(DeliveryOutcome::Refused(refusal), Some(offer)));
        }
    }
    Ok(Finding { outcome: DeliveryOutcome::Delivered, offer: Some(offer), text: Text::Stored(Box::new(frozen), size) })
}

/// A hand-over that waited too long; if its snapshot was revoked as well, that is the reason.
fn expired<I: Imports>(imports: &mut I, offer: Offer) -> Result<Finding, Error> {
    let revoked = match &offer.hand_over.snapshot_ref {
        None => false,
        Some(name) => {
            snapshot::lookup(imports, name, Selection::None)?.is_some_and(|frozen| frozen.snapshot.revoked_at.is_some())
        }
    };
    Ok(say(if revoked { DeliveryOutcome::Revoked } else { DeliveryOutcome::Expired }, None))
}

/// R22: live ids, resolved now under `owner`'s visibility. `own`: the order, if the child named them itself.
fn live<I: Imports>(
    imports: &mut I,
    owner: &Session,
    order: Order,
    own: Option<Order>,
    offer: Option<Offer>,
    settings: &Settings,
) -> Result<Finding, Error> {
    let composed = match compose(imports, owner, &order, None, settings)? {
        Ok(composed) => composed,
        Err((refusal, _)) => {
            // It may fit again the next time.
            return Ok(Finding { outcome: DeliveryOutcome::Refused(refusal), offer, text: Text::Notice });
        }
    };
    let expires_at = offer.as_ref().map_or(composed.at, |offer| offer.hand_over.expires_at);
    let receipt = composed.receipt(None, expires_at);
    let text = composed.pages.into_iter().next().map(|page| page.text).unwrap_or_default();
    let block = Block { snapshot_ref: None, page: 1, pages: 1, text };
    Ok(Finding { outcome: DeliveryOutcome::Live, offer, text: Text::Live(Box::new((block, receipt)), own) })
}

/// R25: the first answer for this child and occasion, again.
fn repeat<I: Imports>(
    imports: &mut I,
    me: &Session,
    parent: Option<&Session>,
    earlier: &Given,
    settings: &Settings,
) -> Result<Answer, Error> {
    let row = &earlier.delivery;
    let State { outcome, own, .. } = state(row)?;
    let told = |outcome: DeliveryOutcome| Answer {
        block: block::notice(&outcome).map(notice),
        outcome,
        replayed: true,
        receipt: None,
    };
    match outcome {
        DeliveryOutcome::Delivered => {
            let name = row.snapshot_ref.clone().unwrap_or_default();
            let Some(frozen) = snapshot::lookup(imports, &name, Selection::One(1))? else {
                return Err(damaged("a delivery has lost its snapshot"));
            };
            if frozen.snapshot.revoked_at.is_some() {
                return Ok(told(DeliveryOutcome::Revoked));
            }
            if frozen.snapshot.pages == 0 {
                return Ok(told(DeliveryOutcome::Expired));
            }
            first_page(imports, &frozen)?;
            answer(frozen, true)
        }
        DeliveryOutcome::Live => {
            let (owner, order) = match (own, &earlier.hand_over, parent) {
                (Some(order), _, _) => (me, order),
                (None, Some(row), Some(parent)) => match hand_over::state(row)?.kind {
                    Kind::Live(order) => (parent, order),
                    _ => return Err(damaged("a live delivery names a hand-over that is not live")),
                },
                _ => return Ok(told(DeliveryOutcome::Nothing)),
            };
            if !memory_on(me) || !memory_on(owner) {
                return Ok(told(DeliveryOutcome::MemoryOff));
            }
            let finding = live(imports, owner, order, None, None, settings)?;
            Ok(match finding.text {
                Text::Live(content, _) => {
                    let (block, receipt) = *content;
                    let expires_at = earlier.hand_over.as_ref().map_or(receipt.expires_at, |row| row.expires_at);
                    Answer {
                        outcome: DeliveryOutcome::Live,
                        replayed: true,
                        block: Some(block),
                        receipt: Some(Receipt { expires_at, ..receipt }),
                    }
                }
                _ => told(finding.outcome),
            })
        }
        outcome => {
            let block = match (&row.notice, &row.check) {
                (Some(text), Some(check)) => {
                    snapshot::verify(imports, None, text, check)?;
                    Some(notice(text.clone()))
                }
                _ => None,
            };
            Ok(Answer { outcome, replayed: true, block, receipt: None })
        }
    }
}

/// R25, R26: keep the answer, and with it the place of the hand-over.
fn store<I: Imports>(
    imports: &mut I,
    me: &Session,
    occasion: &str,
    finding: Finding,
    settings: &Settings,
) -> Result<Answer, Error> {
    let now = imports.now();
    let Finding { outcome, offer, text } = finding;
    if let Text::New(frozen, _) = &text {
        imports.insert_snapshot(frozen)?;
    }
    let told = block::notice(&outcome);
    let (snapshot_ref, size, own) = match &text {
        Text::Stored(frozen, size) | Text::New(frozen, size) => {
            (Some(frozen.snapshot.snapshot_ref.clone()), Some(*size), None)
        }
        Text::Live(content, own) => (None, Some(content.1.size), own.clone()),
        Text::Notice => (None, None, None),
    };
    let row = Delivery {
        child: me.key.clone(),
        occasion: occasion.to_owned(),
        snapshot_ref: snapshot_ref.clone(),
        hand_over: offer.as_ref().map(|offer| offer.hand_over.id.clone()),
        place: offer.as_ref().map_or(0, |offer| offer.taken),
        at: now,
        keep_until: later(now, settings.replay),
        state: to_json(&State { outcome: outcome.clone(), size, own }),
        check: told.as_deref().map(snapshot::check),
        notice: told.clone(),
    };
    if !imports.insert_delivery(&row)? {
        // R25: another process was faster, with this occasion or with this place. This unit is undone; the next try
        // finds what the other stored.
        return Err(Error::Store(StoreError::Busy("another process is delivering to this child".into())));
    }
    let answer = match text {
        Text::Stored(frozen, _) | Text::New(frozen, _) => answer(*frozen, false)?,
        Text::Live(content, _) => {
            let (block, receipt) = *content;
            Answer { outcome, replayed: false, block: Some(block), receipt: Some(receipt) }
        }
        Text::Notice => Answer { outcome, replayed: false, block: told.map(notice), receipt: None },
    };
    let memory_ids = answer.receipt.iter().flat_map(|receipt| &receipt.items).map(|item| item.id.clone()).collect();
    let word = audit::delivery_word(&answer.outcome);
    audit::record(imports, "deliver", word, snapshot_ref.as_deref(), memory_ids, Vec::new());
    Ok(answer)
}

/// R27: whether this page fits beside what the child was given before.
fn beside(limit: &Limit, given: &[Given], size: Size, items: &[Item]) -> Result<Option<Refusal>, Error> {
    let mut sum = limit.part(&size);
    for given in given {
        sum = sum.saturating_add(state(&given.delivery)?.size.map_or(0, |size| limit.part(&size)));
    }
    // The first one was measured against its budget when it was made.
    if sum <= limit.amount || sum == limit.part(&size) {
        return Ok(None);
    }
    let sizes = items.iter().map(|item| Omission { id: item.id.clone(), size: item.size, why: "over-budget".into() });
    Ok(Some(Refusal::OverCapacity(Shortfall {
        unit: limit.unit,
        budget: limit.amount,
        needed: sum,
        sizes: sizes.collect(),
    })))
}

fn state(row: &Delivery) -> Result<State, Error> {
    from_json(&row.state).ok_or_else(|| damaged("the state of a delivery cannot be read"))
}

/// Page 1, its checksum verified, and what it takes.
fn first_page<I: Imports>(imports: &mut I, frozen: &Frozen) -> Result<Size, Error> {
    let name = frozen.snapshot.snapshot_ref.as_str();
    match frozen.pages.first() {
        Some(page) if page.number == 1 => snapshot::verify(imports, Some(name), &page.text, &page.check)?,
        _ => {
            audit::damage(imports, Some(name));
            return Err(Error::Corrupt(name.to_owned()));
        }
    }
    Ok(snapshot::state(&frozen.snapshot)?.page_sizes.first().copied().unwrap_or(NO_SIZE))
}

fn answer(frozen: Frozen, replayed: bool) -> Result<Answer, Error> {
    let receipt = snapshot::receipt(&frozen.snapshot)?;
    let Frozen { snapshot, pages } = frozen;
    let text = pages.into_iter().next().map(|page| page.text).unwrap_or_default();
    let block = Block { snapshot_ref: Some(snapshot.snapshot_ref), page: 1, pages: snapshot.pages, text };
    Ok(Answer { outcome: DeliveryOutcome::Delivered, replayed, block: Some(block), receipt: Some(receipt) })
}

fn say(outcome: DeliveryOutcome, offer: Option<Offer>) -> Finding {
    Finding { outcome, offer, text: Text::Notice }
}

fn notice(text: String) -> Block {
    Block { snapshot_ref: None, page: 1, pages: 1, text }
}

const NO_SIZE: Size = Size { bytes: 0, tokens: 0, counted: false };
