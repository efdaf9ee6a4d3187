//! Tests of failing providers, stores and locks: each failure is reported, and no object is lost.

use crate::cloud::CallMode;
use crate::harness::Harness;
use crate::program::{spec, update};
use state_core::testkit::fault::{Fault, Operation as Call};
use state_core::{ErrorKind, Op};
use state_engine::{Operation, StepOp};
use std::time::Duration;

#[tokio::test]
async fn hanging_call_times_out_and_stays_pending() {
    let harness = Harness::new(1).await;
    harness.cloud.set_modes(|_, _| (CallMode::Hangs, 0, 0));
    let mut run = harness.default_run();
    run.options.timeout = Some(Duration::from_secs(60));
    let report = harness.run(update(&[spec("a")]), run).await;
    let failure = &report.failures[0];
    assert_eq!(
        failure.reasons,
        ["its provider didn't finish `create` within 60s".to_owned()]
    );
    assert_eq!(failure.pending, Some(report.pending[0].id));
    assert_eq!(report.pending[0].op, Op::Create);
    harness.cloud.calm();
    let next = harness.run(update(&[spec("a")]), harness.default_run()).await;
    assert!(next.succeeded() && next.pending.is_empty(), "{next:?}");
}

#[tokio::test]
async fn panicking_provider_fails_only_its_step() {
    let harness = Harness::new(2).await;
    harness.cloud.set_modes(|_, address| {
        let mode = if address.as_str() == "a" {
            CallMode::PanicAfter
        } else {
            CallMode::Normal
        };
        (mode, 0, 0)
    });
    let mut run = harness.default_run();
    run.options.continue_on_error = true;
    let report = harness.run(update(&[spec("a"), spec("b")]), run).await;
    assert_eq!(report.failures.len(), 1);
    assert_eq!(report.failures[0].reasons, ["its provider panicked in `create`"]);
    assert_eq!(harness.keys(), ["b"]);
    assert_eq!(harness.complaints(), Vec::<String>::new());
    harness.cloud.calm();
    harness.cloud.forget_calls();
    let next = harness
        .run(update(&[spec("a"), spec("b")]), harness.default_run())
        .await;
    assert!(next.succeeded(), "{next:?}");
    assert_eq!(
        harness.cloud.calls(),
        Vec::<String>::new(),
        "the next run found the created object"
    );
    assert_eq!(harness.keys().len(), 2);
}

#[tokio::test]
async fn create_that_returns_a_used_id_stays_pending() {
    let harness = Harness::new(3).await;
    harness.run(update(&[spec("a")]), harness.default_run()).await;
    harness.cloud.rewind();
    let report = harness
        .run(update(&[spec("a"), spec("b")]), harness.default_run())
        .await;
    let failure = &report.failures[0];
    assert_eq!(
        failure.reasons,
        ["its provider returned the id i-1, which belongs to a: check to which resource the object belongs"]
    );
    assert_eq!(
        failure.pending,
        Some(report.pending[0].id),
        "the operation stays pending"
    );
    assert_eq!(harness.keys(), ["a"]);
}

#[tokio::test]
async fn import_of_a_claimed_object_is_refused() {
    let harness = Harness::new(3).await;
    harness.run(update(&[spec("a")]), harness.default_run()).await;
    let mut wanted = spec("b");
    wanted.import = Some("i-1".to_owned());
    for preview in [true, false] {
        let program = update(&[spec("a"), wanted.clone()]);
        let report = match preview {
            true => harness.preview(program, harness.default_run()).await,
            false => harness.run(program, harness.default_run()).await,
        };
        let failure = &report.failures[0];
        assert!(
            failure.reasons[0].contains("the id i-1, which belongs to a"),
            "{failure:?}"
        );
        assert!(
            failure.pending.is_none() && report.pending.is_empty(),
            "{report:?}"
        );
        assert_eq!(harness.keys(), ["a"]);
    }
}

#[tokio::test]
async fn partial_failure_is_recorded_and_repaired_by_the_next_run() {
    let harness = Harness::new(4).await;
    harness.cloud.set_modes(|_, _| (CallMode::Partial, 0, 0));
    let report = harness.run(update(&[spec("a")]), harness.default_run()).await;
    assert_eq!(
        report.failures[0].reasons,
        ["the object exists, but doesn't answer"]
    );
    let there = harness.entry("a").unwrap();
    assert_eq!(there.id.as_deref(), Some("i-1"));
    assert_eq!(there.init_errors, ["the object exists, but doesn't answer"]);
    harness.cloud.calm();
    let next = harness.run(update(&[spec("a")]), harness.default_run()).await;
    assert_eq!(next.steps[0].op, StepOp::Update);
    assert!(harness.entry("a").unwrap().init_errors.is_empty());
}

#[tokio::test]
async fn failure_stops_new_steps_unless_continue_on_error_is_set() {
    let program = [spec("a"), spec("b"), spec("c").uses(&["a"]), spec("d")];
    for continues in [false, true] {
        let harness = Harness::new(5).await;
        harness.cloud.set_modes(|_, address| {
            let mode = if address.as_str() == "a" {
                CallMode::NotDone
            } else {
                CallMode::Normal
            };
            (mode, 0, 0)
        });
        let mut run = harness.default_run();
        run.options.parallel = 1;
        run.options.continue_on_error = continues;
        let report = harness.run(update(&program), run).await;
        assert!(!report.succeeded() && report.pending.is_empty());
        let expected: &[&str] = if continues { &["b", "d"] } else { &[] };
        assert_eq!(harness.keys(), expected);
        let skipped: Vec<&str> = report
            .skipped
            .iter()
            .map(|(address, _)| address.as_str())
            .collect();
        assert_eq!(skipped, if continues { vec!["c"] } else { vec![] });
    }
}

#[tokio::test]
async fn first_interrupt_awaits_steps_second_leaves_them_pending() {
    for times in [1, 2] {
        let harness = Harness::new(6).await;
        let run = harness.default_run();
        let interrupt = run.interrupt.clone();
        harness.cloud.set_modes(move |_, address| {
            if address.as_str() == "a" {
                for _ in 0..times {
                    interrupt.request();
                }
            }
            (CallMode::Normal, 2, 2)
        });
        let program = [spec("a"), spec("b").uses(&["a"])];
        let report = harness.run(update(&program), run).await;
        assert!(report.interrupted && !report.succeeded());
        if times == 1 {
            assert_eq!(harness.keys(), ["a"], "the step ended, and no new step began");
            assert!(report.pending.is_empty());
        } else {
            assert_eq!(report.pending.len(), 1);
            assert!(harness.keys().is_empty());
        }
        harness.cloud.calm();
        let next = harness.run(update(&program), harness.default_run()).await;
        assert!(next.succeeded() && next.pending.is_empty(), "{next:?}");
        assert_eq!(harness.keys(), ["a", "b"]);
        assert_eq!(harness.cloud.things().len(), 2, "no object was created twice");
        assert_eq!(harness.complaints(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn lost_lock_stops_the_run_before_the_next_call() {
    let harness = Harness::new(7).await;
    harness.run(update(&[spec("a")]), harness.default_run()).await;
    harness.cloud.forget_calls();
    // Each of the two steps checks the lock before it configures the provider, so the test makes both checks fail.
    harness.faults.fail(Call::Check, 0, Fault::BeforeEffect);
    harness.faults.fail(Call::Check, 1, Fault::BeforeEffect);
    let report = harness
        .run(update(&[spec("a").size(2), spec("b")]), harness.default_run())
        .await;
    assert!(report.stopped_by.is_some());
    assert!(report.pending.is_empty(), "{report:?}");
    assert_eq!(harness.cloud.calls(), Vec::<String>::new());
    harness.free().await;
    // The lock is checked again before each call. Here the check before `configure` succeeds, and the next check fails.
    harness.faults.fail(Call::Check, 1, Fault::BeforeEffect);
    let report = harness
        .run(update(&[spec("a").size(2), spec("b")]), harness.default_run())
        .await;
    assert!(report.stopped_by.is_some());
    assert_eq!(report.revision, None);
    let calls = harness.cloud.calls();
    assert!(
        calls.len() <= 1,
        "at most one call had begun, and no new call begins: {calls:?}"
    );
    harness.free().await;
    let pending: Vec<String> = harness
        .state()
        .pending()
        .map(|one| one.target.to_string())
        .collect();
    assert!(!pending.is_empty(), "the next run can settle the operations");
    let next = harness
        .run(update(&[spec("a").size(2), spec("b")]), harness.default_run())
        .await;
    assert!(next.succeeded() && next.pending.is_empty(), "{next:?}");
    // Another session breaks the lock while a call is in flight.
    let stacks = harness.stacks.clone();
    let name = harness.name.clone();
    harness.cloud.set_modes(move |_, _| {
        let (stacks, name) = (stacks.clone(), name.clone());
        tokio::spawn(async move {
            let stack = stacks.get(&name).await.unwrap().unwrap();
            let status = stack.lock_status().await.unwrap();
            stack.force_unlock(status.epoch).await.ok();
        });
        (CallMode::Normal, 100, 0)
    });
    let report = harness
        .run(update(&[spec("a").size(3), spec("b")]), harness.default_run())
        .await;
    let stopped = report.stopped_by.map(|error| error.kind());
    assert_eq!(stopped, Some(ErrorKind::Fenced));
    assert_eq!(harness.complaints(), Vec::<String>::new());
}

/// The check before `configure` succeeds, and the check right before the delete fails: the lock was lost after the
/// intent of the delete was recorded.
#[tokio::test]
async fn lock_lost_before_a_delete_deletes_nothing() {
    let mut recreated = spec("a").fixed(2);
    recreated.delete_first = Some(true);
    for operation in [Operation::Destroy, update(&[]), update(&[recreated])] {
        let harness = Harness::new(16).await;
        harness.run(update(&[spec("a")]), harness.default_run()).await;
        harness.cloud.forget_calls();
        harness.faults.fail(Call::Check, 1, Fault::BeforeEffect);
        let report = harness.run(operation, harness.default_run()).await;
        assert!(report.stopped_by.is_some(), "{report:?}");
        assert_eq!(harness.cloud.calls(), Vec::<String>::new());
        assert!(harness.cloud.things().contains_key("i-1"));
        harness.faults.heal();
        harness.free().await;
        let pending: Vec<Op> = harness.state().pending().map(|operation| operation.op).collect();
        assert_eq!(pending, [Op::Delete], "the next run can settle the delete");
        let end = harness.run(Operation::Destroy, harness.default_run()).await;
        assert!(end.succeeded() && harness.cloud.things().is_empty(), "{end:?}");
    }
}

#[tokio::test]
async fn failed_container_delete_restores_contained_entries() {
    let harness = Harness::new(15).await;
    let program = [spec("a"), spec("b").inside("a"), spec("c").needs(&["b"])];
    harness.run(update(&program), harness.default_run()).await;
    let recorded = harness.entry("b").unwrap();
    assert!(recorded.deleted_with.is_some(), "{recorded:?}");
    for mode in [CallMode::NotDone, CallMode::UnknownBefore, CallMode::Partial] {
        harness.cloud.set_modes(move |what, address| {
            let fails = what == "delete" && address.as_str() == "a";
            (if fails { mode } else { CallMode::Normal }, 0, 0)
        });
        let failed = harness.run(Operation::Destroy, harness.default_run()).await;
        assert!(!failed.succeeded(), "{failed:?}");
        let now = harness.entry("b").unwrap();
        assert!(now.is_unchanged_from(&recorded), "{mode:?}: {now:?}");
        harness.cloud.calm();
    }
    let end = harness.run(Operation::Destroy, harness.default_run()).await;
    assert!(end.succeeded() && harness.keys().is_empty(), "{end:?}");
    assert_eq!(harness.complaints(), Vec::<String>::new());
}
