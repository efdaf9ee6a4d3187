//! Runs the contract of backends, rule by rule.

use super::*;
use state_core::testkit::clock::SeededEntropy;
use state_core::testkit::conformance;
use std::cell::RefCell;
use std::collections::BTreeMap;

#[test]
fn generic_backend_keeps_every_rule() {
    let open = async || backend(&MemoryStore::default());
    let results = block_on(conformance::run_all(open, &SeededEntropy::new(1)));
    assert!(results.len() > 25);
    conformance::expect_all(&results);
}

#[test]
fn store_without_deletion_keeps_every_rule() {
    let open = async || {
        let store: Arc<dyn KeyValueStore> = Arc::new(MemoryStore::default());
        GenericBackend::new(store, Settings::new("test:"))
    };
    let results = block_on(conformance::run_all(open, &SeededEntropy::new(2)));
    conformance::expect_all(&results);
}

#[test]
fn claimed_capabilities_hold_across_handles() {
    let places: RefCell<BTreeMap<u32, MemoryStore>> = RefCell::default();
    let open = async |place| backend(places.borrow_mut().entry(place).or_default());
    let results = block_on(conformance::capabilities::run_all(open, &SeededEntropy::new(3)));
    conformance::expect_all(&results);
}
