//! `evictable` and `sweep`: what the operator runs now and then.

use std::time::{Duration, Instant};

use serde_json::json;

use super::app::App;
use super::failure::Failure;
use super::terminal::{Progress, count, name};

/// Say which of these memories may be evicted: no snapshot that can be claimed or replayed holds them
///
/// For whoever makes room in a memory store: the others are pinned until their snapshots have ended. (Evicting one of
/// those would harm no snapshot, which has the text itself; but whoever reads it may want to read the memory again.)
/// Prints one id a line, nothing if all are pinned. At most 1000 ids.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  memory-prefetch evictable 11 55")]
pub struct Evictable {
    /// The memories
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
}

/// Delete what nobody can get any more
///
/// Snapshots that can be neither claimed nor replayed lose their bytes; what is left of them says for a while why nothing
/// is delivered (the setting `replay-seconds`, 30 days), then goes too. Delegations and notices without a snapshot go when
/// nobody is told of them any more.
///
/// Works in small batches, each a transaction of its own, with a pause after each, so that nobody waits for long. It can
/// be interrupted at any time and started again. Run it now and then, from cron for instance.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  memory-prefetch sweep")]
pub struct Sweep {
    /// How many to delete in one batch at most; fewer where that takes long
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1000))]
    batch: u32,
}

/// How long a batch should hold others up. They ask again every 25 ms or more often in the first 100 ms, so that with
/// pauses as long as that nobody waits for more than three batches.
const BATCH: Duration = Duration::from_millis(15);
const PAUSE: Duration = Duration::from_millis(26);

/// Run `evictable`.
pub fn evictable(args: Evictable, app: &App) -> Result<(), Failure> {
    let mut prefetch = app.frozen()?;
    let ids = app.call(&mut prefetch, |prefetch| prefetch.evictable(&args.ids))?;
    if app.out.json {
        return app.out.object(&json!({ "evictable": ids }));
    }
    if ids.is_empty() {
        app.out.note("none of them: snapshots that can still be claimed or replayed hold them");
    }
    app.out.text(&ids.iter().map(|id| format!("{}\n", name(id))).collect::<String>())
}

/// Run `sweep`.
pub fn sweep(args: Sweep, app: &App) -> Result<(), Failure> {
    let mut prefetch = app.frozen()?;
    let mut progress = Progress::default();
    let mut removed: u64 = 0;
    let mut batch = 1;
    loop {
        let started = Instant::now();
        let swept = app.call(&mut prefetch, |prefetch| prefetch.sweep(batch))?;
        let took = started.elapsed();
        removed += u64::from(swept.removed);
        // A policy that promises more and does nothing would keep this going for ever.
        if !swept.more || swept.removed == 0 {
            break;
        }
        if took > BATCH {
            batch = (batch / 2).max(1);
        } else if took < BATCH / 3 {
            batch = (batch * 2).min(args.batch);
        }
        progress.tell(|| format!("removed {removed} so far"));
        std::thread::sleep(PAUSE);
    }
    if app.out.json {
        return app.out.object(&json!({ "removed": removed }));
    }
    let what =
        count(usize::try_from(removed).unwrap_or(usize::MAX), "snapshot or delegation", "snapshots and delegations");
    app.out.text(&format!("Removed {what}.\n"))
}
