//! Builds the policy component, so that the host has it inside, and tells the host where it is.
//!
//! Installs nothing: without a compiler for WebAssembly it says how to get one. `MEMORY_PREFETCH_COMPONENT_WASM` names
//! a component that was built elsewhere, to be used instead.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use xtask::{component, toolchain};

/// The variable with a prebuilt component's path.
const PREBUILT: &str = "MEMORY_PREFETCH_COMPONENT_WASM";

fn main() {
    if let Err(error) = run() {
        // Cargo shows this sentence by itself if the script ends well, and below all the script's output if not. The
        // output matters only where a compiler had something to say.
        println!("cargo::error={error:#}");
        if error.is::<component::NotBuilt>() {
            std::process::exit(1);
        }
    }
}

fn run() -> Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={PREBUILT}");
    let component = match env::var_os(PREBUILT).filter(|path| !path.is_empty()) {
        Some(path) => prebuilt(Path::new(&path))?,
        None => guest("component")?,
    };
    expose("MEMORY_PREFETCH_BUILT_IN", "memory_prefetch.wasm", &component)?;
    println!("cargo::rustc-env=MEMORY_PREFETCH_BUILT_IN_SHA256={:x}", Sha256::digest(&component));

    // Guests that only tests load: one line each, in folders that a package of the host alone doesn't have.
    for (folder, variable, file) in [
        ("tests/guest", "MEMORY_PREFETCH_TEST_GUEST", "test_guest.wasm"),
        ("tests/policy", "MEMORY_PREFETCH_TEST_POLICY", "test_policy.wasm"),
    ] {
        if component::workspace().join(folder).join("Cargo.toml").exists() {
            expose(variable, file, &guest(folder)?)?;
        }
    }
    Ok(())
}

fn prebuilt(path: &Path) -> Result<Vec<u8>> {
    // Cargo runs us in the package's folder; whoever set the variable thought of the workspace's.
    let path = component::workspace().join(path);
    println!("cargo::rerun-if-changed={}", path.display());
    let bytes = fs::read(&path).with_context(|| format!("{PREBUILT} names {}, which can't be read", path.display()))?;
    component::interfaces(&bytes)
        .with_context(|| format!("{PREBUILT} names {}, which is no component", path.display()))?;
    Ok(bytes)
}

/// Builds the package in this folder of the workspace.
fn guest(folder: &str) -> Result<Vec<u8>> {
    let workspace = component::workspace();
    let folder = workspace.join(folder);
    for input in [
        folder.join("src"),
        folder.join("Cargo.toml"),
        // A policy of one's own is built on it.
        workspace.join("component/src"),
        workspace.join("component/Cargo.toml"),
        workspace.join("wit"),
        workspace.join("Cargo.toml"),
        workspace.join("Cargo.lock"),
        workspace.join(".cargo/config.toml"),
    ] {
        println!("cargo::rerun-if-changed={}", input.display());
    }
    let toolchain = toolchain::find()?.with_context(|| {
        format!("the compiler has no standard library for {}: run `cargo xtask setup` once, it gets one", xtask::TARGET)
    })?;
    let target = component::target_directory(&out_dir()?);
    component::build(&toolchain, &folder.join("Cargo.toml"), &target)
}

/// Puts a component where the crate's `include_bytes!(env!(…))` finds it.
fn expose(variable: &str, file: &str, component: &[u8]) -> Result<()> {
    let path = out_dir()?.join(file);
    component::write(&path, component)?;
    println!("cargo::rustc-env={variable}={}", path.display());
    Ok(())
}

fn out_dir() -> Result<PathBuf> {
    env::var_os("OUT_DIR").map(PathBuf::from).context("OUT_DIR is not set: this program is cargo's build script")
}
