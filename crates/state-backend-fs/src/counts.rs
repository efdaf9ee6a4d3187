//! Counts of writes and syncs, with which tests verify the cost of an operation.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of a store's writes and syncs since it was opened, taken where the system calls are made.
///
/// They include frames, heads, objects, the holders in lock files, and all syncs of files and folders, including those
/// of readers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IoCounts {
    /// Number of calls that wrote bytes to a file.
    pub writes: u64,
    /// Number of bytes that these calls wrote.
    pub bytes: u64,
    /// Number of calls of fsync and fdatasync, on files and on folders.
    pub fsyncs: u64,
    /// Number of times that a session wrote and synced space ahead of the end of its journal. The other fields don't count
    /// these calls, because no commit waits for them.
    pub preallocations: u64,
    /// Number of bytes that were written to preallocate space and to guard its start.
    pub preallocated: u64,
}

/// A system call that changes the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// Writes this number of bytes to a file.
    Write(usize),
    /// Syncs a file to the disk.
    Sync,
    /// Writes this number of zeros ahead of the end of the journal.
    Preallocate(usize),
    /// Syncs the zeros ahead of the end of the journal.
    SyncPreallocated,
    /// Cuts the space ahead of the end of the journal off, or extends it without writing.
    SetLength,
    /// Syncs a folder's names to the disk.
    SyncFolder,
    /// Creates a folder below another one.
    MakeFolder,
    /// Creates a temporary file.
    Stage,
    /// Moves a temporary file to its final name.
    Move,
    /// Removes the name of a file.
    Remove,
}

/// Runs and counts every call that changes the disk. Tests inject faults here.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    writes: AtomicU64,
    bytes: AtomicU64,
    fsyncs: AtomicU64,
    preallocations: AtomicU64,
    preallocated: AtomicU64,
    #[cfg(test)]
    pub(crate) faults: crate::tests::faults::Faults,
}

impl Meter {
    /// Counts the call and makes it.
    pub(crate) fn run<T, E: Into<io::Error>>(
        &self,
        call: Call,
        object: &str,
        run: impl FnOnce() -> Result<T, E>,
    ) -> io::Result<T> {
        match call {
            Call::Write(bytes) => {
                self.writes.fetch_add(1, Ordering::Relaxed);
                self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
            }
            Call::Sync | Call::SyncFolder => {
                self.fsyncs.fetch_add(1, Ordering::Relaxed);
            }
            Call::Preallocate(bytes) => {
                self.preallocated.fetch_add(bytes as u64, Ordering::Relaxed);
            }
            Call::SyncPreallocated => {
                self.preallocations.fetch_add(1, Ordering::Relaxed);
            }
            Call::SetLength | Call::MakeFolder | Call::Stage | Call::Move | Call::Remove => {}
        }
        #[cfg(test)]
        return self.faults.run(call, object, || run().map_err(Into::into));
        #[cfg(not(test))]
        {
            // Only the fault injection of tests needs the object's name.
            let _ = object;
            run().map_err(Into::into)
        }
    }

    pub(crate) fn read(&self) -> IoCounts {
        IoCounts {
            writes: self.writes.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            fsyncs: self.fsyncs.load(Ordering::Relaxed),
            preallocations: self.preallocations.load(Ordering::Relaxed),
            preallocated: self.preallocated.load(Ordering::Relaxed),
        }
    }
}
