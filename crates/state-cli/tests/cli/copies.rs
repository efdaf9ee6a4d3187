//! `copy`: copies the whole history to another store.

use crate::sandbox::Sandbox;

#[test]
fn copy_has_the_whole_history_and_refuses_divergence() {
    let sandbox = Sandbox::with_shop();
    sandbox.import("successor.tfstate").exits(0);
    let copied = sandbox.run(&["copy", ".state", "file://there"]).exits(0);
    assert!(copied.stdout.contains("copied"), "{copied:?}");
    let history = |store: &str| {
        sandbox
            .run(&["history", "--json", "--backend", store])
            .exits(0)
            .stdout
    };
    assert_eq!(history("file://there"), history(".state"));
    sandbox
        .run(&["verify", "--deep", "--backend", "file://there"])
        .exits(0);
    let again = sandbox
        .run(&["copy", ".state", "file://there", "--json"])
        .exits(0);
    assert_eq!(again.data("copy")["stacks"][0]["was-there"], true);

    sandbox
        .run(&["rollback", "1", "--yes", "--backend", "file://there"])
        .exits(0);
    let ahead = sandbox.run(&["copy", ".state", "file://there"]).exits(13);
    assert!(ahead.stderr.contains("the copy is ahead by"), "{ahead:?}");
    sandbox.run(&["rollback", "1", "--yes"]).exits(0);
    let diverged = sandbox.run(&["copy", ".state", "file://there"]).exits(13);
    assert!(diverged.stderr.contains("diverge from slot"), "{diverged:?}");
}

#[test]
fn copy_of_a_missing_source_creates_no_store() {
    let sandbox = Sandbox::with_shop();
    sandbox.run(&["copy", "file://nowhere", "file://there"]).exits(10);
    sandbox
        .run(&["copy", ".state", "file://there", "--stack", "other"])
        .exits(10);
    assert!(!sandbox.path().join("there").exists());
    let empty = Sandbox::new();
    empty.run(&["init"]).exits(0);
    empty.run(&["copy", ".state", "file://there"]).exits(10);
    assert!(!empty.path().join("there").exists());
}

#[test]
fn later_copy_brings_the_copy_up_to_date() {
    let sandbox = Sandbox::with_shop();
    let copy = ["copy", ".state", "file://there"];
    sandbox.run(&copy).exits(0);
    sandbox.run(&["rollback", "1", "--yes"]).exits(0);
    sandbox
        .run(&["taint", "terraform_data.database", "--yes"])
        .exits(0);
    let again = sandbox.run(&copy).exits(0);
    assert!(again.stdout.contains("brought up to date with"), "{again:?}");
    let history = |store: &str| {
        sandbox
            .run(&["history", "--json", "--backend", store])
            .exits(0)
            .stdout
    };
    assert_eq!(history("file://there"), history(".state"));
    sandbox
        .run(&["verify", "--deep", "--backend", "file://there"])
        .exits(0);
    let idle = sandbox.run(&copy).exits(0);
    assert!(idle.stdout.contains("already up to date"), "{idle:?}");
}
