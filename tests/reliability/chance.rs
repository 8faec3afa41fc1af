//! Chance that can be repeated.

use std::time::{SystemTime, UNIX_EPOCH};

/// Set to a number that a failed run has printed, to take the same choices again. (When a process is killed, and what the
/// others do meanwhile, no seed repeats.)
pub const SEED: &str = "MEMORY_PREFETCH_SEED";

/// splitmix64.
#[derive(Clone)]
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to `end` - 1.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// One of these, if there is any.
    pub fn pick<T>(&mut self, mut from: Vec<T>) -> Option<T> {
        if from.is_empty() { None } else { Some(from.swap_remove(self.below(from.len()))) }
    }
}

/// The seed of this run, which it prints.
pub fn seed() -> u64 {
    let set = std::env::var(SEED).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{SEED}={text}: a number")));
    let seed = set.unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64);
    println!("{SEED}={seed}");
    seed
}

/// A number from a variable.
pub fn number(variable: &str, default: usize) -> usize {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable}={text}: a number is wanted")),
        Err(_) => default,
    }
}
