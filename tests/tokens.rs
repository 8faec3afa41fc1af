//! R33: the bound is never under the exact counts, and for English at most twice as much.
//!
//! Held against the encoders on the corpus (`tests/corpus`), on the words that the bound takes for one token, in all
//! the surroundings that matter to them, and on random strings of every class. The random strings are the same in each
//! run.

use memory_prefetch::tokens::count;
use memory_prefetch_component::tokens::upper_bound;

const ENCODINGS: [&str; 2] = ["o200k_base", "cl100k_base"];

const CORPUS: [(&str, &str); 5] = [
    ("english", include_str!("corpus/english.txt")),
    ("code", include_str!("corpus/code.txt")),
    ("cjk", include_str!("corpus/cjk.txt")),
    ("emoji", include_str!("corpus/emoji.txt")),
    ("base64", include_str!("corpus/base64.txt")),
];

fn exact(encoding: &str, text: &str) -> u32 {
    count(encoding, &[text]).expect("a public encoding")[0]
}

fn assert_not_under(text: &str) {
    let bound = upper_bound(text);
    assert!(bound as usize <= text.len(), "more tokens than bytes: {bound} for {text:?}");
    for encoding in ENCODINGS {
        let exact = exact(encoding, text);
        assert!(bound >= exact, "the bound is {bound}, {encoding} has {exact}: {text:?}");
    }
}

#[test]
fn the_bound_holds_on_the_corpus() {
    for (name, text) in CORPUS {
        assert!(text.len() > 2_000, "{name} is too short to show anything");
        assert_not_under(text);
        text.split_inclusive('\n').for_each(assert_not_under);
        text.lines().for_each(assert_not_under);
        text.split("\n\n").for_each(assert_not_under);
        text.split_whitespace().for_each(assert_not_under);
    }
}

#[test]
fn the_bound_holds_where_a_corpus_text_is_cut() {
    for (_, text) in CORPUS {
        for (at, _) in text.char_indices().step_by(7) {
            let (mut from, mut to) = (at.saturating_sub(40), (at + 40).min(text.len()));
            while !text.is_char_boundary(from) {
                from += 1;
            }
            while !text.is_char_boundary(to) {
                to -= 1;
            }
            assert_not_under(&text[from..at]);
            assert_not_under(&text[at..to]);
        }
    }
}

#[test]
fn english_is_at_most_twice_the_exact_count() {
    let (_, english) = CORPUS[0];
    assert!(english.split_whitespace().count() >= 1_500);
    let bound = upper_bound(english);
    for encoding in ENCODINGS {
        let exact = exact(encoding, english);
        assert!(bound <= 2 * exact, "the bound is {bound}, {encoding} has {exact}");
    }
    // Each section by itself too: they are different registers.
    for section in english.split("\n# ") {
        let bound = upper_bound(section);
        for encoding in ENCODINGS {
            let exact = exact(encoding, section);
            assert!(bound <= 2 * exact, "the bound is {bound}, {encoding} has {exact}: {section}");
        }
    }
}

#[test]
fn the_bound_is_not_a_number_of_bytes_a_token() {
    let per_byte = |text: &str| f64::from(upper_bound(text)) / text.len() as f64;
    let shares: Vec<f64> = CORPUS.iter().map(|(_, text)| per_byte(text)).collect();
    let (least, most) = (shares.iter().copied().fold(f64::MAX, f64::min), shares.iter().copied().fold(0.0, f64::max));
    assert!(most > 1.5 * least, "{shares:?}");
    for (name, text) in CORPUS {
        let quarter = text.len().div_ceil(4) as u32;
        assert!(upper_bound(text) > quarter, "{name}");
        // What four characters a token would promise is broken by real texts.
        if name != "english" {
            let quarter = text.chars().count().div_ceil(4) as u32;
            assert!(exact("cl100k_base", text) > quarter, "{name}");
        }
    }
}

fn common_words() -> String {
    include_str!("../component/src/common_words.txt").to_ascii_lowercase()
}

/// The bound takes these words for one token each, and for two or three in some surroundings. It does so because it is
/// true of every one of them, with every ASCII sign before it and every contraction behind it.
#[test]
fn the_common_words_are_what_the_bound_takes_them_for() {
    let signs: Vec<char> =
        (0..0x80u8).map(char::from).filter(|c| c.is_ascii_punctuation() || "\0\t\n\r ".contains(*c)).collect();
    let contractions = ["'s", "'S", "'t", "'T", "'d", "'M", "'re", "'RE", "'Ve", "'ve", "'vE", "'ll", "'LL"];
    let mut texts = Vec::new();
    for word in common_words().lines() {
        let capital = word[..1].to_ascii_uppercase() + &word[1..];
        for word in [word, &capital] {
            texts.extend(signs.iter().map(|sign| format!("{sign}{word}")));
            for contraction in contractions {
                texts.extend(["", " "].iter().map(|before| format!("{before}{word}{contraction}")));
            }
        }
    }
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    for encoding in ENCODINGS {
        for (text, exact) in texts.iter().zip(count(encoding, &texts).expect("a public encoding")) {
            let bound = upper_bound(text);
            assert!(bound >= exact, "the bound is {bound}, {encoding} has {exact}: {text:?}");
        }
    }
}

/// A linear congruential generator (Knuth's MMIX constants); the upper bits are the good ones.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % limit as u64) as usize
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

#[test]
fn the_bound_holds_on_random_strings() {
    let ascii: String = (0..0x80u8).map(char::from).collect();
    let classes: Vec<Vec<char>> = [
        "abcdefghijklmnopqrstuvwxyz",
        "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=",
        "0123456789",
        " ",
        " \t\n\r\u{b}\u{c}",
        "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~",
        "'sStTdDmMlLrRvVeE",
        "/\n\r.",
        "'\u{2019}\u{17f}\u{212a}stm ",
        "\u{e9}\u{fc}\u{df}\u{f1}\u{153}\u{e6}\u{131}\u{142}\u{1c5}\u{2b0}",
        "\u{43f}\u{440}\u{438}\u{3b1}\u{3b2}\u{5d0}\u{627}\u{644}\u{e44}",
        "\u{4e2d}\u{6587}\u{5b57}\u{3042}\u{30ab}\u{30fc}\u{3002}\u{d55c}\u{ad6d}",
        "\u{1f600}\u{1f468}\u{1f3fd}\u{200d}\u{fe0f}\u{20e3}\u{1f1ef}\u{1f1f5}1#",
        "\u{301}\u{300}\u{20dd}\u{93e}\u{fe0f}",
        "\u{a0}\u{3000}\u{2003}\u{2028}\u{85}\u{200b}\u{feff}",
        "\u{b2}\u{bd}\u{2167}\u{663}\u{ff19}\u{2460}12",
        "\u{201c}\u{201d}\u{2014}\u{2026}\u{2022}\u{2192}\u{20ac}",
        &ascii,
    ]
    .iter()
    .map(|class| class.chars().collect())
    .collect();
    let words = common_words();
    let words: Vec<&str> = words.lines().collect();

    let mut random = Random(33);
    for round in 0..20_000 {
        let mut text = String::new();
        for _ in 0..=random.below(8) {
            let class = random.of(&classes);
            match round % 5 {
                // One class, several, a mixture.
                0 => (0..=random.below(12)).for_each(|_| text.push(*random.of(&classes[round / 5 % classes.len()]))),
                1 => (0..=random.below(8)).for_each(|_| text.push(*random.of(class))),
                2 => text.push(*random.of(class)),
                // Words, and what may be around them.
                3 => {
                    text.push(*random.of(class));
                    text.push_str(random.of::<&str>(&words));
                    let contraction = random.of(&classes[7]);
                    (0..random.below(3)).for_each(|_| text.extend(['\'', *contraction]));
                }
                // Runs of one character.
                _ => {
                    let length = 1 + random.below(90);
                    text.extend(core::iter::repeat_n(*random.of(class), length));
                }
            }
        }
        assert_not_under(&text);
    }
}

#[test]
fn a_block_of_all_the_corpus_is_bounded_as_a_whole() {
    let mut block = String::from("memory block\n");
    for (name, text) in CORPUS {
        block += &format!("--- {name} 0f3a9c ---\n{text}\n--- end 0f3a9c ---\n");
    }
    assert_not_under(&block);
}

#[test]
fn exact_counts_are_exact() {
    // o200k, cl100k. The same in two other implementations, one of them a port of OpenAI's own.
    for (text, o200k, cl100k) in [
        ("", 0, 0),
        ("a", 1, 1),
        ("hello world", 2, 2),
        ("The quick brown fox jumps over the lazy dog.", 10, 10),
        ("1234567", 3, 3),
        ("tiktoken is great!", 6, 6),
        ("\n\n\n", 1, 1),
        ("  indented\n\n\n  twice  ", 7, 7),
        ("a.\n/b", 3, 3),
        ("don't", 1, 2),
        ("it's fine, isn't it?", 6, 8),
        ("fooBarBaz", 3, 4),
        ("antidisestablishmentarianism", 6, 6),
        ("\u{4f60}\u{597d}\u{ff0c}\u{4e16}\u{754c}", 3, 6),
        ("\u{c548}\u{b155}\u{d558}\u{c138}\u{c694}", 2, 5),
        ("\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}\u{200d}\u{1f466}", 11, 18),
        ("SGVsbG8gd29ybGQ=", 11, 11),
        ("\0\0", 1, 2),
    ] {
        assert_eq!(count("o200k_base", &[text]), Some(vec![o200k]), "{text:?}");
        assert_eq!(count("cl100k_base", &[text]), Some(vec![cl100k]), "{text:?}");
    }
}

#[test]
fn exact_counts_come_in_the_order_asked() {
    assert_eq!(count("gpt-4o", &["", "hello world", "a"]), Some(vec![0, 2, 1]));
    assert_eq!(count("gpt-4o", &[]), Some(vec![]));
    assert_eq!(count("openai/gpt-4", &["hello world"]), count("cl100k_base", &["hello world"]));
    assert_eq!(count("a-model-of-my-own", &["hello world"]), None);
}

#[test]
fn special_tokens_count_as_the_text_that_they_are() {
    for encoding in ENCODINGS {
        for text in ["<|endoftext|>", "<|endofprompt|>", "a <|fim_prefix|> b"] {
            assert!(exact(encoding, text) > 3, "{encoding} {text}");
        }
    }
}

/// No text may stop the host: these are the runs on which a backtracking pattern or a quadratic merge gives up.
#[test]
fn long_runs_are_counted() {
    for unit in ["A", " ", "\n", " \n", "a'", "\u{4e2d}", "\u{301}", "1", "-"] {
        let text = unit.repeat(50_000 / unit.len());
        for encoding in ENCODINGS {
            assert!(exact(encoding, &text) > 0);
        }
        assert_not_under(&text);
    }
}
