//! The exit codes of `statectl`: a public contract.

use serde::Serialize;
use state_core::ErrorKind;

/// What the exit code of `statectl` means. Any other code that isn't 0 means that it failed. JSON errors hold its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
#[repr(u8)]
pub enum ExitCode {
    /// Done.
    Done = 0,
    /// Failed for a reason that has no code of its own.
    Failed = 1,
    /// The command line isn't understood.
    Usage = 2,
    /// Differences were found, and `--detailed-exitcode` asked to say so.
    Differences = 3,
    /// Refused without `--yes` or `--force`.
    Refused = 4,
    /// There is no such store, stack, entry or revision.
    NotFound = 10,
    /// Somebody else holds the lock.
    Locked = 11,
    /// A value can't be decrypted, or isn't authentic.
    Undecipherable = 12,
    /// The state moved, or lineage or serial don't fit.
    Conflict = 13,
    /// Something is corrupt, or breaks integrity rules.
    Integrity = 14,
    /// The store lacks a guarantee, or this build a feature.
    Unsupported = 15,
    /// A format is too new or too old.
    Format = 16,
    /// Another holder took over.
    Fenced = 17,
    /// Nobody can say whether a write had an effect: ask `pending`.
    Indeterminate = 18,
    /// The store can't be reached, or denies access.
    Unreachable = 19,
    /// Interrupted.
    Interrupted = 130,
}

impl ExitCode {
    /// The number.
    pub const fn code(self) -> u8 {
        self as u8
    }
}

/// What `statectl --help` ends with.
pub(crate) const TABLE: &str = "\
Exit codes:
    0  done                                     13  conflict: the state moved, or
    1  failed                                       lineage or serial don't fit
    2  usage                                    14  integrity: corrupt, or violations
    3  differences (--detailed-exitcode)        15  the store lacks a guarantee
    4  refused without --yes or --force         16  format too new or too old
   10  no such store, stack, entry, revision    17  fenced: another holder took over
   11  locked by another                        18  indeterminate: ask `pending`
   12  can't decrypt, or not authenticated      19  store unreachable, or access denied
                                               130  interrupted";

impl From<ErrorKind> for ExitCode {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::NotFound | ErrorKind::NoCurrent => Self::NotFound,
            ErrorKind::Locked => Self::Locked,
            ErrorKind::Conflict => Self::Conflict,
            ErrorKind::Fenced => Self::Fenced,
            ErrorKind::Indeterminate => Self::Indeterminate,
            ErrorKind::Corrupt | ErrorKind::Integrity => Self::Integrity,
            ErrorKind::Format => Self::Format,
            ErrorKind::Unsupported => Self::Unsupported,
            ErrorKind::Sealed | ErrorKind::Distrusted => Self::Undecipherable,
            ErrorKind::Denied | ErrorKind::Unavailable => Self::Unreachable,
            _ => Self::Failed,
        }
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        code.code().into()
    }
}

#[cfg(test)]
mod tests {
    use super::{ExitCode, TABLE};

    /// All of them, in order.
    const ALL: [ExitCode; 16] = [
        ExitCode::Done,
        ExitCode::Failed,
        ExitCode::Usage,
        ExitCode::Differences,
        ExitCode::Refused,
        ExitCode::NotFound,
        ExitCode::Locked,
        ExitCode::Undecipherable,
        ExitCode::Conflict,
        ExitCode::Integrity,
        ExitCode::Unsupported,
        ExitCode::Format,
        ExitCode::Fenced,
        ExitCode::Indeterminate,
        ExitCode::Unreachable,
        ExitCode::Interrupted,
    ];

    #[test]
    fn the_help_lists_every_code() {
        let numbers: Vec<_> = TABLE
            .split_whitespace()
            .filter_map(|word| word.parse::<u8>().ok())
            .collect();
        for code in ALL {
            assert!(numbers.contains(&code.code()), "{code:?}");
        }
        assert_eq!(numbers.len(), ALL.len());
    }

    /// The name in JSON errors.
    fn name(code: &ExitCode) -> String {
        serde_json::to_string(code).unwrap()
    }

    #[test]
    fn names_and_numbers_are_unique() {
        for (index, code) in ALL.iter().enumerate() {
            for other in &ALL[index + 1..] {
                assert_ne!(name(code), name(other));
                assert_ne!(code.code(), other.code());
            }
        }
    }
}
