//! Object stores that are really there: Ceph's radosgw, Azurite, s3rver. For Google's there is only a mock.
//!
//! `eval "$(cargo xtask servers start ceph azurite s3rver)"` says where they are; `cargo xtask ci` does so by itself.
//! Without these variables the tests say SKIP.

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

/// Numbers the places of this process.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A URL from the environment. None, loudly, where nobody says where the server is.
fn server(variable: &str) -> Option<String> {
    let url = std::env::var(variable).ok().filter(|url| !url.is_empty());
    if url.is_none() {
        skip(variable, "a real object store: cargo xtask servers start");
    }
    url
}

/// The servers that keep their promises, as far as they are there.
fn servers() -> Vec<String> {
    let variables = ["STATE_TEST_S3_URL", "STATE_TEST_AZURE_URL"];
    variables.into_iter().filter_map(server).collect()
}

/// A place of its own on a server.
fn place(server: &str) -> String {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let (bucket, query) = server.split_once('?').unwrap_or((server, ""));
    format!("{bucket}/test-{}-{number}?{query}", std::process::id())
}

/// How a run of `statectl` ended.
#[derive(Debug)]
struct Ran {
    code: i32,
    out: String,
    err: String,
}

/// `statectl` with these arguments.
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
    // Nobody's settings.
    command.env("XDG_CONFIG_HOME", std::env::temp_dir().join("no-settings"));
    // And nobody's memory: a port may have been another server's.
    command.env("XDG_STATE_HOME", "").env("HOME", "");
    command
}

fn run(command: &mut Command) -> Ran {
    let output = command.output().expect("it runs");
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
            let backend: Arc<dyn Backend> = registry.open(&request, Opening::Create).expect("it opens");
            // It does nothing but pass on.
            FaultyBackend::new(backend)
        };
        let results = conformance::run_all(make, &SeededEntropy::new(1)).await;
        assert!(results.len() > 25);
        conformance::expect_all(&results);
    });
}

/// Several handles to one place, as several processes have them.
fn matches_its_declared_guarantees(server: &str) {
    block_on(async {
        let registry = BackendRegistry::default();
        let places: Vec<String> = (0..3).map(|_| place(server)).collect();
        let open = async |number: u32| {
            let request = StoreRequest::new(&places[number as usize]);
            let backend: Arc<dyn Backend> = registry.open(&request, Opening::Create).expect("it opens");
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
