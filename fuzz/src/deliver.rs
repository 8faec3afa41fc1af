//! The child's side, natively: delegations, claims of every form, pages, edits, erasure, revocation, time and damage, in any
//! order. A child gets the bytes that were frozen for it, or is told why not; never others (R3, R16, R20 to R28).

use std::collections::BTreeMap;

use arbitrary::{Arbitrary, Unstructured};
use memory_prefetch_component::capacity::Limit;
use memory_prefetch_component::contract::*;
use memory_prefetch_component::{child, orchestrator, upkeep};

use crate::reader::read;
use crate::scene::{self, Ask, IDS, Scene, TASKS, check_pages, parent};
use crate::world::World;

#[derive(Debug, Arbitrary)]
enum Step {
    Delegate(Ask),
    /// One that is there is handed over again.
    HandOver(u8, Ask),
    Deliver(u8, bool, How),
    Replay(u8),
    Page(u8, u8, u8),
    Edit(u8, String),
    Forget(u8),
    Revoke(u8),
    Revalidate(u8, u8),
    Later(u16),
    /// A stored text that is not what was stored: which, where, and what stands there.
    Damage(u8, u8, u16, char),
}

#[derive(Debug, Arbitrary)]
enum How {
    Ref(u8),
    Ids(Ask),
    Parent { task: Option<u8>, agent_type: Option<bool>, registers_all: bool },
}

/// The outcome, the ref and the text.
type Told = (DeliveryOutcome, Option<String>, Option<String>);

/// What was frozen and given.
#[derive(Default)]
struct Known {
    /// Pages by ref.
    frozen: BTreeMap<String, Vec<String>>,
    /// Budgets by ref, where it was handed over once.
    budgets: BTreeMap<String, Option<Capacity>>,
    /// By child and occasion.
    given: BTreeMap<(String, String), Told>,
    /// By child: bytes of what it was given.
    bytes: BTreeMap<String, Vec<u32>>,
    /// Something that is stored was changed, so that what is to be had may be said to be corrupt.
    damaged: bool,
}

/// Any bytes.
pub fn run(data: &[u8]) {
    let Ok((scene, steps)) = <(Scene, Vec<Step>)>::arbitrary(&mut Unstructured::new(data)) else { return };
    let mut world = scene.world();
    let mut known = Known::default();
    for step in steps.iter().take(24) {
        known.step(&scene, &mut world, step);
    }
}

impl Known {
    fn step(&mut self, scene: &Scene, world: &mut World, step: &Step) {
        match step {
            Step::Delegate(ask) => self.delegate(world, &ask.request()),
            Step::HandOver(place, ask) => {
                let Some(name) = self.name(*place) else { return };
                self.budgets.insert(name.clone(), None);
                self.delegate(world, &Request { memory: Some(MemoryField::SnapshotRef(name)), ..ask.request() });
            }
            Step::Deliver(number, first, how) => self.deliver(scene, world, *number, *first, how),
            Step::Replay(number) => {
                let key = scene::child(*number);
                let Some(blocks) = self.answered(child::replay(world, &key)) else { return };
                let told: Vec<_> = (self.given.iter().filter(|((child, _), _)| *child == key.id))
                    .map(|(_, (_, name, text))| (name.clone(), text.clone()))
                    .collect();
                for block in blocks {
                    match &block.snapshot_ref {
                        Some(name) => {
                            assert_eq!(block.text, self.frozen[name][0]);
                            assert!(told.iter().any(|(of, _)| of.as_ref() == Some(name)), "it was not given this");
                        }
                        None => assert!(told.iter().any(|(_, text)| text.as_ref() == Some(&block.text))),
                    }
                }
            }
            Step::Page(number, place, page) => {
                let (key, Some(name)) = (scene::child(*number), self.name(*place)) else { return };
                let page = u32::from(*page) % 8;
                let Some(block) = self.answered(child::page(world, &key, &name, page)) else { return };
                assert_eq!((block.snapshot_ref.as_ref(), block.page), (Some(&name), page));
                assert_eq!(block.text, self.frozen[&name][page as usize - 1]);
                assert!(
                    self.given.iter().any(|((child, _), (_, of, _))| *child == key.id && of.as_ref() == Some(&name))
                );
            }
            Step::Edit(place, body) => {
                if let Some(row) = world.memories.iter_mut().find(|row| row.id == IDS[usize::from(*place) % IDS.len()])
                {
                    row.bytes = body.len() as u32;
                    row.body = Some(body.clone());
                    row.version.push('+');
                }
            }
            Step::Forget(mask) => self.forget(world, *mask),
            Step::Revoke(place) => {
                let Some(name) = self.name(*place) else { return };
                self.answered(orchestrator::revoke(world, &parent(), &name));
            }
            Step::Revalidate(number, place) => {
                let Some(name) = self.name(*place) else { return };
                let key = if *number > 3 { parent() } else { scene::child(*number) };
                if let Some(receipt) = self.answered(orchestrator::revalidate(world, &key, &name)) {
                    assert_eq!(receipt.snapshot_ref, Some(name));
                }
            }
            Step::Later(seconds) => world.now += u64::from(*seconds) * 1000,
            Step::Damage(what, place, at, c) => self.damaged |= damage(world, *what, *place, usize::from(*at), *c),
        }
    }

    /// The snapshot of this number.
    fn name(&self, place: u8) -> Option<String> {
        let count = self.frozen.len();
        self.frozen.keys().nth(usize::from(place) % count.max(1)).cloned()
    }

    /// An answer, or an error that there may be.
    fn answered<T>(&self, answer: Result<T, Error>) -> Option<T> {
        match answer {
            Ok(answer) => Some(answer),
            Err(Error::Corrupt(_)) if self.damaged => None,
            Err(Error::Malformed(_) | Error::Unavailable(_) | Error::Expired | Error::Revoked) => None,
            // Also where numbers are not random.
            Err(Error::Store(StoreError::Damaged(_))) => None,
            Err(other) => panic!("{other:?}"),
        }
    }

    fn note_frozen(&mut self, world: &World) {
        for Frozen { snapshot, pages } in &world.snapshots {
            if !self.frozen.contains_key(&snapshot.snapshot_ref) {
                let texts = pages.iter().map(|page| page.text.clone()).collect();
                self.frozen.insert(snapshot.snapshot_ref.clone(), texts);
            }
        }
    }

    fn delegate(&mut self, world: &mut World, request: &Request) {
        let before = world.snapshots.len();
        let answer = orchestrator::delegate(world, &parent(), request);
        // The runtime undoes what an error leaves.
        if answer.is_err() {
            world.snapshots.truncate(before);
        }
        self.note_frozen(world);
        let Some(DelegationOutcome::HandedOver(delegated)) = self.answered(answer) else { return };
        let name = delegated.receipt.and_then(|receipt| receipt.snapshot_ref);
        if let (Some(name), true) = (name, world.snapshots.len() > before) {
            self.budgets.insert(name, request.capacity.clone());
        }
    }

    fn deliver(&mut self, scene: &Scene, world: &mut World, number: u8, first: bool, how: &How) {
        let key = scene::child(number);
        let occasion = if first { "first" } else { "second" };
        let claim = match how {
            How::Ref(place) => match self.name(*place) {
                Some(name) => Claim::SnapshotRef(name),
                None => return,
            },
            How::Ids(ask) => {
                let Request { memory: Some(MemoryField::PrefetchIds(ids)), capacity, .. } = ask.request() else {
                    return;
                };
                Claim::Ids(CarriedIds { ids, capacity })
            }
            How::Parent { task, agent_type, registers_all } => Claim::ParentSession(Hints {
                task: task.map(|place| TASKS[usize::from(place) % TASKS.len()].to_owned()),
                agent_type: agent_type.map(|one| if one { "coder" } else { "tester" }.to_owned()),
                registers_all: *registers_all,
            }),
        };
        let (snapshots, deliveries) = (world.snapshots.len(), world.deliveries.len());
        let answer = child::deliver(world, &key, occasion, &claim);
        if answer.is_err() {
            world.snapshots.truncate(snapshots);
            assert_eq!(world.deliveries.len(), deliveries, "an error stores nothing");
        }
        self.note_frozen(world);
        let Some(answer) = self.answered(answer) else { return };
        let name = answer.receipt.as_ref().and_then(|receipt| receipt.snapshot_ref.clone());
        let text = answer.block.as_ref().map(|block| block.text.clone());
        match &answer.outcome {
            DeliveryOutcome::Delivered => {
                let (name, block) = (name.as_ref().expect("a ref"), answer.block.as_ref().expect("a block"));
                assert_eq!(block.text, self.frozen[name][0], "other bytes than were frozen");
                assert_eq!(block.pages as usize, self.frozen[name].len());
                if let Claim::SnapshotRef(asked) = &claim
                    && !answer.replayed
                {
                    assert_eq!(asked, name);
                }
                assert!(!(scene.off.3 && key == scene::child(0)), "memory is off for this child");
            }
            DeliveryOutcome::Live => {
                let receipt = answer.receipt.as_ref().expect("a receipt");
                let block = answer.block.as_ref().expect("a block");
                if !self.damaged {
                    // Whose budget it is, is told by the hand-over; the text is checked as one that fits.
                    let anything =
                        Capacity { budget: Budget::Bytes(u32::MAX), model: None, overflow: Overflow::Refuse };
                    check_pages(world, &anything, receipt, &[&block.text]);
                }
            }
            DeliveryOutcome::Nothing | DeliveryOutcome::MemoryOff => assert_eq!(text, None),
            _ => {
                let text = text.as_ref().expect("R28: it is told");
                assert!(text.starts_with("[memory-prefetch] No memories were delivered: "), "{text}");
                assert!(read(text).is_none() && text.matches('\n').count() == 1);
            }
        }
        let place = (key.id.clone(), occasion.to_owned());
        match self.given.get(&place) {
            Some((outcome, of, before)) => {
                assert!(answer.replayed, "R25: the first answer holds");
                match (outcome, &answer.outcome) {
                    (DeliveryOutcome::Delivered, DeliveryOutcome::Delivered) => assert_eq!(*of, name),
                    (DeliveryOutcome::Delivered, DeliveryOutcome::Expired | DeliveryOutcome::Revoked) => {}
                    (DeliveryOutcome::Live, _) => {}
                    _ => assert!(*outcome == answer.outcome && *before == text, "R25: the same answer"),
                }
            }
            None => {
                assert!(!answer.replayed);
                self.within_budget(&key, &answer);
                self.given.insert(place, (answer.outcome, name, text));
            }
        }
    }

    /// R27: beside what it has, in bytes, which need no model.
    fn within_budget(&mut self, key: &SessionKey, answer: &Answer) {
        let Some(receipt) = answer.receipt.as_ref() else { return };
        let bytes = answer.block.as_ref().map_or(0, |block| block.text.len() as u32);
        let before = self.bytes.entry(key.id.clone()).or_default();
        before.push(bytes);
        let budget = receipt.snapshot_ref.as_ref().and_then(|name| self.budgets.get(name)).cloned().flatten();
        if let Some(limit) = budget.as_ref().map(Limit::of).filter(|limit| limit.unit == Unit::Bytes) {
            let sum: u32 = before.iter().sum();
            assert!(sum <= limit.amount, "{sum} bytes in all, and {} are allowed", limit.amount);
        }
    }

    /// R17: nothing of an erased body is left between fences, and all of the others is.
    fn forget(&mut self, world: &mut World, mask: u8) {
        let ids: Vec<String> =
            (0..8).filter(|place| mask >> place & 1 == 1).map(|place| IDS[place].to_owned()).collect();
        let before: Vec<Frozen> = world.snapshots.clone();
        if self.answered(upkeep::forget(world, &ids)).is_none() {
            return;
        }
        world.memories.retain(|row| !ids.contains(&row.id));
        for (old, new) in before.iter().zip(&world.snapshots) {
            let texts = self.frozen.get_mut(&old.snapshot.snapshot_ref).expect("it was noted");
            assert!(!new.snapshot.memory_ids.iter().any(|id| ids.contains(id)));
            for ((text, old), new) in texts.iter_mut().zip(&old.pages).zip(&new.pages) {
                if new.text != old.text {
                    let erased = read(&new.text);
                    assert!(erased.is_some() || self.damaged, "it cannot be read any more: {}", new.text);
                    if let (Some(erased), Some(whole)) = (&erased, read(&old.text)) {
                        for (new, old) in erased.parts.iter().zip(&whole.parts) {
                            assert_eq!(new.id, old.id);
                            let gone = ids.contains(&new.id);
                            assert!(if gone { new.body == "[erased]" } else { new.body == old.body }, "{new:?}");
                        }
                    }
                    if old.text == *text {
                        text.clone_from(&new.text);
                    }
                }
            }
        }
    }
}

/// Change one character of a stored text. `false`: there is none, or it is the same.
fn damage(world: &mut World, what: u8, place: u8, at: usize, c: char) -> bool {
    fn nth<T>(rows: &mut [T], place: u8) -> Option<&mut T> {
        let count = rows.len().max(1);
        rows.get_mut(usize::from(place) % count)
    }
    let snapshots = &mut world.snapshots;
    let text: Option<&mut String> = match what % 9 {
        0 => nth(snapshots, place).map(|row| &mut row.snapshot.state),
        1 => nth(snapshots, place).and_then(|row| row.pages.first_mut()).map(|page| &mut page.text),
        2 => nth(snapshots, place).and_then(|row| row.pages.last_mut()).map(|page| &mut page.text),
        3 => nth(snapshots, place).and_then(|row| row.pages.first_mut()).map(|page| &mut page.check),
        4 => nth(snapshots, place).and_then(|row| row.pages.first_mut()).map(|page| &mut page.state),
        5 => nth(&mut world.hand_overs, place).map(|row| &mut row.state),
        6 => nth(&mut world.hand_overs, place).map(|row| &mut row.task),
        7 => nth(&mut world.deliveries, place).map(|row| &mut row.state),
        _ => nth(&mut world.deliveries, place).and_then(|row| row.notice.as_mut()),
    };
    let Some(text) = text else { return false };
    let count = text.chars().count();
    if count == 0 {
        return false;
    }
    let changed: String =
        text.chars().enumerate().map(|(place, old)| if place == at % count { c } else { old }).collect();
    let differs = changed != *text;
    *text = changed;
    differs
}
