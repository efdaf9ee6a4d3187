//! Damage of a stack whose data key was replaced: the revisions before the replacement survive it.

use super::{files_below, stack_folder, without_serial};
use crate::sandbox::{CommandOutput, Sandbox, as_user, fixture};
use std::fs;
use std::path::{Path, PathBuf};

const NETWORK: &str = r#"module.service["web"].terraform_data.network"#;

/// A sealed stack with four revisions, of which the third replaced the key.
struct Rekeyed {
    sandbox: Sandbox,
    /// The ids of the revisions, oldest first.
    ids: Vec<String>,
    /// What each of them exports.
    exports: Vec<String>,
}

impl Rekeyed {
    fn new() -> Self {
        let mut rekeyed = Self {
            sandbox: Sandbox::new(),
            ids: Vec::new(),
            exports: Vec::new(),
        };
        let shop = fixture("shop.tfstate");
        rekeyed.run(&["import", shop.to_str().unwrap()]).exits(0);
        rekeyed.run(&["taint", NETWORK, "--yes"]).exits(0);
        rekeyed.run(&["rekey", "--yes"]).exits(0);
        rekeyed.run(&["untaint", NETWORK, "--yes"]).exits(0);
        let history = rekeyed.run(&["history", "--json"]).exits(0).stdout;
        let lines = history.lines().rev();
        let lines = lines.map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        rekeyed.ids = lines
            .map(|line| line["data"]["id"].as_str().unwrap().to_owned())
            .collect();
        rekeyed.exports = (1..=4).map(|serial| rekeyed.export(serial).unwrap()).collect();
        rekeyed
    }

    fn run(&self, arguments: &[&str]) -> CommandOutput {
        as_user(&self.sandbox, "anna", arguments)
    }

    fn export(&self, serial: usize) -> Option<String> {
        let exported = self.run(&["export", "--show-secrets", "--at", &self.ids[serial - 1]]);
        (exported.code == 0).then_some(exported.stdout)
    }

    /// The serials of the revisions that export what they did before the damage. No other content is ever exported.
    fn readable(&self) -> Vec<usize> {
        let readable = (1..=4).filter(|serial| match self.export(*serial) {
            Some(exported) => {
                assert_eq!(exported, self.exports[serial - 1], "revision {serial}");
                true
            }
            None => false,
        });
        readable.collect()
    }

    fn files(&self, folder: &str) -> Vec<PathBuf> {
        let folder = stack_folder(&self.sandbox).join(folder);
        let files = files_below(&folder).into_iter();
        files.map(|file| folder.join(file)).collect()
    }

    /// The segments of the journal, oldest first. Deletes the compactions.
    fn segments(&self) -> Vec<PathBuf> {
        let files = self.files("journal").into_iter();
        let is_segment = |path: &PathBuf| path.extension().is_some_and(|kind| kind == "log");
        let (segments, compactions): (Vec<_>, Vec<_>) = files.partition(is_segment);
        compactions.iter().for_each(|path| fs::remove_file(path).unwrap());
        segments
    }

    /// Salvages the stack, which then exports this, keeps the revisions that were readable, and works.
    fn salvages(&self, expected: &str, readable: &[usize]) {
        self.run(&["salvage", "--yes"]).exits(0);
        let exported = self.run(&["export", "--show-secrets"]).exits(0).stdout;
        assert_eq!(without_serial(&exported), without_serial(expected));
        assert_eq!(self.readable(), readable);
        self.run(&["verify", "--deep"]).exits(0);
        self.run(&["taint", "terraform_data.database", "--yes"]).exits(0);
        self.run(&["verify", "--deep"]).exits(0);
        self.run(&["rekey", "--yes"]).exits(0);
        self.run(&["verify", "--deep"]).exits(0);
        let idle = self.run(&["salvage", "--yes"]).exits(0);
        assert!(idle.stdout.contains("nothing is damaged"), "{idle:?}");
    }
}

fn remove(path: &Path) {
    fs::remove_file(path).unwrap();
}

#[test]
fn lost_last_segment_costs_only_the_revision_in_it() {
    let stack = Rekeyed::new();
    remove(stack.segments().last().unwrap());
    assert_eq!(stack.readable(), [1, 2, 3]);
    stack.salvages(&stack.exports[2], &[1, 2, 3]);
}

#[test]
fn lost_snapshot_under_the_new_key_costs_nothing() {
    let stack = Rekeyed::new();
    remove(stack.files("snapshots").last().unwrap());
    assert_eq!(stack.readable(), [1, 2, 3, 4]);
    stack.salvages(&stack.exports[3], &[1, 2, 3, 4]);
}

#[test]
fn lost_first_snapshot_leaves_the_state_under_the_new_key() {
    let stack = Rekeyed::new();
    remove(&stack.files("snapshots")[0]);
    assert_eq!(stack.readable(), [3, 4]);
    stack.salvages(&stack.exports[3], &[3, 4]);
}

#[test]
fn lost_history_page_costs_nothing() {
    let stack = Rekeyed::new();
    for page in stack.files("updates") {
        remove(&page);
    }
    stack.salvages(&stack.exports[3], &[1, 2, 3, 4]);
}

#[test]
fn lost_early_segment_leaves_the_state_under_the_new_key() {
    let stack = Rekeyed::new();
    remove(&stack.segments()[1]);
    assert_eq!(stack.readable(), [1, 3, 4]);
    stack.salvages(&stack.exports[3], &[1, 3, 4]);
}

#[test]
fn frames_under_a_replaced_key_count_only_if_the_head_has_them() {
    let stack = Rekeyed::new();
    let segments = stack.segments();
    // Without the frames that lead to what the head names, and without the page that names the revisions, only the former
    // key speaks for the first ones.
    for segment in &segments[2..] {
        remove(segment);
    }
    for page in stack.files("updates") {
        remove(&page);
    }
    assert_eq!(stack.readable(), [0; 0]);
}

#[test]
fn history_that_begins_at_an_import_agrees_with_a_rekey() {
    let sandbox = Sandbox::new();
    let run = |arguments: &[&str]| as_user(&sandbox, "anna", arguments).exits(0).stdout;
    let shop = fs::read_to_string(fixture("shop.tfstate")).unwrap();
    let mut state: serde_json::Value = serde_json::from_str(&shop).unwrap();
    for serial in [100, 101] {
        state["serial"] = serial.into();
        let path = sandbox.write("shop.tfstate", state.to_string());
        run(&["import", path.to_str().unwrap(), "--yes"]);
    }
    run(&["rekey", "--yes"]);
    let exported = run(&["export", "--show-secrets"]);
    let snapshots = stack_folder(&sandbox).join("snapshots");
    let mut names = files_below(&snapshots);
    names.sort();
    remove(&snapshots.join(&names[0]));
    run(&["salvage", "--yes"]);
    let salvaged = run(&["export", "--show-secrets"]);
    assert_eq!(without_serial(&salvaged), without_serial(&exported));
    run(&["verify", "--deep"]);
    run(&["taint", NETWORK, "--yes"]);
    run(&["verify", "--deep"]);
}

#[test]
fn compaction_after_a_collection_holds_frames_beside_a_rekey() {
    let sandbox = Sandbox::new();
    let run = |arguments: &[&str]| as_user(&sandbox, "anna", arguments).exits(0).stdout;
    run(&["import", fixture("shop.tfstate").to_str().unwrap()]);
    for _ in 0..2 {
        let collect = [
            "--keep-days",
            "0",
            "--keep-revisions",
            "2",
            "--grace",
            "0s",
            "--yes",
        ];
        run(&[&["gc"][..], &collect].concat());
        run(&["taint", NETWORK, "--yes"]);
        run(&["untaint", NETWORK, "--yes"]);
    }
    let history = run(&["history", "--json"]);
    let lines = history
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let ids: Vec<String> = lines
        .map(|line| line["data"]["id"].as_str().unwrap().to_owned())
        .collect();
    let export = |id: &String| run(&["export", "--show-secrets", "--at", id]);
    let exported: Vec<String> = ids.iter().map(export).collect();
    let journal = stack_folder(&sandbox).join("journal");
    let mut segments = files_below(&journal);
    segments.retain(|file| file.extension().is_some_and(|kind| kind == "log"));
    remove(&journal.join(&segments[segments.len() - 2]));
    run(&["rekey", "--yes"]);
    assert_eq!(
        ids.iter().map(export).collect::<Vec<_>>(),
        exported,
        "before the salvage"
    );
    run(&["salvage", "--yes"]);
    assert_eq!(
        ids.iter().map(export).collect::<Vec<_>>(),
        exported,
        "after the salvage"
    );
    run(&["verify", "--deep"]);
}

#[test]
fn damaged_key_is_named_with_its_consequence() {
    let rekeyed = Rekeyed::new();
    let mut keys = rekeyed.files("keys");
    keys.sort();
    let [replaced, current] = &keys[..] else {
        panic!("{keys:?}")
    };
    let whole = fs::read(replaced).unwrap();
    for harm in [&whole[..whole.len() / 2], &[]] {
        fs::write(replaced, harm).unwrap();
        let examined = rekeyed.run(&["doctor"]).exits(0);
        assert!(
            examined
                .stderr
                .contains("no intact file of the replaced data key"),
            "{examined:?}"
        );
    }
    fs::write(replaced, whole).unwrap();
    let examined = rekeyed.run(&["doctor"]).exits(0);
    assert!(!examined.stderr.contains("replaced data key"), "{examined:?}");
    let whole = fs::read(current).unwrap();
    fs::write(current, &whole[..whole.len() / 2]).unwrap();
    let verified = rekeyed.run(&["verify", "--deep"]).exits(14);
    let name = current.file_name().unwrap().to_str().unwrap();
    assert!(verified.stdout.contains(name), "{verified:?}");
}
