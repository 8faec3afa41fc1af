//! Builds WebAssembly components with nothing but cargo and a crate.
//!
//! [`toolchain`] finds, or gets, a compiler that can build for [`TARGET`]; [`component`] builds a package with it and
//! turns the result into a component. Both serve the `xtask` program and the host's build script, so there is one way
//! in which a component comes about. The library prints nothing but what cargo prints and, without being asked
//! ([`toolchain::obtain`]), installs nothing.

pub mod component;
pub mod toolchain;

/// The target that the guests are built for: no WASI, so that a component imports our contract and nothing else.
pub const TARGET: &str = "wasm32-unknown-unknown";
