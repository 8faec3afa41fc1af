//! The policy of memory-prefetch: which memories a child agent is handed, in what form, and for how long.
//!
//! The exported functions are mapped to the modules that hold the rules (docs/rules.md, cited as R1 to R42) by
//! [`component!`], and the imported functions to the [`Imports`] trait, over which all rules are generic. So the same code
//! runs in a WebAssembly component, in a policy of one's own (docs/policy.md) and, for tests and benches, natively.
//!
//! Data flows one way: `wire` → `orchestrator` → `resolver` → `visibility` → `capacity` → `block` → `snapshot`;
//! `child` → `snapshot` → `block`; `recall` → `visibility`; `upkeep` → `erasure`.

pub mod audit;
pub mod block;
pub mod capacity;
pub mod child;
pub mod erasure;
#[cfg(test)]
mod fake;
pub mod guest;
pub mod hand_over;
#[cfg(target_arch = "wasm32")]
pub mod heap;
pub mod ids;
pub mod imports;
pub mod json;
pub mod markers;
pub mod orchestrator;
pub mod pages;
pub mod recall;
pub mod resolver;
pub mod session;
pub mod settings;
pub mod snapshot;
pub mod state;
pub mod tokens;
pub mod tools;
pub mod upkeep;
pub mod visibility;
pub mod wire;

pub use imports::{Host, Imports};

#[cfg(all(target_arch = "wasm32", feature = "component"))]
crate::component!(imports: Host, name: "memory-prefetch", version: env!("CARGO_PKG_VERSION"));

/// Types of the contract, generated from `wit/`.
#[allow(missing_docs, clippy::all)]
pub mod bindings {
    wit_bindgen::generate!({
        path: "../wit",
        world: "memory-prefetch",
        additional_derives: [Clone, PartialEq, serde::Serialize],
        pub_export_macro: true,
        default_bindings_module: "crate::bindings",
    });
}

/// The contract's types under short names, for the modules of this crate and its tests.
pub mod contract {
    pub use crate::bindings::agent_memory::prefetch::{
        audit::Entry,
        directory::{Direction, Link, Project, Session},
        environment::Level,
        memories::{Audience, Memory, SearchFilter},
        snapshots::{Delivery, Frozen, Given, HandOver, Offer, OfferFilter, Page, Selection, Snapshot, StoredPage},
        types::*,
    };
    pub use crate::bindings::exports::agent_memory::prefetch::{
        about::Info,
        child::{Answer, CarriedIds, Claim, Hints, Outcome as DeliveryOutcome},
        orchestrator::{Carry, Delegated, Outcome as DelegationOutcome, Request},
        tools::{Found, View},
        upkeep::{Forgotten, Swept},
        wire::{Delegation, Marked},
    };
}
