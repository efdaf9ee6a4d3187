//! What can go wrong with keys and sealed values. No error tells a value, a key or a line of a key file.

use state_core::{KeyId, Lineage};

/// The result of everything that can fail here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// One error for the whole crate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A line of recipients isn't one.
    #[error("recipients, line {line}: {reason}")]
    Recipient {
        /// The line, from 1.
        line: usize,
        /// What is wrong, and what is expected.
        reason: String,
    },
    /// A line of an identity file isn't an identity.
    #[error("{origin}, line {line}: {reason}")]
    Identity {
        /// Where the identities came from: a file's name, say.
        origin: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong, and what is expected.
        reason: String,
    },
    /// An identity file without identities.
    #[error("{origin} holds no identity: a line that begins with AGE-SECRET-KEY-1 is expected")]
    NoIdentity {
        /// The file.
        origin: String,
    },
    /// Nobody to wrap a key to.
    #[error("there is no recipient: a key that nobody can unwrap would lose the state")]
    NoRecipient,
    /// A passphrase without characters.
    #[error("the passphrase is empty")]
    EmptyPassphrase,
    /// A passphrase's work factor that would be too weak or too slow.
    #[error("a passphrase's work factor of {asked} is out of range: 1 to {most}")]
    WorkFactorRange {
        /// What was asked for, as a power of two.
        asked: u8,
        /// The largest that is taken.
        most: u8,
    },
    /// age could not wrap the key.
    #[error("the data key was not wrapped: {reason}")]
    Wrapping {
        /// Why.
        reason: String,
    },
    /// There is no wrapped file for the key.
    #[error("data key {key} is unknown: there is no wrapped file of it")]
    UnknownKey {
        /// The key that is needed.
        key: KeyId,
    },
    /// No identity at hand opens the key.
    #[error("data key {key}: none of the {identities} identities at hand opens it")]
    WrongIdentity {
        /// The key that is needed.
        key: KeyId,
        /// How many were tried, passphrases included.
        identities: usize,
    },
    /// A wrapped file holds another key than the one that it is kept as.
    #[error("data key {expected}: its wrapped file holds another key, {found}")]
    OtherKey {
        /// The key that is needed.
        expected: KeyId,
        /// The key that is in it.
        found: KeyId,
    },
    /// A wrapped file is damaged, or holds no data key.
    #[error("data key {key}, wrapped file {file}: {reason}")]
    Wrapped {
        /// The key that is needed.
        key: KeyId,
        /// Which of its files, from 1.
        file: usize,
        /// What is wrong.
        reason: String,
    },
    /// A plugin could not open the key.
    #[error("data key {key}: {reason}")]
    Plugin {
        /// The key that is needed.
        key: KeyId,
        /// What the plugin says, or that it isn't there.
        reason: String,
    },
    /// Opening a passphrase's file would take too long.
    #[error(
        "data key {key}, wrapped file {file}: its passphrase work factor of {needed} is beyond the cap of {cap}"
    )]
    WorkFactor {
        /// The key that is needed.
        key: KeyId,
        /// Which of its files, from 1.
        file: usize,
        /// The work factor of the file, as a power of two.
        needed: u8,
        /// The most that is taken.
        cap: u8,
    },
    /// A value is sealed under another key than the one at hand.
    #[error("{place} is sealed under key {found}…, not under {ours}…")]
    SealedUnder {
        /// Where it stands.
        place: String,
        /// The first digits of the key that it names.
        found: String,
        /// The first digits of the key at hand.
        ours: String,
    },
    /// A sealed value doesn't open.
    #[error("{place}: the sealed value doesn't open: it was changed, or it comes from another place")]
    NotAuthentic {
        /// Where it stands.
        place: String,
    },
    /// What should be a sealed value has another form.
    #[error("{place}: not a sealed value that this build knows: {reason}")]
    Malformed {
        /// Where it stands.
        place: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// A value that must be sealed is plain.
    #[error("{place} is marked as sensitive and isn't sealed, but the stack is")]
    Plain {
        /// Where it stands.
        place: String,
    },
    /// An entry can't be sealed because nothing ties its values to it.
    #[error("{entry} has no uid: its values can't be sealed")]
    NoUid {
        /// The entry.
        entry: String,
    },
    /// A snapshot or document of another stack.
    #[error("{object} is of lineage {found}, the key is for lineage {expected}")]
    Lineage {
        /// What was to be sealed or opened.
        object: String,
        /// The lineage that the key is for.
        expected: Lineage,
        /// The lineage that it says.
        found: Lineage,
    },
    /// Stored bytes don't carry the tag that the key gives them.
    #[error("{object} isn't authentic: it was changed or replaced without the key")]
    Forged {
        /// What was checked.
        object: String,
    },
    /// A new key that the old one doesn't vouch for.
    #[error(
        "data key {new} isn't endorsed under {old}: somebody may have put a key of their own in its place"
    )]
    Unendorsed {
        /// The key that was known.
        old: KeyId,
        /// The key that took its place.
        new: KeyId,
    },
    /// A document of outputs that can't be read.
    #[error("the outputs document of lineage {lineage}: {reason}")]
    Document {
        /// The lineage, or what could be read of it.
        lineage: String,
        /// What is wrong.
        reason: String,
    },
}

impl Error {
    /// What may help, in a sentence without a full stop.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Recipient { .. } => {
                "a recipient begins with age1 or ssh-; `age-keygen -y FILE` shows that of an identity"
            }
            Self::Identity { .. } | Self::NoIdentity { .. } => {
                "restore the file from its backup; `age-keygen` makes a new one"
            }
            Self::NoRecipient => "name at least one recipient, better two",
            Self::EmptyPassphrase => "give a passphrase, several random words say",
            Self::WorkFactorRange { .. } => "leave it out for the default",
            Self::Wrapping { .. } => "check the recipients and the plugins that they need",
            Self::UnknownKey { .. } => "the store lacks the folder of this key: restore it from a backup",
            Self::WrongIdentity { .. } => {
                "give an identity or passphrase of one of the recipients, or ask one of them to add yours"
            }
            Self::Plugin { .. } => {
                "install the plugin, plug in its key, give its PIN; or use another identity"
            }
            Self::WorkFactor { .. } => "raise the cap if you trust the file, or use another identity",
            Self::SealedUnder { .. } => "open it with the key that it names, then seal it anew",
            Self::Plain { .. } => {
                "an open stack is turned into a sealed one as a whole; restore what was overwritten"
            }
            Self::NoUid { .. } => "record the entry first: it gets its uid then",
            Self::Lineage { .. } => "take the key of that stack",
            Self::Unendorsed { .. } => {
                "ask your team whether the key was rotated, and pin the new key only then"
            }
            Self::OtherKey { .. }
            | Self::Wrapped { .. }
            | Self::NotAuthentic { .. }
            | Self::Malformed { .. }
            | Self::Forged { .. }
            | Self::Document { .. } => "somebody or something changed the store: compare it with a backup",
        }
    }
}

/// As whoever speaks state-core's language sees it.
impl From<Error> for state_core::Error {
    fn from(error: Error) -> Self {
        let reason = error.to_string();
        match error {
            Error::Recipient { .. }
            | Error::Identity { .. }
            | Error::NoIdentity { .. }
            | Error::EmptyPassphrase
            | Error::WorkFactorRange { .. } => Self::invalid("encryption", reason),
            _ => Self::sealed("encryption", reason),
        }
    }
}
