//! The check before a provider call that its inputs start no unapproved command and name no unapproved file.

use super::{CallError, CallResult, CallTarget, Caller};
use crate::approval::{CommandCall, UnapprovedCommand};
use crate::goal::Goal;
use crate::provider::Failure;
use state_core::Properties;

impl Caller {
    /// Records the commands that the program declares for a resource.
    pub(crate) fn declare(&self, goal: &Goal) {
        let commands = self.registry.all_commands(&goal.kind, None, &goal.inputs);
        self.approvals.declare(&goal.address, &commands);
    }

    /// Returns those commands of a call that aren't allowed to run, and adds them to the refused commands.
    pub(crate) fn unapproved(
        &self,
        target: &CallTarget,
        id: Option<&str>,
        inputs: &Properties,
        call: CommandCall,
    ) -> Vec<UnapprovedCommand> {
        let commands = self.registry.commands(&target.kind, id, inputs, call);
        self.approvals.refuse(&target.key, commands, &target.secrets)
    }

    /// Refuses a call that may start an unapproved command.
    pub(super) fn require_approval(
        &self,
        target: &CallTarget,
        id: Option<&str>,
        inputs: &Properties,
        call: CommandCall,
    ) -> CallResult<()> {
        let refused = self.unapproved(target, id, inputs, call);
        if refused.is_empty() {
            return Ok(());
        }
        let reasons = refused.iter().map(UnapprovedCommand::reason).collect();
        Err(CallError::Failed(Failure::NotDone(reasons)))
    }
}
