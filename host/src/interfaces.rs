//! The exported interfaces of an instance. Each is looked up when it is first called, since looking all of them up takes a
//! sixth of the time that a new instance does, and it serves one caller, who mostly calls one of them.

use wasmtime::component::{Instance, InstancePre};
use wasmtime::{AsContextMut, Result};

use crate::generated::exports::agent_memory::prefetch as wit;
use crate::instances::Slot;
use crate::runtime::RunningRef;
use crate::store::Store;

macro_rules! interfaces {
    ($($interface:ident),+) => {
        /// Where in the component they are.
        pub(crate) struct Indices {
            $($interface: wit::$interface::GuestIndices),+
        }

        impl Indices {
            /// Fails if one is not there.
            pub fn new<T>(pre: &InstancePre<T>) -> Result<Indices> {
                Ok(Indices { $($interface: wit::$interface::GuestIndices::new(pre)?),+ })
            }

            /// Fails if one has functions of other types than the contract's.
            pub fn load_all(&self, mut wasm: impl AsContextMut, instance: &Instance) -> Result<Interfaces> {
                Ok(Interfaces { $($interface: Some(self.$interface.load(&mut wasm, instance)?)),+ })
            }
        }

        /// Those of an instance that were called.
        #[derive(Default)]
        pub(crate) struct Interfaces {
            $($interface: Option<wit::$interface::Guest>),+
        }

        impl<S: Store + 'static> RunningRef<'_, S> {
            $(
                /// The interface, and what to call it with. Fails if its functions have other types than the contract's.
                pub fn $interface(&mut self) -> Result<(&wit::$interface::Guest, &mut wasmtime::Store<Slot<S>>)> {
                    let guest = match self.interfaces.$interface.take() {
                        Some(guest) => guest,
                        None => self.indices.$interface.load(&mut *self.wasm, self.instance)?,
                    };
                    Ok((self.interfaces.$interface.insert(guest), self.wasm))
                }
            )+
        }
    };
}

interfaces!(orchestrator, child, tools, upkeep, wire, about);
