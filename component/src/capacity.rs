//! How much of the child's context memories may take, how large a text is, and what happens to what does not fit (R29
//! to R31, R33). How a memory is split over pages is for `pages`, how a page reads for `block`.

use crate::block::{self, Head, Part, Span, Tail};
use crate::contract::*;
use crate::tokens::Counted;
use crate::{Imports, pages, tokens};

/// R29, R30: the child's own budget in its one unit.
#[derive(Clone)]
pub struct Limit {
    /// Bytes or tokens.
    pub unit: Unit,
    /// At this size it fits, one over it does not.
    pub amount: u32,
    /// Whose tokens.
    pub model: Option<String>,
}

impl Limit {
    /// What a capacity allows. A window that the other parts fill allows nothing.
    pub fn of(capacity: &Capacity) -> Limit {
        let (unit, amount) = match &capacity.budget {
            Budget::Bytes(amount) => (Unit::Bytes, *amount),
            Budget::Tokens(amount) => (Unit::Tokens, *amount),
            Budget::Window(w) => {
                let rest =
                    [w.output_reserve, w.system, w.tools, w.task].into_iter().fold(w.window, u32::saturating_sub);
                (Unit::Tokens, rest)
            }
        };
        Limit { unit, amount, model: capacity.model.clone() }
    }

    /// The part of a size that this limit is about.
    pub fn part(&self, size: &Size) -> u32 {
        match self.unit {
            Unit::Bytes => size.bytes,
            Unit::Tokens => size.tokens,
        }
    }

    /// The size of one text in this limit's unit.
    pub fn measure<I: Imports>(&self, imports: &mut I, text: &str) -> u32 {
        match self.unit {
            Unit::Bytes => bytes(text),
            Unit::Tokens => size(imports, self.model.as_deref(), text).tokens,
        }
    }

    /// R30: whether a text fits.
    pub fn fits<I: Imports>(&self, imports: &mut I, text: &str) -> bool {
        self.measure(imports, text) <= self.amount
    }
}

/// The size of one text.
pub fn size<I: Imports>(imports: &mut I, model: Option<&str>, text: &str) -> Size {
    sizes(imports, model, &[text.to_owned()]).pop().unwrap_or(Size { bytes: 0, tokens: 0, counted: false })
}

/// R33: the size of each text. Tokens as the host's tokenizer counts them, else the upper bound.
pub fn sizes<I: Imports>(imports: &mut I, model: Option<&str>, texts: &[String]) -> Vec<Size> {
    exact_sizes(imports, model, texts)
        .unwrap_or_else(|| texts.iter().map(|text| bound(text, &tokens::count(text, &[]))).collect())
}

/// The size of each body, and what a page that has them need not count again: nothing where the host's tokenizer counts.
pub fn body_sizes<I: Imports>(imports: &mut I, model: Option<&str>, bodies: &[String]) -> (Vec<Size>, Vec<Counted>) {
    match exact_sizes(imports, model, bodies) {
        Some(sizes) => (sizes, Vec::new()),
        None => {
            let counted: Vec<Counted> = bodies.iter().map(|body| tokens::count(body, &[])).collect();
            (bodies.iter().zip(&counted).map(|(body, counted)| bound(body, counted)).collect(), counted)
        }
    }
}

fn exact_sizes<I: Imports>(imports: &mut I, model: Option<&str>, texts: &[String]) -> Option<Vec<Size>> {
    let counts = imports.count_tokens(model?, texts).filter(|counts| counts.len() == texts.len())?;
    let size = |(text, tokens): (&String, u32)| Size { bytes: bytes(text), tokens, counted: true };
    Some(texts.iter().zip(counts).map(size).collect())
}

fn bound(text: &str, counted: &Counted) -> Size {
    Size { bytes: bytes(text), tokens: counted.tokens(), counted: false }
}

fn bytes(text: &str) -> u32 {
    u32::try_from(text.len()).unwrap_or(u32::MAX)
}

/// What is to be fitted: visible memories with their bodies, in the order of the request.
pub struct Content<'a> {
    /// The rows.
    pub rows: &'a [Memory],
    /// Their bodies.
    pub bodies: &'a [String],
    /// What [`body_sizes`] says of them.
    pub counted: &'a [Counted],
    /// Indices of those that were not read, since they are too large, and so are left out in any case.
    pub unread: &'a [usize],
    /// The ids that could not be had.
    pub unavailable: &'a [String],
}

/// A finished page.
pub struct Draft {
    /// The text.
    pub text: String,
    /// Where each body, or part of one, lies: index into the rows, and span.
    pub spans: Vec<(usize, Span)>,
    /// Its size, if fitting it has told: counting tokens takes longer than all else.
    pub size: Option<Size>,
}

/// What became of it.
pub enum Fitted {
    /// It fits: pages, and the indices of the memories that were left out, in no order.
    Pages(Vec<Draft>, Vec<usize>),
    /// It does not: what it would take.
    TooLarge(u32),
}

/// What is kept longer, where whole memories may be left out.
pub type Rank<'a> = dyn Fn(&Memory) -> u64 + 'a;

/// R31: by priority, the request's own before the memory's, or by recency. `None`: nothing may be left out.
pub fn rank<'a>(overflow: Overflow, priorities: &'a [(String, u32)]) -> Option<Box<Rank<'a>>> {
    match overflow {
        Overflow::Refuse | Overflow::Paginate => None,
        Overflow::TrimPriority => Some(Box::new(|row| {
            let own = priorities.iter().find(|(id, _)| *id == row.id).map(|(_, priority)| *priority);
            u64::from(own.unwrap_or(row.priority))
        })),
        Overflow::TrimRecency => Some(Box::new(|row| row.updated_at.unwrap_or(0))),
    }
}

/// R31: which of these to leave out so that the others have at most `max` bytes together: those that are larger by
/// themselves, then the lowest.
pub fn leave_out(rows: &[Memory], max: u32, rank: &Rank) -> Vec<usize> {
    let mut omitted: Vec<usize> = (0..rows.len()).filter(|index| rows[*index].bytes > max).collect();
    let bytes = |omitted: &[usize]| {
        let kept = (0..rows.len()).filter(|index| !omitted.contains(index));
        kept.map(|index| u64::from(rows[index].bytes)).sum::<u64>()
    };
    while bytes(&omitted) > u64::from(max)
        && let Some(lowest) = lowest(rows, &omitted, rank)
    {
        omitted.push(lowest);
    }
    omitted
}

/// R30, R31: fit `content` into `limit`, whole if possible, else without those of the lowest rank, else on several pages
/// if that is asked for.
pub fn fit<I: Imports>(
    imports: &mut I,
    limit: &Limit,
    rank: Option<&Rank>,
    paginate: bool,
    head: &Head,
    content: &Content,
) -> Fitted {
    let mut whole = one_page(head, content, content.unread);
    if limit.unit == Unit::Tokens {
        whole.size = Some(match content.counted {
            [] => size(imports, limit.model.as_deref(), &whole.text),
            counted => {
                let part = |(index, span): &(usize, Span)| Some((span.start, *counted.get(*index)?));
                let parts: Vec<_> = whole.spans.iter().filter_map(part).collect();
                bound(&whole.text, &tokens::count(&whole.text, &parts))
            }
        });
    }
    let shown = whole.size.map_or(bytes(&whole.text), |size| size.tokens);
    let nothing = !content.rows.is_empty() && content.unread.len() == content.rows.len();
    if shown <= limit.amount && !nothing {
        return Fitted::Pages(vec![whole], content.unread.to_vec());
    }
    let fitted = match rank {
        Some(rank) => trim(imports, limit, head, content, rank),
        None if paginate => pages::paginate(imports, limit, head, content).map(|pages| (pages, Vec::new())),
        None => None,
    };
    match fitted {
        Some((pages, omitted)) => Fitted::Pages(pages, omitted),
        // A byte is at least as much as a token.
        None => {
            let unread = content.unread.iter().map(|index| content.rows[*index].bytes);
            Fitted::TooLarge(unread.fold(shown, u32::saturating_add))
        }
    }
}

/// R31: leave out whole memories, lowest rank first, among equals the last named first, until the rest fits. Before
/// that, those that would not even fit alone, whatever their rank: nothing else shall be given up for them. `None`: not
/// one fits.
fn trim<I: Imports>(
    imports: &mut I,
    limit: &Limit,
    head: &Head,
    content: &Content,
    rank: &Rank,
) -> Option<(Vec<Draft>, Vec<usize>)> {
    let count = content.rows.len();
    let mut hopeless = content.unread.to_vec();
    for (index, (row, body)) in content.rows.iter().zip(content.bodies).enumerate() {
        let tail = Tail { unavailable: content.unavailable, ..Tail::default() };
        let (text, _) = block::page(head, &[Part { row, text: body, part: None }], &tail);
        if !hopeless.contains(&index) && !limit.fits(imports, &text) {
            hopeless.push(index);
        }
    }
    while hopeless.len() < count {
        let mut omitted = hopeless.clone();
        while let Some(lowest) = lowest(content.rows, &omitted, rank) {
            let draft = one_page(head, content, &omitted);
            if limit.fits(imports, &draft.text) {
                return Some((vec![draft], omitted));
            }
            omitted.push(lowest);
        }
        // The names of the others were too much for the last one: it is given up for them.
        hopeless.extend(omitted.last());
    }
    None
}

/// The memory to leave out next: the lowest, among equals the last named.
fn lowest(rows: &[Memory], omitted: &[usize], rank: &Rank) -> Option<usize> {
    let kept = (0..rows.len()).filter(|index| !omitted.contains(index));
    kept.min_by_key(|index| (rank(&rows[*index]), std::cmp::Reverse(*index)))
}

fn one_page(head: &Head, content: &Content, omitted: &[usize]) -> Draft {
    let kept: Vec<usize> = (0..content.rows.len()).filter(|index| !omitted.contains(index)).collect();
    let parts: Vec<Part> = kept
        .iter()
        .map(|index| Part { row: &content.rows[*index], text: &content.bodies[*index], part: None })
        .collect();
    let left_out = (0..content.rows.len()).filter(|index| omitted.contains(index));
    let omitted: Vec<&Memory> = left_out.map(|index| &content.rows[index]).collect();
    let tail = Tail { unavailable: content.unavailable, omitted: &omitted, later: &[] };
    let (text, spans) = block::page(head, &parts, &tail);
    Draft { text, spans: kept.into_iter().zip(spans).collect(), size: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(task: u32) -> Limit {
        let window = ContextWindow { window: 262_144, output_reserve: 32_768, system: 4_000, tools: 6_000, task };
        Limit::of(&Capacity { budget: Budget::Window(window), model: None, overflow: Overflow::Refuse })
    }

    /// F14: one over the window failed at the provider.
    #[test]
    fn a_window_leaves_what_is_left_of_it() {
        assert_eq!(window(219_375).amount, 1);
        assert_eq!(window(219_376).amount, 0);
        assert_eq!(window(219_377).amount, 0);
        assert_eq!(window(u32::MAX).amount, 0);
    }

    mod trimming {
        use super::*;
        use crate::fake::{Fake, memory};

        const HEAD: Head = Head { snapshot_ref: Some("snap_1"), at: 0, fence: "271828182845", page: 1, pages: 1 };

        /// What is kept of bodies of these sizes, with these priorities, in a budget of bytes.
        fn kept(sizes: &[(usize, u32)], amount: u32) -> Option<Vec<usize>> {
            let mut rows = Vec::new();
            let mut bodies = Vec::new();
            for (index, (bytes, priority)) in sizes.iter().enumerate() {
                let body = "x".repeat(*bytes);
                let mut row = memory(&index.to_string(), &body);
                row.priority = *priority;
                rows.push(row);
                bodies.push(body);
            }
            let limit = Limit { unit: Unit::Bytes, amount, model: None };
            let content = Content { rows: &rows, bodies: &bodies, counted: &[], unread: &[], unavailable: &[] };
            let rank = rank(Overflow::TrimPriority, &[]);
            match fit(&mut Fake::default(), &limit, rank.as_deref(), false, &HEAD, &content) {
                Fitted::TooLarge(_) => None,
                Fitted::Pages(pages, omitted) => {
                    assert!(pages.len() == 1 && pages[0].text.len() <= amount as usize);
                    Some((0..sizes.len()).filter(|index| !omitted.contains(index)).collect())
                }
            }
        }

        #[test]
        fn the_lowest_goes_first_and_the_last_named_among_equals() {
            assert_eq!(kept(&[(300, 5), (300, 1), (300, 5)], 1_250), Some(vec![0, 2]));
            assert_eq!(kept(&[(300, 5), (300, 5), (300, 5)], 1_250), Some(vec![0, 1]));
            assert_eq!(kept(&[(300, 5), (300, 5), (300, 5)], 10_000), Some(vec![0, 1, 2]));
        }

        #[test]
        fn what_is_not_read_is_the_lowest_or_too_large() {
            let rows: Vec<Memory> = [(500, 9), (2_000, 9), (400, 1), (400, 5)]
                .iter()
                .map(|(bytes, priority)| Memory { bytes: *bytes, priority: *priority, ..memory("1", "") })
                .collect();
            let rank = rank(Overflow::TrimPriority, &[]).unwrap();
            assert!(leave_out(&rows, 10_000, &rank).is_empty());
            assert_eq!(leave_out(&rows, 1_300, &rank), [1]);
            assert_eq!(leave_out(&rows, 1_000, &rank), [1, 2]);
            assert_eq!(leave_out(&rows, 10, &rank).len(), 4);
        }

        #[test]
        fn what_cannot_fit_takes_nothing_with_it() {
            assert_eq!(kept(&[(9_000, 9), (300, 1), (300, 1)], 1_300), Some(vec![1, 2]));
            assert_eq!(kept(&[(9_000, 9), (9_000, 1)], 1_300), None);
            // It fits alone, but not beside the name of what is left out.
            let alone = 600;
            let amount = (300..1_200).find(|amount| kept(&[(alone, 9)], *amount).is_some()).unwrap();
            assert_eq!(kept(&[(alone, 9), (10, 1)], amount), Some(vec![1]));
        }
    }
}
