//! Which values are secret, and copies without them.
//!
//! Entries and snapshots mark secrets by path: the name of a top-level field, or a JSON pointer (it begins with
//! `/`). What is covered is rather too much than too little:
//!
//! - A path that leads nowhere covers the nearest value on its way that exists, if need be the whole object.
//! - Terraform wraps values of dynamic types as `{"value": …, "type": …}`: a step that isn't there goes through
//!   `value`.
//! - A string of [`MIN_SECRET_CHARS`] characters or more that equals a marked one is marked as well, anywhere in the
//!   inputs and outputs of the same entry, or in the outputs of the stack. An object below the top that has such a
//!   string as a key is covered whole.
//!
//! Names of top-level fields and of outputs are never secret.
//!
//! ```
//! use state_core::sensitive::{SecretStrings, mask};
//! use state_core::Json;
//!
//! let inputs = Json::parse(r#"{"user":"anna","password":"hunter22","note":"hunter22"}"#)?;
//! let paths = ["password".to_owned()];
//! let mut secrets = SecretStrings::default();
//! secrets.collect(&inputs, &paths);
//! let masked = mask(&inputs, &paths, &secrets, "***");
//! assert_eq!(masked.as_str(), r#"{"note":"***","password":"***","user":"anna"}"#);
//! # Ok::<(), state_core::json::JsonError>(())
//! ```

mod cover;
mod fragments;

#[cfg(test)]
mod tests;

use crate::entry::Entry;
use crate::json::{Json, ObjectWriter, Properties, View};
use crate::pending::PendingOperation;
use crate::snapshot::Snapshot;
use cover::{Covered, Path, covered, resolve_all};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Shorter strings are too common to be told from others of the same text.
pub const MIN_SECRET_CHARS: usize = 6;

/// Marked strings, to be found again elsewhere. `Debug` shows how many there are.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SecretStrings(BTreeSet<String>);

impl SecretStrings {
    /// Adds all strings under the marked paths of a value, if they are long enough.
    pub fn collect(&mut self, value: &Json, paths: &[String]) {
        for marked in resolve_all(value.view(), &Path::all(paths)) {
            self.collect_under(marked);
        }
    }

    /// Adds a string, if it is long enough.
    pub fn add(&mut self, text: &str) {
        if text.chars().count() >= MIN_SECRET_CHARS {
            self.0.insert(text.to_owned());
        }
    }

    fn collect_under(&mut self, marked: View<'_>) {
        let mut open = vec![marked];
        while let Some(view) = open.pop() {
            open.extend(view.elements().into_iter().flatten());
            open.extend(view.members().into_iter().flatten().map(|(_, value)| value));
            if let Some(text) = view.as_str() {
                self.add(&text);
            }
        }
    }

    /// Those of one entry: of its inputs and its outputs.
    pub fn of_entry(entry: &Entry) -> Self {
        let mut secrets = Self::default();
        for (side, paths) in sides(entry) {
            if let Some(properties) = side {
                secrets.collect(properties.json(), paths);
            }
        }
        secrets
    }

    /// Those of the stack's own outputs.
    pub fn of_outputs(snapshot: &Snapshot) -> Self {
        Self::of_output_map(&snapshot.outputs, &snapshot.sensitive_outputs)
    }

    /// Those of a map of outputs, marked by names or by pointers into the map.
    pub fn of_output_map(outputs: &BTreeMap<String, Json>, sensitive: &[String]) -> Self {
        let mut secrets = Self::default();
        for (name, value) in outputs {
            for marked in resolve_all(value.view(), &output_paths(outputs, sensitive, name)) {
                secrets.collect_under(marked);
            }
        }
        secrets
    }

    /// Adds others, such as those of another version of the same object.
    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Whether a string is one of them.
    pub fn contains(&self, text: &str) -> bool {
        self.0.contains(text)
    }

    /// Whether one of them stands anywhere in a text.
    pub fn stand_in(&self, text: &str) -> bool {
        self.0.iter().any(|secret| text.contains(secret.as_str()))
    }

    /// A text for people, with a placeholder for whatever of [`MIN_SECRET_CHARS`] bytes or more it has in common with one
    /// of them: a secret that was spliced into a longer string isn't told either.
    pub fn masked_in<'t>(&'t self, text: &'t str, placeholder: &str) -> Cow<'t, str> {
        fragments::masked(text, self.0.iter(), placeholder)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for SecretStrings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretStrings({})", self.0.len())
    }
}

/// JSON pointers to all that is secret in a value, in the order of its text; none of them leads into another. The
/// empty pointer stands for the whole.
pub fn covered_pointers(value: &Json, paths: &[String], also: &SecretStrings) -> Vec<String> {
    let covered = covered(value.view(), &Path::all(paths), also);
    covered.into_iter().map(|one| one.pointer).collect()
}

/// A stretch of a value's text that is secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretStretch {
    /// JSON pointer to the value that stands there; the empty one leads to the whole.
    pub pointer: String,
    /// Where it begins and ends in the text, in bytes.
    pub range: std::ops::Range<usize>,
}

impl SecretStretch {
    /// The stretch of a value to which the pointer leads.
    pub fn of(pointer: String, view: View<'_>) -> Self {
        let range = view.range();
        Self { pointer, range }
    }

    /// Whether the other one lies in it.
    pub const fn contains(&self, other: &Self) -> bool {
        self.range.start <= other.range.start && other.range.end <= self.range.end
    }
}

/// [`covered_pointers`] with the place of each in the text.
pub fn covered_stretches(object: &Json, paths: &[String], also: &SecretStrings) -> Vec<SecretStretch> {
    stretches(covered(object.view(), &Path::all(paths), also))
}

/// What is secret in a value whose keys may be secret as well: only by strings.
pub fn stretches_with_strings(value: &Json, also: &SecretStrings) -> Vec<SecretStretch> {
    stretches(cover::covered_below(value.view(), &[], also))
}

/// What is secret in one output of a map of outputs, marked by names or by pointers into the map.
pub fn stretches_of_output(
    outputs: &BTreeMap<String, Json>,
    sensitive: &[String],
    name: &str,
    also: &SecretStrings,
) -> Vec<SecretStretch> {
    let Some(value) = outputs.get(name) else {
        return Vec::new();
    };
    let paths = output_paths(outputs, sensitive, name);
    stretches(cover::covered_below(value.view(), &paths, also))
}

fn stretches(covered: Vec<Covered<'_>>) -> Vec<SecretStretch> {
    let stretch = |Covered { pointer, view }| SecretStretch::of(pointer, view);
    covered.into_iter().map(stretch).collect()
}

/// Where secrets begin and end in the text of an object whose keys are names of fields: by its own marks, by those
/// of another version of it, and by strings. An object that is covered whole gives the values of its fields.
pub(crate) fn secret_ranges(
    object: &Json,
    own: &[String],
    foreign: &[String],
    also: &SecretStrings,
) -> BTreeMap<usize, usize> {
    let covered = cover::covered_with(object.view(), &Path::all(own), &Path::all(foreign), also);
    match (covered.as_slice(), object.view().members()) {
        ([whole], Some(fields)) if whole.pointer.is_empty() => fields.map(|(_, value)| span(value)).collect(),
        _ => covered.iter().map(|one| span(one.view)).collect(),
    }
}

/// Where strings that are secret begin and end in the text of any value.
pub(crate) fn secret_string_ranges(value: &Json, also: &SecretStrings) -> Vec<(usize, usize)> {
    let covered = cover::covered_below(value.view(), &[], also);
    covered.iter().map(|one| span(one.view)).collect()
}

/// A copy with the placeholder, as a string, in the place of all that is secret.
pub fn mask(value: &Json, paths: &[String], also: &SecretStrings, placeholder: &str) -> Json {
    replaced(
        value,
        &covered(value.view(), &Path::all(paths), also),
        placeholder,
    )
}

/// Copies of an entry's inputs and outputs without secrets.
pub fn mask_entry(entry: &Entry, placeholder: &str) -> (Option<Properties>, Option<Properties>) {
    let secrets = SecretStrings::of_entry(entry);
    let [inputs, outputs] = sides(entry).map(|(side, paths)| {
        let masked = |properties: &Properties| mask_properties(properties, paths, &secrets, placeholder);
        side.as_ref().map(masked)
    });
    (inputs, outputs)
}

/// A copy of the stack's own outputs without secrets.
pub fn mask_outputs(snapshot: &Snapshot, placeholder: &str) -> BTreeMap<String, Json> {
    let secrets = SecretStrings::of_outputs(snapshot);
    let outputs = snapshot.outputs.iter().map(|(name, value)| {
        let covered = cover::covered_below(
            value.view(),
            &output_paths(&snapshot.outputs, &snapshot.sensitive_outputs, name),
            &secrets,
        );
        (name.clone(), replaced(value, &covered, placeholder))
    });
    outputs.collect()
}

/// Whether anything that is there is marked as secret: in the entries, in those of pending operations, or in the
/// outputs.
pub fn has_sensitive(snapshot: &Snapshot) -> bool {
    let pending = snapshot
        .pending_operations
        .iter()
        .flat_map(PendingOperation::entries);
    let mut entries = snapshot.entries.iter().chain(pending);
    let outputs = !snapshot.sensitive_outputs.is_empty() && !snapshot.outputs.is_empty();
    outputs || entries.any(|entry| entry_has_sensitive(entry))
}

/// Whether anything in an entry is marked as secret.
pub fn entry_has_sensitive(entry: &Entry) -> bool {
    let mut sides = sides(entry).into_iter();
    sides.any(|(side, paths)| side.is_some() && !paths.is_empty())
}

const fn sides(entry: &Entry) -> [(&Option<Properties>, &Vec<String>); 2] {
    [
        (&entry.inputs, &entry.sensitive_inputs),
        (&entry.outputs, &entry.sensitive_outputs),
    ]
}

/// The marked paths of the map of outputs, as they go on inside one of them. A path to an output that isn't there
/// covers the map, so all of them.
fn output_paths(outputs: &BTreeMap<String, Json>, sensitive: &[String], name: &str) -> Vec<Path> {
    let inside = sensitive.iter().filter_map(|path| {
        let (first, rest) = Path::new(path).split();
        let concerns = first == name || !outputs.contains_key(&first);
        concerns.then(|| if first == name { rest } else { Path::default() })
    });
    inside.collect()
}

fn mask_properties(
    properties: &Properties,
    paths: &[String],
    secrets: &SecretStrings,
    placeholder: &str,
) -> Properties {
    let masked = mask(properties.json(), paths, secrets, placeholder);
    // The whole is covered: an object remains, for names of fields are never secret.
    Properties::new(masked).unwrap_or_else(|| {
        let mut text = String::new();
        let mut object = ObjectWriter::new(&mut text);
        for (key, _) in properties.view().members().into_iter().flatten() {
            object.string(&key, placeholder);
        }
        object.finish();
        Properties::new(Json::from_canonical(&text)).unwrap_or_default()
    })
}

/// A copy with the placeholder in the place of what is covered.
fn replaced(value: &Json, covered: &[Covered<'_>], placeholder: &str) -> Json {
    value.with_placeholders(covered.iter().map(|one| span(one.view)), placeholder)
}

/// Where a value begins and ends.
fn span(view: View<'_>) -> (usize, usize) {
    (view.offset(), view.range().end)
}
