//! Providers and people that don't do what they should: clear errors, and nothing is lost.

use crate::program::{spec, update};
use crate::stage::Stage;
use crate::world::Mood;
use state_core::testkit::fault::{Fault, Operation as Call};
use state_core::{ErrorKind, Op};
use state_engine::settle::{Decision, Settling};
use state_engine::{EngineError, Event, Operation, StepOp};
use state_manager::LogQuery;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

#[tokio::test]
async fn a_provider_that_hangs_is_left_after_its_time_with_its_intent_on_record() {
    let stage = Stage::new(1).await;
    stage.world.moods(|_, _| (Mood::Hangs, 0, 0));
    let mut run = stage.usual();
    run.options.timeout = Some(Duration::from_secs(60));
    let report = stage.run(update(&[spec("a")]), run).await;
    let failure = &report.failures[0];
    assert_eq!(
        failure.reasons,
        ["its provider didn't end `create` within 60s".to_owned()]
    );
    assert_eq!(failure.pending, Some(report.pending[0].id));
    assert_eq!(report.pending[0].op, Op::Create);
    stage.world.calm();
    let next = stage.run(update(&[spec("a")]), stage.usual()).await;
    assert!(next.succeeded() && next.pending.is_empty(), "{next:?}");
}

#[tokio::test]
async fn a_provider_that_panics_fails_its_step_alone() {
    let stage = Stage::new(2).await;
    stage.world.moods(|_, address| {
        let mood = if address.as_str() == "a" {
            Mood::PanicAfter
        } else {
            Mood::Well
        };
        (mood, 0, 0)
    });
    let mut run = stage.usual();
    run.options.continue_on_error = true;
    let report = stage.run(update(&[spec("a"), spec("b")]), run).await;
    assert_eq!(report.failures.len(), 1);
    assert_eq!(report.failures[0].reasons, ["its provider panicked in `create`"]);
    assert_eq!(stage.keys(), ["b"]);
    assert_eq!(stage.complaints(), Vec::<String>::new());
    stage.world.calm();
    stage.world.forget_calls();
    let next = stage.run(update(&[spec("a"), spec("b")]), stage.usual()).await;
    assert!(next.succeeded(), "{next:?}");
    assert_eq!(
        stage.world.calls(),
        Vec::<String>::new(),
        "what was made was found again"
    );
    assert_eq!(stage.keys().len(), 2);
}

#[tokio::test]
async fn a_provider_that_gives_an_id_twice_is_told_and_nothing_is_lost() {
    let stage = Stage::new(3).await;
    stage.run(update(&[spec("a")]), stage.usual()).await;
    stage.world.rewind();
    let report = stage.run(update(&[spec("a"), spec("b")]), stage.usual()).await;
    let failure = &report.failures[0];
    assert_eq!(
        failure.reasons,
        ["its provider gave it the id of a, i-1: who made what has to be looked at"]
    );
    assert_eq!(failure.pending, Some(report.pending[0].id), "it stays on record");
    assert_eq!(stage.keys(), ["a"]);
}

#[tokio::test]
async fn an_import_of_what_another_entry_has_is_refused_and_leaves_nothing_pending() {
    let stage = Stage::new(3).await;
    stage.run(update(&[spec("a")]), stage.usual()).await;
    let mut wanted = spec("b");
    wanted.import = Some("i-1".to_owned());
    for preview in [true, false] {
        let program = update(&[spec("a"), wanted.clone()]);
        let report = match preview {
            true => stage.preview(program, stage.usual()).await,
            false => stage.run(program, stage.usual()).await,
        };
        let failure = &report.failures[0];
        assert!(failure.reasons[0].contains("the id of a, i-1"), "{failure:?}");
        assert!(
            failure.pending.is_none() && report.pending.is_empty(),
            "{report:?}"
        );
        assert_eq!(stage.keys(), ["a"]);
    }
}

#[tokio::test]
async fn a_partial_failure_is_recorded_with_its_reasons_and_mended_by_the_next_run() {
    let stage = Stage::new(4).await;
    stage.world.moods(|_, _| (Mood::Partial, 0, 0));
    let report = stage.run(update(&[spec("a")]), stage.usual()).await;
    assert_eq!(report.failures[0].reasons, ["it is there, but doesn't answer"]);
    let there = stage.entry("a").unwrap();
    assert_eq!(there.id.as_deref(), Some("i-1"));
    assert_eq!(there.init_errors, ["it is there, but doesn't answer"]);
    stage.world.calm();
    let next = stage.run(update(&[spec("a")]), stage.usual()).await;
    assert_eq!(next.steps[0].op, StepOp::Update);
    assert!(stage.entry("a").unwrap().init_errors.is_empty());
}

#[tokio::test]
async fn a_failure_stops_new_steps_unless_the_run_continues_on_errors() {
    let program = [spec("a"), spec("b"), spec("c").uses(&["a"]), spec("d")];
    for continues in [false, true] {
        let stage = Stage::new(5).await;
        stage.world.moods(|_, address| {
            let mood = if address.as_str() == "a" {
                Mood::NotDone
            } else {
                Mood::Well
            };
            (mood, 0, 0)
        });
        let mut run = stage.usual();
        run.options.parallel = 1;
        run.options.continue_on_error = continues;
        let report = stage.run(update(&program), run).await;
        assert!(!report.succeeded() && report.pending.is_empty());
        let expected: &[&str] = if continues { &["b", "d"] } else { &[] };
        assert_eq!(stage.keys(), expected);
        let skipped: Vec<&str> = report
            .skipped
            .iter()
            .map(|(address, _)| address.as_str())
            .collect();
        assert_eq!(skipped, if continues { vec!["c"] } else { vec![] });
    }
}

#[tokio::test]
async fn the_first_interrupt_lets_steps_end_and_the_second_leaves_them_on_record() {
    for times in [1, 2] {
        let stage = Stage::new(6).await;
        let run = stage.usual();
        let interrupt = run.interrupt.clone();
        stage.world.moods(move |_, address| {
            if address.as_str() == "a" {
                for _ in 0..times {
                    interrupt.request();
                }
            }
            (Mood::Well, 2, 2)
        });
        let program = [spec("a"), spec("b").uses(&["a"])];
        let report = stage.run(update(&program), run).await;
        assert!(report.interrupted && !report.succeeded());
        if times == 1 {
            assert_eq!(stage.keys(), ["a"], "it ended, and nothing new began");
            assert!(report.pending.is_empty());
        } else {
            assert_eq!(report.pending.len(), 1);
            assert!(stage.keys().is_empty());
        }
        stage.world.calm();
        let next = stage.run(update(&program), stage.usual()).await;
        assert!(next.succeeded() && next.pending.is_empty(), "{next:?}");
        assert_eq!(stage.keys(), ["a", "b"]);
        assert_eq!(stage.world.things().len(), 2, "nothing was made twice");
        assert_eq!(stage.complaints(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_lock_that_is_lost_stops_the_run_before_the_world_is_touched() {
    let stage = Stage::new(7).await;
    stage.run(update(&[spec("a")]), stage.usual()).await;
    stage.world.forget_calls();
    // It is asked before the provider is prepared, whoever of the two tries: then nothing is begun.
    stage.faults.fail(Call::Check, 0, Fault::BeforeEffect);
    stage.faults.fail(Call::Check, 1, Fault::BeforeEffect);
    let report = stage
        .run(update(&[spec("a").size(2), spec("b")]), stage.usual())
        .await;
    assert!(report.stopped_by.is_some());
    assert!(report.pending.is_empty(), "{report:?}");
    assert_eq!(stage.world.calls(), Vec::<String>::new());
    stage.free().await;
    // And before each call.
    stage.faults.fail(Call::Check, 1, Fault::BeforeEffect);
    let report = stage
        .run(update(&[spec("a").size(2), spec("b")]), stage.usual())
        .await;
    assert!(report.stopped_by.is_some());
    assert_eq!(report.revision, None);
    let calls = stage.world.calls();
    assert!(calls.len() <= 1, "what was in flight, and nothing new: {calls:?}");
    stage.free().await;
    let pending: Vec<String> = stage
        .state()
        .pending()
        .map(|one| one.target.to_string())
        .collect();
    assert!(!pending.is_empty(), "the next run knows what to ask");
    let next = stage
        .run(update(&[spec("a").size(2), spec("b")]), stage.usual())
        .await;
    assert!(next.succeeded() && next.pending.is_empty(), "{next:?}");
    // A stranger takes over while a call is under way.
    let stacks = stage.stacks.clone();
    let name = stage.name.clone();
    stage.world.moods(move |_, _| {
        let (stacks, name) = (stacks.clone(), name.clone());
        tokio::spawn(async move {
            let stack = stacks.get(&name).await.unwrap().unwrap();
            let status = stack.lock_status().await.unwrap();
            stack.force_unlock(status.epoch).await.ok();
        });
        (Mood::Well, 100, 0)
    });
    let report = stage
        .run(update(&[spec("a").size(3), spec("b")]), stage.usual())
        .await;
    let stopped = report.stopped_by.map(|error| error.kind());
    assert_eq!(stopped, Some(ErrorKind::Fenced));
    assert_eq!(stage.complaints(), Vec::<String>::new());
}

#[tokio::test]
async fn what_nobody_can_tell_stays_pending_until_somebody_decides() {
    let stage = Stage::new(8).await;
    stage.world.moods(|what, _| {
        let mood = if what == "create" {
            Mood::UnknownAfter
        } else {
            Mood::Well
        };
        (mood, 0, 0)
    });
    let first = stage.run(update(&[spec("a")]), stage.usual()).await;
    let id = first.pending[0].id;
    stage.world.calm();
    let mut run = stage.usual();
    run.decisions.otherwise = Decision::Leave;
    let left = stage.run(update(&[spec("a"), spec("b")]), run).await;
    assert_eq!(left.pending.len(), 1);
    assert!(
        left.failures[0].reasons[0].contains("pending operation"),
        "{left:?}"
    );
    let told = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let notes = told.clone();
    let mut run = stage.usual();
    run.observer = std::sync::Arc::new(move |event: &Event| {
        if let Event::Settled { how, .. } = event {
            notes.lock().unwrap().push(how.clone());
        }
    });
    let exists = Decision::Exists { id: "i-1".to_owned() };
    run.decisions.by_id.insert(id, exists);
    let settled = stage.run(Operation::Refresh, run).await;
    assert!(settled.succeeded() && settled.pending.is_empty());
    assert_eq!(*told.lock().unwrap(), ["it was made"]);
    assert_eq!(stage.entry("a").unwrap().id.as_deref(), Some("i-1"));
}

/// What remains pending of an operation on `a` after somebody said that it is this object.
async fn said_of_a(stage: &Stage, id: &str) -> Vec<Op> {
    let mut run = stage.usual();
    run.decisions.otherwise = Decision::Exists { id: id.to_owned() };
    let report = stage.run(Operation::Refresh, run).await;
    report.pending.iter().map(|operation| operation.op).collect()
}

#[tokio::test]
async fn who_says_that_it_is_there_under_a_wrong_id_loses_nothing() {
    for (failing, op) in [
        ("create", Op::Create),
        ("update", Op::Update),
        ("delete", Op::Delete),
    ] {
        let stage = Stage::new(14).await;
        stage.run(update(&[spec("b")]), stage.usual()).await;
        if op != Op::Create {
            stage.run(update(&[spec("a"), spec("b")]), stage.usual()).await;
        }
        stage.world.moods(move |what, _| {
            let mood = if what == failing {
                Mood::UnknownBefore
            } else {
                Mood::Well
            };
            (mood, 0, 0)
        });
        let program = match op {
            Op::Create => vec![spec("a"), spec("b")],
            Op::Update => vec![spec("a").size(2), spec("b")],
            _ => vec![spec("b")],
        };
        stage.run(update(&program), stage.usual()).await;
        stage.world.calm();
        let before = stage.keys();
        // Nothing has the first, another entry has the second.
        for wrong in ["i-77", "i-1"] {
            assert_eq!(said_of_a(&stage, wrong).await, [op], "{failing} {wrong}");
            assert_eq!(stage.keys(), before);
        }
        let run = stage.usual();
        let settled = stage.run(Operation::Refresh, run).await;
        assert!(settled.pending.is_empty(), "{failing}: {settled:?}");
        assert_eq!(stage.complaints(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn what_goes_with_another_still_does_when_that_could_not_be_deleted() {
    let stage = Stage::new(15).await;
    let program = [spec("a"), spec("b").inside("a"), spec("c").needs(&["b"])];
    stage.run(update(&program), stage.usual()).await;
    let recorded = stage.entry("b").unwrap();
    assert!(recorded.deleted_with.is_some(), "{recorded:?}");
    for mood in [Mood::NotDone, Mood::UnknownBefore, Mood::Partial] {
        stage.world.moods(move |what, address| {
            let fails = what == "delete" && address.as_str() == "a";
            (if fails { mood } else { Mood::Well }, 0, 0)
        });
        let failed = stage.run(Operation::Destroy, stage.usual()).await;
        assert!(!failed.succeeded(), "{failed:?}");
        let now = stage.entry("b").unwrap();
        assert!(now.is_unchanged_from(&recorded), "{mood:?}: {now:?}");
        stage.world.calm();
    }
    let end = stage.run(Operation::Destroy, stage.usual()).await;
    assert!(end.succeeded() && stage.keys().is_empty(), "{end:?}");
    assert_eq!(stage.complaints(), Vec::<String>::new());
}

/// Leaves creates of which nobody knows how they ended, and counts from then on how often a provider is asked.
async fn left(stage: &Stage, names: &[&str]) -> Arc<AtomicUsize> {
    stage.world.moods(|what, _| {
        let is_create = what == "create";
        (if is_create { Mood::UnknownAfter } else { Mood::Well }, 0, 0)
    });
    let program: Vec<_> = names.iter().map(|name| spec(name)).collect();
    let mut run = stage.usual();
    run.options.continue_on_error = true;
    let report = stage.run(update(&program), run).await;
    assert_eq!(report.pending.len(), names.len());
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    stage.world.moods(move |what, _| {
        counter.fetch_add(usize::from(what == "read"), Ordering::SeqCst);
        (Mood::NotDone, 0, 0)
    });
    asked
}

#[tokio::test]
async fn what_was_settled_before_a_run_is_not_asked_again_and_what_was_said_is_stored_with_it() {
    let stage = Stage::new(9).await;
    let asked = left(&stage, &["a"]).await;
    let session = stage.lock().await;
    let settling = stage.engine.settle(&session, &stage.usual()).await.unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    let mut run = stage.usual();
    run.settled = Some(settling);
    let report = stage.run_under(&session, Operation::Refresh, run).await;
    assert_eq!((asked.load(Ordering::SeqCst), report.pending.len()), (1, 1));
    session.close().await.unwrap();
    let lines = stage.stack.logs(&LogQuery::default()).await.unwrap();
    let said = lines
        .iter()
        .filter(|line| line.line.message.contains("is still pending"));
    assert_eq!(said.count(), 1);
    let mut run = stage.usual();
    run.settled = Some(Settling::default());
    stage.run(Operation::Refresh, run).await;
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn nobody_is_asked_about_what_is_pending_once_the_run_is_to_stop() {
    let stage = Stage::new(10).await;
    let asked = left(&stage, &["a", "b"]).await;
    let run = stage.usual();
    let (interrupt, counter) = (run.interrupt.clone(), Arc::clone(&asked));
    stage.world.moods(move |_, _| {
        counter.fetch_add(1, Ordering::SeqCst);
        interrupt.request();
        (Mood::NotDone, 0, 0)
    });
    let report = stage.run(Operation::Refresh, run).await;
    assert_eq!((asked.load(Ordering::SeqCst), report.pending.len()), (1, 2));
    assert!(report.interrupted);
}

#[tokio::test]
async fn a_lock_that_is_lost_while_settling_ends_the_run() {
    let stage = Stage::new(11).await;
    let asked = left(&stage, &["a", "b"]).await;
    let session = stage.lock().await;
    stage.free().await;
    let ended = stage.engine.settle(&session, &stage.usual()).await;
    let kind = match ended.unwrap_err() {
        EngineError::State(error) => error.kind(),
        other => panic!("{other:?}"),
    };
    assert_eq!((kind, asked.load(Ordering::SeqCst)), (ErrorKind::Fenced, 0));
}
