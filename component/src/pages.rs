//! Several pages instead of one (R32): memories stay whole where they can; one that is larger than a page is cut
//! between characters, so that joining the parts gives the original bytes.

use unicode_segmentation::UnicodeSegmentation;

use crate::Imports;
use crate::block::{self, Head, Part, Tail};
use crate::capacity::{Content, Draft, Limit};
use crate::contract::{Memory, Unit};

/// The most pages, and the most parts of one memory. Pages are laid out with this number in place of their count, which
/// is known only at the end and never takes more digits.
const MAX: u32 = 9_999;

/// Layouts that are tried with a smaller limit each time. Needed only for a tokenizer that counts fewer digits as more
/// tokens.
const TRIES: u32 = 3;

/// A range of one memory's body.
#[derive(Clone, Copy)]
struct Piece {
    row: usize,
    start: usize,
    end: usize,
}

/// Every page within `limit`. `None`: the limit is too small for any page, or there would be too many.
pub fn paginate<I: Imports>(imports: &mut I, limit: &Limit, head: &Head, content: &Content) -> Option<Vec<Draft>> {
    let mut inner = limit.clone();
    for _ in 0..TRIES {
        let layout = layout(imports, &inner, head, content)?;
        let drafts = draw(head, content, &layout);
        let over = drafts.iter().map(|draft| limit.measure(imports, &draft.text).saturating_sub(limit.amount)).max()?;
        if over == 0 {
            return Some(drafts);
        }
        inner.amount = inner.amount.checked_sub(over)?;
    }
    None
}

/// Which piece goes on which page.
fn layout<I: Imports>(imports: &mut I, limit: &Limit, head: &Head, content: &Content) -> Option<Vec<Vec<Piece>>> {
    let mut pages: Vec<Vec<Piece>> = Vec::new();
    let mut page: Vec<Piece> = Vec::new();
    let (mut row, mut start) = (0, 0);
    while row < content.rows.len() {
        let first = pages.is_empty();
        let body = &content.bodies[row];
        let mut fits = |page: &[Piece], end: usize| {
            let mut pieces = page.to_vec();
            pieces.push(Piece { row, start, end });
            let text = trial(head, content, first, &pieces);
            limit.fits(imports, &text)
        };
        // What is longer than a page can be is not rendered to find that out: that would be quadratic.
        let may_fit = body.len() - start <= window(limit);
        if may_fit && fits(&page, body.len()) {
            page.push(Piece { row, start, end: body.len() });
            (row, start) = (row + 1, 0);
            continue;
        }
        if page.is_empty() {
            let end = cut(&body[start..], window(limit), |offset| fits(&[], start + offset))? + start;
            page.push(Piece { row, start, end });
            start = end;
        }
        pages.push(std::mem::take(&mut page));
        if pages.len() >= MAX as usize {
            return None;
        }
    }
    if !page.is_empty() {
        pages.push(page);
    }
    // Nothing but unavailable ids, and even that is too long.
    if pages.is_empty() { None } else { Some(pages) }
}

/// The largest offset at which `text` may be cut so that what is before it fits: after a grapheme cluster, or, where the
/// first one is too large, after a character. `None`: not even one character fits.
fn cut(text: &str, window: usize, mut fits: impl FnMut(usize) -> bool) -> Option<usize> {
    // One character beyond the window tells whether a cluster ends there. What comes after is not looked at: it may be one
    // cluster to the end, and would be looked through for each page anew.
    let beyond = window.saturating_add(1).min(text.len());
    let end = (beyond..=text.len()).find(|end| text.is_char_boundary(*end)).unwrap_or(text.len());
    let seen = text.get(..end).unwrap_or_default();
    let whole = if end == text.len() { Some(end) } else { None };
    let ends = |starts: &mut dyn Iterator<Item = usize>| -> Vec<usize> {
        starts.skip(1).chain(whole).take_while(|end| *end <= window).collect()
    };
    let clusters = ends(&mut seen.grapheme_indices(true).map(|(start, _)| start));
    let mut best = last_fitting(&clusters, &mut fits);
    if best.is_none() {
        let first = seen.graphemes(true).next().map_or(0, str::len);
        let characters = ends(&mut seen.char_indices().map(|(start, _)| start));
        let characters: Vec<usize> = characters.into_iter().filter(|end| *end <= first).collect();
        best = last_fitting(&characters, &mut fits);
    }
    best
}

/// The most bytes of one memory that are tried on a page of this limit. A token is rarely longer than this; a page that
/// could have held more is still a right page.
fn window(limit: &Limit) -> usize {
    const BYTES_PER_TOKEN: usize = 12;
    match limit.unit {
        Unit::Bytes => limit.amount as usize,
        Unit::Tokens => (limit.amount as usize).saturating_mul(BYTES_PER_TOKEN).max(4),
    }
}

/// The last of these ascending offsets that fits, by halving: a longer text takes at least as much.
fn last_fitting(offsets: &[usize], fits: &mut impl FnMut(usize) -> bool) -> Option<usize> {
    let count = offsets.partition_point(|offset| fits(*offset));
    count.checked_sub(1).and_then(|last| offsets.get(last)).copied()
}

/// A page as large as it can become, before the number of pages and parts is known.
fn trial(head: &Head, content: &Content, first: bool, pieces: &[Piece]) -> String {
    let head = Head { page: MAX - 1, pages: MAX, ..*head };
    let parts: Vec<Part> = pieces.iter().map(|piece| part(content, piece, (MAX, MAX))).collect();
    let later = later(content, pieces);
    let tail =
        if first { Tail { unavailable: content.unavailable, omitted: &[], later: &later } } else { Tail::default() };
    block::page(&head, &parts, &tail).0
}

/// The finished pages.
fn draw(head: &Head, content: &Content, layout: &[Vec<Piece>]) -> Vec<Draft> {
    let count = |row| layout.iter().flatten().filter(|piece| piece.row == row).count() as u32;
    let mut seen = vec![0; content.rows.len()];
    let pages = layout.len() as u32;
    let mut drafts = Vec::new();
    for (index, pieces) in layout.iter().enumerate() {
        let parts: Vec<Part> = pieces
            .iter()
            .map(|piece| {
                seen[piece.row] += 1;
                part(content, piece, (seen[piece.row], count(piece.row)))
            })
            .collect();
        let later = later(content, pieces);
        let tail = if index == 0 {
            Tail { unavailable: content.unavailable, omitted: &[], later: &later }
        } else {
            Tail::default()
        };
        let (text, spans) = block::page(&Head { page: index as u32 + 1, pages, ..*head }, &parts, &tail);
        drafts.push(Draft { text, spans: pieces.iter().map(|piece| piece.row).zip(spans).collect(), size: None });
    }
    drafts
}

fn part<'a>(content: &'a Content, piece: &Piece, number: (u32, u32)) -> Part<'a> {
    let body = &content.bodies[piece.row];
    let whole = piece.start == 0 && piece.end == body.len();
    Part {
        row: &content.rows[piece.row],
        text: &body[piece.start..piece.end],
        part: if whole { None } else { Some(number) },
    }
}

/// What the pages after this one hold.
fn later<'a>(content: &'a Content, pieces: &[Piece]) -> Vec<&'a Memory> {
    let Some(last) = pieces.last() else { return Vec::new() };
    let next = if last.end < content.bodies[last.row].len() { last.row } else { last.row + 1 };
    content.rows[next..].iter().collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::contract::*;
    use crate::fake::{Fake, memory};

    const FENCE: &str = "271828182845";

    fn head() -> Head<'static> {
        Head { snapshot_ref: Some("snap_1"), at: 0, fence: FENCE, page: 1, pages: 1 }
    }

    fn bytes(amount: u32) -> Limit {
        Limit { unit: Unit::Bytes, amount, model: None }
    }

    /// What is between the fences of a page, by memory id, as a child reads it: from the text alone.
    fn read(page: &str) -> Vec<(String, String)> {
        let mut out = Vec::new();
        let mut rest = page;
        while let Some(at) = rest.find(&format!("<<<{FENCE}\n")) {
            let line = rest[..at].trim_end().rsplit('\n').next().unwrap();
            let id = line.strip_prefix("Memory \"").unwrap().split('"').next().unwrap();
            let body = &rest[at + FENCE.len() + 4..];
            let end = body.find(&format!("\n{FENCE}>>>")).unwrap();
            out.push((id.to_owned(), body[..end].to_owned()));
            rest = &body[end + FENCE.len() + 4..];
        }
        out
    }

    fn joined(bodies: &[String], drafts: &[Draft]) -> Vec<String> {
        let mut out = vec![String::new(); bodies.len()];
        for draft in drafts {
            for (id, text) in read(&draft.text) {
                out[id.parse::<usize>().unwrap()].push_str(&text);
            }
            for (row, span) in &draft.spans {
                assert!(bodies[*row].contains(&draft.text[span.start..span.start + span.bytes]));
            }
        }
        out
    }

    fn paged(bodies: &[String], limit: &Limit, host: &mut Fake) -> Option<Vec<Draft>> {
        let rows: Vec<Memory> = bodies.iter().enumerate().map(|(i, body)| memory(&i.to_string(), body)).collect();
        let content = Content { rows: &rows, bodies, counted: &[], unread: &[], unavailable: &[] };
        paginate(host, limit, &head(), &content)
    }

    /// R32, F16: cut at every offset of texts whose characters are large.
    #[test]
    fn parts_join_to_the_original_at_every_size() {
        let zwj = "👩‍👩‍👧‍👦";
        let bodies =
            ["固".repeat(40), format!("a{}", "👍🏽".repeat(30)), zwj.repeat(12), "e\u{301}".repeat(60), String::new()];
        for amount in 430..900 {
            let Some(drafts) = paged(&bodies, &bytes(amount), &mut Fake::default()) else { continue };
            assert_eq!(joined(&bodies, &drafts), bodies, "at {amount}");
            assert!(drafts.iter().all(|draft| draft.text.len() <= amount as usize), "at {amount}");
            for draft in &drafts {
                for (id, text) in read(&draft.text) {
                    let whole = text == bodies[id.parse::<usize>().unwrap()];
                    // Never inside a cluster: each part has only whole ones.
                    if id == "2" && !whole {
                        assert_eq!(text.replace(zwj, ""), "", "at {amount}");
                    }
                    if id == "3" && !whole {
                        assert_eq!(text.replace("e\u{301}", ""), "", "at {amount}");
                    }
                }
            }
        }
        assert!(paged(&bodies, &bytes(900), &mut Fake::default()).is_some());
    }

    /// R32: a cluster that is larger than a page is cut between characters.
    #[test]
    fn a_cluster_larger_than_a_page_is_cut() {
        let bodies = [format!("e{}", "\u{301}".repeat(4_000))];
        let drafts = paged(&bodies, &bytes(800), &mut Fake::default()).unwrap();
        assert!(drafts.len() > 10);
        assert_eq!(joined(&bodies, &drafts), bodies);
    }

    #[test]
    fn parts_are_numbered_and_pages_say_what_follows() {
        let bodies = ["short".to_owned(), "x".repeat(2_000), "last".to_owned()];
        let drafts = paged(&bodies, &bytes(900), &mut Fake::default()).unwrap();
        assert_eq!(joined(&bodies, &drafts), bodies);
        let first = &drafts[0].text;
        assert!(first.contains("Memory \"0\"") && first.contains("On later pages: \"1\", \"2\"."), "{first}");
        assert!(drafts[1].text.contains(", part 1 of ") && !drafts[1].text.contains("On later pages"));
        let pages = drafts.len();
        for (number, draft) in (1..).zip(&drafts) {
            assert!(draft.text.contains(&format!("Page {number} of {pages}.")));
            let follows = format!("ask for page {} of \"snap_1\"", number + 1);
            assert_eq!(draft.text.contains(&follows), number < pages, "{}", draft.text);
        }
    }

    #[test]
    fn what_cannot_fit_is_refused() {
        let bodies = ["固".to_owned()];
        assert!(paged(&bodies, &bytes(700), &mut Fake::default()).is_some());
        assert!(paged(&bodies, &bytes(300), &mut Fake::default()).is_none());
        assert!(paged(&bodies, &bytes(0), &mut Fake::default()).is_none());
        assert!(paged(&[], &bytes(1_000), &mut Fake::default()).is_none());
    }

    /// A tokenizer for which fewer digits are more tokens: pages are laid out anew, smaller.
    #[test]
    fn a_strange_tokenizer_is_held_to_the_limit() {
        fn strange(text: &str) -> u32 {
            text.len() as u32 / 3 + if text.contains("9999") { 0 } else { 7 }
        }
        let mut host = Fake { counter: Some(strange), ..Fake::default() };
        let limit = Limit { unit: Unit::Tokens, amount: 250, model: Some("m".into()) };
        let bodies = ["y".repeat(3_000)];
        let drafts = paged(&bodies, &limit, &mut host).unwrap();
        assert_eq!(joined(&bodies, &drafts), bodies);
        assert!(drafts.iter().all(|draft| strange(&draft.text) <= 250));
    }

    /// R32: one cluster without an end is cut between its characters, in time that grows with its length only. (A second
    /// would be a minute if it grew with the square.)
    #[test]
    fn an_endless_cluster_is_cut() {
        for cluster in ["e\u{301}".to_owned() + &"\u{301}".repeat(300_000), "👩\u{200d}".repeat(100_000)] {
            let limit = bytes(2_000);
            let bodies = [cluster];
            let drafts = paged(&bodies, &limit, &mut Fake::default()).unwrap();
            assert_eq!(joined(&bodies, &drafts), bodies);
        }
    }

    proptest! {
        /// R3, R16, R32: whatever the texts are, they come back byte for byte, and no page is too large.
        #[test]
        fn any_texts_come_back(
            bodies in prop::collection::vec("(\\PC|[\\n<>0-9\u{200d}\u{301}\u{202e}]|👩‍👩‍👧‍👦|🇩🇪|한){0,120}", 1..6),
            amount in 600u32..2_000,
            tokens in any::<bool>(),
        ) {
            let limit = if tokens {
                Limit { unit: Unit::Tokens, amount, model: None }
            } else {
                bytes(amount)
            };
            let mut host = Fake::default();
            let drafts = paged(&bodies, &limit, &mut host).unwrap();
            prop_assert_eq!(joined(&bodies, &drafts), bodies);
            for draft in &drafts {
                prop_assert!(limit.fits(&mut host, &draft.text));
            }
        }
    }
}
