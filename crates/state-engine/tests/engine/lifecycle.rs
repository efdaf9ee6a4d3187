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

use crate::program::{Spec, update};
use crate::stage::Stage;
use draw::{Dice, Plan};
use state_core::edits::{Operation as Surgical, StateEditor};
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
fn lifecycles_that_failed_once_hold() {
    silence();
    for seed in FAILED_ONCE {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let lived = runtime.block_on(live(seed));
        assert!(lived.is_ok(), "{seed}: {}", lived.unwrap_err());
    }
}

#[test]
fn any_lifecycle_keeps_the_record_true_and_converges() {
    silence();
    let count = number(COUNT).unwrap_or_else(|| u64::from(scaled(5_000)));
    let first = number(SEED).unwrap_or(1);
    let mut points = 0;
    for seed in first..first + count {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let lived = std::panic::catch_unwind(|| runtime.block_on(live(seed)));
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
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let made_up = info.payload().downcast_ref::<String>();
        if !made_up.is_some_and(|text| text.starts_with("made up")) {
            usual(info);
        }
    }));
}

/// One lifecycle. How many durable points were looked at.
async fn live(seed: u64) -> Result<usize, String> {
    let dice = Dice::new(seed);
    // Every eighth on a stack that seals every value.
    let stage = match seed % 8 {
        0 => Stage::sealed_whole(seed).await,
        _ => Stage::new(seed).await,
    };
    let mut story = Vec::new();
    if dice.one_in(2) {
        start::populate(&stage, &dice, &mut story).await;
    }
    for _ in 0..=dice.below(3) {
        let plan = Plan::draw(&dice, &stage);
        story.push(format!("{plan:?}"));
        let how = trouble(&stage, &dice, &plan).await;
        story.push(how);
        check(&stage, &story)?;
    }
    converge(&stage, &dice, &mut story).await?;
    let witness = stage.witness.lock().unwrap();
    Ok(witness.points)
}

/// A run in which everything may go wrong.
async fn trouble(stage: &Stage, dice: &Dice, plan: &Plan) -> String {
    plan.drift(stage, dice);
    plan.temper(stage, dice);
    let mut run = stage.usual();
    run.options = plan.options.clone();
    let killed = Arc::new(tokio::sync::Notify::new());
    plan.cut(stage, dice, &killed, &run.interrupt);
    let ended = tokio::select! {
        biased;
        () = killed.notified() => "killed".to_owned(),
        ended = stage.engine.run(&stage.name, plan.operation(), run) => match ended {
            Ok(report) => told(&report),
            Err(error) => format!("{error}"),
        },
    };
    stage.faults.heal();
    stage.world.calm();
    stage.witness_only();
    // Whatever still runs of a process that died can do nothing any more.
    stage.free().await;
    ended
}

fn check(stage: &Stage, story: &[String]) -> Result<(), String> {
    let complaints = stage.complaints();
    match complaints.is_empty() {
        true => Ok(()),
        false => Err(format!("{complaints:#?}\n{}", story.join("\n"))),
    }
}

/// A run without trouble, one that does nothing, and the end.
async fn converge(stage: &Stage, dice: &Dice, story: &mut Vec<String>) -> Result<(), String> {
    // First it settles what was left; what turns out to be there may be protected.
    let settled = stage.run(Operation::Refresh, quiet(stage, dice)).await;
    story.push(told(&settled));
    unprotect(stage).await;
    let mut specs = draw::program(dice);
    for spec in &mut specs {
        spec.protect = false;
    }
    story.push(format!("converge to {specs:#?}"));
    let run = quiet(stage, dice);
    let report = stage.run(update(&specs), run).await;
    story.push(told(&report));
    check(stage, story)?;
    let wrong = |what: String| Err(format!("{what}\n{}", story.join("\n")));
    if !report.succeeded() || !report.pending.is_empty() {
        return wrong(format!("it doesn't converge; the list is {:#?}", stage.keys()));
    }
    if let Err(difference) = agrees(stage, &specs).await {
        return wrong(difference);
    }
    stage.world.forget_calls();
    let again = stage.run(update(&specs), stage.usual()).await;
    if !again.succeeded() || again.has_changes() || !stage.world.calls().is_empty() {
        return wrong(format!("the next run does something: {}", told(&again)));
    }
    let end = stage.run(Operation::Destroy, stage.usual()).await;
    check(stage, story)?;
    if !end.succeeded() || !stage.keys().is_empty() {
        return wrong(format!("the end: {:?}\n{}", stage.keys(), told(&end)));
    }
    let witness = stage.witness.lock().unwrap();
    let things = stage.world.things();
    let left = things
        .iter()
        .find(|(id, thing)| !thing.foreign && !witness.is_released(id));
    match left {
        Some((id, _)) => wrong(format!("{id} is left")),
        None => Ok(()),
    }
}

/// A report, short enough to be read.
fn told(report: &Report) -> String {
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

fn quiet(stage: &Stage, dice: &Dice) -> Run {
    let mut run = stage.usual();
    // What was deleted behind our back has to be found out.
    run.options.refresh = true;
    run.options.parallel = 1 + dice.below(4) as usize;
    run.interrupt = Interrupt::new();
    run
}

/// An operator allows everything to be replaced and deleted.
async fn unprotect(stage: &Stage) {
    let session = stage.lock().await;
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
async fn agrees(stage: &Stage, specs: &[Spec]) -> Result<(), String> {
    let state = stage.state();
    let open = stage.open().await;
    let things = stage.world.things();
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
            let key = EntryKey::live(name.parse().unwrap());
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
        let key = EntryKey::live(spec.name.parse().unwrap());
        let recorded = open.entries.iter().find(|entry| entry.key() == key);
        if recorded.and_then(|entry| entry.inputs.as_ref()) != Some(&inputs) {
            return Err(format!("{} is recorded with other inputs", spec.name));
        }
    }
    let witness = stage.witness.lock().unwrap();
    let stray = things
        .iter()
        .find(|(id, thing)| !held.contains(*id) && !thing.foreign && !witness.is_released(id));
    match stray {
        Some((id, thing)) => Err(format!("{id} of {} is nobody's", thing.address)),
        None => Ok(()),
    }
}
