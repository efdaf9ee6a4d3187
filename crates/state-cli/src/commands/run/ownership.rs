//! Files that show whether a run, or the command that it started, still lives: they are locked as long as it does.
//!
//! ```text
//! $XDG_STATE_HOME/statectl/runs/LINEAGE.RUN
//! ```
//!
//! The command inherits the descriptor of the locked file, so the operating system frees the file when both `statectl run` and
//! the command have ended, however they ended. A file that is missing proves nothing: another user or another machine may have
//! taken the lock. Process ids prove nothing either, because they are used again, and differ between containers.

use crate::context::Context;
use crate::error::CliError;
use crate::output::line_to_stderr;
use crate::trusted::state_folder;
use state_core::Lineage;
use state_core::backend::ClientLock;
use state_manager::Stack;
use state_server::Sessions;
use state_server::session::{LockId, RunId, SessionError};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;

/// The folder of the files, relative to the user's state folder.
const FOLDER: &str = "statectl/runs";

/// The locked file of a run.
pub(super) struct RunFile {
    path: PathBuf,
    file: File,
}

impl RunFile {
    /// Creates and locks the file of a run; none without a home folder.
    ///
    /// # Errors
    /// If the file can't be created.
    pub(super) fn create(lineage: Lineage, run: &RunId) -> Result<Option<Self>, CliError> {
        let Some(folder) = state_folder() else {
            return Ok(None);
        };
        let folder = folder.join(FOLDER);
        let failed = |source: io::Error| CliError::io(folder.display().to_string(), &source);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)
            .map_err(failed)?;
        let path = folder.join(format!("{lineage}.{run}"));
        let new = folder.join(format!(".new-{run}"));
        let mut options = OpenOptions::new();
        let options = options.create_new(true).write(true).mode(0o600);
        let file = options.open(&new).map_err(failed)?;
        file.try_lock().map_err(|error| failed(error.into()))?;
        // Renamed after it is locked: another run would take an unlocked file for that of a run that ended.
        std::fs::rename(&new, &path).map_err(failed)?;
        Ok(Some(Self { path, file }))
    }

    /// A descriptor for the command.
    ///
    /// # Errors
    /// If the operating system has no more descriptors.
    pub(super) fn descriptor(&self) -> io::Result<OwnedFd> {
        Ok(self.file.try_clone()?.into())
    }

    /// Removes the file at the end of the run.
    pub(super) fn remove(self) {
        remove(&self.path);
    }
}

/// Releases the lock of a stack if a run of this user on this machine took it, and has ended without releasing it.
pub(super) async fn release_abandoned(context: &Context, sessions: &Sessions, stack: &Stack) {
    for (path, run) in ended(stack.lineage()) {
        match release(sessions, stack, &run).await {
            Ok(None) => remove(&path),
            Ok(Some(_)) => {
                context.output.announce(|page| {
                    page.line("statectl: released the lock of an earlier run, which was killed");
                });
                remove(&path);
            }
            Err(error) => line_to_stderr(&format!(
                "warning: the lock of an earlier run could not be released: {error}"
            )),
        }
    }
}

/// Releases the lock of a stack if this run took it, and returns it.
pub(super) async fn release(
    sessions: &Sessions,
    stack: &Stack,
    run: &RunId,
) -> Result<Option<ClientLock>, SessionError> {
    match stack.lock_status().await?.client_lock {
        Some(lock) if run.took(&lock) => sessions.unlock(stack.name(), Some(&LockId::new(&lock.id)?)).await,
        _ => Ok(None),
    }
}

/// The runs of this user with a stack that have ended, and their files.
fn ended(lineage: Lineage) -> Vec<(PathBuf, RunId)> {
    let files = state_folder().and_then(|folder| std::fs::read_dir(folder.join(FOLDER)).ok());
    let files = files.into_iter().flatten().flatten();
    let of_stack = format!("{lineage}.");
    let named = files.filter_map(|file| {
        let name = file.file_name();
        let run = RunId::parse(name.to_str()?.strip_prefix(&of_stack)?)?;
        let opened = File::open(file.path()).ok()?;
        opened.try_lock().is_ok().then(|| (file.path(), run))
    });
    named.collect()
}

fn remove(path: &PathBuf) {
    if std::fs::remove_file(path).is_err() {
        // A file that stays is removed by the next run with the stack.
    }
}
