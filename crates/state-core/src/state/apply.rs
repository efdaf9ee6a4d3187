//! `apply` changes a state by one record; `replay` applies the frames after a base.

use super::check::TouchedEntries;
use super::{Checked, State, UnsettledRevision, refuse};
use crate::counter::Serial;
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::journal::{
    DetachedRevision, Frame, FrameKind, Record, ResetBase, ResetCause, UpdateEnd, decode_records,
};
use crate::mutation::{Edit, EditChange, Op};
use crate::pending::PendingOperation;
use crate::revision::RevisionId;
use crate::snapshot::{ForeignSerial, Snapshot};
use crate::update::UpdateInfo;
use crate::verify::{Rule, Violation};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Stored snapshots that records refer to, by digest. The caller loads them, because this crate does no I/O.
pub type LoadedSnapshots = BTreeMap<Digest, Arc<Snapshot>>;

/// Additional results of applying a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApplyReport {
    /// Violations in the rejected result of a mutation, which is kept on its pending operation; empty if no result was
    /// rejected.
    pub refused: Vec<Violation>,
}

impl State {
    /// Applies one record.
    ///
    /// # Errors
    /// Returns all rules that the record violates, and leaves the state unchanged. A provider's result that violates a
    /// rule is no error: it stays on the pending operation, and [`ApplyReport::refused`] lists the violations.
    pub fn apply(
        &mut self,
        record: &Record,
        loaded: &LoadedSnapshots,
    ) -> Result<ApplyReport, Vec<Violation>> {
        if self.must_respect_reservations(record) {
            let mut next = self.clone();
            let applied = next.change(record, loaded)?;
            next.check_reservations()?;
            *self = next;
            return Ok(applied);
        }
        self.change(record, loaded)
    }

    /// Applies one record without a check of the reservations for incoming entries.
    fn change(&mut self, record: &Record, loaded: &LoadedSnapshots) -> Checked<ApplyReport> {
        match record {
            Record::UpdateStart(update) => self.start_update(update)?,
            Record::Begin(begin) => self.begin(begin)?,
            Record::End(end) => {
                let report = self.end(end)?;
                self.note_changes(record);
                return Ok(report);
            }
            Record::Step(step) => self.step(step)?,
            Record::Unchanged(addresses) => self.unchanged(addresses)?,
            Record::Resolve(resolve) => self.resolve(resolve)?,
            Record::RecordPlugin(plugin) => {
                self.require_update()?;
                self.add_plugin(plugin);
            }
            Record::SetOutputs(outputs) => {
                self.require_update()?;
                self.outputs = Arc::new(outputs.clone());
            }
            Record::ResetBase(reset) => self.reset(reset, loaded)?,
            Record::Edit(edit) => self.edit(edit)?,
            Record::UpdateEnd(end) => self.end_update(end)?,
            Record::DetachedRevision(detached) => self.detached(detached)?,
            Record::Forget(revision) => {
                self.forgotten.insert(revision.clone());
            }
            Record::Invalidate(invalidation) => {
                self.require_update()?;
                // A mark of an earlier update is kept: that update changed resources, and this one can't determine
                // whether all of these changes were recorded.
                let mark = || Arc::new(invalidation.clone());
                self.invalidated.get_or_insert_with(mark);
            }
            Record::Validate(_) => {
                self.require_update()?;
                self.invalidated = None;
            }
            Record::Checkpoint(_) => {}
            Record::MoveIn(incoming) => self.move_in(incoming)?,
            Record::MoveOut(leaving) => self.move_out(leaving)?,
            Record::MoveEnd(end) => self.move_end(end)?,
        }
        self.note_changes(record);
        Ok(ApplyReport::default())
    }

    /// Completes the id of a revision with the chain digest of the frame that contains its record. Returns the id if
    /// the frame created a revision.
    pub fn settle(&mut self, chain: &Digest) -> Option<RevisionId> {
        match self.unsettled.take()? {
            UnsettledRevision::Current(serial) => {
                let revision = RevisionId::new(serial, chain);
                self.current = Some(revision.clone());
                Some(revision)
            }
            UnsettledRevision::Detached => Some(RevisionId::new(self.serial, chain)),
        }
    }

    fn start_update(&mut self, update: &UpdateInfo) -> Checked {
        if let Some(open) = &self.update {
            return refuse(Rule::UpdateOpen, format!("update {} is still open", open.id));
        }
        self.open_block();
        if update.kind.is_driven()
            && let Some(manifest) = &mut self.header_mut().manifest
        {
            // The manifest describes the last update only, so its plugins are recorded again.
            manifest.plugins.clear();
        }
        if let Some(program) = &update.program {
            // Stored at the start of the update, because its steps change entries even if the update fails later.
            self.header_mut().program = Some(program.clone());
        }
        self.update = Some(Arc::new(update.clone()));
        Ok(())
    }

    pub(super) fn require_update(&self) -> Checked {
        if self.update.is_some() {
            return Ok(());
        }
        refuse(Rule::UpdateOpen, "no update is open")
    }

    fn end_update(&mut self, end: &UpdateEnd) -> Checked {
        self.require_update()?;
        self.next_serial(end.serial)?;
        if end.update.kind.is_driven() {
            let manifest = self.header_mut().manifest.get_or_insert_default();
            manifest.time.clone_from(&end.update.end);
            manifest.version.clone_from(&end.update.version);
        }
        self.update = None;
        self.settle_entries();
        self.unsettled = Some(UnsettledRevision::Current(end.serial));
        Ok(())
    }

    fn detached(&mut self, detached: &DetachedRevision) -> Checked {
        self.next_serial(detached.serial)?;
        self.unsettled = Some(UnsettledRevision::Detached);
        Ok(())
    }

    fn next_serial(&mut self, serial: Serial) -> Checked {
        if serial != self.serial.next() {
            let detail = format!("serial {serial} doesn't follow serial {}", self.serial);
            return refuse(Rule::Header, detail);
        }
        self.serial = serial;
        Ok(())
    }

    /// Replaces all entries, metadata and outputs by those of a stored snapshot, as an import or a rollback does.
    fn reset(&mut self, reset: &ResetBase, loaded: &LoadedSnapshots) -> Checked {
        self.require_update()?;
        let Some(snapshot) = loaded.get(&reset.snapshot.digest) else {
            let detail = format!("{} was not loaded", reset.snapshot.object());
            return refuse(Rule::Target, detail);
        };
        // All changes go to a copy, because a duplicate key in the snapshot must leave this state unchanged.
        let mut next = self.clone();
        next.load_entries(&snapshot.entries, 0)
            .or_else(|reason| refuse(Rule::UniqueKey, reason))?;
        next.count_differences(self);
        next.take_header(snapshot);
        match &reset.cause {
            ResetCause::Import {
                foreign: Some((system, imported)),
            } => {
                let at = next.serial.next();
                let serials = &mut next.header_mut().foreign_serials;
                let known = ForeignSerial::after_import(serials.get(system).copied(), *imported, at);
                serials.insert(system.clone(), known);
            }
            ResetCause::Import { foreign: None } | ResetCause::Edit => {}
            ResetCause::Restore { revision } => {
                if let Some(update) = next.update_mut() {
                    update.restored = Some(revision.clone());
                }
            }
        }
        // If the same state is imported twice, the second import contains operations that are already pending. They are
        // skipped, because the ids of pending operations must be unique.
        let mut known: BTreeSet<_> = next.pending.iter().map(|operation| operation.id).collect();
        for operation in &reset.pending {
            if known.insert(operation.id) {
                next.add_pending(operation);
            }
        }
        next.recent.push(reset.id, true);
        *self = next;
        Ok(())
    }

    /// Adds an operation that is pending again or for the first time. A former resolution of this operation must not
    /// answer a lookup, except if the provider returned a result, which shows that the mutation took effect.
    fn add_pending(&mut self, operation: &PendingOperation) {
        if operation.result.is_some() {
            self.recent.push(operation.id, true);
        } else {
            self.recent.remove(operation.id);
        }
        self.pending.push_back(Arc::new(operation.clone()));
    }

    /// Counts the entries that differ between `before` and this state as steps of the open update: new ones as imports,
    /// changed ones as updates, missing ones as discards.
    fn count_differences(&mut self, before: &Self) {
        let mut counts = BTreeMap::from([(Op::Import, 0), (Op::Update, 0), (Op::Discard, 0)]);
        for entry in self.entries.iter() {
            match before.entries.get(&entry.key()) {
                None => *counts.entry(Op::Import).or_default() += 1,
                Some(old) if !entry.is_unchanged_from(old) => *counts.entry(Op::Update).or_default() += 1,
                Some(_) => {}
            }
        }
        let gone = before
            .entries
            .iter()
            .filter(|old| self.entries.get(&old.key()).is_none());
        counts.insert(Op::Discard, gone.count() as u64);
        counts.retain(|_, count| *count > 0);
        if let Some(update) = self.update_mut() {
            update.counts.extend(counts);
        }
    }

    fn edit(&mut self, edit: &Edit) -> Checked {
        self.require_update()?;
        let mut next = self.edited(&edit.changes)?;
        next.recent.push(edit.id, true);
        *self = next;
        Ok(())
    }

    /// Returns a copy of the state with manual changes. This state stays unchanged.
    ///
    /// # Errors
    /// Returns all rules that the changes violate.
    pub fn edited(&self, changes: &[EditChange]) -> Result<Self, Vec<Violation>> {
        let mut next = self.clone();
        let mut touched = TouchedEntries::default();
        for change in changes {
            match change {
                EditChange::Remove(key) => {
                    if touched.take(&mut next.entries, key).is_some() {
                        next.count(Op::Discard);
                    }
                }
                EditChange::Put { target, entry } => {
                    if let Some((position, _)) = touched.take(&mut next.entries, target) {
                        touched.put(&mut next.entries, position, entry.clone());
                        next.count(Op::Update);
                    }
                }
                EditChange::Append(entry) => {
                    let end = next.end_position_after_base();
                    touched.put(&mut next.entries, end, entry.clone());
                    next.count(Op::Import);
                }
            }
        }
        next.accepted(touched)
    }

    /// Returns the changed state if the touched entries violate no rule.
    pub(super) fn accepted(self, touched: TouchedEntries) -> Checked<Self> {
        let violations = touched.violations(&self.entries);
        if violations.is_empty() {
            return Ok(self);
        }
        Err(violations)
    }
}

/// Applies frames, in order, to the state before them. Fences change nothing.
///
/// The caller must have verified the chain of the frames, and loaded the snapshots to which their records refer.
///
/// # Errors
/// [`Error::Corrupt`] if a record can't be decoded or applied: a writer appends only records that can be applied.
pub fn replay<'a>(
    mut state: State,
    frames: impl IntoIterator<Item = &'a Frame>,
    loaded: &LoadedSnapshots,
) -> Result<State> {
    for frame in frames {
        state.replay_frame(frame, loaded)?;
    }
    Ok(state)
}

impl State {
    /// Applies one frame as [`replay`] does, and returns its records.
    ///
    /// # Errors
    /// As [`replay`]; the state is then between two records.
    pub fn replay_frame(&mut self, frame: &Frame, loaded: &LoadedSnapshots) -> Result<Vec<Record>> {
        if frame.kind() != FrameKind::Data {
            return Ok(Vec::new());
        }
        let object = format!("journal frame {} of stack {}", frame.slot(), self.lineage());
        let records = decode_records(&object, frame.payload())?;
        for record in &records {
            self.apply(record, loaded).map_err(|violations| {
                let reasons: Vec<String> = violations.iter().map(ToString::to_string).collect();
                Error::corrupt(
                    &object,
                    0,
                    format!("a record can't be applied: {}", reasons.join("; ")),
                )
            })?;
        }
        self.settle(frame.chain());
        Ok(records)
    }
}
