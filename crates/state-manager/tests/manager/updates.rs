//! Updates. A stack is unreliable, which means that its state may differ from the real resources, while a step is in
//! progress. The file also tests plugins, the manifest and outputs.

use super::*;
use state_core::json::{Json, Properties};
use state_core::mutation::StackOutputs;
use state_core::snapshot::Plugin;

fn plugin(name: &str) -> Plugin {
    Plugin {
        kind: "resource".to_owned(),
        name: name.to_owned(),
        version: "1.2.3".to_owned(),
    }
}

/// Whether another client that opens the stack now sees it as reliable.
pub(crate) async fn reliable(backend: &MemoryBackend) -> bool {
    stacks(backend, 9).list().await.unwrap().remove(0).reliable
}

#[tokio::test]
async fn step_marks_the_stack_durably_and_its_end_clears_the_mark() {
    let (backend, stack) = new_stack().await;
    let session = stack.lock("deploy").await.unwrap();
    let update = start(&session).await;
    assert!(reliable(&backend).await);
    let step = update.begin(Intent::create(entry("a", &[]))).await.unwrap();
    assert!(
        !reliable(&backend).await,
        "the mark must be durable when the begin is acknowledged"
    );
    step.succeed(Some(entry("a", &[]))).await.unwrap();
    assert!(reliable(&backend).await);
    let step = update
        .begin(Intent::update(entry("a", &["nowhere"])))
        .await
        .map(drop);
    assert!(step.is_err(), "a refused step must not mark the stack");
    assert!(reliable(&backend).await);
}

#[tokio::test]
async fn unreliable_stack_stays_unreliable_after_a_crash() {
    let (backend, stack) = new_stack().await;
    let session = stack.lock("deploy").await.unwrap();
    let update = start(&session).await;
    drop(update.begin(Intent::create(entry("a", &[]))).await.unwrap());
    let seen = stack.lock_status().await.unwrap().epoch;
    stack.force_unlock(seen).await.unwrap();
    assert!(!reliable(&backend).await);
    deploy(&stack, &["b"]).await;
    assert!(
        !reliable(&backend).await,
        "a later update can't know the outcome of the step"
    );
}

#[tokio::test]
async fn update_that_ends_with_a_replace_is_reliable() {
    let (backend, stack) = new_stack().await;
    deploy(&stack, &["a"]).await;
    let session = stack.lock("deploy").await.unwrap();
    let update = start(&session).await;
    let made = update
        .begin(Intent::create(entry("a", &[])).replacing())
        .await
        .unwrap();
    made.succeed(Some(entry("a", &[]))).await.unwrap();
    let deposed = session
        .state()
        .generations(&address("a"))
        .map(|entry| entry.key())
        .find(|key| *key != self::key("a"))
        .unwrap();
    let gone = update.begin(Intent::delete(deposed)).await.unwrap();
    gone.succeed(None).await.unwrap();
    update.replace(key("a")).await.unwrap();
    let revision = update.finish(UpdateResult::Succeeded).await.unwrap();
    assert!(reliable(&backend).await);
    assert_eq!(names(&stack).await, ["a"]);
    let snapshot = stack.get(&revision).await.unwrap();
    assert!(snapshot.pending_operations.is_empty());
}

#[tokio::test]
async fn recorded_plugins_appear_only_in_their_update_manifest() {
    let (_, stack) = new_stack().await;
    let session = stack.lock("deploy").await.unwrap();
    let update = start(&session).await;
    for name in ["zeta", "alpha", "zeta"] {
        update.record_plugin(plugin(name)).await.unwrap();
    }
    let first = update.finish(UpdateResult::Succeeded).await.unwrap();
    let update = start(&session).await;
    update.record_plugin(plugin("beta")).await.unwrap();
    let second = update.finish(UpdateResult::Succeeded).await.unwrap();
    session.close().await.unwrap();
    for (revision, plugins) in [
        (first, vec![plugin("alpha"), plugin("zeta")]),
        (second, vec![plugin("beta")]),
    ] {
        let manifest = stack.get(&revision).await.unwrap().manifest.unwrap();
        assert_eq!(manifest.plugins, plugins);
        assert_eq!(
            manifest.version, "0",
            "the manifest must name the writer's version"
        );
        assert!(manifest.time.is_some());
    }
}

#[tokio::test]
async fn late_resource_outputs_and_stack_outputs_are_stored() {
    let (_, stack) = new_stack().await;
    let session = stack.lock("deploy").await.unwrap();
    let update = start(&session).await;
    create(&update, entry("a", &[])).await;
    let outputs = Properties::new(Json::parse(r#"{"url":"https://x","token":"t"}"#).unwrap()).unwrap();
    update
        .outputs(key("a"), outputs.clone(), vec!["token".to_owned()])
        .await
        .unwrap();
    let seen = stack.tip().await.unwrap();
    let registered = seen.state.entry(&key("a")).unwrap();
    assert_eq!(
        registered.outputs.as_ref(),
        Some(&outputs),
        "the outputs must be stored before the update ends"
    );
    assert_eq!(registered.sensitive_outputs, ["token"]);
    let of_stack = StackOutputs {
        values: [("url".to_owned(), Json::from_string("https://x"))].into(),
        sensitive: vec!["url".to_owned()],
    };
    update.set_outputs(of_stack.clone()).await.unwrap();
    update.finish(UpdateResult::Succeeded).await.unwrap();
    assert_eq!(stack.root_outputs().await.unwrap(), of_stack);
}

#[tokio::test]
async fn result_that_breaks_a_rule_is_reported_and_recorded() {
    let (backend, stack) = new_stack().await;
    let session = stack.lock("deploy").await.unwrap();
    let update = start(&session).await;
    let step = update.begin(Intent::create(entry("a", &[]))).await.unwrap();
    let came_back = Entry {
        id: Some("i-17".to_owned()),
        ..entry("a", &["nowhere"])
    };
    let violations = step.succeed(Some(came_back)).await.unwrap();
    assert_eq!(violations.len(), 1, "{violations:?}");
    let seen = stack.tip().await.unwrap();
    let kept = seen.state.pending().next().unwrap().result.clone().unwrap();
    assert_eq!(kept.entry.unwrap().id.as_deref(), Some("i-17"));
    assert!(!reliable(&backend).await);
    assert!(stack.verify(true).await.unwrap().report.is_valid());
}

/// A change that is too large for a frame, or breaks a rule, is refused alone: other changes of the update are
/// recorded.
#[tokio::test]
async fn refused_change_does_not_block_others() {
    let (_, stack) = new_stack().await;
    let session = stack.lock("deploy").await.unwrap();
    let update = start(&session).await;
    create(&update, entry("a", &[])).await;
    let step = update.begin(Intent::create(entry("b", &[]))).await.unwrap();
    let part = format!("\"{}\"", "x".repeat(13 << 20));
    let huge = Json::parse(&format!("[{}]", [&*part; 5].join(","))).unwrap();
    let small = Json::from_string("x");
    let long = Json::from_string(&"x".repeat(17 << 20));
    let properties = |value: &Json| {
        let json = Json::parse(&format!(r#"{{"v":{}}}"#, value.as_str())).unwrap();
        Properties::new(json).unwrap()
    };
    let of_stack = |value: &Json| StackOutputs {
        values: [("v".to_owned(), value.clone())].into(),
        sensitive: Vec::new(),
    };
    let read = Entry {
        outputs: Some(properties(&huge)),
        ..entry("a", &[])
    };
    let called = Entry {
        configuration: Some("x".repeat(17 << 20)).into(),
        ..entry("a", &[])
    };
    for refused in [
        update.set_outputs(of_stack(&huge)).await,
        update.set_outputs(of_stack(&long)).await,
        update.record_plugin(plugin(long.as_str())).await,
        update.outputs(key("a"), properties(&huge), Vec::new()).await,
        update.outputs(key("gone"), properties(&small), Vec::new()).await,
        update.refresh(key("a"), Some(read)).await,
        update.refresh(key("a"), Some(called)).await,
        update.refresh(key("a"), Some(entry("a", &["nowhere"]))).await,
        update.replace(key("gone")).await,
    ] {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), state_core::ErrorKind::Integrity, "{error}");
        assert!(error.to_string().len() < 1_000);
    }
    update.set_outputs(of_stack(&small)).await.unwrap();
    update.record_plugin(plugin("p")).await.unwrap();
    update
        .outputs(key("a"), properties(&small), Vec::new())
        .await
        .unwrap();
    assert_eq!(step.succeed(Some(entry("b", &[]))).await.unwrap(), vec![]);
    update.finish(UpdateResult::Succeeded).await.unwrap();
    session.close().await.unwrap();
    let current = stack.current().await.unwrap();
    assert_eq!(current.outputs, of_stack(&small).values);
    assert_eq!(current.manifest.unwrap().plugins, [plugin("p")]);
    assert_eq!(current.entries[0].outputs, Some(properties(&small)));
    assert_eq!(names(&stack).await, ["a", "b"]);
}

/// Plugins and outputs are recorded while the state is marked as unreliable and while a result that breaks a rule is
/// pending: one problem must not prevent the recording of other facts.
#[tokio::test]
async fn records_are_accepted_while_the_stack_is_unreliable() {
    let (backend, stack) = new_stack().await;
    let session = stack.lock("deploy").await.unwrap();
    let update = start(&session).await;
    state_core::target::SnapshotPersister::invalidate(&update)
        .await
        .unwrap();
    create(&update, entry("a", &[])).await;
    let step = update.begin(Intent::create(entry("b", &[]))).await.unwrap();
    let broken = step.succeed(Some(entry("b", &["nowhere"]))).await.unwrap();
    assert_eq!(broken.len(), 1, "the broken rule must be reported");
    update.record_plugin(plugin("p")).await.unwrap();
    let outputs = Properties::new(Json::parse(r#"{"v":1}"#).unwrap());
    update
        .outputs(key("a"), outputs.clone().unwrap(), Vec::new())
        .await
        .unwrap();
    let of_stack = StackOutputs {
        values: [("v".to_owned(), Json::from_string("x"))].into(),
        sensitive: Vec::new(),
    };
    update.set_outputs(of_stack.clone()).await.unwrap();
    create(&update, entry("c", &["a"])).await;
    update.finish(UpdateResult::Failed).await.unwrap();
    session.close().await.unwrap();
    let current = stack.current().await.unwrap();
    assert_eq!(names(&stack).await, ["a", "c"]);
    assert_eq!(current.outputs, of_stack.values);
    assert_eq!(current.entries[0].outputs, outputs);
    let manifest = current.manifest.unwrap();
    assert_eq!(manifest.plugins, [plugin("p")]);
    assert!(current.pending_operations[0].result.is_some());
    assert!(!reliable(&backend).await);
}
