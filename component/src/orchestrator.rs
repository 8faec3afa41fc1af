//! The parent's side: estimate, delegate, revalidate, revoke (R13 to R15, R18, R20, R21, R26, R28).

use xxhash_rust::xxh3::xxh3_128;

use crate::capacity::Limit;
use crate::contract::*;
use crate::hand_over::{self, Kind};
use crate::session::{damaged, memory_on, together};
use crate::settings::{self, Settings, later};
use crate::snapshot::{self, Order, Place, Standing, State, compose};
use crate::state::to_json;
use crate::visibility::Hidden;
use crate::{Imports, audit, ids, session};

/// The most children of one hand-over.
const MAX_CHILDREN: u32 = 10_000;

/// `orchestrator.estimate`: what [`delegate`] would answer.
pub fn estimate<I: Imports>(imports: &mut I, key: &SessionKey, request: &Request) -> Result<DelegationOutcome, Error> {
    let caller = session::find(imports, key)?;
    check(request)?;
    let settings = settings::load(imports, project_of(&caller));
    let plan = plan(imports, &caller, request, &settings)?;
    // Nothing is stored, so there is nothing to pass on.
    Ok(match plan.outcome {
        DelegationOutcome::HandedOver(delegated) => DelegationOutcome::HandedOver(Delegated {
            memory: None,
            receipt: delegated.receipt.map(|receipt| match request.memory {
                Some(MemoryField::SnapshotRef(_)) => receipt,
                _ => Receipt { snapshot_ref: None, ..receipt },
            }),
            warnings: delegated.warnings,
        }),
        other => other,
    })
}

/// `orchestrator.delegate`.
pub fn delegate<I: Imports>(imports: &mut I, key: &SessionKey, request: &Request) -> Result<DelegationOutcome, Error> {
    let caller = session::find(imports, key)?;
    check(request)?;
    let settings = settings::load(imports, project_of(&caller));
    if let Some(call_id) = &request.call_id {
        let filter = OfferFilter { call_id: Some(call_id.clone()), ..hand_over::all_of(&caller.key) };
        if let Some(offer) = imports.find_hand_overs(&filter, 1)?.pop() {
            // R20: an index that a disk has damaged finds another call's.
            if offer.hand_over.call_id != request.call_id {
                return Err(damaged("snapshots.find-hand-overs answered with the hand-over of another call"));
            }
            // R13 goes before R26: what was answered while memory was on is not said again while it is off.
            if !memory_on(&caller) {
                return Ok(DelegationOutcome::MemoryOff);
            }
            return again(imports, &caller, &offer.hand_over, request, &settings);
        }
    }

    let plan = plan(imports, &caller, request, &settings)?;
    if let Some(frozen) = &plan.frozen {
        imports.insert_snapshot(frozen)?;
    }
    let now = imports.now();
    let snapshot_ref = plan.snapshot_ref.clone();
    let (memory, warnings) = match &plan.outcome {
        DelegationOutcome::HandedOver(delegated) => (delegated.memory.clone(), delegated.warnings.clone()),
        _ => (None, Vec::new()),
    };
    let mut row = HandOver {
        id: snapshot::name(imports, "hand_")?,
        parent: caller.key.clone(),
        call_id: request.call_id.clone(),
        agent_type: request.agent_type.clone(),
        snapshot_ref: snapshot_ref.clone(),
        ids_key: plan.asked.as_ref().map(|asked| hand_over::ids_key(&asked.ids)),
        children: request.children,
        created_at: now,
        expires_at: plan.expires_at,
        // Why nothing is delivered is told for as long as a delivery would be kept (R28).
        keep_until: plan.expires_at.max(later(now, settings.replay)),
        task_digest: hand_over::task_digest(imports, &request.task)?,
        task_head: hand_over::head(&request.task).to_owned(),
        task: request.task.clone(),
        state: String::new(),
    };
    let state = hand_over::State {
        kind: plan.kind,
        content: plan.content,
        request: digest(request),
        asked: plan.asked,
        capacity: request.capacity.clone(),
        memory,
        warnings,
    };
    hand_over::write_state(&mut row, &state);
    if !imports.insert_hand_over(&row)? {
        // The same call, registered between our look and now. This unit is undone; the next try finds the other's.
        return Err(Error::Store(StoreError::Busy("this call is being registered by another process".into())));
    }
    let (word, memory_ids) = match &plan.outcome {
        DelegationOutcome::HandedOver(delegated) => (
            "handed-over",
            delegated.receipt.iter().flat_map(|receipt| &receipt.items).map(|item| item.id.clone()).collect(),
        ),
        DelegationOutcome::MemoryOff => ("memory-off", Vec::new()),
        DelegationOutcome::Refused(refusal) => (audit::refusal_word(refusal), Vec::new()),
    };
    let mut reasons = audit::reasons(&plan.reasons);
    if let DelegationOutcome::HandedOver(Delegated { receipt: Some(receipt), .. }) = &plan.outcome {
        reasons.extend(audit::omissions(receipt));
    }
    audit::record(imports, "delegate", word, snapshot_ref.as_deref(), memory_ids, reasons);
    Ok(plan.outcome)
}

/// `orchestrator.revalidate`: R20 without a child.
pub fn revalidate<I: Imports>(imports: &mut I, key: &SessionKey, snapshot_ref: &str) -> Result<Receipt, Error> {
    snapshot::check_ref(snapshot_ref)?;
    let caller = session::find(imports, key)?;
    let unavailable = || Error::Unavailable(vec![snapshot_ref.to_owned()]);
    let frozen = snapshot::lookup(imports, snapshot_ref, Selection::All)?.ok_or_else(unavailable)?;
    let owner = if frozen.snapshot.owner == caller.key {
        caller
    } else if caller.parent.as_ref() == Some(&frozen.snapshot.owner) {
        let owner = session::lookup(imports, &frozen.snapshot.owner)?.ok_or_else(unavailable)?;
        if !memory_on(&caller) || !together(&caller, &owner) {
            return Err(unavailable());
        }
        owner
    } else {
        return Err(unavailable());
    };
    if !memory_on(&owner) {
        return Err(unavailable());
    }
    ready(imports, &frozen)?;
    snapshot::receipt(&frozen.snapshot)
}

/// `orchestrator.revoke` (R21).
pub fn revoke<I: Imports>(imports: &mut I, key: &SessionKey, snapshot_ref: &str) -> Result<(), Error> {
    snapshot::check_ref(snapshot_ref)?;
    let caller = session::find(imports, key)?;
    match snapshot::lookup(imports, snapshot_ref, Selection::None)? {
        Some(frozen) if frozen.snapshot.owner == caller.key => {
            let now = imports.now();
            imports.revoke(&[snapshot_ref.to_owned()], now)?;
            audit::record(imports, "revoke", "done", Some(snapshot_ref), frozen.snapshot.memory_ids, Vec::new());
            Ok(())
        }
        _ => Err(audit::unavailable(imports, "revoke", snapshot_ref)),
    }
}

/// What a delegation comes to, before anything is stored.
struct Plan {
    outcome: DelegationOutcome,
    kind: Kind,
    /// A snapshot to insert.
    frozen: Option<Frozen>,
    snapshot_ref: Option<String>,
    asked: Option<NamedIds>,
    content: String,
    expires_at: Instant,
    reasons: Vec<(String, Hidden)>,
}

fn plan<I: Imports>(imports: &mut I, caller: &Session, request: &Request, settings: &Settings) -> Result<Plan, Error> {
    let now = imports.now();
    let ttl = request.ttl_seconds.unwrap_or(settings.default_ttl).min(settings.max_ttl);
    let mut plan = Plan {
        outcome: DelegationOutcome::MemoryOff,
        kind: Kind::MemoryOff,
        frozen: None,
        snapshot_ref: None,
        asked: None,
        content: "nothing".into(),
        expires_at: later(now, ttl),
        reasons: Vec::new(),
    };
    // R13 comes before anything is checked: nothing about memory may fail where memory is off. R14 keeps the ids.
    if !memory_on(caller) {
        if let Some(MemoryField::PrefetchIds(named)) = &request.memory {
            let ids = ids::list(&named.ids, settings.max_ids).ok();
            plan.asked = ids.map(|ids| NamedIds { ids, mode: named.mode });
        }
        return Ok(plan);
    }
    let handed_over = |imports: &mut I, plan: &Plan, memory, receipt| -> Result<DelegationOutcome, Error> {
        let mut warnings = None;
        if !request.task.is_empty() {
            let task_digest = Some(hand_over::task_digest(imports, &request.task)?);
            let filter = OfferFilter { task_digest, ..hand_over::all_of(&caller.key) };
            let of_task = imports.find_hand_overs(&filter, hand_over::LIMIT)?;
            warnings = hand_over::warn_of_twins(&of_task, &plan.content)?;
        }
        Ok(DelegationOutcome::HandedOver(Delegated { memory, receipt, warnings: warnings.into_iter().collect() }))
    };
    let Some(memory) = &request.memory else {
        plan.kind = Kind::Nothing;
        plan.outcome = handed_over(imports, &plan, None, None)?;
        return Ok(plan);
    };
    let Some(capacity) = &request.capacity else {
        return Err(Error::Malformed("no capacity: the child's own budget is required with memory".into()));
    };
    match memory {
        MemoryField::SnapshotRef(snapshot_ref) => {
            snapshot::check_ref(snapshot_ref)?;
            let found = snapshot::lookup(imports, snapshot_ref, Selection::All)?;
            let Some(frozen) = found.filter(|frozen| frozen.snapshot.owner == caller.key) else {
                return Err(audit::unavailable(imports, "delegate", snapshot_ref));
            };
            ready(imports, &frozen)?;
            let state = snapshot::state(&frozen.snapshot)?;
            let limit = Limit::of(capacity);
            let needed = state.page_sizes.iter().map(|size| limit.part(size)).max().unwrap_or(0);
            if needed > limit.amount {
                let sizes = state.items.into_iter().map(|item| Omission {
                    id: item.id,
                    size: item.size,
                    why: "over-budget".into(),
                });
                let shortfall = Shortfall { unit: limit.unit, budget: limit.amount, needed, sizes: sizes.collect() };
                return Ok(refuse(plan, Refusal::OverCapacity(shortfall)));
            }
            plan.kind = Kind::Frozen;
            plan.content = content(&state);
            plan.snapshot_ref = Some(snapshot_ref.clone());
            // The snapshot's own time is not prolonged by handing it over again.
            plan.expires_at = plan.expires_at.min(frozen.snapshot.expires_at);
            let receipt = Receipt { expires_at: plan.expires_at, ..snapshot::receipt(&frozen.snapshot)? };
            plan.outcome = handed_over(imports, &plan, Some(memory.clone()), Some(receipt))?;
        }
        MemoryField::PrefetchIds(named) => {
            let ids = ids::list(&named.ids, settings.max_ids)?;
            let live = named.mode == Mode::Live;
            if live && capacity.overflow == Overflow::Paginate {
                return Err(Error::Malformed(
                    "live ids cannot be paginated, since no page of them is stored: trim, refuse, or freeze them"
                        .into(),
                ));
            }
            let named = NamedIds { ids: ids.clone(), mode: named.mode };
            plan.asked = Some(named.clone());
            if request.priorities.len() > settings.max_ids as usize {
                return Err(Error::Malformed(format!(
                    "{} priorities: at most {} are allowed (max-ids)",
                    request.priorities.len(),
                    settings.max_ids
                )));
            }
            let mut priorities = Vec::new();
            for (id, priority) in &request.priorities {
                priorities.push((ids::id(id)?, *priority));
            }
            let order = Order { ids, capacity: capacity.clone(), priorities, strict: request.strict };
            let snapshot_ref = if live { None } else { Some(snapshot::new_ref(imports)?) };
            let composed = match compose(imports, caller, &order, snapshot_ref.as_deref(), settings)? {
                Ok(composed) => composed,
                Err((refusal, reasons)) => {
                    plan.reasons = reasons;
                    return Ok(refuse(plan, refusal));
                }
            };
            plan.reasons = composed.reasons.clone();
            let names = named.ids.iter().map(|id| ids::name(id)).collect();
            let carried = MemoryField::PrefetchIds(NamedIds { ids: names, mode: named.mode });
            let (field, receipt) = match &snapshot_ref {
                None => {
                    plan.content = format!("live {}", to_json(&order));
                    plan.kind = Kind::Live(order);
                    (carried, composed.receipt(plan.expires_at))
                }
                Some(name) => {
                    plan.kind = Kind::Frozen;
                    plan.content = content(&composed.state);
                    plan.snapshot_ref = Some(name.clone());
                    let (frozen, state) = composed.freeze(name, &caller.key, plan.expires_at);
                    let receipt = snapshot::receipt_of(state, &frozen.snapshot);
                    plan.frozen = Some(frozen);
                    match request.carry {
                        Carry::SnapshotRef => (MemoryField::SnapshotRef(name.clone()), receipt),
                        Carry::Ids => (carried, receipt),
                    }
                }
            };
            plan.outcome = handed_over(imports, &plan, Some(field), Some(receipt))?;
        }
    }
    Ok(plan)
}

fn refuse(plan: Plan, refusal: Refusal) -> Plan {
    Plan {
        outcome: DelegationOutcome::Refused(refusal.clone()),
        kind: Kind::Refused(refusal),
        content: "refused".into(),
        ..plan
    }
}

/// R26: the first answer of this call, from what was stored.
fn again<I: Imports>(
    imports: &mut I,
    caller: &Session,
    row: &HandOver,
    request: &Request,
    settings: &Settings,
) -> Result<DelegationOutcome, Error> {
    let state = hand_over::state(row)?;
    let receipt = match (&state.kind, &row.snapshot_ref) {
        (Kind::Nothing, _) => None,
        (Kind::MemoryOff, _) => return Ok(DelegationOutcome::MemoryOff),
        (Kind::Refused(refusal), _) => return Ok(DelegationOutcome::Refused(refusal.clone())),
        (Kind::Live(order), _) => match compose(imports, caller, order, None, settings)? {
            Ok(composed) => Some(composed.receipt(row.expires_at)),
            Err((refusal, _)) => return Ok(DelegationOutcome::Refused(refusal)),
        },
        (Kind::Frozen, name) => {
            let name = name.as_deref().unwrap_or_default();
            match snapshot::lookup(imports, name, Selection::None)? {
                // R18: a tombstone keeps the reason, and has no receipt any more.
                Some(frozen) if frozen.snapshot.pages == 0 => {
                    let revoked = frozen.snapshot.revoked_at.is_some();
                    return Err(if revoked { Error::Revoked } else { Error::Expired });
                }
                Some(frozen) => Some(Receipt { expires_at: row.expires_at, ..snapshot::receipt(&frozen.snapshot)? }),
                None => return Err(session::damaged(&format!("{} has lost its snapshot", row.id))),
            }
        }
    };
    let mut warnings = state.warnings;
    if state.request != digest(request) {
        warnings.push("this call id was used before, for another request: this is the answer to that one.".into());
    }
    Ok(DelegationOutcome::HandedOver(Delegated { memory: state.memory, receipt, warnings }))
}

/// R20: standing and every checksum.
fn ready<I: Imports>(imports: &mut I, frozen: &Frozen) -> Result<(), Error> {
    match snapshot::standing(&frozen.snapshot, imports.now()) {
        Standing::Revoked => return Err(Error::Revoked),
        Standing::Expired => return Err(Error::Expired),
        Standing::Ready => {}
    }
    let name = frozen.snapshot.snapshot_ref.as_str();
    if frozen.pages.len() != frozen.snapshot.pages as usize {
        audit::damage(imports, Some(name));
        return Err(Error::Corrupt(name.to_owned()));
    }
    for page in &frozen.pages {
        snapshot::verify(imports, Some(Place::of(page, &frozen.snapshot)), &page.text, &page.check)?;
    }
    Ok(())
}

/// What does not depend on the store.
fn check(request: &Request) -> Result<(), Error> {
    if request.children == 0 || request.children > MAX_CHILDREN {
        let n = request.children;
        return Err(Error::Malformed(format!("children is {n}: 1 to {MAX_CHILDREN} are allowed")));
    }
    if request.ttl_seconds == Some(0) {
        return Err(Error::Malformed("ttl-seconds is 0: nobody could take it".into()));
    }
    if let Some(name) = &request.agent_type {
        ids::check("agent type", name, ids::MAX_BYTES)?;
    }
    if let Some(name) = &request.call_id {
        ids::check("call id", name, ids::MAX_BYTES)?;
    }
    Ok(())
}

fn project_of(caller: &Session) -> Option<&str> {
    caller.project.as_ref().map(|project| project.id.as_str())
}

/// Equal for equal items on equal pages (R23): a fingerprint of ids, versions and sizes, from which no version can be
/// read back.
fn content(state: &State) -> String {
    let names: Vec<_> = state.items.iter().map(|item| (&item.id, &item.version)).collect();
    let sizes: Vec<u32> = state.page_sizes.iter().map(|size| size.bytes).collect();
    format!("frozen {:032x}", xxh3_128(to_json(&(names, sizes)).as_bytes()))
}

fn digest(request: &Request) -> String {
    format!("{:032x}", xxh3_128(to_json(request).as_bytes()))
}
