//! The entries that differ from those of the current revision.

use super::State;
use super::index::Entries;
use crate::diff;
use crate::entry::{Entry, SharedEntry};
use crate::journal::{ChangeKind, EntryChange, Record, RevisionChanges};

impl State {
    /// The entries that differ from those of the current revision, or from the empty state before the first one. `None`
    /// if this state doesn't know them: it was loaded from a checkpoint that was made after entries had changed.
    pub fn changes(&self) -> Option<RevisionChanges> {
        let before = self.settled.as_ref()?;
        let (gone, new) = self.entries.differences(before);
        let updated = new
            .into_iter()
            .filter_map(|entry| match counterpart(before, entry) {
                None => Some(described(entry, ChangeKind::Created)),
                Some(old) => updated(old, entry),
            });
        let removed = gone
            .into_iter()
            .filter(|old| counterpart(&self.entries, old).is_none())
            .map(|old| described(old, ChangeKind::Removed));
        let (mut listed, mut bytes) = (Vec::new(), 0);
        for change in updated.chain(removed) {
            bytes += change.text_length();
            if listed.len() == RevisionChanges::MOST || bytes > RevisionChanges::MOST_BYTES {
                return Some(RevisionChanges::Many);
            }
            listed.push(change);
        }
        listed.sort_by_key(|change| (change.key(), change.change == ChangeKind::Removed));
        Some(RevisionChanges::Listed(listed))
    }

    /// Whether no record since the current revision may have changed an entry. If so, the entries are those of the
    /// current revision.
    pub const fn is_committed(&self) -> bool {
        !self.uncommitted
    }

    /// Notes that a record was applied.
    pub(super) fn note_changes(&mut self, record: &Record) {
        self.uncommitted |= matches!(
            record,
            Record::End(_)
                | Record::Step(_)
                | Record::Unchanged(_)
                | Record::ResetBase(_)
                | Record::Edit(_)
                | Record::Resolve(_)
                | Record::MoveOut(_)
                | Record::MoveEnd(_)
        );
    }

    /// Makes the present entries those of the current revision.
    pub(super) fn settle_entries(&mut self) {
        self.settled = Some(self.entries.clone());
        self.uncommitted = false;
    }
}

/// The entry of the same resource: by key, if the uids allow it, else by uid.
fn counterpart<'e>(entries: &'e Entries, entry: &Entry) -> Option<&'e SharedEntry> {
    let by_key = entries.get(&entry.key());
    match by_key.filter(|other| other.uid == entry.uid || other.uid.is_none() || entry.uid.is_none()) {
        Some(other) => Some(other),
        None => entries.holder_of(entry.uid?),
    }
}

/// The change from one entry of a resource to another one; none if they differ at most in their time of modification.
fn updated(old: &SharedEntry, new: &SharedEntry) -> Option<EntryChange> {
    let from = Some(old.key()).filter(|from| *from != new.key());
    let changes = diff::entry_changes(old, new);
    if from.is_none() && changes.is_empty() {
        return None;
    }
    let change = EntryChange {
        from,
        ..described(new, ChangeKind::Updated)
    };
    Some(if changes.len() > EntryChange::MOST_PROPERTIES {
        EntryChange {
            change: ChangeKind::Rewritten,
            ..change
        }
    } else {
        EntryChange {
            properties: changes.into_iter().map(|change| change.pointer).collect(),
            ..change
        }
    })
}

fn described(entry: &Entry, change: ChangeKind) -> EntryChange {
    EntryChange {
        address: entry.address.clone(),
        deposed: entry.deposed.clone(),
        uid: entry.uid,
        change,
        from: None,
        properties: Vec::new(),
    }
}
