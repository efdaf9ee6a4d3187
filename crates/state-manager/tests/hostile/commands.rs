//! The commands of a user, each a sequence of calls of the manager that reads or writes one stack.

use crate::client::{Answer, look};
use crate::scenario::{COLLEAGUE, name};
use crate::updates::{destroy, edit, import_again, update};
use crate::{moves, queries};
use state_core::head::SealingPolicy;
use state_core::update::UpdateKind;
use state_core::{Error, Result, StackName};
use state_manager::{Rekey, Retention, SpoolOutcome, SpooledResult, Stack, Stacks, UpdateRequest};
use std::time::Duration;

/// Results of a command: pairs of a name and a value.
pub(crate) type Facts = Vec<(String, String)>;

/// A command of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Command {
    Read,
    List,
    /// Reads every revision of the stack.
    OldRevision,
    Blame,
    Logs,
    /// Compares each revision of the stack with the one before.
    Diff,
    Verify,
    /// Reads the published outputs.
    ReadOutputs,
    /// Reads the published outputs. A client with memory opened the stack's data key before, and never read the outputs.
    FirstOutputs,
    /// Creates the stack if it is missing.
    Create,
    /// Creates a resource in an update.
    Append,
    Destroy,
    Edit,
    /// Imports the current snapshot again.
    Import,
    /// Makes the oldest revision current.
    Rollback,
    Undo,
    /// Stores a revision without making it current, and deletes it.
    Detach,
    Rekey,
    /// Rotates the key, for the first recipient only.
    RemoveRecipient,
    /// Rotates the key, and drops the revisions from before.
    ForgetHistory,
    AddRecipient,
    AddOutputRecipient,
    /// Rotates the key, for no recipient of the outputs.
    RemoveOutputRecipient,
    /// Sets a client lock and clears it.
    ClientLock,
    /// Renames the stack and renames it back.
    Rename,
    Remove,
    Collect,
    /// Copies the stack to an empty store.
    Copy,
    /// Moves a resource to the other stack.
    MoveResource,
    /// Takes over both stacks after a writer crashed in a move, which it didn't commit.
    WithdrawMove,
    /// Takes over both stacks after a writer crashed in a move, which it committed.
    FinishMove,
    /// As `FinishMove`. A client with memory knows only the destination, and meets the source for the first time.
    FinishUnknownMove,
    /// Takes the writer lock from a writer that crashed.
    Takeover,
    /// Takes the writer lock from a writer that crashed, and records the provider result that this writer spooled.
    RecordSpooled,
    /// Compares the revisions of a stack whose base takes its content from the snapshot of an import.
    ReadAfterImports,
    /// As `Edit`, on that stack.
    EditAfterImports,
}

impl Command {
    pub(crate) const ALL: [Self; 36] = [
        Self::Read,
        Self::List,
        Self::OldRevision,
        Self::Blame,
        Self::Logs,
        Self::Diff,
        Self::Verify,
        Self::ReadOutputs,
        Self::FirstOutputs,
        Self::Create,
        Self::Append,
        Self::Destroy,
        Self::Edit,
        Self::Import,
        Self::Rollback,
        Self::Undo,
        Self::Detach,
        Self::Rekey,
        Self::RemoveRecipient,
        Self::ForgetHistory,
        Self::AddRecipient,
        Self::AddOutputRecipient,
        Self::RemoveOutputRecipient,
        Self::ClientLock,
        Self::Rename,
        Self::Remove,
        Self::Collect,
        Self::Copy,
        Self::MoveResource,
        Self::WithdrawMove,
        Self::FinishMove,
        Self::FinishUnknownMove,
        Self::Takeover,
        Self::RecordSpooled,
        Self::ReadAfterImports,
        Self::EditAfterImports,
    ];

    /// Whether the command runs on a store whose last writer crashed.
    pub(crate) const fn is_after_a_crash(self) -> bool {
        matches!(self, Self::Takeover | Self::RecordSpooled)
    }

    /// Whether the command runs on a store whose last writer imported several times.
    pub(crate) const fn is_after_imports(self) -> bool {
        matches!(self, Self::ReadAfterImports | Self::EditAfterImports)
    }

    /// Whether the interrupted move that the command settles was committed; none for other commands.
    pub(crate) const fn interrupted_move(self) -> Option<bool> {
        match self {
            Self::WithdrawMove => Some(false),
            Self::FinishMove | Self::FinishUnknownMove => Some(true),
            _ => None,
        }
    }

    /// Whether the command changes the other stack too.
    pub(crate) const fn is_about_both(self) -> bool {
        matches!(self, Self::MoveResource) || self.interrupted_move().is_some()
    }

    /// Whether a client with memory knows the stack under attack, and not only the other one.
    pub(crate) const fn knows_stack(self) -> bool {
        !matches!(self, Self::FinishUnknownMove)
    }

    /// Whether the command only reads. All changes of the store in its run are then the attacker's.
    pub(crate) const fn is_read_only(self) -> bool {
        matches!(
            self,
            Self::Read
                | Self::List
                | Self::OldRevision
                | Self::Blame
                | Self::Logs
                | Self::Diff
                | Self::Verify
                | Self::ReadOutputs
                | Self::FirstOutputs
                | Self::ReadAfterImports
        )
    }

    /// Runs the command, and then reads the stack. `Copy` writes to the store `elsewhere` and reads the copy. `spooled`
    /// is the provider result of the writer that crashed.
    pub(crate) async fn run(
        self,
        stacks: &Stacks,
        elsewhere: &Stacks,
        spooled: Option<&SpooledResult>,
    ) -> Result<Answer> {
        let mut facts = Vec::new();
        match self {
            Self::Read => {}
            Self::List => queries::list(stacks, &mut facts).await?,
            Self::OldRevision => queries::old_revision(stacks, &mut facts).await?,
            Self::Blame => {
                let stack = found(stacks).await?;
                let blame = stack.blame(&"built-0".parse()?, None).await?;
                facts.push(("blame".to_owned(), format!("{blame:?}")));
            }
            Self::Logs => queries::logs(stacks, &mut facts).await?,
            Self::Diff | Self::ReadAfterImports => queries::differences(stacks, &mut facts).await?,
            Self::Verify => {
                let found = found(stacks).await?.verify(true).await?;
                facts.push(("violations".to_owned(), format!("{:?}", found.report.violations)));
            }
            Self::ReadOutputs | Self::FirstOutputs => queries::published(stacks, &mut facts).await?,
            Self::Create => {
                if stacks.get(&name()).await?.is_none() {
                    stacks.new_stack_with(&name(), SealingPolicy::All).await?;
                }
            }
            Self::Copy => drop(elsewhere.copy_from(&found(stacks).await?).await?),
            Self::Rename => {
                let other: StackName = "tests/renamed".parse()?;
                stacks.rename(&name(), &other).await?;
                stacks.rename(&other, &name()).await?;
            }
            Self::MoveResource => {
                moves::make(stacks).await?;
                queries::other_stack(stacks, &mut facts).await?;
            }
            Self::WithdrawMove | Self::FinishMove | Self::FinishUnknownMove => {
                moves::settle(stacks).await?;
                queries::other_stack(stacks, &mut facts).await?;
            }
            Self::Remove => drop(stacks.remove(&name(), true).await?),
            Self::Rekey
            | Self::RemoveRecipient
            | Self::ForgetHistory
            | Self::AddRecipient
            | Self::AddOutputRecipient
            | Self::RemoveOutputRecipient
            | Self::ClientLock => self.change_keys(&found(stacks).await?).await?,
            _ => self.write(&found(stacks).await?, spooled, &mut facts).await?,
        }
        let looked = look(if self == Self::Copy { elsewhere } else { stacks }).await?;
        Ok(Answer { facts, ..looked })
    }

    async fn change_keys(self, stack: &Stack) -> Result<()> {
        let more = [COLLEAGUE.to_owned()];
        match self {
            Self::Rekey => drop(stack.rekey("rekey", Rekey::default()).await?),
            Self::RemoveRecipient => {
                let mut recipients = stack.recipients().await?.of_stack;
                recipients.truncate(1);
                let recipients = Some(recipients);
                let request = Rekey {
                    recipients,
                    ..Rekey::default()
                };
                stack.rekey("recipients rm", request).await?;
            }
            Self::ForgetHistory => {
                let request = Rekey {
                    forget_history: true,
                    ..Rekey::default()
                };
                stack.rekey("rekey", request).await?;
            }
            Self::AddRecipient => drop(stack.add_recipients("recipients add", &more).await?),
            Self::AddOutputRecipient => {
                drop(stack.add_output_recipients("recipients add", &more).await?);
            }
            Self::RemoveOutputRecipient => {
                let mut outputs = stack.recipients().await?.of_outputs;
                outputs.truncate(0);
                let request = Rekey {
                    outputs: Some(outputs),
                    ..Rekey::default()
                };
                stack.rekey("recipients rm", request).await?;
            }
            _ => {
                let lock = stack.acquire_client_lock("lock", "freeze", None).await?;
                stack.free_client_lock("unlock", &lock.id).await?;
            }
        }
        Ok(())
    }

    async fn write(self, stack: &Stack, spooled: Option<&SpooledResult>, facts: &mut Facts) -> Result<()> {
        let session = match self {
            Self::Takeover | Self::RecordSpooled => {
                let status = stack.lock_status().await?;
                match status.holder {
                    Some(_) => stack.break_lock("takeover", status.epoch).await?,
                    None => stack.lock("takeover").await?,
                }
            }
            _ => stack.lock("write").await?,
        };
        match self {
            Self::Append => update(&session, "appended").await?,
            Self::Destroy => destroy(&session).await?,
            Self::Edit | Self::EditAfterImports => edit(&session).await?,
            Self::Import => import_again(stack, &session).await?,
            Self::Rollback => {
                let first = stack.list().await?.into_iter().next();
                let first = first.ok_or_else(|| Error::not_found("a revision"))?;
                session.set_current(&first).await?;
            }
            Self::Undo => _ = session.undo(String::new()).await?,
            Self::Detach => {
                let snapshot = stack.current().await?;
                let detached = session.write(snapshot).await?;
                session.delete(&detached).await?;
            }
            Self::Collect => {
                let mut retention = Retention::default();
                (retention.keep_for, retention.keep_last) = (Duration::ZERO, 2);
                retention.grace = Duration::ZERO;
                session.collect(&retention).await?;
            }
            Self::RecordSpooled => {
                let spooled = spooled.ok_or_else(|| Error::not_found("a spooled result"))?;
                let request = UpdateRequest::new(UpdateKind::Edit);
                let outcome = match session.record_spooled(request, spooled).await? {
                    SpoolOutcome::Recorded(_) => "recorded",
                    SpoolOutcome::Known => "known",
                    _ => "conflict",
                };
                facts.push(("spooled result".to_owned(), outcome.to_owned()));
            }
            _ => {}
        }
        session.close().await
    }
}

/// The stack under attack. `NotFound` if its name is missing.
pub(crate) async fn found(stacks: &Stacks) -> Result<Stack> {
    let stack = stacks.get(&name()).await?;
    stack.ok_or_else(|| Error::not_found("the stack"))
}
