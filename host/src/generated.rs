//! The contract in Rust, generated from `wit/`. Nothing is written here by hand.
#![allow(missing_docs, clippy::all)]

wasmtime::component::bindgen!({
    path: "../wit",
    world: "memory-prefetch",
    imports: { default: trappable },
    trappable_error_type: {
        "agent-memory:prefetch/types.store-error" => crate::store::Fault,
    },
    additional_derives: [Clone, PartialEq, serde::Serialize, serde::Deserialize],
});
