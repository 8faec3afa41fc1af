//! What people use today, installed for a comparison: pinned, in the target directory (tests/bench/peers).

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use xtask::component;

/// Where they are.
pub struct Peers {
    python: PathBuf,
    script: PathBuf,
    server: PathBuf,
}

impl Peers {
    /// Installs what is missing.
    pub fn install(run: impl Fn(&mut Command) -> Result<()>) -> Result<Peers> {
        let sources = component::workspace().join("tests/bench/peers");
        let program = env::current_exe().context("this program does not know where it is")?;
        let target = component::target_directory(&program).join("peers");
        fs::create_dir_all(&target).with_context(|| format!("{} can't be made", target.display()))?;

        let environment = target.join("python");
        let python = environment.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
        if !python.exists() {
            run(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
        }
        let requirements = sources.join("requirements.txt");
        run(Command::new(&python).args(["-m", "pip", "install", "--quiet", "--requirement"]).arg(requirements))?;

        for file in ["package.json", "package-lock.json"] {
            fs::copy(sources.join(file), target.join(file)).with_context(|| format!("{file} can't be copied"))?;
        }
        run(Command::new("npm").current_dir(&target).args(["ci", "--no-audit", "--no-fund"]))?;
        let server = target.join("node_modules/@modelcontextprotocol/server-memory/dist/index.js");
        Ok(Peers { python, script: sources.join("langgraph_store.py"), server })
    }

    /// For the bench.
    pub fn arguments(&self) -> [&PathBuf; 3] {
        [&self.python, &self.script, &self.server]
    }
}
