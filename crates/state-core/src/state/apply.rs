//! `apply`: one record, one change of state; `replay`: from a base and the frames after it to the state that they mean.

use super::check::Touched;
use super::{Checked, State, Unsettled, refuse};
use crate::counter::Serial;
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::journal::{
    DetachedRevision, Frame, FrameKind, Record, ResetBase, ResetCause, UpdateEnd, decode_records,
};
use crate::mutation::{Edit, EditChange, Op};
use crate::revision::RevisionId;
use crate::snapshot::{ForeignSerial, Snapshot};
use crate::update::UpdateInfo;
use crate::verify::{Rule, Violation};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Stored snapshots that records refer to, by digest: loaded by whoever does the I/O.
pub type Loaded = BTreeMap<Digest, Arc<Snapshot>>;

/// What a record did beside changing the state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// The result of a mutation broke these rules. It is kept on its pending operation.
    pub refused: Vec<Violation>,
}

impl State {
    /// Applies one record.
    ///
    /// # Errors
    /// All rules that it breaks; the state is as it was. The result of a mutation that ends is never refused in
    /// this way: what breaks a rule stays on the pending operation, and [`Applied::refused`] says why.
    pub fn apply(&mut self, record: &Record, loaded: &Loaded) -> Result<Applied, Vec<Violation>> {
        if self.reserves_against(record) {
            let mut next = self.clone();
            let applied = next.change(record, loaded)?;
            next.keep_room()?;
            *self = next;
            return Ok(applied);
        }
        self.change(record, loaded)
    }

    fn change(&mut self, record: &Record, loaded: &Loaded) -> Checked<Applied> {
        match record {
            Record::UpdateStart(update) => self.start_update(update)?,
            Record::Begin(begin) => self.begin(begin)?,
            Record::End(end) => return self.end(end),
            Record::Step(step) => self.step(step)?,
            Record::Resolve(resolve) => self.resolve(resolve)?,
            Record::RecordPlugin(plugin) => {
                self.require_update()?;
                self.add_plugin(plugin);
            }
            Record::SetOutputs(outputs) => {
                self.require_update()?;
                self.outputs = Arc::new(outputs.clone());
            }
            Record::ResetBase(rebase) => self.rebase(rebase, loaded)?,
            Record::Edit(edit) => self.edit(edit)?,
            Record::UpdateEnd(mark) => self.mark(mark)?,
            Record::DetachedRevision(stored) => self.stored(stored)?,
            Record::Forget(revision) => {
                self.forgotten.insert(revision.clone());
            }
            Record::Invalidate(invalidation) => {
                self.require_update()?;
                // The first stays: who comes later doesn't know either what became of what was done before.
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
        Ok(Applied::default())
    }

    /// Tells the chain after a frame whose records were applied. If the frame ended with a mark or a stored
    /// revision, its id comes back.
    pub fn settle(&mut self, chain: &Digest) -> Option<RevisionId> {
        match self.unsettled.take()? {
            Unsettled::Current(serial) => {
                let revision = RevisionId::new(serial, chain);
                self.current = Some(revision.clone());
                Some(revision)
            }
            Unsettled::Detached => Some(RevisionId::new(self.serial, chain)),
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
            // The manifest tells of the last update: its plugins are recorded anew.
            manifest.plugins.clear();
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

    fn mark(&mut self, mark: &UpdateEnd) -> Checked {
        self.require_update()?;
        self.next_serial(mark.serial)?;
        if mark.update.kind.is_driven() {
            let manifest = self.header_mut().manifest.get_or_insert_default();
            manifest.time.clone_from(&mark.update.end);
            manifest.version.clone_from(&mark.update.version);
        }
        self.update = None;
        self.unsettled = Some(Unsettled::Current(mark.serial));
        Ok(())
    }

    fn stored(&mut self, stored: &DetachedRevision) -> Checked {
        self.next_serial(stored.serial)?;
        self.unsettled = Some(Unsettled::Detached);
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

    fn rebase(&mut self, rebase: &ResetBase, loaded: &Loaded) -> Checked {
        self.require_update()?;
        let Some(snapshot) = loaded.get(&rebase.snapshot.digest) else {
            let detail = format!("{} was not loaded", rebase.snapshot.object());
            return refuse(Rule::Target, detail);
        };
        let mut next = self.clone();
        next.load_entries(&snapshot.entries, 0)
            .or_else(|reason| refuse(Rule::UniqueKey, reason))?;
        next.count_differences(self);
        next.take_header(snapshot);
        match &rebase.cause {
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
        let mut known: BTreeSet<_> = next.pending.iter().map(|operation| operation.id).collect();
        for operation in &rebase.pending {
            if known.insert(operation.id) {
                next.pending.push_back(Arc::new(operation.clone()));
            }
        }
        next.recent.push(rebase.id, true);
        *self = next;
        Ok(())
    }

    /// What replacing all of `before` by all of this did, as steps.
    fn count_differences(&mut self, before: &Self) {
        let mut counts = BTreeMap::from([(Op::Import, 0), (Op::Update, 0), (Op::Discard, 0)]);
        for entry in self.entries.iter() {
            match before.entries.get(&entry.key()) {
                None => *counts.entry(Op::Import).or_default() += 1,
                Some(old) if !entry.says_the_same_as(old) => *counts.entry(Op::Update).or_default() += 1,
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

    /// The state after changes by hand; nothing is recorded.
    ///
    /// # Errors
    /// All rules that they break.
    pub fn edited(&self, changes: &[EditChange]) -> Result<Self, Vec<Violation>> {
        let mut next = self.clone();
        let mut touched = Touched::default();
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
                    let end = next.behind_all();
                    touched.put(&mut next.entries, end, entry.clone());
                    next.count(Op::Import);
                }
            }
        }
        next.accepted(touched)
    }

    /// The changed state, if nothing that the change touched is broken.
    pub(super) fn accepted(self, touched: Touched) -> Checked<Self> {
        let violations = touched.violations(&self.entries);
        if violations.is_empty() {
            return Ok(self);
        }
        Err(violations)
    }
}

/// Applies frames, in order, to the state before them. Fences change nothing.
///
/// Whoever calls has checked that the frames are linked, and loaded the snapshots that they refer to.
///
/// # Errors
/// [`Error::Corrupt`] when a record doesn't apply: it would not have been acknowledged.
pub fn replay<'a>(
    mut state: State,
    frames: impl IntoIterator<Item = &'a Frame>,
    loaded: &Loaded,
) -> Result<State> {
    for frame in frames {
        if frame.kind() != FrameKind::Data {
            continue;
        }
        let object = format!("journal frame {} of stack {}", frame.slot(), state.lineage());
        for record in decode_records(&object, frame.payload())? {
            state.apply(&record, loaded).map_err(|violations| {
                let reasons: Vec<String> = violations.iter().map(ToString::to_string).collect();
                Error::corrupt(
                    &object,
                    0,
                    format!("a record doesn't apply: {}", reasons.join("; ")),
                )
            })?;
        }
        state.settle(frame.chain());
    }
    Ok(state)
}
