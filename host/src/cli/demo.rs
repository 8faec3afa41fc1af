//! `demo`.

use super::app::App;
use super::failure::Failure;

/// Tell the whole story on a throw-away store
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Run it.
pub fn run(_: Args, app: &App) -> Result<(), Failure> {
    app.out.text("")
}
