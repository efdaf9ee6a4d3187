//! The fields of a Pulumi resource: their order, how each is stored, and how fields of the model are written.

use super::facts::EntryFacts;
use super::urn;
use state_core::json::{ArrayWriter, Json, ObjectWriter, write_string};
use state_core::{Address, Dependency, Entry, EntryType};

/// Where an import stores a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldClass {
    /// In a field of the model.
    Model,
    /// In the extension; the field contains no secrets.
    NonSecret,
    /// In the extension; the field may contain secrets.
    Opaque,
}

/// All fields that Pulumi defines, in Pulumi's order. `defaults` exists in version 1 only.
pub(super) const FIELDS: [(&str, FieldClass); 37] = [
    ("urn", FieldClass::Model),
    ("custom", FieldClass::Model),
    ("delete", FieldClass::Model),
    ("id", FieldClass::Model),
    ("type", FieldClass::Model),
    ("inputs", FieldClass::Model),
    ("defaults", FieldClass::Opaque),
    ("outputs", FieldClass::Model),
    ("parent", FieldClass::Model),
    ("protect", FieldClass::Model),
    ("taint", FieldClass::Model),
    ("external", FieldClass::Model),
    ("dependencies", FieldClass::Model),
    ("initErrors", FieldClass::Model),
    ("provider", FieldClass::Model),
    ("propertyDependencies", FieldClass::Model),
    ("pendingReplacement", FieldClass::Model),
    ("additionalSecretOutputs", FieldClass::NonSecret),
    ("aliases", FieldClass::NonSecret),
    ("customTimeouts", FieldClass::NonSecret),
    ("importID", FieldClass::NonSecret),
    ("retainOnDelete", FieldClass::Model),
    ("deletedWith", FieldClass::Model),
    ("replaceWith", FieldClass::Model),
    ("created", FieldClass::Model),
    ("modified", FieldClass::Model),
    ("sourcePosition", FieldClass::NonSecret),
    ("stackTrace", FieldClass::NonSecret),
    ("ignoreChanges", FieldClass::NonSecret),
    ("hideDiff", FieldClass::NonSecret),
    ("replaceOnChanges", FieldClass::NonSecret),
    ("replacementTrigger", FieldClass::Opaque),
    ("refreshBeforeUpdate", FieldClass::NonSecret),
    ("viewOf", FieldClass::NonSecret),
    ("resourceHooks", FieldClass::NonSecret),
    ("extensionRef", FieldClass::NonSecret),
    ("snippetID", FieldClass::NonSecret),
];

/// Position and class of a field. Unknown fields are opaque and sorted after the known ones.
pub(super) fn place(key: &str) -> (usize, FieldClass) {
    match FIELDS.iter().position(|(name, _)| *name == key) {
        Some(at) => (at, FIELDS[at].1),
        None => (FIELDS.len(), FieldClass::Opaque),
    }
}

/// Writes the value of a field of [`FieldClass::Model`], or nothing if Pulumi omits the field. Inputs and outputs are
/// written elsewhere.
pub(super) fn write(entry: &Entry, facts: &EntryFacts, key: &str, out: &mut String) {
    let flag = |is_set: bool, out: &mut String| out.push_str(if is_set { "true" } else { "" });
    match key {
        "urn" => write_string(out, entry.address.as_str()),
        "custom" => out.push_str(if entry.entry_type == EntryType::Leaf {
            "true"
        } else {
            "false"
        }),
        "delete" => flag(!entry.is_live(), out),
        "id" => text(entry.id.as_deref(), out),
        "type" => text(entry.kind.as_deref(), out),
        "parent" => text(entry.parent.as_ref().map(Address::as_str), out),
        "protect" => flag(entry.protect, out),
        "taint" => flag(entry.tainted, out),
        "external" => flag(entry.external, out),
        "dependencies" => list(entry.depends_on.iter().map(|to| to.address().as_str()), out),
        "initErrors" => list(entry.init_errors.iter().map(String::as_str), out),
        "provider" => {
            let provider = entry.provider.as_ref();
            let reference = provider.map(|provider| {
                urn::reference(
                    provider.address.as_str(),
                    provider.id.as_deref().unwrap_or_default(),
                )
            });
            text(reference.as_deref(), out);
        }
        "propertyDependencies" => properties(entry, facts, out),
        "pendingReplacement" => flag(entry.pending_replacement, out),
        "retainOnDelete" => flag(entry.retain_on_delete, out),
        "deletedWith" => text(entry.deleted_with.as_ref().map(Address::as_str), out),
        "replaceWith" => list(entry.replace_with.iter().map(Address::as_str), out),
        "created" => text(entry.created.as_ref().map(|at| at.as_str()), out),
        "modified" => text(entry.modified.as_ref().map(|at| at.as_str()), out),
        _ => {}
    }
}

/// The value that [`write()`] writes; None if the field is omitted.
pub(super) fn value(entry: &Entry, facts: &EntryFacts, key: &str) -> Option<Json> {
    let mut text = String::new();
    write(entry, facts, key, &mut text);
    (!text.is_empty()).then(|| Json::from_canonical(&text))
}

fn text(value: Option<&str>, out: &mut String) {
    if let Some(value) = value {
        write_string(out, value);
    }
}

fn list<'a>(items: impl Iterator<Item = &'a str>, out: &mut String) {
    let mut items = items.peekable();
    if items.peek().is_some() {
        let mut array = ArrayWriter::new(out);
        items.for_each(|item| _ = array.string(item));
        array.finish();
    }
}

fn properties(entry: &Entry, facts: &EntryFacts, out: &mut String) {
    if entry.property_dependencies.is_empty() {
        return;
    }
    let mut object = ObjectWriter::new(out);
    for (property, list) in &entry.property_dependencies {
        if list.is_empty() {
            object.raw(property, if facts.null_lists { "null" } else { "[]" });
            continue;
        }
        let mut array = object.array(property);
        list.iter()
            .map(Dependency::address)
            .for_each(|to| _ = array.string(to.as_str()));
        array.finish();
    }
    object.finish();
}
