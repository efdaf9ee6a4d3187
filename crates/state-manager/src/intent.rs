//! What callers ask for: an update, a step.

use state_core::mutation::{Begin, Op};
use state_core::{
    DeposedKey, Entropy, Entry, EntryKey, MutationId, Result, State, Timestamp, Uid, UpdateKind,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What an update is for, as history tells.
#[derive(Clone, Debug)]
pub struct UpdateRequest {
    /// What it does.
    pub kind: UpdateKind,
    /// Why.
    pub message: String,
    /// What else is to be remembered: a commit, a CI run.
    pub environment: BTreeMap<String, String>,
    /// Rules are overridden on request.
    pub forced: bool,
}

impl UpdateRequest {
    /// An update without a message.
    pub const fn new(kind: UpdateKind) -> Self {
        Self {
            kind,
            message: String::new(),
            environment: BTreeMap::new(),
            forced: false,
        }
    }

    /// The same, with a message.
    #[must_use]
    pub fn with_message(self, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            ..self
        }
    }
}

/// A step that is about to touch the world.
#[derive(Clone, Debug)]
pub struct Intent {
    /// What is about to be done.
    pub op: Op,
    /// The entry that it is about.
    pub target: EntryKey,
    /// The entry as it is meant to be; none for deletions.
    pub entry: Option<Entry>,
    /// A create or import that takes the place of a live entry, which becomes deposed when it succeeds.
    pub replaces: bool,
    /// A deletion before a replacement: the entry stays, marked as pending replacement.
    pub tombstone: bool,
}

impl Intent {
    /// Make this.
    pub fn create(entry: Entry) -> Self {
        Self::with_entry(Op::Create, entry)
    }

    /// Change the entry with this key into this.
    pub fn update(entry: Entry) -> Self {
        Self::with_entry(Op::Update, entry)
    }

    /// Read this; it isn't ours.
    pub fn read(entry: Entry) -> Self {
        Self::with_entry(Op::Read, entry)
    }

    /// Take this over.
    pub fn import(entry: Entry) -> Self {
        Self::with_entry(Op::Import, entry)
    }

    /// Delete this.
    pub const fn delete(target: EntryKey) -> Self {
        Self {
            op: Op::Delete,
            target,
            entry: None,
            replaces: false,
            tombstone: false,
        }
    }

    /// Forget this without deleting it.
    pub const fn discard(target: EntryKey) -> Self {
        Self {
            op: Op::Discard,
            target,
            entry: None,
            replaces: false,
            tombstone: false,
        }
    }

    /// The same, in place of the live entry there: create before delete.
    #[must_use]
    pub fn replacing(self) -> Self {
        Self {
            replaces: true,
            ..self
        }
    }

    /// The same, leaving a tombstone: delete before create.
    #[must_use]
    pub fn leaving_tombstone(self) -> Self {
        Self {
            tombstone: true,
            ..self
        }
    }

    /// The record with which the step begins on a state, and the uid of its entry: that of the entry whose object it
    /// changes or reads, else the one that the entry comes with, else a new one.
    ///
    /// # Errors
    /// `Invalid` when eight hexadecimal digits are no deposed key, which they always are.
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

fn deposed_key(entropy: &dyn Entropy) -> Result<DeposedKey> {
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
