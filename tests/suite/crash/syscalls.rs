//! Promise P1 of `docs/architecture.md`: acknowledged mutations survive if `strace` kills a worker immediately before
//! any system call that writes. Unlike random kills, these kills cover the short windows between a write, its sync, a
//! rename and the sync of the folder.
//!
//! `strace` counts calls per thread, and kills the worker when the first thread reaches call number N. Calls that other
//! threads would make later are never reached. On an existing store, the tests therefore count the calls on each file
//! and folder separately, and kill before each of the first calls on it.

use super::Model;
use crate::process::{WORKER, Worker, is_installed};
use crate::store::{block_on, open, stack, verify};
use state_core::testkit::run::skip;
use state_tests::line::Line;
use state_tests::workload::STACK;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// The system calls before which the worker is killed.
const CALLS: [&str; 8] = [
    "fsync",
    "fdatasync",
    "rename",
    "renameat",
    "renameat2",
    "write",
    "pwrite64",
    "openat",
];

/// Maximum number of kills per system call on a new store.
const KILLS: usize = 12;

/// Maximum number of kills per system call and file.
const KILLS_A_FILE: usize = 6;

#[test]
fn kill_before_any_syscall_on_a_new_store_loses_no_ack() {
    let Some(calls) = calls() else { return };
    let mut kills = 0;
    for call in &calls {
        for when in 1..=KILLS {
            let dir = tempfile::tempdir().expect("a folder");
            let replay = format!("killed before {call} number {when}");
            let run = Injection {
                call,
                when,
                path: None,
            };
            if run.completes(dir.path(), "a", &mut Model::default(), &replay) {
                break;
            }
            kills += 1;
        }
    }
    eprintln!("strace: killed {kills} times on a new store, by system call");
    assert!(kills > CALLS.len(), "too few kills: {kills}");
}

#[test]
fn kill_before_any_syscall_on_any_file_loses_no_ack() {
    let Some(calls) = calls() else { return };
    let (prepared, lines) = prepare();
    let mut kills = 0;
    let changing: Vec<_> = calls.into_iter().filter(|call| *call != "openat").collect();
    for ((call, path), count) in points(prepared.path(), &changing) {
        for when in 1..=count.min(KILLS_A_FILE) {
            let copy = copy(prepared.path());
            let replay = format!("killed before {call} number {when} on {}", path.display());
            let run = Injection {
                call: &call,
                when,
                path: Some(copy.path().join(&path)),
            };
            let mut model = Model::default();
            lines.iter().for_each(|line| model.observe(line));
            let completed = run.completes(copy.path(), "b", &mut model, &replay);
            kills += usize::from(!completed);
        }
    }
    eprintln!("strace: killed {kills} times on an existing store, by system call and file");
    assert!(kills > 30, "too few kills: {kills}");
}

/// Returns the [`CALLS`] that exist on this architecture. Without `strace`, reports a skip and returns `None`.
pub(super) fn calls() -> Option<Vec<&'static str>> {
    if !is_installed("strace") {
        skip("strace", "kills before system calls");
        return None;
    }
    let known = |call: &&str| {
        Command::new("strace")
            .args(["-qq", "-e", &format!("trace={call}"), "-o", "/dev/null", "true"])
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    };
    Some(CALLS.into_iter().filter(known).collect())
}

/// Creates a store with the first part of the workload of the worker `script`. Returns the store's folder and the
/// output of the worker.
fn prepare() -> (TempDir, Vec<Line>) {
    let dir = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(WORKER);
    command.arg("script").arg(dir.path()).arg("a");
    let (succeeded, lines) = Worker::of(command).end();
    assert!(succeeded, "the worker must succeed without a kill");
    (dir, lines)
}

/// Runs the second part of the workload on a copy of the prepared store. Returns the calls that the worker makes: the
/// system call, the file or folder, and the highest number of these calls by a single thread.
fn points(prepared: &Path, calls: &[&str]) -> BTreeMap<(String, PathBuf), usize> {
    let after = copy(prepared);
    let log = after.path().with_extension("strace");
    let mut command = Command::new("strace");
    command.args([
        "-f",
        "-qq",
        "-y",
        "-e",
        &format!("trace={}", calls.join(",")),
        "-o",
    ]);
    command
        .arg(&log)
        .arg(WORKER)
        .arg("script")
        .arg(after.path())
        .arg("b");
    assert!(
        Worker::of(command).end().0,
        "the worker must succeed without a kill"
    );
    let text = std::fs::read(&log).expect("strace wrote its log");
    std::fs::remove_file(&log).expect("the log is deleted");
    let root = format!("<{}/", after.path().display());
    let mut counts: BTreeMap<(String, PathBuf), BTreeMap<String, usize>> = BTreeMap::new();
    for line in String::from_utf8_lossy(&text).lines() {
        let Some((start, arguments)) = line.split_once('(') else {
            continue;
        };
        let mut words = start.split_whitespace().map(str::to_owned);
        let (Some(thread), Some(call)) = (words.next(), words.next()) else {
            continue;
        };
        // The first file or folder in the call. Temporary files are omitted, because the next run gives them other
        // names. The kill before the rename of a temporary file covers its writes.
        let path = arguments
            .split_once(&root)
            .and_then(|(_, rest)| rest.split_once('>'));
        if let Some((path, _)) = path.filter(|(path, _)| !path.contains(".tmp-")) {
            let threads = counts.entry((call, PathBuf::from(path))).or_default();
            *threads.entry(thread).or_default() += 1;
        }
    }
    counts
        .into_iter()
        .map(|(point, threads)| (point, threads.into_values().max().unwrap_or(0)))
        .collect()
}

fn copy(from: &Path) -> TempDir {
    let to = tempfile::tempdir().expect("a folder");
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        std::fs::create_dir_all(to.path().join(&folder)).expect("a folder is made");
        for path in children(&from.join(&folder)) {
            let relative = path
                .strip_prefix(from)
                .expect("the file is in the store")
                .to_path_buf();
            if path.is_dir() {
                folders.push(relative);
            } else {
                std::fs::copy(&path, to.path().join(relative)).expect("a file is copied");
            }
        }
    }
    to
}

fn children(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder of the store");
    entries
        .map(|entry| entry.expect("an entry of a folder").path())
        .collect()
}

/// A kill before one occurrence of a system call.
struct Injection<'a> {
    call: &'a str,
    when: usize,
    /// Counts only calls on this file or folder; all calls if `None`.
    path: Option<PathBuf>,
}

impl Injection<'_> {
    /// Runs a part of the workload, and compares the store with the output of the worker. Returns whether the worker
    /// completed without a kill.
    fn completes(&self, dir: &Path, part: &str, model: &mut Model, replay: &str) -> bool {
        let Self { call, when, path } = self;
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}")]);
        command.args(["-e", &format!("inject={call}:signal=SIGKILL:when={when}")]);
        if let Some(path) = path {
            command.arg("-P").arg(path);
        }
        command.arg(WORKER).arg("script").arg(dir).arg(part);
        command.stderr(Stdio::null());
        let (completed, lines) = Worker::of(command).end();
        lines.iter().for_each(|line| model.observe(line));
        // A worker that was killed early may not have created the stack. A worker that reported its lock has created
        // it, and a prepared store always has the stack.
        let exists = lines.contains(&Line::Locked) || path.is_some();
        block_on(reopen(dir, model, exists, replay));
        completed
    }
}

/// Compares the store with the model, as a reader and as the next lock holder. `exists` states whether the store must
/// contain the stack.
async fn reopen(dir: &Path, model: &mut Model, exists: bool, replay: &str) {
    let stack = stack(dir).await.expect(replay);
    if exists {
        let known = open(dir).expect(replay).names().await.expect(replay);
        assert_eq!(known, [STACK.parse().expect("a name")], "{replay}");
    }
    let tip = stack.tip().await.expect(replay);
    model.settle(&tip.state, replay);
    let listed = stack.list().await.expect(replay);
    assert!(model.revisions().iter().all(|id| listed.contains(id)), "{replay}");
    let session = stack.lock("reopen").await.expect(replay);
    model.settle(&session.state(), replay);
    session.close().await.expect(replay);
    verify(&stack).await;
}
