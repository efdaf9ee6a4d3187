//! The file system of the operating system, by `rustix` and `std`.

use super::{Access, FileHandle, FileKind, FileSystem, Folder, Lock, Sharing, Status, StoredFile, SyncScope};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use std::fs::{DirBuilder, File, Permissions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, FileExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
const FOLDER_MODE: Mode = Mode::RWXU;
/// The permission bits of [`FOLDER_MODE`], in the form that `std` takes.
const FOLDER_PERMISSIONS: u32 = 0o700;
/// Those of a folder that a group uses.
const GROUP_PERMISSIONS: u32 = 0o2770;

/// The mode of a file.
const fn file_mode(sharing: Sharing) -> Mode {
    match sharing {
        Sharing::Owner => FILE_MODE,
        Sharing::Group => FILE_MODE.union(Mode::RGRP).union(Mode::WGRP),
    }
}

/// The mode of a folder. `SGID` gives new files the group of the folder, instead of the group of the user.
const fn folder_mode(sharing: Sharing) -> Mode {
    match sharing {
        Sharing::Owner => FOLDER_MODE,
        Sharing::Group => FOLDER_MODE.union(Mode::RWXG).union(Mode::SGID),
    }
}
const FOLDER_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The file system of the operating system.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Native;

impl FileSystem for Native {
    fn open_folder(&self, path: &Path) -> io::Result<Arc<dyn Folder>> {
        let handle = rustix::fs::open(path, FOLDER_FLAGS, Mode::empty())?;
        Ok(Arc::new(NativeFolder(handle.into())))
    }

    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    fn make_folder(&self, path: &Path, sharing: Sharing) -> io::Result<()> {
        DirBuilder::new().mode(FOLDER_PERMISSIONS).create(path)?;
        // Set again, because the umask may have removed permissions.
        let mode = match sharing {
            Sharing::Owner => FOLDER_PERMISSIONS,
            Sharing::Group => GROUP_PERMISSIONS,
        };
        std::fs::set_permissions(path, Permissions::from_mode(mode))
    }
}

/// An open folder: each call is relative to its descriptor.
#[derive(Debug)]
struct NativeFolder(File);

impl Folder for NativeFolder {
    fn open_folder(&self, name: &str) -> io::Result<Arc<dyn Folder>> {
        let flags = FOLDER_FLAGS | OFlags::NOFOLLOW;
        let handle = rustix::fs::openat(&self.0, name, flags, Mode::empty())?;
        Ok(Arc::new(Self(handle.into())))
    }

    fn make_folder(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::mkdirat(&self.0, name, FOLDER_MODE)?)
    }

    fn open(&self, name: &str, access: Access) -> io::Result<FileHandle> {
        let flags = match access {
            Access::Read => OFlags::RDONLY,
            Access::Write => OFlags::RDWR,
            Access::Create => OFlags::RDWR | OFlags::CREATE,
            Access::CreateNew => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
        };
        // `NONBLOCK`: opening a pipe that was put in place of a file must not block the thread for ever.
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let handle = rustix::fs::openat(&self.0, name, flags, FILE_MODE)?;
        Ok(Box::new(File::from(handle)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.0, from, &self.0, to)?)
    }

    #[cfg(any(target_os = "linux", target_vendor = "apple"))]
    fn rename_if_absent(&self, from: &str, to: &str) -> io::Result<()> {
        let flags = rustix::fs::RenameFlags::NOREPLACE;
        Ok(rustix::fs::renameat_with(&self.0, from, &self.0, to, flags)?)
    }

    #[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
    fn rename_if_absent(&self, _: &str, _: &str) -> io::Result<()> {
        // The caller then creates a hard link instead.
        Err(rustix::io::Errno::NOSYS.into())
    }

    fn link(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::linkat(&self.0, from, &self.0, to, AtFlags::empty())?)
    }

    fn unlink(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.0, name, AtFlags::empty())?)
    }

    fn remove_folder(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.0, name, AtFlags::REMOVEDIR)?)
    }

    fn entries(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.0)? {
            if let Ok(name) = entry?.file_name().to_str()
                && name != "."
                && name != ".."
            {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    fn status(&self, name: &str) -> io::Result<Status> {
        let status = rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(read_status(&status))
    }

    fn sync(&self) -> io::Result<()> {
        sync(&self.0, SyncScope::All)
    }

    fn restrict(&self, sharing: Sharing) -> io::Result<()> {
        Ok(rustix::fs::fchmod(&self.0, folder_mode(sharing))?)
    }

    fn permissions(&self) -> io::Result<u32> {
        Ok(self.0.metadata()?.permissions().mode() & 0o777)
    }

    #[cfg(target_os = "linux")]
    fn type_of_file_system(&self) -> io::Result<Option<u32>> {
        let status = rustix::fs::fstatfs(&self.0)?;
        Ok(Some(u32::try_from(status.f_type).unwrap_or_default()))
    }

    #[cfg(not(target_os = "linux"))]
    fn type_of_file_system(&self) -> io::Result<Option<u32>> {
        Ok(None)
    }
}

impl StoredFile for File {
    fn status(&self) -> io::Result<Status> {
        Ok(read_status(&rustix::fs::fstat(self)?))
    }

    fn read(&self, limit: u64, bytes: &mut Vec<u8>) -> io::Result<()> {
        self.take(limit).read_to_end(bytes).map(drop)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        FileExt::write_at(self, bytes, offset)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    #[cfg(target_os = "linux")]
    fn allocate(&self, length: u64) -> io::Result<()> {
        let flags = rustix::fs::FallocateFlags::empty();
        Ok(rustix::fs::fallocate(self, flags, 0, length)?)
    }

    #[cfg(not(target_os = "linux"))]
    fn allocate(&self, _: u64) -> io::Result<()> {
        Err(rustix::io::Errno::NOTSUP.into())
    }

    fn restrict(&self, sharing: Sharing) -> io::Result<()> {
        Ok(rustix::fs::fchmod(self, file_mode(sharing))?)
    }

    fn sync(&self, scope: SyncScope) -> io::Result<()> {
        sync(self, scope)
    }

    fn try_lock(&self, lock: Lock) -> Result<(), TryLockError> {
        match lock {
            Lock::Shared => self.try_lock_shared(),
            Lock::Exclusive => File::try_lock(self),
        }
    }

    fn unlock(&self) -> io::Result<()> {
        File::unlock(self)
    }
}

/// Makes a file or a folder durable. `std` uses `F_FULLFSYNC` on Apple's systems, whose `fsync` leaves the bytes
/// in the cache of the drive.
fn sync(handle: &File, scope: SyncScope) -> io::Result<()> {
    match scope {
        SyncScope::All => handle.sync_all(),
        SyncScope::Data => handle.sync_data(),
    }
}

fn read_status(status: &Stat) -> Status {
    let kind = match FileType::from_raw_mode(status.st_mode) {
        FileType::RegularFile => FileKind::Regular,
        FileType::Directory => FileKind::Folder,
        FileType::Symlink => FileKind::Link,
        _ => FileKind::Other,
    };
    #[cfg(not(target_vendor = "apple"))]
    let device = status.st_dev;
    #[cfg(target_vendor = "apple")]
    let device = u64::try_from(status.st_dev).unwrap_or_default();
    Status {
        kind,
        length: u64::try_from(status.st_size).unwrap_or_default(),
        modified: Duration::new(
            u64::try_from(status.st_mtime).unwrap_or_default(),
            u32::try_from(status.st_mtime_nsec).unwrap_or_default(),
        ),
        id: (device, status.st_ino),
    }
}
