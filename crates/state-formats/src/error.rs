//! What can go wrong between a foreign state and ours.

use state_core::json::{Document, JsonError, View};
use state_core::{ErrorKind, ParseIdError};

/// The result of everything that can fail here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a document wasn't imported, or a snapshot not exported. Names places and fields, never values.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The model says no: malformed input (with line, column and path), a cycle, and so on.
    #[error(transparent)]
    Core(#[from] state_core::Error),
    /// The file is empty.
    #[error(
        "no state: the file has 0 bytes, which is what a crashed terraform leaves behind; \
         restore its .backup file or the last revision"
    )]
    NoState,
    /// The document is well known, but no state.
    #[error("not a state: {what}")]
    NotAState {
        /// What it is, and what to do about it.
        what: String,
    },
    /// A state that OpenTofu encrypted, and nobody opened.
    #[error("an encrypted state of OpenTofu, its key provider is {key_providers}: {}", way_out(*needs_passphrase))]
    Encrypted {
        /// Whose keys it takes: type and name of each.
        key_providers: String,
        /// Whether a passphrase may open it.
        needs_passphrase: bool,
    },
    /// A state in a version that this build doesn't read.
    #[error("the state has format version {found}: {reason}; this build reads versions 1 to 4")]
    Version {
        /// The version that it says it has.
        found: u64,
        /// What is known about that version.
        reason: String,
    },
    /// A state that is newer or older than what this build reads, or needs what it doesn't know.
    #[error("{what}")]
    Unreadable {
        /// What it is, and what is missing.
        what: String,
    },
    /// The content doesn't say which format it has.
    #[error("the format can't be told: {reason}; name it")]
    Unrecognised {
        /// What is missing.
        reason: String,
    },
    /// Secrets that can't be opened. Names no value.
    #[error("the secrets of the state can't be opened: {reason}")]
    Secrets {
        /// Why.
        reason: String,
        /// Whether a passphrase may open them.
        needs_passphrase: bool,
    },
    /// The snapshot holds what the foreign format can't say.
    #[error("{object} can't be written as a {format} state: {reason}")]
    NotExportable {
        /// The entry, or the snapshot.
        object: String,
        /// The format.
        format: crate::Format,
        /// What is missing or doesn't fit.
        reason: String,
    },
}

const fn way_out(needs_passphrase: bool) -> &'static str {
    if needs_passphrase {
        "give its passphrase, or decrypt it first: `tofu state pull` prints the state"
    } else {
        "only that gives the key, so decrypt it first: `tofu state pull` prints the state"
    }
}

impl From<ParseIdError> for Error {
    fn from(error: ParseIdError) -> Self {
        Self::Core(error.into())
    }
}

impl Error {
    /// What to do about it.
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Core(error) => error.kind(),
            Self::NoState | Self::NotAState { .. } | Self::Unrecognised { .. } => ErrorKind::Invalid,
            Self::Version { .. } | Self::Unreadable { .. } => ErrorKind::Format,
            Self::Encrypted { .. } | Self::Secrets { .. } => ErrorKind::Sealed,
            Self::NotExportable { .. } => ErrorKind::Unsupported,
        }
    }

    /// A value of a Terraform state that isn't what it should be. `message` names no values.
    pub(crate) fn at(document: &Document<'_>, view: &View<'_>, message: impl Into<String>) -> Self {
        Self::malformed(document.error_at(view, message))
    }

    pub(crate) fn malformed(source: JsonError) -> Self {
        Self::Core(state_core::Error::Malformed {
            object: "Terraform state".to_owned(),
            source,
        })
    }

    /// The same about a document of another kind.
    pub(crate) fn about(self, document: &str) -> Self {
        match self {
            Self::Core(state_core::Error::Malformed { source, .. }) => {
                Self::Core(state_core::Error::Malformed {
                    object: document.to_owned(),
                    source,
                })
            }
            Self::NoState => Self::NotAState {
                what: "the file has 0 bytes; restore its .bak file or a backup".to_owned(),
            },
            other => other,
        }
    }

    pub(crate) fn not_exportable(object: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::NotExportable {
            object: object.into(),
            format: crate::Format::Terraform,
            reason: reason.into(),
        }
    }
}
