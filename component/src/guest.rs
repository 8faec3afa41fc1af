//! How a component is made of the policy: its exports, each answered by the module that has its rules. Nothing is decided
//! here.

use crate::bindings::agent_memory::prefetch::environment;
use crate::contract::*;

/// A panic would otherwise leave no trace: there is no stderr. It names a place in the policy, never content.
pub fn log_panics() {
    static HOOK: std::sync::Once = std::sync::Once::new();
    HOOK.call_once(|| {
        std::panic::set_hook(Box::new(|info| {
            let place = info.location().map(|l| format!("{}:{}", l.file(), l.line())).unwrap_or_default();
            environment::log(Level::Error, &format!("the policy panicked at {place}"));
        }));
    });
}

/// Make this crate the component of the policy, once, at its top.
///
/// `imports` is made at the start of each exported call and is what the policy sees of the host: `Host`, or a type of
/// one's own that implements [`Imports`](crate::Imports) and changes what goes in or out. `name` and `version` are what
/// `about.describe` says.
#[macro_export]
macro_rules! component {
    (imports: $imports:expr, name: $name:expr, version: $version:expr $(,)?) => {
        const _: () = {
            use $crate::bindings::exports::agent_memory::prefetch as exports;
            use $crate::contract::*;

            #[cfg(target_arch = "wasm32")]
            #[global_allocator]
            static HEAP: $crate::heap::Heap = $crate::heap::new();

            struct Component;

            fn imports() -> impl $crate::Imports {
                $crate::guest::log_panics();
                $imports
            }

    $crate::bindings::export!(Component with_types_in $crate::bindings);

            impl exports::orchestrator::Guest for Component {
                fn estimate(session: SessionKey, request: Request) -> Result<DelegationOutcome, Error> {
                    $crate::orchestrator::estimate(&mut imports(), &session, &request)
                }
                fn delegate(session: SessionKey, request: Request) -> Result<DelegationOutcome, Error> {
                    $crate::orchestrator::delegate(&mut imports(), &session, &request)
                }
                fn revalidate(session: SessionKey, snapshot_ref: String) -> Result<Receipt, Error> {
                    $crate::orchestrator::revalidate(&mut imports(), &session, &snapshot_ref)
                }
                fn revoke(session: SessionKey, snapshot_ref: String) -> Result<(), Error> {
                    $crate::orchestrator::revoke(&mut imports(), &session, &snapshot_ref)
                }
            }

            impl exports::child::Guest for Component {
                fn deliver(child: SessionKey, occasion: String, claim: Claim) -> Result<Answer, Error> {
                    $crate::child::deliver(&mut imports(), &child, &occasion, &claim)
                }
                fn replay(child: SessionKey) -> Result<Vec<Block>, Error> {
                    $crate::child::replay(&mut imports(), &child)
                }
                fn page(child: SessionKey, snapshot_ref: String, number: u32) -> Result<Block, Error> {
                    $crate::child::page(&mut imports(), &child, &snapshot_ref, number)
                }
            }

            impl exports::tools::Guest for Component {
                fn get(session: SessionKey, ids: Vec<String>) -> Result<Found, Error> {
                    $crate::tools::get(&mut imports(), &session, &ids)
                }
                fn recall(
                    session: SessionKey,
                    target: Option<String>,
                    query: String,
                    limit: u32,
                ) -> Result<Vec<View>, Error> {
                    $crate::recall::recall(&mut imports(), &session, target.as_deref(), &query, limit)
                }
            }

            impl exports::upkeep::Guest for Component {
                fn evictable(memory_ids: Vec<String>) -> Result<Vec<String>, Error> {
                    $crate::upkeep::evictable(&mut imports(), &memory_ids)
                }
                fn sweep(limit: u32) -> Result<Swept, Error> {
                    $crate::upkeep::sweep(&mut imports(), limit)
                }
                fn session_ended(session: SessionKey) -> Result<(), Error> {
                    $crate::upkeep::session_ended(&mut imports(), &session)
                }
                fn forget(memory_ids: Vec<String>) -> Result<Forgotten, Error> {
                    $crate::upkeep::forget(&mut imports(), &memory_ids)
                }
            }

            impl exports::wire::Guest for Component {
                fn encode(delegation: Delegation) -> Result<String, Error> {
                    $crate::wire::encode(&delegation)
                }
                fn decode(json: String) -> Result<Delegation, Error> {
                    $crate::wire::decode(&json)
                }
                fn parse_markers(text: String) -> Marked {
                    $crate::markers::parse(&mut imports(), &text)
                }
            }

            impl exports::about::Guest for Component {
                fn describe() -> Info {
                    Info {
                        name: $name.into(),
                        version: $version.into(),
                        contract: "0.1.0".into(),
                        block_prefix: $crate::block::PREFIX.into(),
                        attributes: Vec::new(),
                    }
                }
            }
        };
    };
}
