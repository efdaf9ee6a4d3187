//! Writes a snapshot as Terraform writes its state: its order of keys, resources and instances.

mod checks;
mod instance;

use super::address::{InstanceAddress, Key, Mode, ResourceAddress};
use super::attributes::push_token;
use super::cty;
use super::dependencies::Expansion;
use super::extension::{self, EntryFacts, ResourceFacts, StateFacts};
use super::parse::sensitive_name;
use crate::error::{Error, Result};
use state_core::json::{self, Document, Json, Limits, ObjectWriter, Style};
use state_core::{Entry, EntryType, Snapshot};

/// What stands at the top of a state.
pub(super) struct Header<'a> {
    pub(super) terraform_version: &'a str,
    pub(super) serial: u64,
    pub(super) lineage: &'a str,
}

/// Takes the text, piece by piece.
pub(super) type Sink<'s> = dyn FnMut(&str) + 's;

/// Writes the state in Terraform's order, without a newline at its end. No more than one resource of it is held.
pub(super) fn write(
    snapshot: &Snapshot,
    facts: &StateFacts,
    header: &Header<'_>,
    style: &Style,
    out: &mut Sink<'_>,
) -> Result<()> {
    let frame = frame(snapshot, facts, header);
    let frame = reparsed(&frame)?;
    let mut text = String::new();
    for (index, (key, value)) in frame.root().members().into_iter().flatten().enumerate() {
        text.push(if index == 0 { '{' } else { ',' });
        break_line(&mut text, style, 1);
        json::write(Json::from_string(&key).view(), style, &mut text);
        text.push_str(if style.indent.is_some() { ": " } else { ":" });
        if key == RESOURCES {
            out(&text);
            text.clear();
            write_resources(snapshot, facts, style, out)?;
        } else {
            json::write_at(value, style, 1, &mut text);
        }
    }
    break_line(&mut text, style, 0);
    text.push('}');
    out(&text);
    Ok(())
}

/// The field whose elements are written one by one.
const RESOURCES: &str = "resources";

/// The state without its resources, compact.
fn frame(snapshot: &Snapshot, facts: &StateFacts, header: &Header<'_>) -> String {
    let mut text = String::new();
    let mut state = ObjectWriter::new(&mut text);
    state
        .u64("version", 4)
        .string("terraform_version", header.terraform_version)
        .u64("serial", header.serial)
        .string("lineage", header.lineage);
    write_outputs(snapshot, facts, state.object("outputs"));
    state.array(RESOURCES).finish();
    if let Some(results) = &facts.check_results {
        let mut text = String::new();
        checks::write(results.view(), &mut text);
        state.raw("check_results", &text);
    }
    write_rest(facts.rest.as_ref(), &mut state);
    state.finish();
    text
}

/// Reads what was just written, to lay it out.
fn reparsed(compact: &str) -> Result<Document<'_>> {
    let limits = Limits {
        max_string_bytes: usize::MAX,
        max_bytes: usize::MAX,
        max_depth: 128,
    };
    Document::parse(compact.as_bytes(), &limits).map_err(Error::malformed)
}

fn break_line(out: &mut String, style: &Style, depth: usize) {
    if let Some(indent) = style.indent {
        out.push('\n');
        out.extend(std::iter::repeat_n(indent, depth));
    }
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
        write_rest(facts.unknown.outputs.get(name), &mut output);
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
struct Resource<'a> {
    address: ResourceAddress,
    members: Vec<&'a Entry>,
    /// What was kept of it when it had none.
    empty: Option<&'a ResourceFacts>,
}

fn write_resources(snapshot: &Snapshot, facts: &StateFacts, style: &Style, out: &mut Sink<'_>) -> Result<()> {
    let mut expansion = Expansion::over(&snapshot.entries);
    let parts = sorted_parts(snapshot, facts)?;
    let (mut compact, mut text) = (String::new(), String::from("["));
    for (index, parts) in parts.chunk_by(Part::is_of_one_resource).enumerate() {
        compact.clear();
        let resource = Resource::of(parts)?;
        let unknown = match &facts.unknown.resources {
            none if none.is_empty() => None,
            some => some.get(&resource.address.to_string()),
        };
        write_resource(resource, unknown, &mut expansion, &mut compact)?;
        if index > 0 {
            text.push(',');
        }
        break_line(&mut text, style, 2);
        json::write_at(reparsed(&compact)?.root(), style, 2, &mut text);
        out(&text);
        text.clear();
    }
    if !parts.is_empty() {
        break_line(&mut text, style, 1);
    }
    text.push(']');
    out(&text);
    Ok(())
}

/// Writes one; `unknown` is what was kept of it when it had no instances.
fn write_resource<'a>(
    resource: Resource<'a>,
    unknown: Option<&Json>,
    expansion: &mut Expansion<'a>,
    out: &mut String,
) -> Result<()> {
    let Resource {
        address,
        members,
        empty,
    } = resource;
    let members = members.into_iter().map(|entry| {
        let key = address_of(entry)?.key;
        let facts = extension::of_entry(entry)?;
        Ok(Member { key, entry, facts })
    });
    let mut members = members.collect::<Result<Vec<_>>>()?;
    members.sort_by(|a, b| (&a.key, &a.entry.deposed).cmp(&(&b.key, &b.entry.deposed)));
    let known = || members.iter().filter_map(|member| member.facts.as_ref());
    if let (Some(first), None, None) = (members.first(), known().next(), empty) {
        return Err(Error::not_exportable(
            first.entry.key().to_string(),
            "it has no provider in it: Terraform never knew this resource",
        ));
    }
    let provider = known().find_map(|facts| facts.provider.clone());
    let provider = provider.or_else(|| empty?.provider.clone());
    let rest = known().find_map(|facts| facts.resource.clone());
    let rest = rest.or_else(|| unknown.cloned());
    let mut object = ObjectWriter::new(out);
    if !address.module.is_empty() {
        object.string("module", &address.module);
    }
    object
        .string("mode", address.mode.name())
        .string("type", &address.kind)
        .string("name", &address.name);
    if let Some(provider) = &provider {
        object.string("provider", provider);
    }
    let mut instances = object.array("instances");
    for member in &members {
        let dependencies = expansion.of(member.entry);
        instance::write(member, dependencies, instances.object());
    }
    instances.finish();
    write_rest(rest.as_ref(), &mut object);
    object.finish();
    Ok(())
}

/// An entry, or what was kept of a resource without any, with what Terraform sorts resources by. Small: there are as many
/// as entries.
struct Part<'a> {
    module: &'a str,
    mode: Mode,
    kind: &'a str,
    name: &'a str,
    item: Item<'a>,
}

#[derive(Clone, Copy)]
enum Item<'a> {
    Entry(&'a Entry),
    Empty(&'a ResourceFacts),
}

impl<'a> Part<'a> {
    fn key(&self) -> (&'a str, Mode, &'a str, &'a str) {
        (self.module, self.mode, self.kind, self.name)
    }

    fn is_of_one_resource(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

/// All of them in Terraform's order; those of one resource in any.
fn sorted_parts<'a>(snapshot: &'a Snapshot, facts: &'a StateFacts) -> Result<Vec<Part<'a>>> {
    let mut parts = Vec::with_capacity(snapshot.entries.len() + facts.resources.len());
    for entry in &snapshot.entries {
        let address = address_of(entry)?;
        let text = entry.address.as_str();
        // The address is canonical: what it was read from is what its parts are written as.
        let (module, rest) = match address.resource.module.len() {
            0 => ("", text),
            end => (&text[..end], &text[end + 1..]),
        };
        let rest = match address.resource.mode {
            Mode::Data => rest.strip_prefix("data.").unwrap_or(rest),
            Mode::Managed => rest,
        };
        let (kind, rest) = rest.split_once('.').unwrap_or((rest, ""));
        parts.push(Part {
            module,
            mode: address.resource.mode,
            kind,
            name: rest.split('[').next().unwrap_or_default(),
            item: Item::Entry(entry),
        });
    }
    for empty in &facts.resources {
        parts.push(Part {
            module: &empty.module,
            mode: instance::resource_address(empty)?.mode,
            kind: &empty.kind,
            name: &empty.name,
            item: Item::Empty(empty),
        });
    }
    parts.sort_unstable_by_key(Part::key);
    Ok(parts)
}

impl<'a> Resource<'a> {
    /// Of its parts.
    fn of(parts: &[Part<'a>]) -> Result<Self> {
        let (mut members, mut empty, mut address) = (Vec::with_capacity(parts.len()), None, None);
        for part in parts {
            match part.item {
                Item::Entry(entry) => members.push(entry),
                Item::Empty(facts) => empty = Some(facts),
            }
            if address.is_none() {
                address = Some(ResourceAddress {
                    module: part.module.to_owned(),
                    mode: part.mode,
                    kind: part.kind.to_owned(),
                    name: part.name.to_owned(),
                });
            }
        }
        let address = address.ok_or_else(|| Error::not_exportable("the snapshot", "a resource is empty"))?;
        Ok(Self {
            address,
            members,
            empty,
        })
    }
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
