//! Reading one entry.

use super::reader::Reader;
use crate::address::{Dependency, DeposedKey};
use crate::entry::{Entry, EntryType, Provider};
use crate::environment::Timestamp;
use crate::json::{JsonError, View};
use std::borrow::Cow;

/// The entry that stands at `view`.
pub(super) fn entry<'a>(reader: &Reader<'_, 'a>, view: View<'a>) -> Result<Entry, JsonError> {
    let address = reader.address(reader.required(view, "address")?)?;
    let entry_type = entry_type(reader, reader.required(view, "type")?)?;
    let mut entry = Entry::new(address, entry_type, None);
    for (key, value) in reader.members(view)? {
        field(reader, &mut entry, key, value)?;
    }
    Ok(entry)
}

fn field<'a>(
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
        reader.error(
            view,
            format!("not a type of entry that this build knows ({names})"),
        )
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
        _ => Err(reader.error(view, "a group has the field `group` and no other")),
    }
}

fn provider<'a>(reader: &Reader<'_, 'a>, view: View<'a>) -> Result<Provider, JsonError> {
    let address = reader.address(reader.required(view, "address")?)?;
    let mut id = None;
    for (key, value) in reader.members(view)? {
        match &*key {
            "address" => {}
            "id" => id = Some(reader.string(value)?),
            _ => return Err(reader.error(value, "a provider has the fields `address` and `id` only")),
        }
    }
    Ok(Provider { address, id })
}

/// Kept in its spelling.
pub(super) fn timestamp<'a>(reader: &Reader<'_, 'a>, view: View<'a>) -> Result<Timestamp, JsonError> {
    reader.parsed(view, |text| Ok(Timestamp::new(text)))
}
