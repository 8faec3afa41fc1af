//! `component inspect|export`.

use std::io::Write;
use std::path::{Path, PathBuf};

use memory_prefetch::MemoryStore;
use memory_prefetch::runtime::BUILT_IN;
use serde::Serialize;
use serde_json::json;

use super::app::App;
use super::failure::{Exit, Failure};
use super::terminal::{escaped, name};

/// The policy component that decides everything
#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// Show what the loaded component is: the built-in one, or the one of --component
    #[command(after_help = "Example:\n  memory-prefetch component inspect")]
    Inspect,
    /// Write the built-in component to a file
    #[command(after_help = "Example:\n  memory-prefetch component export policy.wasm\n  memory-prefetch --component \
                            policy.wasm component inspect")]
    Export {
        /// The file
        #[arg(value_name = "PATH")]
        path: PathBuf,
        /// Replace the file if it is there
        #[arg(long)]
        force: bool,
    },
}

/// Run it.
pub fn run(verb: Verb, app: &App) -> Result<(), Failure> {
    match verb {
        Verb::Inspect => inspect(app),
        Verb::Export { path, force } => {
            export(&path, force)?;
            if app.out.json {
                let path = path.display().to_string();
                return app.out.object(&json!({ "path": path, "bytes": BUILT_IN.len() }));
            }
            app.out.text(&format!("Wrote {} bytes to {}.\n", BUILT_IN.len(), escaped(&path.display().to_string())))
        }
    }
}

#[derive(Serialize)]
struct Shape<'a> {
    name: String,
    version: String,
    contract: String,
    sha256: &'a str,
    bytes: usize,
    imports: &'a [String],
    exports: &'a [String],
}

fn inspect(app: &App) -> Result<(), Failure> {
    let runtime = app.runtime()?;
    let info = runtime.open(MemoryStore::new())?.describe()?;
    let world = runtime.world();
    let shape = Shape {
        name: info.name,
        version: info.version,
        contract: info.contract,
        sha256: runtime.digest(),
        bytes: runtime.component().len(),
        imports: &world.imports,
        exports: &world.exports,
    };
    if app.out.json {
        return app.out.object(&shape);
    }
    let mut text = format!("Name      {}\nVersion   {}\n", name(&shape.name), name(&shape.version));
    text +=
        &format!("Contract  {}\nSHA-256   {}\nSize      {} bytes\n", name(&shape.contract), shape.sha256, shape.bytes);
    for (heading, list) in [("Imports", shape.imports), ("Exports", shape.exports)] {
        text += &format!("{heading}\n");
        for interface in list {
            text += &format!("  {}\n", name(interface));
        }
    }
    app.out.text(&text)
}

/// Whole or not at all, and never over a file that somebody may need.
fn export(path: &Path, force: bool) -> Result<(), Failure> {
    let shown = path.display();
    let failed =
        |error: &std::io::Error| Failure::new(Exit::Output, "output", format!("{shown} cannot be written: {error}"));
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    // As any new file, and not the private one that a temporary file is.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = builder.tempfile_in(dir).map_err(|error| failed(&error))?;
    file.write_all(BUILT_IN).map_err(|error| failed(&error))?;
    let kept = if force { file.persist(path) } else { file.persist_noclobber(path) };
    kept.map(drop).map_err(|error| match error.error.kind() {
        std::io::ErrorKind::AlreadyExists => Failure::new(Exit::Refused, "exists", format!("{shown} is there already"))
            .hint("replace it with --force, or choose another path"),
        _ => failed(&error.error),
    })
}
