//! Pending operations: mutations with a recorded intent whose result is not recorded yet.

use crate::address::{DeposedKey, EntryKey};
use crate::entry::SharedEntry;
use crate::environment::Timestamp;
use crate::id::MutationId;
use crate::mutation::{Begin, Op, Outcome};
use serde::{Deserialize, Serialize};

/// A mutation between its begin and its end. It survives crashes and every later edit until it is resolved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PendingOperation {
    /// Id of the mutation.
    pub id: MutationId,
    /// Step that is running.
    pub op: Op,
    /// Key of the entry that the step changes.
    pub target: EntryKey,
    /// The requested entry; `None` for deletions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<SharedEntry>,
    /// Deposed key that the live entry at the target gets when this entry replaces it; `None` if it replaces no entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deposes: Option<DeposedKey>,
    /// Whether the deletion keeps the entry and marks it as pending replacement.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tombstone: bool,
    /// Time at which the operation began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<Timestamp>,
    /// The provider's result if it violates an integrity rule. It is kept here so that no information is lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<RefusedResult>,
}

impl PendingOperation {
    /// Creates the pending operation for a begin record.
    pub(crate) fn of(begin: &Begin) -> Self {
        let begin = begin.clone();
        Self {
            id: begin.id,
            op: begin.op,
            target: begin.target,
            entry: begin.entry,
            deposes: begin.deposes,
            tombstone: begin.tombstone,
            begun: begin.at,
            result: None,
        }
    }

    /// The entries of the operation: the requested one and the returned one.
    pub fn entries(&self) -> impl Iterator<Item = &SharedEntry> {
        self.entry.iter().chain(self.returned_entry())
    }

    /// The entry that the provider returned, and that violates an integrity rule.
    pub(crate) fn returned_entry(&self) -> Option<&SharedEntry> {
        self.result.as_ref()?.entry.as_ref()
    }

    /// The entries of the operation, for changes.
    pub fn entries_mut(&mut self) -> impl Iterator<Item = &mut SharedEntry> {
        let returned = self.result.as_mut().and_then(|result| result.entry.as_mut());
        self.entry.iter_mut().chain(returned)
    }
}

/// A provider's result that violates an integrity rule, so that it was not merged into the entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RefusedResult {
    /// Outcome of the step.
    pub outcome: Outcome,
    /// The entry as the provider returned it, with id and outputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<SharedEntry>,
    /// Descriptions of the integrity rules that the result violates.
    pub violations: Vec<String>,
}
