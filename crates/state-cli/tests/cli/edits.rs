//! Commands that edit the state: each shows its changes, asks for confirmation, and creates one revision or none.

use crate::sandbox::{CommandOutput, Sandbox, run};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;

const DATABASE: &str = "terraform_data.database";
const MIGRATION: &str = "terraform_data.migration";

fn entry(sandbox: &Sandbox, address: &str) -> Value {
    let shown = sandbox.run(&["show", address, "--json"]).exits(0).data("show");
    shown["entries"][0].clone()
}

fn addresses(sandbox: &Sandbox) -> Vec<String> {
    let listed = sandbox.run(&["list", "--json"]).exits(0).data("list");
    let entries = listed["entries"].as_array().unwrap();
    let address = |entry: &Value| entry["address"].as_str().unwrap().to_owned();
    entries.iter().map(address).collect()
}

/// Runs a command with this shell script as the editor. The script gets the path of the edited text as `$1`.
fn edit(sandbox: &Sandbox, arguments: &[&str], script: &str) -> CommandOutput {
    let editor = sandbox.write("editor.sh", format!("#!/bin/sh\nset -e\n{script}\n"));
    std::fs::set_permissions(&editor, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = sandbox.command(arguments);
    run(command.env_remove("VISUAL").env("EDITOR", editor))
}

#[test]
fn move_updates_references_and_keeps_terraform_export() {
    let sandbox = Sandbox::with_shop();
    let uid = entry(&sandbox, DATABASE)["uid"].clone();
    let asked = sandbox.run(&["mv", DATABASE, "terraform_data.db"]).exits(4);
    assert!(
        asked
            .stderr
            .contains("terraform_data.database -> terraform_data.db"),
        "{asked:?}"
    );
    assert_eq!(sandbox.history().len(), 1);
    let moved = sandbox
        .run(&["mv", DATABASE, "terraform_data.db", "--yes", "--json"])
        .exits(0)
        .data("mv");
    assert_eq!(moved["changes"][0]["moved-from"], DATABASE);
    assert_eq!(moved["changes"][1]["entry"], MIGRATION);
    assert_eq!(entry(&sandbox, "terraform_data.db")["uid"], uid);
    let history = sandbox.history();
    assert_eq!(history.len(), 2);
    assert_eq!(history[0]["kind"], "edit");
    assert_eq!(
        history[0]["message"],
        "mv terraform_data.database terraform_data.db"
    );
    let exported = sandbox.run(&["export"]).exits(0).stdout;
    assert!(
        !exported.contains(DATABASE),
        "dependents must name the new address"
    );
    let there = Sandbox::new();
    let file = there.write("moved.tfstate", exported);
    there.run(&["import", file.to_str().unwrap()]).exits(0);
    assert_eq!(addresses(&there), addresses(&sandbox));
    sandbox
        .run(&["mv", "terraform_data.db", MIGRATION, "--yes"])
        .exits(13);
    let slip = sandbox.run(&["mv", "terraform_data.dc", "x", "--yes"]).exits(10);
    assert!(
        slip.stderr.contains("did you mean `terraform_data.db`"),
        "{slip:?}"
    );
}

#[test]
fn a_removal_is_refused_while_something_depends_on_it() {
    let sandbox = Sandbox::with_shop();
    let refused = sandbox.run(&["rm", DATABASE, "--yes"]).exits(4);
    assert!(
        refused.stderr.contains(MIGRATION) && refused.stderr.contains("--cascade"),
        "{refused:?}"
    );
    assert_eq!(sandbox.history().len(), 1);
    let network = r#"module.service["api"].terraform_data.network"#;
    let pruned = sandbox
        .run(&["rm", network, "--force", "--yes", "--json"])
        .exits(0)
        .data("rm");
    assert_eq!(
        pruned["changes"].as_array().unwrap().len(),
        1,
        "the other resources of the group must not be removed"
    );
    assert_eq!(sandbox.history()[0]["forced"], true);
    sandbox.run(&["rm", DATABASE, "--cascade", "--yes"]).exits(0);
    let left = addresses(&sandbox);
    assert_eq!(left.len(), 26);
    assert!(!left.contains(&MIGRATION.to_owned()));
    sandbox.run(&["verify", "--deep"]).exits(0);
}

#[test]
fn marks_are_set_and_removed_for_one_or_all_resources() {
    let sandbox = Sandbox::with_shop();
    sandbox.run(&["protect", DATABASE, "--yes"]).exits(0);
    let refused = sandbox.run(&["rm", DATABASE, MIGRATION, "--yes"]).exits(4);
    assert!(refused.stderr.contains("unprotect"), "{refused:?}");
    let again = sandbox.run(&["protect", DATABASE, "--yes"]).exits(0);
    assert!(again.stdout.contains("nothing changed"), "{again:?}");
    assert_eq!(sandbox.history().len(), 2);
    sandbox.run(&["unprotect", "--all", "--yes"]).exits(0);
    sandbox.run(&["taint", "--all", "--yes"]).exits(0);
    assert_eq!(sandbox.run(&["export"]).stdout.matches("\"tainted\"").count(), 29);
    sandbox.run(&["untaint", DATABASE, MIGRATION, "--yes"]).exits(0);
    assert_eq!(sandbox.run(&["export"]).stdout.matches("\"tainted\"").count(), 27);
    sandbox.run(&["taint"]).exits(2);
    sandbox.run(&["taint", "x", "--all"]).exits(2);
}

#[test]
fn a_batch_is_all_or_nothing() {
    let sandbox = Sandbox::with_shop();
    let operations = |last: &str| {
        format!(
            r#"{{"operations":[{{"op":"mv","from":"{DATABASE}","to":"terraform_data.db"}},
                {{"op":"taint","addresses":["terraform_data.db"]}},{last}]}}"#
        )
    };
    let bad = sandbox.write("bad.json", operations(r#"{"op":"rm","addresses":["gone"]}"#));
    let refused = sandbox
        .run(&["apply-edits", bad.to_str().unwrap(), "--yes"])
        .exits(10);
    assert!(refused.stderr.contains("operation 3"), "{refused:?}");
    assert_eq!(sandbox.history().len(), 1);
    let removal = format!(r#"{{"op":"rm","addresses":["{MIGRATION}"]}}"#);
    let good = sandbox.write("good.json", operations(&removal));
    sandbox
        .run(&["apply-edits", good.to_str().unwrap(), "--yes"])
        .exits(0);
    assert_eq!(sandbox.history().len(), 2);
    assert_eq!(entry(&sandbox, "terraform_data.db")["marks"][0], "tainted");
    let odd = sandbox.write("odd.json", r#"{"operations":[{"op":"explode"}]}"#);
    sandbox.run(&["apply-edits", odd.to_str().unwrap()]).exits(2);
}

#[test]
fn undo_reverts_a_change_and_a_second_undo_redoes_it() {
    let sandbox = Sandbox::with_shop();
    let first = sandbox.run(&["undo", "--yes"]).exits(13);
    assert!(first.stderr.contains("nothing to undo"), "{first:?}");
    let before = addresses(&sandbox);
    sandbox.run(&["rm", MIGRATION, "--yes"]).exits(0);
    let asked = sandbox.run(&["undo"]).exits(4);
    assert!(asked.stderr.contains("+ terraform_data.migration"), "{asked:?}");
    sandbox.run(&["undo", "--yes"]).exits(0);
    assert_eq!(addresses(&sandbox), before);
    sandbox.run(&["undo", "--yes"]).exits(0);
    assert!(!addresses(&sandbox).contains(&MIGRATION.to_owned()));
    let history = sandbox.history();
    assert_eq!(history.len(), 4);
    assert_eq!(history[0]["kind"], "rollback");
}

#[test]
fn edit_of_a_resource_hides_secrets_and_keeps_them() {
    let sandbox = Sandbox::with_shop();
    let before = sandbox
        .run(&["show", DATABASE, "--json", "--show-secrets"])
        .data("show");
    let script = r#"cp "$1" seen.json; stat -c %a "$1" > mode; sed -i 's/^  "type": "leaf"/  "protect": true,\n&/' "$1""#;
    edit(&sandbox, &["edit", DATABASE, "--yes"], script).exits(0);
    let seen = std::fs::read_to_string(sandbox.path().join("seen.json")).unwrap();
    assert!(seen.starts_with("// Resource terraform_data.database."), "{seen}");
    assert!(seen.contains("(sensitive)"), "{seen}");
    let mode = std::fs::read_to_string(sandbox.path().join("mode")).unwrap();
    assert_eq!(mode.trim(), "600");
    let after = sandbox
        .run(&["show", DATABASE, "--json", "--show-secrets"])
        .data("show");
    assert_eq!(after["entries"][0]["marks"][0], "protected");
    for field in ["inputs", "outputs", "extensions", "id"] {
        assert_eq!(after["entries"][0][field], before["entries"][0][field], "{field}");
    }
    let tampered = edit(
        &sandbox,
        &["edit", DATABASE, "--yes"],
        r#"sed -i 's/(sensitive)/guessed/' "$1""#,
    )
    .exits(14);
    assert!(tampered.stderr.contains("--show-secrets"), "{tampered:?}");
    assert_eq!(sandbox.history().len(), 2);
}

#[test]
fn invalid_edit_reopens_until_it_is_valid_or_empty() {
    let sandbox = Sandbox::with_shop();
    let orphaned = r#"sed -i 's/^  "type": "leaf"/  "parent": "nowhere",\n&/' "$1""#;
    let stuck = format!("if [ ! -e once ]; then touch once; {orphaned}; fi");
    let given_up = edit(&sandbox, &["edit", MIGRATION, "--yes"], &stuck).exits(14);
    assert!(given_up.stderr.contains("nowhere"), "{given_up:?}");
    assert_eq!(sandbox.history().len(), 1);
    let mended = format!(
        r#"if [ -e twice ]; then cp "$1" second.json; sed -i 's/"nowhere"/"{DATABASE}"/' "$1"
        else touch twice; {orphaned}; fi"#
    );
    edit(&sandbox, &["edit", MIGRATION, "--yes"], &mended).exits(0);
    let second = std::fs::read_to_string(sandbox.path().join("second.json")).unwrap();
    let notes: Vec<&str> = second.lines().filter(|line| line.starts_with("// ")).collect();
    assert!(
        notes.len() == 2 && notes[1].contains("`parent` names nowhere, which does not exist"),
        "{second}"
    );
    assert_eq!(entry(&sandbox, MIGRATION)["parent"], DATABASE);
    let emptied = edit(&sandbox, &["edit", DATABASE, "--yes"], r#": > "$1""#).exits(0);
    assert!(emptied.stdout.contains("nothing changed"), "{emptied:?}");
    let same = edit(&sandbox, &["edit", DATABASE, "--yes"], "true").exits(0);
    assert!(same.stdout.contains("nothing changed"), "{same:?}");
    edit(&sandbox, &["edit", DATABASE, "--yes"], "exit 3").exits(1);
    let mut command = sandbox.command(&["edit"]);
    run(command.env_remove("VISUAL").env_remove("EDITOR")).exits(1);
    assert_eq!(sandbox.history().len(), 2);
}

#[test]
fn an_edit_of_the_snapshot_is_one_revision_and_loses_no_secret() {
    let sandbox = Sandbox::with_shop();
    let secrets = |sandbox: &Sandbox| {
        let shown = sandbox.run(&["list", "--json", "--show-secrets"]).data("list");
        let outputs = sandbox
            .run(&["outputs", "--json", "--show-secrets"])
            .data("outputs");
        (shown["entries"].clone(), outputs)
    };
    let before = secrets(&sandbox);
    let script = r#"cp "$1" seen.json; sed -i 's/"version": "1[^"]*"/"version": "9.9.9"/' "$1""#;
    edit(&sandbox, &["edit", "--yes"], script).exits(0);
    let seen = std::fs::read_to_string(sandbox.path().join("seen.json")).unwrap();
    assert!(seen.contains("(sensitive)"));
    assert_eq!(secrets(&sandbox).0, before.0);
    assert_eq!(secrets(&sandbox).1["outputs"], before.1["outputs"]);
    assert_eq!(sandbox.history().len(), 2);
    let native = sandbox.run(&["export", "--format", "native"]).stdout;
    assert!(native.contains("9.9.9"));
    let serial = r#"sed -i 's/"serial": 2/"serial": 9/' "$1""#;
    let refused = edit(&sandbox, &["edit", "--yes"], serial).exits(14);
    assert!(refused.stderr.contains("can't be edited"), "{refused:?}");
    sandbox.run(&["verify", "--deep"]).exits(0);
}

#[test]
fn a_valid_state_needs_no_repair() {
    let sandbox = Sandbox::with_shop();
    for arguments in [&["repair", "--dry-run"][..], &["repair"]] {
        let ran = sandbox.run(arguments).exits(0);
        assert!(ran.stdout.contains("nothing to repair"), "{ran:?}");
    }
    assert_eq!(sandbox.history().len(), 1);
}

fn broken(entries: &str) -> String {
    format!(
        r#"{{"format-version":1,"sensitive-outputs":[],"stack":{{"name":"f"}},"deployment-id":"x","generated-at":"2026-01-01T00:00:00Z","entries":[{entries}]}}"#
    )
}

#[test]
fn an_import_repairs_on_request_and_shows_every_step_first() {
    let sandbox = Sandbox::new();
    let entries = r#"{"address":"a","type":"leaf","kind":"k","depends-on":["b","gone"]},
        {"address":"b","type":"leaf","kind":"k"},{"address":"b","type":"leaf","kind":"k"}"#;
    let file = sandbox.write("broken.json", broken(entries));
    let file = file.to_str().unwrap();
    sandbox.run(&["import", file]).exits(1);
    let asked = sandbox.run(&["import", file, "--repair"]).exits(4);
    for step in [
        "drop depends-on gone",
        "b: occurs twice for the same object; drop one copy",
        "b: move before a",
    ] {
        assert!(asked.stderr.contains(step), "{step}: {asked:?}");
    }
    assert!(
        !sandbox.path().join(".state").exists(),
        "a refused import must create no store"
    );
    let imported = sandbox
        .run(&["import", file, "--repair", "--yes", "--json"])
        .exits(0)
        .data("import");
    assert_eq!(imported["repaired"].as_array().unwrap().len(), 3);
    assert_eq!(addresses(&sandbox), ["b", "a"]);
    sandbox.run(&["verify"]).exits(0);
    let unobin = sandbox.write(
        "unobin.json",
        broken(entries).replace(r#""sensitive-outputs":[],"#, ""),
    );
    sandbox
        .run(&[
            "import",
            unobin.to_str().unwrap(),
            "--repair",
            "--yes",
            "--stack",
            "unobin",
        ])
        .exits(0);
    let blank = sandbox.write("blank.json", broken(r#"{"address":"a","type":"leaf"}"#));
    let beyond = sandbox
        .run(&["import", blank.to_str().unwrap(), "--repair", "--yes"])
        .exits(14);
    assert!(beyond.stderr.contains("cannot repair the state"), "{beyond:?}");
}

#[test]
fn edits_of_a_locked_stack_are_refused() {
    let sandbox = Sandbox::with_shop();
    sandbox.on_stack(async |stack| {
        let session = stack.lock("deploy").await.unwrap();
        sandbox.run(&["rm", MIGRATION, "--yes"]).exits(11);
        sandbox.run(&["repair", "--dry-run"]).exits(0);
        session.close().await.unwrap();
    });
    assert_eq!(sandbox.history().len(), 1);
}
