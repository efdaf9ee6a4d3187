//! Invalid programs and failing providers: each is reported with a clear error and its exit code, and no state is lost.

use crate::sandbox::{CommandOutput, Sandbox, WITH_HANGUP, run, started_by};
use std::process::{Command, Stdio};
use std::time::Duration;

#[track_caller]
pub(crate) fn up(sandbox: &Sandbox, program: &str, more: &[&str]) -> CommandOutput {
    sandbox.write("state.yaml", program);
    sandbox.run(&[&["up", "--yes"][..], more].concat())
}

/// Returns a program with one resource of kind `command`, followed by the text `more`.
pub(crate) fn command(name: &str, script: &str, more: &str) -> String {
    format!(
        "resources:\n  {name}:\n    kind: command\n    inputs:\n      create: [sh, -c, '{script}']\n{more}"
    )
}

#[test]
fn program_errors_are_reported_with_position_before_changes() {
    for (program, text) in [
        ("resources:\n  a: [", "state.yaml:3:1: syntax error"),
        (
            "resources:\n  a: { kind: fil, inputs: {} }",
            "did you mean `file`?",
        ),
        (
            "resources:\n  a: { kind: file }\n  a: { kind: file }",
            "state.yaml:3:3",
        ),
        (
            "resources:\n  a: { kind: file, inputs: { path: \"${b.path}\" } }\n  b: { kind: file, inputs: { path: \"${a.path}\" } }",
            "dependency cycle",
        ),
        (
            "resources:\n  a: { kind: file, inputs: { path: \"${absent.path}\" } }",
            "absent",
        ),
        ("config:\n  token: { type: string }\nresources: {}", "token"),
        (
            "resources:\n  a: { kind: file, inputs: {}, optoins: {} }",
            "optoins",
        ),
    ] {
        let sandbox = Sandbox::new();
        let ran = up(&sandbox, program, &[]).exits(1);
        assert!(
            ran.stderr.starts_with("error: state.yaml") && ran.stderr.contains(text),
            "{text}: {ran:?}"
        );
        assert!(!sandbox.path().join(".state").exists(), "{program}");
        let json = up(&sandbox, program, &["--json"]).exits(1).json();
        let problems = json["error"]["problems"].as_array().unwrap();
        assert!(
            !problems.is_empty() && problems[0]["reason"].is_string(),
            "{json}"
        );
    }
}

#[test]
fn missing_or_ambiguous_program_is_reported() {
    let sandbox = Sandbox::new();
    let none = sandbox.run(&["up"]).exits(10);
    assert!(none.stderr.contains("state.yaml"), "{none:?}");
    sandbox.run(&["up", "nowhere.yaml"]).exits(1);
    sandbox.write("state.yaml", "resources: {}");
    sandbox.write("state.json", "{}");
    sandbox.run(&["preview"]).exits(2);
    sandbox.run(&["refresh"]).exits(10);
    sandbox.run(&["destroy"]).exits(10);
}

#[test]
fn unknown_property_is_reported_before_changes() {
    let sandbox = Sandbox::new();
    let program = "resources:\n  a: { kind: file, inputs: { path: a, content: x } }\n  b: { kind: file, inputs: { path: b, contnt: x } }";
    let ran = up(&sandbox, program, &[]).exits(1);
    let text =
        "state.yaml:3:47: resources.b.inputs.contnt: `file` has no input `contnt`; did you mean `content`?";
    assert!(ran.stderr.contains(text), "{ran:?}");
    assert!(ran.stderr.contains("`statectl kinds KIND`"), "{ran:?}");
    assert!(!sandbox.path().join("a").exists());
    // The preview also reports errors that only the provider can detect.
    let ran = up(&sandbox, &program.replace("contnt: x", "mode: '0600'"), &[]).exits(1);
    assert!(
        ran.stdout.contains("`content` is missing") && ran.stdout.contains("nothing was changed"),
        "{ran:?}"
    );
    assert!(!sandbox.path().join("a").exists());
}

#[test]
fn config_is_read_from_flag_or_file_and_unknown_is_refused() {
    let sandbox = Sandbox::new();
    let program = "config:\n  text: { type: string }\nresources:\n  a: { kind: file, inputs: { path: a, content: \"${config.text}\" } }";
    sandbox.write("value", "from a file\n");
    up(&sandbox, program, &["--config", "text=@value"]).exits(0);
    assert_eq!(
        std::fs::read_to_string(sandbox.path().join("a")).unwrap(),
        "from a file"
    );
    up(&sandbox, program, &["--config", "text=given"]).exits(0);
    assert_eq!(
        std::fs::read_to_string(sandbox.path().join("a")).unwrap(),
        "given"
    );
    let unknown = up(&sandbox, program, &["--config", "txt=x"]).exits(1);
    assert!(unknown.stderr.contains("txt"), "{unknown:?}");
    up(&sandbox, program, &["--config", "text=1", "--config", "text=2"]).exits(2);
    let bare = up(&sandbox, program, &["--config", "hunter2"]).exits(2);
    assert!(
        bare.stderr.contains("NAME=VALUE") && !format!("{bare:?}").contains("hunter2"),
        "the error must not repeat the argument, which may be a secret: {bare:?}"
    );
}

#[test]
fn secret_config_is_sealed_in_the_program_and_never_shown() {
    let sandbox = Sandbox::new();
    let sealing = |arguments: &[&str]| run(&mut sandbox.sealing(arguments));
    sealing(&["init"]).exits(0);
    sealing(&["stack", "new", "default"]).exits(0);
    let input = sandbox.write("token", "hunter2-hunter2");
    let mut encrypt = sandbox.sealing(&["secret", "encrypt", "token"]);
    let sealed = run(encrypt.stdin(std::fs::File::open(input).unwrap()))
        .exits(0)
        .stdout;
    let program = format!(
        "config:\n  token: {{ type: string, secret: true, sealed: \"{}\" }}\nresources:\n  a: {{ kind: file, inputs: {{ path: a, content: \"${{config.token}}\" }} }}",
        sealed.trim()
    );
    sandbox.write("state.yaml", program);
    let preview = sealing(&["preview"]).exits(0);
    assert!(preview.stdout.contains("content: \"(sensitive)\""), "{preview:?}");
    let made = sealing(&["up", "--yes"]).exits(0);
    for ran in [&preview, &made] {
        assert!(!format!("{ran:?}").contains("hunter2"), "{ran:?}");
    }
    assert_eq!(
        std::fs::read_to_string(sandbox.path().join("a")).unwrap(),
        "hunter2-hunter2"
    );
}

#[test]
fn failed_step_is_reported_and_finished_steps_are_kept() {
    let sandbox = Sandbox::new();
    let failing = command(
        "bad",
        "echo no luck >&2; exit 75",
        "  good: { kind: file, inputs: { path: good, content: x } }\n",
    );
    let ran = up(&sandbox, &failing, &["--continue-on-error"]).exits(1);
    assert!(
        ran.stdout.contains("failed: create of bad") && ran.stdout.contains("1 created"),
        "{ran:?}"
    );
    sandbox.run(&["show", "good"]).exits(0);
    let logs = sandbox.run(&["logs", "--address", "bad"]).exits(0).stdout;
    assert!(logs.contains("command: bad: no luck"), "{logs}");
    let engine = sandbox.run(&["logs", "--level", "error"]).exits(0).stdout;
    assert!(engine.contains("engine: bad: "), "{engine}");
    let json = up(&sandbox, &failing, &["--json"]).exits(1).data("up");
    assert_eq!(
        (&json["result"], &json["failures"][0]["address"]),
        (&"failed".into(), &"bad".into())
    );
    let good = "resources:\n  good: { kind: file, inputs: { path: good, content: x } }";
    assert_eq!(up(&sandbox, good, &[]).exits(0).stdout, "nothing to do\n");
}

#[test]
fn hanging_provider_times_out_and_stays_pending() {
    let sandbox = Sandbox::new();
    let hanging = command("slow", "sleep 30", "");
    let ran = up(&sandbox, &hanging, &["--timeout", "1s"]).exits(18);
    assert!(ran.stdout.contains("pending: create of slow"), "{ran:?}");
    let pending = sandbox
        .run(&["pending", "list", "--json"])
        .exits(0)
        .data("pending-list");
    assert_eq!(pending[0]["address"], "slow");
    let id = pending[0]["id"].as_str().unwrap();
    sandbox.run(&["pending", "resolve", id, "--not-done"]).exits(0);
    up(&sandbox, &command("slow", "true", ""), &[]).exits(0);
}

/// Sends a signal to a process with the program `kill`.
pub(crate) fn signal(child: &std::process::Child, name: &str) {
    let sent = Command::new("kill")
        .args([name, &child.id().to_string()])
        .status()
        .unwrap();
    assert!(sent.success());
}

/// Starts `up` and waits until its first command runs.
pub(crate) fn started(sandbox: &Sandbox, script: &str) -> std::process::Child {
    let program = command(
        "slow",
        script,
        "  later: { kind: file, options: { depends_on: [slow] }, inputs: { path: later, content: x } }\n",
    );
    sandbox.write("state.yaml", program);
    let mut up = started_by(&WITH_HANGUP, &sandbox.command(&["up", "--yes"]));
    let mut child = up.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while !sandbox.path().join("running").exists() {
        assert!(
            child.try_wait().unwrap().is_none(),
            "`up` ended before its first command ran"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}

#[test]
fn first_interrupt_finishes_running_steps_only() {
    let sandbox = Sandbox::new();
    let child = started(&sandbox, "touch running; sleep 1");
    signal(&child, "-INT");
    let output = child.wait_with_output().unwrap();
    let (text, said) = (
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    );
    assert_eq!(output.status.code(), Some(130), "{text} {said}");
    assert!(said.contains("stopping after the steps in flight"), "{said}");
    assert!(text.contains("interrupted: 1 created"), "{text}");
    sandbox.run(&["show", "slow"]).exits(0);
    assert!(!sandbox.path().join("later").exists());
    let again = sandbox.run(&["up", "--yes"]).exits(0);
    assert!(again.stdout.contains("1 created"), "{again:?}");
}

#[test]
fn second_interrupt_leaves_steps_in_flight_pending() {
    let sandbox = Sandbox::new();
    let child = started(&sandbox, "touch running; sleep 30");
    signal(&child, "-TERM");
    std::thread::sleep(Duration::from_millis(300));
    signal(&child, "-TERM");
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(130), "{text}");
    assert!(text.contains("pending: create of slow"), "{text}");
    let pending = sandbox.run(&["pending", "list"]).exits(0).stdout;
    assert!(pending.contains("slow"), "{pending}");
    let asked = sandbox.run(&["refresh", "--yes"]).exits(18);
    let still = asked.stdout.contains("pending: create of slow");
    assert!(
        still,
        "the operation must stay pending, because the provider can't determine its outcome: {asked:?}"
    );
    sandbox.run(&["up", "--yes"]).exits(18);
    sandbox.run(&["refresh", "--preview"]).exits(0);
    let absent = ["refresh", "--import-pending", "absent=1", "--yes"];
    sandbox.run(&absent).exits(10);
    let cleared = sandbox.run(&["refresh", "--clear-pending", "--yes"]).exits(0);
    let text = cleared.stdout.contains("resolved the pending create of slow");
    let said = cleared.stdout.contains("nothing else to do: now revision 2-");
    assert!(text && said, "{cleared:?}");
    let pending = sandbox.run(&["pending", "list"]).exits(0);
    assert_eq!(pending.stdout, "no pending operations\n");
    for answer in [&["--import-pending", "slow=1"][..], &["--clear-pending"]] {
        for more in ["--yes", "--preview"] {
            let ran = sandbox.run(&[&["refresh", more][..], answer].concat()).exits(10);
            assert!(
                ran.stderr.contains("pending"),
                "an option without a pending operation must be an error: {ran:?}"
            );
        }
    }
}

#[test]
fn pending_create_is_resolved_with_a_known_id() {
    let sandbox = Sandbox::new();
    let hanging = command("slow", "sleep 30", "").replace("inputs:\n", "inputs:\n      read: [\"true\"]\n");
    up(&sandbox, &hanging, &["--timeout", "1s"]).exits(18);
    let import = ["refresh", "--import-pending", "slow=object-1", "--yes"];
    sandbox.run(&import).exits(0);
    let shown = sandbox.run(&["show", "slow", "--json"]).exits(0).data("show");
    assert_eq!(shown["entries"][0]["id"], "object-1", "{shown}");
}

#[test]
fn interrupt_reports_resolved_operations_and_asks_no_more() {
    let sandbox = Sandbox::new();
    let slow = |name: &str| {
        format!(
            "  {name}:\n    kind: command\n    inputs:\n      create: [sh, -c, 'touch made-{name}; sleep 30']\n      read: [sh, -c, 'touch asked-{name}; sleep 1']\n"
        )
    };
    let program = format!("resources:\n{}{}", slow("a"), slow("b"));
    up(&sandbox, &program, &["--timeout", "1s", "--continue-on-error"]).exits(18);
    let mut refresh = sandbox.command(&[
        "refresh",
        "--import-pending",
        "a=1",
        "--import-pending",
        "b=1",
        "--yes",
    ]);
    let child = refresh
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let asked = |name: &str| sandbox.path().join(format!("asked-{name}")).exists();
    while !asked("a") && !asked("b") {
        std::thread::sleep(Duration::from_millis(10));
    }
    signal(&child, "-INT");
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(
        said.contains("nothing else was changed; resolved the pending create of "),
        "{said}"
    );
    assert!(
        !(asked("a") && asked("b")),
        "no read may begin after the interrupt: {said}"
    );
}

#[test]
fn an_interrupt_ends_the_wait_for_the_lock() {
    let sandbox = Sandbox::new();
    sandbox.run(&["init"]).exits(0);
    sandbox.run(&["stack", "new", "default"]).exits(0);
    sandbox.on_stack(async |stack| {
        let session = stack.lock("deploy").await.unwrap();
        let mut refresh = sandbox.command(&["refresh", "--yes", "--lock-timeout", "1m"]);
        let child = refresh.stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(500));
        signal(&child, "-INT");
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(130), "{said}");
        assert!(said.contains("interrupted; nothing was changed"), "{said}");
        session.close().await.unwrap();
    });
}

#[test]
fn result_is_saved_in_a_file_if_the_store_refuses_it() {
    let sandbox = Sandbox::new();
    let program = command("thing", "mv .state/stacks/*/head.json head; echo made", "");
    let ran = up(&sandbox, &program, &["--json"]).exits(18).data("up");
    let error = ran["error"].as_str().unwrap();
    let file = error
        .split(" is kept in ")
        .nth(1)
        .unwrap()
        .split(".json")
        .next()
        .unwrap();
    let file = format!("{file}.json");
    assert!(file.contains("user-state/statectl/spool/"), "{error}");
    let stacks = sandbox.path().join(".state/stacks");
    let stack = std::fs::read_dir(stacks).unwrap().next().unwrap().unwrap().path();
    std::fs::rename(sandbox.path().join("head"), stack.join("head.json")).unwrap();
    sandbox.run(&["pending", "resolve", "--from", &file]).exits(0);
    let shown = sandbox.run(&["show", "thing", "--json"]).exits(0).data("show");
    assert_eq!(shown["entries"][0]["outputs"]["stdout"], "made", "{shown}");
    assert_eq!(up(&sandbox, &program, &[]).exits(0).stdout, "nothing to do\n");
}
