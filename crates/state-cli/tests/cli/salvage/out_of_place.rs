//! What isn't in its place: files instead of folders, stacks that were never finished, links where a salvage writes.

use super::{files_below, stack_folder, stack_of, two_stacks};
use crate::sandbox::Sandbox;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Puts a file, a link or a pipe in the place of a folder.
fn put(kind: &str, path: &Path) {
    drop(fs::remove_dir_all(path));
    match kind {
        "file" => fs::write(path, "x").unwrap(),
        "link" => symlink("nowhere", path).unwrap(),
        _ => {
            let made = std::process::Command::new("mkfifo").arg(path).status();
            assert!(made.unwrap().success());
        }
    }
}

#[test]
fn other_things_in_the_place_of_a_stack_block_no_other_stack() {
    for kind in ["file", "link", "pipe"] {
        let sandbox = two_stacks();
        put(kind, &stack_of(&sandbox, "other"));
        fs::remove_file(stack_of(&sandbox, "default").join("meta.json")).unwrap();
        let verified = sandbox.run(&["verify", "--deep"]);
        assert!(
            verified.stdout.contains("it isn't a folder"),
            "{kind}: {verified:?}"
        );
        sandbox.run(&["stack", "ls"]);
        sandbox.run(&["doctor"]).exits(14);
        sandbox.run(&["salvage", "--yes", "--stack", "default"]).exits(0);
        sandbox.run(&["export", "--stack", "default"]).exits(0);
        sandbox.run(&["salvage", "--yes"]).exits(0);
        sandbox
            .run(&["trust", "--accept", "--stack", "other", "--yes"])
            .exits(0);
        sandbox.run(&["verify", "--deep"]).exits(0);
    }
}

#[test]
fn other_things_in_the_place_of_folders_in_a_stack_are_salvaged() {
    for folder in ["logs", "updates", "keys"] {
        for kind in ["file", "link", "pipe"] {
            let sandbox = Sandbox::with_shop();
            put(kind, &stack_folder(&sandbox).join(folder));
            let case = format!("{kind} {folder}");
            let verified = sandbox.run(&["verify", "--deep"]);
            assert_eq!(verified.code, 14, "{case}: {verified:?}");
            sandbox.run(&["doctor"]).exits(14);
            sandbox.run(&["salvage", "--yes"]).exits(0);
            sandbox.run(&["verify", "--deep"]).exits(0);
            sandbox
                .run(&["taint", "terraform_data.database", "--yes"])
                .exits(0);
        }
    }
}

#[test]
fn link_in_the_place_of_all_stacks_or_names_is_left_to_a_person() {
    for folder in ["stacks", "names"] {
        let sandbox = Sandbox::with_shop();
        let store = sandbox.path().join(".state");
        fs::rename(store.join(folder), store.join("elsewhere")).unwrap();
        symlink("elsewhere", store.join(folder)).unwrap();
        let before = files_below(&store);
        for arguments in [&["verify", "--deep"][..], &["salvage", "--yes"], &["doctor"]] {
            let refused = sandbox.run(arguments);
            assert_eq!(refused.code, 14, "{folder} {arguments:?}: {refused:?}");
            let is_named = ["put the folder", "symbolic link"]
                .iter()
                .any(|part| refused.stderr.contains(part));
            assert!(is_named, "{refused:?}");
        }
        let mut after = files_below(&store);
        after.retain(|file| !file.starts_with("damaged"));
        assert_eq!(after, before, "nothing is moved");
        fs::remove_file(store.join(folder)).unwrap();
        fs::rename(store.join("elsewhere"), store.join(folder)).unwrap();
        sandbox.run(&["verify", "--deep"]).exits(0);
    }
}

#[test]
fn salvage_takes_no_link_and_no_pipe_as_its_lock() {
    for kind in ["link", "pipe"] {
        let sandbox = Sandbox::with_shop();
        let precious = sandbox.write("precious", "content");
        let damaged = sandbox.path().join(".state/damaged");
        fs::create_dir(&damaged).unwrap();
        match kind {
            "link" => symlink(&precious, damaged.join("salvage.lock")).unwrap(),
            _ => put(kind, &damaged.join("salvage.lock")),
        }
        fs::remove_file(stack_folder(&sandbox).join("meta.json")).unwrap();
        let refused = sandbox.run(&["salvage", "--yes"]);
        assert_ne!(refused.code, 0, "{refused:?}");
        assert!(refused.stderr.contains("move it away"), "{refused:?}");
        assert_eq!(fs::read(&precious).unwrap(), b"content");
        fs::remove_file(damaged.join("salvage.lock")).unwrap();
        sandbox.run(&["salvage", "--yes"]).exits(0);
    }
}

#[test]
fn staged_stack_is_kept_even_without_its_head() {
    let sandbox = Sandbox::with_shop();
    let expected = sandbox.run(&["export"]).exits(0).stdout;
    let stack = stack_folder(&sandbox);
    let store = sandbox.path().join(".state");
    let staged = store.join(".tmp-salvage-0123456789abcdef/stacks");
    fs::create_dir_all(&staged).unwrap();
    let moved = staged.join(stack.file_name().unwrap());
    fs::rename(&stack, &moved).unwrap();
    fs::remove_file(moved.join("head.json")).unwrap();
    sandbox.run(&["salvage", "--yes"]).exits(0);
    let exported = sandbox.run(&["export", "--at", "1"]).exits(0).stdout;
    assert_eq!(exported, expected);
    sandbox.run(&["verify", "--deep"]).exits(0);
}

#[test]
fn stack_whose_creation_was_interrupted_is_no_damage() {
    let sandbox = Sandbox::with_shop();
    let unfinished = sandbox
        .path()
        .join(".state/stacks/11111111-2222-4333-8444-555555555555");
    fs::create_dir_all(unfinished.join("journal")).unwrap();
    sandbox.run(&["verify", "--deep"]).exits(0);
    fs::copy(
        stack_folder_but(&sandbox, &unfinished).join("meta.json"),
        unfinished.join("meta.json"),
    )
    .unwrap();
    sandbox.run(&["verify", "--deep"]).exits(0);
    sandbox.run(&["doctor"]).exits(0);
    let idle = sandbox.run(&["salvage", "--yes"]).exits(0);
    assert!(idle.stdout.contains("nothing is damaged"), "{idle:?}");
    assert!(unfinished.exists(), "another process may be creating it");
}

/// The folder of a stack that isn't this one.
fn stack_folder_but(sandbox: &Sandbox, other: &Path) -> std::path::PathBuf {
    let stacks = fs::read_dir(sandbox.path().join(".state/stacks")).unwrap();
    let mut folders = stacks.map(|stack| stack.unwrap().path());
    folders.find(|folder| folder != other).unwrap()
}

#[test]
fn deep_verification_without_a_name_checks_all_stacks() {
    let sandbox = two_stacks();
    let verified = sandbox.run(&["verify", "--deep"]).exits(0).stdout;
    for name in ["stack default", "stack other"] {
        assert!(verified.contains(name), "{verified}");
    }
    let lines = sandbox.run(&["verify", "--deep", "--json"]).exits(0).stdout;
    assert_eq!(lines.lines().count(), 2, "{lines}");
    fs::remove_file(stack_of(&sandbox, "other").join("meta.json")).unwrap();
    let verified = sandbox.run(&["verify", "--deep"]).exits(14).stdout;
    assert!(
        verified.contains("meta.json: it is missing") && verified.contains("checked stack default"),
        "{verified}"
    );
    let lines = sandbox.run(&["verify", "--deep", "--json"]).exits(14).stdout;
    let valid: Vec<bool> = lines
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|line| line["data"]["valid"].as_bool().unwrap())
        .collect();
    assert_eq!(valid, [true, false]);
}
