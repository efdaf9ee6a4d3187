//! Seed 002's contract, on memory, on files and on objects.

use super::*;
use state_core::Backend;
use state_core::testkit::conformance;
use state_manager::testkit;

#[tokio::test]
async fn memory_keeps_the_contract_of_seed_002() {
    let make = async || Arc::new(MemoryBackend::new()) as Arc<dyn Backend>;
    let results = testkit::run_all(make, &environment(1)).await;
    assert!(results.len() >= 10);
    conformance::expect_all(&results);
}

#[cfg(feature = "fs")]
#[tokio::test]
async fn files_keep_the_contract_of_seed_002() {
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
async fn objects_keep_the_contract_of_seed_002() {
    let make = async || Arc::new(objects::backend(&objects::store())) as Arc<dyn Backend>;
    let results = testkit::run_all(make, &environment(1)).await;
    assert!(results.len() >= 10);
    conformance::expect_all(&results);
}
