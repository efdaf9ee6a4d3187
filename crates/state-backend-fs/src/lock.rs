//! OS locks on files: they free themselves when their holder dies. Their content says who that is.

use crate::counts::Call;
use crate::dir::Dir;
use crate::failure::unreachable;
use crate::files::{Access, FileHandle, Lock};
use crate::layout::MAX_DOCUMENT;
use state_core::backend::Holder;
use state_core::{Error, Result};
use std::fs::TryLockError;
use std::thread;
use std::time::Duration;

/// How long to rest between two looks at a short lock.
const REST: Duration = Duration::from_millis(2);

/// How often a lock that is taken is looked at again: somebody may only be asking whether it is.
const LOOKS: u32 = 3;

/// A lock that is held. Dropping it frees it; the file stays for ever, for a lock on a file without a name is
/// one that nobody else sees.
#[derive(Debug)]
pub(crate) struct LockFile {
    file: FileHandle,
}

impl LockFile {
    /// Takes the lock at once.
    ///
    /// # Errors
    /// `Locked` with who holds it.
    pub(crate) fn take(dir: &Dir, name: &str, holder: &Holder) -> Result<Self> {
        Self::wait(dir, name, holder, REST * LOOKS)
    }

    /// Takes the lock, and waits for it so long.
    ///
    /// # Errors
    /// `Locked` with who holds it.
    pub(crate) fn wait(dir: &Dir, name: &str, holder: &Holder, patience: Duration) -> Result<Self> {
        let object = dir.object(name);
        let mut waited = Duration::ZERO;
        loop {
            let file = open(dir, name)?;
            match file.try_lock(Lock::Exclusive) {
                Ok(()) if is_at(dir, name, &file)? => {
                    let lock = Self { file };
                    lock.sign(dir, name, holder);
                    return Ok(lock);
                }
                // Somebody moved or removed the file meanwhile.
                Ok(()) => {}
                Err(TryLockError::WouldBlock) if waited >= patience => {
                    return Err(Error::locked(object, read(dir, name)));
                }
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(unreachable(&object, error)),
            }
            drop(file);
            thread::sleep(REST);
            waited += REST;
        }
    }

    /// Who holds the lock; none if nobody does.
    pub(crate) fn holder(dir: &Dir, name: &str) -> Result<Option<Holder>> {
        let Some(file) = dir.open(name, Access::Read)? else {
            return Ok(None);
        };
        match file.try_lock(Lock::Shared) {
            Ok(()) => Ok(None),
            Err(TryLockError::WouldBlock) => Ok(Some(read(dir, name))),
            Err(TryLockError::Error(error)) => Err(unreachable(&dir.object(name), error)),
        }
    }

    /// Says who holds it. What can't be said is no reason not to hold it.
    fn sign(&self, dir: &Dir, name: &str, holder: &Holder) {
        let line = serde_json::to_vec(holder).unwrap_or_default();
        drop(self.file.set_length(0));
        let write = || self.file.write_all_at(&line, 0);
        drop(dir.meter().run(Call::Write(line.len()), &dir.object(name), write));
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        // Closing would free it, unless a child process that is about to be born shares the handle.
        drop(self.file.set_length(0));
        drop(self.file.unlock());
    }
}

fn open(dir: &Dir, name: &str) -> Result<FileHandle> {
    if let Some(file) = dir.open(name, Access::Write)? {
        return Ok(file);
    }
    let Some(file) = dir.open(name, Access::Create)? else {
        return Err(Error::not_found(dir.path()));
    };
    file.restrict().map_err(|e| unreachable(&dir.object(name), e))?;
    Ok(file)
}

/// Whether the file still goes by this name.
fn is_at(dir: &Dir, name: &str, file: &FileHandle) -> Result<bool> {
    let failed = |e: std::io::Error| unreachable(&dir.object(name), e);
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
