//! Runs a policy component over a store: [`Runtime`] is one loaded component with its limits, [`Prefetch`] the exported
//! functions of it over one store. One exported call is one unit of work: it is committed when the component answers ok,
//! and undone when it answers an error or is stopped.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use thiserror::Error;
use wasmtime::component::{Component, HasSelf, Instance, Linker};
use wasmtime::{Engine, PoolConcurrencyLimitError};

use crate::answers::{self, Nonsense, Seen};
use crate::contract::{self, *};
use crate::environment::{Clock, TokenCounter, sha256};
use crate::exports::Export;
use crate::generated::MemoryPrefetch;
use crate::imports::{State, Unit};
use crate::instances::{Instances, Slot};
use crate::interfaces::{Indices, Interfaces};
use crate::limits::{Limits, Stopped};
use crate::store::{Access, AuditRow, Memories, Store, StoreFailure};
use crate::{cache, engine, tokens, world};

/// The component that this crate was built with.
pub const BUILT_IN: &[u8] = include_bytes!(env!("MEMORY_PREFETCH_BUILT_IN"));

/// Its SHA-256, as the build script found it: a new process need not read all of it.
const BUILT_IN_SHA256: &str = env!("MEMORY_PREFETCH_BUILT_IN_SHA256");

/// How often the clock ticks that ends calls which take too long.
const TICK: Duration = Duration::from_millis(10);

/// Why a component cannot be used. Nothing was run.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("the component {path} cannot be read: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is not the component that was asked for.
    #[error("the component's SHA-256 is {found}, and {expected} was asked for: it is not loaded")]
    OtherDigest {
        /// What was asked for.
        expected: String,
        /// What the file has.
        found: String,
    },
    /// It is not a WebAssembly component: truncated, a core module, or something else.
    #[error(
        "this is not a WebAssembly component ({0}); a core module must be made into one first, and a download may be cut short"
    )]
    NotAComponent(String),
    /// It is made for another world, or for another version of the contract.
    #[error("the component does not fit this host: {why}. It needs {needs}. This host offers {offers}")]
    OtherWorld {
        /// What does not fit.
        why: String,
        /// The imports and exports that the component has.
        needs: String,
        /// The imports that this host has, and the exports that it calls.
        offers: String,
    },
    /// The engine could not be set up on this machine.
    #[error("WebAssembly cannot be run here: {0}")]
    Engine(String),
}

/// Why a call did not do what it was asked. Nothing was stored, but for audit entries.
#[derive(Debug, Error)]
pub enum CallError {
    /// The policy answered an error.
    #[error("{}", explain(.0))]
    Policy(contract::Error),
    /// The unit of work could not be opened or committed.
    #[error(transparent)]
    Store(#[from] StoreFailure),
    /// The component broke a limit.
    #[error("the component was stopped in {export}: {why}")]
    Stopped {
        /// The exported function.
        export: &'static str,
        /// Which limit.
        why: Stopped,
    },
    /// The component trapped: it panicked, overflowed its stack, ran out of memory, or answered with something that is
    /// not of the contract.
    #[error("the component failed in {export}: {why}")]
    Trapped {
        /// The exported function.
        export: &'static str,
        /// What wasmtime says.
        why: String,
    },
    /// The component answered with what it cannot know, or was not asked for: a wrong one, or a hostile one.
    #[error("the component answered nonsense in {export}: {what}")]
    Nonsense {
        /// The exported function.
        export: &'static str,
        /// What it named.
        what: String,
    },
    /// The request is larger than [`Limits::bytes_in`]; the component was not called.
    #[error("the request has {bytes} bytes, and this host takes {limit}")]
    RequestTooLarge {
        /// Its texts together.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
}

/// A policy's error in words.
pub fn explain(error: &contract::Error) -> String {
    use contract::Error as E;
    match error {
        E::Malformed(why) => format!("malformed request: {why}"),
        E::Unavailable(names) => format!("not available: {}", names.join(", ")),
        E::Expired => "this snapshot has expired: delegate again".into(),
        E::Revoked => "this snapshot was revoked by its owner".into(),
        E::Corrupt(name) => format!("the stored bytes of {name} are not those that were frozen: nothing is delivered"),
        E::NoLink => "no link lets this agent read the other one".into(),
        E::WrongDirection => "there is a link between these agents, and it runs the other way".into(),
        E::StoreNotAvailable => "the other agent's store cannot be reached".into(),
        E::Store(error) => store_failure(error.clone()).to_string(),
        E::Other(why) if why == "unsupported" => "this component does not support that yet".into(),
        E::Other(why) => why.clone(),
    }
}

fn store_failure(error: StoreError) -> StoreFailure {
    match error {
        StoreError::Busy(why) => StoreFailure::Busy(why),
        StoreError::Absent(why) => StoreFailure::Absent(why),
        StoreError::Damaged(why) => StoreFailure::Damaged(why),
        StoreError::TooLarge(why) => StoreFailure::TooLarge(why),
        StoreError::Other(why) => StoreFailure::Other(why),
    }
}

/// What to load and how.
#[derive(Default)]
pub struct RuntimeBuilder {
    component: Option<Vec<u8>>,
    path: Option<PathBuf>,
    sha256: Option<String>,
    limits: Limits,
    cache: Option<PathBuf>,
}

impl RuntimeBuilder {
    /// Load this file instead of the built-in component.
    pub fn component_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.path = Some(path.into());
        self
    }

    /// Load these bytes instead of the built-in component.
    pub fn component_bytes(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.component = Some(bytes.into());
        self
    }

    /// Load it only if its SHA-256 is this one, in hex.
    pub fn sha256(mut self, digest: impl Into<String>) -> Self {
        self.sha256 = Some(digest.into());
        self
    }

    /// Other limits than the default ones.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Keep compiled code in this directory, so that the next process starts in a millisecond. The directory must
    /// belong to this user alone: whoever can write there can run code as this user.
    pub fn cache_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.cache = Some(dir.into());
        self
    }

    /// Read, check and compile the component.
    pub fn build(self) -> Result<Runtime, LoadError> {
        let read =
            |path: &Path| std::fs::read(path).map_err(|source| LoadError::Read { path: path.to_owned(), source });
        let bytes = match (self.component, &self.path) {
            (Some(bytes), _) => Cow::Owned(bytes),
            (None, Some(path)) => Cow::Owned(read(path)?),
            (None, None) => Cow::Borrowed(BUILT_IN),
        };
        let digest = match &bytes {
            Cow::Owned(bytes) => sha256(bytes),
            Cow::Borrowed(_) => BUILT_IN_SHA256.to_owned(),
        };
        if let Some(expected) = self.sha256.map(|digest| digest.to_ascii_lowercase())
            && expected != digest
        {
            return Err(LoadError::OtherDigest { expected, found: digest });
        }

        let compiled = |engine: Engine| {
            cache::compile(&engine, &bytes, &digest, self.cache.as_deref()).map(|component| (engine, component))
        };
        let (engine, component) = match engine::pooled(&self.limits).map(compiled) {
            Some(Ok(both)) => both,
            // It does not fit into the pool, or nowhere.
            _ => compiled(engine::plain().map_err(|error| LoadError::Engine(format!("{error:#}")))?)?,
        };
        let world = world::check(&engine, &component)?;
        let ticker = Ticker::start(&engine);
        Ok(Runtime {
            engine,
            component,
            digest,
            world,
            bytes: Arc::new(bytes),
            limits: self.limits,
            clock: Clock::System,
            tokens: Arc::new(tokens::count),
            ticker,
        })
    }
}

/// One loaded component. Cheap to clone; each [`Prefetch`] made from it has its own sandbox.
#[derive(Clone)]
pub struct Runtime {
    engine: Engine,
    component: Component,
    digest: String,
    world: world::World,
    bytes: Arc<Cow<'static, [u8]>>,
    limits: Limits,
    clock: Clock,
    tokens: Arc<TokenCounter>,
    ticker: Arc<Ticker>,
}

impl Runtime {
    /// What to load and how; [`RuntimeBuilder::build`] loads it.
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder::default()
    }

    /// Take the time from this clock.
    pub fn set_clock(&mut self, clock: Clock) {
        self.clock = clock;
    }

    /// Count tokens with this function instead of the built-in tokenizers.
    pub fn set_token_counter(&mut self, count: Arc<TokenCounter>) {
        self.tokens = count;
    }

    /// SHA-256 of the component, in hex.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The component's bytes.
    pub fn component(&self) -> &[u8] {
        &self.bytes
    }

    /// The component's imports and exports.
    pub fn world(&self) -> &world::World {
        &self.world
    }

    /// The component over this store.
    pub fn open<S: Store + 'static>(&self, store: S) -> Result<Prefetch<S>, LoadError> {
        let other_world = |error: wasmtime::Error| self.world.other_world(format!("{error:#}"));
        let mut linker = Linker::new(&self.engine);
        MemoryPrefetch::add_to_linker::<_, HasSelf<State<S>>>(&mut linker, Slot::state).map_err(other_world)?;
        let pre = linker.instantiate_pre(&self.component).map_err(other_world)?;
        let instances = Instances::new(pre).map_err(other_world)?;
        let state = State {
            store,
            memories: None,
            clock: self.clock,
            tokens: self.tokens.clone(),
            limits: self.limits.clone(),
            ticks: self.ticker.ticks.clone(),
            time_limit: ticks(self.limits.time),
            unit: Unit::new(Export::Describe, 0, 0),
        };
        Ok(Prefetch { runtime: self.clone(), instances, state: Some(Box::new(state)) })
    }
}

/// Makes the engine's epoch advance, so that endless loops end.
struct Ticker {
    stop: Arc<AtomicBool>,
    /// How often it ticked.
    ticks: Arc<AtomicU64>,
}

impl Ticker {
    fn start(engine: &Engine) -> Arc<Ticker> {
        let stop = Arc::new(AtomicBool::new(false));
        let ticks = Arc::new(AtomicU64::new(0));
        let (engine, stopped, count) = (engine.weak(), stop.clone(), ticks.clone());
        std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                std::thread::sleep(TICK);
                count.fetch_add(1, Ordering::Relaxed);
                match engine.upgrade() {
                    Some(engine) => engine.increment_epoch(),
                    None => return,
                }
            }
        });
        Arc::new(Ticker { stop, ticks })
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// The exported functions over one store. Not re-entrant; use one per thread. Each caller has an instance of its own; for
/// one that was not among the last [`KEPT_INSTANCES`](crate::KEPT_INSTANCES) a new one is made, which takes 20 µs more (45 µs
/// without a pool: [`Limits::instances`]).
pub struct Prefetch<S: Store + 'static> {
    runtime: Runtime,
    instances: Instances<S>,
    /// Lent to the instance during a call.
    state: Option<Box<State<S>>>,
}

/// What an erasure touched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Erased {
    /// How many snapshots held one of the memories.
    pub snapshots: u32,
    /// The memories that had a row. Where they lie in a source that is only read, none: they must be erased there.
    pub memories: Vec<String>,
}

type Called<T> = wasmtime::Result<Result<T, contract::Error>>;

impl<S: Store + 'static> Prefetch<S> {
    /// Take memories from here instead of from the store.
    pub fn with_memories(mut self, source: impl Memories + 'static) -> Self {
        self.state().memories = Some(Box::new(source));
        self
    }

    /// The store, between two calls.
    pub fn store(&mut self) -> &mut S {
        &mut self.state().store
    }

    /// Take the time from this clock from now on.
    pub fn set_clock(&mut self, clock: Clock) {
        self.state().clock = clock;
    }

    /// The runtime that this was opened from.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Drop the instances and give the store back.
    pub fn into_store(mut self) -> S {
        self.take_state().store
    }

    /// Linear memory of the instance that was called last, in bytes; 0 if it was dropped.
    pub fn memory_bytes(&self) -> usize {
        self.instances.memory_bytes()
    }

    /// Imported functions that the last call called, but for `log`.
    pub fn last_host_calls(&mut self) -> u32 {
        self.state().unit.host_calls
    }

    /// `orchestrator.estimate`
    pub fn estimate(&mut self, session: &SessionKey, request: &Request) -> Result<DelegationOutcome, CallError> {
        self.call(Export::Estimate, Some(session), request_bytes(request), |run| {
            run.seen().request(request);
            let (exports, wasm) = run.orchestrator()?;
            let answer = exports.call_estimate(wasm, session, request)?;
            run.check(answer, |seen, outcome| answers::delegation(seen, request, outcome))
        })
    }

    /// `orchestrator.delegate`
    pub fn delegate(&mut self, session: &SessionKey, request: &Request) -> Result<DelegationOutcome, CallError> {
        self.call(Export::Delegate, Some(session), request_bytes(request), |run| {
            run.seen().request(request);
            let (exports, wasm) = run.orchestrator()?;
            let answer = exports.call_delegate(wasm, session, request)?;
            run.check(answer, |seen, outcome| answers::delegation(seen, request, outcome))
        })
    }

    /// `orchestrator.revalidate`
    pub fn revalidate(&mut self, session: &SessionKey, snapshot_ref: &str) -> Result<Receipt, CallError> {
        self.call(Export::Revalidate, Some(session), snapshot_ref.len(), |run| {
            run.seen().named(snapshot_ref);
            let (exports, wasm) = run.orchestrator()?;
            let answer = exports.call_revalidate(wasm, session, snapshot_ref)?;
            run.check(answer, |seen, receipt| answers::revalidated(seen, snapshot_ref, receipt))
        })
    }

    /// `orchestrator.revoke`
    pub fn revoke(&mut self, session: &SessionKey, snapshot_ref: &str) -> Result<(), CallError> {
        self.call(Export::Revoke, Some(session), snapshot_ref.len(), |run| {
            run.seen().named(snapshot_ref);
            let (exports, wasm) = run.orchestrator()?;
            exports.call_revoke(wasm, session, snapshot_ref)
        })
    }

    /// `child.deliver`
    pub fn deliver(&mut self, child: &SessionKey, occasion: &str, claim: &Claim) -> Result<Answer, CallError> {
        let bytes = match claim {
            Claim::SnapshotRef(name) => name.len(),
            Claim::Ids(carried) => texts(&carried.ids.ids) + carried.capacity.as_ref().map_or(0, capacity_bytes),
            Claim::ParentSession(hints) => length(&hints.task) + length(&hints.agent_type),
        };
        self.call(Export::Deliver, Some(child), bytes + occasion.len(), |run| {
            run.seen().claim(claim);
            let (exports, wasm) = run.child()?;
            let answer = exports.call_deliver(wasm, child, occasion, claim)?;
            run.check(answer, |seen, answer| answers::delivery(seen, claim, answer))
        })
    }

    /// `child.replay`
    pub fn replay(&mut self, child: &SessionKey) -> Result<Vec<Block>, CallError> {
        self.call(Export::Replay, Some(child), 0, |run| {
            let (exports, wasm) = run.child()?;
            let answer = exports.call_replay(wasm, child)?;
            run.check(answer, |seen, blocks| answers::replayed(seen, blocks))
        })
    }

    /// `child.page`
    pub fn page(&mut self, child: &SessionKey, snapshot_ref: &str, number: u32) -> Result<Block, CallError> {
        self.call(Export::Page, Some(child), snapshot_ref.len(), |run| {
            run.seen().named(snapshot_ref);
            let (exports, wasm) = run.child()?;
            let answer = exports.call_page(wasm, child, snapshot_ref, number)?;
            run.check(answer, |seen, block| answers::page(seen, snapshot_ref, number, block))
        })
    }

    /// `tools.get`
    pub fn get(&mut self, session: &SessionKey, ids: &[String]) -> Result<Found, CallError> {
        self.call(Export::Get, Some(session), texts(ids), |run| {
            let (exports, wasm) = run.tools()?;
            let answer = exports.call_get(wasm, session, ids)?;
            run.check(answer, |seen, found| answers::found(seen, ids, found))
        })
    }

    /// `tools.recall`
    pub fn recall(
        &mut self,
        session: &SessionKey,
        target: Option<&str>,
        query: &str,
        limit: u32,
    ) -> Result<Vec<View>, CallError> {
        self.call(Export::Recall, Some(session), query.len() + target.map_or(0, str::len), |run| {
            let (exports, wasm) = run.tools()?;
            let answer = exports.call_recall(wasm, session, target, query, limit)?;
            run.check(answer, |seen, views| answers::recalled(seen, limit, views))
        })
    }

    /// `upkeep.evictable`
    pub fn evictable(&mut self, memory_ids: &[String]) -> Result<Vec<String>, CallError> {
        self.call(Export::Evictable, None, texts(memory_ids), |run| {
            let (exports, wasm) = run.upkeep()?;
            let answer = exports.call_evictable(wasm, memory_ids)?;
            run.check(answer, |_, ids| answers::evictable(memory_ids, ids))
        })
    }

    /// `upkeep.sweep`
    pub fn sweep(&mut self, limit: u32) -> Result<Swept, CallError> {
        self.call(Export::Sweep, None, 0, |run| {
            let (exports, wasm) = run.upkeep()?;
            let answer = exports.call_sweep(wasm, limit)?;
            run.check(answer, |_, swept| answers::swept(limit, swept))
        })
    }

    /// `upkeep.session-ended`
    pub fn session_ended(&mut self, session: &SessionKey) -> Result<(), CallError> {
        self.call(Export::SessionEnded, None, key_bytes(session), |run| {
            let (exports, wasm) = run.upkeep()?;
            exports.call_session_ended(wasm, session)
        })
    }

    /// `upkeep.forget`, with the rows of the memories themselves, in the same unit of work (R17).
    pub fn forget(&mut self, memory_ids: &[String]) -> Result<Erased, CallError> {
        let Forgotten { snapshots } = self.call(Export::Forget, None, texts(memory_ids), |run| {
            run.wasm.data_mut().state().unit.erase(memory_ids);
            let (exports, wasm) = run.upkeep()?;
            let answer = exports.call_forget(wasm, memory_ids)?;
            run.check(answer, answers::forgotten)
        })?;
        Ok(Erased { snapshots, memories: std::mem::take(&mut self.state().unit.erased) })
    }

    /// `wire.encode`
    pub fn encode(&mut self, delegation: &Delegation) -> Result<String, CallError> {
        let bytes = delegation.task.len() + delegation.memory.as_ref().map_or(0, field_bytes);
        self.call(Export::Encode, None, bytes, |run| {
            let (exports, wasm) = run.wire()?;
            exports.call_encode(wasm, delegation)
        })
    }

    /// `wire.decode`
    pub fn decode(&mut self, json: &str) -> Result<Delegation, CallError> {
        self.call(Export::Decode, None, json.len(), |run| {
            let (exports, wasm) = run.wire()?;
            let answer = exports.call_decode(wasm, json)?;
            run.check(answer, |_, delegation| answers::decoded(json, delegation))
        })
    }

    /// `wire.parse-markers`
    pub fn parse_markers(&mut self, text: &str) -> Result<Marked, CallError> {
        self.call(Export::ParseMarkers, None, text.len(), |run| {
            let (exports, wasm) = run.wire()?;
            let answer = exports.call_parse_markers(wasm, text)?;
            run.check(Ok(answer), |_, marked| answers::marked(text, marked))
        })
    }

    /// `about.describe`
    pub fn describe(&mut self) -> Result<Info, CallError> {
        self.call(Export::Describe, None, 0, |run| {
            let (exports, wasm) = run.about()?;
            exports.call_describe(wasm).map(Ok)
        })
    }

    /// One exported call, one unit of work.
    pub(crate) fn call<T>(
        &mut self,
        export: Export,
        session: Option<&SessionKey>,
        bytes: usize,
        function: impl FnOnce(&mut RunningRef<'_, S>) -> Called<T>,
    ) -> Result<T, CallError> {
        let limit = self.runtime.limits.bytes_in;
        let bytes = bytes + session.map_or(0, key_bytes);
        if bytes > limit {
            return Err(CallError::RequestTooLarge { bytes, limit });
        }
        let state = self.state();
        state.unit = Unit::new(export, state.ticks.load(Ordering::Relaxed), bytes);
        if let Some(access) = export.access() {
            begin(state, access)?;
            // How long it waited for its turn is none of the component's time.
            state.unit.began = state.ticks.load(Ordering::Relaxed);
        } else {
            // Whose text it is given is not known.
            self.instances.drop_of(session);
        }

        let state = self.take_state();
        let (state, called) = self.instances.call(session, state, &self.runtime.limits, |run| {
            let called = function(run)?;
            if let Err(error) = &called {
                answers::error(run.seen(), session, error)?;
            }
            Ok(called)
        });
        self.state = Some(state);
        if export.access().is_none() {
            self.instances.drop_of(session);
        }
        if matches!(export, Export::Forget | Export::SessionEnded | Export::Sweep) {
            // Nor does a copy of what is needed no more stay in the memory of another caller's.
            self.instances.clear();
        }
        let result = match called {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(CallError::Policy(error)),
            Err(error) => Err(stopped(export, error)),
        };
        self.end(export, session, result)
    }

    /// Commit or undo, and keep the audit either way.
    fn end<T>(
        &mut self,
        export: Export,
        session: Option<&SessionKey>,
        result: Result<T, CallError>,
    ) -> Result<T, CallError> {
        let component = self.runtime.digest.clone();
        let state = self.state();
        let at = if state.unit.audit.is_empty() { 0 } else { state.now() };
        let row = |entry, rolled_back| AuditRow {
            at,
            session: session.cloned(),
            export: export.name().to_owned(),
            component: component.clone(),
            rolled_back,
            entry,
        };
        let entries = std::mem::take(&mut state.unit.audit);
        let result = result.and_then(|value| state.erase().map(|()| value).map_err(CallError::from));
        if let Some(source) = &mut state.memories {
            source.end();
        }
        let Some(access) = export.access() else { return result };

        let result = result.and_then(|value| {
            if access.writes() {
                let rows: Vec<AuditRow> = entries.iter().cloned().map(|entry| row(entry, false)).collect();
                state.store.append_audit(&rows)?;
            }
            state.store.commit()?;
            Ok(value)
        });
        if result.is_err() {
            state.store.roll_back();
        }
        // A unit that reads has no transaction to write in; one that was undone has none any more.
        if result.is_err() || access == Access::Read {
            let rolled_back = result.is_err();
            let rows: Vec<AuditRow> = entries.into_iter().map(|entry| row(entry, rolled_back)).collect();
            if !rows.is_empty()
                && let Err(failure) = state.store.append_audit(&rows)
            {
                log::error!("{} audit entries could not be written: {failure}", rows.len());
            }
        }
        result
    }

    fn state(&mut self) -> &mut State<S> {
        let state = self.take_state();
        self.state.insert(state)
    }

    /// Where a function of the host's panicked, its unit is undone now.
    fn take_state(&mut self) -> Box<State<S>> {
        if let Some(state) = self.state.take() {
            return state;
        }
        match self.instances.after_panic() {
            Some(mut state) => {
                state.store.roll_back();
                if let Some(source) = &mut state.memories {
                    source.end();
                }
                state
            }
            None => panic!("a function of the host's panicked while an instance was made, and the store went with it"),
        }
    }
}

/// What a call works with.
pub(crate) struct RunningRef<'a, S: Store + 'static> {
    pub wasm: &'a mut wasmtime::Store<Slot<S>>,
    pub instance: &'a Instance,
    pub interfaces: &'a mut Interfaces,
    pub indices: &'a Indices,
}

impl<S: Store + 'static> RunningRef<'_, S> {
    /// What this unit has handed to the component.
    pub(crate) fn seen(&mut self) -> &mut Seen {
        &mut self.wasm.data_mut().state().unit.seen
    }

    /// The answer, if it names nothing that it may not.
    fn check<T>(
        &mut self,
        answer: Result<T, contract::Error>,
        check: impl FnOnce(&Seen, &T) -> answers::Checked,
    ) -> Called<T> {
        if let Ok(value) = &answer {
            check(self.seen(), value)?;
        }
        Ok(answer)
    }
}

fn begin<S: Store>(state: &mut State<S>, access: Access) -> Result<(), CallError> {
    state.store.begin_unit(access)?;
    if let Some(source) = &mut state.memories
        && let Err(failure) = source.begin()
    {
        state.store.roll_back();
        return Err(failure.into());
    }
    Ok(())
}

fn stopped(export: Export, error: wasmtime::Error) -> CallError {
    let export = export.name();
    if let Some(why) = error.downcast_ref::<Stopped>() {
        return CallError::Stopped { export, why: *why };
    }
    if let Some(Nonsense(what)) = error.downcast_ref::<Nonsense>() {
        return CallError::Nonsense { export, what: what.clone() };
    }
    if error.is::<PoolConcurrencyLimitError>() {
        return CallError::Stopped { export, why: Stopped::TooManyInstances };
    }
    match error.downcast_ref::<wasmtime::Trap>() {
        Some(wasmtime::Trap::Interrupt) => CallError::Stopped { export, why: Stopped::OutOfTime },
        Some(trap) => CallError::Trapped { export, why: trap.to_string() },
        None => match format!("{error:#}") {
            why if why.contains(TOO_MUCH) => CallError::Stopped { export, why: Stopped::TooMuch },
            why => CallError::Trapped { export, why },
        },
    }
}

/// How wasmtime says that one call hands over more than its host call fuel, which is [`Limits::bytes_out`]; the type of
/// that error is its own.
const TOO_MUCH: &str = "fuel allocated for hostcalls has been exhausted";

/// One more than fits, since the first tick may come at once.
pub(crate) fn ticks(time: Duration) -> u64 {
    u64::try_from(time.as_millis() / TICK.as_millis()).unwrap_or(u64::MAX - 1).saturating_add(1)
}

fn texts(list: &[String]) -> usize {
    list.iter().map(String::len).sum()
}

fn length(text: &Option<String>) -> usize {
    text.as_ref().map_or(0, String::len)
}

fn key_bytes(key: &SessionKey) -> usize {
    key.harness.len() + key.id.len()
}

fn capacity_bytes(capacity: &Capacity) -> usize {
    length(&capacity.model)
}

fn field_bytes(field: &MemoryField) -> usize {
    match field {
        MemoryField::PrefetchIds(named) => texts(&named.ids),
        MemoryField::SnapshotRef(name) => name.len(),
    }
}

fn request_bytes(request: &Request) -> usize {
    let names = length(&request.agent_type) + length(&request.call_id);
    let field = request.memory.as_ref().map_or(0, field_bytes) + request.capacity.as_ref().map_or(0, capacity_bytes);
    let priorities: usize = request.priorities.iter().map(|(id, _)| id.len() + 4).sum();
    let attributes: usize = request.attributes.iter().map(|(name, value)| name.len() + value.len()).sum();
    request.task.len() + names + field + priorities + attributes
}
