//! Temporary files: written and synced under a unique name, then renamed to the final name. A cancelled write removes
//! its own temporary file; [`Place::remove_stale_staged`] removes the temporary files that a crashed process left.

use super::blocking::Cancellation;
use super::desired::raw_mode;
use super::place::{Place, change_error, os_error};
use crate::provider::Failure;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use state_core::digest::{Digest, Digester};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::BorrowedFd;

/// Size of the copy buffer.
const PIECE: usize = 64 << 10;

/// A complete, synced file under its temporary name. It is removed on drop unless it was renamed.
#[derive(Debug)]
pub(super) struct Staged<'a> {
    place: &'a Place,
    name: String,
    is_moved: bool,
    /// Size of the content in bytes.
    pub(super) size: u64,
    pub(super) digest: Digest,
}

impl<'a> Staged<'a> {
    /// Writes and syncs the file. `token` must be unique among the temporary files for the final name of `place`.
    pub(super) fn write(
        place: &'a Place,
        token: &str,
        content: &mut dyn Read,
        mode: u64,
    ) -> Result<Self, Failure> {
        let name = format!("{}{token}.tmp", place.prefix_of_staged());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(place.to_change()?, &*name, flags, Mode::RUSR | Mode::WUSR);
        let mut file = File::from(fd.map_err(|errno| os_error(&place.path, errno))?);
        let mut staged = Self {
            place,
            name,
            is_moved: false,
            size: 0,
            digest: Digest::of(b""),
        };
        // On an error, the drop of `staged` removes the file; nothing else was changed.
        let failed = |error: io::Error| Failure::not_done(format!("{}: {error}", place.path));
        let copied = copy(content, &mut file, &place.cancellation);
        (staged.size, staged.digest) = copied.map_err(failed)?;
        place.cancellation.check()?;
        // Sets the permissions explicitly, because the umask applied when the file was created.
        rustix::fs::fchmod(&file, raw_mode(mode)).map_err(|errno| os_error(&place.path, errno))?;
        file.sync_all().map_err(failed)?;
        Ok(staged)
    }

    /// Renames the file if no file with the final name exists. Returns `false` if such a file exists. The caller must
    /// sync the directory.
    pub(super) fn create(mut self) -> Result<bool, Failure> {
        match move_if_absent(self.place.to_change()?, &self.name, &self.place.name) {
            Ok(is_moved) => {
                // `false` if the file was linked: then it has both names, and the drop removes the temporary one.
                self.is_moved = is_moved;
                Ok(true)
            }
            Err(Errno::EXIST) => Ok(false),
            // The temporary file is missing. Only a concurrent change of the same path removes it, as a stale file.
            Err(Errno::NOENT) => Err(Failure::not_done(format!(
                "{}: another process creates this file at the same time: check that no other resource has this path",
                self.place.path
            ))),
            Err(errno) => Err(change_error(&self.place.path, errno)),
        }
    }

    /// Renames the file, and replaces an existing file with the final name. The caller must sync the directory.
    pub(super) fn replace(mut self) -> Result<(), Failure> {
        let fd = self.place.to_change()?;
        let moved = rustix::fs::renameat(fd, &*self.name, fd, &*self.place.name);
        moved.map_err(|errno| change_error(&self.place.path, errno))?;
        self.is_moved = true;
        Ok(())
    }
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        if !self.is_moved {
            self.place.unlink_staged(&self.name);
        }
    }
}

/// Copies a stream. Returns its length in bytes and its digest. Fails after a cancellation.
pub(super) fn copy(
    from: &mut dyn Read,
    to: &mut dyn Write,
    cancellation: &Cancellation,
) -> io::Result<(u64, Digest)> {
    let mut piece = vec![0; PIECE];
    let (mut size, mut digester) = (0, Digester::default());
    loop {
        cancellation.check().map_err(io::Error::other)?;
        let length = match from.read(&mut piece) {
            Ok(0) => return Ok((size, digester.finish())),
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let read = piece.get(..length).unwrap_or_default();
        to.write_all(read)?;
        digester.add(read);
        size += length as u64;
    }
}

/// Renames a file if nothing has the new name, and returns `true`. On a file system without such a rename, links the
/// file to the new name instead; then the old name still exists, and the result is `false`.
#[cfg(any(target_os = "linux", target_vendor = "apple"))]
fn move_if_absent(fd: BorrowedFd<'_>, from: &str, to: &str) -> Result<bool, Errno> {
    use rustix::fs::RenameFlags;
    match rustix::fs::renameat_with(fd, from, fd, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(true),
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => link_if_absent(fd, from, to),
        Err(errno) => Err(errno),
    }
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
fn move_if_absent(fd: BorrowedFd<'_>, from: &str, to: &str) -> Result<bool, Errno> {
    link_if_absent(fd, from, to)
}

fn link_if_absent(fd: BorrowedFd<'_>, from: &str, to: &str) -> Result<bool, Errno> {
    rustix::fs::linkat(fd, from, fd, to, AtFlags::empty()).map(|()| false)
}
