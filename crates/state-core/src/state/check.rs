//! The incremental check: selects the entries to check after a change, and looks up their references in the indexes
//! of a state for the rules of [`crate::verify`].
//!
//! Property tests compare it with the full verifier: both must agree on every state.

use super::index::{Entries, Position};
use crate::address::{Address, Dependency, EntryKey};
use crate::entry::Entry;
use crate::verify::entry_rules::{Lookup, provider_id, reference, unique_key, unique_uid};
use crate::verify::{self, Rule, Violation};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The maximum number of entries that are checked and reported for each changed target.
const NAMED: usize = 20;

/// The entries and targets that a change touched. They are checked when the change is complete.
#[derive(Debug, Default)]
pub(super) struct TouchedEntries {
    /// Entries that were inserted: their own references are checked.
    put: BTreeSet<EntryKey>,
    /// Addresses and groups whose members changed: entries that refer to them are checked.
    targets: BTreeSet<Dependency>,
    /// Addresses and ids of removed entries that may have been providers.
    provider_ids: BTreeSet<(Address, String)>,
    /// Violations that were found while the change was made.
    violations: Vec<Violation>,
}

impl TouchedEntries {
    pub(super) fn reject(&mut self, rule: Rule, key: &EntryKey, detail: &str) {
        self.violations.push(Violation::of(rule, key.clone(), detail));
    }

    fn touch(&mut self, entry: &Entry) {
        self.targets.insert(Dependency::Entry(entry.address.clone()));
        if let Some(group) = &entry.group {
            self.targets.insert(Dependency::Group(group.clone()));
        }
    }

    /// Removes an entry from `entries`. Adds a violation and returns `None` if the entry does not exist.
    pub(super) fn take(
        &mut self,
        entries: &mut Entries,
        key: &EntryKey,
    ) -> Option<(Position, crate::SharedEntry)> {
        let Some((position, entry)) = entries.take(key) else {
            self.reject(Rule::Target, key, "the resource does not exist");
            return None;
        };
        self.touch(&entry);
        if let Some(id) = &entry.id {
            self.provider_ids.insert((entry.address.clone(), id.clone()));
        }
        Some((position, entry))
    }

    /// Inserts an entry into `entries`. If another entry has its key or uid, adds a violation and inserts nothing.
    pub(super) fn put(&mut self, entries: &mut Entries, position: Position, entry: crate::SharedEntry) {
        let key = entry.key();
        if entries.position(&key).is_some() {
            self.violations.push(unique_key(key));
            return;
        }
        if let Some(violation) = uid_taken(entries, &entry) {
            self.violations.push(violation);
            return;
        }
        self.violations.extend(verify::verify_entry(&entry));
        self.touch(&entry);
        self.put.insert(key);
        entries.put(position, entry);
    }

    /// Replaces an entry by the result of `change`. Adds a violation if the entry does not exist.
    pub(super) fn replace(
        &mut self,
        entries: &mut Entries,
        key: &EntryKey,
        change: impl FnOnce(&Entry) -> Entry,
    ) {
        if let Some((position, old)) = self.take(entries, key) {
            self.put(entries, position, Arc::new(change(&old)));
        }
    }

    /// Returns all violations that the change causes.
    pub(super) fn violations(self, entries: &Entries) -> Vec<Violation> {
        let mut found = self.violations;
        for key in &self.put {
            if let (Some(entry), Some(position)) = (entries.get(key), entries.position(key)) {
                found.extend(unmet(entries, entry, position));
            }
        }
        // The inserted entries have been checked above. Of the other entries, only those that refer to a changed
        // target can be affected. Inserted entries are skipped before the limit `NAMED` applies, so that they don't use
        // it up.
        let others = |position| {
            let entry = entries.at(position)?;
            (!self.put.contains(&entry.key())).then_some((entry, position))
        };
        for target in &self.targets {
            let dependents = unmet_dependents(entries, target).filter_map(others).take(NAMED);
            found.extend(
                dependents.filter_map(|(entry, position)| lost_reference(entries, entry, position, target)),
            );
        }
        for (address, id) in &self.provider_ids {
            let first = entries.first_with_id(address, id);
            let managed = entries.managed_by(address, id);
            let unmet = managed.take_while(|position| first.is_none_or(|first| first >= *position));
            let managed = unmet.filter_map(others).take(NAMED);
            found.extend(managed.filter_map(|(entry, position)| provider_id(entries, entry, position)));
        }
        found
    }
}

/// Returns the violations that inserting an entry at `position` would cause, if no entry has its key.
pub(super) fn entry_violations(entries: &Entries, entry: &Entry, position: Position) -> Vec<Violation> {
    let mut found: Vec<Violation> = uid_taken(entries, entry).into_iter().collect();
    found.extend(verify::verify_entry(entry));
    found.extend(unmet(entries, entry, position));
    found
}

fn uid_taken(entries: &Entries, entry: &Entry) -> Option<Violation> {
    unique_uid(entry, entries.holder_of(entry.uid?)?)
}

/// Returns a violation for each reference of an entry that is not satisfied at `position`.
fn unmet(entries: &Entries, entry: &Entry, position: Position) -> impl Iterator<Item = Violation> {
    let references = entry.references();
    references
        .filter_map(move |edge| reference(entries, entry, position, &edge))
        .chain(provider_id(entries, entry, position))
}

/// Returns the positions of entries whose reference to `target` is not satisfied. Dependents are ordered by position,
/// so those with an unsatisfied reference come first.
fn unmet_dependents<'a>(entries: &'a Entries, target: &'a Dependency) -> impl Iterator<Item = Position> + 'a {
    let (limit, is_gone) = match target {
        Dependency::Entry(address) => {
            let first = entries.first_of(address);
            (first, first.is_none())
        }
        Dependency::Group(group) => (entries.last_member(group), false),
    };
    let dependents = entries.dependents(target);
    dependents.take_while(move |at| is_gone || limit.is_some_and(|limit| limit >= *at))
}

/// Returns the violation of an entry's reference to a changed target, if the reference is not satisfied.
fn lost_reference(
    entries: &Entries,
    entry: &Entry,
    position: Position,
    target: &Dependency,
) -> Option<Violation> {
    let mut references = entry.references().filter(|reference| reference.to == *target);
    let violation = references.find_map(|edge| reference(entries, entry, position, &edge))?;
    if violation.rule == Rule::ReferenceExists {
        // The target existed until this change, so the change removes it.
        let detail = format!("{target} would be removed, but is still referred to");
        return Some(Violation::of(Rule::StillReferenced, entry.key(), detail));
    }
    Some(violation)
}
