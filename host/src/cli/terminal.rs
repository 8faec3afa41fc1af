//! What goes to stdout and stderr, and how: tables and sentences for people, one JSON object for scripts, bytes as they
//! are for pipes. Nothing that comes out of a store can move the cursor of a person's terminal or turn its text around.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};
use std::time::{Duration, Instant};

use serde::Serialize;
use unicode_width::UnicodeWidthStr;

use super::failure::{Exit, Failure};

/// Where answers go.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    /// One JSON object instead of text.
    pub json: bool,
}

impl Output {
    /// One JSON object on a line of its own.
    pub fn object(&self, value: &impl Serialize) -> Result<(), Failure> {
        let mut line = serde_json::to_string(value)
            .map_err(|error| Failure::new(Exit::Output, "output", format!("the answer is not JSON: {error}")))?;
        line.push('\n');
        write(&line)
    }

    /// Lines for people. What is foreign in them is escaped already.
    pub fn text(&self, text: &str) -> Result<(), Failure> {
        write(text)
    }

    /// A text byte for byte, as it is to be passed on. Only where a person looks at it are control characters escaped.
    pub fn exact(&self, text: &str) -> Result<(), Failure> {
        if io::stdout().is_terminal() { write(&escaped(text)) } else { write(text) }
    }

    /// A remark for people, beside the answer.
    pub fn note(&self, text: &str) {
        if !self.json {
            stderr(&format!("note: {}", escaped(text)));
        }
    }
}

fn write(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::Closed,
        _ => Failure::new(Exit::Output, "output", format!("the answer cannot be written: {error}")),
    })
}

/// One line on stderr. If that is closed there is nobody to tell.
pub fn stderr(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// What a person who waits is told now and then: nothing if nobody looks, or if it is soon over.
#[derive(Default)]
pub struct Progress {
    last: Option<Instant>,
}

impl Progress {
    /// One line, if the last one is long enough ago.
    pub fn tell(&mut self, line: impl FnOnce() -> String) {
        const EVERY: Duration = Duration::from_secs(2);
        let last = *self.last.get_or_insert_with(Instant::now);
        if last.elapsed() >= EVERY && io::stderr().is_terminal() {
            self.last = Some(Instant::now());
            stderr(&line());
        }
    }
}

/// What the library has to say beside its answers: a line on stderr, JSON if the answer is JSON.
struct Log {
    json: bool,
}

impl log::Log for Log {
    fn enabled(&self, metadata: &log::Metadata) -> bool {
        metadata.level() <= log::Level::Warn
    }

    fn log(&self, record: &log::Record) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let message = record.args().to_string();
        if self.json {
            stderr(&serde_json::json!({ "warning": { "message": message } }).to_string());
        } else {
            stderr(&format!("warning: {}", escaped(&message)));
        }
    }

    fn flush(&self) {}
}

/// Send the library's warnings to stderr.
pub fn log_to_stderr(json: bool) {
    // Fails only if it was done before, and then there is nothing to do.
    let _ = log::set_boxed_logger(Box::new(Log { json }));
    log::set_max_level(log::LevelFilter::Warn);
}

/// A text with everything escaped that a terminal would obey and not show. Line breaks and tabs stay.
pub fn escaped(text: &str) -> String {
    escape(text, |c| c != '\n' && c != '\t' && obeyed(c))
}

/// A name in a table or a sentence: as it is if it is plain, otherwise quoted and escaped.
pub fn name(text: &str) -> String {
    let plain = |c: char| !c.is_whitespace() && !obeyed(c) && c != '"' && c != '\\';
    if !text.is_empty() && text.chars().all(plain) { text.to_owned() } else { quoted(text) }
}

/// Several names.
pub fn names<T: AsRef<str>>(texts: &[T]) -> String {
    texts.iter().map(|text| name(text.as_ref())).collect::<Vec<_>>().join(", ")
}

/// A JSON text, the same value in characters that a terminal shows.
pub fn visible_json(json: &str) -> String {
    // Only inside of strings can such a character stand, and there it may be escaped.
    escape(json, obeyed)
}

fn quoted(text: &str) -> String {
    let quoted = serde_json::to_string(text).unwrap_or_default();
    escape(&quoted, obeyed)
}

/// As JSON escapes, which are the ones that people know.
fn escape(text: &str, which: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if which(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    out
}

/// Control characters, line separators, and the marks that reorder or hide text.
fn obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Rows under headings, in columns as wide as their widest cell. Columns of numbers, whose heading begins with `>`, are
/// aligned at the right.
pub fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    let right: Vec<bool> = headings.iter().map(|heading| heading.starts_with('>')).collect();
    let headings: Vec<String> = headings.iter().map(|heading| heading.trim_start_matches('>').to_owned()).collect();
    let mut widths: Vec<usize> = headings.iter().map(|heading| heading.width()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.width());
        }
    }
    let mut out = String::new();
    for row in std::iter::once(&headings).chain(rows) {
        let mut line = String::new();
        for ((cell, width), right) in row.iter().zip(&widths).zip(&right) {
            let blanks = " ".repeat(width - cell.width());
            let (before, after) = if *right { (blanks.as_str(), "") } else { ("", blanks.as_str()) };
            let _ = write!(line, "{before}{cell}{after}  ");
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// `1 memory`, `2 memories`.
pub fn count(n: usize, one: &str, many: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {many}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_obeys_nothing_foreign() {
        assert_eq!(escaped("a\u{1b}[31m\tb\n\u{202e}c\u{9b}"), "a\\u001b[31m\tb\n\\u202ec\\u009b");
        assert_eq!(name("11"), "11");
        assert_eq!(name("固定"), "固定");
        assert_eq!(name(""), "\"\"");
        assert_eq!(name("a b"), "\"a b\"");
        assert_eq!(name("x\u{1b}]0;t\u{7}\u{e0041}"), "\"x\\u001b]0;t\\u0007\\udb40\\udc41\"");
        let json = "{\"task\":\"a\u{85}\u{2066}b\"}";
        let shown = visible_json(json);
        assert_eq!(shown, "{\"task\":\"a\\u0085\\u2066b\"}");
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(value(json), value(&shown));
    }

    #[test]
    fn columns_are_aligned_by_what_is_seen() {
        let rows = [vec!["固定".to_owned(), "7".to_owned()], vec!["abc".to_owned(), "1234".to_owned()]];
        assert_eq!(table(&["ID", ">BYTES"], &rows), "ID    BYTES\n固定      7\nabc    1234\n");
    }
}
