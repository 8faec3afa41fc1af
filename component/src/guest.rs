//! The component itself: its exports, and its imports behind the [`Imports`] trait. Nothing is decided here.

use crate::Imports;
use crate::bindings::agent_memory::prefetch::{audit, directory, environment, memories, snapshots};
use crate::bindings::exports::agent_memory::prefetch::{about, child, orchestrator, tools, upkeep, wire};
use crate::contract::*;

struct Component;

crate::bindings::export!(Component with_types_in crate::bindings);

/// The host. Made at the start of each exported call, since the component keeps nothing between two calls.
struct Host;

/// A panic would otherwise leave no trace: there is no stderr. It names a place in the policy, never content.
fn host() -> Host {
    static HOOK: std::sync::Once = std::sync::Once::new();
    HOOK.call_once(|| {
        std::panic::set_hook(Box::new(|info| {
            let place = info.location().map(|l| format!("{}:{}", l.file(), l.line())).unwrap_or_default();
            environment::log(Level::Error, &format!("the policy panicked at {place}"));
        }));
    });
    Host
}

impl Imports for Host {
    fn memories(&mut self, ids: &[String], max_bytes: u32) -> Result<Vec<Option<Memory>>, StoreError> {
        memories::get(ids, max_bytes)
    }
    fn search(
        &mut self,
        filter: &SearchFilter,
        query: &str,
        limit: u32,
        max_bytes: u32,
    ) -> Result<Vec<Memory>, StoreError> {
        memories::search(filter, query, limit, max_bytes)
    }
    fn record_access(&mut self, ids: &[String], at: Instant) -> Result<(), StoreError> {
        memories::record_access(ids, at)
    }
    fn sessions(&mut self, keys: &[SessionKey]) -> Result<Vec<Option<Session>>, StoreError> {
        directory::sessions(keys)
    }
    fn projects(&mut self, ids: &[String]) -> Result<Vec<Option<Project>>, StoreError> {
        directory::projects(ids)
    }
    fn workspace_projects(&mut self, workspace: &str) -> Result<Vec<Project>, StoreError> {
        directory::workspace_projects(workspace)
    }
    fn links(&mut self, agent: &str, others: &[String]) -> Result<Vec<Link>, StoreError> {
        directory::links(agent, others)
    }
    fn insert_snapshot(&mut self, frozen: &Frozen) -> Result<(), StoreError> {
        snapshots::insert_snapshot(frozen)
    }
    fn snapshots(&mut self, refs: &[String], pages: Selection) -> Result<Vec<Option<Frozen>>, StoreError> {
        snapshots::get(refs, pages)
    }
    fn revoke(&mut self, refs: &[String], at: Instant) -> Result<(), StoreError> {
        snapshots::revoke(refs, at)
    }
    fn overwrite(&mut self, frozen: &[Frozen]) -> Result<(), StoreError> {
        snapshots::overwrite(frozen)
    }
    fn pinned(&mut self, memory_ids: &[String], at: Instant) -> Result<Vec<String>, StoreError> {
        snapshots::pinned(memory_ids, at)
    }
    fn holding(&mut self, memory_ids: &[String], limit: u32) -> Result<Vec<Frozen>, StoreError> {
        snapshots::holding(memory_ids, limit)
    }
    fn expired(&mut self, at: Instant, limit: u32) -> Result<Vec<Snapshot>, StoreError> {
        snapshots::expired(at, limit)
    }
    fn strip(&mut self, refs: &[String], keep_until: Instant) -> Result<(), StoreError> {
        snapshots::strip(refs, keep_until)
    }
    fn remove(&mut self, refs: &[String]) -> Result<(), StoreError> {
        snapshots::remove(refs)
    }
    fn insert_hand_over(&mut self, hand_over: &HandOver) -> Result<bool, StoreError> {
        snapshots::insert_hand_over(hand_over)
    }
    fn find_hand_overs(&mut self, filter: &OfferFilter, limit: u32) -> Result<Vec<Offer>, StoreError> {
        snapshots::find_hand_overs(filter, limit)
    }
    fn insert_delivery(&mut self, delivery: &Delivery) -> Result<bool, StoreError> {
        snapshots::insert_delivery(delivery)
    }
    fn deliveries(&mut self, child: &SessionKey) -> Result<Vec<Given>, StoreError> {
        snapshots::deliveries(child)
    }
    fn replay(
        &mut self,
        child: &SessionKey,
        snapshot_ref: Option<&str>,
        page: u32,
    ) -> Result<Vec<StoredPage>, StoreError> {
        snapshots::replay(child, snapshot_ref, page)
    }
    fn end_deliveries(&mut self, child: &SessionKey, at: Instant) -> Result<(), StoreError> {
        snapshots::end_deliveries(child, at)
    }
    fn remove_unattached(&mut self, at: Instant, limit: u32) -> Result<u32, StoreError> {
        snapshots::remove_unattached(at, limit)
    }
    fn now(&mut self) -> Instant {
        environment::now()
    }
    fn random_hex(&mut self, bytes: u32) -> String {
        environment::random_hex(bytes)
    }
    fn sha256(&mut self, texts: &[String]) -> Vec<String> {
        environment::sha256(texts)
    }
    fn count_tokens(&mut self, model: &str, texts: &[String]) -> Option<Vec<u32>> {
        environment::count_tokens(model, texts)
    }
    fn settings(&mut self, project: Option<&str>, names: &[String]) -> Vec<Option<String>> {
        environment::settings(project, names)
    }
    fn log(&mut self, level: Level, line: &str) {
        environment::log(level, line)
    }
    fn append_audit(&mut self, entries: &[Entry]) {
        audit::append(entries)
    }
}

impl orchestrator::Guest for Component {
    fn estimate(session: SessionKey, request: Request) -> Result<DelegationOutcome, Error> {
        crate::orchestrator::estimate(&mut host(), &session, &request)
    }
    fn delegate(session: SessionKey, request: Request) -> Result<DelegationOutcome, Error> {
        crate::orchestrator::delegate(&mut host(), &session, &request)
    }
    fn revalidate(session: SessionKey, snapshot_ref: String) -> Result<Receipt, Error> {
        crate::orchestrator::revalidate(&mut host(), &session, &snapshot_ref)
    }
    fn revoke(session: SessionKey, snapshot_ref: String) -> Result<(), Error> {
        crate::orchestrator::revoke(&mut host(), &session, &snapshot_ref)
    }
}

impl child::Guest for Component {
    fn deliver(child: SessionKey, occasion: String, claim: Claim) -> Result<Answer, Error> {
        crate::child::deliver(&mut host(), &child, &occasion, &claim)
    }
    fn replay(child: SessionKey) -> Result<Vec<Block>, Error> {
        crate::child::replay(&mut host(), &child)
    }
    fn page(child: SessionKey, snapshot_ref: String, number: u32) -> Result<Block, Error> {
        crate::child::page(&mut host(), &child, &snapshot_ref, number)
    }
}

impl tools::Guest for Component {
    fn get(session: SessionKey, ids: Vec<String>) -> Result<Found, Error> {
        crate::tools::get(&mut host(), &session, &ids)
    }
    fn recall(session: SessionKey, target: Option<String>, query: String, limit: u32) -> Result<Vec<View>, Error> {
        crate::recall::recall(&mut host(), &session, target.as_deref(), &query, limit)
    }
}

impl upkeep::Guest for Component {
    fn evictable(memory_ids: Vec<String>) -> Result<Vec<String>, Error> {
        crate::upkeep::evictable(&mut host(), &memory_ids)
    }
    fn sweep(limit: u32) -> Result<Swept, Error> {
        crate::upkeep::sweep(&mut host(), limit)
    }
    fn session_ended(session: SessionKey) -> Result<(), Error> {
        crate::upkeep::session_ended(&mut host(), &session)
    }
    fn forget(memory_ids: Vec<String>) -> Result<Forgotten, Error> {
        crate::upkeep::forget(&mut host(), &memory_ids)
    }
}

impl wire::Guest for Component {
    fn encode(delegation: Delegation) -> Result<String, Error> {
        crate::wire::encode(&delegation)
    }
    fn decode(json: String) -> Result<Delegation, Error> {
        crate::wire::decode(&json)
    }
    fn parse_markers(text: String) -> Marked {
        crate::markers::parse(&mut host(), &text)
    }
}

impl about::Guest for Component {
    fn describe() -> Info {
        Info {
            name: "memory-prefetch".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            contract: "0.1.0".into(),
            block_prefix: crate::block::PREFIX.into(),
            attributes: Vec::new(),
        }
    }
}
