//! Kills a move between two stacks at every step. Afterwards the moved resources must be in exactly one of the stacks.

use super::strace;
use super::syscalls::calls;
use crate::process::{WORKER, Worker};
use crate::store::{block_on, create, environment, open, verify};
use state_core::head::SealingPolicy;
use state_core::{Entry, EntryKey, StackName, UpdateKind, UpdateResult};
use state_manager::{Intent, Stack, Stacks, UpdateRequest};
use state_tests::line::Line;
use state_tests::workload::{self, DESTINATION, MOVED, SOURCE};
use std::path::Path;
use std::process::Stdio;

/// The resources that don't move: the first is in the source, the second in the destination.
const OWN: [&str; 2] = ["t1.own", "t2.own"];

/// Maximum number of kills per system call. A move uses each system call less often than that.
const KILLS: usize = 60;

#[test]
fn move_killed_at_any_step_ends_on_exactly_one_side() {
    let (mut completed, mut undone) = (0, 0);
    for step in 1.. {
        let mut ended = true;
        for source_first in [true, false] {
            let dir = tempfile::tempdir().expect("a folder");
            block_on(prepare(dir.path()));
            let path = dir.path().to_str().expect("a path in UTF-8");
            let worker = Worker::start(&["move", path, &step.to_string()]);
            let lines = worker.read_until(|line| matches!(line, Line::Blocked(_) | Line::Closed));
            ended &= lines.contains(&Line::Closed);
            let acknowledged = lines.iter().any(|line| matches!(line, Line::Finished(_)));
            worker.kill();
            let replay = format!("killed at step {step}, the source opened first: {source_first}");
            let moved = block_on(recover(dir.path(), source_first, &replay));
            assert!(
                moved || !acknowledged,
                "an acknowledged move must not be undone; {replay}"
            );
            if moved {
                completed += 1;
            } else {
                undone += 1;
            }
        }
        if ended {
            break;
        }
    }
    eprintln!("moves: killed at every step, {completed} completed, {undone} undone");
    assert!(
        completed > 10 && undone > 10,
        "too few kills: {completed} moves completed, {undone} undone"
    );
}

#[test]
fn move_killed_before_any_write_ends_on_exactly_one_side() {
    let Some(calls) = calls() else { return };
    let mut kills = 0;
    for call in calls.into_iter().filter(|call| *call != "openat") {
        for when in 1..=KILLS {
            let dir = tempfile::tempdir().expect("a folder");
            block_on(prepare(dir.path()));
            let kill = format!("signal=SIGKILL:when={when}");
            let mut command = strace::starting(
                &strace::injecting(call, &kill, None, Path::new(strace::NO_LOG)),
                WORKER,
            );
            command.arg("move").arg(dir.path()).arg("0");
            command.stderr(Stdio::null());
            let (completed, lines) = Worker::of(command).end();
            let acknowledged = lines.iter().any(|line| matches!(line, Line::Finished(_)));
            let replay = format!("killed before {call} number {when}");
            let moved = block_on(recover(dir.path(), when % 2 == 0, &replay));
            assert!(
                moved || !acknowledged,
                "an acknowledged move must not be undone; {replay}"
            );
            if completed {
                break;
            }
            kills += 1;
        }
    }
    eprintln!("strace: killed {kills} times in a move");
    assert!(kills > 12, "too few kills: {kills}");
}

/// Creates both stacks, each with one resource that doesn't move. The source also has the resources to move.
async fn prepare(dir: &Path) {
    let stacks = create(dir).expect("a new store");
    for (name, entries) in [
        (SOURCE, &[MOVED[0], MOVED[1], OWN[0]][..]),
        (DESTINATION, &[OWN[1]]),
    ] {
        let name: StackName = name.parse().expect("a name");
        let stack = stacks
            .new_stack_with(&name, SealingPolicy::Plaintext)
            .await
            .expect("a new stack");
        let session = stack.lock("prepare").await.expect("the stack can be locked");
        let request = UpdateRequest::new(UpdateKind::Update);
        let update = session.start_update(request).await.expect("the update starts");
        for name in entries {
            let entry = made(name);
            let step = update
                .begin(Intent::create(entry.clone()))
                .await
                .expect("the begin is recorded");
            let refused = step.succeed(Some(entry)).await.expect("the end is recorded");
            assert_eq!(refused, []);
        }
        update
            .finish(UpdateResult::Succeeded)
            .await
            .expect("the update finishes");
        session.close().await.expect("the session closes");
    }
}

/// Returns an entry whose tag is its name. Entries that don't move have no dependencies.
fn made(name: &str) -> Entry {
    let address = name.parse().expect("an address");
    let mut entry = workload::made(address, name).expect("an entry");
    if OWN.contains(&name) {
        entry.depends_on.clear();
    }
    entry
}

/// Locks each stack once or twice. These locks must complete or undo the move. Returns whether the moved entries are in
/// the destination.
async fn recover(dir: &Path, source_first: bool, replay: &str) -> bool {
    let stacks = open(dir).expect(replay);
    let source = stack(&stacks, SOURCE).await;
    let destination = stack(&stacks, DESTINATION).await;
    if source_first {
        lock(&source, replay).await;
    }
    // Locking the destination alone must complete or undo the moves into it.
    lock(&destination, replay).await;
    let moved = contains(&source, &destination, replay).await;
    lock(&source, replay).await;
    for stack in [&source, &destination] {
        let state = stack.tip().await.expect(replay).state;
        let unsettled = (state.incoming().count(), state.departed().count());
        assert_eq!(unsettled, (0, 0), "all moves must be settled; {replay}");
        verify(stack).await;
    }
    moved
}

async fn stack(stacks: &Stacks, name: &str) -> Stack {
    let name: StackName = name.parse().expect("a name");
    stacks
        .get(&name)
        .await
        .expect("the names can be read")
        .expect("the stack exists")
}

/// Takes and releases the lock of a stack.
async fn lock(stack: &Stack, replay: &str) {
    let session = stack.lock(&environment().actor.who).await.expect(replay);
    session.close().await.expect(replay);
}

/// Returns whether the moved entries are in the destination. Asserts that they are unchanged and in exactly one stack.
async fn contains(source: &Stack, destination: &Stack, replay: &str) -> bool {
    let mut found = Vec::new();
    for (stack, own) in [(source, OWN[0]), (destination, OWN[1])] {
        let state = stack.tip().await.expect(replay).state;
        let has = |name: &str| {
            let entry = state.entry(&EntryKey::live(name.parse().expect("an address")));
            entry
                .inspect(|entry| assert_eq!(entry.outputs, Some(workload::outputs(name)), "{replay}"))
                .is_some()
        };
        assert!(has(own), "{own} must not have moved; {replay}");
        let [one, other] = MOVED.map(has);
        assert_eq!(one, other, "all entries or none must have moved; {replay}");
        assert_eq!(state.len(), if one { 3 } else { 1 }, "{replay}");
        found.push(one);
    }
    assert_ne!(
        found[0], found[1],
        "the entries must be in exactly one stack; {replay}"
    );
    found[1]
}
