//! `orchestrator.estimate` and `delegate`, natively: any memories, any request. The answer is what the rules say of it, the
//! budget is kept, and what is frozen reads back byte for byte.

use arbitrary::{Arbitrary, Unstructured};
use memory_prefetch_component::contract::*;
use memory_prefetch_component::orchestrator;

use crate::scene::{Ask, Scene, check_pages, parent};
use crate::world::World;

/// Any bytes.
pub fn run(data: &[u8]) {
    let Ok((scene, ask)) = <(Scene, Ask)>::arbitrary(&mut Unstructured::new(data)) else { return };
    let request = ask.request();
    let mut world = scene.world();
    let estimate = orchestrator::estimate(&mut world, &parent(), &request);
    assert!(world.snapshots.is_empty() && world.hand_overs.is_empty(), "an estimate stores nothing");

    let mut world = scene.world();
    let outcome = orchestrator::delegate(&mut world, &parent(), &request);
    same(&estimate, &outcome);
    check(&scene, &world, &request, &outcome);
}

/// What was answered is what the rules say.
pub fn check(scene: &Scene, world: &World, request: &Request, outcome: &Result<DelegationOutcome, Error>) {
    let off = scene.off.0 || scene.off.1;
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(Error::Malformed(_)) => return,
        // Numbers that are not random, or that name what is there already.
        Err(Error::Store(StoreError::Damaged(_))) => return,
        Err(other) => panic!("{other:?}"),
    };
    let row = world.hand_overs.last().expect("R14: every delegation leaves a hand-over");
    assert_eq!(row.task, request.task);
    assert_eq!(*outcome == DelegationOutcome::MemoryOff, off);
    let Some(MemoryField::PrefetchIds(named)) = &request.memory else { return };
    let capacity = request.capacity.as_ref().expect("every request has one");
    let mut asked: Vec<String> = Vec::new();
    for id in &named.ids {
        if !asked.contains(id) {
            asked.push(id.clone());
        }
    }
    let unavailable: Vec<&String> = asked.iter().filter(|id| !scene.is_visible(id)).collect();
    match outcome {
        DelegationOutcome::MemoryOff => assert!(world.snapshots.is_empty()),
        DelegationOutcome::Refused(refusal) => {
            assert!(world.snapshots.is_empty(), "a refusal freezes nothing");
            match refusal {
                Refusal::Unavailable(ids) => {
                    assert!(request.strict && !ids.is_empty());
                    assert_eq!(ids.iter().collect::<Vec<_>>(), unavailable);
                }
                Refusal::OverCapacity(shortfall) => {
                    let sizes: Vec<&String> = shortfall.sizes.iter().map(|size| &size.id).collect();
                    let visible: Vec<&String> = asked.iter().filter(|id| scene.is_visible(id)).collect();
                    assert_eq!(sizes, visible);
                }
                other => panic!("{other:?}"),
            }
        }
        DelegationOutcome::HandedOver(delegated) => {
            let receipt = delegated.receipt.as_ref().expect("memories have a receipt");
            assert_eq!(receipt.unavailable.iter().collect::<Vec<_>>(), unavailable);
            assert!(!request.strict || unavailable.is_empty());
            let mut kept = receipt.items.iter().map(|item| &item.id).peekable();
            let mut omitted = receipt.omitted.iter().map(|omission| &omission.id).peekable();
            for id in asked.iter().filter(|id| scene.is_visible(id)) {
                assert!(kept.next_if_eq(&id).is_some() || omitted.next_if_eq(&id).is_some(), "{id} is lost");
            }
            assert!(kept.next().is_none() && omitted.next().is_none());
            if !matches!(capacity.overflow, Overflow::TrimPriority | Overflow::TrimRecency) {
                assert!(receipt.omitted.is_empty(), "nothing was to be left out");
            }
            if capacity.overflow != Overflow::Paginate {
                assert_eq!(receipt.pages, 1);
            }
            if named.mode == Mode::Frozen {
                let [frozen] = &world.snapshots[..] else { panic!("one snapshot is stored") };
                assert_eq!(receipt.snapshot_ref.as_ref(), Some(&frozen.snapshot.snapshot_ref));
                let texts: Vec<&str> = frozen.pages.iter().map(|page| page.text.as_str()).collect();
                check_pages(world, capacity, receipt, &texts);
            } else {
                assert!(world.snapshots.is_empty() && receipt.snapshot_ref.is_none());
            }
        }
    }
}

/// An estimate says what the delegation will.
fn same(estimate: &Result<DelegationOutcome, Error>, outcome: &Result<DelegationOutcome, Error>) {
    match (estimate, outcome) {
        (Ok(DelegationOutcome::HandedOver(one)), Ok(DelegationOutcome::HandedOver(other))) => {
            let bare =
                |receipt: &Option<Receipt>| receipt.clone().map(|receipt| Receipt { snapshot_ref: None, ..receipt });
            assert_eq!(bare(&one.receipt), bare(&other.receipt));
            assert_eq!(one.warnings, other.warnings);
        }
        // There is one more number that may be none.
        (Ok(DelegationOutcome::HandedOver(_)), Err(Error::Store(StoreError::Damaged(_)))) => {}
        _ => assert_eq!(estimate, outcome),
    }
}
