//! Commands that read the history beside damage: they use what is intact, and name the revisions that need what is damaged.

use super::{files_below, only_file, stack_folder, stack_of};
use crate::programs::{command, up};
use crate::sandbox::{CommandOutput, Sandbox, as_user, fixture};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

const NETWORK: &str = r#"module.service["web"].terraform_data.network"#;

/// A client of a plain or a sealed stack.
struct Client {
    sandbox: Sandbox,
    sealed: bool,
}

impl Client {
    /// A stack with 4 revisions, the third of which restores a stored snapshot.
    fn new(sealed: bool) -> Self {
        let client = Self {
            sandbox: Sandbox::new(),
            sealed,
        };
        client
            .run(&["import", fixture("shop.tfstate").to_str().unwrap()])
            .exits(0);
        client.run(&["taint", NETWORK, "--yes"]).exits(0);
        client.run(&["rollback", "1", "--yes"]).exits(0);
        client
            .run(&["taint", "terraform_data.database", "--yes"])
            .exits(0);
        client
    }

    fn run(&self, arguments: &[&str]) -> CommandOutput {
        match self.sealed {
            true => as_user(&self.sandbox, "anna", arguments),
            false => self.sandbox.run(arguments),
        }
    }

    /// The ids of the listed revisions, oldest first.
    fn listed(&self) -> Vec<String> {
        ids(&self.run(&["history", "--json"]).exits(0))
    }

    fn files(&self, folder: &str) -> Vec<PathBuf> {
        let folder = stack_folder(&self.sandbox).join(folder);
        files_below(&folder)
            .into_iter()
            .map(|file| folder.join(file))
            .collect()
    }
}

/// The ids in the output of `history --json`, oldest first. An error may follow the revisions.
fn ids(listed: &CommandOutput) -> Vec<String> {
    let lines = listed
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let revisions = lines.filter(|line: &Value| line["kind"] == "history");
    let mut ids: Vec<String> = revisions
        .map(|line| line["data"]["id"].as_str().unwrap().to_owned())
        .collect();
    ids.reverse();
    ids
}

#[test]
fn lost_snapshot_limits_only_the_revisions_that_need_it() {
    for sealed in [false, true] {
        let client = Client::new(sealed);
        let listed = client.listed();
        let expected = client.run(&["diff", "3", "4"]).exits(0).stdout;
        let blamed = client.run(&["blame", "terraform_data.database"]).exits(0).stdout;
        // That of the import, which the rollback replaced.
        fs::remove_file(&client.files("snapshots")[0]).unwrap();
        for arguments in [&["diff"][..], &["diff", "3", "4"], &["diff", &listed[2], "@"]] {
            assert_eq!(client.run(arguments).exits(0).stdout, expected);
        }
        let history = client.run(&["history", "--json"]).exits(14);
        assert_eq!(ids(&history), listed[2..], "{history:?}");
        let history = client.run(&["history"]).exits(14);
        assert!(
            history.stderr.contains("revisions before serial 3") && !history.stdout.contains("gc"),
            "{history:?}"
        );
        client.run(&["logs"]).exits(0);
        // Most properties are older than the history that is left.
        let blame = client.run(&["blame", "terraform_data.database"]).exits(14);
        assert!(
            !blame.stdout.is_empty() && blame.stderr.contains("serial 3 may be older"),
            "{blame:?} instead of {blamed}"
        );
        for lost in ["1", &listed[0]] {
            let refused = client.run(&["diff", lost, "4"]).exits(14);
            assert!(
                refused
                    .stderr
                    .contains(&format!("revision {lost}: it can't be read"))
                    && refused.stderr.contains(&listed[3]),
                "{refused:?}"
            );
        }
        let refused = client.run(&["rollback", "1", "--yes"]).exits(14);
        assert!(refused.stderr.contains("can be read"), "{refused:?}");
    }
}

#[test]
fn revisions_are_compared_without_the_latest_state() {
    for sealed in [false, true] {
        let client = Client::new(sealed);
        let expected = client.run(&["diff", "1", "2"]).exits(0).stdout;
        // The snapshot of the rollback, on which the latest state is based.
        fs::remove_file(client.files("snapshots").last().unwrap()).unwrap();
        let refused = client.run(&["diff"]).exits(14);
        assert!(refused.stderr.contains("can be read"), "{refused:?}");
        assert_eq!(client.run(&["diff", "1", "2"]).exits(0).stdout, expected);
    }
}

#[test]
fn lost_history_page_is_listed_from_the_journal() {
    let client = Client::new(true);
    let before = client.listed();
    // A new data key moves the base of the journal, and the revisions before it to a page.
    client.run(&["rekey", "--yes"]).exits(0);
    let listed = client.listed();
    assert_eq!(listed[..4], before[..]);
    let pages = client.files("updates");
    fs::remove_file(&pages[0]).unwrap();
    assert_eq!(client.listed(), listed);
    client.run(&["diff", "3", "4"]).exits(0);
    client.run(&["verify", "--deep"]).exits(14);
    // Without the first frames of the journal, the older revisions are lost.
    fs::remove_file(&client.files("journal")[0]).unwrap();
    let history = client.run(&["history"]).exits(14);
    assert!(history.stdout.contains(&listed[4]), "{history:?}");
    assert!(
        history.stderr.contains("not all revisions are listed") && history.stderr.contains("1 to 4"),
        "{history:?}"
    );
    let json = client.run(&["history", "--json"]).exits(14);
    assert_eq!(ids(&json), listed[4..]);
    client.run(&["list"]).exits(0);
    client.run(&["logs"]).exits(14);
}

#[test]
fn all_stacks_but_damaged_ones_are_copied() {
    for damaged in ["head", "pointer", "snapshot"] {
        let sandbox = Sandbox::with_shop();
        sandbox.run(&["stack", "new", "one"]).exits(0);
        sandbox.run(&["stack", "new", "two"]).exits(0);
        let stack = stack_of(&sandbox, "default");
        let file = match damaged {
            "head" => stack.join("head.json"),
            "pointer" => sandbox.path().join(".state/names/default/default.json"),
            _ => only_file(&stack.join("snapshots")),
        };
        fs::write(file, "damaged").unwrap();
        let copied = sandbox
            .run(&["copy", ".state", "file://there", "--json"])
            .exits(14);
        let data = copied.data("copy");
        assert_eq!(
            data["stacks"].as_array().unwrap().len(),
            2,
            "{damaged}: {copied:?}"
        );
        assert_eq!(data["not-copied"][0], "default/default", "{damaged}: {copied:?}");
        let there = |arguments: &[&str]| sandbox.run(&[arguments, &["--backend", "file://there"]].concat());
        let listed = there(&["stack", "ls"]).exits(0).stdout;
        assert!(
            listed.contains("one") && listed.contains("two") && !listed.contains("default"),
            "{damaged}: {listed}"
        );
        there(&["verify", "--deep", "--stack", "one"]).exits(0);
        there(&["doctor"]).exits(0);

        // Without its only snapshot, the stack can't be salvaged.
        let is_lost = damaged == "snapshot";
        assert_eq!(sandbox.run(&["salvage", "--yes"]).code != 0, is_lost, "{damaged}");
        let copied = sandbox.run(&["copy", ".state", "file://there"]);
        assert_eq!(copied.code != 0, is_lost, "{damaged}: {copied:?}");
    }
}

#[test]
fn stack_with_a_damaged_log_is_copied_after_its_salvage() {
    let sandbox = Sandbox::new();
    up(&sandbox, &command("thing", "echo made >&2", ""), &[]).exits(0);
    let logs = stack_folder(&sandbox).join("logs");
    fs::write(only_file(&logs), "damaged").unwrap();
    sandbox.run(&["copy", ".state", "file://there"]).exits(14);
    sandbox.run(&["salvage", "--yes"]).exits(0);
    sandbox.run(&["copy", ".state", "file://there"]).exits(0);
    let there = ["verify", "--deep", "--backend", "file://there"];
    sandbox.run(&there).exits(0);
}

#[test]
fn writes_of_a_client_without_an_identity_change_nothing() {
    let client = Client::new(true);
    let store = client.sandbox.path().join(".state");
    let contents = || {
        let files = files_below(&store).into_iter();
        let contents = files.map(|file| (fs::read(store.join(&file)).unwrap(), file));
        contents.collect::<Vec<_>>()
    };
    let before = contents();
    for _ in 0..3 {
        let refused = as_user(&client.sandbox, "eve", &["taint", NETWORK, "--yes"]);
        assert_eq!(refused.code, 12, "{refused:?}");
    }
    assert_eq!(contents(), before);
}
