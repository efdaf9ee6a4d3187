//! Commands that outlive their `statectl`, because it was killed or its terminal was closed.

use crate::programs::{command, signal, started};
use crate::sandbox::{Sandbox, WITH_HANGUP, run, started_by};
use state_core::testkit::run::skip;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A command that makes one object, as soon as the file `go` exists or after 30 seconds, and notes each start.
const SLOW: &str = "echo started >> log; touch running; i=0; until [ -f go ] || [ $i = 600 ]; do sleep 0.05; i=$((i+1)); done; touch made";

/// Waits for at most 20 seconds.
fn wait_for(what: impl Fn() -> bool) {
    for _ in 0..2000 {
        if what() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("it takes too long");
}

/// A sandbox with `up` that was killed with `kill -9` while its command runs on.
fn killed() -> Sandbox {
    let sandbox = Sandbox::new();
    let program = command("thing", SLOW, "      read: [sh, -c, 'test -f made || exit 66']\n");
    sandbox.write("state.yaml", program);
    let mut child = spawned(&mut sandbox.command(&["up", "--yes"]));
    wait_for(|| sandbox.path().join("running").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    sandbox
}

fn spawned(command: &mut Command) -> Child {
    command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn starts(sandbox: &Sandbox) -> usize {
    let log = std::fs::read_to_string(sandbox.path().join("log")).unwrap();
    log.lines().count()
}

/// Lets the command end, and waits until it has.
fn finish(sandbox: &Sandbox) {
    sandbox.write("go", "");
    wait_for(|| sandbox.path().join("made").exists());
    let locks = sandbox.path().join("user-state/statectl/running");
    let is_free = || {
        let mut files = std::fs::read_dir(&locks).unwrap();
        files.all(|file| {
            let file = std::fs::File::open(file.unwrap().path()).unwrap();
            file.try_lock().is_ok()
        })
    };
    wait_for(is_free);
}

#[test]
fn command_that_outlives_a_killed_run_is_not_run_twice() {
    let sandbox = killed();
    for arguments in [&["up", "--yes"][..], &["refresh", "--yes"], &["up", "--yes"]] {
        let ran = sandbox.run(arguments).exits(18);
        assert!(ran.stderr.contains("still running on this machine"), "{ran:?}");
        assert_eq!(starts(&sandbox), 1, "{arguments:?}");
    }
    finish(&sandbox);
    sandbox.run(&["up", "--yes"]).exits(0);
    let nothing = sandbox.run(&["up", "--yes"]).exits(0);
    assert_eq!(nothing.stdout, "nothing to do\n");
    assert_eq!(starts(&sandbox), 1, "the confirmed object is kept");
}

#[test]
fn another_client_does_not_run_a_create_that_may_run_on() {
    let sandbox = killed();
    let elsewhere = |arguments: &[&str]| {
        let mut command = sandbox.command(arguments);
        command.env("XDG_STATE_HOME", sandbox.path().join("other-state"));
        run(&mut command)
    };
    for arguments in [&["up", "--yes"][..], &["refresh", "state.yaml", "--yes"]] {
        let ran = elsewhere(arguments).exits(18);
        assert!(ran.stderr.contains("may still be running"), "{ran:?}");
        assert_eq!(starts(&sandbox), 1, "{arguments:?}");
    }
    finish(&sandbox);
    elsewhere(&["up", "--yes"]).exits(0);
    assert_eq!(elsewhere(&["up", "--yes"]).exits(0).stdout, "nothing to do\n");
    assert_eq!(starts(&sandbox), 1, "the confirmed object is kept");
}

#[test]
fn client_without_a_home_does_not_run_a_create_that_may_run_on() {
    let sandbox = killed();
    let mut command = sandbox.command(&["up", "--yes"]);
    let ran = run(command.env_remove("XDG_STATE_HOME").env_remove("HOME")).exits(18);
    assert!(ran.stderr.contains("may still be running"), "{ran:?}");
    assert_eq!(starts(&sandbox), 1);
    finish(&sandbox);
}

#[test]
fn command_that_ended_without_an_object_is_run_again() {
    let sandbox = killed();
    finish(&sandbox);
    std::fs::remove_file(sandbox.path().join("made")).unwrap();
    sandbox.run(&["up", "--yes"]).exits(0);
    assert_eq!(starts(&sandbox), 2);
    let locks = sandbox.path().join("user-state/statectl/running");
    let left = std::fs::read_dir(locks).unwrap().count();
    assert_eq!(left, 0, "no file of a recorded operation stays");
}

#[test]
fn preview_shows_how_a_run_would_settle_a_pending_create() {
    let sandbox = killed();
    let running = sandbox.run(&["preview"]);
    assert_eq!(running.code, 1, "{running:?}");
    assert!(!running.stdout.contains("would resolve"), "{running:?}");
    finish(&sandbox);
    let history = sandbox.run(&["pending", "list"]).stdout;
    let seen = sandbox.run(&["preview"]).exits(0);
    let line = "would resolve the pending create of thing: the object was created";
    assert!(
        seen.stdout.contains(line) && seen.stdout.contains("nothing else to do"),
        "{seen:?}"
    );
    assert_eq!(
        sandbox.run(&["pending", "list"]).stdout,
        history,
        "nothing is recorded"
    );
    std::fs::remove_file(sandbox.path().join("made")).unwrap();
    let seen = sandbox.run(&["preview", "--json"]).exits(0).data("preview");
    assert_eq!(seen["settled"][0]["how"], "the object wasn't created", "{seen}");
    assert_eq!(seen["steps"][0]["op"], "create", "{seen}");
}

#[test]
fn delete_of_another_client_is_not_run_beside_it() {
    let sandbox = Sandbox::new();
    let slow = SLOW.replace("touch made", "rm made");
    let delete =
        format!("      read: [sh, -c, 'test -f made || exit 66']\n      delete: [sh, -c, '{slow}']\n");
    sandbox.write("state.yaml", command("thing", "touch made", &delete));
    sandbox.run(&["up", "--yes"]).exits(0);
    let mut child = spawned(&mut sandbox.command(&["destroy", "--yes"]));
    wait_for(|| sandbox.path().join("running").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    let elsewhere = || {
        let mut command = sandbox.command(&["destroy", "state.yaml", "--yes"]);
        command.env("XDG_STATE_HOME", sandbox.path().join("other-state"));
        run(&mut command)
    };
    let ran = elsewhere();
    assert_eq!(ran.code, 18, "{ran:?}");
    assert!(ran.stderr.contains("may still be running"), "{ran:?}");
    assert_eq!(starts(&sandbox), 1);
    sandbox.write("go", "");
    wait_for(|| !sandbox.path().join("made").exists());
    elsewhere().exits(0);
    assert_eq!(starts(&sandbox), 1);
}

#[test]
fn operation_that_still_runs_is_not_declared_not_done_silently() {
    let sandbox = killed();
    let listed = sandbox.run(&["pending", "list", "--json"]).exits(0);
    let id = listed.data("pending-list")[0]["id"].as_str().unwrap().to_owned();
    let resolved = sandbox.run(&["pending", "resolve", &id, "--not-done"]).exits(0);
    assert!(
        resolved.stderr.contains("still running on this machine"),
        "{resolved:?}"
    );
    finish(&sandbox);
}

#[test]
fn pending_resolve_overrides_a_command_that_still_runs() {
    let sandbox = killed();
    let listed = sandbox.run(&["pending", "list", "--json"]).exits(0);
    let id = listed.data("pending-list")[0]["id"].as_str().unwrap().to_owned();
    sandbox
        .run(&["pending", "resolve", &id, "--done", "--id", "x"])
        .exits(0);
    finish(&sandbox);
    let ran = sandbox.run(&["up", "--yes"]).exits(0);
    assert_eq!(ran.stdout, "nothing to do\n");
}

#[test]
fn lock_of_a_command_is_not_held_by_a_parallel_one() {
    let sandbox = Sandbox::new();
    let script = |name: &str| {
        format!(
            "  {name}: {{ kind: command, inputs: {{ shell: true, read: \"test -f {name} || exit 66\", create: \"touch {name}-runs; \
             until [ -f {name}-go ]; do sleep 0.05; done; touch {name}\" }} }}\n"
        )
    };
    sandbox.write(
        "state.yaml",
        format!("resources:\n{}{}", script("a"), script("b")),
    );
    let mut child = spawned(&mut sandbox.command(&["up", "--yes"]));
    let exists = |name: &str| sandbox.path().join(name).exists();
    wait_for(|| exists("a-runs") && exists("b-runs"));
    child.kill().unwrap();
    child.wait().unwrap();
    sandbox.write("a-go", "");
    wait_for(|| exists("a"));
    // Its shell ends a moment after the last command.
    std::thread::sleep(Duration::from_millis(300));
    let ran = sandbox.run(&["up", "--yes"]).exits(18);
    let resolved = ran.stdout.contains("resolved the pending create of a");
    assert!(resolved && ran.stdout.contains("create of b"), "{ran:?}");
    assert_eq!(ran.stderr.matches("still running").count(), 1, "{ran:?}");
    sandbox.write("b-go", "");
    wait_for(|| exists("b"));
}

#[test]
fn hangup_finishes_running_steps_only() {
    let sandbox = Sandbox::new();
    let child = started(&sandbox, "touch running; sleep 1; touch made");
    signal(&child, "-HUP");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert!(sandbox.path().join("made").exists() && !sandbox.path().join("later").exists());
    let pending = sandbox.run(&["pending", "list"]).exits(0);
    assert_eq!(pending.stdout, "no pending operations\n");
}

#[test]
fn hangup_is_ignored_if_it_was_ignored_before() {
    let sandbox = Sandbox::new();
    sandbox.write("state.yaml", command("thing", SLOW, ""));
    let nohup = ["sh", "-c", "trap \"\" HUP; exec \"$@\"", "sh"];
    let mut nohup = started_by(&nohup, &sandbox.command(&["up", "--yes"]));
    let child = spawned(nohup.stdin(Stdio::null()));
    wait_for(|| sandbox.path().join("running").exists());
    signal(&child, "-HUP");
    std::thread::sleep(Duration::from_millis(200));
    sandbox.write("go", "");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn run_whose_terminal_is_closed_records_its_steps() {
    let sandbox = Sandbox::new();
    let script = "touch running; sleep 1; echo late >&2; touch made";
    let more =
        "  later: { kind: file, options: { depends_on: [thing] }, inputs: { path: later, content: x } }\n";
    sandbox.write("state.yaml", command("thing", script, more));
    if Command::new("script").arg("--version").output().is_err() {
        skip("script", "a closed terminal");
        return;
    }
    let in_terminal = ["sh", "-c", "exec script -qec \"$0 up --yes\" /dev/null"];
    let starter = [&WITH_HANGUP[..], &in_terminal].concat();
    let mut terminal = started_by(&starter, &sandbox.command(&[]));
    // The output of a closed terminal fails with EIO.
    let mut terminal = terminal
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_for(|| sandbox.path().join("running").exists());
    terminal.kill().unwrap();
    terminal.wait().unwrap();
    wait_for(|| sandbox.run(&["history"]).stdout.contains("interrupted"));
    let exists = |name: &str| sandbox.path().join(name).exists();
    assert!(exists("made") && !exists("later"));
    let pending = sandbox.run(&["pending", "list"]).exits(0);
    assert_eq!(pending.stdout, "no pending operations\n");
}
