//! `restore`: backups that were made by copying the folder of the store.

use crate::sandbox::{Sandbox, as_user, fixture};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const NETWORK: &str = r#"module.service["web"].terraform_data.network"#;

/// A store of the user `anna` with two revisions after the one in its backup.
fn scene() -> Sandbox {
    let sandbox = Sandbox::new();
    anna(&sandbox, &["import", fixture("shop.tfstate").to_str().unwrap()]);
    anna(&sandbox, &["taint", NETWORK, "--yes"]);
    copy(&sandbox.path().join(".state"), &sandbox.path().join("backup"));
    anna(&sandbox, &["untaint", NETWORK, "--yes"]);
    anna(&sandbox, &["protect", NETWORK, "--yes"]);
    sandbox
}

/// Runs a command that must succeed. Returns its output.
#[track_caller]
fn anna(sandbox: &Sandbox, arguments: &[&str]) -> String {
    as_user(sandbox, "anna", arguments).exits(0).stdout
}

fn content(sandbox: &Sandbox, store: &str) -> String {
    anna(sandbox, &["list", "--backend", store])
}

fn files(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => drop(found.insert(path.clone(), fs::read(&path).unwrap())),
        }
    }
    found
}

/// Copies the files of a folder over those of another one.
fn copy(from: &Path, to: &Path) {
    for (path, bytes) in files(from) {
        let target = to.join(path.strip_prefix(from).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::write(target, bytes).unwrap();
    }
}

fn stack_folder(store: &Path) -> PathBuf {
    fs::read_dir(store.join("stacks"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path()
}

#[test]
fn restore_appends_a_revision_to_a_stack_that_works() {
    let sandbox = scene();
    let bob = |arguments: &[&str]| as_user(&sandbox, "anna", arguments);
    let shown = bob(&["restore", "backup", "--dry-run"]).exits(0).stdout;
    assert!(
        shown.contains("2 later revisions") && shown.contains("protect"),
        "{shown}"
    );
    bob(&["restore", "backup"]).exits(4);
    anna(&sandbox, &["restore", "backup", "--yes"]);
    let history = anna(&sandbox, &["history"]);
    assert_eq!(history.lines().count(), 6, "{history}");
    assert!(history.contains("restore to 2"), "{history}");
    assert_eq!(content(&sandbox, ".state"), content(&sandbox, "backup"));
    let again = anna(&sandbox, &["restore", "backup", "--yes"]);
    assert!(again.contains("already"), "{again}");
}

#[test]
fn restore_replaces_a_missing_or_damaged_stack() {
    for damage in ["head.json", "stack", "store", "overlay"] {
        let sandbox = scene();
        as_user(&sandbox, "bob", &["list"]).exits(0);
        let store = sandbox.path().join(".state");
        let stack = stack_folder(&store);
        match damage {
            "head.json" => fs::remove_file(stack.join("head.json")).unwrap(),
            "stack" => fs::remove_dir_all(&stack).unwrap(),
            "store" => fs::remove_dir_all(&store).unwrap(),
            _ => copy(&sandbox.path().join("backup"), &store),
        }
        let before = files(&sandbox.path().join("backup"));
        let is_left = stack.is_dir();
        let left = if is_left { files(&stack) } else { BTreeMap::new() };
        let restored = anna(&sandbox, &["restore", "backup", "--yes"]);
        assert_eq!(
            is_left,
            restored.contains("former files are in"),
            "{damage}: {restored}"
        );
        assert_eq!(files(&sandbox.path().join("backup")), before, "{damage}");
        assert!(anna(&sandbox, &["history"]).contains("restore"), "{damage}");
        assert_eq!(
            content(&sandbox, ".state"),
            content(&sandbox, "backup"),
            "{damage}"
        );
        let aside = if is_left {
            files(&store.join("damaged"))
        } else {
            BTreeMap::new()
        };
        for (path, bytes) in left
            .iter()
            .filter(|(path, _)| !path.to_str().unwrap().contains("lock"))
        {
            assert!(
                aside.values().any(|kept| kept == bytes),
                "{damage}: {}",
                path.display()
            );
        }
        anna(&sandbox, &["protect", NETWORK, "--yes"]);
        anna(&sandbox, &["verify", "--deep"]);
    }
}

#[test]
fn other_clients_must_accept_a_replaced_stack() {
    let sandbox = Sandbox::new();
    let run = |who: &str, arguments: &[&str]| as_user(&sandbox, who, &[arguments, &["--yes"]].concat());
    for who in ["anna", "bob"] {
        run(who, &["identity", "--new"]);
    }
    let plain = |who: &str, arguments: &[&str]| {
        let mut command = crate::sandbox::user(&sandbox, who, &[arguments, &["--yes"]].concat());
        crate::sandbox::run(command.env("STATECTL_POLICY", "plaintext"))
    };
    plain("anna", &["import", fixture("shop.tfstate").to_str().unwrap()]).exits(0);
    copy(&sandbox.path().join(".state"), &sandbox.path().join("backup"));
    plain("anna", &["taint", NETWORK]).exits(0);
    plain("bob", &["untaint", NETWORK]).exits(0);
    plain("bob", &["protect", NETWORK]).exits(0);
    fs::remove_file(stack_folder(&sandbox.path().join(".state")).join("head.json")).unwrap();
    plain("anna", &["restore", "backup"]).exits(0);
    let refused = plain("bob", &["taint", NETWORK]).exits(12);
    assert!(
        refused
            .stderr
            .contains("`statectl trust --accept --stack default"),
        "{refused:?}"
    );
    plain("bob", &["trust", "--accept"]).exits(0);
    plain("bob", &["taint", NETWORK]).exits(0);
}

#[test]
fn damaged_backup_changes_nothing() {
    let sandbox = scene();
    let snapshots = stack_folder(&sandbox.path().join("backup")).join("snapshots");
    let snapshot = fs::read_dir(snapshots).unwrap().next().unwrap().unwrap().path();
    fs::write(snapshot, "").unwrap();
    let before = files(&sandbox.path().join(".state"));
    let refused = as_user(&sandbox, "anna", &["restore", "backup", "--yes"]).exits(14);
    assert!(
        refused.stderr.contains("snapshots/") && refused.stderr.contains("salvage"),
        "{refused:?}"
    );
    assert_eq!(files(&sandbox.path().join(".state")), before);
}

#[test]
fn refused_writes_leave_an_overlaid_store_unchanged() {
    let sandbox = scene();
    let store = sandbox.path().join(".state");
    copy(&sandbox.path().join("backup"), &store);
    // Lock files name their last holder, and are no data of the stack.
    let data = || {
        let mut data = files(&store);
        data.retain(|path, _| !path.file_name().unwrap().to_str().unwrap().contains("lock"));
        data
    };
    let before = data();
    for _ in 0..5 {
        as_user(&sandbox, "anna", &["taint", NETWORK, "--yes"]).exits(14);
        assert!(data() == before, "a refused write changed the store");
    }
}

#[test]
fn restore_is_refused_while_a_writer_holds_the_lock() {
    let sandbox = Sandbox::with_shop();
    let store = sandbox.path().join(".state");
    copy(&store, &sandbox.path().join("backup"));
    sandbox.run(&["taint", NETWORK, "--yes"]).exits(0);
    sandbox.on_stack(async |stack| {
        let session = stack.lock("deploy").await.unwrap();
        sandbox.run(&["restore", "backup", "--yes"]).exits(11);
        let head = stack_folder(&store).join("head.json");
        let kept = fs::read(&head).unwrap();
        fs::remove_file(&head).unwrap();
        sandbox.run(&["restore", "backup", "--yes"]).exits(11);
        fs::write(&head, kept).unwrap();
        session.close().await.unwrap();
    });
    sandbox.run(&["restore", "backup", "--yes"]).exits(0);
}

#[test]
fn set_aside_revision_is_read_with_a_warning() {
    let sandbox = scene();
    let history = anna(&sandbox, &["history", "--json"]);
    let newest: serde_json::Value = serde_json::from_str(history.lines().next().unwrap()).unwrap();
    let newest = newest["data"]["id"].as_str().unwrap();
    let export = ["export", "--show-secrets", "--at", newest];
    let exported = anna(&sandbox, &export);
    fs::remove_file(stack_folder(&sandbox.path().join(".state")).join("head.json")).unwrap();
    anna(&sandbox, &["restore", "backup", "--yes"]);
    assert!(!anna(&sandbox, &["history"]).contains(newest));
    let read = as_user(&sandbox, "anna", &export).exits(0);
    assert_eq!(read.stdout, exported);
    assert!(
        read.stderr.contains(newest) && read.stderr.contains("folder `damaged`"),
        "{read:?}"
    );
    let missing = as_user(&sandbox, "anna", &["list", "--at", "77"]).exits(10);
    assert!(missing.stderr.contains("statectl history"), "{missing:?}");
}

#[test]
fn folder_without_a_store_is_no_backup() {
    let sandbox = scene();
    fs::create_dir(sandbox.path().join("empty")).unwrap();
    for folder in ["empty", "nowhere"] {
        let refused = as_user(&sandbox, "anna", &["restore", folder, "--yes"]).exits(10);
        assert!(
            refused.stderr.contains("contains no store") && refused.stderr.contains("statectl copy"),
            "{refused:?}"
        );
    }
    copy(
        &sandbox.path().join("backup"),
        &sandbox.path().join("whole/.state"),
    );
    let refused = as_user(&sandbox, "anna", &["restore", "whole", "--yes"]).exits(10);
    assert!(refused.stderr.contains("restore whole/.state"), "{refused:?}");
}
