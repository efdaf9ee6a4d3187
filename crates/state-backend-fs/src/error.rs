//! Translates errors of the operating system into [`state_core::Error`].

use rustix::io::Errno;
use state_core::Error;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A failed write, and whether the file handle that made it may still be used.
#[derive(Debug)]
pub(crate) struct WriteError {
    pub(crate) error: Error,
    pub(crate) poisons: bool,
}

impl WriteError {
    /// The write failed before any other process could see an effect of it.
    pub(crate) fn not_applied(object: &str, source: io::Error) -> Self {
        if denied(&source) {
            return read_failed(object, source).into();
        }
        Error::not_applied(object, source).into()
    }

    /// The write isn't visible to any other process, but the handle must not be used again: after a failed sync the
    /// system may have dropped the dirty pages and marked them clean, so a second sync would succeed without data.
    pub(crate) fn sync_failed(object: &str, source: io::Error) -> Self {
        Self {
            error: Error::not_applied(object, source),
            poisons: true,
        }
    }

    /// The write may have taken effect, and may be lost in a crash.
    pub(crate) fn indeterminate(object: &str, source: io::Error) -> Self {
        Self {
            error: Error::indeterminate(object, source),
            poisons: true,
        }
    }

    /// A rename, a link or an unlink failed.
    pub(crate) fn move_failed(object: &str, error: io::Error) -> Self {
        if refused(&error) {
            Self::not_applied(object, error)
        } else {
            Self::indeterminate(object, error)
        }
    }

    /// An append to a segment failed after `written` bytes. Poisons the handle even if no byte was written, because
    /// after any failed append the writer must accept no further frame.
    pub(crate) fn append_failed(object: &str, written: usize, error: io::Error) -> Self {
        if written == 0 && refused(&error) {
            Self::sync_failed(object, error)
        } else {
            Self::indeterminate(object, error)
        }
    }

    /// Returns the error for a caller that only reads, but had to sync the bytes that it read.
    pub(crate) fn into_read_error(self) -> Error {
        match self.error {
            Error::Indeterminate { object, source, .. } => Error::Unavailable { object, source },
            other => other,
        }
    }
}

impl From<Error> for WriteError {
    fn from(error: Error) -> Self {
        Self {
            error,
            poisons: false,
        }
    }
}

impl From<WriteError> for Error {
    fn from(failure: WriteError) -> Self {
        failure.error
    }
}

/// Whether the error code proves that the system refused the call. After an I/O error the bytes may still be in the
/// file, or on their way to a server.
fn refused(error: &io::Error) -> bool {
    let certain = [
        Errno::ACCESS,
        Errno::PERM,
        Errno::ROFS,
        Errno::NOSPC,
        Errno::DQUOT,
        Errno::FBIG,
        Errno::NOENT,
        Errno::NAMETOOLONG,
        Errno::ISDIR,
        Errno::BADF,
    ];
    Errno::from_io_error(error).is_some_and(|errno| certain.contains(&errno))
}

fn denied(source: &io::Error) -> bool {
    let codes = [Errno::ACCESS, Errno::PERM, Errno::ROFS].map(Errno::raw_os_error);
    source.raw_os_error().is_some_and(|code| codes.contains(&code))
}

/// Returns the error for a failed call without side effects, such as a read of a file. `object` is the path of the file. If access is
/// denied, the error is `Denied` and says to whom the file belongs.
pub fn read_failed(object: &str, source: impl Into<io::Error>) -> Error {
    let source = source.into();
    if denied(&source) {
        let source = match owner_of(Path::new(object)) {
            Some(owner) => format!("{source}: {owner}").into(),
            None => source.into(),
        };
        return Error::Denied {
            object: object.to_owned(),
            source,
        };
    }
    Error::unavailable(object, source)
}

/// Names the owner of a file or of the nearest folder around it that can be examined. In a store that several users share, or that
/// root once wrote to, some files belong to another user.
fn owner_of(path: &Path) -> Option<String> {
    let (path, status) = path
        .ancestors()
        .find_map(|path| Some((path, std::fs::symlink_metadata(path).ok()?)))?;
    let name = match status.uid() {
        0 => "root".to_owned(),
        uid => format!("user {uid}"),
    };
    let mode = status.mode() & 0o7777;
    let gid = status.gid();
    Some(format!(
        "{} belongs to {name} and group {gid}, with mode {mode:04o}",
        path.display()
    ))
}

/// Returns the error for a file of an unexpected type, such as a symbolic link in place of a folder.
pub(crate) fn unexpected_type(object: &str, what: &str) -> Error {
    Error::corrupt(
        object,
        0,
        format!("it is {what}; below the root of a store only regular files and folders are used"),
    )
}

#[cfg(test)]
mod tests {
    use super::{Errno, WriteError};
    use state_core::ErrorKind;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn denied_access_names_the_owner() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("stacks/head.json");
        let error = super::read_failed(&missing.display().to_string(), Errno::ACCESS);
        let source = std::error::Error::source(&error).unwrap().to_string();
        let status = std::fs::metadata(folder.path()).unwrap();
        let owner = match status.uid() {
            0 => "root".to_owned(),
            uid => format!("user {uid}"),
        };
        let expected = format!("{} belongs to {owner} and group", folder.path().display());
        let mode = format!("with mode {:04o}", status.mode() & 0o7777);
        assert!(source.contains(&expected) && source.ends_with(&mode), "{source}");
    }

    #[test]
    fn append_is_not_applied_only_if_refused_before_any_byte() {
        let kind = |written, errno: Errno| {
            let failure = WriteError::append_failed("segment", written, errno.into());
            assert!(failure.poisons);
            failure.error.kind()
        };
        assert_eq!(kind(0, Errno::NOSPC), ErrorKind::NotApplied);
        assert_eq!(kind(0, Errno::IO), ErrorKind::Indeterminate);
        assert_eq!(kind(1, Errno::NOSPC), ErrorKind::Indeterminate);
    }
}
