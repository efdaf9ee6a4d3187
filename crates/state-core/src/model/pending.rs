//! What was begun and not ended: intent on record before the world is touched.

use crate::address::{DeposedKey, EntryKey};
use crate::entry::SharedEntry;
use crate::environment::Timestamp;
use crate::id::MutationId;
use crate::mutation::{Begin, Op, Outcome};
use serde::{Deserialize, Serialize};

/// A mutation between its begin and its end. It survives crashes and every later edit, until it is resolved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PendingOperation {
    /// Names the mutation.
    pub id: MutationId,
    /// What is being done.
    pub op: Op,
    /// The entry that it is about.
    pub target: EntryKey,
    /// The entry as it is meant to be; none for deletions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<SharedEntry>,
    /// The key that the live entry at the target gets when this one takes its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deposes: Option<DeposedKey>,
    /// A deletion that leaves the entry, marked as pending replacement.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tombstone: bool,
    /// When it was begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<Timestamp>,
    /// What came back from the world but breaks a rule: kept here, so that nothing is lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<RefusedResult>,
}

impl PendingOperation {
    /// The operation that was begun so, without a result.
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

    /// The entries that it carries: the one that it was begun with, and the one that came back.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &SharedEntry> {
        let came_back = self.result.as_ref().and_then(|result| result.entry.as_ref());
        self.entry.iter().chain(came_back)
    }
}

/// A result that could not be merged into the entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RefusedResult {
    /// How it ended.
    pub outcome: Outcome,
    /// The entry as it came back, with id and outputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<SharedEntry>,
    /// What it breaks, in words.
    pub violations: Vec<String>,
}
