//! Known vulnerabilities of the dependencies: a part of `cargo xtask deny`.
//!
//! The advisory database is a git repository that changes without a commit in this one. Where it can be had, by the network
//! or as an earlier clone in cargo's home, a vulnerability fails the step. Elsewhere the step is skipped, and says so.

use crate::process::{Ended, Failure, cargo, run, run_logged, target};
use crate::steps;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time limit of the download: a network that drops packets must not hold up everything else.
const FETCH_LIMIT: Duration = Duration::from_secs(30);

/// Whether an advisory database is at hand.
#[derive(Debug, PartialEq, Eq)]
enum Database {
    Current,
    /// An earlier clone, which couldn't be updated for this reason.
    Outdated(String),
    /// None, for this reason.
    Missing(String),
}

/// Checks the dependencies against the advisory database, by `deny.toml`.
pub(crate) fn check() -> Result<(), Failure> {
    match database(fetch()?, clones()) {
        Database::Current => {}
        Database::Outdated(reason) => {
            println!("WARNING: the advisory database can't be updated, an earlier clone is used: {reason}");
        }
        Database::Missing(reason) => {
            println!(
                "SKIP advisories: dependencies are NOT checked for known vulnerabilities: no advisory database: {reason}"
            );
            return Ok(());
        }
    }
    steps::TREES.into_iter().try_for_each(|manifest| {
        // The fetch has ended, and a second attempt would only wait for the same network.
        let mut command = cargo(["deny", "--offline", "--manifest-path", manifest]);
        run(command.args(["--config", "deny.toml", "check", "advisories"]))
    })
}

/// Downloads the database. Returns the reason if that fails.
fn fetch() -> Result<Option<String>, Failure> {
    let log = target().join("advisories-fetch.log");
    let mut command = cargo(["deny", "fetch", "db"]);
    // Git must not ask for a password on a terminal.
    command.env("GIT_TERMINAL_PROMPT", "0");
    Ok(match run_logged(&mut command, &log, Some(FETCH_LIMIT))? {
        Ended::Passed => None,
        Ended::TimedOut => Some(format!("no answer within {FETCH_LIMIT:?}")),
        Ended::Failed => Some(reason(&fs::read_to_string(&log).unwrap_or_default())),
    })
}

/// The last line of cargo-deny's output that names a cause.
fn reason(output: &str) -> String {
    let mut lines = output.lines().map(str::trim).filter(|line| !line.is_empty());
    lines
        .next_back()
        .unwrap_or("cargo-deny fetched nothing")
        .to_owned()
}

/// The folder with clones of advisory databases.
fn clones() -> PathBuf {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    home.unwrap_or_default().join("advisory-dbs")
}

fn database(failure: Option<String>, clones: impl AsRef<Path>) -> Database {
    let Some(reason) = failure else {
        return Database::Current;
    };
    // A fetch that failed may leave an empty folder.
    let is_clone = |folder: PathBuf| folder.join("crates").is_dir() || folder.join(".git").is_dir();
    let entries = fs::read_dir(clones).into_iter().flatten().flatten();
    match entries.map(|entry| entry.path()).any(is_clone) {
        true => Database::Outdated(reason),
        false => Database::Missing(reason),
    }
}

#[cfg(test)]
mod tests {
    use super::{Database, database, reason};

    #[test]
    fn earlier_clone_is_used_if_the_database_is_unreachable() {
        let folder = std::env::temp_dir().join(format!("xtask-advisories-{}", std::process::id()));
        let failed = || Some("no route".to_owned());
        assert_eq!(
            database(failed(), &folder),
            Database::Missing("no route".to_owned())
        );
        std::fs::create_dir_all(folder.join("empty")).expect("a new folder");
        assert_eq!(
            database(failed(), &folder),
            Database::Missing("no route".to_owned())
        );
        std::fs::create_dir_all(folder.join("db/crates")).expect("a new folder");
        assert_eq!(
            database(failed(), &folder),
            Database::Outdated("no route".to_owned())
        );
        assert_eq!(database(None, &folder), Database::Current);
        std::fs::remove_dir_all(folder).expect("it was made");
    }

    #[test]
    fn reason_of_a_failed_fetch_is_its_last_line() {
        assert_eq!(reason("a\n  can't resolve host\n\n"), "can't resolve host");
        assert_eq!(reason(""), "cargo-deny fetched nothing");
    }
}
