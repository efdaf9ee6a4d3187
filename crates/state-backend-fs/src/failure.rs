//! From what the system says to what the caller should do.

use rustix::io::Errno;
use state_core::Error;
use std::io;

/// A write that failed, and whether the handle that made it may be used on.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: Error,
    pub(crate) poisons: bool,
}

impl Failure {
    /// It failed before anybody could see anything of it.
    pub(crate) fn unwritten(object: &str, source: io::Error) -> Self {
        if denied(&source) {
            return unreachable(object, source).into();
        }
        Error::not_applied(object, source).into()
    }

    /// Nobody can see anything of it, but the handle isn't to be trusted any more: after a failed sync the system
    /// may have dropped pages and called them clean.
    pub(crate) fn spoilt(object: &str, source: io::Error) -> Self {
        Self {
            error: Error::not_applied(object, source),
            poisons: true,
        }
    }

    /// It may have taken effect, and it may not survive.
    pub(crate) fn unknown(object: &str, source: io::Error) -> Self {
        Self {
            error: Error::indeterminate(object, source),
            poisons: true,
        }
    }

    /// A rename or link that failed.
    pub(crate) fn unmoved(object: &str, error: io::Error) -> Self {
        if refused(&error) {
            Self::unwritten(object, error)
        } else {
            Self::unknown(object, error)
        }
    }

    /// A write behind the end of a file that is in use, which failed after so many bytes.
    pub(crate) fn unappended(object: &str, written: usize, error: io::Error) -> Self {
        if written == 0 && refused(&error) {
            Self::spoilt(object, error)
        } else {
            Self::unknown(object, error)
        }
    }

    /// The error for whoever only wanted to read, and had to sync what was read.
    pub(crate) fn of_reader(self) -> Error {
        match self.error {
            Error::Indeterminate { object, source, .. } => Error::Unavailable { object, source },
            other => other,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self {
            error,
            poisons: false,
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        failure.error
    }
}

/// Whether the system refused to do it, which is certain. An I/O error says nothing of the kind: the bytes may
/// be in the file, or on their way to a server.
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

/// A read, or anything else without an effect, that failed.
pub(crate) fn unreachable(object: &str, source: impl Into<io::Error>) -> Error {
    let source = source.into();
    if denied(&source) {
        return Error::Denied {
            object: object.to_owned(),
            source: source.into(),
        };
    }
    Error::unavailable(object, source)
}

/// Something of the wrong kind stands where the store keeps its own.
pub(crate) fn strange(object: &str, what: &str) -> Error {
    Error::invalid(
        object,
        format!("it is {what}; a store follows and uses none below its root"),
    )
}

#[cfg(test)]
mod tests {
    use super::{Errno, Failure};
    use state_core::ErrorKind;

    #[test]
    fn an_append_is_not_applied_only_if_nothing_was_written_and_the_system_refused() {
        let kind = |written, errno: Errno| {
            let failure = Failure::unappended("segment", written, errno.into());
            assert!(failure.poisons);
            failure.error.kind()
        };
        assert_eq!(kind(0, Errno::NOSPC), ErrorKind::NotApplied);
        assert_eq!(kind(0, Errno::IO), ErrorKind::Indeterminate);
        assert_eq!(kind(1, Errno::NOSPC), ErrorKind::Indeterminate);
    }
}
