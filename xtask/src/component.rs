//! From a package to a component: cargo builds the core module, `wit_component` wraps it, in process.

use std::env;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use wit_component::{ComponentEncoder, DecodedWasm};

use crate::TARGET;
use crate::toolchain::{Toolchain, cargo};

/// Where a component is kept small: a profile of the workspace's `Cargo.toml`.
const PROFILE: &str = "component";

/// Builds the library of the package whose manifest this is (an absolute path), and returns it as a valid component.
///
/// Cargo works in a directory of its own below `target`, so this may run inside a build script: a build script that
/// waited for the lock of the cargo that waits for it would wait forever. What has not changed is not built again.
pub fn build(toolchain: &Toolchain, manifest: &Path, target: &Path) -> Result<Vec<u8>> {
    let module = build_module(toolchain, manifest, target)?;
    let bytes = fs::read(&module).with_context(|| format!("{} can't be read", module.display()))?;
    encode(&bytes).with_context(|| format!("{} can't be made a component", module.display()))
}

fn encode(module: &[u8]) -> Result<Vec<u8>> {
    ComponentEncoder::default().validate(true).module(module)?.encode()
}

fn build_module(toolchain: &Toolchain, manifest: &Path, target: &Path) -> Result<PathBuf> {
    let mut command = Command::new(cargo());
    for (name, _) in env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_foreign)) {
        command.env_remove(name);
    }
    command
        // Nothing but the module: for a library that is a Rust library too, cargo leaves link-time optimisation out.
        .args(["rustc", "--lib", "--crate-type", "cdylib", "--target", TARGET, "--profile", PROFILE])
        .args(["--message-format", "json-render-diagnostics"])
        .arg("--manifest-path")
        .arg(manifest)
        .arg("--target-dir")
        .arg(target.join("wasm-component").join(toolchain.name()))
        .env("RUSTC", &toolchain.rustc)
        .arg("--config")
        .arg(remap(&path_names(toolchain, target)?)?)
        // Cargo looks for `.cargo/config.toml` from here.
        .current_dir(workspace())
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    if let Some(linker) = &toolchain.build_std {
        command
            .arg("-Zbuild-std=std,panic_abort")
            // Building the library is a feature of nightly compilers; a stable one allows it when told so.
            .env("RUSTC_BOOTSTRAP", "1")
            .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker)
            // Cargo puts the libraries of its own compiler there, and this is another compiler.
            .env_remove("LD_LIBRARY_PATH");
    }
    let output = command.stdout(Stdio::piped()).spawn().context("cargo could not start")?.wait_with_output()?;
    ensure!(output.status.success(), NotBuilt(manifest.to_owned()));
    module_of(&output.stdout, manifest)
}

/// Cargo could not build a package for the target. It has said why on standard error.
#[derive(Debug)]
pub struct NotBuilt(PathBuf);

impl fmt::Display for NotBuilt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cargo could not build {} for {TARGET}: see its messages", self.0.display())
    }
}

impl std::error::Error for NotBuilt {}

/// The module among the artefacts that cargo lists, one JSON object a line.
fn module_of(messages: &[u8], manifest: &Path) -> Result<PathBuf> {
    let manifest = manifest.canonicalize().with_context(|| format!("{} is missing", manifest.display()))?;
    for line in messages.split(|byte| *byte == b'\n') {
        let Ok(message) = serde_json::from_slice::<Value>(line) else { continue };
        if message["manifest_path"].as_str().is_none_or(|path| Path::new(path) != manifest) {
            continue;
        }
        let mut files = message["filenames"].as_array().into_iter().flatten().filter_map(Value::as_str).map(Path::new);
        if let Some(module) = files.find(|file| file.extension().is_some_and(|end| end == "wasm")) {
            return Ok(module.to_owned());
        }
    }
    bail!("cargo built no wasm module from {}", manifest.display())
}

/// Is this a variable by which an outer cargo, clippy or rustdoc would steer the inner build? Those that say where
/// cargo keeps and fetches things, and how many jobs there may be, stay.
fn is_foreign(name: &str) -> bool {
    const KEPT: [&str; 8] = ["HOME", "MAKEFLAGS", "NET_", "HTTP_", "HTTPS_", "REGISTR", "SOURCE_", "TERM_"];
    match name.strip_prefix("CARGO_") {
        Some(rest) => !KEPT.iter().any(|kept| rest.starts_with(kept)),
        None => name == "RUSTFLAGS" || name == "RUSTC" || name.starts_with("RUSTC_") || name.starts_with("CLIPPY_"),
    }
}

/// Adds flags to those that `.cargo/config.toml` has for the target, so that they stand in one place. A variable such as
/// `RUSTFLAGS` would take their place, and splits at spaces.
fn remap(names: &[(PathBuf, String)]) -> Result<String> {
    let mut flags = Vec::new();
    for (from, to) in names {
        let from = from.to_str().with_context(|| format!("{} is not Unicode", from.display()))?;
        // A JSON string is a TOML string too.
        flags.push(Value::from(format!("--remap-path-prefix={from}={to}")).to_string());
    }
    Ok(format!("target.{TARGET}.rustflags=[{}]", flags.join(",")))
}

/// What the component calls the directories of this machine. Panic messages hold the names of source files, and those
/// should be the same wherever the component was built. The last that fits wins.
fn path_names(toolchain: &Toolchain, target: &Path) -> Result<Vec<(PathBuf, String)>> {
    let home = match env::var_os("CARGO_HOME") {
        Some(home) => PathBuf::from(home),
        None => env::home_dir().context("no home directory, so cargo's is unknown: set CARGO_HOME")?.join(".cargo"),
    };
    let library = toolchain.sysroot.join("lib/rustlib/src/rust");
    let mut names = vec![(target.to_owned(), "target".to_owned()), (workspace(), "memory-prefetch".to_owned())];
    names.push((home.join("git/checkouts"), "crates".to_owned()));
    // Each registry has a directory that is named after its host, which may be a mirror. Ours is there by now, since
    // this very crate has dependencies from it.
    let registries = fs::read_dir(home.join("registry/src")).into_iter().flatten().flatten();
    let mut registries: Vec<_> = registries.map(|entry| entry.path()).collect();
    registries.sort();
    names.extend(registries.into_iter().map(|registry| (registry, "crates".to_owned())));
    // Debian has a symbolic link there.
    names.extend(library.canonicalize().map(|path| (path, toolchain.library_name.clone())));
    names.push((library, toolchain.library_name.clone()));
    Ok(names)
}

/// The root of the workspace that this crate belongs to.
pub fn workspace() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_owned()
}

/// Cargo's target directory, given a path inside it, such as a build script's `OUT_DIR` or a program that cargo built.
/// Cargo tells it to neither, but marks it.
pub fn target_directory(inside: &Path) -> PathBuf {
    let marked = inside.ancestors().find(|directory| directory.join("CACHEDIR.TAG").exists());
    marked.map_or_else(|| workspace().join("target"), Path::to_owned)
}

/// Writes a file whole or not at all, and leaves one alone that holds these bytes already: its time is what cargo
/// decides by whether to build again.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|present| present == bytes) {
        return Ok(());
    }
    let unfinished = path.with_extension(format!("{}.tmp", std::process::id()));
    let written = fs::write(&unfinished, bytes).and_then(|()| fs::rename(&unfinished, path));
    written.with_context(|| format!("{} can't be written", path.display()))
}

/// The names of the interfaces that a component imports, and of those that it exports.
pub struct Interfaces {
    /// What the host has to offer, in the component's order.
    pub imports: Vec<String>,
    /// What the host may call, in the component's order.
    pub exports: Vec<String>,
}

/// Reads a component's interfaces; fails if these bytes are no component.
pub fn interfaces(bytes: &[u8]) -> Result<Interfaces> {
    let DecodedWasm::Component(resolve, world) = wit_component::decode(bytes)? else {
        bail!("this holds WIT packages, not a component");
    };
    let world = &resolve.worlds[world];
    Ok(Interfaces {
        imports: world.imports.keys().map(|key| resolve.name_world_key(key)).collect(),
        exports: world.exports.keys().map(|key| resolve.name_world_key(key)).collect(),
    })
}
