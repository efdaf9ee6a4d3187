//! `cargo xtask nightly [PART...] [--minutes N] [--scale N] [--seed N]`: test runs that are too long for every change;
//! and `cargo xtask torture [--minutes N]`, which runs those parts that attack the protocol.
//!
//! A part is a row of the table in `nightly/parts.rs`. It repeats a test with another seed in each round, or runs it
//! once with its counts multiplied. Each run is appended to `docs/evidence/<date>-<commit>.md`, with commit, counts,
//! seeds, times and results.

mod evidence;
mod parts;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::mutants;
use crate::process::{Ended, Failure, cargo, now, probe, root, run_logged, target, tests_in};
use crate::steps;
use evidence::{Row, Verdict};
use parts::{PARTS, Part, Rounds, TORTURE, Tests, Work};

/// Limits and settings from the command line.
#[derive(Debug, PartialEq, Eq)]
struct Limits {
    parts: Vec<&'static Part>,
    minutes: Option<u64>,
    /// Replaces the number of rounds or the factor of every part.
    scale: Option<u32>,
    /// The seed of the first round of each part.
    seed: u64,
}

/// How long `cargo xtask torture` runs without `--minutes`.
const TORTURE_MINUTES: &str = "60";

/// `cargo xtask torture [--minutes N] [--seed N]`: the parts of `nightly` that attack the protocol, within a limit of time.
pub(crate) fn torture(args: &[&str]) -> Result<(), Failure> {
    let mut all = TORTURE.to_vec();
    // The last value of an option counts.
    all.extend(["--minutes", TORTURE_MINUTES]);
    all.extend(args);
    run(&all)
}

/// `cargo xtask nightly ...`
pub(crate) fn run(args: &[&str]) -> Result<(), Failure> {
    let seconds = seconds_since_epoch();
    // Use a different range of seeds each day, without overlap.
    let limits = parse(args, seconds / 86_400 * 10_000_000)?;
    let logs = target().join("nightly");
    create_folder(&logs)?;
    let start = now();
    let mut rows = Vec::new();
    for (index, part) in limits.parts.iter().enumerate() {
        println!("\n=== {}: {} ===", part.name, part.about);
        // The remaining time is shared by the remaining parts.
        let left = limits.minutes.map(|minutes| {
            let left = Duration::from_secs(minutes * 60).saturating_sub(now().duration_since(start));
            let parts = u32::try_from(limits.parts.len() - index).unwrap_or(u32::MAX);
            left / parts
        });
        let run = Run {
            part,
            limits: &limits,
            limit: left,
            start: now(),
            logs: &logs,
        };
        let row = run.row()?;
        println!("{}: {}", part.name, row.verdict);
        rows.push(row);
    }
    let path = evidence::append(&rows, seconds)?;
    println!("\nwritten to {}", path.display());
    let failed: Vec<&str> = rows
        .iter()
        .filter(|row| row.verdict.is_failure())
        .map(|row| row.part)
        .collect();
    if failed.is_empty() {
        return Ok(());
    }
    Err(Failure(format!("nightly parts failed: {}", failed.join(", "))))
}

/// Returns the names of the parts of `torture`.
pub(crate) fn torture_parts() -> String {
    TORTURE.join(", ")
}

/// Returns one line of help for each part.
pub(crate) fn help() -> String {
    let mut text = String::new();
    for part in PARTS {
        text += &format!("  {:<14}{}\n", part.name, part.about);
    }
    text
}

fn parse(args: &[&str], seed: u64) -> Result<Limits, Failure> {
    let mut limits = Limits {
        parts: Vec::new(),
        minutes: None,
        scale: None,
        seed,
    };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut number = || {
            let value = args.next().and_then(|value| value.parse::<u64>().ok());
            value.ok_or_else(|| Failure(format!("`{arg}` needs a whole number")))
        };
        match *arg {
            "--minutes" => limits.minutes = Some(number()?),
            "--scale" => {
                let scale = u32::try_from(number()?).ok().filter(|scale| *scale > 0);
                limits.scale = Some(scale.ok_or_else(|| Failure("`--scale` is at least 1".to_owned()))?);
            }
            "--seed" => limits.seed = number()?,
            name => {
                let part = PARTS.iter().find(|part| part.name == name);
                let part = part.ok_or_else(|| {
                    Failure(format!(
                        "there is no nightly part `{name}`; there are:\n{}",
                        help()
                    ))
                })?;
                limits.parts.push(part);
            }
        }
    }
    if limits.parts.is_empty() {
        limits.parts = PARTS.iter().collect();
    }
    Ok(limits)
}

/// The settings of the run of one part.
struct Run<'a> {
    part: &'static Part,
    limits: &'a Limits,
    /// The part's share of the time.
    limit: Option<Duration>,
    start: Instant,
    logs: &'a Path,
}

impl Run<'_> {
    fn row(&self) -> Result<Row, Failure> {
        let mut row = Row {
            part: self.part.name,
            about: self.part.about,
            done: String::new(),
            seeds: None,
            seconds: 0,
            verdict: Verdict::Passed,
        };
        match &self.part.work {
            Work::Rounds(rounds) => self.rounds(rounds, &mut row)?,
            Work::Scaled { tests, factor } => self.scaled(tests, *factor, &mut row)?,
            Work::Mutants => task("every mutant", mutants::run(&[]), &mut row),
            Work::Features => task("every combination", steps::features(), &mut row),
            Work::Fuzz { targets, executions } => self.fuzz(targets, *executions, &mut row)?,
        }
        row.seconds = self.elapsed().as_secs();
        Ok(row)
    }

    fn elapsed(&self) -> Duration {
        now().duration_since(self.start)
    }

    fn log(&self, name: &str) -> PathBuf {
        self.logs.join(format!("{name}.log"))
    }

    fn rounds(&self, rounds: &Rounds, row: &mut Row) -> Result<(), Failure> {
        let log = self.log(row.part);
        let first = self.limits.seed;
        let (mut done, mut seed) = (0, first);
        for round in 0..self.limits.scale.unwrap_or(rounds.rounds) {
            // Run at least one round, because a part without a run proves nothing.
            if round > 0 && self.limit.is_some_and(|limit| self.elapsed() > limit) {
                break;
            }
            let mut command = rounds.tests.command();
            command.env("STATE_TESTS_SEED", seed.to_string());
            row.verdict = verdict(run_logged(&mut command, &log, None)?, &log)?;
            seed += rounds.seeds_per_round;
            if row.verdict.is_failure() {
                break;
            }
            done += rounds.per_round;
        }
        row.done = format!("{done} {}", rounds.unit);
        row.seeds = Some((first, seed.saturating_sub(1)));
        Ok(())
    }

    fn scaled(&self, tests: &Tests, factor: u32, row: &mut Row) -> Result<(), Failure> {
        let factor = self.limits.scale.unwrap_or(factor);
        let log = self.log(row.part);
        let mut command = tests.command();
        command
            .env("STATE_TEST_SCALE", factor.to_string())
            // Properties that set no count of their own run 256 cases.
            .env("PROPTEST_CASES", factor.saturating_mul(256).to_string());
        row.verdict = verdict(run_logged(&mut command, &log, self.limit)?, &log)?;
        row.done = format!("{factor} times the counts of CI");
        Ok(())
    }

    /// Runs the fuzz targets, each with its share of the time. The inputs that a run finds stay in the folder of the logs, and
    /// the next run goes on with them.
    fn fuzz(&self, targets: &[&str], executions: u64, row: &mut Row) -> Result<(), Failure> {
        if probe(&mut cargo(["+nightly", "fuzz", "--version"])).is_none() {
            row.verdict = Verdict::Skipped("cargo-fuzz or the nightly toolchain is missing".to_owned());
            return Ok(());
        }
        let mut done = Vec::new();
        for target in targets {
            let log = self.log(&format!("{}-{target}", row.part));
            let found = self.logs.join("corpus").join(target);
            create_folder(&found)?;
            let mut command = cargo(["+nightly", "fuzz", "run", target]);
            command.arg(&found).arg(root().join("fuzz/corpus").join(target));
            command.args(["--", &format!("-runs={executions}")]);
            command.args(["-rss_limit_mb=2048", "-timeout=10", "-max_len=8192"]);
            if let Some(limit) = self.limit {
                let share = limit.as_secs() / targets.len().max(1) as u64;
                command.arg(format!("-max_total_time={}", share.max(1)));
            }
            let ended = run_logged(&mut command, &log, None)?;
            done.push(format!("{target} {}", executions_in(&read(&log)?)));
            if ended != Ended::Passed {
                row.verdict = Verdict::Failed(format!("{target}: see {}", log.display()));
                break;
            }
        }
        row.done = format!("executions: {}", done.join(", "));
        Ok(())
    }
}

fn create_folder(path: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(path).map_err(|error| Failure(format!("{}: {error}", path.display())))
}

/// Reads the output of a run. libFuzzer prints inputs, which aren't always UTF-8.
fn read(log: &Path) -> Result<String, Failure> {
    let bytes = std::fs::read(log).map_err(|error| Failure(format!("{}: {error}", log.display())))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Records the outcome of a command of `xtask` itself.
fn task(done: &str, outcome: Result<(), Failure>, row: &mut Row) {
    done.clone_into(&mut row.done);
    if let Err(failure) = outcome {
        row.verdict = Verdict::Failed(failure.0);
    }
}

/// Returns the number of executions that libFuzzer reports at its end.
fn executions_in(log: &str) -> u64 {
    let number = |line: &str| {
        line.strip_prefix("Done ")?
            .split_once(" runs in ")?
            .0
            .parse::<u64>()
            .ok()
    };
    log.lines().filter_map(number).sum()
}

/// A run without a test is a failure, because the filter of the part selects no test any more.
fn verdict(ended: Ended, log: &Path) -> Result<Verdict, Failure> {
    let text = read(log)?;
    Ok(match ended {
        Ended::Failed => Verdict::Failed(format!("see {}", log.display())),
        Ended::TimedOut => Verdict::CutShort,
        Ended::Passed if tests_in(&text) == 0 => Verdict::Failed("no test matches its filter".to_owned()),
        Ended::Passed => Verdict::Passed,
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "the date of the evidence needs the system's clock"
)]
fn seconds_since_epoch() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_limits_are_read_in_any_order() {
        let limits = parse(
            &["--minutes", "3", "laws", "--seed", "7", "kills", "--scale", "2"],
            0,
        )
        .expect("limits");
        let names: Vec<&str> = limits.parts.iter().map(|part| part.name).collect();
        assert_eq!(names, ["laws", "kills"]);
        assert_eq!((limits.minutes, limits.scale, limits.seed), (Some(3), Some(2), 7));
    }

    #[test]
    fn all_parts_run_unless_some_are_named() {
        let limits = parse(&[], 5).expect("limits");
        assert_eq!(limits.parts.len(), PARTS.len());
        assert_eq!((limits.minutes, limits.scale, limits.seed), (None, None, 5));
    }

    #[test]
    fn executions_of_a_fuzz_target_are_counted() {
        let log = "#2\tINITED cov: 3\nDone 1234 runs in 5 second(s)\nDone with it\n";
        assert_eq!(executions_in(log), 1234);
        assert_eq!(executions_in("ERROR: libFuzzer: deadly signal"), 0);
    }

    #[test]
    fn unknown_parts_and_missing_numbers_are_refused() {
        for args in [&["law"][..], &["--minutes"], &["--scale", "0"], &["--seed", "x"]] {
            assert!(parse(args, 0).is_err(), "{args:?}");
        }
    }
}
