//! Marks that outlive the replacement of a whole state: a value that was sealed must not return to plain text because
//! an imported or restored state doesn't mark it.

use super::added::{AddedMarks, without_added};
use super::copies::{copies_of, secrets_of};
use super::cover::{Path, is_gone};
use super::{Marks, SecretStrings};
use crate::address::EntryKey;
use crate::entry::{Entry, SharedEntry};
use crate::json::{Json, ObjectWriter, Properties, View, child_pointer};
use crate::snapshot::Snapshot;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The marks of the old state that [`keep_marks`] adds to the new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptMarks {
    /// All marks.
    All,
    /// The marks that the original system declared, and those that a user added. The others follow from the values, so
    /// a caller derives them again.
    Chosen,
}

/// Marks the values of a new state that are marked in the old one: at the same path of the same resource or output, and
/// wherever a marked value of the old state occurs. Returns the number of new marks.
///
/// A resource is the same if it has the same key. A resource whose key is missing in the old state is the same as the one
/// with its kind and id. A path whose value is missing in an object of the new state is only recorded, so that a
/// later state with this value is marked again.
pub fn keep_marks(old: &Snapshot, new: &mut Snapshot, which: KeptMarks) -> usize {
    let mut marked = 0;
    let known = OldEntries::of(old, new);
    for entry in &mut new.entries {
        let Some(before) = known.same(entry) else { continue };
        let mut kept = Kept::of_entry(before, entry, which);
        if !kept.is_empty() {
            marked += kept.add_to_entry(Arc::make_mut(entry));
        }
    }
    marked += keep_output_marks(old, new, which);
    // The added marks come from known secret attributes, from copies of secrets, and from users.
    let added = |entry: &Entry| {
        let added = AddedMarks::of_entry(entry);
        Marks {
            inputs: added.added_inputs,
            outputs: added.added_outputs,
        }
    };
    marked + mark_copies(&secrets_of(old, &added), new)
}

/// The entries of the old state, by the properties that identify them.
struct OldEntries<'s> {
    by_key: BTreeMap<EntryKey, &'s SharedEntry>,
    /// Entries whose keys are missing in the new state; none for a kind and id that several entries have.
    moved: BTreeMap<(&'s str, &'s str), Option<&'s SharedEntry>>,
}

impl<'s> OldEntries<'s> {
    fn of(old: &'s Snapshot, new: &Snapshot) -> Self {
        let keys: BTreeSet<EntryKey> = new.entries.iter().map(|entry| entry.key()).collect();
        let mut moved = BTreeMap::new();
        for entry in old.entries.iter().filter(|entry| !keys.contains(&entry.key())) {
            if let Some(identity) = identity(entry) {
                let is_only = !moved.contains_key(&identity);
                moved.insert(identity, is_only.then_some(entry));
            }
        }
        Self {
            by_key: old.entries.iter().map(|entry| (entry.key(), entry)).collect(),
            moved,
        }
    }

    fn same(&self, entry: &Entry) -> Option<&'s SharedEntry> {
        let by_key = self.by_key.get(&entry.key()).copied();
        by_key.or_else(|| *self.moved.get(&identity(entry)?)?)
    }
}

fn identity(entry: &Entry) -> Option<(&str, &str)> {
    Some((entry.kind.as_deref()?, entry.id.as_deref()?))
}

/// The marks that one entry takes over: new marks, and paths that a later import keeps.
#[derive(Default)]
struct Kept {
    added: Marks,
    inputs: Vec<String>,
    outputs: Vec<String>,
}

impl Kept {
    fn of_entry(old: &Entry, new: &Entry, which: KeptMarks) -> Self {
        let added = AddedMarks::of_entry(old);
        let mut kept = Self::default();
        let inputs = chosen(
            old.inputs.as_ref().map(Properties::json),
            &old.sensitive_inputs,
            (&added.added_inputs, &added.kept_inputs),
            which,
        );
        let outputs = chosen(
            old.outputs.as_ref().map(Properties::json),
            &old.sensitive_outputs,
            (&added.added_outputs, &added.kept_outputs),
            which,
        );
        kept.take(inputs, new.inputs.as_ref(), &new.sensitive_inputs, true);
        kept.take(outputs, new.outputs.as_ref(), &new.sensitive_outputs, false);
        kept
    }

    /// Takes over those paths of one side that the new entry doesn't mark itself.
    fn take(&mut self, paths: Vec<String>, side: Option<&Properties>, marked: &[String], is_input: bool) {
        let (added, kept) = match is_input {
            true => (&mut self.added.inputs, &mut self.inputs),
            false => (&mut self.added.outputs, &mut self.outputs),
        };
        for path in paths.into_iter().filter(|path| !marked.contains(path)) {
            let present = side.is_some_and(|side| !is_gone(side.view(), &Path::new(&path)));
            if present {
                added.push(path.clone());
            }
            kept.push(path);
        }
    }

    fn is_empty(&self) -> bool {
        self.inputs.is_empty() && self.outputs.is_empty()
    }

    fn add_to_entry(&mut self, entry: &mut Entry) -> usize {
        let mut all = AddedMarks::of_entry(entry);
        all.kept_inputs.append(&mut self.inputs);
        all.kept_outputs.append(&mut self.outputs);
        all.added_inputs.extend(self.added.inputs.iter().cloned());
        all.added_outputs.extend(self.added.outputs.iter().cloned());
        all.store(&mut entry.extensions);
        let count = self.added.inputs.len() + self.added.outputs.len();
        entry.sensitive_inputs.append(&mut self.added.inputs);
        entry.sensitive_outputs.append(&mut self.added.outputs);
        count
    }
}

/// The paths of one side of the old state that the new state takes over.
fn chosen(
    side: Option<&Json>,
    marks: &[String],
    (added, kept): (&[String], &[String]),
    which: KeptMarks,
) -> Vec<String> {
    let mut paths = match which {
        KeptMarks::All => marks.to_vec(),
        KeptMarks::Chosen => without_added(marks, added),
    };
    // A kept path that is no mark although its value exists was removed by a user.
    let is_kept = |path: &&String| {
        let gone = |side: &Json| is_gone(side.view(), &Path::new(path));
        marks.contains(path) || side.is_none_or(gone)
    };
    paths.extend(kept.iter().filter(is_kept).cloned());
    paths.sort();
    paths.dedup();
    paths
}

fn keep_output_marks(old: &Snapshot, new: &mut Snapshot, which: KeptMarks) -> usize {
    let before = AddedMarks::of_snapshot(old);
    let (old_map, new_map) = (output_map(old), output_map(new));
    let paths = chosen(
        Some(&old_map),
        &old.sensitive_outputs,
        (&before.added_outputs, &before.kept_outputs),
        which,
    );
    let mut all = AddedMarks::of_snapshot(new);
    let mut count = 0;
    // The systems declare marks of outputs as names or as pointers.
    let marked: BTreeSet<String> = new.sensitive_outputs.iter().map(|path| pointer(path)).collect();
    for path in paths.into_iter().filter(|path| !marked.contains(&pointer(path))) {
        if !is_gone(new_map.view(), &Path::new(&path)) {
            new.sensitive_outputs.push(path.clone());
            all.added_outputs.push(path.clone());
            count += 1;
        }
        all.kept_outputs.push(path);
    }
    all.store(&mut new.extensions);
    count
}

fn pointer(path: &str) -> String {
    match path.starts_with('/') {
        true => path.to_owned(),
        false => child_pointer("", path),
    }
}

fn output_map(snapshot: &Snapshot) -> Json {
    let mut text = String::new();
    let mut object = ObjectWriter::new(&mut text);
    for (name, value) in &snapshot.outputs {
        object.raw(name, value.as_str());
    }
    object.finish();
    // The names of a map are sorted and unique, and its values are canonical.
    Json::from_canonical(&text)
}

/// Marks the values of the new state that repeat secrets of the old one. Returns the number of new marks.
fn mark_copies(secrets: &SecretStrings, new: &mut Snapshot) -> usize {
    let copies = copies_of(secrets, new);
    let mut count = copies.outputs.len();
    if !copies.outputs.is_empty() {
        let mut all = AddedMarks::of_snapshot(new);
        all.added_outputs.extend(copies.outputs.iter().cloned());
        all.store(&mut new.extensions);
        new.sensitive_outputs.extend(copies.outputs);
    }
    for (position, marks) in copies.entries {
        count += marks.inputs.len() + marks.outputs.len();
        Kept {
            added: marks,
            ..Kept::default()
        }
        .add_to_entry(Arc::make_mut(&mut new.entries[position]));
    }
    count
}

/// Returns the kept marks of an entry whose values exist in new inputs, for a writer that replaces the marks of the
/// inputs.
pub fn kept_inputs(entry: &Entry, inputs: View<'_>) -> Vec<String> {
    let kept = AddedMarks::of_entry(entry).kept_inputs.into_iter();
    kept.filter(|path| !is_gone(inputs, &Path::new(path))).collect()
}
