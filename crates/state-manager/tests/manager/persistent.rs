//! Runs the rules of [`state_manager::testkit`], which every `StateManager` must keep, on memory, files and object
//! stores.

use super::*;
use state_core::Backend;
use state_core::testkit::conformance;
use state_manager::testkit;

#[tokio::test]
async fn memory_satisfies_the_state_manager_contract() {
    let make = async || Arc::new(MemoryBackend::new()) as Arc<dyn Backend>;
    let results = testkit::run_all(make, &environment(1)).await;
    assert!(results.len() >= 10);
    conformance::expect_all(&results);
}

#[cfg(feature = "fs")]
#[tokio::test]
async fn files_satisfy_the_state_manager_contract() {
    use state_manager::state_backend_fs::FsBackend;
    let folder = tempfile::tempdir().unwrap();
    let made = std::cell::Cell::new(0);
    let make = async || {
        made.set(made.get() + 1);
        let root = folder.path().join(made.get().to_string());
        Arc::new(FsBackend::create(root).unwrap()) as Arc<dyn Backend>
    };
    let results = testkit::run_all(make, &environment(1)).await;
    conformance::expect_all(&results);
    assert_eq!(results.len(), made.get());
}

#[tokio::test]
async fn object_stores_satisfy_the_state_manager_contract() {
    let make = async || Arc::new(objects::backend(&objects::store())) as Arc<dyn Backend>;
    let results = testkit::run_all(make, &environment(1)).await;
    assert!(results.len() >= 10);
    conformance::expect_all(&results);
}
