//! Tests of the command provider: environment, output, and failures. Exit code 66 of a `read` or `delete` means that
//! the object is missing. Exit code 75 means in a `create` that nothing was done, and in a `read` that the outcome is
//! unknown.

use super::{ProviderHarness, goal, ops, refusals, shell, update};
use state_engine::StepOp;
use state_engine::settle::Decision;

#[tokio::test]
async fn each_operation_runs_its_own_command() {
    let harness = ProviderHarness::new().await;
    let with = |size: &str| {
        shell(&[
            (
                "create",
                r#"echo "$STATE_OP $STATE_MUTATION" >> log; echo '{"id":"i-1","size":1}'"#,
            ),
            ("read", r#"echo "$STATE_OP $STATE_ID" >> log; cat there.json"#),
            (
                "update",
                r#"echo "$STATE_OP $STATE_ID $STATE_OUTPUTS $SIZE" >> log; echo '{"size":2}'"#,
            ),
            ("delete", r#"echo "$STATE_OP $STATE_ID $STATE_OUTPUTS" >> log"#),
            ("stdin", size),
        ])
    };
    harness.done(&[with("a")]).await;
    let entry = harness.entry("job").await.unwrap();
    assert_eq!(entry.id.as_deref(), Some("i-1"));
    assert_eq!(
        entry.outputs.as_ref().unwrap().json().as_str(),
        r#"{"id":"i-1","size":1}"#
    );
    assert!(!harness.done(&[with("a")]).await.has_changes());
    assert_eq!(ops(&harness.done(&[with("b")]).await), [StepOp::Update]);
    assert_eq!(harness.output("job", "size").await.unwrap(), "2");
    assert_eq!(harness.entry("job").await.unwrap().id.as_deref(), Some("i-1"));
    harness.put("there.json", r#"{"size":3}"#);
    assert!(harness.refresh().await.succeeded());
    assert_eq!(harness.output("job", "size").await.unwrap(), "3");
    assert!(harness.destroy().await.succeeded());
    let log = harness.text("log");
    let lines: Vec<&str> = log.lines().collect();
    assert!(lines[0].starts_with("create ") && lines[0].len() > 30, "{log}");
    let rest = [
        r#"update i-1 {"id":"i-1","size":1} "#,
        "read i-1",
        r#"delete i-1 {"size":3}"#,
    ];
    assert_eq!(lines[1..], rest, "{log}");
}

#[tokio::test]
async fn plain_text_becomes_stdout_and_lists_skip_the_shell() {
    let harness = ProviderHarness::new().await;
    let inputs = r#"{"create":["printf","%s\n\n","$HOME `id` *"]}"#;
    harness.done(&[goal("job", "command", inputs)]).await;
    assert_eq!(
        harness.output("job", "stdout").await.unwrap(),
        r#""$HOME `id` *""#
    );
    let id = harness.entry("job").await.unwrap().id.clone().unwrap();
    assert_eq!(id.len(), 36, "{id}");
    let report = harness
        .done(&[goal("job", "command", r#"{"create":["cat"],"stdin":"fed"}"#)])
        .await;
    assert!(
        ops(&report).contains(&StepOp::CreateReplacement),
        "without `update` the object is replaced"
    );
    assert_eq!(harness.output("job", "stdout").await.unwrap(), r#""fed""#);
}

#[tokio::test]
async fn trigger_change_replaces_but_command_change_runs_nothing() {
    let harness = ProviderHarness::new().await;
    let with = |trigger: &str, delete: &str| {
        shell(&[
            ("create", "echo create >> log"),
            ("update", "echo update >> log"),
            ("delete", delete),
            ("triggers", trigger),
        ])
    };
    harness.done(&[with("1", "echo first >> log")]).await;
    let report = harness.done(&[with("1", "echo second >> log")]).await;
    // The run only records the new `delete` command. The next delete executes it.
    assert!(ops(&report).iter().all(|op| *op == StepOp::Same), "{report:?}");
    harness.done(&[with("2", "echo second >> log")]).await;
    assert_eq!(harness.text("log"), "create\ncreate\nsecond\n");
}

#[tokio::test]
async fn failed_create_is_deleted_and_repeated_by_the_next_run() {
    let harness = ProviderHarness::new().await;
    let with = |create: &str| {
        shell(&[
            ("create", create),
            ("update", "echo update >> log"),
            ("delete", "echo delete >> log; rm -f half"),
        ])
    };
    let report = harness.up(&[with("touch half; exit 3")]).await;
    assert!(
        refusals(&report).contains("`create` failed: exit status: 3"),
        "{report:?}"
    );
    assert_eq!(harness.output("job", "unfinished").await.unwrap(), r#""create""#);
    harness.done(&[with("touch whole")]).await;
    assert_eq!(harness.text("log"), "delete\n");
    assert_eq!(harness.names(), ["log", "whole"]);
    assert_eq!(harness.output("job", "unfinished").await, None);
}

#[tokio::test]
async fn read_decides_the_outcome_of_a_failed_create() {
    let harness = ProviderHarness::new().await;
    let with =
        |create: &str, read: &str| shell(&[("create", create), ("read", read), ("update", "echo mended")]);
    let gone = harness.up(&[with("exit 1", "exit 66")]).await;
    assert!(refusals(&gone).contains("exit status: 1"));
    assert!(
        harness.entry("job").await.is_none(),
        "the object doesn't exist, so nothing was done"
    );
    let messages = harness.up(&[with("exit 1", r#"echo '{"id":"half"}'"#)]).await;
    refusals(&messages);
    assert_eq!(harness.entry("job").await.unwrap().id.as_deref(), Some("half"));
    assert_eq!(
        ops(&harness.done(&[with("exit 1", "exit 0")]).await),
        [StepOp::Update]
    );
    assert_eq!(harness.output("job", "stdout").await.unwrap(), r#""mended""#);
    harness.destroy().await;
    let indeterminate = harness.up(&[with("exit 1", "exit 75")]).await;
    assert_eq!(
        indeterminate.pending.len(),
        1,
        "the outcome is unknown: {indeterminate:?}"
    );
}

#[tokio::test]
async fn command_not_started_or_exit_75_counts_as_not_done() {
    let harness = ProviderHarness::new().await;
    let messages = refusals(&harness.up(&[shell(&[("create", "exit 75")])]).await);
    assert!(
        messages.contains("`create` reports that nothing was done (exit code 75)"),
        "{messages}"
    );
    let messages = refusals(
        &harness
            .up(&[goal("job", "command", r#"{"create":["no-such-program"]}"#)])
            .await,
    );
    assert!(
        messages.contains("`create` can't be started: program no-such-program not found"),
        "{messages}"
    );
    let messages = refusals(
        &harness
            .up(&[shell(&[("create", "true"), ("dir", "nowhere")])])
            .await,
    );
    assert!(messages.contains("doesn't exist"), "{messages}");
    assert!(harness.entry("job").await.is_none());
}

#[tokio::test]
async fn failed_update_is_repeated_by_the_next_run() {
    let harness = ProviderHarness::new().await;
    let with = |update: &str| shell(&[("create", "echo 1"), ("update", update), ("stdin", update)]);
    harness.done(&[with("true")]).await;
    refusals(&harness.up(&[with("exit 1")]).await);
    assert_eq!(harness.output("job", "stdout").await.unwrap(), r#""1""#);
    assert_eq!(harness.output("job", "unfinished").await.unwrap(), r#""update""#);
    refusals(&harness.up(&[with("exit 1")]).await);
    harness.done(&[with("echo 2")]).await;
    assert_eq!(harness.output("job", "stdout").await.unwrap(), r#""2""#);
    assert_eq!(harness.output("job", "unfinished").await, None);
}

#[tokio::test]
async fn failed_delete_keeps_the_entry_unless_the_object_is_missing() {
    let harness = ProviderHarness::new().await;
    harness
        .done(&[shell(&[("create", "true"), ("delete", "exit 1")])])
        .await;
    assert!(refusals(&harness.destroy().await).contains("`delete` failed"));
    assert!(harness.entry("job").await.is_some());
    harness
        .done(&[shell(&[
            ("create", "true"),
            ("delete", "exit 1"),
            ("read", "exit 66"),
        ])])
        .await;
    assert!(harness.destroy().await.succeeded());
    harness
        .done(&[shell(&[("create", "true"), ("delete", "exit 66")])])
        .await;
    assert!(harness.destroy().await.succeeded());
    assert!(harness.entry("job").await.is_none());
}

#[tokio::test]
async fn missing_object_is_recreated_after_a_refresh() {
    let harness = ProviderHarness::new().await;
    let goals = [shell(&[
        ("create", "touch there; echo made"),
        ("read", "test -e there || exit 66"),
    ])];
    harness.done(&goals).await;
    assert!(
        !harness.refresh().await.has_changes(),
        "a `read` without output keeps the outputs"
    );
    std::fs::remove_file(harness.path("there")).unwrap();
    assert!(harness.refresh().await.has_changes());
    assert_eq!(ops(&harness.done(&goals).await), [StepOp::Create]);
}

#[tokio::test]
async fn marking_an_output_secret_runs_no_command() {
    let harness = ProviderHarness::new().await;
    let with = |marks: &str| {
        goal(
            "job",
            "command",
            &format!(r#"{{"shell":true,"create":"echo x >> log; echo hello"{marks}}}"#),
        )
    };
    harness.done(&[with("")]).await;
    harness.done(&[with(r#","sensitive_outputs":["stdout"]"#)]).await;
    assert_eq!(harness.text("log"), "x\n");
    assert_eq!(harness.entry("job").await.unwrap().sensitive_outputs, ["stdout"]);
    assert_eq!(harness.output("job", "stdout").await.unwrap(), r#""hello""#);
}

#[tokio::test]
async fn all_malformed_command_inputs_are_reported_by_name() {
    let harness = ProviderHarness::new().await;
    let inputs =
        r#"{"create":"ls","read":[],"update":["a",1],"environment":{"A=B":"x","STATE_ID":"y"},"trigger":1}"#;
    let messages = refusals(&harness.up(&[goal("job", "command", inputs)]).await);
    for part in [
        "`create` must be a list of a program and its arguments; set `shell: true` to use a string",
        "`read` is empty",
        "`update` must be a list of strings",
        "`environment` can't have the variable `A=B`",
        "`environment` can't have the variable `STATE_ID`",
        "did you mean `triggers`?",
    ] {
        assert!(messages.contains(part), "{part}\n{messages}");
    }
    let messages = refusals(
        &harness
            .up(&[goal("job", "command", r#"{"shell":true,"create":["ls"]}"#)])
            .await,
    );
    assert!(
        messages.contains("`create` must be a string, because `shell` is `true`"),
        "{messages}"
    );
}

#[tokio::test]
async fn create_with_invalid_id_is_unfinished_and_hides_the_id() {
    let long = "x".repeat(1025);
    for (id, wrong) in [
        ("", "is empty"),
        (r"canary\u0000", "contains control characters"),
        (r"canary\u001b[31m", "contains control characters"),
        (&*long, "has more than 1024 bytes"),
    ] {
        let harness = ProviderHarness::new().await;
        harness.put("said", format!(r#"{{"id":"{id}","size":1}}"#));
        let commands = [
            ("create", "cat said"),
            ("delete", r#"echo "$STATE_ID" >> deleted"#),
        ];
        let goals = [shell(&commands)];
        let messages = refusals(&harness.up(&goals).await);
        assert!(
            messages.contains(&format!(
                "`create` succeeded, but the `id` that it printed {wrong}"
            )),
            "{messages}"
        );
        assert!(
            !messages.contains("canary") && !messages.contains("xx"),
            "{messages}"
        );
        let entry = harness.entry("job").await.unwrap();
        let outputs = entry.outputs.as_ref().unwrap().json().as_str().to_owned();
        assert_eq!(outputs, r#"{"unfinished":"create"}"#);
        let own_id = entry.id.clone().unwrap();
        assert_eq!(own_id.len(), 36, "{own_id}");
        harness.put("said", format!(r#"{{"id":"{}"}}"#, "y".repeat(1024)));
        harness.done(&goals).await;
        assert_eq!(harness.text("deleted"), format!("{own_id}\n"));
        assert_eq!(
            harness.entry("job").await.unwrap().id.as_ref().unwrap().len(),
            1024
        );
        assert!(
            harness.destroy().await.succeeded(),
            "an id of the maximum length is accepted"
        );
    }
}

#[tokio::test]
async fn invalid_id_of_update_or_read_keeps_the_recorded_id() {
    let harness = ProviderHarness::new().await;
    let with = |size: &str| {
        shell(&[
            ("create", r#"echo '{"id":"i-1"}'"#),
            ("read", "cat said"),
            ("update", "cat said"),
            ("stdin", size),
        ])
    };
    harness.done(&[with("1")]).await;
    harness.put("said", r#"{"id":"a\nb"}"#);
    assert!(refusals(&harness.refresh().await).contains("`read` succeeded, but the `id`"));
    assert_eq!(harness.output("job", "unfinished").await, None);
    assert!(refusals(&harness.up(&[with("2")]).await).contains("`update` succeeded, but the `id`"));
    assert_eq!(harness.entry("job").await.unwrap().id.as_deref(), Some("i-1"));
    assert_eq!(harness.output("job", "unfinished").await.unwrap(), r#""update""#);
}

#[tokio::test]
async fn too_large_environment_counts_as_not_done() {
    let harness = ProviderHarness::new().await;
    // More than Linux allows in an environment variable.
    let much = "x".repeat(200_000);
    let inputs = format!(r#"{{"create":["true"],"environment":{{"MUCH":"{much}"}}}}"#);
    let messages = refusals(&harness.up(&[goal("job", "command", &inputs)]).await);
    assert!(
        messages.contains("`create` can't be started") && messages.contains("pass large values in `stdin`"),
        "{messages}"
    );
    assert!(harness.entry("job").await.is_none());
}

#[tokio::test]
async fn repeated_command_id_requires_delete_before_replace() {
    for read in [None, Some("test -e there || exit 66; echo '{\"id\":\"same\"}'")] {
        let harness = ProviderHarness::new().await;
        let with = |trigger: &str| {
            let mut inputs = vec![
                (
                    "create",
                    r#"touch there; echo "create" >> log; echo '{"id":"same"}'"#,
                ),
                ("delete", r#"rm there; echo "delete $STATE_ID" >> log"#),
                ("triggers", trigger),
            ];
            inputs.extend(read.map(|read| ("read", read)));
            shell(&inputs)
        };
        harness.done(&[with("1")]).await;
        let report = harness.up(&[with("2")]).await;
        let reasons = report.failures[0].reasons.join("; ");
        assert!(
            reasons.contains("returned the id same, the id of the object to replace"),
            "{reasons}"
        );
        assert_eq!(report.pending.len(), 1, "{report:?}");
        let mut first = with("2");
        first.options.delete_before_replace = Some(true);
        let first = [first];
        if read.is_none() {
            let report = harness.up(&first).await;
            assert_eq!(report.pending.len(), 1, "the outcome is unknown: {report:?}");
        }
        let mut run = harness.default_run();
        if read.is_none() {
            run.decisions.otherwise = Decision::NotDone;
        }
        let report = harness.run(update(&first), run).await;
        assert!(report.succeeded() && report.pending.is_empty(), "{report:?}");
        assert_eq!(harness.entry("job").await.unwrap().id.as_deref(), Some("same"));
        assert_eq!(harness.text("log"), "create\ncreate\ndelete same\ncreate\n");
        assert!(!harness.done(&first).await.has_changes());
    }
}
