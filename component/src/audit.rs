//! What the operator can read about each decision (R28): refs, ids and reasons, never a body or a task text. The host
//! adds time, caller and the component's digest.

use crate::Imports;
use crate::contract::*;

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
