//! Options that several verbs share: the task text, the memories that are named, the child's capacity, switches.

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use memory_prefetch::contract::{self, Budget, Capacity, ContextWindow, MemoryField, Mode, NamedIds};

use super::failure::Failure;

/// A switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    On,
    Off,
}

impl Switch {
    /// Whether it is on.
    pub fn is_on(self) -> bool {
        self == Switch::On
    }
}

/// `on` or `off`.
pub fn switch_word(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

/// Whether a source is trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Trust {
    Trusted,
    Untrusted,
}

impl Trust {
    /// Whether it is.
    pub fn is_trusted(self) -> bool {
        self == Trust::Trusted
    }
}

/// `trusted` or `untrusted`.
pub fn trust_word(trusted: bool) -> &'static str {
    if trusted { "trusted" } else { "untrusted" }
}

/// Frozen or live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ModeWord {
    /// The child gets the bytes as they are now, whatever happens to the memories
    Frozen,
    /// The child gets the content as it is when it asks; nothing is stored
    Live,
}

impl From<ModeWord> for Mode {
    fn from(word: ModeWord) -> Mode {
        match word {
            ModeWord::Frozen => Mode::Frozen,
            ModeWord::Live => Mode::Live,
        }
    }
}

/// A text that may stand in a file.
#[derive(Debug, clap::Args)]
pub struct Task {
    /// The task text, as the child gets it
    #[arg(long, value_name = "TEXT", conflicts_with = "task_file", allow_hyphen_values = true)]
    task: Option<String>,
    /// Read the task text from this file, or from stdin if it is -
    #[arg(long, value_name = "FILE")]
    task_file: Option<PathBuf>,
}

impl Task {
    /// The text, if one was given.
    pub fn text(self) -> Result<Option<String>, Failure> {
        match (self.task, self.task_file) {
            (Some(task), _) => Ok(Some(task)),
            (None, Some(file)) => read(&file).map(Some),
            (None, None) => Ok(None),
        }
    }
}

/// A whole file, `-` for stdin, byte for byte. Must be UTF-8: nothing here replaces characters.
pub fn read(file: &Path) -> Result<String, Failure> {
    let (name, bytes) = if file == Path::new("-") {
        let mut bytes = Vec::new();
        ("stdin".to_owned(), std::io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes))
    } else {
        (file.display().to_string(), std::fs::read(file))
    };
    let bytes = bytes.map_err(|error| Failure::malformed(format!("{name} cannot be read: {error}")))?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::malformed(format!("{name} is not valid UTF-8: byte {at} is the first wrong one")).hint(
            "texts are kept byte for byte and must be UTF-8; convert it first, with `iconv -t UTF-8` for instance",
        )
    })
}

/// Memories named by id.
#[derive(Debug, clap::Args)]
pub struct Ids {
    /// The memories, in the order in which the child shall read them
    #[arg(long, value_name = "ID,ID…", conflicts_with_all = ["id", "snapshot_ref"])]
    ids: Option<String>,
    /// One memory, exactly as written: for ids with commas or blanks in them; may be repeated
    #[arg(long, value_name = "ID", conflicts_with = "snapshot_ref")]
    id: Vec<String>,
    /// A snapshot that exists, instead of ids
    #[arg(long = "ref", value_name = "REF", id = "snapshot_ref", conflicts_with = "mode")]
    snapshot_ref: Option<String>,
    /// Whether the bytes are fixed now [default: frozen]
    #[arg(long, value_enum, value_name = "MODE")]
    mode: Option<ModeWord>,
}

impl Ids {
    /// The delegation's `memory` field.
    pub fn field(self) -> Option<MemoryField> {
        if let Some(name) = self.snapshot_ref {
            return Some(MemoryField::SnapshotRef(name));
        }
        let ids = match self.ids {
            Some(list) => list.split(',').map(|id| id.trim_matches(' ').to_owned()).collect(),
            None => self.id,
        };
        let mode = self.mode.unwrap_or(ModeWord::Frozen).into();
        (!ids.is_empty()).then_some(MemoryField::PrefetchIds(NamedIds { ids, mode }))
    }

    /// The mode that was asked for.
    pub fn mode(&self) -> Mode {
        self.mode.unwrap_or(ModeWord::Frozen).into()
    }
}

/// What a budget is measured in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum UnitWord {
    Tokens,
    Bytes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OverflowWord {
    /// Refuse, and say what each memory takes
    Refuse,
    /// Leave out whole memories, lowest priority first
    TrimPriority,
    /// Leave out whole memories, least recently updated first
    TrimRecency,
    /// Make several pages, each within the budget
    Paginate,
}

/// How much of the child's context memories may take.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "The child's own capacity")]
pub struct CapacityArgs {
    /// At most this much, fences and headings included; never the parent's window
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "window")]
    budget: Option<u32>,
    /// What --budget is measured in [default: tokens]
    #[arg(long, value_enum, value_name = "UNIT", requires = "budget")]
    unit: Option<UnitWord>,
    /// Instead of --budget: the child model's whole window in tokens, from which the next four are taken off
    #[arg(long, value_name = "TOKENS")]
    window: Option<u32>,
    /// Kept free for the child's answer
    #[arg(long, value_name = "TOKENS", requires = "window", default_value_t = 0)]
    output_reserve: u32,
    /// The child's system text
    #[arg(long, value_name = "TOKENS", requires = "window", default_value_t = 0)]
    system: u32,
    /// The child's tool definitions
    #[arg(long, value_name = "TOKENS", requires = "window", default_value_t = 0)]
    tools: u32,
    /// The task text and what else is in the child's first request
    #[arg(long, value_name = "TOKENS", requires = "window", default_value_t = 0)]
    task_tokens: u32,
    /// The child's model, for exact token counts; without one, or for one whose tokenizer is not public, an upper bound
    /// is used
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// What to do with memories that do not fit
    #[arg(long, value_enum, value_name = "HOW", default_value_t = OverflowWord::Refuse)]
    overflow: OverflowWord,
}

impl CapacityArgs {
    /// The capacity, if one was given.
    pub fn capacity(self) -> Option<Capacity> {
        let budget = match (self.budget, self.window) {
            (Some(n), _) if self.unit == Some(UnitWord::Bytes) => Budget::Bytes(n),
            (Some(n), _) => Budget::Tokens(n),
            (None, Some(window)) => Budget::Window(ContextWindow {
                window,
                output_reserve: self.output_reserve,
                system: self.system,
                tools: self.tools,
                task: self.task_tokens,
            }),
            (None, None) => return None,
        };
        let overflow = match self.overflow {
            OverflowWord::Refuse => contract::Overflow::Refuse,
            OverflowWord::TrimPriority => contract::Overflow::TrimPriority,
            OverflowWord::TrimRecency => contract::Overflow::TrimRecency,
            OverflowWord::Paginate => contract::Overflow::Paginate,
        };
        Some(Capacity { budget, model: self.model, overflow })
    }
}
