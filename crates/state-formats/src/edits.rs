//! Checks edits of a state against the rules of the state's format, and predicts what its system will do next.
//!
//! The rules are part of each format: a program calls [`StateFormat::review`](crate::StateFormat::review) of the
//! [origin](crate::Formats::origin) of the state before it commits an edit.

use serde::Serialize;
use state_core::{Entry, EntryKey, SharedEntry, Uid};
use std::collections::HashMap;
use std::sync::Arc;

/// A state before and after an edit.
#[derive(Clone, Debug)]
pub struct StateEdit<'a> {
    after: Vec<&'a SharedEntry>,
    changes: Vec<EntryChange<'a>>,
}

/// An entry before and after an edit. At least one side exists, and the sides differ.
#[derive(Clone, Copy, Debug)]
pub struct EntryChange<'a> {
    /// Entry before the edit; `None` for an added entry.
    pub before: Option<&'a SharedEntry>,
    /// Entry after the edit; `None` for a removed entry.
    pub after: Option<&'a SharedEntry>,
}

impl<'a> StateEdit<'a> {
    /// Compares two lists of entries. Entries with equal uids are the same; entries without uids are matched by their keys.
    pub fn between(
        before: impl Iterator<Item = &'a SharedEntry>,
        after: impl Iterator<Item = &'a SharedEntry>,
    ) -> Self {
        let (before, after): (Vec<_>, Vec<_>) = (before.collect(), after.collect());
        let mut old = OldEntries::new(&before);
        let mut changes = Vec::new();
        for &entry in &after {
            let before = old.take(entry);
            if before.is_none_or(|before| !Arc::ptr_eq(before, entry) && before != entry) {
                let after = Some(entry);
                changes.push(EntryChange { before, after });
            }
        }
        changes.extend(old.rest().map(|before| EntryChange {
            before: Some(before),
            after: None,
        }));
        Self { after, changes }
    }

    /// All entries after the edit.
    pub fn after(&self) -> impl Iterator<Item = &'a SharedEntry> {
        self.after.iter().copied()
    }

    /// The entries that the edit adds, changes or removes.
    pub fn changes(&self) -> &[EntryChange<'a>] {
        &self.changes
    }
}

/// The entries before an edit that are not matched yet. Several entries of a broken state may have the same key.
struct OldEntries<'a> {
    entries: Vec<Option<&'a SharedEntry>>,
    by_uid: HashMap<Uid, usize>,
    by_key: HashMap<EntryKey, Vec<usize>>,
}

impl<'a> OldEntries<'a> {
    fn new(before: &[&'a SharedEntry]) -> Self {
        let mut by_uid = HashMap::with_capacity(before.len());
        let mut by_key: HashMap<EntryKey, Vec<usize>> = HashMap::with_capacity(before.len());
        for (position, entry) in before.iter().enumerate() {
            if let Some(uid) = entry.uid {
                by_uid.entry(uid).or_insert(position);
            }
            by_key.entry(entry.key()).or_default().push(position);
        }
        Self {
            entries: before.iter().copied().map(Some).collect(),
            by_uid,
            by_key,
        }
    }

    /// Takes the old entry that matches a new one.
    fn take(&mut self, new: &SharedEntry) -> Option<&'a SharedEntry> {
        let by_uid = new.uid.and_then(|uid| self.by_uid.get(&uid)).copied();
        let position = by_uid.or_else(|| self.with_key(new))?;
        self.entries.get_mut(position)?.take()
    }

    /// The position of the old entry with the key of a new one that resembles it most.
    fn with_key(&self, new: &SharedEntry) -> Option<usize> {
        let same_key = self.by_key.get(&new.key())?;
        let free = |position: &&usize| {
            let entry = self.entries.get(**position).copied().flatten();
            // Another uid means another object, unless one of the two sides has no uid.
            entry.is_some_and(|old| new.uid.is_none() || old.uid.is_none() || old.uid == new.uid)
        };
        let resembles = |position: &&usize| {
            let entry = self.entries.get(**position).copied().flatten();
            entry.map_or(3, |old| {
                if old == new {
                    0
                } else {
                    1 + u8::from(old.id != new.id)
                }
            })
        };
        same_key.iter().filter(free).min_by_key(resembles).copied()
    }

    fn rest(self) -> impl Iterator<Item = &'a SharedEntry> {
        self.entries.into_iter().flatten()
    }
}

/// The result of checking an edit against the rules of a format.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct EditReview {
    /// Reasons for which the format can't hold the edited state. Not empty only if the edit must be refused.
    pub problems: Vec<EditProblem>,
    /// What the system of the format will do at its next run because of the edit.
    pub effects: Vec<Effect>,
    /// What the format can't express; the edit keeps its meaning only in this program.
    pub remarks: Vec<String>,
}

/// A reason for which a format can't hold an entry. Contains names but never values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditProblem {
    /// Key of the entry after the edit.
    pub entry: EntryKey,
    /// The rule that the entry breaks.
    pub reason: String,
    /// How to reach the same goal with the rules.
    pub hint: Option<String>,
}

/// What the system of a format will do with an object at its next run.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    /// What happens to the object.
    pub action: Action,
    /// The entry that records the object; after the edit, unless the edit removes it.
    pub entry: SharedEntry,
}

/// What happens to an object at the next run of the system that manages it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Action {
    /// The object is deleted.
    Destroy,
    /// The object is deleted, and another one is created.
    Replace,
    /// The object stays, and the system no longer manages it.
    Forget,
    /// The object is deleted, unless the configuration declares it at its new address.
    DestroyUnlessMoved,
}

/// Predicts what happens to the managed objects that an edit concerns. `is_managed` returns whether the system creates and
/// deletes the object of an entry.
pub(crate) fn effects(edit: &StateEdit<'_>, is_managed: impl Fn(&Entry) -> bool) -> Vec<Effect> {
    let mut effects = Vec::new();
    for change in edit.changes() {
        let before = change.before.filter(|entry| is_managed(entry));
        let after = change.after.filter(|entry| is_managed(entry));
        if let Some((action, entry)) = effect(before, after) {
            effects.push(Effect {
                action,
                entry: SharedEntry::clone(entry),
            });
        }
    }
    effects.sort_by_key(|effect| effect.action);
    effects
}

fn effect<'a>(
    before: Option<&'a SharedEntry>,
    after: Option<&'a SharedEntry>,
) -> Option<(Action, &'a SharedEntry)> {
    let Some(after) = after else {
        return before.map(|before| (Action::Forget, before));
    };
    if !after.is_live() {
        let was_deposed = before.is_some_and(|before| !before.is_live() && before.id == after.id);
        return (!was_deposed).then_some((Action::Destroy, after));
    }
    let will_be_replaced = |entry: &Entry| entry.tainted || entry.pending_replacement;
    if will_be_replaced(after) && !before.is_some_and(|before| will_be_replaced(before)) {
        return Some((Action::Replace, after));
    }
    let before = before?;
    // With another id, the state describes another object, and no state describes the former one.
    if before.id.is_some() && before.id != after.id {
        return Some((Action::Forget, before));
    }
    (before.address != after.address).then_some((Action::DestroyUnlessMoved, after))
}
