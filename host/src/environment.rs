//! What a sandbox does not have, from the host: time, randomness, SHA-256 and tokenizers.

use std::time::{SystemTime, UNIX_EPOCH};

use sha2::{Digest, Sha256};

use crate::contract::Instant;

/// Where the time comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// The system's clock.
    System,
    /// Always this instant, in epoch milliseconds: for tests and dry runs.
    Fixed(Instant),
}

impl Clock {
    /// Epoch milliseconds. A system clock before 1970 reads as 1970.
    pub fn now(self) -> Instant {
        match self {
            Clock::Fixed(at) => at,
            Clock::System => SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX)),
        }
    }
}

/// Exact token counts of some texts for a model, or `None` where the model's tokenizer is not at hand. Must not
/// estimate (R33).
pub type TokenCounter = dyn Fn(&str, &[&str]) -> Option<Vec<u32>> + Send + Sync;

/// SHA-256 as 64 lower-case hex digits.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Lower-case hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        for nibble in [byte >> 4, byte & 15] {
            out.push(char::from(DIGITS[usize::from(nibble)]));
        }
    }
    out
}
