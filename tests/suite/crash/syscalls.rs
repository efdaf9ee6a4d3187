//! Promise P1 of `docs/architecture.md`: acknowledged mutations survive if `strace` kills a worker immediately before
//! any system call that writes. Unlike random kills, these kills cover the short windows between a write, its sync, a
//! rename and the sync of the folder.
//!
//! On an existing store, the tests count the calls on each file and folder separately, and kill before each of the first
//! calls on it: see [`strace`].

use super::{Model, strace};
use crate::process::{WORKER, Worker};
use crate::store::{block_on, open, stack, verify};
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
            let copy = strace::copy(prepared.path());
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
    strace::existing(&CALLS, "kills before system calls")
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
    let after = strace::copy(prepared);
    let log = after.path().with_extension("strace");
    let mut command = strace::starting(&strace::logging(calls, &log), WORKER);
    command.arg("script").arg(after.path()).arg("b");
    assert!(
        Worker::of(command).end().0,
        "the worker must succeed without a kill"
    );
    let mut counts: BTreeMap<(String, PathBuf), BTreeMap<String, usize>> = BTreeMap::new();
    for call in strace::read_log(&log, after.path()) {
        // The first file or folder in the call. Temporary files are omitted, because the next run gives them other
        // names. The kill before the rename of a temporary file covers its writes.
        let path = call.paths.into_iter().next();
        if let Some(path) = path.filter(|path| !path.to_string_lossy().contains(".tmp-")) {
            let threads = counts.entry((call.name, path)).or_default();
            *threads.entry(call.thread).or_default() += 1;
        }
    }
    counts
        .into_iter()
        .map(|(point, threads)| (point, threads.into_values().max().unwrap_or(0)))
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
        let kill = format!("signal=SIGKILL:when={when}");
        let mut command = strace::starting(
            &strace::injecting(call, &kill, path.as_deref(), Path::new(strace::NO_LOG)),
            WORKER,
        );
        command.arg("script").arg(dir).arg(part);
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
