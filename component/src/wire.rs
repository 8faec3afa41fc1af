//! The delegation as JSON (R2, R37, R38). `wit/delegation.schema.json` says the same; a test keeps the two together.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::contract::*;
use crate::state::to_json;
use crate::{ids, snapshot};

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
            Some(WrittenMemory::Ids { prefetch_ids: ids::list(&named.ids, u32::MAX)?, mode })
        }
    };
    Ok(to_json(&Written { task: &delegation.task, memory }))
}

/// `wire.decode`.
pub fn decode(json: &str) -> Result<Delegation, Error> {
    let value: Value = serde_json::from_str(json).map_err(|e| malformed(format!("the delegation is not JSON: {e}")))?;
    let Value::Object(mut object) = value else {
        return Err(malformed("the delegation is not a JSON object".into()));
    };
    let task = match object.remove("task") {
        None => String::new(),
        Some(Value::String(task)) => task,
        Some(_) => return Err(malformed("task is not a string".into())),
    };
    let memory = match object.remove("memory") {
        None => None,
        Some(Value::Object(field)) => Some(memory(field)?),
        Some(_) => return Err(malformed("memory is not an object; leave it out where no memory is named".into())),
    };
    Ok(Delegation { task, memory })
}

fn memory(mut field: Map<String, Value>) -> Result<MemoryField, Error> {
    const ALLOWED: &str = "allowed is either snapshot_ref, or prefetch_ids with or without mode";
    let name = field.remove("snapshot_ref");
    let list = field.remove("prefetch_ids");
    let mode = field.remove("mode");
    if let Some(key) = field.keys().next() {
        return Err(malformed(format!("memory has the unknown key {}: {ALLOWED}", ids::shown(key))));
    }
    match (name, list, mode) {
        (Some(_), Some(_), _) => Err(malformed(format!("memory has both snapshot_ref and prefetch_ids: {ALLOWED}"))),
        (Some(_), None, Some(_)) => Err(malformed(format!("memory has snapshot_ref and mode: {ALLOWED}"))),
        (None, None, _) => Err(malformed(format!("memory names nothing: {ALLOWED}"))),
        (Some(Value::String(name)), None, None) => {
            snapshot::check_ref(&name)?;
            Ok(MemoryField::SnapshotRef(name))
        }
        (Some(_), None, None) => Err(malformed("snapshot_ref is not a string".into())),
        (None, Some(Value::Array(list)), mode) => {
            let names: Vec<String> = list.into_iter().map(id).collect::<Result<_, _>>()?;
            // How many are allowed is a setting, which `delegate` and `deliver` know.
            let ids = ids::list(&names, u32::MAX)?;
            Ok(MemoryField::PrefetchIds(NamedIds { ids, mode: self::mode(mode)? }))
        }
        (None, Some(_), _) => Err(malformed("prefetch_ids is not an array".into())),
    }
}

fn mode(value: Option<Value>) -> Result<Mode, Error> {
    match value.as_ref().map(|value| value.as_str()) {
        None | Some(Some("frozen")) => Ok(Mode::Frozen),
        Some(Some("live")) => Ok(Mode::Live),
        Some(_) => {
            let shown = shown(&value.unwrap_or_default());
            Err(malformed(format!("mode is {shown}: allowed are \"frozen\" and \"live\"")))
        }
    }
}

/// R2: a string, or a positive integer that every reader reads alike.
fn id(value: Value) -> Result<String, Error> {
    match value {
        Value::String(text) => Ok(text),
        Value::Number(ref number) => match number.as_u64() {
            Some(n) if (1..=MAX_SAFE).contains(&n) => Ok(n.to_string()),
            _ => Err(malformed(format!(
                "memory id {} is not a positive integer up to 2^53-1; write it as a string",
                shown(&value)
            ))),
        },
        other => Err(malformed(format!("memory id {} is neither a string nor a positive integer", shown(&other)))),
    }
}

/// The offender. Fractions are not spelled out: printing them would be 15 KB of the component.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(value) => value.to_string(),
        Value::String(text) => ids::shown(text),
        Value::Array(_) => "(an array)".into(),
        Value::Object(_) => "(an object)".into(),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(n), _) => n.to_string(),
            (_, Some(n)) => n.to_string(),
            _ => "(a fraction, or too large)".into(),
        },
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
