//! The file-system calls of the backend as traits: the operating system in production, a simulation in tests.
//!
//! Every call that reaches a disk goes through here, so that a test can stop, lose or change each of them. The
//! traits add no rules: a method has the semantics of the POSIX call that its documentation names, and errors carry
//! the system's error code.

mod native;

pub(crate) use native::Native;

use std::fmt;
use std::fs::TryLockError;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// An open file, behind the trait that tests replace.
pub(crate) type FileHandle = Box<dyn StoredFile>;

/// A file system. Paths are absolute; everything below the root of a store is reached through a [`Folder`].
pub(crate) trait FileSystem: fmt::Debug + Send + Sync {
    /// Opens a folder by its path. Symbolic links are followed.
    fn open_folder(&self, path: &Path) -> io::Result<Arc<dyn Folder>>;

    /// Returns whether the path exists.
    fn exists(&self, path: &Path) -> bool;

    /// Creates a folder that only these users may use, whatever the umask is.
    fn make_folder(&self, path: &Path, sharing: Sharing) -> io::Result<()>;
}

/// An open folder. Names are those of its direct children; no symbolic link is followed.
pub(crate) trait Folder: fmt::Debug + Send + Sync {
    /// Opens a child folder (`openat` with `O_DIRECTORY`).
    fn open_folder(&self, name: &str) -> io::Result<Arc<dyn Folder>>;

    /// Creates a child folder (`mkdirat`).
    fn make_folder(&self, name: &str) -> io::Result<()>;

    /// Opens a file (`openat`). The call returns at once, even for a pipe or a device.
    fn open(&self, name: &str, access: Access) -> io::Result<FileHandle>;

    /// Moves a file to a name, and replaces the file that has that name (`renameat`).
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Moves a file to a name that no file has. Fails with `ENOSYS`, `EINVAL` or `ENOTSUP` where the file system
    /// can't do that in one step.
    fn rename_if_absent(&self, from: &str, to: &str) -> io::Result<()>;

    /// Gives a file a second name that no file has (`linkat`).
    fn link(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes the name of a file (`unlinkat`).
    fn unlink(&self, name: &str) -> io::Result<()>;

    /// Removes an empty child folder (`unlinkat` with `AT_REMOVEDIR`).
    fn remove_folder(&self, name: &str) -> io::Result<()>;

    /// Returns all names that are valid UTF-8, without `.` and `..`, in any order. The store creates no other names.
    fn entries(&self) -> io::Result<Vec<String>>;

    /// Returns type, length, age and identity of a child (`fstatat`).
    fn status(&self, name: &str) -> io::Result<Status>;

    /// Makes the names in the folder durable (`fsync`; `F_FULLFSYNC` on Apple's systems).
    fn sync(&self) -> io::Result<()>;

    /// Restricts the folder to these users, whatever the umask is.
    fn restrict(&self, sharing: Sharing) -> io::Result<()>;

    /// Returns the permission bits of the folder.
    fn permissions(&self) -> io::Result<u32>;

    /// Returns the number by which `statfs` names the type of the file system; `None` where it isn't available.
    fn type_of_file_system(&self) -> io::Result<Option<u32>>;
}

/// An open file. Dropping the handle closes the file and frees its lock.
pub(crate) trait StoredFile: fmt::Debug + Send + Sync {
    /// Returns type, length, age and identity of the file.
    fn status(&self) -> io::Result<Status>;

    /// Reads from the beginning to the end of the file, at most `limit` bytes, and appends them to `bytes`.
    fn read(&self, limit: u64, bytes: &mut Vec<u8>) -> io::Result<()>;

    /// Reads some bytes from an offset and returns their number (`pread`).
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes some of the bytes and returns their number (`pwrite`).
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Cuts or extends the file (`ftruncate`).
    fn set_length(&self, length: u64) -> io::Result<()>;

    /// Allocates space for the first bytes of the file, which then read as zeros (`posix_fallocate`).
    fn allocate(&self, length: u64) -> io::Result<()>;

    /// Restricts the file to these users, whatever the umask is.
    fn restrict(&self, sharing: Sharing) -> io::Result<()>;

    /// Makes the written content durable, to the extent of `scope`.
    fn sync(&self, scope: SyncScope) -> io::Result<()>;

    /// Takes the lock of the whole file unless another handle holds it (`flock`).
    fn try_lock(&self, lock: Lock) -> Result<(), TryLockError>;

    /// Frees the lock, also for processes that inherited the handle.
    fn unlock(&self) -> io::Result<()>;
}

/// Files of up to this length are read with one call.
const SHORT: usize = 16 << 10;

impl dyn StoredFile {
    /// Like [`StoredFile::read`], and reads a short file of the expected length with one call: a read that ends there shows the
    /// end of the file. `bytes` is empty before.
    pub(crate) fn read_short(&self, expected: usize, limit: u64, bytes: &mut Vec<u8>) -> io::Result<()> {
        if expected < SHORT {
            bytes.resize(expected + 1, 0);
            let read = self.read_at(bytes, 0);
            bytes.truncate(*read.as_ref().unwrap_or(&0));
            match read {
                Ok(length) if length == expected => return Ok(()),
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => bytes.clear(),
            }
        }
        self.read(limit, bytes)
    }

    /// Writes all of the bytes, with as many calls as needed.
    pub(crate) fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut written = 0;
        while written < bytes.len() {
            match self.write_at(&bytes[written..], offset + written as u64) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The users who may use the files and folders of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// Only the owner of the files may use them.
    #[default]
    Owner,
    /// The owner and the members of the group may use the files. New files have the group of the folder.
    Group,
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Opens the file for reading.
    Read,
    /// Opens the file for reading and writing.
    Write,
    /// Opens the file for reading and writing, and creates it if no file has the name.
    Create,
    /// Creates the file and opens it for reading and writing; fails with `EEXIST` if a file has the name.
    CreateNew,
}

/// Which part of a file is made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SyncScope {
    /// Syncs content and metadata (`fsync`).
    All,
    /// Syncs the content, and the metadata without which it can't be read (`fdatasync`).
    Data,
}

/// The mode of a lock on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lock {
    /// Any number of handles may hold the lock.
    Shared,
    /// Only one handle may hold the lock.
    Exclusive,
}

/// Type, length, age and identity of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) kind: FileKind,
    /// The length of the file in bytes.
    pub(crate) length: u64,
    /// Time of the last change of the content, since 1970 by the clock of the file system.
    pub(crate) modified: Duration,
    /// Device and inode number: equal for two names of the same file.
    pub(crate) id: (u64, u64),
}

/// The type of a file, as far as the store distinguishes types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    /// A regular file, the only type that the store reads.
    Regular,
    /// A folder, which POSIX calls a directory.
    Folder,
    /// A symbolic link, which the store never follows.
    Link,
    /// A device, a pipe or a socket.
    Other,
}
