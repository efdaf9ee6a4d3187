//! Reads a version 4 state from its top level down to its resources.
//!
//! Text and entries of a large state don't fit into memory together. The first pass reads the top level and the resources
//! without their instances. The second pass reads the instances, on two threads if the text is large, and cuts the text off
//! from its end while it is read. If it finds an error, the instances are checked on the whole text from the first to the
//! last, so that the error names a position.

use super::address::{Mode, ModulePath, ResourceAddress, is_identifier};
use super::cty;
use super::facts::{OutputFacts, ResourceFacts, StateFacts};
use super::instance::{self, Draft, Interner, Resource};
use super::provider;
use super::sensitive::sensitive_name;
use super::version::is_version;
use crate::error::Result;
use crate::fields::Fields;
use crate::ordered::{needs_two_threads, work_in_order};
use foldhash::fast::RandomState;
use state_core::Address;
use state_core::json::{ContainerIndex, Document, IndexedText, Json, Kind, View};
use state_core::verify::{Rule, Violation};
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

/// The result of the first pass over a state.
#[derive(Debug, Default)]
pub(super) struct Parsed {
    pub(super) serial: u64,
    pub(super) facts: StateFacts,
    pub(super) outputs: BTreeMap<String, Json>,
    pub(super) sensitive_outputs: Vec<String>,
    /// Byte ranges, in the text, of the resources that have instances; in order.
    pub(super) resources: Vec<Range<usize>>,
}

/// Reads a state without its instances.
pub(super) fn read(document: Document<'_>) -> Result<Parsed> {
    // An instance may have an error that precedes this one in the text.
    read_outline(document).map_err(|error| check(document).err().unwrap_or(error))
}

fn read_outline(document: Document<'_>) -> Result<Parsed> {
    let mut fields = Fields::of(document, document.root(), "a state")?;
    fields.take("version");
    let mut parsed = Parsed {
        serial: fields.u64("serial")?.unwrap_or_default(),
        ..Parsed::default()
    };
    parsed.facts.terraform_version = read_version(&mut fields)?;
    parsed.facts.lineage = fields
        .string("lineage")?
        .map(|(text, _)| text.into_owned())
        .unwrap_or_default();
    if let Some(outputs) = fields.take_kind("outputs", Kind::Object)? {
        for (name, view) in outputs.members().into_iter().flatten() {
            read_output(document, &name, view, &mut parsed)?;
        }
    }
    for view in fields.elements("resources")? {
        let (resource, mut instances) = read_resource(document, view)?;
        match instances.next() {
            None => keep_without_instances(resource, &mut parsed.facts),
            Some(_) => parsed.resources.push(view.range()),
        }
    }
    parsed.facts.check_results = read_checks(&mut fields)?;
    parsed.facts.rest = fields.rest()?;
    Ok(parsed)
}

/// Checks all instances on the whole text. Returns violations for those whose key occurred before.
///
/// # Errors
/// The first error of a resource or an instance.
pub(super) fn check(document: Document<'_>) -> Result<Vec<Violation>> {
    let mut fields = Fields::of(document, document.root(), "a state")?;
    let mut shared = Interner::default();
    let mut keys = HashSet::new();
    let mut duplicates = Vec::new();
    for view in fields.elements("resources")? {
        let (resource, instances) = read_resource(document, view)?;
        for view in instances {
            let draft = instance::read(document, view, &resource, &mut shared)?;
            let key = draft.entry.key();
            if !keys.insert(key.clone()) {
                let duplicate = document.error_at(&view, "a duplicate instance");
                duplicates.push(Violation::of(Rule::UniqueKey, key, duplicate.to_string()));
            }
        }
    }
    Ok(duplicates)
}

/// Whether several instances have the same key.
pub(super) fn has_duplicates(drafts: &[Draft]) -> bool {
    let mut keys = HashSet::with_capacity_and_hasher(drafts.len(), RandomState::default());
    let mut all = drafts
        .iter()
        .map(|draft| (&draft.entry.address, draft.entry.deposed.as_ref()));
    !all.all(|key| keys.insert(key))
}

fn read_version(fields: &mut Fields<'_>) -> Result<String> {
    match fields.string("terraform_version")? {
        Some((version, view)) if !version.is_empty() && !is_version(&version) => {
            Err(fields.error_at(&view, "`terraform_version` must be a version such as 1.11.4"))
        }
        version => Ok(version.map(|(text, _)| text.into_owned()).unwrap_or_default()),
    }
}

/// Reads the results of checks, including `null`; None if the field is absent.
fn read_checks(fields: &mut Fields<'_>) -> Result<Option<Json>> {
    let Some(view) = fields.take_nullable("check_results") else {
        return Ok(None);
    };
    if !matches!(view.kind(), Kind::Null | Kind::Array) {
        let message = format!("`check_results` must be an array or null, found {}", view.kind());
        return Err(fields.error_at(&view, message));
    }
    Ok(Some(Json::from_view(view)))
}

fn read_output(document: Document<'_>, name: &str, view: View<'_>, parsed: &mut Parsed) -> Result<()> {
    let mut fields = Fields::of(document, view, "an output")?;
    let Some(value) = fields.take_nullable("value") else {
        return Err(fields.error("an output must have a `value`"));
    };
    let Some(kind) = fields.take("type") else {
        return Err(fields.error("an output must have a `type`"));
    };
    if !cty::is_type(&kind) {
        return Err(fields.error_at(&kind, "unknown output type"));
    }
    if !cty::fits(&value, &kind) {
        return Err(fields.error_at(&value, "the value of the output doesn't conform to its type"));
    }
    if fields.bool("sensitive")? == Some(true) {
        parsed.sensitive_outputs.push(sensitive_name(name));
    }
    let facts = OutputFacts {
        kind: Json::from_view(kind),
    };
    if let Some(rest) = fields.rest()? {
        parsed.facts.unknown.outputs.insert(name.to_owned(), rest);
    }
    parsed.facts.outputs.insert(name.to_owned(), facts);
    parsed.outputs.insert(name.to_owned(), Json::from_view(value));
    Ok(())
}

/// Reads a resource without its instances, and returns the JSON values of the instances.
fn read_resource<'a>(
    document: Document<'a>,
    view: View<'a>,
) -> Result<(Resource, impl Iterator<Item = View<'a>> + use<'a>)> {
    let mut fields = Fields::of(document, view, "a resource")?;
    let address = read_address(&mut fields)?;
    let provider = match fields.string("provider")? {
        Some((provider, view)) if !provider::is_reference(&provider) => {
            return Err(fields.error_at(&view, "`provider` isn't a provider reference"));
        }
        provider => provider.map(|(text, _)| text.into_owned()),
    };
    let instances = fields.elements("instances")?;
    let group = Address::new(address.group()).map_err(|error| fields.error(error.to_string()))?;
    let resource = Resource {
        address,
        group,
        provider,
        rest: fields.rest()?,
    };
    Ok((resource, instances))
}

/// Minimum number of bytes of the text that a thread reads and frees at once.
const CHUNK: usize = 1 << 20;

/// The end of the text, cut off, with the resources in it.
struct Chunk<'p> {
    text: String,
    /// Offset of the chunk in the whole text.
    start: usize,
    /// Byte ranges of the resources in the whole text.
    resources: &'p [Range<usize>],
}

/// The second pass: reads the resources of a state chunk by chunk, from the last to the first, and frees each chunk once it
/// is read. Returns the instances in the order of the text. The position in an error is wrong: [`check`] finds the error
/// again.
pub(super) fn drafts(text: IndexedText, parsed: &Parsed) -> Result<Vec<Draft>> {
    let (mut text, index) = text.into_parts();
    let is_large = needs_two_threads(text.len());
    let mut resources = &*parsed.resources;
    let chunks = std::iter::from_fn(move || {
        let last = resources.last()?;
        let first = resources.partition_point(|range| range.start + CHUNK < last.end);
        let (before, own) = resources.split_at(first.min(resources.len() - 1));
        resources = before;
        let start = own.first()?.start;
        let chunk = Chunk {
            text: text.split_off(start),
            start,
            resources: own,
        };
        text.shrink_to_fit();
        Some(chunk)
    });
    let mut read = Ok(Vec::new());
    let work = |shared: &mut Interner, chunk: Chunk<'_>| read_chunk(&chunk, &index, shared);
    work_in_order(is_large, chunks, Interner::default, work, |drafts| {
        match (&mut read, drafts) {
            (Ok(chunks), Ok(drafts)) => chunks.push(drafts),
            (Ok(_), Err(error)) => read = Err(error),
            (Err(_), _) => {}
        }
    });
    let chunks: Vec<Vec<Draft>> = read?;
    Ok(chunks.into_iter().rev().flatten().collect())
}

fn read_chunk(chunk: &Chunk<'_>, index: &ContainerIndex, shared: &mut Interner) -> Result<Vec<Draft>> {
    let mut drafts = Vec::new();
    for range in chunk.resources {
        let document = Document::of_part(&chunk.text, chunk.start, range.clone(), index);
        let (mut resource, instances) = read_resource(document, document.root())?;
        resource.group = shared.common.address(resource.group.as_str())?;
        for view in instances {
            drafts.push(instance::read(document, view, &resource, shared)?);
        }
    }
    Ok(drafts)
}

fn read_address(fields: &mut Fields<'_>) -> Result<ResourceAddress> {
    let module = match fields.string("module")? {
        None => String::new(),
        Some((text, view)) => ModulePath::parse(&text)
            .ok_or_else(|| fields.error_at(&view, "`module` isn't the path of a module instance"))?
            .to_string(),
    };
    let mode = match fields.string("mode")? {
        Some((text, view)) => Mode::named(&text)
            .ok_or_else(|| fields.error_at(&view, "unknown `mode`: must be `managed` or `data`"))?,
        None => return Err(fields.error("a resource must have a `mode`")),
    };
    let mut name = |field: &str| match fields.string(field)? {
        Some((text, view)) if !is_identifier(&text) => {
            Err(fields.error_at(&view, format!("`{field}` isn't an identifier")))
        }
        Some((text, _)) => Ok(text.into_owned()),
        None => Err(fields.error(format!("a resource must have a `{field}`"))),
    };
    Ok(ResourceAddress {
        module,
        mode,
        kind: name("type")?,
        name: name("name")?,
    })
}

fn keep_without_instances(resource: Resource, facts: &mut StateFacts) {
    if let Some(rest) = resource.rest {
        let address = resource.address.to_string();
        facts.unknown.resources.insert(address, rest);
    }
    facts.resources.push(ResourceFacts {
        module: resource.address.module,
        mode: resource.address.mode.name().to_owned(),
        kind: resource.address.kind,
        name: resource.address.name,
        provider: resource.provider,
    });
}
