//! Random sequences of all verbs, by the real component on both stores, against a model that is written straight from
//! the rules (`model/rules.rs`): who sees what, which hand-over is whose, what is told, which bytes are given and for
//! how long. What fails is made as short as it can be, and reads like a story.
//!
//! `MEMORY_PREFETCH_MODEL_CASES` says how many sequences for each store, `MEMORY_PREFETCH_MODEL_STEPS` how long, and
//! `MEMORY_PREFETCH_MODEL_SEED` which ones: each run tries others, and a failure says which they were.

mod model {
    pub mod rules;
}

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use memory_prefetch::contract::{self, *};
use memory_prefetch::environment::Clock;
use memory_prefetch::operator::{MemoryEdit, NewMemory, NewSession, Operator};
use memory_prefetch::store::Access;
use memory_prefetch::{CallError, MemoryStore, Prefetch, Runtime, SqliteOptions, SqliteStore};
use model::rules::{self, Fault, Item, Kind, Model, Order, Room};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};

const START: Instant = 1_767_225_600_000;
const AGENTS: [&str; 3] = ["ada", "bob", "cyd"];
const PROJECTS: [&str; 3] = ["web", "api", "lab"];
/// The first delegates to the others, unless they are registered anew.
const SESSIONS: [&str; 5] = ["lead", "kid-1", "kid-2", "kid-3", "guest"];
const ALIASES: [&str; 2] = ["old-lead", "old-kid"];
const MEMORIES: usize = 6;
const TASKS: [&str; 4] = ["", "Fix it.", "Fix it. Then test it.", "Test it."];
/// What a child may be told: a task, one with a preamble, or something else.
const TEXTS: [&str; 4] = ["Fix it.", "You are a child. Fix it. Then test it. Go.", "Test it.", "Write a poem."];
const TYPES: [&str; 2] = ["coder", "tester"];
const CALLS: [&str; 2] = ["call-1", "call-2"];
const OCCASIONS: [&str; 4] = ["start", "second", "third", "fourth"];
/// Who mostly delegates, and who mostly is delegated to.
const PARENTS: [&str; 7] = ["lead", "lead", "lead", "lead", "old-lead", "kid-1", "guest"];
const CHILDREN: [&str; 8] = ["kid-1", "kid-2", "kid-3", "kid-1", "kid-2", "old-kid", "guest", "lead"];

/// One of a list, by any number.
fn one<T: Copy>(list: &[T], number: u8) -> T {
    list[usize::from(number) % list.len()]
}

fn maybe<T: Copy>(list: &[T], number: Option<u8>) -> Option<T> {
    number.map(|number| one(list, number))
}

/// Numbers choose among what there is, so that what is left of a sequence still means something.
#[derive(Debug, Clone)]
enum Step {
    Wait(u8),
    Restart,
    PutProject {
        project: u8,
        workspace: Option<bool>,
        on: bool,
        trusted: bool,
    },
    RemoveProject(u8),
    PutSession {
        session: u8,
        agent: Option<u8>,
        project: u8,
        parent: Option<u8>,
        on: bool,
    },
    RemoveSession(u8),
    Alias {
        alias: u8,
        of: u8,
    },
    Link {
        from: u8,
        to: u8,
        two_way: bool,
    },
    Unlink {
        from: u8,
        to: u8,
    },
    Add {
        memory: u8,
        owner: Option<u8>,
        project: u8,
        audience: u8,
        trusted: bool,
        ends: Option<bool>,
        long: bool,
    },
    Edit {
        memory: u8,
        long: bool,
    },
    Open {
        memory: u8,
        audience: u8,
    },
    Archive {
        memory: u8,
        archived: bool,
    },
    Forget(Vec<u8>),
    Delegate {
        session: u8,
        what: What,
        task: u8,
        agent_type: Option<u8>,
        children: bool,
        ttl: Option<bool>,
        call: Option<u8>,
        estimate: bool,
    },
    Deliver {
        session: u8,
        occasion: u8,
        how: How,
    },
    Replay(u8),
    Page {
        session: u8,
        snapshot: u8,
        number: u8,
    },
    Revoke {
        session: u8,
        snapshot: u8,
    },
    Revalidate {
        session: u8,
        snapshot: u8,
    },
    Get {
        session: u8,
        ids: Vec<u8>,
    },
    Recall {
        session: u8,
        target: Option<u8>,
    },
    Evictable(Vec<u8>),
    Sweep,
    End(u8),
}

#[derive(Debug, Clone)]
enum What {
    Nothing,
    Ids { ids: Vec<u8>, live: bool, room: u8, overflow: u8, strict: bool, carry_ids: bool },
    Again { snapshot: u8, room: u8 },
}

#[derive(Debug, Clone)]
enum How {
    Ref(u8),
    Ids { ids: Vec<u8>, live: bool, capacity: Option<(u8, u8)> },
    Parent { text: Option<u8>, agent_type: Option<u8>, registers_all: bool },
}

fn steps() -> impl Strategy<Value = Step> {
    let n = any::<u8>;
    let maybe = || prop::option::weighted(0.4, any::<u8>());
    let mostly = || prop::bool::weighted(0.93);
    let rarely = || prop::bool::weighted(0.15);
    let ids = || prop_oneof![2 => prop::collection::vec(any::<u8>(), 1..4), 1 => (0u8..4).prop_map(|id| vec![id, 0])];
    let what = prop_oneof![
        1 => Just(What::Nothing),
        6 => (ids(), prop::bool::weighted(0.25), n(), n(), rarely(), rarely())
            .prop_map(|(ids, live, room, overflow, strict, carry_ids)| What::Ids { ids, live, room, overflow, strict, carry_ids }),
        1 => (n(), n()).prop_map(|(snapshot, room)| What::Again { snapshot, room }),
    ];
    let how = prop_oneof![
        6 => n().prop_map(How::Ref),
        4 => (ids(), prop::bool::weighted(0.3), prop::option::of((n(), n()))).prop_map(|(ids, live, capacity)| How::Ids { ids, live, capacity }),
        4 => (prop::option::weighted(0.7, n()), maybe(), mostly())
            .prop_map(|(text, agent_type, registers_all)| How::Parent { text, agent_type, registers_all }),
    ];
    prop_oneof![
        5 => n().prop_map(Step::Wait),
        2 => Just(Step::Restart),
        3 => (n(), prop::option::weighted(0.8, any::<bool>()), mostly(), mostly())
            .prop_map(|(project, workspace, on, trusted)| Step::PutProject { project, workspace, on, trusted }),
        1 => n().prop_map(Step::RemoveProject),
        1 => (n(), prop::option::weighted(0.9, n()), n(), prop::option::weighted(0.8, n()), mostly())
            .prop_map(|(session, agent, project, parent, on)| Step::PutSession { session, agent, project, parent, on }),
        1 => n().prop_map(Step::RemoveSession),
        1 => (n(), n()).prop_map(|(alias, of)| Step::Alias { alias, of }),
        2 => (n(), n(), any::<bool>()).prop_map(|(from, to, two_way)| Step::Link { from, to, two_way }),
        1 => (n(), n()).prop_map(|(from, to)| Step::Unlink { from, to }),
        6 => (n(), prop::option::weighted(0.95, n()), n(), n(), mostly(), prop::option::weighted(0.2, any::<bool>()), rarely())
            .prop_map(|(memory, owner, project, audience, trusted, ends, long)| {
                Step::Add { memory, owner, project, audience, trusted, ends, long }
            }),
        3 => (n(), rarely()).prop_map(|(memory, long)| Step::Edit { memory, long }),
        1 => (n(), n()).prop_map(|(memory, audience)| Step::Open { memory, audience }),
        1 => (n(), any::<bool>()).prop_map(|(memory, archived)| Step::Archive { memory, archived }),
        3 => ids().prop_map(Step::Forget),
        18 => (n(), what, n(), maybe(), rarely(), prop::option::weighted(0.3, any::<bool>()), prop::option::weighted(0.15, n()), rarely())
            .prop_map(|(session, what, task, agent_type, children, ttl, call, estimate)| {
                Step::Delegate { session, what, task, agent_type, children, ttl, call, estimate }
            }),
        32 => (n(), n(), how).prop_map(|(session, occasion, how)| Step::Deliver { session, occasion, how }),
        10 => n().prop_map(Step::Replay),
        6 => (n(), n(), n()).prop_map(|(session, snapshot, number)| Step::Page { session, snapshot, number }),
        1 => (n(), n()).prop_map(|(session, snapshot)| Step::Revoke { session, snapshot }),
        2 => (n(), n()).prop_map(|(session, snapshot)| Step::Revalidate { session, snapshot }),
        2 => (n(), ids()).prop_map(|(session, ids)| Step::Get { session, ids }),
        2 => (n(), maybe()).prop_map(|(session, target)| Step::Recall { session, target }),
        1 => ids().prop_map(Step::Evictable),
        2 => Just(Step::Sweep),
        1 => n().prop_map(Step::End),
    ]
}

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::builder().build().unwrap())
}

fn key(id: &str) -> SessionKey {
    SessionKey { harness: "h".into(), id: id.into() }
}

/// Sessions by their names and by other ones.
fn session(number: u8) -> &'static str {
    let all = [&SESSIONS[..], &SESSIONS[..], &ALIASES[..]].concat();
    one(&all, number)
}

/// One of the names, or rarely one that none has.
fn nth(names: &[&String], number: u8) -> String {
    match names.len() {
        count if count > 0 && number < 240 => names[usize::from(number) % count].clone(),
        _ => format!("snap_{:039}", 7),
    }
}

/// Ids of memories, with and without a `#`, and one that none has.
fn ids(numbers: &[u8]) -> Vec<String> {
    let id = |number: &u8| {
        let id = usize::from(*number) % (MEMORIES + 1);
        if number % 16 == 15 { format!("#{id}") } else { id.to_string() }
    };
    numbers.iter().map(id).collect()
}

fn overflow(number: u8) -> (rules::Overflow, Overflow) {
    one(
        &[
            (rules::Overflow::Refuse, Overflow::Refuse),
            (rules::Overflow::Trim, Overflow::TrimPriority),
            (rules::Overflow::Trim, Overflow::TrimRecency),
            (rules::Overflow::Paginate, Overflow::Paginate),
        ],
        number,
    )
}

fn room(number: u8) -> Room {
    one(&[Room::Ample, Room::Ample, Room::Narrow, Room::Narrow, Room::Narrow, Room::None], number)
}

fn audience(number: u8) -> (rules::Audience, Audience) {
    one(
        &[
            (rules::Audience::Agent, Audience::Agent),
            (rules::Audience::Project, Audience::Project),
            (rules::Audience::Workspace, Audience::Workspace),
        ],
        number,
    )
}

fn mode(live: bool) -> Mode {
    if live { Mode::Live } else { Mode::Frozen }
}

/// What the component's error is to the model.
fn fault(error: CallError) -> Fault {
    match error {
        CallError::Policy(contract::Error::Malformed(_)) => Fault::Malformed,
        CallError::Policy(contract::Error::Unavailable(_)) => Fault::Unavailable,
        CallError::Policy(contract::Error::Expired) => Fault::Expired,
        CallError::Policy(contract::Error::Revoked) => Fault::Revoked,
        CallError::Policy(contract::Error::NoLink) => Fault::NoLink,
        CallError::Policy(contract::Error::WrongDirection) => Fault::WrongDirection,
        other => panic!("{other:?}"),
    }
}

/// What stands between the fences of these pages, joined, by id.
fn read(pages: &[String]) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    for page in pages {
        let fence = page.split(" Fence ").nth(1).unwrap().split('.').next().unwrap();
        for part in page.split("\nMemory \"").skip(1) {
            let id = part.split('"').next().unwrap();
            let body =
                part.split_once(&format!("<<<{fence}\n")).unwrap().1.split_once(&format!("\n{fence}>>>")).unwrap().0;
            let goes_on = part.lines().next().unwrap().contains(", part ");
            match all.last_mut().filter(|(last, _)| goes_on && last == id) {
                Some((_, whole)) => whole.push_str(body),
                None => all.push((id.to_owned(), body.to_owned())),
            }
        }
    }
    all
}

fn open(path: &std::path::Path) -> SqliteStore {
    SqliteStore::open(path, &SqliteOptions { busy_timeout: Duration::from_secs(60), create: true }).unwrap()
}

/// The system and the model, side by side.
struct Both<S: Operator + 'static> {
    prefetch: Option<Prefetch<S>>,
    restart: Box<dyn Fn(S) -> S>,
    model: Model,
    /// Every body is another one.
    bodies: u32,
}

impl<S: Operator + 'static> Both<S> {
    fn new(store: S, restart: impl Fn(S) -> S + 'static) -> Self {
        let mut both = Both {
            prefetch: None,
            restart: Box::new(restart),
            model: Model { now: START, ..Model::default() },
            bodies: 0,
        };
        both.prefetch = Some(runtime().open(store).unwrap());
        both.clock();
        for project in 0..PROJECTS.len() as u8 {
            both.step(&Step::PutProject { project, workspace: (project < 2).then_some(true), on: true, trusted: true });
        }
        for number in 0..SESSIONS.len() as u8 {
            let parent = (number > 0).then_some(0);
            both.step(&Step::PutSession {
                session: number,
                agent: Some(number / 3),
                project: number / 4,
                parent,
                on: true,
            });
        }
        for memory in 0..MEMORIES as u8 - 2 {
            both.step(&Step::Add {
                memory,
                owner: Some(memory / 3),
                project: 0,
                audience: 0,
                trusted: true,
                ends: None,
                long: memory == 1,
            });
        }
        both
    }

    fn clock(&mut self) {
        let now = self.model.now;
        self.prefetch().set_clock(Clock::Fixed(now));
    }

    fn prefetch(&mut self) -> &mut Prefetch<S> {
        self.prefetch.as_mut().unwrap()
    }

    fn store(&mut self) -> &mut S {
        self.prefetch().store()
    }

    fn body(&mut self, long: bool) -> String {
        self.bodies += 1;
        format!("Common body {}.\n{}", self.bodies, "Long 固 text. ".repeat(if long { 90 } else { 1 }))
    }

    /// The pages of a snapshot as they are stored.
    fn stored(&mut self, name: &str) -> Vec<String> {
        let name = name.to_owned();
        let store = self.store();
        store.begin_unit(Access::Read).unwrap();
        let row = store.snapshots(std::slice::from_ref(&name), Selection::All).unwrap().pop().flatten().unwrap();
        store.commit().unwrap();
        row.pages.into_iter().map(|page| page.text).collect()
    }

    /// A snapshot that there is, or was, or none; mostly one that this session may know.
    fn name(&self, session: &str, number: u8) -> String {
        let me = self.model.canonical(session);
        let parent = self.model.session(session).and_then(|(_, row)| row.parent.clone());
        let parent = parent.map(|parent| self.model.canonical(&parent));
        let near: Vec<&String> = (self.model.snapshots.iter())
            .filter(|(_, row)| row.owner == me || Some(&row.owner) == parent.as_ref())
            .map(|(name, _)| name)
            .collect();
        let all: Vec<&String> = self.model.snapshots.keys().collect();
        if number.is_multiple_of(8) { nth(&all, number / 8) } else { nth(&near, number) }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Wait(number) => {
                let some = [1_000, 1_000, 60_000, 600_000, 600_000, rules::HOUR, 24 * rules::HOUR, rules::RETENTION];
                self.model.now += one(&some, *number);
                self.clock();
            }
            Step::Restart => {
                let store = self.prefetch.take().unwrap().into_store();
                self.prefetch = Some(runtime().open((self.restart)(store)).unwrap());
                self.clock();
            }
            Step::PutProject { project, workspace, on, trusted } => {
                let id = one(&PROJECTS, *project);
                let workspace = workspace.map(|first| if first { "north" } else { "south" });
                self.store()
                    .put_project(&Project {
                        id: id.into(),
                        workspace: workspace.map(String::from),
                        memory_on: *on,
                        trusted: *trusted,
                        attributes: Vec::new(),
                    })
                    .unwrap();
                self.model.projects.insert(id, rules::Project { workspace, on: *on, trusted: *trusted });
            }
            Step::RemoveProject(project) => {
                let id = one(&PROJECTS, *project);
                let there = self.store().remove_project(id).unwrap();
                assert_eq!(self.model.projects.remove(id).is_some(), there);
            }
            Step::PutSession { session, agent, project, parent, on } => {
                let (id, agent, project) = (one(&SESSIONS, *session), maybe(&AGENTS, *agent), one(&PROJECTS, *project));
                let parent = parent.map(self::session).filter(|parent| *parent != id);
                self.store()
                    .put_session(&NewSession {
                        key: key(id),
                        agent: agent.map(String::from),
                        project: Some(project.into()),
                        parent: parent.map(key),
                        memory_on: *on,
                    })
                    .unwrap();
                let parent = parent.map(String::from);
                self.model.sessions.insert(id.into(), rules::Session { agent, project, parent, on: *on });
            }
            Step::RemoveSession(number) => {
                let id = self.model.canonical(session(*number));
                let there = self.store().remove_session(&key(session(*number))).unwrap();
                assert_eq!(self.model.sessions.remove(&id).is_some(), there);
                self.model.aliases.retain(|_, of| *of != id);
            }
            Step::Alias { alias, of } => {
                let (alias, of) = (one(&ALIASES, *alias), session(*of));
                let canonical = self.model.canonical(of);
                let answer = self.store().add_alias(&key(alias), &key(of));
                if !self.model.sessions.contains_key(&canonical) {
                    assert!(!answer.unwrap());
                } else if self.model.aliases.get(alias).is_some_and(|old| *old != canonical) {
                    answer.unwrap_err();
                } else {
                    assert!(answer.unwrap());
                    self.model.aliases.insert(alias.into(), canonical);
                }
            }
            Step::Link { from, to, two_way } => {
                let (from, to) = (one(&AGENTS, *from), one(&AGENTS, *to));
                self.store()
                    .add_link(&Link {
                        from_agent: from.into(),
                        to_agent: to.into(),
                        direction: if *two_way { Direction::TwoWay } else { Direction::OneWay },
                        kind: "peer".into(),
                        attributes: Vec::new(),
                    })
                    .unwrap();
                self.model.links.push(rules::Link { from, to, two_way: *two_way });
            }
            Step::Unlink { from, to } => {
                let (from, to) = (one(&AGENTS, *from), one(&AGENTS, *to));
                let before = self.model.links.len();
                self.model.links.retain(|link| link.from != from || link.to != to);
                let gone = self.store().remove_links(from, to).unwrap();
                assert_eq!(gone as usize, before - self.model.links.len());
            }
            Step::Add { memory, owner, project, audience: audience_, trusted, ends, long } => {
                let id = (usize::from(*memory) % MEMORIES).to_string();
                let (owner, project, body) = (maybe(&AGENTS, *owner), one(&PROJECTS, *project), self.body(*long));
                let (audience, shared) = audience(*audience_);
                let now = self.model.now;
                let expires = ends.map(|soon| now + if soon { 30_000 } else { 40 * rules::HOUR });
                let answer = self.store().add_memory(
                    &NewMemory {
                        id: Some(id.clone()),
                        owner: owner.map(String::from),
                        project: Some(project.into()),
                        audience: shared,
                        category: "fact".into(),
                        priority: u32::from(*memory),
                        trusted: *trusted,
                        expires_at: expires,
                        body: body.clone(),
                    },
                    now,
                );
                // R2: no id is given out twice.
                if !self.model.used.insert(id.clone()) {
                    answer.unwrap_err();
                    return;
                }
                assert_eq!(answer.unwrap(), id);
                let (active, trusted) = (true, *trusted);
                self.model.memories.push(rules::Memory {
                    id,
                    owner,
                    project,
                    audience,
                    active,
                    trusted,
                    expires,
                    version: 1,
                    body,
                    uses: 0,
                });
            }
            Step::Edit { memory, long } => {
                let (id, body, now) = ((usize::from(*memory) % MEMORIES).to_string(), self.body(*long), self.model.now);
                let edit = MemoryEdit { body: Some(body.clone()), ..MemoryEdit::default() };
                let there = self.store().edit_memory(&id, &edit, now).unwrap();
                let row = self.model.memories.iter_mut().find(|row| row.id == id);
                assert_eq!(row.is_some(), there);
                if let Some(row) = row {
                    (row.body, row.version) = (body, row.version + 1);
                }
            }
            Step::Open { memory, audience: audience_ } => {
                let (id, now) = ((usize::from(*memory) % MEMORIES).to_string(), self.model.now);
                let (audience, shared) = audience(*audience_);
                let edit = MemoryEdit { audience: Some(shared), ..MemoryEdit::default() };
                let there = self.store().edit_memory(&id, &edit, now).unwrap();
                let row = self.model.memories.iter_mut().find(|row| row.id == id);
                assert_eq!(row.map(|row| row.audience = audience).is_some(), there);
            }
            Step::Archive { memory, archived } => {
                let id = (usize::from(*memory) % MEMORIES).to_string();
                let there = self.store().archive_memory(&id, *archived).unwrap();
                let row = self.model.memories.iter_mut().find(|row| row.id == id);
                assert_eq!(row.map(|row| row.active = !archived).is_some(), there);
            }
            Step::Forget(numbers) => self.forget(&ids(numbers)),
            Step::Delegate { .. } => self.delegate(step),
            Step::Deliver { session: number, occasion, how } => {
                self.deliver(one(&CHILDREN, *number), one(&OCCASIONS, *occasion), how);
            }
            Step::Replay(number) => {
                let child = one(&CHILDREN, *number);
                let blocks = self.prefetch().replay(&key(child)).unwrap();
                let texts: Vec<_> = blocks.into_iter().map(|block| (block.snapshot_ref, block.text)).collect();
                tally("replay:", texts.len());
                assert_eq!(texts, self.model.replays(child), "what is replayed to {child}");
            }
            Step::Page { session: number, snapshot, number: page } => {
                // Mostly of what was given to somebody.
                let given = self.model.deliveries.iter().filter_map(|row| match &row.outcome {
                    rules::Outcome::Delivered(name) => Some((row.child.clone(), name.clone())),
                    _ => None,
                });
                let given: Vec<_> = given.collect();
                let (child, name) = match usize::from(*snapshot) {
                    place if number % 4 > 0 && !given.is_empty() => given[place % given.len()].clone(),
                    _ => {
                        let child = one(&CHILDREN, *number);
                        (child.to_owned(), self.name(child, *snapshot))
                    }
                };
                let page = u32::from(page % 4);
                let answer = self.prefetch().page(&key(&child), &name, page).map(|block| block.text).map_err(fault);
                tally(
                    "page:",
                    answer.as_ref().map_or_else(|fault| format!("{fault:?}"), |_| "Ok".into()).trim_matches('"'),
                );
                assert_eq!(answer, self.model.page(&child, &name, page as usize), "page {page} of {name} for {child}");
            }
            Step::Revoke { session: number, snapshot } => {
                let session = one(&PARENTS, *number);
                let name = self.name(session, *snapshot);
                let answer = self.prefetch().revoke(&key(session), &name).map_err(fault);
                let caller = self.model.session(session).map(|(key, _)| key);
                let now = self.model.now;
                match self.model.snapshots.get_mut(&name).filter(|row| Some(&row.owner) == caller.as_ref()) {
                    None => assert_eq!(answer, Err(Fault::Unavailable)),
                    Some(row) => {
                        assert_eq!(answer, Ok(()));
                        if !row.revoked && !row.pages.is_empty() {
                            row.keep = row.keep.min(now);
                        }
                        row.revoked = true;
                    }
                }
            }
            Step::Revalidate { session: number, snapshot } => {
                let session = session(*number);
                let name = self.name(session, *snapshot);
                let answer = self.prefetch().revalidate(&key(session), &name).map(drop).map_err(fault);
                assert_eq!(answer, self.model.revalidate(session, &name), "{name} for {session}");
            }
            Step::Get { session: number, ids: numbers } => {
                let (session, ids) = (session(*number), ids(numbers));
                let answer = self.prefetch().get(&key(session), &ids).map_err(fault);
                let Some((_, row)) = self.model.session(session) else {
                    assert_eq!(answer, Err(Fault::Unavailable));
                    return;
                };
                let (found, unavailable) = self.model.resolve(row, &ids);
                let answer = answer.unwrap();
                let bodies =
                    answer.memories.into_iter().map(|view| (view.id, Some((view.version.parse().unwrap(), view.body))));
                assert_eq!((bodies.collect::<Vec<Item>>(), answer.unavailable), (found, unavailable));
            }
            Step::Recall { session: number, target } => self.recall(session(*number), maybe(&AGENTS, *target)),
            Step::Evictable(numbers) => {
                let ids = ids(numbers);
                let free = self.prefetch().evictable(&ids).unwrap();
                let mut expected = rules::distinct(&ids);
                expected.retain(|id| !self.model.pinned(id));
                assert_eq!(free, expected);
            }
            Step::Sweep => {
                let swept = self.prefetch().sweep(1_000).unwrap();
                assert_eq!((swept.removed, swept.more), (self.model.sweep(), false));
                let mut left: Vec<String> = self
                    .store()
                    .all_snapshots(0, 10_000)
                    .unwrap()
                    .into_iter()
                    .map(|row| row.snapshot.snapshot_ref)
                    .collect();
                left.sort();
                assert_eq!(left, self.model.snapshots.keys().cloned().collect::<Vec<_>>());
            }
            Step::End(number) => {
                self.prefetch().session_ended(&key(session(*number))).unwrap();
                self.model.end(session(*number));
            }
        }
    }

    fn recall(&mut self, session: &str, target: Option<&str>) {
        let answer = self.prefetch().recall(&key(session), target, "common", 100).map_err(fault);
        let expected = self.model.recall(session, target);
        let (ids, counts) = match expected {
            Err(fault) => {
                assert_eq!(answer.map(drop), Err(fault));
                return;
            }
            Ok(expected) => expected,
        };
        let answer = answer.unwrap();
        let found: BTreeSet<String> = answer.iter().map(|view| view.id.clone()).collect();
        assert_eq!(found, ids, "{session} recalls from {target:?}");
        for view in &answer {
            assert_eq!(view.body, self.model.memory(&view.id).unwrap().body);
        }
        let agent = self.model.session(session).and_then(|(_, session)| session.agent);
        for row in self.model.memories.iter_mut().filter(|row| counts && ids.contains(&row.id) && row.owner == agent) {
            row.uses += 1;
        }
        for row in self.model.memories.clone() {
            let (uses, _) = self.store().memory_use(&row.id).unwrap().unwrap();
            assert_eq!(uses, row.uses, "R40: uses of {}", row.id);
        }
    }

    /// R17.
    fn forget(&mut self, ids: &[String]) {
        let erased = self.prefetch().forget(ids).unwrap();
        tally("forget: snapshots", erased.snapshots);
        let ids = rules::distinct(ids);
        let gone: BTreeSet<String> = ids.iter().filter(|id| self.model.memory(id).is_some()).cloned().collect();
        assert_eq!(erased.memories.into_iter().collect::<BTreeSet<_>>(), gone);
        self.model.memories.retain(|row| !ids.contains(&row.id));
        let names: Vec<String> = (self.model.snapshots.iter())
            .filter(|(_, row)| row.holds.iter().any(|id| ids.contains(id)))
            .map(|(name, _)| name.clone())
            .collect();
        assert_eq!(erased.snapshots as usize, names.len());
        for name in names {
            let pages = self.stored(&name);
            let snapshot = self.model.snapshots.get_mut(&name).unwrap();
            snapshot.holds.retain(|id| !ids.contains(id));
            for (id, was) in &mut snapshot.items {
                if ids.contains(id)
                    && let Some((_, body)) = was.take()
                {
                    // A body is cut in pieces where it is larger than a page; its first words stand in one.
                    let words = body.lines().next().unwrap();
                    assert!(!pages.iter().any(|page| page.contains(words)), "{words:?} is still in {pages:?}");
                }
            }
            for ((id, was), (found, body)) in snapshot.items.iter().zip(read(&pages)) {
                assert_eq!(*id, found);
                match was {
                    Some((_, was)) => assert_eq!(*was, body),
                    None => assert_eq!(body.replace("[erased]", ""), ""),
                }
            }
            snapshot.pages = pages;
        }
    }

    /// R29 to R32: what an order comes to in this room. `items`: what was kept.
    fn check_fit(order: &Order, visible: &[Item], unavailable: &[String], receipt: &Receipt) {
        assert!(order.room != Room::None, "nothing fits");
        assert!(!order.strict || unavailable.is_empty(), "R4: all or none");
        assert_eq!(receipt.unavailable, unavailable);
        let (mut kept, mut omitted) = (receipt.items.iter().peekable(), receipt.omitted.iter().peekable());
        for (id, was) in visible {
            let version = was.as_ref().unwrap().0.to_string();
            let kept = kept.next_if(|item| item.id == *id && item.version == version).is_some();
            assert!(kept || omitted.next_if(|omission| omission.id == *id).is_some(), "{id} is lost");
        }
        assert!(kept.next().is_none() && omitted.next().is_none());
        let all = order.room == Room::Ample || order.overflow != rules::Overflow::Trim;
        assert!(!all || receipt.omitted.is_empty(), "nothing was to be left out");
        let one_page = order.room == Room::Ample || order.overflow != rules::Overflow::Paginate;
        assert!(!one_page || receipt.pages == 1);
    }

    /// May this order be refused?
    fn check_refusal(order: &Order, unavailable: &[String], refusal: &Refusal) {
        match refusal {
            Refusal::Unavailable(ids) => {
                assert!(order.strict && !ids.is_empty());
                assert_eq!(ids, unavailable);
            }
            Refusal::OverCapacity(_) => {
                assert!(!order.strict || unavailable.is_empty());
                assert!(order.room != Room::Ample, "it fits");
            }
            other => panic!("{other:?}"),
        }
    }

    /// A snapshot that was made now: what is in it is what was to be.
    fn note(&mut self, receipt: &Receipt, owner: String, visible: &[Item], room: Room) -> String {
        let name = receipt.snapshot_ref.clone().unwrap();
        let pages = self.stored(&name);
        assert_eq!(pages.len(), receipt.pages as usize);
        assert!(pages.iter().all(|page| page.len() <= room.bytes() as usize), "R30");
        let items: Vec<Item> =
            visible.iter().filter(|(id, _)| receipt.items.iter().any(|item| item.id == *id)).cloned().collect();
        let bodies: Vec<_> = items.iter().map(|(id, was)| (id.clone(), was.clone().unwrap().1)).collect();
        assert_eq!(read(&pages), bodies, "R3: byte for byte");
        let (expires, holds) = (receipt.expires_at, items.iter().map(|item| item.0.clone()).collect());
        let row = rules::Snapshot { owner, expires, keep: expires, revoked: false, pages, items, holds };
        assert!(self.model.snapshots.insert(name.clone(), row).is_none());
        name
    }

    fn delegate(&mut self, step: &Step) {
        let Step::Delegate { session: number, what, task, agent_type, children, ttl, call, estimate } = step else {
            unreachable!()
        };
        let (session, call) = (one(&PARENTS, *number), maybe(&CALLS, *call).filter(|_| !estimate));
        let (task, agent_type, children) = (one(&TASKS, *task), maybe(&TYPES, *agent_type), 1 + u32::from(*children));
        let ttl = ttl.map(|long| if long { 10 * rules::HOUR } else { 60_000 });
        let mut request = Request {
            agent_type: agent_type.map(String::from),
            children,
            ttl_seconds: ttl.map(|ttl| (ttl / 1000) as u32),
            call_id: call.map(String::from),
            ..Request::new(task)
        };
        let mut order = None;
        let mut named = None;
        match what {
            What::Nothing => {}
            What::Ids { ids: numbers, live, room: room_, overflow: overflow_, strict, carry_ids } => {
                let (ids, room, (rule, overflow)) = (ids(numbers), room(*room_), overflow(*overflow_));
                let memory = MemoryField::PrefetchIds(NamedIds { ids: ids.clone(), mode: mode(*live) });
                request.memory = Some(memory);
                request.capacity = Some(Capacity { overflow, ..Capacity::bytes(room.bytes()) });
                request.strict = *strict;
                request.carry = if *carry_ids { Carry::Ids } else { Carry::SnapshotRef };
                order = Some((Order { ids: rules::distinct(&ids), room, overflow: rule, strict: *strict }, *live));
            }
            What::Again { snapshot, room: room_ } => {
                let (name, room) = (self.name(session, *snapshot), room(*room_));
                request = request.with_memory(MemoryField::SnapshotRef(name.clone()), Capacity::bytes(room.bytes()));
                named = Some((name, room));
            }
        }
        let answer = if *estimate {
            self.prefetch().estimate(&key(session), &request)
        } else {
            self.prefetch().delegate(&key(session), &request)
        }
        .map_err(fault);

        match &answer {
            Ok(outcome) => tally("delegate:", outcome),
            Err(fault) => tally("delegate:", fault),
        }
        let model = self.model.clone();
        let Some((caller, row)) = model.session(session) else {
            assert_eq!(answer, Err(Fault::Unavailable));
            return;
        };
        // R26: a call that was made before.
        if let Some(old) = model.hand_overs.iter().find(|of| of.parent == caller && call.is_some() && of.call == call) {
            self.again(row, old, answer);
            return;
        }
        let now = model.now;
        let mut of = rules::HandOver {
            number: model.next,
            parent: caller.clone(),
            call,
            agent_type,
            task,
            asked: order.as_ref().map(|(order, live)| (order.ids.clone(), *live)),
            children: children as usize,
            expires: now + ttl.unwrap_or(rules::TTL),
            keep: 0,
            kind: Kind::Nothing,
            content: "nothing".into(),
            room: order.as_ref().map(|(order, _)| order.room).or(named.as_ref().map(|(_, room)| *room)),
        };
        let outcome = if !model.on(row) {
            assert_eq!(answer, Ok(DelegationOutcome::MemoryOff));
            of.kind = Kind::Off;
            DelegationOutcome::MemoryOff
        } else if let Some((name, room)) = named {
            let owned = model.snapshots.get(&name).filter(|snapshot| snapshot.owner == caller);
            let over = owned.and_then(|_| model.is_over(&name));
            let expected = match (owned, over) {
                (None, _) => Some(Fault::Unavailable),
                (_, Some(rules::Outcome::Revoked)) => Some(Fault::Revoked),
                (_, Some(_)) => Some(Fault::Expired),
                _ => None,
            };
            if let Some(fault) = expected {
                assert_eq!(answer, Err(fault));
                return;
            }
            let snapshot = owned.unwrap();
            let fits = snapshot.pages.iter().all(|page| page.len() <= room.bytes() as usize);
            of.expires = of.expires.min(snapshot.expires);
            (of.kind, of.content) = (Kind::Frozen(name.clone()), model.content(&name));
            let outcome = answer.unwrap();
            match &outcome {
                DelegationOutcome::HandedOver(_) => assert!(fits),
                DelegationOutcome::Refused(Refusal::OverCapacity(_)) if !fits => {
                    of.kind = Kind::Refused;
                    of.content = "refused".into();
                    of.expires = now + ttl.unwrap_or(rules::TTL);
                }
                other => panic!("{other:?}"),
            }
            outcome
        } else if let Some((order, live)) = order {
            if live && order.overflow == rules::Overflow::Paginate {
                assert_eq!(answer, Err(Fault::Malformed));
                return;
            }
            let (visible, unavailable) = model.resolve(row, &order.ids);
            let outcome = answer.unwrap();
            match &outcome {
                DelegationOutcome::HandedOver(delegated) => {
                    let receipt = delegated.receipt.as_ref().unwrap();
                    Self::check_fit(&order, &visible, &unavailable, receipt);
                    assert_eq!(receipt.expires_at, of.expires);
                    if live {
                        assert_eq!(receipt.snapshot_ref, None);
                        of.content = format!("live {order:?} {:?}", request.capacity);
                        of.kind = Kind::Live(order);
                    } else if !estimate {
                        let name = self.note(receipt, caller.clone(), &visible, order.room);
                        of.content = self.model.content(&name);
                        let carried = match request.carry {
                            Carry::SnapshotRef => MemoryField::SnapshotRef(name.clone()),
                            Carry::Ids => MemoryField::PrefetchIds(NamedIds { ids: order.ids, mode: Mode::Frozen }),
                        };
                        assert_eq!(delegated.memory.as_ref(), Some(&carried));
                        of.kind = Kind::Frozen(name);
                    }
                }
                DelegationOutcome::Refused(refusal) => {
                    Self::check_refusal(&order, &unavailable, refusal);
                    (of.kind, of.content) = (Kind::Refused, "refused".into());
                }
                DelegationOutcome::MemoryOff => panic!("memory is on"),
            }
            outcome
        } else {
            let outcome = answer.unwrap();
            let DelegationOutcome::HandedOver(delegated) = &outcome else { panic!("{outcome:?}") };
            assert!(delegated.memory.is_none() && delegated.receipt.is_none());
            outcome
        };
        // R23, R28: a warning, where a child could not tell it from an earlier one.
        if let DelegationOutcome::HandedOver(delegated) = &outcome
            && !estimate
        {
            let twins =
                |other: &rules::HandOver| other.parent == caller && other.task == task && other.content != of.content;
            assert_eq!(!delegated.warnings.is_empty(), !task.is_empty() && model.hand_overs.iter().any(twins));
        }
        if !estimate {
            of.keep = of.expires.max(now + rules::RETENTION);
            self.model.next += 1;
            self.model.hand_overs.push(of);
        }
    }

    fn again(&mut self, row: &rules::Session, old: &rules::HandOver, answer: Result<DelegationOutcome, Fault>) {
        if !self.model.on(row) {
            assert_eq!(answer, Ok(DelegationOutcome::MemoryOff));
            return;
        }
        match &old.kind {
            Kind::Off => assert_eq!(answer, Ok(DelegationOutcome::MemoryOff)),
            Kind::Refused => assert!(matches!(answer, Ok(DelegationOutcome::Refused(_))), "{answer:?}"),
            Kind::Nothing => {
                assert!(matches!(
                    answer,
                    Ok(DelegationOutcome::HandedOver(Delegated { memory: None, receipt: None, .. }))
                ));
            }
            Kind::Live(order) => {
                let (visible, unavailable) = self.model.resolve(row, &order.ids);
                match answer.unwrap() {
                    DelegationOutcome::HandedOver(delegated) => {
                        Self::check_fit(order, &visible, &unavailable, &delegated.receipt.unwrap());
                    }
                    DelegationOutcome::Refused(refusal) => Self::check_refusal(order, &unavailable, &refusal),
                    DelegationOutcome::MemoryOff => panic!("memory is on"),
                }
            }
            Kind::Frozen(name) => {
                let snapshot = &self.model.snapshots[name];
                if snapshot.pages.is_empty() {
                    assert_eq!(answer, Err(if snapshot.revoked { Fault::Revoked } else { Fault::Expired }));
                    return;
                }
                let DelegationOutcome::HandedOver(delegated) = answer.unwrap() else { panic!("it was handed over") };
                assert_eq!(delegated.receipt.unwrap().snapshot_ref.as_ref(), Some(name));
            }
        }
    }

    fn deliver(&mut self, session: &str, occasion: &'static str, how: &How) {
        let (claim, asked) = match how {
            How::Ref(number) => {
                let name = self.name(session, *number);
                (Claim::SnapshotRef(name.clone()), rules::Claim::Ref(name))
            }
            How::Ids { ids: numbers, live, capacity } => {
                // Mostly those of a hand-over: children know them from the field that they were handed.
                let parent = self.model.session(session).and_then(|(_, row)| row.parent.clone());
                let parent = parent.map(|parent| self.model.canonical(&parent));
                let lists = self.model.hand_overs.iter().filter(|of| Some(&of.parent) == parent.as_ref());
                let lists: Vec<&Vec<String>> = lists.filter_map(|of| of.asked.as_ref().map(|asked| &asked.0)).collect();
                let ids = match usize::from(numbers[0]) {
                    number if number % 5 > 0 && !lists.is_empty() => lists[number % lists.len()].clone(),
                    _ => ids(numbers),
                };
                let sizes = capacity.map(|(number, how)| (room(number), overflow(how)));
                let capacity =
                    sizes.map(|(room, (_, overflow))| Capacity { overflow, ..Capacity::bytes(room.bytes()) });
                let named = NamedIds { ids: ids.clone(), mode: mode(*live) };
                (
                    Claim::Ids(CarriedIds { ids: named, capacity }),
                    rules::Claim::Ids { ids, live: *live, capacity: sizes.map(|(room, (rule, _))| (room, rule)) },
                )
            }
            How::Parent { text, agent_type, registers_all } => {
                let (text, agent_type, registers_all) =
                    (maybe(&TEXTS, *text), maybe(&TYPES, *agent_type), *registers_all);
                let hints =
                    Hints { task: text.map(String::from), agent_type: agent_type.map(String::from), registers_all };
                (Claim::ParentSession(hints), rules::Claim::Parent { text, agent_type, registers_all })
            }
        };
        let answer = self.prefetch().deliver(&key(session), occasion, &claim).map_err(fault);
        let model = self.model.clone();
        let Some((me, row)) = model.session(session) else {
            assert_eq!(answer, Err(Fault::Unavailable));
            return;
        };
        // R25: the first answer for this child and this occasion.
        if let Some(old) = model.deliveries.iter().find(|old| old.child == me && old.occasion == occasion) {
            self.repeated(&me, row, old, answer.unwrap());
            return;
        }
        let found = model.find(session, &asked);
        let mut finding = match found {
            Err(fault) => {
                tally("deliver:", fault);
                assert_eq!(answer, Err(fault), "{session}: {claim:?}");
                return;
            }
            Ok(finding) => finding,
        };
        // R13: whatever else is the case.
        if !model.on(row) {
            (finding.outcome, finding.freeze) = (rules::Outcome::Off, None);
        }
        let answer = answer.unwrap();
        assert!(!answer.replayed);
        let text = answer.block.as_ref().map(|block| block.text.clone());
        tally("deliver:", &answer.outcome);
        let mut bytes = None;
        let outcome = match (&finding.outcome, &answer.outcome) {
            (rules::Outcome::Delivered(_), DeliveryOutcome::Delivered) if finding.freeze.is_some() => {
                // R22: the child's own, under its own eyes, claimed already.
                let (order, receipt) = (finding.freeze.as_ref().unwrap(), answer.receipt.as_ref().unwrap());
                let (visible, unavailable) = model.resolve(row, &order.ids);
                Self::check_fit(order, &visible, &unavailable, receipt);
                let name = self.note(receipt, me.clone(), &visible, order.room);
                assert!(model.beside(&me, None, text.as_ref().unwrap().len(), Some(order.room)), "R27");
                self.delivered(&name, &answer);
                bytes = text.as_ref().map(|text| text.len() as u32);
                rules::Outcome::Delivered(name)
            }
            (rules::Outcome::Delivered(_), DeliveryOutcome::Refused(refusal)) if finding.freeze.is_some() => {
                let order = finding.freeze.as_ref().unwrap();
                let fits_alone = order.room == Room::Ample && model.beside(&me, None, 0, Some(Room::None));
                assert!(!fits_alone && matches!(refusal, Refusal::OverCapacity(_)), "{refusal:?}");
                rules::Outcome::Refused
            }
            (rules::Outcome::Delivered(name), DeliveryOutcome::Delivered) => {
                assert_eq!(answer.receipt.as_ref().unwrap().snapshot_ref.as_ref(), Some(name));
                self.delivered(name, &answer);
                bytes = text.as_ref().map(|text| text.len() as u32);
                rules::Outcome::Delivered(name.clone())
            }
            (rules::Outcome::Live(order, owner), DeliveryOutcome::Live) => {
                self.lively(&me, None, order, owner, &answer);
                bytes = text.as_ref().map(|text| text.len() as u32);
                finding.outcome.clone()
            }
            (rules::Outcome::Live(order, owner), DeliveryOutcome::Refused(refusal)) => {
                self.refused_live(&me, None, order, owner, refusal);
                rules::Outcome::Refused
            }
            (expected, told) => {
                assert_told(expected, told);
                expected.clone()
            }
        };
        assert_notice(&answer);
        self.model.keep(rules::Delivery {
            child: me,
            occasion,
            text: if bytes.is_some() { None } else { text },
            outcome,
            hand_over: finding.hand_over,
            keep: model.now + rules::RETENTION,
            bytes,
        });
    }

    /// R3, R16: the bytes that were frozen.
    fn delivered(&self, name: &str, answer: &Answer) {
        let pages = &self.model.snapshots[name].pages;
        let block = answer.block.as_ref().unwrap();
        assert_eq!((block.snapshot_ref.as_deref(), block.page, block.pages as usize), (Some(name), 1, pages.len()));
        assert_eq!(block.text, pages[0]);
    }

    /// R22: what is true now, under the eyes of whoever named the ids.
    fn lively(&self, me: &str, but: Option<&str>, order: &Order, owner: &str, answer: &Answer) {
        let owner = &self.model.sessions[owner];
        let (visible, unavailable) = self.model.resolve(owner, &order.ids);
        let (receipt, text) = (answer.receipt.as_ref().unwrap(), &answer.block.as_ref().unwrap().text);
        Self::check_fit(order, &visible, &unavailable, receipt);
        let kept = visible.into_iter().filter(|(id, _)| receipt.items.iter().any(|item| item.id == *id));
        let bodies: Vec<_> = kept.map(|(id, was)| (id, was.unwrap().1)).collect();
        assert_eq!(read(std::slice::from_ref(text)), bodies);
        assert!(text.len() <= order.room.bytes() as usize);
        assert!(self.model.beside(me, but, text.len(), Some(order.room)), "R27");
    }

    fn refused_live(&self, me: &str, but: Option<&str>, order: &Order, owner: &str, refusal: &Refusal) {
        let (_, unavailable) = self.model.resolve(&self.model.sessions[owner], &order.ids);
        let strict = order.strict && !unavailable.is_empty();
        match refusal {
            Refusal::Unavailable(ids) => assert!(strict && *ids == unavailable),
            // In ample room it is what the child has already that leaves none.
            Refusal::OverCapacity(_) => {
                assert!(
                    !strict && (order.room != Room::Ample || !self.model.beside(me, but, 200_000, Some(order.room)))
                );
            }
            other => panic!("{other:?}"),
        }
    }

    fn repeated(&mut self, me: &str, row: &rules::Session, old: &rules::Delivery, answer: Answer) {
        assert!(answer.replayed);
        tally("deliver, again:", &answer.outcome);
        assert_notice(&answer);
        match &old.outcome {
            rules::Outcome::Delivered(name) => {
                let snapshot = &self.model.snapshots[name];
                if snapshot.revoked {
                    assert_told(&rules::Outcome::Revoked, &answer.outcome);
                } else if snapshot.pages.is_empty() || old.keep <= self.model.now {
                    assert_told(&rules::Outcome::Expired, &answer.outcome);
                } else {
                    assert_eq!(answer.outcome, DeliveryOutcome::Delivered);
                    self.delivered(name, &answer);
                }
            }
            rules::Outcome::Live(order, owner) => {
                let Some(session) = self.model.sessions.get(owner) else {
                    assert!(matches!(answer.outcome, DeliveryOutcome::Refused(_)));
                    return;
                };
                match (self.model.barred(row, session), &answer.outcome) {
                    (Some(expected), told) => assert_told(&expected, told),
                    (None, DeliveryOutcome::Live) => self.lively(me, Some(old.occasion), order, owner, &answer),
                    (None, DeliveryOutcome::Refused(refusal)) => {
                        self.refused_live(me, Some(old.occasion), order, owner, refusal);
                    }
                    (None, other) => panic!("{other:?}"),
                }
            }
            expected => {
                assert_told(expected, &answer.outcome);
                assert_eq!(answer.block.map(|block| block.text), old.text);
            }
        }
    }
}

fn assert_told(expected: &rules::Outcome, told: &DeliveryOutcome) {
    let same = match (expected, told) {
        (rules::Outcome::Ambiguous(one), DeliveryOutcome::Ambiguous(other)) => one == other,
        (rules::Outcome::Nothing, DeliveryOutcome::Nothing)
        | (rules::Outcome::Off, DeliveryOutcome::MemoryOff)
        | (rules::Outcome::Taken, DeliveryOutcome::Taken)
        | (rules::Outcome::Expired, DeliveryOutcome::Expired)
        | (rules::Outcome::Revoked, DeliveryOutcome::Revoked)
        | (rules::Outcome::Refused, DeliveryOutcome::Refused(_)) => true,
        _ => false,
    };
    assert!(same, "the rules say {expected:?}, and it is {told:?}");
}

/// R28: nothing is silent but where there is nothing to say.
fn assert_notice(answer: &Answer) {
    let text = answer.block.as_ref().map(|block| block.text.as_str());
    match &answer.outcome {
        DeliveryOutcome::Delivered | DeliveryOutcome::Live => assert!(text.is_some() && answer.receipt.is_some()),
        DeliveryOutcome::Nothing | DeliveryOutcome::MemoryOff => assert_eq!(text, None),
        _ => assert!(text.is_some_and(|text| text.starts_with("[memory-prefetch] No memories were delivered: "))),
    }
}

/// What the sequences came to, for whoever wants to know whether they try enough: `--nocapture`.
static TALLY: Mutex<BTreeMap<String, u32>> = Mutex::new(BTreeMap::new());

fn tally<T: std::fmt::Debug>(verb: &str, what: T) {
    let what = format!("{what:?}");
    let word = what.split(['(', ' ', '{']).next().unwrap_or_default();
    *TALLY.lock().unwrap().entry(format!("{verb} {word}")).or_default() += 1;
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|number| number.parse().unwrap_or_else(|_| panic!("{name} is not a number")))
}

/// Every sequence, on a store of its own.
fn agrees<S: Operator + 'static>(both: impl Fn() -> Both<S>) {
    let cases = number("MEMORY_PREFETCH_MODEL_CASES").unwrap_or(80) as u32;
    let length = number("MEMORY_PREFETCH_MODEL_STEPS").unwrap_or(120) as usize;
    let seed = number("MEMORY_PREFETCH_MODEL_SEED").unwrap_or_else(|| RandomState::new().hash_one(0));
    let config = Config {
        cases,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(seed),
        max_shrink_iters: 5_000,
        max_shrink_time: 60_000,
        ..Config::default()
    };
    let sequences = prop::collection::vec(steps(), 1..=length.max(1));
    let mut runner = TestRunner::new(config);
    let ran = runner.run(&sequences, |steps| {
        let mut both = both();
        steps.iter().for_each(|step| both.step(step));
        Ok(())
    });
    println!("{:#?}", TALLY.lock().unwrap());
    if let Err(error) = ran {
        panic!("{error}\nAgain: MEMORY_PREFETCH_MODEL_SEED={seed}, and the same cases and steps");
    }
}

#[test]
fn in_memory() {
    agrees(|| Both::new(MemoryStore::new(), |store| store));
}

#[test]
fn on_sqlite() {
    let dir = tempfile::tempdir().unwrap();
    let next = std::sync::atomic::AtomicU32::new(0);
    agrees(|| {
        let number = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = dir.path().join(format!("{number}.db"));
        let again = path.clone();
        Both::new(open(&path), move |store| {
            drop(store);
            open(&again)
        })
    });
}
