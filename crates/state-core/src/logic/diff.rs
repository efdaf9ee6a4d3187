//! Differences between two snapshots, by entry and property.
//!
//! Entries of the two snapshots are matched by uid, even if their keys differ; the remaining entries are matched by
//! key. A move is therefore reported as a move, not as a removal and an addition.
//!
//! Not compared: the identity and origin of a snapshot (lineage, serial, times, manifest, foreign serials), pending
//! operations, the order of the entries, and their modification times.
//!
//! Secrets: a value that is marked as sensitive in either snapshot is secret in both. [`Value::masked`] shows a value
//! without its secrets, and [`SnapshotDiff::masked`] the whole difference, as text or as JSON. `Debug` shows no
//! values at all. Fields of other tools in `extensions`, and fields that this build doesn't know, count as secret,
//! because they may contain unmarked secrets.
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
mod sealed_values;
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

/// The differences between two snapshots.
///
/// The keys of the new snapshot are the keys of the old one after two steps: remove the keys of `removed` and the
/// `from` of each move; then add the keys of `added` and the `to` of each move.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotDiff {
    /// Entries that only the old snapshot contains, in its order.
    pub removed: Vec<SharedEntry>,
    /// Entries that only the new snapshot contains, in its order.
    pub added: Vec<SharedEntry>,
    /// Entries whose key changed, in the order of the new snapshot.
    pub moved: Vec<Move>,
    /// Entries whose content changed, moved or not, in the order of the new snapshot.
    pub changed: Vec<EntryDiff>,
    /// Changes of the stack's outputs; pointers refer to the map of outputs.
    pub outputs: Vec<Change>,
    /// Changes of the snapshot's other fields: the program, the list of secret outputs, extensions.
    pub header: Vec<Change>,
}

impl SnapshotDiff {
    /// Whether the snapshots have no differences.
    pub const fn is_empty(&self) -> bool {
        self.removed.is_empty()
            && self.added.is_empty()
            && self.moved.is_empty()
            && self.changed.is_empty()
            && self.outputs.is_empty()
            && self.header.is_empty()
    }
}

/// An entry whose key changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Move {
    /// Uid of the entry.
    pub uid: Uid,
    /// Key in the old snapshot.
    pub from: EntryKey,
    /// Key in the new snapshot.
    pub to: EntryKey,
}

/// The changes of one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryDiff {
    /// The entry in the new snapshot.
    pub entry: SharedEntry,
    /// Key in the old snapshot, if it changed.
    pub from: Option<EntryKey>,
    /// Changes of fields; never empty. Pointers refer to the entry's JSON: `/protect`, `/inputs/size`.
    pub changes: Vec<Change>,
}

/// Returns how many elements two lists have in common at the beginning, and after these at the end. Two states of a stack
/// mostly have the same resources in the same order, so that few of them have to be looked up by key.
pub fn common_ends<T>(one: &[T], other: &[T], is_same: impl Fn(&T, &T) -> bool) -> (usize, usize) {
    let same = |pair: &(&T, &T)| is_same(pair.0, pair.1);
    let beginning = one.iter().zip(other).take_while(same).count();
    let rest = one[beginning..].iter().rev().zip(other[beginning..].iter().rev());
    (beginning, rest.take_while(same).count())
}

/// Compares two snapshots. Neither has to be valid.
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

/// Compares two entries, except for keys and modification times: first the fields, then the inputs, then the outputs.
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

/// Returns an entry's key, as text, as a property with the pointer `/address`.
pub fn address_property(entry: &Entry) -> Property {
    Property {
        pointer: "/address".to_owned(),
        value: Value::new(Json::from_string(&entry.key().to_string()), Vec::new()),
    }
}

/// Returns all properties of an entry, except for its key and modification time. A field is one property; inputs and
/// outputs are split into scalars, empty containers and secret values.
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

/// Compares the stack's own outputs.
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
