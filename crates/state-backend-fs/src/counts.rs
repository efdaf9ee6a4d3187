//! Counts what goes to the disk, so that tests can prove what an operation costs.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a store wrote since it was opened, counted where the system calls are made.
///
/// Everything counts: frames, heads, objects, the notes in lock files, and the syncs of files and folders, those
/// of readers included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IoCounts {
    /// Calls that put bytes into a file.
    pub writes: u64,
    /// Bytes that they put there.
    pub bytes: u64,
    /// Calls of fsync and fdatasync, on files and on folders.
    pub fsyncs: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counter {
    writes: AtomicU64,
    bytes: AtomicU64,
    fsyncs: AtomicU64,
}

impl Counter {
    pub(crate) fn wrote(&self, bytes: usize) {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn synced(&self) {
        self.fsyncs.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> IoCounts {
        IoCounts {
            writes: self.writes.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            fsyncs: self.fsyncs.load(Ordering::Relaxed),
        }
    }
}
