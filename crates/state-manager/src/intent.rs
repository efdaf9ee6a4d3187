//! Requests of callers: an update, and a step of an update.

use state_core::mutation::{Begin, Op};
use state_core::{
    DeposedKey, Entropy, Entry, EntryKey, MutationId, Result, State, Timestamp, Uid, UpdateKind,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The purpose of an update, as history shows it.
#[derive(Clone, Debug)]
pub struct UpdateRequest {
    /// The kind of the update.
    pub kind: UpdateKind,
    /// The name of the program that the update applies, to which the stack belongs from then on. Empty for a program
    /// without a name; none for an update that applies no program.
    pub program: Option<String>,
    /// The reason for the update, for people who read the history.
    pub message: String,
    /// Further context to record, such as a commit or a CI run.
    pub environment: BTreeMap<String, String>,
    /// Whether to skip the checks that a user may override, such as the check that refuses a rollback to a revision
    /// from before a move of resources between stacks.
    pub forced: bool,
}

impl UpdateRequest {
    /// An update request without a message.
    pub const fn new(kind: UpdateKind) -> Self {
        Self {
            kind,
            program: None,
            message: String::new(),
            environment: BTreeMap::new(),
            forced: false,
        }
    }

    /// The same request with a message.
    #[must_use]
    pub fn with_message(self, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            ..self
        }
    }
}

/// A step that is about to change a real resource.
#[derive(Clone, Debug)]
pub struct Intent {
    /// The operation that is about to be done.
    pub op: Op,
    /// The key of the resource.
    pub target: EntryKey,
    /// The planned resource; none for deletions.
    pub entry: Option<Entry>,
    /// Whether a create or import takes the place of a live resource. When the step succeeds, the old resource becomes
    /// deposed: it stays in the state under its address and a [`DeposedKey`] until it is deleted.
    pub replaces: bool,
    /// Whether a deletion precedes a replacement: the resource stays in the state, marked as pending replacement.
    pub tombstone: bool,
}

impl Intent {
    /// Creates this resource with its provider.
    pub fn create(entry: Entry) -> Self {
        Self::with_entry(Op::Create, entry)
    }

    /// Updates the resource with this key to the given content.
    pub fn update(entry: Entry) -> Self {
        Self::with_entry(Op::Update, entry)
    }

    /// Reads this resource, which is managed elsewhere.
    pub fn read(entry: Entry) -> Self {
        Self::with_entry(Op::Read, entry)
    }

    /// Imports this existing resource into the stack.
    pub fn import(entry: Entry) -> Self {
        Self::with_entry(Op::Import, entry)
    }

    /// Deletes the resource with this key.
    pub const fn delete(target: EntryKey) -> Self {
        Self {
            op: Op::Delete,
            target,
            entry: None,
            replaces: false,
            tombstone: false,
        }
    }

    /// Removes the resource with this key from the state without deleting the real one.
    pub const fn discard(target: EntryKey) -> Self {
        Self {
            op: Op::Discard,
            target,
            entry: None,
            replaces: false,
            tombstone: false,
        }
    }

    /// The same step in place of the live resource with this key: create before delete.
    #[must_use]
    pub fn replacing(self) -> Self {
        Self {
            replaces: true,
            ..self
        }
    }

    /// The same step with a tombstone: delete before create.
    #[must_use]
    pub fn leaving_tombstone(self) -> Self {
        Self {
            tombstone: true,
            ..self
        }
    }

    /// Returns the record with which the step begins, and the uid of its resource. An update or a read uses the uid in
    /// the state. Otherwise the entry keeps its own uid, or gets a new one if it has none.
    ///
    /// # Errors
    /// None in practice: eight hexadecimal digits always form a valid deposed key.
    pub fn begin(self, state: &State, entropy: &dyn Entropy, at: Option<Timestamp>) -> Result<(Begin, Uid)> {
        let known = match self.op {
            Op::Update | Op::Read => state.entry(&self.target).and_then(|old| old.uid),
            _ => None,
        };
        let uid = known
            .or_else(|| self.entry.as_ref()?.uid)
            .unwrap_or_else(|| Uid::random(entropy));
        let id = MutationId::random(entropy);
        let deposes = self.replaces.then(|| deposed_key(entropy)).transpose()?;
        let identified = |entry| {
            Arc::new(Entry {
                uid: Some(uid),
                ..entry
            })
        };
        let begin = Begin {
            id,
            op: self.op,
            target: self.target,
            entry: self.entry.map(identified),
            deposes,
            tombstone: self.tombstone,
            at,
        };
        Ok((begin, uid))
    }

    fn with_entry(op: Op, entry: Entry) -> Self {
        Self {
            op,
            target: entry.key(),
            entry: Some(entry),
            replaces: false,
            tombstone: false,
        }
    }
}

pub(crate) fn deposed_key(entropy: &dyn Entropy) -> Result<DeposedKey> {
    let mut bytes = [0; 4];
    entropy.fill(&mut bytes);
    Ok(DeposedKey::new(format!("{:08x}", u32::from_be_bytes(bytes)))?)
}

#[cfg(test)]
mod tests {
    use super::Intent;
    use state_core::testkit::clock::SeededEntropy;
    use state_core::{Entry, Lineage, State, Uid};

    #[test]
    fn begin_keeps_the_uid_of_an_entry_that_has_one() {
        let entropy = SeededEntropy::new(1);
        let state = State::new(Lineage::random(&entropy));
        let known = Uid::random(&entropy);
        let entry = Entry {
            uid: Some(known),
            ..Entry::leaf("a".parse().unwrap(), "thing")
        };
        for intent in [Intent::create(entry.clone()), Intent::import(entry.clone())] {
            let (begin, uid) = intent.begin(&state, &entropy, None).unwrap();
            assert_eq!(uid, known);
            assert_eq!(begin.entry.unwrap().uid, Some(known));
        }
        let unknown = Entry { uid: None, ..entry };
        let (begin, uid) = Intent::create(unknown).begin(&state, &entropy, None).unwrap();
        assert_eq!(begin.entry.unwrap().uid, Some(uid));
        assert_ne!(uid, known);
    }
}
