//! `diff`, `blame`, `find`, `graph`, and reads of earlier revisions with `--at`.

use crate::sandbox::{Sandbox, fixture};
use serde_json::Value;
use state_core::mutation::EditChange;
use state_core::{Entry, EntryKey, UpdateKind, UpdateResult};
use state_manager::{Intent, UpdateRequest};

const SECRET: &str = "correct horse battery staple";

/// Returns a sandbox whose stack has two revisions: the fixture `shop`, then its successor.
fn two() -> Sandbox {
    let sandbox = Sandbox::with_shop();
    sandbox.import("successor.tfstate").exits(0);
    sandbox
}

fn addresses(entries: &Value) -> Vec<&str> {
    let entries = entries.as_array().unwrap().iter();
    entries.map(|entry| entry["address"].as_str().unwrap()).collect()
}

/// Changes one resource by hand, as one revision.
fn edit(sandbox: &Sandbox, change: impl Fn(Entry) -> Entry, address: &str) {
    let key = EntryKey::live(address.parse().unwrap());
    sandbox.on_stack(async |stack| {
        let session = stack.lock("edit").await.unwrap();
        let entry = session.state().entry(&key).unwrap().clone();
        let update = session
            .start_update(UpdateRequest::new(UpdateKind::Edit))
            .await
            .unwrap();
        let put = EditChange::Put {
            target: key.clone(),
            entry: change(Entry::clone(&entry)).into(),
        };
        update.edit(vec![put]).await.unwrap();
        update.finish(UpdateResult::Succeeded).await.unwrap();
        session.close().await.unwrap();
    });
}

#[test]
fn diff_compares_the_latest_revision_with_the_one_before_it() {
    let sandbox = two();
    let data = sandbox.run(&["diff", "--json"]).exits(0).data("diff");
    let history = sandbox.history();
    assert_eq!(
        (&data["old"], &data["new"]),
        (&history[1]["id"], &history[0]["id"])
    );
    assert_eq!(
        addresses(&data["added"]),
        [
            r#"module.service["web"].terraform_data.instance[3]"#,
            r#"module.service["web"].terraform_data.dns["host-3.web"]"#,
            "terraform_data.backup"
        ]
    );
    assert_eq!(data["removed"].as_array().unwrap().len(), 2);
    let database = &data["changed"][0];
    assert_eq!(database["address"], "terraform_data.database");
    assert_eq!(database["changes"][0]["pointer"], "/outputs/input/value/size_gb");
    assert_eq!(database["changes"][0]["old"], 512);
    assert_eq!(database["changes"][0]["new"], 1024);
    let printed = sandbox.run(&["diff"]).exits(0).stdout;
    assert!(
        printed.contains("~ outputs/input/value/size_gb: 512 → 1024"),
        "{printed}"
    );
    let named = sandbox.run(&["diff", "1", "2"]).exits(0).stdout;
    assert_eq!(named, printed);
    assert_eq!(sandbox.run(&["diff", "1"]).exits(0).stdout, printed);
    let back = sandbox.run(&["diff", "2", "1", "--json"]).exits(0).data("diff");
    assert_eq!(addresses(&back["removed"]), addresses(&data["added"]));
}

#[test]
fn detailed_exitcode_reports_differences() {
    let sandbox = two();
    sandbox.run(&["diff", "--detailed-exitcode"]).exits(3);
    sandbox
        .run(&["diff", "@", "--detailed-exitcode", "--json"])
        .exits(0);
    sandbox.run(&["diff", "1", "2"]).exits(0);
    let same = sandbox.run(&["diff", "1", "1", "--detailed-exitcode"]).exits(0);
    assert!(same.stdout.contains("no differences"), "{same:?}");
    sandbox.run(&["diff", "9"]).exits(10);
}

#[test]
fn diff_of_the_first_revision_lists_all_resources() {
    let sandbox = Sandbox::with_shop();
    let data = sandbox.run(&["diff", "--json"]).exits(0).data("diff");
    assert_eq!(data["old"], Value::Null);
    assert_eq!(data["added"].as_array().unwrap().len(), 29);
    assert_eq!(data["header"], Value::Array(Vec::new()));
}

#[test]
fn diff_during_an_update_shows_its_changes_so_far() {
    let sandbox = Sandbox::with_shop();
    sandbox.on_stack(async |stack| {
        let session = stack.lock("deploy").await.unwrap();
        let update = session
            .start_update(UpdateRequest::new(UpdateKind::Update))
            .await
            .unwrap();
        let entry = Entry::leaf("bucket.logs".parse().unwrap(), "bucket");
        let step = update.begin(Intent::create(entry.clone())).await.unwrap();
        step.succeed(Some(entry)).await.unwrap();
        let data = sandbox.run(&["diff", "--json"]).exits(0).data("diff");
        assert_eq!(
            data["new"],
            Value::Null,
            "an open update must have no revision yet"
        );
        assert_eq!(addresses(&data["added"]), ["bucket.logs"]);
        assert_eq!(data["changed"], Value::Array(Vec::new()));
    });
}

#[test]
fn diff_shows_moves_and_blame_follows_them() {
    let sandbox = Sandbox::with_shop();
    let rename = |mut entry: Entry| {
        entry.address = "terraform_data.spare".parse().unwrap();
        entry
    };
    // No other resource depends on this one.
    edit(&sandbox, rename, "terraform_data.migration");
    let data = sandbox.run(&["diff", "--json"]).exits(0).data("diff");
    assert_eq!(data["moved"][0]["from"]["address"], "terraform_data.migration");
    assert_eq!(data["moved"][0]["to"]["address"], "terraform_data.spare");
    for empty in ["added", "removed", "changed"] {
        assert_eq!(data[empty], Value::Array(Vec::new()), "{empty}");
    }
    let blamed = sandbox
        .run(&["blame", "terraform_data.spare", "--json"])
        .exits(0)
        .data("blame");
    let serial = |pointer: &str| {
        let lines = blamed["properties"].as_array().unwrap();
        let line = lines.iter().find(|line| line["pointer"] == pointer).unwrap();
        line["revision"]
            .as_str()
            .unwrap()
            .split('-')
            .next()
            .unwrap()
            .to_owned()
    };
    assert_eq!(serial("/address"), "2");
    assert_eq!(serial("/id"), "1");
}

#[test]
fn blame_names_the_revision_of_each_property() {
    let sandbox = two();
    let printed = sandbox.run(&["blame", "terraform_data.database"]).exits(0).stdout;
    let line = |property: &str| printed.lines().find(|line| line.contains(property)).unwrap();
    assert!(line("outputs/input/value/size_gb").starts_with("2-"), "{printed}");
    assert!(line("outputs/input/value/engine").starts_with("1-"), "{printed}");
    let earlier = sandbox
        .run(&["blame", "terraform_data.database", "--at", "1"])
        .exits(0)
        .stdout;
    assert!(
        earlier.lines().skip(1).all(|line| line.starts_with("1-")),
        "{earlier}"
    );
    let missing = sandbox.run(&["blame", "terraform_data.databse"]).exits(10);
    assert!(missing.stderr.contains("did you mean"), "{missing:?}");
    sandbox
        .run(&["blame", "terraform_data.backup", "--at", "1"])
        .exits(10);
}

#[test]
fn every_reading_command_accepts_an_earlier_revision() {
    let sandbox = two();
    let at = |arguments: &[&str]| sandbox.run(&[arguments, &["--at", "1"]].concat()).exits(0).stdout;
    assert_eq!(at(&["list"]).lines().count(), 29);
    assert!(at(&["show", "terraform_data.database"]).contains("512"));
    assert!(at(&["outputs"]).contains("host-4.worker"));
    assert!(!sandbox.run(&["outputs"]).stdout.contains("host-4.worker"));
    assert!(!at(&["graph"]).contains("backup") && sandbox.run(&["graph"]).stdout.contains("backup"));
    assert_eq!(at(&["find", "backup"]), "");
    assert!(at(&["verify"]).contains("29 resources"));
    let shop = std::fs::read_to_string(fixture("shop.tfstate")).unwrap();
    assert_eq!(at(&["export"]), shop);
    let listed = sandbox
        .run(&["list", "--at", "@-", "--json"])
        .exits(0)
        .data("list");
    assert_eq!(listed["at"], listed["revision"]);
    let missing = sandbox
        .run(&["show", "terraform_data.backup", "--at", "1"])
        .exits(10);
    assert!(missing.stderr.contains("at revision 1-"), "{missing:?}");
    for command in [
        &["list"][..],
        &["outputs"],
        &["verify"],
        &["graph"],
        &["find", "x"],
    ] {
        sandbox.run(&[command, &["--at", "9"]].concat()).exits(10);
    }
}

#[test]
fn find_searches_names_and_values() {
    let sandbox = two();
    let found = |query: &[&str]| sandbox.run(&[&["find"], query].concat()).exits(0).stdout;
    assert_eq!(found(&["POSTGRES"]), "terraform_data.database\n");
    assert_eq!(found(&["kind:terraform_*", "host-3.web"]).lines().count(), 1);
    assert_eq!(found(&["kind:terraform"]), "");
    assert_eq!(found(&["address:*.backup"]), "terraform_data.backup\n");
    let data = sandbox.run(&["find", "postgres", "--json"]).exits(0).data("find");
    assert_eq!(data["matches"][0]["found-in"][0], "outputs/input/value/engine");
    sandbox.run(&["find"]).exits(2);
}

#[test]
fn too_large_graph_is_refused_with_a_hint() {
    let sandbox = Sandbox::with_shop();
    sandbox.on_stack(async |stack| {
        let session = stack.lock("edit").await.unwrap();
        let update = session
            .start_update(UpdateRequest::new(UpdateKind::Edit))
            .await
            .unwrap();
        let many = (0..250).map(|number| {
            let mut entry = Entry::leaf(format!("bucket.b{number}").parse().unwrap(), "bucket");
            entry.id = Some(format!("b-{number}"));
            EditChange::Append(entry.into())
        });
        update.edit(many.collect()).await.unwrap();
        update.finish(UpdateResult::Succeeded).await.unwrap();
        session.close().await.unwrap();
    });
    let refused = sandbox.run(&["graph"]).exits(4);
    assert!(refused.stderr.contains("--around"), "{refused:?}");
    let drawn = sandbox
        .run(&["graph", "--around", "terraform_data.database"])
        .exits(0);
    assert!(
        drawn.stdout.contains("needed by\n└─ terraform_data.migration"),
        "{drawn:?}"
    );
    let missing = sandbox
        .run(&["graph", "--around", "terraform_data.databse"])
        .exits(10);
    assert!(missing.stderr.contains("did you mean"), "{missing:?}");
}

#[test]
fn graph_is_printed_as_dot_mermaid_and_json() {
    let sandbox = Sandbox::with_shop();
    let dot = sandbox
        .run(&["graph", "--format", "dot", "--group-by", "type"])
        .exits(0)
        .stdout;
    assert!(
        dot.starts_with("digraph state {") && dot.ends_with("}\n"),
        "{dot}"
    );
    assert!(
        dot.contains("label=\"module.service.terraform_data.dns x12\""),
        "{dot}"
    );
    let mermaid = sandbox.run(&["graph", "--format", "mermaid"]).exits(0).stdout;
    assert!(mermaid.starts_with("flowchart LR\n"), "{mermaid}");
    let data = sandbox.run(&["graph", "--json"]).exits(0).data("graph");
    assert_eq!(data["nodes"][0]["count"], 12);
    assert_eq!(data["edges"][0]["link"], "needs");
}

#[test]
fn history_is_limited_and_has_one_json_line_per_revision() {
    let sandbox = two();
    let lines = |arguments: &[&str]| {
        sandbox
            .run(&[&["history", "--json"], arguments].concat())
            .exits(0)
            .stdout
            .lines()
            .count()
    };
    assert_eq!(lines(&[]), 2);
    assert_eq!(lines(&["-n", "1"]), 1);
    assert_eq!(lines(&["--limit", "0"]), 0);
    assert_eq!(lines(&["--since", "1h"]), 2);
    assert_eq!(lines(&["--since", "2999-01-01"]), 0);
    sandbox.run(&["history", "--since", "soon"]).exits(2);
    sandbox.run(&["history", "--since", "1mo"]).exits(2);
}

#[test]
fn history_of_an_address_lists_only_its_changes() {
    let sandbox = two();
    let serials = |address: &str| -> Vec<u64> {
        let lines = sandbox.run(&["history", address, "--json"]).exits(0).stdout;
        let lines = lines
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines
            .map(|line| line["data"]["serial"].as_u64().unwrap())
            .collect()
    };
    sandbox.run(&["taint", "terraform_data.backup", "--yes"]).exits(0);
    assert_eq!(
        serials("terraform_data.backup"),
        [3, 2],
        "the second state adds it"
    );
    sandbox
        .run(&["mv", "terraform_data.backup", "terraform_data.moved", "--yes"])
        .exits(0);
    assert_eq!(serials("terraform_data.moved"), [4, 3, 2]);
    assert_eq!(
        serials("terraform_data.backup"),
        [4, 3, 2],
        "the address is empty now"
    );
    sandbox.run(&["rollback", "3", "--yes"]).exits(0);
    assert_eq!(serials("terraform_data.backup"), [5, 4, 3, 2]);
    assert_eq!(serials("terraform_data.missing"), [0; 0]);
    let text = sandbox
        .run(&["history", "terraform_data.missing"])
        .exits(0)
        .stdout;
    assert!(
        text.contains("no revision changed terraform_data.missing"),
        "{text}"
    );
}

#[test]
fn diff_since_compares_with_the_revision_of_that_time() {
    let sandbox = two();
    let diff = |since: &str| {
        sandbox
            .run(&["diff", "--since", since, "--json"])
            .exits(0)
            .data("diff")
    };
    assert_eq!(diff("1h")["old"], Value::Null, "the stack is younger");
    assert_eq!(diff("2999-01-01")["old"], sandbox.history()[0]["id"]);
    assert_eq!(diff("2999-01-01")["identical"], true);
    sandbox.run(&["diff", "1", "--since", "1h"]).exits(2);
    sandbox.run(&["diff", "--since", "soon"]).exits(2);
}

#[test]
fn history_marks_undone_revisions() {
    let sandbox = two();
    let undone = || -> Vec<Value> {
        let history = sandbox.history();
        history.iter().map(|line| line["undone-by"].clone()).collect()
    };
    assert_eq!(undone(), [Value::Null, Value::Null]);
    sandbox.run(&["rollback", "1", "--yes"]).exits(0);
    let third = sandbox.history()[0]["id"].clone();
    assert_eq!(undone(), [Value::Null, third, Value::Null]);
    assert!(sandbox.run(&["history"]).stdout.contains("(undone by 3)"));
    // A rollback to the second revision undoes the first rollback.
    sandbox.run(&["rollback", "2", "--yes"]).exits(0);
    let fourth = sandbox.history()[0]["id"].clone();
    assert_eq!(undone(), [Value::Null, fourth, Value::Null, Value::Null]);
}

#[test]
fn no_reading_command_shows_or_finds_a_secret() {
    let sandbox = Sandbox::with_shop();
    let text = std::fs::read_to_string(fixture("shop.tfstate")).unwrap();
    let rotated =
        text.replace(SECRET, &format!("{SECRET}, rotated"))
            .replacen("\"serial\": 30", "\"serial\": 31", 1);
    let file = sandbox.write("rotated.tfstate", rotated);
    sandbox.run(&["import", file.to_str().unwrap()]).exits(0);
    let commands: [&[&str]; 8] = [
        &["diff"],
        &["diff", "2", "1"],
        &["blame", "terraform_data.database"],
        &["find", "terraform_data"],
        &["graph"],
        &["show", "terraform_data.database", "--at", "1"],
        &["outputs", "--at", "1"],
        &["list", "--long", "--at", "1"],
    ];
    for arguments in commands {
        for json in [&[][..], &["--json"]] {
            let ran = sandbox.run(&[arguments, json].concat()).exits(0);
            assert!(
                !ran.stdout.contains(SECRET) && !ran.stderr.contains(SECRET),
                "{ran:?}"
            );
        }
    }
    let text = sandbox.run(&["diff"]).exits(0).stdout;
    assert!(text.contains("password: (sensitive, changed)"), "{text}");
    assert_eq!(sandbox.run(&["find", "battery"]).exits(0).stdout, "");
    assert_eq!(
        sandbox
            .run(&["find", "battery", "--show-secrets"])
            .exits(0)
            .stdout,
        ""
    );
    let shown = sandbox.run(&["diff", "--show-secrets"]).exits(0).stdout;
    assert!(shown.contains("rotated"), "{shown}");
}
