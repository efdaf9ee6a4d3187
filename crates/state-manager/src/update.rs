//! One update and its steps: façade over the module [`write`](crate::write).

use crate::intent::Intent;
use crate::write::locked_stack::LockedStack;
use crate::write::log_buffer::{LogBuffer, LogSealing};
use crate::write::provider_result::{self, ProviderResult};
use crate::write::{snapshots, steps};
use state_core::journal::{LogRef, Record};
use state_core::mutation::{EditChange, StackOutputs, StepChange};
use state_core::snapshot::Plugin;
use state_core::verify::Violation;
use state_core::{
    Entry, EntryKey, LogLine, MutationId, Outcome, Properties, Result, RevisionId, Snapshot, Uid, UpdateId,
    UpdateResult,
};
use std::sync::Arc;

/// An open update. Clones are handles to the same update, so that many tasks can run steps at once.
#[derive(Clone, Debug)]
pub struct Update {
    locked: LockedStack,
    id: UpdateId,
    log: Arc<LogBuffer>,
}

impl Update {
    /// The id of this update.
    pub const fn id(&self) -> UpdateId {
        self.id
    }

    /// Records the intent to change a real resource. Call the provider only after this function has returned, because
    /// the intent is durable then.
    ///
    /// A resource must come after its dependencies in the state, and resources that an update records come before all
    /// others. This update must therefore already have recorded the dependencies: by their own steps, or by
    /// [`Update::same`].
    ///
    /// # Errors
    /// `Integrity` with every rule that the step would break; `Sealed` when the resource has sensitive values and the
    /// stack has no key. Then nothing is recorded.
    pub async fn begin(&self, intent: Intent) -> Result<Mutation> {
        self.begin_noted(intent, |_| {}).await
    }

    /// As [`Self::begin`]. Calls `note` with the id of the mutation right before the intent is written, so that a caller can
    /// keep a note of every mutation that it may have begun, whenever it crashes. `note` must not block for long.
    ///
    /// # Errors
    /// As [`Self::begin`]. The intent may be recorded nevertheless if the error is `Indeterminate`.
    pub async fn begin_noted(
        &self,
        intent: Intent,
        note: impl FnOnce(MutationId) + Send,
    ) -> Result<Mutation> {
        let target = intent.target.clone();
        let (id, uid) = steps::begin(&self.locked, intent, note).await?;
        Ok(Mutation {
            locked: self.locked.clone(),
            id,
            target,
            uid,
        })
    }

    /// Writes the results that wait for the intent of another step ([`Mutation::end_beside_next`]).
    ///
    /// # Errors
    /// `Fenced` or `Closed` when the session has ended.
    pub async fn send_results(&self) -> Result<()> {
        self.locked.send_parked().await
    }

    /// Records that the resource was checked and needs no change. If `entry` equals the recorded entry, this causes no
    /// sync of its own: the record is written with the next batch, or at the close.
    ///
    /// # Errors
    /// `Integrity` when the resource doesn't exist, or was already recorded by this update.
    pub async fn same(&self, entry: Entry) -> Result<()> {
        steps::same(&self.locked, entry).await
    }

    /// Records that a create and a delete of this resource form one replacement.
    ///
    /// # Errors
    /// `Integrity` when the resource doesn't exist.
    pub async fn replace(&self, target: EntryKey) -> Result<()> {
        steps::step(&self.locked, StepChange::Replace(target), None, true).await
    }

    /// Records the resource as the provider reports it. `None` as `entry` means that the resource no longer exists: it
    /// is removed, and so are references to it.
    ///
    /// # Errors
    /// `Integrity` when the resource isn't in the state, or when `entry` breaks a rule.
    pub async fn refresh(&self, target: EntryKey, entry: Option<Entry>) -> Result<()> {
        steps::refresh(&self.locked, target, entry).await
    }

    /// Removes an entry that is pending replacement: the real resource was deleted, and its replacement was not created
    /// yet. Call this when the replacement is no longer wanted.
    ///
    /// # Errors
    /// `Integrity` when the entry isn't pending replacement.
    pub async fn remove_pending_replace(&self, target: EntryKey) -> Result<()> {
        let change = StepChange::RemovePendingReplace(target);
        steps::step(&self.locked, change, None, true).await
    }

    /// Records outputs of a resource that were registered after its step. `sensitive` contains the names of the
    /// sensitive outputs.
    ///
    /// # Errors
    /// `Integrity` when the resource doesn't exist.
    pub async fn outputs(&self, target: EntryKey, outputs: Properties, sensitive: Vec<String>) -> Result<()> {
        steps::outputs(&self.locked, target, outputs, sensitive).await
    }

    /// Applies changes made by hand: all of them, or none. An entry without a uid gets the uid of the entry that it
    /// replaces, or a new one.
    ///
    /// # Errors
    /// `Integrity` with every rule that the changes would break.
    pub async fn edit(&self, changes: Vec<EditChange>) -> Result<()> {
        steps::edit(&self.locked, changes).await
    }

    /// Records a plugin that takes part in this update.
    ///
    /// # Errors
    /// `Integrity` when no update is open.
    pub async fn record_plugin(&self, plugin: Plugin) -> Result<()> {
        steps::record(&self.locked, Record::RecordPlugin(plugin)).await
    }

    /// Records the outputs of the stack itself.
    ///
    /// # Errors
    /// `Integrity` when no update is open; `Sealed` when an output is sensitive and the stack has no key.
    pub async fn set_outputs(&self, outputs: StackOutputs) -> Result<()> {
        let sealed = self.locked.seal.outputs(outputs)?;
        steps::record(&self.locked, Record::SetOutputs(sealed)).await
    }

    /// Buffers a log line of the engine or a provider. Costs no I/O: the lines are stored when the update ends, so the
    /// lines of an update that never ends are lost. Lines beyond 32 MiB are only counted.
    pub fn log(&self, line: &LogLine) {
        self.log.push(line);
    }

    /// Ends the update and makes its state a revision. Mutations that have not ended stay pending.
    ///
    /// # Errors
    /// `Conflict` when the update has already ended.
    pub async fn finish(self, result: UpdateResult) -> Result<RevisionId> {
        // The log is packed first, because the revision names it by its digest. A log that can't be packed is left out,
        // because the update must end.
        let log = self.log.packed().unwrap_or_default();
        let reference = log.as_deref().map(LogRef::of);
        let revision = self.locked.end_update_with_log(result, reference).await?;
        if let Some(log) = log {
            self.locked.keep_log(&revision, log).await;
        }
        Ok(revision)
    }
}

impl Update {
    pub(crate) fn new(locked: LockedStack, id: UpdateId) -> Self {
        let entropy = &locked.stack.environment().entropy;
        let log = Arc::new(LogBuffer::new(LogSealing::of(locked.seal.key(), entropy)));
        Self { locked, id, log }
    }

    /// Marks the stack as unreliable. [`Self::replace_state`] with a snapshot that breaks no rule clears the mark.
    pub(crate) async fn mark_unreliable(&self) -> Result<()> {
        snapshots::invalidate(&self.locked).await
    }

    /// Replaces the whole state by a snapshot, which is repaired first if it breaks rules. Returns the violations. With
    /// `ends`, the same frame also ends the update.
    pub(crate) async fn replace_state(&self, snapshot: Snapshot, ends: bool) -> Result<Vec<Violation>> {
        let end = ends.then(|| self.locked.stack.now());
        snapshots::save(&self.locked, snapshot, end).await
    }
}

/// A step that has begun. End it with its outcome; if it is dropped instead, its pending operation stays recorded.
#[derive(Debug)]
#[must_use = "a mutation that isn't ended stays recorded as pending"]
pub struct Mutation {
    locked: LockedStack,
    id: MutationId,
    target: EntryKey,
    uid: Uid,
}

impl Mutation {
    /// The id of this mutation, for later lookups.
    pub const fn id(&self) -> MutationId {
        self.id
    }

    /// Records the result that the provider returned. The result is durable when this function returns without an
    /// error. `entry` is the resource as the provider returned it; none for a deletion, a discard and a failure.
    /// `reasons` are the provider's explanations of a partial outcome; otherwise empty.
    ///
    /// Returns violations if the result isn't recorded as it is:
    ///
    /// - If it breaks rules, the result, with id and outputs, is kept on the pending operation, and no resource is
    ///   changed in the state.
    /// - If values can't be sealed or are too large, the resource is recorded with its id, without these values, and as
    ///   partly done.
    ///
    /// # Errors
    /// `Fenced`, `NotApplied`, `Indeterminate` or `Closed` when the result could not be recorded. With
    /// [`Stacks::with_spool`](crate::Stacks::with_spool) it is then kept in a file, which an `Indeterminate` error
    /// names.
    pub async fn end(
        self,
        outcome: Outcome,
        entry: Option<Entry>,
        reasons: Vec<String>,
    ) -> Result<Vec<Violation>> {
        self.end_with(outcome, entry, reasons, None).await
    }

    /// As [`Self::end`], for a caller that begins another step at the same time: one append makes both durable, if the
    /// intent is recorded within a few milliseconds. `freed` is called when the result waits for the intent. If no step
    /// begins, [`Update::send_results`] keeps the result from waiting.
    ///
    /// # Errors
    /// As [`Self::end`].
    pub async fn end_beside_next(
        self,
        outcome: Outcome,
        entry: Option<Entry>,
        reasons: Vec<String>,
        freed: impl FnOnce() + Send + 'static,
    ) -> Result<Vec<Violation>> {
        self.end_with(outcome, entry, reasons, Some(Box::new(freed)))
            .await
    }

    async fn end_with(
        self,
        outcome: Outcome,
        entry: Option<Entry>,
        reasons: Vec<String>,
        parked: Option<Box<dyn FnOnce() + Send>>,
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
        provider_result::end(&self.locked, self.id, &self.target, result, parked).await
    }

    /// Records that the step succeeded. `entry` and the returned violations are those of [`Mutation::end`].
    ///
    /// # Errors
    /// As [`Mutation::end`].
    pub async fn succeed(self, entry: Option<Entry>) -> Result<Vec<Violation>> {
        self.end(Outcome::Succeeded, entry, Vec::new()).await
    }

    /// Records that the step failed and changed no real resource.
    ///
    /// # Errors
    /// As [`Mutation::end`].
    pub async fn fail(self) -> Result<()> {
        self.end(Outcome::Failed, None, Vec::new()).await.map(drop)
    }
}
