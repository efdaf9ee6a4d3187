//! Promise P2 of `docs/architecture.md`: two processes use one stack. Only the lock holder can write. The other process
//! gets an error that names the holder. A holder whose lock was taken over is fenced.

use crate::crash::Model;
use crate::process::Worker;
use crate::store::{block_on, content, stack, verify};
use state_core::testkit::run::scaled;
use state_core::{Address, Entry, EntryKey, Error, MutationId, State, UpdateKind, UpdateResult};
use state_manager::{Intent, Session, Stack, UpdateRequest};
use state_tests::dice::{Dice, replay, seed};
use state_tests::line::Line;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

#[test]
fn racing_processes_lose_no_update() {
    const TIMES: u64 = 25;
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().to_str().expect("a path in UTF-8");
    block_on(stack(dir.path())).expect("a new stack");
    let workers = [(); 2].map(|()| Worker::start(&["count", path, &TIMES.to_string()]));
    let pids = workers.each_ref().map(Worker::pid);
    let mut seen = BTreeSet::new();
    for (worker, other) in workers.into_iter().zip([pids[1], pids[0]]) {
        let (succeeded, lines) = worker.end();
        assert!(succeeded, "`Locked` must be the only error: {:?}", lines.last());
        for line in lines {
            match line {
                Line::Counted(value) => assert!(seen.insert(value), "{value} was written twice"),
                // After a process acquired the lock and before it wrote its name, the error names no holder (0).
                Line::LockedBy(pid) => assert!(
                    pid == other || pid == 0,
                    "the error must name process {other}, not {pid}"
                ),
                line => panic!("{line}"),
            }
        }
    }
    assert_eq!(seen, (1..=2 * TIMES).collect(), "no update is lost");
    block_on(async {
        let stack = stack(dir.path()).await.expect("the stack opens");
        assert_eq!(counter(&stack).await, 2 * TIMES);
        let revisions = stack.list().await.expect("the revisions are listed").len() as u64;
        assert_eq!(revisions, 2 * TIMES, "one revision per update");
        verify(&stack).await;
    });
}

/// Number of processes that are killed at random moments; [`scaled`] multiplies this number.
const KILLS: u32 = 100;

#[test]
fn counter_of_eight_killed_processes_loses_nothing() {
    let seed = seed(20_261_130);
    let replay = replay(seed);
    eprintln!("counter: {replay}");
    let mut dice = Dice::new(seed);
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().to_str().expect("a path in UTF-8");
    block_on(stack(dir.path())).expect("a new stack");
    let start = || Worker::start(&["count", path, "1000000"]);
    let mut workers: Vec<Worker> = (0..8).map(|_| start()).collect();
    let mut lines = Vec::new();
    for _ in 0..scaled(KILLS) {
        std::thread::sleep(Duration::from_micros(dice.below(60_000)));
        let victim = std::mem::replace(&mut workers[dice.index(8)], start());
        lines.extend(victim.kill());
    }
    lines.extend(workers.into_iter().flat_map(Worker::kill));
    let mut counted = BTreeSet::new();
    for line in lines {
        match line {
            Line::Counted(value) => assert!(counted.insert(value), "{value} was counted twice; {replay}"),
            Line::LockedBy(_) => {}
            line => panic!("{line}; {replay}"),
        }
    }
    let value = block_on(async {
        let stack = stack(dir.path()).await.expect("the stack opens");
        verify(&stack).await;
        counter(&stack).await
    });
    assert!(
        counted.last() <= Some(&value),
        "an acknowledged addition was lost; {replay}"
    );
    // A process may have been killed between its addition and its report.
    let unreported = value - counted.len() as u64;
    let kills = u64::from(scaled(KILLS)) + 8;
    assert!(
        unreported <= kills,
        "{unreported} additions are unreported after {kills} kills; {replay}"
    );
    assert!(counted.len() > 20, "only {} additions; {replay}", counted.len());
    eprintln!(
        "counter: {} additions were reported and {unreported} weren't",
        counted.len()
    );
}

/// Returns the value of the counter that the workers `count` and `embed` share.
pub(crate) async fn counter(stack: &Stack) -> u64 {
    let tip = stack.tip().await.expect("the tip can be read");
    let counter = EntryKey::live("counter".parse().expect("an address"));
    let id = tip.state.entry(&counter).and_then(|entry| entry.id.clone());
    id.map_or(0, |id| id.parse().expect("the id of the counter is a number"))
}

#[test]
fn second_process_gets_one_error_naming_the_holder() {
    let dir = tempfile::tempdir().expect("a folder");
    block_on(stack(dir.path())).expect("a new stack");
    let worker = hold(dir.path(), 1);
    worker.read_until(|line| matches!(line, Line::Acked(_)));
    let error = block_on(async {
        let stack = stack(dir.path()).await.expect("the stack opens");
        stack.lock("second").await.expect_err("the worker holds the lock")
    });
    assert_names_holder(&error, worker.pid());
    drop(worker);
    block_on(async {
        let stack = stack(dir.path()).await.expect("the stack opens");
        let session = stack
            .lock("third")
            .await
            .expect("the lock of a dead process is free");
        session.close().await.expect("the session closes");
    });
}

#[test]
fn suspended_writer_is_fenced_after_its_lock_is_broken() {
    let seed = seed(20_260_802);
    let replay = replay(seed);
    eprintln!("fencing: {replay}");
    let mut dice = Dice::new(seed);
    for round in 0..24 {
        let dir = tempfile::tempdir().expect("a folder");
        block_on(stack(dir.path())).expect("a new stack");
        let worker = hold(dir.path(), dice.number());
        let delay = Duration::from_micros(dice.below(30_000));
        block_on(fence(
            dir.path(),
            worker,
            delay,
            &format!("round {round}, {replay}"),
        ));
    }
}

/// Starts a worker that holds the lock and changes the stack in one update that never ends.
pub(crate) fn hold(dir: &Path, seed: u64) -> Worker {
    let path = dir.to_str().expect("a path in UTF-8");
    Worker::start(&["hold", path, &seed.to_string()])
}

/// Asserts that an error is `Locked` and names the worker with this process id as the holder.
pub(crate) fn assert_names_holder(error: &Error, pid: u32) {
    let Error::Locked { holder, .. } = error else {
        panic!("expected `Locked`, got: {error}");
    };
    assert_eq!((holder.pid, holder.who.as_str()), (pid, "worker"));
    assert_eq!(holder.operation, "commit");
    let text = error.to_string();
    assert!(
        text.contains(&pid.to_string()) && text.contains("worker@here"),
        "{text}"
    );
}

/// Suspends a writer at `delay` after its first acknowledgement, takes over its lock, writes, and resumes the suspended
/// writer. Asserts that no later write of that writer is visible.
async fn fence(dir: &Path, worker: Worker, delay: Duration, replay: &str) {
    let mut model = Model::default();
    let mut steps = Steps::default();
    let first = worker.read_until(|line| matches!(line, Line::Acked(_)));
    tokio::time::sleep(delay).await;
    worker.stop();
    for line in first.into_iter().chain(worker.lines_so_far()) {
        model.observe(&line);
        steps.observe(&line);
    }

    let stack = stack(dir).await.expect(replay);
    let locked = stack
        .lock("second")
        .await
        .expect_err("a suspended process holds its lock");
    assert_names_holder(&locked, worker.pid());
    let seen = stack.lock_status().await.expect(replay).epoch;
    let session = stack.break_lock("second", seen).await.expect(replay);
    model.settle(&session.state(), replay);
    let taken_over = session.state();
    write(&session, "before").await;
    let before = content(&session.state());

    worker.wake();
    let (succeeded, late) = worker.end();
    assert!(!succeeded, "a fenced writer must fail; {replay}");
    steps.check_late_lines(&late, &taken_over, replay);

    let tip = stack.tip().await.expect(replay);
    assert!(
        content(&tip.state) == before,
        "a late write of the fenced writer must not be visible; {replay}"
    );
    write(&session, "after").await;
    session.close().await.expect(replay);
    verify(&stack).await;
}

/// Commits an update that creates one entry.
pub(crate) async fn write(session: &Session, name: &str) {
    let update = session
        .start_update(UpdateRequest::new(UpdateKind::Update))
        .await
        .expect("an update starts");
    let entry = Entry::leaf(Address::new(name).expect("an address"), "thing");
    let begun = update
        .begin(Intent::create(entry.clone()))
        .await
        .expect("the begin is recorded");
    assert!(
        begun
            .succeed(Some(entry))
            .await
            .expect("the end is recorded")
            .is_empty()
    );
    update
        .finish(UpdateResult::Succeeded)
        .await
        .expect("the update finishes");
}

/// The last step of each task of a writer, to judge the lines that the writer prints after it lost its lock.
#[derive(Default)]
pub(crate) struct Steps {
    /// By task: the address of the last announced step, and the id of its mutation once the begin was acknowledged.
    last: BTreeMap<u64, (String, Option<MutationId>)>,
}

impl Steps {
    /// Updates the steps by one line of the writer's output.
    pub(crate) fn observe(&mut self, line: &Line) {
        match line {
            Line::Trying(task, plan) => {
                self.last.insert(*task, (plan.address.clone(), None));
            }
            Line::Begun(task, id) => {
                if let Some((_, known)) = self.last.get_mut(task) {
                    *known = Some(*id);
                }
            }
            _ => {}
        }
    }

    /// Checks the lines that the writer printed after the takeover. An acknowledgement is allowed only if the state
    /// that the new holder took over contains the mutation. All other mutations must fail with `Fenced` or `Closed`.
    pub(crate) fn check_late_lines(&mut self, late: &[Line], taken_over: &State, replay: &str) {
        let mut fenced = 0;
        for line in late {
            match line {
                Line::Begun(_, id) => assert!(
                    taken_over.pending().any(|operation| operation.id == *id)
                        || taken_over.lookup(*id).is_some(),
                    "a begin may be acknowledged late only if the state that was taken over contains it; {replay}"
                ),
                Line::Acked(task) => {
                    let id = self.last.get(task).and_then(|(_, id)| *id);
                    assert!(
                        id.is_some_and(|id| taken_over.lookup(id).is_some()),
                        "an end may be acknowledged late only if the state that was taken over contains it; {replay}"
                    );
                }
                Line::Failed(task, kind, indeterminate, text) => {
                    // Mutations in the failed frame get `Fenced`, later mutations get `Closed`.
                    let known = ["Fenced", "Closed"].contains(&kind.as_str());
                    assert!(known, "unexpected error: {line}; {replay}");
                    let is_takeover = kind == "Fenced" && text.contains("another holder took over");
                    fenced += u64::from(is_takeover);
                    self.assert_not_applied(*task, *indeterminate, taken_over, replay);
                }
                Line::Trying(..) => {}
                line => panic!("unexpected late line: {line}; {replay}"),
            }
            self.observe(line);
        }
        assert!(fenced > 0, "the writer must report `Fenced`: {late:?}; {replay}");
    }

    /// Asserts that the last mutation of a task wasn't applied. Does nothing if the error of the mutation is
    /// indeterminate, because such a mutation may or may not have been applied.
    fn assert_not_applied(&self, task: u64, indeterminate: bool, taken_over: &State, replay: &str) {
        if let Some((address, id)) = self.last.get(&task).filter(|_| !indeterminate) {
            let there = match id {
                Some(id) => taken_over.lookup(*id).is_some(),
                None => taken_over
                    .pending()
                    .any(|operation| operation.target.address.as_str() == address),
            };
            assert!(
                !there,
                "a mutation whose error isn't indeterminate must not be applied: {address}; {replay}"
            );
        }
    }
}
