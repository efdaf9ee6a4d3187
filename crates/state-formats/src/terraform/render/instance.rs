//! One instance, field by field in the order that Terraform writes.

use super::Member;
use crate::error::{Error, Result};
use crate::terraform::address::{Key, Mode, ResourceAddress};
use crate::terraform::extension::{EntryFacts, ResourceFacts, Shape};
use crate::terraform::{attributes, sensitive};
use state_core::json::{Json, ObjectWriter};
use state_core::{Address, Entry};

/// Fields that the model doesn't know and Terraform writes in the middle.
const IDENTITY: [&str; 2] = ["identity_schema_version", "identity"];

/// Writes an instance and closes its object.
pub(super) fn write(member: &Member<'_>, expanded: &[&Address], mut object: ObjectWriter<'_>) {
    let none = EntryFacts::default();
    let (entry, facts) = (member.entry, member.facts.as_ref().unwrap_or(&none));
    match &member.key {
        Some(Key::Number(number)) => _ = object.raw("index_key", &number.to_string()),
        Some(Key::Text(text)) => _ = object.string("index_key", text),
        None => {}
    }
    if entry.tainted {
        object.string("status", "tainted");
    }
    if let Some(key) = &entry.deposed {
        object.string("deposed", key.as_str());
    }
    object.u64("schema_version", entry.schema_version);
    write_attributes(entry, facts, &mut object);
    if !(facts.no_sensitive_attributes && entry.sensitive_outputs.is_empty()) {
        let mut paths = String::new();
        sensitive::write(&entry.sensitive_outputs, &facts.sensitive_attributes, &mut paths);
        object.raw("sensitive_attributes", &paths);
    }
    let rest = facts.instance.as_ref();
    for key in IDENTITY {
        if let Some(value) = rest.and_then(|rest| rest.view().get(key)) {
            object.raw(key, value.text());
        }
    }
    if let Some(private) = &facts.private {
        object.string("private", private);
    }
    write_dependencies(entry, facts, expanded, &mut object);
    if let Some(first) = facts.create_before_destroy {
        object.bool("create_before_destroy", first);
    }
    write_others(rest, &mut object);
    object.finish();
}

fn write_others(rest: Option<&Json>, object: &mut ObjectWriter<'_>) {
    let others = rest.and_then(|rest| rest.view().members()).into_iter().flatten();
    for (key, value) in others.filter(|(key, _)| !IDENTITY.contains(&&**key)) {
        object.raw(&key, value.text());
    }
}

fn write_attributes(entry: &Entry, facts: &EntryFacts, object: &mut ObjectWriter<'_>) {
    let outputs = entry.outputs.clone().unwrap_or_default();
    let is_empty = outputs.json().as_str() == "{}";
    let is_flat = || {
        let mut members = outputs.view().members().into_iter().flatten();
        members.all(|(_, value)| value.as_str().is_some())
    };
    match facts.attributes {
        Shape::Absent if is_empty => {}
        Shape::Flat if is_flat() => _ = object.raw("attributes_flat", outputs.json().as_str()),
        _ => {
            let mut text = String::with_capacity(outputs.len_bytes());
            attributes::write(outputs.view(), &facts.sorted, &mut text);
            object.raw("attributes", &text);
        }
    }
}

fn write_dependencies(
    entry: &Entry,
    facts: &EntryFacts,
    expanded: &[&Address],
    object: &mut ObjectWriter<'_>,
) {
    let kept = facts.dependencies.as_ref().filter(|kept| {
        let now = entry.depends_on.iter().map(|to| to.address().as_str());
        now.eq(kept.reduced.iter().map(String::as_str))
    });
    if kept.is_none() && expanded.is_empty() {
        return;
    }
    let mut list = object.array("dependencies");
    match kept {
        Some(kept) => kept.listed.iter().for_each(|name| _ = list.string(name)),
        None => expanded.iter().for_each(|name| _ = list.string(name.as_str())),
    }
    list.finish();
}

/// The address of a resource that was kept because it has no instances.
pub(super) fn resource_address(facts: &ResourceFacts) -> Result<ResourceAddress> {
    let mode = Mode::named(&facts.mode).ok_or_else(|| {
        Error::not_exportable("the snapshot", "its Terraform extension names an unknown mode")
    })?;
    Ok(ResourceAddress {
        module: facts.module.clone(),
        mode,
        kind: facts.kind.clone(),
        name: facts.name.clone(),
    })
}
