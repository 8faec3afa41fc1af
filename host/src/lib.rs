//! The reference host of memory-prefetch.

mod allowance;
mod answers;
mod cache;
pub mod conformance;
mod engine;
pub mod environment;
pub mod exports;
mod generated;
mod imports;
mod instances;
mod interfaces;
pub mod json;
pub mod limits;
pub mod memory_store;
pub mod operator;
mod overlay;
pub mod project_identity;
mod request;
pub mod runtime;
mod search;
pub mod sources;
pub mod sqlite_store;
pub mod store;
pub mod tokens;
pub mod world;

pub use instances::KEPT_INSTANCES;
pub use memory_store::MemoryStore;
/// What a child is told where the component could not run, or answered an error that the child is to know of
/// (docs/hosts.md). Begins like every block.
pub const NOTICE: &str = "[memory-prefetch] No memories were delivered: they could not be read. Go on without them, or ask the agent \
     that delegated this task.\n";

pub use project_identity::project_identity;
pub use runtime::{CallError, Erased, LoadError, Prefetch, Runtime};
pub use sources::{MagicContext, Spacebot};
pub use sqlite_store::{SqliteOptions, SqliteStore};

/// The contract's types, generated from `wit/`.
pub mod contract {
    pub use crate::generated::agent_memory::prefetch::{
        audit::Entry,
        directory::{Direction, Link, Project, Session},
        environment::Level,
        memories::{Audience, Memory, SearchFilter},
        snapshots::{Delivery, Frozen, Given, HandOver, Offer, OfferFilter, Page, Selection, Snapshot, StoredPage},
        types::*,
    };
    pub use crate::generated::exports::agent_memory::prefetch::{
        about::Info,
        child::{Answer, CarriedIds, Claim, Hints, Outcome as DeliveryOutcome},
        orchestrator::{Carry, Delegated, Outcome as DelegationOutcome, Request},
        tools::{Found, View},
        upkeep::{Forgotten, Swept},
        wire::{Delegation, Marked},
    };
}
