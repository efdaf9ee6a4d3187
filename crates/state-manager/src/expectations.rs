//! The key and the revision that a caller expects of a stack. They serve callers that keep no
//! [`KnownStacks`](crate::KnownStacks) between runs, such as a CI job whose home folder is new for each run.

use state_core::{Error, KeyId, Result, RevisionId};

/// The data key and the revision that a caller expects of a stack, from a source other than the store. The default
/// accepts every stack.
///
/// An expected key excludes stacks that were created or forged without this key. An expected revision excludes earlier
/// states, and histories that don't contain that revision. Neither detects a rollback to a state at or after the
/// expected revision: only a client that [remembers](crate::KnownStacks) a later state detects it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Expectations {
    /// Data keys, one of which must seal the stack. An empty list accepts every key, and unsealed stacks.
    pub keys: Vec<KeyId>,
    /// The revision that must be current or an ancestor of the current one; none accepts every history.
    pub revision: Option<RevisionId>,
}

impl Expectations {
    /// Expects that a stack is sealed with one of these keys, and that its history contains this revision.
    pub const fn new(keys: Vec<KeyId>, revision: Option<RevisionId>) -> Self {
        Self { keys, revision }
    }

    /// Whether every stack meets the expectations, and stacks can be created.
    pub const fn is_default(&self) -> bool {
        self.keys.is_empty() && self.revision.is_none()
    }

    /// Checks the key with which a stack was authenticated. `authentic` is none if the stack wasn't authenticated;
    /// `named` is the key that its head names.
    ///
    /// # Errors
    /// `Distrusted` if keys are expected and `authentic` isn't one of them.
    pub(crate) fn require_key(
        &self,
        object: &str,
        authentic: Option<KeyId>,
        named: Option<KeyId>,
    ) -> Result<()> {
        if self.keys.is_empty() || authentic.is_some_and(|key| self.keys.contains(&key)) {
            return Ok(());
        }
        let expected: Vec<_> = self.keys.iter().map(KeyId::to_string).collect();
        let expected = expected.join(" or ");
        let reason = match (authentic, named) {
            (Some(key), _) => format!("it is sealed with key {key}, and key {expected} is expected"),
            (None, Some(key)) => format!(
                "key {expected} is expected, and no available identity opens its key {key} to verify who wrote it"
            ),
            (None, None) => format!("it isn't sealed, and key {expected} is expected"),
        };
        Err(Error::distrusted(object, reason))
    }

    /// Refuses to create a stack if the caller expects an existing one.
    ///
    /// # Errors
    /// `Distrusted` if a key is expected; `Conflict` if only a revision is expected.
    pub(crate) fn refuse_creation(&self, object: &str) -> Result<()> {
        self.refuse_missing(object, "the store has no such stack")
    }

    /// Refuses to create a store if the caller expects an existing stack in it.
    ///
    /// # Errors
    /// `Distrusted` if a key is expected; `Conflict` if only a revision is expected.
    pub fn refuse_new_store(&self, object: &str) -> Result<()> {
        self.refuse_missing(object, "the store doesn't exist")
    }

    fn refuse_missing(&self, object: &str, missing: &str) -> Result<()> {
        if let Some(key) = self.keys.first() {
            let reason = format!("{missing}, and a stack that is sealed with key {key} is expected");
            return Err(Error::distrusted(object, reason));
        }
        if let Some(revision) = &self.revision {
            let reason = format!("{missing}, and a stack with revision {revision} is expected");
            return Err(Error::conflict(object, reason));
        }
        Ok(())
    }
}
