//! A simple reference implementation of the merge, as an oracle.
//!
//! It has a list of base entries, a list of the entries that the update recorded, and the set of base entries that are
//! done: `snapshot = new ++ (base − done)`. It implements the table in [`state_core::mutation`] with plain lists, and
//! checks the whole state after each record. It has none of the indices and incremental checks of the code under test.

mod rules;
mod steps;

use rules::is_valid;
use state_core::journal::{Record, ResetCause};
use state_core::mutation::{Begin, End, Resolution, Resolve, StackOutputs};
use state_core::pending::RefusedResult;
use state_core::snapshot::{Invalidation, Plugin};
use state_core::state::LoadedSnapshots;
use state_core::{
    DeposedKey, Entry, EntryKey, MutationId, Op, Outcome, PendingOperation, SharedEntry, State, Timestamp,
    codec,
};
use std::collections::BTreeSet;

/// The effect of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The record changed the state.
    Accepted,
    /// The record was refused and changed nothing.
    Refused,
    /// The record is the end of an operation whose result violates a rule. The result is kept with the pending
    /// operation.
    Kept,
}

/// The content of a stack as plain lists.
#[derive(Clone, Debug, Default)]
pub(crate) struct Naive {
    /// The entries at the start of the last update. A later `ResetBase` record replaces them by those of its snapshot.
    base: Vec<SharedEntry>,
    /// The indices in `base` of the entries that the update recorded or removed.
    done: BTreeSet<usize>,
    /// The entries that the update recorded, in the order of the records.
    new: Vec<SharedEntry>,
    pending: Vec<PendingOperation>,
    /// The first record that marked the state as unreliable; `None` if no record did, or if a later record cleared the
    /// mark.
    invalidation: Option<Invalidation>,
    /// The ids of ended, resolved and directly recorded mutations, which no begin may use again.
    ended: BTreeSet<MutationId>,
    update_open: bool,
    serial: u64,
    outputs: StackOutputs,
    /// The plugins that were recorded since the start of the last update of a driven kind
    /// ([`is_driven`](state_core::UpdateKind::is_driven)).
    plugins: BTreeSet<Plugin>,
}

/// The list and the index of an entry.
#[derive(Clone, Copy)]
enum Place {
    New(usize),
    Base(usize),
}

/// A change that violates a rule.
struct RuleViolation;

type Change = Result<(), RuleViolation>;

impl Naive {
    /// Returns the entries of the state: `new ++ (base − done)`.
    pub(crate) fn entries(&self) -> Vec<SharedEntry> {
        let mut list = self.new.clone();
        for (place, entry) in self.base.iter().enumerate() {
            if !self.done.contains(&place) {
                list.push(entry.clone());
            }
        }
        list
    }

    /// Applies a record, and returns its effect. `loaded` contains the snapshots that the record may refer to.
    pub(crate) fn apply(&mut self, record: &Record, loaded: &LoadedSnapshots) -> Verdict {
        if let Record::End(end) = record {
            return self.end(end);
        }
        let mut next = self.clone();
        match next.change(record, loaded) {
            Ok(()) => {
                *self = next;
                Verdict::Accepted
            }
            Err(RuleViolation) => Verdict::Refused,
        }
    }

    /// Applies any record except the end of an operation, and checks the whole state.
    fn change(&mut self, record: &Record, loaded: &LoadedSnapshots) -> Change {
        match record {
            Record::UpdateStart(update) => {
                require(!self.update_open)?;
                if update.kind.is_driven() {
                    self.plugins.clear();
                }
                self.base = self.entries();
                self.new.clear();
                self.done.clear();
                self.update_open = true;
            }
            Record::UpdateEnd(mark) => {
                require(self.update_open && mark.serial.get() == self.serial + 1)?;
                self.serial += 1;
                self.update_open = false;
            }
            Record::DetachedRevision(stored) => {
                require(stored.serial.get() == self.serial + 1)?;
                self.serial += 1;
            }
            Record::Forget(_) | Record::Checkpoint(_) => {}
            other => {
                require(self.update_open)?;
                self.change_within_update(other, loaded)?;
            }
        }
        require(is_valid(&self.entries()))
    }

    /// Applies a record that is valid only while an update is open.
    fn change_within_update(&mut self, record: &Record, loaded: &LoadedSnapshots) -> Change {
        match record {
            Record::Begin(begin) => self.begin(begin)?,
            Record::Step(step) => self.step(step)?,
            Record::Unchanged(addresses) => self.unchanged(addresses)?,
            Record::Resolve(resolve) => self.resolve(resolve)?,
            Record::Edit(edit) => self.edit(edit)?,
            Record::RecordPlugin(plugin) => {
                self.plugins.insert(plugin.clone());
            }
            Record::Invalidate(invalidation) => {
                self.invalidation = self.invalidation.take().or_else(|| Some(invalidation.clone()));
            }
            Record::Validate(_) => self.invalidation = None,
            Record::SetOutputs(outputs) => self.outputs = outputs.clone(),
            Record::ResetBase(rebase) => {
                let snapshot = loaded.get(&rebase.snapshot.digest).ok_or(RuleViolation)?;
                self.base.clone_from(&snapshot.entries);
                self.new.clear();
                self.done.clear();
                self.outputs = StackOutputs {
                    values: snapshot.outputs.clone(),
                    sensitive: snapshot.sensitive_outputs.clone(),
                };
                let manifest = snapshot.manifest.iter();
                self.plugins = manifest.flat_map(|manifest| manifest.plugins.clone()).collect();
                require(matches!(
                    rebase.cause,
                    ResetCause::Import { .. } | ResetCause::Restore { .. }
                ))?;
                for operation in &rebase.pending {
                    if !self.pending.iter().any(|known| known.id == operation.id) {
                        self.pending.push(without_violations(operation));
                    }
                }
                self.ended.insert(rebase.id);
            }
            other => unreachable!("not a record of an update: {other:?}"),
        }
        Ok(())
    }

    fn begin(&mut self, begin: &Begin) -> Change {
        let Begin {
            id,
            op,
            target,
            entry,
            deposes,
            tombstone,
            at,
        } = begin;
        require(!self.ended.contains(id) && self.pending.iter().all(|p| p.id != *id))?;
        require(self.pending.iter().all(|p| p.target != *target))?;
        let old = self.get(target);
        let removes = matches!(op, Op::Delete | Op::Discard);
        require(op.has_begin())?;
        require(entry.is_some() != removes)?;
        require(entry.as_ref().is_none_or(|entry| entry.key() == *target))?;
        match (op, &old) {
            (Op::Create | Op::Import, None) => require(deposes.is_none())?,
            (Op::Create | Op::Import, Some(old)) => require(deposes.is_some() || old.pending_replacement)?,
            (Op::Update | Op::Delete | Op::Discard, None) => return Err(RuleViolation),
            (Op::Delete, Some(old)) => {
                require(!old.protect || !target.is_live())?;
            }
            _ => {}
        }
        let operation = PendingOperation {
            id: *id,
            op: *op,
            target: target.clone(),
            entry: entry.clone(),
            deposes: deposes.clone(),
            tombstone: *tombstone,
            begun: at.clone(),
            result: None,
        };
        // A begin is refused if the success of its operation would violate a rule.
        let mut done = self.clone();
        done.take_effect(&operation, entry.as_ref(), Outcome::Succeeded, &[], None)?;
        self.pending.push(operation);
        Ok(())
    }

    fn end(&mut self, end: &End) -> Verdict {
        let Some(place) = self.pending.iter().position(|p| p.id == end.id) else {
            return Verdict::Refused;
        };
        self.ended.insert(end.id);
        let operation = self.pending[place].clone();
        if end.outcome == Outcome::Failed {
            self.pending.remove(place);
            return Verdict::Accepted;
        }
        let mut next = self.clone();
        match next.take_effect(&operation, end.entry.as_ref(), end.outcome, &end.reasons, None) {
            Ok(()) => {
                next.pending.remove(place);
                *self = next;
                Verdict::Accepted
            }
            Err(RuleViolation) => {
                self.pending[place].result = Some(RefusedResult {
                    outcome: end.outcome,
                    entry: end.entry.clone(),
                    violations: Vec::new(),
                });
                Verdict::Kept
            }
        }
    }

    fn resolve(&mut self, resolve: &Resolve) -> Change {
        let place = self.pending.iter().position(|p| p.id == resolve.id);
        let operation = self.pending.remove(place.ok_or(RuleViolation)?);
        self.ended.insert(resolve.id);
        match &resolve.resolution {
            Resolution::Done(entry) => {
                let old_place = self
                    .place(&operation.target)
                    .filter(|_| operation.deposes.is_none());
                // An entry with `init_errors`, the reasons why it is incomplete, resolves the operation as partly done.
                let reasons = entry.as_ref().map_or(&[][..], |entry| &entry.init_errors);
                let outcome = match reasons {
                    [] => Outcome::Succeeded,
                    _ => Outcome::Partial,
                };
                self.take_effect(&operation, entry.as_ref(), outcome, reasons, Some(old_place))
            }
            _ => Ok(()),
        }
    }

    /// Applies the result of an operation, as the columns `success` and `partial` of the table in
    /// [`state_core::mutation`] define.
    ///
    /// `by_hand` is `None` for an end: the resulting entry is appended to `new`. For a resolution, `by_hand` contains
    /// the place of the old entry, which the result replaces. If the old entry has no place, `by_hand` is `Some(None)`,
    /// and the result is appended to `base`.
    fn take_effect(
        &mut self,
        operation: &PendingOperation,
        entry: Option<&SharedEntry>,
        outcome: Outcome,
        reasons: &[String],
        by_hand: Option<Option<Place>>,
    ) -> Change {
        let target = &operation.target;
        let old = self.get(target);
        let partial = outcome == Outcome::Partial;
        let reasons = if partial { reasons } else { &[] };
        if matches!(operation.op, Op::Delete | Op::Discard) {
            require(entry.is_none())?;
            let old = old.ok_or(RuleViolation)?;
            let mut kept = Entry::clone(&old);
            if partial {
                kept.init_errors = reasons.to_vec();
                self.set(target, kept);
            } else if operation.tombstone {
                kept.pending_replacement = true;
                self.set(target, kept);
            } else {
                self.remove(target);
            }
            return require(is_valid(&self.entries()));
        }
        let entry = entry.ok_or(RuleViolation)?;
        require(entry.key() == *target)?;
        let mut recorded = Entry::clone(entry);
        recorded.init_errors = reasons.to_vec();
        recorded.pending_replacement = false;
        match (operation.op, old) {
            (Op::Update, None) => return Err(RuleViolation),
            (Op::Update | Op::Read, Some(old)) => {
                recorded.uid = old.uid.or(entry.uid);
                if partial && operation.op == Op::Update {
                    recorded.inputs.clone_from(&old.inputs);
                    recorded.sensitive_inputs.clone_from(&old.sensitive_inputs);
                }
                self.remove(target);
            }
            (Op::Create | Op::Import, Some(old)) => self.make_way(&old, operation.deposes.as_ref())?,
            _ => {}
        }
        match by_hand {
            None => self.new.push(recorded.into()),
            Some(None) => self.base.push(recorded.into()),
            Some(Some(Place::New(place))) => self.new.insert(place, recorded.into()),
            Some(Some(Place::Base(place))) => {
                self.done.remove(&place);
                self.base[place] = recorded.into();
            }
        }
        require(is_valid(&self.entries()))
    }

    /// Makes room for a new entry under the key of `old`. Removes `old` if it is a tombstone (an entry that is pending
    /// replacement). Otherwise deposes `old` in place under the key `deposes`, and returns a violation if `deposes` is
    /// `None`.
    fn make_way(&mut self, old: &SharedEntry, deposes: Option<&DeposedKey>) -> Change {
        if old.pending_replacement {
            self.remove(&old.key());
            return Ok(());
        }
        let deposed = Some(deposes.ok_or(RuleViolation)?.clone());
        self.set(
            &old.key(),
            Entry {
                deposed,
                ..Entry::clone(old)
            },
        );
        Ok(())
    }

    /// Returns the place of an entry; `None` if the state has no entry with this key.
    fn place(&self, key: &EntryKey) -> Option<Place> {
        if let Some(place) = self.new.iter().position(|entry| entry.key() == *key) {
            return Some(Place::New(place));
        }
        let left = |place: usize| !self.done.contains(&place);
        (0..self.base.len())
            .find(|place| left(*place) && self.base[*place].key() == *key)
            .map(Place::Base)
    }

    fn get(&self, key: &EntryKey) -> Option<SharedEntry> {
        self.place(key).map(|place| match place {
            Place::New(place) => self.new[place].clone(),
            Place::Base(place) => self.base[place].clone(),
        })
    }

    /// Removes an entry and returns it.
    fn remove(&mut self, key: &EntryKey) -> Option<SharedEntry> {
        let old = self.get(key);
        match self.place(key)? {
            Place::New(place) => {
                self.new.remove(place);
            }
            Place::Base(place) => {
                self.done.insert(place);
            }
        }
        old
    }

    /// Replaces an entry in place; does nothing if no entry has this key.
    fn set(&mut self, key: &EntryKey, entry: Entry) {
        match self.place(key) {
            Some(Place::New(place)) => self.new[place] = entry.into(),
            Some(Place::Base(place)) => self.base[place] = entry.into(),
            None => {}
        }
    }

    /// Describes the first difference between a state and this model; `None` if they are equal.
    pub(crate) fn difference(&self, state: &State) -> Option<String> {
        let keys = |entries: &[SharedEntry]| -> Vec<String> {
            entries.iter().map(|entry| entry.key().to_string()).collect()
        };
        let (mine, theirs) = (self.entries(), state.entries().cloned().collect::<Vec<_>>());
        if keys(&mine) != keys(&theirs) {
            return Some(format!("the order is {:?}, not {:?}", keys(&theirs), keys(&mine)));
        }
        for (mine, theirs) in mine.iter().zip(&theirs) {
            if mine != theirs {
                let (mine, theirs) = (codec::entry_text(mine), codec::entry_text(theirs));
                return Some(format!("the entry is {theirs}, not {mine}"));
            }
            let recorded = self.new.iter().any(|entry| entry.key() == mine.key());
            if state.is_recorded(&theirs.key()) != recorded {
                return Some(format!("`is_recorded` of {} is {}", mine.key(), !recorded));
            }
        }
        let pending: Vec<PendingOperation> = state.pending().map(without_violations).collect();
        if pending != self.pending {
            return Some(format!(
                "the pending operations are {pending:#?}, not {:#?}",
                self.pending
            ));
        }
        if state.invalidated() != self.invalidation.as_ref() {
            return Some(format!(
                "the invalidation is {:?}, not {:?}",
                state.invalidated(),
                self.invalidation
            ));
        }
        if state.is_reliable() != (self.pending.is_empty() && self.invalidation.is_none()) {
            return Some(format!("`is_reliable` is {}", state.is_reliable()));
        }
        let manifest = state
            .snapshot("", Timestamp::new(""))
            .manifest
            .unwrap_or_default();
        if !manifest.plugins.iter().eq(&self.plugins) {
            return Some(format!(
                "the plugins are {:?}, not {:?}",
                manifest.plugins, self.plugins
            ));
        }
        let rest = (state.update().is_some(), state.serial().get(), state.outputs());
        if rest != (self.update_open, self.serial, &self.outputs) {
            return Some(format!(
                "whether an update is open, the serial and the outputs are {rest:?}, not {:?}",
                (self.update_open, self.serial, &self.outputs)
            ));
        }
        None
    }
}

/// Returns a pending operation without its violations: their messages are defined only by the code under test.
fn without_violations(operation: &PendingOperation) -> PendingOperation {
    let mut operation = operation.clone();
    if let Some(result) = &mut operation.result {
        assert!(
            !result.violations.is_empty(),
            "a refused result must have violations"
        );
        result.violations.clear();
    }
    operation
}

fn require(holds: bool) -> Change {
    if holds { Ok(()) } else { Err(RuleViolation) }
}
