//! The compiled-code cache: whatever lies where an entry should be, the component is the one that was asked for, and a
//! sound entry is there afterwards.
//!
//! Not tried is an entry whose seal fits other code: who can write that into the user's own directory can run code as that
//! user anyway.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use arbitrary::{Arbitrary, Unstructured};
use memory_prefetch::{LoadError, Runtime};

/// The smallest component there is. It is compiled, and cached, before it is found to fit no world.
const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";

#[derive(Debug, Arbitrary)]
enum Damage {
    /// Anything at all.
    Other(Vec<u8>),
    /// A part of it, then something else.
    Spliced(u16, Vec<u8>, u16),
    Flipped(Vec<(u16, u8)>),
    CutOff(u16),
    /// Sound, but writable for others.
    Writable,
    Directory,
    /// A link to a sound one.
    Link,
    /// A link to something else.
    Foreign(Vec<u8>),
}

struct Genuine {
    dir: tempfile::TempDir,
    file: PathBuf,
    bytes: Vec<u8>,
}

fn build(dir: &Path) -> String {
    match Runtime::builder().component_bytes(COMPONENT).cache_dir(dir).build() {
        Err(LoadError::OtherWorld { why, .. }) => why,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("a component without exports fits no world"),
    }
}

static GENUINE: LazyLock<Genuine> = LazyLock::new(|| {
    let dir = tempfile::tempdir().expect("a directory");
    build(dir.path());
    let entries: Vec<_> =
        fs::read_dir(dir.path()).expect("it is there").map(|entry| entry.expect("so").path()).collect();
    let [file] = &entries[..] else { panic!("one entry is written: {entries:?}") };
    let bytes = fs::read(file).expect("to read");
    Genuine { file: file.clone(), bytes, dir }
});

/// Any bytes.
pub fn run(data: &[u8]) {
    let Ok(damage) = Damage::arbitrary(&mut Unstructured::new(data)) else { return };
    let Genuine { file: name, bytes, .. } = &*GENUINE;
    let dir = tempfile::tempdir_in(GENUINE.dir.path()).expect("a directory");
    let file = dir.path().join(name.file_name().expect("a name"));
    let at = |place: u16| usize::from(place) % bytes.len();
    let mut stays = false;
    match damage {
        Damage::Other(other) => fs::write(&file, other),
        Damage::Spliced(from, with, to) => fs::write(&file, [&bytes[..at(from)], &with, &bytes[at(to)..]].concat()),
        Damage::Flipped(flips) => {
            let mut bytes = bytes.clone();
            flips.iter().for_each(|(place, with)| bytes[at(*place)] ^= with);
            fs::write(&file, bytes)
        }
        Damage::CutOff(length) => fs::write(&file, &bytes[..at(length)]),
        Damage::Writable => fs::write(&file, bytes).and_then(|()| writable(&file)),
        Damage::Directory => {
            // It cannot be replaced, and is in nobody's way.
            stays = true;
            fs::create_dir(&file)
        }
        Damage::Link => link(name, &file),
        Damage::Foreign(other) => {
            let foreign = dir.path().join("foreign");
            fs::write(&foreign, other).and_then(|()| link(&foreign, &file))
        }
    }
    .expect("to write");

    static WHY: LazyLock<String> = LazyLock::new(|| build(GENUINE.dir.path()));
    assert_eq!(build(dir.path()), *WHY);
    if !stays {
        let meta = fs::symlink_metadata(&file).expect("an entry");
        assert!(meta.is_file(), "a link is not followed");
        assert!(fs::read(&file).expect("to read") == *bytes, "a sound entry is there now");
        assert!(!is_writable(&meta), "others could write it");
    }
    assert!(fs::read(name).expect("to read") == *bytes, "and nothing else was touched");
}

#[cfg(unix)]
fn writable(file: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(file, fs::Permissions::from_mode(0o666))
}

#[cfg(unix)]
fn is_writable(meta: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    meta.permissions().mode() & 0o022 != 0
}

#[cfg(unix)]
fn link(to: &Path, file: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(to, file)
}

#[cfg(not(unix))]
fn writable(_: &Path) -> std::io::Result<()> {
    Ok(())
}

#[cfg(not(unix))]
fn is_writable(_: &fs::Metadata) -> bool {
    false
}

#[cfg(not(unix))]
fn link(to: &Path, file: &Path) -> std::io::Result<()> {
    fs::copy(to, file).map(drop)
}
