//! The set-up, build and test driver: `cargo xtask VERB`. Each verb is a row of steps; a step is a command that anybody
//! can run by hand, and it is shown before it runs.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use xtask::component;
use xtask::toolchain::{self, Route, Toolchain};

mod adapters;
mod fuzz;
mod install;
mod instructions;
mod licences;
mod peers;

const HELP: &str = "\
The set-up, build and test driver of memory-prefetch.

Usage: cargo xtask VERB [--route sysroot|rustup|debian]
       cargo xtask install [--root DIR]
       cargo xtask fuzz [TARGET] [--seconds N | --minimise | --input FILE]

  setup      gets a standard library for wasm32-unknown-unknown, which the component is built for. Needed once;
             from then on plain `cargo build` and `cargo test` work
                 cargo xtask setup
  demo       setup, builds the component and the host, then runs the whole story on a throw-away store
                 cargo xtask demo
  test       setup, then all that CI checks but lint: the tests of all packages, the component's size and imports, the
             host's example, the conformance scenarios, some seconds of fuzzing; where npm is there, the JavaScript host
             and delegations in the real harnesses too
                 cargo xtask test
  install    installs the program, as `cargo install --locked --path host` does, on Linux with the C library in it: one file
             that needs nothing else, and starts sooner. --root: in DIR/bin, not where cargo puts programs
                 cargo xtask install
  adapters   of these, only what needs npm
                 cargo xtask adapters
  fuzz       looks for inputs for which something does not hold, with libFuzzer, which needs a C++ compiler: one target of
             fuzz/ or each, --seconds of it; --minimise instead makes the corpus small, with all that was found, and
             --input runs one input of a target
                 cargo xtask fuzz wire --seconds 60
  lint       format, clippy with warnings denied, licences of all dependencies
                 cargo xtask lint
  instructions
             counts the instructions of a delegation, a delivery, a recall and a replay in the dev profile, with valgrind
             where it is there, and compares them with tests/bench/instructions.json; --accept writes them there
                 cargo xtask instructions
  peers      the same memories from LangGraph's SqliteStore and from the MCP reference memory server, measured side by
             side with memory-prefetch; needs Python 3 with pip, Node with npm, and their registries
                 cargo xtask peers
  slow-disk  the rows of `bench` for durable work, measured where each sync takes 4 ms, as on the disk for which their
             bars were set; imitated with strace, on Linux
                 cargo xtask slow-disk
  component  builds the component by itself and prints where it is, its size, imports and exports
                 cargo xtask component
  licences   checks that every dependency's licence is one that we accept
                 cargo xtask licences

A library for the target comes by the first route that works: it is in the compiler's sysroot; `rustup target add`;
Debian's packages rustc-web and rust-web-src, from which it is built with the component (as root). --route takes one of
them and no other:
                 cargo xtask component --route debian

MEMORY_PREFETCH_COMPONENT_WASM=PATH makes the host contain a component that was built elsewhere.
";

/// The bar for what every harness ships (docs/performance.md).
const MAX_COMPONENT_BYTES: usize = 400 * 1024;

/// All that a component may import begins with this: no WASI.
const CONTRACT: &str = "agent-memory:prefetch/";

/// The host's program.
const PROGRAM: &str = "memory-prefetch";

/// Makes the host's build script take a component instead of building one.
const PREBUILT: &str = "MEMORY_PREFETCH_COMPONENT_WASM";

fn main() -> ExitCode {
    if let Some(code) = fuzz::wrapped() {
        return code;
    }
    match run(env::args().skip(1).collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            // The command that failed has said why; its code is ours.
            ExitCode::from(error.downcast_ref::<Failed>().map_or(1, |failed| failed.code))
        }
    }
}

fn run(arguments: Vec<String>) -> Result<()> {
    let mut words = Vec::new();
    let mut route = None;
    let mut accept = false;
    let mut root = None;
    let mut fuzzing = fuzz::Options::default();
    let mut fuzzes = false;
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--help" | "-h" | "help" => {
                print!("{HELP}");
                return Ok(());
            }
            "--route" => {
                route = Some(arguments.next().context("--route needs a name: sysroot, rustup or debian")?.parse()?)
            }
            "--accept" => accept = true,
            "--root" => root = Some(PathBuf::from(arguments.next().context("--root needs a directory")?)),
            option if option.starts_with("--root=") => root = Some(PathBuf::from(&option["--root=".len()..])),
            option if option.starts_with("--route=") => route = Some(option["--route=".len()..].parse()?),
            option @ ("--seconds" | "--minimise" | "--input") => {
                fuzzes = true;
                match option {
                    "--seconds" => fuzzing.seconds = arguments.next().context("--seconds needs a number")?.parse()?,
                    "--input" => fuzzing.input = Some(arguments.next().context("--input needs a file")?.into()),
                    _ => fuzzing.minimise = true,
                }
            }
            option if option.starts_with('-') => bail!("no option is named `{option}`: see `cargo xtask --help`"),
            _ => words.push(argument),
        }
    }
    let verb = match words.as_slice() {
        [verb] => verb,
        [verb, target] if verb == "fuzz" => {
            fuzzing.target = Some(target.clone());
            verb
        }
        [] => bail!("say what to do, for example `cargo xtask demo`; `cargo xtask --help` lists all"),
        _ => bail!("one verb at a time, not {}: see `cargo xtask --help`", words.join(" ")),
    };
    ensure!(verb == "fuzz" || !fuzzes, "--seconds, --minimise and --input are for `cargo xtask fuzz`");
    ensure!(fuzzing.input.is_none() || fuzzing.target.is_some(), "--input is for one target: say which");
    ensure!(verb == "install" || root.is_none(), "--root is for `cargo xtask install`");
    ensure!(root.as_ref().is_none_or(|root| !root.as_os_str().is_empty()), "--root needs a directory");
    let started = Instant::now();
    match verb.as_str() {
        "setup" => setup(route).map(drop)?,
        "demo" => demo(route)?,
        "test" => test(route)?,
        "install" => install(route, root)?,
        "adapters" => adapters(route)?,
        "fuzz" => {
            let component = build_component(&setup(route)?)?;
            step("fuzzing", || fuzz::run(&fuzzing, |arguments| cargo(&component, arguments)))?
        }
        "lint" => lint(route)?,
        "peers" => peers(route)?,
        "slow-disk" => slow_disk(route)?,
        "instructions" => instructions(route, accept)?,
        "component" => check_component(&build_component(&setup(route)?)?)?,
        "licences" => licences()?,
        _ => bail!("no verb is named `{verb}`: see `cargo xtask --help`"),
    }
    eprintln!("==> {verb} done in {}", seconds(started.elapsed()));
    Ok(())
}

/// How wasm is built on this machine, for the steps that follow.
struct Setup {
    toolchain: Toolchain,
    /// Whether the host has to be told: its build script looks for itself, and would find another compiler first.
    forced: bool,
}

fn setup(forced: Option<Route>) -> Result<Setup> {
    let (route, toolchain) = step("a compiler for wasm32-unknown-unknown", || toolchain::obtain(forced))?;
    println!("    route: {route}");
    Ok(Setup { toolchain, forced: forced.is_some() })
}

fn demo(route: Option<Route>) -> Result<()> {
    let setup = setup(route)?;
    let component = build_component(&setup)?;
    let program = build_host(&component, &["--package", "memory-prefetch"])?;
    step("the demo", || run_command(Command::new(&program).arg("demo")))
}

fn test(route: Option<Route>) -> Result<()> {
    let component = build_component(&setup(route)?)?;
    check_component(&component)?;
    step("tests of all packages", || run_command(&mut cargo(&component, &["test", "--workspace"])))?;
    // As the tests were built: for fewer packages, cargo would choose other features and build wasmtime once more.
    let program = build_host(&component, &["--workspace", "--examples"])?;
    let example = program.with_file_name("examples").join("embed");
    step("example", || run_command(&mut Command::new(&example)))?;
    step("conformance scenarios", || run_command(Command::new(&program).args(["conformance", "tests/scenarios"])))?;
    match fuzz::can_run() {
        Ok(()) => step("fuzzing", || fuzz::run(&fuzz::Options::default(), |arguments| cargo(&component, arguments)))?,
        Err(why) => eprintln!("==> SKIPPED: fuzzing (its corpus has been run, with changes of it), since {why}"),
    }
    test_adapters(&component, &program)
}

fn install(route: Option<Route>, root: Option<PathBuf>) -> Result<()> {
    let component = build_component(&setup(route)?)?;
    let mut install = cargo(&component, &["install", "--locked", "--path", "host"]);
    if let Some(root) = root {
        install.arg("--root").arg(std::path::absolute(root).context("--root needs a directory")?);
    }
    match install::static_arguments()? {
        Ok(arguments) => _ = install.args(arguments),
        Err(why) => eprintln!("==> the C library is not made a part of the program, since {why}"),
    }
    step("the program", || run_command(&mut install))
}

fn adapters(route: Option<Route>) -> Result<()> {
    let component = build_component(&setup(route)?)?;
    let program = build_host(&component, &["--workspace"])?;
    test_adapters(&component, &program)
}

fn test_adapters(component: &Component, program: &Path) -> Result<()> {
    match adapters::jobs(&component.path, program)? {
        Ok(jobs) => jobs.into_iter().try_for_each(|mut job| step(job.what, || run_in_place(&mut job.command))),
        Err(why) => {
            eprintln!("==> SKIPPED: the JavaScript host and delegations in the real harnesses, since {why}");
            Ok(())
        }
    }
}

fn peers(route: Option<Route>) -> Result<()> {
    let component = build_component(&setup(route)?)?;
    let peers = peers::Peers::install(run_in_place)?;
    let bench = ["bench", "--package", "memory-prefetch", "--bench", "peers", "--"];
    step("the peers, side by side", || run_command(cargo(&component, &bench).args(peers.arguments())))
}

fn slow_disk(route: Option<Route>) -> Result<()> {
    let component = build_component(&setup(route)?)?;
    let program = build_host(&component, &["--release", "--package", "memory-prefetch"])?;
    step("durable work on a disk whose sync takes 4 ms", || {
        let mut strace = Command::new("strace");
        // The other system calls are as quick as ever.
        strace.args(["--follow-forks", "--seccomp-bpf", "--output=/dev/null", "--trace=fdatasync,fsync"]);
        strace.arg("--inject=fdatasync,fsync:delay_exit=4000").arg(&program);
        run_command(strace.args(["bench", "--rows", "component,insert"])).context("needs strace 5.3 or later")
    })
}

fn instructions(route: Option<Route>, accept: bool) -> Result<()> {
    if !instructions::has_valgrind() {
        eprintln!("==> SKIPPED: counting instructions, since valgrind is not here (Debian's package has its name)");
        return Ok(());
    }
    let setup = setup(route)?;
    let component = build_component(&setup)?;
    let program = build_host(&component, &["--workspace"])?;
    step("instructions under callgrind", || {
        let counts = instructions::count(&program)?;
        if accept {
            instructions::accept(setup.toolchain.name(), &counts)?;
        }
        instructions::compare(setup.toolchain.name(), &counts)
    })
}

fn lint(route: Option<Route>) -> Result<()> {
    let setup = setup(route)?;
    step("format", || run_command(Command::new(toolchain::cargo()).args(["fmt", "--all", "--check"])))?;
    // Checking the host builds its component.
    let component = build_component(&setup)?;
    let clippy = ["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"];
    step("clippy", || run_command(&mut cargo(&component, &clippy)))?;
    licences()
}

fn licences() -> Result<()> {
    step("licences", || {
        let checked = licences::check()?;
        println!("    {checked} dependencies, all under a licence that we accept");
        Ok(())
    })
}

/// A component on the disk.
struct Component {
    path: PathBuf,
    bytes: usize,
    imports: Vec<String>,
    forced: bool,
}

fn build_component(setup: &Setup) -> Result<Component> {
    step("the component", || {
        let target =
            component::target_directory(&env::current_exe().context("this program does not know where it is")?);
        let bytes = component::build(&setup.toolchain, &component::workspace().join("component/Cargo.toml"), &target)?;
        let path = target.join("wasm-component").join(setup.toolchain.name()).join("memory_prefetch.wasm");
        component::write(&path, &bytes)?;

        let interfaces = component::interfaces(&bytes)?;
        println!("    {}", path.display());
        println!("    {} of at most {}", kilobytes(bytes.len()), kilobytes(MAX_COMPONENT_BYTES));
        println!("    imports {}", interfaces.imports.join(", "));
        println!("    exports {}", interfaces.exports.join(", "));
        Ok(Component { path, bytes: bytes.len(), imports: interfaces.imports, forced: setup.forced })
    })
}

/// What holds for every component that we ship.
fn check_component(component: &Component) -> Result<()> {
    let foreign: Vec<_> = component.imports.iter().filter(|name| !name.starts_with(CONTRACT)).cloned().collect();
    ensure!(foreign.is_empty(), "the component imports what no harness offers: {}", foreign.join(", "));
    ensure!(
        component.bytes <= MAX_COMPONENT_BYTES,
        "the component has {}, and {} are allowed",
        kilobytes(component.bytes),
        kilobytes(MAX_COMPONENT_BYTES)
    );
    Ok(())
}

/// Builds the program in the dev profile. It is then run by itself: `cargo run` would hand it the variables of the
/// host's build script.
fn build_host(component: &Component, selection: &[&str]) -> Result<PathBuf> {
    let profile = if selection.contains(&"--release") { "release" } else { "dev" };
    step(&format!("the host, in the {profile} profile"), || {
        let mut command = cargo(component, &["build", "--bin", PROGRAM]);
        command.args(selection).args(["--message-format", "json-render-diagnostics"]);
        let output = command.current_dir(component::workspace()).stderr(Stdio::inherit()).output();
        let output = output.context("cargo could not start")?;
        // Cargo has said why.
        ensure!(output.status.success(), "the host could not be built");
        let messages = output.stdout.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
        let mut programs = messages.filter(|message: &Value| message["target"]["name"] == PROGRAM);
        programs
            .find_map(|message| Some(PathBuf::from(message["executable"].as_str()?)))
            .context("cargo built no program")
    })
}

/// Cargo in the workspace, with the component if it is not the one that the host's build script would build.
fn cargo(component: &Component, arguments: &[&str]) -> Command {
    let mut command = Command::new(toolchain::cargo());
    command.args(arguments);
    if component.forced {
        command.env(PREBUILT, &component.path);
    }
    command
}

/// Runs it in the workspace's directory.
fn run_command(command: &mut Command) -> Result<()> {
    run_in_place(command.current_dir(component::workspace()))
}

fn run_in_place(command: &mut Command) -> Result<()> {
    let words = command.get_args().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    let program = Path::new(command.get_program()).file_stem().unwrap_or_default().to_string_lossy();
    let line = format!("{program} {words}");
    eprintln!("    {line}");
    let status = command.status().with_context(|| format!("`{line}` could not start"))?;
    // A code outside one byte, or a signal, has no other number to be passed on.
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    if status.success() { Ok(()) } else { Err(Failed { line, code }.into()) }
}

/// A command that ran and said no.
#[derive(Debug)]
struct Failed {
    line: String,
    code: u8,
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}` failed with exit code {}", self.line, self.code)
    }
}

impl std::error::Error for Failed {}

/// Says what begins and how long it took.
fn step<T>(what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    eprintln!("==> {what}");
    let started = Instant::now();
    let done = work()?;
    eprintln!("    {} for {what}", seconds(started.elapsed()));
    Ok(done)
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

fn kilobytes(bytes: usize) -> String {
    format!("{:.0} KB", bytes as f64 / 1024.0)
}
