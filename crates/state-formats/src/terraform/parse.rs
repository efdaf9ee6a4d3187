//! Reads a version 4 state from its top level down to its resources.

use super::address::{Mode, ModulePath, ResourceAddress, is_identifier};
use super::cty;
use super::draft::Draft;
use super::extension::{OutputFacts, ResourceFacts, StateFacts};
use super::fields::Fields;
use super::instance::{self, Names, Resource};
use super::provider;
use super::version::is_version;
use crate::error::{Error, Result};
use state_core::json::{Document, Json, Kind, View};
use std::collections::{BTreeMap, HashSet};

/// A state as it was read.
#[derive(Debug, Default)]
pub(super) struct Parsed {
    pub(super) serial: u64,
    pub(super) facts: StateFacts,
    pub(super) outputs: BTreeMap<String, Json>,
    pub(super) sensitive_outputs: Vec<String>,
    /// The instances, in the order of the text.
    pub(super) drafts: Vec<Draft>,
}

/// Reads all of it.
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
    let mut reader = Reader {
        document,
        names: Names::new(),
        keys: HashSet::new(),
    };
    for view in fields.elements("resources")? {
        reader.read_resource(view, &mut parsed)?;
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

/// The results of checks, `null` included; None if the field isn't there.
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
        return Err(fields.error("an output has a `value`; there is none"));
    };
    let Some(kind) = fields.take("type") else {
        return Err(fields.error("an output has a `type`; there is none"));
    };
    if !cty::is_type(&kind) {
        return Err(fields.error_at(&kind, "an unknown output type"));
    }
    if !cty::fits(&value, &kind) {
        return Err(fields.error_at(&value, "the output's value isn't of the output's type"));
    }
    if fields.bool("sensitive")? == Some(true) {
        parsed.sensitive_outputs.push(sensitive_name(name));
    }
    let facts = OutputFacts {
        kind: Json::from_view(kind),
        rest: fields.rest()?,
    };
    parsed.facts.outputs.insert(name.to_owned(), facts);
    parsed.outputs.insert(name.to_owned(), Json::from_view(value));
    Ok(())
}

/// How a snapshot's sensitive outputs name one: plainly, unless that would read as a pointer.
pub(super) fn sensitive_name(name: &str) -> String {
    if !name.starts_with('/') {
        return name.to_owned();
    }
    let mut pointer = String::new();
    super::attributes::push_token(&mut pointer, name);
    pointer
}

struct Reader<'a> {
    document: Document<'a>,
    names: Names,
    /// The keys of the instances so far: address and deposed key.
    keys: HashSet<(String, Option<String>)>,
}

impl<'a> Reader<'a> {
    fn read_resource(&mut self, view: View<'a>, parsed: &mut Parsed) -> Result<()> {
        let mut fields = Fields::of(self.document, view, "a resource")?;
        let address = read_address(&mut fields)?;
        let provider = match fields.string("provider")? {
            Some((provider, view)) if !provider::is_reference(&provider) => {
                return Err(fields.error_at(&view, "`provider` isn't a provider reference"));
            }
            provider => provider.map(|(text, _)| text.into_owned()),
        };
        let instances: Vec<_> = fields.elements("instances")?.collect();
        let group = instance::intern(&address.group(), &mut self.names)
            .map_err(|error| fields.error(error.to_string()))?;
        let resource = Resource {
            address,
            group,
            provider,
            rest: fields.rest()?,
        };
        if instances.is_empty() {
            parsed.facts.resources.push(without_instances(resource));
            return Ok(());
        }
        for view in instances {
            let draft = instance::read(self.document, view, &resource, &mut self.names)?;
            let deposed = draft.entry.deposed.as_ref().map(ToString::to_string);
            if !self.keys.insert((draft.entry.address.to_string(), deposed)) {
                let message = format!(
                    "a duplicate instance: {} stands in the state twice",
                    draft.entry.key()
                );
                return Err(Error::at(&self.document, &view, message));
            }
            parsed.drafts.push(draft);
        }
        Ok(())
    }
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
            .ok_or_else(|| fields.error_at(&view, "an unknown `mode`: it is `managed` or `data`"))?,
        None => return Err(fields.error("a resource has a `mode`; there is none")),
    };
    let mut name = |field: &str| match fields.string(field)? {
        Some((text, view)) if !is_identifier(&text) => {
            Err(fields.error_at(&view, format!("`{field}` isn't an identifier")))
        }
        Some((text, _)) => Ok(text.into_owned()),
        None => Err(fields.error(format!("a resource has a `{field}`; there is none"))),
    };
    Ok(ResourceAddress {
        module,
        mode,
        kind: name("type")?,
        name: name("name")?,
    })
}

fn without_instances(resource: Resource) -> ResourceFacts {
    ResourceFacts {
        module: resource.address.module,
        mode: resource.address.mode.name().to_owned(),
        kind: resource.address.kind,
        name: resource.address.name,
        provider: resource.provider,
        rest: resource.rest,
    }
}
