//! Runs of a program under `strace`: a log of its system calls, and a kill or an error at one of them.
//!
//! `strace` counts the calls of each thread separately, and injects into the first thread that reaches call number N.
//! Calls that other threads would make later are never reached.

use crate::process::is_installed;
use state_core::testkit::run::skip;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Returns those of the calls that exist on this architecture. Without `strace`, reports a skip and returns `None`.
pub(super) fn existing(calls: &[&'static str], untested: &str) -> Option<Vec<&'static str>> {
    if !is_installed("strace") {
        skip("strace", untested);
        return None;
    }
    let exists = |call: &&str| {
        Command::new("strace")
            .args(["-qq", "-e", &format!("trace={call}"), "-o", "/dev/null", "true"])
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    };
    Some(calls.iter().copied().filter(exists).collect())
}

/// Returns the beginning of a command line that logs these calls to a file.
pub(super) fn logging(calls: &[&str], log: &Path) -> Vec<OsString> {
    let trace = format!("trace={}", calls.join(","));
    let mut line: Vec<OsString> = ["strace", "-f", "-qq", "-y", "-s", "12", "-e", &trace, "-o"]
        .map(OsString::from)
        .into();
    line.push(log.into());
    line
}

/// The log of a run whose calls no test reads.
pub(super) const NO_LOG: &str = "/dev/null";

/// Returns the beginning of a command line that injects a signal or an error into a call: `inject` is the rest of the
/// expression of `strace`, for example `signal=SIGKILL:when=3`. With a path, only calls on this file or folder count.
pub(super) fn injecting(call: &str, inject: &str, path: Option<&Path>, log: &Path) -> Vec<OsString> {
    let (trace, inject) = (format!("trace={call}"), format!("inject={call}:{inject}"));
    let mut line: Vec<OsString> = ["strace", "-f", "-qq", "-e", &trace, "-e", &inject, "-o"]
        .map(OsString::from)
        .into();
    line.push(log.into());
    if let Some(path) = path {
        line.extend([OsString::from("-P"), path.into()]);
    }
    line
}

/// Returns a command that runs a program by the beginning of a command line.
pub(super) fn starting(line: &[OsString], program: &str) -> Command {
    let mut command = Command::new(&line[0]);
    command.args(&line[1..]).arg(program);
    command
}

/// A system call in a log.
pub(super) struct TracedCall {
    pub(super) thread: String,
    pub(super) name: String,
    /// The files and folders below the root that the call names, relative to the root, in the order of the arguments.
    pub(super) paths: Vec<PathBuf>,
    /// Whether the call can create a file.
    pub(super) creates: bool,
    /// Whether the call returned an error.
    pub(super) failed: bool,
}

/// Reads a log of [`logging`], and deletes the file.
pub(super) fn read_log(log: &Path, root: &Path) -> Vec<TracedCall> {
    let text = std::fs::read(log).expect("strace wrote its log");
    std::fs::remove_file(log).expect("the log is deleted");
    let text = String::from_utf8_lossy(&text);
    text.lines().filter_map(|line| parsed(line, root)).collect()
}

/// Parses a line of a log. The end of a call that was logged in two parts is no call.
fn parsed(line: &str, root: &Path) -> Option<TracedCall> {
    let (start, arguments) = line.split_once('(')?;
    let mut words = start.split_whitespace().map(str::to_owned);
    let (thread, name) = (words.next()?, words.next()?);
    let root = format!("{}/", root.display());
    let mut paths = Vec::new();
    for (at, _) in arguments.match_indices(&root) {
        // A path follows a descriptor, or is an argument itself, but no part of the bytes that are written.
        let before = &arguments[..at];
        let end = match before.chars().next_back() {
            _ if before.ends_with("\\\"") => continue,
            Some('<') => '>',
            Some('"') => '"',
            _ => continue,
        };
        let path = arguments[at + root.len()..].split(end).next();
        paths.extend(path.map(PathBuf::from));
    }
    Some(TracedCall {
        thread,
        name,
        paths,
        creates: arguments.contains("O_CREAT"),
        failed: arguments.contains(") = -1 "),
    })
}

/// A finished system call, as one line of a log.
pub(super) struct FinishedCall {
    pub(super) name: String,
    /// The arguments and the result. The placeholder replaces the root at the beginning of paths.
    pub(super) text: String,
}

/// Reads a log of [`logging`] as the calls in the order in which they ended, and deletes the file. An unfinished write to
/// stdout counts at its begin, because its reader may act on it from then on.
pub(super) fn finished_calls(log: &Path, root: &Path, placeholder: &str) -> Vec<FinishedCall> {
    let text = std::fs::read(log).expect("strace wrote its log");
    std::fs::remove_file(log).expect("the log is deleted");
    let mut unfinished = Vec::new();
    let mut calls = Vec::new();
    for line in String::from_utf8_lossy(&text).lines() {
        let Some((thread, rest)) = line.split_once(' ') else {
            continue;
        };
        let mut rest = rest.trim_start().to_owned();
        for quote in ['<', '"'] {
            rest = rest.replace(
                &format!("{quote}{}", root.display()),
                &format!("{quote}{placeholder}"),
            );
        }
        let thread = thread.to_owned();
        if let Some(begin) = rest.strip_suffix(" <unfinished ...>") {
            match begin.starts_with("write(1<") {
                true => calls.extend(finished(begin)),
                false => unfinished.push((thread, begin.to_owned())),
            }
        } else if rest.starts_with("<... ") {
            let Some(at) = unfinished.iter().position(|(of, _)| *of == thread) else {
                continue;
            };
            let end = rest.split_once("resumed>").expect("the end of a call").1;
            calls.extend(finished(&format!("{}{end}", unfinished.swap_remove(at).1)));
        } else {
            calls.extend(finished(&rest));
        }
    }
    calls
}

fn finished(line: &str) -> Option<FinishedCall> {
    let (name, text) = line.split_once('(')?;
    Some(FinishedCall {
        name: name.to_owned(),
        text: text.to_owned(),
    })
}

/// Copies a folder into a new one.
pub(super) fn copy(from: &Path) -> TempDir {
    let to = tempfile::tempdir().expect("a folder");
    copy_into(from, to.path());
    to
}

/// Copies the content of a folder into an existing folder, with the permissions and without the times of the files.
pub(super) fn copy_into(from: &Path, to: &Path) {
    for path in children(from) {
        let target = to.join(path.file_name().expect("a child has a name"));
        let metadata = path.metadata().expect("the file exists");
        if path.is_dir() {
            std::fs::create_dir(&target).expect("a folder is made");
            copy_into(&path, &target);
            std::fs::set_permissions(&target, metadata.permissions()).expect("a folder gets its permissions");
        } else {
            std::fs::copy(&path, &target).expect("a file is copied");
        }
    }
}

/// Returns the paths of the files and folders in a folder.
pub(super) fn children(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    entries
        .map(|entry| entry.expect("an entry of a folder").path())
        .collect()
}
