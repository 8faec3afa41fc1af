//! What a harness implements: the rows behind the policy, as two plain traits. [`Memories`] is where the memories are;
//! [`Store`] is that and everything that memory-prefetch itself keeps. `SqliteStore` and `MemoryStore` implement both.
//!
//! Storage functions are batched and dumb: rows in, rows out. What each must do is said in `wit/memories.wit`,
//! `wit/directory.wit` and `wit/snapshots.wit`; nothing here decides who may see what.

use thiserror::Error;

use crate::contract::*;

/// Why a store could not do what it was asked. The cases are those of the contract's `store-error`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StoreFailure {
    /// Locked or temporarily unreachable; nothing was done. Run the whole unit of work again later.
    #[error("the store is busy: {0}")]
    Busy(String),
    /// The store that would hold the answer does not exist or cannot be opened.
    #[error("the store is not there: {0}")]
    Absent(String),
    /// The store answered with something that cannot be right. A person must look.
    #[error("the store is damaged: {0}")]
    Damaged(String),
    /// The answer or the request is larger than the host allows.
    #[error("too large for this host: {0}")]
    TooLarge(String),
    /// Anything else.
    #[error("the store failed: {0}")]
    Other(String),
}

/// What a storage function answers.
pub type Rows<T> = Result<T, StoreFailure>;

/// What an exported call does with the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// A transaction that sees one state and changes nothing.
    Read,
    /// A transaction that nobody else writes beside.
    Write,
    /// As [`Access::Write`], but a power cut may undo it: for counts of use and notes, which nobody waits for a disk for.
    Relaxed,
}

impl Access {
    /// Whether something may be changed.
    pub fn writes(self) -> bool {
        self != Access::Read
    }
}

/// What a source of memories knows of a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The workspace that it is in, in the source's own words. `None`: in none.
    pub workspace: Option<String>,
}

/// Where memories are. A harness that has its own memory store implements this over it and leaves the rest to
/// `SqliteStore`.
pub trait Memories: Send {
    /// Start seeing one state of the store, until [`Memories::end`]. Not called on a [`Store`], whose own unit covers it.
    fn begin(&mut self) -> Rows<()> {
        Ok(())
    }

    /// The unit of work is over.
    fn end(&mut self) {}

    /// `memories.get`: the rows with these ids, in the order asked. Bodies in order while their sum is at most
    /// `max_bytes`. Must not write.
    fn memories(&mut self, ids: &[String], max_bytes: u32) -> Rows<Vec<Option<Memory>>>;

    /// `memories.search`: rows that match, best first. Must not write.
    fn search(&mut self, filter: &SearchFilter, query: &str, limit: u32, max_bytes: u32) -> Rows<Vec<Memory>>;

    /// `memories.record-access`: count one use of each row. A store that is open for reading only does nothing.
    fn record_access(&mut self, ids: &[String], at: Instant) -> Rows<()>;

    /// R17: delete the rows of these memories with all that is derived from them (index terms, old versions), as part of
    /// the open unit of work, and say which were there. Their ids are never given out again. A source that is open for
    /// reading only deletes nothing and answers with an empty list.
    fn erase(&mut self, ids: &[String]) -> Rows<Vec<String>>;

    /// R10: where these projects stand, in the order asked, for a source that keeps workspaces itself. `None`: it does not
    /// know the project, and the directory's word holds. A project that only the source knows counts as one whose memory
    /// is on and that is trusted; both are the user's to change in the directory.
    fn places(&mut self, projects: &[String]) -> Rows<Vec<Option<Place>>> {
        Ok(vec![None; projects.len()])
    }

    /// The projects of a workspace that the source keeps itself, in a fixed order.
    fn members(&mut self, workspace: &str) -> Rows<Vec<String>> {
        let _ = workspace;
        Ok(Vec::new())
    }
}

/// One audit entry with what only the host can say.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditRow {
    /// When, in epoch milliseconds.
    pub at: Instant,
    /// The calling session; `None`: the operator.
    pub session: Option<SessionKey>,
    /// The exported function, `orchestrator.delegate` for instance.
    pub export: String,
    /// SHA-256 of the component that decided, in hex.
    pub component: String,
    /// Whether the unit of work that it is about was undone.
    pub rolled_back: bool,
    /// What was decided.
    pub entry: Entry,
}

/// Everything that the component's imports are answered from.
///
/// Between [`Store::begin_unit`] and [`Store::commit`] or [`Store::roll_back`] all calls see one state. A store is used by
/// one thread at a time; several processes may use the same data.
pub trait Store: Memories {
    /// Open a unit of work. `Busy` after the store's own waiting time. What a unit that reads sees may be fixed by its
    /// first read.
    fn begin_unit(&mut self, access: Access) -> Rows<()>;
    /// Keep what the unit wrote. After an error nothing is kept, nothing that was read may be used, and no unit is open.
    fn commit(&mut self) -> Rows<()>;
    /// Undo what the unit wrote. Never fails: what is left of it must not be seen again.
    fn roll_back(&mut self);

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
    fn replay(
        &mut self,
        child: &SessionKey,
        snapshot_ref: Option<&str>,
        page: u32,
        at: Instant,
    ) -> Rows<Vec<StoredPage>>;
    /// `snapshots.end-deliveries`
    fn end_deliveries(&mut self, child: &SessionKey, at: Instant) -> Rows<()>;
    /// `snapshots.remove-unattached`
    fn remove_unattached(&mut self, at: Instant, limit: u32) -> Rows<u32>;

    /// `environment.settings`: with a project, its own value goes before the general one.
    fn settings(&mut self, project: Option<&str>, names: &[String]) -> Rows<Vec<Option<String>>>;

    /// Keep these entries: inside the open unit, or in a transaction of their own if none is open.
    fn append_audit(&mut self, rows: &[AuditRow]) -> Rows<()>;
}

/// What a storage function may tell the runtime: a failure that the component is told, or a trap that ends the call.
#[derive(Debug)]
pub(crate) enum Fault {
    Failure(StoreFailure),
    Trap(wasmtime::Error),
}

impl From<StoreFailure> for Fault {
    fn from(failure: StoreFailure) -> Fault {
        Fault::Failure(failure)
    }
}

impl From<wasmtime::Error> for Fault {
    fn from(error: wasmtime::Error) -> Fault {
        Fault::Trap(error)
    }
}

impl From<StoreFailure> for StoreError {
    fn from(failure: StoreFailure) -> StoreError {
        match failure {
            StoreFailure::Busy(why) => StoreError::Busy(why),
            StoreFailure::Absent(why) => StoreError::Absent(why),
            StoreFailure::Damaged(why) => StoreError::Damaged(why),
            StoreFailure::TooLarge(why) => StoreError::TooLarge(why),
            StoreFailure::Other(why) => StoreError::Other(why),
        }
    }
}
