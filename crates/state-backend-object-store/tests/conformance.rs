//! The contract of backends, rule by rule, on a store in memory.

use object_store::memory::InMemory;
use object_store::path::Path;
use state_backend_object_store::{ObjectBackend, Options, object_store};
use state_core::backend::Opening;
use state_core::testkit::{clock::SeededEntropy, conformance};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

fn backend(store: Arc<InMemory>) -> ObjectBackend {
    let options = Options::new("memory-objects:", Path::from("a/prefix"));
    ObjectBackend::new(store, options, Opening::Create)
}

#[tokio::test]
async fn objects_keep_every_rule_of_the_contract() {
    let open = async || backend(Arc::default());
    let results = conformance::run_all(open, &SeededEntropy::new(1)).await;
    assert!(results.len() > 25);
    conformance::expect_all(&results);
}

#[tokio::test]
async fn objects_are_what_they_claim_to_be() {
    let places: Mutex<BTreeMap<u32, Arc<InMemory>>> = Mutex::default();
    let open = async |place: u32| backend(Arc::clone(places.lock().unwrap().entry(place).or_default()));
    let results = conformance::capabilities::run_all(open, &SeededEntropy::new(1)).await;
    conformance::expect_all(&results);
}
