//! JSON as it is read here: by serde_json, into a type that keeps what this crate asks for and nothing else. Names that
//! stand twice in one object are an error, since readers differ in which of the two they take.
//!
//! serde_json's own `Value`, or derived readers, would bring printing of fractions and maps along: a sixth of the
//! component.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// A JSON value. Texts without escapes are those of what was parsed.
#[derive(Debug, Clone, PartialEq)]
pub enum Json<'a> {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// A whole number from 0 to 2^64-1.
    Number(u64),
    /// A whole number below 0.
    Negative(i64),
    /// Any other number.
    Fraction,
    /// A string.
    Text(Cow<'a, str>),
    /// An array.
    List(Vec<Json<'a>>),
    /// An object, in its order, no name twice.
    Object(Vec<(Cow<'a, str>, Json<'a>)>),
}

impl<'a> Json<'a> {
    /// The value of a text.
    pub fn parse(text: &'a str) -> Result<Json<'a>, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// A field of an object; `None` also for what is no object.
    pub fn get(&self, name: &str) -> Option<&Json<'a>> {
        match self {
            Json::Object(fields) => fields.iter().find(|(key, _)| key == name).map(|(_, value)| value),
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for Json<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Json<'de>, D::Error> {
        deserializer.deserialize_any(Any)
    }
}

struct Any;

impl<'de> Visitor<'de> for Any {
    type Value = Json<'de>;

    fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Json<'de>, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Json<'de>, E> {
        Ok(Json::Bool(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Json<'de>, E> {
        Ok(Json::Number(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Json<'de>, E> {
        Ok(u64::try_from(value).map_or(Json::Negative(value), Json::Number))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Json<'de>, E> {
        Ok(Json::Fraction)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Json<'de>, E> {
        Ok(Json::Text(Cow::Owned(value.to_owned())))
    }

    fn visit_borrowed_str<E: Error>(self, value: &'de str) -> Result<Json<'de>, E> {
        Ok(Json::Text(Cow::Borrowed(value)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Json<'de>, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element()? {
            values.push(value);
        }
        Ok(Json::List(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json<'de>, A::Error> {
        /// An object of so many fields, as those of our own are, is looked through.
        const FEW: usize = 16;
        let mut fields: Vec<(Cow<str>, Json)> = Vec::new();
        let mut seen = BTreeSet::new();
        while let Some(key) = map.next_key()? {
            // As a value: serde reads a `Cow` as a new string.
            let Json::Text(key) = key else { return Err(A::Error::custom("a key is no string")) };
            let twice = if fields.len() < FEW {
                fields.iter().any(|(other, _)| *other == key)
            } else {
                if seen.is_empty() {
                    seen.extend(fields.iter().map(|(other, _)| other.clone()));
                }
                !seen.insert(key.clone())
            };
            if twice {
                return Err(A::Error::custom(format_args!("the key {} stands there twice", crate::ids::shown(&key))));
            }
            fields.push((key, map.next_value()?));
        }
        Ok(Json::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read() {
        let text = r#"{"a":[null,true,0,18446744073709551615,-1,1.5,1e400,"\u00e9"],"b":{}}"#;
        let finite = text.replace(",1e400", "");
        let Ok(value) = Json::parse(&finite) else { panic!() };
        let list = [
            Json::Null,
            Json::Bool(true),
            Json::Number(0),
            Json::Number(u64::MAX),
            Json::Negative(-1),
            Json::Fraction,
            Json::Text("é".into()),
        ];
        assert_eq!(value.get("a"), Some(&Json::List(list.into())));
        assert_eq!(value.get("b"), Some(&Json::Object(vec![])));
        assert_eq!(value.get("c"), None);
        assert!(Json::parse(text).is_err(), "a number beyond all bounds");
    }

    #[test]
    fn what_is_not_json_is_an_error() {
        for text in ["", "{", "{\"a\":1,\"a\":2}", "[1,]", "\"\\ud800\"", "nul", "{}x", &"[".repeat(100_000)] {
            assert!(Json::parse(text).is_err(), "{}", &text[..text.len().min(20)]);
        }
        let many: String = (0..40).map(|n| format!("\"k{n}\":{n},")).collect();
        assert!(Json::parse(&format!("{{{many}\"k40\":0}}")).is_ok());
        for twice in ["k0", "k15", "k16", "k39"] {
            assert!(Json::parse(&format!("{{{many}\"{twice}\":0}}")).is_err(), "{twice}");
        }
        assert!(Json::parse(r#"[{"b":{"a":1,"a":1}}]"#).unwrap_err().to_string().contains("\"a\" stands there twice"));
    }
}
