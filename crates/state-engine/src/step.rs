//! One step of a plan or a run, as it is displayed.

use state_core::diff::{self, Change, Property};
use state_core::sensitive::SecretStrings;
use state_core::{Entry, EntryKey, SharedEntry};
use std::fmt;

/// The operation of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum StepOp {
    /// No change: the object matches its goal.
    Same,
    /// Creates an object that doesn't exist yet.
    Create,
    /// Updates an object in place.
    Update,
    /// Deletes an object that is no longer desired.
    Delete,
    /// Creates the replacement of an object.
    CreateReplacement,
    /// Deletes an object that was or will be replaced.
    DeleteReplaced,
    /// Reads an object that the stack doesn't own.
    Read,
    /// Imports an existing object.
    Import,
    /// Imports an existing object as the replacement of another one.
    ImportReplacement,
    /// Reads an object and records its current properties, or removes the entry of a missing object.
    Refresh,
    /// Removes an entry from the state without deleting its object.
    Discard,
    /// Removes a tombstone (an entry whose object is deleted already), because no replacement is desired any more.
    RemovePendingReplace,
}

impl StepOp {
    /// Name of the operation in JSON.
    pub const fn name(self) -> &'static str {
        self.labels().0
    }

    /// Symbol of the operation in the tree view: `+`, `~`, `-`, `+-`, and others.
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

/// One step of a plan or a run. Its values may be secret; [`Step::changes`] marks the secret ones.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Step {
    /// The operation of the step.
    pub op: StepOp,
    /// Key of the step's entry.
    pub key: EntryKey,
    /// Kind of the resource.
    pub kind: String,
    /// The entry before the step. `None` for a new entry.
    pub old: Option<SharedEntry>,
    /// The entry after the step: the intended one until the step is committed, then the recorded one. `None` if the
    /// step removes the entry.
    pub new: Option<SharedEntry>,
    /// Reasons of the step. For a replacement: the inputs or other reasons that force it. For an update: the
    /// inputs whose values aren't known yet.
    pub why: Vec<String>,
    /// Top-level inputs whose values aren't known yet. Always empty outside of plans.
    pub unknown: Vec<String>,
    /// Secrets that the program embedded in longer input strings.
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

    /// Secrets of the entries and inputs of the step.
    pub(crate) fn secrets(&self) -> SecretStrings {
        let mut secrets = self.joined.clone();
        for entry in self.old.iter().chain(&self.new) {
            secrets.extend(SecretStrings::of_entry(entry));
        }
        secrets
    }

    /// The differences between the entry before and after the step, with pointers into the entry's JSON. Empty for a
    /// new or removed entry. [`Value::revealed`](state_core::diff::Value::revealed) returns a value even if it is
    /// secret; [`Value::masked`](state_core::diff::Value::masked) hides secrets.
    pub fn changes(&self) -> Vec<Change> {
        match (&self.old, &self.new) {
            (Some(old), Some(new)) => diff::entry_changes(old, new),
            _ => Vec::new(),
        }
    }

    /// All properties of the entry after the step, or before it if the step removes the entry.
    pub fn properties(&self) -> Vec<Property> {
        let of = self.new.as_deref().or(self.old.as_deref());
        of.map(diff::properties).unwrap_or_default()
    }

    /// Whether the step changes the real resource or the recorded entry.
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
