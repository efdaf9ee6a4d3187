//! What can go wrong with a state, and what the caller should do about it.

use crate::counter::Epoch;
use crate::id::MutationId;
use crate::ids::ParseIdError;
use crate::json::JsonError;
use crate::model::lock::Holder;
use std::fmt;

mod violation;

pub use violation::{Rule, Violation};

/// The result of everything that can fail here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A lower-level cause.
pub type Source = Box<dyn std::error::Error + Send + Sync>;

/// One error for the whole layer: few variants, each with the object that it is about.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The object isn't there.
    #[error("{object} does not exist")]
    NotFound {
        /// What was looked for.
        object: String,
    },
    /// The bucket or container in which the store should be isn't there. No store makes one: somebody has to.
    #[error("the bucket or container {object} does not exist")]
    NoContainer {
        /// Which, as its URL begins.
        object: String,
    },
    /// The object was there, and history collection dropped it.
    #[error("{object} was collected: history begins at {begins}")]
    Collected {
        /// What was looked for.
        object: String,
        /// Where history begins now.
        begins: String,
    },
    /// The stack has no current revision: nothing was committed yet (seed 003's `ErrNoCurrent`).
    #[error("{object} has no current revision: nothing was committed yet")]
    NoCurrent {
        /// The stack.
        object: String,
    },
    /// Another writer holds the stack. Nothing was written.
    #[error("{object} is locked by {holder}")]
    Locked {
        /// The stack, or the lock file.
        object: String,
        /// Who holds it, as far as it is known.
        holder: Box<Holder>,
    },
    /// Somebody else changed the object first, or it isn't in the state that the call requires. Nothing was
    /// written.
    #[error("{object}: {reason}")]
    Conflict {
        /// What was to be changed.
        object: String,
        /// What doesn't fit.
        reason: String,
    },
    /// Another holder took over. What was not acknowledged before isn't visible, unless the new holder says so.
    #[error("{object}: epoch {mine} was fenced by epoch {theirs}: another holder took over")]
    Fenced {
        /// The stack.
        object: String,
        /// The epoch of the writer that failed.
        mine: Epoch,
        /// The epoch that took over.
        theirs: Epoch,
        /// Whether bytes were written before the fence was seen: then the outcome is for
        /// `lookup` to say.
        indeterminate: bool,
    },
    /// The write certainly had no effect.
    #[error("{object} was not written")]
    NotApplied {
        /// What was to be written.
        object: String,
        /// Why.
        source: Source,
    },
    /// Nobody can say whether the write had an effect. Look the ids up later.
    #[error("{object}: the outcome of {} mutation(s) is not known; look them up once the store answers", mutations.len())]
    Indeterminate {
        /// What was to be written.
        object: String,
        /// The mutations in question.
        mutations: Vec<MutationId>,
        /// Why.
        source: Source,
    },
    /// Stored bytes are not what was written.
    #[error("{object} is corrupt at byte {offset}: {reason}")]
    Corrupt {
        /// The damaged object.
        object: String,
        /// Where in it, in bytes.
        offset: u64,
        /// What is wrong there.
        reason: String,
    },
    /// A document isn't what it should be.
    #[error("{object}: {source}")]
    Malformed {
        /// The document.
        object: String,
        /// What is wrong, with line, column and path.
        source: JsonError,
    },
    /// An argument breaks a rule.
    #[error("{object}: {reason}")]
    Invalid {
        /// What is wrong.
        object: String,
        /// Which rule it breaks.
        reason: String,
    },
    /// A snapshot or a mutation breaks integrity; every violation is listed.
    #[error("{object} breaks {} integrity rule(s): {}", violations.len(), Listed(violations))]
    Integrity {
        /// The snapshot or mutation.
        object: String,
        /// All of them.
        violations: Vec<Violation>,
    },
    /// A format version that this build doesn't speak.
    #[error("{object} has format version {found}; this build reads version {supported}")]
    Format {
        /// The document or store.
        object: String,
        /// The version that it says it has.
        found: u64,
        /// The version that this build reads and writes.
        supported: u64,
    },
    /// The store, or this build, lacks something.
    #[error("{object}: {missing} is not available")]
    Unsupported {
        /// What was asked.
        object: String,
        /// What is missing: a capability of the store, or a feature of this build.
        missing: String,
    },
    /// There is no key for it, the key doesn't fit, or it isn't authentic. Never plaintext, never empty.
    #[error("{object}: {reason}")]
    Sealed {
        /// What is sealed.
        object: String,
        /// Why it doesn't open, or can't be sealed. Tells no value.
        reason: String,
    },
    /// The store isn't what this client saw before: another key, another stack, or an older state. Nothing of it is
    /// taken for true.
    #[error("{object}: {reason}")]
    Distrusted {
        /// The stack.
        object: String,
        /// What changed that nobody who has its key vouched for.
        reason: String,
    },
    /// The store refuses us.
    #[error("{object}: access denied")]
    Denied {
        /// What was touched.
        object: String,
        /// What the store said.
        source: Source,
    },
    /// The store doesn't answer, or a read failed.
    #[error("{object} can't be reached")]
    Unavailable {
        /// What was touched.
        object: String,
        /// What the store said.
        source: Source,
    },
    /// The handle was closed, or poisoned by an earlier failure. Open it again.
    #[error("{object} is closed: {reason}")]
    Closed {
        /// The stack.
        object: String,
        /// Why.
        reason: String,
    },
}

/// What the caller should do about an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Name something that exists.
    NotFound,
    /// Commit something first.
    NoCurrent,
    /// Wait for the holder, or break the lock.
    Locked,
    /// Read again, then decide anew.
    Conflict,
    /// Stop: another holder owns the stack. Open again to go on.
    Fenced,
    /// Mend the cause and repeat: nothing happened.
    NotApplied,
    /// Look the mutations up before repeating anything.
    Indeterminate,
    /// Stop and restore: the store is damaged.
    Corrupt,
    /// Mend the argument or the document.
    Invalid,
    /// Mend the state: `repair`, or `--force` where it is offered.
    Integrity,
    /// Use a build of the other version.
    Format,
    /// Use another store, or build with the feature that is named.
    Unsupported,
    /// Give the identity or key that it needs; if it did fit once, somebody tampered with the store.
    Sealed,
    /// Find out from those who work with the stack what happened; then say that what is there now is right.
    Distrusted,
    /// Get access.
    Denied,
    /// Try later.
    Unavailable,
    /// Open again.
    Closed,
}

impl Error {
    /// What to do about it.
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::NotFound { .. } | Self::NoContainer { .. } | Self::Collected { .. } => ErrorKind::NotFound,
            Self::NoCurrent { .. } => ErrorKind::NoCurrent,
            Self::Locked { .. } => ErrorKind::Locked,
            Self::Conflict { .. } => ErrorKind::Conflict,
            Self::Fenced { .. } => ErrorKind::Fenced,
            Self::NotApplied { .. } => ErrorKind::NotApplied,
            Self::Indeterminate { .. } => ErrorKind::Indeterminate,
            Self::Corrupt { .. } => ErrorKind::Corrupt,
            Self::Malformed { .. } | Self::Invalid { .. } => ErrorKind::Invalid,
            Self::Integrity { .. } => ErrorKind::Integrity,
            Self::Format { .. } => ErrorKind::Format,
            Self::Unsupported { .. } => ErrorKind::Unsupported,
            Self::Sealed { .. } => ErrorKind::Sealed,
            Self::Distrusted { .. } => ErrorKind::Distrusted,
            Self::Denied { .. } => ErrorKind::Denied,
            Self::Unavailable { .. } => ErrorKind::Unavailable,
            Self::Closed { .. } => ErrorKind::Closed,
        }
    }

    /// The object that it is about.
    pub fn object(&self) -> &str {
        match self {
            Self::NotFound { object }
            | Self::NoContainer { object }
            | Self::Collected { object, .. }
            | Self::NoCurrent { object }
            | Self::Locked { object, .. }
            | Self::Conflict { object, .. }
            | Self::Fenced { object, .. }
            | Self::NotApplied { object, .. }
            | Self::Indeterminate { object, .. }
            | Self::Corrupt { object, .. }
            | Self::Malformed { object, .. }
            | Self::Invalid { object, .. }
            | Self::Integrity { object, .. }
            | Self::Format { object, .. }
            | Self::Unsupported { object, .. }
            | Self::Sealed { object, .. }
            | Self::Distrusted { object, .. }
            | Self::Denied { object, .. }
            | Self::Unavailable { object, .. }
            | Self::Closed { object, .. } => object,
        }
    }

    /// An [`Error::NotFound`].
    pub fn not_found(object: impl Into<String>) -> Self {
        Self::NotFound {
            object: object.into(),
        }
    }

    /// An [`Error::Collected`]: `begins` is a slot or a serial with its noun.
    pub fn collected(object: impl Into<String>, begins: impl fmt::Display) -> Self {
        Self::Collected {
            object: object.into(),
            begins: begins.to_string(),
        }
    }

    /// An [`Error::Invalid`].
    pub fn invalid(object: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Invalid {
            object: object.into(),
            reason: reason.into(),
        }
    }

    /// An [`Error::Conflict`].
    pub fn conflict(object: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Conflict {
            object: object.into(),
            reason: reason.into(),
        }
    }

    /// [`Error::Unsupported`].
    pub fn unsupported(object: impl Into<String>, missing: impl Into<String>) -> Self {
        Self::Unsupported {
            object: object.into(),
            missing: missing.into(),
        }
    }

    /// [`Error::Format`].
    pub fn format(object: impl Into<String>, found: u64, supported: u64) -> Self {
        Self::Format {
            object: object.into(),
            found,
            supported,
        }
    }

    /// [`Error::Locked`].
    pub fn locked(object: impl Into<String>, holder: Holder) -> Self {
        Self::Locked {
            object: object.into(),
            holder: Box::new(holder),
        }
    }

    /// [`Error::NotApplied`].
    pub fn not_applied(object: impl Into<String>, source: impl Into<Source>) -> Self {
        Self::NotApplied {
            object: object.into(),
            source: source.into(),
        }
    }

    /// [`Error::Indeterminate`], about no mutation in particular.
    pub fn indeterminate(object: impl Into<String>, source: impl Into<Source>) -> Self {
        Self::Indeterminate {
            object: object.into(),
            mutations: Vec::new(),
            source: source.into(),
        }
    }

    /// [`Error::Unavailable`].
    pub fn unavailable(object: impl Into<String>, source: impl Into<Source>) -> Self {
        Self::Unavailable {
            object: object.into(),
            source: source.into(),
        }
    }

    /// An [`Error::Sealed`].
    pub fn sealed(object: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Sealed {
            object: object.into(),
            reason: reason.into(),
        }
    }

    /// An [`Error::Closed`].
    pub fn closed(object: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Closed {
            object: object.into(),
            reason: reason.into(),
        }
    }

    /// An [`Error::Integrity`].
    pub fn integrity(object: impl Into<String>, violations: Vec<Violation>) -> Self {
        Self::Integrity {
            object: object.into(),
            violations,
        }
    }

    /// An [`Error::Distrusted`].
    pub fn distrusted(object: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Distrusted {
            object: object.into(),
            reason: reason.into(),
        }
    }

    /// An [`Error::Corrupt`].
    pub fn corrupt(object: impl Into<String>, offset: u64, reason: impl Into<String>) -> Self {
        Self::Corrupt {
            object: object.into(),
            offset,
            reason: reason.into(),
        }
    }
}

struct Listed<'a>(&'a [Violation]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, violation) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            violation.fmt(f)?;
        }
        Ok(())
    }
}

impl From<ParseIdError> for Error {
    fn from(error: ParseIdError) -> Self {
        Self::invalid(error.object, error.reason)
    }
}
