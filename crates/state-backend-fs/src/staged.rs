//! A file that nobody sees yet: written and synced under a name of its own, then moved to where it belongs.

use crate::counts::Call;
use crate::dir::Dir;
use crate::failure::Failure;
use crate::files::{Access, FileHandle, Folder, SyncScope};
use rustix::io::Errno;
use state_core::{Error, Result};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers the files of this process. Two processes with one id, in two containers, meet `EEXIST` and go on.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// How many names are tried: more strangers with our names than that means that something else is wrong.
const ATTEMPTS: usize = 10_000;

/// A whole, synced file without its name. It is removed unless it gets one.
#[derive(Debug)]
pub(crate) struct Staged<'a> {
    dir: &'a Dir,
    object: String,
    name: Option<String>,
    file: Option<FileHandle>,
}

impl<'a> Staged<'a> {
    /// Writes and syncs it; `object` is what it is about to become, for messages.
    pub(crate) fn write(dir: &'a Dir, object: &str, bytes: &[u8]) -> Result<Self, Failure> {
        let (name, file) = fresh(dir, object)?;
        let mut staged = Self {
            dir,
            object: object.to_owned(),
            name: Some(name),
            file: None,
        };
        // The umask may have taken rights of our own.
        file.restrict().map_err(|e| Failure::unwritten(object, e))?;
        let meter = dir.meter();
        meter
            .run(Call::Write(bytes.len()), object, || file.write_all_at(bytes, 0))
            .map_err(|e| Failure::unwritten(object, e))?;
        meter
            .run(Call::Sync, object, || file.sync(SyncScope::All))
            .map_err(|e| Failure::spoilt(object, e))?;
        staged.file = Some(file);
        Ok(staged)
    }

    /// Gives it a name, and takes it from whatever had it. The folder isn't synced yet.
    pub(crate) fn replace(mut self, name: &str) -> Result<(), Failure> {
        let Some(temporary) = self.name.take() else {
            return Ok(());
        };
        let moved = || self.dir.folder().rename(&temporary, name);
        match self.dir.meter().run(Call::Move, &self.object, moved) {
            Ok(()) => Ok(()),
            Err(error) => {
                self.name = Some(temporary);
                Err(Failure::unmoved(&self.object, error))
            }
        }
    }

    /// Gives it a name that nothing has, and hands the open file over; none if something has it. The folder isn't
    /// synced yet.
    pub(crate) fn create(mut self, name: &str) -> Result<Option<FileHandle>, Failure> {
        let Some(temporary) = self.name.take() else {
            return Ok(None);
        };
        let moved = || move_if_absent(self.dir.folder(), &temporary, name);
        match self.dir.meter().run(Call::Move, &self.object, moved) {
            Ok(Moved::Whole) => Ok(self.file.take()),
            Ok(Moved::Linked) => {
                // The link is what counts; the other name goes when this is dropped.
                self.name = Some(temporary);
                Ok(self.file.take())
            }
            Err(error) => {
                self.name = Some(temporary);
                if error.kind() == io::ErrorKind::AlreadyExists {
                    return Ok(None);
                }
                Err(Failure::unmoved(&self.object, error))
            }
        }
    }
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        if let Some(name) = self.name.take() {
            // Best effort: what is left over is ignored by everybody.
            self.dir.folder().unlink(&name).ok();
        }
    }
}

fn fresh(dir: &Dir, object: &str) -> Result<(String, FileHandle), Failure> {
    for _ in 0..ATTEMPTS {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!(".tmp-{}-{number}", std::process::id());
        let open = || dir.folder().open(&name, Access::CreateNew);
        match dir.meter().run(Call::Stage, object, open) {
            Ok(file) => return Ok((name, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Failure::unwritten(object, error)),
        }
    }
    Err(Error::conflict(
        dir.path(),
        "it is full of temporary files of dead processes: remove `.tmp-*`",
    )
    .into())
}

enum Moved {
    Whole,
    Linked,
}

fn move_if_absent(folder: &dyn Folder, from: &str, to: &str) -> io::Result<Moved> {
    match folder.rename_if_absent(from, to) {
        Ok(()) => Ok(Moved::Whole),
        Err(error) => match Errno::from_io_error(&error) {
            // The file system has no such call.
            Some(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => link_if_absent(folder, from, to),
            _ => Err(error),
        },
    }
}

fn link_if_absent(folder: &dyn Folder, from: &str, to: &str) -> io::Result<Moved> {
    folder.link(from, to).map(|()| Moved::Linked)
}

#[cfg(test)]
mod tests {
    use super::{Moved, link_if_absent};
    use crate::files::{FileSystem, Native};
    use std::{fs, io};

    #[test]
    fn a_filesystem_without_exclusive_rename_links_instead_and_never_replaces() {
        let folder = tempfile::tempdir().unwrap();
        let dir = Native.open_folder(folder.path()).unwrap();
        fs::write(folder.path().join("from"), "new").unwrap();
        assert!(matches!(
            link_if_absent(dir.as_ref(), "from", "to"),
            Ok(Moved::Linked)
        ));
        fs::write(folder.path().join("other"), "other").unwrap();
        let taken = link_if_absent(dir.as_ref(), "other", "to");
        assert!(matches!(taken, Err(error) if error.kind() == io::ErrorKind::AlreadyExists));
        assert_eq!(fs::read(folder.path().join("to")).unwrap(), b"new");
    }
}
