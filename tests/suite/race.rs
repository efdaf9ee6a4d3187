//! P2: two processes on one stack. Only the lock holder writes, the other one gets an error that names the holder, and a
//! holder whose lock was taken over is fenced.

use crate::crash::Model;
use crate::process::Worker;
use crate::store::{block_on, content, stack, verify};
use state_core::{Address, Entry, EntryKey, Error, MutationId, State, UpdateKind, UpdateResult};
use state_manager::{Intent, Session, UpdateRequest};
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
        let (well, lines) = worker.end();
        assert!(well, "no other error than `Locked`: {:?}", lines.last());
        for line in lines {
            match line {
                Line::Counted(value) => assert!(seen.insert(value), "{value} was written twice"),
                // A holder is unknown between acquiring its lock and writing its name.
                Line::LockedBy(pid) => assert!(pid == other || pid == 0, "{other} holds the lock, not {pid}"),
                line => panic!("{line}"),
            }
        }
    }
    assert_eq!(seen, (1..=2 * TIMES).collect(), "no update is lost");
    block_on(async {
        let stack = stack(dir.path()).await.expect("it opens");
        let tip = stack.tip().await.expect("it reads");
        let counter = EntryKey::live("counter".parse().expect("an address"));
        let value = tip.state.entry(&counter).and_then(|entry| entry.id.clone());
        assert_eq!(value, Some((2 * TIMES).to_string()));
        let revisions = stack.list().await.expect("it lists").len() as u64;
        assert_eq!(revisions, 2 * TIMES, "one revision per update");
        verify(&stack).await;
    });
}

#[test]
fn second_process_gets_one_error_naming_the_holder() {
    let dir = tempfile::tempdir().expect("a folder");
    block_on(stack(dir.path())).expect("a new stack");
    let worker = hold(dir.path(), 1);
    worker.hear_until(|line| matches!(line, Line::Acked(_)));
    let error = block_on(async {
        let stack = stack(dir.path()).await.expect("it opens");
        stack.lock("second").await.expect_err("the first one holds it")
    });
    assert_names_holder(&error, worker.pid());
    drop(worker);
    block_on(async {
        let stack = stack(dir.path()).await.expect("it opens");
        let session = stack
            .lock("third")
            .await
            .expect("the lock of a dead process is free");
        session.close().await.expect("it closes");
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

pub(crate) fn hold(dir: &Path, seed: u64) -> Worker {
    let path = dir.to_str().expect("a path in UTF-8");
    Worker::start(&["hold", path, &seed.to_string()])
}

pub(crate) fn assert_names_holder(error: &Error, pid: u32) {
    let Error::Locked { holder, .. } = error else {
        panic!("it is `Locked`, not {error}");
    };
    assert_eq!((holder.pid, holder.who.as_str()), (pid, "worker"));
    assert_eq!(holder.operation, "commit");
    let text = error.to_string();
    assert!(
        text.contains(&pid.to_string()) && text.contains("worker@here"),
        "{text}"
    );
}

/// Suspends a writer, takes over its lock, writes, and resumes the first writer.
async fn fence(dir: &Path, worker: Worker, delay: Duration, replay: &str) {
    let mut model = Model::default();
    let mut steps = Steps::default();
    let first = worker.hear_until(|line| matches!(line, Line::Acked(_)));
    tokio::time::sleep(delay).await;
    worker.stop();
    for line in first.into_iter().chain(worker.heard_by_now()) {
        model.hear(&line);
        steps.hear(&line);
    }

    let stack = stack(dir).await.expect(replay);
    let locked = stack.lock("second").await.expect_err("the first one is alive");
    assert_names_holder(&locked, worker.pid());
    let seen = stack.lock_status().await.expect(replay).epoch;
    let session = stack.break_lock("second", seen).await.expect(replay);
    model.settle(&session.state(), replay);
    let taken_over = session.state();
    write(&session, "before").await;
    let before = content(&session.state());

    worker.wake();
    let (well, late) = worker.end();
    assert!(!well, "a fenced writer fails; {replay}");
    steps.judge(&late, &taken_over, replay);

    let tip = stack.tip().await.expect(replay);
    assert!(
        content(&tip.state) == before,
        "its late write must not be visible; {replay}"
    );
    write(&session, "after").await;
    session.close().await.expect(replay);
    verify(&stack).await;
}

pub(crate) async fn write(session: &Session, name: &str) {
    let update = session
        .start_update(UpdateRequest::new(UpdateKind::Update))
        .await
        .expect("an update starts");
    let entry = Entry::leaf(Address::new(name).expect("an address"), "thing");
    let begun = update
        .begin(Intent::create(entry.clone()))
        .await
        .expect("it begins");
    assert!(begun.succeed(Some(entry)).await.expect("it ends").is_empty());
    update.finish(UpdateResult::Succeeded).await.expect("it finishes");
}

/// The steps of a writer that may continue after it lost its lock.
#[derive(Default)]
pub(crate) struct Steps {
    /// The last announced address of each task, and the id of its mutation once known.
    last: BTreeMap<u64, (String, Option<MutationId>)>,
}

impl Steps {
    pub(crate) fn hear(&mut self, line: &Line) {
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

    /// Late acknowledgements are allowed only for mutations in the state that the new holder took over; all others must fail as
    /// fenced.
    pub(crate) fn judge(&mut self, late: &[Line], taken_over: &State, replay: &str) {
        let mut fenced = 0;
        for line in late {
            match line {
                Line::Begun(_, id) => assert!(
                    taken_over.pending().any(|operation| operation.id == *id)
                        || taken_over.lookup(*id).is_some(),
                    "a begin is acknowledged late only if the new owner has it; {replay}"
                ),
                Line::Acked(task) => {
                    let id = self.last.get(task).and_then(|(_, id)| *id);
                    assert!(
                        id.is_some_and(|id| taken_over.lookup(id).is_some()),
                        "an end is acknowledged late only if the new owner has it; {replay}"
                    );
                }
                Line::Failed(task, kind, unsure, text) => {
                    // Mutations in the failed frame get `Fenced`; later mutations get `Closed`.
                    let known = ["Fenced", "Closed"].contains(&kind.as_str());
                    assert!(known, "unexpected error: {line}; {replay}");
                    let is_takeover = kind == "Fenced" && text.contains("another holder took over");
                    fenced += u64::from(is_takeover);
                    self.was_not_applied(*task, *unsure, taken_over, replay);
                }
                Line::Trying(..) => {}
                line => panic!("unexpected late line: {line}; {replay}"),
            }
            self.hear(line);
        }
        assert!(fenced > 0, "the writer must report `Fenced`: {late:?}; {replay}");
    }

    /// Asserts that a definite error is correct: the mutation wasn't applied.
    fn was_not_applied(&self, task: u64, unsure: bool, taken_over: &State, replay: &str) {
        if let Some((address, id)) = self.last.get(&task).filter(|_| !unsure) {
            let there = match id {
                Some(id) => taken_over.lookup(*id).is_some(),
                None => taken_over
                    .pending()
                    .any(|operation| operation.target.address.as_str() == address),
            };
            assert!(
                !there,
                "`Fenced` before writing means not applied: {address}; {replay}"
            );
        }
    }
}
