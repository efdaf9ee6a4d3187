//! The resource and the recorded object that a call is about.

use state_core::sensitive::SecretStrings;
use state_core::{Entry, EntryKey, MutationId, Properties};
use std::collections::BTreeSet;
use std::time::Duration;

/// The resource that a call is about.
#[derive(Clone)]
pub(crate) struct CallTarget {
    pub(crate) key: EntryKey,
    pub(crate) kind: String,
    pub(crate) timeout: Option<Duration>,
    /// Secrets that the provider receives and must not repeat in its messages.
    pub(crate) secrets: SecretStrings,
    /// Whether the run changed a dependency, so that cached answers must not be used.
    pub(crate) dependency_changed: bool,
}

impl CallTarget {
    pub(crate) fn entry(entry: &Entry) -> Self {
        Self {
            key: entry.key(),
            kind: entry.kind.clone().unwrap_or_default(),
            timeout: None,
            secrets: SecretStrings::of_entry(entry),
            dependency_changed: false,
        }
    }
}

/// The recorded properties of an object, as providers receive them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecordedObject {
    pub(crate) id: Option<String>,
    pub(crate) inputs: Properties,
    pub(crate) outputs: Properties,
    /// Ids of the objects of other entries. The pending create didn't make any of them, so the provider must not return
    /// one. Set only while a pending create is settled.
    pub(crate) others: BTreeSet<String>,
    /// The pending create that may have made the object. Set only while this create is settled.
    pub(crate) mutation: Option<MutationId>,
}

impl RecordedObject {
    pub(crate) fn of(entry: &Entry) -> Self {
        Self {
            id: entry.id.clone(),
            inputs: entry.inputs.clone().unwrap_or_default(),
            outputs: entry.outputs.clone().unwrap_or_default(),
            others: BTreeSet::new(),
            mutation: None,
        }
    }
}
