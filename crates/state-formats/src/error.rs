//! The errors of imports and exports.

use state_core::json::{Document, JsonError, View};
use state_core::{ErrorKind, ParseIdError};

/// The result of an import, an export, or one of their steps.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error of an import or export. Its message names positions and fields, never values.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of the state model, such as malformed input (with line, column and path) or a dependency cycle.
    #[error(transparent)]
    Core(#[from] state_core::Error),
    /// The file is empty.
    #[error(
        "not a state: the file has 0 bytes, as a crash of the program that writes it may leave it; \
        restore a backup (for Terraform, the .backup file)"
    )]
    NoState,
    /// The document is of a recognised kind that isn't a state.
    #[error("not a state: {what}")]
    NotAState {
        /// Describes the document and how to proceed.
        what: String,
    },
    /// The state is encrypted by OpenTofu and wasn't decrypted first.
    #[error("the state is encrypted by OpenTofu with key provider {key_providers}: {}", decryption_hint(*needs_passphrase))]
    Encrypted {
        /// Key providers that are needed: type and name of each.
        key_providers: String,
        /// Whether a passphrase may decrypt the state.
        needs_passphrase: bool,
    },
    /// The Terraform state has a format version that this build doesn't read.
    #[error("the state has format version {found}: {reason}; this build reads versions 1 to 4")]
    Version {
        /// Format version that the state names.
        found: u64,
        /// Describes which program wrote that version.
        reason: String,
    },
    /// The Pulumi state has a version or a feature that this build doesn't read.
    #[error("{what}")]
    Unreadable {
        /// Describes the state and the missing support.
        what: String,
    },
    /// The format can't be detected from the content.
    #[error("unknown state format: {reason}")]
    Unrecognised {
        /// Describes why no format matches, for example a missing field.
        reason: String,
    },
    /// The secrets of the state can't be decrypted. The error names no value.
    #[error("the secrets of the state can't be decrypted: {reason}")]
    Secrets {
        /// The reason why decryption failed.
        reason: String,
        /// Whether a passphrase may decrypt the secrets.
        needs_passphrase: bool,
    },
    /// The snapshot holds data that the foreign format can't represent.
    #[error("{object} can't be written as a {format} state: {reason}")]
    NotExportable {
        /// The resource that can't be exported, or the snapshot as a whole.
        object: String,
        /// Name of the target format.
        format: &'static str,
        /// Describes the data that is missing or not representable.
        reason: String,
    },
}

const fn decryption_hint(needs_passphrase: bool) -> &'static str {
    if needs_passphrase {
        "pass the passphrase of that key provider, or decrypt the state first with `tofu state pull`"
    } else {
        "only that key provider has the key, so decrypt the state first with `tofu state pull`"
    }
}

impl From<ParseIdError> for Error {
    fn from(error: ParseIdError) -> Self {
        Self::Core(error.into())
    }
}

impl Error {
    /// The kind of the error, which decides how a caller can proceed.
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Core(error) => error.kind(),
            Self::NoState | Self::NotAState { .. } | Self::Unrecognised { .. } => ErrorKind::Invalid,
            Self::Version { .. } | Self::Unreadable { .. } => ErrorKind::Format,
            Self::Encrypted { .. } | Self::Secrets { .. } => ErrorKind::Sealed,
            Self::NotExportable { .. } => ErrorKind::Unsupported,
        }
    }

    /// An error about one value of a state. `message` must not contain values.
    pub(crate) fn at(document: &Document<'_>, view: &View<'_>, message: impl Into<String>) -> Self {
        Self::malformed(document.error_at(view, message))
    }

    pub(crate) fn malformed(source: JsonError) -> Self {
        Self::Core(state_core::Error::Malformed {
            object: "state".to_owned(),
            source,
        })
    }

    /// Replaces the name of the document in the error of a malformed document; returns any other error unchanged.
    pub(crate) fn about(self, document: &str) -> Self {
        match self {
            Self::Core(state_core::Error::Malformed { source, .. }) => {
                Self::Core(state_core::Error::Malformed {
                    object: document.to_owned(),
                    source,
                })
            }
            other => other,
        }
    }

    pub(crate) fn not_exportable(
        format: &'static str,
        object: impl Into<String>,
        reason: impl Into<String>,
    ) -> Self {
        Self::NotExportable {
            object: object.into(),
            format,
            reason: reason.into(),
        }
    }
}
