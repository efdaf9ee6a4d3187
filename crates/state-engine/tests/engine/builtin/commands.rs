//! Commands: what they are given, what they say, and what becomes of those that fail.

use super::{Bench, goal, ops, refusals};
use state_core::LogLevel;
use state_engine::{Goal, StepOp};
use std::process::Command;
use std::time::Duration;

/// Commands for a shell, as pairs of an input and its value in JSON.
fn shell(inputs: &[(&str, &str)]) -> Goal {
    let members = inputs.iter().map(|(name, text)| {
        let text = state_core::Json::from_string(text);
        format!(r#","{name}":{}"#, text.as_str())
    });
    let members: String = members.collect();
    goal("job", "command", &format!(r#"{{"shell":true{members}}}"#))
}

fn is_running(pid: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    // What was killed and that nobody waits for is a zombie.
    status.is_ok_and(|status| !status.contains(") Z"))
}

async fn until(is_so: impl Fn() -> bool) {
    for _ in 0..1000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never was so");
}

#[tokio::test]
async fn commands_make_look_at_change_and_delete() {
    let bench = Bench::new().await;
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
    bench.done(&[with("a")]).await;
    let entry = bench.entry("job").await.unwrap();
    assert_eq!(entry.id.as_deref(), Some("i-1"));
    assert_eq!(
        entry.outputs.as_ref().unwrap().json().as_str(),
        r#"{"id":"i-1","size":1}"#
    );
    assert!(!bench.done(&[with("a")]).await.has_changes());
    assert_eq!(ops(&bench.done(&[with("b")]).await), [StepOp::Update]);
    assert_eq!(bench.output("job", "size").await.unwrap(), "2");
    assert_eq!(bench.entry("job").await.unwrap().id.as_deref(), Some("i-1"));
    bench.put("there.json", r#"{"size":3}"#);
    assert!(bench.refresh().await.succeeded());
    assert_eq!(bench.output("job", "size").await.unwrap(), "3");
    assert!(bench.destroy().await.succeeded());
    let log = bench.text("log");
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
async fn text_is_the_output_stdout_and_arguments_see_no_shell() {
    let bench = Bench::new().await;
    let inputs = r#"{"create":["printf","%s\n\n","$HOME `id` *"]}"#;
    bench.done(&[goal("job", "command", inputs)]).await;
    assert_eq!(bench.output("job", "stdout").await.unwrap(), r#""$HOME `id` *""#);
    let id = bench.entry("job").await.unwrap().id.clone().unwrap();
    assert_eq!(id.len(), 36, "{id}");
    let report = bench
        .done(&[goal("job", "command", r#"{"create":["cat"],"stdin":"fed"}"#)])
        .await;
    assert!(
        ops(&report).contains(&StepOp::CreateReplacement),
        "without `update` it is made anew"
    );
    assert_eq!(bench.output("job", "stdout").await.unwrap(), r#""fed""#);
}

#[tokio::test]
async fn a_trigger_makes_it_anew_and_other_commands_run_nothing() {
    let bench = Bench::new().await;
    let with = |trigger: &str, delete: &str| {
        shell(&[
            ("create", "echo create >> log"),
            ("update", "echo update >> log"),
            ("delete", delete),
            ("triggers", trigger),
        ])
    };
    bench.done(&[with("1", "echo first >> log")]).await;
    let report = bench.done(&[with("1", "echo second >> log")]).await;
    assert_eq!(ops(&report), [], "{report:?}");
    bench.done(&[with("2", "echo second >> log")]).await;
    assert_eq!(bench.text("log"), "create\ncreate\nsecond\n");
}

#[tokio::test]
async fn a_create_that_failed_is_recorded_as_unfinished_then_deleted_and_done_again() {
    let bench = Bench::new().await;
    let with = |create: &str| {
        shell(&[
            ("create", create),
            ("update", "echo update >> log"),
            ("delete", "echo delete >> log; rm -f half"),
        ])
    };
    let report = bench.up(&[with("touch half; exit 3")]).await;
    assert!(
        refusals(&report).contains("`create` failed: exit status: 3"),
        "{report:?}"
    );
    assert_eq!(bench.output("job", "unfinished").await.unwrap(), r#""create""#);
    bench.done(&[with("touch whole")]).await;
    assert_eq!(bench.text("log"), "delete\n");
    assert_eq!(bench.names(), ["log", "whole"]);
    assert_eq!(bench.output("job", "unfinished").await, None);
}

#[tokio::test]
async fn a_create_that_failed_is_looked_at_with_read() {
    let bench = Bench::new().await;
    let with =
        |create: &str, read: &str| shell(&[("create", create), ("read", read), ("update", "echo mended")]);
    let gone = bench.up(&[with("exit 1", "exit 66")]).await;
    assert!(refusals(&gone).contains("exit status: 1"));
    assert!(
        bench.entry("job").await.is_none(),
        "it isn't there, so nothing was done"
    );
    let told = bench.up(&[with("exit 1", r#"echo '{"id":"half"}'"#)]).await;
    refusals(&told);
    assert_eq!(bench.entry("job").await.unwrap().id.as_deref(), Some("half"));
    assert_eq!(
        ops(&bench.done(&[with("exit 1", "exit 0")]).await),
        [StepOp::Update]
    );
    assert_eq!(bench.output("job", "stdout").await.unwrap(), r#""mended""#);
    bench.destroy().await;
    let nobody = bench.up(&[with("exit 1", "exit 75")]).await;
    assert_eq!(nobody.pending.len(), 1, "nobody can tell: {nobody:?}");
}

#[tokio::test]
async fn what_was_not_started_or_says_so_was_not_done() {
    let bench = Bench::new().await;
    let said = refusals(&bench.up(&[shell(&[("create", "exit 75")])]).await);
    assert!(
        said.contains("`create` says that nothing was done (exit code 75)"),
        "{said}"
    );
    let said = refusals(
        &bench
            .up(&[goal("job", "command", r#"{"create":["no-such-program"]}"#)])
            .await,
    );
    assert!(
        said.contains("`create` can't be started: there is no program no-such-program"),
        "{said}"
    );
    let said = refusals(
        &bench
            .up(&[shell(&[("create", "true"), ("dir", "nowhere")])])
            .await,
    );
    assert!(said.contains("there is no folder"), "{said}");
    assert!(bench.entry("job").await.is_none());
}

#[tokio::test]
async fn an_update_that_failed_is_run_again() {
    let bench = Bench::new().await;
    let with = |update: &str| shell(&[("create", "echo 1"), ("update", update), ("stdin", update)]);
    bench.done(&[with("true")]).await;
    refusals(&bench.up(&[with("exit 1")]).await);
    assert_eq!(bench.output("job", "stdout").await.unwrap(), r#""1""#);
    assert_eq!(bench.output("job", "unfinished").await.unwrap(), r#""update""#);
    refusals(&bench.up(&[with("exit 1")]).await);
    bench.done(&[with("echo 2")]).await;
    assert_eq!(bench.output("job", "stdout").await.unwrap(), r#""2""#);
    assert_eq!(bench.output("job", "unfinished").await, None);
}

#[tokio::test]
async fn a_delete_that_failed_leaves_it_on_record_unless_it_is_gone() {
    let bench = Bench::new().await;
    bench
        .done(&[shell(&[("create", "true"), ("delete", "exit 1")])])
        .await;
    assert!(refusals(&bench.destroy().await).contains("`delete` failed"));
    assert!(bench.entry("job").await.is_some());
    bench
        .done(&[shell(&[
            ("create", "true"),
            ("delete", "exit 1"),
            ("read", "exit 66"),
        ])])
        .await;
    assert!(bench.destroy().await.succeeded());
    bench
        .done(&[shell(&[("create", "true"), ("delete", "exit 66")])])
        .await;
    assert!(bench.destroy().await.succeeded());
    assert!(bench.entry("job").await.is_none());
}

#[tokio::test]
async fn what_is_gone_is_made_anew() {
    let bench = Bench::new().await;
    let goals = [shell(&[
        ("create", "touch there; echo made"),
        ("read", "test -e there || exit 66"),
    ])];
    bench.done(&goals).await;
    assert!(
        !bench.refresh().await.has_changes(),
        "a `read` that says nothing leaves the outputs"
    );
    std::fs::remove_file(bench.path("there")).unwrap();
    assert!(bench.refresh().await.has_changes());
    assert_eq!(ops(&bench.done(&goals).await), [StepOp::Create]);
}

#[tokio::test]
async fn standard_error_is_logged_as_it_comes_without_secrets() {
    let bench = Bench::new().await;
    let inputs = r#"{"shell":true,"create":"echo working >&2; echo \"$TOKEN\" >&2; cat >&2; echo \"$STATE_INPUTS\" >&2; printf '\\033[31mred' >&2; cat out.json","read":"echo \"$STATE_OUTPUTS\" >&2","environment":{"TOKEN":"canary-\"environment"},"stdin":"canary-stdin\n","sensitive":true}"#;
    bench.put("out.json", r#"{"key":"canary-output"}"#);
    bench.done(&[goal("job", "command", inputs)]).await;
    assert!(bench.refresh().await.succeeded());
    assert!(bench.said(LogLevel::Info, "working"));
    assert!(bench.said(LogLevel::Info, "[31mred"));
    let told = bench.told();
    let logged: Vec<&String> = told.iter().filter(|line| line.starts_with("info: ")).collect();
    assert!(logged.iter().any(|line| *line == "info: ***"), "{logged:?}");
    assert!(!logged.iter().any(|line| line.contains('\u{1b}')), "{logged:?}");
    for canary in [
        "canary-\"environment",
        r#"canary-\"environment"#,
        "canary-stdin",
        "canary-output",
    ] {
        assert!(
            !told.iter().any(|line| line.contains(canary)),
            "{canary}: {told:?}"
        );
    }
    assert_eq!(bench.entry("job").await.unwrap().sensitive_outputs, ["key"]);
}

#[tokio::test]
async fn marking_an_output_secret_runs_nothing() {
    let bench = Bench::new().await;
    let with = |marks: &str| {
        goal(
            "job",
            "command",
            &format!(r#"{{"shell":true,"create":"echo x >> log; echo hello"{marks}}}"#),
        )
    };
    bench.done(&[with("")]).await;
    bench.done(&[with(r#","sensitive_outputs":["stdout"]"#)]).await;
    assert_eq!(bench.text("log"), "x\n");
    assert_eq!(bench.entry("job").await.unwrap().sensitive_outputs, ["stdout"]);
    assert_eq!(bench.output("job", "stdout").await.unwrap(), r#""hello""#);
}

#[tokio::test]
async fn a_process_that_a_command_leaves_running_is_not_waited_for() {
    let bench = Bench::new().await;
    let goals = [shell(&[("create", "echo said; sleep 300 & echo $! > pid")])];
    let report = tokio::time::timeout(Duration::from_secs(60), bench.done(&goals))
        .await
        .unwrap();
    assert_eq!(ops(&report), [StepOp::Create]);
    assert_eq!(bench.output("job", "stdout").await.unwrap(), r#""said""#);
    let pid = bench.text("pid");
    assert!(is_running(&pid), "it was meant to stay");
    Command::new("kill").arg(pid.trim()).status().unwrap();
}

#[tokio::test]
async fn a_command_that_is_left_is_killed_with_all_that_it_started_and_stays_pending() {
    let bench = Bench::new().await;
    let with = |read: &[(&str, &str)]| {
        let mut inputs = vec![("create", "sleep 300 & echo $! > inner; echo $$ > outer; wait")];
        inputs.extend(read);
        shell(&inputs)
    };
    let (inner, outer) = (bench.path("inner"), bench.path("outer"));
    let begun = || std::fs::read_to_string(&outer).is_ok_and(|pid| pid.ends_with('\n'));
    let report = bench.leave_when(&[with(&[])], begun).await;
    assert_eq!(report.pending.len(), 1, "{report:?}");
    for file in [&inner, &outer] {
        let pid = std::fs::read_to_string(file).unwrap();
        until(|| !is_running(&pid)).await;
    }
    // Without `read` nobody can tell.
    let report = bench.up(&[]).await;
    assert_eq!(report.pending.len(), 1, "{report:?}");
}

#[tokio::test]
async fn a_create_that_was_left_is_looked_at_by_the_next_run() {
    let bench = Bench::new().await;
    let create = r#"echo "$STATE_MUTATION" > begun; sleep 300"#;
    let read = r#"if test -n "$STATE_ID"; then exit 0; fi; grep -q "$STATE_MUTATION" begun && rm begun && echo '{"id":"found"}'"#;
    let goals = [shell(&[
        ("create", create),
        ("read", read),
        ("update", "echo mended"),
    ])];
    let begun = bench.path("begun");
    let is_begun = || std::fs::read_to_string(&begun).is_ok_and(|text| text.ends_with('\n'));
    let report = bench.leave_when(&goals, is_begun).await;
    assert_eq!(report.pending.len(), 1, "{report:?}");
    let report = bench.done(&goals).await;
    assert!(report.pending.is_empty(), "{report:?}");
    let entry = bench.entry("job").await.unwrap();
    assert_eq!(entry.id.as_deref(), Some("found"));
    assert_eq!(bench.output("job", "stdout").await.unwrap(), r#""mended""#);
}

#[tokio::test]
async fn too_much_on_a_pipe_hangs_nothing() {
    let bench = Bench::new().await;
    let much = "x".repeat(300_000);
    let inputs = format!(r#"{{"create":["true"],"stdin":"{much}"}}"#);
    bench.done(&[goal("job", "command", &inputs)]).await;
    assert!(bench.said(LogLevel::Warning, "STATE_INPUTS is left out"));
    let loud = goal(
        "loud",
        "command",
        r#"{"shell":true,"create":"yes | head -c 3000000","delete":"true"}"#,
    );
    let said = refusals(&bench.up(std::slice::from_ref(&loud)).await);
    assert!(said.contains("printed more than a mebibyte"), "{said}");
    assert_eq!(bench.output("loud", "unfinished").await.unwrap(), r#""create""#);
    let shouts = goal(
        "loud",
        "command",
        r#"{"shell":true,"create":"yes shout | head -c 3000000 >&2"}"#,
    );
    bench.done(&[shouts]).await;
    let lines = bench
        .told()
        .iter()
        .filter(|line| line.as_str() == "info: shout")
        .count();
    assert!((10_000..20_000).contains(&lines), "{lines}");
    assert!(bench.said(LogLevel::Warning, "more on its standard error than is kept"));
}

#[tokio::test]
async fn commands_of_the_wrong_form_are_named() {
    let bench = Bench::new().await;
    let inputs =
        r#"{"create":"ls","read":[],"update":["a",1],"environment":{"A=B":"x","STATE_ID":"y"},"trigger":1}"#;
    let said = refusals(&bench.up(&[goal("job", "command", inputs)]).await);
    for part in [
        "`create` must be a list of a program and its arguments; for a string say `shell: true`",
        "`read` is empty",
        "`update` must be a list of strings",
        "`environment` can't have the variable `A=B`",
        "`environment` can't have the variable `STATE_ID`",
        "did you mean `triggers`?",
    ] {
        assert!(said.contains(part), "{part}\n{said}");
    }
    let said = refusals(
        &bench
            .up(&[goal("job", "command", r#"{"shell":true,"create":["ls"]}"#)])
            .await,
    );
    assert!(
        said.contains("`create` must be a string, because `shell` is `true`"),
        "{said}"
    );
}

/// Run by the test below, in a process that has secrets of ours in its environment.
#[tokio::test]
#[ignore = "run by `our_own_secrets_are_not_passed_on`"]
async fn prints_its_environment() {
    let bench = Bench::new().await;
    bench.done(&[shell(&[("create", "env")])]).await;
    let printed = bench.output("job", "stdout").await.unwrap();
    assert!(
        printed.contains("OTHERS=canary-others") && printed.contains("STATE_INPUTS="),
        "{printed}"
    );
    assert!(!printed.contains("canary-ours"), "{printed}");
}

#[test]
fn our_own_secrets_are_not_passed_on() {
    let name = "builtin::commands::prints_its_environment";
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--ignored"])
        .envs([
            ("STATECTL_PASSPHRASE", "canary-ours"),
            ("STATE_ID", "canary-ours"),
            ("OTHERS", "canary-others"),
        ])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[tokio::test]
async fn what_the_program_marks_as_secret_is_neither_logged_nor_told_as_a_reason() {
    let bench = Bench::new().await;
    let inputs = r#"{"create":["canary-program"]}"#;
    let mut unstarted = goal("other", "command", inputs);
    unstarted.sensitive_inputs.push("/create/0".to_owned());
    let mut path = goal("page", "file", r#"{"content":"","path":"no/canary-path"}"#);
    path.sensitive_inputs.push("path".to_owned());
    let mut echo = goal(
        "echo",
        "command",
        r#"{"create":["sh","-c","echo $0 >&2","canary-argument"]}"#,
    );
    echo.sensitive_inputs.push("/create/3".to_owned());
    let mut run = bench.usual();
    run.options.continue_on_error = true;
    let report = bench.run(super::update(&[unstarted, path, echo]), run).await;
    assert_eq!(report.failures.len(), 2, "{report:?}");
    let told = format!("{:?}\n{}", report, bench.told().join("\n"));
    assert!(told.contains("a secret stands in it"), "{told}");
    assert!(!told.contains("canary"), "{told}");
}
