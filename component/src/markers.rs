//! R39, deprecated from birth: memory ids in markers inside a task text, only where a user has switched that on.

use std::collections::BTreeSet;

use crate::contract::Marked;
use crate::{Imports, ids};

const OPEN: &str = "⟦mc-mem:";
const CLOSE: char = '⟧';

/// The ids that `⟦mc-mem: 11, 55⟧` markers name, and the text without them. Without the setting `markers` = `on` the
/// text comes back as it is.
pub fn parse<I: Imports>(imports: &mut I, text: &str) -> Marked {
    let setting = imports.settings(None, &["markers".to_owned()]);
    if setting.first().cloned().flatten().as_deref() != Some("on") {
        return Marked { text: text.to_owned(), ids: Vec::new() };
    }
    split(text)
}

/// Linear: what follows an opening is searched up to the next bracket of either kind, and never again.
fn split(text: &str) -> Marked {
    let mut out = String::with_capacity(text.len());
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(OPEN) {
        let (before, marker) = rest.split_at(at);
        out.push_str(before);
        let inside = &marker[OPEN.len()..];
        let end = inside.find(['⟦', CLOSE]).unwrap_or(inside.len());
        let names: Option<Vec<String>> =
            inside[..end].split(',').map(|name| Some(ids::name(&ids::id(name.trim()).ok()?))).collect();
        match names {
            Some(names) if inside[end..].starts_with(CLOSE) => {
                found.extend(names.into_iter().filter(|name| seen.insert(name.clone())));
                rest = &inside[end + CLOSE.len_utf8()..];
            }
            _ => {
                out.push_str(&marker[..OPEN.len() + end]);
                rest = &inside[end..];
            }
        }
    }
    out.push_str(rest);
    Marked { text: out, ids: found }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> (String, Vec<String>) {
        let Marked { text, ids } = split(text);
        (text, ids)
    }

    #[test]
    fn markers_are_taken_out() {
        let (text, ids) = parts("Fix it ⟦mc-mem: 11, #55,11⟧now⟦mc-mem:7⟧.");
        assert_eq!(text, "Fix it now.");
        assert_eq!(ids, ["11", "55", "7"]);
    }

    #[test]
    fn what_is_not_understood_stays() {
        for text in
            ["⟦mc-mem:⟧", "⟦mc-mem: 1,,2⟧", "⟦mc-mem: 1", "⟦mc-mem: 1⟦mc-mem: 2", "⟦other: 1⟧", "⟧⟦", "mc-mem: 1"]
        {
            assert_eq!(parts(text), (text.to_owned(), vec![]), "{text}");
        }
        assert_eq!(parts("⟦mc-mem: 1⟦mc-mem: 2⟧"), ("⟦mc-mem: 1".to_owned(), vec!["2".to_owned()]));
    }

    /// F13: openings without an end must not make it quadratic. A quadratic scan of this takes minutes.
    #[test]
    fn many_openings_are_read_once() {
        let text = OPEN.repeat(200_000) + &"1".repeat(1_000_000);
        assert_eq!(parts(&text), (text.clone(), vec![]));
        let ids: Vec<String> = (0..100_000).map(|n| n.to_string()).collect();
        assert_eq!(parts(&format!("⟦mc-mem:{}⟧", ids.join(","))).1.len(), 100_000);
    }
}
