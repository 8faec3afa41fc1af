//! What a search looks for, from any text (R42): words, and runs of characters of scripts that are written without
//! spaces. `host/sql/migrations/001.sql` says how bodies are indexed for it; stores without an index score rows by it.

use crate::contract::{Audience, Memory, SearchFilter};

/// How many words and runs of a query are looked for; the rest of it is not.
const MAX_TERMS: usize = 32;

/// How many characters of one word or run are looked for.
const MAX_CHARS: usize = 64;

/// A query, without duplicates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Query {
    terms: Vec<Term>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Term {
    /// A whole word, in lower case.
    Word(String),
    /// Characters that are found wherever they stand together.
    Run(String),
}

impl Query {
    /// Any text is one; it has no operators.
    pub fn parse(text: &str) -> Query {
        let mut terms: Vec<Term> = Vec::new();
        let mut rest = text;
        while terms.len() < MAX_TERMS
            && let Some(start) = rest.find(is_searched)
        {
            rest = rest.get(start..).unwrap_or_default();
            let in_run = rest.starts_with(is_run);
            let belongs = |c: char| if in_run { is_run(c) } else { is_searched(c) && !is_run(c) };
            let end = rest.find(|c| !belongs(c)).unwrap_or(rest.len());
            let (term, after) = rest.split_at(end);
            rest = after;
            let term: String = term.chars().take(MAX_CHARS).collect();
            let term = if in_run { Term::Run(term) } else { Term::Word(term.to_lowercase()) };
            if !terms.contains(&term) {
                terms.push(term);
            }
        }
        Query { terms }
    }

    /// How many of its words and runs are in this text; 0: it does not match.
    pub fn score(&self, text: &str) -> u32 {
        let lower = text.to_lowercase();
        let words = || lower.split(|c| !is_searched(c) || is_run(c));
        let found = |term: &&Term| match term {
            Term::Word(word) => words().any(|other| other == word),
            Term::Run(run) => text.contains(run.as_str()),
        };
        u32::try_from(self.terms.iter().filter(found).count()).unwrap_or(u32::MAX)
    }
}

/// Whether a search with this filter may find this row (`memories.search-filter`).
pub(crate) fn admits(filter: &SearchFilter, row: &Memory) -> bool {
    let SearchFilter { owner, shared_in, projects, at, trusted_only } = filter;
    let of_others = row.owner.is_some()
        && match row.audience {
            Audience::Agent => false,
            Audience::Project => shared_in.is_some() && row.project == *shared_in,
            Audience::Workspace => shared_in.is_some(),
        };
    (row.owner.as_ref() == Some(owner) || of_others)
        && row.project.as_ref().is_some_and(|project| projects.contains(project))
        && row.active
        && row.expires_at.is_none_or(|end| end > *at)
        && (row.trusted || !trusted_only)
}

/// Whether this character is part of a word or a run; all others part them. Which of the others are letters, marks or
/// symbols is for the index to tell, which knows all of Unicode.
fn is_searched(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_alphanumeric() } else { !c.is_whitespace() && !c.is_control() && !PARTS.contains(&c) }
}

/// What parts Chinese, Japanese and Korean sentences, and is no space.
const PARTS: [char; 10] = ['、', '。', '・', '「', '」', '『', '』', '！', '？', '，'];

/// Chinese, Japanese and Korean letters. The same ranges stand in the view `memory_texts`.
fn is_run(c: char) -> bool {
    matches!(c,
        '\u{1100}'..='\u{11ff}' | '\u{3005}'..='\u{3007}' | '\u{3041}'..='\u{309f}' | '\u{30a1}'..='\u{30fa}'
        | '\u{30fc}'..='\u{30ff}' | '\u{3105}'..='\u{318f}' | '\u{31a0}'..='\u{31ff}' | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}' | '\u{a960}'..='\u{a97f}' | '\u{ac00}'..='\u{d7ff}' | '\u{f900}'..='\u{faff}'
        | '\u{ff66}'..='\u{ffdc}' | '\u{20000}'..='\u{3ffff}')
}
