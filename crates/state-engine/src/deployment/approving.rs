//! Approval checks before the reads of a refresh and before deletions. If one recorded entry contains an unapproved
//! command, no command of the phase runs, and all unapproved commands are reported together.

use super::{Deployment, Effect, StepError};
use crate::approval::{CommandCall, UnapprovedCommand};
use crate::call::CallTarget;
use crate::goal::Goal;
use crate::planner::{DeletionMethod, PlannedDeletion};
use state_core::{Entry, EntryKey, Properties, SharedEntry};

impl Deployment {
    /// Whether all commands that read these objects are approved. Reports a failure for each entry with an unapproved
    /// command.
    pub(super) fn may_read(&self, entries: &[SharedEntry]) -> bool {
        let refused = entries
            .iter()
            .filter(|entry| self.refuses(entry, CommandCall::Read));
        refused.count() == 0
    }

    /// Whether all objects of a list may be deleted. Reports a failure for each object that may not be deleted. A plan
    /// deletes nothing, so it only adds the unapproved commands to the refused commands and returns true.
    pub(super) fn may_delete(&self, list: &[PlannedDeletion]) -> bool {
        let deleted = list.iter().filter(|item| item.method == DeletionMethod::Delete);
        let refused = deleted.filter(|item| match self.is_plan() {
            true => {
                drop(self.unapproved(&item.entry, CommandCall::Delete));
                false
            }
            false => self.refuses(&item.entry, CommandCall::Delete),
        });
        refused.count() == 0
    }

    /// Adds the unapproved commands of a planned effect to the refused commands.
    pub(super) fn note_commands(&self, target: &CallTarget, effect: &Effect) {
        let (id, inputs, call) = match effect {
            Effect::Create(inputs) => (None, inputs, CommandCall::Create),
            Effect::Update { old, inputs, .. } => (old.id.as_deref(), inputs, CommandCall::Update),
            Effect::Delete(recorded) => (recorded.id.as_deref(), &recorded.inputs, CommandCall::Delete),
            Effect::Record(_) | Effect::Forget => return,
        };
        drop(self.caller.unapproved(target, id, inputs, call));
    }

    /// In a plan, reports the derived commands of a create or update. In a run, approves them: the caller of the engine
    /// applied the plan that reported them.
    pub(super) fn confirm_derived(&self, key: &EntryKey, goal: &Goal) {
        match self.is_plan() {
            true => {
                let derived = self.caller.derived(key, goal);
                self.shared().report.derived_commands.extend(derived);
            }
            false => self.caller.execute(goal),
        }
    }

    fn refuses(&self, entry: &Entry, call: CommandCall) -> bool {
        let refused = self.unapproved(entry, call);
        if refused.is_empty() {
            return false;
        }
        let reasons = refused.iter().map(UnapprovedCommand::reason).collect();
        self.record_failure(StepError::early(&entry.key(), reasons));
        true
    }

    fn unapproved(&self, entry: &Entry, call: CommandCall) -> Vec<UnapprovedCommand> {
        let nothing = Properties::empty();
        let inputs = entry.inputs.as_ref().unwrap_or(&nothing);
        self.caller
            .unapproved(&CallTarget::entry(entry), entry.id.as_deref(), inputs, call)
    }
}
