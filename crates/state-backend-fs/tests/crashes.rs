//! Promise P1 (durable) on a simulated disk. Random scripts are crashed before any of their operations. A crash may lose any
//! part of the unsynced changes, but leaves every acknowledged frame, head, name and object, nothing incomplete, and a stack
//! that a new owner can use, also if that owner crashes, too.

#![expect(clippy::unwrap_used, reason = "a script that can't go on fails its test")]

use explore::Explored;
use progress::Phase;
use state_core::testkit::run::scaled;
use std::future::Future;
use std::panic::resume_unwind;

#[path = "crashes/check.rs"]
mod check;
#[path = "crashes/draw.rs"]
mod draw;
#[path = "crashes/explore.rs"]
mod explore;
#[path = "crashes/progress.rs"]
mod progress;
#[path = "crashes/script.rs"]
mod script;

/// Number of scripts; `STATE_TEST_SCALE` multiplies it.
const SCRIPTS: u32 = 100;

/// Number of distinct states that this number of scripts reaches.
const STATES: usize = 200_000;

/// Number of threads that share the scripts.
const THREADS: usize = 2;

/// Each phase has at least one in this number of the states.
const SHARE: usize = 200;

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(future)
}

/// Returns the first seed of this run of the test.
fn first_seed() -> u64 {
    let first = std::env::var("STATE_TESTS_SEED").ok();
    first.map_or(0, |first| first.parse().expect("STATE_TESTS_SEED is a number"))
}

/// Explores the scripts of these seeds.
fn explore(seeds: impl Iterator<Item = u64>) -> Explored {
    let mut explored = Explored::default();
    for seed in seeds {
        if let Err(reason) = block_on(explored.script(seed, None)) {
            panic!("replay with STATE_TEST_SEED={seed}: {reason}");
        }
    }
    explored
}

/// With `STATE_TEST_SEED=n`, runs one script only.
#[test]
fn no_crash_loses_acknowledged_operations() {
    if let Ok(seed) = std::env::var("STATE_TEST_SEED") {
        let explored = explore(std::iter::once(seed.parse().unwrap()));
        println!("{} distinct states: {:?}", explored.states.len(), explored.phases);
        return;
    }
    let (scripts, first) = (scaled(SCRIPTS) as usize, first_seed());
    let share = |thread: usize| explore((thread..scripts).step_by(THREADS).map(|seed| first + seed as u64));
    let mut explored = Explored::default();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(move || share(thread)))
            .collect();
        for thread in threads {
            explored.add(thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
    });
    let (states, phases) = (explored.states.len(), &explored.phases);
    println!("{scripts} scripts, {states} distinct states, by phase: {phases:?}");
    assert!(
        states >= STATES * scripts / SCRIPTS as usize,
        "only {states} distinct states"
    );
    for phase in Phase::ALL {
        let count = phases.get(&phase).copied().unwrap_or_default();
        assert!(
            count * SHARE >= states,
            "{phase:?}: only {count} of {states} states"
        );
    }
    assert!(explored.unsynced_reads > scripts, "readers always synced");
}

#[test]
fn ignored_syncs_are_found_within_100_states() {
    for seed in 0..20 {
        let mut explored = Explored::default();
        let outcome = block_on(explored.script(seed, Some(0)));
        let states = explored.states.len();
        let reason = outcome.expect_err("without syncs, a crash loses something");
        println!("without syncs in script {seed}, state {states} fails: {reason}");
        assert!(
            states <= 100,
            "script {seed}: {states} states were checked before one failed"
        );
        // Whichever operation comes first.
        let later = usize::try_from(1 + seed % 8).unwrap();
        let outcome = block_on(Explored::default().script(seed, Some(later)));
        assert!(
            outcome.is_err(),
            "script {seed}: nothing is lost from step {later} on"
        );
    }
}
