//! Writes a snapshot as Terraform writes its state: its order of keys, resources and instances.

mod checks;
mod instance;

use super::address::{InstanceAddress, Key, ResourceAddress};
use super::attributes::push_token;
use super::cty;
use super::dependencies::Expansion;
use super::extension::{self, EntryFacts, StateFacts};
use super::parse::sensitive_name;
use crate::error::{Error, Result};
use state_core::json::{ArrayWriter, Json, ObjectWriter};
use state_core::{Entry, EntryType, Snapshot};
use std::collections::BTreeMap;

/// What stands at the top of a state.
pub(super) struct Header<'a> {
    pub(super) terraform_version: &'a str,
    pub(super) serial: u64,
    pub(super) lineage: &'a str,
}

/// Appends the state, compact, in Terraform's order.
pub(super) fn write(
    snapshot: &Snapshot,
    facts: &StateFacts,
    header: &Header<'_>,
    out: &mut String,
) -> Result<()> {
    let mut state = ObjectWriter::new(out);
    state
        .u64("version", 4)
        .string("terraform_version", header.terraform_version)
        .u64("serial", header.serial)
        .string("lineage", header.lineage);
    write_outputs(snapshot, facts, state.object("outputs"));
    write_resources(snapshot, facts, state.array("resources"))?;
    if let Some(results) = &facts.check_results {
        let mut text = String::new();
        checks::write(results.view(), &mut text);
        state.raw("check_results", &text);
    }
    write_rest(facts.rest.as_ref(), &mut state);
    state.finish();
    Ok(())
}

/// Adds the members of an object that was kept.
fn write_rest(rest: Option<&Json>, object: &mut ObjectWriter<'_>) {
    for (key, value) in rest.and_then(|rest| rest.view().members()).into_iter().flatten() {
        object.raw(&key, value.text());
    }
}

fn write_outputs(snapshot: &Snapshot, facts: &StateFacts, mut outputs: ObjectWriter<'_>) {
    for (name, value) in &snapshot.outputs {
        let known = facts.outputs.get(name);
        let mut output = outputs.object(name);
        output.raw("value", value.as_str());
        match known.filter(|known| cty::fits(&value.view(), &known.kind.view())) {
            Some(known) => output.raw("type", known.kind.as_str()),
            None => {
                let mut kind = String::new();
                cty::write_type_of(&value.view(), &mut kind);
                output.raw("type", &kind)
            }
        };
        if is_sensitive(snapshot, name) {
            output.bool("sensitive", true);
        }
        write_rest(known.and_then(|known| known.rest.as_ref()), &mut output);
        output.finish();
    }
    outputs.finish();
}

/// Terraform marks outputs as a whole, so one secret inside marks all of it.
fn is_sensitive(snapshot: &Snapshot, name: &str) -> bool {
    let plain = sensitive_name(name);
    let mut pointer = String::new();
    push_token(&mut pointer, name);
    snapshot.sensitive_outputs.iter().any(|marked| {
        let inside = marked.strip_prefix(&*pointer);
        *marked == plain || inside.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// One instance on its way out.
struct Member<'a> {
    key: Option<Key>,
    entry: &'a Entry,
    facts: Option<EntryFacts>,
}

/// A resource on its way out.
#[derive(Default)]
struct Resource<'a> {
    provider: Option<String>,
    rest: Option<Json>,
    /// Whether anything says that Terraform knows it.
    is_known: bool,
    members: Vec<Member<'a>>,
}

fn write_resources(snapshot: &Snapshot, facts: &StateFacts, mut array: ArrayWriter<'_>) -> Result<()> {
    let mut expansion = Expansion::over(&snapshot.entries);
    for (address, mut resource) in resources_of(snapshot, facts)? {
        let mut object = array.object();
        if !address.module.is_empty() {
            object.string("module", &address.module);
        }
        object
            .string("mode", address.mode.name())
            .string("type", &address.kind)
            .string("name", &address.name);
        if let Some(provider) = &resource.provider {
            object.string("provider", provider);
        }
        resource.members.sort_by(|a, b| {
            let rank = |member: &Member<'_>| (member.key.clone(), member.entry.deposed.clone());
            rank(a).cmp(&rank(b))
        });
        let mut instances = object.array("instances");
        for member in &resource.members {
            let dependencies = expansion.of(member.entry);
            instance::write(member, dependencies, instances.object());
        }
        instances.finish();
        write_rest(resource.rest.as_ref(), &mut object);
        object.finish();
    }
    array.finish();
    Ok(())
}

/// The resources in Terraform's order.
fn resources_of<'a>(
    snapshot: &'a Snapshot,
    facts: &StateFacts,
) -> Result<BTreeMap<ResourceAddress, Resource<'a>>> {
    let mut resources: BTreeMap<_, Resource<'_>> = BTreeMap::new();
    for entry in &snapshot.entries {
        let address = address_of(entry)?;
        let facts = extension::of_entry(entry)?;
        let resource = resources.entry(address.resource).or_default();
        if let Some(facts) = &facts {
            resource.is_known = true;
            resource.provider = resource.provider.take().or_else(|| facts.provider.clone());
            resource.rest = resource.rest.take().or_else(|| facts.resource.clone());
        }
        resource.members.push(Member {
            key: address.key,
            entry,
            facts,
        });
    }
    for empty in &facts.resources {
        let resource = resources.entry(instance::resource_address(empty)?).or_default();
        resource.is_known = true;
        resource.provider = resource.provider.take().or_else(|| empty.provider.clone());
        resource.rest = resource.rest.take().or_else(|| empty.rest.clone());
    }
    let stranger = resources.values().find(|resource| !resource.is_known);
    if let Some(member) = stranger.and_then(|resource| resource.members.first()) {
        return Err(Error::not_exportable(
            member.entry.key().to_string(),
            "it has no provider in it: Terraform never knew this resource",
        ));
    }
    Ok(resources)
}

fn address_of(entry: &Entry) -> Result<InstanceAddress> {
    let refuse = |reason: &str| Err(Error::not_exportable(entry.key().to_string(), reason));
    if entry.entry_type != EntryType::Leaf {
        return refuse("Terraform knows resources only, neither library calls nor actions");
    }
    if entry.deposed.as_ref().is_some_and(|key| key.as_str().len() != 8) {
        return refuse("Terraform's deposed keys have exactly 8 characters");
    }
    match InstanceAddress::parse(entry.address.as_str()) {
        Some(address) => Ok(address),
        None => refuse("its address isn't one of Terraform's"),
    }
}
