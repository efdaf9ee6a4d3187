//! Data of a Terraform state that the model has no field for: `extensions["terraform"]` of entries and snapshots.

use crate::error::Error;
use crate::extension::{Extension, present};
use crate::layout::OriginalText;
use serde::{Deserialize, Serialize};
use state_core::Json;
use std::collections::BTreeMap;

/// The extension of Terraform.
pub(super) const EXTENSION: Extension = Extension {
    name: "terraform",
    system: "Terraform",
};

/// Creates the error for an object that Terraform's format can't represent.
pub(super) fn not_exportable(object: impl Into<String>, reason: impl Into<String>) -> Error {
    EXTENSION.not_exportable(object, reason)
}

/// Data of a resource instance that the model has no field for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct EntryFacts {
    /// Provider of the resource. OpenTofu may store the provider in each instance instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) provider: Option<String>,
    /// Private data of the provider, in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) private: Option<String>,
    /// The field `create_before_destroy`, if present.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) create_before_destroy: Option<bool>,
    /// The field that held the attributes.
    #[serde(default, skip_serializing_if = "Shape::is_plain")]
    pub(super) attributes: Shape,
    /// Pointers to attributes that only look like a `{value, type}` wrapper.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) sorted: Vec<String>,
    /// Whether the field `sensitive_attributes` was absent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) no_sensitive_attributes: bool,
    /// Sensitive paths that can't be reconstructed from their pointers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) sensitive_attributes: Vec<Json>,
    /// The original list of dependencies, if expanding the reduced list gives a different one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) dependencies: Option<KeptDependencies>,
    /// Other fields of the instance object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) instance: Option<Json>,
    /// Other fields of the resource object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) resource: Option<Json>,
}

/// The field that holds the attributes of an instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Shape {
    /// The field `attributes`, a JSON object.
    #[default]
    Plain,
    /// The field `attributes_flat`: the map of strings of Terraform 0.11.
    Flat,
    /// No field: the instance had no attributes.
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

/// An original list of dependencies, valid as long as the entry still has the dependencies that the list was reduced
/// to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct KeptDependencies {
    pub(super) listed: Vec<String>,
    pub(super) reduced: Vec<String>,
}

/// Data of a state that the model has no field for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct StateFacts {
    pub(super) terraform_version: String,
    pub(super) lineage: String,
    /// Results of checks. None if the field was absent; `null` is a value.
    #[serde(default, deserialize_with = "present")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) check_results: Option<Json>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) outputs: BTreeMap<String, OutputFacts>,
    /// Resources that have no instances.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) resources: Vec<ResourceFacts>,
    /// Unknown fields of outputs and of resources without instances.
    #[serde(default, skip_serializing_if = "Unknown::is_empty")]
    pub(super) unknown: Unknown,
    /// Unknown fields at the top level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) rest: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) layout: Option<Layout>,
    /// Whether the file began with a byte order mark.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) byte_order_mark: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) original: Option<OriginalText>,
}

/// Data of an output that the model has no field for.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OutputFacts {
    #[serde(rename = "type")]
    pub(super) kind: Json,
}

/// Unknown fields that belong to no entry. They are in one object, so that one pointer seals all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Unknown {
    /// Unknown fields of outputs, by output name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) outputs: BTreeMap<String, Json>,
    /// Unknown fields of resources without instances, by address.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) resources: BTreeMap<String, Json>,
}

impl Unknown {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A resource that has no instances.
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

/// The layout of the text, if it differs from Terraform's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Layout {
    /// Indented, without a newline at the end.
    Unended,
    /// On one line, without a newline at the end.
    Compact,
    /// On one line with a newline at the end, as OpenTofu writes remote states.
    CompactLine,
}
