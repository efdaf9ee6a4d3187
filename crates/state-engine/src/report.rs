//! How a run ended.

use crate::step::{Step, StepOp};
use state_core::mutation::StackOutputs;
use state_core::{Address, EntryKey, Error, MutationId, PendingOperation, RevisionId, UpdateResult};
use std::collections::{BTreeMap, BTreeSet};

/// How a run ended. All that happened is on record, whether it went well or not.
#[derive(Debug)]
#[non_exhaustive]
pub struct Report {
    /// The steps that were committed, in the order of their commits; in a preview those that would be tried.
    pub steps: Vec<Step>,
    /// The steps that failed.
    pub failures: Vec<StepFailure>,
    /// Resources that were wanted and couldn't be tried, and why.
    pub skipped: Vec<(Address, String)>,
    /// Entries that have another name now: the one before, and the one after.
    pub renamed: Vec<(Address, Address)>,
    /// The stack's own outputs before and after, if they differ.
    pub outputs: Option<(StackOutputs, StackOutputs)>,
    /// Outputs of the stack whose values nobody knows, because what they are made of isn't done: in a preview, and after a
    /// failure.
    pub unknown_outputs: BTreeSet<String>,
    /// What is pending now: nobody knows what the world is there.
    pub pending: Vec<PendingOperation>,
    /// The revision that was made; none in a preview, and when the store was lost.
    pub revision: Option<RevisionId>,
    /// How history tells it.
    pub result: UpdateResult,
    /// What is wrong with the program, if its source couldn't go on.
    pub source_error: Option<String>,
    /// What ended the run before its time: the lock was lost, or the store.
    pub stopped_by: Option<Error>,
    /// Somebody asked it to stop.
    pub interrupted: bool,
}

impl Report {
    pub(crate) fn new() -> Self {
        Self {
            steps: Vec::new(),
            failures: Vec::new(),
            skipped: Vec::new(),
            renamed: Vec::new(),
            outputs: None,
            unknown_outputs: BTreeSet::new(),
            pending: Vec::new(),
            revision: None,
            result: UpdateResult::Succeeded,
            source_error: None,
            stopped_by: None,
            interrupted: false,
        }
    }

    /// Whether all that was asked was done.
    pub fn succeeded(&self) -> bool {
        self.result == UpdateResult::Succeeded
    }

    /// Whether anything changed, or would.
    pub fn has_changes(&self) -> bool {
        self.steps.iter().any(Step::is_change) || !self.renamed.is_empty() || self.outputs.is_some()
    }

    /// How many steps of each kind there were.
    pub fn counts(&self) -> BTreeMap<StepOp, usize> {
        let mut counts = BTreeMap::new();
        for step in &self.steps {
            *counts.entry(step.op).or_default() += 1;
        }
        counts
    }
}

/// A step that failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StepFailure {
    /// The entry that it was about.
    pub key: EntryKey,
    /// What it was to do; none if it came to nothing before that was known.
    pub op: Option<StepOp>,
    /// Why.
    pub reasons: Vec<String>,
    /// The operation that stays pending because nobody knows what the world is.
    pub pending: Option<MutationId>,
}
