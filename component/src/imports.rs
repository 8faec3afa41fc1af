//! What the policy asks of its host, as a trait: the WIT imports that it uses, one method each. Each goes to the import
//! unless it is written anew: natively a test or bench writes all of them, a policy of one's own those that it changes.

use crate::bindings::agent_memory::prefetch::{audit, directory, environment, memories, snapshots};
use crate::contract::*;

type Rows<T> = Result<T, StoreError>;

/// The host, as it is. Made at the start of each exported call, since a component keeps nothing between two calls.
pub struct Host;

impl Imports for Host {}

/// The imported functions. What each must do is said in `wit/`, under the interface that its doc names. Outside of a
/// component there is no host: a method that is left as it is panics there.
pub trait Imports {
    /// `memories.get`
    fn memories(&mut self, ids: &[String], max_bytes: u32) -> Rows<Vec<Option<Memory>>> {
        memories::get(ids, max_bytes)
    }

    /// `memories.search`
    fn search(&mut self, filter: &SearchFilter, query: &str, limit: u32, max_bytes: u32) -> Rows<Vec<Memory>> {
        memories::search(filter, query, limit, max_bytes)
    }
    /// `memories.record-access`
    fn record_access(&mut self, ids: &[String], at: Instant) -> Rows<()> {
        memories::record_access(ids, at)
    }

    /// `directory.sessions`
    fn sessions(&mut self, keys: &[SessionKey]) -> Rows<Vec<Option<Session>>> {
        directory::sessions(keys)
    }
    /// `directory.projects`
    fn projects(&mut self, ids: &[String]) -> Rows<Vec<Option<Project>>> {
        directory::projects(ids)
    }
    /// `directory.workspace-projects`
    fn workspace_projects(&mut self, workspace: &str) -> Rows<Vec<Project>> {
        directory::workspace_projects(workspace)
    }
    /// `directory.links`
    fn links(&mut self, agent: &str, others: &[String]) -> Rows<Vec<Link>> {
        directory::links(agent, others)
    }

    /// `snapshots.insert-snapshot`
    fn insert_snapshot(&mut self, frozen: &Frozen) -> Rows<()> {
        snapshots::insert_snapshot(frozen)
    }
    /// `snapshots.get`
    fn snapshots(&mut self, refs: &[String], pages: Selection) -> Rows<Vec<Option<Frozen>>> {
        snapshots::get(refs, pages)
    }
    /// `snapshots.revoke`
    fn revoke(&mut self, refs: &[String], at: Instant) -> Rows<()> {
        snapshots::revoke(refs, at)
    }
    /// `snapshots.overwrite`
    fn overwrite(&mut self, frozen: &[Frozen]) -> Rows<()> {
        snapshots::overwrite(frozen)
    }
    /// `snapshots.pinned`
    fn pinned(&mut self, memory_ids: &[String], at: Instant) -> Rows<Vec<String>> {
        snapshots::pinned(memory_ids, at)
    }
    /// `snapshots.holding`
    fn holding(&mut self, memory_ids: &[String], limit: u32) -> Rows<Vec<Frozen>> {
        snapshots::holding(memory_ids, limit)
    }
    /// `snapshots.expired`
    fn expired(&mut self, at: Instant, limit: u32) -> Rows<Vec<Snapshot>> {
        snapshots::expired(at, limit)
    }
    /// `snapshots.strip`
    fn strip(&mut self, refs: &[String], keep_until: Instant) -> Rows<()> {
        snapshots::strip(refs, keep_until)
    }
    /// `snapshots.remove`
    fn remove(&mut self, refs: &[String]) -> Rows<()> {
        snapshots::remove(refs)
    }
    /// `snapshots.insert-hand-over`
    fn insert_hand_over(&mut self, hand_over: &HandOver) -> Rows<bool> {
        snapshots::insert_hand_over(hand_over)
    }
    /// `snapshots.find-hand-overs`
    fn find_hand_overs(&mut self, filter: &OfferFilter, limit: u32) -> Rows<Vec<Offer>> {
        snapshots::find_hand_overs(filter, limit)
    }
    /// `snapshots.insert-delivery`
    fn insert_delivery(&mut self, delivery: &Delivery) -> Rows<bool> {
        snapshots::insert_delivery(delivery)
    }
    /// `snapshots.deliveries`
    fn deliveries(&mut self, child: &SessionKey) -> Rows<Vec<Given>> {
        snapshots::deliveries(child)
    }
    /// `snapshots.replay`
    fn replay(
        &mut self,
        child: &SessionKey,
        snapshot_ref: Option<&str>,
        page: u32,
        at: Instant,
    ) -> Rows<Vec<StoredPage>> {
        snapshots::replay(child, snapshot_ref, page, at)
    }
    /// `snapshots.end-deliveries`
    fn end_deliveries(&mut self, child: &SessionKey, at: Instant) -> Rows<()> {
        snapshots::end_deliveries(child, at)
    }
    /// `snapshots.remove-unattached`
    fn remove_unattached(&mut self, at: Instant, limit: u32) -> Rows<u32> {
        snapshots::remove_unattached(at, limit)
    }

    /// `environment.now`
    fn now(&mut self) -> Instant {
        environment::now()
    }
    /// `environment.random-hex`
    fn random_hex(&mut self, bytes: u32) -> String {
        environment::random_hex(bytes)
    }
    /// `environment.sha256`
    fn sha256(&mut self, texts: &[String]) -> Vec<String> {
        environment::sha256(texts)
    }
    /// `environment.count-tokens`
    fn count_tokens(&mut self, model: &str, texts: &[String]) -> Option<Vec<u32>> {
        environment::count_tokens(model, texts)
    }
    /// `environment.settings`
    fn settings(&mut self, project: Option<&str>, names: &[String]) -> Vec<Option<String>> {
        environment::settings(project, names)
    }
    /// `environment.log`
    fn log(&mut self, level: Level, line: &str) {
        environment::log(level, line)
    }

    /// `audit.append`
    fn append_audit(&mut self, entries: &[Entry]) {
        audit::append(entries)
    }
}
