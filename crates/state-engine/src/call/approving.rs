//! The approval check before a provider call: refuses the call if it would start an unapproved command, or read or
//! delete an unapproved file.

use super::{CallError, CallResult, CallTarget, Caller};
use crate::approval::{CommandCall, ProgramCommands, UnapprovedCommand};
use crate::goal::Goal;
use crate::provider::Failure;
use state_core::{Entry, EntryKey, Properties};

impl Caller {
    /// Records the commands that the program declares for a resource.
    pub(crate) fn declare(&self, goal: &Goal) {
        let commands = self.registry.program_commands(goal);
        self.approvals.declare(&goal.address, &commands);
    }

    /// Records the files that the user declares for a resource by giving the id of its object. Only the id may decide
    /// which files these are, because the inputs come from the state.
    pub(crate) fn declare_object(&self, entry: &Entry, id: &str) {
        let kind = entry.kind.as_deref().unwrap_or_default();
        let commands = ProgramCommands {
            literal: self
                .registry
                .commands(kind, Some(id), &Properties::empty(), CommandCall::Read),
            ..ProgramCommands::default()
        };
        self.approvals.declare(&entry.address, &commands);
    }

    /// Approves the derived commands of a resource that the run is about to create or update.
    pub(crate) fn execute(&self, goal: &Goal) {
        let commands = self.registry.all_commands(&goal.kind, None, &goal.inputs);
        self.approvals.execute(&goal.address, &commands);
    }

    /// Returns the unapproved derived commands of a planned create or update.
    pub(crate) fn derived(&self, key: &EntryKey, goal: &Goal) -> Vec<UnapprovedCommand> {
        let shown = goal.with_partial_inputs();
        let mut commands = self.registry.program_commands(&shown).derived;
        // The step shows a command that is unknown as a whole.
        commands.retain(|command| !command.argv.is_empty());
        self.approvals.unapproved(key, commands, &goal.secrets(None))
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
        self.approvals
            .refuse(&target.key, commands, &target.secrets, call)
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
