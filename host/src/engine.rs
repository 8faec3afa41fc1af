//! How the WebAssembly engine is set up.

use wasmtime::{Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, Result};

use crate::limits::Limits;

/// An engine that keeps the memory of instances in a pool, if the limits say so. A new caller gets a new instance, and is
/// the first to wait for it: in memory that is there already it is made in two thirds of the time, and its code waits for
/// no page faults. `None` also where there is not so much address space.
pub(crate) fn pooled(limits: &Limits) -> Option<Engine> {
    /// Core instances and tables of one of our components, as many as wit-component makes or more.
    const CORE: u32 = 4;
    /// What 32 bits reach. How much of it may be used is for the meter, which says what went wrong.
    const MEMORY: usize = 1 << 32;
    /// How much of an instance's memory is written over for the next one, from its beginning; the rest is given back to
    /// the system. One of ours has 256 KiB, and for large requests more.
    const KEPT: usize = 512 << 10;
    /// How many places without an instance keep that.
    const WARM: u32 = 4;

    if limits.instances == 0 {
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
        // Linux can tell which pages were written, but not of those that were swapped out since: what was in them would
        // be the next caller's.
        .pagemap_scan(Enabled::No);
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
    // What a debugger or a profiler would use is a third of the compiled code, which each new process reads; nothing here
    // shows it. Windows cannot do without the tables for unwinding.
    config.generate_address_map(false).wasm_backtrace_max_frames(None).native_unwind_info(cfg!(windows));
    config
}
