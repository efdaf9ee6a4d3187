//! The incremental verifier: after a change, looks only at what the change touched.
//!
//! The full verifier ([`crate::verify`]) judges it in property tests: both must agree on every state.

use super::index::{Entries, Position};
use crate::address::{Address, Dependency, EntryKey};
use crate::entry::{Entry, Reference};
use crate::verify::{self, Rule, Violation};
use std::collections::BTreeSet;

/// How many entries are named when many break one rule at once.
const NAMED: usize = 20;

/// What a change touched: to be checked when the change is complete.
#[derive(Debug, Default)]
pub(super) struct Touched {
    /// Entries that were put somewhere: their own references are checked.
    put: BTreeSet<EntryKey>,
    /// Addresses and groups whose members changed: those that refer to them are checked.
    targets: BTreeSet<Dependency>,
    /// Incarnations of providers that went.
    incarnations: BTreeSet<(Address, String)>,
    /// What was wrong already while the change was made.
    violations: Vec<Violation>,
}

impl Touched {
    pub(super) fn reject(&mut self, violation: Violation) {
        self.violations.push(violation);
    }

    fn touch(&mut self, entry: &Entry) {
        self.targets.insert(Dependency::Entry(entry.address.clone()));
        if let Some(group) = &entry.group {
            self.targets.insert(Dependency::Group(group.clone()));
        }
    }

    /// Takes an entry out of `entries`; a violation if it isn't there.
    pub(super) fn take(
        &mut self,
        entries: &mut Entries,
        key: &EntryKey,
    ) -> Option<(Position, crate::SharedEntry)> {
        let Some((position, entry)) = entries.take(key) else {
            self.reject(Violation::of(Rule::Target, key.clone(), "there is no such entry"));
            return None;
        };
        self.touch(&entry);
        if let Some(id) = &entry.id {
            self.incarnations.insert((entry.address.clone(), id.clone()));
        }
        Some((position, entry))
    }

    /// Puts an entry into `entries`; a violation if its key or uid is taken.
    pub(super) fn put(&mut self, entries: &mut Entries, position: Position, entry: crate::SharedEntry) {
        let key = entry.key();
        if entries.position(&key).is_some() {
            self.reject(Violation::of(
                Rule::UniqueKey,
                key,
                "an entry with this key is there already",
            ));
            return;
        }
        if let Some(violation) = uid_taken(entries, &entry) {
            self.reject(violation);
            return;
        }
        self.violations.extend(verify::verify_entry(&entry));
        self.touch(&entry);
        self.put.insert(key);
        entries.put(position, entry);
    }

    /// All that the change broke.
    pub(super) fn violations(self, entries: &Entries) -> Vec<Violation> {
        let mut found = self.violations;
        for key in &self.put {
            if let (Some(entry), Some(position)) = (entries.get(key), entries.position(key)) {
                found.extend(unmet(entries, entry, position));
            }
        }
        for target in &self.targets {
            orphans(entries, target, &self.put, &mut found);
        }
        for (address, id) in &self.incarnations {
            let first = entries.first_with_id(address, id);
            for position in entries.managed_by(address, id).take(NAMED) {
                if first.is_none_or(|first| first >= position) {
                    report(entries, position, &self.put, &mut found, |key| {
                        Violation::of(
                            Rule::ProviderId,
                            key,
                            format!("its provider {address} with this id would go"),
                        )
                    });
                }
            }
        }
        found
    }
}

/// What an entry breaks by itself if it is put at `position`, where it takes nobody's place.
pub(super) fn faults(entries: &Entries, entry: &Entry, position: Position) -> Vec<Violation> {
    let mut found: Vec<Violation> = uid_taken(entries, entry).into_iter().collect();
    found.extend(verify::verify_entry(entry));
    found.extend(unmet(entries, entry, position));
    found
}

fn uid_taken(entries: &Entries, entry: &Entry) -> Option<Violation> {
    let other = entries.holder_of(entry.uid?)?;
    let detail = format!("its uid is that of {}", other.key());
    Some(Violation::of(Rule::UniqueUid, entry.key(), detail))
}

/// The references of an entry that would not be met if it stood at `position`.
pub(super) fn unmet(entries: &Entries, entry: &Entry, position: Position) -> Vec<Violation> {
    let key = entry.key();
    let mut found: Vec<Violation> = entry
        .references()
        .filter_map(|reference| unmet_reference(entries, entry, position, &reference))
        .collect();
    if let Some(provider) = entry.provider.as_ref().filter(|_| !entry.pending_replacement)
        && let Some(id) = &provider.id
        && entries
            .first_of(&provider.address)
            .is_some_and(|first| first < position)
        && entries
            .first_with_id(&provider.address, id)
            .is_none_or(|first| first >= position)
    {
        let detail = format!(
            "no incarnation of its provider {} with the id it names stands earlier",
            provider.address
        );
        found.push(Violation::of(Rule::ProviderId, key, detail));
    }
    found
}

fn unmet_reference(
    entries: &Entries,
    entry: &Entry,
    position: Position,
    reference: &Reference,
) -> Option<Violation> {
    let Reference { field, to } = reference;
    let violation = |rule, what: &str| Some(Violation::of(rule, entry.key(), format!("{field} {to} {what}")));
    match to {
        Dependency::Entry(address) => match entries.first_of(address) {
            None => violation(Rule::ReferenceExists, "is not there"),
            Some(first) if first >= position => violation(Rule::ReferenceEarlier, "doesn't stand earlier"),
            Some(_) => None,
        },
        Dependency::Group(group) => {
            let own = entry.is_live() && entry.group.as_ref() == Some(group);
            let late = entries.last_member(group).is_some_and(|last| last >= position);
            if own || late {
                violation(Rule::ReferenceEarlier, "has a member that doesn't stand earlier")
            } else {
                None
            }
        }
    }
}

/// Those that refer to a changed target and are not met any more.
fn orphans(entries: &Entries, target: &Dependency, put: &BTreeSet<EntryKey>, found: &mut Vec<Violation>) {
    match target {
        Dependency::Entry(address) => {
            let first = entries.first_of(address);
            let broken = entries
                .dependents(target)
                .take_while(|at| first.is_none_or(|first| first >= *at));
            for position in broken.take(NAMED) {
                let (rule, what) = match first {
                    None => (Rule::StillReferenced, "would go, but is still referred to"),
                    Some(_) => (Rule::ReferenceEarlier, "would come later"),
                };
                report(entries, position, put, found, |key| {
                    Violation::of(rule, key, format!("{target} {what}"))
                });
            }
        }
        Dependency::Group(group) => {
            let last = entries.last_member(group);
            let broken = entries
                .dependents(target)
                .take_while(|at| last.is_some_and(|last| last >= *at));
            for position in broken.take(NAMED) {
                report(entries, position, put, found, |key| {
                    Violation::of(
                        Rule::ReferenceEarlier,
                        key,
                        format!("{target} would get a member that comes later"),
                    )
                });
            }
        }
    }
}

/// Adds a violation of the entry at `position`, unless that entry was put itself: then it was checked already.
fn report(
    entries: &Entries,
    position: Position,
    put: &BTreeSet<EntryKey>,
    found: &mut Vec<Violation>,
    violation: impl FnOnce(EntryKey) -> Violation,
) {
    if let Some(entry) = entries.at(position)
        && !put.contains(&entry.key())
    {
        found.push(violation(entry.key()));
    }
}
