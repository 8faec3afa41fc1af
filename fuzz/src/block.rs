//! The block's renderer against its reader (R3, R34 to R36), and what erasure leaves of a page (R17).

use arbitrary::{Arbitrary, Unstructured};
use memory_prefetch_component::block::{self, Head, Part, Tail};
use memory_prefetch_component::contract::*;
use memory_prefetch_component::erasure;
use memory_prefetch_component::snapshot::{PageState, Place, State, write_state};
use memory_prefetch_component::state::seal;

use crate::reader::{Read, ReadPart, read};
use crate::scene::text_of;
use crate::world::World;

#[derive(Debug, Arbitrary)]
struct Input {
    snapshot_ref: Option<String>,
    at: u64,
    fence: u64,
    pages: (u16, u16),
    rows: Vec<Row>,
    unavailable: Vec<String>,
    omitted: Vec<u8>,
    later: Vec<u8>,
    /// What stands in the snapshot's state, where it is not what it should be.
    state: Option<String>,
    erased: u8,
}

#[derive(Debug, Arbitrary)]
struct Row {
    id: String,
    category: String,
    updated: Option<u64>,
    part: Option<(u16, u16)>,
    body: String,
    /// The body tries to end its fence.
    evil: Option<u8>,
}

/// Any bytes.
pub fn run(data: &[u8]) {
    let Ok(input) = Input::arbitrary(&mut Unstructured::new(data)) else { return };
    let fence = format!("{:012}", input.fence % 1_000_000_000_000);
    // A text that is no page is read as none; and nothing makes the reader fall over.
    read(&String::from_utf8_lossy(data));

    let bodies: Vec<String> = input.rows.iter().map(|row| text_of(&row.body, row.evil, &fence)).collect();
    if !block::fence_holds(&fence, bodies.iter().map(String::as_str)) {
        return;
    }
    let rows: Vec<Memory> = input.rows.iter().zip(&bodies).map(|(row, body)| memory(row, body)).collect();
    let parts: Vec<Part> = rows
        .iter()
        .zip(&bodies)
        .zip(&input.rows)
        .map(|((row, text), of)| Part { row, text, part: of.part.map(|(i, n)| (i.into(), n.into())) })
        .collect();
    let some =
        |places: &[u8]| -> Vec<&Memory> { places.iter().filter_map(|place| rows.get(*place as usize)).collect() };
    let (omitted, later) = (some(&input.omitted), some(&input.later));
    let tail = Tail { unavailable: &input.unavailable, omitted: &omitted, later: &later };
    let (page, pages) = (u32::from(input.pages.0), u32::from(input.pages.1));
    let head = Head { snapshot_ref: input.snapshot_ref.as_deref(), at: input.at, fence: &fence, page, pages };
    let (text, spans) = block::page(&head, &parts, &tail);

    assert!(text.starts_with(block::PREFIX));
    let names = |rows: &[&Memory]| rows.iter().map(|row| row.id.clone()).collect::<Vec<_>>();
    let next = input.snapshot_ref.clone().filter(|_| page < pages).map(|name| (page + 1, name));
    let found = read(&text).unwrap_or_else(|| panic!("this cannot be read back: {text}"));
    let expected = Read {
        snapshot_ref: input.snapshot_ref.clone(),
        fence: fence.clone(),
        page,
        pages,
        parts: (parts.iter().zip(&found.parts))
            .map(|(part, found)| ReadPart {
                id: part.row.id.clone(),
                category: part.row.category.clone(),
                // How an instant reads is the renderer's matter; whether there is one is not.
                updated: part.row.updated_at.and(found.updated.clone().or(Some("a time".into()))),
                part: part.part,
                body: part.text.to_owned(),
            })
            .collect(),
        unavailable: input.unavailable.clone(),
        omitted: omitted.iter().map(|row| (row.id.clone(), row.bytes)).collect(),
        later: names(&later),
        next,
    };
    assert_eq!(found.parts.len(), parts.len());
    assert_eq!(found, expected, "{text}");
    for (span, body) in spans.iter().zip(&bodies) {
        assert_eq!(&text[span.start..span.start + span.bytes], body);
    }
    erase(&input, text, &spans, &rows);
}

/// R17: what is erased is gone, what is not is there still, and what cannot be told apart is emptied.
fn erase(input: &Input, text: String, spans: &[block::Span], rows: &[Memory]) {
    let spans = spans.iter().enumerate();
    let spans = spans.map(|(row, span)| (row as u32, span.start as u32, span.bytes as u32)).collect();
    let place = Place { snapshot_ref: "snap_1", number: 1, pages: 1 };
    let whole = read(&text);
    let (check, state) = (place.check(&text), seal(&place.columns(), &PageState { spans }));
    let size = Size { bytes: text.len() as u32, tokens: 0, counted: true };
    let page = Page { number: 1, check, text, state };
    let mut snapshot = Snapshot {
        snapshot_ref: "snap_1".into(),
        owner: SessionKey { harness: "h".into(), id: "s".into() },
        created_at: 0,
        expires_at: 1,
        keep_until: 1,
        revoked_at: None,
        memory_ids: rows.iter().map(|row| row.id.clone()).collect(),
        pages: 1,
        state: String::new(),
    };
    let item = |row: &Memory| Item {
        id: row.id.clone(),
        version: row.version.clone(),
        sha256: String::new(),
        size: Size { bytes: row.bytes, tokens: 0, counted: true },
        removed: false,
    };
    let items = rows.iter().map(item).collect();
    let state = State { items, unavailable: Vec::new(), omitted: Vec::new(), size, page_sizes: vec![size] };
    match &input.state {
        Some(other) => snapshot.state.clone_from(other),
        None => write_state(&mut snapshot, &state),
    }
    let gone: Vec<bool> = (0..rows.len()).map(|place| input.erased >> (place % 8) & 1 == 1).collect();
    let ids: Vec<String> = rows.iter().zip(&gone).filter(|(_, gone)| **gone).map(|(row, _)| row.id.clone()).collect();
    let after = erasure::without(&mut World::default(), Frozen { snapshot, pages: vec![page] }, &ids);
    assert!(!after.snapshot.memory_ids.iter().any(|id| ids.contains(id)));
    let Page { text, check, .. } = &after.pages[0];
    if input.state.is_some() {
        assert!(text.is_empty() && check.is_empty(), "whose bodies these are is not known");
        return;
    }
    assert_eq!(*check, place.check(text));
    let (whole, left) = (whole.expect("it was read before"), read(text).expect("it can be read still"));
    for (before, after) in whole.parts.iter().zip(&left.parts) {
        let body = if ids.contains(&before.id) { "[erased]" } else { before.body.as_str() };
        assert_eq!((&after.id, after.body.as_str()), (&before.id, body));
    }
    assert_eq!(Read { parts: Vec::new(), ..left }, Read { parts: Vec::new(), ..whole });
}

fn memory(row: &Row, body: &str) -> Memory {
    Memory {
        id: row.id.clone(),
        owner: None,
        project: None,
        audience: Audience::Agent,
        active: true,
        expires_at: None,
        trusted: true,
        category: row.category.clone(),
        priority: 0,
        version: "1".into(),
        updated_at: row.updated,
        bytes: body.len() as u32,
        body: None,
        attributes: Vec::new(),
    }
}
