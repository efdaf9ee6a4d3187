//! The contract of backends, rule by rule.

use super::*;
use state_core::testkit::{clock::SeededEntropy, conformance};
use std::collections::BTreeMap;
use std::sync::Mutex;

#[tokio::test]
async fn objects_keep_every_rule_of_the_contract() {
    let open = async || backend(&faulty());
    let results = conformance::run_all(open, &SeededEntropy::new(1)).await;
    assert!(results.len() > 25);
    conformance::expect_all(&results);
}

#[tokio::test]
async fn objects_are_what_they_claim_to_be() {
    let places: Mutex<BTreeMap<u32, Arc<InMemory>>> = Mutex::default();
    let open = async |place: u32| {
        let store = Arc::clone(places.lock().unwrap().entry(place).or_default());
        backend(&FaultyStore::new(store))
    };
    let results = conformance::capabilities::run_all(open, &SeededEntropy::new(1)).await;
    conformance::expect_all(&results);
}

#[tokio::test]
async fn a_bare_store_at_the_root_of_its_bucket_keeps_every_rule_too() {
    let open = async || {
        let options = Options::new("s3://bucket", Path::default());
        ObjectBackend::new(Arc::new(InMemory::new()), options, Opening::Create)
    };
    let results = conformance::run_all(open, &SeededEntropy::new(2)).await;
    conformance::expect_all(&results);
}
