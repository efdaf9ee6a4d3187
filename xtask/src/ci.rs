//! `cargo xtask ci`: every check in order, up to the first failure, each within a budget of time.
//!
//! A budget is in seconds, on two cores, with an empty target folder and all dependencies downloaded. The first step
//! that needs a dependency pays for building it: `clippy` for its metadata, `test` for its code. With a warm target
//! folder a run takes about half of the time. Machines differ, and one machine differs between runs: whole runs of
//! neighbouring commits took 28 to 55 minutes, and on the slowest machine seen the build of the tests alone took 19 instead of 10.
//! A budget is above the slowest time seen, so that it catches a step that hangs or has grown, and doesn't fail a run because
//! of a slow machine. A step that exceeds its budget fails the run after the remaining
//! steps have run. Then make the step faster, or move its slow part to `cargo xtask nightly`.

use std::time::Duration;

use crate::process::{Failure, now};
use crate::skips::SkipPolicy;
use crate::{docs, layers, shape, steps};

/// Upper limit of the sum of all budgets. The service that runs `.ci/run` stops it after 90 minutes, and on a bare machine
/// the tools are installed first.
#[cfg(test)]
const LIMIT: Duration = Duration::from_secs(80 * 60);

/// A check, which can also be run alone: `cargo xtask <name>`.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    about: &'static str,
    /// The budget in seconds.
    budget: u64,
    run: fn(SkipPolicy) -> Result<(), Failure>,
}

/// All steps in order: cheap checks with short messages first, tests last.
pub(crate) static STEPS: [Step; 9] = [
    Step {
        name: "fmt",
        about: "the code is formatted",
        budget: 10,
        run: |_| steps::fmt(),
    },
    Step {
        name: "shape",
        about: "files have module docs, are short, well named, not nested deeply, and in no large import cycle",
        budget: 10,
        run: |_| shape::check(),
    },
    Step {
        name: "docs",
        about: "links of the documentation resolve, and the book builds",
        budget: 10,
        run: |_| docs::check(),
    },
    Step {
        name: "clippy",
        about: "no lint fires, with all features",
        budget: 420,
        run: |_| steps::clippy(),
    },
    Step {
        name: "doc",
        about: "the documentation builds without a warning",
        budget: 150,
        run: |_| steps::doc(),
    },
    Step {
        name: "layers",
        about: "crates depend only on crates that their layer allows",
        budget: 10,
        run: |_| layers::check(),
    },
    Step {
        name: "deny",
        about: "licences, banned crates, sources, and known vulnerabilities if a database can be had",
        budget: 60,
        run: |_| steps::deny(),
    },
    Step {
        name: "features",
        about: "some crates build alone with some of their features; the commit decides which",
        budget: 200,
        run: |_| steps::some_features(),
    },
    Step {
        name: "test",
        about: "every test of the workspace, with object stores on loopback",
        budget: 3_600,
        run: steps::test,
    },
];

/// Runs the step with this name alone, without checking its budget. Returns `None` if there is no such step.
pub(crate) fn run_one(name: &str, policy: SkipPolicy) -> Option<Result<(), Failure>> {
    let step = STEPS.iter().find(|step| step.name == name)?;
    Some((step.run)(policy))
}

/// Returns one line of help for each step.
pub(crate) fn help() -> String {
    let mut text = String::new();
    for step in &STEPS {
        text += &format!("  {:<10}{}\n", step.name, step.about);
    }
    text
}

/// Runs the steps up to the first failure, and prints the summary in any case.
pub(crate) fn run(steps: &[Step], policy: SkipPolicy) -> Result<(), Failure> {
    let mut timings = Vec::new();
    let mut outcome = Ok(());
    for step in steps {
        println!("\n=== {}: {} ===", step.name, step.about);
        let start = now();
        outcome = (step.run)(policy).map_err(|failure| Failure(format!("step `{}`: {failure}", step.name)));
        timings.push(Timing {
            name: step.name,
            took: now().duration_since(start),
            budget: Duration::from_secs(step.budget),
            passed: outcome.is_ok(),
        });
        if outcome.is_err() {
            break;
        }
    }
    print!("{}", summary(&timings, steps.len()));
    outcome.and_then(|()| within_budgets(&timings))
}

/// The duration of a step, and whether it passed.
struct Timing {
    name: &'static str,
    took: Duration,
    budget: Duration,
    passed: bool,
}

impl Timing {
    fn exceeds_budget(&self) -> bool {
        self.took > self.budget
    }
}

fn within_budgets(timings: &[Timing]) -> Result<(), Failure> {
    let slow: Vec<String> = timings
        .iter()
        .filter(|timing| timing.exceeds_budget())
        .map(|timing| {
            format!(
                "`{}` took {:.0} s of {} s",
                timing.name,
                timing.took.as_secs_f64(),
                timing.budget.as_secs()
            )
        })
        .collect();
    if slow.is_empty() {
        return Ok(());
    }
    Err(Failure(format!(
        "steps exceeded their budgets: {} (the table is in xtask/src/ci.rs)",
        slow.join(", ")
    )))
}

fn summary(timings: &[Timing], steps: usize) -> String {
    let mut text = String::from("\n=== summary ===\n");
    for timing in timings {
        let verdict = match (timing.passed, timing.exceeds_budget()) {
            (false, _) => "FAILED",
            (true, true) => "TOO SLOW",
            (true, false) => "ok",
        };
        text += &format!(
            "  {:<10}{:>8.1} s of {:>5} s  {verdict}\n",
            timing.name,
            timing.took.as_secs_f64(),
            timing.budget.as_secs()
        );
    }
    let total: Duration = timings.iter().map(|timing| timing.took).sum();
    let budget: Duration = timings.iter().map(|timing| timing.budget).sum();
    text += &format!(
        "  {:<10}{:>8.1} s of {:>5} s\n",
        "total",
        total.as_secs_f64(),
        budget.as_secs()
    );
    if timings.len() < steps {
        text += &format!("  {} of {steps} steps did not run\n", steps - timings.len());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSES: Step = Step {
        name: "good",
        about: "",
        budget: 60,
        run: |_| Ok(()),
    };
    const FAILS: Step = Step {
        name: "bad",
        run: |_| Err(Failure("broken".to_owned())),
        ..PASSES
    };
    const NEVER: Step = Step {
        name: "never",
        run: |_| panic!("a step after the first failure ran"),
        ..PASSES
    };
    const SLOW: Step = Step {
        name: "slow",
        budget: 0,
        ..PASSES
    };

    fn run_all(steps: &[Step]) -> Result<(), Failure> {
        run(steps, SkipPolicy::Refuse)
    }

    #[test]
    fn ci_stops_at_the_first_failure_and_names_its_step() {
        assert_eq!(
            run_all(&[PASSES, FAILS, NEVER]),
            Err(Failure("step `bad`: broken".to_owned()))
        );
        assert_eq!(run_all(&[PASSES, PASSES]), Ok(()));
    }

    #[test]
    fn slow_step_fails_the_run_after_the_remaining_steps() {
        let failure = run_all(&[SLOW, PASSES]).expect_err("it is too slow");
        assert!(failure.0.contains("`slow` took 0 s of 0 s"), "{failure}");
        let failure = run_all(&[SLOW, FAILS]).expect_err("it is broken");
        assert!(failure.0.contains("broken"), "{failure}");
    }

    #[test]
    fn budgets_leave_time_before_a_run_is_stopped() {
        let total: u64 = STEPS.iter().map(|step| step.budget).sum();
        assert!(Duration::from_secs(total) <= LIMIT, "{total} s");
    }

    #[test]
    fn summary_shows_times_budgets_failure_and_skipped_steps() {
        let timing = |name, took, passed| Timing {
            name,
            took,
            budget: Duration::from_secs(60),
            passed,
        };
        let timings = [
            timing("fmt", Duration::from_millis(1500), true),
            timing("clippy", Duration::from_secs(61), true),
            timing("doc", Duration::from_secs(62), false),
        ];
        let text = summary(&timings, 4);
        for part in [
            "fmt            1.5 s of    60 s  ok",
            "clippy        61.0 s of    60 s  TOO SLOW",
            "doc           62.0 s of    60 s  FAILED",
            "total        124.5 s of   180 s",
            "1 of 4 steps",
        ] {
            assert!(text.contains(part), "{part:?} is missing in {text}");
        }
    }

    #[test]
    fn help_names_every_step() {
        for step in &STEPS {
            assert!(
                help().contains(&format!("  {} ", step.name)),
                "{} is missing",
                step.name
            );
        }
    }
}
