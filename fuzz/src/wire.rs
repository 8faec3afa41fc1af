//! `wire.decode` against serde_json, the published schema and a second reading of the rules (R2, R37, R38); and what is
//! encoded is decoded to the same.

use std::sync::LazyLock;

use memory_prefetch_component::contract::{Delegation, MemoryField, Mode, NamedIds};
use memory_prefetch_component::wire::{decode, encode};
use serde_json::Value;

static SCHEMA: LazyLock<jsonschema::Validator> = LazyLock::new(|| {
    let schema = include_str!("../../wit/delegation.schema.json");
    jsonschema::validator_for(&serde_json::from_str(schema).expect("the schema is JSON")).expect("and a schema")
});

/// Any text.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let decoded = decode(text);
    let read = read(text);
    assert_eq!(decoded.as_ref().ok(), read.as_ref(), "{decoded:?}");

    let Ok(delegation) = decoded else { return };
    let value: Value = serde_json::from_str(text).expect("what is decoded is JSON");
    assert!(SCHEMA.is_valid(&value), "the schema does not take what is decoded");
    let encoded = encode(&delegation).expect("what was decoded can be encoded");
    assert_eq!(decode(&encoded).expect("what was encoded can be decoded"), delegation, "{encoded}");
}

/// The rules as a person would read them. `None`: malformed.
fn read(text: &str) -> Option<Delegation> {
    let value: Value = serde_json::from_str(text).ok()?;
    // serde_json keeps the last of two equal names, with all that is in it.
    if colons(text) != names(&value) {
        return None;
    }
    let fields = value.as_object()?;
    let task = fields.get("task").map_or(Some(""), Value::as_str)?.to_owned();
    let memory = match fields.get("memory") {
        None => None,
        Some(memory) => Some(field(memory)?),
    };
    Some(Delegation { task, memory })
}

fn field(memory: &Value) -> Option<MemoryField> {
    let fields = memory.as_object()?;
    match fields.keys().map(String::as_str).collect::<Vec<_>>()[..] {
        ["snapshot_ref"] => {
            let name = fields["snapshot_ref"].as_str()?;
            let digits = name.strip_prefix("snap_")?;
            let is_ref = digits.len() == 39 && digits.bytes().all(|byte| byte.is_ascii_digit());
            is_ref.then(|| MemoryField::SnapshotRef(name.to_owned()))
        }
        // serde_json's objects are sorted by name.
        ["prefetch_ids"] | ["mode", "prefetch_ids"] => {
            let mode = match fields.get("mode") {
                None => Mode::Frozen,
                Some(mode) => match mode.as_str()? {
                    "frozen" => Mode::Frozen,
                    "live" => Mode::Live,
                    _ => return None,
                },
            };
            let mut ids: Vec<String> = Vec::new();
            for value in fields["prefetch_ids"].as_array()? {
                let id = id(value)?;
                if !ids.contains(&id) {
                    ids.push(id);
                }
            }
            (!ids.is_empty()).then_some(MemoryField::PrefetchIds(NamedIds { ids, mode }))
        }
        _ => None,
    }
}

fn id(value: &Value) -> Option<String> {
    match value {
        Value::Number(number) => {
            number.as_u64().filter(|number| (1..1 << 53).contains(number)).map(|number| number.to_string())
        }
        Value::String(text) => {
            let id = text.strip_prefix('#').unwrap_or(text);
            let legal = !id.is_empty() && id.len() <= 256 && !id.chars().any(char::is_control);
            // What is decoded goes in again, where a `#` is dropped again.
            legal.then(|| if id.starts_with('#') { text } else { id }.to_owned())
        }
        _ => None,
    }
}

/// How many names stand in a JSON text.
fn colons(text: &str) -> usize {
    let (mut count, mut inside, mut escaped) = (0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if inside => escaped = true,
            b'"' => inside = !inside,
            b':' if !inside => count += 1,
            _ => {}
        }
    }
    count
}

fn names(value: &Value) -> usize {
    match value {
        Value::Array(values) => values.iter().map(names).sum(),
        Value::Object(fields) => fields.len() + fields.values().map(names).sum::<usize>(),
        _ => 0,
    }
}
