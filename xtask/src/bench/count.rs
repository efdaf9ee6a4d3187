//! Counts what commands and mutations cost, instead of measuring time: `cargo xtask bench count`.
//!
//! Runs the tests that check the counts, with more sessions than `cargo xtask ci`, and prints what they counted beside the
//! limits. A count above its limit fails a test, and so this task.

use std::fs;

use crate::process::{Failure, cargo, run as run_command, target};
use crate::servers;

/// The numbers of sessions since the last checkpoint after which each command is counted.
const SESSIONS: &str = "1,100,1000";

/// The tests that count requests and rounds on each object store.
const REQUESTS: &[&str] = &["-p", "state-tests", "--test", "suite", "--", "live::requests"];

/// The tests that count bytes, syncs and allocations on files, and print them.
const FILES: &[&[&str]] = &[
    &[
        "-p",
        "state-tests",
        "--test",
        "suite",
        "--",
        "cost::",
        "memory::",
        "--nocapture",
    ],
    &[
        "-p",
        "state-manager",
        "--test",
        "manager",
        "--",
        "counted_",
        "--nocapture",
    ],
];

/// Runs the counting tests and prints the table of requests.
#[expect(clippy::print_stdout, reason = "a benchmark prints its results")]
pub(super) fn run(args: &[&str]) -> Result<(), Failure> {
    let sessions = match args {
        [] => SESSIONS,
        ["--sessions", list] if list.split(',').all(|number| number.parse::<usize>().is_ok()) => list,
        _ => {
            let usage = "usage: `cargo xtask bench count [--sessions N,N]`";
            return Err(Failure(usage.to_owned()));
        }
    };
    let report = target().join(format!("count-{}.tsv", std::process::id()));
    let failed = |error| Failure(format!("{}: {error}", report.display()));
    fs::write(&report, "").map_err(failed)?;
    let servers = servers::for_tests()?;
    let mut command = cargo(["test", "--no-fail-fast"]);
    command.args(REQUESTS).envs(servers.exports.iter().cloned());
    command.env("STATE_COUNT_SESSIONS", sessions);
    let mut outcome = run_command(command.env("STATE_COUNT_REPORT", &report));
    drop(servers);
    for tests in FILES {
        outcome = outcome.and(run_command(cargo(["test"]).args(*tests)));
    }
    let counted = fs::read_to_string(&report).map_err(failed)?;
    fs::remove_file(&report).map_err(failed)?;
    if counted.is_empty() {
        let nothing = "no command was counted: does the module `live::requests` still exist?";
        return outcome.and(Err(Failure(nothing.to_owned())));
    }
    print!("\n{}", table(&counted));
    outcome
}

/// A report of the tests as a table: one line a command, server and number of sessions, whose fields are separated by tabs.
fn table(report: &str) -> String {
    let mut rows: Vec<Vec<&str>> = report.lines().map(|line| line.split('\t').collect()).collect();
    let sessions = |row: &[&str]| row.get(2).and_then(|number| number.parse::<usize>().ok());
    // The sort is stable, so the commands of a server keep their order.
    rows.sort_by_key(|row| (row.get(1).copied().unwrap_or_default().to_owned(), sessions(row)));
    let mut table = "| command | server | sessions | requests | at most | rounds | at most |\n".to_owned();
    table += "|---|---|---|---|---|---|---|\n";
    for row in rows {
        table += &format!("| {} |\n", row.join(" | "));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::table;

    #[test]
    fn table_is_ordered_by_server_and_sessions() {
        let report =
            "list\tradosgw\t100\t6\t8\t3\t3\nlist\tAzurite\t1\t6\t8\t3\t3\nlist\tradosgw\t1\t6\t8\t3\t3\n";
        let table = table(report);
        let rows: Vec<&str> = table.lines().skip(2).collect();
        assert_eq!(
            rows,
            [
                "| list | Azurite | 1 | 6 | 8 | 3 | 3 |",
                "| list | radosgw | 1 | 6 | 8 | 3 | 3 |",
                "| list | radosgw | 100 | 6 | 8 | 3 | 3 |",
            ]
        );
    }
}
