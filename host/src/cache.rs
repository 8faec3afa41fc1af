//! Compiled code, kept across processes. Loading compiled code runs it, so an entry is used only if it is exactly what
//! this host wrote for this component and this engine: any other one is compiled anew and replaced.

use std::collections::hash_map::DefaultHasher;
use std::fs::{self, File};
use std::hash::{Hash, Hasher};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use wasmtime::Engine;
use wasmtime::component::Component;
use xxhash_rust::xxh3::Xxh3;

use crate::runtime::LoadError;

/// What stands behind the code, and binds it to the component as well as to its own bytes. It finds damage and mix-ups. Who
/// can write here at all could seal anything, so it need not be a slow, cryptographic one.
type Seal = [u8; 16];

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
    format!("{digest}-{:016x}.code", hasher.finish())
}

fn seal(mut code: Xxh3, digest: &str) -> Seal {
    code.update(digest.as_bytes());
    code.digest128().to_be_bytes()
}

fn load(engine: &Engine, file: &Path, digest: &str) -> Option<Component> {
    if !is_private(file) {
        return None;
    }
    let sealed = File::open(file).and_then(|entry| {
        let length = entry.metadata()?.len();
        is_sealed(entry, length, digest)
    });
    if !sealed.ok()? {
        log::warn!("{} is damaged or not ours: compiling anew", file.display());
        return None;
    }
    // SAFETY: these bytes are what `save` wrote: the seal holds for them, and the file and its directory can be written
    // by this user only, who could run any code anyway. The file is mapped, as programs and libraries are, and stays what it
    // is: `save` writes into no file that is there, it puts a new one in its place. Wasmtime checks its own version and the
    // engine's settings.
    #[allow(unsafe_code)]
    let mapped = unsafe { Component::deserialize_file(engine, file) };
    let component = mapped.or_else(|error| {
        // From some file systems nothing that is mapped may be run: `noexec`.
        let entry = fs::read(file)?;
        if !is_sealed(entry.as_slice(), entry.len() as u64, digest)? {
            return Err(error);
        }
        // SAFETY: as above, copied.
        #[allow(unsafe_code)]
        unsafe {
            Component::deserialize(engine, entry)
        }
    });
    component.inspect_err(|error| log::warn!("{}: {error:#}: compiling anew", file.display())).ok()
}

/// Whether an entry of so many bytes is code with its seal behind it.
fn is_sealed(entry: impl Read, length: u64, digest: &str) -> io::Result<bool> {
    let Some(length) = length.checked_sub(size_of::<Seal>() as u64) else { return Ok(false) };
    // Through one small buffer: memory for the whole file takes longer to get than to fill.
    let mut code = BufReader::with_capacity(64 * 1024, entry.take(length));
    let mut hash = Xxh3::new();
    loop {
        let piece = code.fill_buf()?;
        if piece.is_empty() {
            break;
        }
        hash.update(piece);
        let length = piece.len();
        code.consume(length);
    }
    let mut found = Seal::default();
    code.into_inner().into_inner().read_exact(&mut found)?;
    Ok(found == seal(hash, digest))
}

/// Whole or not at all: other processes may read or write the same entry at this moment.
fn save(component: &Component, file: &Path, digest: &str) -> io::Result<()> {
    let dir: PathBuf = file.parent().map(Path::to_owned).unwrap_or_default();
    create_private_dir(&dir)?;
    let code = component.serialize().map_err(|error| io::Error::other(format!("{error:#}")))?;
    let mut hash = Xxh3::new();
    hash.update(&code);
    let mut entry = tempfile::NamedTempFile::new_in(&dir)?;
    entry.write_all(&code)?;
    entry.write_all(&seal(hash, digest))?;
    entry.persist(file)?;
    Ok(())
}

#[cfg(unix)]
fn create_private_dir(dir: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

#[cfg(not(unix))]
fn create_private_dir(dir: &Path) -> io::Result<()> {
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
