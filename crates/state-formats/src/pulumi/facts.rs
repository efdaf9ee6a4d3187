//! Data of a Pulumi state that the model has no field for: `extensions["pulumi"]` of entries and snapshots.

use crate::error::Error;
use crate::extension::{Extension, present};
use crate::layout::{Layout, OriginalText};
use serde::{Deserialize, Serialize};
use state_core::{Json, MutationId};
use std::collections::BTreeMap;
use std::fmt;

/// The extension of Pulumi.
pub(super) const EXTENSION: Extension = Extension {
    name: "pulumi",
    system: "Pulumi",
};

/// Data of a resource that the model has no field for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct EntryFacts {
    /// The keys in their original order; empty if they were in Pulumi's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) order: Vec<String>,
    /// Fields of the model whose original value differs from the value that we would write.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) kept: BTreeMap<String, KeptField>,
    /// Whether an empty list in `propertyDependencies` was written as `null`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) null_lists: bool,
    /// Known fields of Pulumi that the model doesn't have and that contain no secrets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) fields: BTreeMap<String, Json>,
    /// All other fields, which may contain secrets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) rest: BTreeMap<String, Json>,
    /// Fields that belong to `fields` or `rest` but aren't in canonical JSON, as text.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) texts: BTreeMap<String, String>,
    /// Secrets that were taken out of their envelopes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) opened: Vec<OpenedSecret>,
}

impl EntryFacts {
    /// Whether all fields are empty.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// An original field, valid as long as we would still write the value `ours` for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KeptField {
    /// The original value; None if the field was absent.
    #[serde(default, deserialize_with = "present")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) was: Option<Json>,
    /// The value that we would write; None if we would omit the field.
    #[serde(default, deserialize_with = "present")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ours: Option<Json>,
}

/// A secret that was taken out of its envelope.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct OpenedSecret {
    pub(super) side: Side,
    /// JSON pointer to the value in plain text.
    pub(super) pointer: String,
    /// The ciphertext in the envelope; None if the envelope contained plain text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ciphertext: Option<String>,
    /// The value in plain text, as JSON.
    pub(super) plaintext: String,
}

/// Omits ciphertext and plaintext.
impl fmt::Debug for OpenedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened")
            .field("side", &self.side)
            .field("pointer", &self.pointer)
            .finish_non_exhaustive()
    }
}

/// The inputs or the outputs of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Side {
    Inputs,
    Outputs,
}

/// Data of a state that the model has no field for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct StateFacts {
    /// Project and stack as `project/stack`; empty if the state names none.
    pub(super) identity: String,
    /// Version of the document; None for a bare checkpoint, which has no outer object with a version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) version: Option<u64>,
    /// The features that the document declares.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) features: Vec<String>,
    /// Features that the state used without declaring them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) undeclared: Vec<String>,
    /// The secrets provider with its parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) secrets: Option<Json>,
    /// Whether the outputs of the root stack resource were moved to the snapshot.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) stack_outputs: bool,
    pub(super) layout: Layout,
    /// Whether the file began with a byte order mark.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) byte_order_mark: bool,
    /// The text of the document without its resources; None if the secrets of the snapshot were masked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) frame: Option<String>,
    /// Data of pending operations that the model has no field for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) operations: BTreeMap<MutationId, OperationFacts>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) original: Option<OriginalText>,
}

/// Data of a pending operation that the model has no field for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct OperationFacts {
    /// The resource of a pending deletion, which the model doesn't store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) resource: Option<String>,
    /// Other fields of the operation.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) rest: BTreeMap<String, Json>,
}

/// Creates the error for an object that Pulumi's format can't represent.
pub(super) fn not_exportable(object: impl Into<String>, reason: impl Into<String>) -> Error {
    EXTENSION.not_exportable(object, reason)
}

#[cfg(test)]
mod tests {
    use super::{OpenedSecret, Side};

    #[test]
    fn debug_output_omits_decrypted_secrets() {
        let opened = OpenedSecret {
            side: Side::Inputs,
            pointer: "/password".to_owned(),
            ciphertext: Some("v1:AAAA:BBBB".to_owned()),
            plaintext: "hunter2".to_owned(),
        };
        let shown = format!("{opened:?}");
        assert!(shown.contains("/password"), "{shown}");
        assert!(!shown.contains("hunter2") && !shown.contains("AAAA"), "{shown}");
    }
}
