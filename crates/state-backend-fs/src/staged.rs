//! A temporary file that is written and synced under its own name and then moved to its final name.

use crate::counts::Call;
use crate::dir::Dir;
use crate::error::WriteError;
use crate::files::{Access, FileHandle, Folder, Lock, SyncScope};
use crate::layout::TEMPORARY;
use rustix::io::Errno;
use state_core::{Error, Result};
use std::fs::TryLockError;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Numbers the temporary files of this process. Processes in two containers may have the same process id; then
/// `EEXIST` makes them use the next number.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Number of names that are tried. Crashes alone can't leave so many files.
const ATTEMPTS: usize = 10_000;

/// A complete, synced file without its final name. It is removed on drop unless it was moved to its final name.
#[derive(Debug)]
pub(crate) struct StagedFile<'a> {
    dir: &'a Dir,
    object: String,
    name: Option<String>,
    file: Option<FileHandle>,
}

impl<'a> StagedFile<'a> {
    /// Writes and syncs the file; `object` is its final path, for messages.
    pub(crate) fn write(dir: &'a Dir, object: &str, bytes: &[u8]) -> Result<Self, WriteError> {
        let staged = Self::write_unsynced(dir, object, bytes)?;
        if let Some(file) = &staged.file {
            // Sync before the file gets its name: after a crash the name must never refer to missing bytes.
            dir.meter()
                .run(Call::Sync, object, || file.sync(SyncScope::All))
                .map_err(|e| WriteError::sync_failed(object, e))?;
        }
        Ok(staged)
    }

    /// Writes a file whose bytes a crash may lose: its readers check a digest, and can do without it.
    pub(crate) fn write_unsynced(dir: &'a Dir, object: &str, bytes: &[u8]) -> Result<Self, WriteError> {
        let (name, file) = fresh(dir, object)?;
        let mut staged = Self {
            dir,
            object: object.to_owned(),
            name: Some(name),
            file: None,
        };
        // The umask may have removed permission bits of the owner.
        file.restrict(dir.sharing())
            .map_err(|e| WriteError::not_applied(object, e))?;
        dir.meter()
            .run(Call::Write(bytes.len()), object, || file.write_all_at(bytes, 0))
            .map_err(|e| WriteError::not_applied(object, e))?;
        staged.file = Some(file);
        Ok(staged)
    }

    /// Time of the last change of the file, by the clock of the file system.
    pub(crate) fn modified(&self) -> io::Result<Duration> {
        match &self.file {
            Some(file) => Ok(file.status()?.modified),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Moves the file to its name and replaces the file that has the name. The folder isn't synced yet.
    pub(crate) fn replace(mut self, name: &str) -> Result<(), WriteError> {
        let Some(temporary) = self.name.take() else {
            return Ok(());
        };
        let moved = || self.dir.folder().rename(&temporary, name);
        match self.dir.meter().run(Call::Move, &self.object, moved) {
            Ok(()) => Ok(()),
            Err(error) => {
                self.name = Some(temporary);
                Err(WriteError::move_failed(&self.object, error))
            }
        }
    }

    /// Moves the file to its name and returns the open file; `None` if another file has the name. The folder isn't
    /// synced yet.
    pub(crate) fn create(mut self, name: &str) -> Result<Option<FileHandle>, WriteError> {
        let Some(temporary) = self.name.take() else {
            return Ok(None);
        };
        let moved = || move_if_absent(self.dir.folder(), &temporary, name);
        match self.dir.meter().run(Call::Move, &self.object, moved) {
            Ok(MoveMethod::Renamed) => Ok(self.file.take()),
            Ok(MoveMethod::Linked) => {
                // The hard link is durable with the folder; the temporary name is removed on drop.
                self.name = Some(temporary);
                Ok(self.file.take())
            }
            Err(error) => {
                self.name = Some(temporary);
                if error.kind() == io::ErrorKind::AlreadyExists {
                    return Ok(None);
                }
                Err(WriteError::move_failed(&self.object, error))
            }
        }
    }
}

impl Drop for StagedFile<'_> {
    fn drop(&mut self) {
        if let Some(name) = self.name.take() {
            // Errors are ignored: readers skip files of this name pattern.
            self.dir.folder().unlink(&name).ok();
        }
    }
}

fn fresh(dir: &Dir, object: &str) -> Result<(String, FileHandle), WriteError> {
    for _ in 0..ATTEMPTS {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{TEMPORARY}{}-{number}", std::process::id());
        let open = || dir.folder().open(&name, Access::CreateNew);
        match dir.meter().run(Call::Stage, object, open) {
            // The lock shows that the file belongs to a running process: see `leftovers`. The system frees it with the handle.
            Ok(file) => match file.try_lock(Lock::Exclusive) {
                Ok(()) => return Ok((name, file)),
                // Another process examines the file. It is empty, and stays until that process collects it.
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(WriteError::not_applied(object, error)),
            },
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(WriteError::not_applied(object, error)),
        }
    }
    Err(Error::conflict(
        dir.path(),
        "it is full of temporary files of crashed processes: remove `.tmp-*`",
    )
    .into())
}

enum MoveMethod {
    Renamed,
    Linked,
}

fn move_if_absent(folder: &dyn Folder, from: &str, to: &str) -> io::Result<MoveMethod> {
    match folder.rename_if_absent(from, to) {
        Ok(()) => Ok(MoveMethod::Renamed),
        Err(error) => match Errno::from_io_error(&error) {
            // The file system doesn't support an exclusive rename; a hard link is as atomic.
            Some(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => link_if_absent(folder, from, to),
            _ => Err(error),
        },
    }
}

fn link_if_absent(folder: &dyn Folder, from: &str, to: &str) -> io::Result<MoveMethod> {
    folder.link(from, to).map(|()| MoveMethod::Linked)
}

#[cfg(test)]
mod tests {
    use super::{MoveMethod, link_if_absent};
    use crate::files::{FileSystem, Native};
    use std::{fs, io};

    #[test]
    fn link_replaces_exclusive_rename_and_never_overwrites() {
        let folder = tempfile::tempdir().unwrap();
        let dir = Native.open_folder(folder.path()).unwrap();
        fs::write(folder.path().join("from"), "new").unwrap();
        assert!(matches!(
            link_if_absent(dir.as_ref(), "from", "to"),
            Ok(MoveMethod::Linked)
        ));
        fs::write(folder.path().join("other"), "other").unwrap();
        let taken = link_if_absent(dir.as_ref(), "other", "to");
        assert!(matches!(taken, Err(error) if error.kind() == io::ErrorKind::AlreadyExists));
        assert_eq!(fs::read(folder.path().join("to")).unwrap(), b"new");
    }
}
