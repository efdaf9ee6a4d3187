//! Tests of plans: which provider results a run reuses, which calls a run repeats, and when `apply` refuses a plan.

use crate::cloud::SimulatedCloud;
use crate::harness::Harness;
use crate::program::{Spec, source, spec, update};
use async_trait::async_trait;
use state_core::testkit::fault::Operation as Call;
use state_core::{ErrorKind, LogLevel};
use state_engine::provider::{
    CallContext, CheckRequest, CheckedInputs, ConfigureRequest, CreateRequest, DeleteRequest, Diff,
    DiffRequest, Object, ReadRequest, ReadResult, UpdateRequest,
};
use state_engine::{
    Basis, EngineError, Failure, Ledger, ListSource, Next, Operation, Provider, Registry, Run, Source,
    SourceOutputs,
};
use state_manager::LogQuery;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The provider of the simulated cloud. Counts calls under names such as `check a`, and logs a line for each counted
/// call.
#[derive(Clone, Debug)]
struct Counting {
    cloud: SimulatedCloud,
    counts: Arc<Mutex<BTreeMap<String, usize>>>,
}

impl Counting {
    fn of(harness: &Harness) -> Self {
        Self {
            cloud: harness.cloud.clone(),
            counts: Arc::default(),
        }
    }

    fn run(&self, harness: &Harness) -> Run {
        let mut run = harness.default_run();
        run.registry = Registry::new();
        let provider: Arc<dyn Provider> = Arc::new(self.clone());
        for kind in crate::cloud::KINDS {
            run.registry.register(kind, Arc::clone(&provider));
        }
        run
    }

    fn count(&self, what: &str, about: &str, context: &CallContext) {
        *self
            .counts
            .lock()
            .unwrap()
            .entry(format!("{what} {about}"))
            .or_default() += 1;
        context.log.emit(LogLevel::Info, format!("asked to {what}"));
    }

    /// Returns and clears the counts.
    fn take(&self) -> Vec<(String, usize)> {
        std::mem::take(&mut *self.counts.lock().unwrap())
            .into_iter()
            .collect()
    }
}

fn counts(expected: &[(&str, usize)]) -> Vec<(String, usize)> {
    let counts = expected.iter();
    counts.map(|(what, count)| ((*what).to_owned(), *count)).collect()
}

#[async_trait]
impl Provider for Counting {
    async fn configure(&self, request: ConfigureRequest) -> Result<(), Failure> {
        assert!(
            !request.context.preview,
            "a plan under a lock must not count as a preview for `configure`"
        );
        self.count("configure", "", &request.context);
        Ok(())
    }

    async fn check(&self, request: CheckRequest) -> Result<CheckedInputs, Failure> {
        self.count("check", request.address.as_str(), &request.context);
        Ok(CheckedInputs::new(request.inputs))
    }

    async fn diff(&self, request: DiffRequest) -> Result<Diff, Failure> {
        self.count("diff", request.address.as_str(), &request.context);
        self.cloud.diff(request).await
    }

    async fn create(&self, request: CreateRequest) -> Result<Object, Failure> {
        self.cloud.create(request).await
    }

    async fn read(&self, request: ReadRequest) -> Result<ReadResult, Failure> {
        self.count("read", request.key.address.as_str(), &request.context);
        self.cloud.read(request).await
    }

    async fn update(&self, request: UpdateRequest) -> Result<Object, Failure> {
        self.cloud.update(request).await
    }

    async fn delete(&self, request: DeleteRequest) -> Result<(), Failure> {
        self.cloud.delete(request).await
    }
}

/// A source that counts how often the engine asks for its outputs: once for each pass over the program.
struct CountingSource {
    source: ListSource,
    passes: Arc<Mutex<usize>>,
}

#[async_trait]
impl Source for CountingSource {
    async fn next(&mut self, ledger: &Ledger) -> Result<Next, EngineError> {
        self.source.next(ledger).await
    }

    async fn outputs(&mut self, ledger: &Ledger) -> Result<Option<SourceOutputs>, EngineError> {
        *self.passes.lock().unwrap() += 1;
        self.source.outputs(ledger).await
    }

    fn restart(&mut self) {
        self.source.restart();
    }
}

fn program(size_of_a: u64) -> [Spec; 3] {
    [
        spec("a").size(size_of_a),
        spec("b").uses(&["a"]),
        spec("c").size(size_of_a),
    ]
}

#[tokio::test]
async fn run_reuses_plan_results_unless_a_dependency_changed() {
    let harness = Harness::new(1).await;
    let counting = Counting::of(&harness);
    harness.run(update(&program(1)), counting.run(&harness)).await;
    // The plan doesn't know the id of `a`, so the run repeats the check of `b` with the id.
    let first = counts(&[("check a", 1), ("check b", 2), ("check c", 1), ("configure ", 1)]);
    assert_eq!(counting.take(), first);
    let passes = Arc::default();
    let again = CountingSource {
        source: source(&program(1)),
        passes: Arc::clone(&passes),
    };
    let reads = || [Call::Acquire, Call::ReadJournal].map(|call| harness.faults.calls(call));
    let before = reads();
    let report = harness
        .run(Operation::Update(Box::new(again)), counting.run(&harness))
        .await;
    assert!(report.succeeded() && !report.has_changes(), "{report:?}");
    assert_eq!(*passes.lock().unwrap(), 2, "once for the plan, once for the run");
    let after = [before[0] + 1, before[1]];
    assert_eq!(
        reads(),
        after,
        "the state is read only once, when the lock is acquired"
    );
    let once = counts(&[
        ("check a", 1),
        ("check b", 1),
        ("check c", 1),
        ("configure ", 1),
        ("diff a", 1),
        ("diff b", 1),
        ("diff c", 1),
    ]);
    assert_eq!(counting.take(), once);
    harness.run(update(&program(2)), counting.run(&harness)).await;
    let anew = counts(&[
        ("check a", 1),
        ("check b", 2),
        ("check c", 1),
        ("configure ", 1),
        ("diff a", 1),
        ("diff b", 2),
        ("diff c", 1),
    ]);
    assert_eq!(counting.take(), anew, "`b` may depend on the change of `a`");
}

#[tokio::test]
async fn refresh_records_the_drift_that_its_plan_showed() {
    let harness = Harness::new(2).await;
    let counting = Counting::of(&harness);
    harness.run(update(&[spec("a")]), counting.run(&harness)).await;
    counting.take();
    let id = harness.entry("a").unwrap().id.clone().unwrap();
    let resized = |size| spec("a").size(size).inputs(|_| None).0;
    harness.cloud.change(&id, resized(7));
    let session = harness.lock().await;
    let basis = Basis::locked(&session);
    let plan = harness
        .engine
        .plan(basis, Operation::Refresh, counting.run(&harness))
        .await
        .unwrap();
    assert!(plan.report().has_changes());
    harness.cloud.change(&id, resized(8));
    harness.engine.apply(&session, plan).await.unwrap();
    session.close().await.unwrap();
    assert_eq!(counting.take(), counts(&[("configure ", 1), ("read a", 1)]));
    assert_eq!(harness.entry("a").unwrap().inputs, Some(resized(7)));
}

#[tokio::test]
async fn provider_logs_of_a_plan_are_stored_once_with_its_run() {
    let harness = Harness::new(3).await;
    let counting = Counting::of(&harness);
    harness.run(update(&[spec("a")]), counting.run(&harness)).await;
    let lines = harness.stack.logs(&LogQuery::default()).await.unwrap();
    let messages = lines.iter().filter(|line| line.line.message == "asked to check");
    assert_eq!(messages.count(), 1);
}

#[tokio::test]
async fn plan_is_refused_after_state_change_or_unlock() {
    let harness = Harness::new(4).await;
    harness.run(update(&[spec("a")]), harness.default_run()).await;
    let unlocked = harness.plan(update(&program(1)), harness.default_run()).await;
    let session = harness.lock().await;
    let locked = harness
        .engine
        .plan(
            Basis::locked(&session),
            update(&program(1)),
            harness.default_run(),
        )
        .await
        .unwrap();
    let done = harness.engine.apply(&session, unlocked).await.unwrap();
    assert!(
        done.succeeded(),
        "the plan is current, because the state didn't change: {done:?}"
    );
    harness.cloud.forget_calls();
    let kind = |error: EngineError| match error {
        EngineError::State(error) => error.kind(),
        other => panic!("{other:?}"),
    };
    let moved = harness.engine.apply(&session, locked).await.unwrap_err();
    assert_eq!(kind(moved), ErrorKind::Conflict);
    let of_this_lock = harness
        .engine
        .plan(
            Basis::locked(&session),
            update(&program(2)),
            harness.default_run(),
        )
        .await
        .unwrap();
    session.close().await.unwrap();
    let next = harness.lock().await;
    let of_another = harness.engine.apply(&next, of_this_lock).await.unwrap_err();
    assert_eq!(
        kind(of_another),
        ErrorKind::Conflict,
        "the lock was released between plan and run"
    );
    next.close().await.unwrap();
    assert_eq!(harness.cloud.calls(), Vec::<String>::new());
}
