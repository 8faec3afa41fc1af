//! Coverage-guided fuzzing without cargo-fuzz: its targets (`fuzz/`) with libFuzzer, by a stable compiler. Only our own
//! packages are instrumented, so that all others are those that the tests were built with.
//!
//! Cargo calls this very program in place of the compiler for packages of the workspace ([`wrapped`]).

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail, ensure};
use xtask::component;

/// Tells this program that cargo calls it in place of the compiler.
const WRAPPER: &str = "MEMORY_PREFETCH_FUZZ_RUSTC";

/// What is instrumented: the crates whose code is under test. Their build scripts are not.
const INSTRUMENTED: [&str; 3] = ["memory_prefetch", "memory_prefetch_component", "memory_prefetch_fuzz"];

/// What libFuzzer needs to see where an input leads: counters for edges, and what is compared with what.
const FLAGS: [&str; 5] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

/// What to fuzz.
pub struct Options {
    /// One target; `None`: each.
    pub target: Option<String>,
    /// How long each.
    pub seconds: u32,
    /// Instead of looking for new inputs, make the corpus as small as it can be with all that was found.
    pub minimise: bool,
    /// Instead, run this one.
    pub input: Option<PathBuf>,
}

impl Default for Options {
    /// Every target for a moment: what CI has time for.
    fn default() -> Options {
        Options { target: None, seconds: 5, minimise: false, input: None }
    }
}

/// The compiler, where cargo has called this program in its place. `None`: it has not.
pub fn wrapped() -> Option<ExitCode> {
    env::var_os(WRAPPER)?;
    let mut arguments = env::args_os().skip(1);
    let compiler = arguments.next()?;
    let arguments: Vec<OsString> = arguments.collect();
    let name = arguments.iter().skip_while(|argument| *argument != "--crate-name").nth(1);
    let ours = name.is_some_and(|name| INSTRUMENTED.iter().any(|ours| name == *ours) || is_program(name));
    let status = Command::new(compiler).args(&arguments).args(FLAGS.iter().filter(|_| ours)).status();
    Some(match status {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

fn is_program(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| name.starts_with("fuzz_"))
}

/// The targets, by the files of `fuzz/fuzz_targets`.
fn targets() -> Result<Vec<String>> {
    let dir = component::workspace().join("fuzz/fuzz_targets");
    let files = fs::read_dir(&dir).with_context(|| dir.display().to_string())?;
    let mut names = Vec::new();
    for file in files {
        names.extend(file?.path().file_stem().and_then(|name| name.to_str()).map(String::from));
    }
    names.sort();
    Ok(names)
}

/// Whether the C++ compiler that libFuzzer needs is there; if not, why.
pub fn can_run() -> std::result::Result<(), String> {
    let compiler = env::var_os("CXX").unwrap_or_else(|| "c++".into());
    let answer = Command::new(&compiler).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    match answer {
        Ok(status) if status.success() => Ok(()),
        _ => Err(format!("there is no C++ compiler `{}`, which libFuzzer needs", compiler.display())),
    }
}

/// Builds the targets, then runs them one after the other.
pub fn run(options: &Options, cargo: impl Fn(&[&str]) -> Command) -> Result<()> {
    can_run().map_err(anyhow::Error::msg)?;
    let mut targets = targets()?;
    if let Some(wanted) = &options.target {
        ensure!(targets.contains(wanted), "no target is named `{wanted}`: there are {}", targets.join(", "));
        targets.retain(|target| target == wanted);
    }
    let programs = build(&targets, cargo)?;
    let work = programs[0].1.ancestors().nth(2).context("a program in cargo's target directory")?.join("fuzz");
    let mut failed = Vec::new();
    for (target, program) in &programs {
        let checked_in = component::workspace().join("fuzz/corpus").join(target);
        let found = work.join("corpus").join(target);
        fs::create_dir_all(&found)?;
        if let Some(input) = &options.input {
            let status = fuzzer(program).arg(input).stdin(Stdio::null()).status()?;
            ensure!(status.success(), "{target} does not hold for {}", input.display());
            println!("    {target} holds for {}", input.display());
        } else if options.minimise {
            minimise(program, &checked_in, &found, &work.join("smallest").join(target))?;
        } else if !look(target, program, &checked_in, &found, &work, options.seconds)? {
            failed.push(target.as_str());
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    bail!("{} did not hold for the inputs above. Fix what they show, and put them into fuzz/corpus", failed.join(", "))
}

fn build(targets: &[String], cargo: impl Fn(&[&str]) -> Command) -> Result<Vec<(String, PathBuf)>> {
    // As the tests are built: for fewer packages, cargo would choose other features and build wasmtime once more.
    let mut command = cargo(&["build", "--workspace", "--features", "memory-prefetch-fuzz/libfuzzer"]);
    for target in targets {
        command.args(["--bin", &format!("fuzz_{target}")]);
    }
    let quick = ["memory-prefetch", "memory-prefetch-component", "memory-prefetch-fuzz", "libfuzzer-sys"];
    for package in quick {
        command.args(["--config", &format!("profile.dev.package.{package}.opt-level=2")]);
    }
    command.args(["--message-format", "json-render-diagnostics"]);
    command.env("RUSTC_WORKSPACE_WRAPPER", env::current_exe()?).env(WRAPPER, "1");
    let output = command.current_dir(component::workspace()).stderr(Stdio::inherit()).output();
    let output = output.context("cargo could not start")?;
    ensure!(output.status.success(), "the targets could not be built");
    let lines = output.stdout.split(|byte| *byte == b'\n');
    let messages: Vec<serde_json::Value> = lines.filter_map(|line| serde_json::from_slice(line).ok()).collect();
    let mut programs = Vec::new();
    for target in targets {
        let name = format!("fuzz_{target}");
        let built = messages.iter().filter(|message| message["target"]["name"] == *name);
        let program = built.filter_map(|message| message["executable"].as_str()).next_back();
        programs.push((target.clone(), program.with_context(|| format!("cargo built no {name}"))?.into()));
    }
    Ok(programs)
}

/// What every run has: no single input may take long, or much memory.
fn fuzzer(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(["-timeout=20", "-rss_limit_mb=3000", "-max_len=16384", "-verbosity=1"]);
    command
}

fn look(target: &str, program: &Path, checked_in: &Path, found: &Path, work: &Path, seconds: u32) -> Result<bool> {
    // As libFuzzer names it, with a digest of the input.
    let failed = work.join("failed").join(target);
    let _ = fs::remove_dir_all(&failed);
    fs::create_dir_all(&failed)?;
    let log = work.join(format!("{target}.log"));
    let status = fuzzer(program)
        .arg(format!("-max_total_time={seconds}"))
        .arg("-print_final_stats=1")
        .arg(format!("-artifact_prefix={}/", failed.display()))
        .args([found, checked_in])
        .stdin(Stdio::null())
        .stderr(fs::File::create(&log)?)
        .status()
        .with_context(|| format!("{} could not start", program.display()))?;
    let said = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
    let last =
        |begins: &str| said.lines().rev().find(|line| line.contains(begins)).unwrap_or_default().trim().to_owned();
    let number = |name: &str| last(name).rsplit(' ').next().unwrap_or_default().to_owned();
    println!(
        "    {target}: {} inputs, {}; {} ({})",
        number("stat::number_of_executed_units"),
        covered(&last("cov: ")),
        if status.success() { "all hold".to_owned() } else { "FAILED".to_owned() },
        last("INFO: Seed:").trim_start_matches("INFO: ").to_lowercase(),
    );
    if !status.success() {
        let tail: Vec<&str> = said.lines().rev().take(40).collect();
        tail.into_iter().rev().for_each(|line| eprintln!("    {line}"));
        for input in fs::read_dir(&failed)? {
            let input = input?.path();
            eprintln!("    The input, as text: {}", String::from_utf8_lossy(&fs::read(&input)?).escape_debug());
            eprintln!("    Again: cargo xtask fuzz {target} --input {}", input.display());
            eprintln!(
                "    Elsewhere: echo {} | base64 --decode > {target}.input",
                last("Base64: ").trim_start_matches("Base64: ")
            );
        }
    }
    Ok(status.success())
}

/// `cov: 1234` of a line of libFuzzer's.
fn covered(line: &str) -> String {
    let mut words = line.split_whitespace().skip_while(|word| *word != "cov:");
    format!("{} edges", words.nth(1).unwrap_or("?"))
}

/// As few inputs as reach every edge that all of them reach (how often is left to each run to find), and those that a person
/// named after what they once showed.
fn minimise(program: &Path, checked_in: &Path, found: &Path, smallest: &Path) -> Result<()> {
    let _ = fs::remove_dir_all(smallest);
    fs::create_dir_all(smallest)?;
    let status = fuzzer(program)
        .args(["-set_cover_merge=1", "-use_counters=0"])
        .args([smallest, checked_in, found])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    ensure!(status.success(), "the corpus could not be made smaller");
    for file in fs::read_dir(checked_in)? {
        let file = file?;
        if is_digest(&file.file_name()) {
            fs::remove_file(file.path())?;
        }
    }
    for file in fs::read_dir(smallest)? {
        let file = file?;
        fs::copy(file.path(), checked_in.join(file.file_name()))?;
    }
    let (mut count, mut bytes) = (0, 0);
    for file in fs::read_dir(checked_in)? {
        bytes += file?.metadata()?.len();
        count += 1;
    }
    println!("    {}: {count} inputs, {bytes} bytes", checked_in.display());
    Ok(())
}

/// Whether libFuzzer gave this name: SHA-1 in hex.
fn is_digest(name: &OsStr) -> bool {
    name.len() == 40 && name.to_str().is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_hexdigit()))
}
