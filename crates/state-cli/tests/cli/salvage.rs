//! Damaged stores: what the commands read, refuse and rebuild.

mod beside_damage;
mod contained;
mod every_file;
mod out_of_place;
mod rekeyed;
mod unrecorded;

use crate::sandbox::{Sandbox, as_user, fixture, run, sealed_shop, user};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn files_below(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => found.push(path.strip_prefix(root).unwrap().to_path_buf()),
            }
        }
    }
    found.sort();
    found
}

/// The only stack folder of a sandbox.
fn stack_folder(sandbox: &Sandbox) -> PathBuf {
    let mut stacks = fs::read_dir(sandbox.path().join(".state/stacks")).unwrap();
    stacks.next().unwrap().unwrap().path()
}

/// A plain store with the stacks `default`, which has resources, and `other`.
fn two_stacks() -> Sandbox {
    let sandbox = Sandbox::with_shop();
    let shop = fixture("shop.tfstate");
    sandbox
        .run(&["import", shop.to_str().unwrap(), "--stack", "other"])
        .exits(0);
    sandbox
}

/// The lines of an export without its serial, which a salvage advances.
fn without_serial(exported: &str) -> Vec<&str> {
    let lines = exported.lines().filter(|line| !line.contains("\"serial\""));
    lines.collect()
}

fn zero(path: &Path) {
    let length = fs::read(path).unwrap().len();
    fs::write(path, vec![0; length]).unwrap();
}

fn only_file(folder: &Path) -> PathBuf {
    fs::read_dir(folder).unwrap().next().unwrap().unwrap().path()
}

#[test]
fn deep_verification_lists_all_damage() {
    let sandbox = sealed_shop();
    let anna = |arguments: &[&str]| as_user(&sandbox, "anna", arguments);
    let shop = fixture("shop.tfstate");
    anna(&["import", shop.to_str().unwrap(), "--stack", "other"]).exits(0);
    let stack = stack_of(&sandbox, "default");
    zero(&only_file(&stack.join("keys")));
    zero(&only_file(&stack.join("snapshots")));
    fs::create_dir_all(stack.join("updates")).unwrap();
    fs::write(
        stack.join("updates/00000000000000000001-0123456789abcdef.page"),
        "x",
    )
    .unwrap();
    fs::remove_file(stack.join("meta.json")).unwrap();
    zero(&sandbox.path().join(".state/names/default/other.json"));
    let verified = anna(&["verify", "--deep", "--stack", "default"]).exits(14);
    for part in [
        "keys/",
        "snapshots/",
        "updates/",
        "meta.json",
        "names/default/other.json",
    ] {
        let mut lines = verified.stdout.lines();
        assert!(
            lines.any(|line| line.starts_with("damaged: ") && line.contains(part)),
            "{part}: {verified:?}"
        );
    }
    assert!(
        verified.stdout.contains("orphaned: no name leads to stack"),
        "{verified:?}"
    );
}

/// The folder of a stack, by the lineage in its name pointer.
fn stack_of(sandbox: &Sandbox, name: &str) -> PathBuf {
    let store = sandbox.path().join(".state");
    let pointer = fs::read_to_string(store.join(format!("names/default/{name}.json"))).unwrap();
    let stacks = fs::read_dir(store.join("stacks"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut named = stacks.filter(|path| pointer.contains(path.file_name().unwrap().to_str().unwrap()));
    named.next().unwrap()
}

#[test]
fn other_stacks_work_beside_a_damaged_one() {
    for (damaged, policy) in [
        ("head", "plaintext"),
        ("pointer", "plaintext"),
        ("head", "sensitive"),
        ("stack", "sensitive"),
    ] {
        let sandbox = Sandbox::new();
        let anna = |arguments: &[&str]| run(user(&sandbox, "anna", arguments).env("STATECTL_POLICY", policy));
        anna(&["import", fixture("shop.tfstate").to_str().unwrap()]).exits(0);
        anna(&["stack", "new", "one"]).exits(0);
        anna(&["stack", "new", "two"]).exits(0);
        let stack = stack_of(&sandbox, "default");
        match damaged {
            "head" => zero(&stack.join("head.json")),
            "stack" => fs::remove_dir_all(&stack).unwrap(),
            _ => zero(&sandbox.path().join(".state/names/default/default.json")),
        }
        let listed = anna(&["stack", "ls"]);
        assert_ne!(listed.code, 0, "{listed:?}");
        assert!(
            listed.stdout.contains("one") && listed.stdout.contains("two"),
            "{listed:?}"
        );
        assert!(listed.stderr.contains("`statectl salvage"), "{listed:?}");
        anna(&["stack", "rename", "one", "three"]).exits(0);
        anna(&["stack", "rm", "two", "--force"]).exits(0);
        if damaged == "head" && policy == "sensitive" {
            // A new stack could take the name that the damaged one was given.
            let refused = anna(&["stack", "new", "four"]).exits(12);
            assert!(
                refused.stderr.contains("repair it with `statectl salvage "),
                "{refused:?}"
            );
        }
        anna(&["salvage", "--yes"]).exits(0);
        if damaged == "stack" {
            // Nothing is left of it, and this client remembers it.
            anna(&["stack", "ls"]).exits(12);
            anna(&["trust", "--accept", "--stack", "default", "--yes"]).exits(0);
            anna(&["stack", "new", "default"]).exits(0);
        }
        anna(&["verify", "--deep", "--stack", "default"]).exits(0);
        anna(&["stack", "new", "four"]).exits(0);
        let listed = anna(&["stack", "ls"]).exits(0);
        for name in ["default", "three", "four"] {
            assert!(listed.stdout.contains(name), "{name}: {listed:?}");
        }
    }
}

#[test]
fn salvage_keeps_the_damaged_files_as_they_were() {
    let sandbox = Sandbox::with_shop();
    let head = stack_folder(&sandbox).join("head.json");
    fs::write(&head, "not a head").unwrap();
    let before: BTreeMap<_, _> = contents(&stack_folder(&sandbox));
    sandbox.run(&["salvage", "--yes"]).exits(0);
    let aside = only_folder(&sandbox.path().join(".state/damaged")).join("stacks");
    assert_eq!(contents(&only_file(&aside)), before);
    sandbox.run(&["verify", "--deep"]).exits(0);
    let again = sandbox.run(&["salvage", "--yes"]).exits(0);
    assert!(again.stdout.contains("nothing is damaged"), "{again:?}");
}

fn only_folder(folder: &Path) -> PathBuf {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let folders: Vec<_> = entries.filter(|path| path.is_dir()).collect();
    assert_eq!(folders.len(), 1);
    folders[0].clone()
}

fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = files_below(folder).into_iter();
    files
        .map(|file| (file.clone(), fs::read(folder.join(file)).unwrap()))
        .collect()
}

#[test]
fn interrupted_salvage_is_finished_by_the_next() {
    let sandbox = Sandbox::with_shop();
    let exported = sandbox
        .run(&["export", "--format", "native", "--at", "1"])
        .exits(0)
        .stdout;
    let stack = stack_folder(&sandbox);
    fs::remove_file(stack.join("head.json")).unwrap();
    sandbox.run(&["salvage", "--yes"]).exits(0);
    // The moment between the two renames: the rebuilt stack is complete, and not in place yet.
    let staging = sandbox.path().join(".state/.tmp-salvage-1/stacks");
    fs::create_dir_all(&staging).unwrap();
    fs::rename(&stack, staging.join(stack.file_name().unwrap())).unwrap();
    sandbox.run(&["export"]).exits(14);
    sandbox.run(&["salvage", "--yes"]).exits(0);
    assert_eq!(
        sandbox
            .run(&["export", "--format", "native", "--at", "1"])
            .exits(0)
            .stdout,
        exported
    );
    sandbox.run(&["verify", "--deep"]).exits(0);
    assert!(!sandbox.path().join(".state/.tmp-salvage-1").exists());
}

#[test]
fn sealed_head_is_rebuilt_only_from_what_is_known() {
    let sandbox = sealed_shop();
    let recipients = as_user(&sandbox, "anna", &["recipients", "list"]).exits(0).stdout;
    let head = stack_folder(&sandbox).join("head.json");
    fs::remove_file(&head).unwrap();
    // This client has the identity, and never saw the stack.
    let stranger = sandbox.path().join("stranger-memory").display().to_string();
    let mut unknown = user(&sandbox, "anna", &["salvage", "--yes"]);
    let refused = run(unknown.env("XDG_STATE_HOME", stranger)).exits(14);
    assert!(
        refused.stdout.contains("doesn't remember the data key"),
        "{refused:?}"
    );
    assert!(!head.exists(), "nothing was changed");
    as_user(&sandbox, "anna", &["salvage", "--yes"]).exits(0);
    assert_eq!(
        as_user(&sandbox, "anna", &["recipients", "list"]).exits(0).stdout,
        recipients
    );
    as_user(&sandbox, "anna", &["verify", "--deep"]).exits(0);
}

#[test]
fn key_file_that_no_longer_opens_is_never_called_intact() {
    for damage in ["cut", "flipped"] {
        let sandbox = sealed_shop();
        let anna = |arguments: &[&str]| as_user(&sandbox, "anna", arguments);
        let key = only_file(&stack_folder(&sandbox).join("keys"));
        let mut bytes = fs::read(&key).unwrap();
        match damage {
            "cut" => bytes.truncate(bytes.len() / 2),
            _ => bytes[60] ^= 1,
        }
        fs::write(&key, &bytes).unwrap();
        for arguments in [
            &["salvage", "--dry-run"][..],
            &["salvage", "--yes"],
            &["doctor"],
            &["verify", "--deep"],
        ] {
            let ran = anna(arguments);
            assert!(
                ran.code == 14 || ran.code == 12,
                "{damage}: {arguments:?}: {ran:?}"
            );
            assert!(
                ran.stdout.contains("can't open it now"),
                "{damage}: {arguments:?}: {ran:?}"
            );
        }
        assert_eq!(fs::read(&key).unwrap(), bytes);
    }
}

#[test]
fn rebuilt_head_never_restores_a_replaced_key() {
    let sandbox = sealed_shop();
    let anna = |arguments: &[&str]| as_user(&sandbox, "anna", arguments);
    let (stack, memory) = (stack_folder(&sandbox), sandbox.path().join("anna/seen"));
    let segments = files_below(&stack.join("journal"));
    let seen = contents(&memory);
    anna(&["rekey", "--yes"]).exits(0);
    // The head and all frames after the rotation are lost, and this client didn't see the rotation.
    fs::remove_file(stack.join("head.json")).unwrap();
    for file in files_below(&stack.join("journal")) {
        if !segments.contains(&file) {
            fs::remove_file(stack.join("journal").join(file)).unwrap();
        }
    }
    fs::remove_dir_all(&memory).unwrap();
    for (file, bytes) in &seen {
        let path = memory.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    let refused = anna(&["salvage", "--yes"]).exits(14);
    assert!(refused.stdout.contains("several data keys"), "{refused:?}");
    assert!(!stack.join("head.json").exists(), "nothing was changed");
    // The key files alone are evidence of the rotation, even if they are damaged.
    for file in files_below(&stack.join("keys")) {
        if !file.to_str().unwrap().starts_with("00000000000000000000-") {
            zero(&stack.join("keys").join(file));
        }
    }
    let refused = anna(&["salvage", "--yes"]).exits(14);
    assert!(refused.stdout.contains("several data keys"), "{refused:?}");
}

#[test]
fn salvage_is_refused_while_a_writer_holds_the_lock() {
    let sandbox = Sandbox::with_shop();
    sandbox.on_stack(async |stack| {
        let session = stack.lock("deploy").await.unwrap();
        fs::remove_file(stack_folder(&sandbox).join("meta.json")).unwrap();
        let refused = sandbox.run(&["salvage", "--yes"]).exits(14);
        assert!(
            refused.stdout.contains("not salvaged") && refused.stdout.contains("lock"),
            "{refused:?}"
        );
        session.close().await.ok();
    });
    sandbox.run(&["salvage", "--yes"]).exits(0);
}

#[test]
fn import_makes_no_second_stack_beside_an_orphan() {
    let sandbox = Sandbox::with_shop();
    fs::remove_file(sandbox.path().join(".state/names/default/default.json")).unwrap();
    let shop = fixture("shop.tfstate");
    let mut stranger = sandbox.command(&["import", shop.to_str().unwrap()]);
    let refused = run(stranger.env("XDG_STATE_HOME", sandbox.path().join("stranger"))).exits(13);
    assert!(
        refused.stderr.contains("last known name: default")
            && refused.stderr.contains("statectl salvage --attach"),
        "{refused:?}"
    );
    sandbox.run(&["salvage", "--yes"]).exits(0);
    sandbox.run(&["export"]).exits(0);
}

#[test]
fn orphan_is_attached_under_another_name() {
    let sandbox = Sandbox::with_shop();
    let lineage = stack_folder(&sandbox)
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned();
    fs::remove_file(sandbox.path().join(".state/names/default/default.json")).unwrap();
    sandbox
        .run(&["salvage", "--attach", &lineage, "--name", "found", "--yes"])
        .exits(0);
    let listed = sandbox.run(&["stack", "ls"]).exits(0);
    assert!(
        listed.stdout.contains("found") && listed.stdout.contains("29"),
        "{listed:?}"
    );
}

#[test]
fn stacks_are_listed_beside_a_missing_name() {
    let sandbox = Sandbox::with_shop();
    let shop = fixture("shop.tfstate");
    sandbox
        .run(&["import", shop.to_str().unwrap(), "--stack", "other"])
        .exits(0);
    fs::remove_file(sandbox.path().join(".state/names/default/default.json")).unwrap();
    // A removed name may also hide the stack from this client, which knows it.
    let listed = sandbox.run(&["stack", "ls"]).exits(12);
    assert!(
        listed.stdout.contains("other")
            && listed.stderr.contains("no name leads to stack default")
            && listed.stderr.contains("statectl salvage"),
        "{listed:?}"
    );
}

/// A compaction isn't synced. After a power loss it may be empty, torn or full of zeros.
#[test]
fn compaction_lost_in_a_power_cut_is_not_damage() {
    let sandbox = Sandbox::with_shop();
    let taint = ["taint", "terraform_data.database", "--yes"];
    sandbox.run(&taint).exits(0);
    let journal = stack_folder(&sandbox).join("journal");
    let file = |suffix: &str| {
        let mut files: Vec<_> = fs::read_dir(&journal)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.to_string_lossy().ends_with(suffix))
            .collect();
        files.sort();
        files.remove(0)
    };
    let compaction = file(".frames");
    let segment = file(".log");
    let whole = fs::read(&compaction).unwrap();
    let exported = sandbox.run(&["export", "--show-secrets"]).exits(0).stdout;
    for lost in [
        Vec::new(),
        whole[..whole.len() / 2].to_vec(),
        vec![0; whole.len()],
    ] {
        fs::write(&compaction, &lost).unwrap();
        sandbox.run(&["verify", "--deep"]).exits(0);
        sandbox.run(&["doctor"]).exits(0);
        let read = sandbox.run(&["export", "--show-secrets"]).exits(0).stdout;
        assert_eq!(read, exported);
        // A damaged segment is reported, also if the frames are lost with it.
        let frames = fs::read(&segment).unwrap();
        zero(&segment);
        let verified = sandbox.run(&["verify", "--deep"]).exits(14);
        assert!(
            verified.stdout.contains(".frames") && verified.stdout.contains(".log"),
            "{verified:?}"
        );
        fs::write(&segment, frames).unwrap();
    }
    sandbox
        .run(&["untaint", "terraform_data.database", "--yes"])
        .exits(0);
    assert!(fs::read(&compaction).unwrap().len() > whole.len());
    sandbox.run(&["verify", "--deep"]).exits(0);
}

#[test]
fn doctor_reports_damaged_content() {
    let sandbox = Sandbox::with_shop();
    zero(&only_file(&stack_folder(&sandbox).join("snapshots")));
    let report = sandbox.run(&["doctor"]).exits(14);
    assert!(!report.stdout.contains("safe for state"), "{report:?}");
    assert!(report.stdout.contains("damaged: stacks/"), "{report:?}");
}
