//! The state of a stack after some prefix of its journal. A state is cheap to copy, and only [`State::apply`] and
//! [`State::settle`] change it.
//!
//! A state consists of the loaded entries, which never change, and persistent maps of the changes since then. A copy
//! shares both with its original. The cost of a mutation therefore depends only on the references of its own entry,
//! not on the number of entries, readers or checkpoints.
//!
//! Entries are ordered by position. The start of an update turns all existing entries into its *base*, and reserves a
//! block of positions in front of them. An entry that the update records leaves the base and gets the next position of
//! this block. The list is therefore `new ++ (base − done)`: first the recorded entries in recording order, then the
//! entries of the base that are not recorded yet.

mod apply;
mod changes;
mod check;
mod index;
mod layered;
mod moves;
mod owner;
mod prune;
mod step;
mod window;

#[cfg(test)]
mod tests;

pub use apply::{ApplyReport, LoadedSnapshots, replay};
pub use owner::StackOwner;

use crate::address::{Address, Dependency, EntryKey};
use crate::counter::Serial;
use crate::entry::SharedEntry;
use crate::environment::Timestamp;
use crate::error::{Error, Result};
use crate::id::{Lineage, MutationId};
use crate::json::JsonMap;
use crate::moves::{MoveIn, MoveOut};
use crate::mutation::{Op, StackOutputs};
use crate::pending::PendingOperation;
use crate::revision::RevisionId;
use crate::snapshot::{Continuation, ForeignSerial, Invalidation, Manifest, Plugin, Snapshot};
use crate::update::UpdateInfo;
use crate::verify::{Rule, Violation};
use imbl::{OrdSet, Vector};
use index::{Entries, Position};
use std::collections::BTreeMap;
use std::sync::Arc;
use window::Window;

/// A stack's state after some point of its journal.
#[derive(Clone, Debug)]
pub struct State {
    lineage: Lineage,
    serial: Serial,
    current: Option<RevisionId>,
    header: Arc<Header>,
    outputs: Arc<StackOutputs>,
    entries: Entries,
    /// The entries of the current revision; `None` if this state was loaded from a later checkpoint.
    settled: Option<Entries>,
    /// Whether a record since the current revision may have changed an entry.
    uncommitted: bool,
    /// First position of the base. Entries before it were recorded by the open update.
    base: Position,
    /// Position of the next entry to be recorded.
    front: Position,
    pending: Vector<Arc<PendingOperation>>,
    invalidated: Option<Arc<Invalidation>>,
    update: Option<Arc<UpdateInfo>>,
    recent: Window,
    forgotten: OrdSet<RevisionId>,
    incoming: Vector<Arc<MoveIn>>,
    departed: Vector<Arc<MoveOut>>,
    /// The revision that the last record created, until [`State::settle`] completes its id.
    unsettled: Option<UnsettledRevision>,
}

/// A revision with an incomplete id: the id contains the chain digest of the frame, which [`State::apply`] doesn't
/// know. `Current` is the end of an update, `Detached` a [`DetachedRevision`](crate::journal::DetachedRevision).
#[derive(Clone, Copy, Debug)]
enum UnsettledRevision {
    Current(Serial),
    Detached,
}

/// Metadata of a snapshot: everything but entries, outputs and pending operations.
#[derive(Clone, Debug, Default)]
struct Header {
    factory: crate::snapshot::FactoryInfo,
    program: Option<String>,
    manifest: Option<Manifest>,
    foreign_serials: BTreeMap<String, ForeignSerial>,
    extensions: JsonMap,
    unknown: JsonMap,
}

impl State {
    /// Creates the state before a stack's first frame.
    pub fn new(lineage: Lineage) -> Self {
        Self {
            lineage,
            serial: Serial::ZERO,
            current: None,
            header: Arc::default(),
            outputs: Arc::default(),
            entries: Entries::default(),
            settled: Some(Entries::default()),
            uncommitted: false,
            base: Position::ZERO,
            front: Position::ZERO,
            pending: Vector::new(),
            invalidated: None,
            update: None,
            recent: Window::default(),
            forgotten: OrdSet::new(),
            incoming: Vector::new(),
            departed: Vector::new(),
            unsettled: None,
        }
    }

    /// Loads the state from a stored snapshot of this stack.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the snapshot belongs to another stack or contains a key or uid twice.
    pub fn from_snapshot(lineage: Lineage, snapshot: &Snapshot) -> Result<Self> {
        let damaged = |reason: &str| Error::corrupt(format!("snapshot of stack {lineage}"), 0, reason);
        if snapshot.lineage != Some(lineage) {
            return Err(damaged("it belongs to another stack"));
        }
        let mut state = Self::new(lineage);
        let recorded = match &snapshot.continuation {
            Some(continuation) => usize::try_from(continuation.recorded).unwrap_or(usize::MAX),
            None => 0,
        };
        state
            .load_entries(&snapshot.entries, recorded)
            .map_err(|reason| damaged(&reason))?;
        state.take_header(snapshot);
        state
            .header_mut()
            .foreign_serials
            .clone_from(&snapshot.foreign_serials);
        state.serial = snapshot.serial.unwrap_or_default();
        state.pending = snapshot
            .pending_operations
            .iter()
            .cloned()
            .map(Arc::new)
            .collect();
        state.invalidated = snapshot.invalidated.clone().map(Arc::new);
        state.settled = None;
        if let Some(continuation) = &snapshot.continuation {
            state.uncommitted = continuation.uncommitted;
            state.settled = (!state.uncommitted).then(|| state.entries.clone());
            state.update = continuation.update.clone().map(Arc::new);
            state.current.clone_from(&continuation.current);
            state.recent = continuation.recent.iter().copied().collect();
            state.forgotten = continuation.forgotten.iter().cloned().collect();
            state.incoming = continuation.incoming.iter().cloned().map(Arc::new).collect();
            state.departed = continuation.departed.iter().cloned().map(Arc::new).collect();
        }
        Ok(state)
    }

    /// Returns the state as a snapshot without a continuation. Equal states yield equal snapshots, even if different
    /// journals led to them.
    pub fn snapshot(&self, stack: impl Into<String>, generated_at: Timestamp) -> Snapshot {
        let Header {
            factory,
            program,
            manifest,
            foreign_serials,
            extensions,
            unknown,
        } = &*self.header;
        Snapshot {
            lineage: Some(self.lineage),
            serial: Some(self.serial),
            factory: factory.clone(),
            program: program.clone(),
            stack: stack.into(),
            manifest: manifest.clone(),
            generated_at,
            pending_operations: self.pending.iter().map(|p| PendingOperation::clone(p)).collect(),
            invalidated: self.invalidated.as_deref().cloned(),
            entries: self.entries.iter().cloned().collect(),
            outputs: self.outputs.values.clone(),
            sensitive_outputs: self.outputs.sensitive.clone(),
            foreign_serials: foreign_serials.clone(),
            extensions: extensions.clone(),
            continuation: None,
            unknown: unknown.clone(),
        }
    }

    /// Returns the additional state that a checkpoint contains, so that replay can continue from it.
    pub fn continuation(&self) -> Continuation {
        Continuation {
            update: self.update.as_deref().cloned(),
            recorded: self.entries.count_before(self.base) as u64,
            current: self.current.clone(),
            recent: self.recent.iter().collect(),
            forgotten: self.forgotten.iter().cloned().collect(),
            incoming: self.incoming().cloned().collect(),
            departed: self.departed().cloned().collect(),
            uncommitted: self.uncommitted,
        }
    }

    /// The identity of the stack.
    pub const fn lineage(&self) -> Lineage {
        self.lineage
    }

    /// The highest serial assigned to a revision.
    pub const fn serial(&self) -> Serial {
        self.serial
    }

    /// The current revision, which the last ended update created; `None` if no update has ended.
    pub const fn current(&self) -> Option<&RevisionId> {
        self.current.as_ref()
    }

    /// The entries, in topological order.
    pub fn entries(&self) -> impl Iterator<Item = &SharedEntry> {
        self.entries.iter()
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the state contains no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.len() == 0
    }

    /// The entry with this key.
    pub fn entry(&self, key: &EntryKey) -> Option<&SharedEntry> {
        self.entries.get(key)
    }

    /// All entries of one address: the live one first, then deposed ones.
    pub fn generations<'a>(&'a self, address: &'a Address) -> impl Iterator<Item = &'a SharedEntry> {
        self.entries
            .generations(address)
            .filter_map(|(key, _)| self.entries.get(key))
    }

    /// The entries that refer to an address or a group.
    pub fn dependents<'a>(&'a self, of: &'a Dependency) -> impl Iterator<Item = &'a SharedEntry> {
        self.entries
            .dependents(of)
            .filter_map(|position| self.entries.at(position))
    }

    /// The live members of a group, in topological order.
    pub fn members<'a>(&'a self, group: &'a Address) -> impl Iterator<Item = &'a SharedEntry> {
        self.entries
            .members_of(group)
            .filter_map(|position| self.entries.at(position))
    }

    /// Whether the entry `one` comes before the entry `other`; false if either does not exist.
    pub fn comes_before(&self, one: &EntryKey, other: &EntryKey) -> bool {
        let positions = self.entries.position(one).zip(self.entries.position(other));
        positions.is_some_and(|(one, other)| one < other)
    }

    /// The pending operations, oldest first.
    pub fn pending(&self) -> impl Iterator<Item = &PendingOperation> {
        self.pending.iter().map(|p| &**p)
    }

    /// The open update, if there is one.
    pub fn update(&self) -> Option<&UpdateInfo> {
        self.update.as_deref()
    }

    /// The mark of a state whose entries may all be outdated; `None` if only entries with pending operations may be.
    pub fn invalidated(&self) -> Option<&Invalidation> {
        self.invalidated.as_deref()
    }

    /// Whether the state is known to match the real resources: no operation and no move-in is pending, and the stack
    /// is not marked as invalidated.
    pub fn is_reliable(&self) -> bool {
        self.pending.is_empty() && self.incoming.is_empty() && self.invalidated.is_none()
    }

    /// The stack's own outputs.
    pub fn outputs(&self) -> &StackOutputs {
        &self.outputs
    }

    /// The serials of other tools from which the stack was imported, by tool.
    pub fn foreign_serials(&self) -> &BTreeMap<String, ForeignSerial> {
        &self.header.foreign_serials
    }

    /// Fields of other tools' states that have no counterpart in this format, by tool.
    pub fn extensions(&self) -> &JsonMap {
        &self.header.extensions
    }

    /// Whether a revision was deleted.
    pub fn is_forgotten(&self, revision: &RevisionId) -> bool {
        self.forgotten.contains(revision)
    }

    /// The outcome of a mutation: `Some(true)` if it took effect, `Some(false)` if not, `None` if the id is unknown
    /// or too old to be remembered.
    pub fn lookup(&self, id: MutationId) -> Option<bool> {
        self.recent.get(id)
    }

    /// Whether the open update has already recorded this entry.
    pub fn is_recorded(&self, key: &EntryKey) -> bool {
        self.entries
            .position(key)
            .is_some_and(|position| position < self.base)
    }

    fn header_mut(&mut self) -> &mut Header {
        Arc::make_mut(&mut self.header)
    }

    /// Copies metadata and outputs from a snapshot. Keeps the foreign serials, which must not decrease when an earlier
    /// snapshot is restored.
    fn take_header(&mut self, snapshot: &Snapshot) {
        let header = self.header_mut();
        header.factory.clone_from(&snapshot.factory);
        header.program.clone_from(&snapshot.program);
        header.manifest.clone_from(&snapshot.manifest);
        header.extensions.clone_from(&snapshot.extensions);
        header.unknown.clone_from(&snapshot.unknown);
        self.outputs = Arc::new(StackOutputs {
            values: snapshot.outputs.clone(),
            sensitive: snapshot.sensitive_outputs.clone(),
        });
    }

    /// Replaces all entries. The open update gets a new block of positions, which begins with the first `recorded`
    /// entries.
    fn load_entries(&mut self, entries: &[SharedEntry], recorded: usize) -> Result<(), String> {
        let recorded = recorded.min(entries.len());
        self.base = Position::ZERO;
        let first = self.base.block_before();
        self.entries = Entries::load(entries, recorded, first, self.base)?;
        self.front = first.after(recorded);
        Ok(())
    }

    /// Turns all entries into the base.
    fn open_block(&mut self) {
        self.base = self.entries.first_position();
        self.front = self.base.block_before();
    }

    /// Returns a position after all entries, and not before `base`. If the update has recorded all entries, the
    /// position after the last entry is `front`: an appended entry there would block the next entry that the update
    /// records.
    fn end_position_after_base(&self) -> Position {
        self.entries.end_position().max(self.base)
    }

    fn add_plugin(&mut self, plugin: &Plugin) {
        let manifest = self.header_mut().manifest.get_or_insert_default();
        if let Err(place) = manifest.plugins.binary_search(plugin) {
            manifest.plugins.insert(place, plugin.clone());
        }
    }

    fn update_mut(&mut self) -> Option<&mut UpdateInfo> {
        self.update.as_mut().map(Arc::make_mut)
    }

    fn count(&mut self, op: Op) {
        if let Some(update) = self.update_mut() {
            *update.counts.entry(op).or_default() += 1;
        }
    }
}

/// The result of a change, or all rule violations that it would cause.
type Checked<T = ()> = Result<T, Vec<Violation>>;

/// Rejects a change that violates a rule of the state as a whole.
fn refuse<T>(rule: Rule, detail: impl Into<String>) -> Checked<T> {
    Err(vec![Violation::whole(rule, detail)])
}

/// Compares contents, and ignores positions and structural sharing.
impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        let moment = || Timestamp::new("");
        self.continuation() == other.continuation()
            && self.snapshot("", moment()) == other.snapshot("", moment())
    }
}
