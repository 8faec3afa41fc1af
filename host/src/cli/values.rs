//! What the values of options mean: sessions, names, instants, durations. Each function either understands the whole
//! text or says what is wrong with it and how it is written.

use std::path::PathBuf;
use std::time::Duration;

use jiff::{Span, SpanRelativeTo, Timestamp};
use memory_prefetch::contract::{Instant, SessionKey};

use super::terminal;

/// The harness of a session that is written without one.
pub const LOCAL: &str = "local";

/// The longest name, in bytes; the policy takes no longer one in a request.
const MAX_NAME: usize = 256;

/// The longest session id: some harnesses use file paths.
const MAX_SESSION: usize = 1024;

/// `S`, or `HARNESS/S`. The first slash splits, so an id may have slashes of its own: `omp//home/me/session.jsonl` is
/// the session `/home/me/session.jsonl` of the harness `omp`.
pub fn session(text: &str) -> Result<SessionKey, String> {
    let (harness, id) = text.split_once('/').unwrap_or((LOCAL, text));
    if harness.is_empty() {
        return Err(format!(
            "there is no harness before the first slash; this is written HARNESS/{text}, or {LOCAL}/{text}"
        ));
    }
    check(harness, MAX_NAME).map_err(|why| format!("the harness {why}"))?;
    check(id, MAX_SESSION).map_err(|why| format!("the session id {why}"))?;
    Ok(SessionKey { harness: harness.to_owned(), id: id.to_owned() })
}

/// As people and scripts get it back: always with the harness.
pub fn session_name(key: &SessionKey) -> String {
    format!("{}/{}", key.harness, key.id)
}

/// The name of an agent, a project or a workspace.
pub fn name(text: &str) -> Result<String, String> {
    check(text, MAX_NAME).map_err(|why| format!("it {why}"))?;
    Ok(text.to_owned())
}

/// The id of a memory that is added or changed, as requests will name it: one leading `#` is dropped (R2).
pub fn memory_id(text: &str) -> Result<String, String> {
    name(text.strip_prefix('#').unwrap_or(text))
}

/// An id that was read already, for a policy that reads it once more: it drops one `#` as well (R2).
pub fn as_requested(id: &str) -> String {
    if id.starts_with('#') { format!("#{id}") } else { id.to_owned() }
}

/// One's own category, or none.
pub fn category(text: &str) -> Result<String, String> {
    const LONGEST: usize = 256;
    if text.len() <= LONGEST {
        Ok(text.to_owned())
    } else {
        Err(format!("has {} bytes, at most {LONGEST} are allowed", text.len()))
    }
}

fn check(text: &str, max: usize) -> Result<(), String> {
    if text.is_empty() {
        Err("is empty".into())
    } else if text.len() > max {
        Err(format!("has {} bytes, at most {max} are allowed", text.len()))
    } else if text.chars().any(char::is_control) {
        Err("has a control character in it".into())
    } else {
        Ok(())
    }
}

/// A point in time, RFC 3339.
pub fn instant(text: &str) -> Result<Instant, String> {
    const LOOKS: &str = "write a date, a time and an offset, as in 2026-01-31T09:00:00Z or 2026-01-31T17:00:00+08:00";
    let at: Timestamp = text.parse().map_err(|_| LOOKS.to_owned())?;
    Instant::try_from(at.as_millisecond()).map_err(|_| format!("it is before 1970; {LOOKS}"))
}

/// An instant for JSON, to the millisecond. One after the year 9999 is the bare number.
pub fn rfc3339(at: Instant) -> String {
    timestamp(at).map_or_else(|| format!("{at} ms"), |at| at.to_string())
}

/// An instant for people, to the second.
pub fn shown(at: Instant) -> String {
    timestamp(at - at % 1000).map_or_else(|| format!("{at} ms"), |at| at.to_string())
}

fn timestamp(at: Instant) -> Option<Timestamp> {
    Timestamp::from_millisecond(i64::try_from(at).ok()?).ok()
}

/// A duration in whole seconds: `90s`, `15m`, `1h 30m`, `2 days`, `PT1H`.
pub fn seconds(text: &str) -> Result<u32, String> {
    let duration = duration(text)?;
    if duration.subsec_nanos() != 0 || duration.is_zero() {
        return Err("only whole seconds, and at least one, can be kept".into());
    }
    u32::try_from(duration.as_secs()).map_err(|_| format!("it is longer than {} seconds", u32::MAX))
}

/// A duration, down to milliseconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    const LOOKS: &str = "write a number and a unit, as in 90s, 15m, 1h30m or 2days";
    let span: Span = text.parse().map_err(|_| LOOKS.to_owned())?;
    let duration = span
        .to_duration(SpanRelativeTo::days_are_24_hours())
        .map_err(|_| format!("months and years have no fixed length; {LOOKS}"))?;
    Duration::try_from(duration).map_err(|_| format!("it is negative; {LOOKS}"))
}

/// `sqlite:PATH`.
pub fn store_url(text: &str) -> Result<PathBuf, String> {
    match text.split_once(':') {
        Some(("sqlite", path)) if !path.is_empty() => Ok(PathBuf::from(path)),
        Some(("sqlite", _)) => Err("there is no path after sqlite:".into()),
        _ => Err(format!("a store is written sqlite:PATH, sqlite:{} for instance", terminal::escaped(text))),
    }
}

/// A store of another program's that memories are read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The file of magic-context.
    MagicContext(PathBuf),
    /// The directory of a spacebot instance, or of one of its agents.
    Spacebot(PathBuf),
}

/// `magic-context:PATH` or `spacebot:DIR`.
pub fn source(text: &str) -> Result<Source, String> {
    const KINDS: &str = "write magic-context:PATH, PATH being its context.db, or spacebot:DIR, DIR being the directory of an \
                         instance or of one agent";
    let (kind, path) = text.split_once(':').ok_or(KINDS)?;
    let of_kind: fn(PathBuf) -> Source = match kind {
        "magic-context" => Source::MagicContext,
        "spacebot" => Source::Spacebot,
        _ => return Err(format!("{} is no kind of store that can be read; {KINDS}", terminal::name(kind))),
    };
    if path.is_empty() {
        return Err(format!("there is no path after {kind}:"));
    }
    // Shells expand it at the start of a word only.
    if path.starts_with("~/") {
        return Err(format!(
            "the shell has left the ~ as it is: write \"{kind}:$HOME{}\"",
            path.trim_start_matches('~')
        ));
    }
    Ok(of_kind(PathBuf::from(path)))
}

/// 64 hex digits.
pub fn sha256(text: &str) -> Result<String, String> {
    if text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit()) {
        Ok(text.to_ascii_lowercase())
    } else {
        Err("a SHA-256 is 64 hex digits".into())
    }
}

/// `ID=N`: the last `=` splits, since an id may contain one.
pub fn priority(text: &str) -> Result<(String, u32), String> {
    let parsed = text.rsplit_once('=').and_then(|(id, n)| Some((id.to_owned(), n.parse().ok()?)));
    parsed.ok_or_else(|| "a priority is written ID=N, 11=5 for instance".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_slash_splits() {
        let key = |harness: &str, id: &str| Ok(SessionKey { harness: harness.into(), id: id.into() });
        assert_eq!(session("s1"), key("local", "s1"));
        assert_eq!(session("pi/s1"), key("pi", "s1"));
        assert_eq!(session("omp//home/me/s.jsonl"), key("omp", "/home/me/s.jsonl"));
        assert!(session("/home/me/s.jsonl").unwrap_err().contains("HARNESS//home/me/s.jsonl"));
        for wrong in ["", "pi/", "a\u{7}", "a\nb/c"] {
            assert!(session(wrong).is_err(), "{wrong:?}");
        }
        assert!(session(&format!("pi/{}", "x".repeat(1024))).is_ok());
        assert!(session(&format!("pi/{}", "x".repeat(1025))).is_err());
    }

    #[test]
    fn instants_have_an_offset() {
        assert_eq!(instant("2026-01-01T00:00:00+08:00"), Ok(1_767_196_800_000));
        assert_eq!(rfc3339(1_767_196_800_000), "2025-12-31T16:00:00Z");
        assert_eq!(rfc3339(1_767_196_800_001), "2025-12-31T16:00:00.001Z");
        assert_eq!(shown(1_767_196_800_001), "2025-12-31T16:00:00Z");
        for wrong in
            ["", "2026-01-01", "2026-01-01T00:00:00", "2026-02-30T00:00:00Z", "1969-12-31T23:59:59Z", "tomorrow", "0"]
        {
            assert!(instant(wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(rfc3339(u64::MAX), "18446744073709551615 ms");
    }

    #[test]
    fn sources_have_a_kind_and_a_path() {
        assert_eq!(source("magic-context:a:b"), Ok(Source::MagicContext("a:b".into())));
        assert_eq!(source("spacebot:dir"), Ok(Source::Spacebot("dir".into())));
        for wrong in ["", "context.db", "sqlite:x", "Spacebot:x", ":x"] {
            let why = source(wrong).unwrap_err();
            assert!(why.contains("magic-context:PATH") && why.contains("spacebot:DIR"), "{wrong:?}: {why}");
        }
        assert!(source("spacebot:").is_err());
        assert!(source("magic-context:~/x").unwrap_err().contains("magic-context:$HOME/x"));
    }

    #[test]
    fn durations_are_whole_seconds() {
        for (text, n) in
            [("1h", 3600), ("90s", 90), ("1h 30m", 5400), ("2 days", 172_800), ("1w", 604_800), ("PT1H", 3600)]
        {
            assert_eq!(seconds(text), Ok(n), "{text}");
        }
        for wrong in ["", "0s", "-1h", "3600", "1mo", "1y", "1.5s", "10ms", "200years", "99999999h", "1h-", "∞"] {
            assert!(seconds(wrong).is_err(), "{wrong:?}");
        }
    }
}
