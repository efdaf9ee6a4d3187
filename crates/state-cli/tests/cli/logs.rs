//! `logs`: the log lines of updates.

use crate::sandbox::Sandbox;
use serde_json::Value;
use state_core::{LogLevel, LogLine, Timestamp, UpdateKind, UpdateResult};
use state_manager::UpdateRequest;

const LINES: [(&str, LogLevel, Option<&str>, &str); 4] = [
    ("2026-01-01T00:00:00Z", LogLevel::Info, None, "begin"),
    (
        "2026-01-01T01:00:00Z",
        LogLevel::Debug,
        Some("module.net.vpc"),
        "looked at the \u{1b}[31mvpc\nand again",
    ),
    (
        "2026-01-01T02:00:00Z",
        LogLevel::Warning,
        Some("module.network"),
        "slow",
    ),
    (
        "2026-01-01T03:00:00Z",
        LogLevel::Error,
        Some("module.net"),
        "gone",
    ),
];

/// Returns a sandbox whose stack has an import without log lines, and two updates that each log all [`LINES`].
fn talkative() -> Sandbox {
    let sandbox = Sandbox::with_shop();
    sandbox.on_stack(async |stack| {
        let session = stack.lock("deploy").await.unwrap();
        for _ in 0..2 {
            let update = session
                .start_update(UpdateRequest::new(UpdateKind::Update))
                .await
                .unwrap();
            for (time, level, address, message) in LINES {
                let mut line = LogLine::new(Timestamp::new(time), level, message);
                line.address = address.map(|address| address.parse().unwrap());
                line.source = "engine".to_owned();
                update.log(&line);
            }
            update.finish(UpdateResult::Succeeded).await.unwrap();
        }
        session.close().await.unwrap();
    });
    sandbox
}

/// Returns the documents that `logs --json` prints, after checking each against its schema.
fn lines(sandbox: &Sandbox, arguments: &[&str]) -> Vec<Value> {
    let ran = sandbox.run(&[&["logs", "--json"], arguments].concat()).exits(0);
    assert_eq!(ran.stderr, "");
    let documents = ran.stdout.lines().map(|line| {
        let mut document: Value = serde_json::from_str(line).unwrap();
        assert_eq!(crate::schemas::objections(&document), Vec::<String>::new());
        assert_eq!(
            (&document["kind"], &document["format-version"]),
            (&"logs".into(), &1.into())
        );
        document["data"].take()
    });
    documents.collect()
}

fn said(sandbox: &Sandbox, arguments: &[&str]) -> Vec<String> {
    let first = |line: &Value| {
        line["message"]
            .as_str()
            .unwrap()
            .split(' ')
            .next()
            .unwrap()
            .to_owned()
    };
    lines(sandbox, arguments).iter().map(first).collect()
}

#[test]
fn each_flag_filters_the_printed_lines() {
    let sandbox = talkative();
    let all = lines(&sandbox, &[]);
    assert_eq!(all.len(), 8);
    assert_eq!((&all[0]["update"], &all[7]["update"]), (&2.into(), &3.into()));
    assert_eq!(
        (&all[1]["address"], &all[0]["address"]),
        (&"module.net.vpc".into(), &Value::Null)
    );
    for (narrowed, expected) in [
        (&["--update", "3"][..], &["begin", "looked", "slow", "gone"][..]),
        (&["--update", "@-", "--level", "warning"], &["slow", "gone"]),
        (&["--update", "@", "--address", "module.net"], &["looked", "gone"]),
        (
            &["--update", "@", "--address", "module.net*"],
            &["looked", "slow", "gone"],
        ),
        (&["--update", "@", "--address", "*.vpc"], &["looked"]),
        (
            &[
                "--update",
                "@",
                "--since",
                "2026-01-01T01:00:00Z",
                "--until",
                "2026-01-01T03:00:00Z",
            ],
            &["looked", "slow"],
        ),
        (&["--until", "2026-01-01"], &[]),
        (&["--update", "1"], &[]),
        (&["--since", "1s", "--until", "0s"], &[]),
        (&["--level", "error"], &["gone", "gone"]),
    ] {
        assert_eq!(said(&sandbox, narrowed), expected, "{narrowed:?}");
    }
    for (wrong, code) in [
        (["--level", "loud"], 2),
        (["--since", "soon"], 2),
        (["--until", "1mo"], 2),
        (["--update", "9"], 10),
        (["--address", ""], 1),
    ] {
        let refused = sandbox
            .run(&[&["logs", "--json"][..], &wrong].concat())
            .exits(code);
        assert_eq!(refused.json()["kind"], "error", "{wrong:?}");
    }
}

#[test]
fn log_lines_are_aligned_and_control_characters_escaped() {
    let sandbox = talkative();
    let page = sandbox.run(&["logs", "--update", "@"]).exits(0).stdout;
    assert_eq!(
        page.lines().collect::<Vec<_>>(),
        [
            "2026-01-01T00:00:00Z info    engine: begin",
            "2026-01-01T01:00:00Z debug   engine: module.net.vpc: looked at the \\u{1b}[31mvpc",
            "  and again",
            "2026-01-01T02:00:00Z warning engine: module.network: slow",
            "2026-01-01T03:00:00Z error   engine: module.net: gone",
        ]
    );
    assert_eq!(Sandbox::with_shop().run(&["logs"]).exits(0).stdout, "");
}

#[test]
fn missing_log_is_reported_whatever_the_filter() {
    let sandbox = talkative();
    let folder = std::fs::read_dir(sandbox.path().join(".state/stacks")).unwrap();
    let logs = folder.flatten().next().unwrap().path().join("logs");
    let mut files: Vec<_> = std::fs::read_dir(logs)
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    files.sort();
    std::fs::remove_file(&files[0]).unwrap();
    let filters = [
        &["--level", "error"][..],
        &["--address", "module.net"],
        &["--address", "aws_*"],
        &["--since", "2020-01-01"],
        &[],
    ];
    for filter in filters {
        for json in [&[][..], &["--json"]] {
            let ran = sandbox.run(&[&["logs"], filter, json].concat()).exits(0);
            let is_reported =
                ran.stderr.contains("the log of an update is missing") && ran.stderr.contains("revision 2");
            assert!(is_reported, "{filter:?}: {ran:?}");
        }
    }
    // A later log is damaged: the missing one is reported beside the error.
    std::fs::write(&files[1], "damaged").unwrap();
    let ran = sandbox.run(&["logs", "--level", "error"]);
    assert_eq!(ran.code, 14, "{ran:?}");
    assert!(ran.stderr.contains("the log of an update is missing"), "{ran:?}");
}

#[test]
fn damaged_log_hides_no_other_log() {
    let sandbox = talkative();
    let whole = sandbox.run(&["logs", "--update", "3"]).exits(0).stdout;
    let folder = std::fs::read_dir(sandbox.path().join(".state/stacks")).unwrap();
    let logs = folder.flatten().next().unwrap().path().join("logs");
    let files = std::fs::read_dir(logs).unwrap().map(|file| file.unwrap().path());
    std::fs::write(files.min().unwrap(), "damaged").unwrap();
    let ran = sandbox.run(&["logs"]).exits(14);
    assert_eq!(ran.stdout, whole, "{ran:?}");
    assert!(ran.stderr.contains("logs/00000000000000000002"), "{ran:?}");
    assert_eq!(sandbox.run(&["logs", "--update", "3"]).exits(0).stdout, whole);
    sandbox.run(&["logs", "--update", "2"]).exits(14);
}
