//! The threads that share the runs of a test, and what they count.

use crate::block_on;
use state_core::Clock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of threads that share the runs of a test. Many runs wait for a lock or an answer until their time is over.
const THREADS: usize = 8;

/// The progress, counts and first failures of a test, shared by its threads.
#[derive(Default)]
pub(crate) struct Tally {
    /// Number of the next schedule to run.
    next: AtomicUsize,
    /// Number of schedules in which the attacker changed the store.
    effective: AtomicUsize,
    failures: Mutex<Vec<String>>,
}

impl Tally {
    /// Runs `count` schedules on all threads, and stops after more than 20 failures. `schedule` runs the schedule with
    /// a number. It returns whether the attacker changed the store, the broken rules, and a description of the
    /// schedule.
    pub(crate) fn run(
        &self,
        count: usize,
        schedule: impl AsyncFn(usize) -> (bool, Vec<String>, String) + Sync,
    ) {
        let worker = || {
            block_on(async {
                loop {
                    let number = self.next.fetch_add(1, Ordering::Relaxed);
                    if number >= count || self.failures().len() > 20 {
                        break;
                    }
                    let (is_effective, broken, context) = schedule(number).await;
                    self.effective
                        .fetch_add(usize::from(is_effective), Ordering::Relaxed);
                    for rule in broken {
                        self.failures()
                            .push(format!("schedule {number} ({context}): {rule}"));
                    }
                }
            });
        };
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(worker);
            }
        });
    }

    fn failures(&self) -> MutexGuard<'_, Vec<String>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[expect(
        clippy::print_stderr,
        reason = "the counts of a randomized test must be visible"
    )]
    pub(crate) fn report(&self, what: &str, count: usize, clock: &dyn Clock) {
        let micros = clock.elapsed().as_micros() / u128::try_from(count.max(1)).unwrap_or(1);
        let effective = self.effective.load(Ordering::Relaxed);
        eprintln!(
            "{what}: {count} schedules, {effective} with an effect, {micros} µs each on {THREADS} threads"
        );
        self.assert_no_failure();
        assert!(
            effective * 3 > count,
            "too few schedules have an effect: {effective} of {count}"
        );
    }

    pub(crate) fn assert_no_failure(&self) {
        let failures = self.failures();
        assert!(
            failures.is_empty(),
            "{} failures:\n{}",
            failures.len(),
            failures.join("\n")
        );
    }
}
