//! Reading a whole snapshot.

use super::read_entry::{self, timestamp};
use super::reader::Reader;
use crate::counter::Serial;
use crate::entry::SharedEntry;
use crate::json::{JsonError, View};
use crate::snapshot::{FactoryInfo, Snapshot};
use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

/// The format version that the document says it has.
pub(super) fn format_version(reader: &Reader<'_, '_>) -> Result<u64, JsonError> {
    reader.number(reader.required(reader.root(), "format-version")?)
}

/// The snapshot that the document is.
pub(super) fn snapshot(reader: &Reader<'_, '_>) -> Result<Snapshot, JsonError> {
    let root = reader.root();
    let factory: FactoryInfo = reader.model(reader.required(root, "stack")?, "a factory")?;
    let stack = reader.string(reader.required(root, "deployment-id")?)?;
    let generated_at = timestamp(reader, reader.required(root, "generated-at")?)?;
    let mut snapshot = Snapshot::new(factory, stack, generated_at);
    for (key, value) in reader.members(root)? {
        field(reader, &mut snapshot, key, value)?;
    }
    Ok(snapshot)
}

fn field<'a>(
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

/// Go writes an empty list as `null`.
fn entries<'a>(reader: &Reader<'_, 'a>, view: View<'a>) -> Result<Vec<SharedEntry>, JsonError> {
    if view.is_null() {
        return Ok(Vec::new());
    }
    let entries = reader.list(view, |one| read_entry::entry(reader, one).map(Arc::new))?;
    if let Some(index) = second_of_a_key(&entries).filter(|_| !reader.allows_twins()) {
        let second = view.index(index).unwrap_or(view);
        let key = entries[index].key().to_string();
        let shown: String = key.chars().take(120).collect();
        return Err(reader.error(second, format!("the second entry of `{}`", shown.escape_debug())));
    }
    Ok(entries)
}

/// Where the first entry stands whose key another has before it.
pub(super) fn second_of_a_key(entries: &[SharedEntry]) -> Option<usize> {
    let mut keys = HashSet::with_capacity(entries.len());
    entries
        .iter()
        .position(|entry| !keys.insert((&entry.address, &entry.deposed)))
}
