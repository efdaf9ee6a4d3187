//! Counts what goes to the disk, so that tests can prove what an operation costs.

use std::io;
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

/// A system call that changes the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// So many bytes into a file.
    Write(usize),
    /// A file to the disk.
    Sync,
    /// A folder's names to the disk.
    SyncFolder,
    /// A new folder.
    MakeFolder,
    /// A new temporary file.
    Stage,
    /// A file to its name.
    Move,
    /// A file away.
    Remove,
}

/// Stands at every call that changes the disk. In tests it can make each of them fail.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    writes: AtomicU64,
    bytes: AtomicU64,
    fsyncs: AtomicU64,
    #[cfg(test)]
    pub(crate) faults: crate::tests::faults::Faults,
}

impl Meter {
    /// Makes the call, and counts it.
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
            Call::MakeFolder | Call::Stage | Call::Move | Call::Remove => {}
        }
        #[cfg(test)]
        return self.faults.run(call, object, || run().map_err(Into::into));
        #[cfg(not(test))]
        {
            // Only tests ask which object it is.
            let _ = object;
            run().map_err(Into::into)
        }
    }

    pub(crate) fn read(&self) -> IoCounts {
        IoCounts {
            writes: self.writes.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            fsyncs: self.fsyncs.load(Ordering::Relaxed),
        }
    }
}
