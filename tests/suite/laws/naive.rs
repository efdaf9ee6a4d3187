//! The merge again, as seed 004 says it: a base list, a list of what the update recorded, and the set of what is
//! done; `snapshot = new ++ (base − done)`. Written from the table in [`state_core::mutation`], list by list, and
//! judged as a whole after each record: no index, no position, no incremental check.

mod difference;
mod judge;
mod lists;

use judge::{is_sound, is_whole, stands};
use state_core::journal::{RebaseCause, Record};
use state_core::mutation::{
    Begin, Edit, EditChange, End, Resolution, Resolve, StackOutputs, Step, StepChange,
};
use state_core::pending::RefusedResult;
use state_core::snapshot::Plugin;
use state_core::state::Loaded;
use state_core::{
    Dependency, DeposedKey, Entry, EntryKey, MutationId, Op, Outcome, PendingOperation, SharedEntry,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What becomes of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It took effect.
    Accepted,
    /// It changed nothing.
    Refused,
    /// What came back breaks a rule: it waits on its pending operation.
    Kept,
}

/// A stack as three lists.
#[derive(Clone, Debug, Default)]
pub(crate) struct Naive {
    base: Vec<SharedEntry>,
    done: BTreeSet<usize>,
    new: Vec<SharedEntry>,
    pending: Vec<PendingOperation>,
    ended: BTreeSet<MutationId>,
    update_open: bool,
    serial: u64,
    outputs: StackOutputs,
    /// Those of the last update that a program drove.
    plugins: BTreeSet<Plugin>,
}

/// Where an entry stands.
#[derive(Clone, Copy)]
enum Place {
    New(usize),
    Base(usize),
}

/// Against a rule.
struct Broken;

type Change = Result<(), Broken>;

impl Naive {
    /// `new ++ (base − done)`.
    pub(crate) fn entries(&self) -> Vec<SharedEntry> {
        let mut list = self.new.clone();
        for (place, entry) in self.base.iter().enumerate() {
            if !self.done.contains(&place) {
                list.push(entry.clone());
            }
        }
        list
    }

    /// What happens when this record comes.
    pub(crate) fn apply(&mut self, record: &Record, loaded: &Loaded) -> Verdict {
        if let Record::End(end) = record {
            return self.end(end);
        }
        let mut next = self.clone();
        match next.change(record, loaded) {
            Ok(()) => {
                *self = next;
                Verdict::Accepted
            }
            Err(Broken) => Verdict::Refused,
        }
    }

    fn change(&mut self, record: &Record, loaded: &Loaded) -> Change {
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
            Record::Mark(mark) => {
                require(self.update_open && mark.serial.get() == self.serial + 1)?;
                self.serial += 1;
                self.update_open = false;
            }
            Record::Stored(stored) => {
                require(stored.serial.get() == self.serial + 1)?;
                self.serial += 1;
            }
            Record::Forget(_) | Record::Checkpoint(_) => {}
            other => {
                require(self.update_open)?;
                self.change_within_update(other, loaded)?;
            }
        }
        require(is_sound(&self.entries()))
    }

    fn change_within_update(&mut self, record: &Record, loaded: &Loaded) -> Change {
        match record {
            Record::Begin(begin) => self.begin(begin)?,
            Record::Step(step) => self.step(step)?,
            Record::Resolve(resolve) => self.resolve(resolve)?,
            Record::Edit(edit) => self.edit(edit)?,
            Record::RecordPlugin(plugin) => {
                self.plugins.insert(plugin.clone());
            }
            Record::SetOutputs(outputs) => self.outputs = outputs.clone(),
            Record::Rebase(rebase) => {
                let snapshot = loaded.get(&rebase.snapshot.digest).ok_or(Broken)?;
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
                    RebaseCause::Import { .. } | RebaseCause::Restore { .. }
                ))?;
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
            (Op::Update | Op::Delete | Op::Discard, None) => return Err(Broken),
            (Op::Delete, Some(old)) => {
                let excused = *tombstone || !target.is_live();
                require(!old.protect || excused)?;
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
        match entry {
            Some(entry) => {
                let all = self.entries();
                let (before, after) = all.split_at(self.new.len());
                require(is_whole(entry) && stands(entry, before, after))?;
            }
            None => {
                let mut done = self.clone();
                done.take_effect(&operation, None, Outcome::Succeeded, &[], None)?;
            }
        }
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
            Err(Broken) => {
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
        let operation = self.pending.remove(place.ok_or(Broken)?);
        self.ended.insert(resolve.id);
        match &resolve.resolution {
            Resolution::Done(entry) => {
                let stood = self
                    .place(&operation.target)
                    .filter(|_| operation.deposes.is_none());
                self.take_effect(&operation, entry.as_ref(), Outcome::Succeeded, &[], Some(stood))
            }
            _ => Ok(()),
        }
    }

    /// The columns `success` and `partial` of the table. What is settled by hand stands where the entry before it
    /// stood, or at the very end.
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
            let old = old.ok_or(Broken)?;
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
            return require(is_sound(&self.entries()));
        }
        let entry = entry.ok_or(Broken)?;
        require(entry.key() == *target)?;
        let mut recorded = Entry::clone(entry);
        recorded.init_errors = reasons.to_vec();
        recorded.pending_replacement = false;
        match (operation.op, old) {
            (Op::Update, None) => return Err(Broken),
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
        require(is_sound(&self.entries()))
    }

    /// A tombstone goes; a live entry becomes deposed where it stands.
    fn make_way(&mut self, old: &SharedEntry, deposes: Option<&DeposedKey>) -> Change {
        if old.pending_replacement {
            self.remove(&old.key());
            return Ok(());
        }
        let deposed = Some(deposes.ok_or(Broken)?.clone());
        self.set(
            &old.key(),
            Entry {
                deposed,
                ..Entry::clone(old)
            },
        );
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Change {
        self.ended.insert(step.id);
        match &step.change {
            StepChange::Same(entry) => {
                let key = entry.key();
                require(matches!(self.place(&key), Some(Place::Base(_))))?;
                let old = self.remove(&key).ok_or(Broken)?;
                let uid = old.uid;
                self.new.push(Arc::new(Entry {
                    uid,
                    ..Entry::clone(entry)
                }));
            }
            StepChange::Replace(target) => require(self.get(target).is_some())?,
            StepChange::Refresh {
                target,
                entry: Some(entry),
            } => {
                let old = self.get(target).ok_or(Broken)?;
                let seen = Entry {
                    uid: old.uid,
                    address: old.address.clone(),
                    deposed: old.deposed.clone(),
                    ..Entry::clone(entry)
                };
                self.set(target, seen);
            }
            StepChange::Refresh { target, entry: None } => self.gone(target)?,
            StepChange::RemovePendingReplace(target) => {
                require(self.get(target).is_some_and(|old| old.pending_replacement))?;
                self.remove(target);
            }
            StepChange::Outputs {
                target,
                outputs,
                sensitive,
            } => {
                let mut old = Entry::clone(&*self.get(target).ok_or(Broken)?);
                old.outputs = Some(outputs.clone());
                old.sensitive_outputs.clone_from(sensitive);
                self.set(target, old);
            }
            other => unreachable!("not in the table: {other:?}"),
        }
        Ok(())
    }

    /// What referred to the last entry of an address does so no more; a child moves to the nearest ancestor.
    fn gone(&mut self, target: &EntryKey) -> Change {
        let gone = self.remove(target).ok_or(Broken)?;
        let name = &gone.address;
        if self.entries().iter().any(|entry| entry.address == *name) {
            return Ok(());
        }
        let reference = Dependency::Entry(name.clone());
        for entry in self.new.iter_mut().chain(&mut self.base) {
            let mut pruned = Entry::clone(entry);
            pruned.depends_on.retain(|to| *to != reference);
            pruned.property_dependencies.retain(|_, list| {
                let named = list.contains(&reference);
                list.retain(|to| *to != reference);
                !(named && list.is_empty())
            });
            pruned.replace_with.retain(|to| to != name);
            pruned.deleted_with = pruned.deleted_with.filter(|to| to != name);
            pruned.provider = pruned.provider.filter(|provider| provider.address != *name);
            if pruned.parent.as_ref() == Some(name) {
                pruned.parent.clone_from(&gone.parent);
            }
            *entry = pruned.into();
        }
        Ok(())
    }

    fn edit(&mut self, edit: &Edit) -> Change {
        self.ended.insert(edit.id);
        for change in &edit.changes {
            match change {
                EditChange::Remove(key) => {
                    self.remove(key).ok_or(Broken)?;
                }
                EditChange::Put { target, entry } => {
                    require(self.get(target).is_some() && is_whole(entry))?;
                    self.set(target, Entry::clone(entry));
                }
                EditChange::Append(entry) => {
                    require(is_whole(entry))?;
                    self.base.push(entry.clone());
                }
                other => unreachable!("not in the table: {other:?}"),
            }
            require(judge::is_distinct(&self.entries()))?;
        }
        Ok(())
    }
}

fn require(holds: bool) -> Change {
    if holds { Ok(()) } else { Err(Broken) }
}
