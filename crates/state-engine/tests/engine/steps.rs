//! Tests of each kind of step, and of the order of steps.

use crate::harness::Harness;
use crate::program::{spec, update};
use state_core::{LogLevel, Properties};
use state_engine::{Operation, StepOp};
use state_manager::{LogQuery, RevisionKind};

#[tokio::test]
async fn program_is_applied_and_destroyed_in_dependency_order() {
    let harness = Harness::new(1).await;
    let first = [spec("c").uses(&["b"]), spec("b").needs(&["a"]), spec("a")];
    let report = harness.run(update(&first), harness.default_run()).await;
    assert!(report.succeeded(), "{report:?}");
    assert_eq!(harness.cloud.calls(), ["create a", "create b", "create c"]);
    assert_eq!(harness.keys(), ["a", "b", "c"]);
    let again = harness.run(update(&first), harness.default_run()).await;
    assert!(again.succeeded() && !again.has_changes(), "{again:?}");
    assert_eq!(harness.cloud.calls().len(), 3);
    let changed = [spec("a").size(2), spec("b").needs(&["a"])];
    harness.cloud.forget_calls();
    let report = harness.run(update(&changed), harness.default_run()).await;
    assert!(report.succeeded(), "{report:?}");
    assert_eq!(harness.cloud.calls(), ["update a", "delete c"]);
    harness.cloud.forget_calls();
    let report = harness.run(Operation::Destroy, harness.default_run()).await;
    assert!(report.succeeded(), "{report:?}");
    assert_eq!(harness.cloud.calls(), ["delete b", "delete a"]);
    assert_eq!(report.counts()[&StepOp::Delete], 2);
    assert!(harness.keys().is_empty() && harness.cloud.things().is_empty());
    assert_eq!(harness.complaints(), Vec::<String>::new());
}

#[tokio::test]
async fn both_replacement_orders_replace_or_update_dependents() {
    let harness = Harness::new(2).await;
    let first = [spec("a"), spec("b").needs(&["a"]), spec("c").uses(&["b"])];
    harness.run(update(&first), harness.default_run()).await;
    harness.cloud.forget_calls();
    let second = [
        spec("a").fixed(2),
        spec("b").needs(&["a"]),
        spec("c").uses(&["b"]),
    ];
    let report = harness.run(update(&second), harness.default_run()).await;
    assert!(report.succeeded(), "{report:?}");
    let create_first = ["create a", "create b", "update c", "delete b", "delete a"];
    assert_eq!(harness.cloud.calls(), create_first);
    harness.cloud.forget_calls();
    let mut third = [
        spec("a").fixed(3),
        spec("b").needs(&["a"]),
        spec("c").uses(&["b"]),
    ];
    third[0].delete_first = Some(true);
    let report = harness.run(update(&third), harness.default_run()).await;
    assert!(report.succeeded(), "{report:?}");
    let delete_first = ["delete b", "delete a", "create a", "create b", "update c"];
    assert_eq!(harness.cloud.calls(), delete_first);
    assert_eq!(harness.keys(), ["a", "b", "c"]);
    assert_eq!(harness.complaints(), Vec::<String>::new());
}

#[tokio::test]
async fn destroy_skips_external_retained_and_contained_objects() {
    let harness = Harness::new(3).await;
    let elsewhere = "elsewhere".parse().unwrap();
    let theirs = harness.cloud.put("thing", &elsewhere, &Properties::empty(), true);
    let mut read = spec("read");
    read.read = Some(theirs.clone());
    let mut kept = spec("kept");
    kept.retain = true;
    let program = [read, kept, spec("box"), spec("inside").inside("box")];
    let report = harness.run(update(&program), harness.default_run()).await;
    assert!(report.succeeded(), "{report:?}");
    assert_eq!(harness.entry("read").unwrap().id, Some(theirs.clone()));
    harness.cloud.forget_calls();
    let again = harness.run(update(&program), harness.default_run()).await;
    assert!(!again.has_changes(), "{again:?}");
    let end = harness.run(Operation::Destroy, harness.default_run()).await;
    assert!(end.succeeded() && harness.keys().is_empty(), "{end:?}");
    assert_eq!(harness.cloud.calls(), ["delete box"]);
    assert_eq!(
        harness.cloud.things().len(),
        2,
        "the external and the retained object"
    );
    assert_eq!(harness.complaints(), Vec::<String>::new());
}

#[tokio::test]
async fn import_updates_the_object_and_refuses_a_missing_id() {
    let harness = Harness::new(4).await;
    let elsewhere = "elsewhere".parse().unwrap();
    let (inputs, _) = spec("x").size(7).inputs(|_| None);
    let id = harness.cloud.put("thing", &elsewhere, &inputs, true);
    let mut import = spec("a");
    import.import = Some(id.clone());
    let report = harness
        .run(update(std::slice::from_ref(&import)), harness.default_run())
        .await;
    assert!(report.succeeded(), "{report:?}");
    assert_eq!(harness.cloud.calls(), ["update a"], "imported, then updated");
    assert_eq!(harness.entry("a").unwrap().id, Some(id));
    let again = harness.run(update(&[import]), harness.default_run()).await;
    assert!(!again.has_changes());
    let mut missing = spec("b");
    missing.import = Some("i-99".to_owned());
    let report = harness.run(update(&[missing]), harness.default_run()).await;
    let reasons = &report.failures[0].reasons;
    assert_eq!(reasons, &["there is no object of kind `thing` with the id i-99"]);
}

/// The second run replaces `e`, and records `d` again because the target `a` depends on `d`. `d` isn't a target, so it
/// still depends on the old generation of `e`: the deposed entry of the replaced object.
#[tokio::test]
async fn untargeted_entry_is_listed_after_generations_it_needs() {
    let harness = Harness::new(8).await;
    let first = [
        spec("b"),
        spec("e").inside("b"),
        spec("d").needs(&["e"]).child_of("b"),
    ];
    let report = harness.run(update(&first), harness.default_run()).await;
    assert!(report.succeeded(), "{report:?}");
    let second = [
        spec("e").fixed(2),
        spec("d").needs(&["e"]),
        spec("a").needs(&["d"]),
    ];
    let mut run = harness.default_run();
    run.options.targets = ["e", "a"].map(|name| name.parse().unwrap()).into();
    let report = harness.run(update(&second), run).await;
    assert!(report.succeeded(), "{report:?}");
    let keys = harness.keys();
    let place = |name: &str| keys.iter().position(|key| key.starts_with(name)).unwrap();
    assert!(place("e (deposed") < place("d"), "{keys:?}");
    let mut third = [
        spec("b").fixed(2),
        spec("e").fixed(3),
        spec("d").needs(&["e"]).child_of("b"),
    ];
    third[0].delete_first = Some(true);
    harness.cloud.forget_calls();
    let report = harness.run(update(&third), harness.default_run()).await;
    assert!(report.succeeded(), "{report:?}");
    let calls = harness.cloud.calls();
    let first_of = |call: &str| calls.iter().position(|one| one == call).unwrap();
    assert!(first_of("delete d") < first_of("delete e"), "{calls:?}");
    assert!(first_of("delete e") < first_of("delete b"), "{calls:?}");
    assert_eq!(harness.complaints(), Vec::<String>::new());
}

#[tokio::test]
async fn reversing_a_dependency_requires_both_as_targets() {
    let harness = Harness::new(9).await;
    let first = [spec("f"), spec("d").needs(&["f"])];
    let report = harness.run(update(&first), harness.default_run()).await;
    assert!(report.succeeded(), "{report:?}");
    let turned = [spec("d"), spec("f").size(2).child_of("d")];
    let mut run = harness.default_run();
    run.options.targets = ["f".parse().unwrap()].into();
    let report = harness.run(update(&turned), run).await;
    let reasons = &report.failures[0].reasons;
    assert_eq!(
        reasons,
        &[
            "dependency cycle with recorded resources that depend on it and aren't targets: d; add them to the targets"
        ]
    );
    assert!(
        report.pending.is_empty() && harness.keys() == ["f", "d"],
        "{report:?}"
    );
    let report = harness.run(update(&turned), harness.default_run()).await;
    assert!(report.succeeded(), "{report:?}");
    assert_eq!(harness.keys(), ["d", "f"]);
    assert_eq!(harness.complaints(), Vec::<String>::new());
}

#[tokio::test]
async fn unrecordable_replacement_deletes_nothing() {
    let mut recreated = spec("f").fixed(2).child_of("d");
    recreated.delete_first = Some(true);
    // `d` depends on `f` only through `depends_on`, so a replacement of `f` doesn't delete `d`.
    let mut dependent = spec("d");
    dependent.depends_on = vec!["f".to_owned()];
    let harness = Harness::new(10).await;
    harness
        .run(update(&[spec("f"), dependent.clone()]), harness.default_run())
        .await;
    let mut run = harness.default_run();
    run.options.targets = ["f".parse().unwrap()].into();
    harness.cloud.forget_calls();
    let report = harness.run(update(&[spec("d"), recreated]), run).await;
    assert!(
        report.failures[0].reasons[0].contains("to the targets"),
        "{report:?}"
    );
    assert_eq!(harness.cloud.calls(), Vec::<String>::new());

    // `y` isn't a target. The run records `y` again because `x` depends on `y`. `y` keeps its recorded dependency on
    // `f`, although the new program has no such dependency.
    let harness = Harness::new(11).await;
    dependent.name = "y".to_owned();
    let first = [spec("f"), dependent, spec("x")];
    harness.run(update(&first), harness.default_run()).await;
    let mut recreated = spec("f").fixed(2);
    recreated.delete_first = Some(true);
    recreated.depends_on = vec!["x".to_owned()];
    let mut run = harness.default_run();
    run.options.targets = ["x", "f"].map(|name| name.parse().unwrap()).into();
    harness.cloud.forget_calls();
    let second = [spec("y"), spec("x").uses(&["y"]), recreated];
    let report = harness.run(update(&second), run).await;
    assert!(
        report.failures[0].reasons[0].contains("to the targets"),
        "{report:?}"
    );
    assert_eq!(harness.cloud.calls(), ["update x"]);
    let report = harness.run(update(&second), harness.default_run()).await;
    assert!(report.succeeded(), "{report:?}");
    assert_eq!(harness.complaints(), Vec::<String>::new());
}

#[tokio::test]
async fn unknown_kind_is_reported_with_the_available_kinds() {
    let harness = Harness::new(5).await;
    let mut run = harness.default_run();
    run.registry = state_engine::Registry::new();
    run.registry
        .register("other", std::sync::Arc::new(harness.cloud.clone()));
    let report = harness.run(update(&[spec("a")]), run).await;
    let reasons = &report.failures[0].reasons;
    assert_eq!(reasons, &["no provider for kind `thing`; available kinds: other"]);
}

#[tokio::test]
async fn run_is_recorded_in_history_and_logs() {
    let harness = Harness::new(6).await;
    let mut run = harness.default_run();
    run.metadata.message = "ship it".to_owned();
    run.metadata
        .environment
        .insert("git.commit".to_owned(), "abc".to_owned());
    let report = harness.run(update(&[spec("a")]), run).await;
    let history = harness.stack.history().await.unwrap();
    let RevisionKind::Update(update) = &history[0].kind else {
        panic!("{history:?}");
    };
    assert_eq!(
        (&*update.message, &*update.environment["git.commit"]),
        ("ship it", "abc")
    );
    assert_eq!(Some(&history[0].id), report.revision.as_ref());
    let lines = harness.stack.logs(&LogQuery::default()).await.unwrap();
    let messages: Vec<(LogLevel, &str)> = lines
        .iter()
        .map(|stored| (stored.line.level, &*stored.line.message))
        .collect();
    assert_eq!(messages, [(LogLevel::Info, "create of a is recorded")]);
}

#[tokio::test]
async fn secrets_reach_the_provider_but_not_the_stored_state() {
    let harness = Harness::sealed(7).await;
    let secret = |size| [spec("a").size(size).secret("size"), spec("b").uses(&["a"])];
    let report = harness.run(update(&secret(424_242)), harness.default_run()).await;
    assert!(report.succeeded(), "{report:?}");
    let recorded = harness.entry("a").unwrap();
    let text = recorded.inputs.as_ref().unwrap().json().as_str().to_owned();
    assert!(!text.contains("424242"), "{text}");
    let seen = harness.cloud.things()["i-1"].inputs.clone();
    assert!(seen.json().as_str().contains("424242"));
    let again = harness.run(update(&secret(424_242)), harness.default_run()).await;
    assert!(again.succeeded() && !again.has_changes(), "{again:?}");
    let changed = harness.run(update(&secret(434_343)), harness.default_run()).await;
    assert_eq!(changed.counts()[&StepOp::Update], 1);
    let end = harness.run(Operation::Destroy, harness.default_run()).await;
    assert!(end.succeeded() && harness.keys().is_empty(), "{end:?}");
}
