//! What is measured: a parent with its children, and 20 memories of 1 KB.

use memory_prefetch::contract::{Capacity, MemoryField, Mode, NamedIds, Project, Request, SessionKey};
use memory_prefetch::operator::{NewMemory, NewSession, Operator};
use memory_prefetch::store::Rows;

/// How many memories a delegation names.
pub const MEMORIES: usize = 20;

/// Bytes of a body.
pub const BODY: usize = 1_024;

/// Whose tokens the budget counts: a model without a public tokenizer, so that the component computes its bound.
pub const MODEL: &str = "claude-opus-4";

/// The child's room for memories, in tokens.
pub const BUDGET: u32 = 50_000;

pub const AGENT: &str = "planner";
pub const PROJECT: &str = "checkout";
pub const PARENT: &str = "lead";

/// A session's key.
pub fn key(session: &str) -> SessionKey {
    SessionKey { harness: "local".into(), id: session.into() }
}

/// The key of a child of the parent.
pub fn child(number: usize) -> SessionKey {
    key(&format!("child-{number}"))
}

/// Parent, so many children, and the memories, whose ids are answered.
pub fn fill(store: &mut impl Operator, children: usize) -> Rows<Vec<String>> {
    store.put_project(&Project {
        id: PROJECT.into(),
        workspace: None,
        memory_on: true,
        trusted: true,
        attributes: Vec::new(),
    })?;
    add_session(store, key(PARENT), None)?;
    for number in 0..children {
        add_session(store, child(number), Some(key(PARENT)))?;
    }
    let bodies = (0..MEMORIES).map(body);
    bodies.enumerate().map(|(number, body)| store.add_memory(&memory(format!("m{number}"), body), 0)).collect()
}

/// A session of the agent in the project.
pub fn add_session(store: &mut impl Operator, key: SessionKey, parent: Option<SessionKey>) -> Rows<()> {
    let (agent, project) = (Some(AGENT.into()), Some(PROJECT.into()));
    store.put_session(&NewSession { key, agent, project, parent, memory_on: true })
}

/// A memory of the agent.
pub fn memory(id: String, body: String) -> NewMemory {
    NewMemory { id: Some(id), category: "decision".into(), ..NewMemory::new(AGENT, PROJECT, body) }
}

/// The delegation of a task with these memories.
pub fn request(task: &str, ids: &[String]) -> Request {
    let memory = MemoryField::PrefetchIds(NamedIds { ids: ids.to_vec(), mode: Mode::Frozen });
    Request::new(task).with_memory(memory, Capacity::tokens(BUDGET, MODEL))
}

/// A text of [`BODY`] bytes, of the kind that agents remember, and for each number another one.
pub fn body(number: usize) -> String {
    const SENTENCES: [&str; 12] = [
        "The cart keeps its lines in the order in which they were added, and never merges two of them.",
        "Totals are computed in cents with integers; the only division is the one for the tax.",
        "Run the integration tests with `make it` and not with the editor's runner, which skips migrations.",
        "The user prefers small commits, each with a test, and does not want formatting mixed in.",
        "`PaymentGateway::capture` may be called twice by the queue, so it looks for the idempotency key first.",
        "Deployments to staging happen on every merge; production is deployed by hand on Tuesdays.",
        "The login form must not autofill: the security review of March asked for it, and QA checks it.",
        "Feature flags live in `config/flags.toml`; a flag that is older than two releases is to be removed.",
        "Addresses are validated by the carrier's service, which is slow from Germany; cache it for a day.",
        "Nobody uses the XML export any more, but the contract with the wholesaler names it until December.",
        "If the build fails with `E0597`, it is nearly always the borrow in `session.rs` near line 210.",
        "Logs must never hold an e-mail address; use `mask()` from the `privacy` module.",
    ];
    let mut text = format!("Note {number}.");
    for turn in 0.. {
        let sentence = SENTENCES[(number * 5 + turn * 7) % SENTENCES.len()];
        if text.len() + 1 + sentence.len() > BODY {
            break;
        }
        text.push(' ');
        text.push_str(sentence);
    }
    // ASCII throughout.
    text.extend(" It stands.".chars().cycle().take(BODY - text.len()));
    text
}
