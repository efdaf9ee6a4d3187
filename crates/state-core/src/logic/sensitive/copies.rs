//! Search of a whole snapshot for copies of its secrets.

use super::cover::{Path, is_dynamic_value};
use super::envelope::secret_content;
use super::frequent_values::is_common;
use super::names::SecretNames;
use super::ordinary::is_ordinary;
use super::output_marks::OutputMarks;
use super::resolver::Resolver;
use super::{SecretStrings, covered_pointers, sides};
use crate::address::EntryKey;
use crate::entry::Entry;
use crate::json::{Properties, View, child_pointer};
use crate::logic::suspects::is_secret_name;
use crate::snapshot::{EntryPosition, Snapshot};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// Unmarked values that contain a secret. The secret is marked elsewhere in the same snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copies {
    /// Positions of entries in the snapshot, each with the paths to its copies.
    pub entries: Vec<(EntryPosition, Marks)>,
    /// JSON pointers into the map of the stack's outputs.
    pub outputs: Vec<String>,
    /// Entries with a secret in their address, id, errors or names of fields, which no path can mark.
    pub unmarked: BTreeSet<EntryKey>,
    /// Number of outputs with a secret in their name.
    pub unmarked_outputs: usize,
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

/// Finds unmarked copies of the secrets of a snapshot. The secrets are the marked values of its entries, pending
/// operations and outputs, except for common values: words, numbers, regions, address ranges, times. A copy is a string
/// that equals a secret, or that contains a secret of at least [`super::MIN_PART_CHARS`] characters. Runs in time
/// proportional to the size of the snapshot.
///
/// A user often marks a whole object of settings, of which only a few are secret. Therefore a value inside a marked
/// object or list is a secret only in three cases: it doesn't look like a name, a version or a host; or the name of its
/// field announces a secret, as `password` does; or a pointer of `known` covers it. `known` returns pointers to values
/// of an entry that are certainly secret.
pub fn find_copies(snapshot: &Snapshot, known: &dyn Fn(&Entry) -> Marks) -> Copies {
    let secrets = SecretStrings::of_snapshot(snapshot, known);
    let mut copies = copies_of(&secrets, snapshot);
    let names = SecretNames::of(secrets);
    let named = snapshot
        .all_entries()
        .filter(|(_, entry)| has_secret_names(entry, &names));
    copies.unmarked.extend(named.map(|(_, entry)| entry.key()));
    copies.unmarked_outputs = snapshot.outputs.keys().filter(|name| names.contain(name)).count();
    copies
}

/// Finds the unmarked values of a snapshot that the secrets cover.
pub(super) fn copies_of(secrets: &SecretStrings, snapshot: &Snapshot) -> Copies {
    let mut copies = Copies::default();
    if secrets.is_empty() {
        return copies;
    }
    for (position, entry) in snapshot.all_entries() {
        let own = SecretStrings::of_entry(entry);
        let [inputs, outputs] = sides(entry).map(|(side, paths)| match side {
            Some(side) => new_pointers(side, paths, &own, secrets),
            None => Vec::new(),
        });
        let marks = Marks { inputs, outputs };
        if has_unmarked(entry, &own, &marks, secrets) {
            copies.unmarked.insert(entry.key());
        }
        if !marks.is_empty() {
            copies.entries.push((position, marks));
        }
    }
    let own = SecretStrings::of_outputs(snapshot);
    let marks = OutputMarks::of(&snapshot.outputs, &snapshot.sensitive_outputs);
    for name in snapshot.outputs.keys() {
        let base = child_pointer("", name);
        let found = |also| -> BTreeSet<String> {
            let spans = marks.spans(name, also);
            spans
                .into_iter()
                .map(|span| format!("{base}{}", span.pointer))
                .collect()
        };
        let known = found(&own);
        copies.outputs.extend(found(secrets).difference(&known).cloned());
    }
    copies
}

impl SecretStrings {
    /// Collects the marked strings of a snapshot that [`find_copies`] searches for. A mark whose value is missing hides
    /// the nearest ancestor as a precaution, but adds no strings: the other values of the ancestor need not be secrets.
    pub fn of_snapshot(snapshot: &Snapshot, known: &dyn Fn(&Entry) -> Marks) -> Self {
        let mut secrets = Self::default();
        for (_, entry) in snapshot.all_entries() {
            if !super::entry_has_sensitive(entry) {
                continue;
            }
            let known = known(entry);
            for ((side, paths), known) in sides(entry).into_iter().zip([known.inputs, known.outputs]) {
                let Some(view) = side.as_ref().map(Properties::view) else {
                    continue;
                };
                let mut resolver = Resolver::of(view);
                for pointer in &known {
                    if let Some(view) = resolver.existing(Path::new(pointer)) {
                        secrets.collect_under(view);
                    }
                }
                for path in paths {
                    if let Some(marked) = resolver.existing(Path::new(path)) {
                        collect(&mut secrets, last_step(path), marked);
                    }
                }
            }
        }
        let marks = OutputMarks::of(&snapshot.outputs, &snapshot.sensitive_outputs);
        for (name, value) in &snapshot.outputs {
            let mut resolver = Resolver::of(value.view());
            for path in marks.inside(name) {
                if let Some(marked) = resolver.existing(path) {
                    collect(&mut secrets, name, marked);
                }
            }
        }
        secrets.strings.retain(|secret| !is_common(secret));
        secrets
    }
}

/// The name of the field that a path leads to.
fn last_step(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// Collects a marked scalar, and those parts of a marked object or list that don't look ordinary.
fn collect(secrets: &mut SecretStrings, name: &str, marked: View<'_>) {
    if is_scalar(marked) {
        return secrets.collect_under(marked);
    }
    let is_dynamic = is_dynamic_value(marked);
    let scalar = marked
        .get("value")
        .filter(|value| is_dynamic && is_scalar(*value));
    if let Some(value) = scalar {
        return secrets.collect_under(value);
    }
    let mut open = vec![(name.to_owned(), marked)];
    while let Some((name, view)) = open.pop() {
        if let Some(content) = secret_content(view) {
            collect(secrets, &name, content.view());
        }
        let number = view.number().map(Cow::Borrowed);
        if let Some(text) = view.as_str().or(number)
            && (is_secret_name(&name) || !is_ordinary(&text))
        {
            secrets.add(&text);
        }
        open.extend(
            view.elements()
                .into_iter()
                .flatten()
                .map(|item| (name.clone(), item)),
        );
        let is_dynamic = is_dynamic_value(view);
        let members = view.members().into_iter().flatten();
        let members = members.filter(|(key, _)| !is_dynamic || key != "type");
        // The wrapper of a dynamic value has no name of its own.
        open.extend(members.map(|(key, member)| {
            let name = if is_dynamic {
                name.clone()
            } else {
                key.into_owned()
            };
            (name, member)
        }));
    }
}

fn is_scalar(view: View<'_>) -> bool {
    view.members().is_none() && view.elements().is_none()
}

/// Returns pointers to those values of one side (inputs or outputs) that the snapshot's secrets cover, but the entry's
/// own marks don't.
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
    // The empty pointer would mark the whole side with its field names, which aren't secret. If the entry's own marks
    // already cover the whole side, no new mark is needed.
    let is_new = |pointer: &String| !pointer.is_empty() && !known.contains("") && !known.contains(pointer);
    found.into_iter().filter(is_new).collect()
}

/// Whether the address, the id or an error of an entry contains a secret that sealing would leave in plain text. An id
/// is sealed if it contains one of the entry's own secrets or equals a marked value, and errors are sealed if the entry
/// has any mark. An address is never sealed.
fn has_unmarked(entry: &Entry, own: &SecretStrings, marks: &Marks, secrets: &SecretStrings) -> bool {
    let id = entry.id.as_deref().filter(|id| {
        // The sealer also seals an id that equals one of the values that `marks` is about to mark.
        let side = |side: &Option<Properties>, pointers: &[String]| {
            let mut resolver = side.as_ref().map(|side| Resolver::of(side.view()));
            pointers.iter().any(|pointer| {
                let view = resolver
                    .as_mut()
                    .and_then(|side| side.existing(Path::new(pointer)));
                view.and_then(|view| view.as_str())
                    .is_some_and(|text| text == *id)
            })
        };
        !own.occur_in(id) && !side(&entry.inputs, &marks.inputs) && !side(&entry.outputs, &marks.outputs)
    });
    let seals_errors = super::entry_has_sensitive(entry) || !marks.is_empty();
    let errors = entry.init_errors.iter().filter(|_| !seals_errors);
    let mut texts = errors
        .map(String::as_str)
        .chain(id)
        .chain([entry.address.as_str()]);
    texts.any(|text| secrets.cover(text))
}

/// Whether the name of a field, or a name on a marked path, contains a secret. Both are stored in plain text.
fn has_secret_names(entry: &Entry, names: &SecretNames) -> bool {
    sides(entry).into_iter().any(|(side, paths)| {
        let fields = side.as_ref().and_then(|side| side.view().members());
        let mut fields = fields.into_iter().flatten();
        fields.any(|(name, _)| names.contain(&name)) || paths.iter().any(|path| names.occur_in_path(path))
    })
}
