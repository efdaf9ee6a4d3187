//! Promise P9 of `docs/architecture.md`: states of Terraform are exported byte for byte as they were imported, and
//! Terraform accepts exports of later revisions.

mod backend;
mod cli;
mod edits;
mod folder;
mod locks;
mod providers;
mod schemas;

use crate::store::{block_on, environment, stack};
use cli::TerraformCli;
use state_core::{ErrorKind, RevisionId, Snapshot, UpdateKind, codec};
use state_formats::{Formats, Imported, ReadOptions, StateFormat, Terraform};
use state_manager::{Session, Stack, UpdateRequest};
use std::path::PathBuf;

/// The states in `tests/fixtures`, without the extension `.tfstate`.
const FIXTURES: [&str; 4] = ["basic", "shop", "successor", "wide"];

#[test]
fn fixtures_roundtrip_through_a_store_byte_for_byte() {
    for name in FIXTURES {
        let dir = tempfile::tempdir().expect("a folder");
        let text = fixture(name);
        block_on(async {
            let stack = stack(dir.path()).await.expect("a new stack");
            let session = stack.lock("import").await.expect("the stack can be locked");
            import(&session, &text).await;
            session.close().await.expect("the session closes");
        });
        block_on(async {
            let stack = stack(dir.path()).await.expect("the stack opens");
            let current = stack.current().await.expect("the stack has a revision");
            assert!(export(&current) == text, "{name} must be exported byte for byte");
        });
    }
}

#[test]
fn rollback_exports_old_content_with_a_higher_serial() {
    let dir = tempfile::tempdir().expect("a folder");
    block_on(async {
        let scenario = Scenario::run(dir.path()).await;
        let Scenario {
            stack,
            first,
            second,
            last,
        } = &scenario;
        let old = stack.get(first).await.expect("the first revision");
        assert!(
            export(&old) == fixture("shop"),
            "the first import must be exported byte for byte"
        );
        let newer = stack.get(second).await.expect("the second revision");
        assert!(
            export(&newer) == fixture("successor"),
            "the second import must be exported byte for byte"
        );

        let exported = export(&stack.current().await.expect("the current revision"));
        assert_eq!(stack.current_rev().await.expect("a revision"), *last);
        let (shop, successor, now) = (
            facts(&fixture("shop")),
            facts(&fixture("successor")),
            facts(&exported),
        );
        assert_eq!(
            now.lineage, shop.lineage,
            "the lineage must be that of the first import"
        );
        assert_eq!(
            now.resources, shop.resources,
            "the resources must be those of the first import"
        );
        assert_eq!(
            now.outputs, shop.outputs,
            "the outputs must be those of the first import"
        );
        assert!(
            now.serial > successor.serial,
            "the serial must be higher than all before: {}",
            now.serial
        );

        let again = read(&exported);
        assert_eq!(
            again.foreign.map(|meta| meta.serial),
            Some(now.serial),
            "the export must be readable, with its serial"
        );
    });
}

#[test]
fn terraform_accepts_exports_after_a_rollback() {
    let dir = tempfile::tempdir().expect("a folder");
    let (exported, entries) = block_on(async {
        let Scenario { stack, .. } = Scenario::run(dir.path()).await;
        let current = stack.current().await.expect("the current revision");
        let entries: Vec<_> = current
            .entries
            .iter()
            .map(|entry| entry.address.to_string())
            .collect();
        (export(&current), entries)
    });
    let mut ours = entries;
    ours.sort();
    for terraform in TerraformCli::all() {
        assert_eq!(
            terraform.state_list(&exported),
            ours,
            "{terraform}: `state list` must name the entries of the stack"
        );
        assert_eq!(
            terraform.show(&exported),
            ours,
            "{terraform}: `show -json` must name the entries of the stack"
        );
        assert_eq!(
            terraform.state_list(&exported),
            terraform.state_list(&fixture("shop")),
            "{terraform}: the export must have the resources of the first state"
        );

        let refused = terraform.push(&fixture("successor"), &fixture("shop"));
        assert!(
            refused.is_err(),
            "{terraform} must refuse the first state, because its serial is lower"
        );
        let pushed = terraform
            .push(&fixture("successor"), &exported)
            .expect("the client accepts the export");
        let (mut pushed, exported) = (facts(&pushed), facts(&exported));
        terraform.as_terraform_1_11(&mut pushed.resources);
        assert_eq!(
            pushed.resources, exported.resources,
            "{terraform} must store the exported resources"
        );
        assert_eq!(pushed.lineage, exported.lineage);
    }
}

#[test]
fn terraform_plans_no_changes_for_an_exported_state() {
    let dir = tempfile::tempdir().expect("a folder");
    let exported = block_on(async {
        let Scenario { stack, .. } = Scenario::run(dir.path()).await;
        export(&stack.current().await.expect("the current revision"))
    });
    assert!(
        exported != fixture("shop"),
        "the export must differ from the first import, at least in its serial"
    );
    let configuration = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/shop-config");
    for terraform in TerraformCli::all() {
        let (is_unchanged, output) = terraform.plan(&configuration, &exported);
        assert!(is_unchanged, "{terraform}: {output}");
        let (is_unchanged, output) = terraform.plan(&configuration, &fixture("basic"));
        assert!(
            !is_unchanged,
            "{terraform}: a plan over another state must have changes: {output}"
        );
    }
}

#[test]
fn old_states_are_upgraded_like_terraform_does() {
    let clients = TerraformCli::all();
    for name in ["v1", "v2", "v3"] {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!(
            "../crates/state-formats/tests/fixtures/legacy/{name}.tfstate"
        ));
        let old = std::fs::read(path).expect("a fixture");
        let ours: serde_json::Value = serde_json::from_slice(&export(&read(&old).snapshot)).expect("JSON");
        for terraform in &clients {
            let pulled = terraform.pull(&old);
            let mut theirs: serde_json::Value = serde_json::from_slice(&pulled).expect("JSON");
            theirs["terraform_version"] = ours["terraform_version"].clone();
            terraform.as_terraform_1_11(&mut theirs["resources"]);
            assert_eq!(ours, theirs, "{terraform}: {name}");
        }
    }
}

/// A stack with two imports, `shop` and `successor`, and a rollback to the first import.
struct Scenario {
    stack: Stack,
    /// The revision of the import of `shop`.
    first: RevisionId,
    /// The revision of the import of `successor`.
    second: RevisionId,
    /// The revision of the rollback.
    last: RevisionId,
}

impl Scenario {
    async fn run(dir: &std::path::Path) -> Self {
        let stack = stack(dir).await.expect("a new stack");
        let session = stack.lock("import").await.expect("the stack can be locked");
        let first = import(&session, &fixture("shop")).await;
        session.close().await.expect("the session closes");

        let session = stack.lock("import").await.expect("the stack can be locked");
        let second = import(&session, &fixture("successor")).await;
        let request = UpdateRequest::new(UpdateKind::Rollback);
        let unknown = RevisionId::new(state_core::Serial(99), &state_core::Digest::of(b"nothing"));
        let error = session
            .rollback(request.clone(), &unknown)
            .await
            .expect_err("the revision doesn't exist");
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let last = session
            .rollback(request, &first)
            .await
            .expect("the rollback succeeds");
        session.close().await.expect("the session closes");
        Self {
            stack,
            first,
            second,
            last,
        }
    }
}

/// The parts of a state file that the tests compare.
struct Facts {
    lineage: String,
    serial: u64,
    resources: serde_json::Value,
    outputs: serde_json::Value,
}

fn facts(state: &[u8]) -> Facts {
    let json: serde_json::Value = serde_json::from_slice(state).expect("JSON");
    Facts {
        lineage: json["lineage"].as_str().expect("a lineage").to_owned(),
        serial: json["serial"].as_u64().expect("a serial"),
        resources: json["resources"].clone(),
        outputs: json["outputs"].clone(),
    }
}

fn fixture(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("fixtures/{name}.tfstate"));
    std::fs::read(path).expect("a fixture")
}

fn read(state: &[u8]) -> Imported {
    let clock = environment().clock;
    Terraform
        .read(state.to_vec().into(), &ReadOptions::new(&*clock))
        .expect("a state that Terraform wrote is valid")
}

async fn import(session: &Session, state: &[u8]) -> RevisionId {
    let Imported {
        snapshot, foreign, ..
    } = read(state);
    let foreign = foreign.map(|meta| (meta.system.to_owned(), meta.serial));
    session
        .import(UpdateRequest::new(UpdateKind::Import), snapshot, foreign)
        .await
        .expect("the state is imported")
}

/// Exports a snapshot, and asserts that the stored form gives the same export.
fn export(snapshot: &Snapshot) -> Vec<u8> {
    let formats = Formats::standard();
    let export = |snapshot| {
        let exported = formats.export(snapshot, &Terraform);
        exported.expect("the snapshot was imported from Terraform")
    };
    let exported = export(snapshot);
    let stored =
        codec::decode("snapshot", &codec::encode_stored(snapshot)).expect("the stored form can be decoded");
    assert!(
        export(&stored) == exported,
        "the stored form must give the same export"
    );
    exported
}
