//! Imports states that Terraform or OpenTofu wrote for resources of real providers, and pushes exports to the same
//! client.

use super::cli::{TerraformCli, copy};
use super::{export, facts, import, read};
use crate::store::{block_on, stack};
use state_core::UpdateKind;
use state_manager::UpdateRequest;
use state_tests::clients;
use std::path::{Path, PathBuf};

/// The providers that the [configuration] requires.
pub(super) const PROVIDERS: [&str; 5] = ["local", "null", "random", "time", "tls"];
const UNTESTED: &str = "states of real providers";

#[test]
fn rollback_preserves_states_of_real_providers() {
    let Some(mirror) = clients::provider_mirror(&PROVIDERS, UNTESTED) else {
        return;
    };
    for terraform in TerraformCli::all_for(UNTESTED) {
        terraform.use_mirror(&mirror);
        survive_a_rollback(&terraform);
    }
}

/// Applies a configuration twice, imports both states, rolls back to the first, and pushes the export to the client.
fn survive_a_rollback(terraform: &TerraformCli) {
    let work = tempfile::tempdir().expect("a folder");
    copy(&configuration(), work.path());
    terraform.init(work.path());
    let first = terraform.apply(work.path(), "replicas=2");
    let second = terraform.apply(work.path(), "replicas=3");
    assert_eq!(instances(&first, "null_resource"), 2, "{terraform}");
    assert_eq!(instances(&second, "null_resource"), 3, "{terraform}");

    let dir = tempfile::tempdir().expect("a folder");
    let rolled_back = block_on(async {
        let stack = stack(dir.path()).await.expect("a new stack");
        let session = stack.lock("import").await.expect("the stack can be locked");
        let old = import(&session, &first).await;
        let new = import(&session, &second).await;
        for (revision, state) in [(&old, &first), (&new, &second)] {
            let snapshot = stack.get(revision).await.expect("an imported revision");
            assert!(export(&snapshot) == *state, "{terraform}: {revision}");
        }
        let request = UpdateRequest::new(UpdateKind::Rollback);
        session.rollback(request, &old).await.expect("a rollback");
        session.close().await.expect("the session closes");
        export(&stack.current().await.expect("the current revision"))
    });
    assert!(read(&rolled_back).snapshot.entries.len() >= 7, "{terraform}");

    let refused = terraform.push_in(work.path(), &first);
    assert!(refused.is_err(), "{terraform} accepted a lower serial");
    let pushed = terraform
        .push_in(work.path(), &rolled_back)
        .expect("the client accepts the rollback");
    assert_eq!(
        facts(&pushed).resources,
        facts(&first).resources,
        "{terraform} must store the resources of the first state"
    );
    let (is_unchanged, output) = terraform.plan_in(work.path(), "replicas=3");
    assert!(!is_unchanged, "{terraform}: no new replica: {output}");
    assert!(
        output.contains("null_resource.replica[2] will be created"),
        "{terraform}: {output}"
    );
    for address in [
        "random_id.suffix",
        "random_password.database",
        "tls_private_key.service",
        "time_static.created",
    ] {
        assert!(
            !output.contains(&format!("# {address}")),
            "{terraform}: the plan must not change {address}: {output}"
        );
    }

    let second_again = terraform.apply(work.path(), "replicas=3");
    let exported = export(&read(&second_again).snapshot);
    assert!(
        exported == second_again,
        "{terraform}: the state must be exported byte for byte"
    );
    let (is_unchanged, output) = terraform.plan_in(work.path(), "replicas=3");
    assert!(is_unchanged, "{terraform}: {output}");
}

/// Returns the folder with a configuration that requires all [PROVIDERS].
pub(super) fn configuration() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/providers-config")
}

/// Returns the number of instances of a resource type in a state.
fn instances(state: &[u8], kind: &str) -> usize {
    let resources = facts(state).resources;
    resources
        .as_array()
        .into_iter()
        .flatten()
        .filter(|resource| resource["type"] == kind)
        .filter_map(|resource| resource["instances"].as_array())
        .map(Vec::len)
        .sum()
}
