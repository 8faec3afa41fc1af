//! Policy is swapped with `--component` and no rebuild: `tests/policy` is the built-in policy without memories of the
//! category `secret`. One program, one store, another component.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use memory_prefetch::conformance::{Backend, files, run};
use memory_prefetch::operator::{AuditFilter, Operator};
use memory_prefetch::runtime::BUILT_IN;
use memory_prefetch::{MemoryStore, Runtime, SqliteOptions, SqliteStore};
use serde_json::{Value, json};

const NO_SECRETS: &[u8] = include_bytes!(env!("MEMORY_PREFETCH_TEST_POLICY"));
const GUEST: &[u8] = include_bytes!(env!("MEMORY_PREFETCH_TEST_GUEST"));

fn load(component: &[u8]) -> Runtime {
    Runtime::builder().component_bytes(component).build().unwrap()
}

/// It is a policy in every other respect. The scenarios have no memory of that category.
fn passes_every_scenario(backend: Backend) {
    let scenarios = [Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/scenarios")];
    for file in files(&scenarios).unwrap() {
        let text = fs::read_to_string(&file).unwrap();
        assert!(!text.contains(r#""category": "secret""#), "{}", file.display());
    }
    let mut failures = Vec::new();
    let (passed, _) = run(&scenarios, &load(NO_SECRETS), backend, |report| {
        if let Some(why) = &report.failure {
            failures.push(format!("{}: {why}", report.name));
        }
    })
    .unwrap();
    assert!(failures.is_empty() && passed > 100, "{passed} passed, {failures:#?}");
}

#[test]
fn it_passes_every_scenario_on_sqlite() {
    passes_every_scenario(Backend::Sqlite);
}

#[test]
fn it_passes_every_scenario_in_memory() {
    passes_every_scenario(Backend::Memory);
}

/// The same exports, no more imports, no larger than ours may be.
#[test]
fn it_is_a_component_like_ours() {
    let (ours, theirs) = (load(BUILT_IN), load(NO_SECRETS));
    assert_eq!(ours.world(), theirs.world());
    assert!(NO_SECRETS.len() <= 400_000, "{} bytes", NO_SECRETS.len());
    let info = theirs.open(MemoryStore::new()).unwrap().describe().unwrap();
    assert_eq!((info.name.as_str(), info.contract.as_str()), ("no-secrets", "0.1.0"));
    assert_eq!(info.block_prefix, ours.open(MemoryStore::new()).unwrap().describe().unwrap().block_prefix);
}

/// A directory with a store and components in it.
struct Place(tempfile::TempDir);

impl Place {
    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The program's exit code and its JSON, from stdout or else from stderr.
    fn run(&self, args: &[&str]) -> (Option<i32>, Value) {
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli");
        let output = Command::new(env!("CARGO_BIN_EXE_memory-prefetch"))
            .args(["--json", "--store", "sqlite:store.sqlite"])
            .args(args)
            .current_dir(self.0.path())
            .env_remove("MEMORY_PREFETCH_COMPONENT")
            .env_remove("MEMORY_PREFETCH_STORE")
            .env("HOME", &cache)
            .env("XDG_CACHE_HOME", cache.join("cache"))
            .env("XDG_DATA_HOME", self.path("data"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let json = if output.stdout.is_empty() { &output.stderr } else { &output.stdout };
        (output.status.code(), serde_json::from_slice(json).unwrap_or(Value::Null))
    }

    fn ok(&self, args: &[&str]) -> Value {
        let (code, json) = self.run(args);
        assert_eq!(code, Some(0), "{args:?}: {json}");
        json
    }
}

/// A session `lead` with the memories `11` and `12`, of which `12` is a secret, and its child.
fn place() -> Place {
    let place = Place(tempfile::tempdir().unwrap());
    fs::write(place.path("no-secrets.wasm"), NO_SECRETS).unwrap();
    fs::write(place.path("guest.wasm"), GUEST).unwrap();
    for args in [
        &["agent", "add", "planner"][..],
        &["project", "add", "site"],
        &["session", "add", "lead", "--agent", "planner", "--project", "site"],
        &["session", "add", "child", "--agent", "planner", "--project", "site", "--parent", "lead"],
        &["memory", "add", "--agent", "planner", "--project", "site", "--id", "11", "--body", "an open matter"],
        &[
            "memory",
            "add",
            "--agent",
            "planner",
            "--project",
            "site",
            "--id",
            "12",
            "--category",
            "secret",
            "--body",
            "a secret matter",
        ],
    ] {
        place.ok(args);
    }
    place
}

#[test]
fn the_program_runs_another_policy_over_the_same_store() {
    let place = place();
    let delegate = |component: &[&str]| {
        let task = format!("T{}", component.len());
        let args = ["delegate", "--session", "lead", "--task", &task, "--ids", "11,12", "--budget", "9000"];
        let answer = place.ok(&[component, &args].concat());
        let snapshot_ref = answer["receipt"]["snapshot_ref"].as_str().unwrap().to_owned();
        let deliver = ["deliver", "--session", "child", "--ref", &snapshot_ref, "--occasion", &snapshot_ref];
        let text = place.ok(&[component, &deliver].concat())["text"].as_str().unwrap().to_owned();
        (answer["receipt"].clone(), text)
    };
    let other = ["--component", "no-secrets.wasm"];

    let (receipt, text) = delegate(&other);
    assert_eq!(receipt["unavailable"], json!(["12"]));
    assert_eq!(receipt["items"].as_array().unwrap().len(), 1);
    assert!(text.contains("an open matter") && !text.contains("a secret matter"), "{text}");

    let (receipt, text) = delegate(&[]);
    assert_eq!(receipt["unavailable"], json!([]));
    assert_eq!(receipt["items"].as_array().unwrap().len(), 2);
    assert!(text.contains("an open matter") && text.contains("a secret matter"), "{text}");

    let get = ["memory", "get", "--session", "lead", "12", "11"];
    assert_eq!(place.ok(&[&other[..], &get].concat())["unavailable"], json!(["12"]));
    assert_eq!(place.ok(&get)["unavailable"], json!([]));

    let recall = ["recall", "--session", "lead", "matter"];
    let recalled = |component: &[&str]| {
        let found = place.ok(&[component, &recall].concat());
        let ids = found["memories"].as_array().unwrap().iter().map(|view| view["id"].as_str().unwrap().to_owned());
        ids.collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(recalled(&other), ["11".to_owned()].into());
    assert_eq!(recalled(&[]), ["11".to_owned(), "12".to_owned()].into());

    // Who decided what stands in the audit.
    let mut store = SqliteStore::open(place.path("store.sqlite"), &SqliteOptions::default()).unwrap();
    let mut audit = store.all_audit(&AuditFilter::default(), 10).unwrap();
    audit.reverse();
    let found: Vec<(&str, &str)> = audit.iter().map(|row| (row.export.as_str(), row.component.as_str())).collect();
    let (theirs, ours) = (load(NO_SECRETS), load(BUILT_IN));
    let expected = [theirs.digest(), ours.digest()]
        .map(|digest| [("orchestrator.delegate", digest), ("child.deliver", digest)])
        .concat();
    assert_eq!(found, expected);
}

/// A component that answers nonsense, or is stopped, is exit 5 with a word for scripts.
#[test]
fn the_program_names_a_component_that_misbehaves() {
    let place = place();
    let guest = ["--component", "guest.wasm"];
    let get = ["memory", "get", "--session", "missing", "11"];
    let (code, error) = place.run(&[&guest[..], &get].concat());
    assert_eq!((code, &error["error"]["code"]), (Some(5), &json!("component-nonsense")), "{error}");
    let flood = ["delegate", "--session", "lead", "--task", "flood of calls"];
    let (code, error) = place.run(&[&guest[..], &flood].concat());
    assert_eq!((code, &error["error"]["code"]), (Some(5), &json!("component-stopped")), "{error}");
    assert_eq!(error["error"]["details"], json!({ "why": "too-many-host-calls" }));
    place.ok(&get[..3].iter().copied().chain(["lead", "11"]).collect::<Vec<_>>());
}
