//! One update and its steps: façade over [`write`](crate::write).

use crate::intent::Intent;
use crate::write::locked_stack::LockedStack;
use crate::write::log_buffer::{LogBuffer, LogSealing};
use crate::write::provider_result::{self, ProviderResult};
use crate::write::{snapshots, steps};
use state_core::journal::Record;
use state_core::mutation::{EditChange, StackOutputs, StepChange};
use state_core::snapshot::Plugin;
use state_core::verify::Violation;
use state_core::{
    Entry, EntryKey, LogLine, MutationId, Outcome, Properties, Result, RevisionId, Snapshot, Uid, UpdateId,
    UpdateResult,
};
use std::sync::Arc;

/// An open update. Clones are handles to the same one: steps run from many tasks at once.
#[derive(Clone, Debug)]
pub struct Update {
    locked: LockedStack,
    id: UpdateId,
    log: Arc<LogBuffer>,
}

impl Update {
    /// Names it.
    pub const fn id(&self) -> UpdateId {
        self.id
    }

    /// Records the intent to touch the world. Durable when it returns: now touch it.
    ///
    /// What the entry depends on must stand earlier, so this update must have recorded it already: by a step of its
    /// own, or by [`Update::same`].
    ///
    /// # Errors
    /// `Integrity` with every rule that the step would break; then nothing was recorded.
    pub async fn begin(&self, intent: Intent) -> Result<Mutation> {
        let target = intent.target.clone();
        let (id, uid) = steps::begin(&self.locked, intent).await?;
        Ok(Mutation {
            locked: self.locked.clone(),
            id,
            target,
            uid,
        })
    }

    /// The entry was looked at. One that says what is recorded already isn't worth a sync: it rides with the
    /// next batch, or with the close.
    ///
    /// # Errors
    /// `Integrity` when it isn't there, or was recorded by this update already.
    pub async fn same(&self, entry: Entry) -> Result<()> {
        steps::same(&self.locked, entry).await
    }

    /// Marks that a create and a delete of this entry belong together.
    ///
    /// # Errors
    /// `Integrity` when it isn't there.
    pub async fn replace(&self, target: EntryKey) -> Result<()> {
        steps::step(&self.locked, StepChange::Replace(target), None, true).await
    }

    /// The entry as the world has it; none when it is gone: then whatever referred to it does so no more.
    ///
    /// # Errors
    /// `Integrity` when it isn't there, or what came back breaks a rule.
    pub async fn refresh(&self, target: EntryKey, entry: Option<Entry>) -> Result<()> {
        steps::refresh(&self.locked, target, entry).await
    }

    /// Drops a tombstone whose replacement isn't wanted any more.
    ///
    /// # Errors
    /// `Integrity` when it isn't one.
    pub async fn remove_pending_replace(&self, target: EntryKey) -> Result<()> {
        let change = StepChange::RemovePendingReplace(target);
        steps::step(&self.locked, change, None, true).await
    }

    /// Outputs of an entry, registered after its step (seed 004).
    ///
    /// # Errors
    /// `Integrity` when it isn't there.
    pub async fn outputs(&self, target: EntryKey, outputs: Properties, sensitive: Vec<String>) -> Result<()> {
        steps::outputs(&self.locked, target, outputs, sensitive).await
    }

    /// Changes by hand: all of them, or none. An entry that comes without a uid keeps that of the one whose place
    /// it takes, or gets a new one.
    ///
    /// # Errors
    /// `Integrity` with every rule that they would break.
    pub async fn edit(&self, changes: Vec<EditChange>) -> Result<()> {
        steps::edit(&self.locked, changes).await
    }

    /// A plugin takes part.
    ///
    /// # Errors
    /// `Integrity` when no update is open.
    pub async fn record_plugin(&self, plugin: Plugin) -> Result<()> {
        steps::record(&self.locked, Record::RecordPlugin(plugin)).await
    }

    /// The outputs of the stack itself.
    ///
    /// # Errors
    /// `Integrity` when no update is open.
    pub async fn set_outputs(&self, outputs: StackOutputs) -> Result<()> {
        let sealed = self.locked.seal.outputs(outputs)?;
        steps::record(&self.locked, Record::SetOutputs(sealed)).await
    }

    /// Remembers what engine or provider said. Costs no I/O: the lines are stored when the update ends, so what is
    /// said in an update that never ends is lost. Of more than 32 MiB the rest is only counted.
    pub fn log(&self, line: &LogLine) {
        self.log.push(line);
    }

    /// Ends the update and makes a revision of what is there now. Mutations that didn't end stay pending.
    ///
    /// # Errors
    /// `Conflict` when it has ended already.
    pub async fn finish(self, result: UpdateResult) -> Result<RevisionId> {
        let revision = self.locked.end_update(result).await?;
        self.locked.keep_log(&revision, &self.log).await;
        Ok(revision)
    }
}

impl Update {
    pub(crate) fn new(locked: LockedStack, id: UpdateId) -> Self {
        let entropy = &locked.stack.environment().entropy;
        let log = Arc::new(LogBuffer::new(LogSealing::of(locked.seal.key(), entropy)));
        Self { locked, id, log }
    }

    /// Marks the stack as unreliable until a state takes its place that breaks no rule.
    pub(crate) async fn mark_unreliable(&self) -> Result<()> {
        snapshots::invalidate(&self.locked).await
    }

    /// Replaces the whole state by a snapshot, repaired if it breaks rules, and returns those. With `ends` the update
    /// ends with it.
    pub(crate) async fn replace_state(&self, snapshot: Snapshot, ends: bool) -> Result<Vec<Violation>> {
        let end = ends.then(|| self.locked.stack.now());
        snapshots::save(&self.locked, snapshot, end).await
    }
}

/// A step that was begun. Say how it ended; when it is dropped instead, its pending operation stays on record.
#[derive(Debug)]
#[must_use = "a mutation that isn't ended stays on record as pending"]
pub struct Mutation {
    locked: LockedStack,
    id: MutationId,
    target: EntryKey,
    uid: Uid,
}

impl Mutation {
    /// Names it, in every look-up later.
    pub const fn id(&self) -> MutationId {
        self.id
    }

    /// Records what came back from the world. Durable when it returns.
    ///
    /// The rules that the result breaks come back: then it is kept, with id and outputs, on the pending
    /// operation, and no entry changed.
    ///
    /// # Errors
    /// `Fenced`, `NotApplied`, `Indeterminate` or `Closed` when it could not be recorded. With
    /// [`Stacks::with_spool`](crate::Stacks::with_spool) it is kept in a file then, which an `Indeterminate` names.
    pub async fn end(
        self,
        outcome: Outcome,
        entry: Option<Entry>,
        reasons: Vec<String>,
    ) -> Result<Vec<Violation>> {
        let identified = |entry| Entry {
            uid: Some(self.uid),
            ..entry
        };
        let result = ProviderResult {
            outcome,
            entry: entry.map(identified),
            reasons,
        };
        provider_result::end(&self.locked, self.id, &self.target, result).await
    }

    /// It ended as it was meant to.
    ///
    /// # Errors
    /// As [`Mutation::end`].
    pub async fn succeed(self, entry: Option<Entry>) -> Result<Vec<Violation>> {
        self.end(Outcome::Succeeded, entry, Vec::new()).await
    }

    /// The world didn't change.
    ///
    /// # Errors
    /// As [`Mutation::end`].
    pub async fn fail(self) -> Result<()> {
        self.end(Outcome::Failed, None, Vec::new()).await.map(drop)
    }
}
