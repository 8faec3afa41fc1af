//! Compiled code, kept across processes. Loading compiled code runs it, so an entry is used only if it is exactly what
//! this host wrote for this component and this engine: any other one is compiled anew and replaced.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};

use wasmtime::component::Component;
use wasmtime::{Engine, Precompiled};

use crate::environment::sha256;
use crate::runtime::LoadError;

/// Hex digits of a SHA-256, which stand in front of the code.
const SEAL: usize = 64;

/// The component, from the cache if there is a sound entry, else compiled and, if it can be, cached.
pub(crate) fn compile(engine: &Engine, bytes: &[u8], digest: &str, dir: Option<&Path>) -> Result<Component, LoadError> {
    let file = dir.map(|dir| dir.join(entry_name(engine, digest)));
    if let Some(component) = file.as_deref().and_then(|file| load(engine, file, digest)) {
        return Ok(component);
    }
    let component = Component::from_binary(engine, bytes)
        .map_err(|error| LoadError::NotAComponent(format!("{error:#}").replace('\n', " ")))?;
    if let Some(file) = file
        && let Err(error) = save(&component, &file, digest)
    {
        log::warn!("the compiled component could not be cached in {}: {error}", file.display());
    }
    Ok(component)
}

/// Another component, wasmtime version, target or configuration has another name.
fn entry_name(engine: &Engine, digest: &str) -> String {
    let mut hasher = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    format!("{digest}-{:016x}.cwasm", hasher.finish())
}

/// Binds the code to the component as well as to its own bytes.
fn seal(code: &[u8], digest: &str) -> String {
    sha256(format!("{} {digest}", sha256(code)).as_bytes())
}

fn load(engine: &Engine, file: &Path, digest: &str) -> Option<Component> {
    if !is_private(file) {
        return None;
    }
    let entry = fs::read(file).ok()?;
    let (sealed, code) = entry.split_at_checked(SEAL)?;
    if seal(code, digest).as_bytes() != sealed || Engine::detect_precompiled(code) != Some(Precompiled::Component) {
        log::warn!("{} is damaged or not ours: compiling anew", file.display());
        return None;
    }
    // SAFETY: these bytes are what `save` wrote: the seal holds for them, and the file and its directory can be written
    // by this user only, who could run any code anyway. Wasmtime checks its own version and the engine's settings.
    #[allow(unsafe_code)]
    let component = unsafe { Component::deserialize(engine, code) };
    component.inspect_err(|error| log::warn!("{}: {error:#}: compiling anew", file.display())).ok()
}

/// Whole or not at all: other processes may read or write the same entry at this moment.
fn save(component: &Component, file: &Path, digest: &str) -> std::io::Result<()> {
    let dir: PathBuf = file.parent().map(Path::to_owned).unwrap_or_default();
    create_private_dir(&dir)?;
    let code = component.serialize().map_err(|error| std::io::Error::other(format!("{error:#}")))?;
    let mut entry = tempfile::NamedTempFile::new_in(&dir)?;
    entry.write_all(seal(&code, digest).as_bytes())?;
    entry.write_all(&code)?;
    entry.persist(file)?;
    Ok(())
}

#[cfg(unix)]
fn create_private_dir(dir: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

#[cfg(not(unix))]
fn create_private_dir(dir: &Path) -> std::io::Result<()> {
    fs::create_dir_all(dir)
}

/// Whether only this user, or root, can have written this entry.
#[cfg(unix)]
fn is_private(file: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let user = rustix::process::geteuid().as_raw();
    let ours = |meta: &fs::Metadata| [user, 0].contains(&meta.uid()) && meta.mode() & 0o022 == 0;
    let dir = file.parent().and_then(|dir| fs::metadata(dir).ok());
    // Not followed: a link could lead out of the directory.
    let entry = fs::symlink_metadata(file).ok();
    entry.is_some_and(|meta| meta.is_file() && ours(&meta)) && dir.is_some_and(|meta| ours(&meta))
}

#[cfg(not(unix))]
fn is_private(file: &Path) -> bool {
    file.is_file()
}
