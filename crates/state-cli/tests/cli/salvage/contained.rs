//! Damage of one stack or file doesn't spread: to other stacks, to names, or to what is reported.

use super::{files_below, stack_folder, stack_of, two_stacks, without_serial, zero};
use crate::sandbox::{Sandbox, fixture};
use std::fs;
use std::path::Path;

#[test]
fn unreadable_file_is_damage_of_its_stack_only() {
    let sandbox = two_stacks();
    let stack = stack_of(&sandbox, "default");
    let log = stack.join("journal/huge.log");
    let segment = stack
        .join("journal")
        .join(&files_below(&stack.join("journal"))[0]);
    fs::copy(&segment, &log).unwrap();
    // Larger than any file of a store, without taking space.
    fs::File::options()
        .write(true)
        .open(&segment)
        .unwrap()
        .set_len(9 << 30)
        .unwrap();
    for arguments in [
        &["verify", "--deep", "--stack", "other"][..],
        &["doctor"],
        &["salvage", "--dry-run"],
        &["salvage", "--yes"],
    ] {
        let refused = sandbox.run(arguments).exits(14);
        assert!(
            (refused.stdout.clone() + &refused.stderr).contains("too large"),
            "{arguments:?}: {refused:?}"
        );
    }
    sandbox.run(&["export", "--stack", "other"]).exits(0);
    fs::rename(&log, &segment).unwrap();
    sandbox.run(&["verify", "--deep", "--stack", "default"]).exits(0);
}

#[test]
fn stray_entries_among_the_names_are_no_obstacle() {
    let sandbox = two_stacks();
    let names = sandbox.path().join(".state/names");
    fs::write(names.join(".DS_Store"), "x").unwrap();
    fs::write(names.join("default/README"), "x").unwrap();
    fs::create_dir(names.join("empty")).unwrap();
    sandbox.run(&["stack", "ls"]).exits(0);
    sandbox.run(&["verify", "--deep", "--stack", "default"]).exits(0);
    sandbox.run(&["doctor"]).exits(0);
    fs::create_dir(names.join("default/odd.json")).unwrap();
    let listed = sandbox.run(&["stack", "ls"]).exits(14);
    assert!(
        listed.stdout.contains("default") && listed.stdout.contains("other"),
        "{listed:?}"
    );
    let copied = sandbox.run(&["copy", ".state", "file://there"]).exits(14);
    assert!(
        copied.stdout.contains("stack default/other: copied") && copied.stderr.contains("odd.json"),
        "{copied:?}"
    );
    sandbox.run(&["salvage", "--yes"]).exits(0);
    sandbox.run(&["stack", "ls"]).exits(0);
}

#[test]
fn links_in_a_store_lead_a_salvage_nowhere() {
    let sandbox = two_stacks();
    let stack = stack_of(&sandbox, "default");
    let elsewhere = sandbox.path().join("elsewhere");
    fs::rename(&stack, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &stack).unwrap();
    let before = files_below(&elsewhere);
    sandbox.run(&["salvage", "--dry-run"]).exits(14);
    sandbox.run(&["salvage", "--yes"]);
    assert_eq!(files_below(&elsewhere), before);
    sandbox.run(&["export", "--stack", "other"]).exits(0);
}

#[test]
fn salvage_of_one_stack_leaves_the_names_of_others() {
    let sandbox = two_stacks();
    zero(&stack_of(&sandbox, "default").join("head.json"));
    let pointer = sandbox.path().join(".state/names/default/other.json");
    zero(&pointer);
    let before = fs::read(&pointer).unwrap();
    sandbox.run(&["salvage", "--yes", "--stack", "default"]).exits(0);
    assert_eq!(fs::read(&pointer).unwrap(), before);
    sandbox.run(&["export", "--stack", "default"]).exits(0);
    sandbox.run(&["salvage", "--yes"]).exits(0);
    sandbox.run(&["export", "--stack", "other"]).exits(0);
    sandbox.run(&["verify", "--deep", "--stack", "other"]).exits(0);
}

#[test]
fn stack_that_is_named_gets_no_other_name_by_a_salvage() {
    let sandbox = Sandbox::with_shop();
    let stack = stack_folder(&sandbox);
    let lineage = stack.file_name().unwrap().to_str().unwrap().to_owned();
    fs::write(stack.join("meta.json"), "damaged").unwrap();
    let attach = ["salvage", "--yes", "--attach", &lineage, "--name", "renamed"];
    let refused = sandbox.run(&attach).exits(13);
    assert!(refused.stderr.contains("statectl stack rename"), "{refused:?}");
    sandbox.run(&["salvage", "--yes"]).exits(0);
    sandbox.run(&["verify", "--deep", "--stack", "default"]).exits(0);
    sandbox.run(&["stack", "rename", "default", "renamed"]).exits(0);
}

/// Interrupts an exchange before its last step: the complete stack isn't in its place yet.
fn interrupt_exchange(store: &Path, lineage: &str) {
    let staged = store.join(".tmp-salvage-0123456789abcdef");
    fs::create_dir_all(staged.join("stacks")).unwrap();
    fs::create_dir_all(staged.join("names")).unwrap();
    fs::copy(store.join("format"), staged.join("format")).unwrap();
    let path = format!("stacks/{lineage}");
    fs::rename(store.join(&path), staged.join(&path)).unwrap();
}

#[test]
fn interrupted_exchange_is_reported_and_finished() {
    for is_named in [true, false] {
        let sandbox = Sandbox::with_shop();
        let expected = sandbox.run(&["export"]).exits(0).stdout;
        let lineage = stack_folder(&sandbox)
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        let store = sandbox.path().join(".state");
        interrupt_exchange(&store, &lineage);
        if !is_named {
            fs::remove_file(store.join("names/default/default.json")).unwrap();
        }
        for arguments in [
            &["verify", "--deep"][..],
            &["doctor"],
            &["salvage", "--dry-run"],
            &["salvage", "--dry-run", "--stack", "default"],
        ] {
            let refused = sandbox.run(arguments).exits(14);
            assert!(
                (refused.stdout.clone() + &refused.stderr).contains("an interrupted salvage or restore"),
                "{arguments:?}: {refused:?}"
            );
        }
        let shop = fixture("shop.tfstate");
        let import = sandbox.run(&["import", shop.to_str().unwrap(), "--yes"]);
        assert_ne!(import.code, 0, "{import:?}");
        sandbox.run(&["salvage", "--yes"]).exits(0);
        let exported = sandbox.run(&["export", "--at", "1"]).exits(0).stdout;
        assert_eq!(exported, expected);
        sandbox.run(&["verify", "--deep"]).exits(0);
    }
}

#[test]
fn only_copy_of_a_damaged_segment_outlives_later_writes() {
    for write in [
        &["undo", "--yes"][..],
        &["rollback", "1", "--yes"],
        &["taint", "terraform_data.database", "--yes"],
    ] {
        let sandbox = Sandbox::with_shop();
        for _ in 0..2 {
            for command in ["taint", "untaint"] {
                sandbox
                    .run(&[command, "terraform_data.database", "--yes"])
                    .exits(0);
            }
        }
        let export = |serial: u32| sandbox.run(&["export", "--at", &serial.to_string()]);
        let exported: Vec<_> = (1..=5).map(|serial| export(serial).exits(0).stdout).collect();
        let journal = stack_folder(&sandbox).join("journal");
        let files = files_below(&journal);
        let is_segment = |file: &&std::path::PathBuf| file.extension().is_some_and(|kind| kind == "log");
        fs::write(journal.join(files.iter().filter(is_segment).nth(2).unwrap()), "").unwrap();
        sandbox.run(write).exits(0);
        for (serial, expected) in (1..).zip(&exported) {
            assert_eq!(&export(serial).exits(0).stdout, expected, "{write:?}: {serial}");
        }
        sandbox.run(&["verify", "--deep"]).exits(14);
        sandbox.run(&["salvage", "--yes"]).exits(0);
        for (serial, expected) in (1..).zip(&exported) {
            assert_eq!(&export(serial).exits(0).stdout, expected, "{write:?}: {serial}");
        }
        sandbox.run(&["verify", "--deep"]).exits(0);
    }
}

#[test]
fn other_things_in_the_place_of_files_are_moved_aside() {
    for file in ["logs", "head.lock", "meta.json", "head.json"] {
        for kind in ["folder", "link", "pipe"] {
            let sandbox = Sandbox::with_shop();
            let expected = sandbox.run(&["export"]).exits(0).stdout;
            let stack = stack_folder(&sandbox);
            let path = match file {
                "logs" => {
                    fs::create_dir_all(stack.join(file)).unwrap();
                    stack.join("logs/00000000000000000001.jsonl.zst")
                }
                _ => stack.join(file),
            };
            drop(fs::remove_file(&path));
            match kind {
                "folder" => fs::create_dir(&path).unwrap(),
                "link" => std::os::unix::fs::symlink("nowhere", &path).unwrap(),
                _ => {
                    let made = std::process::Command::new("mkfifo").arg(&path).status();
                    assert!(made.unwrap().success());
                }
            }
            let case = format!("{kind} {file}");
            let verified = sandbox.run(&["verify", "--deep"]);
            assert_eq!(verified.code, 14, "{case}: {verified:?}");
            sandbox.run(&["doctor"]).exits(14);
            let salvaged = sandbox.run(&["salvage", "--yes"]);
            assert_eq!(salvaged.code, 0, "{case}: {salvaged:?}");
            let exported = sandbox.run(&["export"]).exits(0).stdout;
            assert_eq!(without_serial(&exported), without_serial(&expected), "{case}");
            sandbox.run(&["verify", "--deep"]).exits(0);
            sandbox
                .run(&["taint", "terraform_data.database", "--yes"])
                .exits(0);
        }
    }
}
