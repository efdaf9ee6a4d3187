//! Lifecycles in a process that is killed with SIGKILL at random moments: on a store of files, with objects in files.
//! The invariants of the other lifecycles must hold after each kill, and the next run must converge.

use super::compare_with_program;
use super::draw::{Random, call_plan, program};
use crate::checker::DurabilityChecker;
use crate::cloud::SimulatedCloud;
use crate::program::{Spec, update};
use state_backend_fs::FsBackend;
use state_core::head::SealingPolicy;
use state_core::testkit::clock::SeededEntropy;
use state_core::testkit::run::scaled;
use state_core::{MemoryBackend, StackName};
use state_engine::{Engine, Operation, Report, Run};
use state_manager::{Actor, Environment, Stack, Stacks};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// Number of kills, before scaling.
const KILLS: u32 = 45;
/// Variables of the child process: the folder with the store and the objects, and the seed of its lifecycle.
const FOLDER: &str = "STATE_ENGINE_KILLED_IN";
const LIFECYCLE: &str = "STATE_ENGINE_KILLED_SEED";
/// Line that the child process prints before each run.
const RUNS: &str = "a run begins";

/// A stack in a store of files, the objects, and an engine.
struct Place {
    cloud: SimulatedCloud,
    engine: Engine,
    name: StackName,
    stack: Stack,
}

impl Place {
    async fn open(folder: &Path, seed: u64) -> Self {
        let store = folder.join("store");
        let backend = match FsBackend::exists(&store).unwrap() {
            true => FsBackend::open(&store),
            false => FsBackend::create(&store),
        };
        let environment = Environment {
            entropy: Arc::new(SeededEntropy::new(seed)),
            ..Environment::system(Actor::default())
        };
        let stacks = Stacks::new(Arc::new(backend.unwrap()), environment.clone());
        let name: StackName = "shop/production".parse().unwrap();
        let stack = match stacks.get(&name).await.unwrap() {
            Some(stack) => stack,
            None => stacks
                .new_stack_with(&name, SealingPolicy::Plaintext)
                .await
                .unwrap(),
        };
        Self {
            cloud: SimulatedCloud::in_folder(&folder.join("cloud")),
            engine: Engine::new(stacks, environment),
            name,
            stack,
        }
    }

    async fn run(&self, operation: Operation, random: &Random) -> Report {
        let mut run = Run::new(self.cloud.registry());
        run.options.parallel = 1 + random.index(4);
        run.options.refresh = random.one_in(3);
        run.options.continue_on_error = random.one_in(2);
        self.engine.run(&self.name, operation, run).await.unwrap()
    }
}

/// A random program whose resources the engine may delete.
fn deletable_program(random: &Random) -> Vec<Spec> {
    let mut specs = program(random);
    for spec in &mut specs {
        (spec.protect, spec.retain) = (false, false);
    }
    specs
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap().block_on(future)
}

/// Runs random operations until the process is killed.
#[test]
#[ignore = "run by `killed_runs_lose_nothing_and_converge`, in a process of its own"]
fn lifecycle_runs_until_it_is_killed() {
    let (Ok(folder), Ok(seed)) = (std::env::var(FOLDER), std::env::var(LIFECYCLE)) else {
        return;
    };
    super::silence();
    let seed = seed.parse().unwrap();
    block_on(async {
        let place = Place::open(Path::new(&folder), seed).await;
        let random = Random::new(seed);
        loop {
            let operation = match random.below(6) {
                0 => Operation::Refresh,
                1 => Operation::Destroy,
                _ => update(&deletable_program(&random)),
            };
            let (modes, wrong) = (random.clone(), [None, Some(8)][random.index(2)]);
            let cloud = &place.cloud;
            cloud.set_modes(move |_, _| call_plan(&modes, wrong));
            println!("\n{RUNS}");
            place.run(operation, &random).await;
        }
    });
}

/// Starts the child process, and kills it at a random moment of one of its first runs.
fn run_and_kill(folder: &Path, random: &Random) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let name = "lifecycle::killed::lifecycle_runs_until_it_is_killed";
    let mut child: Child = command
        .args(["--exact", name, "--ignored", "--nocapture"])
        .env(FOLDER, folder)
        .env(LIFECYCLE, random.below(u64::MAX).to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let begins = lines.map_while(Result::ok).filter(|line| line == RUNS);
    let runs = 1 + random.index(3);
    assert_eq!(
        begins.take(runs).count(),
        runs,
        "the child process ended by itself"
    );
    std::thread::sleep(Duration::from_micros(random.below(60_000)));
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Checks the state after a kill. Returns whether a provider call was cut short.
async fn check(folder: &Path, seed: u64, replay: &str) -> bool {
    let place = Place::open(folder, seed).await;
    let cut_short = place.cloud.calls_cut_short();
    let state = place.stack.tip().await.unwrap().state;
    for call in &cut_short {
        let mut pending = state.pending().map(|operation| operation.id.to_string());
        assert!(
            pending.any(|id| id == *call),
            "the call {call} isn't pending; {replay}"
        );
    }
    let mut checker = DurabilityChecker::new(
        MemoryBackend::default(),
        place.stack.lineage(),
        place.cloud.clone(),
    );
    checker.check_state(&state);
    assert_eq!(checker.complaints, Vec::<String>::new(), "{replay}");
    !cut_short.is_empty()
}

/// Runs without faults: an update that must match its program, a second update that must change nothing, and a destroy
/// that must leave nothing.
async fn converge(folder: &Path, random: &Random, replay: &str) {
    let place = Place::open(folder, random.below(u64::MAX)).await;
    let specs = deletable_program(random);
    let mut run = Run::new(place.cloud.registry());
    // An object in a container that was deleted halfway is missing.
    run.options.refresh = true;
    let report = place.engine.run(&place.name, update(&specs), run).await.unwrap();
    assert!(
        report.succeeded() && report.pending.is_empty(),
        "{report:?}; {replay}"
    );
    let state = place.stack.tip().await.unwrap().state;
    let open = place.stack.current().await.unwrap();
    let compared = compare_with_program((state, open), &place.cloud, |_| false, &specs);
    assert_eq!(compared, Ok(()), "{specs:#?}; {replay}");
    place.cloud.forget_calls();
    let again = place.run(update(&specs), random).await;
    assert!(again.succeeded() && !again.has_changes(), "{again:?}; {replay}");
    assert_eq!(place.cloud.calls(), Vec::<String>::new(), "{replay}");
    let end = place.run(Operation::Destroy, random).await;
    assert!(end.succeeded(), "{end:?}; {replay}");
    let state = place.stack.tip().await.unwrap().state;
    assert_eq!(state.entries().count(), 0, "{replay}");
    assert!(
        place.cloud.things().is_empty(),
        "{:?}; {replay}",
        place.cloud.things()
    );
}

#[test]
fn killed_runs_lose_nothing_and_converge() {
    let seed = super::number(super::SEED).unwrap_or(5);
    let replay = format!("replay with {}={seed}", super::SEED);
    let random = Random::new(seed);
    let kills = u64::from(scaled(KILLS));
    let (mut killed, mut lifecycles, mut in_calls) = (0, 0, 0);
    while killed < kills {
        let folder = tempfile::tempdir().unwrap();
        block_on(Place::open(folder.path(), random.below(u64::MAX)));
        lifecycles += 1;
        for _ in 0..=random.below(3) {
            run_and_kill(folder.path(), &random);
            killed += 1;
            let replay = format!("kill {killed}, {replay}");
            in_calls += u64::from(block_on(check(folder.path(), random.below(u64::MAX), &replay)));
            // The next process finds the calls of this process only.
            drop(std::fs::remove_dir_all(folder.path().join("cloud/calls")));
        }
        block_on(converge(
            folder.path(),
            &random,
            &format!("kill {killed}, {replay}"),
        ));
    }
    eprintln!("{killed} kills in {lifecycles} lifecycles, {in_calls} of them in a provider call");
    assert!(
        in_calls * 20 >= killed,
        "only {in_calls} of {killed} kills hit a call; {replay}"
    );
}
