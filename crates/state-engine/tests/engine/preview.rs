//! Tests of previews: a preview writes nothing, changes no object, and predicts the run.

use crate::harness::Harness;
use crate::program::{Spec, spec, update};
use state_core::testkit::fault::Operation as Call;
use state_engine::{Basis, Operation, Report, Run};

fn changed_steps(report: &Report) -> Vec<String> {
    let steps = report.steps.iter().filter(|step| step.is_change());
    steps
        .map(|step| format!("{} {}", step.op, step.key.address))
        .collect()
}

/// A run with one step at a time, so that a preview and the run have the same order of steps.
fn preview(harness: &Harness) -> Run {
    let mut run = harness.default_run();
    run.options.parallel = 1;
    run
}

/// Previews an operation and then runs it. Asserts that the preview writes nothing, changes no object, and reports the
/// same changes as the run.
async fn assert_preview_predicts_run(harness: &Harness, operation: impl Fn() -> Operation) {
    let appends = harness.faults.calls(Call::Append);
    let before = harness.keys();
    harness.cloud.forget_calls();
    let report = harness.preview(operation(), preview(harness)).await;
    assert!(report.succeeded() && report.revision.is_none(), "{report:?}");
    assert_eq!(harness.faults.calls(Call::Append), appends, "nothing is written");
    assert_eq!(harness.keys(), before);
    assert_eq!(harness.cloud.calls(), Vec::<String>::new(), "no object changes");
    let mut run = harness.default_run();
    run.options.parallel = 1;
    let done = harness.run(operation(), run).await;
    assert_eq!(changed_steps(&report), changed_steps(&done));
    assert_eq!(harness.complaints(), Vec::<String>::new());
}

#[tokio::test]
async fn preview_predicts_the_run_and_writes_nothing() {
    let harness = Harness::new(1).await;
    let first = [
        spec("a"),
        spec("b").uses(&["a"]),
        spec("c").solo().needs(&["b"]),
        spec("d"),
    ];
    assert_preview_predicts_run(&harness, || update(&first)).await;
    let second: [Spec; 3] = [
        spec("a").fixed(2),
        spec("b").uses(&["a"]).size(3),
        spec("c").solo().needs(&["b"]).size(2),
    ];
    assert_preview_predicts_run(&harness, || update(&second)).await;
    let lost = harness.entry("c").unwrap().id.clone().unwrap();
    harness.cloud.lose(&lost);
    assert_preview_predicts_run(&harness, || Operation::Refresh).await;
    assert_preview_predicts_run(&harness, || update(&second)).await;
    assert_preview_predicts_run(&harness, || Operation::Destroy).await;
}

#[tokio::test]
async fn preview_shows_changes_and_masks_secrets() {
    let harness = Harness::new(2).await;
    let first = [spec("a").size(1)];
    harness.run(update(&first), harness.default_run()).await;
    let report = harness
        .preview(update(&[spec("a").size(2).secret("size")]), preview(&harness))
        .await;
    let changes = report.steps[0].changes();
    let size = changes
        .iter()
        .find(|change| change.pointer == "/inputs/size")
        .unwrap();
    assert!(size.is_sensitive());
    let masked = size.new.as_ref().unwrap().masked("***");
    assert_eq!(masked.as_str(), r#""***""#);
    assert_eq!(size.new.as_ref().unwrap().revealed().as_str(), "2");
}

#[tokio::test]
async fn preview_under_a_lock_uses_the_locked_state() {
    let harness = Harness::new(3).await;
    let session = harness.lock().await;
    let plan = harness
        .engine
        .plan(Basis::locked(&session), update(&[spec("a")]), preview(&harness))
        .await
        .unwrap();
    assert_eq!(changed_steps(plan.report()), ["create a"]);
    let done = harness.engine.apply(&session, plan).await.unwrap();
    assert_eq!(changed_steps(&done), ["create a"]);
    session.close().await.unwrap();
    assert_eq!(harness.keys(), ["a"]);
}
