//! What every verb needs from outside: the global options, and the store, the component and the clock that they name.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant as Stopwatch};

use directories::ProjectDirs;
use memory_prefetch::contract::{Error, Instant, StoreError};
use memory_prefetch::environment::Clock;
use memory_prefetch::limits::Limits;
use memory_prefetch::store::StoreFailure;
use memory_prefetch::{CallError, Prefetch, Runtime, SqliteOptions, SqliteStore};

use super::failure::Failure;
use super::terminal::Output;
use super::values;

/// Options of every verb.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Global options")]
pub struct Globals {
    /// The store, sqlite:PATH [default: memory-prefetch/store.sqlite in your data directory]
    #[arg(long, global = true, value_name = "URL", env = "MEMORY_PREFETCH_STORE", hide_env_values = true, value_parser = values::store_url)]
    pub store: Option<PathBuf>,
    /// Run this policy component instead of the built-in one
    #[arg(long, global = true, value_name = "PATH", env = "MEMORY_PREFETCH_COMPONENT", hide_env_values = true)]
    pub component: Option<PathBuf>,
    /// Run the component only if this is its SHA-256
    #[arg(long, global = true, value_name = "HEX", value_parser = values::sha256)]
    pub component_sha256: Option<String>,
    /// Answer with one JSON object, and with {"error": …} on stderr
    #[arg(long, global = true)]
    pub json: bool,
    /// Take this for the time, RFC 3339 with any offset: for tests and dry runs
    #[arg(long, global = true, value_name = "RFC3339", value_parser = values::instant)]
    pub now: Option<Instant>,
    /// How long to wait for another process that writes to the store
    #[arg(long, global = true, value_name = "DURATION", default_value = "5s", value_parser = values::duration)]
    pub busy_timeout: Duration,
}

/// Whether a store that is not there is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// By verbs that add something.
    Create,
    /// Everywhere else: a mistyped path shall not look like an empty store.
    Refuse,
}

/// The program while one verb runs.
pub struct App {
    globals: Globals,
    /// Where the answer goes.
    pub out: Output,
}

impl App {
    /// With these options.
    pub fn new(globals: Globals) -> App {
        let out = Output { json: globals.json };
        App { globals, out }
    }

    /// `--now`, or the system's clock.
    pub fn clock(&self) -> Clock {
        self.globals.now.map_or(Clock::System, Clock::Fixed)
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.clock().now()
    }

    /// The component of `--component`, or the built-in one. Compiled code is kept in the user's cache directory.
    pub fn runtime(&self) -> Result<Runtime, Failure> {
        self.runtime_within(Limits::default())
    }

    fn runtime_within(&self, limits: Limits) -> Result<Runtime, Failure> {
        let mut builder = Runtime::builder().limits(limits);
        if let Some(path) = &self.globals.component {
            builder = builder.component_file(path);
        }
        if let Some(digest) = &self.globals.component_sha256 {
            builder = builder.sha256(digest);
        }
        if let Some(dirs) = dirs() {
            builder = builder.cache_dir(dirs.cache_dir());
        }
        let mut runtime = builder.build()?;
        runtime.set_clock(self.clock());
        Ok(runtime)
    }

    /// The store of `--store`, or the one in the user's data directory.
    pub fn store(&self, missing: Missing) -> Result<SqliteStore, Failure> {
        let path = match &self.globals.store {
            Some(path) => path.clone(),
            None => dirs().map(|dirs| dirs.data_dir().join("store.sqlite")).ok_or_else(|| {
                Failure::malformed("this system has no data directory for you")
                    .hint("say where the store is with --store sqlite:PATH")
            })?,
        };
        let create = missing == Missing::Create;
        if create && self.globals.store.is_none() {
            create_dir(path.parent())?;
        }
        Ok(SqliteStore::open(path, &SqliteOptions { busy_timeout: self.globals.busy_timeout, create })?)
    }

    /// The component over the store.
    pub fn prefetch(&self) -> Result<Prefetch<SqliteStore>, Failure> {
        let store = self.store(Missing::Refuse)?;
        Ok(self.runtime()?.open(store)?)
    }

    /// The same for an erasure, which reads and writes every snapshot that holds a memory, however many those are: what
    /// one call may take in all is not bounded, what it may hold at a time is.
    pub fn prefetch_without_limits(&self) -> Result<Prefetch<SqliteStore>, Failure> {
        const DAY: Duration = Duration::from_secs(86_400);
        let store = self.store(Missing::Refuse)?;
        let limits = Limits { time: DAY, host_calls: u32::MAX, bytes_in: usize::MAX, ..Limits::default() };
        Ok(self.runtime_within(limits)?.open(store)?)
    }

    /// One exported call. A race that was lost is run again, as the contract says, for as long as `--busy-timeout`.
    pub fn call<T>(
        &self,
        prefetch: &mut Prefetch<SqliteStore>,
        call: impl Fn(&mut Prefetch<SqliteStore>) -> Result<T, CallError>,
    ) -> Result<T, Failure> {
        const PAUSE: Duration = Duration::from_millis(5);
        let started = Stopwatch::now();
        loop {
            match call(prefetch) {
                Err(CallError::Store(StoreFailure::Busy(_)) | CallError::Policy(Error::Store(StoreError::Busy(_))))
                    if started.elapsed() < self.globals.busy_timeout =>
                {
                    std::thread::sleep(PAUSE)
                }
                answer => return Ok(answer?),
            }
        }
    }
}

fn dirs() -> Option<ProjectDirs> {
    ProjectDirs::from("", "", "memory-prefetch")
}

/// Of this user alone, as the store is.
fn create_dir(dir: Option<&Path>) -> Result<(), Failure> {
    let Some(dir) = dir else { return Ok(()) };
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir).map_err(|error| {
        StoreFailure::Absent(format!("the directory {} cannot be made: {error}", dir.display())).into()
    })
}
