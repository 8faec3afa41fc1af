//! What the policy asks of its host, as a trait: the WIT imports that it uses, one method each. In the component they
//! go to the host (`guest`); natively a test or bench implements them.

use crate::contract::*;

type Rows<T> = Result<T, StoreError>;

/// The imported functions. What each must do is said in `wit/`, under the interface that its doc names.
pub trait Imports {
    /// `memories.get`
    fn memories(&mut self, ids: &[String], max_bytes: u32) -> Rows<Vec<Option<Memory>>>;

    /// `memories.search`
    fn search(&mut self, filter: &SearchFilter, query: &str, limit: u32, max_bytes: u32) -> Rows<Vec<Memory>>;
    /// `memories.record-access`
    fn record_access(&mut self, ids: &[String], at: Instant) -> Rows<()>;

    /// `directory.sessions`
    fn sessions(&mut self, keys: &[SessionKey]) -> Rows<Vec<Option<Session>>>;
    /// `directory.projects`
    fn projects(&mut self, ids: &[String]) -> Rows<Vec<Option<Project>>>;
    /// `directory.workspace-projects`
    fn workspace_projects(&mut self, workspace: &str) -> Rows<Vec<Project>>;
    /// `directory.links`
    fn links(&mut self, agent: &str, others: &[String]) -> Rows<Vec<Link>>;

    /// `snapshots.insert-snapshot`
    fn insert_snapshot(&mut self, frozen: &Frozen) -> Rows<()>;
    /// `snapshots.get`
    fn snapshots(&mut self, refs: &[String], pages: Selection) -> Rows<Vec<Option<Frozen>>>;
    /// `snapshots.revoke`
    fn revoke(&mut self, refs: &[String], at: Instant) -> Rows<()>;
    /// `snapshots.overwrite`
    fn overwrite(&mut self, frozen: &[Frozen]) -> Rows<()>;
    /// `snapshots.pinned`
    fn pinned(&mut self, memory_ids: &[String], at: Instant) -> Rows<Vec<String>>;
    /// `snapshots.holding`
    fn holding(&mut self, memory_ids: &[String], limit: u32) -> Rows<Vec<Frozen>>;
    /// `snapshots.expired`
    fn expired(&mut self, at: Instant, limit: u32) -> Rows<Vec<Snapshot>>;
    /// `snapshots.strip`
    fn strip(&mut self, refs: &[String], keep_until: Instant) -> Rows<()>;
    /// `snapshots.remove`
    fn remove(&mut self, refs: &[String]) -> Rows<()>;
    /// `snapshots.insert-hand-over`
    fn insert_hand_over(&mut self, hand_over: &HandOver) -> Rows<bool>;
    /// `snapshots.find-hand-overs`
    fn find_hand_overs(&mut self, filter: &OfferFilter, limit: u32) -> Rows<Vec<Offer>>;
    /// `snapshots.insert-delivery`
    fn insert_delivery(&mut self, delivery: &Delivery) -> Rows<bool>;
    /// `snapshots.deliveries`
    fn deliveries(&mut self, child: &SessionKey) -> Rows<Vec<Given>>;
    /// `snapshots.replay`
    fn replay(&mut self, child: &SessionKey, snapshot_ref: Option<&str>, page: u32) -> Rows<Vec<StoredPage>>;
    /// `snapshots.end-deliveries`
    fn end_deliveries(&mut self, child: &SessionKey, at: Instant) -> Rows<()>;
    /// `snapshots.remove-unattached`
    fn remove_unattached(&mut self, at: Instant, limit: u32) -> Rows<u32>;

    /// `environment.now`
    fn now(&mut self) -> Instant;
    /// `environment.random-hex`
    fn random_hex(&mut self, bytes: u32) -> String;
    /// `environment.sha256`
    fn sha256(&mut self, texts: &[String]) -> Vec<String>;
    /// `environment.count-tokens`
    fn count_tokens(&mut self, model: &str, texts: &[String]) -> Option<Vec<u32>>;
    /// `environment.settings`
    fn settings(&mut self, project: Option<&str>, names: &[String]) -> Vec<Option<String>>;
    /// `environment.log`
    fn log(&mut self, level: Level, line: &str);

    /// `audit.append`
    fn append_audit(&mut self, entries: &[Entry]);
}
