//! The delegation as JSON (R2, R37, R38). `wit/delegation.schema.json` says the same; a test keeps the two together.

use std::borrow::Cow;

use serde::Serialize;

use crate::contract::*;
use crate::json::Json;
use crate::state::to_json;
use crate::{ids, snapshot};

/// The longest delegation that is read. Parsed, it takes some thirty times as much of the component's memory at worst.
const MAX_BYTES: usize = 1 << 20;

/// The largest integer that every JSON reader reads alike.
const MAX_SAFE: u64 = 9_007_199_254_740_991;

/// Fields in the order in which they are written.
#[derive(Serialize)]
struct Written<'a> {
    task: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<WrittenMemory<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum WrittenMemory<'a> {
    Ref { snapshot_ref: &'a str },
    Ids { prefetch_ids: Vec<String>, mode: &'static str },
}

/// `wire.encode`. `malformed`: a ref or an id that [`decode`] would not take.
pub fn encode(delegation: &Delegation) -> Result<String, Error> {
    let memory = match &delegation.memory {
        None => None,
        Some(MemoryField::SnapshotRef(name)) => {
            snapshot::check_ref(name)?;
            Some(WrittenMemory::Ref { snapshot_ref: name })
        }
        Some(MemoryField::PrefetchIds(named)) => {
            let mode = match named.mode {
                Mode::Frozen => "frozen",
                Mode::Live => "live",
            };
            Some(WrittenMemory::Ids { prefetch_ids: ids::names(&named.ids)?, mode })
        }
    };
    Ok(to_json(&Written { task: &delegation.task, memory }))
}

/// `wire.decode`.
pub fn decode(json: &str) -> Result<Delegation, Error> {
    if json.len() > MAX_BYTES {
        return Err(malformed(format!("the delegation has {} bytes, at most {MAX_BYTES} are allowed", json.len())));
    }
    let value = Json::parse(json).map_err(|error| malformed(format!("the delegation is not JSON: {error}")))?;
    if !matches!(value, Json::Object(_)) {
        return Err(malformed("the delegation is not a JSON object".into()));
    }
    let task = match value.get("task") {
        None => String::new(),
        Some(task) => text("task", task)?,
    };
    let memory = match value.get("memory") {
        None => None,
        Some(Json::Object(fields)) => Some(memory(fields, value.get("memory"))?),
        Some(_) => return Err(malformed("memory is not an object; leave it out where no memory is named".into())),
    };
    Ok(Delegation { task, memory })
}

fn memory(fields: &[(Cow<str>, Json)], value: Option<&Json>) -> Result<MemoryField, Error> {
    const KNOWN: [&str; 3] = ["snapshot_ref", "prefetch_ids", "mode"];
    const ALLOWED: &str = "allowed is either snapshot_ref, or prefetch_ids with or without mode";
    if let Some((key, _)) = fields.iter().find(|(key, _)| !KNOWN.contains(&&**key)) {
        return Err(malformed(format!("memory has the unknown key {}: {ALLOWED}", ids::shown(key))));
    }
    let [name, list, mode] = KNOWN.map(|known| value.and_then(|value| value.get(known)));
    match (name, list, mode) {
        (Some(_), Some(_), _) => Err(malformed(format!("memory has both snapshot_ref and prefetch_ids: {ALLOWED}"))),
        (Some(_), None, Some(_)) => Err(malformed(format!("memory has snapshot_ref and mode: {ALLOWED}"))),
        (None, None, _) => Err(malformed(format!("memory names nothing: {ALLOWED}"))),
        (Some(name), None, None) => {
            let name = text("snapshot_ref", name)?;
            snapshot::check_ref(&name)?;
            Ok(MemoryField::SnapshotRef(name))
        }
        (None, Some(Json::List(list)), mode) => {
            let names: Vec<String> =
                (1..).zip(list).map(|(place, value)| id(place, value)).collect::<Result<_, _>>()?;
            // How many are allowed is a setting, which `delegate` and `deliver` know.
            let ids = ids::names(&names)?;
            Ok(MemoryField::PrefetchIds(NamedIds { ids, mode: self::mode(mode)? }))
        }
        (None, Some(_), _) => Err(malformed("prefetch_ids is not an array".into())),
    }
}

fn mode(value: Option<&Json>) -> Result<Mode, Error> {
    const ALLOWED: &str = "allowed are \"frozen\" and \"live\"";
    match value {
        None => Ok(Mode::Frozen),
        Some(Json::Text(word)) if word == "frozen" => Ok(Mode::Frozen),
        Some(Json::Text(word)) if word == "live" => Ok(Mode::Live),
        Some(other) => Err(malformed(format!("mode is {}: {ALLOWED}", shown(other)))),
    }
}

/// R2: a string, or a positive integer that every reader reads alike. `place`, from 1, is for what has no short name.
fn id(place: u32, value: &Json) -> Result<String, Error> {
    match value {
        Json::Text(text) => Ok(text.clone().into_owned()),
        Json::Number(n @ 1..=MAX_SAFE) => Ok(n.to_string()),
        other => Err(malformed(format!(
            "memory id {} (number {place} of prefetch_ids) is neither a string nor a positive whole number up to 2^53-1",
            shown(other)
        ))),
    }
}

/// The offender. Fractions are not spelled out: that would be a thirtieth of the component.
fn shown(value: &Json) -> String {
    match value {
        Json::Null => "null".into(),
        Json::Bool(value) => value.to_string(),
        Json::Number(n) => n.to_string(),
        Json::Negative(n) => n.to_string(),
        Json::Fraction => "a fraction, or a number beyond 2^64".into(),
        Json::Text(text) => ids::shown(text),
        Json::List(_) => "an array".into(),
        Json::Object(_) => "an object".into(),
    }
}

fn text(what: &str, value: &Json) -> Result<String, Error> {
    match value {
        Json::Text(text) => Ok(text.clone().into_owned()),
        _ => Err(malformed(format!("{what} is not a string"))),
    }
}

fn malformed(why: String) -> Error {
    Error::Malformed(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        let delegation = Delegation {
            task: "Fix \"it\"\u{2028}now".into(),
            memory: Some(MemoryField::PrefetchIds(NamedIds {
                ids: vec!["#11".into(), "5\"5".into()],
                mode: Mode::Live,
            })),
        };
        let json = encode(&delegation).unwrap();
        assert!(json.ends_with(r#","memory":{"prefetch_ids":["11","5\"5"],"mode":"live"}}"#), "{json}");
        let decoded = decode(&json).unwrap();
        assert_eq!(decoded.task, delegation.task);
        assert_eq!(encode(&decoded).unwrap(), json);
        assert_eq!(encode(&Delegation { task: String::new(), memory: None }).unwrap(), r#"{"task":""}"#);
    }

    #[test]
    fn deep_nesting_is_an_error() {
        assert!(decode(&("[".repeat(100_000))).is_err());
    }
}
