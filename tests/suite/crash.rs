//! P1, P7: acknowledged mutations survive `kill -9`, and operations that had begun are pending afterwards.

mod model;
mod moves;
mod result;
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
        let first = worker.hear_until(|line| matches!(line, Line::Acked(_)));
        std::thread::sleep(Duration::from_micros(1_000 + dice.below(59_000)));
        die(worker, &first, &mut model);
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
            die(worker, &[], &mut model);
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
        "the workers acknowledged too little"
    );
}

fn start(dir: &Path, dice: &mut Dice) -> Worker {
    let seed = dice.number().to_string();
    Worker::start(&["commit", dir.to_str().expect("a path in UTF-8"), &seed])
}

fn die(worker: Worker, first: &[Line], model: &mut Model) {
    let rest = worker.kill();
    for line in first.iter().chain(&rest) {
        model.hear(line);
    }
}

/// Reads the store without a lock, and sometimes also as the next lock holder.
async fn reopen(dir: &Path, model: &mut Model, dice: &mut Dice, replay: &str, deep: bool) {
    let stack = stack(dir).await.expect(replay);
    let tip = stack.tip().await.expect(replay);
    model.settle(&tip.state, replay);
    if deep || dice.one_in(4) {
        revisions_are_there(&stack, model, replay).await;
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
            "pending operations must be handed over; {replay}"
        );
        if dice.one_in(2) {
            session.close().await.expect(replay);
        } else {
            drop(session);
            is_freed(&stack, replay).await;
        }
    }
    if deep {
        verify(&stack).await;
    }
}

/// Asserts that dropping a session releases its lock within a short time.
async fn is_freed(stack: &Stack, replay: &str) {
    for _ in 0..2_000 {
        let status = stack.lock_status().await.expect(replay);
        if status.holder.is_none() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("a dropped session must release its lock; {replay}");
}

async fn revisions_are_there(stack: &Stack, model: &Model, replay: &str) {
    let listed: BTreeSet<_> = stack.list().await.expect(replay).into_iter().collect();
    let lost: Vec<_> = model.revisions().difference(&listed).collect();
    assert!(
        lost.is_empty(),
        "acknowledged revisions are missing: {lost:?}; {replay}"
    );
}

/// Number of files in all folders of this name, one level below `stacks`.
fn files(stacks: &Path, folder: &str) -> usize {
    let list = |path: &Path| std::fs::read_dir(path).into_iter().flatten().flatten();
    list(stacks)
        .map(|stack| list(&stack.path().join(folder)).count())
        .sum()
}
