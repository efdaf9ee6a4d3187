//! `doctor` accepts conforming servers, and refuses a server that ignores conditional requests.

use super::gcs_mock::{Manner, Mock};
use super::{run, server, servers, statectl, unique_url};
use state_tests::large::terraform_state;

/// The default access key id of s3rver, which is also its default secret key.
const S3RVER: &str = "S3RVER";

/// Runs `doctor`, asserts that it reports the store as sound, and returns its findings.
fn examined(url: &str) -> serde_json::Value {
    let ran = run(&mut statectl(&["doctor", url, "--json"])).exits(0);
    let document: serde_json::Value = serde_json::from_str(&ran.out).expect("the output is JSON");
    assert_eq!(document["data"]["sound"], true, "{document:#}");
    document["data"]["findings"].clone()
}

#[test]
fn doctor_passes_conforming_servers() {
    for server in servers() {
        let findings = examined(&unique_url(&server));
        let checks: Vec<&str> = findings
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|finding| finding["check"].as_str())
            .collect();
        for check in [
            "reads",
            "create-if-absent",
            "conditions",
            "compare-and-swap",
            "lists",
        ] {
            assert!(checks.contains(&check), "{findings:#}");
        }
        // The S3 server of this test is Ceph's radosgw, which accepts only ETags without quotes. The client detects
        // this and reports it as `etags`.
        assert_eq!(
            checks.contains(&"etags"),
            server.starts_with("s3:"),
            "{findings:#}"
        );
        assert!(!checks.contains(&"clean-up"), "{findings:#}");
    }
}

#[test]
fn doctor_passes_the_gcs_mock() {
    let mock = Mock::start(Manner::Smooth);
    examined(&mock.url("states"));
    assert_eq!(mock.objects(), 0, "doctor must leave no objects");
}

#[test]
fn store_with_limited_writes_is_waited_for() {
    let mock = Mock::start(Manner::Strained);
    let url = mock.url("states");
    examined(&url);
    assert_eq!(mock.objects(), 0, "doctor must leave no objects");
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("terraform.tfstate");
    std::fs::write(&state, terraform_state(100)).expect("a file");
    let state = state.to_str().expect("a path of plain text");
    let on_store = |arguments: &[&str]| {
        let mut command = statectl(&["--backend", &url]);
        command.env("STATECTL_POLICY", "plaintext").args(arguments);
        run(&mut command).exits(0)
    };
    on_store(&["init"]);
    on_store(&["import", state]);
    let before = on_store(&["list"]).out;
    let first = before.lines().next().expect("a resource").to_owned();
    on_store(&["taint", &first, "--yes"]);
    on_store(&["untaint", &first, "--yes"]);
    on_store(&["undo", "--yes"]);
    assert_eq!(on_store(&["list"]).out, before);
    on_store(&["verify", "--deep"]);
    assert!(mock.refused() > 0, "the limit was never met");
}

#[test]
fn store_that_ignores_conditions_is_refused() {
    let Some(server) = server("STATE_TEST_S3RVER_URL") else {
        return;
    };
    let url = unique_url(&server);
    let keys = [("AWS_ACCESS_KEY_ID", S3RVER), ("AWS_SECRET_ACCESS_KEY", S3RVER)];
    let report = run(statectl(&["doctor", &url]).envs(keys)).exits(15);
    for part in ["FAILS", "create-if-absent", "not safe"] {
        assert!(report.out.contains(part), "{report:?}");
    }
    let first_write = run(statectl(&["init", "--backend", &url]).envs(keys)).exits(15);
    assert!(first_write.err.contains("create-if-absent"), "{first_write:?}");
}
