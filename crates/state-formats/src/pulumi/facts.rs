//! What the model has no field for: `extensions["pulumi"]` of an entry and of a snapshot.

use crate::error::Error;
use crate::extension::{Extension, present};
use crate::layout::{Layout, OriginalText};
use serde::{Deserialize, Serialize};
use state_core::{Json, MutationId};
use std::collections::BTreeMap;
use std::fmt;

/// Pulumi's part of the extensions.
pub(super) const EXTENSION: Extension = Extension {
    name: "pulumi",
    system: "Pulumi",
};

/// What Pulumi says of a resource and the model doesn't.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct EntryFacts {
    /// The keys as they stood, where that isn't Pulumi's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) order: Vec<String>,
    /// Fields of the model that were written in another way than ours.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) kept: BTreeMap<String, KeptField>,
    /// Whether a property without dependencies has `null`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) null_lists: bool,
    /// Fields that Pulumi knows and the model doesn't; no secret stands in them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) fields: BTreeMap<String, Json>,
    /// All other fields.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) rest: BTreeMap<String, Json>,
    /// Fields of either kind whose objects aren't sorted, as text.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) texts: BTreeMap<String, String>,
    /// Secrets whose envelopes were opened.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) opened: Vec<OpenedSecret>,
}

impl EntryFacts {
    /// Whether there is nothing to keep.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A field as it was written, valid as long as we would write what we would have written then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KeptField {
    /// None if it wasn't there.
    #[serde(default, deserialize_with = "present")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) was: Option<Json>,
    /// None if we would leave it out.
    #[serde(default, deserialize_with = "present")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ours: Option<Json>,
}

/// A secret that lost its envelope.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct OpenedSecret {
    pub(super) side: Side,
    /// JSON pointer to the value.
    pub(super) pointer: String,
    /// What was in the envelope; none if that was the plain text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ciphertext: Option<String>,
    /// The JSON text that came out.
    pub(super) plaintext: String,
}

/// Without what was in the envelope, and what came out.
impl fmt::Debug for OpenedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened")
            .field("side", &self.side)
            .field("pointer", &self.pointer)
            .finish_non_exhaustive()
    }
}

/// The two sides of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Side {
    Inputs,
    Outputs,
}

/// What Pulumi says of a state and the model doesn't.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct StateFacts {
    /// Project and stack, `project/stack`; empty if nothing in the state says it.
    pub(super) identity: String,
    /// None: the bare form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) version: Option<u64>,
    /// The features as they were declared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) features: Vec<String>,
    /// Features that the state used without saying so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) undeclared: Vec<String>,
    /// Who encrypted the secrets, and with what.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) secrets: Option<Json>,
    /// Whether the outputs of the root stack resource are those of the snapshot.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) stack_outputs: bool,
    pub(super) layout: Layout,
    /// The document around the resources; none after masking.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) frame: Option<String>,
    /// What pending operations say beyond the model.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) operations: BTreeMap<MutationId, OperationFacts>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) original: Option<OriginalText>,
}

/// What a pending operation says beyond the model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct OperationFacts {
    /// The resource that is being deleted: the model's deletions carry none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) resource: Option<String>,
    /// Other fields.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) rest: BTreeMap<String, Json>,
}

/// That Pulumi's format can't express an object.
pub(super) fn not_exportable(object: impl Into<String>, reason: impl Into<String>) -> Error {
    EXTENSION.not_exportable(object, reason)
}

#[cfg(test)]
mod tests {
    use super::{OpenedSecret, Side};

    #[test]
    fn no_debug_shows_what_was_opened() {
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
