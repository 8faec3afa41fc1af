//! JSON as it is read here: by serde_json, into a type that keeps what this crate asks for and nothing else. Names that
//! stand twice in one object are an error, since readers differ in which of the two they take.
//!
//! serde_json's own `Value`, or derived readers, would bring printing of fractions and maps along: a sixth of the
//! component.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// A JSON value.
#[derive(Debug, Clone, PartialEq)]
pub enum Json {
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
    Text(String),
    /// An array.
    List(Vec<Json>),
    /// An object, in its order, no name twice.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// The value of a text.
    pub fn parse(text: &str) -> Result<Json, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// A field of an object; `None` also for what is no object.
    pub fn get(&self, name: &str) -> Option<&Json> {
        match self {
            Json::Object(fields) => fields.iter().find(|(key, _)| key == name).map(|(_, value)| value),
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(Any)
    }
}

struct Any;

impl<'de> Visitor<'de> for Any {
    type Value = Json;

    fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Number(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Json, E> {
        Ok(u64::try_from(value).map_or(Json::Negative(value), Json::Number))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Json, E> {
        Ok(Json::Fraction)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Json, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element()? {
            values.push(value);
        }
        Ok(Json::List(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
        let mut fields: Vec<(String, Json)> = Vec::new();
        let mut seen = BTreeSet::new();
        while let Some((key, value)) = map.next_entry::<String, Json>()? {
            if !seen.insert(key.clone()) {
                return Err(A::Error::custom(format_args!("the key {} stands there twice", crate::ids::shown(&key))));
            }
            fields.push((key, value));
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
        let Ok(value) = Json::parse(&text.replace(",1e400", "")) else { panic!() };
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
        assert!(Json::parse(r#"[{"b":{"a":1,"a":1}}]"#).unwrap_err().to_string().contains("\"a\" stands there twice"));
    }
}
