//! Marks (paths to secret values) that are kept when an import, an undo or a rollback replaces a whole state. Without
//! them, a value that was sealed in the old state would be stored in plain text, because the new state doesn't mark it.

use super::added::{ADDED_MARKS, AddedMarks, without_added};
use super::copies::copies_of;
use super::cover::Path;
use super::resolver::Resolver;
use super::{Marks, SecretStrings};
use crate::address::EntryKey;
use crate::entry::{Entry, SharedEntry};
use crate::json::{Json, ObjectWriter, Properties, View, child_pointer};
use crate::pending::PendingOperation;
use crate::snapshot::{EntryPosition, Snapshot};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The marks of the old state that [`keep_marks`] adds to the new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptMarks {
    /// Keeps every mark of the old state.
    All,
    /// Keeps the marks that the original system declared, and those that a user added. Leaves out the marks that an
    /// import derived from values: the caller derives them again from the values of the new state.
    Chosen,
}

/// Marks the values of a new state that are marked in the old one: at the same path of the same resource or output, and
/// wherever a marked value of the old state occurs. Resources of pending operations count in both states. Returns the
/// number of new marks.
///
/// Two resources are the same if they have the same key. A resource whose key is missing in the old state, for example
/// because it was renamed, is the same as the old resource with its kind and id. If an object of the new state doesn't
/// contain the value of a path, the path is only recorded in [`AddedMarks`], so that a later state with this value is
/// marked again.
pub fn keep_marks(old: &Snapshot, new: &mut Snapshot, which: KeptMarks) -> usize {
    if !has_marks(old) {
        // Nothing is kept, and the old state has no secret of which the new one could hold a copy.
        return 0;
    }
    let mut marked = 0;
    let known = OldEntries::of(old, new);
    let positions: Vec<EntryPosition> = new.all_entries().map(|(position, _)| position).collect();
    for position in positions {
        let Some(entry) = new.entry_mut(position) else {
            continue;
        };
        for before in known.same(entry) {
            let mut kept = Kept::of_entry(before, entry, which);
            if !kept.is_empty() {
                marked += kept.add_to_entry(Arc::make_mut(entry));
            }
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
    marked + mark_copies(&SecretStrings::of_snapshot(old, &added), new)
}

/// Whether a state marks any value, or records a mark of a value that is missing now.
fn has_marks(state: &Snapshot) -> bool {
    let of_entry = |entry: &Entry| {
        !entry.sensitive_inputs.is_empty()
            || !entry.sensitive_outputs.is_empty()
            || entry.extensions.get(ADDED_MARKS).is_some()
    };
    !state.sensitive_outputs.is_empty()
        || state.extensions.get(ADDED_MARKS).is_some()
        || state.all_entries().any(|(_, entry)| of_entry(entry))
}

/// The entries of the old state, by the properties that identify them.
struct OldEntries<'s> {
    by_key: BTreeMap<EntryKey, &'s SharedEntry>,
    /// Entries of pending operations.
    pending: BTreeMap<EntryKey, Vec<&'s SharedEntry>>,
    /// Entries whose keys are missing in the new state, by kind and id. `None` if several of them have the same kind
    /// and id, because then it isn't clear which one was renamed.
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
        let mut pending: BTreeMap<EntryKey, Vec<&SharedEntry>> = BTreeMap::new();
        for entry in old.pending_operations.iter().flat_map(PendingOperation::entries) {
            pending.entry(entry.key()).or_default().push(entry);
        }
        Self {
            by_key: old.entries.iter().map(|entry| (entry.key(), entry)).collect(),
            pending,
            moved,
        }
    }

    /// Returns the old entries for the same resource as a new entry: the recorded one, and those of its pending
    /// operations.
    fn same(&self, entry: &Entry) -> Vec<&'s SharedEntry> {
        let key = entry.key();
        let by_key = self.by_key.get(&key).copied();
        let recorded = by_key.or_else(|| *self.moved.get(&identity(entry)?)?);
        let pending = self.pending.get(&key).into_iter().flatten().copied();
        recorded.into_iter().chain(pending).collect()
    }
}

fn identity(entry: &Entry) -> Option<(&str, &str)> {
    Some((entry.kind.as_deref()?, entry.id.as_deref()?))
}

/// The marks that a new entry takes over from the old one: `added` are marked now; `inputs` and `outputs` are all paths
/// that later imports keep, including those without a value now.
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
        let marked: BTreeSet<&String> = marked.iter().collect();
        let mut resolver = side.map(|side| Resolver::of(side.view()));
        for path in paths.into_iter().filter(|path| !marked.contains(path)) {
            let is_gone = |resolver: &mut Resolver<'_>| resolver.is_gone(Path::new(&path));
            if resolver.as_mut().is_some_and(|side| !is_gone(side)) {
                added.push(path.clone());
            }
            kept.push(path);
        }
    }

    fn is_empty(&self) -> bool {
        self.inputs.is_empty() && self.outputs.is_empty()
    }

    /// Marks the entry, and records the paths in its [`AddedMarks`]. Returns the number of new marks.
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

/// Returns the paths of one side of an old entry (inputs or outputs) that the new state takes over.
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
    // If the value of a kept path exists without a mark, a user removed the mark, so the path is no longer kept.
    let marks: BTreeSet<&String> = marks.iter().collect();
    let mut resolver = side.map(|side| Resolver::of(side.view()));
    let is_kept = |path: &&String| {
        let gone = |side: &mut Resolver<'_>| side.is_gone(Path::new(path));
        marks.contains(path) || resolver.as_mut().is_none_or(gone)
    };
    paths.extend(kept.iter().filter(is_kept).cloned());
    paths.sort();
    paths.dedup();
    paths
}

/// Marks the outputs of the new state that the old one marks. Returns the number of new marks.
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
    // Some systems mark outputs by name and others by pointer; both forms are compared as pointers.
    let marked: BTreeSet<String> = new.sensitive_outputs.iter().map(|path| pointer(path)).collect();
    let mut resolver = Resolver::of(new_map.view());
    for path in paths.into_iter().filter(|path| !marked.contains(&pointer(path))) {
        if !resolver.is_gone(Path::new(&path)) {
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

/// Returns the outputs of a stack as one JSON object.
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

/// Marks the values of the new state that equal or contain secrets of the old one. Returns the number of new marks.
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
        if let Some(entry) = new.entry_mut(position) {
            let mut kept = Kept {
                added: marks,
                ..Kept::default()
            };
            kept.add_to_entry(Arc::make_mut(entry));
        }
    }
    count
}

/// Returns those kept input marks of an entry whose values exist in `inputs`. A caller that replaces an entry's inputs
/// and their marks adds the returned paths, so that a value that a user marked stays secret.
pub fn kept_inputs(entry: &Entry, inputs: View<'_>) -> Vec<String> {
    let kept = AddedMarks::of_entry(entry).kept_inputs.into_iter();
    let mut resolver = Resolver::of(inputs);
    kept.filter(|path| !resolver.is_gone(Path::new(path))).collect()
}
