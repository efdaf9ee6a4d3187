//! The record of a whole stack at one moment.

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

/// The version of the snapshot format that this build reads and writes (seed 003).
pub const CURRENT_FORMAT_VERSION: u64 = 1;

/// All entries of a stack, each after what it depends on, and what goes with them.
///
/// JSON keys are kebab-case; a snapshot of unobin 0.4.0 decodes as it is. (There `stack` means the factory and
/// `deployment-id` the stack.)
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The stack's identity. None in a document of another tool.
    pub lineage: Option<Lineage>,
    /// The serial of the last revision that it holds. None in a document of another tool.
    pub serial: Option<Serial>,
    /// Who made the stack. JSON: `stack`.
    pub factory: FactoryInfo,
    /// The stack's name. JSON: `deployment-id`.
    pub stack: String,
    /// What wrote it, and with which plugins.
    pub manifest: Option<Manifest>,
    /// When it was made.
    pub generated_at: Timestamp,
    /// What was begun and not ended.
    pub pending_operations: Vec<PendingOperation>,
    /// Since when the entries aren't known to say what the world is; none when they are, but for what is pending.
    pub invalidated: Option<Invalidation>,
    /// The entries, in topological order.
    pub entries: Vec<SharedEntry>,
    /// The stack's own outputs.
    pub outputs: BTreeMap<String, Json>,
    /// Which outputs are secret: names, or JSON pointers into the map of outputs (they begin with `/`).
    pub sensitive_outputs: Vec<String>,
    /// The serials of the foreign systems that the stack came from, by system.
    pub foreign_serials: BTreeMap<String, ForeignSerial>,
    /// The rest of a foreign state, by system: `{"terraform": {…}}`.
    pub extensions: JsonMap,
    /// What replay needs to go on from here. Only in checkpoints.
    pub continuation: Option<Continuation>,
    /// Fields that this build doesn't know. Written back as they came.
    pub unknown: JsonMap,
}

impl Snapshot {
    /// An empty snapshot (seed 003's `NewSnapshot`).
    pub fn new(factory: FactoryInfo, stack: impl Into<String>, generated_at: Timestamp) -> Self {
        Self {
            lineage: None,
            serial: None,
            factory,
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
}

/// Says of a stack that somebody is changing the world beyond what is recorded (seeds 000 and 004): it stays until a
/// [`CompletionReason`](crate::journal::CompletionReason) takes it back, whoever dies in between.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Invalidation {
    /// The update that began to change the world.
    pub update: UpdateId,
    /// When.
    pub since: Timestamp,
}

/// Identifies the program that a stack belongs to (seed 003).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct FactoryInfo {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// Its version.
    #[serde(default)]
    pub version: String,
    /// The hash of its content.
    #[serde(default)]
    pub content_revision: String,
}

/// What wrote a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Manifest {
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Timestamp>,
    /// The writer's version.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// The plugins that took part, sorted by kind, name and version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plugins: Vec<Plugin>,
}

/// A plugin that took part in an update.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Plugin {
    /// What it is: `resource`, `language` and the like.
    #[serde(default)]
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its version.
    #[serde(default)]
    pub version: String,
}

/// How a foreign system counts the same states: kept apart, because its serial may never go back, not even
/// when we roll back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ForeignSerial {
    /// The serial of the state that was imported last.
    pub imported: u64,
    /// Our serial of that import.
    pub at: Serial,
    /// At least every serial that was imported or could have been exported until then.
    pub highest: u64,
}

impl ForeignSerial {
    /// What is known after an import at `at`, which may have been forced to a lower serial.
    pub fn after_import(before: Option<Self>, imported: u64, at: Serial) -> Self {
        let exported = before.map_or(0, |b| b.export(Serial(at.get().saturating_sub(1))));
        Self {
            imported,
            at,
            highest: imported.max(exported),
        }
    }

    /// The serial under which a revision goes out: the imported one for the import itself, higher than all
    /// before it for every later one.
    pub fn export(&self, serial: Serial) -> u64 {
        if serial <= self.at {
            self.imported
        } else {
            self.highest.saturating_add(serial.get() - self.at.get())
        }
    }
}

/// What a checkpoint carries beside the state itself, so that replay can go on in the middle of an update.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Continuation {
    /// The update that is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update: Option<UpdateInfo>,
    /// How many of the first entries were recorded by the open update.
    #[serde(default)]
    pub recorded: u64,
    /// The current revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<RevisionId>,
    /// The last mutations and whether each took effect, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recent: Vec<(MutationId, bool)>,
    /// Revisions that were deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forgotten: Vec<RevisionId>,
    /// Entries that will come if another stack lets them go, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub incoming: Vec<MoveIn>,
    /// Moves to other stacks that are not confirmed, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub departed: Vec<MoveOut>,
}
