//! Space in reserve: a file without content whose space is freed before data is deleted.
//!
//! A deletion needs space too: a new segment, a new head, and perhaps a snapshot. On a full disk it could free nothing. So
//! the file is removed before a deletion and made again after it, with as much space as there is then.

use crate::counts::Call;
use crate::dir::Dir;
use crate::error::{WriteError, read_failed};
use crate::files::{Access, FileHandle};
use crate::layout::RESERVE;
use rustix::io::Errno;
use state_core::Result;
use std::io;

/// The size of the reserve: enough for the head, the segments and the snapshot of a state with some thousand resources.
const SIZE: u64 = 1 << 20;

/// The smallest amount of space that is added to the reserve at once.
const STEP: u64 = 16 << 10;

/// Frees the space of the reserve, if the file exists.
pub(crate) fn free(root: &Dir) -> Result<()> {
    root.remove(RESERVE)?;
    // A file system frees the space of a removed file only with its next commit.
    Ok(root.sync()?)
}

/// Makes the file if it is missing. Returns whether it has its whole size.
pub(crate) fn make_if_missing(root: &Dir) -> Result<bool> {
    match root.length(RESERVE)? {
        Some(length) => Ok(length >= SIZE),
        None => make(root),
    }
}

/// Makes the file, with as much space as there is. Returns whether it has its whole size.
pub(crate) fn make(root: &Dir) -> Result<bool> {
    let object = root.object(RESERVE);
    let open = || root.folder().open(RESERVE, Access::Create);
    let file = match root.meter().run(Call::Stage, &object, open) {
        Ok(file) => file,
        Err(error) if is_full(&error) => return Ok(false),
        Err(error) => return Err(WriteError::not_applied(&object, error).into()),
    };
    // Only the owner of the file can set its mode.
    drop(file.restrict(root.sharing()));
    let status = file.status().map_err(|error| read_failed(&object, error))?;
    let mut length = status.length;
    while length < SIZE {
        let next = (length + STEP).min(SIZE);
        let wanted = if length == 0 { SIZE } else { next };
        match extend(&file, length, wanted) {
            Ok(()) => length = wanted,
            // Not all of the space is there: take it in small steps.
            Err(error) if is_full(&error) && wanted > next => match extend(&file, length, next) {
                Ok(()) => length = next,
                Err(_) => break,
            },
            Err(error) if is_full(&error) => break,
            Err(error) => return Err(WriteError::not_applied(&object, error).into()),
        }
    }
    Ok(length >= SIZE)
}

/// Extends the file with space that no other file can take.
fn extend(file: &FileHandle, from: u64, to: u64) -> io::Result<()> {
    match file.allocate(to) {
        Err(error)
            if matches!(
                Errno::from_io_error(&error),
                Some(Errno::NOTSUP | Errno::NOSYS | Errno::INVAL)
            ) =>
        {
            let length = usize::try_from(to - from).unwrap_or_default();
            file.write_all_at(&vec![0; length], from)
        }
        other => other,
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOSPC | Errno::DQUOT))
}
