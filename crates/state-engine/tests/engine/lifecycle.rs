//! The lifecycle fuzzer: random snapshots, programs, moods, operations and crashes; and what must hold whatever happens.
//!
//! - The snapshot at every durable point verifies, and is in topological order.
//! - At every durable point each object that was made is recorded, or an operation that may have made it is pending.
//! - Nothing is deleted that something still needs.
//! - A run without trouble converges to the program; the next one does nothing; a destroy ends empty.
//!
//! No pattern is left out. `STATE_ENGINE_LIFECYCLES` says how many, `STATE_TESTS_SEED` which is the first.

mod draw;
mod start;

use crate::harness::Harness;
use crate::program::{Spec, update};
use draw::{Plan, Random};
use state_core::edits::{Operation as Surgical, Surgery};
use state_core::testkit::run::scaled;
use state_core::{EntryKey, UpdateKind};
use state_engine::{Interrupt, Operation, Report, Run};
use state_manager::UpdateRequest;
use std::collections::BTreeSet;
use std::sync::Arc;

const COUNT: &str = "STATE_ENGINE_LIFECYCLES";
const SEED: &str = "STATE_TESTS_SEED";

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Seeds of lifecycles that failed once.
const FAILED_ONCE: [u64; 9] = [
    // What an unsettled create needs was deleted: to be replaced, or because nobody wanted it any more.
    20_010_333, 10_014_232, 20_014_557,
    // What something needs was deleted, because that was brought forward past it.
    10_011_200,
    // What turned out to be made couldn't be settled, because its tombstone stood before what it refers to.
    10_019_647,
    // What something needs was deleted, because it was to refer to that something itself.
    10_079_954, 40_009_220,
    // What something needs was deleted, because what was settled forgot that it refers to it.
    20_010_001, 20_014_437,
];

#[test]
fn regression_lifecycles_pass() {
    silence();
    for seed in FAILED_ONCE {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let lived = runtime.block_on(run_lifecycle(seed));
        assert!(lived.is_ok(), "{seed}: {}", lived.unwrap_err());
    }
}

#[test]
fn any_lifecycle_keeps_the_state_accurate_and_converges() {
    silence();
    let count = number(COUNT).unwrap_or_else(|| u64::from(scaled(5_000)));
    let first = number(SEED).unwrap_or(1);
    let mut points = 0;
    for seed in first..first + count {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let lived = std::panic::catch_unwind(|| runtime.block_on(run_lifecycle(seed)));
        match lived {
            Ok(Ok(seen)) => points += seen,
            Ok(Err(complaint)) => {
                panic!("{complaint}\nreplay with {SEED}={seed} {COUNT}=1");
            }
            Err(panic) => {
                eprintln!("replay with {SEED}={seed} {COUNT}=1");
                std::panic::resume_unwind(panic);
            }
        }
    }
    assert!(points as u64 > count * 5, "there was something to see: {points}");
}

/// The panics that are made up say nothing.
fn silence() {
    let default_hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let made_up = info.payload().downcast_ref::<String>();
        if !made_up.is_some_and(|text| text.starts_with("made up")) {
            default_hook(info);
        }
    }));
}

/// One lifecycle. How many durable points were looked at.
async fn run_lifecycle(seed: u64) -> Result<usize, String> {
    let random = Random::new(seed);
    // Every eighth on a stack that seals every value.
    let harness = match seed % 8 {
        0 => Harness::sealed_whole(seed).await,
        _ => Harness::new(seed).await,
    };
    let mut story = Vec::new();
    if random.one_in(2) {
        start::populate(&harness, &random, &mut story).await;
    }
    for _ in 0..=random.below(3) {
        let plan = Plan::draw(&random, &harness);
        story.push(format!("{plan:?}"));
        let how = faulty_run(&harness, &random, &plan).await;
        story.push(how);
        check(&harness, &story)?;
    }
    converge(&harness, &random, &mut story).await?;
    let checker = harness.checker.lock().unwrap();
    Ok(checker.points)
}

/// A run in which everything may go wrong.
async fn faulty_run(harness: &Harness, random: &Random, plan: &Plan) -> String {
    plan.drift(harness, random);
    plan.call_plan(harness, random);
    let mut run = harness.default_run();
    run.options = plan.options.clone();
    let killed = Arc::new(tokio::sync::Notify::new());
    plan.cut(harness, random, &killed, &run.interrupt);
    let ended = tokio::select! {
        biased;
        () = killed.notified() => "killed".to_owned(),
        ended = harness.engine.run(&harness.name, plan.operation(), run) => match ended {
            Ok(report) => summary(&report),
            Err(error) => format!("{error}"),
        },
    };
    harness.faults.heal();
    harness.cloud.calm();
    harness.check_only();
    // Whatever still runs of a process that died can do nothing any more.
    harness.free().await;
    ended
}

fn check(harness: &Harness, story: &[String]) -> Result<(), String> {
    let complaints = harness.complaints();
    match complaints.is_empty() {
        true => Ok(()),
        false => Err(format!("{complaints:#?}\n{}", story.join("\n"))),
    }
}

/// A run without trouble, one that does nothing, and the end.
async fn converge(harness: &Harness, random: &Random, story: &mut Vec<String>) -> Result<(), String> {
    // First it settles what was left; what turns out to be there may be protected.
    let settled = harness.run(Operation::Refresh, quiet(harness, random)).await;
    story.push(summary(&settled));
    unprotect(harness).await;
    let mut specs = draw::program(random);
    for spec in &mut specs {
        spec.protect = false;
    }
    story.push(format!("converge to {specs:#?}"));
    let run = quiet(harness, random);
    let report = harness.run(update(&specs), run).await;
    story.push(summary(&report));
    check(harness, story)?;
    let wrong = |what: String| Err(format!("{what}\n{}", story.join("\n")));
    if !report.succeeded() || !report.pending.is_empty() {
        return wrong(format!("it doesn't converge; the list is {:#?}", harness.keys()));
    }
    if let Err(difference) = compare_with_program(harness, &specs).await {
        return wrong(difference);
    }
    harness.cloud.forget_calls();
    let again = harness.run(update(&specs), harness.default_run()).await;
    if !again.succeeded() || again.has_changes() || !harness.cloud.calls().is_empty() {
        return wrong(format!("the next run does something: {}", summary(&again)));
    }
    let end = harness.run(Operation::Destroy, harness.default_run()).await;
    check(harness, story)?;
    if !end.succeeded() || !harness.keys().is_empty() {
        return wrong(format!("the end: {:?}\n{}", harness.keys(), summary(&end)));
    }
    let checker = harness.checker.lock().unwrap();
    let things = harness.cloud.things();
    let left = things
        .iter()
        .find(|(id, thing)| !thing.foreign && !checker.is_released(id));
    match left {
        Some((id, _)) => wrong(format!("{id} is left")),
        None => Ok(()),
    }
}

/// A report, short enough to be read.
fn summary(report: &Report) -> String {
    let steps = report.steps.iter();
    let steps: Vec<String> = steps
        .map(|step| format!("{} {} {:?}", step.op, step.key, step.why))
        .collect();
    let failures: Vec<String> = report
        .failures
        .iter()
        .map(|failure| format!("{failure:?}"))
        .collect();
    let pending = report.pending.iter();
    let pending: Vec<String> = pending.map(|one| format!("{} {}", one.op, one.target)).collect();
    format!(
        "report: {:?}\n  steps: {}\n  failures: {}\n  skipped: {:?}\n  pending: {pending:?}\n  wrong: {:?} {:?}",
        report.result,
        steps.join("; "),
        failures.join("\n    "),
        report.skipped,
        report.source_error,
        report.stopped_by,
    )
}

fn quiet(harness: &Harness, random: &Random) -> Run {
    let mut run = harness.default_run();
    // What was deleted behind our back has to be found out.
    run.options.refresh = true;
    run.options.parallel = 1 + random.below(4) as usize;
    run.interrupt = Interrupt::new();
    run
}

/// An operator allows everything to be replaced and deleted.
async fn unprotect(harness: &Harness) {
    let session = harness.lock().await;
    let state = session.state();
    let mut edits = StateEditor::on(&state);
    let all = Surgical::Unprotect {
        addresses: Vec::new(),
        all: true,
    };
    edits.perform(&all).unwrap();
    if !edits.changes().is_empty() {
        let request = UpdateRequest::new(UpdateKind::Edit);
        session.edit(request, &state, edits.into_changes()).await.unwrap();
    }
    session.close().await.unwrap();
}

/// Whether record, world and program say the same.
async fn compare_with_program(harness: &Harness, specs: &[Spec]) -> Result<(), String> {
    let state = harness.state();
    let open = harness.open().await;
    let things = harness.cloud.things();
    let wanted: BTreeSet<&str> = specs.iter().map(|spec| &*spec.name).collect();
    let mut held = BTreeSet::new();
    for entry in state.entries() {
        if !entry.is_live() || !wanted.contains(entry.address.as_str()) || entry.pending_replacement {
            return Err(format!("{} shouldn't be there", entry.key()));
        }
        held.extend(entry.id.clone());
    }
    for spec in specs {
        let id = |name: &str| {
            let key = EntryKey::run_lifecycle(name.parse().unwrap());
            state.entry(&key)?.id.clone()
        };
        let Some(own) = id(&spec.name) else {
            return Err(format!("{} isn't there", spec.name));
        };
        let Some(thing) = things.get(&own) else {
            return Err(format!("{own} of {} isn't in the world", spec.name));
        };
        let (inputs, _) = spec.inputs(id);
        if thing.inputs != inputs || thing.kind != spec.kind() {
            return Err(format!(
                "{own} of {} is {thing:?}, not {}",
                spec.name,
                inputs.json().as_str()
            ));
        }
        let key = EntryKey::run_lifecycle(spec.name.parse().unwrap());
        let recorded = open.entries.iter().find(|entry| entry.key() == key);
        if recorded.and_then(|entry| entry.inputs.as_ref()) != Some(&inputs) {
            return Err(format!("{} is recorded with other inputs", spec.name));
        }
    }
    let checker = harness.checker.lock().unwrap();
    let stray = things
        .iter()
        .find(|(id, thing)| !held.contains(*id) && !thing.foreign && !checker.is_released(id));
    match stray {
        Some((id, thing)) => Err(format!("{id} of {} is nobody's", thing.address)),
        None => Ok(()),
    }
}
