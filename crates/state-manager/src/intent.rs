//! What callers ask for: an update, a step.

use state_core::mutation::Op;
use state_core::{Entry, EntryKey, UpdateKind};
use std::collections::BTreeMap;

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
