//! What is frozen and how it is trusted again: composing a block from resolved memories, the rows that keep it, refs,
//! checksums and standing (R15, R16, R18, R20). Who may claim it is for `child` and `hand_over`.

use serde::Serialize;
use xxhash_rust::xxh3::xxh3_128;

use crate::block::{self, Head};
use crate::capacity::{self, Content, Draft, Fitted, Limit};
use crate::contract::*;
use crate::resolver::{LeaveOut, Resolution, resolve};
use crate::session::damaged;
use crate::settings::Settings;
use crate::state::{fields, open, seal, to_json};
use crate::visibility::Hidden;
use crate::{Imports, audit};

/// The name of the checksum in front of its value (R16).
const CHECK: &str = "xxh3-128:";

/// How every ref begins.
const REF: &str = "snap_";

/// Decimal digits of 128 bits.
const DIGITS: usize = 39;

/// `snapshot.state`: what the receipt needs beside the row.
#[derive(Clone, Serialize)]
pub struct State {
    /// What is in the pages, in their order.
    pub items: Vec<Item>,
    /// Ids that could not be had.
    pub unavailable: Vec<String>,
    /// What the budget left out.
    pub omitted: Vec<Omission>,
    /// All pages together.
    pub size: Size,
    /// Each page, in order.
    pub page_sizes: Vec<Size>,
}

fields!(State: items, unavailable, omitted, size, page_sizes);

/// `page.state`: where each body, or part of one, lies in the text: index into `State::items`, offset, length.
#[derive(Serialize)]
pub struct PageState {
    /// In the order of the text.
    pub spans: Vec<(u32, u32, u32)>,
}

fields!(PageState: spans);

/// What a block is composed from and for.
#[derive(Clone, Serialize)]
pub struct Order {
    /// Normalised ids.
    pub ids: Vec<String>,
    /// The child's.
    pub capacity: Capacity,
    /// R31: the request's own priorities.
    pub priorities: Vec<(String, u32)>,
    /// R4: any unavailable id is a refusal.
    pub strict: bool,
}

fields!(Order: ids, capacity, priorities, strict);

/// A finished block that is not stored yet.
pub struct Composed {
    /// Pages with their checksums.
    pub pages: Vec<Page>,
    /// For the row.
    pub state: State,
    /// When its memories were read.
    pub at: Instant,
    /// Why ids are unavailable, for the audit.
    pub reasons: Vec<(String, Hidden)>,
}

/// A refusal, and why ids are unavailable, for the audit.
pub type Refused = (Refusal, Vec<(String, Hidden)>);

/// Resolve, measure, fit and render. `owner` is whose visibility counts. `Err` inside: the policy refuses.
pub fn compose<I: Imports>(
    imports: &mut I,
    owner: &Session,
    order: &Order,
    snapshot_ref: Option<&str>,
    settings: &Settings,
) -> Result<Result<Composed, Refused>, Error> {
    let limit = Limit::of(&order.capacity);
    // R31: what is not even read is left out like what does not fit, where leaving out is asked for.
    let rank = capacity::rank(order.capacity.overflow, &order.priorities);
    let leave_out = rank.as_deref().map(|rank| move |rows: &[Memory], max| capacity::leave_out(rows, max, rank));
    let leave_out = leave_out.as_ref().map(|leave_out| leave_out as LeaveOut);
    let resolved = match resolve(imports, owner, &order.ids, settings, leave_out)? {
        Resolution::Done(resolved) => resolved,
        Resolution::TooLarge(sizes, reasons) => {
            let needed = sizes.iter().fold(0u32, |sum, (_, bytes)| sum.saturating_add(*bytes));
            let sizes =
                sizes.into_iter().map(|(id, bytes)| omission(&id, Size { bytes, tokens: bytes, counted: false }));
            let shortfall =
                Shortfall { unit: Unit::Bytes, budget: settings.max_body_bytes, needed, sizes: sizes.collect() };
            return Ok(Err((Refusal::OverCapacity(shortfall), reasons)));
        }
    };
    if order.strict && !resolved.unavailable.is_empty() {
        return Ok(Err((Refusal::Unavailable(resolved.unavailable), resolved.reasons)));
    }

    let at = imports.now();
    let model = order.capacity.model.as_deref();
    let unread = resolved.found.iter().enumerate().filter(|(_, found)| found.body.is_none());
    let unread: Vec<usize> = unread.map(|(index, _)| index).collect();
    let found = resolved.found.into_iter().map(|found| (found.row, found.body.unwrap_or_default()));
    let (rows, bodies): (Vec<_>, Vec<_>) = found.unzip();
    let (mut sizes, counted) = capacity::body_sizes(imports, model, &bodies);
    for index in &unread {
        sizes[*index] = Size { bytes: rows[*index].bytes, tokens: rows[*index].bytes, counted: false };
    }
    let fence = fence(imports, &bodies)?;
    let head = Head { snapshot_ref, at, fence: &fence, page: 1, pages: 1 };
    let content = Content {
        rows: &rows,
        bodies: &bodies,
        counted: &counted,
        unread: &unread,
        unavailable: &resolved.unavailable,
    };
    let paginate = order.capacity.overflow == Overflow::Paginate;
    let (drafts, omitted) = match capacity::fit(imports, &limit, rank.as_deref(), paginate, &head, &content) {
        Fitted::Pages(drafts, omitted) => (drafts, omitted),
        Fitted::TooLarge(needed) => {
            let sizes = rows.iter().zip(sizes).map(|(row, size)| omission(&row.id, size)).collect();
            let shortfall = Shortfall { unit: limit.unit, budget: limit.amount, needed, sizes };
            return Ok(Err((Refusal::OverCapacity(shortfall), resolved.reasons)));
        }
    };

    let page_sizes = match drafts.as_slice() {
        [Draft { size: Some(size), .. }] => vec![*size],
        _ => {
            let texts: Vec<String> = drafts.iter().map(|draft| draft.text.clone()).collect();
            capacity::sizes(imports, model, &texts)
        }
    };
    let digests = imports.sha256(&bodies);
    if digests.len() != bodies.len() {
        return Err(damaged("environment.sha256 answered with another number of digests than was asked for"));
    }
    let kept: Vec<usize> = (0..rows.len()).filter(|index| !omitted.contains(index)).collect();
    let mut items = Vec::with_capacity(kept.len());
    let mut left_out = Vec::new();
    for (index, ((row, size), sha256)) in rows.into_iter().zip(sizes).zip(digests).enumerate() {
        if omitted.contains(&index) {
            left_out.push(omission(&row.id, size));
        } else {
            items.push(Item { id: row.id, version: row.version, sha256, size, removed: false });
        }
    }
    let state = State {
        items,
        unavailable: resolved.unavailable,
        omitted: left_out,
        size: page_sizes.iter().fold(Size { bytes: 0, tokens: 0, counted: true }, add),
        page_sizes,
    };
    let place = |row: usize| kept.iter().position(|index| *index == row).unwrap_or(0) as u32;
    let mut pages = Vec::new();
    let count = drafts.len() as u32;
    for (number, draft) in (1..).zip(drafts) {
        let on = Place { snapshot_ref: snapshot_ref.unwrap_or_default(), number, pages: count };
        let spans = draft.spans.iter().map(|(row, span)| (place(*row), span.start as u32, span.bytes as u32)).collect();
        let (check, state) = (on.check(&draft.text), seal(&on.columns(), &PageState { spans }));
        pages.push(Page { number, check, text: draft.text, state });
    }
    Ok(Ok(Composed { pages, state, at, reasons: resolved.reasons }))
}

impl Composed {
    /// The rows of a frozen snapshot, and what is in its state.
    pub fn freeze(self, snapshot_ref: &str, owner: &SessionKey, expires_at: Instant) -> (Frozen, State) {
        let mut snapshot = Snapshot {
            snapshot_ref: snapshot_ref.to_owned(),
            owner: owner.clone(),
            created_at: self.at,
            expires_at,
            // R18: until it is claimed, its bytes are needed no longer than that.
            keep_until: expires_at,
            revoked_at: None,
            memory_ids: self.state.items.iter().map(|item| item.id.clone()).collect(),
            pages: self.pages.len() as u32,
            state: String::new(),
        };
        write_state(&mut snapshot, &self.state);
        (Frozen { snapshot, pages: self.pages }, self.state)
    }

    /// What the parent is told of a block that is not stored.
    pub fn receipt(self, expires_at: Instant) -> Receipt {
        let pages = self.pages.len() as u32;
        told(self.state, None, self.at, expires_at, pages)
    }
}

impl State {
    /// What page 1 takes.
    pub fn first_page(&self) -> Size {
        self.page_sizes.first().copied().unwrap_or(Size { bytes: 0, tokens: 0, counted: false })
    }
}

/// The receipt of a stored snapshot. `corrupt`: its state cannot be read.
pub fn receipt(snapshot: &Snapshot) -> Result<Receipt, Error> {
    Ok(receipt_of(state(snapshot)?, snapshot))
}

/// The receipt of a stored snapshot with this state.
pub fn receipt_of(state: State, snapshot: &Snapshot) -> Receipt {
    told(state, Some(&snapshot.snapshot_ref), snapshot.created_at, snapshot.expires_at, snapshot.pages)
}

fn told(state: State, snapshot_ref: Option<&str>, frozen_at: Instant, expires_at: Instant, pages: u32) -> Receipt {
    let State { items, unavailable, omitted, size, page_sizes: _ } = state;
    Receipt {
        snapshot_ref: snapshot_ref.map(String::from),
        frozen_at,
        expires_at,
        items,
        unavailable,
        omitted,
        size,
        pages,
        attributes: Vec::new(),
    }
}

/// The component's part of a snapshot row. `corrupt`: it cannot be read, or is not this row's.
pub fn state(snapshot: &Snapshot) -> Result<State, Error> {
    open(&columns(snapshot), &snapshot.state).ok_or_else(|| Error::Corrupt(snapshot.snapshot_ref.clone()))
}

/// Put the component's part into a snapshot row, which has all its other columns.
pub fn write_state(snapshot: &mut Snapshot, state: &State) {
    snapshot.state = seal(&columns(snapshot), state);
}

/// R20: what the state of a row is bound to: all that no storage function changes by itself.
fn columns(row: &Snapshot) -> String {
    to_json(&(&row.snapshot_ref, &row.owner, row.created_at, row.expires_at, &row.memory_ids, row.pages))
}

/// Where a snapshot stands (R18, R20).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// It can be handed over.
    Ready,
    /// Its TTL, or its retention, is over.
    Expired,
    /// Its owner took it back.
    Revoked,
}

/// R18, R20, R21: where this snapshot stands at `now`. A tombstone is expired.
pub fn standing(snapshot: &Snapshot, now: Instant) -> Standing {
    if snapshot.revoked_at.is_some() {
        Standing::Revoked
    } else if snapshot.pages == 0 || snapshot.expires_at <= now {
        Standing::Expired
    } else {
        Standing::Ready
    }
}

/// One snapshot by its ref, or `None`.
pub fn lookup<I: Imports>(imports: &mut I, snapshot_ref: &str, pages: Selection) -> Result<Option<Frozen>, Error> {
    let mut rows = imports.snapshots(&[snapshot_ref.to_owned()], pages)?;
    match (rows.pop(), rows.len()) {
        (Some(row), 0) if row.as_ref().is_none_or(|row| row.snapshot.snapshot_ref == snapshot_ref) => Ok(row),
        _ => Err(damaged("snapshots.get answered with other rows than were asked for")),
    }
}

/// R15: whether `text` is a ref at all. `malformed` says what one looks like.
pub fn check_ref(text: &str) -> Result<(), Error> {
    let digits = text.strip_prefix(REF).unwrap_or_default();
    if digits.len() == DIGITS && digits.bytes().all(|b| b.is_ascii_digit()) {
        return Ok(());
    }
    let shown = crate::ids::shown(text);
    Err(Error::Malformed(format!("snapshot ref {shown} is none: one is {REF} and {DIGITS} digits")))
}

/// R15: a new, unguessable ref.
pub fn new_ref<I: Imports>(imports: &mut I) -> Result<String, Error> {
    name(imports, REF)
}

/// `prefix` and 128 random bits as decimal digits, since digits take the same number of tokens in every name, and
/// fewer than hex does.
pub fn name<I: Imports>(imports: &mut I, prefix: &str) -> Result<String, Error> {
    Ok(format!("{prefix}{:0DIGITS$}", random(imports, 16)?))
}

/// R35: 12 digits that occur in no body. Nobody who wrote a body could know them; the search is for the one in a
/// million million that has them by chance.
fn fence<I: Imports>(imports: &mut I, bodies: &[String]) -> Result<String, Error> {
    const TRIES: u32 = 16;
    for _ in 0..TRIES {
        let fence = format!("{:012}", random(imports, 8)? % 1_000_000_000_000);
        if block::fence_holds(&fence, bodies.iter().map(String::as_str)) {
            return Ok(fence);
        }
    }
    Err(damaged("environment.random-hex gives digits that are not random"))
}

fn random<I: Imports>(imports: &mut I, bytes: u32) -> Result<u128, Error> {
    let hex = imports.random_hex(bytes);
    let number = if hex.len() == 2 * bytes as usize { u128::from_str_radix(&hex, 16).ok() } else { None };
    number.ok_or_else(|| damaged("environment.random-hex answered with something else than hex digits"))
}

/// R16: the checksum of a stored text. It guards against rot: who can rewrite the text can rewrite the checksum.
pub fn check(text: &str) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let sum = xxh3_128(text.as_bytes()).to_be_bytes();
    // By hand: every replay waits for it, and formatting takes a third as long as the sum over 20 KB.
    let mut check = String::with_capacity(CHECK.len() + 2 * sum.len());
    check.push_str(CHECK);
    for byte in sum {
        check.push(char::from(DIGITS[usize::from(byte >> 4)]));
        check.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    check
}

/// Where a page belongs: its checksum and its state hold nowhere else (R20).
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// Its snapshot.
    pub snapshot_ref: &'a str,
    /// From 1.
    pub number: u32,
    /// How many the snapshot has.
    pub pages: u32,
}

impl<'a> Place<'a> {
    /// That of a page of this snapshot.
    pub fn of(page: &Page, snapshot: &'a Snapshot) -> Place<'a> {
        Place { snapshot_ref: &snapshot.snapshot_ref, number: page.number, pages: snapshot.pages }
    }

    /// What the state of the page is bound to.
    pub fn columns(&self) -> String {
        [self.snapshot_ref, &self.number.to_string(), &self.pages.to_string()].join(" ")
    }

    /// R16: the checksum of this text on this page.
    pub fn check(&self, text: &str) -> String {
        check(&[self.columns(), check(text)].join(" "))
    }
}

/// R20: whether a stored text is what was frozen in this place, or a notice, which has none. `corrupt` otherwise, with an
/// audit entry.
pub fn verify<I: Imports>(imports: &mut I, place: Option<Place>, text: &str, stored: &str) -> Result<(), Error> {
    if place.map_or_else(|| check(text), |place| place.check(text)) == stored {
        return Ok(());
    }
    let snapshot_ref = place.map(|place| place.snapshot_ref);
    audit::damage(imports, snapshot_ref);
    Err(Error::Corrupt(snapshot_ref.unwrap_or("notice").to_owned()))
}

/// Two sizes together.
pub fn add(sum: Size, size: &Size) -> Size {
    Size {
        bytes: sum.bytes.saturating_add(size.bytes),
        tokens: sum.tokens.saturating_add(size.tokens),
        counted: sum.counted && size.counted,
    }
}

fn omission(id: &str, size: Size) -> Omission {
    Omission { id: id.to_owned(), size, why: "over-budget".into() }
}
