//! `conformance`.

use std::path::PathBuf;

use super::app::App;
use super::failure::{Exit, Failure};

/// Run scenario files against the component and a store
///
/// A line for each scenario: PASS name, or FAIL name: why. The last line says how many.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Files, or folders of files
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
}

/// Run it.
pub fn run(args: Args, app: &App) -> Result<(), Failure> {
    let _ = (args.paths, app.runtime()?);
    Err(Failure::new(Exit::Component, "unsupported", "this program cannot run scenarios yet"))
}
