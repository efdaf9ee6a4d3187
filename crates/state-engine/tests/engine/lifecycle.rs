//! The lifecycle fuzzer: random snapshots, programs, call modes, operations and crashes, checked against these
//! invariants. A *durable point* is the stored state after an acknowledged append.
//!
//! - The snapshot at every durable point verifies, and is in topological order.
//! - At every durable point each created object is recorded, or an operation that may have created it is
//!   pending.
//! - No object is deleted while another object still needs it.
//! - A call that hung, panicked or failed with an unknown outcome stays pending until the next run.
//! - A run without faults converges to the program; the next run changes nothing; a destroy leaves nothing.
//!
//! Unlike Pulumi's fuzzer, the generators exclude no pattern that breaks the engine. `STATE_ENGINE_LIFECYCLES` sets
//! the number of lifecycles, `STATE_TESTS_SEED` the first seed.

mod clock;
pub(crate) mod draw;
pub(crate) mod groups;
mod killed;
mod start;

use crate::cloud::SimulatedCloud;
use crate::harness::{Harness, environment};
use crate::program::{Spec, update};
use clock::PausedClock;
use draw::{Plan, Random};
use groups::edit_groups;
use state_core::edits::{Operation as Surgical, StateEditor};
use state_core::testkit::run::scaled;
use state_core::{EntryKey, MutationId, Snapshot, State, UpdateKind};
use state_engine::{Engine, Interrupt, Operation, Report, Run};
use state_manager::UpdateRequest;
use std::collections::BTreeSet;
use std::sync::Arc;

const COUNT: &str = "STATE_ENGINE_LIFECYCLES";
const SEED: &str = "STATE_TESTS_SEED";

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Seeds of lifecycles that failed once, all of them without groups and hanging calls.
const FAILED_ONCE: [u64; 9] = [
    // A dependency of a pending create was deleted, for a replacement or because the program doesn't contain it.
    20_010_333, 10_014_232, 20_014_557,
    // A dependency was deleted because it had been re-recorded after its dependent.
    10_011_200,
    // A pending create that had succeeded couldn't be settled, because its tombstone preceded its dependencies.
    10_019_647,
    // An object was deleted for a replacement that can't be recorded: the new object depends on a resource that depends
    // on the old object.
    10_079_954, 40_009_220,
    // A dependency was deleted because the entry of a settled operation had lost its reference to the dependency.
    20_010_001, 20_014_437,
];

/// Seeds of lifecycles that failed once, with the groups and hanging calls of their seeds: an object was deleted although
/// another resource needed it through a group.
const FAILED_WITH_GROUPS: [u64; 6] = [157, 202, 328, 1_097, 1_105, 1_138];

/// The random sources of events that only some lifecycles contain. They are separate, so that the other events of a
/// lifecycle depend on its seed only.
struct Extras {
    groups: Option<Random>,
    hangs: Option<Random>,
}

impl Extras {
    const NONE: Self = Self {
        groups: None,
        hangs: None,
    };

    /// Two of three lifecycles contain groups, and three of five contain hanging calls.
    fn of(seed: u64) -> Self {
        let random = |salt: u64| Random::new(seed.wrapping_mul(4).wrapping_add(salt));
        Self {
            groups: (!seed.is_multiple_of(3)).then(|| random(1)),
            hangs: (seed % 5 < 3).then(|| random(2)),
        }
    }
}

/// What happened in lifecycles.
#[derive(Debug, Default)]
struct Coverage {
    /// The number of checked durable points.
    points: usize,
    /// References to groups with members, in the state before a run.
    groups: usize,
    /// Calls that change objects and hung.
    hangs: usize,
}

#[test]
fn formerly_failing_lifecycles_pass() {
    silence();
    let without_extras = FAILED_ONCE.map(|seed| (seed, Extras::NONE));
    let with_groups = FAILED_WITH_GROUPS.map(|seed| (seed, Extras::of(seed)));
    for (seed, extras) in without_extras.into_iter().chain(with_groups) {
        let result = in_paused_runtime(run_lifecycle(seed, extras));
        assert!(result.is_ok(), "{seed}: {}", result.unwrap_err());
    }
}

#[test]
fn any_lifecycle_keeps_the_state_accurate_and_converges() {
    silence();
    let count = number(COUNT).unwrap_or_else(|| u64::from(scaled(5_000)));
    let first = number(SEED).unwrap_or(1);
    let (mut points, mut with_groups, mut with_hangs) = (0, 0, 0);
    for seed in first..first + count {
        let lifecycle = || in_paused_runtime(run_lifecycle(seed, Extras::of(seed)));
        match std::panic::catch_unwind(lifecycle) {
            Ok(Ok(seen)) => {
                points += seen.points;
                with_groups += u64::from(seen.groups > 0);
                with_hangs += u64::from(seen.hangs > 0);
            }
            Ok(Err(complaint)) => {
                panic!("{complaint}\nreplay with {SEED}={seed} {COUNT}=1");
            }
            Err(panic) => {
                eprintln!("replay with {SEED}={seed} {COUNT}=1");
                std::panic::resume_unwind(panic);
            }
        }
    }
    eprintln!(
        "{count} lifecycles, {with_groups} with groups, {with_hangs} with hanging calls, {points} durable points"
    );
    assert!(
        points as u64 > count * 5,
        "too few durable points were checked: {points}"
    );
    // A replay of a few seeds needn't contain everything.
    if count >= 100 {
        assert!(
            with_groups * 20 >= count,
            "only {with_groups} of {count} used groups"
        );
        assert!(
            with_hangs * 20 >= count,
            "in only {with_hangs} of {count} a call hung"
        );
    }
}

/// Runs a future to its end, in a runtime whose time passes only while no task can run.
fn in_paused_runtime<T>(future: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().unwrap();
    runtime.block_on(future)
}

/// Suppresses the messages of simulated panics.
fn silence() {
    let default_hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let made_up = info.payload().downcast_ref::<String>();
        if !made_up.is_some_and(|text| text.starts_with("simulated panic")) {
            default_hook(info);
        }
    }));
}

/// Runs the lifecycle of this seed, and returns what it covered.
async fn run_lifecycle(seed: u64, extras: Extras) -> Result<Coverage, String> {
    let random = Random::new(seed);
    // Every eighth lifecycle uses a stack that encrypts every value.
    let mut harness = match seed % 8 {
        0 => Harness::sealed_whole(seed).await,
        _ => Harness::new(seed).await,
    };
    let mut environment = environment(seed ^ 1);
    environment.clock = Arc::new(PausedClock::start());
    harness.engine = Engine::new(harness.stacks.clone(), environment);
    let mut history = Vec::new();
    let mut seen = Coverage::default();
    if random.one_in(2) {
        seen.groups += start::populate(&harness, &random, extras.groups.as_ref(), &mut history).await;
    }
    for _ in 0..=random.below(3) {
        if let Some(groups) = extras.groups.as_ref().filter(|groups| groups.one_in(2)) {
            seen.groups += edit_groups(&harness, groups, &mut history).await;
        }
        let mut plan = Plan::draw(&random, &harness);
        history.push(format!("{plan:?}"));
        let how = faulty_run(&harness, &random, extras.hangs.as_ref(), &mut plan).await;
        history.push(how);
        check(&harness, &history)?;
        check_pending(&harness, &history)?;
    }
    seen.hangs = harness.cloud.hung();
    converge(&harness, &random, &mut history).await?;
    seen.points = harness.checker.lock().unwrap().points;
    Ok(seen)
}

/// Runs an operation with random faults, and returns a description of its end.
async fn faulty_run(harness: &Harness, random: &Random, hangs: Option<&Random>, plan: &mut Plan) -> String {
    plan.drift(harness, random);
    plan.call_plan(harness, random, hangs);
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
    // The remaining tasks of a killed run lose the lock, so they can't change the stored state any more.
    harness.free().await;
    ended
}

fn check(harness: &Harness, history: &[String]) -> Result<(), String> {
    let complaints = harness.complaints();
    match complaints.is_empty() {
        true => Ok(()),
        false => Err(format!("{complaints:#?}\n{}", history.join("\n"))),
    }
}

/// Checks that every call of the last run whose effect the engine can't know is pending.
fn check_pending(harness: &Harness, history: &[String]) -> Result<(), String> {
    let state = harness.state();
    let pending: BTreeSet<MutationId> = state.pending().map(|operation| operation.id).collect();
    let calls = harness.cloud.take_indeterminate();
    let settled: Vec<String> = calls
        .iter()
        .filter(|call| !pending.contains(call))
        .map(ToString::to_string)
        .collect();
    match settled.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "calls with unknown outcomes aren't pending: {settled:?}\n{}",
            history.join("\n")
        )),
    }
}

/// Runs without faults: an update that must match the program, a second update that must change nothing, and a destroy
/// that must leave nothing.
async fn converge(harness: &Harness, random: &Random, history: &mut Vec<String>) -> Result<(), String> {
    // The refresh settles pending operations. This may record protected entries, so the protection is removed after it.
    let settled = harness.run(Operation::Refresh, quiet(harness, random)).await;
    history.push(summary(&settled));
    unprotect(harness).await;
    let mut specs = draw::program(random);
    for spec in &mut specs {
        spec.protect = false;
    }
    history.push(format!("converge to {specs:#?}"));
    let run = quiet(harness, random);
    let report = harness.run(update(&specs), run).await;
    history.push(summary(&report));
    check(harness, history)?;
    let wrong = |what: String| Err(format!("{what}\n{}", history.join("\n")));
    if !report.succeeded() || !report.pending.is_empty() {
        return wrong(format!(
            "the update doesn't converge; recorded entries: {:#?}",
            harness.keys()
        ));
    }
    let recorded = (harness.state(), harness.open().await);
    let is_released = |id: &str| harness.checker.lock().unwrap().is_released(id);
    if let Err(difference) = compare_with_program(recorded, &harness.cloud, is_released, &specs) {
        return wrong(difference);
    }
    harness.cloud.forget_calls();
    let again = harness.run(update(&specs), harness.default_run()).await;
    if !again.succeeded() || again.has_changes() || !harness.cloud.calls().is_empty() {
        return wrong(format!("the next run makes changes: {}", summary(&again)));
    }
    let end = harness.run(Operation::Destroy, harness.default_run()).await;
    check(harness, history)?;
    if !end.succeeded() || !harness.keys().is_empty() {
        return wrong(format!(
            "the destroy is incomplete; recorded entries: {:?}\n{}",
            harness.keys(),
            summary(&end)
        ));
    }
    let checker = harness.checker.lock().unwrap();
    let things = harness.cloud.things();
    let left = things
        .iter()
        .find(|(id, thing)| !thing.foreign && !checker.is_released(id));
    match left {
        Some((id, _)) => wrong(format!("the destroy left the object {id}")),
        None => Ok(()),
    }
}

/// A short summary of a report.
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

/// Parameters of a run that reads all objects first, with a random number of parallel steps.
fn quiet(harness: &Harness, random: &Random) -> Run {
    let mut run = harness.default_run();
    // Objects that were deleted outside of the engine must be detected.
    run.options.refresh = true;
    run.options.parallel = 1 + random.below(4) as usize;
    run.interrupt = Interrupt::new();
    run
}

/// Unprotects all entries, as an operator would.
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

/// Checks that the state and the simulated cloud contain exactly the resources of the program, with the same inputs.
fn compare_with_program(
    (state, open): (Arc<State>, Snapshot),
    cloud: &SimulatedCloud,
    is_released: impl Fn(&str) -> bool,
    specs: &[Spec],
) -> Result<(), String> {
    let things = cloud.things();
    let wanted: BTreeSet<&str> = specs.iter().map(|spec| &*spec.name).collect();
    let mut held = BTreeSet::new();
    for entry in state.entries() {
        if !entry.is_live() || !wanted.contains(entry.address.as_str()) || entry.pending_replacement {
            return Err(format!("{} shouldn't be recorded", entry.key()));
        }
        held.extend(entry.id.clone());
    }
    for spec in specs {
        let id = |name: &str| {
            let key = EntryKey::live(name.parse().unwrap());
            state.entry(&key)?.id.clone()
        };
        let Some(own) = id(&spec.name) else {
            return Err(format!("{} isn't recorded", spec.name));
        };
        let Some(thing) = things.get(&own) else {
            return Err(format!("{own} of {} doesn't exist in the cloud", spec.name));
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
    let stray = things
        .iter()
        .find(|(id, thing)| !held.contains(*id) && !thing.foreign && !is_released(id));
    match stray {
        Some((id, thing)) => Err(format!("{id} of {} belongs to no entry", thing.address)),
        None => Ok(()),
    }
}
