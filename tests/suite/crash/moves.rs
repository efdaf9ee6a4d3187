//! Kills a move between two stacks at every step: the moved resources end up in exactly one stack.

use super::syscalls::calls;
use crate::process::{WORKER, Worker};
use crate::store::{block_on, create, environment, open, verify};
use state_core::head::SealingPolicy;
use state_core::{Entry, EntryKey, StackName, UpdateKind, UpdateResult};
use state_manager::{Intent, Stack, Stacks, UpdateRequest};
use state_tests::line::Line;
use state_tests::workload::{self, MOVED, SOURCE, THERE};
use std::path::Path;
use std::process::{Command, Stdio};

/// The resources of each stack that don't move.
const OWN: [&str; 2] = ["t1.own", "t2.own"];

/// Maximum number of kills per system call, more than a move makes.
const KILLS: usize = 60;

#[test]
fn move_killed_at_any_step_ends_on_exactly_one_side() {
    let (mut moved, mut stayed) = (0, 0);
    for step in 1.. {
        let mut ended = true;
        for source_first in [true, false] {
            let dir = tempfile::tempdir().expect("a folder");
            block_on(prepare(dir.path()));
            let path = dir.path().to_str().expect("a path in UTF-8");
            let worker = Worker::start(&["move", path, &step.to_string()]);
            let heard = worker.hear_until(|line| matches!(line, Line::Counted(_) | Line::Closed));
            ended &= heard.contains(&Line::Closed);
            let acknowledged = heard.iter().any(|line| matches!(line, Line::Finished(_)));
            worker.kill();
            let replay = format!("killed at step {step}, the source opened first: {source_first}");
            let there = block_on(recover(dir.path(), source_first, &replay));
            assert!(
                there || !acknowledged,
                "an acknowledged move must have happened; {replay}"
            );
            if there {
                moved += 1;
            } else {
                stayed += 1;
            }
        }
        if ended {
            break;
        }
    }
    eprintln!("moves: killed at every step, {moved} completed, {stayed} undone");
    assert!(moved > 10 && stayed > 10, "{moved} moved, {stayed} stayed");
}

#[test]
fn move_killed_before_any_write_ends_on_exactly_one_side() {
    let Some(calls) = calls() else { return };
    let mut kills = 0;
    for call in calls.into_iter().filter(|call| *call != "openat") {
        for when in 1..=KILLS {
            let dir = tempfile::tempdir().expect("a folder");
            block_on(prepare(dir.path()));
            let mut command = Command::new("strace");
            command.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}")]);
            command.args(["-e", &format!("inject={call}:signal=SIGKILL:when={when}")]);
            command.arg(WORKER).arg("move").arg(dir.path()).arg("0");
            command.stderr(Stdio::null());
            let (well, heard) = Worker::of(command).end();
            let acknowledged = heard.iter().any(|line| matches!(line, Line::Finished(_)));
            let replay = format!("killed before {call} number {when}");
            let there = block_on(recover(dir.path(), when % 2 == 0, &replay));
            assert!(
                there || !acknowledged,
                "an acknowledged move must have happened; {replay}"
            );
            if well {
                break;
            }
            kills += 1;
        }
    }
    eprintln!("strace: killed {kills} times in a move");
    assert!(kills > 12, "kills: {kills}");
}

/// Creates two stacks, each with one resource that stays. The first stack also has the resources to move.
async fn prepare(dir: &Path) {
    let stacks = create(dir).expect("a new store");
    for (name, entries) in [(SOURCE, &[MOVED[0], MOVED[1], OWN[0]][..]), (THERE, &[OWN[1]])] {
        let name: StackName = name.parse().expect("a name");
        let stack = stacks
            .new_stack_with(&name, SealingPolicy::Plaintext)
            .await
            .expect("a new stack");
        let session = stack.lock("prepare").await.expect("it locks");
        let request = UpdateRequest::new(UpdateKind::Update);
        let update = session.start_update(request).await.expect("it starts");
        for name in entries {
            let entry = made(name);
            let step = update
                .begin(Intent::create(entry.clone()))
                .await
                .expect("it begins");
            let refused = step.succeed(Some(entry)).await.expect("it ends");
            assert_eq!(refused, []);
        }
        update.finish(UpdateResult::Succeeded).await.expect("it finishes");
        session.close().await.expect("it closes");
    }
}

/// An entry with its name as content. Entries that don't move have no dependencies.
fn made(name: &str) -> Entry {
    let address = name.parse().expect("an address");
    let mut entry = workload::made(address, name).expect("an entry");
    if OWN.contains(&name) {
        entry.depends_on.clear();
    }
    entry
}

/// Opens both stacks as their next lock holders, and returns whether the entries are in the destination.
async fn recover(dir: &Path, source_first: bool, replay: &str) -> bool {
    let stacks = open(dir).expect(replay);
    let (source, there) = (stack(&stacks, SOURCE).await, stack(&stacks, THERE).await);
    if source_first {
        lock(&source, replay).await;
    }
    // Locking the destination alone must settle the moves into it.
    lock(&there, replay).await;
    let moved = contains(&source, &there, replay).await;
    lock(&source, replay).await;
    for stack in [&source, &there] {
        let state = stack.tip().await.expect(replay).state;
        let unsettled = (state.incoming().count(), state.departed().count());
        assert_eq!(unsettled, (0, 0), "all moves must be settled; {replay}");
        verify(stack).await;
    }
    moved
}

async fn stack(stacks: &Stacks, name: &str) -> Stack {
    let name: StackName = name.parse().expect("a name");
    stacks.get(&name).await.expect("it reads").expect("it is there")
}

async fn lock(stack: &Stack, replay: &str) {
    let session = stack.lock(&environment().actor.who).await.expect(replay);
    session.close().await.expect(replay);
}

/// Whether the destination has the moved entries. Asserts that all of them are unchanged and in exactly one stack.
async fn contains(source: &Stack, there: &Stack, replay: &str) -> bool {
    let mut found = Vec::new();
    for (stack, own) in [(source, OWN[0]), (there, OWN[1])] {
        let state = stack.tip().await.expect(replay).state;
        let has = |name: &str| {
            let entry = state.entry(&EntryKey::live(name.parse().expect("an address")));
            entry
                .inspect(|entry| assert_eq!(entry.outputs, Some(workload::outputs(name)), "{replay}"))
                .is_some()
        };
        assert!(has(own), "{own} stays; {replay}");
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
