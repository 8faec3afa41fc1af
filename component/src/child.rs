//! The child's side: deliver, replay, page (R20, R22 to R28). What a hand-over is and which one a child may take is
//! for `hand_over`.

use serde::Serialize;

use crate::capacity::Limit;
use crate::contract::*;
use crate::hand_over::{self, Kind, Match, Seeker};
use crate::session::{damaged, memory_on, together};
use crate::settings::{self, Settings, later};
use crate::snapshot::{self, Order, Place, Standing, compose};
use crate::state::{fields, open, seal, to_json};
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

/// Who delegated to the child, as the directory says.
struct Parent {
    key: SessionKey,
    /// `None`: the directory does not know it any more.
    session: Option<Session>,
}

/// What a claim comes to, before it is stored.
struct Finding {
    outcome: DeliveryOutcome,
    /// The snapshot that it is about, also where it is not delivered.
    about: Option<String>,
    /// The hand-over whose place is taken.
    offer: Option<Offer>,
    text: Text,
    /// R28: why ids are unavailable, for the audit.
    reasons: Attributes,
}

/// Where the text comes from.
enum Text {
    /// There is none, or it is a notice.
    Notice,
    /// A snapshot that is stored, with page 1, and its state.
    Stored(Box<(Frozen, snapshot::State)>),
    /// A snapshot of the child's own, still to be inserted.
    New(Box<(Frozen, snapshot::State)>),
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
        Some(key) => Some(Parent { key: key.clone(), session: session::lookup(imports, key)? }),
        None => None,
    };
    let settings = settings::load(imports, me.project.as_ref().map(|project| project.id.as_str()));
    let given = given(imports, &me.key)?;
    if let Some(earlier) = given.iter().find(|given| given.delivery.occasion == occasion) {
        return repeat(imports, &me, earlier, &given, &settings);
    }

    let mut finding = find(imports, &me, parent.as_ref(), claim, &given, &settings)?;
    // R13: zero bytes, not even a notice, whatever else is the case.
    if !memory_on(&me) {
        finding = Finding { outcome: DeliveryOutcome::MemoryOff, text: Text::Notice, ..finding };
    }
    store(imports, &me, occasion, finding, &settings)
}

/// The deliveries of a child, by its canonical key. R20: an index that a disk has damaged finds another child's.
fn given<I: Imports>(imports: &mut I, key: &SessionKey) -> Result<Vec<Given>, Error> {
    let given = imports.deliveries(key)?;
    if given.iter().any(|given| given.delivery.child != *key) {
        return Err(damaged("snapshots.deliveries answered with another child's deliveries"));
    }
    Ok(given)
}

/// `child.replay`. One store call.
pub fn replay<I: Imports>(imports: &mut I, child: &SessionKey) -> Result<Vec<Block>, Error> {
    session::check(child)?;
    let now = imports.now();
    let rows = imports.replay(child, None, 1, now)?;
    let mut blocks = Vec::with_capacity(rows.len());
    for row in rows {
        if row.revoked_at.is_none() {
            blocks.push(checked(imports, row, 1)?);
        }
    }
    Ok(blocks)
}

/// `child.page`. R13: a page that was not given yet is not given while memory is off for the child.
pub fn page<I: Imports>(imports: &mut I, child: &SessionKey, snapshot_ref: &str, number: u32) -> Result<Block, Error> {
    session::check(child)?;
    snapshot::check_ref(snapshot_ref)?;
    let Some(me) = session::lookup(imports, child)?.filter(memory_on) else {
        return Err(Error::Unavailable(vec![snapshot_ref.to_owned()]));
    };
    let now = imports.now();
    let mut rows = imports.replay(child, Some(snapshot_ref), number, now)?;
    if let Some(row) = rows.pop() {
        if row.revoked_at.is_some() {
            return Err(Error::Revoked);
        }
        return checked(imports, row, number);
    }
    match imports.replay(child, Some(snapshot_ref), 1, now)?.pop() {
        Some(row) => {
            Err(Error::Malformed(format!("there is no page {number}: {} has 1 to {}", snapshot_ref, row.pages)))
        }
        None => Err(lost(imports, &me.key, snapshot_ref)?),
    }
}

/// R18: why there is no page at all: it was given to this child and its time is over; or it was not.
fn lost<I: Imports>(imports: &mut I, child: &SessionKey, snapshot_ref: &str) -> Result<Error, Error> {
    let given = given(imports, child)?;
    if given.iter().any(|given| given.delivery.snapshot_ref.as_deref() == Some(snapshot_ref))
        && let Some(frozen) = snapshot::lookup(imports, snapshot_ref, Selection::None)?
    {
        return Ok(if frozen.snapshot.revoked_at.is_some() { Error::Revoked } else { Error::Expired });
    }
    Ok(Error::Unavailable(vec![snapshot_ref.to_owned()]))
}

fn checked<I: Imports>(imports: &mut I, row: StoredPage, number: u32) -> Result<Block, Error> {
    let place = row.snapshot_ref.as_deref().map(|snapshot_ref| Place { snapshot_ref, number, pages: row.pages });
    snapshot::verify(imports, place, &row.text, &row.check)?;
    Ok(Block { snapshot_ref: row.snapshot_ref, page: number, pages: row.pages, text: row.text })
}

/// R22, R23: what this claim is for.
fn find<I: Imports>(
    imports: &mut I,
    me: &Session,
    parent: Option<&Parent>,
    claim: &Claim,
    given: &[Given],
    settings: &Settings,
) -> Result<Finding, Error> {
    let now = imports.now();
    let Places { has, holds } = places(given)?;
    let seeker = |revoked| Seeker { has: &has, holds: &holds, revoked, now };
    match claim {
        Claim::SnapshotRef(name) => {
            let Some(Frozen { snapshot, .. }) = snapshot::lookup(imports, name, Selection::None)? else {
                return Err(audit::unavailable(imports, "deliver", name));
            };
            if snapshot.owner == me.key {
                return own_snapshot(imports, me, name, now);
            }
            // R15: the owner's direct children, and nobody else.
            let Some(owner) = parent.filter(|parent| parent.key == snapshot.owner) else {
                return Err(audit::unavailable(imports, "deliver", name));
            };
            let filter = OfferFilter { snapshot_ref: Some(name.clone()), ..hand_over::all_of(&owner.key) };
            let offers = imports.find_hand_overs(&filter, hand_over::LIMIT)?;
            let standing = snapshot::standing(&snapshot, now);
            if offers.is_empty() && standing != Standing::Ready {
                return Ok(say(gone(standing), None).about(name));
            }
            let revoked = if standing == Standing::Revoked { vec![name.clone()] } else { Vec::new() };
            let matched = hand_over::pick(offers, &seeker(&revoked));
            from_match(imports, me, owner, matched, given, settings)
        }
        Claim::Ids(carried) => {
            let ids = ids::list(&carried.ids.ids, settings.max_ids)?;
            let named = NamedIds { ids, mode: carried.ids.mode };
            if let Some(parent) = parent {
                let ids_key = Some(hand_over::ids_key(&named.ids));
                let filter = OfferFilter { ids_key, ..hand_over::all_of(&parent.key) };
                let offers = imports.find_hand_overs(&filter, hand_over::LIMIT)?;
                if !offers.is_empty() {
                    let offers = hand_over::prefer_mode(offers, named.mode)?;
                    let revoked = revoked(imports, &offers)?;
                    let matched = hand_over::by_ids(offers, &seeker(&revoked))?;
                    return from_match(imports, me, parent, matched, given, settings);
                }
            }
            own_ids(imports, me, named, carried.capacity.clone(), given, settings)
        }
        Claim::ParentSession(hints) => {
            let Some(parent) = parent else { return Ok(say(DeliveryOutcome::Nothing, None)) };
            let task = hints.task.as_deref().filter(|task| !task.is_empty());
            let mut filter = hand_over::all_of(&parent.key);
            let mut equal = Vec::new();
            match task {
                Some(task) => {
                    let task_digest = Some(hand_over::task_digest(imports, task)?);
                    let of_task = OfferFilter { task_digest, ..filter.clone() };
                    equal = imports.find_hand_overs(&of_task, hand_over::LIMIT)?;
                    filter.within = Some(task.to_owned());
                    filter.with_task = true;
                }
                None => {
                    filter.agent_type = hints.agent_type.clone();
                    filter.open_only = true;
                }
            }
            let is_equal = !equal.is_empty();
            let mut offers = if is_equal { equal } else { imports.find_hand_overs(&filter, hand_over::LIMIT)? };
            if task.is_none() {
                offers.extend(held(imports, &parent.key, given, &holds)?);
            }
            let revoked = revoked(imports, &offers)?;
            let seeker = seeker(&revoked);
            let matched = match task {
                Some(task) => {
                    let text = if is_equal { hand_over::Text::Equal } else { hand_over::Text::Around(task) };
                    hand_over::by_task(offers, text, hints.agent_type.as_deref(), &seeker)?
                }
                None => hand_over::only_one(offers, hints.registers_all, &seeker),
            };
            from_match(imports, me, parent, matched, given, settings)
        }
    }
}

/// The hand-overs of which a child holds the last place, which a search for open ones does not find.
fn held<I: Imports>(
    imports: &mut I,
    parent: &SessionKey,
    given: &[Given],
    holds: &[String],
) -> Result<Vec<Offer>, Error> {
    let mut found: Vec<Offer> = Vec::new();
    for row in given.iter().filter_map(|given| given.hand_over.as_ref()).filter(|row| holds.contains(&row.id)) {
        let filter = OfferFilter {
            snapshot_ref: row.snapshot_ref.clone(),
            ids_key: row.ids_key.clone(),
            ..hand_over::all_of(parent)
        };
        let mut offers = imports.find_hand_overs(&filter, hand_over::LIMIT)?;
        offers.retain(|offer| offer.hand_over.id == row.id && offer.taken >= offer.hand_over.children);
        offers.retain(|offer| !found.iter().any(|other| other.hand_over.id == offer.hand_over.id));
        found.extend(offers);
    }
    Ok(found)
}

/// Which hand-overs a child has places of.
struct Places {
    has: Vec<String>,
    holds: Vec<String>,
}

/// R26: it was served unless the hand-over has memories and it got none.
fn places(given: &[Given]) -> Result<Places, Error> {
    let mut places = Places { has: Vec::new(), holds: Vec::new() };
    for Given { delivery, hand_over } in given {
        let Some(row) = hand_over else { continue };
        let with_memories = matches!(hand_over::state(row)?.kind, Kind::Frozen | Kind::Live(_));
        let got_none = matches!(state(delivery)?.outcome, DeliveryOutcome::MemoryOff | DeliveryOutcome::Refused(_));
        if with_memories && got_none {
            places.holds.push(row.id.clone());
        } else {
            places.has.push(row.id.clone());
        }
    }
    Ok(places)
}

/// R21: which snapshots of these hand-overs were revoked.
fn revoked<I: Imports>(imports: &mut I, offers: &[Offer]) -> Result<Vec<String>, Error> {
    let mut refs: Vec<String> = Vec::new();
    for name in offers.iter().filter_map(|offer| offer.hand_over.snapshot_ref.as_ref()) {
        if !refs.contains(name) {
            refs.push(name.clone());
        }
    }
    let rows = imports.snapshots(&refs, Selection::None)?;
    let is_revoked = |row: Frozen| row.snapshot.revoked_at.map(|_| row.snapshot.snapshot_ref);
    Ok(rows.into_iter().flatten().filter_map(is_revoked).collect())
}

/// R15: the owner reads its own snapshot; no place is taken.
fn own_snapshot<I: Imports>(imports: &mut I, me: &Session, name: &str, now: Instant) -> Result<Finding, Error> {
    if !memory_on(me) {
        return Ok(say(DeliveryOutcome::MemoryOff, None).about(name));
    }
    Ok(stored(imports, name, now)?.about(name))
}

/// A snapshot that is to be delivered, with its standing and all its pages verified (R20).
fn stored<I: Imports>(imports: &mut I, name: &str, now: Instant) -> Result<Finding, Error> {
    let Some(frozen) = snapshot::lookup(imports, name, Selection::All)? else {
        return Err(damaged(&format!("the snapshot {name} is lost, and what names it is not")));
    };
    let standing = snapshot::standing(&frozen.snapshot, now);
    if standing != Standing::Ready {
        return Ok(say(gone(standing), None));
    }
    let state = sound(imports, &frozen)?;
    let text = Text::Stored(Box::new((frozen, state)));
    Ok(Finding { outcome: DeliveryOutcome::Delivered, about: None, offer: None, text, reasons: Vec::new() })
}

/// What is said of a snapshot that is not to be had.
fn gone(standing: Standing) -> DeliveryOutcome {
    match standing {
        Standing::Revoked => DeliveryOutcome::Revoked,
        Standing::Expired | Standing::Ready => DeliveryOutcome::Expired,
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
        let mut finding = live(imports, me, &order, &sizes(given, None)?, settings)?;
        if let Text::Live(_, own) = &mut finding.text {
            *own = Some(order);
        }
        return Ok(finding);
    }
    let name = snapshot::new_ref(imports)?;
    let composed = match compose(imports, me, &order, Some(&name), settings)? {
        Ok(composed) => composed,
        Err((refusal, reasons)) => {
            let reasons = audit::reasons(&reasons);
            return Ok(Finding { reasons, ..say(DeliveryOutcome::Refused(refusal), None) });
        }
    };
    let reasons = audit::reasons(&composed.reasons);
    if let Some(refusal) = beside(&limit, &sizes(given, None)?, composed.state.first_page(), &composed.state.items) {
        return Ok(Finding { reasons, ..say(DeliveryOutcome::Refused(refusal), None) });
    }
    // It is claimed already: nobody else shall claim it.
    let at = composed.at;
    let text = Text::New(Box::new(composed.freeze(&name, &me.key, at)));
    Ok(Finding { outcome: DeliveryOutcome::Delivered, about: Some(name), offer: None, text, reasons })
}

/// R20, R23, R28: the hand-over that was found, or why there is none.
fn from_match<I: Imports>(
    imports: &mut I,
    me: &Session,
    owner: &Parent,
    matched: Match,
    given: &[Given],
    settings: &Settings,
) -> Result<Finding, Error> {
    // Nobody takes a place of what is gone.
    let told = |outcome, offer: Offer| {
        let finding = say(outcome, None);
        Ok(match &offer.hand_over.snapshot_ref {
            Some(name) => finding.about(name),
            None => finding,
        })
    };
    match matched {
        Match::Nothing => Ok(say(DeliveryOutcome::Nothing, None)),
        Match::Ambiguous(n) => Ok(say(DeliveryOutcome::Ambiguous(n), None)),
        Match::Taken(offer) => told(DeliveryOutcome::Taken, offer),
        Match::Expired(offer) => told(DeliveryOutcome::Expired, offer),
        Match::Revoked(offer) => told(DeliveryOutcome::Revoked, offer),
        Match::Waiting(offer) => {
            let about = offer.hand_over.snapshot_ref.clone();
            Ok(Finding { about, ..take(imports, me, owner, offer, given, settings)? })
        }
    }
}

fn take<I: Imports>(
    imports: &mut I,
    me: &Session,
    owner: &Parent,
    offer: Offer,
    given: &[Given],
    settings: &Settings,
) -> Result<Finding, Error> {
    let state = hand_over::state(&offer.hand_over)?;
    // R20: the task that was found in the child's text is the one that was delegated.
    let HandOver { id, task, task_digest, .. } = &offer.hand_over;
    if !task.is_empty() && hand_over::task_digest(imports, task)? != *task_digest {
        return Err(damaged(&format!("the task of {id} is not the one that was delegated")));
    }
    match &state.kind {
        Kind::Nothing => return Ok(say(DeliveryOutcome::Nothing, Some(offer))),
        Kind::MemoryOff => return Ok(say(DeliveryOutcome::MemoryOff, Some(offer))),
        Kind::Refused(refusal) => return Ok(say(DeliveryOutcome::Refused(refusal.clone()), Some(offer))),
        Kind::Frozen | Kind::Live(_) => {}
    }
    // R20: memory still on for both sides, and the child in the owner's workspace.
    let Some(owner) = &owner.session else {
        return Ok(say(DeliveryOutcome::Refused(owner_unknown()), Some(offer)));
    };
    if let Some(outcome) = barred(me, owner) {
        return Ok(say(outcome, Some(offer)));
    }
    if let Kind::Live(order) = &state.kind {
        let finding = live(imports, owner, order, &sizes(given, None)?, settings)?;
        return Ok(Finding { offer: Some(offer), ..finding });
    }

    let now = imports.now();
    let finding = stored(imports, offer.hand_over.snapshot_ref.as_deref().unwrap_or_default(), now)?;
    let Text::Stored(content) = &finding.text else { return Ok(finding) };
    let frozen = &content.1;
    if let Some(capacity) = &state.capacity
        && let Some(refusal) = beside(&Limit::of(capacity), &sizes(given, None)?, frozen.first_page(), &frozen.items)
    {
        return Ok(say(DeliveryOutcome::Refused(refusal), Some(offer)));
    }
    Ok(Finding { offer: Some(offer), ..finding })
}

/// R20: why this child may have nothing of this owner's, at all.
fn barred(me: &Session, owner: &Session) -> Option<DeliveryOutcome> {
    if !memory_on(me) || !memory_on(owner) {
        Some(DeliveryOutcome::MemoryOff)
    } else if !together(me, owner) {
        Some(DeliveryOutcome::Refused(Refusal::OtherWorkspace))
    } else {
        None
    }
}

fn owner_unknown() -> Refusal {
    Refusal::Policy("the session that delegated this task is not known any more".into())
}

/// R22: live ids, resolved now under `owner`'s visibility, beside what the child has from other deliveries.
fn live<I: Imports>(
    imports: &mut I,
    owner: &Session,
    order: &Order,
    others: &[Size],
    settings: &Settings,
) -> Result<Finding, Error> {
    let mut composed = match compose(imports, owner, order, None, settings)? {
        Ok(composed) => composed,
        // It may fit again the next time.
        Err((refusal, reasons)) => {
            let reasons = audit::reasons(&reasons);
            return Ok(Finding { reasons, ..say(DeliveryOutcome::Refused(refusal), None) });
        }
    };
    let reasons = audit::reasons(&composed.reasons);
    if let Some(refusal) = beside(&Limit::of(&order.capacity), others, composed.state.size, &composed.state.items) {
        return Ok(Finding { reasons, ..say(DeliveryOutcome::Refused(refusal), None) });
    }
    let text = composed.pages.first_mut().map(|page| std::mem::take(&mut page.text)).unwrap_or_default();
    let at = composed.at;
    let receipt = composed.receipt(at);
    let block = Block { snapshot_ref: None, page: 1, pages: 1, text };
    let text = Text::Live(Box::new((block, receipt)), None);
    Ok(Finding { outcome: DeliveryOutcome::Live, about: None, offer: None, text, reasons })
}

/// R25: the first answer for this child and occasion, again.
fn repeat<I: Imports>(
    imports: &mut I,
    me: &Session,
    earlier: &Given,
    given: &[Given],
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
            // R18: also before a sweep has taken the bytes.
            if frozen.snapshot.pages == 0 || row.keep_until <= imports.now() {
                return Ok(told(DeliveryOutcome::Expired));
            }
            let state = sound(imports, &frozen)?;
            Ok(answer(frozen, state, true))
        }
        DeliveryOutcome::Live => {
            let (owner, order) = match (own, &earlier.hand_over) {
                (Some(order), _) => (Some(me.clone()), order),
                (None, Some(row)) => match hand_over::state(row)?.kind {
                    // Whoever delegated it, also if the child has got another parent since.
                    Kind::Live(order) => (session::lookup(imports, &row.parent)?, order),
                    _ => return Err(damaged("a live delivery names a hand-over that is not live")),
                },
                (None, None) => return Err(damaged("a live delivery names no ids")),
            };
            let Some(owner) = owner else { return Ok(told(DeliveryOutcome::Refused(owner_unknown()))) };
            if let Some(outcome) = barred(me, &owner) {
                return Ok(told(outcome));
            }
            let finding = live(imports, &owner, &order, &sizes(given, Some(&row.occasion))?, settings)?;
            Ok(match finding.text {
                Text::Live(content, _) => {
                    Answer { replayed: true, ..live_answer(*content, earlier.hand_over.as_ref()) }
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
    let Finding { outcome, about, offer, text, mut reasons } = finding;
    if let Text::New(content) = &text {
        imports.insert_snapshot(&content.0)?;
    }
    let told = block::notice(&outcome);
    let (snapshot_ref, size, own) = match &text {
        Text::Stored(content) | Text::New(content) => {
            let (frozen, state) = &**content;
            (Some(frozen.snapshot.snapshot_ref.clone()), Some(state.first_page()), None)
        }
        Text::Live(content, own) => (None, Some(content.1.size), own.clone()),
        Text::Notice => (None, None, None),
    };
    let mut row = Delivery {
        child: me.key.clone(),
        occasion: occasion.to_owned(),
        snapshot_ref: snapshot_ref.clone(),
        hand_over: offer.as_ref().map(|offer| offer.hand_over.id.clone()),
        place: offer.as_ref().map_or(0, |offer| offer.next_place),
        at: now,
        keep_until: later(now, settings.replay),
        state: String::new(),
        check: told.as_deref().map(snapshot::check),
        notice: told.clone(),
    };
    row.state = seal(&columns(&row), &State { outcome: outcome.clone(), size, own });
    if !imports.insert_delivery(&row)? {
        // R25: another process was faster, with this occasion or with this place. This unit is undone; the next try
        // finds what the other stored.
        return Err(Error::Store(StoreError::Busy("another process is delivering to this child".into())));
    }
    let answer = match text {
        Text::Stored(content) | Text::New(content) => {
            let (frozen, state) = *content;
            answer(frozen, state, false)
        }
        Text::Live(content, _) => live_answer(*content, offer.as_ref().map(|offer| &offer.hand_over)),
        Text::Notice => Answer { outcome, replayed: false, block: told.map(notice), receipt: None },
    };
    let memory_ids = answer.receipt.iter().flat_map(|receipt| &receipt.items).map(|item| item.id.clone()).collect();
    reasons.extend(answer.receipt.as_ref().map(audit::omissions).unwrap_or_default());
    audit::record(imports, "deliver", audit::delivery_word(&answer.outcome), about.as_deref(), memory_ids, reasons);
    Ok(answer)
}

/// R27: what each delivery takes of the child's context, but for the one of this occasion.
fn sizes(given: &[Given], but: Option<&str>) -> Result<Vec<Size>, Error> {
    let mut sizes = Vec::new();
    for Given { delivery, .. } in given.iter().filter(|given| but != Some(given.delivery.occasion.as_str())) {
        sizes.extend(state(delivery)?.size);
    }
    Ok(sizes)
}

/// R27: whether a text of this size fits beside what the child was given before. The first one was measured when it was
/// made.
fn beside(limit: &Limit, others: &[Size], size: Size, items: &[Item]) -> Option<Refusal> {
    let needed = others.iter().fold(limit.part(&size), |sum, other| sum.saturating_add(limit.part(other)));
    if others.is_empty() || needed <= limit.amount {
        return None;
    }
    let sizes = items.iter().map(|item| Omission { id: item.id.clone(), size: item.size, why: "over-budget".into() });
    Some(Refusal::OverCapacity(Shortfall { unit: limit.unit, budget: limit.amount, needed, sizes: sizes.collect() }))
}

fn state(row: &Delivery) -> Result<State, Error> {
    open(&columns(row), &row.state).ok_or_else(|| damaged("the state of a delivery cannot be read"))
}

/// R20: what the state of a delivery is bound to: all that no storage function changes by itself.
fn columns(row: &Delivery) -> String {
    to_json(&(&row.child, &row.occasion, &row.snapshot_ref, &row.hand_over, row.place, row.at, &row.check))
}

/// R20: the checksums of the pages at hand, page 1 among them, and of the row, whose state is answered.
fn sound<I: Imports>(imports: &mut I, frozen: &Frozen) -> Result<snapshot::State, Error> {
    let name = frozen.snapshot.snapshot_ref.as_str();
    if frozen.pages.first().is_none_or(|page| page.number != 1) {
        audit::damage(imports, Some(name));
        return Err(Error::Corrupt(name.to_owned()));
    }
    for page in &frozen.pages {
        snapshot::verify(imports, Some(Place::of(page, &frozen.snapshot)), &page.text, &page.check)?;
    }
    snapshot::state(&frozen.snapshot)
}

/// The answer with live content; its receipt says until when new children may take it.
fn live_answer((block, receipt): (Block, Receipt), hand_over: Option<&HandOver>) -> Answer {
    let expires_at = hand_over.map_or(receipt.expires_at, |row| row.expires_at);
    let receipt = Some(Receipt { expires_at, ..receipt });
    Answer { outcome: DeliveryOutcome::Live, replayed: false, block: Some(block), receipt }
}

fn answer(frozen: Frozen, state: snapshot::State, replayed: bool) -> Answer {
    let receipt = snapshot::receipt_of(state, &frozen.snapshot);
    let Frozen { snapshot, pages } = frozen;
    let text = pages.into_iter().next().map(|page| page.text).unwrap_or_default();
    let block = Block { snapshot_ref: Some(snapshot.snapshot_ref), page: 1, pages: snapshot.pages, text };
    Answer { outcome: DeliveryOutcome::Delivered, replayed, block: Some(block), receipt: Some(receipt) }
}

fn say(outcome: DeliveryOutcome, offer: Option<Offer>) -> Finding {
    Finding { outcome, about: None, offer, text: Text::Notice, reasons: Vec::new() }
}

impl Finding {
    fn about(self, snapshot_ref: &str) -> Finding {
        Finding { about: Some(snapshot_ref.to_owned()), ..self }
    }
}

fn notice(text: String) -> Block {
    Block { snapshot_ref: None, page: 1, pages: 1, text }
}
