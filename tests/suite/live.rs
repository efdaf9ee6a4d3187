//! Tests with real object stores: Ceph's radosgw, Azurite, s3rver. Google Cloud Storage is tested with a mock only.
//!
//! `eval "$(cargo xtask servers start ceph azurite s3rver)"` sets their URLs; `cargo xtask ci` does so itself. Without these
//! variables the tests are skipped.

mod copies;
mod doctor;
mod gcs_mock;
mod long;
mod refusals;
mod takeover;
mod untrusted;

use crate::process::WORKER;
use crate::store::block_on;
use state_core::backend::{Backend, Opening};
use state_core::testkit::clock::SeededEntropy;
use state_core::testkit::conformance;
use state_core::testkit::fault::FaultyBackend;
use state_core::testkit::run::skip;
use state_manager::{BackendRegistry, StoreRequest};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Counter for unique prefixes in this process.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// The URL of a server from the environment. Records a skip and returns None if the variable isn't set.
fn server(variable: &str) -> Option<String> {
    let url = std::env::var(variable).ok().filter(|url| !url.is_empty());
    if url.is_none() {
        skip(variable, "a real object store: cargo xtask servers start");
    }
    url
}

/// The URLs of the running servers that conform to the backend contract.
fn servers() -> Vec<String> {
    let variables = ["STATE_TEST_S3_URL", "STATE_TEST_AZURE_URL"];
    variables.into_iter().filter_map(server).collect()
}

/// A unique URL on a server.
fn place(server: &str) -> String {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let (bucket, query) = server.split_once('?').unwrap_or((server, ""));
    format!("{bucket}/test-{}-{number}?{query}", std::process::id())
}

/// The exit code and output of a run of `statectl`.
#[derive(Debug)]
struct Ran {
    code: i32,
    out: String,
    err: String,
}

/// A command that runs `statectl` with these arguments.
fn statectl(arguments: &[&str]) -> Command {
    let mut command = Command::new(WORKER);
    command.arg("cli").args(arguments);
    for name in [
        "STATECTL_BACKEND",
        "STATECTL_STACK",
        "STATECTL_POLICY",
        "STATECTL_PROFILE",
    ] {
        command.env_remove(name);
    }
    // Ignore the settings of the user who runs the test.
    command.env("XDG_CONFIG_HOME", std::env::temp_dir().join("no-settings"));
    // Ignore known stacks too: another server may have used the same port before.
    command.env("XDG_STATE_HOME", "").env("HOME", "");
    command
}

fn run(command: &mut Command) -> Ran {
    let output = command.output().expect("the worker runs");
    Ran {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

impl Ran {
    #[track_caller]
    fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:#?}");
        self
    }
}

fn conforms(server: &str) {
    block_on(async {
        let registry = BackendRegistry::default();
        let make = async || {
            let request = StoreRequest::new(place(server));
            let backend: Arc<dyn Backend> =
                registry.open(&request, Opening::Create).expect("the store opens");
            // `run_all` needs a sized backend. Without planned faults, this wrapper only forwards calls.
            FaultyBackend::new(backend)
        };
        let results = conformance::run_all(make, &SeededEntropy::new(1)).await;
        assert!(results.len() > 25);
        conformance::expect_all(&results);
    });
}

/// Tests with several handles to one URL, as several processes have them.
fn matches_its_declared_guarantees(server: &str) {
    block_on(async {
        let registry = BackendRegistry::default();
        let places: Vec<String> = (0..3).map(|_| place(server)).collect();
        let open = async |number: u32| {
            let request = StoreRequest::new(&places[number as usize]);
            let backend: Arc<dyn Backend> =
                registry.open(&request, Opening::Create).expect("the store opens");
            FaultyBackend::new(backend)
        };
        let results = conformance::capabilities::run_all(open, &SeededEntropy::new(2)).await;
        assert!(results.len() >= 3);
        conformance::expect_all(&results);
    });
}

#[test]
fn ceph_passes_backend_conformance() {
    if let Some(server) = server("STATE_TEST_S3_URL") {
        conforms(&server);
        matches_its_declared_guarantees(&server);
    }
}

#[test]
fn azurite_passes_backend_conformance() {
    if let Some(server) = server("STATE_TEST_AZURE_URL") {
        conforms(&server);
        matches_its_declared_guarantees(&server);
    }
}

#[test]
fn gcs_mock_passes_backend_conformance() {
    let mock = gcs_mock::Mock::start();
    conforms(&mock.url("states"));
    matches_its_declared_guarantees(&mock.url("states"));
}
