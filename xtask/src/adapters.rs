//! The JavaScript host and the adapters of harnesses (adapters/js): its own build, tests and conformance run, and the
//! end-to-end tests in the real harnesses. All of it needs npm, which a machine for Rust may lack.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Result, bail};
use xtask::component;

/// Set where a run without npm must fail, as in CI.
const REQUIRED: &str = "MEMORY_PREFETCH_REQUIRE_NPM";

/// A command to run, by what it is for.
pub struct Job {
    pub what: &'static str,
    pub command: Command,
}

/// The commands that test the adapters with this component and this program of the host. Empty, with the reason, where
/// npm is missing and not required.
pub fn jobs(component: &Path, program: &Path) -> Result<Result<Vec<Job>, String>> {
    if let Err(why) = npm_version() {
        if std::env::var_os(REQUIRED).is_some() {
            bail!("{why}, and {REQUIRED} is set: install Node 20 or later, with npm");
        }
        return Ok(Err(why));
    }
    let package = component::workspace().join("adapters/js");
    let harnesses = package.join("e2e");
    let npm = |directory: &PathBuf, arguments: &[&str]| {
        let mut npm = Command::new("npm");
        npm.current_dir(directory).args(arguments);
        npm.env("MEMORY_PREFETCH_COMPONENT_WASM", component).env("MEMORY_PREFETCH_PROGRAM", program);
        // What better-sqlite3 is compiled with, where the distribution has put it; else npm fetches it.
        let headers = Path::new("/usr/include/node/node.h");
        if headers.exists() && std::env::var_os("npm_config_nodedir").is_none() {
            npm.env("npm_config_nodedir", "/usr");
        }
        npm
    };
    let job = |what, directory, arguments: &[&str]| Job { what, command: npm(directory, arguments) };
    Ok(Ok(vec![
        job("packages of the JavaScript host", &package, &["ci", "--no-audit", "--no-fund"]),
        job("the JavaScript host", &package, &["run", "build"]),
        job("tests of the JavaScript host", &package, &["test"]),
        job("conformance scenarios on Node", &package, &["run", "--silent", "conformance"]),
        job("conformance scenarios on Bun", &package, &["run", "--silent", "conformance:bun"]),
        job("the real harnesses", &harnesses, &["ci", "--no-audit", "--no-fund"]),
        job("delegations in the real harnesses", &harnesses, &["test"]),
    ]))
}

fn npm_version() -> Result<(), String> {
    let output = Command::new("npm").arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("npm does not work here ({})", output.status)),
        Err(error) => Err(format!("npm cannot be run here ({error})")),
    }
}
