//! `agent add|list|remove`.

use memory_prefetch::SqliteStore;
use memory_prefetch::operator::Operator;
use serde_json::json;

use super::app::{App, Missing};
use super::failure::{Exit, Failure};
use super::terminal::name;
use super::values;

/// The agents that own memories and run sessions
#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// Add an agent
    ///
    /// Adding one that is there already changes nothing.
    #[command(after_help = "Example:\n  memory-prefetch agent add planner\n  memory-prefetch agent add reviewer")]
    Add {
        /// Its name, as sessions and memories give it
        #[arg(value_name = "AGENT", value_parser = values::name)]
        agent: String,
    },
    /// List all agents
    #[command(after_help = "Example:\n  memory-prefetch agent list")]
    List,
    /// Remove an agent and its links
    ///
    /// Its memories stay. Nobody sees them, but for those that are shared with a project or a workspace.
    #[command(after_help = "Example:\n  memory-prefetch agent remove reviewer")]
    Remove {
        /// Its name
        #[arg(value_name = "AGENT")]
        agent: String,
    },
}

/// Run it.
pub fn run(verb: Verb, app: &App) -> Result<(), Failure> {
    match verb {
        Verb::Add { agent } => {
            let added = app.store(Missing::Create)?.add_agent(&agent)?;
            if app.out.json {
                return app.out.object(&json!({ "agent": agent, "added": added }));
            }
            let said = if added { "Added agent" } else { "There already is an agent" };
            app.out.text(&format!("{said} {}.\n", name(&agent)))
        }
        Verb::List => {
            let agents = app.store(Missing::Refuse)?.agents()?;
            if app.out.json {
                return app.out.object(&json!({ "agents": agents }));
            }
            if agents.is_empty() {
                return app.out.text("No agents.\n");
            }
            app.out.text(&agents.iter().map(|agent| format!("{}\n", name(agent))).collect::<String>())
        }
        Verb::Remove { agent } => {
            if !app.store(Missing::Refuse)?.remove_agent(&agent)? {
                return Err(unknown(&agent));
            }
            if app.out.json {
                return app.out.object(&json!({ "agent": agent, "removed": true }));
            }
            app.out.text(&format!("Removed agent {} and its links.\n", name(&agent)))
        }
    }
}

/// `agent` must be in the directory.
pub fn must_exist(store: &mut SqliteStore, agent: &str) -> Result<(), Failure> {
    if store.agents()?.iter().any(|known| known == agent) { Ok(()) } else { Err(unknown(agent)) }
}

fn unknown(agent: &str) -> Failure {
    Failure::new(Exit::Refused, "unknown-agent", format!("there is no agent {}", name(agent)))
        .details(json!({ "agent": agent }))
        .hint(format!("add it: memory-prefetch agent add {}", shell(agent)))
}

/// A word as it is typed in a shell.
pub fn shell(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:@%+=,".contains(c);
    if !word.is_empty() && !word.starts_with('-') && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
