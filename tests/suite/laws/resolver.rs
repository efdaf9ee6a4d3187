//! Maps the numbers in an action to existing entries, which makes the action concrete.

use super::actions::{Change, Field, Hand, Identity, Intention, Link, Report, Target, To};
use proptest::sample::Index;
use state_core::entry::Provider;
use state_core::mutation::{EditChange, Resolution};
use state_core::testkit::clock::SeededEntropy;
use state_core::{
    Address, Dependency, Entry, EntryKey, Json, Op, Outcome, PendingOperation, Properties, SharedEntry,
    State, Uid,
};
use std::sync::Arc;

/// An intention with concrete target and entry.
pub(crate) struct ResolvedIntention {
    pub(crate) op: Op,
    pub(crate) target: EntryKey,
    pub(crate) entry: Option<Entry>,
    /// Whether a create or import replaces a live entry, which is then deposed. False for other operations.
    pub(crate) replaces: bool,
    /// Whether a delete keeps the entry and marks it as pending replacement.
    pub(crate) tombstone: bool,
}

/// A report with a concrete entry.
pub(crate) struct ResolvedReport {
    pub(crate) outcome: Outcome,
    pub(crate) entry: Option<Entry>,
    pub(crate) reasons: Vec<String>,
}

/// Makes actions concrete with the entries of the current state, and with random new uids.
pub(crate) struct Resolver<'a> {
    pub(crate) state: &'a State,
    pub(crate) entropy: &'a SeededEntropy,
}

impl Resolver<'_> {
    /// Returns the key of the entry that a target selects. If no entry matches, returns the key of the live entry with
    /// name 0, which may not exist.
    pub(crate) fn target(&self, target: &Target) -> EntryKey {
        let entries: Vec<&SharedEntry> = self.state.entries().collect();
        let fallback = || EntryKey::live(address(0));
        match target {
            Target::Next => entries
                .iter()
                .find(|entry| !self.state.is_recorded(&entry.key()))
                .map_or_else(fallback, |entry| entry.key()),
            Target::Any(_) if entries.is_empty() => fallback(),
            Target::Any(index) => index.get(&entries).key(),
            Target::Leftover => entries
                .iter()
                .find(|entry| entry.pending_replacement || !entry.is_live())
                .map_or_else(fallback, |entry| entry.key()),
            Target::Last => entries
                .iter()
                .rev()
                .find(|entry| {
                    let of = Dependency::Entry(entry.address.clone());
                    self.state.dependents(&of).next().is_none()
                })
                .map_or_else(fallback, |entry| entry.key()),
            Target::Name(name) => EntryKey::live(address(*name)),
        }
    }

    /// Makes an intention concrete. A misfit intention has an entry if its operation must not have one, and has no
    /// entry otherwise. The entry has the key of name 1.
    pub(crate) fn intention(&self, intention: &Intention) -> ResolvedIntention {
        let Intention {
            op,
            target,
            change,
            contrary,
            tombstone,
            misfit,
        } = intention;
        let target = self.target(target);
        let old = self.state.entry(&target);
        let is_create = matches!(op, Op::Create | Op::Import);
        let is_replacement = is_create && old.is_some_and(|old| !old.pending_replacement);
        let is_removal = matches!(op, Op::Delete | Op::Discard);
        let subject = if *misfit {
            EntryKey::live(address(1))
        } else {
            target.clone()
        };
        let mut entry = self.changed(old, &subject, change);
        if is_create && old.is_some() && matches!(change.uid, Identity::Kept) {
            // The replacement is another object, so it needs another uid.
            entry.uid = Some(Uid::random(self.entropy));
        }
        ResolvedIntention {
            op: *op,
            target,
            entry: (is_removal == *misfit).then_some(entry),
            replaces: is_create && is_replacement != *contrary,
            tombstone: *tombstone,
        }
    }

    /// Makes the report on an operation concrete. The entry of a misfit report has the key of name 1.
    pub(crate) fn report(&self, operation: &PendingOperation, report: &Report) -> ResolvedReport {
        let Report {
            outcome,
            change,
            misfit,
        } = report;
        let target = if *misfit {
            EntryKey::live(address(1))
        } else {
            operation.target.clone()
        };
        let intended = operation.entry.as_ref();
        let entry = match (intended, change) {
            (Some(intended), Some(change)) => Some(self.changed(Some(intended), &target, change)),
            (Some(intended), None) => Some(self.keyed(intended, &target)),
            (None, Some(change)) if *misfit => Some(self.changed(None, &target, change)),
            (None, _) => None,
        };
        let reasons = if *outcome == Outcome::Partial {
            vec!["half".to_owned()]
        } else {
            Vec::new()
        };
        ResolvedReport {
            outcome: *outcome,
            entry: entry.filter(|_| *outcome != Outcome::Failed || *misfit),
            reasons,
        }
    }

    /// Returns the resolution of an operation: as done with the entry of a report, or as not done (`None`).
    pub(crate) fn resolution(&self, operation: &PendingOperation, report: Option<&Report>) -> Resolution {
        match report {
            None => Resolution::NotDone,
            Some(report) => Resolution::Done(self.report(operation, report).entry.map(Arc::new)),
        }
    }

    /// Makes one change of an edit concrete.
    pub(crate) fn hand(&self, hand: &Hand) -> EditChange {
        match hand {
            Hand::Remove(target) => EditChange::Remove(self.target(target)),
            Hand::Put(target, change, name) => {
                let target = self.target(target);
                let mut key = target.clone();
                if let Some(name) = name {
                    key.address = address(*name);
                }
                let entry = self.changed(self.state.entry(&target), &key, change).into();
                EditChange::Put { target, entry }
            }
            Hand::Append(name, change) => {
                let key = EntryKey::live(address(*name));
                EditChange::Append(self.changed(None, &key, change).into())
            }
        }
    }

    /// Returns the entry `old`, or a new entry if `old` is `None`, under this key with a change.
    pub(crate) fn changed(&self, old: Option<&SharedEntry>, key: &EntryKey, change: &Change) -> Entry {
        let fresh = Arc::new(Entry::leaf(key.address.clone(), "thing"));
        let mut entry = self.keyed(old.unwrap_or(&fresh), key);
        if let Some(links) = &change.links {
            unlink(&mut entry);
            for link in links {
                self.link(&mut entry, link);
            }
        }
        if let Some(group) = change.group {
            entry.group = group.map(group_address);
        }
        if let Some(id) = change.id {
            entry.id = Some(format!("i-{id}"));
        }
        let entries: Vec<&SharedEntry> = self.state.entries().collect();
        entry.uid = match &change.uid {
            Identity::Kept => entry.uid.or_else(|| Some(Uid::random(self.entropy))),
            Identity::New => Some(Uid::random(self.entropy)),
            Identity::Missing => None,
            Identity::Stolen(_) if entries.is_empty() => None,
            Identity::Stolen(index) => index.get(&entries).uid,
        };
        entry.inputs = Some(number("size", change.size));
        entry.protect = change.protect;
        entry.pending_replacement = change.pending_replacement;
        entry.external = change.external;
        entry.kind = (!change.kindless).then(|| "thing".to_owned());
        entry
    }

    /// Returns a copy of an entry under this key.
    fn keyed(&self, entry: &Entry, key: &EntryKey) -> Entry {
        Entry {
            address: key.address.clone(),
            deposed: key.deposed.clone(),
            ..entry.clone()
        }
    }

    /// Adds a reference to an entry. Does nothing if no entry matches the target of the reference.
    fn link(&self, entry: &mut Entry, link: &Link) {
        let Some(to) = self.to(&link.to) else {
            return;
        };
        let address = to.address().clone();
        match link.field {
            Field::DependsOn => entry.depends_on.push(to),
            Field::Property(property) => entry
                .property_dependencies
                .entry(format!("p{property}"))
                .or_default()
                .push(to),
            Field::Parent => entry.parent = Some(address),
            Field::Provider(id) => {
                let there = self.state.generations(&address).next();
                let id = id.and_then(|id| match id {
                    Ok(()) => there.and_then(|entry| entry.id.clone()),
                    Err(id) => Some(format!("i-{id}")),
                });
                entry.provider = Some(Provider { address, id }).into();
            }
            Field::DeletedWith => entry.deleted_with = Some(address).into(),
            Field::ReplaceWith => entry.replace_with.push(address),
        }
    }

    /// Returns the target of a reference; `None` if no entry matches.
    fn to(&self, to: &To) -> Option<Dependency> {
        let pick = |index: &Index, recorded: bool| {
            let among: Vec<&SharedEntry> = self
                .state
                .entries()
                .filter(|entry| !recorded || self.state.is_recorded(&entry.key()))
                .collect();
            (!among.is_empty()).then(|| Dependency::Entry(index.get(&among).address.clone()))
        };
        match to {
            To::Recorded(index) => pick(index, true),
            To::Any(index) => pick(index, false),
            To::Name(name) => Some(Dependency::Entry(address(*name))),
            To::Group(group) => Some(Dependency::Group(group_address(*group))),
        }
    }
}

/// Returns a JSON object with one member: a number under this name.
pub(crate) fn number(name: &str, value: u8) -> Properties {
    Json::parse(&format!("{{\"{name}\":{value}}}"))
        .ok()
        .and_then(Properties::new)
        .expect("an object with one number is JSON")
}

/// Removes all references of an entry.
fn unlink(entry: &mut Entry) {
    entry.depends_on.clear();
    entry.property_dependencies.clear();
    entry.parent = None;
    *entry.provider = None;
    *entry.deleted_with = None;
    entry.replace_with.clear();
}

fn address(name: u8) -> Address {
    let letter = char::from(b'a' + name);
    Address::new(letter.to_string()).expect("a letter is an address")
}

fn group_address(group: u8) -> Address {
    Address::new(format!("g{group}")).expect("a letter and a digit are an address")
}
