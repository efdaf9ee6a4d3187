//! Damage that leaves each file readable, or leaves nothing of what is lost: an earlier head, exchanged files, revisions and
//! stacks of which nothing is left, a lost memory.

use super::{files_below, stack_folder, stack_of, without_serial};
use crate::sandbox::{Sandbox, as_user, fixture, sealed_shop};
use std::fs;

const NETWORK: &str = r#"module.service["web"].terraform_data.network"#;

/// A plain stack with three revisions.
fn shop() -> Sandbox {
    let sandbox = Sandbox::with_shop();
    sandbox.run(&["taint", NETWORK, "--yes"]).exits(0);
    sandbox.run(&["untaint", NETWORK, "--yes"]).exits(0);
    sandbox
}

/// Salvages the only stack, which then exports this, but for the serial, and is intact.
fn salvages_to(sandbox: &Sandbox, expected: &str) {
    sandbox.run(&["salvage", "--yes"]).exits(0);
    let exported = sandbox.run(&["export"]).exits(0).stdout;
    assert_eq!(without_serial(&exported), without_serial(expected));
    sandbox.run(&["verify", "--deep"]).exits(0);
}

#[test]
fn earlier_head_is_damage_and_is_rebuilt() {
    let sandbox = shop();
    let head = stack_folder(&sandbox).join("head.json");
    let earlier = fs::read(&head).unwrap();
    sandbox
        .run(&["taint", "terraform_data.database", "--yes"])
        .exits(0);
    let current = sandbox.run(&["export"]).exits(0).stdout;
    fs::write(&head, earlier).unwrap();
    for arguments in [&["verify", "--deep"][..], &["doctor"], &["salvage", "--dry-run"]] {
        let refused = sandbox.run(arguments).exits(14);
        let said = refused.stdout.clone() + &refused.stderr;
        assert!(
            said.contains("head.json: it was restored to an older version"),
            "{arguments:?}: {refused:?}"
        );
        assert!(!said.contains("nothing is damaged"), "{refused:?}");
    }
    salvages_to(&sandbox, &current);
    assert_eq!(sandbox.history().len(), 5);
}

#[test]
fn salvage_says_which_revision_it_restores_and_which_are_lost() {
    let sandbox = shop();
    let journal = stack_folder(&sandbox).join("journal");
    let files = files_below(&journal);
    let is_segment = |file: &&std::path::PathBuf| file.extension().is_some_and(|kind| kind == "log");
    let newest = files.iter().rfind(is_segment).unwrap();
    let compactions = files.iter().filter(|file| !is_segment(file));
    for file in compactions.chain([newest]) {
        fs::remove_file(journal.join(file)).unwrap();
    }
    let second = sandbox.run(&["export", "--at", "2"]).exits(0).stdout;
    let planned = sandbox.run(&["salvage", "--dry-run"]).exits(14).stdout;
    assert!(
        planned.contains("a salvage restores revision 2-") && planned.contains("this client saw serial 3"),
        "{planned}"
    );
    assert!(!planned.contains("can't be rebuilt"), "{planned}");
    let salvaged = sandbox.run(&["salvage", "--yes"]).exits(0).stdout;
    assert!(
        salvaged.contains("rebuilt up to revision 2-") && salvaged.contains("this client saw serial 3"),
        "{salvaged}"
    );
    let newest = sandbox.history().remove(0);
    let message = newest["message"].as_str().unwrap();
    assert!(message.contains("up to serial 3, are lost"), "{message}");
    assert_eq!(sandbox.run(&["export", "--at", "2"]).exits(0).stdout, second);
}

#[test]
fn plain_stack_is_rebuilt_without_memory_if_its_policy_is_named() {
    let sandbox = shop();
    let current = sandbox.run(&["list"]).exits(0).stdout;
    let memory = sandbox.path().join("user-state/statectl/seen");
    let is_pin = |file: &std::path::PathBuf| file.to_str().unwrap().contains("/stacks/");
    for file in files_below(&memory).into_iter().filter(is_pin) {
        fs::write(memory.join(file), "x").unwrap();
    }
    fs::remove_file(stack_folder(&sandbox).join("head.json")).unwrap();
    let refused = sandbox.run(&["salvage", "--yes"]).exits(14);
    assert!(
        refused.stdout.contains("statectl salvage --policy POLICY"),
        "{refused:?}"
    );
    sandbox
        .run(&["salvage", "--policy", "plaintext", "--yes"])
        .exits(0);
    assert_eq!(sandbox.run(&["list"]).exits(0).stdout, current);
    sandbox
        .run(&["taint", "terraform_data.database", "--yes"])
        .exits(0);
    sandbox.run(&["verify", "--deep"]).exits(0);
}

#[test]
fn exchanged_segments_are_damage_and_are_rebuilt() {
    let sandbox = shop();
    let current = sandbox.run(&["export"]).exits(0).stdout;
    let journal = stack_folder(&sandbox).join("journal");
    let is_segment = |file: &std::path::PathBuf| file.extension().is_some_and(|kind| kind == "log");
    let mut segments = files_below(&journal);
    segments.retain(is_segment);
    let paths: Vec<_> = segments.iter().map(|file| journal.join(file)).collect();
    let contents: Vec<_> = paths.iter().map(|path| fs::read(path).unwrap()).collect();
    fs::write(&paths[0], &contents[1]).unwrap();
    fs::write(&paths[1], &contents[0]).unwrap();
    let dry = sandbox.run(&["salvage", "--dry-run"]).exits(14);
    assert!(dry.stdout.contains("damaged:"), "{dry:?}");
    sandbox.run(&["doctor"]).exits(14);
    salvages_to(&sandbox, &current);
}

#[test]
fn exchanged_and_copied_names_lead_to_their_stacks_again() {
    let sandbox = shop();
    sandbox.run(&["stack", "new", "other"]).exits(0);
    let names = sandbox.path().join(".state/names/default");
    let path = |name: &str| names.join(format!("{name}.json"));
    let [default, other] = ["default", "other"].map(|name| fs::read(path(name)).unwrap());
    let resources = sandbox.run(&["list", "--stack", "default"]).exits(0).stdout;
    for (first, second) in [(&other, &default), (&other, &other)] {
        fs::write(path("default"), first).unwrap();
        fs::write(path("other"), second).unwrap();
        sandbox.run(&["salvage", "--yes"]).exits(0);
        let listed = sandbox.run(&["list", "--stack", "default"]).exits(0).stdout;
        assert_eq!(listed, resources);
        sandbox.run(&["stack", "ls"]).exits(0);
        sandbox.run(&["verify", "--deep", "--stack", "other"]).exits(0);
    }
}

#[test]
fn lost_head_is_rebuilt_after_a_collection() {
    let sandbox = shop();
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
    sandbox.run(&gc).exits(0);
    sandbox.run(&["taint", NETWORK, "--yes"]).exits(0);
    sandbox.run(&gc).exits(0);
    let current = sandbox.run(&["export"]).exits(0).stdout;
    fs::remove_file(stack_folder(&sandbox).join("head.json")).unwrap();
    assert_eq!(sandbox.run(&["export", "--at", "4"]).exits(0).stdout, current);
    salvages_to(&sandbox, &current);
}

#[test]
fn folder_of_which_nothing_is_left_is_moved_aside() {
    let sandbox = shop();
    let shop = fixture("shop.tfstate");
    let import = ["import", shop.to_str().unwrap(), "--stack", "other"];
    sandbox.run(&import).exits(0);
    let folder = stack_of(&sandbox, "other");
    fs::remove_dir_all(&folder).unwrap();
    fs::create_dir(&folder).unwrap();
    fs::remove_file(sandbox.path().join(".state/names/default/other.json")).unwrap();
    // This client remembers the stack, so the folder isn't the rest of an interrupted creation.
    let refused = sandbox.run(&["stack", "new", "other"]);
    assert_ne!(refused.code, 0, "{refused:?}");
    sandbox.run(&["verify", "--deep", "--stack", "default"]).exits(14);
    sandbox.run(&["salvage", "--yes"]).exits(0);
    assert!(!folder.exists());
    sandbox
        .run(&["trust", "--accept", "--stack", "other", "--yes"])
        .exits(0);
    sandbox.run(&["stack", "new", "other"]).exits(0);
}

#[test]
fn other_stacks_are_listed_after_a_lost_one_freed_its_name() {
    let sandbox = shop();
    sandbox.run(&["stack", "new", "other"]).exits(0);
    let stacks = sandbox.path().join(".state/stacks");
    let pointer = fs::read_to_string(sandbox.path().join(".state/names/default/other.json")).unwrap();
    let folders = fs::read_dir(stacks).unwrap().map(|folder| folder.unwrap());
    let other = folders
        .into_iter()
        .find(|folder| pointer.contains(folder.file_name().to_str().unwrap()));
    fs::remove_dir_all(other.unwrap().path()).unwrap();
    sandbox.run(&["salvage", "--yes"]).exits(0);
    let listed = sandbox.run(&["stack", "ls"]).exits(12);
    assert!(listed.stdout.contains("default"), "{listed:?}");
    sandbox
        .run(&["trust", "--accept", "--stack", "other", "--yes"])
        .exits(0);
    sandbox.run(&["stack", "ls"]).exits(0);
    sandbox.run(&["stack", "new", "other"]).exits(0);
}

#[test]
fn refused_write_leaves_a_store_that_was_rolled_back_as_it_is() {
    let sandbox = shop();
    sandbox.run(&["list"]).exits(0);
    let stack = stack_folder(&sandbox);
    let journal = stack.join("journal");
    let newest = files_below(&journal).pop().unwrap();
    fs::remove_file(journal.join(newest)).unwrap();
    let head = fs::read(stack.join("head.json")).unwrap();
    let files = files_below(&stack);
    for _ in 0..3 {
        let refused = sandbox.run(&["taint", NETWORK, "--yes"]);
        assert!([12, 14].contains(&refused.code), "{refused:?}");
        assert_eq!(fs::read(stack.join("head.json")).unwrap(), head);
        assert_eq!(files_below(&stack), files);
    }
}

/// The tag of a frame isn't covered by the digest chain, so only a client with the data key notices its damage.
#[test]
fn damaged_tags_of_frames_are_damage_and_are_mended() {
    let sandbox = sealed_shop();
    let anna = |arguments: &[&str]| as_user(&sandbox, "anna", arguments);
    for command in ["taint", "untaint", "taint"] {
        anna(&[command, "terraform_data.database", "--yes"]).exits(0);
    }
    let export = |serial: &str| {
        let exported = anna(&["export", "--show-secrets", "--at", serial]);
        exported.exits(0).stdout
    };
    let serials = ["1", "2", "3", "4"];
    let expected = serials.map(export);
    let journal = stack_folder(&sandbox).join("journal");
    let intact: Vec<_> = files_below(&journal)
        .into_iter()
        .map(|file| (journal.join(&file), fs::read(journal.join(&file)).unwrap()))
        .collect();
    let flip = |path: &std::path::Path| {
        let mut bytes = fs::read(path).unwrap();
        // The files end with the tag of their last frame.
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(path, bytes).unwrap();
    };
    let is_segment = |path: &std::path::Path| path.extension().is_some_and(|kind| kind == "log");
    let segments = intact
        .iter()
        .map(|(path, _)| path)
        .filter(|path| is_segment(path));
    let store = sandbox.path().join(".state");
    let backup = sandbox.path().join("backup");
    for (damaged, with_compaction) in segments.flat_map(|path| [(path, false), (path, true)]) {
        let copied = std::process::Command::new("cp")
            .arg("-a")
            .args([&store, &backup])
            .status();
        assert!(copied.unwrap().success());
        flip(damaged);
        if with_compaction {
            let compactions = intact.iter().filter(|(path, _)| !is_segment(path));
            compactions.for_each(|(path, _)| flip(path));
        }
        let case = format!("{} {with_compaction}", damaged.display());
        let verified = anna(&["verify", "--deep"]);
        // It may be an attack.
        assert_eq!(verified.code, 12, "{case}: {verified:?}");
        assert!(
            verified.stdout.contains("tag doesn't match"),
            "{case}: {verified:?}"
        );
        anna(&["doctor"]).exits(14);
        let salvaged = anna(&["salvage", "--yes"]);
        assert_eq!(salvaged.code, 0, "{case}: {salvaged:?}");
        assert!(!salvaged.stdout.contains("lost"), "{case}: {salvaged:?}");
        anna(&["verify", "--deep"]).exits(0);
        assert_eq!(serials.map(export), expected, "{case}");
        anna(&["taint", NETWORK, "--yes"]).exits(0);
        fs::remove_dir_all(&store).unwrap();
        fs::rename(&backup, &store).unwrap();
        anna(&["trust", "--accept", "--yes"]).exits(0);
    }
}
