//! Reads a version 4 state from its top level down to its resources.
//!
//! Text and entries of a large state don't fit into memory together, so a state is read twice. The first pass checks
//! everything on the whole text, so that errors can name positions. The second pass reads the resources from the last
//! to the first, and cuts each resource off the text once it is read.

use super::address::{Mode, ModulePath, ResourceAddress, is_identifier};
use super::cty;
use super::facts::{OutputFacts, ResourceFacts, StateFacts};
use super::instance::{self, Draft, Interner, Resource};
use super::provider;
use super::sensitive::sensitive_name;
use super::version::is_version;
use crate::error::{Error, Result};
use crate::fields::{Fields, scan};
use state_core::Address;
use state_core::json::{Document, Json, Kind, View};
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
    /// Number of instances of these resources.
    pub(super) instances: usize,
    /// Violations for instances whose key occurred before.
    pub(super) duplicates: Vec<Violation>,
}

/// Reads a state without its instances, which are only checked.
pub(super) fn read(document: Document<'_>) -> Result<Parsed> {
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
    let mut shared = Interner::default();
    let mut keys = HashSet::new();
    for view in fields.elements("resources")? {
        let (resource, instances) = read_resource(document, view)?;
        let mut is_empty = true;
        for view in instances {
            let draft = instance::read(document, view, &resource, &mut shared)?;
            let key = draft.entry.key();
            if keys.contains(&key) {
                let duplicate = document.error_at(&view, "a duplicate instance");
                parsed
                    .duplicates
                    .push(Violation::of(Rule::UniqueKey, key, duplicate.to_string()));
            } else {
                keys.insert(key);
            }
            is_empty = false;
            parsed.instances += 1;
        }
        if is_empty {
            keep_without_instances(resource, &mut parsed.facts);
        } else {
            parsed
                .resources
                .push(view.offset()..view.offset() + view.text().len());
        }
    }
    parsed.facts.check_results = read_checks(&mut fields)?;
    parsed.facts.rest = fields.rest()?;
    Ok(parsed)
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

/// Minimum number of bytes of the text that are freed at once.
const STRIDE: usize = 4 << 20;

/// The second pass: reads the resources of a checked state from the last to the first, and cuts each
/// resource off the text once it is read. Returns the instances in the order of the text.
pub(super) fn drafts(mut text: String, parsed: &Parsed) -> Result<Vec<Draft>> {
    let mut shared = Interner::default();
    let mut drafts = Vec::with_capacity(parsed.instances);
    for place in parsed.resources.iter().rev() {
        let document = scan(text[place.clone()].as_bytes()).map_err(Error::malformed)?;
        let (mut resource, instances) = read_resource(document, document.root())?;
        resource.group = shared.common.address(resource.group.as_str())?;
        let first = drafts.len();
        for view in instances {
            drafts.push(instance::read(document, view, &resource, &mut shared)?);
        }
        drafts[first..].reverse();
        text.truncate(place.start);
        if text.capacity() - text.len() > STRIDE {
            text.shrink_to_fit();
        }
    }
    drafts.reverse();
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
