//! `completions`.

use clap_complete::Shell;

use super::app::App;
use super::failure::Failure;

/// Print a script that completes this program's arguments in a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  memory-prefetch completions bash > memory-prefetch.bash")]
pub struct Args {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

/// Run it.
pub fn run(args: Args, command: &mut clap::Command, app: &App) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, command, "memory-prefetch", &mut script);
    app.out.text(&String::from_utf8_lossy(&script))
}
