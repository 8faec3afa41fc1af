//! Erasure (R17): how the bodies of memories are cut out of the pages that were frozen with them.

use crate::contract::*;
use crate::session::damaged;
use crate::snapshot::{self, PageState, Place, add};
use crate::state::{open, seal};
use crate::{Imports, audit, capacity};

/// What stands in place of a body.
const ERASED: &str = "[erased]";

/// R17: this snapshot without the bodies of these memories, their digests, sizes and versions (which may be digests). What
/// else is in its pages stays as it is. Where that cannot be told, since a page or the state is damaged, the page is
/// emptied; it stays corrupt.
pub fn without<I: Imports>(imports: &mut I, frozen: Frozen, ids: &[String]) -> Frozen {
    let Frozen { mut snapshot, mut pages } = frozen;
    let state = snapshot::state(&snapshot);
    snapshot.memory_ids.retain(|id| !ids.contains(id));
    let Ok(mut state) = state else {
        audit::damage(imports, Some(&snapshot.snapshot_ref));
        snapshot.state = String::new();
        pages.iter_mut().for_each(empty);
        return Frozen { snapshot, pages };
    };
    let gone: Vec<bool> = state.items.iter().map(|item| ids.contains(&item.id)).collect();
    for page in &mut pages {
        if cut(page, &snapshot, &gone).is_err() {
            audit::damage(imports, Some(&snapshot.snapshot_ref));
            empty(page);
        }
    }
    for (item, _) in state.items.iter_mut().zip(&gone).filter(|(_, gone)| **gone) {
        *item = Item {
            id: std::mem::take(&mut item.id),
            version: String::new(),
            sha256: String::new(),
            size: Size { bytes: 0, tokens: 0, counted: true },
            removed: true,
        };
    }
    let texts: Vec<String> = pages.iter().map(|page| page.text.clone()).collect();
    // For which model it was counted is not known any more. The bound holds for all, and so does the old count: what
    // fitted before must fit without the body.
    let old = std::mem::take(&mut state.page_sizes);
    state.page_sizes = capacity::sizes(imports, None, &texts);
    for (size, old) in state.page_sizes.iter_mut().zip(&old).filter(|(size, old)| size.bytes <= old.bytes) {
        size.tokens = size.tokens.min(old.tokens);
    }
    state.size = state.page_sizes.iter().fold(Size { bytes: 0, tokens: 0, counted: true }, add);
    snapshot::write_state(&mut snapshot, &state);
    Frozen { snapshot, pages }
}

/// Cut out of one page the items that are gone. An error: where they lie cannot be trusted.
fn cut(page: &mut Page, snapshot: &Snapshot, gone: &[bool]) -> Result<(), Error> {
    let place = Place::of(page, snapshot);
    let lost = || damaged("the state of a page cannot be read");
    if place.check(&page.text) != page.check {
        return Err(lost());
    }
    let columns = place.columns();
    let PageState { spans } = open(&columns, &page.state).ok_or_else(lost)?;
    let (mut text, mut kept, mut read) = (String::with_capacity(page.text.len()), Vec::new(), 0);
    for (index, start, bytes) in spans {
        let (start, end) = (start as usize, (start as usize).saturating_add(bytes as usize));
        text.push_str(page.text.get(read..start).ok_or_else(lost)?);
        let body = page.text.get(start..end).ok_or_else(lost)?;
        if *gone.get(index as usize).ok_or_else(lost)? {
            text.push_str(ERASED);
        } else {
            kept.push((index, text.len() as u32, bytes));
            text.push_str(body);
        }
        read = end;
    }
    text.push_str(page.text.get(read..).ok_or_else(lost)?);
    page.check = place.check(&text);
    page.text = text;
    page.state = seal(&columns, &PageState { spans: kept });
    Ok(())
}

/// No text, and a checksum that no text has.
fn empty(page: &mut Page) {
    page.text = String::new();
    page.check = String::new();
    page.state = String::new();
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::block::{self, Head, Part, Tail};
    use crate::fake::{Fake, memory};

    const FENCE: &str = "271828182845";

    fn size(text: &str) -> Size {
        Size { bytes: text.len() as u32, tokens: 1, counted: true }
    }

    /// A snapshot of these bodies, `per_page` to a page; a body may also be cut in two.
    fn frozen(bodies: &[String], per_page: usize, halves: bool) -> Frozen {
        let rows: Vec<Memory> = (0..bodies.len()).map(|index| memory(&index.to_string(), &bodies[index])).collect();
        let mut pieces: Vec<(usize, &str)> = Vec::new();
        for (index, body) in bodies.iter().enumerate() {
            let middle = (0..=body.len() / 2).rev().find(|at| body.is_char_boundary(*at)).unwrap_or(0);
            if halves {
                pieces.push((index, &body[..middle]));
                pieces.push((index, &body[middle..]));
            } else {
                pieces.push((index, body));
            }
        }
        let mut pages = Vec::new();
        let count = pieces.len().div_ceil(per_page) as u32;
        for (number, pieces) in (1..).zip(pieces.chunks(per_page)) {
            let parts: Vec<Part> =
                pieces.iter().map(|(index, text)| Part { row: &rows[*index], text, part: None }).collect();
            let head = Head { snapshot_ref: Some("snap_1"), at: 0, fence: FENCE, page: number, pages: 1 };
            let (text, spans) = block::page(&head, &parts, &Tail::default());
            let spans = pieces
                .iter()
                .zip(spans)
                .map(|((index, _), span)| (*index as u32, span.start as u32, span.bytes as u32))
                .collect();
            let on = place(number, count);
            let (check, state) = (on.check(&text), seal(&on.columns(), &PageState { spans }));
            pages.push(Page { number, check, text, state });
        }
        let item = |index: usize| Item {
            id: index.to_string(),
            version: "1".into(),
            sha256: "ab".repeat(32),
            size: size(&bodies[index]),
            removed: false,
        };
        let page_sizes: Vec<Size> = pages.iter().map(|page| size(&page.text)).collect();
        let state = snapshot::State {
            items: (0..bodies.len()).map(item).collect(),
            unavailable: Vec::new(),
            omitted: Vec::new(),
            size: page_sizes.iter().fold(Size { bytes: 0, tokens: 0, counted: true }, add),
            page_sizes,
        };
        let mut snapshot = Snapshot {
            snapshot_ref: "snap_1".into(),
            owner: SessionKey { harness: "h".into(), id: "s".into() },
            created_at: 0,
            expires_at: 1,
            keep_until: 1,
            revoked_at: None,
            memory_ids: (0..bodies.len()).map(|index| index.to_string()).collect(),
            pages: pages.len() as u32,
            state: String::new(),
        };
        snapshot::write_state(&mut snapshot, &state);
        Frozen { snapshot, pages }
    }

    fn place(number: u32, pages: u32) -> Place<'static> {
        Place { snapshot_ref: "snap_1", number, pages }
    }

    fn erase(frozen: Frozen, ids: &[&str]) -> Frozen {
        without(&mut Fake::default(), frozen, &ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn one_body_goes_and_the_rest_stays_byte_for_byte() {
        let bodies = ["alpha".to_owned(), "secret\nline".to_owned(), "omega".to_owned()];
        let before = frozen(&bodies, 3, false);
        let after = erase(before.clone(), &["1"]);
        assert_eq!(after.pages[0].text, before.pages[0].text.replace("secret\nline", ERASED));
        assert_eq!(after.pages[0].check, place(1, 1).check(&after.pages[0].text));
        assert_eq!(after.snapshot.memory_ids, ["0", "2"]);
        let state = snapshot::state(&after.snapshot).unwrap();
        let gone = &state.items[1];
        assert_eq!((gone.removed, gone.sha256.as_str(), gone.size.bytes), (true, "", 0));
        assert!(!state.items[0].removed && state.items[0].sha256.len() == 64);
        assert_eq!(state.page_sizes[0].bytes as usize, after.pages[0].text.len());
        // The others can still be found, and go by themselves.
        let last = erase(erase(after, &["2"]), &["0", "1", "2"]);
        assert_eq!(last.pages[0].text.matches(ERASED).count(), 3);
        assert_eq!(last.snapshot.memory_ids, Vec::<String>::new());
    }

    /// Erasure is not put off by damage: what cannot be trusted is emptied, and is not delivered.
    #[test]
    fn a_damaged_page_is_emptied() {
        let bodies = ["alpha".to_owned(), "secret".to_owned()];
        let lying = |spans| seal(&place(1, 1).columns(), &PageState { spans });
        let damages: [&dyn Fn(&mut Frozen); 6] = [
            &|frozen: &mut Frozen| frozen.pages[0].text.push('.'),
            &|frozen: &mut Frozen| frozen.pages[0].state = "[".into(),
            &|frozen: &mut Frozen| frozen.pages[0].state = frozen.pages[0].state.replacen('6', "5", 1),
            &|frozen: &mut Frozen| frozen.pages[0].state = lying(vec![(1, 4_000_000_000, 4_000_000_000)]),
            &|frozen: &mut Frozen| frozen.pages[0].state = lying(vec![(7, 1, 1)]),
            &|frozen: &mut Frozen| frozen.snapshot.state = "{}".into(),
        ];
        for damage in damages {
            let mut frozen = frozen(&bodies, 2, false);
            damage(&mut frozen);
            let after = erase(frozen, &["1"]);
            assert_eq!(after.pages[0].text, "");
            assert_ne!(place(1, 1).check(""), after.pages[0].check);
            assert_eq!(after.snapshot.memory_ids, ["0"]);
            assert!(
                !after.snapshot.state.contains(&"ab".repeat(32)) || after.snapshot.state.contains("removed\":true")
            );
        }
    }

    proptest! {
        /// R17: whatever the bodies are and however they lie on pages, nothing of the erased ones is left between
        /// fences, and all of the others is.
        #[test]
        fn what_is_left_is_what_was_not_erased(
            bodies in prop::collection::vec("(\\PC|[\\n<>]|👩‍👩‍👧‍👦|한){0,40}", 1..6),
            per_page in 1usize..4,
            halves in any::<bool>(),
            mask in any::<u8>(),
        ) {
            let before = frozen(&bodies, per_page, halves);
            let gone: Vec<String> =
                (0..bodies.len()).filter(|index| mask >> index & 1 == 1).map(|index| index.to_string()).collect();
            let after = without(&mut Fake::default(), before.clone(), &gone);
            for (page, old) in after.pages.iter().zip(&before.pages) {
                let on = Place::of(page, &after.snapshot);
                prop_assert_eq!(&page.check, &on.check(&page.text));
                let PageState { spans } = open(&on.columns(), &page.state).unwrap();
                let PageState { spans: old_spans } = open(&on.columns(), &old.state).unwrap();
                let kept: Vec<_> = old_spans.iter().filter(|(index, _, _)| !gone.contains(&index.to_string())).collect();
                prop_assert_eq!(spans.len(), kept.len());
                for ((index, start, bytes), (old_index, old_start, old_bytes)) in spans.iter().zip(kept) {
                    prop_assert_eq!(index, old_index);
                    let new = &page.text[*start as usize..(*start + *bytes) as usize];
                    prop_assert_eq!(new, &old.text[*old_start as usize..(*old_start + *old_bytes) as usize]);
                }
                let erased: usize = old_spans.iter().filter(|(index, _, _)| gone.contains(&index.to_string()))
                    .map(|(_, _, bytes)| *bytes as usize).sum();
                let marks = old_spans.len() - spans.len();
                prop_assert_eq!(page.text.len(), old.text.len() - erased + marks * ERASED.len());
            }
        }
    }
}
