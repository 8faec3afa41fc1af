//! `conformance`.

use std::path::PathBuf;

use memory_prefetch::conformance::{Backend, run as run_scenarios};
use serde_json::json;

use super::app::App;
use super::failure::{Exit, Failure};
use super::terminal;

/// Run scenario files against the component and a store
///
/// A line for each scenario: PASS name, or FAIL name: why. The last line says how many. Each scenario has a fresh, empty
/// store of its own; --store is not touched. Exits with 5 if any fails.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example, in a clone of the repository:\n  memory-prefetch conformance tests/scenarios")]
pub struct Args {
    /// Files, or folders of files
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// What they are run on
    #[arg(long, value_enum, default_value = "sqlite")]
    on: On,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum On {
    /// A new SQLite file for each scenario
    Sqlite,
    /// The store in plain collections
    Memory,
}

/// Run it.
pub fn run(args: Args, app: &App) -> Result<(), Failure> {
    let backend = match args.on {
        On::Sqlite => Backend::Sqlite,
        On::Memory => Backend::Memory,
    };
    let mut written = Ok(());
    let mut reports = Vec::new();
    let (passed, failed) = run_scenarios(&args.paths, &app.runtime()?, backend, |report| {
        let name = &report.name;
        if app.out.json {
            reports.push(json!({ "name": name, "failure": report.failure }));
            return;
        }
        let line = match &report.failure {
            None => format!("PASS {}\n", terminal::escaped(name)),
            Some(why) => format!("FAIL {}: {}\n", terminal::escaped(name), terminal::escaped(why)),
        };
        if written.is_ok() {
            written = app.out.text(&line);
        }
    })
    .map_err(|why| Failure::new(Exit::Malformed, "scenarios", why))?;
    written?;
    if app.out.json {
        app.out.object(&json!({ "passed": passed, "failed": failed, "scenarios": reports }))?;
    } else {
        app.out.text(&format!("{passed} passed, {failed} failed\n"))?;
    }
    match failed {
        0 => Ok(()),
        n => Err(Failure::new(
            Exit::Component,
            "scenarios",
            format!("{} failed", terminal::count(n as usize, "scenario", "scenarios")),
        )),
    }
}
