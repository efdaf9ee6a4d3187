//! Entries in JSON: what a machine may know of one without seeing its secrets.

use serde::Serialize;
use state_core::json::Json;
use state_core::mask::Mask;
use state_core::{Dependency, Entry, PendingOperation, State, Timestamp, Uid};
use std::collections::{BTreeMap, BTreeSet};

/// An entry in a list.
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
    /// What a list says of an entry.
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

    /// Its address, and which of the objects there it is.
    pub(crate) fn name(&self) -> String {
        match &self.deposed {
            None => self.address.clone(),
            Some(key) => format!("{} (deposed {key})", self.address),
        }
    }
}

/// The marks of an entry, `pending` among them when an operation on it was begun and not ended.
pub(crate) fn marks(entry: &Entry, pending: &[&PendingOperation]) -> Vec<&'static str> {
    let key = entry.key();
    entry.marks(pending.iter().any(|operation| operation.target == key))
}

/// The resource's type, or the composite's.
pub(crate) fn kind(entry: &Entry) -> Option<String> {
    entry.kind.as_ref().or(entry.library_type.as_ref()).cloned()
}

/// An entry in full.
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
    /// The systems that keep something of their own on it. Their values may hold secrets that nobody marked, so
    /// they are told only with `--show-secrets`.
    pub(crate) extensions: BTreeMap<String, Option<Json>>,
}

impl EntryView {
    /// All there is to say of an entry.
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

/// The entries that refer to this one, by its address or by its group; each once, in the order of the state.
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

/// An operation that was begun and not ended.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct PendingView {
    pub(crate) id: String,
    pub(crate) op: &'static str,
    pub(crate) address: String,
    pub(crate) deposed: Option<String>,
    pub(crate) begun: Option<Timestamp>,
    /// Whether a result came back that broke a rule: it is kept, and `--accept` takes it.
    pub(crate) has_result: bool,
    /// What that result breaks.
    pub(crate) violations: Vec<String>,
    /// The file in which its result waits, because the store was gone when it came back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kept_in: Option<String>,
    /// Of a move: the stack on the other side, and what moves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) other_stack: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) entries: Option<Vec<String>>,
    #[serde(skip)]
    pub(crate) target: String,
}

impl PendingView {
    /// What there is to say without values.
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
