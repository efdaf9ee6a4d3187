//! A folder of the store, held open: every step below the root is relative to such a handle and follows no
//! symbolic link.

use crate::counts::{Call, Meter};
use crate::failure::{Failure, strange, unreachable};
use crate::staged::Staged;
use bytes::Bytes;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use state_core::{Error, Result};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

pub(crate) const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
const FOLDER_MODE: Mode = Mode::RWXU;

/// An open folder. Clones share the handle.
#[derive(Clone, Debug)]
pub(crate) struct Dir {
    fd: Arc<OwnedFd>,
    path: Arc<str>,
    meter: Arc<Meter>,
}

impl Dir {
    /// Opens the root, which may be reached through symbolic links.
    pub(crate) fn root(path: &Path, meter: Arc<Meter>) -> Result<Self> {
        let shown = path.display().to_string();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(fd) => Ok(Self {
                fd: Arc::new(fd),
                path: shown.into(),
                meter,
            }),
            Err(Errno::NOENT) => Err(Error::not_found(shown)),
            Err(errno) => Err(unreachable(&shown, errno)),
        }
    }

    /// The path, for messages.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The path of something in it, for messages.
    pub(crate) fn object(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }

    pub(crate) fn meter(&self) -> &Meter {
        &self.meter
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Opens a folder in it.
    pub(crate) fn child(&self, name: &str) -> Result<Self> {
        self.child_if_any(name)?
            .ok_or_else(|| Error::not_found(self.object(name)))
    }

    /// Opens a folder in it; none if there is none.
    pub(crate) fn child_if_any(&self, name: &str) -> Result<Option<Self>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.fd, name, flags, Mode::empty()) {
            Ok(fd) => Ok(Some(Self {
                fd: Arc::new(fd),
                path: self.object(name).into(),
                meter: Arc::clone(&self.meter),
            })),
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::NOTDIR | Errno::LOOP) => Err(self.stranger(name, "not a folder")),
            Err(errno) => Err(unreachable(&self.object(name), errno)),
        }
    }

    /// Opens a folder in it, which is made if it isn't there; either way it is durable afterwards.
    pub(crate) fn make_child(&self, name: &str) -> Result<Self, Failure> {
        let object = self.object(name);
        let make = || rustix::fs::mkdirat(&self.fd, name, FOLDER_MODE);
        let made = match self.meter.run(Call::MakeFolder, &object, make) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(Failure::unwritten(&object, error)),
        };
        let child = self.child(name)?;
        if made {
            // The umask may have taken rights of our own.
            rustix::fs::fchmod(&child.fd, FOLDER_MODE).map_err(|e| Failure::unwritten(&object, e.into()))?;
            child.sync()?;
        }
        self.sync()?;
        Ok(child)
    }

    /// Opens a file of it; none if there is none.
    ///
    /// Never waits, whatever stands there, and takes nothing but a regular file.
    pub(crate) fn open(&self, name: &str, access: OFlags) -> Result<Option<File>> {
        let flags = access | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = match rustix::fs::openat(&self.fd, name, flags, FILE_MODE) {
            Ok(fd) => File::from(fd),
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP | Errno::NXIO | Errno::ISDIR) => {
                return Err(self.stranger(name, "not a regular file"));
            }
            Err(errno) => return Err(unreachable(&self.object(name), errno)),
        };
        let metadata = file.metadata().map_err(|e| unreachable(&self.object(name), e))?;
        if metadata.is_file() {
            Ok(Some(file))
        } else {
            Err(strange(&self.object(name), "not a regular file"))
        }
    }

    /// The bytes of a file of at most `cap` bytes, and the file, which is open still; none if there is none.
    pub(crate) fn read(&self, name: &str, cap: u64) -> Result<Option<(Bytes, File)>> {
        let Some(file) = self.open(name, OFlags::RDONLY)? else {
            return Ok(None);
        };
        let object = self.object(name);
        let failed = |e| unreachable(&object, e);
        let length = file.metadata().map_err(failed)?.len();
        let mut bytes = Vec::new();
        if length <= cap {
            let wanted = usize::try_from(length).unwrap_or(usize::MAX);
            bytes
                .try_reserve_exact(wanted.saturating_add(1))
                .map_err(|_| failed(Errno::NOMEM.into()))?;
            (&file)
                .take(cap.saturating_add(1))
                .read_to_end(&mut bytes)
                .map_err(failed)?;
        }
        if length > cap || bytes.len() as u64 > cap {
            let reason = format!("it is larger than the {cap} bytes that it may have");
            return Err(Error::corrupt(object, cap, reason));
        }
        Ok(Some((bytes.into(), file)))
    }

    /// The names of all that is in it, sorted.
    pub(crate) fn entries(&self) -> Result<Vec<String>> {
        let failed = |errno: Errno| unreachable(&self.path, errno);
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.fd).map_err(failed)? {
            // What isn't UTF-8 isn't ours.
            if let Ok(name) = entry.map_err(failed)?.file_name().to_str()
                && name != "."
                && name != ".."
            {
                names.push(name.to_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Makes the names in it durable.
    pub(crate) fn sync(&self) -> Result<(), Failure> {
        let sync = || rustix::fs::fsync(&self.fd);
        self.meter
            .run(Call::SyncFolder, &self.path, sync)
            .map_err(|e| Failure::unknown(&self.path, e))
    }

    /// Makes a file that was read durable: its writer may have died before its sync.
    pub(crate) fn sync_file(&self, name: &str, file: &File) -> Result<(), Failure> {
        let object = self.object(name);
        self.meter
            .run(Call::Sync, &object, || file.sync_all())
            .map_err(|e| Failure::unknown(&object, e))
    }

    /// Replaces a file, or makes it: afterwards all of the new bytes are there, or all of the old ones.
    pub(crate) fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        let staged = Staged::write(self, &self.object(name), bytes)?;
        staged.replace(name)?;
        self.sync()
    }

    /// Makes a file that isn't there yet. If it is there, with the same bytes, that is fine.
    pub(crate) fn create(&self, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        if !self.settled(name, bytes)? {
            let object = self.object(name);
            let staged = Staged::write(self, &object, bytes)?;
            if staged.create(name)?.is_none() && !self.settled(name, bytes)? {
                return Err(Error::conflict(object, "it vanished while it was looked at").into());
            }
        }
        self.sync()
    }

    /// Whether the file is there with these bytes, and durable.
    fn settled(&self, name: &str, bytes: &[u8]) -> Result<bool, Failure> {
        let Some((found, file)) = self.read(name, crate::layout::MAX_OBJECT)? else {
            return Ok(false);
        };
        if found != bytes {
            return Err(Error::conflict(self.object(name), "it exists with other content").into());
        }
        self.sync_file(name, &file)?;
        Ok(true)
    }

    /// Removes a file; one that isn't there is fine. The folder isn't synced yet.
    pub(crate) fn remove(&self, name: &str) -> Result<(), Failure> {
        let object = self.object(name);
        let remove = || match rustix::fs::unlinkat(&self.fd, name, AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            other => other,
        };
        self.meter
            .run(Call::Remove, &object, remove)
            .map_err(|e| Failure::unmoved(&object, e))
    }

    /// The length of a file in bytes; none if there is none.
    pub(crate) fn length(&self, name: &str) -> Result<Option<u64>> {
        match rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(status) => Ok(Some(u64::try_from(status.st_size).unwrap_or_default())),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(unreachable(&self.object(name), errno)),
        }
    }

    /// Whether a name in it is that of a regular file.
    pub(crate) fn is_file(&self, name: &str) -> bool {
        self.kind(name) == Some(FileType::RegularFile)
    }

    fn kind(&self, name: &str) -> Option<FileType> {
        let status = rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some(FileType::from_raw_mode(status.st_mode))
    }

    /// The error for something that isn't what its name says.
    fn stranger(&self, name: &str, otherwise: &str) -> Error {
        let link = self.kind(name) == Some(FileType::Symlink);
        let what = if link { "a symbolic link" } else { otherwise };
        strange(&self.object(name), what)
    }
}
