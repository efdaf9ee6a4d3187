//! OS locks on files. The system frees a lock when its holder crashes; the file's content names the holder.
//!
//! A lock holder that closed the journal leaves the nonce of the closed head instead, after it synced that head's name. A
//! reader that finds the nonce of its head needs no sync: see [`closed_head`]. Any other content proves nothing.

use crate::counts::Call;
use crate::dir::Dir;
use crate::error::read_failed;
use crate::files::{Access, FileHandle, Lock, Sharing};
use crate::layout::MAX_DOCUMENT;
use crate::staged::StagedFile;
use state_core::backend::Holder;
use state_core::{Error, Nonce, Result};
use std::fs::TryLockError;
use std::io;
use std::thread;
use std::time::Duration;

/// Pause between two attempts to take a lock.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Number of pauses before a writer lock counts as held: [`LockFile::holder`] of another process takes a shared lock
/// for a moment, which must not make an acquire fail.
const TAKE_ATTEMPTS: u32 = 3;

/// A held lock, which is freed on drop. The file is never deleted: a process could lock a deleted file while another
/// process locks its successor of the same name, and both would hold the lock.
#[derive(Debug)]
pub(crate) struct LockFile {
    file: FileHandle,
    /// Whether the content is the nonce of a closed head, which stays.
    leaves_head: bool,
}

impl LockFile {
    /// Takes the lock, or fails at once if another process holds it.
    ///
    /// # Errors
    /// [`Error::Locked`] with the lock holder.
    pub(crate) fn take(dir: &Dir, name: &str, holder: &Holder) -> Result<Self> {
        Self::wait(dir, name, holder, POLL_INTERVAL * TAKE_ATTEMPTS)
    }

    /// Takes the lock, and waits for it no longer than `lock_timeout`.
    ///
    /// # Errors
    /// [`Error::Locked`] with the lock holder.
    pub(crate) fn wait(dir: &Dir, name: &str, holder: &Holder, lock_timeout: Duration) -> Result<Self> {
        let object = dir.object(name);
        let mut waited = Duration::ZERO;
        loop {
            let file = open(dir, name)?;
            match file.try_lock(Lock::Exclusive) {
                Ok(()) if has_name(dir, name, &file)? => {
                    let lock = Self {
                        file,
                        leaves_head: false,
                    };
                    lock.write_holder(dir, name, holder);
                    return Ok(lock);
                }
                // The file was moved or removed between open and lock. A lock on a file without this name excludes
                // no other process, so open the file that has the name now.
                Ok(()) => {}
                Err(TryLockError::WouldBlock) if waited >= lock_timeout => {
                    return Err(Error::locked(object, read(dir, name)));
                }
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(read_failed(&object, error)),
            }
            drop(file);
            thread::sleep(POLL_INTERVAL);
            waited += POLL_INTERVAL;
        }
    }

    /// Returns the lock holder; `None` if the lock is free. Takes a shared lock for a moment, which several readers
    /// can do at once.
    pub(crate) fn holder(dir: &Dir, name: &str) -> Result<Option<Holder>> {
        let Some(file) = dir.open(name, Access::Read)? else {
            return Ok(None);
        };
        match file.try_lock(Lock::Shared) {
            Ok(()) => Ok(None),
            Err(TryLockError::WouldBlock) => Ok(Some(read(dir, name))),
            Err(TryLockError::Error(error)) => Err(read_failed(&dir.object(name), error)),
        }
    }

    /// Leaves the nonce of a closed head whose name is durable. An error is ignored: without the nonce, readers sync that
    /// name again.
    pub(crate) fn leave_closed(&mut self, dir: &Dir, name: &str, head: Nonce) {
        self.leaves_head = self.write(dir, name, head.to_string().as_bytes()).is_ok();
    }

    /// Writes the holder into the file, for messages only. Errors are ignored: only the OS lock excludes others, and a
    /// full disk must not prevent a takeover.
    fn write_holder(&self, dir: &Dir, name: &str, holder: &Holder) {
        let line = serde_json::to_vec(holder).unwrap_or_default();
        drop(self.write(dir, name, &line));
    }

    fn write(&self, dir: &Dir, name: &str, line: &[u8]) -> io::Result<()> {
        self.file.set_length(0)?;
        let write = || self.file.write_all_at(line, 0);
        dir.meter().run(Call::Write(line.len()), &dir.object(name), write)
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        // Clear the holder first, so that the next holder never finds the name of this holder.
        if !self.leaves_head {
            drop(self.file.set_length(0));
        }
        // Closing the file isn't enough: a child process that is being forked may share the handle, and with it the lock.
        drop(self.file.unlock());
    }
}

/// Returns the nonce of the closed head that the last lock holder left; `None` if it left none, or another process holds
/// the lock. No error counts: the caller then syncs the head's name.
pub(crate) fn closed_head(dir: &Dir, name: &str) -> Option<Nonce> {
    let (bytes, _) = dir.read(name, MAX_DOCUMENT).ok()??;
    std::str::from_utf8(&bytes).ok()?.parse().ok()
}

fn open(dir: &Dir, name: &str) -> Result<FileHandle> {
    if let Some(file) = dir.open(name, Access::Write)? {
        return Ok(file);
    }
    if dir.sharing() == Sharing::Group {
        // Another user may open the file as soon as it has its name, so it needs its mode before.
        let staged = StagedFile::write_unsynced(dir, &dir.object(name), &[])?;
        staged.create(name)?;
    }
    let Some(file) = dir.open(name, Access::Create)? else {
        return Err(Error::not_found(dir.path()));
    };
    if dir.sharing() == Sharing::Owner {
        file.restrict(Sharing::Owner)
            .map_err(|e| read_failed(&dir.object(name), e))?;
    }
    Ok(file)
}

/// Returns whether the file still has this name, and wasn't moved or deleted.
fn has_name(dir: &Dir, name: &str, file: &FileHandle) -> Result<bool> {
    let failed = |e: io::Error| read_failed(&dir.object(name), e);
    let held = file.status().map_err(failed)?;
    match dir.open(name, Access::Read)? {
        Some(named) => Ok(named.status().map_err(failed)?.id == held.id),
        None => Ok(false),
    }
}

fn read(dir: &Dir, name: &str) -> Holder {
    match dir.read(name, MAX_DOCUMENT) {
        Ok(Some((bytes, _))) => serde_json::from_slice(&bytes).unwrap_or_default(),
        _ => Holder::default(),
    }
}
