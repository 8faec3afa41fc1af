//! What a memory id may look like, and the list of them that a request names (R2). Who may read one is for
//! `visibility`.

use std::collections::BTreeSet;

use crate::block::quoted;
use crate::contract::Error;

/// R2: the longest memory id, harness name, agent type, call id or occasion, in bytes.
pub const MAX_BYTES: usize = 256;

/// R2: one id. One leading `#` is dropped. `malformed`: empty, too long, or with a control character in it.
pub fn id(text: &str) -> Result<String, Error> {
    let id = text.strip_prefix('#').unwrap_or(text);
    check("memory id", id, MAX_BYTES)?;
    Ok(id.to_owned())
}

/// R2: the ids of a request, in its order, duplicates collapsed to the first. At most `max`.
pub fn list(texts: &[String], max: u32) -> Result<Vec<String>, Error> {
    if texts.is_empty() {
        return Err(Error::Malformed("no memory ids: name at least one, or leave the memory field out".into()));
    }
    let mut seen = BTreeSet::new();
    let mut ids = Vec::new();
    for text in texts {
        let id = id(text)?;
        if seen.insert(id.clone()) {
            ids.push(id);
        }
    }
    if ids.len() > max as usize {
        return Err(Error::Malformed(format!("{} memory ids: at most {max} are allowed (max-ids)", ids.len())));
    }
    Ok(ids)
}

/// R2: how an id is named, so that [`id`] reads it: what is written down here may be read more than once.
pub fn name(id: &str) -> String {
    let mark = if id.starts_with('#') { "#" } else { "" };
    format!("{mark}{id}")
}

/// [`list`], as names.
pub fn names(texts: &[String]) -> Result<Vec<String>, Error> {
    Ok(list(texts, u32::MAX)?.iter().map(|id| name(id)).collect())
}

/// Whether `text` can be an opaque name: not empty, at most `max` bytes, no control characters. `what` names it in the
/// error.
pub fn check(what: &str, text: &str, max: usize) -> Result<(), Error> {
    let fault = if text.is_empty() {
        "is empty".to_owned()
    } else if text.len() > max {
        format!("has {} bytes, at most {max} are allowed", text.len())
    } else if text.chars().any(char::is_control) {
        "has a control character in it".to_owned()
    } else {
        return Ok(());
    };
    Err(Error::Malformed(format!("{what} {} {fault}", shown(text))))
}

/// The offender, short enough for a message.
pub fn shown(text: &str) -> String {
    let short = clipped(text);
    if short.len() == text.len() { quoted(text) } else { format!("{}…", quoted(&short)) }
}

/// The beginning of a text.
pub fn clipped(text: &str) -> String {
    const SHOWN: usize = 48;
    text.chars().take(SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn malformed(text: &str) -> String {
        match id(text) {
            Err(Error::Malformed(why)) => why,
            other => panic!("{text:?} gave {other:?}"),
        }
    }

    #[test]
    fn a_name_may_be_read_again() {
        for text in ["11", "#11", "##11", "###11"] {
            let once = id(text).unwrap();
            assert_eq!(id(&name(&once)).unwrap(), once, "{text}");
        }
        let texts = ["#1", "1", "##1"].map(String::from);
        let once = names(&texts).unwrap();
        assert_eq!(once, ["1", "##1"]);
        assert_eq!(names(&once).unwrap(), once);
        assert_eq!(list(&once, 2).unwrap(), list(&texts, 2).unwrap());
    }

    #[test]
    fn ids_are_opaque() {
        for text in ["11", "a%b_c", "\"quoted\"", "{\"json\":1}", "שלום", "e\u{301}", "\u{301}", "𝄞", "##", " 11 "]
        {
            assert_eq!(id(text).unwrap(), text.strip_prefix('#').unwrap_or(text));
        }
        assert_eq!(id("#11").unwrap(), "11");
        assert_eq!(id(&"x".repeat(256)).unwrap().len(), 256);
    }

    #[test]
    fn bad_ids_are_named() {
        assert!(malformed("").contains("empty"));
        assert!(malformed("#").contains("empty"));
        assert!(malformed("a\0b").contains(r#""a\u0000b" has a control"#));
        assert!(malformed("a\u{85}").contains("control"));
        let long = malformed(&"é".repeat(129));
        assert!(long.contains("258 bytes") && long.len() < 300, "{long}");
    }

    #[test]
    fn duplicates_collapse_to_the_first_and_order_stays() {
        let ids = ["3", "#1", "3", "1", "2"].map(String::from);
        assert_eq!(list(&ids, 3).unwrap(), ["3", "1", "2"]);
        assert!(matches!(list(&ids, 2), Err(Error::Malformed(why)) if why.contains("at most 2")));
        assert!(list(&[], 64).is_err());
    }
}
