//! Promises P1 and P7 of `docs/architecture.md`: acknowledged mutations survive `kill -9`, and operations that began
//! and didn't end are pending afterwards.

mod commands;
mod model;
mod moves;
mod order;
mod result;
mod strace;
mod syscalls;

pub(crate) use model::Model;

use crate::process::Worker;
use crate::store::{block_on, content, stack, verify};
use state_core::testkit::run::scaled;
use state_manager::Stack;
use state_tests::dice::{Dice, replay, seed};
use state_tests::line::Line;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// Number of rounds in which a worker is killed; [`scaled`] multiplies this number.
const ROUNDS: u32 = 200;

#[test]
fn acknowledged_mutations_survive_200_random_kills() {
    let seed = seed(20_260_801);
    let replay = replay(seed);
    eprintln!("kill -9: {replay}");
    let dir = tempfile::tempdir().expect("a folder");
    let mut dice = Dice::new(seed);
    let mut model = Model::default();
    let rounds = u64::from(scaled(ROUNDS));
    for round in 1..=rounds {
        let replay = format!("round {round}, {replay}");
        let worker = start(dir.path(), &mut dice);
        let first = worker.read_until(|line| matches!(line, Line::Acked(_)));
        std::thread::sleep(Duration::from_micros(1_000 + dice.below(59_000)));
        kill(worker, &first, &mut model);
        block_on(reopen(
            dir.path(),
            &mut model,
            &mut dice,
            &replay,
            round % 20 == 0,
        ));
        if dice.one_in(8) {
            // Kill again while the store is being opened and recovered.
            let worker = start(dir.path(), &mut dice);
            std::thread::sleep(Duration::from_micros(dice.below(20_000)));
            kill(worker, &[], &mut model);
            block_on(reopen(dir.path(), &mut model, &mut dice, &replay, false));
        }
    }
    eprintln!(
        "kill -9: {} mutations and {} revisions acknowledged, {rounds} kills, {} snapshots",
        model.acknowledged(),
        model.revisions().len(),
        files(&dir.path().join("stacks"), "snapshots"),
    );
    assert!(
        model.acknowledged() > rounds,
        "the workers must report more than one acknowledgement per kill"
    );
}

/// Starts a worker `commit` with a random seed on the store in this folder.
fn start(dir: &Path, dice: &mut Dice) -> Worker {
    let seed = dice.number().to_string();
    Worker::start(&["commit", dir.to_str().expect("a path in UTF-8"), &seed])
}

/// Kills a worker, and passes its output to the model. `first` contains the lines that the test has already read.
fn kill(worker: Worker, first: &[Line], model: &mut Model) {
    let rest = worker.kill();
    for line in first.iter().chain(&rest) {
        model.observe(line);
    }
}

/// Compares the store with the model. Reads without a lock, and at random also as the next lock holder. With `deep`,
/// also verifies all stored data.
async fn reopen(dir: &Path, model: &mut Model, dice: &mut Dice, replay: &str, deep: bool) {
    let stack = stack(dir).await.expect(replay);
    let tip = stack.tip().await.expect(replay);
    model.settle(&tip.state, replay);
    if deep || dice.one_in(4) {
        assert_revisions_are_listed(&stack, model, replay).await;
    }
    if dice.one_in(2) {
        let session = stack.lock("reopen").await.expect(replay);
        assert!(
            content(&session.state()).entries == content(&tip.state).entries,
            "the next lock holder must see the same state as a reader; {replay}"
        );
        assert_eq!(
            session.recovered().len(),
            tip.state.pending().count(),
            "the next lock holder must receive all pending operations; {replay}"
        );
        if dice.one_in(2) {
            session.close().await.expect(replay);
        } else {
            drop(session);
            assert_lock_is_released(&stack, replay).await;
        }
    }
    if deep {
        verify(&stack).await;
    }
}

/// Asserts that the lock of a dropped session is released within 10 seconds.
async fn assert_lock_is_released(stack: &Stack, replay: &str) {
    for _ in 0..2_000 {
        let status = stack.lock_status().await.expect(replay);
        if status.holder.is_none() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("a dropped session must release its lock; {replay}");
}

/// Asserts that the stack lists every acknowledged revision.
async fn assert_revisions_are_listed(stack: &Stack, model: &Model, replay: &str) {
    let listed: BTreeSet<_> = stack.list().await.expect(replay).into_iter().collect();
    let lost: Vec<_> = model.revisions().difference(&listed).collect();
    assert!(
        lost.is_empty(),
        "acknowledged revisions are missing: {lost:?}; {replay}"
    );
}

/// Returns the number of files in the folders `stacks/*/FOLDER`.
fn files(stacks: &Path, folder: &str) -> usize {
    let list = |path: &Path| std::fs::read_dir(path).into_iter().flatten().flatten();
    list(stacks)
        .map(|stack| list(&stack.path().join(folder)).count())
        .sum()
}
