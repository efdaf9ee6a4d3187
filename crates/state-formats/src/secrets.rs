//! Marks secrets that a foreign state doesn't mark itself.
//!
//! Terraform lists few sensitive paths, and Pulumi marks only what a program declared. [`mark_secrets`] adds marks for
//! attributes that are known to hold secrets, and for [copies](state_core::sensitive::find_copies) of marked values. The
//! added marks are also recorded in `extensions["statectl"]`, because an export must not contain them: the state is
//! exported byte for byte as it was imported.

mod table;

use state_core::json::{Kind, Properties, View, child_pointer};
use state_core::sensitive::{
    AddedMarks, Copies, Marks, OutputMarks, SecretNames, SecretStrings, covered_pointers, matching_pointers,
    without_added,
};
use state_core::{Entry, EntryKey, EntryPosition, Json, Snapshot};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Placeholder for the name of a field or output that contains a secret.
const SECRET_NAME: &str = "(sensitive name)";

/// The result of [`mark_secrets`]: how many values it marked, and which entries contain secrets that it couldn't mark.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MarkedSecrets {
    /// Values of attributes that are known to hold secrets.
    pub known: usize,
    /// Values that equal or contain a secret.
    pub copies: usize,
    /// Entries whose address, id, errors or names of fields contain a secret in plain text, because these can't be
    /// marked.
    pub unmarked: BTreeSet<EntryKey>,
    /// Number of outputs whose name contains a secret.
    pub unmarked_outputs: usize,
}

/// Marks the values of attributes that are known to hold secrets, and the copies of all marked values, also in pending
/// operations. Values that are marked already aren't counted.
///
/// A caller that stores an imported state calls this function first. A second call changes nothing.
pub fn mark_secrets(snapshot: &mut Snapshot) -> MarkedSecrets {
    let mut marked = MarkedSecrets::default();
    let known = snapshot
        .all_entries()
        .map(|(position, entry)| (position, known_secrets(entry)));
    let known: Vec<_> = known.filter(|(_, marks)| !marks.is_empty()).collect();
    for (position, marks) in known {
        marked.known += marks.inputs.len() + marks.outputs.len();
        add(snapshot, position, marks);
    }
    let copies = find_copies(snapshot);
    marked.copies = copies.outputs.len();
    add_output_marks(snapshot, copies.outputs);
    for (position, marks) in copies.entries {
        marked.copies += marks.inputs.len() + marks.outputs.len();
        add(snapshot, position, marks);
    }
    (marked.unmarked, marked.unmarked_outputs) = (copies.unmarked, copies.unmarked_outputs);
    marked
}

/// Returns the marks for the attributes of an entry that are known to hold secrets, apart from values that are
/// already marked.
pub fn known_secrets(entry: &Entry) -> Marks {
    let all = known_attributes(entry);
    if all.is_empty() {
        return all;
    }
    let own = SecretStrings::of_entry(entry);
    let new = |side: &Option<Properties>, paths: &[String], found: Vec<String>| {
        let Some(side) = side else { return found };
        let known: BTreeSet<String> = covered_pointers(side.json(), paths, &own).into_iter().collect();
        let is_new = |pointer: &String| !is_within_any(pointer, &known);
        found.into_iter().filter(is_new).collect()
    };
    Marks {
        inputs: new(&entry.inputs, &entry.sensitive_inputs, all.inputs),
        outputs: new(&entry.outputs, &entry.sensitive_outputs, all.outputs),
    }
}

/// The attributes of an entry that are known to hold secrets, marked or not.
fn known_attributes(entry: &Entry) -> Marks {
    let patterns = entry.kind.as_deref().map(table::patterns).unwrap_or_default();
    let of = |side: &Option<Properties>| {
        let json = side.as_ref().map(Properties::json);
        let found = json.into_iter().flat_map(|json| {
            let found = patterns.iter();
            found.flat_map(|pattern| matching_pointers(json, pattern))
        });
        found.collect()
    };
    Marks {
        inputs: of(&entry.inputs),
        outputs: of(&entry.outputs),
    }
}

/// Finds copies of the secrets of a snapshot, like [`state_core::sensitive::find_copies`]. Every value of an attribute that
/// is known to hold secrets is one.
pub fn find_copies(snapshot: &Snapshot) -> Copies {
    state_core::sensitive::find_copies(snapshot, &known_attributes)
}

/// Recognises names of fields and outputs that contain a secret of the snapshot, or that look like a secret.
pub fn secret_names(snapshot: &Snapshot) -> SecretNames {
    SecretNames::of(SecretStrings::of_snapshot(snapshot, &known_attributes))
}

/// Adds marks to an entry, and records that they were added.
pub fn add_marks(entry: &mut Entry, marks: Marks) {
    if marks.is_empty() {
        return;
    }
    let mut added = AddedMarks::of_entry(entry);
    added.added_inputs.extend(marks.inputs.iter().cloned());
    added.added_outputs.extend(marks.outputs.iter().cloned());
    entry.sensitive_inputs.extend(marks.inputs);
    entry.sensitive_outputs.extend(marks.outputs);
    added.store(&mut entry.extensions);
}

/// Adds marks that a user chose. Later imports keep them: see [`keep_marks`](state_core::sensitive::keep_marks).
pub fn add_chosen_marks(entry: &mut Entry, marks: Marks) {
    let mut added = AddedMarks::of_entry(entry);
    added.kept_inputs.extend(marks.inputs.iter().cloned());
    added.kept_outputs.extend(marks.outputs.iter().cloned());
    added.store(&mut entry.extensions);
    add_marks(entry, marks);
}

/// Adds marks to the outputs of a snapshot, and records that they were added.
fn add_output_marks(snapshot: &mut Snapshot, pointers: Vec<String>) {
    if pointers.is_empty() {
        return;
    }
    let mut added = AddedMarks::of_snapshot(snapshot);
    added.added_outputs.extend(pointers.iter().cloned());
    snapshot.sensitive_outputs.extend(pointers);
    added.store(&mut snapshot.extensions);
}

fn add(snapshot: &mut Snapshot, position: EntryPosition, marks: Marks) {
    if let Some(entry) = snapshot.entry_mut(position) {
        add_marks(Arc::make_mut(entry), marks);
    }
}

/// The marks of an entry's inputs and outputs without those that were added.
pub(crate) fn declared_marks(entry: &Entry) -> [Vec<String>; 2] {
    let added = AddedMarks::of_entry(entry);
    [
        without_added(&entry.sensitive_inputs, &added.added_inputs),
        without_added(&entry.sensitive_outputs, &added.added_outputs),
    ]
}

/// The marks of a snapshot's outputs without those that were added.
pub(crate) fn declared_outputs(snapshot: &Snapshot) -> Vec<String> {
    let added = AddedMarks::of_snapshot(snapshot);
    without_added(&snapshot.sensitive_outputs, &added.added_outputs)
}

/// Whether `pointer` equals one of the pointers `outer`, or points into the value of one.
fn is_within_any(pointer: &str, outer: &BTreeSet<String>) -> bool {
    let ends = pointer.match_indices('/').map(|(end, _)| end);
    ends.chain([pointer.len()])
        .any(|end| outer.contains(&pointer[..end]))
}

/// Returns the names of the non-empty fields that the policy `sensitive` doesn't seal as a whole, because no mark
/// covers the whole value. The key is the resource type, or `outputs` for the outputs of the stack. Pending operations
/// count too. A name that contains a secret is replaced by `(sensitive name)`.
pub fn readable_fields(snapshot: &Snapshot) -> BTreeMap<String, BTreeSet<String>> {
    let mut readable: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let secret = secret_names(snapshot);
    let shown = |name: &str| secret.masked(name, SECRET_NAME).to_owned();
    for (_, entry) in snapshot.all_entries() {
        let own = SecretStrings::of_entry(entry);
        let kind = entry.kind.as_deref().unwrap_or_else(|| entry.entry_type.name());
        for (side, paths) in [
            (&entry.inputs, &entry.sensitive_inputs),
            (&entry.outputs, &entry.sensitive_outputs),
        ] {
            let Some(side) = side else { continue };
            let covered: BTreeSet<String> = covered_pointers(side.json(), paths, &own).into_iter().collect();
            if covered.contains("") {
                continue;
            }
            let fields = side.view().members().into_iter().flatten();
            let open = fields
                .filter(|(name, value)| has_content(value) && !covered.contains(&child_pointer("", name)));
            let names = readable.entry(kind.to_owned()).or_default();
            open.for_each(|(name, _)| _ = names.insert(shown(&name)));
        }
    }
    let own = SecretStrings::of_outputs(snapshot);
    let marks = OutputMarks::of(&snapshot.outputs, &snapshot.sensitive_outputs);
    let is_covered = |name: &str| {
        let spans = marks.spans(name, &own);
        spans.iter().any(|span| span.pointer.is_empty())
    };
    let open = snapshot.outputs.iter().filter(|(name, value)| {
        let value: &Json = value;
        has_content(&value.view()) && !is_covered(name)
    });
    let outputs: BTreeSet<String> = open.map(|(name, _)| shown(name)).collect();
    if !outputs.is_empty() {
        readable.entry("outputs".to_owned()).or_default().extend(outputs);
    }
    readable.retain(|_, names| !names.is_empty());
    readable
}

fn has_content(view: &View<'_>) -> bool {
    match view.kind() {
        Kind::Null => false,
        Kind::Bool | Kind::Number => true,
        Kind::String => view.as_str().is_some_and(|text| !text.is_empty()),
        Kind::Array => view.elements().is_some_and(|mut all| all.next().is_some()),
        Kind::Object => view.members().is_some_and(|mut all| all.next().is_some()),
    }
}
