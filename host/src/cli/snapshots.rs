//! `revalidate`, `revoke` and `snapshots list|show|verify`.

use memory_prefetch::CallError;
use memory_prefetch::contract::{Error, Instant, Selection, SessionKey, Snapshot};
use memory_prefetch::operator::{Listed, Operator};
use memory_prefetch::store::Store;
use serde::Serialize;
use serde_json::json;

use super::app::{App, Missing};
use super::failure::{Exit, Failure};
use super::shapes::{ReceiptShape, receipt_text};
use super::terminal::{count, name, names, table};
use super::values::{self, rfc3339, session_name, shown};

/// Check whether a snapshot could be handed over now, with the checksum of every page
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  memory-prefetch revalidate --session lead \"$REF\"")]
pub struct Revalidate {
    /// The session that made it, or a child of that session
    #[arg(long, value_name = "SESSION", value_parser = values::session)]
    session: SessionKey,
    /// The snapshot
    #[arg(value_name = "REF")]
    snapshot_ref: String,
}

/// Take a snapshot back: it is not delivered or replayed any more
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  memory-prefetch revoke --session lead \"$REF\"")]
pub struct Revoke {
    /// The session that made it
    #[arg(long, value_name = "SESSION", value_parser = values::session)]
    session: SessionKey,
    /// The snapshot
    #[arg(value_name = "REF")]
    snapshot_ref: String,
}

/// What was frozen, by whom, and where it stands
#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// List snapshots, youngest first
    #[command(after_help = "Example:\n  memory-prefetch snapshots list")]
    List {
        /// Pass over the first ones
        #[arg(long, value_name = "N", default_value_t = 0)]
        offset: u32,
        /// At most this many
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        limit: u32,
    },
    /// Show one snapshot: its memories and where it stands
    #[command(after_help = "Example:\n  memory-prefetch snapshots show \"$REF\"")]
    Show {
        /// The snapshot
        #[arg(value_name = "REF")]
        snapshot_ref: String,
    },
    /// Check the checksums of all snapshots that can be handed over
    ///
    /// Exit code 4 if one is damaged. Expired and revoked ones are counted and not checked: nobody new gets them.
    #[command(after_help = "Example:\n  memory-prefetch snapshots verify")]
    Verify,
}

#[derive(Serialize)]
struct Shape {
    snapshot_ref: String,
    owner: String,
    created_at: String,
    expires_at: String,
    keep_until: String,
    revoked_at: Option<String>,
    standing: &'static str,
    memories: Vec<String>,
    pages: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    deliveries: Option<u32>,
}

fn shape(row: Snapshot, deliveries: Option<u32>, now: Instant) -> Shape {
    Shape {
        standing: standing(&row, now),
        snapshot_ref: row.snapshot_ref,
        owner: session_name(&row.owner),
        created_at: rfc3339(row.created_at),
        expires_at: rfc3339(row.expires_at),
        keep_until: rfc3339(row.keep_until),
        revoked_at: row.revoked_at.map(rfc3339),
        memories: row.memory_ids,
        pages: row.pages,
        deliveries,
    }
}

/// For people; what it means is for the component to say.
fn standing(row: &Snapshot, now: Instant) -> &'static str {
    if row.revoked_at.is_some() {
        "revoked"
    } else if row.pages == 0 {
        "tombstone"
    } else if row.expires_at <= now {
        "expired"
    } else {
        "claimable"
    }
}

/// Run `revalidate`.
pub fn revalidate(args: Revalidate, app: &App) -> Result<(), Failure> {
    let mut prefetch = app.prefetch()?;
    let receipt = app.call(&mut prefetch, |prefetch| prefetch.revalidate(&args.session, &args.snapshot_ref))?;
    if app.out.json {
        return app.out.object(&json!({ "receipt": ReceiptShape::from(receipt) }));
    }
    app.out.text(&format!(
        "It can be handed over, and its bytes are those that were frozen.\n\n{}",
        receipt_text(&receipt)
    ))
}

/// Run `revoke`.
pub fn revoke(args: Revoke, app: &App) -> Result<(), Failure> {
    let mut prefetch = app.prefetch()?;
    app.call(&mut prefetch, |prefetch| prefetch.revoke(&args.session, &args.snapshot_ref))?;
    if app.out.json {
        return app.out.object(&json!({ "snapshot_ref": args.snapshot_ref, "revoked": true }));
    }
    app.out.text(&format!("Revoked {}.\n", name(&args.snapshot_ref)))
}

/// Run `snapshots …`.
pub fn run(verb: Verb, app: &App) -> Result<(), Failure> {
    match verb {
        Verb::List { offset, limit } => list(app, offset, limit),
        Verb::Show { snapshot_ref } => show(app, &snapshot_ref),
        Verb::Verify => verify(app),
    }
}

fn list(app: &App, offset: u32, limit: u32) -> Result<(), Failure> {
    let mut rows = app.store(Missing::Refuse)?.all_snapshots(offset, limit.saturating_add(1))?;
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let now = app.now();
    if app.out.json {
        let rows: Vec<Shape> = rows.into_iter().map(|row| shape(row.snapshot, Some(row.deliveries), now)).collect();
        return app.out.object(&json!({ "snapshots": rows, "more": more }));
    }
    if rows.is_empty() {
        return app.out.text("No snapshots.\n");
    }
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|Listed { snapshot: row, deliveries }| {
            vec![
                name(&row.snapshot_ref),
                name(&session_name(&row.owner)),
                shown(row.created_at),
                shown(row.expires_at),
                standing(row, now).to_owned(),
                row.memory_ids.len().to_string(),
                row.pages.to_string(),
                deliveries.to_string(),
            ]
        })
        .collect();
    let headings = ["SNAPSHOT", "OWNER", "FROZEN", "CLAIM BY", "STANDING", ">MEMORIES", ">PAGES", ">DELIVERIES"];
    app.out.text(&table(&headings, &cells))?;
    if more {
        app.out.note(&format!("there are more: --offset {}", offset.saturating_add(limit)));
    }
    Ok(())
}

fn show(app: &App, snapshot_ref: &str) -> Result<(), Failure> {
    let mut store = app.store(Missing::Refuse)?;
    let found = store.snapshots(&[snapshot_ref.to_owned()], Selection::None)?.pop().flatten();
    let Some(found) = found else {
        return Err(Failure::new(
            Exit::Refused,
            "unknown-snapshot",
            format!("there is no snapshot {}", name(snapshot_ref)),
        )
        .details(json!({ "snapshot_ref": snapshot_ref }))
        .hint("`memory-prefetch snapshots list` shows all"));
    };
    let row = found.snapshot;
    if app.out.json {
        return app.out.object(&json!({ "snapshot": shape(row, None, app.now()) }));
    }
    let mut text = format!("Snapshot {}\nOwner    {}\n", name(&row.snapshot_ref), name(&session_name(&row.owner)));
    let (frozen, claim_by, kept_to) = (shown(row.created_at), shown(row.expires_at), shown(row.keep_until));
    text += &format!("Frozen   {frozen}\nClaim by {claim_by}\nKept to  {kept_to}\n");
    if let Some(at) = row.revoked_at {
        text += &format!("Revoked  {}\n", shown(at));
    }
    let memories = if row.memory_ids.is_empty() { "none".to_owned() } else { names(&row.memory_ids) };
    let standing = standing(&row, app.now());
    text += &format!("Standing {standing}\nMemories {memories}\nPages    {}\n", row.pages);
    app.out.text(&text)
}

#[derive(Default, Serialize)]
struct Verified {
    snapshots: usize,
    sound: usize,
    expired: usize,
    revoked: usize,
    /// Memory is off for the owner, or the owner is not in the directory any more.
    out_of_reach: usize,
    corrupt: Vec<String>,
}

fn verify(app: &App) -> Result<(), Failure> {
    const BATCH: u32 = 500;
    let mut prefetch = app.prefetch()?;
    let mut found = Verified::default();
    let mut offset = 0;
    loop {
        let rows = prefetch.store().all_snapshots(offset, BATCH)?;
        for row in &rows {
            let Snapshot { owner, snapshot_ref, .. } = &row.snapshot;
            found.snapshots += 1;
            // As its owner, who is always told the reason.
            match prefetch.revalidate(owner, snapshot_ref) {
                Ok(_) => found.sound += 1,
                Err(CallError::Policy(Error::Expired)) => found.expired += 1,
                Err(CallError::Policy(Error::Revoked)) => found.revoked += 1,
                Err(CallError::Policy(Error::Unavailable(_))) => found.out_of_reach += 1,
                Err(CallError::Policy(Error::Corrupt(_))) => found.corrupt.push(snapshot_ref.clone()),
                Err(error) => return Err(error.into()),
            }
        }
        offset += BATCH;
        if rows.len() < BATCH as usize {
            break;
        }
    }
    if app.out.json {
        app.out.object(&found)?;
    } else {
        let mut text = format!("{}: ", count(found.snapshots, "snapshot", "snapshots"));
        text += &format!("{} sound, {} damaged", found.sound, found.corrupt.len());
        for (n, what) in [
            (found.expired, "expired"),
            (found.revoked, "revoked"),
            (found.out_of_reach, "whose owner is gone or has memory off"),
        ] {
            if n > 0 {
                text += &format!(", {n} {what} (not checked)");
            }
        }
        app.out.text(&format!("{text}.\n"))?;
    }
    if found.corrupt.is_empty() {
        return Ok(());
    }
    let message = format!("{} damaged", count(found.corrupt.len(), "snapshot is", "snapshots are"));
    Err(Failure::new(Exit::Store, "corrupt", message)
        .details(json!({ "corrupt": found.corrupt }))
        .lines(found.corrupt)
        .hint("damaged bytes are never delivered; delegate again, and restore the store from a copy"))
}
