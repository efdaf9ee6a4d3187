//! One step, as it is shown.

use state_core::diff::{self, Change, Property};
use state_core::sensitive::SecretStrings;
use state_core::{Entry, EntryKey, SharedEntry};
use std::fmt;

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum StepOp {
    /// Nothing: it is as it is meant to be.
    Same,
    /// Makes an object.
    Create,
    /// Changes it in its place.
    Update,
    /// Deletes it.
    Delete,
    /// Makes the object that takes another one's place.
    CreateReplacement,
    /// Deletes the one whose place was, or will be, taken.
    DeleteReplaced,
    /// Reads what isn't ours.
    Read,
    /// Takes over an object.
    Import,
    /// Takes over an object that takes another one's place.
    ImportReplacement,
    /// Compared with the world; recorded only.
    Refresh,
    /// Forgotten without being deleted.
    Discard,
    /// A tombstone goes whose replacement isn't wanted any more.
    RemovePendingReplace,
}

impl StepOp {
    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        self.labels().0
    }

    /// How a tree shows it: `+`, `~`, `-`, `+-`, and others.
    pub const fn sign(self) -> &'static str {
        self.labels().1
    }

    const fn labels(self) -> (&'static str, &'static str) {
        match self {
            Self::Same => ("same", " "),
            Self::Create => ("create", "+"),
            Self::Update => ("update", "~"),
            Self::Delete => ("delete", "-"),
            Self::CreateReplacement => ("create-replacement", "+-"),
            Self::DeleteReplaced => ("delete-replaced", "-+"),
            Self::Read => ("read", "<"),
            Self::Import => ("import", "="),
            Self::ImportReplacement => ("import-replacement", "+-"),
            Self::Refresh => ("refresh", "~"),
            Self::Discard => ("discard", "."),
            Self::RemovePendingReplace => ("remove-pending-replace", "."),
        }
    }
}

impl fmt::Display for StepOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One step, as it is shown. Values may be secret: [`Step::changes`] knows where.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Step {
    /// What it does.
    pub op: StepOp,
    /// The entry that it is about.
    pub key: EntryKey,
    /// Its type.
    pub kind: String,
    /// The entry before; none if there was none.
    pub old: Option<SharedEntry>,
    /// The entry after, as it is meant to be until the step is committed, then as it is; none if it goes.
    pub new: Option<SharedEntry>,
    /// What makes it a replacement: top-level inputs, or other reasons; of a change, inputs whose values nobody knows yet.
    pub why: Vec<String>,
    /// Top-level inputs whose values nobody knows yet: only in previews.
    pub unknown: Vec<String>,
    /// Secrets that the program joined to longer texts in the inputs.
    pub(crate) joined: SecretStrings,
}

impl Step {
    pub(crate) fn new(op: StepOp, of: &Entry, old: Option<SharedEntry>, new: Option<SharedEntry>) -> Self {
        Self {
            op,
            key: of.key(),
            kind: of.kind.clone().unwrap_or_default(),
            old,
            new,
            why: Vec::new(),
            unknown: Vec::new(),
            joined: SecretStrings::default(),
        }
    }

    /// What is secret in it.
    pub(crate) fn secrets(&self) -> SecretStrings {
        let mut secrets = self.joined.clone();
        for entry in self.old.iter().chain(&self.new) {
            secrets.extend(SecretStrings::of_entry(entry));
        }
        secrets
    }

    /// What differs, with pointers into the entry's JSON. A value shows itself only by
    /// [`Value::revealed`](state_core::diff::Value::revealed); `masked` hides what is secret.
    pub fn changes(&self) -> Vec<Change> {
        match (&self.old, &self.new) {
            (Some(old), Some(new)) => diff::entry_changes(old, new),
            _ => Vec::new(),
        }
    }

    /// What is there after it, or before it if it goes: every property.
    pub fn properties(&self) -> Vec<Property> {
        let of = self.new.as_deref().or(self.old.as_deref());
        of.map(diff::properties).unwrap_or_default()
    }

    /// Whether the world, or what is recorded of it, is different afterwards.
    pub fn is_change(&self) -> bool {
        match self.op {
            StepOp::Same | StepOp::Refresh | StepOp::Read => match (&self.old, &self.new) {
                (Some(old), Some(new)) => !new.is_unchanged_from(old),
                _ => true,
            },
            _ => true,
        }
    }
}
