//! Tests of objects that must stay: retained and protected ones, and those of resources that a run didn't examine.

use crate::cloud::CallMode;
use crate::harness::Harness;
use crate::program::{Spec, spec, update};
use state_engine::{Operation, Report};
use std::collections::BTreeSet;

async fn deployed(program: &[Spec]) -> Harness {
    let harness = Harness::new(1).await;
    let report = harness.run(update(program), harness.default_run()).await;
    assert!(report.succeeded(), "{report:?}");
    harness.cloud.forget_calls();
    harness
}

/// The ids of all objects.
fn objects(harness: &Harness) -> BTreeSet<String> {
    harness.cloud.things().into_keys().collect()
}

fn reasons(report: &Report) -> String {
    let reasons = report.failures.iter().flat_map(|failure| failure.reasons.clone());
    reasons.collect::<Vec<String>>().join("\n")
}

fn retained(mut spec: Spec) -> Spec {
    spec.retain = true;
    spec
}

fn deleted_first(mut spec: Spec, first: bool) -> Spec {
    spec.delete_first = Some(first);
    spec
}

#[tokio::test]
async fn retained_object_stays_when_its_resource_goes() {
    let program = [retained(spec("a")), spec("b").uses(&["a"])];
    for operation in [update(&[]), Operation::Destroy] {
        let harness = deployed(&program).await;
        let report = harness.run(operation, harness.default_run()).await;
        assert!(report.succeeded() && harness.keys().is_empty(), "{report:?}");
        assert_eq!(harness.cloud.calls(), ["delete b"]);
        assert_eq!(objects(&harness), BTreeSet::from(["i-1".to_owned()]));
    }
}

#[tokio::test]
async fn retained_object_stays_when_it_is_replaced() {
    for first in [true, false] {
        let old = retained(deleted_first(spec("a"), first));
        let harness = deployed(std::slice::from_ref(&old)).await;
        let report = harness.run(update(&[old.fixed(2)]), harness.default_run()).await;
        assert!(report.succeeded(), "{report:?}");
        assert_eq!(harness.cloud.calls(), ["create a"], "delete first: {first}");
        assert_eq!(objects(&harness).len(), 2);
        assert_eq!(harness.keys(), ["a"]);
    }
}

#[tokio::test]
async fn protected_object_is_neither_deleted_nor_replaced() {
    let program = [spec("a").protected(), spec("b").uses(&["a"])];
    let replaced = |first| update(&[deleted_first(spec("a").protected().fixed(2), first)]);
    for operation in [update(&[]), Operation::Destroy, replaced(true), replaced(false)] {
        let harness = deployed(&program).await;
        let mut run = harness.default_run();
        run.options.continue_on_error = true;
        let report = harness.run(operation, run).await;
        assert!(reasons(&report).contains("protected"), "{report:?}");
        assert!(objects(&harness).contains("i-1"), "{report:?}");
        assert!(!harness.cloud.calls().contains(&"delete a".to_owned()));
        assert_eq!(harness.entry("a").unwrap().id.as_deref(), Some("i-1"));
    }
}

/// The provider would delete the protected object together with its container, without a call of its own.
#[tokio::test]
async fn protected_object_is_not_deleted_with_its_container() {
    let program = [spec("box"), spec("part").inside("box").protected()];
    for operation in [update(&[]), Operation::Destroy] {
        let harness = deployed(&program).await;
        let before = objects(&harness);
        let mut run = harness.default_run();
        run.options.continue_on_error = true;
        let report = harness.run(operation, run).await;
        assert!(reasons(&report).contains("protected"), "{report:?}");
        assert_eq!(harness.cloud.calls(), Vec::<String>::new());
        assert_eq!(objects(&harness), before);
        assert_eq!(harness.keys(), ["box", "part"]);
    }
}

#[tokio::test]
async fn replacement_of_a_container_deletes_no_protected_object() {
    for first in [true, false] {
        let old = deleted_first(spec("box"), first);
        let part = spec("part").inside("box").protected();
        let harness = deployed(&[old.clone(), part.clone()]).await;
        let mut run = harness.default_run();
        run.options.continue_on_error = true;
        let report = harness.run(update(&[old.fixed(2), part]), run).await;
        assert!(reasons(&report).contains("protected"), "{report:?}");
        let calls = harness.cloud.calls();
        assert!(!calls.iter().any(|call| call.starts_with("delete")), "{calls:?}");
        assert!(
            harness.cloud.things().contains_key("i-2"),
            "delete first: {first}"
        );
    }
}

/// It is unknown whether a resource whose step failed uses the old or the new object of its dependency.
#[tokio::test]
async fn replaced_object_stays_while_a_failed_resource_may_use_it() {
    let old = [spec("a"), spec("b").needs(&["a"])];
    let new = [spec("a").fixed(2), spec("b").needs(&["a"])];
    for mode in [CallMode::NotDone, CallMode::UnknownBefore] {
        let harness = deployed(&old).await;
        harness.cloud.set_modes(move |what, address| {
            let fails = what == "create" && address.as_str() == "b";
            (if fails { mode } else { CallMode::Normal }, 0, 0)
        });
        let mut run = harness.default_run();
        run.options.continue_on_error = true;
        let report = harness.run(update(&new), run).await;
        harness.cloud.calm();
        assert!(!report.succeeded(), "{report:?}");
        assert_eq!(harness.cloud.calls(), ["create a"], "{mode:?}");
        assert_eq!(harness.complaints(), Vec::<String>::new());
        let next = harness.run(update(&new), harness.default_run()).await;
        assert!(next.succeeded(), "{next:?}");
        assert_eq!(objects(&harness).len(), 2);
        assert_eq!(harness.complaints(), Vec::<String>::new());
    }
}
