//! Every input of the corpus, and changes of it, by any compiler and without libFuzzer: what was found once is not found
//! again (docs/reliability.md).

use std::fs;
use std::path::Path;

use memory_prefetch_fuzz::TARGETS;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, RngSeed, TestRunner};

/// Changes of inputs that are tried of each target. It is the same ones at each run: looking for new ones is what
/// `cargo xtask fuzz` does.
const CHANGES: u32 = 200;

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    files.into_iter().map(|file| fs::read(file).unwrap()).collect()
}

#[test]
fn every_input_of_the_corpus_holds() {
    for (target, run) in TARGETS {
        let inputs = corpus(target);
        assert!(!inputs.is_empty(), "{target} has no corpus");
        inputs.iter().for_each(|input| run(input));
    }
}

#[test]
fn so_does_every_change_of_it() {
    for (target, run) in TARGETS {
        let inputs = corpus(target);
        let bytes = prop::collection::vec(any::<u8>(), 0..8);
        let change = (any::<Index>(), any::<Index>(), any::<Index>(), bytes);
        let config =
            Config { cases: CHANGES, failure_persistence: None, rng_seed: RngSeed::Fixed(0), ..Config::default() };
        let ran = TestRunner::new(config).run(&change, |(which, from, to, bytes)| {
            let input = which.get(&inputs);
            let (from, to) = (from.index(input.len() + 1), to.index(input.len() + 1));
            run(&[&input[..from.min(to)], &bytes, &input[from.max(to)..]].concat());
            Ok(())
        });
        ran.unwrap_or_else(|error| panic!("{target}: {error}"));
    }
}
