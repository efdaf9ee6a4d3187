//! Promise P1 (durable) on a simulated disk. Random scripts are crashed before any of their operations. A crash may lose any
//! part of the unsynced changes, but leaves every acknowledged frame, head, name and object, nothing incomplete, and a stack
//! that a new owner can use, also if that owner crashes, too.

#![expect(clippy::unwrap_used, reason = "a script that can't go on fails its test")]

use explore::Explored;
use progress::Phase;
use state_core::testkit::run::scaled;
use std::future::Future;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering};

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

/// Number of distinct states; `STATE_TEST_SCALE` multiplies it.
const STATES: u32 = 200_000;

/// Limit on the scripts for this number of states.
const SCRIPTS: u64 = 1_000;

/// Number of threads that share the scripts.
const THREADS: usize = 2;

/// Each phase has at least one in this number of the states.
const SHARE: usize = 1_000;

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(future)
}

/// Returns the first seed of this run of the test.
fn first_seed() -> u64 {
    let first = std::env::var("STATE_TESTS_SEED").ok();
    first.map_or(0, |first| first.parse().expect("STATE_TESTS_SEED is a number"))
}

fn explore(explored: &mut Explored, seed: u64) {
    if let Err(reason) = block_on(explored.script(seed, None)) {
        panic!("replay with STATE_TEST_SEED={seed}: {reason}");
    }
}

/// Explores scripts on several threads, until there are so many distinct states. Returns the number of scripts, too.
fn explore_all(states: usize) -> (u64, Explored) {
    let (first, next) = (first_seed(), AtomicU64::new(0));
    let mut all = Explored::default();
    let share = |mut explored: Explored| {
        while explored.count() < states {
            let script = next.fetch_add(1, Ordering::Relaxed);
            assert!(script < SCRIPTS, "only {} distinct states", explored.count());
            explore(&mut explored, first + script);
        }
        explored
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let explored = Explored::sharing(&all);
                scope.spawn(|| share(explored))
            })
            .collect();
        for thread in threads {
            all.add(thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
    });
    (next.into_inner(), all)
}

/// With `STATE_TEST_SEED=n`, runs one script only.
#[test]
fn no_crash_loses_acknowledged_operations() {
    if let Ok(seed) = std::env::var("STATE_TEST_SEED") {
        let mut explored = Explored::default();
        explore(&mut explored, seed.parse().unwrap());
        println!(
            "{} distinct states, by phase: {:?}",
            explored.count(),
            explored.phases
        );
        return;
    }
    let (scripts, explored) = explore_all(scaled(STATES) as usize);
    let (states, phases) = (explored.count(), &explored.phases);
    println!("{scripts} scripts, {states} distinct states, by phase: {phases:?}");
    for phase in Phase::ALL {
        let count = phases.get(&phase).copied().unwrap_or_default();
        assert!(
            count * SHARE >= states,
            "{phase:?}: only {count} of {states} states"
        );
    }
    assert!(explored.unsynced_reads as u64 > scripts, "readers always synced");
}

#[test]
fn ignored_syncs_are_found_within_100_states() {
    for seed in 0..20 {
        let mut explored = Explored::default();
        let outcome = block_on(explored.script(seed, Some(0)));
        let states = explored.count();
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
