//! The settings that a user may change, with what holds where they are not set (the list stands in
//! `wit/environment.wit`).

use crate::Imports;
use crate::contract::*;

/// The settings of one unit of work.
pub struct Settings {
    /// R2: ids per request.
    pub max_ids: u32,
    /// R18: how long a hand-over waits, in seconds.
    pub default_ttl: u32,
    /// R18: the longest that it may wait, in seconds.
    pub max_ttl: u32,
    /// R18: how long a delivery can be replayed, in seconds.
    pub replay: u32,
    /// The sum of the bodies that one call may read, in bytes.
    pub max_body_bytes: u32,
}

/// The settings for this project. A value that is not a number counts as not set and is logged.
pub fn load<I: Imports>(imports: &mut I, project: Option<&str>) -> Settings {
    let names =
        ["max-ids", "default-ttl-seconds", "max-ttl-seconds", "replay-seconds", "max-body-bytes"].map(String::from);
    let values = imports.settings(project, &names);
    let mut number = |index: usize, default: u32| match values.get(index).cloned().flatten() {
        None => default,
        Some(value) => value.parse().ok().filter(|n| *n > 0).unwrap_or_else(|| {
            imports.log(Level::Warn, &format!("setting {} is not a positive number; {default} is used", names[index]));
            default
        }),
    };
    Settings {
        max_ids: number(0, 64),
        default_ttl: number(1, 3_600),
        max_ttl: number(2, 604_800),
        replay: number(3, 2_592_000),
        max_body_bytes: number(4, 1_048_576),
    }
}

/// `at`, so many seconds later.
pub fn later(at: Instant, seconds: u32) -> Instant {
    at.saturating_add(u64::from(seconds) * 1000)
}
