//! `statectl run` with commands other than Terraform: exit codes, signals, variables, and its files.

use crate::programs::signal;
use crate::sandbox::Sandbox;
use std::process::Stdio;
use std::time::Duration;

#[test]
fn exit_code_of_the_command_is_passed_on() {
    let sandbox = Sandbox::new();
    sandbox.run(&["run", "--", "true"]).exits(0);
    sandbox.run(&["run", "--", "sh", "-c", "exit 7"]).exits(7);
    sandbox.run(&["run", "--", "sh", "-c", "kill -9 $$"]).exits(137);
    let missing = sandbox.run(&["run", "--", "no-such-command"]).exits(1);
    assert!(missing.stderr.contains("command no-such-command"), "{missing:?}");
    sandbox.run(&["run"]).exits(2);
}

#[test]
fn command_gets_its_output_streams_and_no_passphrase() {
    let sandbox = Sandbox::new();
    let script = "echo $TF_HTTP_ADDRESS $TF_HTTP_USERNAME; echo ${#TF_HTTP_PASSWORD} >&2; \
                  echo \"[$STATECTL_PASSPHRASE$TF_HTTP_CLIENT_CERTIFICATE_PEM]\"";
    let mut command = sandbox.command(&["run", "--", "sh", "-c", script]);
    command.env("STATECTL_PASSPHRASE", "a long passphrase");
    command.env("TF_HTTP_CLIENT_CERTIFICATE_PEM", "of another backend");
    command.env("TF_HTTP_ADDRESS", "http://example.org/");
    let ran = crate::sandbox::run(&mut command).exits(0);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert!(lines[0].starts_with("http://127.0.0.1:"), "{ran:?}");
    assert!(
        lines[0].ends_with("/v1/state/default/default statectl"),
        "{ran:?}"
    );
    assert_eq!(lines[1], "[]");
    assert!(ran.stderr.lines().any(|line| line == "64"), "{ran:?}");
}

#[test]
fn selected_workspace_is_refused_with_a_hint() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command(&["run", "--", "true"]);
    let refused = crate::sandbox::run(command.env("TF_WORKSPACE", "staging")).exits(2);
    assert!(refused.stderr.contains("--stack staging"), "{refused:?}");
    assert!(!sandbox.path().join(".state").exists());
    let mut command = sandbox.command(&["run", "--", "true"]);
    crate::sandbox::run(command.env("TF_WORKSPACE", "default")).exits(0);
}

#[test]
fn termination_is_forwarded_and_leaves_no_file() {
    let sandbox = Sandbox::new();
    let script = "trap 'echo ended; exit 3' TERM; touch running; while :; do sleep 0.05; done";
    let mut command = sandbox.command(&["run", "--", "sh", "-c", script]);
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while !sandbox.path().join("running").exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let runs = sandbox.path().join("user-state/statectl/runs");
    assert_eq!(std::fs::read_dir(&runs).unwrap().count(), 1);
    signal(&child, "-TERM");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert_eq!(output.stdout, b"ended\n");
    assert_eq!(std::fs::read_dir(&runs).unwrap().count(), 0);
}

#[test]
fn terraform_without_the_backend_block_is_warned_of() {
    let sandbox = Sandbox::new();
    let program = sandbox.write("terraform", "#!/bin/sh\nexit 0\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(&program, mode).unwrap();
    let warned = sandbox.run(&["run", "--", "./terraform", "apply"]).exits(0);
    assert!(warned.stderr.contains("backend \"http\" {}"), "{warned:?}");
    let quiet = sandbox.run(&["run", "--", "./terraform", "fmt"]).exits(0);
    assert!(!quiet.stderr.contains("backend"), "{quiet:?}");
}
