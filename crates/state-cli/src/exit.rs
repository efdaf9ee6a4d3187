//! The exit codes of `statectl`, which are part of its public contract.

use serde::Serialize;
use state_core::ErrorKind;

/// Exit code of `statectl`. Any other code except 0 means that the command failed. JSON errors contain the code's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
#[repr(u8)]
pub enum ExitCode {
    /// The command completed without failures.
    Done = 0,
    /// The command failed for a reason without a code of its own.
    Failed = 1,
    /// The command line is invalid.
    Usage = 2,
    /// There are differences, and `--detailed-exitcode` is set.
    Differences = 3,
    /// The command needs a confirmation by `--yes` or `--force`.
    Refused = 4,
    /// The store, stack, resource or revision does not exist.
    NotFound = 10,
    /// Another client holds the lock.
    Locked = 11,
    /// A value can't be decrypted or authenticated.
    Undecipherable = 12,
    /// The state changed concurrently, or its lineage or serial doesn't match.
    Conflict = 13,
    /// Data is corrupt, or violates integrity rules.
    Integrity = 14,
    /// The store is missing a guarantee, or this build is missing a feature.
    Unsupported = 15,
    /// A stored format is too new or too old for this build.
    Format = 16,
    /// Another client took over the lock.
    Fenced = 17,
    /// It is unknown whether a write took effect: check `statectl pending list`.
    Indeterminate = 18,
    /// The store can't be reached, or denies access.
    Unreachable = 19,
    /// The state names a command, or a path or project setting was found, that the user hasn't approved: run `statectl trust`.
    Unapproved = 20,
    /// The command was interrupted by a signal.
    Interrupted = 130,
}

impl ExitCode {
    /// The numeric exit code.
    pub const fn code(self) -> u8 {
        self as u8
    }
}

/// The table of exit codes at the end of `statectl --help`.
pub(crate) const TABLE: &str = "\
Exit codes:
    0  success                                  13  conflict: concurrent change, or
    1  failure                                      lineage or serial doesn't match
    2  invalid command line                     14  data is corrupt or violates rules
    3  differences (--detailed-exitcode)        15  store or build not supported
    4  refused without --yes or --force         16  format too new or too old
   10  store, stack, resource or revision       17  fenced: another client took over
       not found                                    the lock
   11  locked by another client                 18  outcome unknown: run `pending list`
   12  can't decrypt or authenticate            19  store unreachable or access denied
                                                20  not approved: run `statectl trust`
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

    /// All exit codes in ascending order.
    const ALL: [ExitCode; 17] = [
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
        ExitCode::Unapproved,
        ExitCode::Interrupted,
    ];

    #[test]
    fn help_lists_every_exit_code() {
        let numbers: Vec<_> = TABLE
            .split_whitespace()
            .filter_map(|word| word.parse::<u8>().ok())
            .collect();
        for code in ALL {
            assert!(numbers.contains(&code.code()), "{code:?}");
        }
        assert_eq!(numbers.len(), ALL.len());
    }

    /// The code's name in JSON errors.
    fn name(code: &ExitCode) -> String {
        serde_json::to_string(code).unwrap()
    }

    #[test]
    fn exit_code_names_and_numbers_are_unique() {
        for (index, code) in ALL.iter().enumerate() {
            for other in &ALL[index + 1..] {
                assert_ne!(name(code), name(other));
                assert_ne!(code.code(), other.code());
            }
        }
    }
}
