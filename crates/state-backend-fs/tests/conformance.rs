//! The contract of backends, rule by rule, on real files.

use state_backend_fs::FsBackend;
use state_core::testkit::{clock::SeededEntropy, conformance};
use std::cell::Cell;

#[tokio::test]
async fn files_keep_every_rule_of_the_contract() {
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
