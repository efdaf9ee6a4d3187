//! Runs `statectl` as a process while an attacker forges objects of the store between two of its requests, as the
//! in-process tests in `crates/state-manager/tests/hostile` do. Schedules are random: one or two forgeries of the
//! catalogue, a command, and a client with memory, with expected keys, or with neither. The judge compares all that the
//! program prints, writes and remembers with honest runs.
//!
//! The seed of a schedule doesn't decide the order of requests that the program sends at the same time, so a failure may
//! need several replays.

mod answers;
mod commands;
mod evidence;
mod exits;
mod judge;
mod memory;
mod next_reader;
mod planted;
mod scenario;
mod server;
mod trusting;

use crate::store::environment;
use commands::Command;
use judge::Judge;
use scenario::{Client, Scenario, without_peak};
use state_core::Entropy;
use state_core::testkit::clock::SeededEntropy;
use state_core::testkit::hostile::forgeries::choose;
use state_core::testkit::hostile::schedule::{pair, plan};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Number of schedules in one run of the test; `STATE_TEST_SCALE` multiplies it.
const SCHEDULES: u32 = 60;

/// Number of threads that share the schedules.
const THREADS: usize = 2;

/// Runs the schedule of a seed. Returns whether the attacker changed the store, and a description of each broken rule.
fn attempt(scenario: &Scenario, judge: &Judge, seed: u64) -> (bool, Vec<String>) {
    let bits = SeededEntropy::new(seed).bits();
    let command = Command::ALL[usize::from(bits[0]) % Command::ALL.len()];
    let client = Client::ALL[usize::from(bits[1]) % Client::ALL.len()];
    let requests = judge.requests(scenario, command, client);
    let mut chosen = pair(seed, &requests);
    // One schedule in four has a single forgery.
    if bits[2].is_multiple_of(4) {
        chosen.truncate(1);
    }
    let last = scenario.stages.len() - 1;
    let run = scenario.run(last, command, client, plan(&chosen, &scenario.catalogue));
    if run.edits == 0 {
        return (false, Vec::new());
    }
    let broken = judge.judge(scenario, command, client, &run);
    let short = |object: &str| object.replace(&format!("stacks/{}/", scenario.lineage), "");
    let described = |(at, choice): &(usize, u64)| {
        // The run may have sent other requests than the honest one.
        let request = run.requests.get(*at).unwrap_or(&requests[*at]);
        let entry = choose(&scenario.catalogue, *choice, &request.object);
        let name = entry.map_or("nothing", |entry| entry.name.as_str());
        format!("{name} at {at} ({:?} {})", request.verb, short(&request.object))
    };
    let forgeries: Vec<_> = chosen.iter().map(described).collect();
    let describe = |rule: String| {
        format!(
            "seed {seed}: {command:?}, {client:?}, {}: {rule}\n  exit code {:?}, stdout: {}\n  stderr: {}\n  \
             requests: {:?}\n  replay with STATE_TESTS_SEED={seed}",
            forgeries.join(" and "),
            run.code,
            run.stdout.trim_end(),
            without_peak(&run.stderr),
            run.requests
                .iter()
                .map(|request| format!("{:?} {}", request.verb, short(&request.object)))
                .collect::<Vec<_>>(),
        )
    };
    (true, broken.into_iter().map(describe).collect())
}

#[test]
fn binary_accepts_no_forged_object_between_two_requests() {
    let seed = std::env::var("STATE_TESTS_SEED").ok();
    let first: u64 = seed.and_then(|text| text.parse().ok()).unwrap_or(15);
    let count = state_core::testkit::run::scaled(SCHEDULES) as usize;
    let clock = environment().clock;
    let scenario = Scenario::build();
    let judge = Judge::new(&scenario);
    let (next, effective) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let failures = Mutex::new(Vec::new());
    let failed = || failures.lock().unwrap_or_else(PoisonError::into_inner);
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count || failed().len() > 20 {
                break;
            }
            let (is_effective, broken) = attempt(&scenario, &judge, first + number as u64);
            effective.fetch_add(usize::from(is_effective), Ordering::Relaxed);
            failed().extend(broken);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(work);
        }
    });
    let effective = effective.load(Ordering::Relaxed);
    let unprotected = judge.unprotected.load(Ordering::Relaxed);
    eprintln!(
        "{count} schedules of the binary, {effective} with an effect, {unprotected} beyond the protection of a client \
         without memory, {:?}; replay with STATE_TESTS_SEED={first}",
        clock.elapsed()
    );
    let failures = failed();
    assert!(
        failures.is_empty(),
        "{} failures:\n{}",
        failures.len(),
        failures.join("\n")
    );
    assert!(
        effective * 2 > count,
        "too few schedules have an effect: {effective} of {count}"
    );
}
