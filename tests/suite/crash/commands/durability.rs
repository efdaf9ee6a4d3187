//! What a loss of power would undo, from the system calls of a command: a file gets its name only after its content is
//! durable, and the command reports its end only after everything that it wrote to the store and the home is durable. A
//! kill can't show this, because the kernel keeps the writes of a killed process.

use super::rows::{Row, rows};
use super::{CHANGES, for_each, locked};
use crate::crash::strace::{self, FinishedCall};
use std::collections::BTreeSet;

/// Replaces the folder of the bench in paths.
const ROOT: &str = "root";

/// The folders with files that must be durable, below [`ROOT`].
const KEPT: [&str; 3] = ["work/.state", "work/there", HOME];

/// The home folder of the user who runs the commands, below [`ROOT`].
const HOME: &str = "home";

/// The files and folders whose last change isn't durable.
#[derive(Debug, Default)]
struct Unsynced {
    /// Files with content that wasn't synced.
    files: BTreeSet<String>,
    /// Names that were made, replaced or removed without a sync of their folder.
    names: BTreeSet<String>,
    renamed: usize,
}

impl Unsynced {
    /// Follows a call that ended.
    ///
    /// # Errors
    /// If a file gets a name before its content is durable.
    fn observe(&mut self, call: &FinishedCall) -> Result<(), String> {
        let FinishedCall { name, text } = call;
        if text.contains(") = -1 ") {
            return Ok(());
        }
        let paths = paths(text);
        match name.as_str() {
            "fsync" | "fdatasync" => {
                for path in descriptors(text).into_iter().take(1) {
                    self.files.remove(&path);
                    self.names.retain(|name| folder_of(name) != path);
                }
            }
            "write" | "pwrite64" | "writev" | "pwritev" if !is_space(text) => {
                self.files.extend(descriptors(text).into_iter().take(1));
            }
            "rename" | "renameat" | "renameat2" | "link" | "linkat" => {
                let [from, to] = paths.as_slice() else {
                    return Err(format!("{name} without two paths: {text}"));
                };
                if self.files.contains(from) && is_kept(to) && !may_be_lost(to) {
                    return Err(format!("{from} gets the name {to} before its content is durable"));
                }
                if !may_be_lost(to) {
                    self.changed(to);
                }
                self.renamed += 1;
            }
            "mkdir" | "mkdirat" => paths.iter().for_each(|path| self.changed(path)),
            "unlink" | "unlinkat" | "rmdir" => {
                for path in &paths {
                    self.files.remove(path);
                    self.names.remove(path);
                    if !is_temporary(path) {
                        self.changed(path);
                    }
                }
            }
            "openat" if text.contains("O_CREAT") && text.contains("O_EXCL") => {
                for path in paths.iter().filter(|path| !is_temporary(path)) {
                    self.changed(path);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Records a change of the name of a file or folder.
    fn changed(&mut self, path: &str) {
        self.names.insert(path.to_owned());
    }

    /// The files and folders that a command must have made durable before its report.
    fn lost(&self) -> Vec<&String> {
        let files = self.files.iter().filter(|path| !is_temporary(path));
        let changed = files.chain(&self.names);
        changed
            .filter(|path| is_kept(path) && !may_be_lost(path))
            .collect()
    }
}

fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Returns the rest of a path below a folder of the bench. `None` if the path isn't that folder or below it.
fn below<'p>(folder: &str, path: &'p str) -> Option<&'p str> {
    let path = path.strip_prefix(ROOT)?.strip_prefix('/')?;
    let rest = path.strip_prefix(folder)?;
    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

fn is_kept(path: &str) -> bool {
    KEPT.iter().any(|kept| below(kept, path).is_some())
}

/// Whether a file has no name yet that a reader looks for.
fn is_temporary(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.starts_with(".tmp-") || name.ends_with(".tmp") || name.ends_with(".new")
}

/// Whether a write only makes room for later frames.
fn is_space(text: &str) -> bool {
    text.contains(">, \"\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0")
}

/// Whether a file or the name of a file may be lost without harm. The names of known stacks are among them: after a loss of
/// power a client may have forgotten a stack that it saw for the first time, or remember one that it removed.
fn may_be_lost(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let below_home = below(HOME, path).unwrap_or_default();
    // It names the holder of a lock, which the kernel frees with the process.
    name.ends_with(".lock")
        || name.starts_with("lock.")
        // A compaction is a second copy of frames.
        || name.ends_with(".frames")
        // Locks of commands that run, and approvals, which are asked for again.
        || ["/statectl/running", "/statectl/trusted"].iter().any(|kept| path.contains(kept))
        // A result that was recorded is recognized if its file comes back.
        || path.contains("/statectl/spool")
        // The folders of the memory.
        || ["/state", "/state/statectl"].contains(&below_home)
        || path.contains("/statectl/seen") && !path.ends_with(".json")
        // An examination of the store by `doctor`.
        || path.contains("/.tmp-")
        // The runtime folder is lost at a restart anyway.
        || below_home.starts_with("/run")
}

/// The paths of the file descriptors in the arguments of a call.
fn descriptors(text: &str) -> Vec<String> {
    let start = format!("<{ROOT}/");
    let starts = text.match_indices(&start);
    let paths = starts.filter_map(|(at, _)| text[at + 1..].split_once('>'));
    paths.map(|(path, _)| path.to_owned()).collect()
}

/// The paths that the arguments of a call name, relative ones below the descriptors before them.
fn paths(text: &str) -> Vec<String> {
    let arguments = text.rsplit_once(") = ").map_or(text, |(arguments, _)| arguments);
    let mut folder = String::new();
    let mut found = Vec::new();
    let mut rest = arguments;
    while let Some(at) = rest.find(['<', '"']) {
        let end = if rest[at..].starts_with('<') { '>' } else { '"' };
        let Some((inside, after)) = rest[at + 1..].split_once(end) else {
            break;
        };
        match end {
            '>' => folder = inside.to_owned(),
            _ if inside.starts_with('/') || inside.starts_with(&format!("{ROOT}/")) => {
                found.push(inside.to_owned());
            }
            _ => found.push(format!("{folder}/{inside}")),
        }
        rest = after;
    }
    found
}

#[test]
fn command_reports_its_end_after_the_sync_of_all_writes() {
    let Some(calls) = strace::existing(&CHANGES, "the order of writes, syncs and reports of commands") else {
        return;
    };
    let rows = rows();
    let rows: Vec<&Row> = rows.iter().collect();
    let tally = for_each(&rows, None, |bench, row, policy, _, tally| {
        let log = bench.root().with_extension("durability");
        let ended = bench.run_under(&strace::logging(&calls, &log), row);
        assert_eq!(ended.code, Some(0), "{}: {ended:?}", row.arguments);
        let calls = strace::finished_calls(&log, bench.root(), ROOT);
        let report = calls
            .iter()
            .rposition(|call| call.name == "write" && call.text.starts_with("1<"));
        let mut unsynced = Unsynced::default();
        let mut broken: Vec<String> = calls[..report.unwrap_or(calls.len())]
            .iter()
            .filter_map(|call| unsynced.observe(call).err())
            .collect();
        let lost = unsynced.lost();
        if !lost.is_empty() {
            broken.push(format!("the report is printed before the sync of {lost:?}"));
        }
        let mut tally = locked(tally);
        *tally.done.entry(row.command).or_default() += unsynced.renamed;
        let described = broken
            .into_iter()
            .map(|broken| format!("statectl {}, {policy:?}: {broken}", row.arguments));
        tally.failures.extend(described);
    });
    let renames: usize = tally.done.values().sum();
    eprintln!("strace: {renames} names in commands: {:?}", tally.done);
    assert!(tally.failures.is_empty(), "{}", tally.failures.join("\n"));
    assert!(renames > 50, "too few renames: {renames}");
}
