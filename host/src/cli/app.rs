//! What every verb needs from outside: the global options, and the store, the component and the clock that they name.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant as Stopwatch};

use directories::ProjectDirs;
use memory_prefetch::contract::{Error, Instant, StoreError};
use memory_prefetch::environment::Clock;
use memory_prefetch::limits::Limits;
use memory_prefetch::sources::{Options, Unreachable};
use memory_prefetch::store::StoreFailure;
use memory_prefetch::{CallError, MagicContext, Prefetch, Runtime, Spacebot, SqliteOptions, SqliteStore};

use super::failure::{Exit, Failure};
use super::request::Trust;
use super::terminal::Output;
use super::values::{self, Source};

/// Options of every verb.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Global options")]
pub struct Globals {
    /// The store, sqlite:PATH [default: memory-prefetch/store.sqlite in your data directory]
    #[arg(long, global = true, value_name = "URL", env = "MEMORY_PREFETCH_STORE", hide_env_values = true, value_parser = values::store_url)]
    pub store: Option<PathBuf>,
    /// Read memories from another program's store, and never write there: magic-context:PATH or spacebot:DIR
    #[arg(long, global = true, value_name = "KIND:PATH", env = "MEMORY_PREFETCH_MEMORIES", hide_env_values = true, value_parser = values::source)]
    pub memories: Option<Source>,
    /// Whether what is in the store of --memories is trusted; untrusted memories are never handed over
    #[arg(long, global = true, value_enum, value_name = "TRUST", default_value_t = Trust::Trusted)]
    pub memories_trust: Trust,
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
    /// The store of `--memories` could not be opened.
    source_gone: Cell<bool>,
    /// Where the answer goes.
    pub out: Output,
}

impl App {
    /// With these options.
    pub fn new(globals: Globals) -> App {
        let out = Output { json: globals.json };
        App { globals, source_gone: Cell::new(false), out }
    }

    /// `--component`.
    pub fn component(&self) -> Option<&Path> {
        self.globals.component.as_deref()
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
        // A process serves a call or two, and a pool takes longer to make than it saves.
        self.runtime_with(Limits { instances: 0, ..Limits::default() })
    }

    /// The same within these limits.
    pub fn runtime_with(&self, limits: Limits) -> Result<Runtime, Failure> {
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
                Failure::malformed("this system has no data directory for you (HOME says where it is)")
                    .hint("say where the store is with --store sqlite:PATH")
            })?,
        };
        let create = missing == Missing::Create;
        if create && self.globals.store.is_none() {
            create_dir(path.parent())?;
        }
        Ok(SqliteStore::open(path, &SqliteOptions { busy_timeout: self.globals.busy_timeout, create })?)
    }

    /// The component over the store alone, for verbs that read no memories: what was frozen can be had without them.
    pub fn frozen(&self) -> Result<Prefetch<SqliteStore>, Failure> {
        let store = self.store(Missing::Refuse)?;
        Ok(self.runtime()?.open(store)?)
    }

    /// The component over the store, and over the memories of `--memories`.
    pub fn prefetch(&self) -> Result<Prefetch<SqliteStore>, Failure> {
        let prefetch = self.frozen()?;
        let options =
            Options { busy_timeout: self.globals.busy_timeout, trusted: self.globals.memories_trust.is_trusted() };
        let opened = match &self.globals.memories {
            None => return Ok(prefetch),
            Some(Source::MagicContext(path)) => MagicContext::open(path, &options).map(|it| prefetch.with_memories(it)),
            Some(Source::Spacebot(path)) => Spacebot::open(path, &options).map(|it| prefetch.with_memories(it)),
        };
        opened.or_else(|failure| {
            self.source_gone.set(true);
            Ok(self.frozen()?.with_memories(Unreachable(failure)))
        })
    }

    /// Whether memories are another program's.
    pub fn has_source(&self) -> bool {
        self.globals.memories.is_some()
    }

    /// For verbs that change or list memories of our own.
    pub fn own_memories(&self, verb: &str) -> Result<(), Failure> {
        if !self.has_source() {
            return Ok(());
        }
        Err(Failure::new(
            Exit::Malformed,
            "source-is-read-only",
            format!("the store of --memories is only read, and `memory {verb}` is about the memories of --store"),
        )
        .hint(
            "leave out --memories (and the variable MEMORY_PREFETCH_MEMORIES); what is in the other store is changed by \
             its own program",
        ))
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
                answer => {
                    return answer.map_err(|error| {
                        let failure = Failure::from(error);
                        if self.source_gone.get() { failure.hint(SOURCE_GONE) } else { failure }
                    });
                }
            }
        }
    }
}

/// What to try where the source is what is missing.
const SOURCE_GONE: &str = "check the path after --memories, or wait until its program is done with the store there; what is \
                           frozen already can be had without it";

/// Without HOME there are none: `directories` would ask the system who the user is, and a program that has the C library in it
/// loads other ones for that, of any version, and may crash.
fn dirs() -> Option<ProjectDirs> {
    if cfg!(unix) && std::env::var_os("HOME").is_none_or(|home| home.is_empty()) {
        return None;
    }
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
