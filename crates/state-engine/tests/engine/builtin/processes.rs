//! Tests of command processes: logging, secrets, cancellation, and background processes.

use super::{ProviderHarness, goal, ops, refusals, shell, update};
use state_core::LogLevel;
use state_engine::StepOp;
use std::process::Command;
use std::time::Duration;

fn is_running(pid: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    // A killed process that wasn't reaped is a zombie.
    status.is_ok_and(|status| !status.contains(") Z"))
}

async fn until(is_so: impl Fn() -> bool) {
    for _ in 0..1000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the condition never became true");
}

#[tokio::test]
async fn standard_error_is_logged_without_secrets() {
    let harness = ProviderHarness::new().await;
    let inputs = r#"{"shell":true,"create":"echo working >&2; echo \"$TOKEN\" >&2; cat >&2; echo \"$STATE_INPUTS\" >&2; printf '\\033[31mred' >&2; cat out.json","read":"echo \"$STATE_OUTPUTS\" >&2","environment":{"TOKEN":"canary-\"environment"},"stdin":"canary-stdin\n","sensitive":true}"#;
    harness.put("out.json", r#"{"key":"canary-output"}"#);
    harness.done(&[goal("job", "command", inputs)]).await;
    assert!(harness.refresh().await.succeeded());
    assert!(harness.has_message(LogLevel::Info, "working"));
    assert!(harness.has_message(LogLevel::Info, "[31mred"));
    let messages = harness.messages();
    let logged: Vec<&String> = messages
        .iter()
        .filter(|line| line.starts_with("info: "))
        .collect();
    assert!(logged.iter().any(|line| *line == "info: ***"), "{logged:?}");
    assert!(!logged.iter().any(|line| line.contains('\u{1b}')), "{logged:?}");
    for canary in [
        "canary-\"environment",
        r#"canary-\"environment"#,
        "canary-stdin",
        "canary-output",
    ] {
        assert!(
            !messages.iter().any(|line| line.contains(canary)),
            "{canary}: {messages:?}"
        );
    }
    assert_eq!(harness.entry("job").await.unwrap().sensitive_outputs, ["key"]);
}

#[tokio::test]
async fn background_process_of_a_command_is_not_awaited() {
    let harness = ProviderHarness::new().await;
    let goals = [shell(&[("create", "echo said; sleep 300 & echo $! > pid")])];
    let report = tokio::time::timeout(Duration::from_secs(60), harness.done(&goals))
        .await
        .unwrap();
    assert_eq!(ops(&report), [StepOp::Create]);
    assert_eq!(harness.output("job", "stdout").await.unwrap(), r#""said""#);
    let pid = harness.text("pid");
    assert!(is_running(&pid), "the background process must keep running");
    Command::new("kill").arg(pid.trim()).status().unwrap();
}

#[tokio::test]
async fn command_has_its_own_group_and_survives_first_interrupt() {
    let harness = ProviderHarness::new().await;
    // The fifth field of `stat` is the process group. The command leads its own group, so a Ctrl-C at the terminal,
    // which signals the group of `statectl`, doesn't reach it.
    let create = "touch begun; while test ! -e go; do sleep 0.01; done; cut -d' ' -f5 /proc/$$/stat; echo $$";
    let goals = [shell(&[("create", create)])];
    let run = harness.default_run();
    let interrupt = run.interrupt.clone();
    let stop = async {
        until(|| harness.path("begun").exists()).await;
        interrupt.request();
        harness.put("go", "");
    };
    let (report, ()) = tokio::join!(harness.run(update(&goals), run), stop);
    assert!(report.interrupted && report.pending.is_empty(), "{report:?}");
    let printed = harness.output("job", "stdout").await.unwrap();
    let (group, process) = printed.trim_matches('"').split_once("\\n").unwrap();
    assert_eq!(group, process);
}

#[tokio::test]
async fn create_killed_by_second_interrupt_stays_pending() {
    let harness = ProviderHarness::new().await;
    let with = |read: &[(&str, &str)]| {
        let mut inputs = vec![("create", "sleep 300 & echo $! > inner; echo $$ > outer; wait")];
        inputs.extend(read);
        shell(&inputs)
    };
    let (inner, outer) = (harness.path("inner"), harness.path("outer"));
    let begun = || std::fs::read_to_string(&outer).is_ok_and(|pid| pid.ends_with('\n'));
    let report = harness.leave_when(&[with(&[])], begun).await;
    assert_eq!(report.pending.len(), 1, "{report:?}");
    for file in [&inner, &outer] {
        let pid = std::fs::read_to_string(file).unwrap();
        until(|| !is_running(&pid)).await;
    }
    // Without `read` the outcome is unknown.
    let report = harness.up(&[]).await;
    assert_eq!(report.pending.len(), 1, "{report:?}");
}

#[tokio::test]
async fn interrupted_create_is_read_by_the_next_run() {
    let harness = ProviderHarness::new().await;
    let create = r#"echo "$STATE_MUTATION" > begun; sleep 300"#;
    let read = r#"if test -n "$STATE_ID"; then exit 0; fi; grep -q "$STATE_MUTATION" begun && rm begun && echo '{"id":"found"}'"#;
    let goals = [shell(&[
        ("create", create),
        ("read", read),
        ("update", "echo mended"),
    ])];
    let begun = harness.path("begun");
    let is_begun = || std::fs::read_to_string(&begun).is_ok_and(|text| text.ends_with('\n'));
    let report = harness.leave_when(&goals, is_begun).await;
    assert_eq!(report.pending.len(), 1, "{report:?}");
    let mut report = harness.up(&goals).await;
    // The killed command releases its lock when the system has ended it.
    for _ in 0..200 {
        if report.pending.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        report = harness.up(&goals).await;
    }
    assert!(report.succeeded() && report.pending.is_empty(), "{report:?}");
    let entry = harness.entry("job").await.unwrap();
    assert_eq!(entry.id.as_deref(), Some("found"));
    assert_eq!(harness.output("job", "stdout").await.unwrap(), r#""mended""#);
}

#[tokio::test]
async fn large_stdin_or_output_does_not_block_a_command() {
    let harness = ProviderHarness::new().await;
    let much = "x".repeat(300_000);
    let inputs = format!(r#"{{"create":["true"],"stdin":"{much}"}}"#);
    harness.done(&[goal("job", "command", &inputs)]).await;
    assert!(harness.has_message(LogLevel::Warning, "STATE_INPUTS is omitted"));
    let loud = goal(
        "loud",
        "command",
        r#"{"shell":true,"create":"yes | head -c 3000000","delete":"true"}"#,
    );
    let messages = refusals(&harness.up(std::slice::from_ref(&loud)).await);
    assert!(messages.contains("printed more than 1 MiB"), "{messages}");
    assert_eq!(harness.output("loud", "unfinished").await.unwrap(), r#""create""#);
    let shouts = goal(
        "loud",
        "command",
        r#"{"shell":true,"create":"yes shout | head -c 3000000 >&2"}"#,
    );
    harness.done(&[shouts]).await;
    let lines = harness
        .messages()
        .iter()
        .filter(|line| line.as_str() == "info: shout")
        .count();
    assert!((10_000..20_000).contains(&lines), "{lines}");
    assert!(harness.has_message(
        LogLevel::Warning,
        "further lines on its standard error are not logged"
    ));
}

/// Runs only in a child process of `internal_secrets_are_not_inherited_by_commands`, with internal secrets in the
/// environment.
#[tokio::test]
#[ignore = "run by `internal_secrets_are_not_inherited_by_commands`"]
async fn prints_its_environment() {
    let harness = ProviderHarness::new().await;
    harness.done(&[shell(&[("create", "env")])]).await;
    let printed = harness.output("job", "stdout").await.unwrap();
    assert!(
        printed.contains("OTHERS=canary-others") && printed.contains("STATE_INPUTS="),
        "{printed}"
    );
    assert!(!printed.contains("canary-ours"), "{printed}");
}

#[test]
fn internal_secrets_are_not_inherited_by_commands() {
    let name = "builtin::processes::prints_its_environment";
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
async fn marked_secret_is_in_neither_logs_nor_reasons() {
    let harness = ProviderHarness::new().await;
    let inputs = r#"{"create":["true"],"dir":"no/canary-folder"}"#;
    let mut unstarted = goal("other", "command", inputs);
    unstarted.sensitive_inputs.push("dir".to_owned());
    let mut path = goal("page", "file", r#"{"content":"","path":"no/canary-path"}"#);
    path.sensitive_inputs.push("path".to_owned());
    let mut echo = goal(
        "echo",
        "command",
        r#"{"create":["sh","-c","echo $X >&2"],"environment":{"X":"canary-argument"}}"#,
    );
    echo.sensitive_inputs.push("/environment/X".to_owned());
    let mut run = harness.default_run();
    run.options.continue_on_error = true;
    let report = harness.run(update(&[unstarted, path, echo]), run).await;
    assert_eq!(report.failures.len(), 2, "{report:?}");
    let messages = format!("{:?}\n{}", report, harness.messages().join("\n"));
    assert!(messages.contains("it contains a secret"), "{messages}");
    assert!(!messages.contains("canary"), "{messages}");
}
