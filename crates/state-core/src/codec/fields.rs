//! The JSON fields of snapshots and entries: their keys, their order in the pretty form, and their values.
//!
//! Both encoders use these functions. The functions destructure their structs completely: if a field is added to the
//! model and not encoded here, this file doesn't compile. The compiler doesn't check `ENTRY_KEYS` and the decoder
//! (`read.rs`): a field that is missing there is decoded as an unknown member.

use super::value::Value;
use crate::entry::Entry;
use crate::json::{Json, JsonMap};
use crate::snapshot::{CURRENT_FORMAT_VERSION, Snapshot};
use std::collections::BTreeMap;

/// The members of one JSON object.
pub(super) struct Fields<'a>(pub(super) Vec<(&'a str, Value<'a>)>);

impl<'a> Fields<'a> {
    fn some(&mut self, key: &'a str, value: Option<Value<'a>>) {
        self.0.extend(value.map(|value| (key, value)));
    }

    fn text(&mut self, key: &'a str, text: Option<&'a str>) {
        self.some(key, text.map(Value::Text));
    }

    fn flag(&mut self, key: &'a str, flag: bool) {
        self.some(key, flag.then_some(Value::True));
    }

    fn filled<T>(&mut self, key: &'a str, items: &'a [T], value: impl Fn(&'a [T]) -> Value<'a>) {
        self.some(key, (!items.is_empty()).then(|| value(items)));
    }

    fn map(&mut self, key: &'a str, map: &'a BTreeMap<String, Json>) {
        self.some(key, (!map.is_empty()).then_some(Value::Map(map)));
    }

    /// Adds a map of extensions, unless it is empty.
    fn rest(&mut self, key: &'a str, map: &'a JsonMap) {
        self.some(key, (!map.is_empty()).then_some(Value::Rest(map)));
    }

    /// Adds unknown fields. Known fields take precedence over unknown ones of the same name, because a key must not
    /// occur twice.
    fn unknown(&mut self, unknown: &'a JsonMap, known: &[&str]) {
        let others = unknown.iter().filter(|(key, _)| !known.contains(key));
        self.0.extend(others.map(|(key, json)| (key, Value::Json(json))));
    }

    /// Sorts the members by the bytes of their keys.
    pub(super) fn sorted(mut self) -> Self {
        self.0.sort_unstable_by_key(|(key, _)| *key);
        self
    }
}

/// The keys that [`entry`] writes.
const ENTRY_KEYS: [&str; 31] = [
    "address",
    "type",
    "kind",
    "schema-version",
    "sensitive-inputs",
    "sensitive-outputs",
    "library",
    "library-type",
    "configuration",
    "trigger-hash",
    "inputs",
    "outputs",
    "depends-on",
    "deposed",
    "uid",
    "group",
    "id",
    "parent",
    "provider",
    "property-dependencies",
    "deleted-with",
    "replace-with",
    "protect",
    "external",
    "retain-on-delete",
    "pending-replacement",
    "tainted",
    "init-errors",
    "created",
    "modified",
    "extensions",
];

/// Returns the members of an entry, in the order of the pretty form.
#[expect(
    clippy::too_many_lines,
    reason = "one line for each field; splitting it would lose the exhaustive check"
)]
pub(super) fn entry(entry: &Entry) -> Fields<'_> {
    let Entry {
        address,
        deposed,
        uid,
        entry_type,
        kind,
        schema_version,
        group,
        sensitive_inputs,
        sensitive_outputs,
        library,
        library_type,
        configuration,
        trigger_hash,
        inputs,
        outputs,
        depends_on,
        id,
        parent,
        provider,
        property_dependencies,
        deleted_with,
        replace_with,
        protect,
        external,
        retain_on_delete,
        pending_replacement,
        tainted,
        init_errors,
        created,
        modified,
        extensions,
        unknown,
    } = entry;
    let mut fields = Fields(Vec::with_capacity(16 + unknown.len()));
    fields.text("address", Some(address.as_str()));
    fields.text("type", Some(entry_type.name()));
    fields.text("kind", kind.as_deref());
    fields.some(
        "schema-version",
        (*schema_version != 0).then_some(Value::Number(*schema_version)),
    );
    fields.filled("sensitive-inputs", sensitive_inputs, Value::Texts);
    fields.filled("sensitive-outputs", sensitive_outputs, Value::Texts);
    fields.text("library", library.as_deref());
    fields.text("library-type", library_type.as_deref());
    fields.text("configuration", configuration.as_deref());
    fields.text("trigger-hash", trigger_hash.as_deref());
    fields.some("inputs", inputs.as_ref().map(|inputs| Value::Json(inputs.json())));
    fields.some(
        "outputs",
        outputs.as_ref().map(|outputs| Value::Json(outputs.json())),
    );
    fields.filled("depends-on", depends_on, Value::Dependencies);
    fields.text("deposed", deposed.as_ref().map(|key| key.as_str()));
    fields.some("uid", uid.map(|uid| Value::Canonical(format!("\"{uid}\""))));
    fields.text("group", group.as_ref().map(|group| group.as_str()));
    fields.text("id", id.as_deref());
    fields.text("parent", parent.as_ref().map(|parent| parent.as_str()));
    fields.some("provider", provider.as_ref().map(Value::Provider));
    let by_property = (!property_dependencies.is_empty()).then_some(&**property_dependencies);
    fields.some("property-dependencies", by_property.map(Value::DependencyMap));
    fields.text("deleted-with", deleted_with.as_ref().map(|with| with.as_str()));
    fields.filled("replace-with", replace_with, Value::Addresses);
    fields.flag("protect", *protect);
    fields.flag("external", *external);
    fields.flag("retain-on-delete", *retain_on_delete);
    fields.flag("pending-replacement", *pending_replacement);
    fields.flag("tainted", *tainted);
    fields.filled("init-errors", init_errors, Value::Texts);
    fields.text("created", created.as_ref().map(|created| created.as_str()));
    fields.text("modified", modified.as_ref().map(|modified| modified.as_str()));
    fields.rest("extensions", extensions);
    fields.unknown(unknown, &ENTRY_KEYS);
    fields
}

/// The keys that [`snapshot`] returns, and `entries`, which the encoders write.
const SNAPSHOT_KEYS: [&str; 16] = [
    "format-version",
    "stack",
    "deployment-id",
    "lineage",
    "serial",
    "program",
    "manifest",
    "generated-at",
    "pending-operations",
    "invalidated",
    "entries",
    "outputs",
    "sensitive-outputs",
    "foreign-serials",
    "extensions",
    "continuation",
];

/// Returns the members of a snapshot that the pretty form writes before its entries, and those after them. The encoders
/// write the entries themselves.
pub(super) fn snapshot(snapshot: &Snapshot) -> (Fields<'_>, Fields<'_>) {
    let Snapshot {
        lineage,
        serial,
        factory,
        program,
        stack,
        manifest,
        generated_at,
        pending_operations,
        invalidated,
        entries: _,
        outputs,
        sensitive_outputs,
        foreign_serials,
        extensions,
        continuation,
        unknown,
    } = snapshot;
    let mut before = Fields(Vec::new());
    before.some("format-version", Some(Value::Number(CURRENT_FORMAT_VERSION)));
    before.some("stack", Some(Value::Factory(factory)));
    before.text("deployment-id", Some(stack));
    before.some("lineage", lineage.as_ref().map(Value::of));
    before.some("serial", serial.map(|serial| Value::Number(serial.get())));
    before.text("program", program.as_deref());
    before.some("manifest", manifest.as_ref().map(Value::of));
    before.text("generated-at", Some(generated_at.as_str()));
    before.filled("pending-operations", pending_operations, |all| Value::of(&all));
    before.some("invalidated", invalidated.as_ref().map(Value::of));

    let mut after = Fields(Vec::new());
    after.map("outputs", outputs);
    after.filled("sensitive-outputs", sensitive_outputs, Value::Texts);
    let foreign = (!foreign_serials.is_empty()).then(|| Value::of(foreign_serials));
    after.some("foreign-serials", foreign);
    after.rest("extensions", extensions);
    after.some("continuation", continuation.as_ref().map(Value::of));
    after.unknown(unknown, &SNAPSHOT_KEYS);
    (before, after)
}
