//! Exact token counts, for the models whose tokenizers are public (R33). The encoders and their tables are the library
//! `tiktoken`; which model has which is here. For every other model the answer is `None`, never an estimate: the
//! component has an upper bound for that.

use std::sync::OnceLock;

use tiktoken::CoreBpe;

/// The number of tokens of each text for `model`, in the order given; `None` if its tokenizer is not public.
///
/// The text of a special token, such as `<|endoftext|>`, counts as ordinary text. What a provider adds around messages
/// is not in the text and not counted. The first call for an encoding builds its tables, once for the process.
pub fn count(model: &str, texts: &[&str]) -> Option<Vec<u32>> {
    let encoder = encoding_of(model)?.encoder();
    Some(texts.iter().map(|text| u32::try_from(encoder.count(text)).unwrap_or(u32::MAX)).collect())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    O200k,
    Cl100k,
}

impl Encoding {
    /// The constructors by name, and not the library's own lookup, which would keep its ten other vocabularies in the
    /// program.
    fn encoder(self) -> &'static CoreBpe {
        static O200K: OnceLock<CoreBpe> = OnceLock::new();
        static CL100K: OnceLock<CoreBpe> = OnceLock::new();
        match self {
            Encoding::O200k => O200K.get_or_init(tiktoken::encoding::o200k_base),
            Encoding::Cl100k => CL100K.get_or_init(tiktoken::encoding::cl100k_base),
        }
    }
}

/// Model families by encoding, as OpenAI's own `tiktoken` maps them. A family is its name alone or followed by `-` and
/// a variant or a date: `gpt-4o`, `gpt-4o-mini`, but not `gpt-40`, nor a `gpt-5.1` of which nothing is published.
const FAMILIES: &[(Encoding, &[&str])] = &[
    (Encoding::O200k, &["gpt-5", "gpt-4.5", "gpt-4.1", "gpt-4o", "chatgpt-4o", "gpt-oss", "o1", "o3", "o4"]),
    (Encoding::Cl100k, &["gpt-4", "gpt-3.5-turbo", "gpt-35-turbo", "text-embedding-3", "text-embedding-ada-002"]),
];

/// The encoding of a model, by its name with or without the provider's prefix, or by the encoding's own name.
fn encoding_of(model: &str) -> Option<Encoding> {
    match model {
        "o200k_base" => return Some(Encoding::O200k),
        "cl100k_base" => return Some(Encoding::Cl100k),
        _ => {}
    }
    let model = model.strip_prefix("openai/").unwrap_or(model);
    let is_of = |family: &&str| match model.strip_prefix(*family) {
        Some("") => true,
        Some(variant) => variant.len() > 1 && variant.starts_with('-'),
        None => false,
    };
    FAMILIES.iter().find(|(_, families)| families.iter().any(is_of)).map(|(encoding, _)| *encoding)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_and_their_variants_are_known() {
        for model in [
            "o200k_base",
            "gpt-4o",
            "gpt-4o-mini",
            "gpt-4o-2024-11-20",
            "gpt-4.1-nano",
            "gpt-5",
            "gpt-5-mini",
            "chatgpt-4o-latest",
            "gpt-oss-120b",
            "o1",
            "o1-preview",
            "o3-mini",
            "o4-mini",
            "openai/gpt-4o",
            "openai/o3",
        ] {
            assert_eq!(encoding_of(model), Some(Encoding::O200k), "{model}");
        }
        for model in [
            "cl100k_base",
            "gpt-4",
            "gpt-4-0613",
            "gpt-4-turbo",
            "gpt-4-turbo-2024-04-09",
            "gpt-3.5-turbo",
            "gpt-3.5-turbo-16k",
            "text-embedding-3-small",
            "text-embedding-ada-002",
            "openai/gpt-4-turbo",
        ] {
            assert_eq!(encoding_of(model), Some(Encoding::Cl100k), "{model}");
        }
    }

    #[test]
    fn a_name_that_only_looks_like_a_known_one_is_unknown() {
        for model in [
            "",
            "-",
            "gpt",
            "gpt-",
            "gpt-40",
            "gpt-4o-",
            "gpt-4omni",
            "gpt-4.10",
            "gpt-5.1",
            "gpt-50",
            "gpt-3",
            "gpt-3.5",
            "o1x",
            "o100",
            "o2",
            "o",
            "GPT-4o",
            " gpt-4o",
            "gpt-4o ",
            "my-gpt-4o",
            "openai/",
            "openai/openai/gpt-4o",
            "azure/gpt-4o",
            "o200k",
            "o200k_base-x",
            "text-embedding-ada-0021",
            "claude-sonnet-4",
            "gemini-2.5-pro",
            "llama-3",
        ] {
            assert_eq!(encoding_of(model), None, "{model:?}");
            assert_eq!(count(model, &["x"]), None, "{model:?}");
        }
    }
}
