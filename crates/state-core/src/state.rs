//! What a journal means so far: the one mutable thing, cheap to copy, changed only by [`State::apply`].
//!
//! A state is what was loaded, which never changes, and persistent maps of what changed since: a copy shares
//! everything with its original, so that neither a reader nor a checkpoint nor the number of entries makes a
//! mutation cost more than its own references.
//!
//! Entries stand in the order of their positions. Those that the open update recorded come first, in the order
//! in which they were recorded; behind them stands what is left of the base: `new ++ (base − done)` (seed 004).
//! An update that starts makes all that is there its base by opening a new block of positions in front.

mod apply;
mod check;
mod index;
mod layered;
mod moves;
mod prune;
mod step;
mod window;

#[cfg(test)]
mod tests;

pub use apply::{Applied, Loaded, replay};

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
    /// Where the base begins: entries before it were recorded by the open update.
    base: Position,
    /// The position of the next entry to be recorded.
    front: Position,
    pending: Vector<Arc<PendingOperation>>,
    invalidated: Option<Arc<Invalidation>>,
    update: Option<Arc<UpdateInfo>>,
    recent: Window,
    forgotten: OrdSet<RevisionId>,
    incoming: Vector<Arc<MoveIn>>,
    departed: Vector<Arc<MoveOut>>,
    /// A mark or a stored revision that waits for the chain of its frame.
    unsettled: Option<Unsettled>,
}

#[derive(Clone, Copy, Debug)]
enum Unsettled {
    Current(Serial),
    Detached,
}

/// What a snapshot says beside entries, outputs and pending operations.
#[derive(Clone, Debug, Default)]
struct Header {
    factory: crate::snapshot::FactoryInfo,
    manifest: Option<Manifest>,
    foreign_serials: BTreeMap<String, ForeignSerial>,
    extensions: JsonMap,
    unknown: JsonMap,
}

impl State {
    /// The state before a stack's first frame.
    pub fn new(lineage: Lineage) -> Self {
        Self {
            lineage,
            serial: Serial::ZERO,
            current: None,
            header: Arc::default(),
            outputs: Arc::default(),
            entries: Entries::default(),
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

    /// The state that a stored snapshot of this stack holds.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when the snapshot is of another stack or holds a key or uid twice.
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
        if let Some(continuation) = &snapshot.continuation {
            state.update = continuation.update.clone().map(Arc::new);
            state.current.clone_from(&continuation.current);
            state.recent = continuation.recent.iter().copied().collect();
            state.forgotten = continuation.forgotten.iter().cloned().collect();
            state.incoming = continuation.incoming.iter().cloned().map(Arc::new).collect();
            state.departed = continuation.departed.iter().cloned().map(Arc::new).collect();
        }
        Ok(state)
    }

    /// The state as a snapshot: the same state gives the same snapshot, whatever way led to it.
    pub fn snapshot(&self, stack: impl Into<String>, generated_at: Timestamp) -> Snapshot {
        let Header {
            factory,
            manifest,
            foreign_serials,
            extensions,
            unknown,
        } = &*self.header;
        Snapshot {
            lineage: Some(self.lineage),
            serial: Some(self.serial),
            factory: factory.clone(),
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

    /// What a checkpoint of this state carries, so that replay can go on from it.
    pub fn continuation(&self) -> Continuation {
        Continuation {
            update: self.update.as_deref().cloned(),
            recorded: self.entries.count_before(self.base) as u64,
            current: self.current.clone(),
            recent: self.recent.iter().collect(),
            forgotten: self.forgotten.iter().cloned().collect(),
            incoming: self.incoming().cloned().collect(),
            departed: self.departed().cloned().collect(),
        }
    }

    /// The stack's identity.
    pub const fn lineage(&self) -> Lineage {
        self.lineage
    }

    /// The highest serial that was given to a revision.
    pub const fn serial(&self) -> Serial {
        self.serial
    }

    /// The current revision: the one at the last mark. None before the first.
    pub const fn current(&self) -> Option<&RevisionId> {
        self.current.as_ref()
    }

    /// The entries, in topological order.
    pub fn entries(&self) -> impl Iterator<Item = &SharedEntry> {
        self.entries.iter()
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.len() == 0
    }

    /// One entry.
    pub fn entry(&self, key: &EntryKey) -> Option<&SharedEntry> {
        self.entries.get(key)
    }

    /// The entries of one address: the live one first, then deposed ones.
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

    /// The live members of a group, in order.
    pub fn members<'a>(&'a self, group: &'a Address) -> impl Iterator<Item = &'a SharedEntry> {
        self.entries
            .members_of(group)
            .filter_map(|position| self.entries.at(position))
    }

    /// Whether one entry stands before another; false when one of them isn't there.
    pub fn stands_before(&self, one: &EntryKey, other: &EntryKey) -> bool {
        let places = self.entries.position(one).zip(self.entries.position(other));
        places.is_some_and(|(one, other)| one < other)
    }

    /// What was begun and not ended, oldest first.
    pub fn pending(&self) -> impl Iterator<Item = &PendingOperation> {
        self.pending.iter().map(|p| &**p)
    }

    /// The update that is open.
    pub fn update(&self) -> Option<&UpdateInfo> {
        self.update.as_deref()
    }

    /// Since when the entries as a whole aren't to be trusted; none when they are, but for what is pending.
    pub fn invalidated(&self) -> Option<&Invalidation> {
        self.invalidated.as_deref()
    }

    /// Whether the state is known to say what the world is: nothing is begun and not ended, no move-in is
    /// pending, and nobody said that the world is being changed beyond what is recorded (seed 000).
    pub fn is_reliable(&self) -> bool {
        self.pending.is_empty() && self.incoming.is_empty() && self.invalidated.is_none()
    }

    /// The stack's own outputs.
    pub fn outputs(&self) -> &StackOutputs {
        &self.outputs
    }

    /// How the foreign systems count that the stack came from.
    pub fn foreign_serials(&self) -> &BTreeMap<String, ForeignSerial> {
        &self.header.foreign_serials
    }

    /// The rest of the foreign state that the stack came from, by system.
    pub fn extensions(&self) -> &JsonMap {
        &self.header.extensions
    }

    /// Revisions that were deleted.
    pub fn is_forgotten(&self, revision: &RevisionId) -> bool {
        self.forgotten.contains(revision)
    }

    /// What became of a mutation: `Some(true)` if it took effect, `Some(false)` if not, none if it is unknown or
    /// so long ago that nobody remembers.
    pub fn lookup(&self, id: MutationId) -> Option<bool> {
        self.recent.get(id)
    }

    /// Whether the open update recorded this entry already.
    pub fn is_recorded(&self, key: &EntryKey) -> bool {
        self.entries
            .position(key)
            .is_some_and(|position| position < self.base)
    }

    fn header_mut(&mut self) -> &mut Header {
        Arc::make_mut(&mut self.header)
    }

    fn take_header(&mut self, snapshot: &Snapshot) {
        let header = self.header_mut();
        header.factory.clone_from(&snapshot.factory);
        header.manifest.clone_from(&snapshot.manifest);
        header.extensions.clone_from(&snapshot.extensions);
        header.unknown.clone_from(&snapshot.unknown);
        self.outputs = Arc::new(StackOutputs {
            values: snapshot.outputs.clone(),
            sensitive: snapshot.sensitive_outputs.clone(),
        });
    }

    /// Replaces all entries. The open update's block of positions starts anew, with the first `recorded` of them.
    fn load_entries(&mut self, entries: &[SharedEntry], recorded: usize) -> Result<(), String> {
        let recorded = recorded.min(entries.len());
        self.base = Position::ZERO;
        let first = self.base.block_before();
        self.entries = Entries::load(entries, recorded, first, self.base)?;
        self.front = first.after(recorded);
        Ok(())
    }

    /// Makes all that is there the base.
    fn open_block(&mut self) {
        self.base = self.entries.first_position();
        self.front = self.base.block_before();
    }

    /// A position behind all entries, and never among the recorded ones: when all that is there was recorded, the
    /// next record would take the same position.
    fn behind_all(&self) -> Position {
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

/// The result of a change, or all rules that the change breaks.
type Checked<T = ()> = Result<T, Vec<Violation>>;

/// Refuses a change that breaks a rule of the state as a whole.
fn refuse<T>(rule: Rule, detail: impl Into<String>) -> Checked<T> {
    Err(vec![Violation::whole(rule, detail)])
}

/// Equal when they mean the same: positions and shared structure don't count.
impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        let moment = || Timestamp::new("");
        self.continuation() == other.continuation()
            && self.snapshot("", moment()) == other.snapshot("", moment())
    }
}
