//! Processes on one stack in files, interleaved at any call of the file system: they take and break the lock, append,
//! change and close the head, rename, read and crash. Their histories of heads, names, epochs and frames are linearizable.

#![expect(clippy::unwrap_used, reason = "a process that can't go on fails its test")]

#[path = "../../state-backend-object-store/tests/objects/history.rs"]
mod history;
#[path = "histories/process.rs"]
mod process;
#[path = "histories/turns.rs"]
mod turns;

use process::{Observations, Process, name};
use state_backend_fs::testkit::SimulatedFs;
use state_core::backend::{NamePointer, NameTarget};
use state_core::testkit::clock::SeededEntropy;
use state_core::testkit::run::scaled;
use state_core::{Backend, Head, Lineage, Nonce};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use turns::Turns;

/// Number of runs; `STATE_TEST_SCALE` multiplies it.
const RUNS: u32 = 300;

/// Number of processes of a run.
const PROCESSES: usize = 4;

/// Number of operations of each process.
const STEPS: usize = 25;

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(future)
}

/// Returns the first seed of this run of the test.
fn first_seed() -> u64 {
    let first = std::env::var("STATE_TESTS_SEED").ok();
    first.map_or(0, |first| first.parse().expect("STATE_TESTS_SEED is a number"))
}

/// Creates a stack and its name on a new machine.
async fn found(machine: &SimulatedFs, entropy: &SeededEntropy) -> (Lineage, Observations) {
    let store = machine.create("/store").unwrap();
    let lineage = Lineage::random(entropy);
    let head = Head::new(lineage, name(), Nonce::random(entropy));
    store.create_stack(&head).await.unwrap();
    let pointer = NamePointer::new(name(), NameTarget::Lineage(lineage), Nonce::random(entropy));
    store.swap_name(&name(), None, &pointer).await.unwrap();
    (lineage, Observations::new(&head, &pointer))
}

/// Runs one seed. Returns the number of acknowledged frames, of taken locks, and of switches between processes.
fn run(seed: u64) -> [usize; 3] {
    let machine = SimulatedFs::new();
    let (lineage, observations) = block_on(found(&machine, &SeededEntropy::new(!seed)));
    let (observations, turns) = (Arc::new(observations), Arc::new(Turns::new(seed, PROCESSES)));
    let process = |number: usize| {
        let seed = seed.wrapping_mul(1_000).wrapping_add(number as u64);
        Process::new(number, seed, &machine, lineage, &turns, &observations)
    };
    std::thread::scope(|scope| {
        for number in 0..PROCESSES {
            let (mut process, turns) = (process(number), &turns);
            scope.spawn(move || {
                let running = turns.begin(number);
                block_on(async {
                    for _ in 0..STEPS {
                        process.step().await;
                    }
                });
                drop(process);
                drop(running);
            });
        }
    });
    block_on(process(PROCESSES).finish());
    observations.judge();
    let [frames, locks] = observations.counts();
    [frames, locks, turns.switches()]
}

#[test]
fn histories_of_processes_on_files_are_linearizable() {
    let (first, runs) = (first_seed(), u64::from(scaled(RUNS)));
    let mut total = [0; 3];
    for seed in first..first + runs {
        let counts = catch_unwind(AssertUnwindSafe(|| run(seed))).unwrap_or_else(|panic| {
            eprintln!("replay with STATE_TESTS_SEED={seed}");
            resume_unwind(panic)
        });
        total = [0, 1, 2].map(|at| total[at] + counts[at]);
    }
    let [frames, locks, switches] = total;
    eprintln!("{runs} runs: {frames} frames, {locks} locks, {switches} switches between processes");
    let runs = usize::try_from(runs).unwrap();
    assert!(
        frames > 5 * runs && locks > 3 * runs && switches > 50 * runs,
        "{total:?}"
    );
}
