//! Every scenario, on both stores.

use std::path::PathBuf;

use memory_prefetch::Runtime;
use memory_prefetch::conformance::{Backend, run};

fn all_pass(backend: Backend) {
    let scenarios = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/scenarios");
    let runtime = Runtime::builder().build().expect("the built-in component");
    let mut failures = Vec::new();
    let (passed, failed) = run(&[scenarios], &runtime, backend, |report| {
        if let Some(why) = &report.failure {
            failures.push(format!("FAIL {}: {why}", report.name));
        }
    })
    .expect("scenarios to run");
    assert!(failures.is_empty(), "{}\n{passed} passed, {failed} failed", failures.join("\n"));
}

#[test]
fn on_sqlite() {
    all_pass(Backend::Sqlite);
}

#[test]
fn in_memory() {
    all_pass(Backend::Memory);
}

/// Each rule and field case that is built has scenarios. F23 and F27 to F29 are about processes and components, which a
/// scenario cannot express: `sqlite_files.rs` and `host.rs` have them.
#[test]
fn every_rule_has_scenarios() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/scenarios");
    let mut covered = std::collections::BTreeSet::new();
    for file in memory_prefetch::conformance::files(&[folder]).unwrap() {
        let value: serde_json::Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        covered.extend(value["rules"].as_array().unwrap().iter().map(|rule| rule.as_str().unwrap().to_owned()));
    }
    // F23 and F27 to F29 are about the host around the contract: sqlite_files.rs and host.rs have them.
    let rules = (1..=42).map(|rule| format!("R{rule}"));
    let cases = (1..=26).filter(|case| *case != 23).map(|case| format!("F{case}"));
    let missing: Vec<String> = rules.chain(cases).filter(|name| !covered.contains(name)).collect();
    assert!(missing.is_empty(), "without a scenario: {missing:?}");
}
