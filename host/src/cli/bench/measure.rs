//! Times of two and more things, taken turn by turn, so that whatever else the machine does meets all of them alike.

use std::time::{Duration, Instant as Clock};

use serde::Serialize;

/// How many parts the rounds are split into: the spread of a ratio is that of these.
const PARTS: usize = 20;

/// A median, with the middle half of what it is the median of.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Spread {
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

impl Spread {
    /// Of what does not vary.
    pub fn exactly(value: f64) -> Spread {
        Spread { median: value, low: value, high: value }
    }

    fn of(mut values: Vec<f64>) -> Spread {
        values.sort_unstable_by(f64::total_cmp);
        let at = |quarter: usize| values.get((values.len() * quarter / 4).min(values.len().saturating_sub(1)));
        let at = |quarter| at(quarter).copied().unwrap_or_default();
        Spread { median: at(2), low: at(1), high: at(3) }
    }
}

/// The times of one thing, in the order in which they were taken.
pub struct Times(Vec<Duration>);

impl Times {
    /// In seconds.
    pub fn spread(&self) -> Spread {
        Spread::of(self.0.iter().map(Duration::as_secs_f64).collect())
    }

    /// The ratio of the medians, part by part: the machine may be slower in one part than in another, and the median of
    /// the ratios does not see that.
    pub fn against(&self, other: &Times) -> Spread {
        let size = self.0.len().div_ceil(PARTS).max(1);
        let median = |part: &[Duration]| Spread::of(part.iter().map(Duration::as_secs_f64).collect()).median;
        let ratios = self.0.chunks(size).zip(other.0.chunks(size)).map(|(one, other)| median(one) / median(other));
        Spread::of(ratios.collect())
    }
}

/// One thing to be measured: does it once and says how long that took.
pub type Thing<'a, E> = &'a mut dyn FnMut(usize) -> Result<Duration, E>;

/// So many rounds of all these things. Who begins changes with each round.
pub fn turn_by_turn<const N: usize, E>(rounds: usize, things: [Thing<E>; N]) -> Result<[Times; N], E> {
    let mut times: [Times; N] = std::array::from_fn(|_| Times(Vec::with_capacity(rounds)));
    // What is done for the first time takes longer.
    let warm_up = with_warm_up(rounds) - rounds;
    for round in 0..rounds + warm_up {
        for turn in 0..N {
            let index = (round + turn) % N;
            let took = things[index](round)?;
            if round >= warm_up {
                times[index].0.push(took);
            }
        }
    }
    Ok(times)
}

/// How many rounds of a thing are made, with those that warm up.
pub fn with_warm_up(rounds: usize) -> usize {
    rounds + (rounds / 20).max(1)
}

/// How long this takes.
pub fn timed<T, E>(what: impl FnOnce() -> Result<T, E>) -> Result<(Duration, T), E> {
    let start = Clock::now();
    let value = std::hint::black_box(what());
    let took = start.elapsed();
    value.map(|value| (took, value))
}
