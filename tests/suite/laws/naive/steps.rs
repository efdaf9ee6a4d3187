//! The effect of step records and of edits on the naive state.

use super::rules::{is_distinct, is_whole};
use super::{Change, Naive, Place, RuleViolation, require};
use state_core::mutation::{Edit, EditChange, Step, StepChange};
use state_core::{Address, Dependency, Entry, EntryKey, SharedEntry};
use std::sync::Arc;

impl Naive {
    /// Applies a step record.
    pub(super) fn step(&mut self, step: &Step) -> Change {
        self.ended.insert(step.id);
        match &step.change {
            StepChange::Same(entry) => {
                let key = entry.key();
                require(matches!(self.place(&key), Some(Place::Base(_))))?;
                let old = self.remove(&key).ok_or(RuleViolation)?;
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
                let old = self.get(target).ok_or(RuleViolation)?;
                let seen = Entry {
                    uid: old.uid,
                    address: old.address.clone(),
                    deposed: old.deposed.clone(),
                    ..Entry::clone(entry)
                };
                self.set(target, seen);
            }
            StepChange::Refresh { target, entry: None } => self.remove_missing(target)?,
            StepChange::RemovePendingReplace(target) => {
                require(self.get(target).is_some_and(|old| old.pending_replacement))?;
                self.remove(target);
            }
            StepChange::Outputs {
                target,
                outputs,
                sensitive,
            } => {
                let mut old = Entry::clone(&*self.get(target).ok_or(RuleViolation)?);
                old.outputs = Some(outputs.clone());
                old.sensitive_outputs.clone_from(sensitive);
                self.set(target, old);
            }
            other => unreachable!("not in the table: {other:?}"),
        }
        Ok(())
    }

    /// Records live entries as they are.
    pub(super) fn unchanged(&mut self, addresses: &[Address]) -> Change {
        for address in addresses {
            let key = EntryKey::live(address.clone());
            require(matches!(self.place(&key), Some(Place::Base(_))))?;
            let entry = self.remove(&key).ok_or(RuleViolation)?;
            self.new.push(entry);
        }
        Ok(())
    }

    /// Removes an entry whose object is missing, and removes or redirects the references to it.
    ///
    /// Another entry keeps its references to the removed address if another generation of that address, live or
    /// deposed, precedes the entry; otherwise it loses them, and the parent of the removed entry becomes the parent of
    /// its children. A resource of a removed provider keeps its provider if a generation of the provider with the same
    /// id precedes the resource; otherwise it loses the provider.
    fn remove_missing(&mut self, target: &EntryKey) -> Change {
        let gone = self.remove(target).ok_or(RuleViolation)?;
        let name = &gone.address;
        let list = self.entries();
        let twin = list.iter().position(|entry| entry.address == *name);
        let same = |entry: &SharedEntry| entry.address == *name && entry.id == gone.id;
        let same = list.iter().position(same);
        let visible = self.base.iter_mut().enumerate();
        let visible = visible
            .filter(|(place, _)| !self.done.contains(place))
            .map(|(_, entry)| entry);
        for (at, entry) in self.new.iter_mut().chain(visible).enumerate() {
            let is_before = |other: Option<usize>| other.is_none_or(|other| at <= other);
            let mut pruned = Entry::clone(entry);
            if is_before(twin) {
                prune(&mut pruned, &gone);
            }
            if gone.id.is_some() && is_before(same) {
                let provider = pruned.provider.into_inner();
                pruned.provider = provider
                    .filter(|provider| provider.address != *name || provider.id != gone.id)
                    .into();
            }
            *entry = pruned.into();
        }
        Ok(())
    }

    /// Applies the changes of an edit in their order. Keys and uids must be unique after each change.
    pub(super) fn edit(&mut self, edit: &Edit) -> Change {
        self.ended.insert(edit.id);
        for change in &edit.changes {
            match change {
                EditChange::Remove(key) => {
                    self.remove(key).ok_or(RuleViolation)?;
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
            require(is_distinct(&self.entries()))?;
        }
        Ok(())
    }
}

/// Removes all references of an entry to the address of the removed entry `gone`. A child of `gone` becomes a child of
/// its parent.
fn prune(entry: &mut Entry, gone: &Entry) {
    let name = &gone.address;
    let reference = Dependency::Entry(name.clone());
    entry.depends_on.retain(|to| *to != reference);
    entry.property_dependencies.retain(|_, list| {
        let named = list.contains(&reference);
        list.retain(|to| *to != reference);
        !(named && list.is_empty())
    });
    entry.replace_with.retain(|to| to != name);
    *entry.deleted_with = entry.deleted_with.take().filter(|to| to != name);
    *entry.provider = entry.provider.take().filter(|provider| provider.address != *name);
    if entry.parent.as_ref() == Some(name) {
        entry.parent.clone_from(&gone.parent);
    }
}
