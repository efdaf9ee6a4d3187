//! Demands on a stack by a caller without memory, such as a CI job whose home folder is new for each run.

use state_core::{Error, KeyId, Result, RevisionId};

/// What the stacks of a store must be, according to a caller who knows it from elsewhere. The default demands nothing.
///
/// A key excludes a stack that was made or forged without this key, and a revision excludes an earlier state and another
/// history up to that revision. Neither reveals that the store was taken back to a state at or after that revision: only
/// a client that [remembers](crate::KnownStacks) a later one can.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Expectations {
    /// Data keys, one of which must seal the stack; empty: any, or none.
    pub keys: Vec<KeyId>,
    /// The current revision must be this one, or made on top of it.
    pub revision: Option<RevisionId>,
}

impl Expectations {
    /// Demands that a stack is sealed with one of these keys, and that its history contains a revision.
    pub const fn new(keys: Vec<KeyId>, revision: Option<RevisionId>) -> Self {
        Self { keys, revision }
    }

    /// Checks the key with which a stack was authenticated; none if it wasn't.
    ///
    /// # Errors
    /// `Distrusted` if another key or none is expected.
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
                "key {expected} is expected, and no available identity opens its key {key}, so nothing shows who wrote it"
            ),
            (None, None) => format!("it isn't sealed, and key {expected} is expected"),
        };
        Err(Error::distrusted(object, reason))
    }

    /// Refuses to create a stack where one is expected.
    ///
    /// # Errors
    /// `Distrusted` or `Conflict`, as for a stack that doesn't meet the expectation.
    pub(crate) fn refuse_creation(&self, object: &str) -> Result<()> {
        if let Some(key) = self.keys.first() {
            let reason =
                format!("the store has no such stack, and one that is sealed with key {key} is expected");
            return Err(Error::distrusted(object, reason));
        }
        if let Some(revision) = &self.revision {
            let reason = format!("the store has no such stack, and one with revision {revision} is expected");
            return Err(Error::conflict(object, reason));
        }
        Ok(())
    }
}
