//! Upgrades states of format versions 1 to 3, written by Terraform up to 0.11, to version 4.
//!
//! | version | difference |
//! |---|---|
//! | version 1 | outputs are bare strings, a module may have no path, objects to be replaced are in a list `tainted` |
//! | version 2 | outputs have a type; maps count their members under `x.#`, as lists do |
//! | version 3 | maps count under `x.%`; empty collections are left out |
//! | version 4 | resources are lists of instances, module paths are addresses |
//!
//! The result is the text that Terraform writes after reading such a state, except for three things that Terraform
//! loses: numbers keep all their digits, `terraform_version` stays that of the old state, and objects in a `tainted`
//! list become deposed objects. As in Terraform, fields without an equivalent in version 4, above all `depends_on`, are
//! dropped; a note names the dropped fields.

mod instance;

use super::address::{Key, Mode, ResourceAddress, is_identifier};
use super::version::is_version;
use super::{cty, provider};
use crate::error::{Error, Result};
use crate::fields::Fields;
use crate::layout::go_formatted;
use state_core::json::{Document, Json, Kind, ObjectWriter, View};
use std::collections::{BTreeMap, BTreeSet};

/// Version of Terraform for a state that names no version.
const UNKNOWN_VERSION: &str = "0.0.0";

/// A state upgraded to version 4.
pub(super) struct Upgraded {
    /// The state as JSON, laid out like Terraform's files.
    pub(super) text: String,
    /// Remarks about the upgrade for the user.
    pub(super) notes: Vec<String>,
}

/// The content of an old state, in Terraform's order.
struct LegacyState<'a> {
    document: Document<'a>,
    version: u64,
    /// Outputs by name: an object with `value`, `type` and `sensitive` as JSON.
    outputs: BTreeMap<String, String>,
    resources: BTreeMap<ResourceAddress, Resource>,
    /// Names of the fields that version 4 has no equivalent for.
    dropped: BTreeSet<String>,
}

/// A resource, collected from the keys that name its instances.
struct Resource {
    provider: String,
    /// Instances as JSON, by instance key and deposed key.
    instances: BTreeMap<(Option<Key>, String), String>,
}

/// Upgrades a state of version 1, 2 or 3 to version 4.
pub(super) fn upgrade(document: Document<'_>, version: u64) -> Result<Upgraded> {
    let mut old = LegacyState {
        document,
        version,
        outputs: BTreeMap::new(),
        resources: BTreeMap::new(),
        dropped: BTreeSet::new(),
    };
    let mut fields = Fields::of(document, document.root(), "a state")?;
    fields.take("version");
    let terraform_version = read_version(&mut fields)?;
    let serial = fields.u64("serial")?.unwrap_or_default();
    let lineage = fields.string("lineage")?.map(|(text, _)| text.into_owned());
    for module in fields.elements("modules")? {
        old.module(module)?;
    }
    old.note_dropped(&fields, "");
    let mut text = String::new();
    let mut state = ObjectWriter::new(&mut text);
    state
        .u64("version", 4)
        .string("terraform_version", &terraform_version)
        .u64("serial", serial)
        .string("lineage", &lineage.unwrap_or_default());
    old.write(&mut state);
    state.raw("check_results", "null");
    state.finish();
    Ok(Upgraded {
        text: go_formatted(&text)?,
        notes: old.notes(),
    })
}

fn read_version(fields: &mut Fields<'_>) -> Result<String> {
    match fields.string("terraform_version")? {
        Some((version, _)) if version.is_empty() => Ok(UNKNOWN_VERSION.to_owned()),
        Some((version, _)) if is_version(&version) => Ok(version.into_owned()),
        Some((_, view)) => {
            Err(fields.error_at(&view, "`terraform_version` must be a version such as 0.11.14"))
        }
        None => Ok(UNKNOWN_VERSION.to_owned()),
    }
}

impl<'a> LegacyState<'a> {
    fn module(&mut self, view: View<'a>) -> Result<()> {
        let mut fields = Fields::of(self.document, view, "a module")?;
        let path = self.path(&mut fields)?;
        let outputs = fields.take_kind("outputs", Kind::Object)?;
        for (name, view) in outputs.and_then(|all| all.members()).into_iter().flatten() {
            if path.is_empty() {
                let output = read_output(self.document, view, self.version)?;
                self.outputs.insert(name.into_owned(), output);
            } else {
                self.dropped.insert("the outputs of modules".to_owned());
            }
        }
        let resources = fields.take_kind("resources", Kind::Object)?;
        for (key, view) in resources.and_then(|all| all.members()).into_iter().flatten() {
            self.resource(&path, &key, view)?;
        }
        self.note_dropped(&fields, "of a module");
        Ok(())
    }

    /// The address of a module; empty for the root module.
    fn path(&self, fields: &mut Fields<'a>) -> Result<String> {
        let Some(list) = fields.take_kind("path", Kind::Array)? else {
            return match self.version {
                1 => Ok(String::new()),
                _ => Err(fields.error("a module must have a `path`")),
            };
        };
        let mut address = String::new();
        for (index, step) in list.elements().into_iter().flatten().enumerate() {
            match step.as_str() {
                Some(root) if index == 0 && root == "root" => {}
                Some(name) if index > 0 && is_identifier(&name) => {
                    let dot = if address.is_empty() { "" } else { "." };
                    address.push_str(&format!("{dot}module.{name}"));
                }
                _ => {
                    let message =
                        "the `path` of a module must be a list of identifiers that begins with `root`";
                    return Err(fields.error_at(&step, message));
                }
            }
        }
        if list.elements().is_some_and(|mut all| all.next().is_none()) {
            return Err(fields.error_at(
                &list,
                "the `path` of a module is empty, but must be a list that begins with `root`",
            ));
        }
        Ok(address)
    }

    fn resource(&mut self, module: &str, key: &str, view: View<'a>) -> Result<()> {
        let mut fields = Fields::of(self.document, view, "a resource")?;
        let Some((address, index)) = parse_key(module, key) else {
            let message = "the key of a resource must be `type.name` or `data.type.name`, optionally followed by `.` and a number";
            return Err(fields.error(message));
        };
        fields.take_kind("type", Kind::String)?;
        let provider = match fields.string("provider")? {
            Some((text, view)) => {
                provider::upgrade(&text, &address).map_err(|message| fields.error_at(&view, message))?
            }
            None => provider::implied(&address),
        };
        let instances = instance::read_all(self.document, &mut fields, index.as_ref(), self.version)?;
        self.note_dropped(&fields, "of a resource");
        let resource = self.resources.entry(address).or_insert_with(|| Resource {
            provider: provider.clone(),
            instances: BTreeMap::new(),
        });
        if resource.provider != provider {
            let message = "this instance names another provider than the other instances of its resource, which version 4 can't represent";
            return Err(Error::at(&self.document, &view, message));
        }
        for (deposed, text) in instances {
            let key = (index.clone(), deposed);
            if resource.instances.insert(key, text).is_some() {
                return Err(Error::at(&self.document, &view, "a duplicate instance"));
            }
        }
        Ok(())
    }

    /// Records the names of the fields that weren't read and aren't empty.
    fn note_dropped(&mut self, fields: &Fields<'a>, place: &str) {
        for (name, value) in fields.remaining() {
            let is_empty = matches!(value.text(), "null" | "{}" | "[]" | "\"\"");
            if !is_empty {
                let name: String = name.chars().take(60).collect();
                let name = format!("`{}` {place}", name.escape_debug());
                self.dropped.insert(name.trim_end().to_owned());
            }
        }
    }

    fn write(&self, state: &mut ObjectWriter<'_>) {
        let mut outputs = state.object("outputs");
        for (name, output) in &self.outputs {
            outputs.raw(name, output);
        }
        outputs.finish();
        let mut resources = state.array("resources");
        for (address, resource) in &self.resources {
            let mut object = resources.object();
            if !address.module.is_empty() {
                object.string("module", &address.module);
            }
            object
                .string("mode", address.mode.name())
                .string("type", &address.kind)
                .string("name", &address.name)
                .string("provider", &resource.provider);
            let mut instances = object.array("instances");
            for text in resource.instances.values() {
                instances.raw(text);
            }
            instances.finish();
            object.finish();
        }
        resources.finish();
    }

    fn notes(self) -> Vec<String> {
        let mut notes = vec![format!(
            "the state was upgraded from format version {} to version 4, and will be exported in version 4",
            self.version
        )];
        if !self.dropped.is_empty() {
            let names: Vec<_> = self.dropped.into_iter().collect();
            notes.push(format!(
                "dropped, because version 4 has no equivalent: {}",
                names.join(", ")
            ));
        }
        notes
    }
}

/// Converts an output to version 4 as JSON. The type is inferred from the value, because the stored type isn't precise.
fn read_output(document: Document<'_>, view: View<'_>, version: u64) -> Result<String> {
    let (value, is_sensitive) = if version == 1 {
        if view.kind() != Kind::String {
            let message = format!("an output of version 1 must be a string, found {}", view.kind());
            return Err(Error::at(&document, &view, message));
        }
        (Json::from_view(view), false)
    } else {
        let mut fields = Fields::of(document, view, "an output")?;
        fields.take_kind("type", Kind::String)?;
        let value = fields.take("value").map_or_else(Json::null, Json::from_view);
        (value, fields.bool("sensitive")? == Some(true))
    };
    let mut text = String::new();
    let mut output = ObjectWriter::new(&mut text);
    output
        .raw("value", value.as_str())
        .raw("type", &cty::collection_type_of(&value.view()));
    if is_sensitive {
        output.bool("sensitive", true);
    }
    output.finish();
    Ok(text)
}

/// Parses `type.name` or `data.type.name`, optionally followed by the number of the instance.
fn parse_key(module: &str, key: &str) -> Option<(ResourceAddress, Option<Key>)> {
    let mut parts: Vec<&str> = key.split('.').collect();
    let mode = match parts.first() {
        Some(&"data") => {
            parts.remove(0);
            Mode::Data
        }
        _ => Mode::Managed,
    };
    let (kind, name, index) = match *parts {
        [kind, name] => (kind, name, None),
        [kind, name, index] => {
            let number = index.parse::<u32>().ok().filter(|_| !index.starts_with('+'))?;
            (kind, name, Some(Key::Number(number.into())))
        }
        _ => return None,
    };
    let address = ResourceAddress {
        module: module.to_owned(),
        mode,
        kind: kind.to_owned(),
        name: name.to_owned(),
    };
    (is_identifier(kind) && is_identifier(name)).then_some((address, index))
}
