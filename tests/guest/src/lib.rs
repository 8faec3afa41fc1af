//! A component that misbehaves: `orchestrator.delegate` does what its task text says, everything else is an error.
//! The tests that load it are in `tests/host.rs`.

wit_bindgen::generate!({ path: "../../wit", world: "memory-prefetch" });

use agent_memory::prefetch::types::*;
use agent_memory::prefetch::{audit, environment, memories, snapshots};
use exports::agent_memory::prefetch::*;

struct Guest;

export!(Guest);

fn no<T>() -> Result<T, Error> {
    Err(Error::Other("a test guest has no policy".into()))
}

fn write(session: &SessionKey) {
    let snapshot = snapshots::Snapshot {
        snapshot_ref: "snap_guest".into(),
        owner: session.clone(),
        created_at: 0,
        expires_at: u64::MAX >> 1,
        keep_until: u64::MAX >> 1,
        revoked_at: None,
        memory_ids: vec!["1".into()],
        pages: 1,
        state: String::new(),
    };
    let page = snapshots::Page { number: 1, text: "half".into(), check: String::new(), state: String::new() };
    snapshots::insert_snapshot(&snapshots::Frozen { snapshot, pages: vec![page] }).expect("to insert");
    audit::append(&[audit::Entry {
        action: "test".into(),
        outcome: "written".into(),
        snapshot_refs: vec!["snap_guest".into()],
        memory_ids: Vec::new(),
        attributes: Vec::new(),
    }]);
}

fn recurse(n: u64) -> u64 {
    std::hint::black_box(if n == u64::MAX { 0 } else { recurse(std::hint::black_box(n + 1)) + 1 })
}

impl orchestrator::Guest for Guest {
    fn delegate(session: SessionKey, request: orchestrator::Request) -> Result<orchestrator::Outcome, Error> {
        match request.task.as_str() {
            "ok" => return Ok(orchestrator::Outcome::MemoryOff),
            "write" => {
                write(&session);
                return Ok(orchestrator::Outcome::MemoryOff);
            }
            "write, then fail" => write(&session),
            "write, then trap" => {
                write(&session);
                std::process::abort();
            }
            "panic" => panic!("on request"),
            "loop" => loop {
                std::hint::black_box(());
            },
            "recurse" => {
                recurse(0);
            }
            "grow" => {
                let mut hoard = Vec::new();
                loop {
                    hoard.push(vec![1u8; 1 << 20]);
                    std::hint::black_box(&hoard);
                }
            }
            "flood" => loop {
                environment::now();
            },
            "log" => loop {
                environment::log(environment::Level::Debug, "again");
            },
            "remove" => {
                let _ = snapshots::remove(&["snap_guest".into()]);
            }
            "count" => {
                let _ = memories::record_access(&["1".into()], 0);
            }
            "audit" => loop {
                audit::append(&[audit::Entry {
                    action: "x".repeat(1 << 20),
                    outcome: String::new(),
                    snapshot_refs: Vec::new(),
                    memory_ids: Vec::new(),
                    attributes: Vec::new(),
                }]);
            },
            "hash" => loop {
                environment::sha256(&["x".repeat(1 << 20)]);
            },
            "random" => {
                environment::random_hex(65);
            }
            _ => {}
        }
        no()
    }
    fn estimate(session: SessionKey, _: orchestrator::Request) -> Result<orchestrator::Outcome, Error> {
        // A reading export that writes.
        write(&session);
        Ok(orchestrator::Outcome::MemoryOff)
    }
    fn revalidate(_: SessionKey, _: String) -> Result<Receipt, Error> {
        no()
    }
    fn revoke(_: SessionKey, _: String) -> Result<(), Error> {
        no()
    }
}

impl child::Guest for Guest {
    fn deliver(_: SessionKey, _: String, _: child::Claim) -> Result<child::Answer, Error> {
        no()
    }
    fn replay(_: SessionKey) -> Result<Vec<Block>, Error> {
        no()
    }
    fn page(_: SessionKey, _: String, _: u32) -> Result<Block, Error> {
        no()
    }
}

impl tools::Guest for Guest {
    fn get(_: SessionKey, _: Vec<String>) -> Result<tools::Found, Error> {
        no()
    }
    fn recall(_: SessionKey, _: Option<String>, _: String, _: u32) -> Result<Vec<tools::View>, Error> {
        no()
    }
}

impl upkeep::Guest for Guest {
    fn evictable(_: Vec<String>) -> Result<Vec<String>, Error> {
        no()
    }
    fn sweep(_: u32) -> Result<upkeep::Swept, Error> {
        no()
    }
    fn session_ended(_: SessionKey) -> Result<(), Error> {
        no()
    }
    fn forget(_: Vec<String>) -> Result<upkeep::Forgotten, Error> {
        no()
    }
}

impl wire::Guest for Guest {
    fn encode(_: wire::Delegation) -> Result<String, Error> {
        no()
    }
    fn decode(_: String) -> Result<wire::Delegation, Error> {
        no()
    }
    fn parse_markers(text: String) -> wire::Marked {
        wire::Marked { text, ids: Vec::new() }
    }
}

impl about::Guest for Guest {
    fn describe() -> about::Info {
        about::Info {
            name: "test-guest".into(),
            version: "0.0.0".into(),
            contract: "0.1.0".into(),
            block_prefix: String::new(),
            attributes: Vec::new(),
        }
    }
}
