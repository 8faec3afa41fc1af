//! What the operator can read about each decision (R28): refs, ids and reasons, never a body or a task text. The host
//! adds time, caller and the component's digest.

use crate::Imports;
use crate::contract::*;
use crate::state::to_json;
use crate::visibility::Hidden;

/// Append one entry.
pub fn record<I: Imports>(
    imports: &mut I,
    action: &str,
    outcome: &str,
    snapshot_ref: Option<&str>,
    memory_ids: Vec<String>,
    attributes: Attributes,
) {
    imports.append_audit(&[Entry {
        action: action.into(),
        outcome: outcome.into(),
        snapshot_refs: snapshot_ref.map(String::from).into_iter().collect(),
        memory_ids,
        attributes,
    }]);
}

/// R28: an erasure.
pub fn forgotten<I: Imports>(imports: &mut I, snapshot_refs: Vec<String>, memory_ids: Vec<String>) {
    append(imports, "forget", "done", snapshot_refs, memory_ids);
}

/// R28: what a sweep took, and how.
pub fn swept<I: Imports>(imports: &mut I, outcome: &str, snapshot_refs: Vec<String>) {
    append(imports, "sweep", outcome, snapshot_refs, Vec::new());
}

fn append<I: Imports>(
    imports: &mut I,
    action: &str,
    outcome: &str,
    snapshot_refs: Vec<String>,
    memory_ids: Vec<String>,
) {
    let (action, outcome) = (action.into(), outcome.into());
    imports.append_audit(&[Entry { action, outcome, snapshot_refs, memory_ids, attributes: Vec::new() }]);
}

/// R28: why ids are unavailable, which nobody but the operator may know: `unavailable.expired` and the ids, as JSON.
pub fn reasons(hidden: &[(String, Hidden)]) -> Attributes {
    grouped(hidden.iter().map(|(id, why)| (format!("unavailable.{}", why.word()), id.as_str())))
}

/// R28: what was left out: `omitted.over-budget` and the ids, as JSON.
pub fn omissions(receipt: &Receipt) -> Attributes {
    grouped(receipt.omitted.iter().map(|omitted| (format!("omitted.{}", omitted.why), omitted.id.as_str())))
}

fn grouped<'a>(ids: impl Iterator<Item = (String, &'a str)>) -> Attributes {
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for (name, id) in ids {
        match groups.iter_mut().find(|(other, _)| *other == name) {
            Some((_, ids)) => ids.push(id),
            None => groups.push((name, vec![id])),
        }
    }
    groups.into_iter().map(|(name, ids)| (name, to_json(&ids))).collect()
}

/// R5: a ref that this caller may not use, whether or not it is there.
pub fn unavailable<I: Imports>(imports: &mut I, action: &str, snapshot_ref: &str) -> Error {
    record(imports, action, "unavailable", Some(snapshot_ref), Vec::new(), Vec::new());
    Error::Unavailable(vec![snapshot_ref.to_owned()])
}

/// R20: stored bytes are not those that were frozen.
pub fn damage<I: Imports>(imports: &mut I, snapshot_ref: Option<&str>) {
    record(imports, "damage", "corrupt", snapshot_ref, Vec::new(), Vec::new());
}

/// The name of a refusal's case.
pub fn refusal_word(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::Unavailable(_) => "refused: unavailable",
        Refusal::OtherWorkspace => "refused: other-workspace",
        Refusal::OverCapacity(_) => "refused: over-capacity",
        Refusal::Policy(_) => "refused: policy",
    }
}

/// The name of a delivery outcome's case.
pub fn delivery_word(outcome: &DeliveryOutcome) -> &'static str {
    match outcome {
        DeliveryOutcome::Delivered => "delivered",
        DeliveryOutcome::Live => "live",
        DeliveryOutcome::Nothing => "nothing",
        DeliveryOutcome::MemoryOff => "memory-off",
        DeliveryOutcome::Ambiguous(_) => "ambiguous",
        DeliveryOutcome::Taken => "taken",
        DeliveryOutcome::Expired => "expired",
        DeliveryOutcome::Revoked => "revoked",
        DeliveryOutcome::Refused(refusal) => refusal_word(refusal),
    }
}
