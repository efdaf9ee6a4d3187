//! P1: a kill right before any system call that writes, by `strace`. It finds what random moments miss: the
//! windows between a write, its sync, a rename and the sync of the folder.

use super::Model;
use crate::process::{WORKER, Worker, is_there};
use crate::store::{block_on, open, verify};
use state_tests::line::Line;
use state_tests::workload::STACK;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// The system calls before which the worker is killed.
const CALLS: [&str; 7] = [
    "fsync",
    "fdatasync",
    "rename",
    "renameat",
    "renameat2",
    "write",
    "openat",
];

/// At most so many kills a system call, spread evenly.
const KILLS: usize = 36;

#[test]
fn a_kill_before_any_system_call_loses_nothing_that_was_acknowledged() {
    if !is_there("strace") {
        eprintln!("SKIP: no strace on the PATH, no kills before system calls");
        return;
    }
    let calls = count_calls();
    let mut runs = 0;
    for (call, count) in calls {
        let step = count.div_ceil(KILLS).max(1);
        for when in (1..=count).step_by(step) {
            kill_before(call, when);
            runs += 1;
        }
        eprintln!("strace: {call} is called {count} times by one thread; killed before each {step}.");
    }
    assert!(runs > 40, "the workload makes system calls: {runs}");
}

/// How often one thread makes each call in a run that nobody disturbs.
fn count_calls() -> BTreeMap<&'static str, usize> {
    let dir = tempfile::tempdir().expect("a folder");
    let log = dir.path().join("log");
    let mut command = Command::new("strace");
    let trace = format!("trace={}", known_calls().join(","));
    command.args(["-f", "-qq", "-e", &trace, "-o"]).arg(&log);
    let store = dir.path().join("store");
    command.arg(WORKER).arg("script").arg(&store);
    let (well, _) = Worker::of(command).end();
    assert!(well, "the workload runs under strace");
    let log = std::fs::read_to_string(log).expect("strace wrote its log");
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for line in log.lines() {
        let mut words = line.split_whitespace();
        if let (Some(thread), Some(call)) = (words.next(), words.next())
            && let Some((call, _)) = call.split_once('(')
        {
            *counts.entry((call, thread)).or_default() += 1;
        }
    }
    let most = |name: &str| {
        let of_threads = counts.iter().filter(|((call, _), _)| *call == name);
        of_threads.map(|(_, count)| *count).max()
    };
    CALLS
        .into_iter()
        .filter_map(|call| Some((call, most(call)?)))
        .collect()
}

/// Those that this machine has: not every one has all of them.
fn known_calls() -> Vec<&'static str> {
    let known = |call: &&str| {
        Command::new("strace")
            .args(["-qq", "-e", &format!("trace={call}"), "-o", "/dev/null", "true"])
            .stderr(std::process::Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    };
    CALLS.into_iter().filter(known).collect()
}

fn kill_before(call: &str, when: usize) {
    let replay = format!("killed before {call} number {when}");
    let dir = tempfile::tempdir().expect("a folder");
    let mut command = Command::new("strace");
    let trace = format!("trace={call}");
    let inject = format!("inject={call}:signal=SIGKILL:when={when}");
    command.args(["-f", "-qq", "-e", &trace, "-e", &inject, "-o", "/dev/null"]);
    command.arg(WORKER).arg("script").arg(dir.path());
    let (_, lines) = Worker::of(command).end();
    let mut model = Model::default();
    for line in &lines {
        model.hear(line);
    }
    let made = lines.contains(&Line::Locked);
    block_on(reopen(dir.path(), &mut model, made, &replay));
}

async fn reopen(dir: &Path, model: &mut Model, made: bool, replay: &str) {
    let stack = match crate::store::stack(dir).await {
        Ok(stack) => stack,
        Err(error) => panic!("it opens, and is made where it isn't there yet: {error}; {replay}"),
    };
    if made {
        let known = open(dir).expect(replay).names().await.expect(replay);
        assert_eq!(known, [STACK.parse().expect("a name")], "{replay}");
    }
    let tip = stack.tip().await.expect(replay);
    model.settle(&tip.state, replay);
    let listed = stack.list().await.expect(replay);
    assert!(model.revisions().iter().all(|id| listed.contains(id)), "{replay}");
    let session = stack.lock("reopen").await.expect(replay);
    model.settle(&session.state(), replay);
    session.close().await.expect(replay);
    verify(&stack).await;
}
