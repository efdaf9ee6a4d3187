//! Private folders for texts that are being edited. A folder that a killed process left is deleted by the next edit.

use crate::error::CliError;
use state_core::Nonce;
use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Beginning of the names of these folders.
const PREFIX: &str = "statectl-edit-";

/// The file in a folder that its process keeps locked. The operating system releases the lock when the process ends.
const LOCK: &str = "lock";

/// A folder that only its owner can read, deleted on drop.
pub(super) struct DraftFolder {
    path: PathBuf,
    _lock: File,
}

impl DraftFolder {
    /// Deletes the folders of processes that were killed, and creates one for this process.
    pub(super) fn create(nonce: Nonce) -> Result<Self, CliError> {
        let parent = parent();
        delete_abandoned(&parent);
        let path = parent.join(format!("{PREFIX}{nonce}"));
        let failed = |source: std::io::Error| CliError::io(path.display().to_string(), &source);
        DirBuilder::new().mode(0o700).create(&path).map_err(failed)?;
        let lock = lock_file(&path)
            .and_then(|lock| lock.try_lock().map(|()| lock).map_err(Into::into))
            .map_err(failed)?;
        Ok(Self {
            path: path.clone(),
            _lock: lock,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for DraftFolder {
    fn drop(&mut self) {
        if std::fs::remove_dir_all(&self.path).is_err() {
            // The next edit tries again, and only the owner can read the folder.
        }
    }
}

/// The user's runtime folder, which is private and in memory, else the folder for temporary files.
fn parent() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    runtime
        .filter(|folder| folder.is_absolute() && folder.is_dir())
        .unwrap_or_else(std::env::temp_dir)
}

fn lock_file(folder: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    options.open(folder.join(LOCK))
}

/// Deletes folders of this user whose process is gone. Errors are ignored: the folders are private, and the edit that
/// begins now doesn't depend on them.
fn delete_abandoned(parent: &Path) {
    let me = rustix::process::geteuid().as_raw();
    for child in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_draft = child.file_name().to_string_lossy().starts_with(PREFIX);
        // `DirEntry::metadata` doesn't follow a symbolic link.
        let is_own = child
            .metadata()
            .is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == me);
        if is_draft
            && is_own
            && let Ok(lock) = lock_file(&child.path())
            && lock.try_lock().is_ok()
        {
            let _ = std::fs::remove_dir_all(child.path()).ok();
        }
    }
}
