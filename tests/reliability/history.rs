//! A random history of calls, and what a store must hold after it. A [`Lane`] is one parent with its memories, its
//! delegations and its children: what it knows is what was acknowledged to it. [`check`] compares a store with it, row by
//! row and byte by byte.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::Path;
use std::time::Duration;

use memory_prefetch::contract::*;
use memory_prefetch::environment::{Clock, sha256};
use memory_prefetch::operator::{MemoryEdit, NewMemory, NewSession, Operator};
use memory_prefetch::store::StoreFailure;
use memory_prefetch::{CallError, SqliteOptions, SqliteStore};
use memory_prefetch_component::snapshot::Place;
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::chance::Chance;

pub type Prefetch = memory_prefetch::Prefetch<SqliteStore>;

/// Long enough that it passes even where the disk is slow.
pub const PATIENT: SqliteOptions = SqliteOptions { busy_timeout: Duration::from_secs(60), create: true };

/// How long a delivery is kept, and after it a tombstone: the setting's default.
const RETENTION: u64 = 2_592_000_000;
const BRIEF: u32 = 60;
const LONG: u32 = 86_400;
/// How far ahead of its time a sweep looks: beyond what is brief; or beyond everything.
const NEAR: u64 = 3_600_000;
const FAR: u64 = 2 * RETENTION + 10 * 86_400_000;
/// What stands where a body was.
const ERASED: &str = "[erased]";

/// What is called.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Step {
    SetUp,
    Add { id: String },
    Edit { id: String, version: u64 },
    Delegate { call: String, ids: Vec<String>, children: u32, brief: bool, in_pages: bool },
    Deliver { call: String, snapshot_ref: Option<String>, child: String },
    Recall { id: String, version: u64 },
    Revoke { call: String, snapshot_ref: String },
    End { child: String },
    Forget { ids: Vec<String> },
    Sweep { far: bool, limit: u32 },
}

impl Step {
    pub fn verb(&self) -> &'static str {
        match self {
            Step::SetUp => "set up",
            Step::Add { .. } => "memory add",
            Step::Edit { .. } => "memory edit",
            Step::Delegate { .. } => "delegate",
            Step::Deliver { .. } => "deliver",
            Step::Recall { .. } => "recall",
            Step::Revoke { .. } => "revoke",
            Step::End { .. } => "session end",
            Step::Forget { .. } => "forget",
            Step::Sweep { .. } => "sweep",
        }
    }
}

/// A step and its time.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Call {
    pub at: u64,
    pub step: Step,
}

/// What was answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Done {
    Plain,
    Delegated {
        snapshot_ref: String,
        pages: u32,
    },
    /// The delegation was made before its process was killed, and what it handed over was swept before it was asked again.
    Gone,
    Delivered {
        digest: String,
    },
    Swept {
        more: bool,
    },
}

/// A text that no other memory and no other version has. It begins and ends with its mark.
pub fn body(id: &str, version: u64) -> String {
    let mark = mark(id, version);
    let mut chance = Chance::new(sum(id, version) ^ 1);
    let length = if chance.one_in(4) { 1_000 + chance.below(9_000) } else { 20 + chance.below(200) };
    let mut text = format!("<{mark}>");
    while text.len() < length {
        text += [" 1234", " QRSTUVW", " 小数", " XYZ\n", "  98.5 "][chance.below(5)];
        if chance.one_in(60) {
            text += &format!("<{mark}>");
        }
    }
    text + &format!("<{mark}>")
}

/// 16 letters from a to p, which nothing else in a store is made of.
fn mark(id: &str, version: u64) -> String {
    let bytes = sum(id, version).to_le_bytes();
    bytes.iter().flat_map(|byte| [byte & 15, byte >> 4]).map(|nibble| char::from(b'a' + nibble)).collect()
}

fn sum(id: &str, version: u64) -> u64 {
    let start = Chance::new(version).next();
    id.bytes().fold(start, |sum, byte| Chance::new(sum ^ u64::from(byte)).next())
}

fn key(id: &str) -> SessionKey {
    SessionKey { harness: "local".into(), id: id.into() }
}

fn task(call: &str) -> String {
    format!("Do what {call} says.")
}

fn register(store: &mut SqliteStore, id: &str, parent: Option<&str>) -> Result<(), StoreFailure> {
    let (agent, project) = (Some("ada".into()), Some("web".into()));
    store.put_session(&NewSession { key: key(id), agent, project, parent: parent.map(key), memory_on: true })
}

/// Call it. An error is an error of the store; any other answer than the one that is due fails the test.
pub fn run(prefetch: &mut Prefetch, lane: &str, call: &Call) -> Result<Done, CallError> {
    let Call { at, step } = call;
    prefetch.set_clock(Clock::Fixed(*at));
    let lead = format!("{lane}-lead");
    let done = match step {
        Step::SetUp => {
            let project =
                Project { id: "web".into(), workspace: None, memory_on: true, trusted: true, attributes: vec![] };
            prefetch.store().put_project(&project)?;
            register(prefetch.store(), &lead, None)?;
            Done::Plain
        }
        Step::Add { id } => {
            let memory = NewMemory {
                id: Some(id.clone()),
                audience: Audience::Project,
                ..NewMemory::new("ada", "web", body(id, 1))
            };
            prefetch.store().add_memory(&memory, *at)?;
            Done::Plain
        }
        Step::Edit { id, version } => {
            let edit = MemoryEdit { body: Some(body(id, *version)), ..MemoryEdit::default() };
            assert!(prefetch.store().edit_memory(id, &edit, *at)?, "{id} is not there to be edited");
            Done::Plain
        }
        Step::Delegate { call, ids, children, brief, in_pages } => {
            let capacity = if *in_pages {
                Capacity { overflow: Overflow::Paginate, ..Capacity::bytes(3_000) }
            } else {
                Capacity::bytes(1_000_000)
            };
            let named = NamedIds { ids: ids.clone(), mode: Mode::Frozen };
            let request = Request {
                children: *children,
                ttl_seconds: Some(if *brief { BRIEF } else { LONG }),
                call_id: Some(call.clone()),
                ..Request::new(task(call)).with_memory(MemoryField::PrefetchIds(named), capacity)
            };
            let outcome = match prefetch.delegate(&key(&lead), &request) {
                Err(CallError::Policy(Error::Expired)) if *brief => return Ok(Done::Gone),
                outcome => outcome?,
            };
            let DelegationOutcome::HandedOver(Delegated { receipt: Some(receipt), .. }) = &outcome else {
                panic!("{step:?} was answered {outcome:?}")
            };
            let frozen: Vec<&String> = receipt.items.iter().map(|item| &item.id).collect();
            assert!(frozen.iter().copied().eq(ids), "{step:?} was answered {outcome:?}");
            let snapshot_ref = receipt.snapshot_ref.clone().expect("a frozen one has a ref");
            Done::Delegated { snapshot_ref, pages: receipt.pages }
        }
        Step::Deliver { call, snapshot_ref, child } => {
            register(prefetch.store(), child, Some(&lead))?;
            let hints = Hints { task: Some(task(call)), agent_type: None, registers_all: true };
            let claim = snapshot_ref.clone().map_or(Claim::ParentSession(hints), Claim::SnapshotRef);
            let answer = prefetch.deliver(&key(child), "start", &claim)?;
            assert_eq!(answer.outcome, DeliveryOutcome::Delivered, "{step:?}");
            let block = answer.block.expect("what is delivered has a block");
            Done::Delivered { digest: sha256(block.text.as_bytes()) }
        }
        Step::Recall { id, version } => {
            let found = prefetch.recall(&key(&lead), None, &mark(id, *version), 5)?;
            assert!(found.iter().any(|view| view.id == *id), "{step:?} found {found:?}");
            Done::Plain
        }
        Step::Revoke { snapshot_ref, .. } => {
            prefetch.revoke(&key(&lead), snapshot_ref)?;
            Done::Plain
        }
        Step::End { child } => {
            prefetch.session_ended(&key(child))?;
            Done::Plain
        }
        Step::Forget { ids } => {
            prefetch.forget(ids)?;
            Done::Plain
        }
        Step::Sweep { far, limit } => {
            prefetch.set_clock(Clock::Fixed(until(*at, *far)));
            Done::Swept { more: prefetch.sweep(*limit)?.more }
        }
    };
    Ok(done)
}

/// The time that a sweep takes for now.
fn until(at: u64, far: bool) -> u64 {
    at + if far { FAR } else { NEAR }
}

/// Whether an error says that the call may be run again.
pub fn is_busy(error: &CallError) -> bool {
    matches!(error, CallError::Store(StoreFailure::Busy(_)) | CallError::Policy(Error::Store(StoreError::Busy(_))))
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Handed {
    snapshot_ref: String,
    /// Memories and versions.
    items: Vec<(String, u64)>,
    erased: BTreeSet<String>,
    pages: u32,
    children: u32,
    brief: bool,
    expires_at: u64,
    keep_until: u64,
    revoked_at: Option<u64>,
    /// It has no bytes any more.
    stripped: bool,
    /// Of page 1, as far as it is known.
    digest: Option<String>,
    given: BTreeMap<String, Given>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Given {
    keep_until: u64,
}

impl Handed {
    fn kept(&self) -> Vec<&str> {
        self.items.iter().map(|(id, _)| id.as_str()).filter(|id| !self.erased.contains(*id)).collect()
    }

    fn is_open(&self, at: u64) -> bool {
        !self.stripped && self.revoked_at.is_none() && self.expires_at > at && self.given.len() < self.children as usize
    }
}

/// What was acknowledged to one parent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Lane {
    pub name: String,
    ready: bool,
    count: u64,
    /// Those that are there, with their versions.
    memories: BTreeMap<String, u64>,
    /// The last version of every memory that ever was.
    versions: BTreeMap<String, u64>,
    /// By call.
    handed: BTreeMap<String, Handed>,
    /// Delegations of which nobody knows the ref: see [`Done::Gone`].
    lost: usize,
    /// The latest time that a sweep has taken for now.
    swept: u64,
}

impl Lane {
    pub fn new(name: &str) -> Lane {
        Lane {
            name: name.into(),
            ready: false,
            count: 0,
            memories: BTreeMap::new(),
            versions: BTreeMap::new(),
            handed: BTreeMap::new(),
            lost: 0,
            swept: 0,
        }
    }

    /// A step that is possible now. `far`: everything may be swept.
    pub fn choose(&mut self, chance: &mut Chance, at: u64, far: bool) -> Step {
        if !self.ready {
            return Step::SetUp;
        }
        let verb = if self.memories.len() < 4 { 0 } else { chance.below(100) };
        let step = match verb {
            0..10 => Some(self.add()),
            10..18 => self.pick_memory(chance).map(|(id, version)| Step::Edit { id, version: version + 1 }),
            18..40 => None,
            40..64 => self.claim(chance, at),
            64..68 => self.pick_memory(chance).map(|(id, version)| Step::Recall { id, version }),
            68..72 => {
                let open = self.handed.iter().filter(|(_, one)| one.revoked_at.is_none() && self.is_certain(one));
                let pick = chance.pick(open.collect());
                pick.map(|(call, one)| Step::Revoke { call: call.clone(), snapshot_ref: one.snapshot_ref.clone() })
            }
            72..77 => {
                let given = self.handed.values().filter(|one| !one.stripped).flat_map(|one| &one.given);
                let going = given.filter(|(_, given)| given.keep_until > at).map(|(child, _)| child.clone());
                chance.pick(going.collect()).map(|child| Step::End { child })
            }
            77..88 => {
                let mut ids = BTreeSet::new();
                for _ in 0..=chance.below(3) {
                    ids.extend(self.pick_memory(chance).map(|(id, _)| id));
                }
                Some(Step::Forget { ids: ids.into_iter().collect() })
            }
            _ => Some(Step::Sweep { far: far && chance.one_in(3), limit: [1, 3, 1_000][chance.below(3)] }),
        };
        step.unwrap_or_else(|| self.delegate(chance))
    }

    fn pick_memory(&self, chance: &mut Chance) -> Option<(String, u64)> {
        chance.pick(self.memories.iter().collect()).map(|(id, version)| (id.clone(), *version))
    }

    /// No sweep may have taken it.
    fn is_certain(&self, one: &Handed) -> bool {
        !one.brief && !one.stripped && one.keep_until > self.swept
    }

    fn number(&mut self) -> String {
        self.count += 1;
        format!("{}-{}", self.name, self.count)
    }

    pub fn add(&mut self) -> Step {
        Step::Add { id: self.number() }
    }

    pub fn delegate(&mut self, chance: &mut Chance) -> Step {
        let mut ids = Vec::new();
        for _ in 0..=chance.below(4) {
            ids.extend(self.pick_memory(chance).map(|(id, _)| id).filter(|id| !ids.contains(id)));
        }
        let children = 1 + chance.below(3) as u32;
        Step::Delegate { call: self.number(), ids, children, brief: chance.one_in(3), in_pages: chance.one_in(4) }
    }

    /// A claim that must be met.
    pub fn claim(&mut self, chance: &mut Chance, at: u64) -> Option<Step> {
        let open = self.handed.iter().filter(|(_, one)| one.is_open(at) && self.is_certain(one));
        let (call, one) = chance.pick(open.collect())?;
        let snapshot_ref = if chance.one_in(2) { Some(one.snapshot_ref.clone()) } else { None };
        let call = call.clone();
        Some(Step::Deliver { call, snapshot_ref, child: self.number() })
    }

    /// This was done.
    pub fn apply(&mut self, call: &Call, done: &Done) {
        let at = call.at;
        // Names are given out once, also where the step was chosen by somebody else.
        let named = match &call.step {
            Step::Add { id: name } | Step::Delegate { call: name, .. } | Step::Deliver { child: name, .. } => name,
            _ => "",
        };
        self.count = self.count.max(named.rsplit('-').next().and_then(|n| n.parse().ok()).unwrap_or(0));
        match (&call.step, done) {
            (Step::SetUp, _) => self.ready = true,
            (Step::Add { id }, _) => {
                self.memories.insert(id.clone(), 1);
                self.versions.insert(id.clone(), 1);
            }
            (Step::Edit { id, version }, _) => {
                self.memories.insert(id.clone(), *version);
                self.versions.insert(id.clone(), *version);
            }
            (Step::Delegate { call, ids, children, brief, .. }, Done::Delegated { snapshot_ref, pages }) => {
                let expires_at = at + 1_000 * u64::from(if *brief { BRIEF } else { LONG });
                let handed = Handed {
                    snapshot_ref: snapshot_ref.clone(),
                    items: ids.iter().map(|id| (id.clone(), self.memories[id])).collect(),
                    erased: BTreeSet::new(),
                    pages: *pages,
                    children: *children,
                    brief: *brief,
                    expires_at,
                    keep_until: expires_at,
                    revoked_at: None,
                    stripped: false,
                    digest: None,
                    given: BTreeMap::new(),
                };
                self.handed.insert(call.clone(), handed);
            }
            (Step::Delegate { .. }, _) => self.lost += 1,
            (Step::Deliver { call, child, .. }, Done::Delivered { digest }) => {
                let one = self.handed.get_mut(call).unwrap();
                let known = one.digest.get_or_insert_with(|| digest.clone());
                assert_eq!(known, digest, "two children of {call} got different bytes");
                one.given.insert(child.clone(), Given { keep_until: at + RETENTION });
                one.keep_until = one.keep_until.max(at + RETENTION);
            }
            (Step::Revoke { call, .. }, _) => {
                let one = self.handed.get_mut(call).unwrap();
                one.revoked_at = Some(at);
                one.keep_until = one.keep_until.min(at);
            }
            (Step::End { child }, _) => {
                for one in self.handed.values_mut() {
                    let Some(given) = one.given.get_mut(child) else { continue };
                    given.keep_until = given.keep_until.min(at);
                    let last = one.given.values().map(|given| given.keep_until).max().unwrap();
                    one.keep_until = one.keep_until.min(one.expires_at.max(last));
                }
            }
            (Step::Forget { ids }, _) => {
                for id in ids {
                    self.memories.remove(id);
                }
                for one in self.handed.values_mut() {
                    for (id, _) in &one.items {
                        if ids.contains(id) && one.erased.insert(id.clone()) {
                            one.digest = None;
                        }
                    }
                }
            }
            (Step::Sweep { far, .. }, Done::Swept { more }) => {
                let now = until(at, *far);
                self.swept = self.swept.max(now);
                for one in self.handed.values_mut() {
                    one.stripped |= !more && one.keep_until <= now;
                }
            }
            (Step::Recall { .. }, _) => {}
            (step, done) => panic!("{step:?} was answered {done:?}"),
        }
    }

    /// A call of which nobody knows whether it was done: what its mark says, and nothing is done about it.
    fn find(&mut self, prefetch: &mut Prefetch, path: &Path, call: &Call) {
        let found = was_done(&Connection::open(path).unwrap(), &self.name, call);
        match &call.step {
            // It may have swept, or not.
            Step::Sweep { .. } => self.apply(call, &Done::Swept { more: true }),
            _ if found != Some(true) => {}
            // What it has answered is known when it is made again, which then changes nothing.
            Step::Delegate { .. } | Step::Deliver { .. } => self.resolve(prefetch, path, call),
            _ => self.apply(call, &Done::Plain),
        }
    }

    /// A call of which nobody knows whether it was done is made again, as a harness would.
    fn resolve(&mut self, prefetch: &mut Prefetch, path: &Path, call: &Call) {
        let there = |id: &str| -> Option<String> {
            let found = Connection::open(path).unwrap().query_row(
                "SELECT body FROM memories WHERE memory_id = ?1",
                [id],
                |row| row.get(0),
            );
            found.ok()
        };
        let is_done = match &call.step {
            Step::Add { id } => there(id).is_some(),
            Step::Edit { id, version } => there(id).as_deref() == Some(body(id, *version).as_str()),
            _ => false,
        };
        let done = if is_done { Done::Plain } else { run(prefetch, &self.name, call).unwrap() };
        self.apply(call, &done);
    }
}

/// Whether a call that was not acknowledged has left its mark: `None` if that cannot be told.
pub fn was_done(connection: &Connection, lane: &str, call: &Call) -> Option<bool> {
    let found = |sql: &str, value: &str| connection.query_row(sql, [value], |_| Ok(())).is_ok();
    match &call.step {
        Step::Add { id } => Some(found("SELECT 1 FROM memories WHERE memory_id = ?1", id)),
        Step::Edit { id, version } => {
            let text = body(id, *version);
            Some(found("SELECT 1 FROM memories WHERE body = ?1", &text))
        }
        Step::Delegate { call, .. } => Some(found("SELECT 1 FROM hand_overs WHERE call_id = ?1", call)),
        Step::Deliver { child, .. } => Some(found("SELECT 1 FROM deliveries WHERE child_session = ?1", child)),
        Step::Forget { ids } => Some(!found("SELECT 1 FROM memories WHERE memory_id = ?1", &ids[0])),
        Step::Revoke { snapshot_ref, .. } => {
            Some(found("SELECT 1 FROM snapshots WHERE snapshot_ref = ?1 AND revoked_at IS NOT NULL", snapshot_ref))
        }
        Step::End { child } => {
            let ended = "SELECT 1 FROM deliveries WHERE child_session = ?1 AND keep_until <= ";
            Some(found(&format!("{ended} {}", call.at), child))
        }
        Step::SetUp => Some(found("SELECT 1 FROM sessions WHERE session = ?1", &format!("{lane}-lead"))),
        Step::Recall { .. } | Step::Sweep { .. } => None,
    }
}

/// What holds of every store, whatever was done with it: none of these finds a row.
const NEVER: &[(&str, &str)] = &[
    ("damage in the file", "SELECT integrity_check FROM pragma_integrity_check WHERE integrity_check <> 'ok'"),
    ("a row that names one which is not there", "SELECT \"table\" FROM pragma_foreign_key_check"),
    (
        "a snapshot without some of its pages",
        "SELECT snapshot_ref FROM snapshots AS s
          WHERE (SELECT count(*) FROM pages WHERE snapshot = s.id) <> pages
             OR (SELECT coalesce(max(number), 0) FROM pages WHERE snapshot = s.id) <> pages",
    ),
    (
        "a snapshot without its hand-over",
        "SELECT snapshot_ref FROM snapshots AS s WHERE NOT EXISTS (SELECT 1 FROM hand_overs WHERE snapshot = s.id)",
    ),
    (
        "a tombstone that holds memories",
        "SELECT snapshot_ref FROM snapshots AS s WHERE pages = 0
            AND (state <> '' OR EXISTS (SELECT 1 FROM snapshot_memories WHERE snapshot = s.id))",
    ),
    (
        "a delivery of other bytes than its hand-over's",
        "SELECT child_session FROM deliveries AS d JOIN hand_overs AS h ON h.id = d.hand_over
          WHERE d.snapshot IS NOT h.snapshot AND d.notice IS NULL",
    ),
    (
        "a hand-over with more children than it is for",
        "SELECT hand_over FROM hand_overs AS h
          WHERE (SELECT count(DISTINCT child_harness || ' ' || child_session) FROM deliveries WHERE hand_over = h.id)
                > h.children",
    ),
    (
        "a snapshot that the audit does not know of",
        "SELECT snapshot_ref FROM snapshots AS s WHERE NOT EXISTS (
           SELECT 1 FROM audit, json_each(audit.snapshot_refs) AS named
            WHERE named.value = s.snapshot_ref AND export = 'orchestrator.delegate' AND NOT rolled_back)",
    ),
    (
        "a memory whose id is not kept from being given out again",
        "SELECT memory_id FROM memories WHERE memory_id NOT IN (SELECT memory_id FROM memory_ids)",
    ),
];

/// What holds of every store.
pub fn check_any(connection: &Connection) {
    for (what, sql) in NEVER {
        let mut statement = connection.prepare(sql).unwrap();
        let found: Vec<String> =
            statement.raw_query().mapped(|row| row.get(0)).collect::<Result<_, _>>().unwrap_or_else(|error| {
                panic!("looking for {what}: {error}");
            });
        assert!(found.is_empty(), "{what}: {found:?}");
    }
    let all = "SELECT s.snapshot_ref, p.number, s.pages, p.text, p.checksum
                 FROM pages AS p JOIN snapshots AS s ON s.id = p.snapshot";
    let mut pages = connection.prepare(all).unwrap();
    let mut rows = pages.query([]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        let name: String = row.get(0).unwrap();
        let place = Place { snapshot_ref: &name, number: row.get(1).unwrap(), pages: row.get(2).unwrap() };
        let (text, stored): (String, String) = (row.get(3).unwrap(), row.get(4).unwrap());
        assert_eq!(place.check(&text), stored, "a page whose checksum does not hold: {text}");
    }
}

/// The bodies of a page, or their parts, by memory.
fn bodies(page: &str) -> Vec<(String, String)> {
    let (_, rest) = page.split_once(" Fence ").expect("a page names its fence");
    let fence = &rest[..12];
    let (open, close) = (format!(":\n<<<{fence}\n"), format!("\n{fence}>>>\n"));
    let mut found = Vec::new();
    let mut rest = rest;
    while let Some((head, tail)) = rest.split_once(&open) {
        let name = head.rsplit_once("\nMemory \"").expect("a body has a heading").1;
        let (text, tail) = tail.split_once(&close).expect("a fence is closed");
        found.push((name.split('"').next().unwrap().to_owned(), text.to_owned()));
        rest = tail;
    }
    found
}

struct Row {
    pages: u32,
    keep_until: u64,
    revoked_at: Option<u64>,
    owner: String,
    memory_ids: Vec<String>,
    texts: Vec<String>,
}

fn snapshot_rows(connection: &Connection) -> BTreeMap<String, Row> {
    let mut statement = connection
        .prepare(
            "SELECT snapshot_ref, pages, keep_until, revoked_at, owner_session,
                    (SELECT json_group_array(memory_id) FROM (SELECT memory_id FROM snapshot_memories WHERE snapshot = s.id
                                                               ORDER BY position)),
                    (SELECT json_group_array(text) FROM (SELECT text FROM pages WHERE snapshot = s.id ORDER BY number))
               FROM snapshots AS s",
        )
        .unwrap();
    let list = |text: String| serde_json::from_str::<Vec<String>>(&text).unwrap();
    let rows = statement.query_map([], |row| {
        let found = Row {
            pages: row.get(1)?,
            keep_until: row.get::<_, i64>(2)? as u64,
            revoked_at: row.get::<_, Option<i64>>(3)?.map(|at| at as u64),
            owner: row.get(4)?,
            memory_ids: list(row.get(5)?),
            texts: list(row.get(6)?),
        };
        Ok((row.get(0)?, found))
    });
    rows.unwrap().collect::<Result<_, _>>().unwrap()
}

/// The same, after each lane's last call was not acknowledged, if there is one: it is there whole or not at all; and then it
/// is made again, and is done once.
pub fn check_left(prefetch: &mut Prefetch, path: &Path, lanes: &mut [Lane], going: &[Option<Call>], now: u64) {
    let mut left = lanes.to_vec();
    let mut unsure = false;
    for (lane, call) in left.iter_mut().zip(going) {
        if let Some(call) = call {
            lane.find(prefetch, path, call);
            unsure = true;
        }
    }
    if unsure {
        check(prefetch, path, &mut left, now);
    }
    for (lane, call) in lanes.iter_mut().zip(going) {
        if let Some(call) = call {
            lane.resolve(prefetch, path, call);
        }
    }
    check(prefetch, path, lanes, now);
}

/// The store holds what was acknowledged, whole, and nothing else. No call is going on. `now`: a time after all calls.
pub fn check(prefetch: &mut Prefetch, path: &Path, lanes: &mut [Lane], now: u64) {
    let connection = Connection::open(path).unwrap();
    check_any(&connection);
    let swept = lanes.iter().map(|lane| lane.swept).max().unwrap_or(0);
    prefetch.set_clock(Clock::Fixed(now));

    let mut statement = connection.prepare("SELECT memory_id, body FROM memories").unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    let found: BTreeMap<String, String> = rows.unwrap().collect::<Result<_, _>>().unwrap();
    let memories = lanes.iter().flat_map(|lane| &lane.memories);
    let expected: BTreeMap<String, String> = memories.map(|(id, version)| (id.clone(), body(id, *version))).collect();
    assert!(found.keys().eq(expected.keys()), "memories {:?}, not {:?}", found.keys(), expected.keys());
    assert!(found == expected, "a memory has another body than was acknowledged");

    let mut rows = snapshot_rows(&connection);
    for lane in lanes.iter_mut() {
        lane.handed.retain(|call, one| {
            let Some(row) = rows.remove(&one.snapshot_ref) else {
                assert!(swept >= one.keep_until + RETENTION, "the snapshot of {call} is lost: {one:?}");
                return false;
            };
            if row.pages == 0 {
                assert!(swept >= one.keep_until, "the snapshot of {call} was swept too early: {one:?}");
                one.stripped = true;
                return true;
            }
            assert!(!one.stripped, "the snapshot of {call} was swept, and has its bytes: {one:?}");
            assert_eq!(
                (row.pages, row.keep_until, row.revoked_at),
                (one.pages, one.keep_until, one.revoked_at),
                "{call}"
            );
            assert_eq!(row.memory_ids, one.kept(), "what the snapshot of {call} is said to hold");
            let mut held: BTreeMap<String, String> = BTreeMap::new();
            for (id, text) in row.texts.iter().flat_map(|page| bodies(page)) {
                held.entry(id).or_default().push_str(&text);
            }
            let due = one.items.iter().map(|(id, version)| (id.clone(), body(id, *version)));
            let due: BTreeMap<String, String> = due.collect();
            assert!(held.keys().eq(due.keys()), "the snapshot of {call} has {:?}, not {:?}", held.keys(), due.keys());
            for (id, text) in held {
                let is_right =
                    if one.erased.contains(&id) { text.replace(ERASED, "").is_empty() } else { text == due[&id] };
                assert!(is_right, "{id} in the snapshot of {call}: {text:?}");
            }
            let digest = sha256(row.texts[0].as_bytes());
            assert_eq!(*one.digest.get_or_insert_with(|| digest.clone()), digest, "page 1 of {call} has changed");
            true
        });
        let lead = format!("{}-lead", lane.name);
        let unknown: Vec<&Row> = rows.values().filter(|row| row.owner == lead).collect();
        assert!(
            unknown.len() <= lane.lost && unknown.iter().all(|row| row.pages == 0),
            "snapshots that nobody asked for"
        );
        rows.retain(|_, row| row.owner != lead);
    }
    assert!(rows.is_empty(), "snapshots of nobody");

    check_deliveries(prefetch, &connection, lanes, now);
    for lane in lanes {
        check_calls(prefetch, lane, now);
    }
}

/// Each delivery that was acknowledged is there, of its hand-over, and no other; and is replayed with its bytes.
fn check_deliveries(prefetch: &mut Prefetch, connection: &Connection, lanes: &[Lane], now: u64) {
    let mut statement = connection
        .prepare(
            "SELECT d.child_session, h.call_id, d.keep_until FROM deliveries AS d JOIN hand_overs AS h ON h.id = d.hand_over",
        )
        .unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get::<_, i64>(2)? as u64)));
    let found: BTreeSet<(String, String, u64)> = rows.unwrap().collect::<Result<_, _>>().unwrap();
    let mut expected = BTreeSet::new();
    for (call, one) in lanes.iter().flat_map(|lane| &lane.handed) {
        expected.extend(one.given.iter().map(|(child, given)| (child.clone(), call.clone(), given.keep_until)));
    }
    assert_eq!(found, expected, "deliveries");
    let count: i64 = connection.query_row("SELECT count(*) FROM deliveries", [], |row| row.get(0)).unwrap();
    assert_eq!(count, expected.len() as i64, "deliveries without a hand-over");

    for one in lanes.iter().flat_map(|lane| lane.handed.values()) {
        for (child, given) in &one.given {
            let blocks = prefetch.replay(&key(child)).unwrap();
            let digests: Vec<String> = blocks.iter().map(|block| sha256(block.text.as_bytes())).collect();
            let is_due = !one.stripped && one.revoked_at.is_none() && given.keep_until > now;
            let due: Vec<String> = one.digest.iter().filter(|_| is_due).cloned().collect();
            assert_eq!(digests, due, "what {child} is given again");
        }
    }
}

/// What the policy says of the same rows.
fn check_calls(prefetch: &mut Prefetch, lane: &Lane, now: u64) {
    let lead = key(&format!("{}-lead", lane.name));
    let mut pinned = BTreeSet::new();
    for (call, one) in &lane.handed {
        if one.stripped || one.revoked_at.is_some() || one.keep_until <= now {
            continue;
        }
        pinned.extend(one.kept());
        if one.expires_at <= now {
            continue;
        }
        let receipt = prefetch.revalidate(&lead, &one.snapshot_ref).unwrap_or_else(|error| panic!("{call}: {error}"));
        let items: Vec<(String, String)> = receipt.items.into_iter().map(|item| (item.id, item.sha256)).collect();
        let digest = |(id, version): &(String, u64)| {
            let text = if one.erased.contains(id) { String::new() } else { sha256(body(id, *version).as_bytes()) };
            (id.clone(), text)
        };
        assert_eq!(items, one.items.iter().map(digest).collect::<Vec<_>>(), "the receipt of {call}");
    }
    let ids: Vec<String> = lane.versions.keys().cloned().collect();
    for ids in ids.chunks(1_000) {
        let evictable = prefetch.evictable(ids).unwrap();
        let due: Vec<&String> = ids.iter().filter(|id| !pinned.contains(id.as_str())).collect();
        assert_eq!(evictable.iter().collect::<Vec<_>>(), due, "what is not pinned");
    }
}

/// Close the store: nothing that was forgotten is left in the files of this directory. Whoever writes makes up for what a
/// process that has ended could not finish.
pub fn close(mut prefetch: Prefetch, directory: &Path, lanes: &[Lane]) {
    prefetch.store().add_agent("ada").unwrap();
    drop(prefetch);
    assert_eq!(is_left(directory, lanes, false), None, "what was forgotten is left in a file");
}

/// A text that should be gone, and the file that it is in. `all`: also what was swept and replaced, of which SQLite may
/// leave copies when it moves rows.
pub fn is_left(directory: &Path, lanes: &[Lane], all: bool) -> Option<String> {
    /// Of a mark: the index keeps the beginning of a term elsewhere.
    const TAIL: usize = 13;
    let mut gone = HashMap::new();
    for lane in lanes {
        let mut kept: BTreeSet<(&str, u64)> =
            lane.memories.iter().map(|(id, version)| (id.as_str(), *version)).collect();
        for one in lane.handed.values().filter(|one| !one.stripped) {
            let held = one.items.iter().filter(|(id, _)| !one.erased.contains(id));
            kept.extend(held.map(|(id, version)| (id.as_str(), *version)));
        }
        for (id, last) in &lane.versions {
            let counts = all || !lane.memories.contains_key(id);
            for version in (1..=*last).filter(|version| counts && !kept.contains(&(id.as_str(), *version))) {
                let mark = mark(id, version);
                gone.insert(mark.as_bytes()[mark.len() - TAIL..].to_owned(), (id.clone(), version));
            }
        }
    }
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let bytes = fs::read(entry.path()).unwrap();
        let name = entry.file_name();
        let mut run = 0;
        for (last, byte) in bytes.iter().enumerate() {
            run = if matches!(byte, b'a'..=b'p') { run + 1 } else { 0 };
            if run >= TAIL
                && let Some((id, version)) = gone.get(&bytes[last + 1 - TAIL..=last])
            {
                return Some(format!("version {version} of {id} in {name:?}"));
            }
        }
    }
    None
}
