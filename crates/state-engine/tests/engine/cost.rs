//! Tests of the cost of a run: the bytes that it writes, and the steps that it executes in parallel.

use crate::cloud::CallMode;
use crate::harness::Harness;
use crate::program::{Spec, spec, update};
use state_core::codec::encode_stored;
use state_core::diff::diff;

/// A thousand resources of about 1 KiB each.
fn thousand() -> Vec<Spec> {
    (0..1000)
        .map(|number| {
            let one = spec(&format!("module.network.aws_instance.server_{number:04}"));
            match number {
                0 => one.padded(400),
                _ => one.padded(400).uses(&[&format!(
                    "module.network.aws_instance.server_{:04}",
                    (number - 1) / 7
                )]),
            }
        })
        .collect()
}

#[tokio::test]
async fn deploying_1000_resources_writes_at_most_3_times_the_state() {
    let harness = Harness::new(1).await;
    harness.checker.lock().unwrap().only_count();
    let report = harness.run(update(&thousand()), harness.default_run()).await;
    assert!(report.succeeded(), "{:?}", report.failures.first());
    let snapshot = harness.stack.current().await.unwrap();
    let state = encode_stored(&snapshot).len();
    let written = harness.checker.lock().unwrap().bytes;
    println!(
        "wrote {written} bytes for a state of {state} bytes: factor {:.2}",
        written as f64 / state as f64
    );
    assert!(
        written <= 3 * state,
        "wrote {written} bytes for a state of {state} bytes"
    );
    let again = harness.run(update(&thousand()), harness.default_run()).await;
    assert!(again.succeeded() && !again.has_changes());
}

/// Runs a program of a thousand resources again with `changed` of them changed. Returns the size of the stored state and
/// of the frames that the second run wrote.
async fn bytes_of_second_run(harness: Harness, changed: usize) -> (usize, usize) {
    harness.checker.lock().unwrap().only_count();
    let mut program = thousand();
    let report = harness.run(update(&program), harness.default_run()).await;
    assert!(report.succeeded(), "{:?}", report.failures.first());
    let first = harness.stack.current().await.unwrap();
    let state = encode_stored(&first).len();
    let before = harness.checker.lock().unwrap().bytes;
    for one in program.iter_mut().rev().take(changed) {
        one.size += 1;
    }
    let again = harness.run(update(&program), harness.default_run()).await;
    assert!(again.succeeded(), "{:?}", again.failures.first());
    assert_eq!(again.has_changes(), changed > 0);
    let changes = diff(&first, &harness.stack.current().await.unwrap());
    assert_eq!(changes.changed.len(), changed);
    assert!(changes.added.is_empty() && changes.removed.is_empty() && changes.moved.is_empty());
    let written = harness.checker.lock().unwrap().bytes - before;
    (state, written)
}

#[tokio::test]
async fn run_without_changes_writes_at_most_a_15th_of_the_state() {
    let (state, written) = bytes_of_second_run(Harness::new(1).await, 0).await;
    assert!(written > 0, "the run is recorded");
    assert!(15 * written <= state, "{written} bytes for a state of {state}");
}

#[tokio::test]
async fn run_that_changes_1_percent_writes_at_most_a_10th() {
    let (state, written) = bytes_of_second_run(Harness::new(1).await, 10).await;
    assert!(10 * written <= state, "{written} bytes for a state of {state}");
}

#[tokio::test]
async fn sealed_entries_that_stay_are_not_sealed_again() {
    let (state, written) = bytes_of_second_run(Harness::sealed_whole(1).await, 0).await;
    assert!(15 * written <= state, "{written} bytes for a state of {state}");
}

#[tokio::test]
async fn parallel_steps_reach_but_never_exceed_the_limit() {
    for limit in [1, 3, 10] {
        let harness = Harness::new(2).await;
        harness.cloud.set_modes(|_, _| (CallMode::Normal, 5, 5));
        let program: Vec<Spec> = (0..40).map(|number| spec(&format!("r{number}"))).collect();
        let mut run = harness.default_run();
        run.options.parallel = limit;
        harness.run(update(&program), run).await;
        assert_eq!(harness.cloud.most_running(), limit);
    }
}
