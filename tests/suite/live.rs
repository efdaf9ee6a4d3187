//! The contract of backends on real servers: those that `STATE_TEST_S3_URL` and `STATE_TEST_AZURE_URL` name, as
//! `--backend` would. Without them it says SKIP.

use state_core::backend::Opening;
use state_core::testkit::conformance;
use state_core::testkit::fault::FaultyBackend;
use state_manager::{Actor, BackendRegistry, Environment, StoreRequest};
use std::cell::Cell;

/// The same store under a path that was never used.
fn below(url: &str, run: &str, number: u32) -> String {
    let (place, parameters) = url.split_once('?').unwrap_or((url, ""));
    format!(
        "{}/contract/{run}/{number}?{parameters}",
        place.trim_end_matches('/')
    )
}

async fn keep_every_rule(url: &str) {
    let environment = Environment::system(Actor::default());
    let run: String = environment
        .entropy
        .bits()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let made = Cell::new(0);
    let open = |number: u32| {
        let store = StoreRequest::new(below(url, &run, number));
        let backend = BackendRegistry::default().open(&store, Opening::Create);
        FaultyBackend::new(backend.expect("the URL fits the schema"))
    };
    let empty = async || {
        made.set(made.get() + 1);
        open(made.get())
    };
    let results = conformance::run_all(empty, &*environment.entropy).await;
    conformance::expect_all(&results);
    let places = async |place: u32| open(1_000 + place);
    let results = conformance::capabilities::run_all(places, &*environment.entropy).await;
    conformance::expect_all(&results);
}

#[tokio::test]
async fn an_s3_server_keeps_every_rule_of_the_contract() {
    match std::env::var("STATE_TEST_S3_URL") {
        Ok(url) => keep_every_rule(&url).await,
        Err(_) => eprintln!("SKIP: STATE_TEST_S3_URL isn't set, so no server is asked"),
    }
}

#[tokio::test]
async fn an_azure_server_keeps_every_rule_of_the_contract() {
    match std::env::var("STATE_TEST_AZURE_URL") {
        Ok(url) => keep_every_rule(&url).await,
        Err(_) => eprintln!("SKIP: STATE_TEST_AZURE_URL isn't set, so no server is asked"),
    }
}
