//! The same policy without a sandbox: the component's own code, compiled for this machine, over the same store. What a
//! call through the component costs is what it takes longer than this.
//!
//! It does what a host must: units of work, and the audit. It does not check answers, which are its own.

use memory_prefetch::contract as host;
use memory_prefetch::environment::{Clock, sha256};
use memory_prefetch::store::{Access, AuditRow, Memories, Rows, Store, StoreFailure};
use memory_prefetch::{SqliteStore, tokens};
use memory_prefetch_component::contract as policy;
use memory_prefetch_component::{Imports, child, orchestrator};

/// The policy over a store.
pub struct Native {
    /// Between two calls.
    pub store: SqliteStore,
}

/// Why a call did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum NativeError {
    /// The policy says no.
    #[error("the native policy answered {0:?}")]
    Policy(policy::Error),
    /// The unit of work could not be opened or kept.
    #[error(transparent)]
    Store(#[from] StoreFailure),
}

impl Native {
    /// `orchestrator.delegate`
    pub fn delegate(
        &mut self,
        session: &host::SessionKey,
        request: &policy::Request,
    ) -> Result<policy::DelegationOutcome, NativeError> {
        self.call(Access::Write, "orchestrator.delegate", session, |unit, key| {
            orchestrator::delegate(unit, key, request)
        })
    }

    /// `child.deliver`
    pub fn deliver(
        &mut self,
        session: &host::SessionKey,
        occasion: &str,
        claim: &policy::Claim,
    ) -> Result<policy::Answer, NativeError> {
        self.call(Access::Write, "child.deliver", session, |unit, key| child::deliver(unit, key, occasion, claim))
    }

    /// `child.replay`
    pub fn replay(&mut self, session: &host::SessionKey) -> Result<Vec<policy::Block>, NativeError> {
        self.call(Access::Read, "child.replay", session, |unit, key| child::replay(unit, key))
    }

    fn call<T>(
        &mut self,
        access: Access,
        export: &str,
        session: &host::SessionKey,
        function: impl FnOnce(&mut Unit, &policy::SessionKey) -> Result<T, policy::Error>,
    ) -> Result<T, NativeError> {
        self.store.begin_unit(access)?;
        let mut unit = Unit { store: &mut self.store, now: None, audit: Vec::new() };
        let answer = function(&mut unit, &session.clone().same());
        let entries = std::mem::take(&mut unit.audit);
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                self.store.roll_back();
                return Err(NativeError::Policy(error));
            }
        };
        let at = Clock::System.now();
        let row = |entry| AuditRow {
            at,
            session: Some(session.clone()),
            export: export.to_owned(),
            component: "native".repeat(10),
            rolled_back: false,
            entry,
        };
        if access.writes() {
            self.store.append_audit(&entries.into_iter().map(row).collect::<Vec<_>>())?;
        }
        self.store.commit()?;
        Ok(answer)
    }
}

/// The delegation of `request`, as the policy's own type.
pub fn request(request: &host::Request) -> policy::Request {
    let ids = match &request.memory {
        Some(host::MemoryField::PrefetchIds(named)) => named.ids.clone(),
        _ => Vec::new(),
    };
    policy::Request {
        task: request.task.clone(),
        memory: Some(policy::MemoryField::PrefetchIds(policy::NamedIds { ids, mode: policy::Mode::Frozen })),
        capacity: Some(policy::Capacity {
            budget: policy::Budget::Tokens(super::fixture::BUDGET),
            model: request.capacity.as_ref().and_then(|capacity| capacity.model.clone()),
            overflow: policy::Overflow::Refuse,
        }),
        priorities: Vec::new(),
        agent_type: None,
        ttl_seconds: None,
        children: 1,
        strict: false,
        carry: policy::Carry::SnapshotRef,
        call_id: None,
        attributes: Vec::new(),
    }
}

struct Unit<'a> {
    store: &'a mut SqliteStore,
    now: Option<host::Instant>,
    audit: Vec<host::Entry>,
}

type Answer<T> = Result<T, policy::StoreError>;

/// What the store answered, in the policy's types.
fn answer<T: Same<U>, U>(rows: Rows<T>) -> Answer<U> {
    rows.map(Same::same).map_err(|failure| host::StoreError::from(failure).same())
}

/// An argument in the host's types. It is borrowed, and so copied, as for the component.
fn argument<T: Clone + Same<U>, U>(value: &T) -> U {
    value.clone().same()
}

impl Imports for Unit<'_> {
    fn memories(&mut self, ids: &[String], max_bytes: u32) -> Answer<Vec<Option<policy::Memory>>> {
        answer(self.store.memories(ids, max_bytes))
    }
    fn sessions(&mut self, keys: &[policy::SessionKey]) -> Answer<Vec<Option<policy::Session>>> {
        answer(self.store.sessions(&keys.to_vec().same()))
    }
    fn projects(&mut self, ids: &[String]) -> Answer<Vec<Option<policy::Project>>> {
        answer(self.store.projects(ids))
    }
    fn links(&mut self, agent: &str, others: &[String]) -> Answer<Vec<policy::Link>> {
        answer(self.store.links(agent, others))
    }
    fn insert_snapshot(&mut self, frozen: &policy::Frozen) -> Answer<()> {
        answer(self.store.insert_snapshot(&argument(frozen)))
    }
    fn snapshots(&mut self, refs: &[String], pages: policy::Selection) -> Answer<Vec<Option<policy::Frozen>>> {
        answer(self.store.snapshots(refs, pages.same()))
    }
    fn insert_hand_over(&mut self, hand_over: &policy::HandOver) -> Answer<bool> {
        answer(self.store.insert_hand_over(&argument(hand_over)))
    }
    fn find_hand_overs(&mut self, filter: &policy::OfferFilter, limit: u32) -> Answer<Vec<policy::Offer>> {
        answer(self.store.find_hand_overs(&argument(filter), limit))
    }
    fn insert_delivery(&mut self, delivery: &policy::Delivery) -> Answer<bool> {
        answer(self.store.insert_delivery(&argument(delivery)))
    }
    fn deliveries(&mut self, child: &policy::SessionKey) -> Answer<Vec<policy::Given>> {
        answer(self.store.deliveries(&argument(child)))
    }
    fn replay(
        &mut self,
        child: &policy::SessionKey,
        snapshot_ref: Option<&str>,
        page: u32,
        at: policy::Instant,
    ) -> Answer<Vec<policy::StoredPage>> {
        answer(self.store.replay(&argument(child), snapshot_ref, page, at))
    }
    fn now(&mut self) -> policy::Instant {
        *self.now.get_or_insert_with(|| Clock::System.now())
    }
    fn random_hex(&mut self, bytes: u32) -> String {
        let mut random = vec![0; bytes as usize];
        // Without randomness the policy refuses the empty text.
        if getrandom::fill(&mut random).is_err() {
            random.clear();
        }
        random.iter().map(|byte| format!("{byte:02x}")).collect()
    }
    fn sha256(&mut self, texts: &[String]) -> Vec<String> {
        texts.iter().map(|text| sha256(text.as_bytes())).collect()
    }
    fn count_tokens(&mut self, model: &str, texts: &[String]) -> Option<Vec<u32>> {
        tokens::count(model, &texts.iter().map(String::as_str).collect::<Vec<_>>())
    }
    fn settings(&mut self, project: Option<&str>, names: &[String]) -> Vec<Option<String>> {
        self.store.settings(project, names).unwrap_or_else(|_| vec![None; names.len()])
    }
    fn log(&mut self, _: policy::Level, _: &str) {}
    fn append_audit(&mut self, entries: &[policy::Entry]) {
        self.audit.extend(entries.iter().map(argument::<_, host::Entry>));
    }
}

/// The same value in the types of the other side: both are generated from the same contract. Texts are moved.
trait Same<T> {
    fn same(self) -> T;
}

macro_rules! plain {
    ($($name:ty),*) => {$(
        impl Same<$name> for $name {
            fn same(self) -> $name {
                self
            }
        }
    )*};
}
plain!((), bool, u32, u64, String, (String, String));

impl<A: Same<B>, B> Same<Option<B>> for Option<A> {
    fn same(self) -> Option<B> {
        self.map(Same::same)
    }
}

impl<A: Same<B>, B> Same<Vec<B>> for Vec<A> {
    fn same(self) -> Vec<B> {
        self.into_iter().map(Same::same).collect()
    }
}

macro_rules! records {
    ($($name:ident { $($field:ident),* })*) => {$(
        impl Same<policy::$name> for host::$name {
            fn same(self) -> policy::$name {
                policy::$name { $($field: self.$field.same()),* }
            }
        }
        impl Same<host::$name> for policy::$name {
            fn same(self) -> host::$name {
                host::$name { $($field: self.$field.same()),* }
            }
        }
    )*};
}
records! {
    SessionKey { harness, id }
    Memory {
        id, owner, project, audience, active, expires_at, trusted, category, priority, version, updated_at, bytes, body,
        attributes
    }
    Project { id, workspace, memory_on, trusted, attributes }
    Session { key, memory_on, agent, project, parent, attributes }
    Link { from_agent, to_agent, direction, kind, attributes }
    Page { number, check, state, text }
    Snapshot { snapshot_ref, owner, created_at, expires_at, keep_until, revoked_at, memory_ids, pages, state }
    Frozen { snapshot, pages }
    HandOver {
        id, parent, call_id, agent_type, snapshot_ref, ids_key, children, created_at, expires_at, keep_until, task_digest,
        task_head, task, state
    }
    Offer { hand_over, taken, next_place }
    OfferFilter {
        parent, call_id, snapshot_ref, ids_key, task_digest, within, agent_type, open_only, with_task
    }
    Delivery { child, occasion, snapshot_ref, hand_over, place, at, keep_until, state, check, notice }
    Given { delivery, hand_over }
    StoredPage { snapshot_ref, revoked_at, pages, check, text }
    Entry { action, outcome, snapshot_refs, memory_ids, attributes }
}

macro_rules! cases {
    ($($from:ident :: $name:ident => $to:ident { $($case:ident $(($value:ident))?),* })*) => {$(
        impl Same<$to::$name> for $from::$name {
            fn same(self) -> $to::$name {
                match self {
                    $($from::$name::$case $(($value))? => $to::$name::$case $(($value.same()))?),*
                }
            }
        }
    )*};
}
cases! {
    host::Audience => policy { Agent, Project, Workspace }
    policy::Audience => host { Agent, Project, Workspace }
    host::Direction => policy { OneWay, TwoWay }
    policy::Direction => host { OneWay, TwoWay }
    policy::Selection => host { None, One(page), All }
    host::StoreError => policy { Busy(why), Absent(why), Damaged(why), TooLarge(why), Other(why) }
}
