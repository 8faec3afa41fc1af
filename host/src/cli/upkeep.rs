//! `evictable` and `sweep`: what the operator runs now and then.

use serde_json::json;

use super::app::App;
use super::failure::Failure;
use super::terminal::{count, name};

/// Say which of these memories may be evicted: no living snapshot holds them
///
/// This version cannot do it yet: it says so, and exits with 5.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  memory-prefetch evictable 11 55")]
pub struct Evictable {
    /// The memories
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
}

/// Delete snapshots and delegations that nobody can get any more
///
/// In small batches, each a transaction of its own, so that nobody waits for long. This version cannot do it yet: it says so, and exits with 5.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  memory-prefetch sweep")]
pub struct Sweep {
    /// How many to delete in one batch
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    batch: u32,
}

/// Run `evictable`.
pub fn evictable(args: Evictable, app: &App) -> Result<(), Failure> {
    let mut prefetch = app.frozen()?;
    let ids = app.call(&mut prefetch, |prefetch| prefetch.evictable(&args.ids))?;
    if app.out.json {
        return app.out.object(&json!({ "evictable": ids }));
    }
    if ids.is_empty() {
        app.out.note("none of them: living snapshots hold them");
    }
    app.out.text(&ids.iter().map(|id| format!("{}\n", name(id))).collect::<String>())
}

/// Run `sweep`.
pub fn sweep(args: Sweep, app: &App) -> Result<(), Failure> {
    let mut prefetch = app.frozen()?;
    let mut removed: u64 = 0;
    loop {
        let swept = app.call(&mut prefetch, |prefetch| prefetch.sweep(args.batch))?;
        removed += u64::from(swept.removed);
        // A policy that promises more and does nothing would keep this going for ever.
        if !swept.more || swept.removed == 0 {
            break;
        }
    }
    if app.out.json {
        return app.out.object(&json!({ "removed": removed }));
    }
    let what =
        count(usize::try_from(removed).unwrap_or(usize::MAX), "snapshot or delegation", "snapshots and delegations");
    app.out.text(&format!("Removed {what}.\n"))
}
