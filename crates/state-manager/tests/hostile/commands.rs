//! The commands of a user, each a sequence of calls of the manager that reads or writes one stack.

use crate::client::{Answer, look, opened, resources};
use crate::scenario::{COLLEAGUE, OTHER, entry, name};
use state_core::head::SealingPolicy;
use state_core::update::UpdateKind;
use state_core::{Address, EntryKey, Error, Result, RevisionId, StackName, UpdateResult};
use state_manager::{
    Authenticity, Intent, LogQuery, Rekey, Retention, Session, Stack, Stacks, UpdateRequest,
};
use std::time::Duration;

/// A command of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Command {
    Read,
    List,
    /// Reads every revision of the stack.
    OldRevision,
    Blame,
    Logs,
    Verify,
    /// Reads the published outputs.
    ReadOutputs,
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
    /// Sets a client lock and clears it.
    ClientLock,
    /// Renames the stack and renames it back.
    Rename,
    Remove,
    Collect,
    /// Copies the stack to an empty store.
    Copy,
    /// Takes the writer lock from a writer that crashed.
    Takeover,
}

impl Command {
    pub(crate) const ALL: [Self; 26] = [
        Self::Read,
        Self::List,
        Self::OldRevision,
        Self::Blame,
        Self::Logs,
        Self::Verify,
        Self::ReadOutputs,
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
        Self::ClientLock,
        Self::Rename,
        Self::Remove,
        Self::Collect,
        Self::Copy,
        Self::Takeover,
    ];

    /// Whether the command runs on a store whose last writer crashed.
    pub(crate) const fn is_after_a_crash(self) -> bool {
        matches!(self, Self::Takeover)
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
                | Self::Verify
                | Self::ReadOutputs
        )
    }

    /// Runs the command, and then reads the stack. `Copy` writes to the store `elsewhere` and reads the copy.
    pub(crate) async fn run(self, stacks: &Stacks, elsewhere: &Stacks) -> Result<Answer> {
        let mut facts = Vec::new();
        match self {
            Self::Read => {}
            Self::List => list(stacks, &mut facts).await?,
            Self::OldRevision => old_revision(stacks, &mut facts).await?,
            Self::Blame => {
                let stack = found(stacks).await?;
                let blame = stack.blame(&"built-0".parse()?, None).await?;
                facts.push(("blame".to_owned(), format!("{blame:?}")));
            }
            Self::Logs => drop(found(stacks).await?.logs(&LogQuery::default()).await?),
            Self::Verify => {
                let found = found(stacks).await?.verify(true).await?;
                facts.push(("violations".to_owned(), format!("{:?}", found.report.violations)));
            }
            Self::ReadOutputs => {
                let published = stacks.published_outputs(&name()).await?;
                let published = published.map(|one| (one.serial, one.outputs));
                facts.push(("published outputs".to_owned(), format!("{published:?}")));
            }
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
            Self::Remove => drop(stacks.remove(&name(), true).await?),
            Self::Rekey
            | Self::RemoveRecipient
            | Self::ForgetHistory
            | Self::AddRecipient
            | Self::AddOutputRecipient
            | Self::ClientLock => self.change_keys(&found(stacks).await?).await?,
            _ => self.write(&found(stacks).await?).await?,
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
            _ => {
                let lock = stack.acquire_client_lock("lock", "freeze", None).await?;
                stack.free_client_lock("unlock", &lock.id).await?;
            }
        }
        Ok(())
    }

    async fn write(self, stack: &Stack) -> Result<()> {
        let session = match self {
            Self::Takeover => {
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
            Self::Edit => {
                let state = session.state();
                let mut editor = state_core::edits::StateEditor::on(&state);
                let removal = state_core::edits::Operation::Rm {
                    addresses: vec!["built-1".parse()?],
                    deposed: None,
                    cascade: false,
                    force: true,
                };
                editor
                    .perform(&removal)
                    .map_err(|refusal| Error::invalid("the edit", format!("{refusal:?}")))?;
                let request = UpdateRequest::new(UpdateKind::Edit);
                session.edit(request, &state, editor.into_changes()).await?;
            }
            Self::Import => {
                let snapshot = stack.current().await?;
                let request = UpdateRequest::new(UpdateKind::Import);
                session.import(request, snapshot, None).await?;
            }
            Self::Rollback => {
                let first = stack.list().await?.into_iter().next();
                let first = first.ok_or_else(|| Error::not_found("a revision"))?;
                session.set_current(&first).await?;
            }
            Self::Undo => drop(session.undo(String::new()).await?),
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
            _ => {}
        }
        session.close().await
    }
}

/// The stack under attack. `NotFound` if its name is missing.
async fn found(stacks: &Stacks) -> Result<Stack> {
    let stack = stacks.get(&name()).await?;
    stack.ok_or_else(|| Error::not_found("the stack"))
}

/// Lists all stacks, and looks the other stack up by its name.
async fn list(stacks: &Stacks, facts: &mut Vec<(String, String)>) -> Result<()> {
    for summary in stacks.list().await? {
        let key = format!("summary of {}", summary.name);
        facts.push((key, format!("{} {:?}", summary.lineage, summary.current)));
    }
    let other: StackName = OTHER.parse()?;
    stacks.get(&other).await?;
    Ok(())
}

/// Reads all revisions of the stack. Skips a stack that isn't authenticated: its content proves nothing.
async fn old_revision(stacks: &Stacks, facts: &mut Vec<(String, String)>) -> Result<()> {
    let stack = found(stacks).await?;
    if stack.tip().await?.authenticity != Authenticity::Checked {
        return Ok(());
    }
    let revisions: Vec<RevisionId> = stack.list().await?;
    for revision in &revisions {
        let content = opened(&stack, stack.get(revision).await?).await?;
        facts.push((
            format!("revision {revision}"),
            format!("{:?}", resources(&content)),
        ));
    }
    Ok(())
}

/// Creates the resource `tag` in an update of its own.
pub(crate) async fn update(session: &Session, tag: &str) -> Result<()> {
    let request = UpdateRequest::new(UpdateKind::Update);
    let update = session.start_update(request).await?;
    let entry = entry(tag)?;
    let begun = update.begin(Intent::create(entry.clone())).await?;
    let violations = begun.succeed(Some(entry)).await?;
    if !violations.is_empty() {
        return Err(Error::integrity("the entry", violations));
    }
    update.finish(UpdateResult::Succeeded).await?;
    Ok(())
}

/// Deletes every resource of the stack in one update.
async fn destroy(session: &Session) -> Result<()> {
    let update = session
        .start_update(UpdateRequest::new(UpdateKind::Destroy))
        .await?;
    let addresses: Vec<Address> = session
        .state()
        .entries()
        .map(|entry| entry.address.clone())
        .collect();
    for address in addresses {
        let target = EntryKey {
            address,
            deposed: None,
        };
        update.begin(Intent::delete(target)).await?.succeed(None).await?;
    }
    update.finish(UpdateResult::Succeeded).await?;
    Ok(())
}
