//! The steps that change a stack, and the effect of each record in the journal.
//!
//! A *tombstone* is the entry of a resource that was deleted and whose replacement is not created yet; it is marked as
//! `pending-replacement`. *Reasons* are the provider's error messages, stored in
//! [`Entry::init_errors`](crate::Entry::init_errors).
//!
//! | op | begin | success | partial | failure |
//! |---|---|---|---|---|
//! | same | – | the new entry replaces the old one | – | – |
//! | create | pending | the entry is added; a tombstone at its address is removed; a live entry becomes deposed if the step replaces it | the entry is added with reasons | – |
//! | update | pending | the new entry replaces the old one | the new entry is recorded with the old inputs and with reasons | – |
//! | delete, discard | pending; a delete is refused for a protected live entry | the entry is removed, or stays as a tombstone in a delete-before-replace | the entry stays, with reasons | – |
//! | read | pending | the new entry replaces the old one, if there is one | the new entry is recorded with reasons | – |
//! | import | pending | as create | as create | – |
//! | replace | – | no change: a marker | – | – |
//! | refresh | – | the entry is updated in place, or removed and references to it are pruned | – | – |
//! | remove-pending-replace | – | the tombstone is removed | – | – |
//! | outputs | – | the entry's outputs are updated in place | – | – |
//!
//! `success` and `partial` also remove the pending operation, unless the result violates an integrity rule: then the
//! pending operation stays and stores the result, and nothing else changes. A failure only removes the pending
//! operation.

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
        /// The resource was compared with the program and needs no change.
        Same = "same",
        /// The resource is created.
        Create = "create",
        /// The resource is changed in place.
        Update = "update",
        /// The resource is deleted.
        Delete = "delete",
        /// Marks that a create and a delete replace one resource.
        Replace = "replace",
        /// An external resource is read and not managed.
        Read = "read",
        /// The entry is compared with the real resource.
        Refresh = "refresh",
        /// An existing resource is adopted.
        Import = "import",
        /// The entry is removed without deleting the resource.
        Discard = "discard",
        /// A tombstone that is no longer needed is removed.
        RemovePendingReplace = "remove-pending-replace",
        /// The program registers outputs of an entry after the entry's step.
        Outputs = "outputs",
    }
}

impl Op {
    /// Whether the step may change or read a real resource, so that its intent must be recorded first.
    pub const fn has_begin(self) -> bool {
        matches!(
            self,
            Self::Create | Self::Update | Self::Delete | Self::Read | Self::Import | Self::Discard
        )
    }
}

/// The outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The resource is as requested.
    Succeeded,
    /// The resource exists, but not as requested.
    Partial,
    /// The resource was not changed.
    Failed,
}

/// Record of intent: written before a provider is called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Begin {
    /// Id of the mutation.
    pub id: MutationId,
    /// Step that is about to run; must satisfy [`Op::has_begin`].
    pub op: Op,
    /// Key of the entry that the step changes.
    pub target: EntryKey,
    /// The requested entry; `None` for `delete` and `discard`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<SharedEntry>,
    /// For a `create` or `import` that replaces an object: the deposed key that the live entry at the target gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deposes: Option<DeposedKey>,
    /// For a `delete` or `discard` before a replacement: whether the entry is kept and marked as pending replacement.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tombstone: bool,
    /// Time at which the step began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// Record of the result that a provider returned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct End {
    /// Id of the mutation that ends.
    pub id: MutationId,
    /// Whether the step succeeded, succeeded partially or failed.
    pub outcome: Outcome,
    /// The entry as the provider returned it; `None` for `delete` and `discard`, and for failures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<SharedEntry>,
    /// Reasons of a partial outcome.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
}

/// Record of a step that calls no provider and needs no intent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Step {
    /// Id of the mutation.
    pub id: MutationId,
    /// Change that the step makes.
    pub change: StepChange,
}

/// The change of a [`Step`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum StepChange {
    /// The entry needs no change. It is moved behind the entries that this update has recorded before.
    Same(SharedEntry),
    /// A create and a delete replace the resource of this entry.
    Replace(EntryKey),
    /// The entry is updated from the real resource, or removed if the resource no longer exists.
    Refresh {
        /// Key of the entry that was refreshed.
        target: EntryKey,
        /// The refreshed entry; `None` if the resource no longer exists.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        entry: Option<SharedEntry>,
    },
    /// The tombstone with this key is removed.
    RemovePendingReplace(EntryKey),
    /// Outputs of an entry, registered after its step.
    Outputs {
        /// Key of the entry.
        target: EntryKey,
        /// All outputs of the entry.
        outputs: Properties,
        /// Names of the secret outputs.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        sensitive: Vec<String>,
    },
}

impl StepChange {
    /// The kind of the step.
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
    /// Values of the outputs by name.
    pub values: BTreeMap<String, Json>,
    /// Secret outputs: names, or JSON pointers into the map.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sensitive: Vec<String>,
}

/// Record of a manual edit: all of its changes apply, or none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Edit {
    /// Id of the mutation.
    pub id: MutationId,
    /// The changes, in order.
    pub changes: Vec<EditChange>,
}

/// One change of an [`Edit`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum EditChange {
    /// Removes the entry with this key.
    Remove(EntryKey),
    /// Replaces an entry in place; its key may change.
    Put {
        /// Current key of the entry.
        target: EntryKey,
        /// Entry that replaces the current one.
        entry: SharedEntry,
    },
    /// Appends a new entry to the end of the list.
    Append(SharedEntry),
}

/// Record of the manual resolution of a pending operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Resolve {
    /// Id of the pending mutation.
    pub id: MutationId,
    /// The actual outcome of the mutation.
    pub resolution: Resolution,
}

/// The actual outcome of a pending operation, as a person determined it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Resolution {
    /// The resource was not changed: the pending operation is removed.
    NotDone,
    /// The step took effect, and this entry describes the resource (`None` for deletions). The entry gets the position
    /// of the entry that it replaces, or is appended to the list. Unlike the result of a step, it doesn't become one of
    /// the entries that the open update has recorded, because its dependencies may not be among them.
    Done(#[serde(default, skip_serializing_if = "Option::is_none")] Option<SharedEntry>),
}
