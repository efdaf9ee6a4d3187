//! Reads one instance of a Terraform resource into an entry.

use super::address::{InstanceAddress, Key, ResourceAddress};
use super::attributes;
use super::facts::{EXTENSION, EntryFacts, KeptDependencies, Shape};
use super::sensitive;
use crate::error::Result;
use crate::extension;
use crate::fields::{Fields, is_base64};
use foldhash::fast::RandomState;
use state_core::json::{Document, Json, Kind, Properties, View};
use state_core::{Address, DeposedKey, Entry, EntryType, SharedEntry};
use std::collections::HashSet;
use std::sync::Arc;

/// The fields that all instances of a resource share.
pub(super) struct Resource {
    pub(super) address: ResourceAddress,
    pub(super) group: Address,
    pub(super) provider: Option<String>,
    pub(super) rest: Option<Json>,
}

/// An entry under construction. Kept small, because a state has one for each instance.
#[derive(Debug)]
pub(super) struct Draft {
    /// The entry with its extension. This is the only reference to the entry, so a change of the entry copies nothing.
    pub(super) entry: SharedEntry,
    /// The original list of dependencies, None if absent. Drafts with equal lists share one list.
    pub(super) listed: Option<Arc<[Address]>>,
}

impl Draft {
    /// Returns the entry for modification.
    pub(super) fn entry_mut(&mut self) -> &mut Entry {
        Arc::make_mut(&mut self.entry)
    }

    /// Stores the original list of dependencies in the extension.
    pub(super) fn keep(&mut self, dependencies: KeptDependencies) -> Result<()> {
        let mut facts: EntryFacts = EXTENSION.of_entry(&self.entry)?.unwrap_or_default();
        facts.dependencies = Some(dependencies);
        EXTENSION.store_in_entry(self.entry_mut(), &facts)
    }
}

/// Deduplicates values that many instances have in common.
#[derive(Debug, Default)]
pub(super) struct Interner {
    pub(super) common: extension::Interner,
    /// Lists of dependencies by content.
    lists: HashSet<Arc<[Address]>, RandomState>,
}

impl Interner {
    fn list(&mut self, listed: Vec<Address>) -> Arc<[Address]> {
        if let Some(known) = self.lists.get(&*listed) {
            return Arc::clone(known);
        }
        let listed: Arc<[Address]> = listed.into();
        self.lists.insert(Arc::clone(&listed));
        listed
    }
}

/// Reads one instance of `resource`.
pub(super) fn read<'a>(
    document: Document<'a>,
    view: View<'a>,
    resource: &Resource,
    shared: &mut Interner,
) -> Result<Draft> {
    let mut fields = Fields::of(document, view, "an instance")?;
    let key = read_key(&mut fields)?;
    let address = InstanceAddress {
        resource: resource.address.clone(),
        key,
    };
    let address = Address::new(address.to_string()).map_err(|error| fields.error(error.to_string()))?;
    let mut entry = Entry::new(address, EntryType::Leaf, Some(resource.address.kind.clone()));
    entry.group = Some(resource.group.clone());
    entry.tainted = read_status(&mut fields)?;
    entry.deposed = read_deposed(&mut fields)?;
    entry.schema_version = fields.u64("schema_version")?.unwrap_or_default();
    let mut facts = EntryFacts {
        provider: resource.provider.clone(),
        resource: resource.rest.clone(),
        private: read_private(&mut fields)?,
        create_before_destroy: fields.bool("create_before_destroy")?,
        ..EntryFacts::default()
    };
    read_attributes(&mut fields, &mut entry, &mut facts)?;
    match fields.take_kind("sensitive_attributes", Kind::Array)? {
        Some(paths) => {
            let paths = sensitive::read(document, paths.elements().into_iter().flatten())?;
            entry.sensitive_outputs = paths.pointers;
            facts.sensitive_attributes = paths.kept;
        }
        None => facts.no_sensitive_attributes = true,
    }
    let listed = read_dependencies(&mut fields, shared)?;
    facts.instance = fields.rest()?;
    entry
        .extensions
        .insert(EXTENSION.name, shared.common.facts(&EXTENSION, &facts)?);
    let entry = entry.into();
    Ok(Draft { entry, listed })
}

fn read_key(fields: &mut Fields<'_>) -> Result<Option<Key>> {
    let Some(view) = fields.take("index_key") else {
        return Ok(None);
    };
    let key = match view.kind() {
        Kind::Number => view.as_i64().map(Key::Number),
        Kind::String => view.as_str().map(|text| Key::Text(text.into_owned())),
        _ => None,
    };
    let message = "`index_key` must be a whole number, written in digits alone, or a string";
    key.map(Some).ok_or_else(|| fields.error_at(&view, message))
}

/// Reads `status`: whether the instance is tainted.
fn read_status(fields: &mut Fields<'_>) -> Result<bool> {
    match fields.string("status")? {
        None => Ok(false),
        Some((status, _)) if status.is_empty() => Ok(false),
        Some((status, _)) if status == "tainted" => Ok(true),
        Some((_, view)) => Err(fields.error_at(&view, "unknown `status`: must be `tainted` or absent")),
    }
}

fn read_deposed(fields: &mut Fields<'_>) -> Result<Option<DeposedKey>> {
    let Some((key, view)) = fields.string("deposed")?.filter(|(key, _)| !key.is_empty()) else {
        return Ok(None);
    };
    let key = Some(key)
        .filter(|key| key.len() == 8)
        .and_then(|key| DeposedKey::new(&*key).ok());
    let message = "`deposed` must be a key of exactly 8 characters of A-Z, a-z, 0-9, `.`, `_`, `-`";
    key.map(Some).ok_or_else(|| fields.error_at(&view, message))
}

fn read_private(fields: &mut Fields<'_>) -> Result<Option<String>> {
    match fields.string("private")? {
        Some((private, view)) if !is_base64(&private) => {
            Err(fields.error_at(&view, "`private` must be base64"))
        }
        private => Ok(private.map(|(private, _)| private.into_owned())),
    }
}

fn read_attributes(fields: &mut Fields<'_>, entry: &mut Entry, facts: &mut EntryFacts) -> Result<()> {
    let plain = fields.take_kind("attributes", Kind::Object)?;
    let flat = fields.take_kind("attributes_flat", Kind::Object)?;
    let view = match (plain, flat) {
        (Some(_), Some(flat)) => {
            let message = "an instance must not have both `attributes` and `attributes_flat`";
            return Err(fields.error_at(&flat, message));
        }
        (Some(plain), None) => {
            facts.sorted = attributes::sorted_lookalikes(plain);
            plain
        }
        (None, Some(flat)) => {
            facts.attributes = Shape::Flat;
            let mut values = flat.members().into_iter().flatten().map(|(_, value)| value);
            if let Some(odd) = values.find(|value| value.kind() != Kind::String) {
                return Err(fields.error_at(&odd, "the values of `attributes_flat` must be strings"));
            }
            flat
        }
        (None, None) => {
            facts.attributes = Shape::Absent;
            entry.outputs = Some(Properties::empty());
            return Ok(());
        }
    };
    entry.id = view
        .get("id")
        .and_then(|id| id.as_str())
        .map(std::borrow::Cow::into_owned);
    entry.outputs = Properties::new(Json::from_view(view));
    Ok(())
}

fn read_dependencies(fields: &mut Fields<'_>, shared: &mut Interner) -> Result<Option<Arc<[Address]>>> {
    let Some(list) = fields.take_kind("dependencies", Kind::Array)? else {
        return Ok(None);
    };
    let mut listed = Vec::new();
    for view in list.elements().into_iter().flatten() {
        let Some(name) = view.as_str() else {
            let message = format!("a dependency must be a string, found {}", view.kind());
            return Err(fields.error_at(&view, message));
        };
        let address = shared.common.address(&name);
        listed.push(address.map_err(|error| fields.error_at(&view, error.to_string()))?);
    }
    Ok(Some(shared.list(listed)))
}
