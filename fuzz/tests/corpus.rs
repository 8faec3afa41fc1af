//! Every target on its corpus, and on changes of it that are made anew each time: what needs no fuzzer runs wherever the
//! other tests do. A failure prints the input, as short as proptest can make it; put it into the corpus when it is fixed.
//!
//! `MEMORY_PREFETCH_FUZZ_CASES` says how many changed inputs each target gets.

use std::fs;
use std::path::{Path, PathBuf};

use memory_prefetch_fuzz::{TARGETS, Target};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};

fn corpus(target: &str) -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let mut files: Vec<PathBuf> = fs::read_dir(&dir)
        .unwrap_or_else(|error| panic!("{}: {error}", dir.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    assert!(!files.is_empty(), "{} is empty", dir.display());
    files.sort();
    files
}

/// One change of an input.
#[derive(Debug, Clone)]
enum Change {
    Set(prop::sample::Index, u8),
    Insert(prop::sample::Index, Vec<u8>),
    Cut(prop::sample::Index, usize),
    /// A part of another one.
    Splice(prop::sample::Index, prop::sample::Index, prop::sample::Index),
}

fn change() -> impl Strategy<Value = Change> {
    use proptest::prelude::any as some;
    prop_oneof![
        (some::<prop::sample::Index>(), some::<u8>()).prop_map(|(at, byte)| Change::Set(at, byte)),
        (some::<prop::sample::Index>(), prop::collection::vec(some::<u8>(), 1..8))
            .prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        (some::<prop::sample::Index>(), 1usize..16).prop_map(|(at, count)| Change::Cut(at, count)),
        (some::<prop::sample::Index>(), some::<prop::sample::Index>(), some::<prop::sample::Index>())
            .prop_map(|(at, other, from)| Change::Splice(at, other, from)),
    ]
}

fn changed(inputs: &[Vec<u8>], first: &prop::sample::Index, changes: &[Change]) -> Vec<u8> {
    let mut bytes = first.get(inputs).clone();
    for change in changes {
        let length = bytes.len();
        match change {
            Change::Set(at, byte) if length > 0 => bytes[at.index(length)] = *byte,
            Change::Insert(at, new) => {
                let at = at.index(length + 1);
                bytes.splice(at..at, new.iter().copied());
            }
            Change::Cut(at, count) if length > 0 => {
                let at = at.index(length);
                bytes.drain(at..(at + count).min(length));
            }
            Change::Splice(at, other, from) => {
                let other = other.get(inputs);
                let from = from.index(other.len() + 1);
                bytes.truncate(at.index(length + 1));
                bytes.extend(&other[from..]);
            }
            _ => {}
        }
    }
    bytes
}

fn holds((name, run): Target) {
    let files = corpus(name);
    let mut inputs = Vec::new();
    for file in files {
        let bytes = fs::read(&file).unwrap();
        if let Err(panic) = std::panic::catch_unwind(|| run(&bytes)) {
            eprintln!("in {}", file.display());
            std::panic::resume_unwind(panic);
        }
        inputs.push(bytes);
    }
    let cases = std::env::var("MEMORY_PREFETCH_FUZZ_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(500);
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let any_input = (any::<prop::sample::Index>(), prop::collection::vec(change(), 1..6));
    let tried = runner.run(&any_input, |(first, changes)| {
        let bytes = changed(&inputs, &first, &changes);
        std::panic::catch_unwind(|| run(&bytes)).map_err(|panic| {
            let said = panic.downcast_ref::<String>().cloned();
            TestCaseError::fail(said.or(panic.downcast_ref::<&str>().map(|said| (*said).into())).unwrap_or_default())
        })
    });
    if let Err(TestError::Fail(why, (first, changes))) = tried {
        panic!("{name}: {why}\non {:?}", String::from_utf8_lossy(&changed(&inputs, &first, &changes)));
    }
}

macro_rules! targets {
    ($($name:ident)*) => {
        $(#[test] fn $name() {
            holds(*TARGETS.iter().find(|(name, _)| *name == stringify!($name)).unwrap());
        })*

        #[test]
        fn every_target_is_here() {
            let here = [$(stringify!($name)),*];
            assert_eq!(here.to_vec(), TARGETS.map(|(name, _)| name));
        }
    };
}

targets! { wire markers block delegate deliver scenarios cache guest }
