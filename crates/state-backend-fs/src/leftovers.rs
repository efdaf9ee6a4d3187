//! Temporary files of crashed processes.
//!
//! A process holds the lock of each temporary file that it has created, and the system frees the lock when the process
//! ends. So a file of a running process is never taken for a leftover, however long the process is suspended and whatever
//! the clocks say. The age covers the moment between the creation and the lock. It is measured with the clock of the file
//! system, which set the times of all files: the clocks of two clients of a file server differ.

use crate::counts::Call;
use crate::dir::Dir;
use crate::error::{WriteError, read_failed};
use crate::files::{Access, FileHandle, FileKind, Lock};
use crate::layout::{NAMES, STACKS, TEMPORARY};
use crate::staged::StagedFile;
use state_core::backend::{LeftoverAction, Leftovers, ObjectKind};
use state_core::{Error, Lineage, Result};
use std::fs::TryLockError;
use std::time::Duration;

/// Finds the leftovers that are at least this old: in the folders of a stack, and in those that all stacks share.
pub(crate) fn find(
    root: &Dir,
    lineage: Lineage,
    min_age: Duration,
    action: LeftoverAction,
) -> Result<Leftovers> {
    let candidates = candidates(root, lineage)?;
    let mut found = Leftovers::default();
    if candidates.is_empty() {
        return Ok(found);
    }
    let now = present(root)?;
    for (dir, name) in candidates {
        if let Some(bytes) = examine(&dir, &name, now, min_age, action)? {
            found.files += 1;
            found.bytes += bytes;
        }
    }
    Ok(found)
}

/// The temporary files, each with its folder.
fn candidates(root: &Dir, lineage: Lineage) -> Result<Vec<(Dir, String)>> {
    let mut folders = vec![root.clone()];
    if let Some(names) = root.child_if_any(NAMES)? {
        folders.extend(children(&names)?);
        folders.push(names);
    }
    if let Some(stack) = root.child(STACKS)?.child_if_any(&lineage.to_string())? {
        folders.extend(children(&stack)?);
        folders.push(stack);
    }
    if let Some(outputs) = root.child_if_any(ObjectKind::Outputs.folder())? {
        folders.extend(outputs.child_if_any(&lineage.to_string())?);
        folders.push(outputs);
    }
    let mut found = Vec::new();
    for folder in folders {
        let files = folder.entries()?;
        let files = files.into_iter().filter(|file| file.starts_with(TEMPORARY));
        found.extend(files.map(|file| (folder.clone(), file)));
    }
    Ok(found)
}

fn children(folder: &Dir) -> Result<Vec<Dir>> {
    let mut children = Vec::new();
    for name in folder.entries()? {
        let kind = folder.status(&name)?.map(|status| status.kind);
        if kind == Some(FileKind::Folder) {
            children.extend(folder.child_if_any(&name)?);
        }
    }
    Ok(children)
}

/// The present time of the file system: that of a file which is created now.
fn present(root: &Dir) -> Result<Duration> {
    let object = root.object("the present time");
    let probe = StagedFile::write_unsynced(root, &object, &[])?;
    probe.modified().map_err(|error| read_failed(&object, error))
}

/// Returns the length of a file if it is a leftover. Deletes the file if that is the action.
fn examine(
    dir: &Dir,
    name: &str,
    now: Duration,
    min_age: Duration,
    action: LeftoverAction,
) -> Result<Option<u64>> {
    let Some(status) = dir.status(name)? else {
        return Ok(None);
    };
    // A time in the future has no age.
    let age = now.checked_sub(status.modified);
    if status.kind != FileKind::Regular || age.is_none_or(|age| age < min_age) {
        return Ok(None);
    }
    let file = match dir.open(name, Access::Read) {
        Ok(Some(file)) => file,
        // Another user is creating the file, or only that user may delete it.
        Ok(None) | Err(Error::Denied { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    match file.try_lock(Lock::Exclusive) {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(read_failed(&dir.object(name), error)),
    }
    // Its process may have renamed the file, and another one may have created a file of this name.
    if !is_named(dir, name, &file)? {
        return Ok(None);
    }
    if action == LeftoverAction::Delete {
        remove(dir, name)?;
    }
    Ok(Some(status.length))
}

fn is_named(dir: &Dir, name: &str, file: &FileHandle) -> Result<bool> {
    let held = file
        .status()
        .map_err(|error| read_failed(&dir.object(name), error))?;
    Ok(dir
        .status(name)?
        .is_some_and(|named| named.id == held.id && named.modified == held.modified))
}

/// Removes the file. Its name may come back after a power failure, so the folder isn't synced.
fn remove(dir: &Dir, name: &str) -> Result<()> {
    let object = dir.object(name);
    let remove = || dir.folder().unlink(name);
    let removed = dir.meter().run(Call::Remove, &object, remove);
    Ok(removed.map_err(|error| WriteError::move_failed(&object, error))?)
}
