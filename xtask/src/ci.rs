//! `cargo xtask ci`: every check in order, up to the first failure, and how long each one took.

use std::time::{Duration, Instant};

use crate::process::Failure;
use crate::{cargo_steps, deny, layers, shape};

/// A check that also runs alone: `cargo xtask <name>`.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    about: &'static str,
    pub(crate) run: fn() -> Result<(), Failure>,
}

/// In order: cheap and telling first, tests last.
pub(crate) static STEPS: [Step; 8] = [
    Step {
        name: "fmt",
        about: "the code is formatted",
        run: cargo_steps::fmt,
    },
    Step {
        name: "shape",
        about: "files say what they are for, are short, well named and not too deep",
        run: shape::check,
    },
    Step {
        name: "clippy",
        about: "no lint fires, with all features",
        run: cargo_steps::clippy,
    },
    Step {
        name: "doc",
        about: "the documentation builds without a warning",
        run: cargo_steps::doc,
    },
    Step {
        name: "layers",
        about: "crates depend only on what their layer may use",
        run: layers::check,
    },
    Step {
        name: "deny",
        about: "licences, banned crates and sources",
        run: deny::check,
    },
    Step {
        name: "features",
        about: "crates build without their features",
        run: cargo_steps::features,
    },
    Step {
        name: "test",
        about: "every test of the workspace, with object stores on loopback",
        run: cargo_steps::test,
    },
];

pub(crate) fn find(name: &str) -> Option<&'static Step> {
    STEPS.iter().find(|step| step.name == name)
}

pub(crate) fn help() -> String {
    let mut text = String::from("Usage: cargo xtask <task>\n\nTasks:\n");
    let ci = ("ci", "all of the following, in order, up to the first failure");
    for (name, about) in std::iter::once(ci).chain(STEPS.iter().map(|step| (step.name, step.about))) {
        text += &format!("  {name:<10}{about}\n");
    }
    text += "\nAnd `cargo xtask servers start|stop|status [NAME...]`: object stores on loopback that tests talk to.\n";
    text
}

/// Runs the steps up to the first failure, and prints the summary in either case.
pub(crate) fn run(steps: &[Step]) -> Result<(), Failure> {
    let mut timings = Vec::new();
    let mut outcome = Ok(());
    for step in steps {
        println!("\n=== {}: {} ===", step.name, step.about);
        let start = now();
        outcome = (step.run)().map_err(|failure| Failure(format!("step `{}`: {failure}", step.name)));
        timings.push((step.name, now().duration_since(start), outcome.is_ok()));
        if outcome.is_err() {
            break;
        }
    }
    print!("{}", summary(&timings, steps.len()));
    outcome
}

fn summary(timings: &[(&str, Duration, bool)], steps: usize) -> String {
    let mut text = String::from("\n=== summary ===\n");
    for (name, took, passed) in timings {
        let verdict = if *passed { "ok" } else { "FAILED" };
        text += &format!("  {name:<10}{:>8.1} s  {verdict}\n", took.as_secs_f64());
    }
    let total: Duration = timings.iter().map(|(_, took, _)| *took).sum();
    text += &format!("  {:<10}{:>8.1} s\n", "total", total.as_secs_f64());
    if timings.len() < steps {
        text += &format!("  {} of {steps} steps did not run\n", steps - timings.len());
    }
    text
}

#[expect(
    clippy::disallowed_methods,
    reason = "the edge of the tool: how long a step took, for the eye only"
)]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSES: Step = Step {
        name: "good",
        about: "",
        run: || Ok(()),
    };
    const FAILS: Step = Step {
        name: "bad",
        about: "",
        run: || Err(Failure("broken".to_owned())),
    };
    const NEVER: Step = Step {
        name: "never",
        about: "",
        run: || panic!("a step after the first failure ran"),
    };

    #[test]
    fn ci_stops_at_the_first_failure_and_names_its_step() {
        assert_eq!(
            run(&[PASSES, FAILS, NEVER]),
            Err(Failure("step `bad`: broken".to_owned()))
        );
        assert_eq!(run(&[PASSES, PASSES]), Ok(()));
    }

    #[test]
    fn the_summary_shows_each_time_the_failure_and_what_did_not_run() {
        let timings = [
            ("fmt", Duration::from_millis(1500), true),
            ("doc", Duration::from_secs(62), false),
        ];
        let text = summary(&timings, 3);
        for part in [
            "fmt            1.5 s  ok",
            "doc           62.0 s  FAILED",
            "total         63.5 s",
            "1 of 3 steps",
        ] {
            assert!(text.contains(part), "{part:?} is missing in {text}");
        }
    }

    #[test]
    fn help_names_every_task() {
        for step in &STEPS {
            assert!(
                help().contains(&format!("\n  {} ", step.name)),
                "{} is missing",
                step.name
            );
        }
        assert!(help().contains("\n  ci "));
    }
}
