//! Promise P1 of `docs/architecture.md`: `strace` kills every command of `statectl` that writes, immediately before each
//! system call that changes a file of the store or of the user's home. Then the store can be read, its state is the one
//! before or after the command, the command can be completed, and no file contains a secret of a sealed stack.

mod bench;
mod durability;
mod points;
mod projection;
mod rows;
mod scenes;
mod settling;

use super::strace::{self, TracedCall};
use bench::Bench;
use points::points;
use rows::{EXCUSED, Policy, Row, rows};
use settling::Bounds;
use state_core::testkit::run::scaled;
use state_tests::dice::{replay, seed};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The test kills at one of this many points; [`scaled`] divides this number.
const EVERY: u32 = 12;

/// Number of threads that share the rows.
const THREADS: usize = 2;

/// The tests stop after this number of failures.
const FAILURES: usize = 40;

/// The system calls that change a file or make a change durable.
const CHANGES: [&str; 20] = [
    "openat",
    "write",
    "pwrite64",
    "writev",
    "pwritev",
    "fsync",
    "fdatasync",
    "rename",
    "renameat",
    "renameat2",
    "link",
    "linkat",
    "unlink",
    "unlinkat",
    "mkdir",
    "mkdirat",
    "rmdir",
    "ftruncate",
    "fallocate",
    "fchmod",
];

/// Whether a call changes a file. An error of the call without interference changed nothing.
fn is_change(call: &TracedCall) -> bool {
    !call.failed && (call.name != "openat" || call.creates)
}

/// What a test did with the commands.
#[derive(Default)]
struct Tally {
    /// Number of interferences by command.
    done: BTreeMap<&'static str, usize>,
    /// Number of points at which another thread made the call, so that the command completed.
    missed: usize,
    /// Number of hints that completed a command.
    hints: usize,
    /// Number of points of all rows.
    points: usize,
    failures: Vec<String>,
}

/// Runs the work on each row with each of its policies, on two threads. With a part, only on every second one of them.
fn for_each(
    rows: &[&Row],
    part: Option<u64>,
    work: impl Fn(&mut Bench, &Row, Policy, usize, &Mutex<Tally>) + Sync,
) -> Tally {
    let all = rows
        .iter()
        .flat_map(|&row| row.policies.iter().map(move |policy| (row, *policy)));
    let cases: Vec<(usize, (&Row, Policy))> = all
        .enumerate()
        .filter(|(number, _)| part.is_none_or(|part| *number as u64 % 2 == part % 2))
        .collect();
    let (next, tally) = (AtomicUsize::new(0), Mutex::new(Tally::default()));
    let thread = || {
        let mut bench = Bench::new();
        loop {
            let case = cases.get(next.fetch_add(1, Ordering::Relaxed));
            let has_failed = locked(&tally).failures.len() >= FAILURES;
            let Some((number, (row, policy))) = case.filter(|_| !has_failed) else {
                break;
            };
            let tried = catch_unwind(AssertUnwindSafe(|| {
                bench.load(row, *policy);
                work(&mut bench, row, *policy, *number, &tally);
            }));
            // The other rows are tried too.
            if tried.is_err() {
                let failure = format!("statectl {}, {policy:?}: the test panicked", row.arguments);
                locked(&tally).failures.push(failure);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(thread);
        }
    });
    tally.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn locked(tally: &Mutex<Tally>) -> std::sync::MutexGuard<'_, Tally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The part of the rows for a seed. The tests try all rows if [`scaled`] multiplies the counts.
fn part(seed: u64) -> Option<u64> {
    (scaled(1) == 1).then_some(seed)
}

/// Selects one of [`EVERY`] points, another one for each seed and row.
fn selected<T>(points: Vec<T>, every: u32, first: u64) -> impl Iterator<Item = T> {
    let every = u64::from((every / scaled(1)).max(1));
    let numbered = (first..).zip(points);
    numbered
        .filter(move |(number, _)| number % every == 0)
        .map(|(_, point)| point)
}

#[test]
#[ignore = "`cargo xtask nightly commands` runs it: a command that changes the head and then the history is still between two states"]
fn command_killed_before_any_change_can_be_completed() {
    let Some(calls) = strace::existing(&CHANGES, "kills of commands before system calls") else {
        return;
    };
    let seed = seed(20_261_201);
    let replay = replay(seed);
    eprintln!("kills of commands: {replay}");
    let rows = rows();
    let rows: Vec<&Row> = rows.iter().collect();
    let tally = for_each(&rows, part(seed), |bench, row, policy, number, tally| {
        let bounds = Bounds::of(bench, row);
        let points = points(bench, row, &calls, is_change);
        locked(tally).points += points.len();
        for point in selected(points, EVERY, seed.wrapping_add(number as u64)) {
            bench.reset();
            let ended = bench.run_under(
                &point.injecting(bench, "signal=SIGKILL", false, Path::new(strace::NO_LOG)),
                row,
            );
            let checked = bounds.check(bench, row, policy, &ended);
            let mut tally = locked(tally);
            match ended.code {
                None => *tally.done.entry(row.command).or_default() += 1,
                Some(_) => tally.missed += 1,
            }
            match checked {
                Ok(hints) => tally.hints += hints,
                Err(broken) => tally.failures.push(format!(
                    "statectl {}, {policy:?}, killed before {point}: {broken}; {replay}",
                    row.arguments
                )),
            }
        }
    });
    let kills: usize = tally.done.values().sum();
    eprintln!(
        "strace: killed {kills} commands at {} points ({} ended before), completed {} by a hint: {:?}",
        tally.points, tally.missed, tally.hints, tally.done
    );
    assert!(tally.failures.is_empty(), "{}", tally.failures.join("\n\n"));
    assert!(kills > 100, "too few kills: {kills}");
}

/// Returns the full names of all commands without subcommands, as `--help` lists them.
fn listed(bench: &Bench, above: &str) -> Vec<String> {
    let help = bench.statectl(&format!("{above} --help")).stdout;
    let commands = help.split("Commands:\n").nth(1).unwrap_or_default();
    let block = commands.split("\n\n").next().unwrap_or_default();
    let names = block.lines().filter_map(|line| line.strip_prefix("  "));
    let names = names.filter_map(|line| line.split(' ').next());
    let mut found = Vec::new();
    for name in names.filter(|name| !name.is_empty() && *name != "help") {
        let path = format!("{above} {name}").trim().to_owned();
        let below = listed(bench, &path);
        if below.is_empty() || path == "trust" {
            found.push(path);
        }
        found.extend(below);
    }
    found
}

#[test]
fn every_command_is_killed_or_excused() {
    let mut bench = Bench::new();
    let rows = rows();
    bench.load(&rows[0], Policy::Plain);
    let listed: BTreeSet<String> = listed(&bench, "").into_iter().collect();
    let excused = EXCUSED.iter().map(|(command, _)| (*command).to_owned());
    let killed: BTreeSet<String> = rows.iter().map(|row| row.command.to_owned()).collect();
    let both: Vec<_> = excused
        .clone()
        .filter(|command| killed.contains(command))
        .collect();
    assert!(both.is_empty(), "killed and excused: {both:?}");
    let known: BTreeSet<String> = excused.chain(killed).collect();
    assert_eq!(
        known, listed,
        "add a row to tests/suite/crash/commands/rows.rs for each command that writes, and a reason for each other one"
    );
}
