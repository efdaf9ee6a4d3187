//! What differs between two snapshots, entry by entry and property by property.
//!
//! An entry of one snapshot is the same object as one of the other if they have the same uid, whatever their keys are;
//! where uids don't tell, the key does. So a move is a move, not a removal and an addition.
//!
//! What isn't compared: when and as what a snapshot was made (lineage, serial, times, manifest, foreign serials), pending
//! operations, the order of the entries, and when an entry was last modified.
//!
//! Secrets: a value that is marked in either version is secret in both. [`Value::masked`] shows a value without them, and
//! [`SnapshotDiff::masked`] the whole difference, as text or as JSON;
//! `Debug` shows none at all. What a foreign system keeps in `extensions`, and fields that this build doesn't know, may
//! hold secrets that nobody marked: they count as secret.
//!
//! ```
//! use state_core::{Entry, FactoryInfo, Json, Properties, Snapshot, Timestamp, diff};
//!
//! let snapshot = |size: &str| -> Result<Snapshot, Box<dyn std::error::Error>> {
//!     let mut snapshot = Snapshot::new(FactoryInfo::default(), "shop", Timestamp::new("2026-05-30T12:00:00Z"));
//!     let mut bucket = Entry::leaf("bucket".parse()?, "s3_bucket");
//!     bucket.inputs = Properties::new(Json::parse(size)?);
//!     snapshot.entries.push(bucket.into());
//!     Ok(snapshot)
//! };
//! let diff = diff::diff(&snapshot(r#"{"size":1}"#)?, &snapshot(r#"{"size":2}"#)?);
//! let change = &diff.changed[0].changes[0];
//! assert_eq!(change.pointer, "/inputs/size");
//! assert_eq!(change.new.as_ref().map(|new| new.masked("***").as_str().to_owned()), Some("2".to_owned()));
//! // The text of a difference, without secrets.
//! let text = diff.masked(state_core::mask::Mask::hide("***")).to_string();
//! assert_eq!(text, "~ bucket\n    ~ inputs/size: 1 → 2\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod change;
mod fields;
mod masked;
mod pairs;
mod sides;

#[cfg(test)]
mod tests;

pub use change::{Change, Property, Value};
pub use masked::{DiffLine, EntryName, MaskedChange, MaskedDiff, MaskedEntryDiff, Sign, short_text};

use crate::address::EntryKey;
use crate::entry::{Entry, SharedEntry};
use crate::id::Uid;
use crate::json::{Json, ObjectWriter};
use crate::sensitive::SecretStrings;
use crate::snapshot::Snapshot;
use pairs::Pairs;
use serde::Serialize;
use sides::Side;

/// What differs between two snapshots. Taking the keys of `removed` and the origins of `moved` out of the old one's keys,
/// and putting those of `added` and the targets of `moved` in, gives the keys of the new one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotDiff {
    /// Entries that only the old snapshot has, in its order.
    pub removed: Vec<SharedEntry>,
    /// Entries that only the new snapshot has, in its order.
    pub added: Vec<SharedEntry>,
    /// Entries that have another key now, in the order of the new snapshot.
    pub moved: Vec<Move>,
    /// Entries that say something else now, moved or not, in the order of the new snapshot.
    pub changed: Vec<EntryDiff>,
    /// Changes of the stack's own outputs; pointers go into the map of outputs.
    pub outputs: Vec<Change>,
    /// Changes of what else a snapshot says: who made the stack, which outputs are secret, extensions.
    pub header: Vec<Change>,
}

impl SnapshotDiff {
    /// Whether nothing differs.
    pub const fn is_empty(&self) -> bool {
        self.removed.is_empty()
            && self.added.is_empty()
            && self.moved.is_empty()
            && self.changed.is_empty()
            && self.outputs.is_empty()
            && self.header.is_empty()
    }
}

/// An object that has another key now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Move {
    /// The object.
    pub uid: Uid,
    /// Its key in the old snapshot.
    pub from: EntryKey,
    /// Its key in the new snapshot.
    pub to: EntryKey,
}

/// What an entry says differently now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryDiff {
    /// The entry, as it is now.
    pub entry: SharedEntry,
    /// Its key in the old snapshot, if it was another one.
    pub from: Option<EntryKey>,
    /// What changed; never empty. Pointers go into the entry's JSON: `/protect`, `/inputs/size`.
    pub changes: Vec<Change>,
}

/// Compares two snapshots. Neither needs to be valid.
pub fn diff(old: &Snapshot, new: &Snapshot) -> SnapshotDiff {
    let Pairs { kept, removed, added } = Pairs::of(&old.entries, &new.entries);
    let mut diff = SnapshotDiff {
        removed: removed.into_iter().map(|at| old.entries[at].clone()).collect(),
        added: added.into_iter().map(|at| new.entries[at].clone()).collect(),
        outputs: output_changes(old, new),
        header: fields::header_changes(old, new),
        ..SnapshotDiff::default()
    };
    for (before, after) in kept {
        let (before, after) = (&old.entries[before], &new.entries[after]);
        let from = Some(before.key()).filter(|from| *from != after.key());
        if let (Some(from), Some(uid)) = (&from, after.uid) {
            diff.moved.push(Move {
                uid,
                from: from.clone(),
                to: after.key(),
            });
        }
        let changes = entry_changes(before, after);
        if !changes.is_empty() {
            diff.changed.push(EntryDiff {
                entry: after.clone(),
                from,
                changes,
            });
        }
    }
    diff
}

/// What one entry says that the other doesn't, its key and the moment of its last change left out: fields first, then
/// inputs, then outputs.
pub fn entry_changes(old: &Entry, new: &Entry) -> Vec<Change> {
    if std::ptr::eq(old, new) || old == new {
        return Vec::new();
    }
    let mut secrets = SecretStrings::of_entry(old);
    secrets.extend(SecretStrings::of_entry(new));
    let mut changes = fields::entry_changes(old, new, &secrets);
    let sides = |old_side: &Option<_>, new_side: &Option<_>, old_marks: &[String], new_marks: &[String]| {
        let before = Side::new(old_side.as_ref(), old_marks, new_marks, &secrets);
        let after = Side::new(new_side.as_ref(), new_marks, old_marks, &secrets);
        (before, after)
    };
    let (before, after) = sides(
        &old.inputs,
        &new.inputs,
        &old.sensitive_inputs,
        &new.sensitive_inputs,
    );
    sides::compare("/inputs", &before, &after, &mut changes);
    let (before, after) = sides(
        &old.outputs,
        &new.outputs,
        &old.sensitive_outputs,
        &new.sensitive_outputs,
    );
    sides::compare("/outputs", &before, &after, &mut changes);
    changes
}

/// An entry's name as a property: the pointer `/address`.
pub fn address_property(entry: &Entry) -> Property {
    Property {
        pointer: "/address".to_owned(),
        value: Value::new(Json::from_string(&entry.key().to_string()), Vec::new()),
    }
}

/// All that an entry says, in leaves: fields whole, inputs and outputs down to scalars, empty containers, and what is
/// secret. Its key and the moment of its last change are left out.
pub fn properties(entry: &Entry) -> Vec<Property> {
    let secrets = SecretStrings::of_entry(entry);
    let mut all = fields::entry_properties(entry, &secrets);
    for (name, side, marks) in [
        ("/inputs", &entry.inputs, &entry.sensitive_inputs),
        ("/outputs", &entry.outputs, &entry.sensitive_outputs),
    ] {
        if side.is_some() {
            sides::leaves(name, &Side::new(side.as_ref(), marks, &[], &secrets), &mut all);
        }
    }
    all
}

fn output_changes(old: &Snapshot, new: &Snapshot) -> Vec<Change> {
    let mut changes = Vec::new();
    if old.outputs == new.outputs {
        return changes;
    }
    let mut secrets = SecretStrings::of_outputs(old);
    secrets.extend(SecretStrings::of_outputs(new));
    let [before, after] = [(old, new), (new, old)].map(|(one, other)| {
        let mut text = String::new();
        let mut object = ObjectWriter::new(&mut text);
        for (name, value) in &one.outputs {
            object.raw(name, value.as_str());
        }
        object.finish();
        let map = Json::from_canonical(&text);
        Side::of_object(map, &one.sensitive_outputs, &other.sensitive_outputs, &secrets)
    });
    sides::compare("", &before, &after, &mut changes);
    changes
}
