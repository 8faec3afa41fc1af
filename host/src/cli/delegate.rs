//! `delegate` and `estimate`: the parent's side.

use clap::ValueEnum;
use memory_prefetch::contract::{
    Carry, Delegated, Delegation, DelegationOutcome, MemoryField, Mode, NamedIds, Request, SessionKey,
};
use memory_prefetch::{Prefetch, SqliteStore};
use serde::Serialize;
use serde_json::value::RawValue;

use super::app::App;
use super::failure::{Exit, Failure};
use super::request::{CapacityArgs, Ids, Task};
use super::shapes::{self, ReceiptShape, receipt_text};
use super::terminal::visible_json;
use super::values;

/// Hand memories over with a task: resolve them, freeze them, and print the delegation to pass on
///
/// The memories are named by id and read under the visibility of the session that delegates. What it may not see is
/// listed as unavailable and does not spoil the rest. Without --ids the delegation is registered all the same, so that
/// its child is not taken for another one.
///
/// With --json: {"delegation":{"task","memory"},"receipt","warnings"}. Where memory is off, or no ids are named, the
/// delegation has no "memory" and the receipt is null.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  memory-prefetch delegate --session lead --task 'Review the login form' \\
    --ids 11,55 --budget 2000
  memory-prefetch delegate --session lead --task 'Check the totals' --ids 11,55 \\
    --budget 1500 --unit bytes --overflow paginate --ttl 2h")]
pub struct Delegate {
    #[command(flatten)]
    what: What,
}

/// Show what `delegate` would do, with nothing stored
///
/// The same options and the same answer, but for the delegation's "memory", since there is nothing to pass on yet.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  memory-prefetch estimate --session lead --task 'Review the login form' \\
    --ids 11,55 --budget 2000 --model gpt-4o")]
pub struct Estimate {
    #[command(flatten)]
    what: What,
}

#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("text").required(true).args(["task", "task_file"])))]
struct What {
    /// The session that delegates
    #[arg(long, value_name = "SESSION", value_parser = values::session)]
    session: SessionKey,
    #[command(flatten)]
    task: Task,
    #[command(flatten)]
    ids: Ids,
    /// How the memories are named in the delegation: by the snapshot's ref, or by their ids
    #[arg(long, value_enum, value_name = "HOW", default_value_t = CarryWord::Ref)]
    carry: CarryWord,
    /// How long a child may claim it [default: 1h, or the setting default-ttl-seconds]
    #[arg(long, value_name = "DURATION", value_parser = values::seconds)]
    ttl: Option<u32>,
    /// How many children may claim it
    #[arg(long, value_name = "N", default_value_t = 1)]
    children: u32,
    /// The kind of agent that it is for
    #[arg(long, value_name = "TYPE")]
    agent_type: Option<String>,
    /// The harness's id of this call: the same call again gets the same answer
    #[arg(long, value_name = "ID")]
    call_id: Option<String>,
    /// Refuse if any of the memories is unavailable
    #[arg(long)]
    strict: bool,
    /// A priority for --overflow trim-priority, instead of the memory's own; may be repeated
    #[arg(long, value_name = "ID=N", value_parser = values::priority)]
    priority: Vec<(String, u32)>,
    #[command(flatten)]
    capacity: CapacityArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CarryWord {
    Ref,
    Ids,
}

#[derive(Serialize)]
struct Shape<'a> {
    delegation: &'a RawValue,
    receipt: Option<ReceiptShape>,
    warnings: Vec<String>,
}

/// Run `delegate`.
pub fn delegate(args: Delegate, app: &App) -> Result<(), Failure> {
    let mut prefetch = app.prefetch()?;
    let (session, request) = request(args.what, app, &mut prefetch)?;
    let outcome = app.call(&mut prefetch, |prefetch| prefetch.delegate(&session, &request))?;
    if let DelegationOutcome::Refused(_) = &outcome {
        app.out.note("the refusal is remembered: the child is told of it when it asks");
    }
    answer(app, &mut prefetch, &request, outcome, "Pass this on to the child:")
}

/// Run `estimate`.
pub fn estimate(args: Estimate, app: &App) -> Result<(), Failure> {
    let mut prefetch = app.prefetch()?;
    let (session, request) = request(args.what, app, &mut prefetch)?;
    let outcome = app.call(&mut prefetch, |prefetch| prefetch.estimate(&session, &request))?;
    answer(app, &mut prefetch, &request, outcome, "")
}

fn request(what: What, app: &App, prefetch: &mut Prefetch<SqliteStore>) -> Result<(SessionKey, Request), Failure> {
    let mode = what.ids.mode();
    let mut memory = what.ids.field();
    let mut task = what.task.text()?.unwrap_or_default();
    // R39: does nothing unless the user has switched markers on.
    let marked = app.call(prefetch, |prefetch| prefetch.parse_markers(&task))?;
    if !marked.ids.is_empty() {
        task = marked.text;
        memory = Some(with_marked(memory, marked.ids, mode)?);
    }
    let capacity = what.capacity.capacity();
    if memory.is_some() && capacity.is_none() {
        return Err(Failure::malformed("no capacity: the child's own budget is required with memories")
            .hint("say how much of the child's context they may take: --budget 2000, for tokens, or --budget 8000 --unit bytes"));
    }
    let request = Request {
        memory,
        capacity,
        priorities: what.priority,
        agent_type: what.agent_type,
        ttl_seconds: what.ttl,
        children: what.children,
        strict: what.strict,
        carry: match what.carry {
            CarryWord::Ref => Carry::SnapshotRef,
            CarryWord::Ids => Carry::Ids,
        },
        call_id: what.call_id,
        ..Request::new(task)
    };
    Ok((what.session, request))
}

/// The ids of markers go behind those that were named.
fn with_marked(memory: Option<MemoryField>, marked: Vec<String>, mode: Mode) -> Result<MemoryField, Failure> {
    match memory {
        None => Ok(MemoryField::PrefetchIds(NamedIds { ids: marked, mode })),
        Some(MemoryField::PrefetchIds(mut named)) => {
            named.ids.extend(marked);
            Ok(MemoryField::PrefetchIds(named))
        }
        Some(MemoryField::SnapshotRef(_)) => {
            Err(Failure::malformed("the task text names memories with a marker, and --ref names a snapshot")
                .hint("use one of the two, or `memory-prefetch setting set markers off`"))
        }
    }
}

fn answer(
    app: &App,
    prefetch: &mut Prefetch<SqliteStore>,
    request: &Request,
    outcome: DelegationOutcome,
    heading: &str,
) -> Result<(), Failure> {
    let Delegated { memory, receipt, mut warnings } = match outcome {
        DelegationOutcome::HandedOver(delegated) => delegated,
        DelegationOutcome::MemoryOff => {
            let why = "memory is off for this session or its project: no memories are handed over.".to_owned();
            Delegated { memory: None, receipt: None, warnings: vec![why] }
        }
        DelegationOutcome::Refused(refusal) => return Err(shapes::refused(&refusal)),
    };
    // Never silent (R28): a time that was asked for and cut.
    if let (Some(receipt), Some(asked), Some(MemoryField::PrefetchIds(_))) =
        (&receipt, request.ttl_seconds, &request.memory)
        && receipt.expires_at < receipt.frozen_at.saturating_add(u64::from(asked) * 1000)
    {
        warnings.push("it can be claimed for a shorter time than was asked for (max-ttl-seconds).".to_owned());
    }
    let delegation = Delegation { task: request.task.clone(), memory };
    let line = prefetch.encode(&delegation)?;
    if app.out.json {
        let delegation = RawValue::from_string(line)
            .map_err(|error| Failure::new(Exit::Component, "other", format!("the delegation is not JSON: {error}")))?;
        let receipt = receipt.map(ReceiptShape::from);
        return app.out.object(&Shape { delegation: &delegation, receipt, warnings });
    }
    let mut text = match heading {
        "" => "Nothing was stored. It would be:\n".to_owned(),
        heading => format!("{heading}\n{}\n", visible_json(&line)),
    };
    match &receipt {
        Some(receipt) => text += &format!("\n{}", receipt_text(receipt)),
        None => text += "\nNo memories go with it.\n",
    }
    app.out.text(&text)?;
    for warning in warnings {
        app.out.note(&warning);
    }
    Ok(())
}
