//! The published JSON Schema and `wire.decode` agree (R38).

use memory_prefetch_component::wire::decode;
use serde_json::Value;

const SCHEMA: &str = include_str!("../wit/delegation.schema.json");

fn both_say(expected: bool, memory: &str) {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let json = format!(r#"{{"task":"t","memory":{memory}}}"#);
    let value: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(validator.is_valid(&value), expected, "the schema, of {memory}");
    assert_eq!(decode(&json).is_ok(), expected, "decode, of {memory}: {:?}", decode(&json));
}

#[test]
fn what_the_one_takes_the_other_takes() {
    let name = format!("snap_{}", "1".repeat(39));
    let long = "x".repeat(256);
    for memory in [
        format!(r#"{{"snapshot_ref":"{name}"}}"#),
        r#"{"prefetch_ids":["11","55"]}"#.into(),
        r#"{"prefetch_ids":["11","11"],"mode":"frozen"}"#.into(),
        r#"{"mode":"live","prefetch_ids":[1,9007199254740991]}"#.into(),
        r###"{"prefetch_ids":["#11","##"," 11 ","a%b_c","\"","שלום","\u2028","👩‍👩‍👧‍👦"]}"###.into(),
        format!(r##"{{"prefetch_ids":["{long}","#{long}"]}}"##),
    ] {
        both_say(true, &memory);
    }
    for memory in [
        "null".into(),
        "[]".into(),
        "\"11\"".into(),
        "{}".into(),
        r#"{"mode":"frozen"}"#.into(),
        r#"{"prefetch_ids":[]}"#.into(),
        r#"{"prefetch_ids":"11"}"#.into(),
        r#"{"prefetch_ids":{"0":"11"}}"#.into(),
        r#"{"prefetch_ids":[""]}"#.into(),
        r##"{"prefetch_ids":["#"]}"##.into(),
        r#"{"prefetch_ids":["a\nb"]}"#.into(),
        r#"{"prefetch_ids":["a\u0000b"]}"#.into(),
        r#"{"prefetch_ids":["a\u0085b"]}"#.into(),
        r#"{"prefetch_ids":[0]}"#.into(),
        r#"{"prefetch_ids":[-1]}"#.into(),
        r#"{"prefetch_ids":[1.5]}"#.into(),
        r#"{"prefetch_ids":[9007199254740992]}"#.into(),
        r#"{"prefetch_ids":[null]}"#.into(),
        r#"{"prefetch_ids":[["11"]]}"#.into(),
        r#"{"prefetch_ids":["11"],"mode":"eager"}"#.into(),
        r#"{"prefetch_ids":["11"],"mode":null}"#.into(),
        r#"{"prefetch_ids":["11"],"extra":1}"#.into(),
        r#"{"snapshot_ref":"snap_1"}"#.into(),
        r#"{"snapshot_ref":1}"#.into(),
        format!(r#"{{"snapshot_ref":"{name}","mode":"frozen"}}"#),
        format!(r#"{{"snapshot_ref":"{name}","prefetch_ids":["11"]}}"#),
        format!(r#"{{"snapshot_ref":"{name} "}}"#),
        format!(r#"{{"prefetch_ids":["x{long}y"]}}"#),
    ] as [String; 28]
    {
        both_say(false, &memory);
    }
}

/// What a schema cannot say: `decode` takes less. Bytes are counted, `1.0` is a fraction, no key stands twice.
#[test]
fn where_they_differ_decode_is_stricter() {
    for json in [
        format!(r#"{{"memory":{{"prefetch_ids":["{}"]}}}}"#, "固".repeat(100)),
        r#"{"memory":{"prefetch_ids":[1.0]}}"#.into(),
        r#"{"memory":{"prefetch_ids":["1"]},"memory":{"prefetch_ids":["2"]}}"#.into(),
    ] as [String; 3]
    {
        assert!(decode(&json).is_err(), "{json}");
    }
}
