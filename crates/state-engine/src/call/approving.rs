//! The approval check before a provider call: refuses the call if it would start an unapproved command, or read or
//! delete an unapproved file.

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

    /// Returns the commands and files of a call that aren't approved, and adds them to the refused commands.
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

    /// Refuses a call that would use an unapproved command or file.
    ///
    /// # Errors
    /// `Failed` with `NotDone` and one reason for each unapproved command.
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
