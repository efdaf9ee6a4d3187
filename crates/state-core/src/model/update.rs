//! Metadata of updates, the operations that create revisions.

use crate::environment::Timestamp;
use crate::id::UpdateId;
use crate::moves::StackMove;
use crate::mutation::Op;
use crate::revision::RevisionId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Metadata of one update, from its start to the revision that it creates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct UpdateInfo {
    /// Id of the update.
    pub id: UpdateId,
    /// Kind of the update.
    pub kind: UpdateKind,
    /// Name of the person or service that ran the update.
    #[serde(default)]
    pub who: String,
    /// Host name of the machine that ran the update.
    #[serde(default)]
    pub host: String,
    /// Version of the program that wrote this metadata.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Program that the update applied: see [`Snapshot::program`](crate::Snapshot::program).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Message that the user gave.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Time at which the update began.
    pub start: Timestamp,
    /// Time at which the update ended; `None` while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Timestamp>,
    /// Result of the update; `None` while the update is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<UpdateResult>,
    /// Number of steps that took effect, by kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<Op, u64>,
    /// Metadata that the caller attaches, such as a commit or a CI run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// Current revision when the update began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<RevisionId>,
    /// Revision that a rollback restored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored: Option<RevisionId>,
    /// Move of entries from or to another stack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved: Option<StackMove>,
    /// Whether the user overrode the rules that refuse risky changes, such as the import of a state with a lower
    /// serial.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forced: bool,
}

impl UpdateInfo {
    /// Creates the metadata of an update that begins now.
    pub fn new(id: UpdateId, kind: UpdateKind, start: Timestamp) -> Self {
        Self {
            id,
            kind,
            who: String::new(),
            host: String::new(),
            version: String::new(),
            program: None,
            message: String::new(),
            start,
            end: None,
            result: None,
            counts: BTreeMap::new(),
            environment: BTreeMap::new(),
            parent: None,
            restored: None,
            moved: None,
            forced: false,
        }
    }
}

named! {
    /// The kind of an update.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    #[non_exhaustive]
    pub enum UpdateKind {
        /// Created, updated and deleted resources to match a program.
        Update = "update",
        /// Updated the state from the real resources.
        Refresh = "refresh",
        /// Deleted all resources of the stack.
        Destroy = "destroy",
        /// Imported a state from another tool or file.
        Import = "import",
        /// Edited the state manually.
        Edit = "edit",
        /// Restored an earlier revision.
        Rollback = "rollback",
        /// Changed the name of the stack.
        Rename = "rename",
        /// Made a stored snapshot current.
        Restore = "restore",
        /// Replaced the stack's data key.
        Rekey = "rekey",
    }
}

impl UpdateKind {
    /// Whether the update works on real resources, not only on the recorded state. The snapshot's manifest describes
    /// the tool and the plugins of the last such update.
    pub const fn is_driven(self) -> bool {
        matches!(self, Self::Update | Self::Refresh | Self::Destroy)
    }
}

named! {
    /// How an update ended.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum UpdateResult {
        /// All requested steps succeeded.
        Succeeded = "succeeded",
        /// A step failed; the steps before it are recorded.
        Failed = "failed",
        /// The update was canceled, or its writer crashed and the next writer closed the update.
        Interrupted = "interrupted",
    }
}
