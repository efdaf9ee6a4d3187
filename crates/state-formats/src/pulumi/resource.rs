//! Reads one Pulumi resource into an entry.

use super::facts::{EXTENSION, EntryFacts, KeptField};
use super::field::{self, FieldClass};
use super::{urn, value};
use crate::error::{Error, Result};
use crate::extension::Interner;
use crate::fields::{of_kind, push_token, required};
use state_core::entry::Provider;
use state_core::json::{Document, Json, Kind, Properties, Style, View, write};
use state_core::{Address, Dependency, DeposedKey, Digest, Entry, EntryType, Timestamp};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

/// Reads a resource. The extension of the entry keeps the fields for which the model has no field.
pub(super) fn read<'a>(document: Document<'a>, view: View<'a>, shared: &mut Interner) -> Result<Entry> {
    let Some(members) = view.members() else {
        let message = format!("a resource must be an object, found {}", view.kind());
        return Err(Error::at(&document, &view, message));
    };
    let members: Vec<_> = members.collect();
    let mut reader = Reader { document, shared };
    let mut entry = reader.named(view, &members)?;
    let mut facts = EntryFacts::default();
    for (key, view) in &members {
        let place = field::place(key).1;
        if place == FieldClass::Model {
            reader.field(&mut entry, &mut facts, key, *view)?;
        } else {
            reader.check_other(key, *view)?;
            keep_other(&mut facts, place, key, *view);
        }
    }
    if !entry.is_live() {
        entry.deposed = Some(deposed_key(entry.id.as_deref().unwrap_or_default())?);
    }
    // Pulumi allows an external resource to be tainted or to await replacement; the model doesn't, so these flags are
    // kept in the extension.
    if entry.external {
        (entry.tainted, entry.pending_replacement) = (false, false);
    }
    keep_differences(&entry, &mut facts, &members);
    mark_secrets(&mut entry, &members);
    facts.order = order(&members);
    if !facts.is_empty() {
        let json = reader.shared.facts(&EXTENSION, &facts)?;
        entry.extensions.insert(EXTENSION.name, json);
    }
    Ok(entry)
}

type Members<'a> = [(Cow<'a, str>, View<'a>)];

fn member<'a>(members: &Members<'a>, key: &str) -> Option<View<'a>> {
    let mut all = members.iter();
    all.find(|(name, _)| name == key).map(|(_, view)| *view)
}

struct Reader<'a, 's> {
    document: Document<'a>,
    shared: &'s mut Interner,
}

impl<'a> Reader<'a, '_> {
    fn error(&self, view: View<'a>, message: impl Into<String>) -> Error {
        Error::at(&self.document, &view, message)
    }

    /// Creates the entry with its address, type and kind.
    fn named(&mut self, view: View<'a>, members: &Members<'a>) -> Result<Entry> {
        let name = required(&self.document, view, "a resource", "urn")?;
        match name.as_str() {
            Some(text) if urn::is_urn(&text) => {}
            Some(_) => {
                let message = "`urn` isn't a URN: `urn:pulumi:<stack>::<project>::<type>::<name>`";
                return Err(self.error(name, message));
            }
            None => {
                let message = format!("`urn` must be of kind string, found {}", name.kind());
                return Err(self.error(name, message));
            }
        }
        let address = self.address(name)?;
        let custom = match member(members, "custom") {
            Some(view) => self.flag("custom", view)?,
            None => false,
        };
        let kind = match member(members, "type") {
            Some(view) => self.text("type", view)?.map(Cow::into_owned),
            None => None,
        };
        let entry_type = if custom {
            EntryType::Leaf
        } else {
            EntryType::LibraryCall
        };
        let mut entry = Entry::new(address, entry_type, kind);
        if let (false, Some(kind)) = (custom, &entry.kind) {
            let library = kind.split(':').next().unwrap_or_default();
            entry.library = Some(library.to_owned()).into();
            entry.library_type = Some(kind.clone()).into();
        }
        Ok(entry)
    }

    fn field(&mut self, entry: &mut Entry, facts: &mut EntryFacts, key: &str, view: View<'a>) -> Result<()> {
        match key {
            // The deposed key is derived from the id, which may be a later member; `read` sets the final key.
            "delete" => entry.deposed = self.flag(key, view)?.then(|| deposed_key("")).transpose()?,
            "id" => entry.id = self.text(key, view)?.map(Cow::into_owned),
            "inputs" => entry.inputs = self.properties(key, view)?,
            "outputs" => entry.outputs = self.properties(key, view)?,
            "parent" => entry.parent = self.reference(key, view)?,
            "protect" => entry.protect = self.flag(key, view)?,
            "taint" => entry.tainted = self.flag(key, view)?,
            "external" => entry.external = self.flag(key, view)?,
            "dependencies" => {
                let list = self.list(key, view)?;
                entry.depends_on = list.into_iter().map(Dependency::Entry).collect();
            }
            "initErrors" => entry.init_errors = self.texts(key, view)?,
            "provider" => entry.provider = self.provider(view)?.into(),
            "propertyDependencies" => {
                let (dependencies, null_lists) = self.property_dependencies(view)?;
                entry.property_dependencies = dependencies.into();
                facts.null_lists = null_lists;
            }
            "pendingReplacement" => entry.pending_replacement = self.flag(key, view)?,
            "retainOnDelete" => entry.retain_on_delete = self.flag(key, view)?,
            "deletedWith" => entry.deleted_with = self.reference(key, view)?.into(),
            "replaceWith" => entry.replace_with = self.list(key, view)?.into(),
            "created" => entry.created = self.text(key, view)?.map(|at| Timestamp::new(&*at)),
            "modified" => entry.modified = self.text(key, view)?.map(|at| Timestamp::new(&*at)),
            _ => {}
        }
        Ok(())
    }

    /// Checks the type of a known field that is stored in the extension.
    fn check_other(&mut self, key: &str, view: View<'a>) -> Result<()> {
        match key {
            "aliases" => self.list(key, view).map(drop),
            "additionalSecretOutputs" | "ignoreChanges" | "hideDiff" | "replaceOnChanges" => {
                self.texts(key, view).map(drop)
            }
            "refreshBeforeUpdate" => self.flag(key, view).map(drop),
            "viewOf" | "importID" | "sourcePosition" | "snippetID" | "extensionRef" => {
                self.text(key, view).map(drop)
            }
            "replacementTrigger" => self.check_value(view),
            _ => Ok(()),
        }
    }

    /// Reads a string. As in Go, `null` and an empty string count as absent.
    fn text(&self, key: &str, view: View<'a>) -> Result<Option<Cow<'a, str>>> {
        let text = of_kind(&self.document, key, view, Kind::String)?.and_then(|view| view.as_str());
        Ok(text.filter(|text| !text.is_empty()))
    }

    fn flag(&self, key: &str, view: View<'a>) -> Result<bool> {
        let flag = of_kind(&self.document, key, view, Kind::Bool)?.and_then(|view| view.as_bool());
        Ok(flag.unwrap_or_default())
    }

    fn elements(&self, key: &str, view: View<'a>) -> Result<impl Iterator<Item = View<'a>> + use<'a>> {
        let array = of_kind(&self.document, key, view, Kind::Array)?;
        Ok(array.and_then(|array| array.elements()).into_iter().flatten())
    }

    fn address(&mut self, view: View<'a>) -> Result<Address> {
        let Some(text) = view.as_str() else {
            return Err(self.error(view, format!("a URN must be a string, found {}", view.kind())));
        };
        let address = self.shared.address(&text);
        address.map_err(|error| match error {
            state_core::Error::Invalid { reason, .. } => self.error(view, reason),
            other => Error::Core(other),
        })
    }

    fn reference(&mut self, key: &str, view: View<'a>) -> Result<Option<Address>> {
        match self.text(key, view)? {
            Some(_) => self.address(view).map(Some),
            None => Ok(None),
        }
    }

    fn list(&mut self, key: &str, view: View<'a>) -> Result<Vec<Address>> {
        self.elements(key, view)?.map(|item| self.address(item)).collect()
    }

    fn texts(&self, key: &str, view: View<'a>) -> Result<Vec<String>> {
        let text = |item: View<'a>| match item.as_str() {
            Some(text) => Ok(text.into_owned()),
            None => Err(self.error(
                item,
                format!("`{key}` must contain strings, found {}", item.kind()),
            )),
        };
        self.elements(key, view)?.map(text).collect()
    }

    fn provider(&mut self, view: View<'a>) -> Result<Option<Provider>> {
        let Some(text) = self.text("provider", view)? else {
            return Ok(None);
        };
        let Some((urn, id)) = urn::provider(&text) else {
            let message =
                "`provider` isn't a provider reference: must be the URN of a provider, `::` and its id";
            return Err(self.error(view, message));
        };
        let address = self.shared.address(urn)?;
        Ok(Some(Provider {
            address,
            id: Some(id.to_owned()),
        }))
    }

    /// Reads the dependencies by property. Also returns whether any of the lists is `null`.
    fn property_dependencies(&mut self, view: View<'a>) -> Result<(BTreeMap<String, Vec<Dependency>>, bool)> {
        of_kind(&self.document, "propertyDependencies", view, Kind::Object)?;
        let mut lists = BTreeMap::new();
        let mut null_lists = false;
        for (property, view) in view.members().into_iter().flatten() {
            null_lists |= view.is_null();
            let list = self.list("propertyDependencies", view)?;
            lists.insert(
                property.into_owned(),
                list.into_iter().map(Dependency::Entry).collect(),
            );
        }
        Ok((lists, null_lists))
    }

    fn properties(&self, key: &str, view: View<'a>) -> Result<Option<Properties>> {
        let Some(view) = of_kind(&self.document, key, view, Kind::Object)? else {
            return Ok(None);
        };
        self.check_value(view)?;
        Ok(Properties::new(Json::from_view(view)))
    }

    fn check_value(&self, view: View<'a>) -> Result<()> {
        value::check(view, &mut String::new(), &mut |_, _| {})
            .map_err(|(at, message)| self.error(at, message))
    }
}

/// A digest that identifies an object without revealing its content.
pub(super) fn digest_id(parts: &[&str]) -> Digest {
    let bytes: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
    Digest::of_parts(&bytes)
}

/// The deposed key of a resource with this id.
fn deposed_key(id: &str) -> state_core::Result<DeposedKey> {
    let mut key = digest_id(&["deposed", id]).to_string();
    key.truncate(8);
    Ok(DeposedKey::new(key)?)
}

/// Writes a value without spaces, with its members in their original order.
pub(super) fn compact(view: View<'_>) -> String {
    let mut text = String::with_capacity(view.text().len());
    write(view, &Style::COMPACT, &mut text);
    text
}

fn keep_other(facts: &mut EntryFacts, home: FieldClass, key: &str, view: View<'_>) {
    let (json, text) = (Json::from_view(view), compact(view));
    if json.as_str() != text {
        facts.texts.insert(key.to_owned(), text);
    } else if home == FieldClass::NonSecret {
        facts.fields.insert(key.to_owned(), json);
    } else {
        facts.rest.insert(key.to_owned(), json);
    }
}

/// Keeps the original fields that we would write differently.
fn keep_differences(entry: &Entry, facts: &mut EntryFacts, members: &Members<'_>) {
    for (key, view) in members
        .iter()
        .filter(|(key, _)| field::place(key).1 == FieldClass::Model)
    {
        let is_side = matches!(&**key, "inputs" | "outputs");
        if is_side && !view.is_null() {
            continue;
        }
        let ours = field::value(entry, facts, key);
        let was = Json::from_view(*view);
        if ours.as_ref() != Some(&was) {
            let was = Some(was);
            facts.kept.insert(key.to_string(), KeptField { was, ours });
        }
    }
    if member(members, "custom").is_none() {
        let ours = field::value(entry, facts, "custom");
        facts
            .kept
            .insert("custom".to_owned(), KeptField { was: None, ours });
    }
}

/// Marks values in secret envelopes, and outputs listed in `additionalSecretOutputs`, as sensitive.
fn mark_secrets(entry: &mut Entry, members: &Members<'_>) {
    entry.sensitive_inputs = secrets(entry.inputs.as_ref());
    entry.sensitive_outputs = secrets(entry.outputs.as_ref());
    let Some(outputs) = &entry.outputs else { return };
    let named = member(members, "additionalSecretOutputs").and_then(|names| names.elements());
    let named: HashSet<_> = named
        .into_iter()
        .flatten()
        .filter_map(|name| name.as_str())
        .collect();
    if named.is_empty() {
        return;
    }
    let known: HashSet<String> = entry.sensitive_outputs.iter().cloned().collect();
    for (name, _) in outputs.view().members().into_iter().flatten() {
        let mut pointer = String::new();
        push_token(&mut pointer, &name);
        if named.contains(&name) && !known.contains(&pointer) {
            entry.sensitive_outputs.push(pointer);
        }
    }
}

/// The pointers of the secrets in the inputs or outputs of a resource.
fn secrets(side: Option<&Properties>) -> Vec<String> {
    let mut pointers = Vec::new();
    if let Some(side) = side
        && side.json().as_str().contains(value::SIGNATURE)
    {
        // The values were checked when they were read, so the check can't fail.
        let checked = value::check(side.view(), &mut String::new(), &mut |pointer, _| {
            pointers.push(pointer.to_owned());
        });
        drop(checked);
    }
    pointers
}

/// The keys in their original order; empty if they are in Pulumi's order.
fn order(members: &Members<'_>) -> Vec<String> {
    let places = |(key, _): &(Cow<'_, str>, View<'_>)| (field::place(key).0, key.to_string());
    if members.iter().map(places).is_sorted() {
        return Vec::new();
    }
    members.iter().map(|(key, _)| key.to_string()).collect()
}
