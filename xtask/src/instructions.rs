//! How many instructions a delegation, a delivery, a replay and a recall take, as callgrind counts them: the same number on
//! a busy machine as on an idle one. Compared with the figures in `tests/bench/instructions.json`.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use xtask::component;

/// The functions of the program in which callgrind counts, `measured_…`.
const MEASURED: [&str; 4] = ["delegate", "deliver", "recall", "replay"];

/// By how much a count may be above its figure. Random names and hashes make 0.1%; the rest is for another machine's C
/// library, which picks other ways of copying.
const TOLERANCE: f64 = 0.08;

/// How many instructions each takes.
pub type Counts = BTreeMap<String, u64>;

/// Whether valgrind is here.
pub fn has_valgrind() -> bool {
    let version = Command::new("valgrind").arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).status();
    version.is_ok_and(|status| status.success())
}

/// Runs this program under callgrind, once for each of them.
pub fn count(program: &Path) -> Result<Counts> {
    let this = env::current_exe().context("this program does not know where it is")?;
    let directory = component::target_directory(&this).join("instructions");
    fs::create_dir_all(&directory).with_context(|| format!("{} can't be made", directory.display()))?;
    let mut counts = Counts::new();
    for name in MEASURED {
        let output = directory.join(format!("{name}.callgrind"));
        let mut command = Command::new("valgrind");
        // Code that is compiled at run time may be written again.
        command.args(["--quiet", "--tool=callgrind", "--smc-check=all-non-file", "--collect-atstart=no"]);
        command.arg(format!("--toggle-collect=*measured_{name}"));
        command.arg(format!("--callgrind-out-file={}", output.display()));
        command.arg(program).args(["bench", "--instructions"]);
        // The compiled component stays there: valgrind's processor is another one than this machine's.
        command.env("XDG_CACHE_HOME", directory.join("cache")).env("HOME", &directory);
        let status = command.stdin(Stdio::null()).status().context("valgrind could not start")?;
        ensure!(status.success(), "the program failed under valgrind ({status})");
        counts.insert(name.to_owned(), total(&output)?);
    }
    Ok(counts)
}

/// The sum in a file of callgrind's.
fn total(file: &Path) -> Result<u64> {
    let text = fs::read_to_string(file).with_context(|| format!("callgrind has not written {}", file.display()))?;
    let line = text.lines().find_map(|line| line.strip_prefix("totals: ").or(line.strip_prefix("summary: ")));
    line.and_then(|number| number.trim().parse().ok()).with_context(|| format!("{} has no sum", file.display()))
}

/// Compares them with the figures for this way of building the component, and prints both.
pub fn compare(route: &str, counts: &Counts) -> Result<()> {
    let figures = read()?;
    let Some(figures) = figures.get(route) else {
        println!("    nothing to compare with: the figures are for components that are built in another way");
        return Ok(());
    };
    let mut missed = Vec::new();
    for (name, count) in counts {
        let figure =
            figures[name].as_u64().with_context(|| format!("{} has no figure for {name}", path().display()))?;
        let change = *count as f64 / figure as f64 - 1.0;
        println!("    {name:<10} {count:>12} instructions, {:+.1}% of {figure}", change * 100.0);
        if change < -TOLERANCE {
            println!("    {name} has become faster: `cargo xtask instructions --accept` keeps that");
        } else if change > TOLERANCE {
            missed.push(format!("{name} {:+.1}%", change * 100.0));
        }
    }
    if missed.is_empty() {
        return Ok(());
    }
    bail!(
        "{} against the figures in {}, and {:.0}% are allowed. If it is meant to be so, \
         `cargo xtask instructions --accept` writes down the new ones",
        missed.join(", "),
        path().display(),
        TOLERANCE * 100.0
    )
}

/// Makes these the figures.
pub fn accept(route: &str, counts: &Counts) -> Result<()> {
    let mut figures = read()?;
    figures[route] = json!(counts);
    component::write(&path(), format!("{figures:#}\n").as_bytes())
}

fn read() -> Result<Value> {
    let path = path();
    let text = fs::read_to_string(&path).with_context(|| format!("{} can't be read", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is no JSON", path.display()))
}

fn path() -> PathBuf {
    component::workspace().join("tests/bench/instructions.json")
}
