//! What must hold for any input. Each target is a module with a function `run` that takes any bytes, and panics where
//! something does not hold; `docs/reliability.md` says how they are run.

pub mod block;
pub mod cache;
pub mod delegate;
pub mod deliver;
pub mod guest;
pub mod markers;
pub mod reader;
pub mod scenarios;
pub mod scene;
pub mod wire;
pub mod world;

/// A target: its name, and what must not panic.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const TARGETS: [Target; 8] = [
    ("wire", wire::run),
    ("markers", markers::run),
    ("block", block::run),
    ("delegate", delegate::run),
    ("deliver", deliver::run),
    ("scenarios", scenarios::run),
    ("cache", cache::run),
    ("guest", guest::run),
];
