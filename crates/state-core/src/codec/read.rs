//! Decodes a snapshot and its entries from a parsed document.

use super::reader::Reader;
use crate::address::{Dependency, DeposedKey};
use crate::counter::Serial;
use crate::entry::{Entry, EntryType, Provider, SharedEntry};
use crate::environment::Timestamp;
use crate::hashing::set_for;
use crate::json::{JsonError, View};
use crate::snapshot::{FactoryInfo, Snapshot};
use std::borrow::Cow;
use std::sync::Arc;

/// Reads the format version of the document.
pub(super) fn format_version(reader: &Reader<'_, '_>) -> Result<u64, JsonError> {
    reader.number(reader.required(reader.root(), "format-version")?)
}

/// Decodes the whole document as a snapshot.
pub(super) fn snapshot(reader: &Reader<'_, '_>) -> Result<Snapshot, JsonError> {
    let root = reader.root();
    let factory: FactoryInfo = reader.model(reader.required(root, "stack")?, "a factory")?;
    let stack = reader.string(reader.required(root, "deployment-id")?)?;
    let generated_at = timestamp(reader, reader.required(root, "generated-at")?)?;
    let mut snapshot = Snapshot::new(factory, stack, generated_at);
    for (key, value) in reader.members(root)? {
        snapshot_field(reader, &mut snapshot, key, value)?;
    }
    Ok(snapshot)
}

fn snapshot_field<'a>(
    reader: &Reader<'_, 'a>,
    snapshot: &mut Snapshot,
    key: Cow<'a, str>,
    value: View<'a>,
) -> Result<(), JsonError> {
    let foreign_serial = |one| reader.model(one, "a foreign serial");
    match &*key {
        "format-version" | "stack" | "deployment-id" | "generated-at" => {}
        "lineage" => snapshot.lineage = Some(reader.parsed(value, str::parse)?),
        "serial" => snapshot.serial = Some(Serial(reader.number(value)?)),
        "program" => snapshot.program = Some(reader.string(value)?),
        "manifest" => snapshot.manifest = Some(reader.model(value, "a manifest")?),
        "pending-operations" => {
            snapshot.pending_operations =
                reader.list(value, |one| reader.model(one, "a pending operation"))?;
        }
        "invalidated" => snapshot.invalidated = Some(reader.model(value, "an invalidation")?),
        "entries" => snapshot.entries = entries(reader, value)?,
        "outputs" => snapshot.outputs = reader.map(value, |json| reader.json(json))?,
        "sensitive-outputs" => snapshot.sensitive_outputs = reader.strings(value)?,
        "foreign-serials" => snapshot.foreign_serials = reader.map(value, foreign_serial)?,
        "extensions" => snapshot.extensions = reader.json_map(value)?,
        "continuation" => snapshot.continuation = Some(reader.model(value, "a continuation")?),
        _ => {
            snapshot.unknown.insert(key.into_owned(), reader.json(value)?);
        }
    }
    Ok(())
}

/// Decodes the list of entries. `null` counts as an empty list, because Go encodes a nil slice as `null`.
fn entries<'a>(reader: &Reader<'_, 'a>, view: View<'a>) -> Result<Vec<SharedEntry>, JsonError> {
    if view.is_null() {
        return Ok(Vec::new());
    }
    let entries = reader.list(view, |one| entry(reader, one).map(Arc::new))?;
    if let Some(index) = first_duplicate(&entries).filter(|_| !reader.allows_duplicates()) {
        let second = view.index(index).unwrap_or(view);
        let key = entries[index].key().to_string();
        let shown: String = key.chars().take(120).collect();
        return Err(reader.error(second, format!("duplicate entry `{}`", shown.escape_debug())));
    }
    Ok(entries)
}

/// Returns the index of the first entry that has the same key as an earlier entry.
pub(super) fn first_duplicate(entries: &[SharedEntry]) -> Option<usize> {
    let mut keys = set_for(entries.len());
    entries
        .iter()
        .position(|entry| !keys.insert((&entry.address, &entry.deposed)))
}

/// Decodes the entry at `view`.
pub(super) fn entry<'a>(reader: &Reader<'_, 'a>, view: View<'a>) -> Result<Entry, JsonError> {
    let address = reader.address(reader.required(view, "address")?)?;
    let entry_type = entry_type(reader, reader.required(view, "type")?)?;
    let mut entry = Entry::new(address, entry_type, None);
    for (key, value) in reader.members(view)? {
        entry_field(reader, &mut entry, key, value)?;
    }
    Ok(entry)
}

fn entry_field<'a>(
    reader: &Reader<'_, 'a>,
    entry: &mut Entry,
    key: Cow<'a, str>,
    value: View<'a>,
) -> Result<(), JsonError> {
    let dependencies = |list| reader.list(list, |item| dependency(reader, item));
    match &*key {
        "address" | "type" => {}
        "deposed" => entry.deposed = Some(reader.parsed(value, |text| DeposedKey::new(text))?),
        "uid" => entry.uid = Some(reader.parsed(value, str::parse)?),
        "kind" => entry.kind = Some(reader.string(value)?),
        "schema-version" => entry.schema_version = reader.number(value)?,
        "group" => entry.group = Some(reader.address(value)?),
        "sensitive-inputs" => entry.sensitive_inputs = reader.strings(value)?,
        "sensitive-outputs" => entry.sensitive_outputs = reader.strings(value)?,
        "library" => *entry.library = Some(reader.string(value)?),
        "library-type" => *entry.library_type = Some(reader.string(value)?),
        "configuration" => *entry.configuration = Some(reader.string(value)?),
        "trigger-hash" => *entry.trigger_hash = Some(reader.string(value)?),
        "inputs" => entry.inputs = Some(reader.properties(value)?),
        "outputs" => entry.outputs = Some(reader.properties(value)?),
        "depends-on" => entry.depends_on = dependencies(value)?,
        "id" => entry.id = Some(reader.string(value)?),
        "parent" => entry.parent = Some(reader.address(value)?),
        "provider" => *entry.provider = Some(provider(reader, value)?),
        "property-dependencies" => *entry.property_dependencies = reader.map(value, dependencies)?,
        "deleted-with" => *entry.deleted_with = Some(reader.address(value)?),
        "replace-with" => *entry.replace_with = reader.list(value, |item| reader.address(item))?,
        "protect" => entry.protect = reader.flag(value)?,
        "external" => entry.external = reader.flag(value)?,
        "retain-on-delete" => entry.retain_on_delete = reader.flag(value)?,
        "pending-replacement" => entry.pending_replacement = reader.flag(value)?,
        "tainted" => entry.tainted = reader.flag(value)?,
        "init-errors" => entry.init_errors = reader.strings(value)?,
        "created" => entry.created = Some(timestamp(reader, value)?),
        "modified" => entry.modified = Some(timestamp(reader, value)?),
        "extensions" => entry.extensions = reader.json_map(value)?,
        _ => {
            entry.unknown.insert(key.into_owned(), reader.json(value)?);
        }
    }
    Ok(())
}

fn entry_type<'a>(reader: &Reader<'_, 'a>, view: View<'a>) -> Result<EntryType, JsonError> {
    let name = view.as_str().ok_or_else(|| reader.expected(view, "a string"))?;
    let known = EntryType::ALL.into_iter().find(|known| known.name() == name);
    known.ok_or_else(|| {
        let names = EntryType::ALL.map(EntryType::name).join(", ");
        reader.error(view, format!("unknown entry type (this build supports {names})"))
    })
}

fn dependency<'a>(reader: &Reader<'_, 'a>, view: View<'a>) -> Result<Dependency, JsonError> {
    if view.as_str().is_some() {
        return Ok(Dependency::Entry(reader.address(view)?));
    }
    let mut members = view
        .members()
        .ok_or_else(|| reader.expected(view, "an address or {\"group\": address}"))?;
    match (members.next(), members.next()) {
        (Some((key, value)), None) if key == "group" => Ok(Dependency::Group(reader.address(value)?)),
        _ => Err(reader.error(view, "a group reference must have the field `group` only")),
    }
}

fn provider<'a>(reader: &Reader<'_, 'a>, view: View<'a>) -> Result<Provider, JsonError> {
    let address = reader.address(reader.required(view, "address")?)?;
    let mut id = None;
    for (key, value) in reader.members(view)? {
        match &*key {
            "address" => {}
            "id" => id = Some(reader.string(value)?),
            _ => {
                return Err(reader.error(
                    value,
                    "a provider reference may have the fields `address` and `id` only",
                ));
            }
        }
    }
    Ok(Provider { address, id })
}

/// Reads a timestamp. The text is kept as it is and not checked.
fn timestamp<'a>(reader: &Reader<'_, 'a>, view: View<'a>) -> Result<Timestamp, JsonError> {
    reader.parsed(view, |text| Ok(Timestamp::new(text)))
}
