//! Errors of keys and sealed values. No message contains a value, a key or a line of a key file.

use state_core::{KeyId, Lineage};

/// Result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error type of this crate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A line of a recipients file is not a recipient.
    #[error("recipients, line {line}: {reason}")]
    Recipient {
        /// The number of the line, from 1.
        line: usize,
        /// The fault, and the expected form.
        reason: String,
    },
    /// A line of an identity file is not an identity.
    #[error("{origin}, line {line}: {reason}")]
    Identity {
        /// The source of the identities, such as a file name.
        origin: String,
        /// The number of the line, from 1.
        line: usize,
        /// The fault, and the expected form.
        reason: String,
    },
    /// An identity file contains no identity.
    #[error("{origin} contains no identity: expected a line that begins with AGE-SECRET-KEY-1")]
    NoIdentity {
        /// The name of the file.
        origin: String,
    },
    /// A data key can't be wrapped without recipients.
    #[error("cannot wrap the data key: without recipients, no identity could unwrap it")]
    NoRecipient,
    /// The passphrase is empty.
    #[error("the passphrase is empty")]
    EmptyPassphrase,
    /// The passphrase for a new wrapped key has fewer than 8 characters.
    #[error("the passphrase is shorter than 8 characters")]
    ShortPassphrase,
    /// The requested work factor of a passphrase is too weak or too slow.
    #[error("passphrase work factor {asked} is out of range: expected 1 to {most}")]
    WorkFactorRange {
        /// The requested work factor: the base-2 logarithm of scrypt's N.
        asked: u8,
        /// The largest accepted work factor.
        most: u8,
    },
    /// age failed to wrap the data key.
    #[error("cannot wrap the data key: {reason}")]
    Wrapping {
        /// The cause that age or a plugin reported.
        reason: String,
    },
    /// The store contains no wrapped file of the data key.
    #[error("cannot unwrap data key {key}: the store contains no wrapped file of it")]
    UnknownKey {
        /// The id of the required data key.
        key: KeyId,
    },
    /// None of the given identities can unwrap the data key.
    #[error("cannot unwrap data key {key}: {}", no_recipient_among(*.identities))]
    WrongIdentity {
        /// The id of the required data key.
        key: KeyId,
        /// The number of identities that were tried, passphrases included.
        identities: usize,
    },
    /// A wrapped file contains another data key than the expected one.
    #[error("data key {expected}: its wrapped file contains another key, {found}")]
    OtherKey {
        /// The id of the required data key.
        expected: KeyId,
        /// The id of the key in the file.
        found: KeyId,
    },
    /// A wrapped file is damaged, or contains no data key.
    #[error("data key {key}, wrapped file {file}: {reason}")]
    Wrapped {
        /// The id of the required data key.
        key: KeyId,
        /// The number of the wrapped file, from 1.
        file: usize,
        /// The fault of the file.
        reason: String,
    },
    /// An age plugin failed to unwrap the data key.
    #[error("cannot unwrap data key {key}: {reason}")]
    Plugin {
        /// The id of the required data key.
        key: KeyId,
        /// The error of the plugin, or a message that the plugin is not installed.
        reason: String,
    },
    /// A recipient that the store names needs an age plugin that the user doesn't use. The program was not started.
    #[error(
        "cannot wrap the data key to recipient {recipient}: none of your identities uses the program age-plugin-{plugin}, so it \
         was not started"
    )]
    UntrustedPlugin {
        /// The recipient as the store names it.
        recipient: String,
        /// The name of the plugin, without `age-plugin-`.
        plugin: String,
    },
    /// Unwrapping with a passphrase would take too long.
    #[error(
        "data key {key}, wrapped file {file}: its passphrase work factor {needed} exceeds the limit {cap}"
    )]
    WorkFactor {
        /// The id of the required data key.
        key: KeyId,
        /// The number of the wrapped file, from 1.
        file: usize,
        /// The work factor of the file: the base-2 logarithm of scrypt's N.
        needed: u8,
        /// The largest accepted work factor.
        cap: u8,
    },
    /// The passphrase files of a data key need more work together than this client does.
    #[error(
        "data key {key}: none of its passphrase files could be opened within the limit of their total work"
    )]
    TotalWork {
        /// The id of the required data key.
        key: KeyId,
    },
    /// A value is sealed under another data key than the given one.
    #[error("{place} is sealed under key {found}…, not under {ours}…")]
    SealedUnder {
        /// The owner and path of the value.
        place: String,
        /// The first digits of the key id in the sealed value.
        found: String,
        /// The first digits of the id of the given key.
        ours: String,
    },
    /// A sealed value can't be decrypted.
    #[error("cannot decrypt {place}: the sealed value was changed, or moved from another place")]
    NotAuthentic {
        /// The owner and path of the value.
        place: String,
    },
    /// A value can't be read as a sealed value, or is too large to be sealed.
    #[error("cannot decrypt {place}: not a sealed value that this build can read: {reason}")]
    Malformed {
        /// The owner and path of the value.
        place: String,
        /// The fault of the value.
        reason: &'static str,
    },
    /// A value that must be sealed is plaintext.
    #[error("{place} is marked as sensitive but stored as plaintext, in a stack that is sealed")]
    Plain {
        /// The owner and path of the value.
        place: String,
    },
    /// An entry can't be sealed because it has no uid to which its values could be bound.
    #[error("cannot seal resource {entry}: it has no uid")]
    NoUid {
        /// The key of the entry, as users name the resource.
        entry: String,
    },
    /// A snapshot or document belongs to another stack.
    #[error("{object} belongs to lineage {found}, but the key is for lineage {expected}")]
    Lineage {
        /// The snapshot or document that was to be sealed or opened.
        object: String,
        /// The lineage of the key.
        expected: Lineage,
        /// The lineage in the snapshot or document.
        found: Lineage,
    },
    /// The tag of stored bytes doesn't match the key.
    #[error("{object} is not authentic: it was changed or replaced without the data key")]
    Forged {
        /// The name of the checked object.
        object: String,
    },
    /// An outputs document can't be read.
    #[error("cannot read the outputs document of lineage {lineage}: {reason}")]
    Document {
        /// The lineage of the document, or `(unknown)`.
        lineage: String,
        /// The fault of the document.
        reason: String,
    },
}

/// Formats the reason that no identity is a recipient, with the number of identities.
fn no_recipient_among(identities: usize) -> String {
    match identities {
        0 => "no identity was given".to_owned(),
        1 => "the given identity is not a recipient".to_owned(),
        many => format!("none of the {many} given identities is a recipient"),
    }
}

impl Error {
    /// A suggested remedy, as a sentence without a full stop.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Recipient { .. } => {
                "a recipient begins with age1 or ssh-; `age-keygen -y FILE` prints the recipient of an identity"
            }
            Self::Identity { .. } | Self::NoIdentity { .. } => {
                "restore the file from a backup; `age-keygen -o FILE` creates a new identity"
            }
            Self::NoRecipient => "give at least one recipient, better two",
            Self::EmptyPassphrase | Self::ShortPassphrase => "use a passphrase of several random words",
            Self::WorkFactorRange { .. } => "omit the work factor to use the default",
            Self::Wrapping { .. } => "check the recipients, and that the age plugins they need are installed",
            Self::UnknownKey { .. } => "restore the folder of this data key in the store from a backup",
            Self::WrongIdentity { .. } => {
                "use an identity or passphrase of a recipient, or ask a recipient to run `statectl recipients add age1…`"
            }
            Self::Plugin { .. } => {
                "install the plugin, connect its hardware key and enter the right PIN, or use another identity"
            }
            Self::UntrustedPlugin { .. } => {
                "if you trust the plugin, add one of its identities to your identity file, or set STATECTL_AGE_PLUGINS to its name"
            }
            Self::WorkFactor { .. } => "raise the limit if you trust the file, or use another identity",
            Self::TotalWork { .. } => {
                "someone may have added passphrase files to the store: use an identity file, or compare the key files with a backup"
            }
            Self::SealedUnder { .. } => "decrypt the value with the key that it names, then seal it again",
            Self::Plain { .. } => {
                "the plaintext was written after the stack was sealed: restore the value from a backup"
            }
            Self::NoUid { .. } => "record the resource first: recording assigns its uid",
            Self::Lineage { .. } => "use the data key of that stack",
            Self::OtherKey { .. }
            | Self::Wrapped { .. }
            | Self::NotAuthentic { .. }
            | Self::Malformed { .. }
            | Self::Forged { .. }
            | Self::Document { .. } => "the store was changed from outside: compare it with a backup",
        }
    }
}

/// Converts to the error type of state-core: `Invalid` for unusable input, `Sealed` for everything else.
impl From<Error> for state_core::Error {
    fn from(error: Error) -> Self {
        let reason = error.to_string();
        match error {
            Error::Recipient { .. }
            | Error::Identity { .. }
            | Error::NoIdentity { .. }
            | Error::EmptyPassphrase
            | Error::ShortPassphrase
            | Error::WorkFactorRange { .. } => Self::invalid("encryption", reason),
            _ => Self::sealed("encryption", reason),
        }
    }
}
