//! `import` and `export` lose no data, and overwrite none without `--force`.

use crate::sandbox::{Sandbox, fixture};
use std::os::unix::fs::PermissionsExt;

#[test]
fn terraform_state_is_exported_byte_for_byte_as_imported() {
    for name in ["basic.tfstate", "shop.tfstate", "wide.tfstate"] {
        let sandbox = Sandbox::new();
        sandbox.import(name).exits(0);
        let exported = sandbox.run(&["export"]).exits(0);
        assert_eq!(
            exported.stdout,
            std::fs::read_to_string(fixture(name)).unwrap(),
            "{name}"
        );
        assert_eq!(exported.stderr, "");
    }
}

#[test]
fn import_creates_store_and_stack_and_warns_of_plaintext() {
    let sandbox = Sandbox::new();
    let ran = sandbox.import("shop.tfstate").exits(0);
    assert!(
        ran.stdout
            .contains("imported 29 resources and 4 outputs into stack default"),
        "{ran:?}"
    );
    assert!(
        ran.stderr.contains("27 sensitive values are stored in plaintext"),
        "{ran:?}"
    );
    assert!(sandbox.path().join(".state/format").is_file());
}

#[test]
fn import_of_an_unchanged_state_writes_no_revision() {
    let sandbox = Sandbox::with_shop();
    let ran = sandbox.import("shop.tfstate").exits(0);
    assert!(ran.stdout.contains("nothing changed"), "{ran:?}");
    assert_eq!(sandbox.history().len(), 1);
}

#[test]
fn newer_state_keeps_the_uids_of_remaining_resources() {
    let sandbox = Sandbox::with_shop();
    let uid = |sandbox: &Sandbox| {
        let shown = sandbox
            .run(&["show", "terraform_data.database", "--json"])
            .data("show");
        shown["entries"][0]["uid"].as_str().unwrap().to_owned()
    };
    let before = uid(&sandbox);
    sandbox.import("successor.tfstate").exits(0);
    assert_eq!(uid(&sandbox), before);
    assert_eq!(sandbox.history().len(), 2);
}

#[test]
fn older_state_is_refused_unless_forced() {
    let sandbox = Sandbox::new();
    sandbox.import("successor.tfstate").exits(0);
    let refused = sandbox.import("shop.tfstate").exits(13);
    assert!(refused.stderr.contains("serial 30"), "{refused:?}");
    assert!(
        refused.stderr.contains("hint:") && refused.stderr.contains("--force"),
        "{refused:?}"
    );
    assert_eq!(sandbox.history().len(), 1);
    let shop = fixture("shop.tfstate");
    sandbox
        .run(&[
            "import",
            "--force",
            "-m",
            "after the outage",
            shop.to_str().unwrap(),
        ])
        .exits(0);
    let history = sandbox.history();
    assert_eq!(history[0]["forced"], true);
    assert_eq!(history[0]["message"], "after the outage");
    assert_eq!(history[1]["forced"], false);
}

#[test]
fn state_with_another_lineage_is_refused() {
    let sandbox = Sandbox::with_shop();
    let refused = sandbox.import("basic.tfstate").exits(13);
    assert!(refused.stderr.contains("different objects"), "{refused:?}");
    assert_eq!(sandbox.history().len(), 1);
}

#[test]
fn import_reads_stdin_with_a_dash() {
    let sandbox = Sandbox::new();
    let state = std::fs::File::open(fixture("basic.tfstate")).unwrap();
    let mut command = sandbox.command(&["import", "-", "--stack", "net/prod"]);
    crate::sandbox::run(command.stdin(state)).exits(0);
    let listed = sandbox.run(&["list", "--json"]).data("list");
    assert_eq!(listed["stack"], "net/prod");
    assert_eq!(listed["entries"].as_array().unwrap().len(), 2);
}

#[test]
fn native_export_can_be_imported_into_another_store() {
    let (here, there) = (Sandbox::with_shop(), Sandbox::new());
    let native = here.run(&["export", "--format", "native"]).exits(0).stdout;
    let file = there.write("state.json", &native);
    there.run(&["import", file.to_str().unwrap()]).exits(0);
    there.run(&["verify"]).exits(0);
    let shop = std::fs::read_to_string(fixture("shop.tfstate")).unwrap();
    assert_eq!(here.run(&["export"]).stdout, shop);
    let again = there.run(&["import", file.to_str().unwrap()]).exits(0);
    assert!(again.stdout.contains("nothing changed"), "{again:?}");
}

#[test]
fn invalid_state_is_refused_with_all_violations() {
    let sandbox = Sandbox::with_shop();
    let entry = |address: &str, to: &str| {
        format!(r#"{{"address":"{address}","type":"leaf","kind":"k","depends-on":["{to}"]}}"#)
    };
    let document = format!(
        r#"{{"format-version":1,"stack":{{"name":"f"}},"deployment-id":"x","generated-at":"2026-01-01T00:00:00Z","entries":[{},{}]}}"#,
        entry("a", "gone"),
        entry("b", "missing")
    );
    let file = sandbox.write("broken.json", document);
    let refused = sandbox
        .run(&["import", file.to_str().unwrap(), "--stack", "other"])
        .exits(14);
    assert!(
        refused.stderr.contains("gone") && refused.stderr.contains("missing"),
        "{refused:?}"
    );
    let stacks = sandbox.run(&["stack", "ls", "--json"]).data("stack-list");
    assert_eq!(stacks.as_array().unwrap().len(), 1);
}

#[test]
fn exported_file_is_private_and_overwrites_only_with_force() {
    let sandbox = Sandbox::with_shop();
    sandbox.run(&["export", "-o", "out.tfstate"]).exits(0);
    let out = sandbox.path().join("out.tfstate");
    assert_eq!(
        std::fs::metadata(&out).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert_eq!(
        std::fs::read(&out).unwrap(),
        std::fs::read(fixture("shop.tfstate")).unwrap()
    );
    std::fs::write(&out, "mine").unwrap();
    let refused = sandbox.run(&["export", "-o", "out.tfstate"]).exits(4);
    assert!(refused.stderr.contains("--force"), "{refused:?}");
    assert_eq!(std::fs::read(&out).unwrap(), b"mine");
    sandbox.run(&["export", "-o", "out.tfstate", "--force"]).exits(0);
    assert_eq!(
        std::fs::read(&out).unwrap(),
        std::fs::read(fixture("shop.tfstate")).unwrap()
    );
    let there = std::fs::read_dir(sandbox.path()).unwrap();
    let mut there: Vec<_> = there.map(|item| item.unwrap().file_name()).collect();
    there.sort();
    assert_eq!(
        there,
        [".state", "out.tfstate", "user-state"],
        "no temporary file may remain"
    );
}

#[test]
fn failed_export_leaves_no_file_and_keeps_an_old_one() {
    let sandbox = Sandbox::with_shop();
    sandbox.write("old.json", "mine");
    for file in ["new.json", "old.json"] {
        let arguments = ["export", "--format", "unobin", "--force", "-o", file];
        sandbox.run(&arguments).exits(1);
    }
    let there = std::fs::read_dir(sandbox.path()).unwrap();
    let mut there: Vec<_> = there.map(|item| item.unwrap().file_name()).collect();
    there.sort();
    assert_eq!(there, [".state", "old.json", "user-state"]);
    assert_eq!(std::fs::read(sandbox.path().join("old.json")).unwrap(), b"mine");
}

#[test]
fn earlier_revision_is_exported_unchanged() {
    let sandbox = Sandbox::with_shop();
    sandbox.import("successor.tfstate").exits(0);
    let shop = std::fs::read_to_string(fixture("shop.tfstate")).unwrap();
    assert_eq!(sandbox.run(&["export", "--rev", "1"]).exits(0).stdout, shop);
    assert_eq!(sandbox.run(&["export", "--rev", "@-"]).exits(0).stdout, shop);
    sandbox.run(&["export", "--rev", "9"]).exits(10);
}
