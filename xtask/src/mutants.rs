//! `cargo xtask mutants [NAME...] [--sample N] [--unjudged]`: checks that the tests detect deliberate bugs.
//!
//! A mutant is a patch `tests/mutants/<crate>/<name>.patch` (the format is in `tests/mutants/README.md`). It is applied
//! in a copy of the tree with its own target folder, never in the developer's tree. The tests of the package that its
//! header names must pass without the patch, and fail with the patch. A patch that no longer applies or compiles proves
//! nothing, and fails the run like an undetected bug. The tree is copied once, and patches with the same tests share
//! their run without a patch.

mod patch;
mod scratch;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::process::{Ended, Failure, root, run_logged, seed_of_commit, tests_in};
use patch::{Mutant, Tests};
use scratch::Scratch;

/// Time limit of a test run. A test that hangs because of a bug counts as failed; the slowest tests take far less.
const LIMIT: Duration = Duration::from_secs(600);

/// Tests that take minutes. A patched package without a filter runs them only if all its other tests pass.
const SLOW: [&str; 3] = [
    "no_single_forgery_is_signed_shown_or_remembered",
    "no_pair_of_forgeries_is_signed_shown_or_remembered",
    "processes_on_one_stack_lose_nothing_and_get_on",
];

/// Value of `STATE_TEST_PAIRS`: the number of random pairs of forgeries that `crates/state-manager/tests/hostile`
/// tries. This number must suffice to detect the bugs in the first table under "Forgeries" of
/// `tests/mutants/README.md`.
const PAIRS: &str = "5000";

/// `cargo xtask mutants ...`
pub(crate) fn run(args: &[&str]) -> Result<(), Failure> {
    let mutants = Mutant::all(&root())?;
    let chosen = choose(&mutants, args, seed_of_commit)?;
    judge(&chosen)
}

/// Runs these mutants and prints the verdict on each.
fn judge(mutants: &[&Mutant]) -> Result<(), Failure> {
    let scratch = Scratch::open()?;
    scratch.copy_tree()?;
    let mut sound = BTreeSet::new();
    let mut survivors = Vec::new();
    for mutant in mutants {
        let verdict = verdict(mutant, &scratch, &mut sound)
            .map_err(|failure| Failure(format!("mutant {}: {failure}", mutant.name)))?;
        println!("{} {}: {}", verdict.word(), mutant.name, mutant.bug);
        match verdict {
            Verdict::Caught(tests) => tests.iter().for_each(|test| println!("    by {test}")),
            Verdict::Hung => println!("    by a test that did not end within {} s", LIMIT.as_secs()),
            Verdict::Survived => survivors.push(mutant.name.as_str()),
        }
    }
    let caught = mutants.len() - survivors.len();
    println!("mutants: {caught} of {} caught", mutants.len());
    if survivors.is_empty() {
        return Ok(());
    }
    Err(Failure(format!("no test fails with {}", survivors.join(", "))))
}

enum Verdict {
    /// These tests failed with the bug, as they should.
    Caught(Vec<String>),
    Hung,
    Survived,
}

impl Verdict {
    const fn word(&self) -> &'static str {
        match self {
            Self::Caught(_) | Self::Hung => "caught  ",
            Self::Survived => "SURVIVED",
        }
    }
}

/// Runs the tests of a mutant with its patch. If they aren't among the `sound` ones, which passed without a patch, they
/// must do so first.
fn verdict(mutant: &Mutant, scratch: &Scratch, sound: &mut BTreeSet<Tests>) -> Result<Verdict, Failure> {
    let log = scratch.log(&mutant.name);
    let failed = |what: &str| Err(Failure(format!("{what}; see {}", log.display())));
    let compiles = || Ok(run_logged(tests_of(mutant, scratch).arg("--no-run"), &log, None)? == Ended::Passed);
    let run = |part: Part| run_logged(&mut part.of(mutant, scratch), &log, Some(LIMIT));
    let tests = mutant.run();
    if !sound.contains(&tests) {
        if !compiles()? {
            return failed("the tests do not compile without the patch");
        }
        if run(Part::All)? != Ended::Passed {
            return failed("the tests fail without the patch");
        }
        if tests_in(&read(&log)?) == 0 {
            return failed("its filter selects no test");
        }
        sound.insert(tests);
    }
    scratch.apply(mutant)?;
    if !compiles()? {
        return failed("the patched code does not compile, which proves nothing: update the patch");
    }
    let ended = match mutant.filter {
        Some(_) => run(Part::All)?,
        None => match run(Part::Quick)? {
            Ended::Passed => run(Part::Slow)?,
            ended => ended,
        },
    };
    let verdict = match ended {
        Ended::Passed => Verdict::Survived,
        Ended::TimedOut => Verdict::Hung,
        Ended::Failed => match failed_tests(&log)? {
            tests if tests.is_empty() => return failed("the run failed, but no test did"),
            tests => Verdict::Caught(tests),
        },
    };
    scratch.remove(mutant)?;
    Ok(verdict)
}

/// The selected tests of one run. A run ends after the first test binary that fails: one failed test is a verdict.
#[derive(Clone, Copy)]
enum Part {
    All,
    Quick,
    Slow,
}

impl Part {
    fn of(self, mutant: &Mutant, scratch: &Scratch) -> Command {
        let mut command = tests_of(mutant, scratch);
        match self {
            Self::All => command.args(["--"]).args(mutant.filter.as_deref()),
            Self::Quick => {
                let skips = SLOW.iter().flat_map(|test| ["--skip", test]);
                command.args(["--"]).args(skips)
            }
            Self::Slow => command.args(["--"]).args(SLOW),
        };
        command
    }
}

fn tests_of(mutant: &Mutant, scratch: &Scratch) -> Command {
    let mut command = Command::new("cargo");
    command
        .args(["test", "--package", &mutant.tests])
        .current_dir(scratch.tree())
        .env("CARGO_TARGET_DIR", scratch.build())
        // A patch changes one function: the rest of its crate is compiled once for all patches.
        .env("CARGO_INCREMENTAL", "1")
        .env("STATE_TEST_PAIRS", PAIRS);
    command
}

fn read(log: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(log).map_err(|error| Failure(format!("{}: {error}", log.display())))
}

fn failed_tests(log: &Path) -> Result<Vec<String>, Failure> {
    let text = read(log)?;
    let failed = text.lines().filter_map(|line| {
        let name = line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?;
        Some(name.to_owned())
    });
    let mut tests: Vec<String> = failed.collect();
    // A test that aborts its process appears in no line of the output.
    if tests.is_empty() && text.contains("(signal: ") {
        tests.push("a test that aborted".to_owned());
    }
    Ok(tests)
}

/// Returns the chosen mutants: all, a sample that depends on the commit, those that no run has judged yet, or some by name.
/// All and the sample don't contain those that no run has judged.
fn choose<'a>(
    mutants: &'a [Mutant],
    args: &[&str],
    seed: impl Fn() -> Result<u64, Failure>,
) -> Result<Vec<&'a Mutant>, Failure> {
    let (judged, unjudged): (Vec<&Mutant>, Vec<&Mutant>) =
        mutants.iter().partition(|mutant| mutant.is_judged);
    match args {
        [] => Ok(judged),
        ["--unjudged"] => Ok(unjudged),
        ["--sample", count] => {
            let count: usize = count
                .parse()
                .map_err(|_| Failure(format!("`--sample {count}` is not a number")))?;
            let seed = usize::try_from(seed()?).unwrap_or(0);
            // Of one package: its tests are built once, and then change little from patch to patch.
            let packages: Vec<&str> = judged.iter().map(|mutant| mutant.tests.as_str()).collect();
            let packages: Vec<&str> = BTreeSet::from_iter(packages).into_iter().collect();
            let Some(package) = packages.get(seed % packages.len().max(1)) else {
                return Ok(Vec::new());
            };
            let of_package: Vec<&Mutant> = judged
                .into_iter()
                .filter(|mutant| mutant.tests == *package)
                .collect();
            let start = seed / packages.len();
            let picked =
                (0..count.min(of_package.len())).map(|pick| of_package[(start + pick) % of_package.len()]);
            Ok(picked.collect())
        }
        names => names
            .iter()
            .map(|name| {
                let found = mutants.iter().find(|mutant| mutant.name == *name);
                found.ok_or_else(|| {
                    let known: Vec<&str> = mutants.iter().map(|mutant| mutant.name.as_str()).collect();
                    Failure(format!(
                        "there is no mutant `{name}`; there are {}",
                        known.join(", ")
                    ))
                })
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutants(count: usize) -> Vec<Mutant> {
        let named = |number| Mutant {
            name: format!("crate/bug-{number}"),
            bug: String::new(),
            tests: String::new(),
            filter: None,
            is_judged: true,
            patch: String::new(),
        };
        (0..count).map(named).collect()
    }

    fn names(mutants: &[Mutant], args: &[&str], seed: u64) -> Vec<String> {
        let chosen = choose(mutants, args, || Ok(seed)).expect("a choice");
        chosen.iter().map(|mutant| mutant.name.clone()).collect()
    }

    #[test]
    fn sample_is_of_one_package_and_rotates_through_all_mutants() {
        let mut all = mutants(9);
        for (number, mutant) in all.iter_mut().enumerate() {
            mutant.tests = format!("crate-{}", number % 2);
        }
        let mut seen = BTreeSet::new();
        for seed in 0..20 {
            let three = names(&all, &["--sample", "3"], seed);
            let distinct: BTreeSet<_> = three.iter().collect();
            assert_eq!(distinct.len(), 3, "{three:?}");
            let number = |name: &String| {
                name.trim_start_matches("crate/bug-")
                    .parse::<u32>()
                    .expect("a number")
            };
            let odd: BTreeSet<u32> = three.iter().map(|name| number(name) % 2).collect();
            assert_eq!(odd.len(), 1, "{three:?}");
            seen.extend(three);
        }
        assert_eq!(seen.len(), 9);
        assert_eq!(names(&all, &["--sample", "9"], 3).len(), 4);
        assert!(names(&[], &["--sample", "1"], 3).is_empty());
    }

    #[test]
    fn unjudged_mutant_is_only_in_its_own_choices() {
        let mut all = mutants(3);
        all[1].is_judged = false;
        assert_eq!(names(&all, &[], 0), ["crate/bug-0", "crate/bug-2"]);
        assert_eq!(names(&all, &["--sample", "3"], 1).len(), 2);
        for chosen in [["--unjudged"], ["crate/bug-1"]] {
            assert_eq!(names(&all, &chosen, 0), ["crate/bug-1"]);
        }
    }

    #[test]
    fn mutant_is_chosen_by_name() {
        let all = mutants(3);
        assert_eq!(names(&all, &["crate/bug-2"], 0), ["crate/bug-2"]);
        assert_eq!(names(&all, &[], 0).len(), 3);
        assert!(choose(&all, &["bug"], || Ok(0)).is_err());
        assert!(choose(&all, &["--sample", "x"], || Ok(0)).is_err());
    }
}
