//! Every command that opens a stack, against a store that was put back to an earlier state, without an identity, and with
//! an expected revision that the stack doesn't have. A new command must be added to one of the two tables below.

use super::*;
use crate::described::commands;
use std::collections::BTreeSet;

/// How a command treats a stack that was rolled back, and one that no identity of the user opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// Shows both with a warning.
    Show,
    /// Shows a rolled-back stack with a warning, and needs the key.
    ShowOpened,
    /// Judges the stack: a rolled-back one fails with 12 after it was read.
    Judge,
    /// Writes elsewhere what the stack contains, without a key: a rolled-back one is refused.
    Transfer,
    /// Writes to the stack, or under its key: both are refused.
    Write,
}
use Use::{Judge, Show, ShowOpened, Transfer, Write};

impl Use {
    const fn exit_code_of_rolled_back(self) -> i32 {
        match self {
            Show | ShowOpened => 0,
            Judge | Transfer | Write => 12,
        }
    }

    const fn exit_code_without_identity(self) -> i32 {
        match self {
            Show | Judge | Transfer => 0,
            ShowOpened | Write => 12,
        }
    }
}

/// A revision that no stack has.
const REVISION: &str = "1-0123456789abcdef";

/// One invocation of each command that opens a stack. `-` as the last argument passes a value on stdin.
const OPENING: &[(Use, &[&str])] = &[
    (Show, &["list"]),
    (Show, &["list", "--at", "1"]),
    (Show, &["show", "pw"]),
    (Show, &["outputs"]),
    (Show, &["history"]),
    (Show, &["logs"]),
    (Show, &["diff"]),
    (Show, &["blame", "pw"]),
    (Show, &["find", "pw"]),
    (Show, &["graph"]),
    (Show, &["export"]),
    (Show, &["pending", "list"]),
    (Show, &["lock", "status"]),
    (Show, &["lock", "break"]),
    (Show, &["stack", "ls"]),
    (Show, &["recipients", "list"]),
    (Show, &["secret", "scan"]),
    (Show, &["gc", "--dry-run"]),
    (Show, &["repair", "--dry-run"]),
    (ShowOpened, &["trust", "commands"]),
    (Judge, &["verify"]),
    (Judge, &["verify", "--deep"]),
    (Show, &["trust"]),
    (Transfer, &["copy", ".state", "elsewhere"]),
    (Write, &["secret", "encrypt", "token", "-"]),
    (Write, &["secret", "decrypt", "token", "-"]),
    (Write, &["secret", "seal", "--all"]),
    // Shows what `up` would do, and `up` is refused.
    (Write, &["preview", "prod.yaml"]),
    (Write, &["up", "prod.yaml"]),
    (Write, &["refresh"]),
    (Write, &["destroy"]),
    (Write, &["import", "exported.json", "--force"]),
    (Write, &["rollback", "1"]),
    (Write, &["encrypt", "--policy", "all"]),
    (
        Write,
        &[
            "recipients",
            "add",
            "age1lggyhqrw2nlhcxprm67z43rta597azn8gknawjehu9d9dl0jq3yqqvfafg",
        ],
    ),
    (Write, &["rekey"]),
    (
        Write,
        &["gc", "--keep-revisions", "0", "--keep-days", "0", "--grace", "0s"],
    ),
    (Write, &["mv", "pw", "other"]),
    (Write, &["rm", "pw"]),
    (Write, &["protect", "pw"]),
    (Write, &["unprotect", "pw"]),
    (Write, &["taint", "pw"]),
    (Write, &["untaint", "pw"]),
    (Write, &["apply-edits", "edits.json"]),
    (Write, &["repair"]),
    (Write, &["undo"]),
    (Write, &["pending", "trust"]),
    (Write, &["lock", "acquire"]),
    (Write, &["stack", "rm", "prod", "--force"]),
    (Write, &["stack", "rename", "prod", "other"]),
];

/// Commands that open no stack, or that need a state which the scenarios don't have.
const OTHERS: &[(&str, &str)] = &[
    ("backends", "opens no store"),
    ("kinds", "opens no store"),
    ("schema", "opens no store"),
    ("completions", "opens no store"),
    ("identity", "opens no store"),
    ("whoami", "opens no store"),
    ("config show", "opens no store"),
    ("login", "opens no stack"),
    ("logout", "opens no stack"),
    (
        "doctor",
        "judges the store; a stack that it cannot open is a warning",
    ),
    (
        "salvage",
        "rebuilds damaged stacks only, and accepts each as its readers do",
    ),
    (
        "restore",
        "replaces a stack that was rolled back; accepts a backup as salvage accepts a stack",
    ),
    ("init", "opens no stack"),
    ("stack new", "creates a stack"),
    (
        "run",
        "starts a command, whose requests open the stack as `export` and `import` do",
    ),
    (
        "serve",
        "doesn't end; its requests open stacks as `export` and `import` do",
    ),
    ("trust path", "opens no stack"),
    ("edit", "runs an editor first; locks as `apply-edits` does"),
    (
        "pending resolve",
        "needs a pending operation; locks as `pending trust` does",
    ),
    (
        "recipients remove",
        "needs a second recipient; locks as `recipients add` does",
    ),
    (
        "lock release",
        "needs a client lock; locks as `lock acquire` does",
    ),
];

/// A sealed stack with three revisions, and what a test needs to put it back to the second one.
struct Scene {
    sandbox: Sandbox,
}

impl Scene {
    fn new() -> Self {
        let sandbox = Sandbox::new();
        let program = "name: prod\nresources:\n  pw: {kind: \"random:password\", inputs: {length: 20}}\n  id: {kind: \"random:id\", inputs: {bytes: 4}}\n";
        sandbox.write("prod.yaml", program);
        sandbox.write(
            "edits.json",
            r#"{"operations":[{"op":"protect","addresses":["pw"]}]}"#,
        );
        let scene = Self { sandbox };
        scene.anna(&["up", "prod.yaml", "--yes"]).exits(0);
        scene.anna(&["taint", "id", "--yes"]).exits(0);
        copy(&scene.path(".state"), &scene.path("earlier"));
        scene.anna(&["untaint", "id", "--yes"]).exits(0);
        scene.anna(&["list"]).exits(0);
        let exported = scene.anna(&["export", "--show-secrets"]).exits(0).stdout;
        scene.sandbox.write("exported.json", exported);
        let sealed = given(&scene.sandbox, "anna", &["secret", "encrypt", "token"], "x").exits(0);
        scene.sandbox.write("token", sealed.stdout);
        copy(&scene.path(".state"), &scene.path("latest"));
        copy(&scene.path("anna"), &scene.path("anna-latest"));
        scene
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.sandbox.path().join(name)
    }

    fn anna(&self, arguments: &[&str]) -> CommandOutput {
        as_user(&self.sandbox, "anna", arguments)
    }

    /// Puts the store and Anna's memory back.
    fn put_back(&self, store: &str) {
        for (from, to) in [(store, ".state"), ("anna-latest", "anna")] {
            std::fs::remove_dir_all(self.path(to)).unwrap();
            copy(&self.path(from), &self.path(to));
        }
        if self.path("elsewhere").exists() {
            std::fs::remove_dir_all(self.path("elsewhere")).unwrap();
        }
    }

    /// Runs a row of the table as a user, with more arguments before it.
    fn run(&self, who: &str, row: &[&str], more: &[&str]) -> CommandOutput {
        let has_input = row.last() == Some(&"-");
        let row = if has_input { &row[..row.len() - 1] } else { row };
        let arguments = [row, &["--yes"], more].concat();
        let token = std::fs::read(self.path("token")).unwrap();
        given(
            &self.sandbox,
            who,
            &arguments,
            if has_input { token } else { Vec::new() },
        )
    }
}

#[test]
fn every_command_is_in_a_table_of_openings() {
    let listed: BTreeSet<String> = commands(&Sandbox::new(), &[]).into_iter().collect();
    let is_of = |name: &String, row: &[&str]| {
        let words: Vec<&str> = name.split(' ').collect();
        row.starts_with(&words)
    };
    for name in &listed {
        let opens = OPENING.iter().any(|(_, row)| is_of(name, row));
        let other = OTHERS.iter().any(|(other, _)| other == name);
        assert!(
            opens != other,
            "`{name}` must be in exactly one of the two tables"
        );
    }
}

#[test]
fn rolled_back_store_is_reported_by_every_command() {
    let scene = Scene::new();
    for (usage, row) in OPENING {
        scene.put_back("earlier");
        let ran = scene.run("anna", row, &[]);
        assert_eq!(ran.code, usage.exit_code_of_rolled_back(), "{row:?}: {ran:#?}");
        assert!(ran.stderr.contains("was rolled back"), "{row:?}: {ran:#?}");
        let still = scene.anna(&["list"]).exits(0);
        assert!(
            still.stderr.contains("was rolled back"),
            "after {row:?}: {still:#?}"
        );
    }
}

#[test]
fn report_in_json_contains_the_rollback() {
    let scene = Scene::new();
    for (usage, row) in OPENING
        .iter()
        .filter(|(usage, _)| !matches!(usage, Transfer | Write))
    {
        scene.put_back("earlier");
        let ran = scene.run("anna", row, &["--json"]);
        assert_eq!(ran.code, usage.exit_code_of_rolled_back(), "{row:?}: {ran:#?}");
        let is_reported = ran.stdout.contains("was rolled back") || ran.stderr.contains("was rolled back");
        assert!(is_reported, "{row:?}: {ran:#?}");
    }
}

#[test]
fn unchecked_authenticity_is_reported_by_every_command() {
    let scene = Scene::new();
    for (usage, row) in OPENING {
        scene.put_back("latest");
        // A user without an identity and without memory.
        let ran = scene.run("outsider", row, &[]);
        assert_eq!(ran.code, usage.exit_code_without_identity(), "{row:?}: {ran:#?}");
        let is_reported = ran.stderr.contains("authenticity not checked");
        assert!(is_reported || *usage == Write, "{row:?}: {ran:#?}");
    }
}

#[test]
fn unexpected_revision_is_refused_by_every_command() {
    let scene = Scene::new();
    for (_, row) in OPENING {
        scene.put_back("latest");
        let ran = scene.run("anna", row, &["--expect-revision", REVISION]);
        assert_eq!(ran.code, 13, "{row:?}: {ran:#?}");
        assert!(ran.stderr.contains(REVISION), "{row:?}: {ran:#?}");
    }
}

#[test]
fn every_command_remembers_the_key_that_it_opened() {
    let scene = Scene::new();
    for (usage, row) in OPENING {
        if *usage == Write {
            continue;
        }
        scene.put_back("latest");
        std::fs::remove_dir_all(scene.path("anna/seen")).unwrap();
        scene.run("anna", row, &[]).exits(0);
        for file in super::pins::key_files(&scene.sandbox) {
            std::fs::remove_file(file).unwrap();
        }
        let ran = scene.anna(&["list"]);
        assert_eq!(ran.code, 12, "after {row:?}: {ran:#?}");
    }
}

#[test]
fn completion_neither_pins_nor_swallows_a_notice() {
    let scene = Scene::new();
    let hers = scene.path("anna");
    copy(&hers, &scene.path("ana"));
    // Ana has the same identity and a memory of her own.
    let ana = |arguments: &[&str]| as_user(&scene.sandbox, "ana", arguments);
    let more = "age1lggyhqrw2nlhcxprm67z43rta597azn8gknawjehu9d9dl0jq3yqqvfafg";
    scene.anna(&["recipients", "add", more]).exits(0);
    for words in ["stacks", "addresses", "revisions", "outputs", "operations"] {
        let ran = ana(&["__words", words]).exits(0);
        assert_eq!(ran.stderr, "", "{words}");
    }
    let listed = ana(&["list"]).exits(0);
    assert!(listed.stderr.contains(more), "{listed:?}");
    std::fs::remove_dir_all(scene.path("ana/seen")).unwrap();
    ana(&["__words", "addresses"]).exits(0);
    let pins = scene.path("ana/seen").exists();
    assert!(!pins, "a completion is no first contact");
}
