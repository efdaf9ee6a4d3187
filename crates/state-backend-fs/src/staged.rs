//! A file that nobody sees yet: written and synced under a name of its own, then moved to where it belongs.

use crate::counts::Call;
use crate::dir::{Dir, FILE_MODE};
use crate::failure::Failure;
use rustix::fs::{AtFlags, OFlags};
use rustix::io::Errno;
use state_core::{Error, Result};
use std::fs::File;
use std::io::{self, Write};
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
    file: Option<File>,
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
        rustix::fs::fchmod(&file, FILE_MODE).map_err(|e| Failure::unwritten(object, e.into()))?;
        let meter = dir.meter();
        meter
            .run(Call::Write(bytes.len()), object, || (&file).write_all(bytes))
            .map_err(|e| Failure::unwritten(object, e))?;
        meter
            .run(Call::Sync, object, || file.sync_all())
            .map_err(|e| Failure::spoilt(object, e))?;
        staged.file = Some(file);
        Ok(staged)
    }

    /// Gives it a name, and takes it from whatever had it. The folder isn't synced yet.
    pub(crate) fn replace(mut self, name: &str) -> Result<(), Failure> {
        let Some(temporary) = self.name.take() else {
            return Ok(());
        };
        let fd = self.dir.fd();
        let moved = || rustix::fs::renameat(fd, &temporary, fd, name);
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
    pub(crate) fn create(mut self, name: &str) -> Result<Option<File>, Failure> {
        let Some(temporary) = self.name.take() else {
            return Ok(None);
        };
        let moved = || move_if_absent(self.dir, &temporary, name);
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
            rustix::fs::unlinkat(self.dir.fd(), &name, AtFlags::empty()).ok();
        }
    }
}

fn fresh(dir: &Dir, object: &str) -> Result<(String, File), Failure> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for _ in 0..ATTEMPTS {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!(".tmp-{}-{number}", std::process::id());
        let open = || rustix::fs::openat(dir.fd(), &name, flags, FILE_MODE);
        match dir.meter().run(Call::Stage, object, open) {
            Ok(fd) => return Ok((name, File::from(fd))),
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

#[cfg(any(target_os = "linux", target_vendor = "apple"))]
fn move_if_absent(dir: &Dir, from: &str, to: &str) -> Result<Moved, Errno> {
    use rustix::fs::RenameFlags;
    match rustix::fs::renameat_with(dir.fd(), from, dir.fd(), to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(Moved::Whole),
        // A filesystem that can't.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => link_if_absent(dir, from, to),
        Err(errno) => Err(errno),
    }
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
fn move_if_absent(dir: &Dir, from: &str, to: &str) -> Result<Moved, Errno> {
    link_if_absent(dir, from, to)
}

fn link_if_absent(dir: &Dir, from: &str, to: &str) -> Result<Moved, Errno> {
    rustix::fs::linkat(dir.fd(), from, dir.fd(), to, AtFlags::empty()).map(|()| Moved::Linked)
}

#[cfg(test)]
mod tests {
    use super::{Moved, link_if_absent};
    use crate::dir::Dir;
    use rustix::io::Errno;
    use std::fs;
    use std::sync::Arc;

    #[test]
    fn a_filesystem_without_exclusive_rename_links_instead_and_never_replaces() {
        let folder = tempfile::tempdir().unwrap();
        let dir = Dir::root(folder.path(), Arc::default()).unwrap();
        fs::write(folder.path().join("from"), "new").unwrap();
        assert!(matches!(link_if_absent(&dir, "from", "to"), Ok(Moved::Linked)));
        fs::write(folder.path().join("other"), "other").unwrap();
        assert!(matches!(link_if_absent(&dir, "other", "to"), Err(Errno::EXIST)));
        assert_eq!(fs::read(folder.path().join("to")).unwrap(), b"new");
    }
}
