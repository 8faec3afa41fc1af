//! `wire encode|decode`: the delegation's JSON, without a store.

use std::path::Path;

use memory_prefetch::contract::{Delegation, MemoryField, Mode};
use memory_prefetch::{MemoryStore, Prefetch};

use super::app::App;
use super::failure::Failure;
use super::request::{Ids, Task, read};
use super::terminal::{names, visible_json};

/// The delegation as JSON: the task and the `memory` field
#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// Write a delegation: the task from stdin or --task, the memories from --ids or --ref
    ///
    /// Nothing is looked up and nothing is registered; `memory-prefetch delegate` does that.
    #[command(after_help = "Example:\n  printf 'Review the login form' | memory-prefetch wire encode --ids 11,55\n  \
                            memory-prefetch wire encode --task 'Review the login form' --ids 11,55 --mode live")]
    Encode {
        #[command(flatten)]
        task: Task,
        #[command(flatten)]
        ids: Ids,
    },
    /// Read a delegation from stdin and say what it names
    ///
    /// With --json: the same delegation as `encode` writes it. Numbers become strings, a missing mode becomes frozen.
    #[command(after_help = "Example:\n  echo '{\"task\":\"Review\",\"memory\":{\"prefetch_ids\":[11,\"#55\"]}}' | \
                            memory-prefetch wire decode")]
    Decode,
}

/// Run it.
pub fn run(verb: Verb, app: &App) -> Result<(), Failure> {
    let mut prefetch = app.runtime()?.open(MemoryStore::new())?;
    match verb {
        Verb::Encode { task, ids } => {
            let task = match task.text()? {
                Some(task) => task,
                None => read(Path::new("-"))?,
            };
            write(app, &mut prefetch, &Delegation { task, memory: ids.field() })
        }
        Verb::Decode => {
            let delegation = prefetch.decode(&read(Path::new("-"))?)?;
            if app.out.json {
                return write(app, &mut prefetch, &delegation);
            }
            let memory = match &delegation.memory {
                None => "none".to_owned(),
                Some(MemoryField::SnapshotRef(snapshot_ref)) => format!("snapshot {snapshot_ref}"),
                Some(MemoryField::PrefetchIds(named)) => {
                    let mode = if named.mode == Mode::Live { "live" } else { "frozen" };
                    format!("{} ({mode})", names(&named.ids))
                }
            };
            app.out.text(&format!("Memories: {memory}\nTask:\n"))?;
            app.out.exact(&delegation.task)?;
            app.out.text("\n")
        }
    }
}

/// One line, JSON either way.
fn write(app: &App, prefetch: &mut Prefetch<MemoryStore>, delegation: &Delegation) -> Result<(), Failure> {
    let line = prefetch.encode(delegation)?;
    app.out.text(&format!("{}\n", if app.out.json { line } else { visible_json(&line) }))
}
