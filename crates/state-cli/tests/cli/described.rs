//! Runs every command with `--json`: each printed document must match a schema, and each schema must be used.

use crate::sandbox::{Sandbox, fixture, run};
use serde_json::Value;
use state_core::mutation::End;
use state_core::{Entry, Enveloped, LogLevel, LogLine, Outcome, Timestamp, UpdateKind, UpdateResult};
use state_manager::{Intent, SpooledResult, UpdateRequest};
use std::collections::BTreeSet;
use std::path::Path;

const DATABASE: &str = "terraform_data.database";

/// A sandbox, the commands that ran in it, and the `kind` of every JSON document that they printed.
struct Tour {
    sandbox: Sandbox,
    ran: Vec<String>,
    kinds: BTreeSet<String>,
}

impl Tour {
    /// Runs a command that must succeed, and checks each printed line against its schema. Returns the `data` of the
    /// first line.
    #[track_caller]
    fn go(&mut self, arguments: &[&str]) -> Value {
        self.go_with(arguments, Path::new("/dev/null"))
    }

    /// Like [`Self::go`], with a file as stdin.
    #[track_caller]
    fn go_with(&mut self, arguments: &[&str], input: &Path) -> Value {
        let mut command = self.sandbox.command(&[arguments, &["--json", "--yes"]].concat());
        let ran = run(command.stdin(std::fs::File::open(input).unwrap())).exits(0);
        assert_eq!(ran.stderr, "", "{arguments:?}");
        self.ran.push(arguments.join(" "));
        let mut first = None;
        for line in ran.stdout.lines() {
            let mut document = self.check(arguments, line);
            first.get_or_insert(document["data"].take());
        }
        first.unwrap_or_else(|| panic!("{arguments:?} printed nothing"))
    }

    /// Checks a printed line against its schema, and returns the document.
    #[track_caller]
    fn check(&mut self, arguments: &[&str], line: &str) -> Value {
        let document: Value = serde_json::from_str(line).unwrap();
        let objections = crate::schemas::objections(&document);
        assert!(
            objections.is_empty(),
            "{arguments:?}: {objections:#?}: {document:#}"
        );
        self.kinds.insert(document["kind"].as_str().unwrap().to_owned());
        document
    }
}

/// Returns the full names of all commands without subcommands, as `--help` lists them.
pub(crate) fn commands(sandbox: &Sandbox, above: &[&str]) -> Vec<String> {
    let help = sandbox.run(&[above, &["--help"]].concat()).exits(0).stdout;
    let listed = help.split("Commands:\n").nth(1).unwrap_or_default();
    let block = listed.split("\n\n").next().unwrap_or_default();
    let names = block.lines().filter_map(|line| line.strip_prefix("  "));
    let names = names.filter_map(|line| line.split(' ').next().filter(|name| !name.is_empty()));
    let mut found = Vec::new();
    for name in names.filter(|name| *name != "help") {
        let path = [above, &[name]].concat();
        let below = commands(sandbox, &path);
        if below.is_empty() {
            found.push(path.join(" "));
        }
        found.extend(below);
    }
    found
}

/// Leaves two operations pending, and one line in the log.
fn work(sandbox: &Sandbox) {
    sandbox.on_stack(async |stack| {
        let session = stack.lock("deploy").await.unwrap();
        let request = UpdateRequest::new(UpdateKind::Update);
        let update = session.start_update(request).await.unwrap();
        let moment = Timestamp::new("2026-01-01T00:00:00Z");
        update.log(&LogLine::new(moment, LogLevel::Info, "hello"));
        drop(update.begin(Intent::delete(entry_key())).await.unwrap());
        let more = Entry::leaf("terraform_data.more".parse().unwrap(), "terraform_data");
        drop(update.begin(Intent::create(more)).await.unwrap());
        update.finish(UpdateResult::Failed).await.unwrap();
        session.close().await.unwrap();
    });
}

/// Writes a file with a saved result for this operation: the operation failed without effect. Returns the path of the
/// file.
pub(crate) fn spooled(sandbox: &Sandbox, id: &str) -> String {
    let lineage = sandbox.on_stack(async |stack| stack.lineage());
    let spooled = SpooledResult {
        store: "file://.state".to_owned(),
        lineage,
        stack: "default".parse().unwrap(),
        at: Timestamp::new("2026-01-01T00:00:00Z"),
        end: End {
            id: id.parse().unwrap(),
            outcome: Outcome::Failed,
            entry: None,
            reasons: Vec::new(),
        },
        key_id: None,
        tag: None,
    };
    let file = sandbox.write("result.json", spooled.encode());
    file.to_str().unwrap().to_owned()
}

fn entry_key() -> state_core::EntryKey {
    state_core::EntryKey::live("terraform_data.backup".parse().unwrap())
}

fn reading(tour: &mut Tour) {
    for arguments in [
        &["backends"][..],
        &["kinds"],
        &["kinds", "random:password"],
        &["stack", "ls"],
        &["list"],
        &["show", DATABASE],
        &["outputs"],
        &["history"],
        &["history", DATABASE],
        &["logs"],
        &["diff", "1", "2"],
        &["diff"],
        &["diff", "--since", "1h"],
        &["blame", DATABASE],
        &["find", "database"],
        &["graph"],
        &["graph", "--around", DATABASE, "--depth", "1"],
        &["verify", "--deep"],
        &["doctor"],
        &["salvage"],
        &["export"],
        &["export", "--rev", "1", "-o", "out.tfstate"],
        &["pending", "list"],
        &["lock", "status"],
        &["config", "show"],
        &["completions", "bash"],
        &["schema"],
        &["schema", "history"],
        &["list", "--at", "1"],
    ] {
        tour.go(arguments);
    }
}

fn changing(tour: &mut Tour) {
    let pending = tour.go(&["pending", "list"]);
    let id = |at: usize| pending[at]["id"].as_str().unwrap().to_owned();
    tour.go(&["pending", "resolve", &id(0), "--not-done"]);
    let spooled = spooled(&tour.sandbox, &id(1));
    tour.go(&["pending", "resolve", "--from", &spooled]);
    tour.go(&["pending", "trust"]);
    tour.go(&["mv", "terraform_data.backup", "terraform_data.spare"]);
    tour.go(&["diff"]);
    tour.go(&["rm", "terraform_data.spare", "--force"]);
    for mark in ["protect", "unprotect", "taint", "untaint"] {
        tour.go(&[mark, DATABASE]);
    }
    tour.sandbox.write(
        "edits.json",
        format!(r#"{{"operations":[{{"op":"protect","addresses":["{DATABASE}"]}}]}}"#),
    );
    tour.go(&["apply-edits", "edits.json"]);
    tour.go(&["undo"]);
    tour.go(&["repair"]);
    tour.go(&["repair", "--dry-run"]);
    tour.go(&["rollback", "1"]);
    tour.go(&["copy", "file://.state", "file://copy"]);
    tour.go(&["restore", "copy"]);
    tour.go(&["login", "file://copy"]);
    tour.go(&["whoami"]);
    tour.go(&["logout"]);
    tour.go(&["gc", "--dry-run"]);
    tour.go(&["gc"]);
    let lock = tour.go(&["lock", "acquire", "-m", "freeze"]);
    let id = lock["client-lock"]["id"].as_str().unwrap().to_owned();
    tour.go(&["lock", "status"]);
    tour.go(&["stack", "ls"]);
    tour.go(&["lock", "release", "--lock-id", &id]);
    tour.go(&["lock", "break"]);
    tour.go(&["stack", "new", "other"]);
    tour.go(&["stack", "rename", "other", "another"]);
    let migration = "terraform_data.migration";
    let across = [
        "--to-stack",
        "another",
        "--with-dependencies",
        "--stack",
        "default",
    ];
    tour.go(&[&["mv", DATABASE, migration][..], &across].concat());
    tour.go(&["stack", "rm", "another", "--force"]);
}

fn deploying(tour: &mut Tour) {
    tour.sandbox.write(
        "state.yaml",
        "resources:\n  page: { kind: file, inputs: { path: page, content: hello } }\noutputs: { path: \"${page.path}\" }",
    );
    for command in ["preview", "up", "refresh", "destroy"] {
        tour.go(&[command, "--stack", "deployed"]);
    }
    tour.go(&["trust", "commands", "--stack", "deployed"]);
    tour.go(&["trust", "path", ".state"]);
    tour.go(&["stack", "rm", "deployed"]);
}

fn sealing(tour: &mut Tour) {
    tour.go(&["identity", "--new"]);
    let mine = tour.go(&["identity"]);
    assert!(mine.is_object(), "{mine}");
    tour.go(&["encrypt", "--policy", "sensitive"]);
    let other = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p";
    tour.go(&["recipients", "add", "--name", "bob", other]);
    tour.go(&["recipients", "list"]);
    tour.go(&["recipients", "remove", other]);
    tour.go(&["recipients", "add", "--outputs", other]);
    tour.go(&["rekey"]);
    tour.go(&["trust"]);
    tour.go(&["secret", "scan", "--all"]);
    tour.go(&["secret", "seal", "--all"]);
    let token = tour.sandbox.write("token.txt", "hunter2");
    for (action, input) in [
        ("encrypt", token),
        ("encrypt", tour.sandbox.write("values.json", r#"{"a":"b"}"#)),
    ] {
        let batch = input.extension().is_some_and(|extension| extension == "json");
        let what = if batch { "--batch" } else { "db" };
        let sealed = tour.go_with(&["secret", action, what], &input);
        let sealed = tour.sandbox.write(
            "sealed.txt",
            match sealed.as_str() {
                Some(text) => text.to_owned(),
                None => sealed.to_string(),
            },
        );
        tour.go_with(&["secret", "decrypt", what], &sealed);
    }
}

/// Sends a request to `serve`, which prints one document for it.
fn serving(tour: &mut Tour) {
    let (server, requests) = crate::serving::answered(&tour.sandbox, "/v1/state/shop/production", "");
    tour.ran.push("serve".to_owned());
    assert_eq!(requests.lines().count(), 1, "{server}: {requests}");
    for line in requests.lines() {
        tour.check(&["serve"], line);
    }
}

#[test]
fn every_json_output_matches_a_schema_and_all_are_used() {
    let mut tour = Tour {
        sandbox: Sandbox::new(),
        ran: Vec::new(),
        kinds: BTreeSet::new(),
    };
    tour.go(&["init"]);
    for name in ["shop.tfstate", "successor.tfstate"] {
        tour.go(&["import", fixture(name).to_str().unwrap()]);
    }
    work(&tour.sandbox);
    reading(&mut tour);
    changing(&mut tour);
    deploying(&mut tour);
    sealing(&mut tour);
    serving(&mut tour);
    let all = commands(&tour.sandbox, &[]);
    assert!(all.len() > 35, "{all:?}");
    // `edit` needs an editor, so `edits.rs` tests it with a script as the editor. `run` prints what its command prints.
    for command in all
        .iter()
        .filter(|command| !["edit", "run"].contains(&&***command))
    {
        let began = |ran: &String| ran == command || ran.starts_with(&format!("{command} "));
        assert!(
            tour.ran.iter().any(began),
            "run `{command}` here, and describe what it prints"
        );
    }
    let kinds = tour.sandbox.run(&["schema"]).exits(0).stdout;
    // The commands above don't print these kinds: an error, a client lock that was broken by its id, the report of
    // `edit`.
    let elsewhere = ["error", "lock-break-client", "edit"];
    for kind in kinds.lines().filter(|kind| !elsewhere.contains(kind)) {
        assert!(tour.kinds.contains(kind), "no command prints `{kind}`");
    }
}

#[test]
fn long_help_contains_the_full_description() {
    let sandbox = Sandbox::new();
    for (command, text) in [
        ("find", "mark:tainted"),
        ("apply-edits", "\"operations\""),
        ("import", "a higher serial"),
        ("undo", "no real resource is changed"),
        ("logs", "Logs of an encrypted stack are encrypted too"),
        ("up", "detected only with `--refresh`"),
        ("refresh", "resolved first"),
    ] {
        let help = sandbox.run(&["help", command]).exits(0).stdout;
        let words: Vec<&str> = help.split_whitespace().collect();
        assert!(words.join(" ").contains(text), "{command}: {help}");
    }
}
