//! R1, R7 to R12, R40: what a search finds is what its session may read by id, in random worlds; and the number of store
//! calls does not depend on how much is asked for.

use memory_prefetch::contract::*;
use memory_prefetch::operator::{NewMemory, NewSession, Operator};
use memory_prefetch::{CallError, MemoryStore, Prefetch, Runtime, SqliteStore};

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }

    fn one_of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    fn likely(&mut self) -> bool {
        self.below(5) > 0
    }
}

const AGENTS: [&str; 4] = ["a", "a1", "b", "c"];
const PROJECTS: [&str; 4] = ["p", "p1", "q", "r"];
const MEMORIES: usize = 40;

fn key(id: &str) -> SessionKey {
    SessionKey { harness: "h".into(), id: id.into() }
}

fn world(store: &mut impl Operator, dice: &mut Dice) {
    for id in PROJECTS {
        let workspace = dice.one_of(&[None, Some("w"), Some("w"), Some("w1")]).map(String::from);
        let (memory_on, trusted) = (dice.likely(), dice.likely());
        store.put_project(&Project { id: id.into(), workspace, memory_on, trusted, attributes: vec![] }).unwrap();
    }
    for agent in AGENTS {
        let project = Some(dice.one_of(&PROJECTS).into());
        let memory_on = dice.below(20) > 0;
        let session = NewSession { key: key(agent), agent: Some(agent.into()), project, parent: None, memory_on };
        store.put_session(&session).unwrap();
    }
    for _ in 0..dice.below(8) {
        let (from_agent, to_agent) = (dice.one_of(&AGENTS).into(), dice.one_of(&AGENTS).into());
        let direction = dice.one_of(&[Direction::OneWay, Direction::TwoWay]);
        store.add_link(&Link { from_agent, to_agent, direction, kind: "peer".into(), attributes: vec![] }).unwrap();
    }
    for number in 0..MEMORIES {
        let memory = NewMemory {
            id: Some(number.to_string()),
            owner: if dice.below(12) > 0 { Some(dice.one_of(&AGENTS).into()) } else { None },
            project: if dice.below(12) > 0 { Some(dice.one_of(&PROJECTS).into()) } else { Some("unknown".into()) },
            audience: dice.one_of(&[Audience::Agent, Audience::Project, Audience::Workspace]),
            category: String::new(),
            priority: 0,
            trusted: dice.likely(),
            expires_at: dice.one_of(&[None, None, None, Some(1), Some(u64::MAX >> 2)]),
            body: dice.one_of(&["needle", "needle and more", "something else"]).into(),
        };
        store.add_memory(&memory, 0).unwrap();
        if dice.below(8) == 0 {
            store.archive_memory(&number.to_string(), true).unwrap();
        }
    }
}

fn ids(views: &[View]) -> Vec<String> {
    let mut ids: Vec<String> = views.iter().map(|view| view.id.clone()).collect();
    ids.sort();
    ids
}

/// How often each kind of answer came, so that the test is known to have seen them all.
#[derive(Default, Debug)]
struct Seen {
    found: usize,
    linked: usize,
    no_link: usize,
    wrong_direction: usize,
}

fn agree<S: Operator + 'static>(prefetch: &mut Prefetch<S>, seen: &mut Seen) {
    let all: Vec<String> = (0..MEMORIES).map(|number| number.to_string()).collect();
    let rows = prefetch.store().all_memories(0, 1_000).unwrap();
    let links = prefetch.store().all_links().unwrap();
    for agent in AGENTS {
        let session = key(agent);
        let row = prefetch.store().sessions(std::slice::from_ref(&session)).unwrap().pop().flatten().unwrap();
        let on = row.memory_on && row.project.as_ref().is_some_and(|project| project.memory_on);
        let readable = prefetch.get(&session, &all).unwrap().memories;
        let matching = |view: &&View| view.body.contains("needle");
        // Without a link: one's own, and what others share.
        let shared = |view: &&View| {
            let memory = rows.iter().find(|memory| memory.id == view.id).unwrap();
            view.owner == agent
                || memory.audience == Audience::Workspace
                || (memory.audience == Audience::Project
                    && memory.project == row.project.as_ref().map(|project| project.id.clone()))
        };
        let expected: Vec<View> = readable.iter().filter(matching).filter(shared).cloned().collect();
        for target in [None, Some(agent)] {
            let found = prefetch.recall(&session, target, "needle", 100).unwrap();
            assert_eq!(ids(&found), ids(&expected), "{agent} locally");
            seen.found += found.len();
            // The limit cuts the same list.
            let few = prefetch.recall(&session, target, "needle", 3).unwrap();
            assert_eq!(few, found[..found.len().min(3)]);
        }
        for target in AGENTS.into_iter().chain(["nobody"]).filter(|target| *target != agent) {
            let found = prefetch.recall(&session, Some(target), "needle", 100);
            let forth = |link: &Link| link.from_agent == agent && link.to_agent == target;
            let back = |link: &Link| link.from_agent == target && link.to_agent == agent;
            let two_way = |link: &Link| link.direction == Direction::TwoWay;
            if !on {
                assert_eq!(found.unwrap(), []);
            } else if links.iter().any(|link| forth(link) || (back(link) && two_way(link))) {
                let expected: Vec<View> =
                    readable.iter().filter(matching).filter(|view| view.owner == target).cloned().collect();
                let found = found.unwrap();
                assert_eq!(ids(&found), ids(&expected), "{agent} reads {target}");
                seen.linked += found.len();
            } else if links.iter().any(back) {
                assert!(matches!(found, Err(CallError::Policy(Error::WrongDirection))), "{found:?}");
                seen.wrong_direction += 1;
            } else {
                assert!(matches!(found, Err(CallError::Policy(Error::NoLink))), "{found:?}");
                seen.no_link += 1;
            }
        }
    }
}

#[test]
fn a_search_finds_what_may_be_read_by_id() {
    let runtime = Runtime::builder().build().unwrap();
    let mut dice = Dice(1);
    let mut seen = Seen::default();
    for _ in 0..60 {
        let mut store = MemoryStore::new();
        world(&mut store, &mut dice);
        agree(&mut runtime.open(store).unwrap(), &mut seen);
        let mut store = SqliteStore::in_memory().unwrap();
        world(&mut store, &mut dice);
        agree(&mut runtime.open(store).unwrap(), &mut seen);
    }
    assert!(
        seen.found > 100 && seen.linked > 100 && seen.no_link > 100 && seen.wrong_direction > 50,
        "the dice are loaded: {seen:?}"
    );
}

/// R5: 64 ids of ten linked agents cost as many store calls as one.
#[test]
fn store_calls_do_not_depend_on_the_number_of_ids() {
    let mut store = SqliteStore::in_memory().unwrap();
    let workspace = Some("w".into());
    for id in ["p", "q"] {
        let workspace: Option<String> = workspace.clone();
        store
            .put_project(&Project { id: id.into(), workspace, memory_on: true, trusted: true, attributes: vec![] })
            .unwrap();
    }
    let session = NewSession {
        key: key("s"),
        agent: Some("reader".into()),
        project: Some("p".into()),
        parent: None,
        memory_on: true,
    };
    store.put_session(&session).unwrap();
    let mut all = Vec::new();
    for number in 0..64 {
        let owner = format!("agent {}", number % 10);
        if number < 10 {
            let (from_agent, to_agent) = ("reader".into(), owner.clone());
            let direction = Direction::OneWay;
            store.add_link(&Link { from_agent, to_agent, direction, kind: "peer".into(), attributes: vec![] }).unwrap();
        }
        let memory = NewMemory::new(owner, ["p", "q"][number % 2], format!("body {number}"));
        all.push(store.add_memory(&memory, 0).unwrap());
    }
    let mut prefetch = Runtime::builder().build().unwrap().open(store).unwrap();
    let mut calls = Vec::new();
    for count in [1, 2, 10, 64] {
        let found = prefetch.get(&key("s"), &all[..count]).unwrap();
        assert_eq!(found.memories.len(), count);
        let get = prefetch.last_host_calls();
        let memory = MemoryField::PrefetchIds(NamedIds { ids: all[..count].to_vec(), mode: Mode::Frozen });
        let request = Request::new(format!("task {count}")).with_memory(memory, Capacity::bytes(1_000_000));
        let outcome = prefetch.delegate(&key("s"), &request).unwrap();
        let DelegationOutcome::HandedOver(Delegated { receipt: Some(receipt), .. }) = outcome else {
            panic!("{outcome:?}")
        };
        assert_eq!(receipt.items.len(), count);
        calls.push((get, prefetch.last_host_calls()));
    }
    assert!(calls.iter().all(|call| *call == calls[0]), "{calls:?}");
    let mut calls = Vec::new();
    for limit in [1, 10, 100] {
        prefetch.recall(&key("s"), Some("agent 3"), "body", limit).unwrap();
        calls.push(prefetch.last_host_calls());
    }
    assert!(calls.iter().all(|call| *call == calls[0]), "{calls:?}");
}

/// R5, R10, R40: what others have, and however much of it, hides nothing of one's own and tells nothing.
#[test]
fn rows_of_others_change_nothing_that_is_found() {
    let mut store = SqliteStore::in_memory().unwrap();
    for (agent, project) in [("a", "pa"), ("b", "pb")] {
        let (id, workspace) = (project.to_owned(), None);
        store.put_project(&Project { id, workspace, memory_on: true, trusted: true, attributes: vec![] }).unwrap();
        let (agent, project) = (Some(agent.to_owned()), Some(project.to_owned()));
        let key = key(agent.as_deref().unwrap());
        store.put_session(&NewSession { key, agent, project, parent: None, memory_on: true }).unwrap();
    }
    let add = |store: &mut SqliteStore, owner: &str, body: String| {
        let memory = NewMemory { audience: Audience::Workspace, ..NewMemory::new(owner, format!("p{owner}"), body) };
        store.add_memory(&memory, 0).unwrap();
    };
    // More than are ranked.
    for number in 0..2_200 {
        add(&mut store, "a", format!("the note {number}"));
    }
    add(&mut store, "b", "the secret of zanzibar".into());
    let mut prefetch = Runtime::builder().build().unwrap().open(store).unwrap();
    let mut found = |query: &str| prefetch.recall(&key("a"), None, query, 5).unwrap();
    let without = found("the zanzibaq");
    assert_eq!(without.len(), 5);
    assert_eq!(found("the zanzibar"), without);
    assert_eq!(found("zanzibar"), []);
}
