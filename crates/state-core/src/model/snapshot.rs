//! The snapshot: all state of a stack at one moment.

use crate::counter::Serial;
use crate::entry::SharedEntry;
use crate::environment::Timestamp;
use crate::id::{Lineage, MutationId, UpdateId};
use crate::json::{Json, JsonMap};
use crate::moves::{MoveIn, MoveOut};
use crate::pending::PendingOperation;
use crate::revision::RevisionId;
use crate::update::UpdateInfo;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of the snapshot format that this build reads and writes.
pub const CURRENT_FORMAT_VERSION: u64 = 1;

/// All entries of a stack in topological order, with the stack's metadata.
///
/// JSON keys are kebab-case. Snapshots of unobin 0.4.0 decode without conversion. The JSON names are those of unobin:
/// `stack` is the field `factory`, and `deployment-id` is the field `stack`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Identity of the stack. `None` in a document of another tool.
    pub lineage: Option<Lineage>,
    /// Serial of the last revision in the snapshot. `None` in a document of another tool.
    pub serial: Option<Serial>,
    /// Program that the stack belongs to. JSON: `stack`.
    pub factory: FactoryInfo,
    /// Name of the program whose updates created the entries, empty for a program without a name. `None` if no program
    /// was recorded, as in the state of another tool.
    pub program: Option<String>,
    /// Name of the stack. JSON: `deployment-id`.
    pub stack: String,
    /// Tool and plugins that wrote the snapshot.
    pub manifest: Option<Manifest>,
    /// Time at which the snapshot was generated.
    pub generated_at: Timestamp,
    /// Operations that have begun and not ended.
    pub pending_operations: Vec<PendingOperation>,
    /// Mark of a snapshot whose entries may all differ from the real resources; `None` if only entries with pending
    /// operations may differ.
    pub invalidated: Option<Invalidation>,
    /// The entries in topological order.
    pub entries: Vec<SharedEntry>,
    /// Outputs of the stack itself.
    pub outputs: BTreeMap<String, Json>,
    /// Secret outputs: names, or JSON pointers into the map of outputs (which begin with `/`).
    pub sensitive_outputs: Vec<String>,
    /// Serials of the states that were imported from other tools, by system: `terraform`, `pulumi`.
    pub foreign_serials: BTreeMap<String, ForeignSerial>,
    /// Fields of another tool's state that have no counterpart in this format, by system: `{"terraform": {…}}`.
    pub extensions: JsonMap,
    /// Additional state that replay needs to continue from this snapshot; `None` except in checkpoints.
    pub continuation: Option<Continuation>,
    /// Fields that this build doesn't know. They are written back unchanged.
    pub unknown: JsonMap,
}

impl Snapshot {
    /// Creates an empty snapshot.
    pub fn new(factory: FactoryInfo, stack: impl Into<String>, generated_at: Timestamp) -> Self {
        Self {
            lineage: None,
            serial: None,
            factory,
            program: None,
            stack: stack.into(),
            manifest: None,
            generated_at,
            pending_operations: Vec::new(),
            invalidated: None,
            entries: Vec::new(),
            outputs: BTreeMap::new(),
            sensitive_outputs: Vec::new(),
            foreign_serials: BTreeMap::new(),
            extensions: JsonMap::new(),
            continuation: None,
            unknown: JsonMap::new(),
        }
    }

    /// All entries with their positions: those of the list, then those of the pending operations.
    pub fn all_entries(&self) -> impl Iterator<Item = (EntryPosition, &SharedEntry)> {
        let listed = self.entries.iter().enumerate();
        let listed = listed.map(|(index, entry)| (EntryPosition::Listed(index), entry));
        let pending = self.pending_operations.iter().enumerate();
        let pending = pending.flat_map(|(index, operation)| {
            let requested = operation.entry.iter();
            let requested = requested.map(move |entry| (EntryPosition::Requested(index), entry));
            let returned = operation.returned_entry().into_iter();
            requested.chain(returned.map(move |entry| (EntryPosition::Returned(index), entry)))
        });
        listed.chain(pending)
    }

    /// The entry at a position, for changes; `None` if there is none.
    pub fn entry_mut(&mut self, position: EntryPosition) -> Option<&mut SharedEntry> {
        match position {
            EntryPosition::Listed(index) => self.entries.get_mut(index),
            EntryPosition::Requested(index) => self.pending_operations.get_mut(index)?.entry.as_mut(),
            EntryPosition::Returned(index) => {
                let operation = self.pending_operations.get_mut(index)?;
                operation.result.as_mut()?.entry.as_mut()
            }
        }
    }
}

/// Position of an entry in a snapshot. Each number is an index in [`Snapshot::entries`] or
/// [`Snapshot::pending_operations`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntryPosition {
    /// An entry of the list.
    Listed(usize),
    /// The entry that a pending operation requests.
    Requested(usize),
    /// The entry that the provider returned for a pending operation, and that violates an integrity rule.
    Returned(usize),
}

/// Marks a stack whose real resources are being changed by operations that are not recorded one by one. The mark
/// survives crashes and stays until a [`CompletionReason`](crate::journal::CompletionReason) clears it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Invalidation {
    /// Update that began to change resources.
    pub update: UpdateId,
    /// Time at which the mark was set.
    pub since: Timestamp,
}

/// The program that a stack belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct FactoryInfo {
    /// Name of the program.
    #[serde(default)]
    pub name: String,
    /// Version of the program.
    #[serde(default)]
    pub version: String,
    /// Hash of the program's content.
    #[serde(default)]
    pub content_revision: String,
}

/// The tool that wrote a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Manifest {
    /// Time at which the snapshot was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Timestamp>,
    /// Version of the tool.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Plugins that took part, sorted by kind, name and version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plugins: Vec<Plugin>,
}

/// A plugin that took part in an update.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Plugin {
    /// Kind of the plugin: `resource`, `language` and the like.
    #[serde(default)]
    pub kind: String,
    /// Name of the plugin.
    pub name: String,
    /// Version of the plugin.
    #[serde(default)]
    pub version: String,
}

/// The serials of another tool for the states of this stack. They are counted separately, because a serial of the other
/// tool must never decrease, not even after a rollback.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ForeignSerial {
    /// Serial of the last imported state, as the other tool counts.
    pub imported: u64,
    /// Serial of this stack's revision that imported that state.
    pub at: Serial,
    /// The highest serial of all imports so far, and of all exports that were possible before the last import.
    pub highest: u64,
}

impl ForeignSerial {
    /// Returns the serials after an import at revision `at`, which may have been forced to a lower serial.
    pub fn after_import(before: Option<Self>, imported: u64, at: Serial) -> Self {
        let exported = before.map_or(0, |b| b.export(Serial(at.get().saturating_sub(1))));
        Self {
            imported,
            at,
            highest: imported.max(exported),
        }
    }

    /// The serial under which a revision is exported. The import itself keeps the imported serial; every later revision
    /// gets a higher serial than all revisions before it.
    pub fn export(&self, serial: Serial) -> u64 {
        if serial <= self.at {
            self.imported
        } else {
            self.highest.saturating_add(serial.get() - self.at.get())
        }
    }
}

/// Additional state of a checkpoint, so that replay can continue in the middle of an update.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Continuation {
    /// Update that is open at the checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update: Option<UpdateInfo>,
    /// Number of leading entries that the open update has recorded.
    #[serde(default)]
    pub recorded: u64,
    /// Id of the current revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<RevisionId>,
    /// The most recent mutations and whether each took effect, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recent: Vec<(MutationId, bool)>,
    /// Ids of deleted revisions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forgotten: Vec<RevisionId>,
    /// Moves from other stacks that have not arrived yet, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub incoming: Vec<MoveIn>,
    /// Moves to other stacks that are not confirmed yet, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub departed: Vec<MoveOut>,
    /// Whether a record since the current revision may have changed an entry.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub uncommitted: bool,
}
