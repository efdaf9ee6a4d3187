//! The error type of the state crates, and how a caller should react to each kind of error.

use crate::counter::Epoch;
use crate::id::MutationId;
use crate::ids::ParseIdError;
use crate::json::JsonError;
use crate::model::lock::Holder;
use std::fmt;

mod violation;

pub use violation::{Rule, Violation};

/// The result type of the fallible functions in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The lower-level error that caused an [`Error`].
pub type Source = Box<dyn std::error::Error + Send + Sync>;

/// The error type of the state crates. Each variant names the object that the error is about.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The object does not exist.
    #[error("{object} does not exist")]
    NotFound {
        /// The object that was requested.
        object: String,
    },
    /// The bucket or container of the store does not exist. Backends never create a bucket; an administrator must
    /// create it.
    #[error("the bucket or container {object} does not exist")]
    NoContainer {
        /// The bucket or container, as the store's URL names it.
        object: String,
    },
    /// The object existed, but history collection has deleted it.
    #[error("{object} was collected: history begins at {begins}")]
    Collected {
        /// The object that was requested.
        object: String,
        /// The slot or serial at which the remaining history begins.
        begins: String,
    },
    /// The stack has no current revision because nothing has been committed yet.
    #[error("{object} has no current revision: nothing has been committed yet")]
    NoCurrent {
        /// The stack without a revision.
        object: String,
    },
    /// Another writer holds the stack's lock. Nothing was written.
    #[error("{object} is locked by {holder}")]
    Locked {
        /// The locked stack, or the lock file.
        object: String,
        /// The lock holder, as far as the lock records it.
        holder: Box<Holder>,
    },
    /// Another writer changed the object first, or the object is not in the state that the call requires. Nothing was
    /// written.
    #[error("{object}: {reason}")]
    Conflict {
        /// The object that the call tried to change.
        object: String,
        /// Why the change conflicts with the object's current state.
        reason: String,
    },
    /// Another writer took over the stack. A write that was not acknowledged before the takeover is visible only if the
    /// new lock holder found it in the journal.
    #[error("{object}: epoch {mine} was fenced by epoch {theirs}: another holder took over")]
    Fenced {
        /// The stack that was taken over.
        object: String,
        /// The epoch of the writer that failed.
        mine: Epoch,
        /// The epoch that took over.
        theirs: Epoch,
        /// Whether the writer wrote bytes before it noticed the takeover. If so, only
        /// [`State::lookup`](crate::State::lookup) of the mutations can determine their outcome.
        indeterminate: bool,
    },
    /// The write had no effect.
    #[error("{object} was not written")]
    NotApplied {
        /// The object that the call wanted to write.
        object: String,
        /// The error that prevented the write.
        source: Source,
    },
    /// The outcome of the write is unknown. Look up the mutation ids once the store answers again.
    #[error("{object}: the outcome of {} is unknown; look it up once the store answers", writes(mutations.len()))]
    Indeterminate {
        /// The object that the call wanted to write.
        object: String,
        /// The mutations whose outcome is unknown.
        mutations: Vec<MutationId>,
        /// The error that interrupted the write.
        source: Source,
    },
    /// The stored bytes differ from what was written.
    #[error("{object} is corrupt at byte {offset}: {reason}")]
    Corrupt {
        /// The object that is damaged.
        object: String,
        /// Byte offset of the damage in the object.
        offset: u64,
        /// Description of the damage.
        reason: String,
    },
    /// A document is not valid JSON or does not match its schema.
    #[error("{object}: {source}")]
    Malformed {
        /// The document that was parsed.
        object: String,
        /// The parse error with line, column and path.
        source: JsonError,
    },
    /// An argument breaks a rule.
    #[error("{object}: {reason}")]
    Invalid {
        /// The argument that is invalid.
        object: String,
        /// The rule that the argument breaks.
        reason: String,
    },
    /// A snapshot or a mutation violates integrity rules; all violations are listed.
    #[error("{object} breaks {}: {}", counted(violations.len(), "integrity rule"), ViolationList(violations))]
    Integrity {
        /// The snapshot or mutation that was verified.
        object: String,
        /// All violations, in the order in which the verifier reports them.
        violations: Vec<Violation>,
    },
    /// This build does not support the format version of the object.
    #[error("{object} has format version {found}; this build reads version {supported}")]
    Format {
        /// The document or store.
        object: String,
        /// The version that the object declares.
        found: u64,
        /// The version that this build reads and writes.
        supported: u64,
    },
    /// The store or this build does not support the request.
    #[error("{object}: {missing} is not available")]
    Unsupported {
        /// The object that the request is about.
        object: String,
        /// The missing capability of the store, or the missing feature of this build.
        missing: String,
    },
    /// A value can't be sealed (encrypted) or opened (decrypted): the key is missing or wrong, or authentication
    /// failed. The call never falls back to plaintext or to an empty value.
    #[error("{object}: {reason}")]
    Sealed {
        /// The object that is sealed.
        object: String,
        /// Why the object can't be opened or sealed. Never contains a secret value.
        reason: String,
    },
    /// The store contradicts this client's pin: the data key, lineage and latest revision that the client recorded for
    /// the stack earlier. The store now has another data key, another stack, or an older state. Its content is
    /// rejected.
    #[error("{object}: {reason}")]
    Distrusted {
        /// The stack whose content is rejected.
        object: String,
        /// How the store differs from the pin. No holder of the pinned data key has signed this difference.
        reason: String,
    },
    /// The store denied access.
    #[error("{object}: access denied")]
    Denied {
        /// The object that the request was for.
        object: String,
        /// The error that the store returned.
        source: Source,
    },
    /// The store does not answer, or a read failed.
    #[error("{object} can't be reached")]
    Unavailable {
        /// The object that the request was for.
        object: String,
        /// The error that the store returned.
        source: Source,
    },
    /// The handle was closed, or invalidated by an earlier failure. Open the stack again.
    #[error("{object} is closed: {reason}")]
    Closed {
        /// The stack whose handle is closed.
        object: String,
        /// Why the handle is closed.
        reason: String,
    },
}

/// How the caller should react to an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Name an object that exists.
    NotFound,
    /// Commit a first revision.
    NoCurrent,
    /// Wait for the lock holder, or break the lock.
    Locked,
    /// Read the object again and retry on the new state.
    Conflict,
    /// Stop, because another writer has taken over the stack. Open the stack again to continue.
    Fenced,
    /// Fix the cause and retry: the call had no effect.
    NotApplied,
    /// Look up the outcome of the mutations before retrying.
    Indeterminate,
    /// Stop and restore from a backup: the store is damaged.
    Corrupt,
    /// Correct the argument or the document.
    Invalid,
    /// Repair the state with `repair`, or pass `--force` where the command offers it.
    Integrity,
    /// Use a build that supports the format version.
    Format,
    /// Use another store, or a build with the named feature.
    Unsupported,
    /// Provide the identity or key that decrypts the object. If the same key worked before, the store may have been
    /// tampered with.
    Sealed,
    /// Ask the other users of the stack why the store changed, then accept the new content explicitly.
    Distrusted,
    /// Request access to the store.
    Denied,
    /// Retry the call later.
    Unavailable,
    /// Open the stack again.
    Closed,
}

impl Error {
    /// Returns how the caller should react to this error.
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

    /// The object that the error is about.
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

    /// Returns an [`Error::NotFound`] for the object.
    pub fn not_found(object: impl Into<String>) -> Self {
        Self::NotFound {
            object: object.into(),
        }
    }

    /// Returns an [`Error::Collected`]; `begins` is a slot or a serial with its noun, such as `serial 7`.
    pub fn collected(object: impl Into<String>, begins: impl fmt::Display) -> Self {
        Self::Collected {
            object: object.into(),
            begins: begins.to_string(),
        }
    }

    /// Returns an [`Error::Invalid`] for the object.
    pub fn invalid(object: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Invalid {
            object: object.into(),
            reason: reason.into(),
        }
    }

    /// Returns an [`Error::Conflict`] for the object.
    pub fn conflict(object: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Conflict {
            object: object.into(),
            reason: reason.into(),
        }
    }

    /// Returns an [`Error::Unsupported`] for the object.
    pub fn unsupported(object: impl Into<String>, missing: impl Into<String>) -> Self {
        Self::Unsupported {
            object: object.into(),
            missing: missing.into(),
        }
    }

    /// Returns an [`Error::Format`] for a document with format version `found`.
    pub fn format(object: impl Into<String>, found: u64, supported: u64) -> Self {
        Self::Format {
            object: object.into(),
            found,
            supported,
        }
    }

    /// Returns an [`Error::Locked`] that names the lock holder.
    pub fn locked(object: impl Into<String>, holder: Holder) -> Self {
        Self::Locked {
            object: object.into(),
            holder: Box::new(holder),
        }
    }

    /// Returns an [`Error::NotApplied`] with its cause.
    pub fn not_applied(object: impl Into<String>, source: impl Into<Source>) -> Self {
        Self::NotApplied {
            object: object.into(),
            source: source.into(),
        }
    }

    /// Returns an [`Error::Indeterminate`] that lists no mutations.
    pub fn indeterminate(object: impl Into<String>, source: impl Into<Source>) -> Self {
        Self::Indeterminate {
            object: object.into(),
            mutations: Vec::new(),
            source: source.into(),
        }
    }

    /// Returns an [`Error::Unavailable`] with its cause.
    pub fn unavailable(object: impl Into<String>, source: impl Into<Source>) -> Self {
        Self::Unavailable {
            object: object.into(),
            source: source.into(),
        }
    }

    /// Returns an [`Error::Sealed`] for the object.
    pub fn sealed(object: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Sealed {
            object: object.into(),
            reason: reason.into(),
        }
    }

    /// Returns an [`Error::Closed`] for the object.
    pub fn closed(object: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Closed {
            object: object.into(),
            reason: reason.into(),
        }
    }

    /// Returns an [`Error::Integrity`] that lists these violations.
    pub fn integrity(object: impl Into<String>, violations: Vec<Violation>) -> Self {
        Self::Integrity {
            object: object.into(),
            violations,
        }
    }

    /// Returns an [`Error::Distrusted`] for the stack.
    pub fn distrusted(object: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Distrusted {
            object: object.into(),
            reason: reason.into(),
        }
    }

    /// Returns an [`Error::Corrupt`] with the byte offset of the damage.
    pub fn corrupt(object: impl Into<String>, offset: u64, reason: impl Into<String>) -> Self {
        Self::Corrupt {
            object: object.into(),
            offset,
            reason: reason.into(),
        }
    }
}

/// Formats a number with its noun, in the plural where needed: `1 mutation`, `2 mutations`.
fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Names the writes of an error that concerns this many mutations. A head or a lock concerns none.
fn writes(mutations: usize) -> String {
    match mutations {
        0 => "the write".to_owned(),
        count => counted(count, "mutation"),
    }
}

struct ViolationList<'a>(&'a [Violation]);

impl fmt::Display for ViolationList<'_> {
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

#[cfg(test)]
mod tests {
    use super::{Error, MutationId};

    #[test]
    fn unknown_outcome_counts_only_real_mutations() {
        let text = |mutations| {
            let error = Error::Indeterminate {
                object: "head.json".to_owned(),
                mutations,
                source: "the store didn't answer".into(),
            };
            error.to_string()
        };
        let one = MutationId::from_bits([1; 16]);
        assert!(text(vec![]).starts_with("head.json: the outcome of the write is unknown"));
        assert!(text(vec![one]).starts_with("head.json: the outcome of 1 mutation is unknown"));
        assert!(text(vec![one, one]).starts_with("head.json: the outcome of 2 mutations is unknown"));
    }
}
