//! Finds secret values, and makes copies of entries and outputs without them.
//!
//! Entries and snapshots mark secrets by path: the name of a top-level field, or a JSON pointer (which begins with
//! `/`). In case of doubt, more is hidden rather than less:
//!
//! - A path that doesn't exist marks the nearest existing ancestor, if necessary the whole object.
//! - Terraform wraps values of dynamic types as `{"value": …, "type": …}`: a missing path segment is looked up in
//!   `value`.
//! - A copy of a marked string of at least [`MIN_SECRET_CHARS`] characters is secret too, anywhere in the inputs and
//!   outputs of the same entry, or in the outputs of the stack.
//! - A longer string is secret if it contains a marked string of at least [`MIN_PART_CHARS`] characters, in plain, JSON
//!   or URL spelling. White space at the beginning of lines is ignored, so that indented copies are found.
//! - A marked string that is a common value (a word, a cloud region, an address range, a time) hides no other strings,
//!   because many unrelated values equal it.
//! - If Pulumi's envelope of a marked secret contains the value in plain text, copies of this value are secret too.
//! - A nested object with a secret string as a key is secret as a whole. A number is treated as the string of its
//!   digits.
//!
//! Names of top-level fields and of outputs are never hidden; [`SecretNames`] recognises those that contain a secret. An
//! import also searches for copies in other entries, with [`find_copies`].
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

mod added;
mod attributes;
mod copies;
mod cover;
mod entry_secrets;
pub mod envelope;
mod fragments;
mod frequent_values;
mod kept;
mod limits;
mod names;
mod ordinary;
mod output_marks;
mod parts;
mod resolver;
mod spelling;

#[cfg(test)]
mod tests;

use crate::entry::Entry;
use crate::json::{Json, ObjectWriter, Properties, View};
use crate::snapshot::Snapshot;
use cover::{CoveredValue, Path, covered};
use envelope::secret_content;
use frequent_values::is_common;
use parts::Parts;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::OnceLock;

pub use added::{ADDED_MARKS, AddedMarks, without_added};
pub use attributes::matching_pointers;
pub use copies::{Copies, Marks, find_copies};
pub use cover::is_dynamic_value;
pub use entry_secrets::EntrySecrets;
pub use kept::{KeptMarks, keep_marks, kept_inputs};
pub use limits::{MIN_PART_CHARS, MIN_SECRET_CHARS};
pub use names::SecretNames;
pub use output_marks::OutputMarks;

/// Strings that are marked as secret, for finding their other occurrences. `Debug` shows only their number.
#[derive(Clone, Default)]
pub struct SecretStrings {
    strings: BTreeSet<String>,
    /// Index of the strings of at least [`MIN_PART_CHARS`] characters, built at first use.
    parts: OnceLock<Parts>,
}

impl PartialEq for SecretStrings {
    fn eq(&self, other: &Self) -> bool {
        self.strings == other.strings
    }
}

impl Eq for SecretStrings {}

impl SecretStrings {
    /// Adds all strings and numbers under the marked paths of a value that have at least [`MIN_SECRET_CHARS`]
    /// characters.
    pub fn collect(&mut self, value: &Json, paths: &[String]) {
        self.collect_at(value.view(), &Path::all(paths));
    }

    fn collect_at(&mut self, value: View<'_>, paths: &[Path<'_>]) {
        self.collect_values(&cover::marked(value, paths));
    }

    /// Adds the strings and numbers in marked values of one text, which are in document order.
    fn collect_values(&mut self, marked: &[View<'_>]) {
        // Many marks may lead to one value, for example missing ones to their ancestor: each value is read only once.
        let mut end = 0;
        for view in marked {
            let range = view.range();
            if range.start >= end {
                self.collect_under(*view);
                end = range.end;
            }
        }
    }

    /// Adds a string of at least [`MIN_SECRET_CHARS`] characters, and ignores a shorter one.
    pub fn add(&mut self, text: &str) {
        if text.chars().nth(MIN_SECRET_CHARS - 1).is_some() {
            self.parts.take();
            self.strings.insert(text.to_owned());
        }
    }

    fn collect_under(&mut self, marked: View<'_>) {
        let mut open = Vec::new();
        let mut next = Some(marked);
        while let Some(view) = next {
            if let Some(text) = view.as_str() {
                self.add(&text);
            } else if let Some(digits) = view.number() {
                self.add(digits);
            } else if let Some(elements) = view.elements() {
                open.extend(elements);
            } else if let Some(members) = view.members() {
                if let Some(content) = secret_content(view) {
                    self.collect_under(content.view());
                }
                open.extend(members.map(|(_, value)| value));
            }
            next = open.pop();
        }
    }

    /// Collects the secret strings of an entry's inputs and outputs.
    pub fn of_entry(entry: &Entry) -> Self {
        let mut secrets = Self::default();
        for (side, paths) in sides(entry) {
            if let Some(properties) = side {
                secrets.collect(properties.json(), paths);
            }
        }
        secrets
    }

    /// Collects the secret strings of the stack's own outputs.
    pub fn of_outputs(snapshot: &Snapshot) -> Self {
        Self::of_output_map(&snapshot.outputs, &snapshot.sensitive_outputs)
    }

    /// Collects the secret strings of a map of outputs. `sensitive` contains names of outputs or pointers into the map.
    pub fn of_output_map(outputs: &BTreeMap<String, Json>, sensitive: &[String]) -> Self {
        let mut secrets = Self::default();
        let marks = OutputMarks::of(outputs, sensitive);
        for (name, value) in outputs {
            secrets.collect_at(value.view(), &marks.inside(name));
        }
        secrets
    }

    /// Adds other secret strings, such as those of another version of the same entry.
    pub fn extend(&mut self, other: Self) {
        self.parts = OnceLock::new();
        self.strings.extend(other.strings);
    }

    /// Whether a text equals one of the strings.
    pub fn contains(&self, text: &str) -> bool {
        self.strings.contains(text)
    }

    /// Whether a text equals one of the strings, or contains one of at least [`MIN_PART_CHARS`] characters. Ignores
    /// strings that are common values, such as cloud regions: many unrelated values equal them.
    pub fn cover(&self, text: &str) -> bool {
        let parts = || self.parts.get_or_init(|| Parts::of(self.strings.iter()));
        !self.is_empty() && ((self.contains(text) && !is_common(text)) || parts().occur_in(text))
    }

    /// Whether a text contains one of the strings.
    pub fn occur_in(&self, text: &str) -> bool {
        self.strings.iter().any(|secret| text.contains(secret.as_str()))
    }

    /// Masks a message: every part of at least [`MIN_SECRET_CHARS`] bytes that also occurs in one of the strings is
    /// replaced. This also hides a secret that was embedded in a longer string.
    pub fn masked_in<'t>(&'t self, text: &'t str, placeholder: &str) -> Cow<'t, str> {
        fragments::masked(text, self.strings.iter(), placeholder)
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.strings.is_empty()
    }
}

impl fmt::Debug for SecretStrings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretStrings({})", self.strings.len())
    }
}

/// Returns JSON pointers to all secret values, in document order and without nesting: the values at `paths`, and those
/// that `also` covers. The keys of `value` are field names and never secret. The empty pointer denotes the whole value.
pub fn covered_pointers(value: &Json, paths: &[String], also: &SecretStrings) -> Vec<String> {
    let covered = covered(value.view(), &Path::all(paths), also);
    covered.into_iter().map(|one| one.pointer).collect()
}

/// The byte range of a secret value in a JSON text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretSpan {
    /// JSON pointer to the value; the empty one denotes the whole document.
    pub pointer: String,
    /// Begin and end of the value in the text, in bytes.
    pub range: std::ops::Range<usize>,
}

impl SecretSpan {
    /// Returns the span of the value at a pointer.
    pub fn of(pointer: String, view: View<'_>) -> Self {
        let range = view.range();
        Self { pointer, range }
    }

    /// Whether this span contains the whole other span.
    pub const fn contains(&self, other: &Self) -> bool {
        self.range.start <= other.range.start && other.range.end <= self.range.end
    }
}

/// Like [`covered_pointers`], with the byte range of each value.
pub fn covered_spans(object: &Json, paths: &[String], also: &SecretStrings) -> Vec<SecretSpan> {
    spans(covered(object.view(), &Path::all(paths), also))
}

/// Returns the spans of the values that the secret strings cover, in a document without marked paths. Unlike in
/// [`covered_spans`], top-level keys of the document may be secret too.
pub fn spans_with_strings(value: &Json, also: &SecretStrings) -> Vec<SecretSpan> {
    spans(cover::covered_below(value.view(), &[], also))
}

fn spans(covered: Vec<CoveredValue<'_>>) -> Vec<SecretSpan> {
    let to_span = |CoveredValue { pointer, view }| SecretSpan::of(pointer, view);
    covered.into_iter().map(to_span).collect()
}

/// Returns the byte ranges of the secrets in the text of an object whose keys are field names, as begin and end.
/// Secrets are the values at the object's own marked paths (`own`), the values at paths that are marked on another
/// version of the object (`foreign`), and the values that `also` covers. If the whole object is covered, the result
/// contains the values of its fields.
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

/// Returns the byte ranges of the values that the secret strings cover, in the text of any value.
pub(crate) fn secret_string_ranges(value: &Json, also: &SecretStrings) -> Vec<(usize, usize)> {
    let covered = cover::covered_below(value.view(), &[], also);
    covered.iter().map(|one| span(one.view)).collect()
}

/// Returns a copy in which each secret is replaced by the placeholder string.
pub fn mask(value: &Json, paths: &[String], also: &SecretStrings, placeholder: &str) -> Json {
    replaced(
        value,
        &covered(value.view(), &Path::all(paths), also),
        placeholder,
    )
}

/// Returns copies of an entry's inputs and outputs without secrets.
pub fn mask_entry(entry: &Entry, placeholder: &str) -> (Option<Properties>, Option<Properties>) {
    let secrets = SecretStrings::of_entry(entry);
    let [inputs, outputs] = sides(entry).map(|(side, paths)| {
        let masked = |properties: &Properties| mask_properties(properties, paths, &secrets, placeholder);
        side.as_ref().map(masked)
    });
    (inputs, outputs)
}

/// Returns a copy of the stack's own outputs without secrets.
pub fn mask_outputs(snapshot: &Snapshot, placeholder: &str) -> BTreeMap<String, Json> {
    let secrets = SecretStrings::of_outputs(snapshot);
    let marks = OutputMarks::of(&snapshot.outputs, &snapshot.sensitive_outputs);
    let outputs = snapshot.outputs.iter().map(|(name, value)| {
        let covered = cover::covered_below(value.view(), &marks.inside(name), &secrets);
        (name.clone(), replaced(value, &covered, placeholder))
    });
    outputs.collect()
}

/// Whether any existing value is marked as secret: in the entries, in those of pending operations, or in the outputs.
pub fn has_sensitive(snapshot: &Snapshot) -> bool {
    let outputs = !snapshot.sensitive_outputs.is_empty() && !snapshot.outputs.is_empty();
    outputs
        || snapshot
            .all_entries()
            .any(|(_, entry)| entry_has_sensitive(entry))
}

/// Whether any value of an entry is marked as secret.
pub fn entry_has_sensitive(entry: &Entry) -> bool {
    let mut sides = sides(entry).into_iter();
    sides.any(|(side, paths)| side.is_some() && !paths.is_empty())
}

/// Returns an entry's inputs and outputs, each with its marked paths.
const fn sides(entry: &Entry) -> [(&Option<Properties>, &Vec<String>); 2] {
    [
        (&entry.inputs, &entry.sensitive_inputs),
        (&entry.outputs, &entry.sensitive_outputs),
    ]
}

fn mask_properties(
    properties: &Properties,
    paths: &[String],
    secrets: &SecretStrings,
    placeholder: &str,
) -> Properties {
    let masked = mask(properties.json(), paths, secrets, placeholder);
    // If the whole object is covered, an object with its field names remains, because field names are never secret.
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

/// Returns a copy with the placeholder in place of the covered values.
fn replaced(value: &Json, covered: &[CoveredValue<'_>], placeholder: &str) -> Json {
    value.with_placeholders(covered.iter().map(|one| span(one.view)), placeholder)
}

/// Returns the begin and end of a value in the text, in bytes.
fn span(view: View<'_>) -> (usize, usize) {
    (view.offset(), view.range().end)
}
