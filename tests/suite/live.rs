//! Tests with real object stores: Ceph's radosgw, Azurite and s3rver. For Google Cloud Storage there is only a mock.
//!
//! `eval "$(cargo xtask servers start ceph azurite s3rver)"` starts the servers and sets environment variables with
//! their URLs; `cargo xtask ci` does both itself. A test whose variable isn't set is skipped.

mod copies;
mod doctor;
mod gcs_mock;
mod long;
mod proxy;
mod refusals;
mod requests;
mod salvage;
mod takeover;
mod untrusted;

use crate::process;
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

/// Number of the next unique URL in this process.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// Returns the value of an environment variable of a server, mostly its URL. Reports a skip and returns `None` if the
/// variable isn't set.
fn server(variable: &str) -> Option<String> {
    let url = std::env::var(variable).ok().filter(|url| !url.is_empty());
    if url.is_none() {
        skip(variable, "a real object store: cargo xtask servers start");
    }
    url
}

/// Returns the URLs of the running servers that conform to the backend contract. s3rver doesn't conform, because it
/// ignores conditional requests.
fn servers() -> Vec<String> {
    let variables = ["STATE_TEST_S3_URL", "STATE_TEST_AZURE_URL"];
    variables.into_iter().filter_map(server).collect()
}

/// Returns the URL of a new, empty prefix on a server.
fn unique_url(server: &str) -> String {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let (bucket, query) = server.split_once('?').unwrap_or((server, ""));
    format!("{bucket}/test-{}-{number}?{query}", std::process::id())
}

/// The exit code and output of a run of `statectl`.
#[derive(Debug)]
struct CommandOutput {
    code: i32,
    out: String,
    err: String,
}

/// Returns a command that runs `statectl` with these arguments, without the settings of the user who runs the test.
fn statectl(arguments: &[&str]) -> Command {
    let mut command = process::statectl(arguments);
    // A folder that doesn't exist, so that there are no settings.
    command.env("XDG_CONFIG_HOME", std::env::temp_dir().join("no-settings"));
    // No known stacks either, because another server may have used the same port before.
    command.env("XDG_STATE_HOME", "").env("HOME", "");
    command
}

fn run(command: &mut Command) -> CommandOutput {
    let output = command.output().expect("the worker runs");
    CommandOutput {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

impl CommandOutput {
    /// Asserts that `statectl` exited with this code.
    #[track_caller]
    fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:#?}");
        self
    }
}

/// Asserts that the backend of a server passes the conformance suite.
fn conforms(server: &str) {
    block_on(async {
        let registry = BackendRegistry::default();
        let make = async || {
            let request = StoreRequest::new(unique_url(server));
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

/// Asserts that the backend of a server has the capabilities that it declares. The test opens one URL several times, as
/// several processes do.
fn matches_its_declared_guarantees(server: &str) {
    block_on(async {
        let registry = BackendRegistry::default();
        let urls: Vec<String> = (0..3).map(|_| unique_url(server)).collect();
        let open = async |number: u32| {
            let request = StoreRequest::new(&urls[number as usize]);
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
    let mock = gcs_mock::Mock::start(gcs_mock::Manner::Smooth);
    conforms(&mock.url("states"));
    matches_its_declared_guarantees(&mock.url("states"));
}
