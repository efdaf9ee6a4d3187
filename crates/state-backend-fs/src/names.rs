//! Name pointers: `names/<project>/<stack>.json`, in lower case, replaced under `names.lock`.

use crate::dir::Dir;
use crate::error::WriteError;
use crate::layout::{MAX_DOCUMENT, NAMES, NAMES_LOCK};
use crate::lock::LockFile;
use state_core::backend::{Holder, NamePointer};
use state_core::{Enveloped, Error, Nonce, Result, StackName};
use std::time::Duration;

const EXTENSION: &str = ".json";

/// Lists all name pointers, sorted by name. Files that can't be pointers are skipped.
pub(crate) fn list(root: &Dir) -> Result<Vec<NamePointer>> {
    let mut pointers = Vec::new();
    let Some(names) = root.child_if_any(NAMES)? else {
        return Ok(pointers);
    };
    for project in names.entries()? {
        if !is_folded(&project, "x") || names.is_file(&project) {
            continue;
        }
        let folder = names.child(&project)?;
        for file in folder.entries()? {
            let stem = file.strip_suffix(EXTENSION).unwrap_or_default();
            if is_folded(&project, stem) {
                pointers.extend(read_at(&folder, &project, stem)?);
            }
        }
    }
    pointers.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(pointers)
}

/// Returns whether the parts are a project and a stack name in lower case.
fn is_folded(project: &str, stack: &str) -> bool {
    StackName::new(project, stack).is_ok_and(|name| {
        let (folded_project, folded_stack) = name.folded();
        folded_project == project && folded_stack == stack
    })
}

/// Reads one pointer and makes it durable: its writer may have crashed before the sync. Without the pointer, data that
/// the caller then writes to the stack could not be found.
pub(crate) fn read(root: &Dir, name: &StackName) -> Result<Option<NamePointer>> {
    let (project, stack) = name.folded();
    let Some(names) = root.child_if_any(NAMES)? else {
        return Ok(None);
    };
    let Some(folder) = names.child_if_any(&project)? else {
        return Ok(None);
    };
    let pointer = read_at(&folder, &project, &stack)?;
    if pointer.is_some() {
        for dir in [&folder, &names, root] {
            dir.sync().map_err(WriteError::into_read_error)?;
        }
    }
    Ok(pointer)
}

fn read_at(folder: &Dir, project: &str, stack: &str) -> Result<Option<NamePointer>> {
    let file = format!("{stack}{EXTENSION}");
    let Some((bytes, _)) = folder.read(&file, MAX_DOCUMENT)? else {
        return Ok(None);
    };
    let object = folder.object(&file);
    let pointer = NamePointer::decode(&object, &bytes)?;
    let (of_project, of_stack) = pointer.name.folded();
    if (of_project.as_str(), of_stack.as_str()) != (project, stack) {
        let reason = format!("it is the pointer of another name, {}", pointer.name);
        return Err(Error::corrupt(object, 0, reason));
    }
    Ok(Some(pointer))
}

/// Replaces a pointer if its nonce is the expected one.
pub(crate) fn swap(
    root: &Dir,
    name: &StackName,
    expected: Option<Nonce>,
    pointer: &NamePointer,
    lock_timeout: Duration,
) -> Result<(), WriteError> {
    if pointer.name.folded() != name.folded() {
        let reason = format!("the pointer contains another name, {}", pointer.name);
        return Err(Error::invalid(format!("stack name {name}"), reason).into());
    }
    let holder = Holder::new("a name change", "", std::process::id(), "names", None);
    let lock = LockFile::wait(root, NAMES_LOCK, &holder, lock_timeout)?;
    let (project, stack) = name.folded();
    let folder = root.make_child(NAMES)?.make_child(&project)?;
    let file = format!("{stack}{EXTENSION}");
    let found = read_at(&folder, &project, &stack)?;
    // An earlier attempt may have succeeded although its result was lost. Nonces are unique, so an equal pointer
    // can only come from such an attempt, and the retry must report success.
    let already_written = found.as_ref() == Some(pointer);
    if !already_written && found.map(|found| found.nonce) != expected {
        let reason = "another process changed the name pointer since it was read; try again";
        return Err(Error::conflict(folder.object(&file), reason).into());
    }
    folder.replace(&file, &pointer.encode())?;
    drop(lock);
    Ok(())
}
