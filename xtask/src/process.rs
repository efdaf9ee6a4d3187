//! Runs commands at the root of the workspace, and defines the error of this tool.

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

/// An error message for the terminal: what failed, and how to fix it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure(pub(crate) String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns a `cargo` command that runs at the root of the workspace, whatever the current folder is.
pub(crate) fn cargo<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new("cargo");
    command.args(args).current_dir(root());
    command
}

/// Prints the command and runs it with its output on the terminal; fails if the command fails.
pub(crate) fn run(command: &mut Command) -> Result<(), Failure> {
    println!("$ {}", line(command));
    let status = command.status().map_err(|error| not_started(command, &error))?;
    succeeded(command, status)
}

/// As [`run`], for tasks whose standard output is read by other programs: all output goes to standard error.
pub(crate) fn run_aside(command: &mut Command) -> Result<(), Failure> {
    eprintln!("$ {}", line(command));
    let status = command
        .stdin(Stdio::null())
        .stdout(std::io::stderr())
        .status()
        .map_err(|error| not_started(command, &error))?;
    succeeded(command, status)
}

/// Runs the command and returns its standard output; its standard error is shown.
pub(crate) fn stdout(command: &mut Command) -> Result<Vec<u8>, Failure> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| not_started(command, &error))?;
    succeeded(command, output.status)?;
    Ok(output.stdout)
}

/// Runs the command without showing its output; returns the output if it succeeded. For commands that may fail.
pub(crate) fn probe(command: &mut Command) -> Option<Output> {
    command
        .stdin(Stdio::null())
        .output()
        .ok()
        .filter(|output| output.status.success())
}

/// How a command with a time limit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Passed,
    Failed,
    /// The command was killed at its time limit, with all processes that it had started.
    TimedOut,
}

/// Runs the command with its output in a file, and kills it at its time limit.
pub(crate) fn run_logged(
    command: &mut Command,
    log: &Path,
    limit: Option<Duration>,
) -> Result<Ended, Failure> {
    println!("$ {}", line(command));
    let failed = |error: std::io::Error| Failure(format!("{}: {error}", log.display()));
    let output = File::create(log).map_err(failed)?;
    let errors = output.try_clone().map_err(failed)?;
    let start = now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .process_group(0)
        .spawn()
        .map_err(|error| not_started(command, &error))?;
    loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            return Ok(if status.success() {
                Ended::Passed
            } else {
                Ended::Failed
            });
        }
        if limit.is_some_and(|limit| now().duration_since(start) > limit) {
            kill_group(&mut child)?;
            return Ok(Ended::TimedOut);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Kills the process group: otherwise the tests that a killed `cargo test` had started would run on.
fn kill_group(child: &mut Child) -> Result<(), Failure> {
    let group = format!("-{}", child.id());
    run_aside(Command::new("kill").args(["-KILL", "--", &group]))?;
    child
        .wait()
        .map(drop)
        .map_err(|error| Failure(format!("a killed command does not end: {error}")))
}

/// Counts the tests that `cargo test` ran, by its output.
pub(crate) fn tests_in(output: &str) -> u64 {
    let announced = |line: &str| {
        let count = line.strip_prefix("running ")?;
        let count = count
            .strip_suffix(" tests")
            .or_else(|| count.strip_suffix(" test"))?;
        count.parse::<u64>().ok()
    };
    output.lines().filter_map(announced).sum()
}

#[expect(clippy::disallowed_methods, reason = "time limits need the system's clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

fn succeeded(command: &Command, status: ExitStatus) -> Result<(), Failure> {
    if status.success() {
        return Ok(());
    }
    Err(Failure(format!(
        "`{}` failed ({status}): see its output above",
        line(command)
    )))
}

fn not_started(command: &Command, error: &std::io::Error) -> Failure {
    Failure(format!(
        "`{}` did not start: {error}; is it installed and on the PATH?",
        line(command)
    ))
}

/// Returns the command as typed in a shell.
fn line(command: &Command) -> String {
    let mut words = Vec::new();
    for (name, value) in command.get_envs() {
        let value = value.unwrap_or_default().to_string_lossy();
        words.push(format!("{}={value:?}", name.to_string_lossy()));
    }
    words.push(command.get_program().to_string_lossy().into_owned());
    words.extend(command.get_args().map(|arg| arg.to_string_lossy().into_owned()));
    words.join(" ")
}

/// Returns cargo's target folder, which also holds other files that can be regenerated.
pub(crate) fn target() -> PathBuf {
    let path = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    // Canonical, because `cargo xtask servers stop` finds processes by this path in their command line.
    path.canonicalize().unwrap_or(path)
}

/// Returns a number that differs between commits, but not between runs, so that a failed run can be repeated.
pub(crate) fn seed_of_commit() -> Result<u64, Failure> {
    let mut command = Command::new("git");
    command.args(["rev-parse", "HEAD"]).current_dir(root());
    let output = probe(&mut command).ok_or_else(|| Failure("`git rev-parse HEAD` failed".to_owned()))?;
    let commit = String::from_utf8_lossy(&output.stdout).into_owned();
    let digits = commit.get(..15).unwrap_or_default();
    u64::from_str_radix(digits, 16).map_err(|_| Failure(format!("`{commit}` is not a commit")))
}

/// Returns the root of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_command_is_named_with_arguments_and_environment() {
        let failure = run(cargo(["no-such-command-of-cargo"])
            .env("WHY", "a test")
            .stderr(Stdio::null()))
        .expect_err("there is no such command");
        assert!(
            failure
                .0
                .contains("`WHY=\"a test\" cargo no-such-command-of-cargo` failed"),
            "{failure}"
        );
    }

    #[test]
    fn missing_program_is_reported() {
        let failure = run(&mut Command::new("no-such-program-anywhere")).expect_err("there is none");
        assert!(
            failure.0.contains("`no-such-program-anywhere` did not start"),
            "{failure}"
        );
    }

    #[test]
    fn logged_command_ends_by_itself_or_at_its_limit() {
        let log = std::env::temp_dir().join(format!("xtask-log-{}", std::process::id()));
        let ended = |script: &str, limit| {
            run_logged(Command::new("sh").args(["-c", script]), &log, limit).expect("sh is everywhere")
        };
        assert_eq!(ended("echo out; echo err >&2", None), Ended::Passed);
        assert_eq!(std::fs::read_to_string(&log).expect("a log"), "out\nerr\n");
        assert_eq!(ended("exit 3", None), Ended::Failed);
        let limit = Some(Duration::from_millis(200));
        assert_eq!(ended("sleep 60 & sleep 60", limit), Ended::TimedOut);
        std::fs::remove_file(&log).expect("it was written");
    }

    #[test]
    fn tests_are_counted_over_all_binaries() {
        let output = "running 12 tests\ntest a ... ok\nrunning 1 test\nrunning away\nrunning 0 tests\n";
        assert_eq!(tests_in(output), 13);
    }

    #[test]
    fn probe_of_a_failing_command_returns_nothing() {
        assert!(probe(&mut cargo(["no-such-command-of-cargo"])).is_none());
        assert!(probe(&mut cargo(["--version"])).is_some());
    }
}
