//! A folder of the store, held open: every step below the root is relative to such a handle and follows no
//! symbolic link.

use crate::counts::{Call, Meter};
use crate::failure::{Failure, strange, unreachable};
use crate::files::{Access, FileHandle, FileKind, FileSystem, Folder, SyncScope};
use crate::staged::Staged;
use bytes::Bytes;
use rustix::io::Errno;
use state_core::{Error, Result};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// An open folder. Clones share the handle.
#[derive(Clone, Debug)]
pub(crate) struct Dir {
    folder: Arc<dyn Folder>,
    path: Arc<str>,
    meter: Arc<Meter>,
}

impl Dir {
    /// Opens the root, which may be reached through symbolic links.
    pub(crate) fn root(files: &dyn FileSystem, path: &Path, meter: Arc<Meter>) -> Result<Self> {
        let shown = path.display().to_string();
        match files.open_folder(path) {
            Ok(folder) => Ok(Self {
                folder,
                path: shown.into(),
                meter,
            }),
            Err(error) if errno(&error) == Some(Errno::NOENT) => Err(Error::not_found(shown)),
            Err(error) => Err(unreachable(&shown, error)),
        }
    }

    /// Opens a store's root, which is created with the folders above it where they are missing. Each is durable in
    /// the one above.
    pub(crate) fn make_root(files: &dyn FileSystem, path: &Path) -> Result<()> {
        let shown = path.display().to_string();
        let unwritten = |e| Error::from(Failure::unwritten(&shown, e));
        let path = std::path::absolute(path).map_err(unwritten)?;
        let mut paths: Vec<&Path> = path.ancestors().collect();
        paths.reverse();
        for path in paths {
            let made = !files.exists(path);
            if made {
                match files.make_folder(path) {
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                        return Err(unwritten(error));
                    }
                    _ => {}
                }
            }
            let sync_parent = |parent| files.open_folder(parent)?.sync();
            let synced = path.parent().map_or(Ok(()), sync_parent);
            // A folder that was there may be left over from a process that died before its sync. If its parent
            // can't be synced, the parent belongs to another user.
            if made {
                synced.map_err(unwritten)?;
            }
        }
        Ok(())
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

    /// The calls themselves, without what the store makes of their errors.
    pub(crate) fn folder(&self) -> &dyn Folder {
        self.folder.as_ref()
    }

    /// Opens a folder in it.
    pub(crate) fn child(&self, name: &str) -> Result<Self> {
        self.child_if_any(name)?
            .ok_or_else(|| Error::not_found(self.object(name)))
    }

    /// Opens a folder in it; none if there is none.
    pub(crate) fn child_if_any(&self, name: &str) -> Result<Option<Self>> {
        match self.folder.open_folder(name) {
            Ok(folder) => Ok(Some(Self {
                folder,
                path: self.object(name).into(),
                meter: Arc::clone(&self.meter),
            })),
            Err(error) => match errno(&error) {
                Some(Errno::NOENT) => Ok(None),
                Some(Errno::NOTDIR | Errno::LOOP) => Err(self.stranger(name, "not a folder")),
                _ => Err(unreachable(&self.object(name), error)),
            },
        }
    }

    /// Opens a folder in it, which is made if it isn't there; either way it is durable afterwards.
    pub(crate) fn make_child(&self, name: &str) -> Result<Self, Failure> {
        let object = self.object(name);
        let make = || self.folder.make_folder(name);
        let made = match self.meter.run(Call::MakeFolder, &object, make) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(Failure::unwritten(&object, error)),
        };
        let child = self.child(name)?;
        if made {
            // The umask may have taken rights of our own.
            let restricted = child.folder.restrict();
            restricted.map_err(|e| Failure::unwritten(&object, e))?;
            child.sync()?;
        }
        self.sync()?;
        Ok(child)
    }

    /// Opens a file of it; none if there is none.
    ///
    /// Never waits, whatever has the name, and opens nothing but a regular file.
    pub(crate) fn open(&self, name: &str, access: Access) -> Result<Option<FileHandle>> {
        let failed = |error| unreachable(&self.object(name), error);
        let file = match self.folder.open(name, access) {
            Ok(file) => file,
            Err(error) => {
                return match errno(&error) {
                    Some(Errno::NOENT) => Ok(None),
                    Some(Errno::LOOP | Errno::NXIO | Errno::ISDIR) => {
                        Err(self.stranger(name, "not a regular file"))
                    }
                    _ => Err(failed(error)),
                };
            }
        };
        if file.status().map_err(failed)?.kind == FileKind::Regular {
            Ok(Some(file))
        } else {
            Err(strange(&self.object(name), "not a regular file"))
        }
    }

    /// The bytes of a file of at most `cap` bytes, and the file, which is open still; none if there is none.
    pub(crate) fn read(&self, name: &str, cap: u64) -> Result<Option<(Bytes, FileHandle)>> {
        let Some(file) = self.open(name, Access::Read)? else {
            return Ok(None);
        };
        let object = self.object(name);
        let failed = |e| unreachable(&object, e);
        let length = file.status().map_err(failed)?.length;
        let mut bytes = Vec::new();
        if length <= cap {
            let wanted = usize::try_from(length).unwrap_or(usize::MAX);
            bytes
                .try_reserve_exact(wanted.saturating_add(1))
                .map_err(|_| failed(Errno::NOMEM.into()))?;
            file.read(cap.saturating_add(1), &mut bytes).map_err(failed)?;
        }
        if length > cap || bytes.len() as u64 > cap {
            let reason = format!("it is larger than the {cap} bytes that it may have");
            return Err(Error::corrupt(object, cap, reason));
        }
        Ok(Some((bytes.into(), file)))
    }

    /// The names of all that is in it, sorted.
    pub(crate) fn entries(&self) -> Result<Vec<String>> {
        let mut names = self.folder.entries().map_err(|e| unreachable(&self.path, e))?;
        names.sort_unstable();
        Ok(names)
    }

    /// Makes the names in it durable.
    pub(crate) fn sync(&self) -> Result<(), Failure> {
        let sync = || self.folder.sync();
        self.meter
            .run(Call::SyncFolder, &self.path, sync)
            .map_err(|e| Failure::unknown(&self.path, e))
    }

    /// Makes a file that was read durable: its writer may have died before its sync.
    pub(crate) fn sync_file(&self, name: &str, file: &FileHandle) -> Result<(), Failure> {
        let object = self.object(name);
        self.meter
            .run(Call::Sync, &object, || file.sync(SyncScope::All))
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
        let remove = || match self.folder.unlink(name) {
            Err(error) if errno(&error) == Some(Errno::NOENT) => Ok(()),
            other => other,
        };
        self.meter
            .run(Call::Remove, &object, remove)
            .map_err(|e| Failure::unmoved(&object, e))
    }

    /// The length of a file in bytes; none if there is none.
    pub(crate) fn length(&self, name: &str) -> Result<Option<u64>> {
        match self.folder.status(name) {
            Ok(status) => Ok(Some(status.length)),
            Err(error) if errno(&error) == Some(Errno::NOENT) => Ok(None),
            Err(error) => Err(unreachable(&self.object(name), error)),
        }
    }

    /// Whether a name in it is that of a regular file.
    pub(crate) fn is_file(&self, name: &str) -> bool {
        self.kind(name) == Some(FileKind::Regular)
    }

    fn kind(&self, name: &str) -> Option<FileKind> {
        self.folder.status(name).ok().map(|status| status.kind)
    }

    /// The error for something that isn't what its name says.
    fn stranger(&self, name: &str, otherwise: &str) -> Error {
        let link = self.kind(name) == Some(FileKind::Link);
        let what = if link { "a symbolic link" } else { otherwise };
        strange(&self.object(name), what)
    }
}

fn errno(error: &io::Error) -> Option<Errno> {
    Errno::from_io_error(error)
}
