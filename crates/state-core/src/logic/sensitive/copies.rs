//! Search of a whole snapshot for copies of its secrets.

use super::cover::{Path, resolve_existing};
use super::frequent_values::is_common;
use super::{SecretStrings, covered_pointers, output_paths, sides, spans_of_output};
use crate::address::EntryKey;
use crate::entry::Entry;
use crate::json::{Properties, child_pointer};
use crate::pending::PendingOperation;
use crate::snapshot::Snapshot;
use std::collections::BTreeSet;

/// Values that hold a secret which is marked elsewhere in the same snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copies {
    /// Paths in entries, by the position of the entry in the snapshot.
    pub entries: Vec<(usize, Marks)>,
    /// JSON pointers into the map of the stack's outputs.
    pub outputs: Vec<String>,
    /// Entries whose address, id or errors hold such a secret outside of all values that a path can mark.
    pub unmarked: Vec<EntryKey>,
}

/// Marks for one entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// JSON pointers into the inputs.
    pub inputs: Vec<String>,
    /// JSON pointers into the outputs.
    pub outputs: Vec<String>,
}

impl Marks {
    /// Whether there is no mark.
    pub const fn is_empty(&self) -> bool {
        self.inputs.is_empty() && self.outputs.is_empty()
    }
}

/// Finds the values that no mark covers and that repeat a marked value of any entry, pending operation or output of the
/// snapshot: strings that equal it, or contain it if it has at least [`super::MIN_PART_CHARS`] characters. Common words,
/// common numbers and regions are not searched for. Takes time in proportion to the size of the snapshot.
pub fn find_copies(snapshot: &Snapshot) -> Copies {
    let secrets = secrets_of(snapshot);
    let mut copies = Copies::default();
    if secrets.is_empty() {
        return copies;
    }
    for (position, entry) in snapshot.entries.iter().enumerate() {
        let own = SecretStrings::of_entry(entry);
        let [inputs, outputs] = sides(entry).map(|(side, paths)| match side {
            Some(side) => new_pointers(side, paths, &own, &secrets),
            None => Vec::new(),
        });
        let marks = Marks { inputs, outputs };
        if has_unmarked(entry, &own, &marks, &secrets) {
            copies.unmarked.push(entry.key());
        }
        if !marks.is_empty() {
            copies.entries.push((position, marks));
        }
    }
    let own = SecretStrings::of_outputs(snapshot);
    let (outputs, marked) = (&snapshot.outputs, &snapshot.sensitive_outputs);
    for name in outputs.keys() {
        let base = child_pointer("", name);
        let found = |also| -> BTreeSet<String> {
            let spans = spans_of_output(outputs, marked, name, also);
            spans
                .into_iter()
                .map(|span| format!("{base}{}", span.pointer))
                .collect()
        };
        let known = found(&own);
        copies.outputs.extend(found(&secrets).difference(&known).cloned());
    }
    copies
}

/// All marked strings of a snapshot that may be searched for in other places. A mark whose value is missing covers an
/// ancestor, out of caution; the ancestor's other values aren't searched for elsewhere.
fn secrets_of(snapshot: &Snapshot) -> SecretStrings {
    let pending = snapshot.pending_operations.iter();
    let pending = pending.flat_map(PendingOperation::entries);
    let mut secrets = SecretStrings::default();
    for entry in snapshot.entries.iter().chain(pending) {
        for (side, paths) in sides(entry) {
            let view = side.as_ref().map(Properties::view);
            let marked = view.map(|view| resolve_existing(view, &Path::all(paths)));
            marked
                .into_iter()
                .flatten()
                .for_each(|marked| secrets.collect_under(marked));
        }
    }
    let (outputs, marked) = (&snapshot.outputs, &snapshot.sensitive_outputs);
    for (name, value) in outputs {
        let paths = output_paths(outputs, marked, name);
        let marked = resolve_existing(value.view(), &paths).into_iter();
        marked.for_each(|marked| secrets.collect_under(marked));
    }
    secrets.strings.retain(|secret| !is_common(secret));
    secrets
}

/// Pointers to values of one side that only the snapshot's secrets cover, and not the marks of the entry itself.
fn new_pointers(
    side: &Properties,
    paths: &[String],
    own: &SecretStrings,
    secrets: &SecretStrings,
) -> Vec<String> {
    let found = covered_pointers(side.json(), paths, secrets);
    if found.is_empty() {
        return found;
    }
    let known: BTreeSet<String> = covered_pointers(side.json(), paths, own).into_iter().collect();
    // The whole side is never marked: names of fields aren't secret.
    let is_new = |pointer: &String| !pointer.is_empty() && !known.contains("") && !known.contains(pointer);
    found.into_iter().filter(is_new).collect()
}

/// Whether the address, the id or an error holds a secret. An id and errors are sealed if the entry marks the secret
/// itself; an address never is.
fn has_unmarked(entry: &Entry, own: &SecretStrings, marks: &Marks, secrets: &SecretStrings) -> bool {
    let id = entry.id.as_deref().filter(|id| {
        // A copy of the id among the marked values lets the sealer find it.
        let side = |side: &Option<Properties>, pointers: &[String]| {
            let side = side.as_ref();
            pointers.iter().any(|pointer| {
                let view = side.and_then(|side| side.view().pointer(pointer));
                view.and_then(|view| view.as_str())
                    .is_some_and(|text| text == *id)
            })
        };
        !own.occur_in(id) && !side(&entry.inputs, &marks.inputs) && !side(&entry.outputs, &marks.outputs)
    });
    let seals_errors = !own.is_empty() || !marks.is_empty();
    let errors = entry.init_errors.iter().filter(|_| !seals_errors);
    let mut texts = errors
        .map(String::as_str)
        .chain(id)
        .chain([entry.address.as_str()]);
    texts.any(|text| secrets.cover(text))
}
