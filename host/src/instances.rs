//! The instances of one `Prefetch`. Each serves one caller, since what it keeps in its memory could otherwise reach another
//! one. Those of the last callers are kept: children that replay in turn, and their parent, then wait for no new one.

use wasmtime::component::{Instance, InstancePre};
use wasmtime::{Result, Trap};

use crate::contract::SessionKey;
use crate::imports::State;
use crate::interfaces::{Indices, Interfaces};
use crate::limits::{Limits, Meter, Stopped};
use crate::runtime::{RunningRef, ticks};
use crate::store::Store;

/// How many callers' instances a [`Prefetch`](crate::Prefetch) keeps: a parent's and some children's. One of ours takes some
/// 0.3 MB, and with more of them than this a new one waits longer for the processor's cache than a kept one saves.
pub const KEPT_INSTANCES: usize = 4;

pub(crate) struct Instances<S: Store + 'static> {
    pre: InstancePre<Slot<S>>,
    /// Where in the component its exports are.
    indices: Indices,
    /// Whether their types were checked.
    typed: bool,
    /// The one that was called last is the last.
    kept: Vec<Running<S>>,
}

struct Running<S: Store + 'static> {
    wasm: wasmtime::Store<Slot<S>>,
    instance: Instance,
    interfaces: Interfaces,
    /// Whom it serves. `None`: the operator.
    caller: Option<SessionKey>,
}

impl<S: Store + 'static> Running<S> {
    /// Bytes of linear memory.
    fn memory(&self) -> usize {
        self.wasm.data().meter.memory
    }
}

/// What a wasmtime store holds.
pub(crate) struct Slot<S> {
    /// Lent for a call.
    state: Option<Box<State<S>>>,
    meter: Meter,
}

/// The state back, and why.
type NotMade<S> = (Box<State<S>>, wasmtime::Error);

impl<S> Slot<S> {
    /// While an instance is made or called.
    pub fn state(&mut self) -> &mut State<S> {
        match &mut self.state {
            Some(state) => state,
            None => unreachable!("wasm runs in a call only"),
        }
    }
}

impl<S: Store + 'static> Instances<S> {
    /// Fails if the component lacks an export.
    pub fn new(pre: InstancePre<Slot<S>>) -> Result<Instances<S>> {
        let indices = Indices::new(&pre)?;
        Ok(Instances { pre, indices, typed: false, kept: Vec::new() })
    }

    /// Call the caller's own instance, or a new one, and give the state back. If the call fails, the instance is dropped:
    /// its memory may be in any state.
    pub fn call<T>(
        &mut self,
        caller: Option<&SessionKey>,
        state: Box<State<S>>,
        limits: &Limits,
        function: impl FnOnce(&mut RunningRef<'_, S>) -> Result<T>,
    ) -> (Box<State<S>>, Result<T>) {
        let patience = state.unit.export.patience();
        match self.kept.iter().position(|running| running.caller.as_ref() == caller) {
            Some(place) => {
                self.kept[place].wasm.data_mut().state = Some(state);
                self.kept[place..].rotate_left(1);
            }
            None => {
                // First, so that the new one gets the memory of the old one.
                if self.kept.len() >= KEPT_INSTANCES {
                    self.kept.remove(0);
                }
                let made = self.make(caller, state, limits).or_else(|(state, error)| {
                    if self.kept.is_empty() || is_its_own(&error) {
                        return Err((state, error));
                    }
                    // There is no room in the pool, or no address space: then none is kept here.
                    log::debug!("{error}: dropping {} instances of other callers", self.kept.len());
                    self.clear();
                    self.make(caller, state, limits)
                });
                match made {
                    Ok(running) => self.kept.push(running),
                    Err((state, error)) => return (state, Err(error)),
                }
            }
        }
        let Some(running) = self.kept.last_mut() else { unreachable!("it was put there above") };
        let Running { wasm, instance, interfaces, .. } = running;
        wasm.set_epoch_deadline(ticks(limits.time.saturating_mul(patience)));
        let result = function(&mut RunningRef { wasm, instance, interfaces, indices: &self.indices });
        let Some(state) = wasm.data_mut().state.take() else { unreachable!("it was lent above") };
        if result.is_err() {
            self.kept.pop();
        }
        // Together they take no more than one may.
        while self.kept.len() > 1 && self.kept.iter().map(|running| running.memory()).sum::<usize>() > limits.memory {
            self.kept.remove(0);
        }
        (state, result)
    }

    /// The state that was lent when a function of the host's panicked, if it was lent to an instance that was made. That one
    /// is dropped.
    pub fn after_panic(&mut self) -> Option<Box<State<S>>> {
        self.kept.pop().and_then(|running| running.wasm.into_data().state)
    }

    /// Drop all.
    pub fn clear(&mut self) {
        self.kept.clear();
    }

    /// Drop that of a caller.
    pub fn drop_of(&mut self, caller: Option<&SessionKey>) {
        self.kept.retain(|running| running.caller.as_ref() != caller);
    }

    /// Linear memory of the one that was called last, in bytes; 0 if there is none.
    pub fn memory_bytes(&self) -> usize {
        self.kept.last().map_or(0, Running::memory)
    }

    fn make(
        &mut self,
        caller: Option<&SessionKey>,
        state: Box<State<S>>,
        limits: &Limits,
    ) -> Result<Running<S>, NotMade<S>> {
        let slot = Slot { state: Some(state), meter: Meter::new(limits) };
        let mut wasm = wasmtime::Store::new(self.pre.engine(), slot);
        wasm.limiter(|slot| &mut slot.meter);
        wasm.set_hostcall_fuel(limits.bytes_out);
        wasm.epoch_deadline_trap();
        wasm.set_epoch_deadline(ticks(limits.time));
        let made = self.pre.instantiate(&mut wasm).and_then(|instance| {
            // All of them once, so that none is found out after another one has done its work.
            let interfaces =
                if self.typed { Interfaces::default() } else { self.indices.load_all(&mut wasm, &instance)? };
            Ok((instance, interfaces))
        });
        match made {
            Ok((instance, interfaces)) => {
                self.typed = true;
                Ok(Running { wasm, instance, interfaces, caller: caller.cloned() })
            }
            Err(error) => match wasm.into_data().state {
                Some(state) => Err((state, error)),
                None => unreachable!("it was lent above"),
            },
        }
    }
}

/// Whether an instance could not be made for what the component itself did.
fn is_its_own(error: &wasmtime::Error) -> bool {
    error.is::<Trap>() || error.is::<Stopped>()
}
