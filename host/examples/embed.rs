//! A small harness with memory-prefetch built in: its own notes are the memories, its own parent and child sessions
//! are the sessions. A parent model calls the task tool with two ids; the child's first prompt has their content.
//!
//!     cargo run --example embed

use anyhow::{Context, bail};
use memory_prefetch::contract::*;
use memory_prefetch::memory_store::MemoryStore;
use memory_prefetch::operator::{NewSession, Operator};
use memory_prefetch::store::{Memories, Rows, StoreFailure};
use memory_prefetch::{NOTICE, Prefetch, Runtime};

/// The harness's own memory store. To read it, memory-prefetch needs four functions.
struct Notes(Vec<(u64, &'static str)>);

impl Memories for Notes {
    fn memories(&mut self, ids: &[String], max_bytes: u32) -> Rows<Vec<Option<Memory>>> {
        let mut room = max_bytes as usize;
        let mut full = false;
        let mut row = |id: &String| {
            let (number, text) = self.0.iter().find(|(number, _)| number.to_string() == *id)?;
            full |= text.len() > room;
            room = room.saturating_sub(text.len());
            Some(Memory {
                id: id.clone(),
                owner: Some("planner".into()),
                project: Some("shop".into()),
                audience: Audience::Project,
                active: true,
                expires_at: None,
                trusted: true,
                category: "note".into(),
                priority: 0,
                version: format!("{number}.1"),
                updated_at: None,
                bytes: text.len() as u32,
                body: if full { None } else { Some((*text).into()) },
                attributes: Vec::new(),
            })
        };
        Ok(ids.iter().map(&mut row).collect())
    }

    fn search(&mut self, _: &SearchFilter, _: &str, _: u32, _: u32) -> Rows<Vec<Memory>> {
        Err(StoreFailure::Other("these notes cannot be searched".into()))
    }

    fn record_access(&mut self, _: &[String], _: Instant) -> Rows<()> {
        Ok(())
    }

    fn erase(&mut self, _: &[String]) -> Rows<Vec<String>> {
        // These notes are only read here: whoever writes them erases them.
        Ok(Vec::new())
    }
}

fn key(id: &str) -> SessionKey {
    SessionKey { harness: "tiny".into(), id: id.into() }
}

/// The parent model called the task tool with these arguments.
fn task_tool(prefetch: &mut Prefetch<MemoryStore>, parent: &str, arguments: &str) -> anyhow::Result<String> {
    let delegation = prefetch.decode(arguments)?;
    let mut request = Request::new(delegation.task.clone());
    if let Some(memory) = delegation.memory {
        // What this harness's children have room for, and their model.
        request = request.with_memory(memory, Capacity::tokens(2_000, "gpt-4o"));
    }
    match prefetch.delegate(&key(parent), &request)? {
        DelegationOutcome::HandedOver(delegated) => {
            if let Some(receipt) = delegated.receipt {
                println!(
                    "parent: {} memories in {} tokens, unavailable: {:?}",
                    receipt.items.len(),
                    receipt.size.tokens,
                    receipt.unavailable
                );
            }
        }
        DelegationOutcome::MemoryOff => println!("parent: memory is off"),
        DelegationOutcome::Refused(refusal) => println!("parent: refused, {refusal:?}"),
    }
    // Refused or not, the task goes on.
    Ok(delegation.task)
}

/// What a child session begins with: its block, then its task.
fn first_prompt(prefetch: &mut Prefetch<MemoryStore>, child: &str, task: &str) -> String {
    let hints = Hints { task: Some(task.into()), agent_type: None, registers_all: true };
    match prefetch.deliver(&key(child), "start", &Claim::ParentSession(hints)) {
        Ok(answer) => answer.block.map_or_else(|| task.to_owned(), |block| format!("{}\n{task}", block.text)),
        // Memory is a help, not a condition: the child starts without it and is told.
        Err(error) => {
            eprintln!("child: {error}");
            format!("{NOTICE}\n{task}")
        }
    }
}

fn main() -> anyhow::Result<()> {
    let mut store = MemoryStore::default();
    let workspace = Some("acme".into());
    store.put_project(&Project { id: "shop".into(), workspace, memory_on: true, trusted: true, attributes: vec![] })?;
    for (id, agent, parent) in [("parent", "planner", None), ("child", "coder", Some(key("parent")))] {
        let (agent, project) = (Some(agent.into()), Some("shop".into()));
        store.put_session(&NewSession { key: key(id), agent, project, parent, memory_on: true })?;
    }
    let notes = Notes(vec![(11, "Prices are stored in cents."), (55, "The cart lives in `src/cart.rs`.")]);
    let mut prefetch = Runtime::builder().build()?.open(store)?.with_memories(notes);

    let call = r#"{"task": "Fix the rounding of totals.", "memory": {"prefetch_ids": [11, 55, 99]}}"#;
    let task = task_tool(&mut prefetch, "parent", call)?;
    let prompt = first_prompt(&mut prefetch, "child", &task);
    println!("child's first prompt:\n{prompt}");

    let again = prefetch.replay(&key("child"))?;
    let block = again.first().context("nothing to replay")?;
    if !prompt.starts_with(&block.text) || !prompt.contains("Prices are stored in cents.") {
        bail!("the child did not get what was delegated");
    }
    Ok(())
}
