//! The host against components that are not what they should be: files that are damaged or of another world (F27, F29),
//! and compiled code that is not to be trusted. What a component may do while it runs is for `hostile.rs`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use memory_prefetch::contract::*;
use memory_prefetch::memory_store::MemoryStore;
use memory_prefetch::operator::{NewSession, Operator};
use memory_prefetch::runtime::BUILT_IN;
use memory_prefetch::{CallError, LoadError, Prefetch, Runtime, SqliteOptions, SqliteStore};

const GUEST: &[u8] = include_bytes!(env!("MEMORY_PREFETCH_TEST_GUEST"));

fn load(bytes: &[u8]) -> Result<Runtime, LoadError> {
    Runtime::builder().component_bytes(bytes).build()
}

fn key() -> SessionKey {
    SessionKey { harness: "h".into(), id: "s".into() }
}

fn delegate(prefetch: &mut Prefetch<MemoryStore>, task: &str) -> Result<DelegationOutcome, CallError> {
    prefetch.delegate(&key(), &Request::new(task))
}

/// F27: cut at every hundredth byte and damaged at some, it is an error and never a panic.
#[test]
fn a_truncated_component_is_an_error() {
    for end in (0..BUILT_IN.len()).step_by(BUILT_IN.len() / 97) {
        let error = load(&BUILT_IN[..end]).err().expect("a cut component must not load");
        assert!(matches!(error, LoadError::NotAComponent(_) | LoadError::OtherWorld { .. }), "{end}: {error}");
    }
    assert!(matches!(load(b"not wasm"), Err(LoadError::NotAComponent(_))));
    assert!(matches!(load(b"\0asm\x01\0\0\0"), Err(LoadError::NotAComponent(_))));
    let missing = Runtime::builder().component_file("no/such/file.wasm").build().err().unwrap();
    assert!(missing.to_string().contains("no/such/file.wasm cannot be read"), "{missing}");
}

/// F29: both sides are named.
#[test]
fn another_world_or_version_is_refused_with_both_sides_named() {
    let empty = load(b"\0asm\x0d\0\x01\0").err().unwrap().to_string();
    assert!(empty.contains("does not export agent-memory:prefetch/orchestrator@0.1.0"), "{empty}");
    assert!(empty.contains("It needs [imports] nothing") && empty.contains("This host offers [imports]"), "{empty}");

    // The built-in component, made for another version of the contract: same length, so it stays a valid file.
    let mut other = BUILT_IN.to_vec();
    let (from, to) = (b"@0.1.0", b"@0.7.0");
    for at in 0..other.len() - from.len() {
        if &other[at..at + from.len()] == from {
            other[at..at + from.len()].copy_from_slice(to);
        }
    }
    let error = load(&other).err().unwrap().to_string();
    assert!(error.contains("@0.7.0") && error.contains("agent-memory:prefetch/memories@0.1.0"), "{error}");
}

#[test]
fn a_component_with_another_digest_is_refused() {
    let digest = load(GUEST).unwrap().digest().to_owned();
    let pinned = Runtime::builder().component_bytes(BUILT_IN).sha256(&digest).build();
    assert!(matches!(pinned, Err(LoadError::OtherDigest { expected, .. }) if expected == digest));
    assert!(Runtime::builder().component_bytes(GUEST).sha256(digest.to_uppercase()).build().is_ok());
    // That of the built-in one is not computed anew each time.
    assert_eq!(Runtime::builder().build().unwrap().digest(), load(BUILT_IN).unwrap().digest());
}

/// Policy is swapped without a rebuild: the same program, another component.
#[test]
fn the_component_says_what_it_is() {
    assert_eq!(load(GUEST).unwrap().open(MemoryStore::new()).unwrap().describe().unwrap().name, "test-guest");
    let built_in = load(BUILT_IN).unwrap();
    let allowed = ["types", "memories", "snapshots", "directory", "environment", "audit"]
        .map(|interface| format!("agent-memory:prefetch/{interface}@0.1.0"));
    assert!(built_in.world().imports.iter().all(|name| allowed.contains(name)), "{:?}", built_in.world());
    let info = built_in.open(MemoryStore::new()).unwrap().describe().unwrap();
    assert_eq!((info.name.as_str(), info.contract.as_str()), ("memory-prefetch", "0.1.0"));
}

/// The contract's bar for the artefact that every harness ships.
#[test]
fn the_component_is_small_and_names_no_machine() {
    assert!(BUILT_IN.len() <= 400_000, "{} bytes", BUILT_IN.len());
    let text = String::from_utf8_lossy(BUILT_IN);
    for path in ["/root", "/home", "/Users", ".cargo/registry", "wasi"] {
        assert!(!text.contains(path), "the component contains {path}");
    }
}

#[test]
fn damaged_and_foreign_cache_entries_are_compiled_anew() {
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().join("cache");
    let load = || Runtime::builder().component_bytes(GUEST).cache_dir(&cache).build().unwrap();
    load();
    let entry = only_file(&cache);
    let good = std::fs::read(&entry).unwrap();
    let mut damaged = good.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    for bytes in [&damaged[..], &good[..good.len() - 1], &good[..10], b"", &[b'0'; 5_000]] {
        std::fs::write(&entry, bytes).unwrap();
        let mut prefetch = load().open(MemoryStore::new()).unwrap();
        assert_eq!(delegate(&mut prefetch, "ok").unwrap(), DelegationOutcome::MemoryOff);
        assert_eq!(std::fs::read(only_file(&cache)).unwrap().len(), good.len());
    }
    // Another component's code under this one's name.
    let other = Runtime::builder().cache_dir(dir.path().join("other")).build().unwrap();
    std::fs::copy(only_file(&dir.path().join("other")), &entry).unwrap();
    assert_eq!(load().open(MemoryStore::new()).unwrap().describe().unwrap().name, "test-guest");
    drop(other);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::write(&entry, &good).unwrap();
        std::fs::set_permissions(&entry, PermissionsExt::from_mode(0o666)).unwrap();
        load();
        let mode = std::fs::metadata(only_file(&cache)).unwrap().permissions().mode();
        assert_eq!(mode & 0o022, 0, "an entry that others can write must be replaced");
    }
}

fn only_file(dir: &Path) -> std::path::PathBuf {
    let files: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files[0].clone()
}

/// What an instance begins with is enough for 20 memories of 1 KB, again and again: growing costs each new one a call of the
/// system.
#[test]
fn memory_stays_small() {
    let mut prefetch = load(BUILT_IN).unwrap().open(MemoryStore::new()).unwrap();
    let store = prefetch.store();
    store
        .put_project(&Project { id: "p".into(), workspace: None, memory_on: true, trusted: true, attributes: vec![] })
        .unwrap();
    let session =
        NewSession { key: key(), agent: Some("a".into()), project: Some("p".into()), parent: None, memory_on: true };
    store.put_session(&session).unwrap();
    let mut ids = Vec::new();
    for number in 0..20 {
        let memory = memory_prefetch::operator::NewMemory {
            id: Some(number.to_string()),
            ..memory_prefetch::operator::NewMemory::new("a", "p", "word ".repeat(205))
        };
        ids.push(store.add_memory(&memory, 0).unwrap());
    }
    prefetch.replay(&key()).unwrap();
    let at_first = prefetch.memory_bytes();
    assert!((1..=256 << 10).contains(&at_first), "{at_first} bytes");
    let memory = MemoryField::PrefetchIds(NamedIds { ids, mode: Mode::Frozen });
    for _ in 0..50 {
        let request = Request::new("t").with_memory(memory.clone(), Capacity::bytes(100_000));
        let DelegationOutcome::HandedOver(delegated) = prefetch.delegate(&key(), &request).unwrap() else { panic!() };
        let Some(MemoryField::SnapshotRef(name)) = delegated.memory else { panic!() };
        let occasion = name.clone();
        prefetch.deliver(&key(), &occasion, &Claim::SnapshotRef(name)).unwrap();
    }
    assert_eq!(prefetch.memory_bytes(), at_first);
}

/// A function of the host's that panics costs the call it was in: its unit is undone, and the next call is served.
#[test]
fn a_panic_of_the_hosts_is_survived() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = SqliteStore::open(directory.path().join("store.db"), &SqliteOptions::default()).unwrap();
    let project = Project { id: "p".into(), workspace: None, memory_on: true, trusted: true, attributes: vec![] };
    store.put_project(&project).unwrap();
    let (agent, project) = (Some("a".into()), Some("p".into()));
    store.put_session(&NewSession { key: key(), agent, project, parent: None, memory_on: true }).unwrap();
    let memory = memory_prefetch::operator::NewMemory {
        id: Some("1".into()),
        ..memory_prefetch::operator::NewMemory::new("a", "p", "body")
    };
    store.add_memory(&memory, 0).unwrap();

    let panics = Arc::new(AtomicBool::new(true));
    let switch = panics.clone();
    let mut runtime = load(BUILT_IN).unwrap();
    runtime.set_token_counter(Arc::new(move |_, texts| {
        assert!(!switch.load(Ordering::Relaxed), "on request");
        Some(vec![1; texts.len()])
    }));
    let mut prefetch = runtime.open(store).unwrap();
    let field = MemoryField::PrefetchIds(NamedIds { ids: vec!["1".into()], mode: Mode::Frozen });
    let request = Request::new("t").with_memory(field, Capacity::tokens(1_000, "any"));
    catch_unwind(AssertUnwindSafe(|| prefetch.delegate(&key(), &request))).unwrap_err();
    panics.store(false, Ordering::Relaxed);
    assert!(matches!(prefetch.delegate(&key(), &request), Ok(DelegationOutcome::HandedOver(_))));

    panics.store(true, Ordering::Relaxed);
    catch_unwind(AssertUnwindSafe(|| prefetch.delegate(&key(), &request))).unwrap_err();
    assert_eq!(prefetch.into_store().all_snapshots(0, 10).unwrap().len(), 1);
}

/// R23: however many delegations a parent makes, and however long their tasks are, a child finds its own by its text.
#[test]
fn many_long_tasks_with_one_beginning_are_told_apart() {
    let mut store = MemoryStore::new();
    let (id, workspace) = ("p".to_owned(), None);
    store.put_project(&Project { id, workspace, memory_on: true, trusted: true, attributes: vec![] }).unwrap();
    let child = SessionKey { harness: "h".into(), id: "child".into() };
    for (key, parent) in [(key(), None), (child.clone(), Some(key()))] {
        let (agent, project) = (Some("a".into()), Some("p".into()));
        store.put_session(&NewSession { key, agent, project, parent, memory_on: true }).unwrap();
    }
    let memory = memory_prefetch::operator::NewMemory {
        id: Some("1".into()),
        ..memory_prefetch::operator::NewMemory::new("a", "p", "body")
    };
    store.add_memory(&memory, 0).unwrap();
    let mut prefetch = Runtime::builder().build().unwrap().open(store).unwrap();
    let task = |number: usize| format!("{} {number}", "The same beginning. ".repeat(5_000));
    for number in 0..200 {
        let field = MemoryField::PrefetchIds(NamedIds { ids: vec!["1".into()], mode: Mode::Frozen });
        let request = Request::new(task(number)).with_memory(field, Capacity::bytes(10_000));
        prefetch.delegate(&key(), &request).unwrap();
    }
    let hints = Hints { task: Some(task(7)), agent_type: None, registers_all: true };
    let answer = prefetch.deliver(&child, "start", &Claim::ParentSession(hints)).unwrap();
    assert_eq!(answer.outcome, DeliveryOutcome::Delivered);
}
