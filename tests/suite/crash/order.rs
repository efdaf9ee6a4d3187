//! The order of the real system calls of a worker: no acknowledgement before what it acknowledges is durable. Counters in
//! the code under test can't prove this, because they count what the code believes; `strace` shows what the kernel was
//! asked for.

use super::strace::{self, FinishedCall};
use crate::process::{WORKER, Worker, is_installed};
use state_core::testkit::run::skip;
use std::collections::BTreeSet;
use std::path::Path;

/// The calls that change files or make changes durable.
const TRACED: [&str; 15] = [
    "write",
    "pwrite64",
    "writev",
    "pwritev",
    "pwritev2",
    "fsync",
    "fdatasync",
    "sync_file_range",
    "rename",
    "renameat",
    "renameat2",
    "link",
    "linkat",
    "mkdir",
    "mkdirat",
];

/// Replaces the folder of the store in the paths of file descriptors.
const STORE: &str = "store";

/// The beginnings of the lines with which a worker reports that a mutation was acknowledged.
const ACKNOWLEDGED: [&str; 4] = ["begun ", "acked ", "resolved ", "finished "];

/// The lines with which a worker reports that it took or released the lock. Nothing is written in the background then.
const QUIET: [&str; 2] = ["locked", "closed"];

#[test]
fn acknowledgement_follows_the_sync_of_what_it_reports() {
    if !is_installed("strace") {
        skip("strace", "the order of writes, syncs and acknowledgements");
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let mut order = Order::default();
    for part in ["a", "b"] {
        for call in calls(dir.path(), part) {
            order.observe(&call);
        }
    }
    eprintln!("strace: {order:?}");
    assert!(order.acknowledged > 20, "too few acknowledgements");
    assert!(order.renamed > 10, "too few renames of staged files");
}

/// Runs a part of the workload, and returns its system calls in the order in which they ended. Paths of file descriptors
/// in the store begin with [`STORE`].
fn calls(dir: &Path, part: &str) -> Vec<FinishedCall> {
    let log = dir.with_extension(format!("{part}.strace"));
    let mut command = strace::starting(&strace::logging(&TRACED, &log), WORKER);
    command.arg("script").arg(dir).arg(part);
    assert!(Worker::of(command).end().0, "the worker must succeed");
    strace::finished_calls(&log, dir, STORE)
}

/// What a loss of power would undo, from the calls so far.
#[derive(Debug, Default)]
struct Order {
    /// Files with content that wasn't synced.
    files: BTreeSet<String>,
    /// Folders in which names were made or replaced without a sync of the folder.
    folders: BTreeSet<String>,
    /// Whether a journal was synced since the last acknowledgement.
    is_journal_synced: bool,
    acknowledged: usize,
    renamed: usize,
}

impl Order {
    fn observe(&mut self, call: &FinishedCall) {
        let FinishedCall { name, text } = call;
        if name == "write" && text.starts_with("1<") {
            return self.acknowledge(text);
        }
        if text.contains(") = -1 ") {
            return;
        }
        match name.as_str() {
            "fsync" | "fdatasync" => {
                if let Some((path, _)) = descriptor(text) {
                    self.files.remove(path);
                    self.folders.remove(path);
                    self.is_journal_synced |= path.contains("/journal/");
                }
            }
            "rename" | "renameat" | "renameat2" | "link" | "linkat" => self.rename(text),
            "mkdir" | "mkdirat" => {
                if let Some((folder, _)) = descriptor(text) {
                    self.folders.insert(folder.to_owned());
                }
            }
            _ => {
                if let Some((path, bytes)) = descriptor(text)
                    && !is_hint(path)
                    && !is_space(bytes)
                {
                    self.files.insert(path.to_owned());
                }
            }
        }
    }

    /// A staged file gets its name: its content must be durable before, and the name is durable only later.
    fn rename(&mut self, text: &str) {
        let Some((from_folder, rest)) = descriptor(text) else {
            return;
        };
        let (from, rest) = quoted(rest).expect("the staged name");
        let (to_folder, rest) =
            descriptor(rest.trim_start_matches(", ")).expect("the folder of the new name");
        let (to, _) = quoted(rest).expect("the new name");
        let staged = format!("{from_folder}/{from}");
        assert!(
            !self.files.contains(&staged),
            "{staged} gets the name {to} before its content is synced"
        );
        if to == "head.json" {
            let unsynced: Vec<&String> = self
                .folders
                .iter()
                .filter(|folder| holds_objects(folder))
                .collect();
            assert!(
                unsynced.is_empty(),
                "the head may name objects in {unsynced:?} before their names are durable"
            );
        }
        self.folders.insert(to_folder.to_owned());
        self.renamed += 1;
    }

    fn acknowledge(&mut self, text: &str) {
        let begins = |word: &&&str| text.contains(&format!("\"{word}"));
        let is_quiet = QUIET.iter().find(begins).is_some();
        if !is_quiet && ACKNOWLEDGED.iter().find(begins).is_none() {
            return;
        }
        let at = format!("acknowledgement {} ({text})", self.acknowledged + 1);
        let unsynced: Vec<&String> = self.files.iter().filter(|file| !is_staged(file)).collect();
        assert!(unsynced.is_empty(), "{at} before the sync of {unsynced:?}");
        // A compaction may rename its objects and the head while a mutation is acknowledged.
        let counts = |folder: &&String| is_quiet || folder.ends_with("/journal");
        let unsynced: Vec<&String> = self.folders.iter().filter(counts).collect();
        assert!(unsynced.is_empty(), "{at} before the sync of {unsynced:?}");
        if !is_quiet {
            assert!(self.is_journal_synced, "{at} without a sync of the journal");
            self.is_journal_synced = false;
            self.acknowledged += 1;
        }
    }
}

/// Whether a file may be lost without harm: it says who holds a lock, which the kernel frees with the process.
fn is_hint(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.ends_with(".lock") || name.starts_with("lock.")
}

/// Whether a folder holds objects that count once the head names them.
fn holds_objects(folder: &str) -> bool {
    folder.ends_with("/snapshots") || folder.ends_with("/updates")
}

/// Whether a write only makes room for later frames. The journal does this after an acknowledgement.
fn is_space(bytes: &str) -> bool {
    bytes.starts_with(", \"\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\"")
}

/// Whether a file has no name yet that a reader looks for. Its rename is checked instead.
fn is_staged(path: &str) -> bool {
    path.contains("/.tmp-")
}

/// Splits the path of the file descriptor off that begins a text such as `5<store/journal/0-1.log>, …`. `None` for a
/// descriptor outside the store.
fn descriptor(text: &str) -> Option<(&str, &str)> {
    let (number, rest) = text.split_once('<')?;
    let (path, rest) = rest.split_once('>')?;
    let is_ours = path == STORE || path.starts_with(&format!("{STORE}/"));
    (number.bytes().all(|digit| digit.is_ascii_digit()) && is_ours).then_some((path, rest))
}

/// Splits a string in double quotes off the beginning of the next arguments.
fn quoted(text: &str) -> Option<(&str, &str)> {
    text.trim_start_matches(", ").strip_prefix('"')?.split_once('"')
}
