//! The result of a run.

use crate::approval::UnapprovedCommand;
use crate::step::{Step, StepOp};
use state_core::mutation::StackOutputs;
use state_core::{Address, EntryKey, Error, MutationId, PendingOperation, RevisionId, UpdateResult};
use std::collections::{BTreeMap, BTreeSet};

/// The result of a run or a plan. The committed steps of a run are recorded even if the run failed.
#[derive(Debug)]
#[non_exhaustive]
pub struct Report {
    /// The committed steps, in commit order; in the report of a plan, the planned steps.
    pub steps: Vec<Step>,
    /// In the report of a plan: the commands and files of planned creates and updates whose text contains outputs of
    /// other resources, and that aren't approved. A manipulated state can choose these outputs, so a tool must show the
    /// commands before it applies the plan.
    pub derived_commands: Vec<UnapprovedCommand>,
    /// The failed steps, and the resources that failed before their steps were planned.
    pub failures: Vec<StepFailure>,
    /// The resources that were skipped because of another resource, such as a failed dependency, with the reasons.
    pub skipped: Vec<(Address, String)>,
    /// Renamed entries: the former and the new address.
    pub renamed: Vec<(Address, Address)>,
    /// The stack's outputs before and after the run, if they differ.
    pub outputs: Option<(StackOutputs, StackOutputs)>,
    /// Names of stack outputs whose values aren't known, because their resources aren't committed: in a preview,
    /// and after a failure.
    pub unknown_outputs: BTreeSet<String>,
    /// The operations that are pending at the end of the run. The condition of their real resources is unknown.
    pub pending: Vec<PendingOperation>,
    /// In the report of a plan that foresees settling ([`RunOptions::foresee_settling`](crate::RunOptions)): the pending
    /// operations that settling would resolve, each with a text that describes the result.
    pub foreseen: Vec<(PendingOperation, String)>,
    /// The revision that the run created. `None` in a preview, if `stopped_by` ended the run, and if the plan wasn't
    /// applied because a command isn't approved.
    pub revision: Option<RevisionId>,
    /// The result that the history records.
    pub result: UpdateResult,
    /// The error of the program or of its stack outputs, after which the source couldn't continue.
    pub source_error: Option<String>,
    /// The error that ended the run early: the lock was lost or the store failed.
    pub stopped_by: Option<Error>,
    /// Whether the run was asked to stop.
    pub interrupted: bool,
}

impl Report {
    pub(crate) fn new() -> Self {
        Self {
            steps: Vec::new(),
            derived_commands: Vec::new(),
            failures: Vec::new(),
            skipped: Vec::new(),
            renamed: Vec::new(),
            outputs: None,
            unknown_outputs: BTreeSet::new(),
            pending: Vec::new(),
            foreseen: Vec::new(),
            revision: None,
            result: UpdateResult::Succeeded,
            source_error: None,
            stopped_by: None,
            interrupted: false,
        }
    }

    /// Whether the run executed all steps, or the plan decided all steps, without a failure. A plan may succeed
    /// although its commands aren't approved: see
    /// [`CommandApprovals::is_complete`](crate::CommandApprovals::is_complete).
    pub fn succeeded(&self) -> bool {
        self.result == UpdateResult::Succeeded
    }

    /// Whether the run changed anything, or a preview plans a change.
    pub fn has_changes(&self) -> bool {
        self.steps.iter().any(Step::is_change) || !self.renamed.is_empty() || self.outputs.is_some()
    }

    /// Counts the steps by operation.
    pub fn counts(&self) -> BTreeMap<StepOp, usize> {
        let mut counts = BTreeMap::new();
        for step in &self.steps {
            *counts.entry(step.op).or_default() += 1;
        }
        counts
    }
}

/// A failed step with its reasons.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StepFailure {
    /// Key of the step's entry.
    pub key: EntryKey,
    /// The operation of the step. `None` if the resource failed before its step was planned.
    pub op: Option<StepOp>,
    /// The reasons, as text for the user.
    pub reasons: Vec<String>,
    /// The operation that stays pending because the condition of the real resource is unknown.
    pub pending: Option<MutationId>,
}
