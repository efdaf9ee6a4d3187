//! Each kind of step, and the order of steps.

use crate::program::{spec, update};
use crate::stage::Stage;
use state_core::{LogLevel, Properties};
use state_engine::{Operation, StepOp};
use state_manager::{LogQuery, RevisionKind};

#[tokio::test]
async fn a_program_is_made_changed_and_unmade_in_the_order_of_its_dependencies() {
    let stage = Stage::new(1).await;
    let first = [spec("c").uses(&["b"]), spec("b").needs(&["a"]), spec("a")];
    let report = stage.run(update(&first), stage.usual()).await;
    assert!(report.succeeded(), "{report:?}");
    assert_eq!(stage.world.calls(), ["create a", "create b", "create c"]);
    assert_eq!(stage.keys(), ["a", "b", "c"]);
    let again = stage.run(update(&first), stage.usual()).await;
    assert!(again.succeeded() && !again.has_changes(), "{again:?}");
    assert_eq!(stage.world.calls().len(), 3);
    let changed = [spec("a").size(2), spec("b").needs(&["a"])];
    stage.world.forget_calls();
    let report = stage.run(update(&changed), stage.usual()).await;
    assert!(report.succeeded(), "{report:?}");
    assert_eq!(stage.world.calls(), ["update a", "delete c"]);
    stage.world.forget_calls();
    let report = stage.run(Operation::Destroy, stage.usual()).await;
    assert!(report.succeeded(), "{report:?}");
    assert_eq!(stage.world.calls(), ["delete b", "delete a"]);
    assert_eq!(report.counts()[&StepOp::Delete], 2);
    assert!(stage.keys().is_empty() && stage.world.things().is_empty());
    assert_eq!(stage.complaints(), Vec::<String>::new());
}

#[tokio::test]
async fn an_object_is_replaced_in_both_orders_and_dependents_that_must_go_first_do() {
    let stage = Stage::new(2).await;
    let first = [spec("a"), spec("b").needs(&["a"]), spec("c").uses(&["b"])];
    stage.run(update(&first), stage.usual()).await;
    stage.world.forget_calls();
    let second = [
        spec("a").fixed(2),
        spec("b").needs(&["a"]),
        spec("c").uses(&["b"]),
    ];
    let report = stage.run(update(&second), stage.usual()).await;
    assert!(report.succeeded(), "{report:?}");
    let create_first = ["create a", "create b", "update c", "delete b", "delete a"];
    assert_eq!(stage.world.calls(), create_first);
    stage.world.forget_calls();
    let mut third = [
        spec("a").fixed(3),
        spec("b").needs(&["a"]),
        spec("c").uses(&["b"]),
    ];
    third[0].delete_first = Some(true);
    let report = stage.run(update(&third), stage.usual()).await;
    assert!(report.succeeded(), "{report:?}");
    let delete_first = ["delete b", "delete a", "create a", "create b", "update c"];
    assert_eq!(stage.world.calls(), delete_first);
    assert_eq!(stage.keys(), ["a", "b", "c"]);
    assert_eq!(stage.complaints(), Vec::<String>::new());
}

#[tokio::test]
async fn what_is_read_retained_or_gone_with_another_is_never_deleted_by_itself() {
    let stage = Stage::new(3).await;
    let elsewhere = "elsewhere".parse().unwrap();
    let theirs = stage.world.put("thing", &elsewhere, &Properties::empty(), true);
    let mut read = spec("read");
    read.read = Some(theirs.clone());
    let mut kept = spec("kept");
    kept.retain = true;
    let program = [read, kept, spec("box"), spec("inside").inside("box")];
    let report = stage.run(update(&program), stage.usual()).await;
    assert!(report.succeeded(), "{report:?}");
    assert_eq!(stage.entry("read").unwrap().id, Some(theirs.clone()));
    stage.world.forget_calls();
    let again = stage.run(update(&program), stage.usual()).await;
    assert!(!again.has_changes(), "{again:?}");
    let end = stage.run(Operation::Destroy, stage.usual()).await;
    assert!(end.succeeded() && stage.keys().is_empty(), "{end:?}");
    assert_eq!(stage.world.calls(), ["delete box"]);
    assert_eq!(stage.world.things().len(), 2, "theirs, and what was to be kept");
    assert_eq!(stage.complaints(), Vec::<String>::new());
}

#[tokio::test]
async fn an_object_that_is_imported_becomes_ours_and_what_the_program_says() {
    let stage = Stage::new(4).await;
    let elsewhere = "elsewhere".parse().unwrap();
    let (inputs, _) = spec("x").size(7).inputs(|_| None);
    let id = stage.world.put("thing", &elsewhere, &inputs, true);
    let mut import = spec("a");
    import.import = Some(id.clone());
    let report = stage
        .run(update(std::slice::from_ref(&import)), stage.usual())
        .await;
    assert!(report.succeeded(), "{report:?}");
    assert_eq!(stage.world.calls(), ["update a"], "taken over, then changed");
    assert_eq!(stage.entry("a").unwrap().id, Some(id));
    let again = stage.run(update(&[import]), stage.usual()).await;
    assert!(!again.has_changes());
    let mut nobody = spec("b");
    nobody.import = Some("i-99".to_owned());
    let report = stage.run(update(&[nobody]), stage.usual()).await;
    let reasons = &report.failures[0].reasons;
    assert_eq!(reasons, &["there is no object of kind `thing` with the id i-99"]);
}

/// `d` needs the `e` that was replaced, and was brought forward by a run that may not touch it.
#[tokio::test]
async fn what_a_run_may_not_touch_stays_behind_every_generation_that_it_may_need() {
    let stage = Stage::new(8).await;
    let first = [
        spec("b"),
        spec("e").inside("b"),
        spec("d").needs(&["e"]).child_of("b"),
    ];
    let report = stage.run(update(&first), stage.usual()).await;
    assert!(report.succeeded(), "{report:?}");
    let second = [
        spec("e").fixed(2),
        spec("d").needs(&["e"]),
        spec("a").needs(&["d"]),
    ];
    let mut run = stage.usual();
    run.options.targets = ["e", "a"].map(|name| name.parse().unwrap()).into();
    let report = stage.run(update(&second), run).await;
    assert!(report.succeeded(), "{report:?}");
    let keys = stage.keys();
    let place = |name: &str| keys.iter().position(|key| key.starts_with(name)).unwrap();
    assert!(place("e (deposed") < place("d"), "{keys:?}");
    let mut third = [
        spec("b").fixed(2),
        spec("e").fixed(3),
        spec("d").needs(&["e"]).child_of("b"),
    ];
    third[0].delete_first = Some(true);
    stage.world.forget_calls();
    let report = stage.run(update(&third), stage.usual()).await;
    assert!(report.succeeded(), "{report:?}");
    let calls = stage.world.calls();
    let first_of = |call: &str| calls.iter().position(|one| one == call).unwrap();
    assert!(first_of("delete d") < first_of("delete e"), "{calls:?}");
    assert!(first_of("delete e") < first_of("delete b"), "{calls:?}");
    assert_eq!(stage.complaints(), Vec::<String>::new());
}

#[tokio::test]
async fn what_is_to_refer_to_what_needs_it_is_refused_until_a_run_may_touch_both() {
    let stage = Stage::new(9).await;
    let first = [spec("f"), spec("d").needs(&["f"])];
    let report = stage.run(update(&first), stage.usual()).await;
    assert!(report.succeeded(), "{report:?}");
    let turned = [spec("d"), spec("f").size(2).child_of("d")];
    let mut run = stage.usual();
    run.options.targets = ["f".parse().unwrap()].into();
    let report = stage.run(update(&turned), run).await;
    let reasons = &report.failures[0].reasons;
    assert_eq!(
        reasons,
        &[
            "dependency cycle with recorded resources that depend on it and aren't targets: d; add them to the targets"
        ]
    );
    assert!(
        report.pending.is_empty() && stage.keys() == ["f", "d"],
        "{report:?}"
    );
    let report = stage.run(update(&turned), stage.usual()).await;
    assert!(report.succeeded(), "{report:?}");
    assert_eq!(stage.keys(), ["d", "f"]);
    assert_eq!(stage.complaints(), Vec::<String>::new());
}

#[tokio::test]
async fn nothing_is_deleted_first_for_what_could_not_be_recorded_then() {
    let mut recreated = spec("f").fixed(2).child_of("d");
    recreated.delete_first = Some(true);
    // `d` refers to `f`, and could stay without it.
    let mut dependent = spec("d");
    dependent.depends_on = vec!["f".to_owned()];
    let stage = Stage::new(10).await;
    stage
        .run(update(&[spec("f"), dependent.clone()]), stage.usual())
        .await;
    let mut run = stage.usual();
    run.options.targets = ["f".parse().unwrap()].into();
    stage.world.forget_calls();
    let report = stage.run(update(&[spec("d"), recreated]), run).await;
    assert!(
        report.failures[0].reasons[0].contains("to the targets"),
        "{report:?}"
    );
    assert_eq!(stage.world.calls(), Vec::<String>::new());

    // `y` is brought forward for `x`, and refers to `f`, which no program says any more.
    let stage = Stage::new(11).await;
    dependent.name = "y".to_owned();
    let first = [spec("f"), dependent, spec("x")];
    stage.run(update(&first), stage.usual()).await;
    let mut recreated = spec("f").fixed(2);
    recreated.delete_first = Some(true);
    recreated.depends_on = vec!["x".to_owned()];
    let mut run = stage.usual();
    run.options.targets = ["x", "f"].map(|name| name.parse().unwrap()).into();
    stage.world.forget_calls();
    let second = [spec("y"), spec("x").uses(&["y"]), recreated];
    let report = stage.run(update(&second), run).await;
    assert!(
        report.failures[0].reasons[0].contains("to the targets"),
        "{report:?}"
    );
    assert_eq!(stage.world.calls(), ["update x"]);
    let report = stage.run(update(&second), stage.usual()).await;
    assert!(report.succeeded(), "{report:?}");
    assert_eq!(stage.complaints(), Vec::<String>::new());
}

#[tokio::test]
async fn an_unknown_kind_is_told_with_those_that_there_are() {
    let stage = Stage::new(5).await;
    let mut run = stage.usual();
    run.registry = state_engine::Registry::new();
    run.registry
        .register("other", std::sync::Arc::new(stage.world.clone()));
    let report = stage.run(update(&[spec("a")]), run).await;
    let reasons = &report.failures[0].reasons;
    assert_eq!(reasons, &["no provider for kind `thing`; available kinds: other"]);
}

#[tokio::test]
async fn history_and_logs_tell_of_a_run() {
    let stage = Stage::new(6).await;
    let mut run = stage.usual();
    run.metadata.message = "ship it".to_owned();
    run.metadata
        .environment
        .insert("git.commit".to_owned(), "abc".to_owned());
    let report = stage.run(update(&[spec("a")]), run).await;
    let history = stage.stack.history().await.unwrap();
    let RevisionKind::Update(update) = &history[0].kind else {
        panic!("{history:?}");
    };
    assert_eq!(
        (&*update.message, &*update.environment["git.commit"]),
        ("ship it", "abc")
    );
    assert_eq!(Some(&history[0].id), report.revision.as_ref());
    let lines = stage.stack.logs(&LogQuery::default()).await.unwrap();
    let said: Vec<(LogLevel, &str)> = lines
        .iter()
        .map(|stored| (stored.line.level, &*stored.line.message))
        .collect();
    assert_eq!(said, [(LogLevel::Info, "create of a is recorded")]);
}

#[tokio::test]
async fn secrets_reach_the_provider_and_never_the_record() {
    let stage = Stage::sealed(7).await;
    let secret = |size| [spec("a").size(size).secret("size"), spec("b").uses(&["a"])];
    let report = stage.run(update(&secret(424_242)), stage.usual()).await;
    assert!(report.succeeded(), "{report:?}");
    let recorded = stage.entry("a").unwrap();
    let text = recorded.inputs.as_ref().unwrap().json().as_str().to_owned();
    assert!(!text.contains("424242"), "{text}");
    let seen = stage.world.things()["i-1"].inputs.clone();
    assert!(seen.json().as_str().contains("424242"));
    let again = stage.run(update(&secret(424_242)), stage.usual()).await;
    assert!(again.succeeded() && !again.has_changes(), "{again:?}");
    let changed = stage.run(update(&secret(434_343)), stage.usual()).await;
    assert_eq!(changed.counts()[&StepOp::Update], 1);
    let end = stage.run(Operation::Destroy, stage.usual()).await;
    assert!(end.succeeded() && stage.keys().is_empty(), "{end:?}");
}
