//! A component that misbehaves on request. What it is asked to do is a word in the request: the task text of
//! `orchestrator.delegate` for what breaks a limit; the id of the calling session, or where there is none the first text of
//! the request, for everything else. `about.describe` lists all words, so that a test notices one without a case.
//!
//! The tests that load it are `tests/host.rs` and `tests/hostile.rs`.

// Its exports have names that only a component can have.
#![cfg(target_arch = "wasm32")]

use std::hint::black_box;
use std::sync::Mutex;

wit_bindgen::generate!({ path: "../../wit", world: "memory-prefetch", additional_derives: [Clone] });

use agent_memory::prefetch::types::*;
use agent_memory::prefetch::{audit, directory, environment, memories, snapshots};
use exports::agent_memory::prefetch::*;

struct Guest;

export!(Guest);

/// A function that does what a word says, and the list of its words. `None`: it does not know the word.
macro_rules! behaviours {
    ($list:ident: fn $name:ident($($arg:ident: $type:ty),*) -> $answer:ty { $($word:literal => $what:expr,)* }) => {
        const $list: &[&str] = &[$($word),*];

        #[allow(unreachable_code)] // Some words never end.
        fn $name(word: &str, $($arg: $type),*) -> Option<$answer> {
            match word {
                $($word => Some($what),)*
                _ => None,
            }
        }
    };
}

/// Larger than the tests let pass, smaller than their limit of memory.
const HUGE: usize = 3 << 20;

/// A ref that no row has.
const UNKNOWN: &str = "snap_000000000000000000000000000000000000007";

/// What is kept between two calls.
static KEPT: Mutex<String> = Mutex::new(String::new());

behaviours! { LIMITS: fn limit(session: &SessionKey) -> Result<(), Error> {
    "ok" => Ok(()),
    "write" => { write(session); Ok(()) },
    "write, then fail" => { write(session); no() },
    "write, then trap" => { write(session); std::process::abort() },
    "write, then loop" => { write(session); forever() },
    "panic" => { write(session); panic!("on request") },
    "loop" => forever(),
    "recurse" => { write(session); recurse(0); no() },
    "recurse without variables" => { write(session); black_box(descend(session.id.len() as u64)); no() },
    "grow" => {
        write(session);
        let mut hoard = Vec::new();
        loop {
            hoard.push(vec![1u8; 1 << 20]);
            black_box(&hoard);
        }
    },
    "flood of calls" => { write(session); loop { environment::now(); } },
    "flood of reads" => { write(session); loop { let _ = memories::get(&["1".into()], u32::MAX); } },
    "flood of lines" => { write(session); loop { environment::log(environment::Level::Debug, "again"); } },
    "flood of entries" => loop { audit::append(&[entry("x".repeat(1 << 18))]); },
    "flood of hashes" => loop { environment::sha256(&["x".repeat(1 << 20)]); },
    "read until refused" => {
        write(session);
        loop {
            if let Err(error) = memories::get(&["1".into()], u32::MAX) {
                break Err(Error::Store(error));
            }
        }
    },
    "name too many rows" => {
        write(session);
        memories::get(&vec!["1".into(); 20_000], u32::MAX).map(drop).map_err(Error::Store)
    },
    "ask for all snapshots" => {
        write(session);
        snapshots::find_hand_overs(&offers(session), u32::MAX).map(drop).map_err(Error::Store)
    },
    "huge answer" => { write(session); Err(Error::Other("x".repeat(HUGE))) },
    "huge list" => { write(session); Err(Error::Unavailable(vec![String::new(); 150_000])) },
    "huge argument" => { write(session); environment::sha256(&["x".repeat(HUGE)]); Ok(()) },
    "huge row" => { insert(session, "snap_huge", "x".repeat(HUGE)); Ok(()) },
    "huge line" => { write(session); environment::log(environment::Level::Debug, &"x".repeat(HUGE)); Ok(()) },
    "huge entry" => { write(session); audit::append(&[entry("x".repeat(HUGE))]); Ok(()) },
    "invalid answer" => { write(session); Err(Error::Other(invalid())) },
    "invalid argument" => { write(session); let _ = memories::get(&[invalid()], 0); Ok(()) },
    "invalid row" => { insert(session, "snap_invalid", invalid()); Ok(()) },
    "invalid line" => { write(session); environment::log(environment::Level::Debug, &invalid()); Ok(()) },
    "invalid entry" => { write(session); audit::append(&[entry(invalid())]); Ok(()) },
    "too much randomness" => { write(session); environment::random_hex(65); Ok(()) },
    "tell" => tell(),
    "grow, then tell" => { black_box(core::arch::wasm32::memory_grow(0, 60)); tell() },
    "remember" => { remember(session); Ok(()) },
    "remember, then fail" => { remember(session); no() },
    "remember, then trap" => { remember(session); std::process::abort() },
    "remember, then loop" => { remember(session); forever() },
} }

behaviours! { IMPORTS: fn import() -> () {
    "memories.get" => drop(memories::get(&[], 0)),
    "memories.search" => drop(memories::search(
        &memories::SearchFilter {
            owner: String::new(),
            shared_in: None,
            projects: Vec::new(),
            at: 0,
            trusted_only: true,
        },
        "",
        1,
        0,
    )),
    "memories.record-access" => drop(memories::record_access(&["1".into()], 0)),
    "directory.sessions" => drop(directory::sessions(&[])),
    "directory.projects" => drop(directory::projects(&[])),
    "directory.workspace-projects" => drop(directory::workspace_projects("")),
    "directory.links" => drop(directory::links("", &[])),
    "snapshots.insert-snapshot" => drop(snapshots::insert_snapshot(&frozen(&nobody(), "snap_guest", String::new()))),
    "snapshots.get" => drop(snapshots::get(&[], snapshots::Selection::None)),
    "snapshots.revoke" => drop(snapshots::revoke(&["snap_guest".into()], 0)),
    "snapshots.overwrite" => drop(snapshots::overwrite(&[])),
    "snapshots.pinned" => drop(snapshots::pinned(&[], 0)),
    "snapshots.holding" => drop(snapshots::holding(&[], 1)),
    "snapshots.expired" => drop(snapshots::expired(0, 1)),
    "snapshots.strip" => drop(snapshots::strip(&["snap_guest".into()], 0)),
    "snapshots.remove" => drop(snapshots::remove(&["snap_guest".into()])),
    "snapshots.insert-hand-over" => drop(snapshots::insert_hand_over(&snapshots::HandOver {
        id: "hand_guest".into(),
        parent: nobody(),
        call_id: None,
        agent_type: None,
        snapshot_ref: None,
        ids_key: None,
        children: 1,
        created_at: 0,
        expires_at: 0,
        keep_until: 0,
        task_digest: String::new(),
        task_head: String::new(),
        task: String::new(),
        state: String::new(),
    })),
    "snapshots.find-hand-overs" => drop(snapshots::find_hand_overs(&offers(&nobody()), 1)),
    "snapshots.insert-delivery" => drop(snapshots::insert_delivery(&snapshots::Delivery {
        child: nobody(),
        occasion: "start".into(),
        snapshot_ref: None,
        hand_over: None,
        place: 0,
        at: 0,
        keep_until: 0,
        state: String::new(),
        check: None,
        notice: None,
    })),
    "snapshots.deliveries" => drop(snapshots::deliveries(&nobody())),
    "snapshots.replay" => drop(snapshots::replay(&nobody(), None, 1, 0)),
    "snapshots.end-deliveries" => drop(snapshots::end_deliveries(&nobody(), 0)),
    "snapshots.remove-unattached" => drop(snapshots::remove_unattached(0, 1)),
    "environment.now" => _ = environment::now(),
    "environment.random-hex" => drop(environment::random_hex(1)),
    "environment.sha256" => drop(environment::sha256(&[])),
    "environment.count-tokens" => drop(environment::count_tokens("", &[])),
    "environment.settings" => drop(environment::settings(None, &[])),
    "environment.log" => environment::log(environment::Level::Debug, "a line"),
    "audit.append" => audit::append(&[entry("test".into())]),
} }

behaviours! { DELEGATIONS: fn delegation() -> Result<orchestrator::Outcome, Error> {
    "unknown ref" => handed_over(Some(MemoryField::SnapshotRef(UNKNOWN.into())), None),
    "unknown id" => {
        let ids = vec!["foreign".into()];
        handed_over(Some(MemoryField::PrefetchIds(NamedIds { ids, mode: Mode::Frozen })), None)
    },
    "unknown snapshot" => handed_over(None, Some(Receipt { snapshot_ref: Some(UNKNOWN.into()), ..receipt() })),
    "unknown item" => handed_over(None, Some(Receipt { items: vec![item("foreign")], ..receipt() })),
    "unknown unavailable" => handed_over(None, Some(Receipt { unavailable: vec!["foreign".into()], ..receipt() })),
    "unknown omitted" => handed_over(None, Some(Receipt { omitted: vec![omission("foreign")], ..receipt() })),
    "no pages" => handed_over(None, Some(Receipt { pages: 0, ..receipt() })),
    "unknown refused" => Ok(orchestrator::Outcome::Refused(Refusal::Unavailable(vec!["foreign".into()]))),
    "unknown size" => Ok(orchestrator::Outcome::Refused(Refusal::OverCapacity(Shortfall {
        unit: Unit::Bytes,
        budget: 0,
        needed: 1,
        sizes: vec![omission("foreign")],
    }))),
    "unknown error" => Err(Error::Unavailable(vec![UNKNOWN.into()])),
    "unknown damage" => Err(Error::Corrupt(UNKNOWN.into())),
} }

behaviours! { RECEIPTS: fn revalidation(snapshot_ref: &str) -> Result<Receipt, Error> {
    "other snapshot" => Ok(Receipt { snapshot_ref: Some(UNKNOWN.into()), ..receipt() }),
    "other pages" => { show(snapshot_ref); Ok(Receipt { snapshot_ref: Some(snapshot_ref.into()), pages: 99, ..receipt() }) },
    "foreign item" => {
        show(snapshot_ref);
        Ok(Receipt { snapshot_ref: Some(snapshot_ref.into()), items: vec![item("foreign")], ..receipt() })
    },
} }

behaviours! { DELIVERIES: fn delivery(claimed: &str) -> Result<child::Answer, Error> {
    "unknown ref" => answer(Some(Block { snapshot_ref: Some(UNKNOWN.into()), ..block(1, 1) }), None),
    "page 0" => answer(Some(block(0, 1)), None),
    "page 2" => answer(Some(block(2, 3)), None),
    "other pages" => { show(claimed); answer(Some(Block { snapshot_ref: Some(claimed.into()), ..block(1, 99) }), None) },
    "unknown snapshot" => answer(None, Some(Receipt { snapshot_ref: Some(UNKNOWN.into()), ..receipt() })),
    "unknown item" => answer(None, Some(Receipt { items: vec![item("foreign")], ..receipt() })),
    "foreign item" => {
        show(claimed);
        answer(None, Some(Receipt { snapshot_ref: Some(claimed.into()), items: vec![item("foreign")], ..receipt() }))
    },
    "unknown refused" => Ok(child::Answer {
        outcome: child::Outcome::Refused(Refusal::Unavailable(vec!["foreign".into()])),
        replayed: false,
        block: None,
        receipt: None,
    }),
} }

behaviours! { REPLAYS: fn replays(child: &SessionKey) -> Result<Vec<Block>, Error> {
    "unknown ref" => Ok(vec![Block { snapshot_ref: Some(UNKNOWN.into()), ..block(1, 1) }]),
    "page 2" => Ok(shown(child).into_iter().map(|row| Block { snapshot_ref: row, ..block(2, 2) }).collect()),
    "other pages" => Ok(shown(child).into_iter().map(|row| Block { snapshot_ref: row, ..block(1, 99) }).collect()),
} }

behaviours! { PAGES: fn pages(child: &SessionKey, name: &str, number: u32) -> Result<Block, Error> {
    "other ref" => Ok(Block { snapshot_ref: Some(UNKNOWN.into()), ..block(number, number) }),
    "other number" => Ok(Block { snapshot_ref: Some(name.into()), ..block(number + 1, number + 1) }),
    "page of none" => Ok(Block { snapshot_ref: Some(name.into()), ..block(number, number - 1) }),
    "other pages" => { shown(child); Ok(Block { snapshot_ref: Some(name.into()), ..block(number, 99) }) },
} }

behaviours! { GETS: fn gets(ids: Vec<String>) -> Result<tools::Found, Error> {
    "unseen" => Ok(tools::Found { memories: ids.iter().map(|id| view(id)).collect(), unavailable: Vec::new() }),
    "not asked" => Ok(tools::Found { memories: Vec::new(), unavailable: [ids, vec!["foreign".into()]].concat() }),
    "missing" => Ok(tools::Found { memories: Vec::new(), unavailable: Vec::new() }),
    "twice" => Ok(tools::Found { memories: Vec::new(), unavailable: [ids.clone(), ids].concat() }),
    "backwards" => Ok(tools::Found { memories: Vec::new(), unavailable: ids.into_iter().rev().collect() }),
} }

behaviours! { RECALLS: fn recalls(limit: u32) -> Result<Vec<tools::View>, Error> {
    "unseen" => { let _ = memories::get(&["1".into()], 0); Ok(vec![view("1")]) },
    "too many" => { find(); Ok(vec![view("1"); limit as usize + 1]) },
    "twice" => { find(); Ok(vec![view("1"), view("1")]) },
} }

behaviours! { EVICTABLES: fn evictables(ids: Vec<String>) -> Result<Vec<String>, Error> {
    "not asked" => Ok(vec!["foreign".into()]),
    "twice" => Ok([ids.clone(), ids].concat()),
} }

behaviours! { FORGETS: fn forgets() -> Result<upkeep::Forgotten, Error> {
    "too many" => Ok(upkeep::Forgotten { snapshots: 1 }),
} }

behaviours! { SWEEPS: fn sweeps(limit: u32) -> Result<upkeep::Swept, Error> {
    "too many" => Ok(upkeep::Swept { removed: limit * 4 + 1, more: false }),
} }

behaviours! { DECODES: fn decodes() -> Result<wire::Delegation, Error> {
    "unknown ref" => Ok(wire::Delegation { task: String::new(), memory: Some(MemoryField::SnapshotRef(UNKNOWN.into())) }),
    "unknown id" => {
        let named = NamedIds { ids: vec!["foreign".into()], mode: Mode::Frozen };
        Ok(wire::Delegation { task: String::new(), memory: Some(MemoryField::PrefetchIds(named)) })
    },
} }

behaviours! { MARKERS: fn markers() -> wire::Marked {
    "unknown id" => wire::Marked { text: String::new(), ids: vec!["foreign".into()] },
} }

fn no<T>() -> Result<T, Error> {
    Err(Error::Other("a test guest has no policy".into()))
}

fn forever() -> ! {
    loop {
        black_box(());
    }
}

/// Uses the stack that the component has in its memory.
fn recurse(n: u64) -> u64 {
    black_box(if n == u64::MAX { 0 } else { recurse(black_box(n + 1)) + 1 })
}

/// Uses the engine's stack only.
#[inline(never)]
fn descend(n: u64) -> u64 {
    if n == u64::MAX { 0 } else { descend(n + 1).wrapping_mul(31) ^ n }
}

/// Not UTF-8, as a guest in another language could hand over.
fn invalid() -> String {
    unsafe { String::from_utf8_unchecked(black_box(vec![b'a', 0xff, 0xfe])) }
}

/// A byte that is nowhere in long rows but where `remember` left them.
const MARK: u8 = 0xa7;

/// In a static, and all over the memory: more than a host would write over by itself.
fn remember(session: &SessionKey) {
    let mut kept = KEPT.lock().unwrap();
    if kept.is_empty() {
        black_box(vec![black_box(MARK); 3 << 20].leak());
    }
    session.id.clone_into(&mut kept);
}

fn tell() -> Result<(), Error> {
    let marked = if marked() { ", and marks" } else { "" };
    Err(Error::Other(format!("kept: {}{marked}", KEPT.lock().unwrap())))
}

/// Whether a row of marks is left anywhere in the memory.
fn marked() -> bool {
    const ROW: usize = 256;
    let (mut row, end) = (0, core::arch::wasm32::memory_size(0) << 16);
    for address in 1..end {
        // Of no object of this program's, but of its memory.
        let byte = unsafe { core::ptr::read_volatile(black_box(address) as *const u8) };
        row = if byte == MARK { row + 1 } else { 0 };
        if row == ROW {
            return true;
        }
    }
    false
}

fn nobody() -> SessionKey {
    SessionKey { harness: "h".into(), id: "nobody".into() }
}

fn entry(action: String) -> audit::Entry {
    audit::Entry {
        action,
        outcome: "written".into(),
        snapshot_refs: vec!["snap_guest".into()],
        memory_ids: Vec::new(),
        attributes: Vec::new(),
    }
}

fn frozen(session: &SessionKey, name: &str, text: String) -> snapshots::Frozen {
    let snapshot = snapshots::Snapshot {
        snapshot_ref: name.into(),
        owner: session.clone(),
        created_at: 0,
        expires_at: u64::MAX >> 1,
        keep_until: u64::MAX >> 1,
        revoked_at: None,
        memory_ids: vec!["1".into()],
        pages: 1,
        state: String::new(),
    };
    let page = snapshots::Page { number: 1, text, check: String::new(), state: String::new() };
    snapshots::Frozen { snapshot, pages: vec![page] }
}

fn insert(session: &SessionKey, name: &str, text: String) {
    snapshots::insert_snapshot(&frozen(session, name, text)).expect("to insert");
}

/// A snapshot and an audit entry: what must not, and what must, outlive the unit.
fn write(session: &SessionKey) {
    insert(session, "snap_guest", "half".into());
    audit::append(&[entry("test".into())]);
}

fn offers(parent: &SessionKey) -> snapshots::OfferFilter {
    snapshots::OfferFilter {
        parent: parent.clone(),
        call_id: None,
        snapshot_ref: None,
        ids_key: None,
        task_digest: None,
        within: None,
        agent_type: None,
        open_only: false,
        with_task: true,
    }
}

/// Have the store show this snapshot.
fn show(name: &str) {
    snapshots::get(&[name.into()], snapshots::Selection::None).expect("to read");
}

/// Have the store show what this child may replay.
fn shown(child: &SessionKey) -> Vec<Option<String>> {
    let rows = snapshots::replay(child, None, 1, 0).expect("to read");
    assert!(!rows.is_empty(), "a test that shows nothing");
    rows.into_iter().map(|row| row.snapshot_ref).collect()
}

/// Have the store show what a search finds.
fn find() {
    let filter = memories::SearchFilter {
        owner: "a".into(),
        shared_in: None,
        projects: vec!["p".into()],
        at: 0,
        trusted_only: false,
    };
    memories::search(&filter, "body", 10, u32::MAX).expect("to search");
}

const NO_SIZE: Size = Size { bytes: 0, tokens: 0, counted: false };

fn item(id: &str) -> Item {
    Item { id: id.into(), version: String::new(), sha256: String::new(), size: NO_SIZE, removed: false }
}

fn omission(id: &str) -> Omission {
    Omission { id: id.into(), size: NO_SIZE, why: "over-budget".into() }
}

fn receipt() -> Receipt {
    Receipt {
        snapshot_ref: None,
        frozen_at: 0,
        expires_at: 0,
        items: Vec::new(),
        unavailable: Vec::new(),
        omitted: Vec::new(),
        size: NO_SIZE,
        pages: 1,
        attributes: Vec::new(),
    }
}

fn block(page: u32, pages: u32) -> Block {
    Block { snapshot_ref: None, page, pages, text: "text".into() }
}

fn view(id: &str) -> tools::View {
    tools::View {
        id: id.into(),
        owner: "a".into(),
        project: "p".into(),
        category: String::new(),
        version: "1".into(),
        updated_at: None,
        body: "body".into(),
        attributes: Vec::new(),
    }
}

fn handed_over(memory: Option<MemoryField>, receipt: Option<Receipt>) -> Result<orchestrator::Outcome, Error> {
    Ok(orchestrator::Outcome::HandedOver(orchestrator::Delegated { memory, receipt, warnings: Vec::new() }))
}

fn answer(block: Option<Block>, receipt: Option<Receipt>) -> Result<child::Answer, Error> {
    Ok(child::Answer { outcome: child::Outcome::Delivered, replayed: false, block, receipt })
}

/// What every export but `describe` does: call an import, or tell what was kept.
fn common(word: &str) -> Result<(), Error> {
    if word == "tell" {
        return tell();
    }
    import(word);
    Ok(())
}

impl orchestrator::Guest for Guest {
    fn estimate(session: SessionKey, _: orchestrator::Request) -> Result<orchestrator::Outcome, Error> {
        common(&session.id)?;
        delegation(&session.id).unwrap_or_else(no)
    }
    fn delegate(session: SessionKey, request: orchestrator::Request) -> Result<orchestrator::Outcome, Error> {
        common(&session.id)?;
        if let Some(answer) = delegation(&session.id) {
            write(&session);
            return answer;
        }
        limit(&request.task, &session).unwrap_or_else(no)?;
        Ok(orchestrator::Outcome::MemoryOff)
    }
    fn revalidate(session: SessionKey, snapshot_ref: String) -> Result<Receipt, Error> {
        common(&session.id)?;
        revalidation(&session.id, &snapshot_ref).unwrap_or_else(no)
    }
    fn revoke(session: SessionKey, _: String) -> Result<(), Error> {
        common(&session.id)?;
        no()
    }
}

impl child::Guest for Guest {
    fn deliver(child: SessionKey, _: String, claim: child::Claim) -> Result<child::Answer, Error> {
        common(&child.id)?;
        let claimed = if let child::Claim::SnapshotRef(name) = claim { name } else { String::new() };
        let Some(answer) = delivery(&child.id, &claimed) else { return no() };
        write(&child);
        answer
    }
    fn replay(child: SessionKey) -> Result<Vec<Block>, Error> {
        common(&child.id)?;
        replays(&child.id, &child).unwrap_or_else(no)
    }
    fn page(child: SessionKey, snapshot_ref: String, number: u32) -> Result<Block, Error> {
        common(&child.id)?;
        pages(&child.id, &child, &snapshot_ref, number).unwrap_or_else(no)
    }
}

impl tools::Guest for Guest {
    fn get(session: SessionKey, ids: Vec<String>) -> Result<tools::Found, Error> {
        common(&session.id)?;
        gets(&session.id, ids).unwrap_or_else(no)
    }
    fn recall(session: SessionKey, _: Option<String>, _: String, limit: u32) -> Result<Vec<tools::View>, Error> {
        common(&session.id)?;
        recalls(&session.id, limit).unwrap_or_else(no)
    }
}

impl upkeep::Guest for Guest {
    fn evictable(ids: Vec<String>) -> Result<Vec<String>, Error> {
        common(&ids[0])?;
        evictables(&ids[0].clone(), ids).unwrap_or_else(no)
    }
    fn sweep(limit: u32) -> Result<upkeep::Swept, Error> {
        // There is no text to hold a word: 1000 is that of `sweeps`, less is the place of an import.
        if limit == 1000 {
            return sweeps("too many", limit).unwrap_or_else(no);
        }
        common(IMPORTS[limit as usize - 1])?;
        no()
    }
    fn session_ended(session: SessionKey) -> Result<(), Error> {
        common(&session.id)?;
        no()
    }
    fn forget(ids: Vec<String>) -> Result<upkeep::Forgotten, Error> {
        common(&ids[0])?;
        forgets(&ids[0]).unwrap_or_else(no)
    }
}

impl wire::Guest for Guest {
    fn encode(delegation: wire::Delegation) -> Result<String, Error> {
        common(&delegation.task)?;
        *KEPT.lock().unwrap() = delegation.task;
        no()
    }
    fn decode(json: String) -> Result<wire::Delegation, Error> {
        common(&json)?;
        decodes(&json).unwrap_or_else(no)
    }
    fn parse_markers(text: String) -> wire::Marked {
        let kept = common(&text).err();
        if let Some(Error::Other(text)) = kept {
            return wire::Marked { text, ids: Vec::new() };
        }
        markers(&text).unwrap_or(wire::Marked { text, ids: Vec::new() })
    }
}

impl about::Guest for Guest {
    fn describe() -> about::Info {
        let lists = [
            ("limit", LIMITS),
            ("import", IMPORTS),
            ("orchestrator.delegate", DELEGATIONS),
            ("orchestrator.revalidate", RECEIPTS),
            ("child.deliver", DELIVERIES),
            ("child.replay", REPLAYS),
            ("child.page", PAGES),
            ("tools.get", GETS),
            ("tools.recall", RECALLS),
            ("upkeep.evictable", EVICTABLES),
            ("upkeep.forget", FORGETS),
            ("upkeep.sweep", SWEEPS),
            ("wire.decode", DECODES),
            ("wire.parse-markers", MARKERS),
        ];
        let words =
            lists.iter().flat_map(|(list, words)| words.iter().map(|word| (list.to_string(), word.to_string())));
        about::Info {
            name: "test-guest".into(),
            version: "0.0.0".into(),
            contract: "0.1.0".into(),
            block_prefix: String::new(),
            attributes: words.collect(),
        }
    }
}
