//! Writes resources and their instances, with the fields in Terraform's order.

use crate::error::Result;
use crate::layout::{Layout, Printer};
use crate::ordered::{needs_two_threads, work_in_order};
use crate::secrets::declared_marks;
use crate::terraform::address::{InstanceAddress, Key, Mode, ResourceAddress};
use crate::terraform::dependencies::{ExpandedLists, Expansion};
use crate::terraform::facts::{EXTENSION, EntryFacts, ResourceFacts, Shape, StateFacts, not_exportable};
use crate::terraform::{attributes, sensitive};
use state_core::json::{Json, ObjectWriter};
use state_core::{Entry, EntryType, Properties, Snapshot};
use std::sync::{Arc, Mutex, PoisonError};

/// Adds the members of a kept object.
pub(super) fn write_rest(rest: Option<&Json>, object: &mut ObjectWriter<'_>) {
    object.members(rest.and_then(|rest| rest.view().members()).into_iter().flatten());
}

/// An instance to be written.
struct Member<'a> {
    key: Option<Key>,
    entry: &'a Entry,
    facts: Option<Arc<EntryFacts>>,
}

/// A resource to be written.
struct Resource<'a> {
    address: ResourceAddress,
    members: Vec<&'a Entry>,
    /// The facts of the resource, if it had no instances when it was imported.
    empty: Option<&'a ResourceFacts>,
}

/// Approximate number of bytes of attributes that a thread writes at once.
const CHUNK: usize = 128 << 10;

/// The nesting depth of a resource in a state.
const DEPTH: usize = 2;

/// The resources of a snapshot, checked and in Terraform's order.
pub(super) struct Resources<'a> {
    facts: &'a StateFacts,
    parts: Vec<Part<'a>>,
    expansion: Expansion<'a>,
    /// Number of bytes of all attributes.
    size: usize,
}

impl<'a> Resources<'a> {
    /// Checks that all entries can be written as resources, and sorts them.
    pub(super) fn of(snapshot: &'a Snapshot, facts: &'a StateFacts) -> Result<Self> {
        let parts = sorted_parts(snapshot, facts)?;
        let mut known = KnownFacts::default();
        for parts in parts.chunk_by(Part::is_of_one_resource) {
            check(parts, &mut known)?;
        }
        Ok(Self {
            facts,
            size: parts.iter().map(Part::size).sum(),
            parts,
            expansion: Expansion::over(&snapshot.entries),
        })
    }

    /// Writes the elements of the list of resources in the given layout. Holds the text of only a few resources at a time.
    pub(super) fn write(&self, layout: &Layout, out: &mut dyn FnMut(&str)) -> Result<()> {
        let mut written = Ok(());
        // The memory of the texts that were passed on, for the next ones.
        let spare: Mutex<Vec<String>> = Mutex::default();
        let buffers = || spare.lock().unwrap_or_else(PoisonError::into_inner);
        let work = |writer: &mut ResourceWriter<'a>, (is_first, parts): (bool, &[Part<'a>])| {
            let buffer = buffers().pop().unwrap_or_default();
            let mut printer = Printer::inside(layout, DEPTH, is_first, buffer);
            self.write_chunk(parts, is_first, writer, &mut printer)
                .map(|()| printer.into_text())
        };
        work_in_order(
            needs_two_threads(self.size),
            self.chunks(),
            ResourceWriter::default,
            work,
            |text| match text {
                Ok(mut text) if written.is_ok() => {
                    out(&text);
                    text.clear();
                    buffers().push(text);
                }
                Ok(_) => {}
                Err(error) => written = Err(error),
            },
        );
        written
    }

    /// Splits the parts into chunks of whole resources; `true` for the first chunk.
    fn chunks(&self) -> impl Iterator<Item = (bool, &[Part<'a>])> {
        let mut rest = &*self.parts;
        std::iter::from_fn(move || {
            let is_first = rest.len() == self.parts.len();
            let (mut size, mut count) = (0, 0);
            for parts in rest.chunk_by(Part::is_of_one_resource) {
                if size >= CHUNK {
                    break;
                }
                size += parts.iter().map(Part::size).sum::<usize>();
                count += parts.len();
            }
            let (chunk, after) = rest.split_at(count);
            rest = after;
            (!chunk.is_empty()).then_some((is_first, chunk))
        })
    }

    fn write_chunk(
        &self,
        parts: &[Part<'a>],
        is_first: bool,
        writer: &mut ResourceWriter<'a>,
        printer: &mut Printer<'_>,
    ) -> Result<()> {
        let mut text = String::from(if is_first { "" } else { "," });
        for parts in parts.chunk_by(Part::is_of_one_resource) {
            let resource = Resource::of(parts)?;
            let unknown = match &self.facts.unknown.resources {
                none if none.is_empty() => None,
                some => some.get(&resource.address.to_string()),
            };
            writer.resource(resource, unknown, &self.expansion, &mut text)?;
            printer.feed(&text);
            text.clear();
            text.push(',');
        }
        Ok(())
    }
}

/// Checks that the parts of one resource can be written.
fn check<'a>(parts: &[Part<'a>], known: &mut KnownFacts<'a>) -> Result<()> {
    let mut has_facts = false;
    let mut first = None;
    for part in parts {
        match part.item {
            Item::Entry(entry) => {
                has_facts |= known.of(entry)?.is_some();
                first = first.or(Some(entry));
            }
            Item::Empty(_) => has_facts = true,
        }
    }
    match first.filter(|_| !has_facts) {
        Some(entry) => Err(not_exportable(
            entry.key().to_string(),
            "no provider is recorded for it: the resource wasn't imported from Terraform",
        )),
        None => Ok(()),
    }
}

/// Reads the facts of entries. Consecutive entries often have equal facts, which are decoded once.
#[derive(Default)]
struct KnownFacts<'a> {
    last: Option<(&'a Json, Arc<EntryFacts>)>,
}

impl<'a> KnownFacts<'a> {
    fn of(&mut self, entry: &'a Entry) -> Result<Option<Arc<EntryFacts>>> {
        let Some(json) = entry.extensions.get(EXTENSION.name) else {
            return Ok(None);
        };
        if let Some((known, facts)) = &self.last
            && *known == json
        {
            return Ok(Some(Arc::clone(facts)));
        }
        let facts = EXTENSION.of_entry(entry)?.map(Arc::new);
        self.last = facts.clone().map(|facts| (json, facts));
        Ok(facts)
    }
}

/// Writes resources one after another.
#[derive(Default)]
struct ResourceWriter<'a> {
    lists: ExpandedLists<'a>,
    known: KnownFacts<'a>,
}

impl<'a> ResourceWriter<'a> {
    /// Writes one resource; `unknown` contains the unknown fields of a resource that was imported without instances.
    fn resource(
        &mut self,
        resource: Resource<'a>,
        unknown: Option<&Json>,
        expansion: &Expansion<'a>,
        out: &mut String,
    ) -> Result<()> {
        let Resource {
            address,
            members,
            empty,
        } = resource;
        let members = members.into_iter().map(|entry| {
            let key = address_of(entry)?.key;
            let facts = self.known.of(entry)?;
            Ok(Member { key, entry, facts })
        });
        let mut members = members.collect::<Result<Vec<_>>>()?;
        members.sort_by(|a, b| (&a.key, &a.entry.deposed).cmp(&(&b.key, &b.entry.deposed)));
        let known = || members.iter().filter_map(|member| member.facts.as_ref());
        let provider = known().find_map(|facts| facts.provider.as_ref());
        let provider = provider.or_else(|| empty?.provider.as_ref());
        let rest = known().find_map(|facts| facts.resource.as_ref());
        let rest = rest.or(unknown);
        let mut object = ObjectWriter::new(out);
        if !address.module.is_empty() {
            object.string("module", &address.module);
        }
        object
            .string("mode", address.mode.name())
            .string("type", &address.kind)
            .string("name", &address.name);
        if let Some(provider) = provider {
            object.string("provider", provider);
        }
        let mut instances = object.array("instances");
        for member in &members {
            write_instance(member, expansion, &mut self.lists, instances.object());
        }
        instances.finish();
        write_rest(rest, &mut object);
        object.finish();
        Ok(())
    }
}

/// An entry, or the facts of a resource without instances, with the sort key of its resource. Kept small, because an
/// export holds one part for each entry.
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

    /// Number of bytes of the attributes.
    fn size(&self) -> usize {
        match self.item {
            Item::Entry(entry) => entry.outputs.as_ref().map_or(0, Properties::len_bytes),
            Item::Empty(_) => 0,
        }
    }

    fn is_of_one_resource(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

/// All parts in Terraform's order of resources; the parts of one resource are in arbitrary order.
fn sorted_parts<'a>(snapshot: &'a Snapshot, facts: &'a StateFacts) -> Result<Vec<Part<'a>>> {
    let mut parts = Vec::with_capacity(snapshot.entries.len() + facts.resources.len());
    for entry in &snapshot.entries {
        let address = address_of(entry)?;
        let text = entry.address.as_str();
        // The address is canonical, so slices of the text equal its printed parts, and nothing has to be allocated.
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
            mode: mode_of(empty)?,
            kind: &empty.kind,
            name: &empty.name,
            item: Item::Empty(empty),
        });
    }
    parts.sort_unstable_by_key(Part::key);
    Ok(parts)
}

impl<'a> Resource<'a> {
    /// Collects the parts of one resource.
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
        let address = address.ok_or_else(|| not_exportable("the snapshot", "a resource is empty"))?;
        Ok(Self {
            address,
            members,
            empty,
        })
    }
}

fn address_of(entry: &Entry) -> Result<InstanceAddress> {
    let refuse = |reason: &str| Err(not_exportable(entry.key().to_string(), reason));
    if entry.entry_type != EntryType::Leaf {
        return refuse("Terraform has resources only, neither library calls nor actions");
    }
    if entry.deposed.as_ref().is_some_and(|key| key.as_str().len() != 8) {
        return refuse("a deposed key of Terraform must have exactly 8 characters");
    }
    match InstanceAddress::parse(entry.address.as_str()) {
        Some(address) => Ok(address),
        None => refuse("its address isn't a Terraform address"),
    }
}

/// Fields without an equivalent in the model that Terraform writes between other fields.
const IDENTITY: [&str; 2] = ["identity_schema_version", "identity"];

/// Writes an instance and closes its object.
fn write_instance<'a>(
    member: &Member<'a>,
    expansion: &Expansion<'a>,
    lists: &mut ExpandedLists<'a>,
    mut object: ObjectWriter<'_>,
) {
    let none = EntryFacts::default();
    let (entry, facts) = (member.entry, member.facts.as_deref().unwrap_or(&none));
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
    let [_, marks] = declared_marks(entry);
    if !(facts.no_sensitive_attributes && marks.is_empty()) {
        let mut paths = String::new();
        sensitive::write(&marks, &facts.sensitive_attributes, &mut paths);
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
    write_dependencies(entry, facts, expansion, lists, &mut object);
    if let Some(first) = facts.create_before_destroy {
        object.bool("create_before_destroy", first);
    }
    let others = rest.and_then(|rest| rest.view().members()).into_iter().flatten();
    object.members(others.filter(|(key, _)| !IDENTITY.contains(&&**key)));
    object.finish();
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
            let text = object.member("attributes");
            attributes::write(outputs.view(), &facts.sorted, &mut |piece| text.push_str(piece));
        }
    }
}

/// Writes the list of dependencies as it was imported, or the expanded list if the dependencies have changed.
fn write_dependencies<'a>(
    entry: &'a Entry,
    facts: &EntryFacts,
    expansion: &Expansion<'a>,
    lists: &mut ExpandedLists<'a>,
    object: &mut ObjectWriter<'_>,
) {
    let kept = facts.dependencies.as_ref().filter(|kept| {
        let now = entry.depends_on.iter().map(|to| to.address().as_str());
        now.eq(kept.reduced.iter().map(String::as_str))
    });
    if let Some(kept) = kept {
        let mut list = object.array("dependencies");
        kept.listed.iter().for_each(|name| _ = list.string(name));
        return list.finish();
    }
    // An expansion lists all ancestors. If a state lists only direct dependencies, the expanded lists of all its
    // resources are quadratic in the size of the state, so a list is expanded only if it is written.
    let expanded = lists.of(entry, expansion);
    if expanded.is_empty() {
        return;
    }
    let mut list = object.array("dependencies");
    expanded.iter().for_each(|name| _ = list.string(name.as_str()));
    list.finish();
}

fn mode_of(facts: &ResourceFacts) -> Result<Mode> {
    Mode::named(&facts.mode)
        .ok_or_else(|| not_exportable("the snapshot", "its Terraform extension names an unknown mode"))
}
