//! Tests of two ordering rules: a step begins only after its dependencies are durable, and the step is reported only
//! after its result is durable. Pulumi's issues 1725 and 1726 describe violations of these rules.
//!
//! The documentation of `state_engine::Ledger` shows which violations don't compile. These tests cover the error that a
//! source gets for an early registration, and the state that is durable when a provider is called.

use crate::cloud::CallMode;
use crate::harness::Harness;
use crate::program::{source, spec, update};
use async_trait::async_trait;
use state_core::testkit::fault::{Fault, Operation as Call};
use state_engine::{EngineError, Event, Goal, Ledger, Next, Operation, Source};
use std::sync::{Arc, Mutex};

/// A source that registers each resource without waiting for its dependencies, as Pulumi's refresh source of issue 1725
/// did.
struct Eager {
    goals: Vec<Goal>,
    refused: Arc<Mutex<Vec<String>>>,
}

#[async_trait]
impl Source for Eager {
    async fn next(&mut self, ledger: &Ledger) -> Result<Next, EngineError> {
        let Some(goal) = self.goals.first().cloned() else {
            return Ok(Next::End);
        };
        match ledger.register(goal) {
            Ok(ready) => {
                self.goals.remove(0);
                Ok(Next::Ready(Box::new(ready)))
            }
            Err(error @ EngineError::NotReady { .. }) => {
                self.refused.lock().unwrap().push(error.to_string());
                Ok(Next::Wait)
            }
            Err(other) => Err(other),
        }
    }

    fn restart(&mut self) {
        self.goals = eager();
        self.refused.lock().unwrap().clear();
    }
}

fn eager() -> Vec<Goal> {
    let mut second = Goal::new("b".parse().unwrap(), "thing");
    second.options.depends_on.push("a".parse().unwrap());
    vec![Goal::new("a".parse().unwrap(), "thing"), second]
}

#[tokio::test]
async fn registration_before_dependency_commit_is_refused() {
    let harness = Harness::new(1).await;
    harness.cloud.set_modes(|_, _| (CallMode::Normal, 3, 3));
    let refused = Arc::default();
    let eager = Eager {
        goals: eager(),
        refused: Arc::clone(&refused),
    };
    let report = harness
        .run(Operation::Update(Box::new(eager)), harness.default_run())
        .await;
    assert!(report.succeeded(), "{report:?}");
    assert_eq!(
        *refused.lock().unwrap(),
        ["b isn't ready: its dependency a isn't committed yet"]
    );
    assert_eq!(harness.keys(), ["a", "b"]);
}

#[tokio::test]
async fn provider_is_called_only_after_dependencies_are_durable() {
    let harness = Harness::new(2).await;
    let (checker, seen) = (Arc::clone(&harness.checker), Arc::new(Mutex::new(Vec::new())));
    let notes = Arc::clone(&seen);
    harness.cloud.set_modes(move |what, address| {
        let checker = checker.lock().unwrap();
        let durable: Vec<String> = checker
            .state
            .entries()
            .map(|entry| entry.address.to_string())
            .collect();
        notes
            .lock()
            .unwrap()
            .push(format!("{what} {address} after {}", durable.join(" ")));
        (CallMode::Normal, 2, 2)
    });
    let program = [spec("c").uses(&["a", "b"]), spec("b").uses(&["a"]), spec("a")];
    harness.run(update(&program), harness.default_run()).await;
    let expected = ["create a after ", "create b after a", "create c after a b"];
    assert_eq!(*seen.lock().unwrap(), expected);
}

#[tokio::test]
async fn step_is_reported_only_after_its_result_is_durable() {
    for call in 1..4 {
        let harness = Harness::new(3).await;
        // The append that fails contains the intent of `a` (1), the result of `a` (2), or the records after these (3).
        harness.faults.fail(Call::Append, call, Fault::BeforeEffect);
        let messages = Arc::new(Mutex::new(Vec::new()));
        let notes = Arc::clone(&messages);
        let mut run = harness.default_run();
        run.observer = Arc::new(move |event: &Event| {
            if let Event::Committed(step) = event {
                notes.lock().unwrap().push(step.key.to_string());
            }
        });
        let program = [spec("a"), spec("b").uses(&["a"])];
        let report = harness.engine.run(&harness.name, update(&program), run).await;
        let durable = harness.keys();
        let messages = messages.lock().unwrap().clone();
        assert!(
            messages.iter().all(|name| durable.contains(name)),
            "{messages:?} {durable:?}"
        );
        assert!(report.is_err() || report.is_ok_and(|report| report.stopped_by.is_some()));
        assert_eq!(harness.complaints(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn refresh_plans_next_resource_after_previous_commit() {
    let harness = Harness::new(4).await;
    let names = ["a", "b", "c", "d", "e"];
    let program: Vec<_> = names.iter().map(|name| spec(name)).collect();
    harness.run(update(&program), harness.default_run()).await;
    for (id, thing) in harness.cloud.things() {
        harness.cloud.change(
            &id,
            spec("x")
                .size(thing.address.as_str().len() as u64 + 6)
                .inputs(|_| None)
                .0,
        );
    }
    let messages = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&messages);
    let mut run = harness.default_run();
    run.options.parallel = 3;
    run.observer = Arc::new(move |event: &Event| {
        let line = match event {
            Event::Planned(step) => format!("planned {}", step.key),
            Event::Committed(step) => format!("committed {}", step.key),
            _ => return,
        };
        notes.lock().unwrap().push(line);
    });
    harness
        .cloud
        .set_modes(|_, address| (CallMode::Normal, address.as_str().as_bytes()[0] as usize % 4, 0));
    let report = harness.run(Operation::Refresh, run).await;
    assert!(report.succeeded() && report.has_changes(), "{report:?}");
    let expected: Vec<String> = names
        .iter()
        .flat_map(|name| [format!("planned {name}"), format!("committed {name}")])
        .collect();
    assert_eq!(*messages.lock().unwrap(), expected);
    assert_eq!(harness.keys(), names, "every entry keeps its position");
}

#[test]
fn cycle_duplicate_or_unknown_name_is_refused() {
    let wrong = |specs: &[crate::program::Spec]| {
        let declared = specs.iter().map(crate::program::Spec::declared).collect();
        state_engine::ListSource::new(declared).unwrap_err().to_string()
    };
    let circle = [
        spec("a").uses(&["c"]),
        spec("b").uses(&["a"]),
        spec("c").uses(&["b"]),
    ];
    assert_eq!(wrong(&circle), "a: dependency cycle: a -> c -> b -> a");
    assert_eq!(
        wrong(&[spec("a").uses(&["x"])]),
        "a: depends on x, which the program doesn't contain"
    );
    let twice = wrong(&[spec("a"), spec("a")]);
    assert!(twice.starts_with("a is declared twice"), "{twice}");
    drop(source(&[spec("a"), spec("b").uses(&["a"])]));
}
