//! Scenario files: whatever is in one, it is run or refused, and nothing panics, hangs or takes all memory.

use std::sync::LazyLock;
use std::time::Duration;

use memory_prefetch::conformance::run_file;
use memory_prefetch::limits::Limits;
use memory_prefetch::{MemoryStore, Runtime};

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let limits = Limits { time: Duration::from_secs(1), ..Limits::default() };
    Runtime::builder().limits(limits).build().expect("the built-in component loads")
});

static DIR: LazyLock<tempfile::TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a directory"));

/// Any file.
pub fn run(data: &[u8]) {
    let file = DIR.path().join(format!("{:?}.json", std::thread::current().id()));
    std::fs::write(&file, data).expect("to write");
    let mut reports = 0;
    run_file(&file, &RUNTIME, || Ok(MemoryStore::new()), |_| reports += 1);
    assert!(reports > 0, "a run of nothing looks like a success");
}
