//! The moments of a command at which a test interferes: before a system call that changes a file.

use super::bench::Bench;
use super::is_change;
use super::rows::Row;
use crate::crash::strace::{self, TracedCall};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

/// One of the calls of a thread.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Point {
    pub(super) call: String,
    /// The file or folder, relative to the root. Without one, all calls count, because the path differs between runs.
    pub(super) path: Option<PathBuf>,
    pub(super) when: usize,
    /// Whether the call changes a file.
    pub(super) changes: bool,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} number {}", self.call, self.when)?;
        match &self.path {
            Some(path) => write!(f, " on {}", path.display()),
            None => Ok(()),
        }
    }
}

impl Point {
    /// The beginning of the command line that injects an action of `strace`, such as `signal=SIGKILL`, at this point.
    /// With `onwards`, also at each later call. `strace` writes its log to this file.
    pub(super) fn injecting(&self, bench: &Bench, action: &str, onwards: bool, log: &Path) -> Vec<OsString> {
        let path = self.path.as_ref().map(|path| bench.root().join(path));
        let plus = if onwards { "+" } else { "" };
        let action = format!("{action}:when={}{plus}", self.when);
        strace::injecting(&self.call, &action, path.as_deref(), log)
    }
}

/// Whether a path belongs to a store or to the home. Other files are those of resources.
fn is_kept(path: &Path) -> bool {
    path == Path::new("work")
        || ["work/.state", "work/there", "home"]
            .iter()
            .any(|kept| path.starts_with(kept))
}

/// Runs the command of a row twice without interference, and returns the points of these calls that `counts` selects. A
/// file has a path that is the same in each run if it has it in both runs.
pub(super) fn points(
    bench: &Bench,
    row: &Row,
    calls: &[&str],
    counts: impl Fn(&TracedCall) -> bool,
) -> Vec<Point> {
    let log = bench.root().with_extension("strace");
    let [first, second] = [(); 2].map(|()| {
        bench.reset();
        let ended = bench.run_under(&strace::logging(calls, &log), row);
        assert_eq!(ended.code, Some(0), "{}: {ended:?}", row.arguments);
        strace::read_log(&log, bench.root())
    });
    let known: BTreeSet<&PathBuf> = second.iter().flat_map(|call| &call.paths).collect();
    let mut numbers: BTreeMap<(&str, &str, Option<&PathBuf>), usize> = BTreeMap::new();
    let mut points = Vec::new();
    for call in &first {
        let mut number = |path| {
            let number = numbers.entry((&*call.thread, &*call.name, path)).or_default();
            *number += 1;
            *number
        };
        let overall = number(None);
        let paths: BTreeSet<&PathBuf> = call.paths.iter().collect();
        let by_path: BTreeMap<&PathBuf, usize> =
            paths.into_iter().map(|path| (path, number(Some(path)))).collect();
        let Some(path) = call.paths.first().filter(|path| counts(call) && is_kept(path)) else {
            continue;
        };
        let is_known = known.contains(path);
        let point = Point {
            call: call.name.clone(),
            path: is_known.then(|| path.clone()),
            when: if is_known { by_path[path] } else { overall },
            changes: is_change(call),
        };
        if !points.contains(&point) {
            points.push(point);
        }
    }
    points
}
