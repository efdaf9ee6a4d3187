//! What can happen to a stack, one step at a time (seed 004).
//!
//! | op | begin | success | partial | failure |
//! |---|---|---|---|---|
//! | same | – | old goes, new is recorded | – | – |
//! | create | pending | new is recorded; a tombstone of its address goes; a live entry becomes deposed when the step replaces it | new is recorded with reasons | – |
//! | update | pending | old goes, new is recorded | new is recorded with the old inputs and reasons | – |
//! | delete, discard | pending; a delete is refused for a protected live entry | old goes, or stays as a tombstone in a delete-before-replace | old stays, with reasons | – |
//! | read | pending | old goes if there is one, new is recorded | new is recorded with reasons | – |
//! | import | pending | as create | as create | – |
//! | replace | – | nothing: a marker | – | – |
//! | refresh | – | the entry changes in its place, or goes and what referred to it is pruned | – | – |
//! | remove-pending-replace | – | the tombstone goes | – | – |
//! | outputs | – | the entry's outputs change in its place | – | – |
//!
//! In every cell of `success` and `partial` the pending operation goes, unless the result breaks a rule: then
//! it stays, with the result on it, and nothing else changes. A failure drops the pending operation only.

use crate::address::{DeposedKey, EntryKey};
use crate::entry::SharedEntry;
use crate::environment::Timestamp;
use crate::id::MutationId;
use crate::json::{Json, Properties};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

named! {
    /// The kinds of steps.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    #[non_exhaustive]
    pub enum Op {
        /// Looked at, not changed.
        Same = "same",
        /// Made.
        Create = "create",
        /// Changed.
        Update = "update",
        /// Deleted.
        Delete = "delete",
        /// Marks that a create and a delete belong together.
        Replace = "replace",
        /// Read from the world; not ours.
        Read = "read",
        /// Compared with the world.
        Refresh = "refresh",
        /// Taken over from the world.
        Import = "import",
        /// Forgotten without being deleted.
        Discard = "discard",
        /// A tombstone that isn't needed any more goes.
        RemovePendingReplace = "remove-pending-replace",
        /// Outputs registered after the step.
        Outputs = "outputs",
    }
}

impl Op {
    /// Whether it touches the world, so that its intent is recorded first.
    pub const fn has_begin(self) -> bool {
        matches!(
            self,
            Self::Create | Self::Update | Self::Delete | Self::Read | Self::Import | Self::Discard
        )
    }
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The world is as it was meant to be.
    Succeeded,
    /// The object is there, but not as it was meant to be.
    Partial,
    /// The world didn't change.
    Failed,
}

/// Intent: what is about to be done to the world.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Begin {
    /// Names the mutation.
    pub id: MutationId,
    /// What is about to be done; one with [`Op::has_begin`].
    pub op: Op,
    /// The entry that it is about.
    pub target: EntryKey,
    /// The entry as it is meant to be; none for `delete` and `discard`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<SharedEntry>,
    /// For a `create` or `import` that replaces: the key that the live entry at the target gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deposes: Option<DeposedKey>,
    /// For a `delete` or `discard` before a replacement: the entry stays, marked as pending replacement.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tombstone: bool,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct End {
    /// The mutation that ends.
    pub id: MutationId,
    /// How.
    pub outcome: Outcome,
    /// The entry as it came back; none for `delete` and `discard`, and for failures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<SharedEntry>,
    /// Why it is only partial.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
}

/// A step that is one record: it doesn't touch the world.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Step {
    /// Names the mutation.
    pub id: MutationId,
    /// What happens.
    pub change: StepChange,
}

/// What a [`Step`] does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum StepChange {
    /// The entry was looked at: it takes its place among those that this update recorded.
    Same(SharedEntry),
    /// A create and a delete of this entry belong together.
    Replace(EntryKey),
    /// The entry as the world has it; none: it is gone.
    Refresh {
        /// The entry that was read.
        target: EntryKey,
        /// What came back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        entry: Option<SharedEntry>,
    },
    /// The tombstone goes.
    RemovePendingReplace(EntryKey),
    /// The entry's outputs, registered after its step.
    Outputs {
        /// The entry.
        target: EntryKey,
        /// All of its outputs.
        outputs: Properties,
        /// Which of them are secret.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        sensitive: Vec<String>,
    },
}

impl StepChange {
    /// The kind of step.
    pub const fn op(&self) -> Op {
        match self {
            Self::Same(_) => Op::Same,
            Self::Replace(_) => Op::Replace,
            Self::Refresh { .. } => Op::Refresh,
            Self::RemovePendingReplace(_) => Op::RemovePendingReplace,
            Self::Outputs { .. } => Op::Outputs,
        }
    }
}

/// The outputs of the stack itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct StackOutputs {
    /// The values.
    pub values: BTreeMap<String, Json>,
    /// Which of them are secret: names, or JSON pointers into the map.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sensitive: Vec<String>,
}

/// A change by hand: all of it, or nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Edit {
    /// Names the mutation.
    pub id: MutationId,
    /// What changes, in this order.
    pub changes: Vec<EditChange>,
}

/// One change of an [`Edit`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum EditChange {
    /// The entry goes.
    Remove(EntryKey),
    /// The entry changes in its place; its key may change too.
    Put {
        /// The entry as it is called now.
        target: EntryKey,
        /// What it becomes.
        entry: SharedEntry,
    },
    /// A new entry, at the end.
    Append(SharedEntry),
}

/// How a pending operation is settled by hand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Resolve {
    /// The mutation in question.
    pub id: MutationId,
    /// What is true of it.
    pub resolution: Resolution,
}

/// What turned out about a pending operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Resolution {
    /// The world didn't change: only the pending operation goes.
    NotDone,
    /// It was done; this is what is there now (none for deletions). Whoever says so by hand didn't record first
    /// what the entry depends on: it takes the place of the entry before it, or the last one.
    Done(#[serde(default, skip_serializing_if = "Option::is_none")] Option<SharedEntry>),
}
