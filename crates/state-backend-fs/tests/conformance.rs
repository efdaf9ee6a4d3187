//! The conformance suite of backends, on real files.

use state_backend_fs::FsBackend;
use state_core::testkit::{clock::SeededEntropy, conformance, fault::FaultyBackend};
use std::cell::Cell;
use std::sync::Arc;

#[tokio::test]
async fn files_pass_the_conformance_suite() {
    let folder = tempfile::tempdir().unwrap();
    let made = Cell::new(0);
    let open = async || {
        made.set(made.get() + 1);
        FsBackend::create(folder.path().join(made.get().to_string())).unwrap()
    };
    let results = conformance::run_all(open, &SeededEntropy::new(1)).await;
    conformance::expect_all(&results);
    assert_eq!(results.len(), made.get());
}

#[tokio::test]
async fn files_have_the_capabilities_they_claim() {
    let folder = tempfile::tempdir().unwrap();
    let open = async |place: u32| FsBackend::create(folder.path().join(place.to_string())).unwrap();
    let results = conformance::capabilities::run_all(open, &SeededEntropy::new(1)).await;
    conformance::expect_all(&results);
}

#[tokio::test]
async fn wrapped_files_pass_the_conformance_suite() {
    let folder = tempfile::tempdir().unwrap();
    let made = Cell::new(0);
    let open = async || {
        made.set(made.get() + 1);
        let root = folder.path().join(made.get().to_string());
        FaultyBackend::new(Arc::new(FsBackend::create(root).unwrap()))
    };
    let results = conformance::run_all(open, &SeededEntropy::new(1)).await;
    conformance::expect_all(&results);
}
