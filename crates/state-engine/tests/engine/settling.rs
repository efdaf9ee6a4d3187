//! Tests of settling pending operations: decisions of the user, interrupts, and lost locks.

use crate::cloud::CallMode;
use crate::harness::Harness;
use crate::program::{spec, update};
use state_core::{ErrorKind, Op};
use state_engine::settle::{Decision, Settling};
use state_engine::{EngineError, Event, Operation};
use state_manager::LogQuery;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[tokio::test]
async fn unknown_outcome_stays_pending_until_a_decision() {
    let harness = Harness::new(8).await;
    harness.cloud.set_modes(|what, _| {
        let mode = if what == "create" {
            CallMode::UnknownAfter
        } else {
            CallMode::Normal
        };
        (mode, 0, 0)
    });
    let first = harness.run(update(&[spec("a")]), harness.default_run()).await;
    let id = first.pending[0].id;
    harness.cloud.calm();
    let mut run = harness.default_run();
    run.decisions.otherwise = Decision::Leave;
    let left = harness.run(update(&[spec("a"), spec("b")]), run).await;
    assert_eq!(left.pending.len(), 1);
    assert!(
        left.failures[0].reasons[0].contains("pending operation"),
        "{left:?}"
    );
    let messages = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let notes = messages.clone();
    let mut run = harness.default_run();
    run.observer = std::sync::Arc::new(move |event: &Event| {
        if let Event::Settled { how, .. } = event {
            notes.lock().unwrap().push(how.clone());
        }
    });
    let exists = Decision::Exists { id: "i-1".to_owned() };
    run.decisions.by_id.insert(id, exists);
    let settled = harness.run(Operation::Refresh, run).await;
    assert!(settled.succeeded() && settled.pending.is_empty());
    assert_eq!(*messages.lock().unwrap(), ["the object was created"]);
    assert_eq!(harness.entry("a").unwrap().id.as_deref(), Some("i-1"));
}

/// Runs a refresh with the user's decision that the object of every pending operation exists with this id. Returns the
/// operations that stay pending.
async fn pending_after_decision(harness: &Harness, id: &str) -> Vec<Op> {
    let mut run = harness.default_run();
    run.decisions.otherwise = Decision::Exists { id: id.to_owned() };
    let report = harness.run(Operation::Refresh, run).await;
    report.pending.iter().map(|operation| operation.op).collect()
}

#[tokio::test]
async fn decision_with_wrong_id_keeps_the_operation_pending() {
    for (failing, op) in [
        ("create", Op::Create),
        ("update", Op::Update),
        ("delete", Op::Delete),
    ] {
        let harness = Harness::new(14).await;
        harness.run(update(&[spec("b")]), harness.default_run()).await;
        if op != Op::Create {
            harness
                .run(update(&[spec("a"), spec("b")]), harness.default_run())
                .await;
        }
        harness.cloud.set_modes(move |what, _| {
            let mode = if what == failing {
                CallMode::UnknownBefore
            } else {
                CallMode::Normal
            };
            (mode, 0, 0)
        });
        let program = match op {
            Op::Create => vec![spec("a"), spec("b")],
            Op::Update => vec![spec("a").size(2), spec("b")],
            _ => vec![spec("b")],
        };
        harness.run(update(&program), harness.default_run()).await;
        harness.cloud.calm();
        let before = harness.keys();
        // No object has the id `i-77`. The object with the id `i-1` belongs to `b`.
        for wrong in ["i-77", "i-1"] {
            assert_eq!(
                pending_after_decision(&harness, wrong).await,
                [op],
                "{failing} {wrong}"
            );
            assert_eq!(harness.keys(), before);
        }
        let run = harness.default_run();
        let settled = harness.run(Operation::Refresh, run).await;
        assert!(settled.pending.is_empty(), "{failing}: {settled:?}");
        assert_eq!(harness.complaints(), Vec::<String>::new());
    }
}

/// Runs creates with unknown outcomes, which stay pending, and then makes every provider call fail. Returns a counter
/// of the reads from then on.
async fn with_pending_creates(harness: &Harness, names: &[&str]) -> Arc<AtomicUsize> {
    harness.cloud.set_modes(|what, _| {
        let is_create = what == "create";
        (
            if is_create {
                CallMode::UnknownAfter
            } else {
                CallMode::Normal
            },
            0,
            0,
        )
    });
    let program: Vec<_> = names.iter().map(|name| spec(name)).collect();
    let mut run = harness.default_run();
    run.options.continue_on_error = true;
    let report = harness.run(update(&program), run).await;
    assert_eq!(report.pending.len(), names.len());
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    harness.cloud.set_modes(move |what, _| {
        counter.fetch_add(usize::from(what == "read"), Ordering::SeqCst);
        (CallMode::NotDone, 0, 0)
    });
    asked
}

#[tokio::test]
async fn earlier_settling_is_reused_and_its_logs_are_stored() {
    let harness = Harness::new(9).await;
    let asked = with_pending_creates(&harness, &["a"]).await;
    let session = harness.lock().await;
    let settling = harness
        .engine
        .settle(&session, &harness.default_run())
        .await
        .unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    let mut run = harness.default_run();
    run.settled = Some(settling);
    let report = harness.run_under(&session, Operation::Refresh, run).await;
    assert_eq!((asked.load(Ordering::SeqCst), report.pending.len()), (1, 1));
    session.close().await.unwrap();
    let lines = harness.stack.logs(&LogQuery::default()).await.unwrap();
    let messages = lines
        .iter()
        .filter(|line| line.line.message.contains("is still pending"));
    assert_eq!(messages.count(), 1);
    let mut run = harness.default_run();
    run.settled = Some(Settling::default());
    harness.run(Operation::Refresh, run).await;
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn settling_stops_when_the_run_is_interrupted() {
    let harness = Harness::new(10).await;
    let asked = with_pending_creates(&harness, &["a", "b"]).await;
    let run = harness.default_run();
    let (interrupt, counter) = (run.interrupt.clone(), Arc::clone(&asked));
    harness.cloud.set_modes(move |_, _| {
        counter.fetch_add(1, Ordering::SeqCst);
        interrupt.request();
        (CallMode::NotDone, 0, 0)
    });
    let report = harness.run(Operation::Refresh, run).await;
    assert_eq!((asked.load(Ordering::SeqCst), report.pending.len()), (1, 2));
    assert!(report.interrupted);
}

#[tokio::test]
async fn settling_after_a_lost_lock_fails_before_any_read() {
    let harness = Harness::new(11).await;
    let asked = with_pending_creates(&harness, &["a", "b"]).await;
    let session = harness.lock().await;
    harness.free().await;
    let ended = harness.engine.settle(&session, &harness.default_run()).await;
    let kind = match ended.unwrap_err() {
        EngineError::State(error) => error.kind(),
        other => panic!("{other:?}"),
    };
    assert_eq!((kind, asked.load(Ordering::SeqCst)), (ErrorKind::Fenced, 0));
}
