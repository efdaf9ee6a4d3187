//! What the model has no field for: `extensions["terraform"]` of an entry and of a snapshot.

use crate::error::Error;
use crate::extension::{Extension, present};
use crate::layout::Original;
use serde::{Deserialize, Serialize};
use state_core::Json;
use std::collections::BTreeMap;

/// Terraform's part of the extensions.
pub(super) const EXTENSION: Extension = Extension {
    name: "terraform",
    system: "Terraform",
};

/// That Terraform's format can't express an object.
pub(super) fn not_exportable(object: impl Into<String>, reason: impl Into<String>) -> Error {
    EXTENSION.not_exportable(object, reason)
}

/// What Terraform says of an instance and the model doesn't.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct EntryFacts {
    /// The resource's provider. OpenTofu may leave it to the instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) provider: Option<String>,
    /// The provider's own bytes, base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) private: Option<String>,
    /// As it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) create_before_destroy: Option<bool>,
    /// How the attributes were given.
    #[serde(default, skip_serializing_if = "Shape::is_plain")]
    pub(super) attributes: Shape,
    /// Pointers to attributes that only look like a `{value, type}` wrapper.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) sorted: Vec<String>,
    /// Whether `sensitive_attributes` wasn't there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) no_sensitive_attributes: bool,
    /// Sensitive paths that can't be told from their pointers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) sensitive_attributes: Vec<Json>,
    /// The list of dependencies, where expanding ours would give another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) dependencies: Option<KeptDependencies>,
    /// Other fields of the instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) instance: Option<Json>,
    /// Other fields of the resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) resource: Option<Json>,
}

/// How attributes were given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Shape {
    /// As `attributes`.
    #[default]
    Plain,
    /// As `attributes_flat`: Terraform 0.11's map of strings.
    Flat,
    /// Not at all.
    Absent,
}

impl Shape {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde calls it with a reference"
    )]
    const fn is_plain(&self) -> bool {
        matches!(self, Self::Plain)
    }
}

/// A list of dependencies as it was, valid as long as the entry's own is the one that it was reduced to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct KeptDependencies {
    pub(super) listed: Vec<String>,
    pub(super) reduced: Vec<String>,
}

/// What Terraform says of a state and the model doesn't.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct StateFacts {
    pub(super) terraform_version: String,
    pub(super) lineage: String,
    /// None if the field wasn't there; `null` is a value.
    #[serde(default, deserialize_with = "present")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) check_results: Option<Json>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) outputs: BTreeMap<String, OutputFacts>,
    /// Resources without instances.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) resources: Vec<ResourceFacts>,
    /// Other fields of outputs and of resources without instances.
    #[serde(default, skip_serializing_if = "Unknown::is_empty")]
    pub(super) unknown: Unknown,
    /// Other top-level fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) rest: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) layout: Option<Layout>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) original: Option<Original>,
}

/// What Terraform says of an output and the model doesn't.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OutputFacts {
    #[serde(rename = "type")]
    pub(super) kind: Json,
}

/// Fields that Terraform doesn't know, where no entry keeps them. In one place, so that all of them are sealed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Unknown {
    /// By name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) outputs: BTreeMap<String, Json>,
    /// By address.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) resources: BTreeMap<String, Json>,
}

impl Unknown {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A resource without instances.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ResourceFacts {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) module: String,
    pub(super) mode: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) provider: Option<String>,
}

/// How the whole text is laid out, where it isn't as Terraform writes files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Layout {
    /// Indented, no newline at the end.
    Unended,
    /// On one line, no newline at the end.
    Compact,
    /// On one line, with a newline: OpenTofu's remote states.
    CompactLine,
}
