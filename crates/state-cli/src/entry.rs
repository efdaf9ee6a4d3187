//! Resources as JSON, with masked secrets. An [`Entry`] is one resource in a snapshot.

use serde::Serialize;
use state_core::json::Json;
use state_core::mask::Mask;
use state_core::{Dependency, Entry, PendingOperation, State, Timestamp, Uid};
use std::collections::{BTreeMap, BTreeSet};

/// A resource in a list.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct EntryLine {
    pub(crate) address: String,
    pub(crate) deposed: Option<String>,
    #[serde(rename = "type")]
    pub(crate) entry_type: &'static str,
    pub(crate) kind: Option<String>,
    pub(crate) id: Option<String>,
    pub(crate) uid: Option<Uid>,
    pub(crate) parent: Option<String>,
    pub(crate) marks: Vec<&'static str>,
}

impl EntryLine {
    /// Builds the list line of a resource.
    pub(crate) fn new(entry: &Entry, pending: &[&PendingOperation], mask: Mask) -> Self {
        Self {
            address: entry.address.to_string(),
            deposed: entry.deposed.as_ref().map(ToString::to_string),
            entry_type: entry.entry_type.name(),
            kind: kind(entry),
            id: mask.id(entry),
            uid: entry.uid,
            parent: entry.parent.as_ref().map(ToString::to_string),
            marks: marks(entry, pending),
        }
    }

    /// The resource's address; for a deposed resource also its key.
    pub(crate) fn name(&self) -> String {
        match &self.deposed {
            None => self.address.clone(),
            Some(key) => format!("{} (deposed {key})", self.address),
        }
    }
}

/// The marks of a resource, including `pending` if an operation on the resource is pending.
pub(crate) fn marks(entry: &Entry, pending: &[&PendingOperation]) -> Vec<&'static str> {
    let key = entry.key();
    entry.marks(pending.iter().any(|operation| operation.target == key))
}

/// The kind of a resource, or the library type of a composite.
pub(crate) fn kind(entry: &Entry) -> Option<String> {
    entry.kind.as_ref().or(entry.library_type.as_ref()).cloned()
}

/// All details of a resource.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct EntryView {
    #[serde(flatten)]
    pub(crate) line: EntryLine,
    pub(crate) schema_version: u64,
    pub(crate) library: Option<String>,
    pub(crate) provider: Option<String>,
    pub(crate) group: Option<String>,
    pub(crate) created: Option<Timestamp>,
    pub(crate) modified: Option<Timestamp>,
    pub(crate) init_errors: Vec<String>,
    pub(crate) inputs: Option<Json>,
    pub(crate) outputs: Option<Json>,
    pub(crate) sensitive_inputs: Vec<String>,
    pub(crate) sensitive_outputs: Vec<String>,
    pub(crate) depends_on: Vec<Dependency>,
    pub(crate) dependents: Vec<String>,
    pub(crate) pending: Vec<PendingView>,
    /// Extension data of other systems. The values may contain secrets that are not marked as sensitive, and are
    /// therefore included only with `--show-secrets`.
    pub(crate) extensions: BTreeMap<String, Option<Json>>,
}

impl EntryView {
    /// Builds the details of a resource.
    pub(crate) fn new(state: &State, entry: &Entry, mask: Mask) -> Self {
        let (inputs, outputs) = mask.sides(entry);
        let pending: Vec<_> = state
            .pending()
            .filter(|operation| operation.target == entry.key())
            .collect();
        let extension = |value: &Json| mask.reveals().then(|| value.clone());
        Self {
            line: EntryLine::new(entry, &pending, mask),
            schema_version: entry.schema_version,
            library: entry.library.as_ref().cloned(),
            provider: entry
                .provider
                .as_ref()
                .map(|provider| provider.address.to_string()),
            group: entry.group.as_ref().map(ToString::to_string),
            created: entry.created.clone(),
            modified: entry.modified.clone(),
            init_errors: entry.init_errors.clone(),
            inputs,
            outputs,
            sensitive_inputs: entry.sensitive_inputs.clone(),
            sensitive_outputs: entry.sensitive_outputs.clone(),
            depends_on: entry.depends_on.clone(),
            dependents: dependents(state, entry),
            pending: pending.into_iter().map(PendingView::new).collect(),
            extensions: entry
                .extensions
                .iter()
                .map(|(system, value)| (system.to_owned(), extension(value)))
                .collect(),
        }
    }
}

/// The resources that refer to this one by its address or its group, each once, in the order of the state.
fn dependents(state: &State, entry: &Entry) -> Vec<String> {
    if !entry.is_live() {
        return Vec::new();
    }
    let mut named: Vec<String> = Vec::new();
    let mut seen = BTreeSet::new();
    let group = entry.group.clone().map(Dependency::Group);
    for target in [Some(Dependency::Entry(entry.address.clone())), group]
        .into_iter()
        .flatten()
    {
        for dependent in state.dependents(&target) {
            let key = dependent.key();
            let name = key.to_string();
            if seen.insert(key) {
                named.push(name);
            }
        }
    }
    named
}

/// A pending operation: one that was begun and has no recorded outcome.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct PendingView {
    pub(crate) id: String,
    pub(crate) op: &'static str,
    pub(crate) address: String,
    pub(crate) deposed: Option<String>,
    pub(crate) begun: Option<Timestamp>,
    /// Whether the provider returned a result that violates a rule. The result is stored, and `--accept` records it.
    pub(crate) has_result: bool,
    /// The rules that the stored result violates.
    pub(crate) violations: Vec<String>,
    /// The file in which the result was saved because the store was unreachable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kept_in: Option<String>,
    /// For a move between stacks: the name of the other stack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) other_stack: Option<String>,
    /// For a move between stacks: the resources that move.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) entries: Option<Vec<String>>,
    #[serde(skip)]
    pub(crate) target: String,
}

impl PendingView {
    /// Builds the view of an operation, without property values.
    pub(crate) fn new(operation: &PendingOperation) -> Self {
        let violations = operation.result.as_ref().map(|result| result.violations.clone());
        Self {
            id: operation.id.to_string(),
            op: operation.op.name(),
            address: operation.target.address.to_string(),
            deposed: operation.target.deposed.as_ref().map(ToString::to_string),
            begun: operation.begun.clone(),
            has_result: operation.result.is_some(),
            violations: violations.unwrap_or_default(),
            kept_in: None,
            other_stack: None,
            entries: None,
            target: operation.target.to_string(),
        }
    }
}
