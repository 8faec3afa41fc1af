//! Rows' `state`: JSON that the component writes and reads back. Writing is derived with serde; reading is done here,
//! from a parsed value, since derived readers would be a quarter of the component's size.

use std::io::{self, Write};

use serde::Serialize;

use crate::json::Json;
use crate::snapshot::check;

/// A value that can be read back. `None`: it is not what was written. A missing field of an option reads as `None`, so
/// that older rows can lack it.
pub trait Read: Sized {
    /// From the JSON that serde wrote.
    fn read(value: &Json) -> Option<Self>;
}

/// What [`to_json`] wrote.
pub fn from_json<T: Read>(text: &str) -> Option<T> {
    T::read(&Json::parse(text).ok()?)
}

/// R20: a row's `state` with a checksum of it and of the row's other columns, so that what a disk has lost is not believed:
/// neither where a text has changed, nor where one row stands in place of another.
pub fn seal<T: Serialize>(columns: &str, state: &T) -> String {
    let json = to_json(state);
    format!("{} {json}", mark(columns, &json))
}

/// What [`seal`] wrote beside these columns. `None`: it is not that.
pub fn open<T: Read>(columns: &str, text: &str) -> Option<T> {
    let (stored, json) = text.split_once(' ')?;
    if mark(columns, json) == stored { from_json(json) } else { None }
}

fn mark(columns: &str, json: &str) -> String {
    check(&format!("{columns} {json}"))
}

/// JSON of the component's own. These structures have string keys only, so that writing them cannot fail.
pub fn to_json<T: Serialize>(value: &T) -> String {
    let mut out = Pieces(Vec::with_capacity(256));
    let written = serde_json::to_writer(&mut out, value);
    written.ok().and_then(|()| String::from_utf8(out.0).ok()).unwrap_or_default()
}

/// Takes the pieces of a JSON text. Most are a sign or two, and to copy such a piece of memory, for which an engine of
/// WebAssembly calls a function, takes longer than to write its bytes one after another.
struct Pieces(Vec<u8>);

impl Write for Pieces {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        const SHORT: usize = 4;
        if piece.len() < SHORT {
            for byte in piece {
                self.0.push(*byte);
            }
        } else {
            self.0.extend_from_slice(piece);
        }
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The name of a case, and what it holds; serde writes `"Case"` or `{"Case": …}`.
pub fn case<'a>(value: &'a Json<'a>) -> Option<(&'a str, &'a Json<'a>)> {
    match value {
        Json::Text(name) => Some((name, &Json::Null)),
        Json::Object(fields) => fields.first().map(|(name, inner)| (&**name, inner)),
        _ => None,
    }
}

impl Read for u32 {
    fn read(value: &Json) -> Option<u32> {
        match value {
            Json::Number(n) => u32::try_from(*n).ok(),
            _ => None,
        }
    }
}

impl Read for bool {
    fn read(value: &Json) -> Option<bool> {
        match value {
            Json::Bool(value) => Some(*value),
            _ => None,
        }
    }
}

impl Read for String {
    fn read(value: &Json) -> Option<String> {
        match value {
            Json::Text(text) => Some(text.clone().into_owned()),
            _ => None,
        }
    }
}

impl<T: Read> Read for Option<T> {
    fn read(value: &Json) -> Option<Option<T>> {
        if *value == Json::Null { Some(None) } else { T::read(value).map(Some) }
    }
}

impl<T: Read> Read for Vec<T> {
    fn read(value: &Json) -> Option<Vec<T>> {
        match value {
            Json::List(values) => values.iter().map(T::read).collect(),
            _ => None,
        }
    }
}

impl<A: Read, B: Read> Read for (A, B) {
    fn read(value: &Json) -> Option<(A, B)> {
        match value {
            Json::List(values) => match values.as_slice() {
                [a, b] => Some((A::read(a)?, B::read(b)?)),
                _ => None,
            },
            _ => None,
        }
    }
}

impl<A: Read, B: Read, C: Read> Read for (A, B, C) {
    fn read(value: &Json) -> Option<(A, B, C)> {
        match value {
            Json::List(values) => match values.as_slice() {
                [a, b, c] => Some((A::read(a)?, B::read(b)?, C::read(c)?)),
                _ => None,
            },
            _ => None,
        }
    }
}

/// A struct, field by field.
macro_rules! fields {
    ($type:ty: $($field:ident),+) => {
        impl $crate::state::Read for $type {
            fn read(value: &$crate::json::Json) -> Option<Self> {
                let field = |name: &str| value.get(name).unwrap_or(&$crate::json::Json::Null);
                Some(Self { $($field: $crate::state::Read::read(field(stringify!($field)))?),+ })
            }
        }
    };
}

/// An enum: cases without and with content.
macro_rules! cases {
    ($type:ident: $($bare:ident),*; $($full:ident),*) => {
        impl $crate::state::Read for $type {
            fn read(value: &$crate::json::Json) -> Option<Self> {
                let (name, _inner) = $crate::state::case(value)?;
                $(if name == stringify!($bare) { return Some($type::$bare) })*
                $(if name == stringify!($full) { return $crate::state::Read::read(_inner).map($type::$full) })*
                None
            }
        }
    };
}

pub(crate) use {cases, fields};

mod contract {
    use crate::contract::*;

    fields!(Size: bytes, tokens, counted);
    fields!(Item: id, version, sha256, size, removed);
    fields!(Omission: id, size, why);
    fields!(Shortfall: unit, budget, needed, sizes);
    fields!(NamedIds: ids, mode);
    fields!(ContextWindow: window, output_reserve, system, tools, task);
    fields!(Capacity: budget, model, overflow);
    cases!(Unit: Bytes, Tokens;);
    cases!(Mode: Frozen, Live;);
    cases!(Overflow: Refuse, TrimPriority, TrimRecency, Paginate;);
    cases!(Budget: ; Bytes, Tokens, Window);
    cases!(MemoryField: ; SnapshotRef, PrefetchIds);
    cases!(Refusal: OtherWorkspace; Unavailable, OverCapacity, Policy);
    cases!(DeliveryOutcome: Delivered, Live, Nothing, MemoryOff, Taken, Expired, Revoked; Ambiguous, Refused);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::*;

    fn comes_back<T: Read + Serialize + PartialEq + std::fmt::Debug>(value: T) {
        assert_eq!(from_json::<T>(&to_json(&value)), Some(value));
    }

    #[test]
    fn what_is_written_is_read_back() {
        let size = Size { bytes: 1, tokens: u32::MAX, counted: true };
        let omission = Omission { id: "\u{2028}\"".into(), size, why: "over-budget".into() };
        let shortfall = Shortfall { unit: Unit::Tokens, budget: 1, needed: 2, sizes: vec![omission.clone(), omission] };
        comes_back(Item { id: "1".into(), version: "v".into(), sha256: "ab".into(), size, removed: true });
        for refusal in [
            Refusal::OtherWorkspace,
            Refusal::Unavailable(vec!["a".into()]),
            Refusal::OverCapacity(shortfall),
            Refusal::Policy("no".into()),
        ] {
            comes_back(DeliveryOutcome::Refused(refusal));
        }
        for outcome in [
            DeliveryOutcome::Delivered,
            DeliveryOutcome::Live,
            DeliveryOutcome::Nothing,
            DeliveryOutcome::MemoryOff,
            DeliveryOutcome::Ambiguous(3),
            DeliveryOutcome::Taken,
            DeliveryOutcome::Expired,
            DeliveryOutcome::Revoked,
        ] {
            comes_back(outcome);
        }
        let window = ContextWindow { window: 1, output_reserve: 2, system: 3, tools: 4, task: 5 };
        for budget in [Budget::Bytes(1), Budget::Tokens(2), Budget::Window(window)] {
            for overflow in [Overflow::Refuse, Overflow::TrimPriority, Overflow::TrimRecency, Overflow::Paginate] {
                comes_back(Capacity { budget, model: Some("m".into()), overflow });
                comes_back(Capacity { budget, model: None, overflow });
            }
        }
        for mode in [Mode::Frozen, Mode::Live] {
            comes_back(MemoryField::PrefetchIds(NamedIds { ids: vec!["1".into()], mode }));
        }
        comes_back(MemoryField::SnapshotRef("snap_1".into()));
    }

    #[test]
    fn what_is_sealed_opens_beside_its_own_columns_only() {
        let (columns, size) = ("[1]", Size { bytes: 1, tokens: 2, counted: true });
        let sealed = seal(columns, &size);
        assert_eq!(open::<Size>(columns, &sealed), Some(size));
        assert_eq!(open::<Size>("[2]", &sealed), None);
        for at in 0..sealed.len() {
            let mut bytes = sealed.clone().into_bytes();
            bytes[at] ^= 1;
            assert_eq!(open::<Size>(columns, &String::from_utf8(bytes).unwrap()), None, "byte {at}");
        }
        for text in ["", " ", &to_json(&size), &format!("{} {}", check(&to_json(&size)), to_json(&size))] {
            assert_eq!(open::<Size>(columns, text), None, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn json_is_serde_jsons(value: Vec<(String, Option<i64>, bool)>) {
            proptest::prop_assert_eq!(to_json(&value), serde_json::to_string(&value).unwrap());
        }
    }

    #[test]
    fn what_was_not_written_is_not_read() {
        for text in ["", "{}", "[]", "\"Gone\"", "{\"Ambiguous\":-1}", "{\"Refused\":{}}", "nul", "{\"Delivered\""] {
            assert_eq!(from_json::<DeliveryOutcome>(text), None, "{text}");
        }
    }
}
