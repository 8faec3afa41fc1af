//! What one call of a component may take. A component can never crash, hang or exhaust the host: it is stopped, and the
//! caller gets a typed error.

use std::time::Duration;

use thiserror::Error;

/// The limits of one call. The defaults leave an honest policy ample room.
///
/// `upkeep.forget` must get through however many snapshots hold a memory, in one unit of work: it has 60 times
/// [`Limits::time`] and [`Limits::host_calls`], and [`Limits::bytes_in`] bounds each answer of an import, not
/// their sum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Linear memory of the component, in bytes: all its memories together. Instances that are kept for several callers
    /// share it.
    pub memory: usize,
    /// Elements of all its tables together.
    pub table_elements: usize,
    /// Instances of one [`Runtime`](crate::Runtime) at once, which are kept in a pool; each [`Prefetch`](crate::Prefetch) has
    /// up to four. Each takes 4 GiB of address space, without memory behind it; one with several memories counts as so
    /// many. 0: no pool and no such limit, for a program that ends after a few calls. Nor is there one where the address
    /// space does not suffice for so many.
    pub instances: u32,
    /// Time for one exported call, with making the instance and store calls. Checked in the component's own code and
    /// before each import; a store call that waits is bounded by the store's own waiting time.
    pub time: Duration,
    /// Imported functions that one exported call may call, and log lines that it may write beside them.
    pub host_calls: u32,
    /// Bytes of text that the host hands to the component during one call: the arguments, and what imports answer. The
    /// store is not asked for more. What an import would answer over it is the error `too-large`, which the component is
    /// told.
    pub bytes_in: usize,
    /// Bytes that the component hands to the host in one import call, or as its answer; and, in one exported call, bytes
    /// of all its audit entries, and of all texts that it has hashed.
    pub bytes_out: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            memory: 64 << 20,
            table_elements: 10_000,
            instances: 2_000,
            time: Duration::from_secs(5),
            host_calls: 20_000,
            bytes_in: 16 << 20,
            bytes_out: 16 << 20,
        }
    }
}

/// Why a call was stopped by the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Stopped {
    /// It took longer than [`Limits::time`].
    #[error("it ran longer than this host allows")]
    OutOfTime,
    /// It called imports more often than [`Limits::host_calls`].
    #[error("it called the host more often than this host allows")]
    TooManyHostCalls,
    /// It handed over more than [`Limits::bytes_out`].
    #[error("it handed more to the host than this host takes")]
    TooMuch,
    /// It called an import that this export may not call.
    #[error("it called an import that this call may not use")]
    ForbiddenImport,
    /// It asked for more than `random-hex` may give.
    #[error("it passed an argument that the contract does not allow")]
    BadArgument,
    /// There are [`Limits::instances`] already.
    #[error(
        "this runtime has as many instances as it can have at once: drop a `Prefetch`, or open this one from another runtime"
    )]
    TooManyInstances,
}

/// The most core instances, memories and tables of one component, each. One that wit-component makes has a handful.
const PARTS: usize = 16;

/// Counts what an instance takes, and refuses what is over its limits. A component may have several memories and tables,
/// so what counts is their sum.
#[derive(Debug)]
pub(crate) struct Meter {
    memory_limit: usize,
    table_limit: usize,
    /// Bytes of linear memory now.
    pub memory: usize,
    /// Elements of tables now.
    table: usize,
}

impl Meter {
    pub fn new(limits: &Limits) -> Meter {
        Meter { memory_limit: limits.memory, table_limit: limits.table_elements, memory: 0, table: 0 }
    }
}

/// Whether `sum` may grow by what `desired` is more than `current`. Growth that fails later stays counted.
fn grow(sum: &mut usize, limit: usize, current: usize, desired: usize) -> bool {
    let grown = desired.checked_sub(current).and_then(|more| sum.checked_add(more)).filter(|grown| *grown <= limit);
    if let Some(grown) = grown {
        *sum = grown;
    }
    grown.is_some()
}

impl wasmtime::ResourceLimiter for Meter {
    fn memory_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        Ok(grow(&mut self.memory, self.memory_limit, current, desired))
    }

    fn table_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        Ok(grow(&mut self.table, self.table_limit, current, desired))
    }

    fn instances(&self) -> usize {
        PARTS
    }

    fn tables(&self) -> usize {
        PARTS
    }

    fn memories(&self) -> usize {
        PARTS
    }
}
