//! After a writer crashed while it changed real resources, every reading command warns until the state is confirmed.

use crate::sandbox::{Sandbox, fixture};
use serde_json::Value;
use state_core::target::SnapshotProvider;
use state_manager::{Actor, Environment, Stacks};

/// Returns a sandbox with a stack that a crashed writer left marked as unreliable.
fn abandoned() -> Sandbox {
    let sandbox = Sandbox::with_shop();
    let url = format!("file://{}", sandbox.path().join(".state").display());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let stacks = Stacks::open(&url, Environment::system(Actor::default())).unwrap();
        drop(stacks.begin_mutation(&"default".parse().unwrap()).await.unwrap());
    });
    // The update of the crashed writer stays open until the next writer takes the lock.
    drop(runtime);
    sandbox
}

fn is_reliable(sandbox: &Sandbox) -> bool {
    let stacks = sandbox.run(&["stack", "ls", "--json"]).data("stack-list");
    let listed = sandbox.run(&["list", "--json"]).data("list");
    assert_eq!(stacks[0]["reliable"], listed["reliable"]);
    assert_eq!(stacks[0]["invalidated"], listed["invalidated"]);
    assert_eq!(listed["invalidated"].is_null(), listed["reliable"] == true);
    listed["reliable"] == true
}

#[test]
fn every_reading_command_warns_of_an_unreliable_state() {
    let sandbox = abandoned();
    assert!(!is_reliable(&sandbox));
    for open in [true, false] {
        for arguments in [
            &["list"][..],
            &["export"],
            &["show", "terraform_data.database"],
            &["outputs"],
            &["find", "x"],
            &["graph"],
            &["pending", "list"],
        ] {
            let ran = sandbox.run(arguments).exits(0);
            assert!(ran.stderr.contains("is unreliable"), "{ran:?}");
            assert_eq!(ran.stderr.contains("pending trust"), !open, "{ran:?}");
        }
        assert!(sandbox.run(&["stack", "ls"]).stdout.contains("unreliable"));
        let exported = sandbox.run(&["export", "--json"]).exits(0).json();
        assert_eq!(exported["data"]["reliable"], false);
        assert!(exported["warnings"].to_string().contains("is unreliable"));
        // An edit ends the update of the crashed writer, but doesn't make the state reliable.
        sandbox
            .run(&["protect", "terraform_data.database", "--yes"])
            .exits(0);
    }
    let native = sandbox.run(&["export", "--format", "native"]).exits(0).stdout;
    let native: Value = serde_json::from_str(&native).unwrap();
    assert!(native["invalidated"]["since"].is_string());
    let then = sandbox
        .run(&["list", "--at", "@-", "--json"])
        .exits(0)
        .data("list");
    assert_eq!(then["reliable"], false);
    let before = sandbox
        .run(&["list", "--at", "1", "--json"])
        .exits(0)
        .data("list");
    assert_eq!(before["reliable"], true);
    let exported = sandbox.run(&["export", "--rev", "@-"]).exits(0);
    assert!(
        exported.stderr.contains("this revision is unreliable"),
        "{exported:?}"
    );
    assert!(sandbox.run(&["verify"]).exits(0).stderr.is_empty());
}

#[test]
fn pending_trust_clears_the_unreliable_mark() {
    let sandbox = abandoned();
    let trusted = sandbox
        .run(&["pending", "trust", "--json"])
        .exits(0)
        .data("pending-trust");
    assert_eq!(trusted["changed"], true);
    assert!(is_reliable(&sandbox));
    assert_eq!(sandbox.run(&["list"]).exits(0).stderr, "");
    let again = sandbox
        .run(&["pending", "trust", "--json"])
        .exits(0)
        .data("pending-trust");
    assert_eq!(
        (&again["changed"], &again["revision"]),
        (&Value::Bool(false), &trusted["revision"])
    );
    let text = sandbox.run(&["pending", "trust"]).exits(0);
    assert!(text.stdout.contains("nothing to do"), "{text:?}");
}

#[test]
fn import_of_an_equal_state_clears_the_unreliable_mark() {
    let sandbox = abandoned();
    // The first edit also ends the update of the crashed writer, which increases the serial.
    sandbox
        .run(&["unprotect", "terraform_data.database", "--yes"])
        .exits(0);
    sandbox
        .run(&["protect", "terraform_data.database", "--yes"])
        .exits(0);
    sandbox
        .run(&["unprotect", "terraform_data.database", "--yes"])
        .exits(0);
    sandbox.run(&["export", "-o", "same.tfstate"]).exits(0);
    let import = ["import", "--json", "same.tfstate"];
    let imported = sandbox.run(&import).exits(0).data("import");
    assert_eq!(imported["changed"], true);
    assert!(is_reliable(&sandbox));
    let again = sandbox.run(&import).exits(0).data("import");
    assert_eq!(again["changed"], false);
    let sandbox = abandoned();
    let successor = fixture("successor.tfstate");
    sandbox
        .run(&["import", "--force", successor.to_str().unwrap()])
        .exits(0);
    assert!(is_reliable(&sandbox));
}

#[test]
fn import_of_an_unreliable_export_warns() {
    let sandbox = abandoned();
    sandbox
        .run(&["export", "--format", "native", "-o", "marked.json"])
        .exits(0);
    let elsewhere = Sandbox::new();
    let file = sandbox.path().join("marked.json");
    let imported = elsewhere.run(&["import", file.to_str().unwrap()]).exits(0);
    assert!(
        imported.stderr.contains("exported from an unreliable state"),
        "{imported:?}"
    );
}
