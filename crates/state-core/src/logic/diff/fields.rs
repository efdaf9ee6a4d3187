//! Compares the fields of entries and of snapshot headers. The fields of an entry come from its JSON, so that a field
//! that is added to the model is compared without a change of this file.

use super::{Change, Property, Value};
use crate::codec::entry_text;
use crate::entry::{BoxedField, Entry};
use crate::json::{ArrayWriter, Json, JsonMap, ObjectWriter, child_pointer};
use crate::sealed::key_of_text;
use crate::sensitive::{SecretStrings, secret_string_ranges};
use crate::snapshot::Snapshot;
use std::collections::BTreeMap;

/// Fields that this comparison omits: the entry's key and modification time, and the inputs and outputs, which
/// `sides.rs` compares.
const APART: [&str; 5] = ["address", "deposed", "inputs", "modified", "outputs"];

/// Values of fields by JSON pointer.
type Fields = BTreeMap<String, Value>;

/// Returns the changed fields of an entry.
pub(super) fn entry_changes(old: &Entry, new: &Entry, secrets: &SecretStrings) -> Vec<Change> {
    compare(entry_fields(old, secrets), entry_fields(new, secrets))
}

/// Returns the fields of an entry.
pub(super) fn entry_properties(entry: &Entry, secrets: &SecretStrings) -> Vec<Property> {
    let fields = entry_fields(entry, secrets).into_iter();
    fields
        .map(|(pointer, value)| Property { pointer, value })
        .collect()
}

/// Returns the changes of a snapshot apart from its entries and outputs.
pub(super) fn header_changes(old: &Snapshot, new: &Snapshot) -> Vec<Change> {
    compare(header_fields(old), header_fields(new))
}

fn entry_fields(entry: &Entry, secrets: &SecretStrings) -> Fields {
    // The marks are sets: tools write them in the order of a map, which differs from run to run.
    let sorted = |marks: &[String]| {
        let mut marks = marks.to_vec();
        marks.sort_unstable();
        marks
    };
    let bare = Entry {
        sensitive_inputs: sorted(&entry.sensitive_inputs),
        sensitive_outputs: sorted(&entry.sensitive_outputs),
        inputs: None,
        outputs: None,
        extensions: JsonMap::new(),
        unknown: BoxedField::NONE,
        ..entry.clone()
    };
    let document = Json::from_canonical(&entry_text(&bare));
    let mut fields = Fields::new();
    for (name, value) in document.view().members().into_iter().flatten() {
        if !APART.contains(&&*name) {
            let value = Json::from_view(value);
            let mut secret = secret_string_ranges(&value, secrets);
            secret.extend(sealed_texts(&value));
            secret.sort_unstable();
            secret.dedup();
            fields.insert(child_pointer("", &name), Value::new(value, secret));
        }
    }
    add_rest(&mut fields, &entry.extensions, &entry.unknown);
    fields
}

/// Returns the byte ranges of sealed texts, in a field that is a text or a list of texts.
fn sealed_texts(value: &Json) -> Vec<(usize, usize)> {
    let view = value.view();
    let texts = view.elements().into_iter().flatten().chain([view]);
    let sealed = texts.filter(|one| one.as_str().is_some_and(|text| key_of_text(&text).is_some()));
    sealed.map(|one| (one.offset(), one.range().end)).collect()
}

fn header_fields(snapshot: &Snapshot) -> Fields {
    let mut text = String::new();
    let mut factory = ObjectWriter::new(&mut text);
    factory
        .string("content-revision", &snapshot.factory.content_revision)
        .string("name", &snapshot.factory.name)
        .string("version", &snapshot.factory.version);
    factory.finish();
    let mut fields = Fields::from([(
        "/stack".to_owned(),
        Value::new(Json::from_canonical(&text), Vec::new()),
    )]);
    if let Some(program) = &snapshot.program {
        let program = Json::from_string(program);
        fields.insert("/program".to_owned(), Value::new(program, Vec::new()));
    }
    if !snapshot.sensitive_outputs.is_empty() {
        let mut text = String::new();
        let mut marks = ArrayWriter::new(&mut text);
        for mark in &snapshot.sensitive_outputs {
            marks.string(mark);
        }
        marks.finish();
        fields.insert(
            "/sensitive-outputs".to_owned(),
            Value::new(Json::from_canonical(&text), Vec::new()),
        );
    }
    add_rest(&mut fields, &snapshot.extensions, &snapshot.unknown);
    fields
}

/// Adds extensions and unknown fields as secret values, because they may contain unmarked secrets. Omits an unknown
/// field with the name of a known one.
fn add_rest(fields: &mut Fields, extensions: &JsonMap, unknown: &JsonMap) {
    for (system, value) in extensions.iter() {
        fields.insert(child_pointer("/extensions", system), Value::secret(value.clone()));
    }
    for (name, value) in unknown.iter().filter(|(name, _)| !APART.contains(name)) {
        fields
            .entry(child_pointer("", name))
            .or_insert_with(|| Value::secret(value.clone()));
    }
}

/// Returns the fields that only one version has, or whose values differ, sorted by pointer.
fn compare(old: Fields, mut new: Fields) -> Vec<Change> {
    let mut changes: Vec<Change> = Vec::new();
    for (pointer, before) in old {
        let after = new.remove(&pointer);
        if after.as_ref().map(Value::revealed) != Some(before.revealed()) {
            changes.push(Change {
                pointer,
                old: Some(before),
                new: after,
            });
        }
    }
    changes.extend(new.into_iter().map(|(pointer, after)| Change {
        pointer,
        old: None,
        new: Some(after),
    }));
    changes.sort_by(|a, b| a.pointer.cmp(&b.pointer));
    changes
}
