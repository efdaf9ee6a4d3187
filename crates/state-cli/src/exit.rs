//! The exit codes of `statectl`, which are part of its public contract.

use serde::Serialize;
use state_core::ErrorKind;

/// Exit code of `statectl`. Any other code except 0 means that the command failed. JSON errors contain the code's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ExitCode {
    /// The command completed without failures.
    Done,
    /// The command failed for a reason without a code of its own.
    Failed,
    /// The command line is invalid.
    Usage,
    /// There are differences, and `--detailed-exitcode` is set.
    Differences,
    /// The command needs a confirmation by `--yes`, `--force` or `--adopt`.
    Refused,
    /// The store, stack, resource or revision does not exist.
    NotFound,
    /// Another client holds the lock.
    Locked,
    /// A value can't be decrypted or authenticated.
    Undecipherable,
    /// The state changed concurrently, or its lineage or serial doesn't match.
    Conflict,
    /// Data is corrupt, or violates integrity rules.
    Integrity,
    /// The store is missing a guarantee, or this build is missing a feature.
    Unsupported,
    /// A stored format is too new or too old for this build.
    Format,
    /// Another client took over the lock.
    Fenced,
    /// It is unknown whether a write took effect: check `statectl pending list`.
    Indeterminate,
    /// The store can't be reached, or denies access.
    Unreachable,
    /// The state names a command, or a path or project setting was found, that the user hasn't approved: run `statectl trust`.
    Unapproved,
    /// The command was interrupted by a signal.
    Interrupted,
    /// The command that `statectl run` started exited with this code.
    Command(u8),
}

impl ExitCode {
    /// The numeric exit code.
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Differences => 3,
            Self::Refused => 4,
            Self::NotFound => 10,
            Self::Locked => 11,
            Self::Undecipherable => 12,
            Self::Conflict => 13,
            Self::Integrity => 14,
            Self::Unsupported => 15,
            Self::Format => 16,
            Self::Fenced => 17,
            Self::Indeterminate => 18,
            Self::Unreachable => 19,
            Self::Unapproved => 20,
            Self::Interrupted => 130,
            Self::Command(code) => code,
        }
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
                                               130  interrupted

`statectl run` exits with the code of the command that it runs.";

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
