//! The conformance suite of backends, on object stores.

use super::*;
use state_core::testkit::{clock::SeededEntropy, conformance};
use std::collections::BTreeMap;
use std::sync::Mutex;

#[tokio::test]
async fn object_stores_pass_the_conformance_suite() {
    let open = async || backend(&faulty());
    let results = conformance::run_all(open, &SeededEntropy::new(1)).await;
    assert!(results.len() > 25);
    conformance::expect_all(&results);
}

#[tokio::test]
async fn object_stores_have_the_capabilities_they_claim() {
    let places: Mutex<BTreeMap<u32, Arc<InMemory>>> = Mutex::default();
    let open = async |place: u32| {
        let store = Arc::clone(places.lock().unwrap().entry(place).or_default());
        backend(&FaultyStore::new(store))
    };
    let results = conformance::capabilities::run_all(open, &SeededEntropy::new(1)).await;
    conformance::expect_all(&results);
}

#[tokio::test]
async fn store_without_prefix_passes_the_conformance_suite() {
    let open = async || {
        let options = Options::new("s3://bucket", Path::default());
        ObjectBackend::new(Arc::new(InMemory::new()), options, Opening::Create)
    };
    let results = conformance::run_all(open, &SeededEntropy::new(2)).await;
    conformance::expect_all(&results);
}
