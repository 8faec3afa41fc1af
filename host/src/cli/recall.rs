//! `recall`.

use memory_prefetch::contract::SessionKey;
use serde_json::json;

use super::app::App;
use super::failure::Failure;
use super::shapes::{ViewShape, view_heading};
use super::values;

/// Search memories as a session may: its own, or those of an agent that a link opens
///
/// Any text is a query; it has no operators. This version cannot do it yet: it says so, and exits with 5.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  memory-prefetch recall --session lead --limit 5 'login form'")]
pub struct Args {
    /// The session that searches
    #[arg(long, value_name = "SESSION", value_parser = values::session)]
    session: SessionKey,
    /// Search this agent's memories instead of one's own
    #[arg(long, value_name = "AGENT")]
    target: Option<String>,
    /// At most this many, best first
    #[arg(long, value_name = "N", default_value_t = 10)]
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
