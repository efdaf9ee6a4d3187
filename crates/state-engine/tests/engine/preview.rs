//! Previews: nothing is written, the world isn't changed, and what they say happens.

use crate::program::{Spec, spec, update};
use crate::stage::Stage;
use state_core::testkit::fault::Operation as Call;
use state_engine::{Basis, Operation, Report, Run};

fn told(report: &Report) -> Vec<String> {
    let steps = report.steps.iter().filter(|step| step.is_change());
    steps
        .map(|step| format!("{} {}", step.op, step.key.address))
        .collect()
}

fn preview(stage: &Stage) -> Run {
    let mut run = stage.usual();
    run.options.parallel = 1;
    run
}

async fn says_what_happens(stage: &Stage, operation: impl Fn() -> Operation) {
    let appends = stage.faults.calls(Call::Append);
    let before = stage.keys();
    stage.world.forget_calls();
    let said = stage.preview(operation(), preview(stage)).await;
    assert!(said.succeeded() && said.revision.is_none(), "{said:?}");
    assert_eq!(stage.faults.calls(Call::Append), appends, "nothing is written");
    assert_eq!(stage.keys(), before);
    assert_eq!(
        stage.world.calls(),
        Vec::<String>::new(),
        "the world isn't changed"
    );
    let mut run = stage.usual();
    run.options.parallel = 1;
    let done = stage.run(operation(), run).await;
    assert_eq!(told(&said), told(&done));
    assert_eq!(stage.complaints(), Vec::<String>::new());
}

#[tokio::test]
async fn a_preview_says_what_an_update_a_refresh_and_a_destroy_do_and_writes_nothing() {
    let stage = Stage::new(1).await;
    let first = [
        spec("a"),
        spec("b").uses(&["a"]),
        spec("c").solo().needs(&["b"]),
        spec("d"),
    ];
    says_what_happens(&stage, || update(&first)).await;
    let second: [Spec; 3] = [
        spec("a").fixed(2),
        spec("b").uses(&["a"]).size(3),
        spec("c").solo().needs(&["b"]).size(2),
    ];
    says_what_happens(&stage, || update(&second)).await;
    let lost = stage.entry("c").unwrap().id.clone().unwrap();
    stage.world.lose(&lost);
    says_what_happens(&stage, || Operation::Refresh).await;
    says_what_happens(&stage, || update(&second)).await;
    says_what_happens(&stage, || Operation::Destroy).await;
}

#[tokio::test]
async fn a_preview_shows_what_changes_and_masks_what_is_secret() {
    let stage = Stage::new(2).await;
    let first = [spec("a").size(1)];
    stage.run(update(&first), stage.usual()).await;
    let said = stage
        .preview(update(&[spec("a").size(2).secret("size")]), preview(&stage))
        .await;
    let changes = said.steps[0].changes();
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
async fn a_preview_under_a_lock_is_one_of_what_is_recorded_there() {
    let stage = Stage::new(3).await;
    let session = stage.lock().await;
    let plan = stage
        .engine
        .plan(Basis::locked(&session), update(&[spec("a")]), preview(&stage))
        .await
        .unwrap();
    assert_eq!(told(plan.report()), ["create a"]);
    let done = stage.engine.apply(&session, plan).await.unwrap();
    assert_eq!(told(&done), ["create a"]);
    session.close().await.unwrap();
    assert_eq!(stage.keys(), ["a"]);
}
