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
