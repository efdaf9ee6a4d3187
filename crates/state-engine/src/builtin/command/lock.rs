//! Locks of running commands, which distinguish a command that still runs from one that ended.
//!
//! If this process is killed, the command of a mutation keeps running. Its `read` then may not find the object that it is
//! about to create, and a second create would make a second object. So each command that changes something inherits a
//! descriptor of a locked file named after its mutation. The operating system releases the lock when the last process with
//! the descriptor ends, however it ends: the command, and background processes that it left.
//!
//! The file is created before the command starts, and stays until the result of the mutation is recorded. So a missing file
//! means that this folder can't prove that the command ended: another user or another machine may have started it.

use crate::provider::EarlierWork;
use rustix::process::Pid;
use state_core::MutationId;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Why it is unknown whether a command ended.
const NOT_STARTED_HERE: &str = "its command may still be running: nothing proves that this user started it on this machine. If it \
    doesn't run any more, declare the operation as not done";

/// Why it is unknown whether a command of a client without locks ended.
const NO_LOCKS: &str = "its command may still be running: this client has no folder for locks of commands. If it doesn't run any \
    more, declare the operation as not done";

/// The longest process id, as text.
const MAX_PID_BYTES: u64 = 20;

/// The folder of the locks of one user on one machine; none if the user has no such folder.
#[derive(Clone, Debug)]
pub(in crate::builtin) struct CommandLocks {
    pub(in crate::builtin) folder: Option<PathBuf>,
}

/// The lock of a mutation whose command this process starts.
pub(super) struct CommandLock {
    path: PathBuf,
    file: File,
}

impl CommandLocks {
    /// Creates the file of a mutation. Without it, for example on a full disk, the next run after a crash asks the user.
    pub(super) fn note(&self, mutation: MutationId) {
        if let Some(path) = self.path(mutation) {
            open_lock(&path).ok();
        }
    }

    /// Takes the lock of a mutation; none without a folder.
    ///
    /// # Errors
    /// If the file can't be created or locked.
    pub(super) fn take(&self, mutation: MutationId) -> io::Result<Option<CommandLock>> {
        let Some(path) = self.path(mutation) else {
            return Ok(None);
        };
        let file = open_lock(&path)?;
        file.try_lock()?;
        file.set_len(0)?;
        Ok(Some(CommandLock { path, file }))
    }

    /// Whether processes still work on a mutation.
    pub(super) fn work(&self, mutation: MutationId) -> EarlierWork {
        let Some(path) = self.path(mutation) else {
            return EarlierWork::Unseen(NO_LOCKS.to_owned());
        };
        let file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return EarlierWork::Unseen(NOT_STARTED_HERE.to_owned());
            }
            Err(error) => return unseen(&path, &error),
            Ok(file) => file,
        };
        match file.try_lock() {
            Ok(()) => EarlierWork::Ended,
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                let is_read = file.take(MAX_PID_BYTES).read_to_string(&mut pid).is_ok();
                let group = match pid.parse::<u32>() {
                    Ok(pid) if is_read => format!(" (process group {pid})"),
                    _ => String::new(),
                };
                EarlierWork::Running(format!("its command is still running on this machine{group}"))
            }
            Err(TryLockError::Error(error)) => unseen(&path, &error),
        }
    }

    /// Deletes the file of a mutation whose result is recorded.
    pub(super) fn forget(&self, mutation: MutationId) {
        if let Some(path) = self.path(mutation) {
            std::fs::remove_file(path).ok();
        }
    }

    fn path(&self, mutation: MutationId) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(mutation.to_string()))
    }
}

/// Opens the file of a mutation, and creates it if it is missing.
fn open_lock(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let mut options = OpenOptions::new();
    // Without `truncate`: the file of a running command keeps the id of its process.
    let options = options.create(true).truncate(false).write(true).mode(0o600);
    options.open(path)
}

fn unseen(path: &Path, error: &io::Error) -> EarlierWork {
    EarlierWork::Unseen(format!(
        "its command may still be running: {}: {error}",
        path.display()
    ))
}

impl CommandLock {
    /// A descriptor for the command, which keeps the lock after this process ended.
    ///
    /// # Errors
    /// If the operating system has no more descriptors.
    pub(super) fn descriptor(&self) -> io::Result<OwnedFd> {
        Ok(self.file.try_clone()?.into())
    }

    /// Writes the id of the command's process group into the file, for the user.
    pub(super) fn name_holder(&mut self, group: Pid) {
        let id = group.as_raw_nonzero().to_string();
        if self.file.write_all(id.as_bytes()).is_err() {
            // The lock shows that the command runs; only its name is missing.
        }
    }

    /// Puts an unlocked file in the place of the locked one after the command exited: background processes of the command
    /// keep the lock of the former file, but don't delay the result.
    pub(super) fn release(self) {
        if std::fs::remove_file(&self.path).is_ok() && File::create_new(&self.path).is_err() {
            // Without the file, the next run can't prove that the command ended, and asks the user.
        }
    }
}
