//! The program: one file per verb, or group of verbs. A verb's doc comment is its help text. What a verb needs from
//! outside (store, component, clock) is opened by `app`; how it answers is for `terminal`, how it fails for `failure`,
//! what its options mean for `values`.

mod agent;
mod app;
mod audit;
mod bench;
mod completions;
mod component;
mod conformance;
mod delegate;
mod deliver;
mod demo;
mod failure;
mod link;
mod memory;
mod project;
mod recall;
mod request;
mod session;
mod setting;
mod shapes;
mod snapshots;
mod terminal;
mod upkeep;
mod values;
mod wire;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use app::{App, Globals};
use failure::{Exit, Failure};

/// Hand an agent the memories that its task needs, by id, before its first token
///
/// A parent agent names memories in its delegation; the child gets their full content, frozen and byte for byte. Each
/// verb's own --help ends with an example; `memory-prefetch demo` tells the whole story.
///
/// A session is written S, or HARNESS/S: the first slash splits, and a session without a harness belongs to the harness
/// `local`. So omp//home/me/s.jsonl is the session /home/me/s.jsonl of the harness omp.
///
/// Exit codes: 0 done, also when nothing is to be delivered or memory is off; 1 the answer could not be written; 2 the
/// request is malformed; 3 it is refused, or names what is not there; 4 trouble with the store; 5 trouble with the
/// component.
#[derive(Debug, Parser)]
#[command(name = "memory-prefetch", version, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Demo(demo::Args),
    #[command(subcommand)]
    Agent(agent::Verb),
    #[command(subcommand)]
    Project(project::Verb),
    #[command(subcommand)]
    Session(session::Verb),
    #[command(subcommand)]
    Link(link::Verb),
    #[command(subcommand)]
    Memory(memory::Verb),
    Delegate(delegate::Delegate),
    Estimate(delegate::Estimate),
    Deliver(deliver::Deliver),
    Replay(deliver::Replay),
    Page(deliver::Page),
    Recall(recall::Args),
    Revalidate(snapshots::Revalidate),
    Revoke(snapshots::Revoke),
    #[command(subcommand)]
    Snapshots(snapshots::Verb),
    Evictable(upkeep::Evictable),
    Sweep(upkeep::Sweep),
    #[command(subcommand)]
    Audit(audit::Verb),
    #[command(subcommand)]
    Wire(wire::Verb),
    #[command(subcommand)]
    Setting(setting::Verb),
    #[command(subcommand)]
    Component(component::Verb),
    Conformance(conformance::Args),
    Bench(bench::Args),
    Completions(completions::Args),
}

/// Parse the arguments, run the verb, and answer its exit code.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    terminal::log_to_stderr(cli.globals.json);
    let json = cli.globals.json;
    let app = App::new(cli.globals);
    match run(cli.verb, &app) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.tell(json),
    }
}

fn run(verb: Verb, app: &App) -> Result<(), Failure> {
    match verb {
        Verb::Demo(args) => demo::run(args, app),
        Verb::Agent(verb) => agent::run(verb, app),
        Verb::Project(verb) => project::run(verb, app),
        Verb::Session(verb) => session::run(verb, app),
        Verb::Link(verb) => link::run(verb, app),
        Verb::Memory(verb) => memory::run(verb, app),
        Verb::Delegate(args) => delegate::delegate(args, app),
        Verb::Estimate(args) => delegate::estimate(args, app),
        Verb::Deliver(args) => deliver::deliver(args, app),
        Verb::Replay(args) => deliver::replay(args, app),
        Verb::Page(args) => deliver::page(args, app),
        Verb::Recall(args) => recall::run(args, app),
        Verb::Revalidate(args) => snapshots::revalidate(args, app),
        Verb::Revoke(args) => snapshots::revoke(args, app),
        Verb::Snapshots(verb) => snapshots::run(verb, app),
        Verb::Evictable(args) => upkeep::evictable(args, app),
        Verb::Sweep(args) => upkeep::sweep(args, app),
        Verb::Audit(verb) => audit::run(verb, app),
        Verb::Wire(verb) => wire::run(verb, app),
        Verb::Setting(verb) => setting::run(verb, app),
        Verb::Component(verb) => component::run(verb, app),
        Verb::Conformance(args) => conformance::run(args, app),
        Verb::Bench(args) => bench::run(args, app),
        Verb::Completions(args) => completions::run(args, &mut Cli::command(), app),
    }
}

/// Help and version are answers, everything else is a malformed request: in JSON if that was asked for.
fn usage(error: &clap::Error) -> ExitCode {
    let json = std::env::args_os().any(|arg| arg == "--json");
    if !error.use_stderr() || !json {
        // A closed pipe is no reason to fail in another way.
        let _ = error.print();
        return ExitCode::from(if error.use_stderr() { Exit::Malformed as u8 } else { 0 });
    }
    let text = error.render().to_string();
    let message = text.strip_prefix("error: ").unwrap_or(&text).trim();
    Failure::new(Exit::Malformed, "usage", message).tell(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_sound() {
        Cli::command().debug_assert();
    }
}
