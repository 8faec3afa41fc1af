//! Recall over 100,000 memories of 300 bytes, and erasure from them: `cargo bench --bench recall`. Words of two kinds of corpus: as in a
//! language, where the n-th word is used 1/n as often as the first, and all alike. Medians, with the middle half.
//! Prints also how often a recall calls the host, which must not depend on the number of ids.

use std::time::{Duration, Instant as Clock};

use memory_prefetch::contract::*;
use memory_prefetch::operator::{NewSession, Operator};
use memory_prefetch::sqlite_store::{SqliteOptions, SqliteStore};
use memory_prefetch::{Prefetch, Runtime};
use rusqlite::{Connection, params};

const MEMORIES: u32 = 100_000;
const BYTES: usize = 300;
const QUERIES: u32 = 200;

type Failed = Box<dyn std::error::Error>;

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.roll() % end
    }

    fn fraction(&mut self) -> f64 {
        (self.roll() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[derive(Clone, Copy)]
enum Corpus {
    /// 20,000 words, used as in a language.
    Language,
    /// 5,000 words, all alike.
    Even,
    /// Chinese characters, 3,000 of them, used as in a language.
    Chinese,
}

impl Corpus {
    fn word(self, dice: &mut Dice) -> String {
        // The n-th of so many with a frequency of 1/n: n is the count to the power of an even fraction.
        let zipf = |dice: &mut Dice, count: f64| count.powf(dice.fraction()) as u64;
        match self {
            Corpus::Language => spelt(zipf(dice, 20_000.0)),
            Corpus::Even => spelt(dice.below(5_000)),
            Corpus::Chinese => {
                let one = |dice: &mut Dice| char::from_u32(0x4e00 + zipf(dice, 3_000.0) as u32 * 5);
                (0..8).filter_map(|_| one(dice)).collect()
            }
        }
    }

    fn body(self, dice: &mut Dice) -> String {
        let mut body = String::new();
        while body.len() < BYTES {
            body += &self.word(dice);
            body.push(if matches!(self, Corpus::Chinese) { '，' } else { ' ' });
        }
        body
    }

    /// So many words of one memory, or, in Chinese, so many pieces of two characters.
    fn query(self, words: usize, body: &str) -> String {
        let parted: Vec<String> = match self {
            Corpus::Chinese => body.split('，').map(|word| word.chars().take(2).collect()).collect(),
            _ => body.split(' ').map(String::from).collect(),
        };
        let step = (parted.len() / (words + 1)).max(1);
        parted.iter().skip(1).step_by(step).take(words).cloned().collect::<Vec<_>>().join(" ")
    }
}

fn spelt(mut number: u64) -> String {
    let mut word = String::new();
    for _ in 0..4 {
        word.push(char::from(b"bcdfghjklmnprstvwz"[(number % 18) as usize]));
        word.push(char::from(b"aeiou"[(number / 18 % 5) as usize]));
        number = number / 90 + 1;
        if number == 1 && word.len() > 3 {
            break;
        }
    }
    word
}

fn key(id: &str) -> SessionKey {
    SessionKey { harness: "bench".into(), id: id.into() }
}

fn main() -> Result<(), Failed> {
    let runtime = Runtime::builder().build()?;
    for (name, corpus) in [("language", Corpus::Language), ("even", Corpus::Even), ("chinese", Corpus::Chinese)] {
        let dir = tempfile::tempdir()?;
        let built = Clock::now();
        let (mut prefetch, bodies) = filled(&runtime, dir.path(), corpus)?;
        println!("{name}: {MEMORIES} memories of {BYTES} bytes, written and indexed in {:.1?}", built.elapsed());
        for target in [None, Some("other")] {
            for words in [1, 2, 3, 5, 8] {
                let mut times = Vec::new();
                let mut found = 0;
                for body in &bodies {
                    let query = corpus.query(words, body);
                    let start = Clock::now();
                    found += prefetch.recall(&key("s"), target, &query, 10)?.len();
                    times.push(start.elapsed());
                }
                let whose = if target.is_some() { "linked" } else { "own" };
                println!(
                    "  {whose}, {words} words: {}; {:.1} results, {} host calls",
                    shown(&mut times),
                    found as f64 / bodies.len() as f64,
                    prefetch.last_host_calls()
                );
            }
        }
        let mut times = Vec::new();
        for number in 0..20 {
            let start = Clock::now();
            prefetch.forget(&[format!("m{}", number * 4_999)])?;
            times.push(start.elapsed());
        }
        println!("  erased, one at a time: {}", shown(&mut times));
        println!("  the longest: {:.2?}", times.last().copied().unwrap_or_default());
    }
    Ok(())
}

/// A store with memories of two agents, half each, over four projects of one workspace; and the bodies of some.
fn filled(
    runtime: &Runtime,
    dir: &std::path::Path,
    corpus: Corpus,
) -> Result<(Prefetch<SqliteStore>, Vec<String>), Failed> {
    let path = dir.join("store.db");
    let mut store = SqliteStore::open(&path, &SqliteOptions::default())?;
    for number in 0..4 {
        store.put_project(&Project {
            id: format!("p{number}"),
            workspace: Some("w".into()),
            memory_on: true,
            trusted: true,
            attributes: vec![],
        })?;
    }
    let (agent, project) = (Some("self".into()), Some("p0".into()));
    store.put_session(&NewSession { key: key("s"), agent, project, parent: None, memory_on: true })?;
    store.add_link(&Link {
        from_agent: "self".into(),
        to_agent: "other".into(),
        direction: Direction::OneWay,
        kind: "peer".into(),
        attributes: vec![],
    })?;
    let mut connection = Connection::open(&path)?;
    let transaction = connection.transaction()?;
    let mut dice = Dice(7);
    let mut bodies = Vec::new();
    for number in 0..MEMORIES {
        let body = corpus.body(&mut dice);
        transaction
            .prepare_cached(
                "INSERT INTO memories (trusted, priority, created_at, updated_at, memory_id, audience, owner, project,
                 category, body) VALUES (1, 0, ?1, ?1, ?2, 'agent', ?3, ?4, 'FACT', ?5)",
            )?
            .execute(params![
                number,
                format!("m{number}"),
                if number % 2 == 0 { "self" } else { "other" },
                format!("p{}", number / 2 % 4),
                body
            ])?;
        if number % (MEMORIES / QUERIES) == 0 {
            bodies.push(body);
        }
    }
    transaction.commit()?;
    Ok((runtime.open(store)?, bodies))
}

/// Median, and the middle half. Sorts.
fn shown(times: &mut [Duration]) -> String {
    times.sort_unstable();
    let at = |quarter: usize| times[times.len() * quarter / 4];
    format!("{:.2?} ({:.2?} to {:.2?})", at(2), at(1), at(3))
}
