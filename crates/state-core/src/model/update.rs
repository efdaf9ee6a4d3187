//! What made a revision.

use crate::environment::Timestamp;
use crate::id::UpdateId;
use crate::moves::Moved;
use crate::mutation::Op;
use crate::revision::RevisionId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything that is known of an update: from its start to the revision that it made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct UpdateInfo {
    /// Names the update.
    pub id: UpdateId,
    /// What it did.
    pub kind: UpdateKind,
    /// The person or service.
    #[serde(default)]
    pub who: String,
    /// The machine.
    #[serde(default)]
    pub host: String,
    /// The version of the program that writes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When it began.
    pub start: Timestamp,
    /// When it ended; none while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Timestamp>,
    /// How it ended; none while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<UpdateResult>,
    /// How many steps of each kind took effect.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<Op, u64>,
    /// What the caller wants to be remembered: a commit, a CI run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// The revision that it began from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<RevisionId>,
    /// The revision that it brought back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored: Option<RevisionId>,
    /// The entries that it moved from or to another stack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved: Option<Moved>,
    /// Rules were overridden on request.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forced: bool,
}

impl UpdateInfo {
    /// An update that begins now.
    pub fn new(id: UpdateId, kind: UpdateKind, start: Timestamp) -> Self {
        Self {
            id,
            kind,
            who: String::new(),
            host: String::new(),
            version: String::new(),
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
    /// What an update did.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    #[non_exhaustive]
    pub enum UpdateKind {
        /// Brought the world to what a program says.
        Update = "update",
        /// Brought the state to what the world is.
        Refresh = "refresh",
        /// Deleted everything.
        Destroy = "destroy",
        /// Took a state from elsewhere.
        Import = "import",
        /// Changed the state by hand.
        Edit = "edit",
        /// Brought back an earlier revision.
        Rollback = "rollback",
        /// Gave the stack another name.
        Rename = "rename",
        /// Made a stored snapshot current.
        Restore = "restore",
        /// Gave the stack a new data key.
        Rekey = "rekey",
    }
}

impl UpdateKind {
    /// Whether a tool drove it: then the snapshot's manifest tells of that tool and its plugins.
    pub const fn is_driven(self) -> bool {
        matches!(self, Self::Update | Self::Refresh | Self::Destroy)
    }
}

named! {
    /// How an update ended.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum UpdateResult {
        /// All that was asked was done.
        Succeeded = "succeeded",
        /// Something failed; what was done before is recorded.
        Failed = "failed",
        /// Somebody asked it to stop, or its writer died and the next one closed it.
        Interrupted = "interrupted",
    }
}
