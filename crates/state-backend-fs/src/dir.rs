//! An open folder of the store. Every path below the root is resolved relative to such a handle, without following
//! symbolic links.

use crate::counts::{Call, Meter};
use crate::error::{WriteError, read_failed, unexpected_type};
use crate::files::{Access, FileHandle, FileKind, FileSystem, Folder, Sharing, Status, SyncScope};
use crate::staged::StagedFile;
use bytes::Bytes;
use rustix::io::Errno;
use state_core::{Error, Result};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// An open folder of the store. Clones share the handle.
#[derive(Clone, Debug)]
pub(crate) struct Dir {
    folder: Arc<dyn Folder>,
    path: Arc<str>,
    meter: Arc<Meter>,
    sharing: Sharing,
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
                sharing: Sharing::Owner,
            }),
            Err(error) if errno(&error) == Some(Errno::NOENT) => Err(Error::not_found(shown)),
            Err(error) => Err(read_failed(&shown, error)),
        }
    }

    /// Creates a store's root and the missing folders above it, and makes each durable in its parent.
    pub(crate) fn make_root(files: &dyn FileSystem, path: &Path, sharing: Sharing) -> Result<()> {
        let shown = path.display().to_string();
        let not_applied = |e| Error::from(WriteError::not_applied(&shown, e));
        let path = std::path::absolute(path).map_err(not_applied)?;
        let mut paths: Vec<&Path> = path.ancestors().collect();
        paths.reverse();
        for path in paths {
            let made = !files.exists(path);
            if made {
                match files.make_folder(path, sharing) {
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                        return Err(not_applied(error));
                    }
                    _ => {}
                }
            }
            let sync_parent = |parent| files.open_folder(parent)?.sync();
            let synced = path.parent().map_or(Ok(()), sync_parent);
            // An existing folder may be unsynced after a crash, so its parent is synced as well. An error of this sync
            // is ignored: usually the parent belongs to another user, and then the folder was created long ago.
            if made {
                synced.map_err(not_applied)?;
            }
        }
        Ok(())
    }

    /// Sets the users who may use what is created in this folder and below from now on.
    pub(crate) fn share(&mut self, sharing: Sharing) {
        self.sharing = sharing;
    }

    /// The users who may use what is created in this folder.
    pub(crate) const fn sharing(&self) -> Sharing {
        self.sharing
    }

    /// The path of the folder, for messages.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The path of a child, for messages.
    pub(crate) fn object(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }

    pub(crate) fn meter(&self) -> &Meter {
        &self.meter
    }

    /// The open handle, for callers that handle its errors themselves.
    pub(crate) fn folder(&self) -> &dyn Folder {
        self.folder.as_ref()
    }

    /// Opens a child folder.
    pub(crate) fn child(&self, name: &str) -> Result<Self> {
        self.child_if_any(name)?
            .ok_or_else(|| Error::not_found(self.object(name)))
    }

    /// Opens a child folder; `None` if it doesn't exist.
    pub(crate) fn child_if_any(&self, name: &str) -> Result<Option<Self>> {
        match self.folder.open_folder(name) {
            Ok(folder) => Ok(Some(Self {
                folder,
                path: self.object(name).into(),
                meter: Arc::clone(&self.meter),
                sharing: self.sharing,
            })),
            Err(error) => match errno(&error) {
                Some(Errno::NOENT) => Ok(None),
                Some(Errno::NOTDIR | Errno::LOOP) => Err(self.unexpected_type_error(name, "not a folder")),
                _ => Err(read_failed(&self.object(name), error)),
            },
        }
    }

    /// Opens a child folder and creates it if it is missing. The folder is durable afterwards in both cases.
    pub(crate) fn make_child(&self, name: &str) -> Result<Self, WriteError> {
        let object = self.object(name);
        let make = || self.folder.make_folder(name);
        let made = match self.meter.run(Call::MakeFolder, &object, make) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(WriteError::not_applied(&object, error)),
        };
        let child = self.child(name)?;
        if made {
            // The umask may have removed permission bits of the owner.
            let restricted = child.folder.restrict(self.sharing);
            restricted.map_err(|e| WriteError::not_applied(&object, e))?;
            child.sync()?;
        }
        // Also for a folder that existed: its creator may have crashed before this sync, and files that are written
        // into an unsynced folder are lost with it.
        self.sync()?;
        Ok(child)
    }

    /// Opens a child file; `None` if it doesn't exist.
    ///
    /// Returns at once even if the name belongs to a pipe, and refuses everything but a regular file.
    pub(crate) fn open(&self, name: &str, access: Access) -> Result<Option<FileHandle>> {
        Ok(self.open_measured(name, access)?.map(|(file, _)| file))
    }

    /// Like [`Self::open`]; also returns the length of the file.
    fn open_measured(&self, name: &str, access: Access) -> Result<Option<(FileHandle, u64)>> {
        let failed = |error| read_failed(&self.object(name), error);
        let file = match self.folder.open(name, access) {
            Ok(file) => file,
            Err(error) => {
                return match errno(&error) {
                    Some(Errno::NOENT) => Ok(None),
                    Some(Errno::LOOP | Errno::NXIO | Errno::ISDIR) => {
                        Err(self.unexpected_type_error(name, "not a regular file"))
                    }
                    _ => Err(failed(error)),
                };
            }
        };
        let status = file.status().map_err(failed)?;
        if status.kind == FileKind::Regular {
            Ok(Some((file, status.length)))
        } else {
            Err(unexpected_type(&self.object(name), "not a regular file"))
        }
    }

    /// Reads a file of at most `cap` bytes. Returns its bytes and the open file; `None` if it doesn't exist.
    pub(crate) fn read(&self, name: &str, cap: u64) -> Result<Option<(Bytes, FileHandle)>> {
        self.read_after(name, cap, |_, _| Ok(()))
    }

    /// Like [`Self::read`], and first examines the open file and its length, before memory is allocated for its bytes.
    pub(crate) fn read_after(
        &self,
        name: &str,
        cap: u64,
        examine: impl FnOnce(&FileHandle, u64) -> Result<()>,
    ) -> Result<Option<(Bytes, FileHandle)>> {
        let Some((file, length)) = self.open_measured(name, Access::Read)? else {
            return Ok(None);
        };
        let object = self.object(name);
        let failed = |e| read_failed(&object, e);
        if length <= cap {
            examine(&file, length)?;
        }
        let mut bytes = Vec::new();
        if length <= cap {
            let wanted = usize::try_from(length).unwrap_or(usize::MAX);
            bytes
                .try_reserve_exact(wanted.saturating_add(1))
                .map_err(|_| failed(Errno::NOMEM.into()))?;
            // One byte more than the limit, because the file may grow between `status` and `read`.
            file.read_short(wanted, cap.saturating_add(1), &mut bytes)
                .map_err(failed)?;
        }
        if length > cap || bytes.len() as u64 > cap {
            let reason = format!("it is larger than the limit of {cap} bytes");
            return Err(Error::corrupt(object, cap, reason));
        }
        Ok(Some((bytes.into(), file)))
    }

    /// Returns the names of all children, sorted.
    pub(crate) fn entries(&self) -> Result<Vec<String>> {
        let mut names = self.folder.entries().map_err(|e| read_failed(&self.path, e))?;
        names.sort_unstable();
        Ok(names)
    }

    /// Makes the names of the children durable.
    pub(crate) fn sync(&self) -> Result<(), WriteError> {
        let sync = || self.folder.sync();
        self.meter
            .run(Call::SyncFolder, &self.path, sync)
            .map_err(|e| WriteError::indeterminate(&self.path, e))
    }

    /// Makes a file durable after it was read: its writer may have crashed before its own sync.
    pub(crate) fn sync_file(&self, name: &str, file: &FileHandle) -> Result<(), WriteError> {
        let object = self.object(name);
        self.meter
            .run(Call::Sync, &object, || file.sync(SyncScope::All))
            .map_err(|e| WriteError::indeterminate(&object, e))
    }

    /// Replaces or creates a file. After a crash the file has either all of the new bytes or all of the old ones.
    pub(crate) fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), WriteError> {
        let staged = StagedFile::write(self, &self.object(name), bytes)?;
        staged.replace(name)?;
        // The rename is durable only after the folder is synced.
        self.sync()
    }

    /// Creates a file. A file that exists with the same bytes counts as created.
    pub(crate) fn create(&self, name: &str, bytes: &[u8]) -> Result<(), WriteError> {
        // An earlier attempt, or another process with the same bytes, may have created the file already.
        if !self.exists_durably(name, bytes)? {
            let object = self.object(name);
            let staged = StagedFile::write(self, &object, bytes)?;
            if staged.create(name)?.is_none() && !self.exists_durably(name, bytes)? {
                return Err(Error::conflict(object, "it was deleted while it was being created").into());
            }
        }
        self.sync()
    }

    /// Returns whether the file exists with these bytes, and makes it durable if it does.
    fn exists_durably(&self, name: &str, bytes: &[u8]) -> Result<bool, WriteError> {
        let Some((found, file)) = self.read(name, crate::layout::MAX_OBJECT)? else {
            return Ok(false);
        };
        if found != bytes {
            return Err(Error::conflict(self.object(name), "it exists with other content").into());
        }
        self.sync_file(name, &file)?;
        Ok(true)
    }

    /// Removes a file, which may be missing. The folder isn't synced yet.
    pub(crate) fn remove(&self, name: &str) -> Result<(), WriteError> {
        let object = self.object(name);
        let remove = || match self.folder.unlink(name) {
            Err(error) if errno(&error) == Some(Errno::NOENT) => Ok(()),
            other => other,
        };
        self.meter
            .run(Call::Remove, &object, remove)
            .map_err(|e| WriteError::move_failed(&object, e))
    }

    /// Returns the length of a file in bytes; `None` if it doesn't exist.
    pub(crate) fn length(&self, name: &str) -> Result<Option<u64>> {
        Ok(self.status(name)?.map(|status| status.length))
    }

    /// Returns the status of a child; `None` if it doesn't exist.
    pub(crate) fn status(&self, name: &str) -> Result<Option<Status>> {
        match self.folder.status(name) {
            Ok(status) => Ok(Some(status)),
            Err(error) if errno(&error) == Some(Errno::NOENT) => Ok(None),
            Err(error) => Err(read_failed(&self.object(name), error)),
        }
    }

    /// Returns whether a child is a regular file.
    pub(crate) fn is_file(&self, name: &str) -> bool {
        self.kind(name) == Some(FileKind::Regular)
    }

    fn kind(&self, name: &str) -> Option<FileKind> {
        self.folder.status(name).ok().map(|status| status.kind)
    }

    /// Returns the error for a child of an unexpected type.
    fn unexpected_type_error(&self, name: &str, otherwise: &str) -> Error {
        let link = self.kind(name) == Some(FileKind::Link);
        let what = if link { "a symbolic link" } else { otherwise };
        unexpected_type(&self.object(name), what)
    }
}

fn errno(error: &io::Error) -> Option<Errno> {
    Errno::from_io_error(error)
}
