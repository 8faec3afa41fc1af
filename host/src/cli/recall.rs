//! `recall`.

use memory_prefetch::contract::SessionKey;
use serde_json::json;

use super::app::App;
use super::failure::Failure;
use super::shapes::{ViewShape, view_heading};
use super::values;

/// Search memories as a session may: its own and what is shared with it, or those of an agent that a link opens
///
/// Any text is a query; it has no operators. A memory matches if it has one of the words, or one of the runs of Chinese,
/// Japanese or Korean characters, anywhere in it; best first. Recalling one's own memories counts as a use of them;
/// recalling another agent's changes nothing of theirs, and is noted in the audit.
///
/// With --target: exit code 3 if no link lets the session's agent read that agent, with the word no-link or
/// wrong-direction; 4 if that agent's store cannot be reached.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  memory-prefetch recall --session lead --limit 5 'login form'
  memory-prefetch recall --session pi/7f3a --target planner 固定")]
pub struct Args {
    /// The session that searches
    #[arg(long, value_name = "SESSION", value_parser = values::session)]
    session: SessionKey,
    /// Search this agent's memories instead of one's own
    #[arg(long, value_name = "AGENT")]
    target: Option<String>,
    /// At most this many, best first
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    limit: u32,
    /// What to look for
    #[arg(value_name = "QUERY")]
    query: String,
}

/// Run it.
pub fn run(args: Args, app: &App) -> Result<(), Failure> {
    let mut prefetch = app.prefetch()?;
    let Args { session, target, limit, query } = args;
    let found = app.call(&mut prefetch, |prefetch| prefetch.recall(&session, target.as_deref(), &query, limit))?;
    if app.out.json {
        let memories: Vec<ViewShape> = found.into_iter().map(ViewShape::from).collect();
        return app.out.object(&json!({ "memories": memories }));
    }
    if found.is_empty() {
        return app.out.text("Nothing was found.\n");
    }
    for view in &found {
        app.out.text(&format!("{}:\n", view_heading(view)))?;
        app.out.exact(&view.body)?;
        app.out.text("\n\n")?;
    }
    Ok(())
}
