//! `deliver`, `replay` and `page`: the child's side.

use memory_prefetch::contract::{
    Answer, Block, CarriedIds, Claim, DeliveryOutcome, Hints, MemoryField, NamedIds, SessionKey,
};
use memory_prefetch::store::Store;
use memory_prefetch::{Prefetch, SqliteStore};
use serde::Serialize;
use serde_json::json;

use super::app::App;
use super::failure::{Exit, Failure};
use super::request::{CapacityArgs, Ids, Task};
use super::shapes::{ItemShape, OmittedShape, omission_lines, refusal_shape, refusal_word};
use super::terminal::{name, names};
use super::values::{self, session_name};

/// Give a child what its parent handed over: print the block that enters its context
///
/// On stdout there is the block and nothing else, byte for byte; remarks go to stderr. (Where stdout is a terminal,
/// control characters are shown escaped.) A child that does not get its memories is told so: the notice is printed
/// instead of the block, and the exit code is 3. Where nothing waits, or memory is off, nothing is printed.
///
/// The first answer for a child and an occasion is kept and repeated, byte for byte.
///
/// By --parent: with --task, the delegation with this text, or the longest that the text contains; without, the only one
/// that waits, which is no guess, since in a store that is used with this program every delegation is registered.
///
/// By --ids: the delegation that names exactly these. Where none does, they are resolved under the child's own
/// visibility, and its --budget is needed.
///
/// With --json: {"outcome","snapshot_ref","text","page","pages","replayed","items","unavailable","omitted"}.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("claim").required(true).args(["ids", "id", "snapshot_ref", "parent"])))]
#[command(after_help = "Example:\n  memory-prefetch deliver --session pi/7f3a --parent lead --task 'Review the login \
                        form'\n  memory-prefetch deliver --session pi/7f3a --ref \"$REF\" --occasion turn-2")]
pub struct Deliver {
    /// The child
    #[arg(long, value_name = "SESSION", value_parser = values::session)]
    session: SessionKey,
    #[command(flatten)]
    ids: Ids,
    /// The session that delegated to it, as the directory has it
    #[arg(long, value_name = "SESSION", value_parser = values::session)]
    parent: Option<SessionKey>,
    #[command(flatten)]
    task: Task,
    /// The kind of agent that the child is
    #[arg(long, value_name = "TYPE", requires = "parent")]
    agent_type: Option<String>,
    /// The harness's id of the turn that starts the task
    #[arg(long, value_name = "ID", default_value = "start")]
    occasion: String,
    #[command(flatten)]
    capacity: CapacityArgs,
}

/// Print again everything that a child was given, in order and byte for byte
///
/// Only reads. Call it whenever the child's context is built anew, after a compaction for instance.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  memory-prefetch replay --session pi/7f3a")]
pub struct Replay {
    /// The child
    #[arg(long, value_name = "SESSION", value_parser = values::session)]
    session: SessionKey,
}

/// Print another page of something that a child was given
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  memory-prefetch page --session pi/7f3a \"$REF\" 1")]
pub struct Page {
    /// The child
    #[arg(long, value_name = "SESSION", value_parser = values::session)]
    session: SessionKey,
    /// The snapshot
    #[arg(value_name = "REF")]
    snapshot_ref: String,
    /// The page, from 1
    #[arg(value_name = "N")]
    number: u32,
}

#[derive(Serialize)]
struct Shape {
    outcome: &'static str,
    snapshot_ref: Option<String>,
    text: Option<String>,
    page: Option<u32>,
    pages: Option<u32>,
    replayed: bool,
    items: Vec<ItemShape>,
    unavailable: Vec<String>,
    omitted: Vec<OmittedShape>,
}

#[derive(Serialize)]
struct BlockShape {
    snapshot_ref: Option<String>,
    page: u32,
    pages: u32,
    text: String,
}

impl From<Block> for BlockShape {
    fn from(block: Block) -> BlockShape {
        let Block { snapshot_ref, page, pages, text } = block;
        BlockShape { snapshot_ref, page, pages, text }
    }
}

/// Run `deliver`.
pub fn deliver(args: Deliver, app: &App) -> Result<(), Failure> {
    let Deliver { session, ids, parent, task, agent_type, occasion, capacity } = args;
    let mut prefetch = app.prefetch()?;
    let claim = match (parent, ids.field()) {
        (Some(parent), _) => {
            let task = task.text()?;
            check_parent(&mut prefetch, &session, &parent)?;
            Claim::ParentSession(Hints { task, agent_type, registers_all: true })
        }
        (None, Some(MemoryField::SnapshotRef(name))) => Claim::SnapshotRef(name),
        (None, Some(MemoryField::PrefetchIds(named))) => {
            Claim::Ids(CarriedIds { ids: named, capacity: capacity.capacity() })
        }
        // The group of arguments demands one of them, so only an empty list of ids is left.
        (None, None) => Claim::Ids(CarriedIds {
            ids: NamedIds { ids: Vec::new(), mode: memory_prefetch::contract::Mode::Frozen },
            capacity: None,
        }),
    };
    let answer = app.call(&mut prefetch, |prefetch| prefetch.deliver(&session, &occasion, &claim))?;
    let outcome = answer.outcome.clone();
    if app.out.json {
        app.out.object(&shape(answer))?
    } else {
        tell(app, answer)?
    }
    refused(&outcome).map_or(Ok(()), Err)
}

/// The join is by what the directory says, never by an argument: one that says otherwise is a mistake of the caller.
fn check_parent(prefetch: &mut Prefetch<SqliteStore>, child: &SessionKey, parent: &SessionKey) -> Result<(), Failure> {
    let rows = prefetch.store().sessions(&[child.clone(), parent.clone()])?;
    let [Some(child), named] = rows.as_slice() else { return Ok(()) };
    // By the canonical key, whichever alias was given.
    let named = named.as_ref().map_or(parent, |row| &row.key);
    if child.parent.as_ref() == Some(named) {
        return Ok(());
    }
    let (child, found) = (session_name(&child.key), child.parent.as_ref().map(session_name));
    let says = found.as_deref().map_or("none".to_owned(), name);
    let message =
        format!("{} is not the parent of {}: the directory says {says}", name(&session_name(named)), name(&child));
    Err(Failure::new(Exit::Refused, "other-parent", message)
        .details(json!({ "session": child, "parent": found }))
        .hint("`memory-prefetch session list` shows every session with its parent"))
}

fn shape(answer: Answer) -> Shape {
    let Answer { outcome, replayed, block, receipt } = answer;
    let (page, pages) = (block.as_ref().map(|block| block.page), block.as_ref().map(|block| block.pages));
    let (snapshot_ref, text) = block.map_or((None, None), |block| (block.snapshot_ref, Some(block.text)));
    let (items, unavailable, omitted) =
        receipt.map_or_else(Default::default, |receipt| (receipt.items, receipt.unavailable, receipt.omitted));
    Shape {
        outcome: word(&outcome),
        snapshot_ref,
        text,
        page,
        pages,
        replayed,
        items: items.into_iter().map(ItemShape::from).collect(),
        unavailable,
        omitted: omitted.into_iter().map(OmittedShape::from).collect(),
    }
}

fn tell(app: &App, answer: Answer) -> Result<(), Failure> {
    let Answer { outcome, replayed, block, receipt } = answer;
    if let Some(block) = &block {
        app.out.exact(&block.text)?;
    }
    match outcome {
        DeliveryOutcome::Nothing => app.out.note("nothing waits for this child"),
        DeliveryOutcome::MemoryOff => {
            app.out.note("memory is off for this child or for its parent: nothing is delivered")
        }
        DeliveryOutcome::Live => app.out.note("live: this is the content as it is now, and it is not kept"),
        DeliveryOutcome::Delivered if replayed => app.out.note("delivered before: these are the same bytes"),
        _ => {}
    }
    if let Some(receipt) = receipt {
        if !receipt.unavailable.is_empty() {
            app.out.note(&format!("unavailable: {}", names(&receipt.unavailable)));
        }
        for line in omission_lines(&receipt.omitted) {
            app.out.note(&format!("left out: {line}"));
        }
        if let (true, Some(snapshot_ref)) = (receipt.pages > 1, &receipt.snapshot_ref) {
            let pages = receipt.pages;
            app.out.note(&format!(
                "this is page 1 of {pages}; the next one: memory-prefetch page --session CHILD {snapshot_ref} 2"
            ));
        }
    }
    Ok(())
}

fn word(outcome: &DeliveryOutcome) -> &'static str {
    match outcome {
        DeliveryOutcome::Delivered => "delivered",
        DeliveryOutcome::Live => "live",
        DeliveryOutcome::Nothing => "nothing",
        DeliveryOutcome::MemoryOff => "memory-off",
        DeliveryOutcome::Ambiguous(_) => "ambiguous",
        DeliveryOutcome::Taken => "taken",
        DeliveryOutcome::Expired => "expired",
        DeliveryOutcome::Revoked => "revoked",
        DeliveryOutcome::Refused(_) => "refused",
    }
}

/// The outcomes of which the child got a notice, as failures.
fn refused(outcome: &DeliveryOutcome) -> Option<Failure> {
    let failure = |message: &str| {
        let message = format!("not delivered, and the child is told why: {message}");
        Failure::new(Exit::Refused, word(outcome), message)
    };
    Some(match outcome {
        DeliveryOutcome::Delivered | DeliveryOutcome::Live | DeliveryOutcome::Nothing | DeliveryOutcome::MemoryOff => {
            return None;
        }
        DeliveryOutcome::Ambiguous(n) => failure(&format!("{n} delegations with different memories fit"))
            .details(json!({ "fit": n }))
            .hint("claim by --ref or --ids, or give the child's --task"),
        DeliveryOutcome::Taken => failure("the delegation that fits has been taken already")
            .hint("`delegate --children N` lets several children claim one"),
        DeliveryOutcome::Expired => {
            failure("the delegation that fits is too old").hint("delegate again, with a longer --ttl")
        }
        DeliveryOutcome::Revoked => failure("the snapshot was revoked by its owner"),
        DeliveryOutcome::Refused(refusal) => {
            let reason = refusal_word(refusal);
            failure(&format!("the delegation was refused ({reason})")).details(refusal_shape(refusal, Some(reason)))
        }
    })
}

/// Run `replay`.
pub fn replay(args: Replay, app: &App) -> Result<(), Failure> {
    let mut prefetch = app.frozen()?;
    let blocks = app.call(&mut prefetch, |prefetch| prefetch.replay(&args.session))?;
    if app.out.json {
        let blocks: Vec<BlockShape> = blocks.into_iter().map(BlockShape::from).collect();
        return app.out.object(&json!({ "blocks": blocks }));
    }
    if blocks.is_empty() {
        app.out.note("there is nothing to replay for this child");
    }
    app.out.exact(&blocks.into_iter().map(|block| block.text).collect::<String>())
}

/// Run `page`.
pub fn page(args: Page, app: &App) -> Result<(), Failure> {
    let mut prefetch = app.frozen()?;
    let Page { session, snapshot_ref, number } = args;
    let block = app.call(&mut prefetch, |prefetch| prefetch.page(&session, &snapshot_ref, number))?;
    if app.out.json { app.out.object(&BlockShape::from(block)) } else { app.out.exact(&block.text) }
}
