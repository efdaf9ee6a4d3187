//! Results in files, kept because the store refused them: no command disowns one without proof.

use crate::programs::{command, up};
use crate::sandbox::Sandbox;
use state_core::mutation::End;
use state_core::{Entry, Enveloped, Json, Outcome, Properties, Timestamp};
use state_manager::SpooledResult;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A sandbox whose stack has a pending create, the path of the file with its result, and the operation's id.
fn kept() -> (Sandbox, PathBuf, String) {
    let sandbox = Sandbox::new();
    up(
        &sandbox,
        &command("thing", "sleep 30", ""),
        &["--timeout", "300ms"],
    )
    .exits(18);
    let store = sandbox.path().join(".state").display().to_string();
    let spooled = sandbox.on_stack(async |stack| {
        let state = stack.tip().await.unwrap().state;
        let operation = state.pending().next().unwrap();
        let outputs = Json::parse(r#"{"stdout":"made"}"#).unwrap();
        let entry = Entry {
            id: Some("i-17".to_owned()),
            outputs: Properties::new(outputs),
            ..Entry::clone(operation.entry.as_ref().unwrap())
        };
        SpooledResult {
            store: format!("file://{store}"),
            lineage: stack.lineage(),
            stack: "default".parse().unwrap(),
            at: Timestamp::new("2026-01-01T00:00:00Z"),
            end: End {
                id: operation.id,
                outcome: Outcome::Succeeded,
                entry: Some(Arc::new(entry)),
                reasons: Vec::new(),
            },
            key_id: None,
            tag: None,
        }
    });
    let folder = sandbox.path().join("user-state/statectl/spool");
    std::fs::create_dir_all(&folder).unwrap();
    let id = spooled.end.id.to_string();
    let file = folder.join(format!("{}-{id}.json", spooled.lineage));
    std::fs::write(&file, spooled.encode()).unwrap();
    (sandbox, file, id)
}

fn from<'a>(file: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
    [&["pending", "resolve", "--from", file.to_str().unwrap()], more].concat()
}

#[test]
fn kept_result_of_an_operation_declared_not_done_conflicts() {
    for (placement, deposed) in [("entry", false), ("deposed", true)] {
        let (sandbox, file, id) = kept();
        sandbox.run(&["pending", "resolve", &id, "--not-done"]).exits(0);
        let listed = sandbox.run(&["pending", "list"]).exits(0);
        assert!(listed.stderr.contains(file.to_str().unwrap()), "{listed:?}");
        let refused = sandbox.run(&from(&file, &[]));
        assert_ne!(refused.code, 0, "{refused:?}");
        for part in [&*id, "settled as not done", "--as entry", "--as deposed"] {
            assert!(refused.stderr.contains(part), "{part}: {refused:?}");
        }
        sandbox.run(&from(&file, &["--as", placement])).exits(0);
        let shown = sandbox.run(&["show", "thing", "--json"]).exits(0).data("show");
        assert_eq!(shown["entries"][0]["outputs"]["stdout"], "made", "{shown}");
        assert_eq!(shown["entries"][0]["deposed"].is_string(), deposed, "{shown}");
        let again = sandbox.run(&from(&file, &[])).exits(0);
        assert!(again.stdout.contains("already recorded"), "{again:?}");
    }
}

#[test]
fn run_records_kept_results_before_it_asks() {
    for arguments in [&["up", "--yes"][..], &["refresh", "--yes"], &["destroy", "--yes"]] {
        let (sandbox, file, _) = kept();
        let ran = sandbox.run(arguments).exits(0);
        assert!(ran.stdout.contains("its result was kept in a file"), "{ran:?}");
        assert!(!file.exists(), "the result is recorded");
        let entries = sandbox.run(&["list", "--json"]).exits(0).data("list");
        let is_left = arguments[0] != "destroy";
        assert_eq!(entries["entries"].as_array().unwrap().len(), usize::from(is_left));
    }
}

#[test]
fn run_keeps_and_names_a_kept_result_that_conflicts() {
    let (sandbox, file, id) = kept();
    sandbox.run(&["pending", "resolve", &id, "--not-done"]).exits(0);
    let ran = sandbox.run(&["refresh", "--yes"]).exits(0);
    assert!(
        ran.stderr.contains(&id) && ran.stderr.contains("--as entry"),
        "{ran:?}"
    );
    assert!(file.exists());
}

#[test]
fn kept_result_with_other_values_than_the_entry_conflicts() {
    let (sandbox, file, id) = kept();
    // The user knows the id, and nothing of the result.
    sandbox
        .run(&["pending", "resolve", &id, "--done", "--id", "i-17"])
        .exits(0);
    let refused = sandbox.run(&from(&file, &[])).exits(13);
    for part in ["has other values than the result", "--as entry"] {
        assert!(refused.stderr.contains(part), "{part}: {refused:?}");
    }
    let ran = sandbox.run(&["refresh", "--yes"]).exits(0);
    assert!(ran.stderr.contains(&id), "{ran:?}");
    assert!(file.exists(), "the only copy of the values");
    sandbox.run(&from(&file, &["--as", "entry"])).exits(0);
    let shown = sandbox.run(&["show", "thing", "--json"]).exits(0).data("show");
    assert_eq!(shown["entries"][0]["outputs"]["stdout"], "made", "{shown}");
    let again = sandbox.run(&from(&file, &[])).exits(0);
    assert!(again.stdout.contains("already recorded"), "{again:?}");
}

#[test]
fn up_creates_nothing_beside_a_kept_result_that_cannot_be_read() {
    let (sandbox, file, id) = kept();
    sandbox.run(&["pending", "resolve", &id, "--not-done"]).exits(0);
    std::fs::write(&file, "damaged").unwrap();
    let refused = sandbox.run(&["up", "--yes"]).exits(13);
    assert!(refused.stderr.contains(file.to_str().unwrap()), "{refused:?}");
    let folder = file.parent().unwrap();
    std::fs::rename(folder, sandbox.path().join("kept")).unwrap();
    std::fs::write(folder, "no folder").unwrap();
    let refused = sandbox.run(&["up", "--yes"]).exits(13);
    assert!(refused.stderr.contains(folder.to_str().unwrap()), "{refused:?}");
}

#[test]
fn up_replaces_nothing_beside_a_kept_result() {
    let (sandbox, file, id) = kept();
    sandbox.run(&["pending", "resolve", &id, "--not-done"]).exits(0);
    let elsewhere = sandbox.path().join("kept.json");
    std::fs::rename(&file, &elsewhere).unwrap();
    up(&sandbox, &command("thing", "touch made", ""), &[]).exits(0);
    std::fs::rename(&elsewhere, &file).unwrap();
    let changed = command("thing", "touch made-again", "");
    let refused = up(&sandbox, &changed, &[]).exits(13);
    assert!(refused.stderr.contains("--as deposed"), "{refused:?}");
    assert!(!sandbox.path().join("made-again").exists());
    sandbox.run(&from(&file, &["--as", "deposed"])).exits(0);
    sandbox.run(&["up", "--yes"]).exits(0);
}

#[test]
fn up_makes_no_second_resource_beside_a_kept_result() {
    let (sandbox, file, id) = kept();
    let kept_in = file.to_str().unwrap();
    let resolved = sandbox.run(&["pending", "resolve", &id, "--not-done"]).exits(0);
    let previewed = sandbox.run(&["preview"]).exits(0);
    for warned in [&resolved, &previewed] {
        assert!(warned.stderr.contains(kept_in), "{warned:?}");
    }
    let refused = sandbox.run(&["up", "--yes"]).exits(13);
    assert!(
        refused.stderr.contains(kept_in) && refused.stderr.contains("--as entry"),
        "{refused:?}"
    );
    assert!(file.exists());
    sandbox.run(&from(&file, &["--as", "entry"])).exits(0);
    sandbox.run(&["up", "--yes"]).exits(0);
    assert!(!file.exists(), "the result is recorded");
}
