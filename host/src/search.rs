//! What a search looks for, from any text (R42): words, and runs of characters of scripts that are written without
//! spaces. `host/sql/migrations/001.sql` says how bodies are indexed for it; stores without an index score rows by it.

use crate::contract::{Audience, Memory, SearchFilter};

/// How many words and runs of a query are looked for; the rest of it is not.
const MAX_TERMS: usize = 32;

/// How many characters of a run are looked for, the first.
const MAX_RUN: usize = 64;

/// How many bytes a word may have; a longer one is looked for nowhere.
const MAX_WORD: usize = 1_024;

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
            let term = match in_run {
                true => Term::Run(term.chars().take(MAX_RUN).collect()),
                false if term.len() > MAX_WORD => continue,
                false => Term::Word(term.to_lowercase()),
            };
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

    /// Its terms as FTS5 expressions over the texts of the view `memory_texts`, where a run is a phrase of its
    /// overlapping pairs of characters.
    pub fn expressions(&self) -> Vec<String> {
        self.terms.iter().map(Term::expression).collect()
    }
}

impl Term {
    fn expression(&self) -> String {
        match self {
            Term::Word(word) => quoted(word),
            Term::Run(run) => {
                let chars: Vec<char> = run.chars().collect();
                match chars.as_slice() {
                    // Every character of a run begins a pair, or is its last.
                    [only] => format!("{} *", quoted(&only.to_string())),
                    chars => {
                        let pairs: Vec<String> = chars.windows(2).map(|pair| pair.iter().collect()).collect();
                        quoted(&pairs.join(" "))
                    }
                }
            }
        }
    }
}

/// A string of FTS5: nothing in it is an operator.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
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

/// Whether this character is part of a word or a run; all others part them. A mark that is no letter (a vowel sign, a
/// virama) belongs to the word that it stands in.
fn is_searched(c: char) -> bool {
    c.is_alphanumeric() || is_run(c) || !(c.is_ascii() || c.is_whitespace() || c.is_control() || is_symbol(c))
}

/// The blocks of punctuation, symbols and pictographs beyond ASCII.
fn is_symbol(c: char) -> bool {
    matches!(c,
        '\u{80}'..='\u{bf}' | '\u{d7}' | '\u{f7}' | '\u{2000}'..='\u{2bff}' | '\u{2e00}'..='\u{2fff}'
        | '\u{3000}'..='\u{303f}' | '\u{30fb}' | '\u{fe00}'..='\u{fe1f}' | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff00}'..='\u{ff65}' | '\u{fff0}'..='\u{ffff}' | '\u{1f000}'..='\u{1faff}' | '\u{e0000}'..='\u{e0fff}')
}

/// Chinese, Japanese and Korean letters. The same ranges stand in the view `memory_texts`.
fn is_run(c: char) -> bool {
    matches!(c,
        '\u{1100}'..='\u{11ff}' | '\u{3005}'..='\u{3007}' | '\u{3041}'..='\u{309f}' | '\u{30a1}'..='\u{30fa}'
        | '\u{30fc}'..='\u{30ff}' | '\u{3105}'..='\u{318f}' | '\u{31a0}'..='\u{31ff}' | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}' | '\u{a960}'..='\u{a97f}' | '\u{ac00}'..='\u{d7ff}' | '\u{f900}'..='\u{faff}'
        | '\u{ff66}'..='\u{ffdc}' | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expressions(text: &str) -> Vec<String> {
        Query::parse(text).expressions()
    }

    #[test]
    fn any_text_is_a_query_and_nothing_in_it_is_an_operator() {
        assert_eq!(expressions("Login AND form*"), ["\"login\"", "\"and\"", "\"form\""]);
        assert_eq!(
            expressions("\"a\" NEAR(b, 2) col:c ^d -e"),
            ["\"a\"", "\"near\"", "\"b\"", "\"2\"", "\"col\"", "\"c\"", "\"d\"", "\"e\""]
        );
        for nothing in ["", " \n", "\"*\"", "()", "\0", "\u{3000}\u{85}", "🎉👩‍👩‍👧", "— «…»", "\u{202e}"]
        {
            assert_eq!(expressions(nothing), [""; 0], "{nothing:?}");
        }
        assert_eq!(expressions("a a A"), ["\"a\""]);
    }

    #[test]
    fn runs_are_phrases_of_pairs() {
        assert_eq!(expressions("日本語"), ["\"日本 本語\""]);
        assert_eq!(expressions("字"), ["\"字\" *"]);
        assert_eq!(expressions("SQLiteを使う"), ["\"sqlite\"", "\"を使 使う\""]);
        assert_eq!(expressions("東京。大阪"), ["\"東京\"", "\"大阪\""]);
    }

    #[test]
    fn a_long_query_is_cut() {
        let many: String = (0..1_000).map(|n| format!("w{n} ")).collect();
        assert_eq!(expressions(&many).len(), MAX_TERMS);
        assert_eq!(expressions(&"x".repeat(MAX_WORD))[0].len(), MAX_WORD + 2);
        assert_eq!(expressions(&"x".repeat(10_000)), [""; 0]);
        assert!(expressions(&"漢".repeat(1_000_000))[0].chars().count() < 3 * MAX_RUN);
    }

    #[test]
    fn words_match_whole_and_runs_anywhere() {
        let score = |query: &str, text: &str| Query::parse(query).score(text);
        assert_eq!(score("form login", "The LOGIN-form."), 2);
        assert_eq!(score("log", "login"), 0);
        assert_eq!(score("本語", "日本語だ"), 1);
        assert_eq!(score("本大", "日本。大阪"), 0);
        assert_eq!(score("sqlite", "SQLiteを使う"), 1);
    }
}
