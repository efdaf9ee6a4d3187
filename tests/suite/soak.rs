//! A process that embeds the crates and runs for long keeps no growing memory and no growing number of descriptors and
//! threads. Its store has no growing number of files while it deletes old revisions.
//!
//! The test is skipped on systems without procfs.

use crate::process::Worker;
use crate::race::counter;
use crate::store::{block_on, stack, verify};
use state_core::testkit::run::{scaled, skip};
use state_tests::line::Line;
use std::path::Path;

/// Number of updates of the process; [`scaled`] multiplies this number.
const UPDATES: u32 = 2_000;

/// How much more memory a process may keep in the second half of its run than in the first.
const MEMORY_KIB: u64 = 4 * 1024;

/// How many more files its store may have.
const FILES: usize = 16;

/// How many more descriptors and threads it may have: those of one operation, because a measurement can fall into its middle.
const DESCRIPTORS: usize = 4;

/// What a process keeps at the end of one of its sessions.
#[derive(Clone, Copy, Debug)]
struct Kept {
    memory_kib: u64,
    descriptors: usize,
    threads: u64,
    files: usize,
}

impl Kept {
    /// Measures a process and the folder of its store. Returns `None` on a system without procfs.
    fn of(pid: u32, store: &Path) -> Option<Self> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let number = |name: &str| {
            let value = status.lines().find_map(|line| line.strip_prefix(name))?;
            value.trim().trim_end_matches(" kB").parse().ok()
        };
        Some(Self {
            memory_kib: number("VmRSS:")?,
            threads: number("Threads:")?,
            descriptors: std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count(),
            files: files_below(store),
        })
    }

    /// Returns the larger value of each number.
    fn max(self, other: Self) -> Self {
        Self {
            memory_kib: self.memory_kib.max(other.memory_kib),
            descriptors: self.descriptors.max(other.descriptors),
            threads: self.threads.max(other.threads),
            files: self.files.max(other.files),
        }
    }
}

#[test]
fn long_lived_process_keeps_nothing_that_grows() {
    let dir = tempfile::tempdir().expect("a folder");
    block_on(stack(dir.path())).expect("a new stack");
    let updates = u64::from(scaled(UPDATES));
    let path = dir.path().to_str().expect("a path in UTF-8");
    let worker = Worker::start(&["embed", path, &updates.to_string()]);
    let (mut warm, mut late): (Option<Kept>, Option<Kept>) = (None, None);
    while let Some(line) = worker.next_line() {
        let Line::Counted(value) = line else {
            panic!("{line}");
        };
        let Some(kept) = Kept::of(worker.pid(), dir.path()) else {
            // The process may have ended after its last line.
            continue;
        };
        let maximum = if value <= updates / 2 {
            &mut warm
        } else {
            &mut late
        };
        *maximum = Some(maximum.map_or(kept, |maximum| maximum.max(kept)));
    }
    let (Some(warm), Some(late)) = (warm, late) else {
        skip("procfs", "what a long-lived process keeps");
        return;
    };
    eprintln!("soak: {warm:?} in the first half of {updates} updates, {late:?} in the second");
    assert!(
        late.descriptors <= warm.descriptors + DESCRIPTORS,
        "descriptors: {warm:?}, then {late:?}"
    );
    assert!(
        late.threads <= warm.threads + 2,
        "threads: {warm:?}, then {late:?}"
    );
    assert!(
        late.memory_kib <= warm.memory_kib + MEMORY_KIB,
        "memory: {warm:?}, then {late:?}"
    );
    assert!(late.files <= warm.files + FILES, "files: {warm:?}, then {late:?}");
    block_on(async {
        let stack = stack(dir.path()).await.expect("the stack opens");
        assert_eq!(counter(&stack).await, updates);
        verify(&stack).await;
    });
}

fn files_below(folder: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return 0;
    };
    let count = |path: std::path::PathBuf| if path.is_dir() { files_below(&path) } else { 1 };
    entries.flatten().map(|entry| count(entry.path())).sum()
}
