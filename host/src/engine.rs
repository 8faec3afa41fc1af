//! How the WebAssembly engine is set up.

use wasmtime::{Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, Result};

use crate::limits::Limits;

/// An engine that keeps instances in a pool, if that is of use on this system.
///
/// A new caller gets a new instance, so making one should not take long. Linux can tell since 6.7 which pages an instance
/// has written, so that they alone are written back to what they were: with that, a pool takes two thirds of the time that
/// a mapping for each instance does. Without it a pool would be no quicker. `None` also where there is not so much address
/// space.
pub(crate) fn pooled(limits: &Limits) -> Option<Engine> {
    /// Core instances and tables of one of our components, as many as wit-component makes or more.
    const CORE: u32 = 4;
    /// What 32 bits reach. How much of it may be used is for the meter, which says what went wrong.
    const MEMORY: usize = 1 << 32;
    /// What stays with a place in the pool for the next instance, which then waits for no page faults: more than one of
    /// ours takes.
    const KEPT: usize = 2 << 20;
    /// How many places without an instance keep that.
    const WARM: u32 = 4;

    if !PoolingAllocationConfig::is_pagemap_scan_available() {
        return None;
    }
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(limits.instances)
        .total_core_instances(limits.instances.saturating_mul(CORE))
        .total_tables(limits.instances.saturating_mul(CORE))
        .total_memories(limits.instances)
        .table_elements(limits.table_elements)
        .max_memory_size(MEMORY)
        .max_unused_warm_slots(WARM)
        .linear_memory_keep_resident(KEPT)
        .table_keep_resident(KEPT)
        .pagemap_scan(Enabled::Yes);
    let mut config = config();
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    Engine::new(&config).ok()
}

/// An engine that makes every instance by itself.
pub(crate) fn plain() -> Result<Engine> {
    Engine::new(&config())
}

fn config() -> Config {
    let mut config = Config::new();
    config.wasm_component_model(true);
    config.epoch_interruption(true);
    // On by default in wasmtime 48; it makes each call 2.4 times slower, and nothing here is concurrent.
    config.concurrency_support(false);
    config
}
