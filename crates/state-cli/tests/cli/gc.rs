//! `gc`: the revisions that it drops, the files that it deletes, and its report.

use crate::sandbox::Sandbox;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Returns a sandbox whose stack has this many revisions: an import, then edits.
fn sandbox(revisions: usize) -> Sandbox {
    let sandbox = Sandbox::with_shop();
    for round in 1..revisions {
        let verb = if round % 2 == 1 { "protect" } else { "unprotect" };
        let arguments = [verb, "terraform_data.database", "--yes"];
        sandbox.run(&arguments).exits(0);
    }
    sandbox
}

/// Returns every file of the store with its size, except locks.
fn files(sandbox: &Sandbox) -> BTreeMap<PathBuf, u64> {
    fn walk(folder: &Path, found: &mut BTreeMap<PathBuf, u64>) {
        for child in std::fs::read_dir(folder).unwrap() {
            let child = child.unwrap();
            if child.file_type().unwrap().is_dir() {
                walk(&child.path(), found);
            } else if !child.file_name().to_string_lossy().contains("lock") {
                found.insert(child.path(), child.metadata().unwrap().len());
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(&sandbox.path().join(".state"), &mut found);
    found
}

fn ids(data: &Value, field: &str) -> Vec<String> {
    let ids = data[field].as_array().unwrap().iter();
    ids.map(|id| id.as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_collection_without_grace_drops_and_deletes_at_once() {
    let sandbox = sandbox(5);
    let history: Vec<_> = sandbox.history().iter().map(|line| line["id"].clone()).collect();
    let exported = sandbox.run(&["export", "--at", "4"]).exits(0).stdout;
    let before = files(&sandbox);
    let arguments = [
        "gc",
        "--keep-days",
        "0",
        "--keep-revisions",
        "2",
        "--grace",
        "0s",
        "--yes",
        "--json",
    ];
    let done = sandbox.run(&arguments).exits(0).data("gc");
    assert_eq!(ids(&done, "dropped").len(), 3);
    assert_eq!(
        (done["kept"].as_u64(), done["held-back"].as_u64()),
        (Some(2), Some(0))
    );
    assert_eq!(done["oldest"], history[1]);
    assert_eq!(done["waiting"], Value::Null);
    let after = files(&sandbox);
    let gone: Vec<_> = before
        .iter()
        .filter(|(path, _)| !after.contains_key(*path))
        // The collection drops no compaction: the close replaces it.
        .filter(|(path, _)| path.extension().is_none_or(|extension| extension != "frames"))
        .collect();
    assert_eq!(
        done["deleted"]["files"].as_u64(),
        Some(gone.len() as u64),
        "{gone:?}"
    );
    let bytes: u64 = gone.iter().map(|(_, bytes)| **bytes).sum();
    assert_eq!(done["deleted"]["bytes"].as_u64(), Some(bytes));

    let left: Vec<_> = sandbox.history().iter().map(|line| line["id"].clone()).collect();
    assert_eq!(left, history[..2]);
    assert_eq!(sandbox.run(&["export", "--at", "4"]).exits(0).stdout, exported);
    sandbox.run(&["verify", "--deep"]).exits(0);
    sandbox
        .run(&["protect", "terraform_data.database", "--yes"])
        .exits(0);
    sandbox.run(&["verify", "--deep"]).exits(0);
}

#[test]
fn every_command_reports_a_collected_revision() {
    let sandbox = sandbox(4);
    let first = sandbox.history()[3]["id"].as_str().unwrap().to_owned();
    let gc = ["gc", "--keep-days", "0", "--keep-revisions", "1", "--yes"];
    sandbox.run(&gc).exits(0);
    for arguments in [
        &["list", "--at", "1"][..],
        &["show", "terraform_data.database", "--at", &first],
        &["export", "--rev", "1-"],
        &["verify", "--at", "2"],
        &["blame", "terraform_data.database", "--at", "1"],
        &["find", "database", "--at", "1"],
        &["graph", "--at", "1"],
        &["outputs", "--at", "1"],
        &["diff", "1"],
        &["diff"],
        &["rollback", "@-", "--yes"],
        &["rollback", &first, "--yes"],
        &["undo", "--yes"],
    ] {
        let ran = sandbox.run(arguments).exits(10);
        assert!(ran.stderr.contains("collected"), "{arguments:?}: {ran:#?}");
        assert!(ran.stderr.contains("statectl history"), "{arguments:?}: {ran:#?}");
    }
    let error = sandbox.run(&["list", "--at", "1", "--json"]).exits(10).json();
    assert_eq!(error["error"]["code"], "not-found");
    sandbox.run(&["list", "--at", "99"]).exits(10);
    let history = sandbox.run(&["history"]).exits(0);
    assert!(
        history.stdout.contains("the history begins with serial 4: `gc`"),
        "{history:#?}"
    );
    sandbox.run(&["verify", "--deep"]).exits(0);
}

#[test]
fn dry_run_reports_and_changes_nothing() {
    let sandbox = sandbox(4);
    let before = files(&sandbox);
    let arguments = ["gc", "--keep-days", "0", "--keep-revisions", "1", "--dry-run"];
    let text = sandbox.run(&arguments).exits(0);
    assert!(
        text.stdout.contains("would be dropped: 3 revisions, 1-"),
        "{text:#?}"
    );
    assert!(
        text.stdout.contains("would be in the grace period: "),
        "{text:#?}"
    );
    let data = sandbox
        .run(&[&arguments[..], &["--json"]].concat())
        .exits(0)
        .data("gc");
    assert_eq!(data["dry-run"], true);
    assert_eq!(ids(&data, "dropped").len(), 3);
    assert_eq!(files(&sandbox), before);
    assert_eq!(sandbox.history().len(), 4);
}

#[test]
fn gc_asks_for_confirmation_only_with_work_to_do() {
    let sandbox = sandbox(3);
    let refused = sandbox
        .run(&["gc", "--keep-days", "0", "--keep-revisions", "1"])
        .exits(4);
    assert!(refused.stderr.contains("--yes"), "{refused:#?}");
    assert_eq!(sandbox.history().len(), 3);
    let idle = sandbox.run(&["gc"]).exits(0);
    assert!(idle.stdout.contains("nothing to delete now"), "{idle:#?}");
    assert!(idle.stdout.contains("kept: 3 revisions"), "{idle:#?}");
    sandbox.run(&["gc", "--keep-days", "-1"]).exits(2);
    sandbox.run(&["gc", "--grace", "soon"]).exits(2);
}

#[test]
fn dropped_files_are_deleted_after_the_grace_period() {
    let sandbox = sandbox(3);
    let gc = ["gc", "--keep-days", "0", "--keep-revisions", "1", "--yes"];
    let first = sandbox.run(&[&gc[..], &["--json"]].concat()).exits(0).data("gc");
    assert_eq!(first["deleted"]["files"], 0);
    assert!(first["waiting"]["files"].as_u64().unwrap() > 0);
    let again = sandbox.run(&gc).exits(0);
    assert!(again.stdout.contains("kept in the grace period: "), "{again:#?}");
    assert!(again.stdout.contains("nothing to delete now"), "{again:#?}");
    let last = sandbox
        .run(&[&gc[..], &["--grace", "0s", "--json"]].concat())
        .exits(0)
        .data("gc");
    assert_eq!(last["deleted"]["files"], first["waiting"]["files"]);
    assert_eq!(last["waiting"], Value::Null);
    assert_eq!(ids(&last, "dropped"), Vec::<String>::new());
}

#[test]
fn gc_of_a_locked_stack_is_refused() {
    let sandbox = sandbox(3);
    sandbox.run(&["lock", "acquire", "-m", "freeze"]).exits(0);
    let gc = ["gc", "--keep-days", "0", "--keep-revisions", "1"];
    sandbox.run(&[&gc[..], &["--yes"]].concat()).exits(11);
    sandbox.run(&[&gc[..], &["--dry-run"]].concat()).exits(0);
    assert_eq!(sandbox.history().len(), 3);
}

#[test]
fn stack_can_be_changed_after_gc() {
    let sandbox = sandbox(3);
    let gc = [
        "gc",
        "--keep-days",
        "0",
        "--keep-revisions",
        "1",
        "--grace",
        "0s",
        "--yes",
    ];
    for _ in 0..3 {
        sandbox.run(&gc).exits(0);
        sandbox
            .run(&["taint", "terraform_data.database", "--yes"])
            .exits(0);
        sandbox
            .run(&["untaint", "terraform_data.database", "--yes"])
            .exits(0);
        sandbox.run(&["undo", "--yes"]).exits(0);
        sandbox.run(&["verify", "--deep"]).exits(0);
    }
}
