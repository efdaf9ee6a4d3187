//! The recorder of a run: writes steps to the store, or in a plan to a private copy of the state.
//!
//! Both destinations enforce the same rules, because both change a state by [`State::apply`]. In a run, a
//! [`CommittedResource`] is returned only after the store acknowledged its record as durable.

mod draft;
mod unrecorded;

use crate::ledger::CommittedResource;
use draft::Draft;
use state_core::mutation::{EditChange, Resolution, StackOutputs, StepChange};
use state_core::verify::Violation;
use state_core::{
    Entry, EntryKey, Error, FactoryInfo, MutationId, Outcome, Result, SharedEntry, Snapshot, State, Timestamp,
};
use state_manager::{Environment, Intent, Mutation, Session, Update};
use std::sync::Arc;
pub(crate) use unrecorded::unrecorded_dependencies;

/// The destination of a run's records.
pub(crate) enum Recorder {
    /// An update of a locked stack.
    Durable {
        /// The session that holds the lock.
        session: Box<Session>,
        /// The update that receives the records.
        update: Box<Update>,
    },
    /// A copy of the state, for a plan.
    Draft(Draft),
}

/// Proof that the intent of a step is durable. A step may change real resources only with this value. In a plan, which
/// changes no real resources, the intent is recorded only in the copy of the state.
///
/// A value that is dropped without [`Recorder::end`] leaves the operation pending.
#[derive(Debug)]
#[must_use = "a step that isn't ended stays recorded as pending"]
pub(crate) struct DurableIntent {
    key: EntryKey,
    id: MutationId,
    /// `None` in a plan.
    mutation: Option<Mutation>,
}

impl DurableIntent {
    pub(crate) const fn id(&self) -> MutationId {
        self.id
    }
}

/// Called when the effect of a step has ended and another step may begin, although the result isn't durable yet.
pub(crate) type Freed = Box<dyn FnOnce() + Send>;

/// The result of ending a step.
#[derive(Debug)]
pub(crate) enum EndResult {
    /// The result is durable. `None` if no entry was recorded, because the step removed the entry or failed.
    Committed(Option<CommittedResource>),
    /// The result violates these rules. The result is stored with the operation, which stays pending.
    Refused(Vec<Violation>),
}

impl Recorder {
    /// Creates a recorder over a copy of a state.
    pub(crate) fn draft(state: State, environment: &Environment) -> Result<Self> {
        Draft::new(state, environment).map(Self::Draft)
    }

    pub(crate) fn state(&self) -> Arc<State> {
        match self {
            Self::Durable { session, .. } => session.state(),
            Self::Draft(draft) => draft.state(),
        }
    }

    /// Returns an entry with decrypted values. `None` if no entry is recorded under the key.
    pub(crate) fn entry(&self, key: &EntryKey) -> Result<Option<SharedEntry>> {
        let state = self.state();
        state.entry(key).map(|entry| self.reveal(entry)).transpose()
    }

    pub(crate) fn reveal(&self, entry: &SharedEntry) -> Result<SharedEntry> {
        match self {
            Self::Durable { session, .. } => session.reveal(entry),
            Self::Draft(_) => Ok(Arc::clone(entry)),
        }
    }

    /// Returns a recorded entry as a committed resource. `None` if no entry is recorded under the key.
    pub(crate) fn committed(&self, key: &EntryKey) -> Result<Option<CommittedResource>> {
        Ok(self.entry(key)?.map(CommittedResource::new))
    }

    /// Records the intent of a step. Calls `note` with the id of the step before a durable intent is written.
    pub(crate) async fn begin(
        &self,
        intent: Intent,
        note: impl FnOnce(MutationId) + Send,
    ) -> Result<DurableIntent> {
        let key = intent.target.clone();
        let (id, mutation) = match self {
            Self::Durable { update, .. } => {
                let mutation = update.begin_noted(intent, note).await?;
                (mutation.id(), Some(mutation))
            }
            Self::Draft(draft) => (draft.begin(intent)?, None),
        };
        Ok(DurableIntent { key, id, mutation })
    }

    /// Writes the results that wait for the intent of another step, because none begins now.
    pub(crate) async fn send_results(&self) {
        if let Self::Durable { update, .. } = self
            && update.send_results().await.is_err()
        {
            // The steps that recorded these results report the error.
        }
    }

    /// Records the result of a step. With `freed`, the result may wait a moment for the intent of the next step, and `freed`
    /// is called when that step may begin.
    pub(crate) async fn end(
        &self,
        begun: DurableIntent,
        outcome: Outcome,
        entry: Option<Entry>,
        reasons: Vec<String>,
        freed: Option<Freed>,
    ) -> Result<EndResult> {
        let DurableIntent { key, id, mutation } = begun;
        let refused = match (self, mutation) {
            (Self::Draft(draft), _) => draft.end(id, outcome, entry.clone(), reasons)?,
            (_, Some(mutation)) => match freed {
                Some(freed) => {
                    mutation
                        .end_beside_next(outcome, entry.clone(), reasons, freed)
                        .await?
                }
                None => mutation.end(outcome, entry.clone(), reasons).await?,
            },
            (Self::Durable { .. }, None) => Vec::new(),
        };
        if !refused.is_empty() {
            return Ok(EndResult::Refused(refused));
        }
        let state = self.state();
        let uid = state.entry(&key).and_then(|recorded| recorded.uid);
        let committed = entry.map(|entry| CommittedResource::new(Arc::new(Entry { uid, ..entry })));
        Ok(EndResult::Committed(committed))
    }

    /// Records an entry whose object doesn't change. In the snapshot's list, the entry follows the entries that this
    /// run recorded before.
    pub(crate) async fn same(&self, entry: Entry) -> Result<CommittedResource> {
        let committed = CommittedResource::new(Arc::new(entry.clone()));
        match self {
            Self::Durable { update, .. } => update.same(entry).await?,
            Self::Draft(draft) => draft.step(StepChange::Same(Arc::new(entry)))?,
        }
        Ok(committed)
    }

    /// Records the refreshed entry, or its removal.
    pub(crate) async fn refresh(&self, target: EntryKey, entry: Option<Entry>) -> Result<()> {
        match self {
            Self::Durable { update, .. } => update.refresh(target, entry).await,
            Self::Draft(draft) => draft.step(StepChange::Refresh {
                target,
                entry: entry.map(Arc::new),
            }),
        }
    }

    /// Resolves a pending operation in a plan's copy of the state. In a run, pending operations are resolved before it.
    pub(crate) fn resolve(&self, id: MutationId, resolution: Resolution) -> Result<()> {
        match self {
            Self::Durable { .. } => Err(Error::invalid("the run", "it resolves no pending operations")),
            Self::Draft(draft) => draft.resolve(id, resolution),
        }
    }

    /// Records that the preceding create replaced the object under this key.
    pub(crate) async fn replace(&self, target: EntryKey) -> Result<()> {
        match self {
            Self::Durable { update, .. } => update.replace(target).await,
            Self::Draft(draft) => draft.step(StepChange::Replace(target)),
        }
    }

    /// Removes a tombstone: an entry whose object was deleted, and whose replacement was not created yet.
    pub(crate) async fn remove_pending_replace(&self, target: EntryKey) -> Result<()> {
        match self {
            Self::Durable { update, .. } => update.remove_pending_replace(target).await,
            Self::Draft(draft) => draft.step(StepChange::RemovePendingReplace(target)),
        }
    }

    /// Records edits that affect no real resource, such as a rename.
    pub(crate) async fn edit(&self, changes: Vec<EditChange>) -> Result<()> {
        match self {
            Self::Durable { update, .. } => update.edit(changes).await,
            Self::Draft(draft) => draft.edit(changes),
        }
    }

    /// Returns the decrypted outputs of the stack.
    pub(crate) async fn outputs(&self) -> Result<StackOutputs> {
        let recorded = self.state().outputs().clone();
        let Self::Durable { session, .. } = self else {
            return Ok(recorded);
        };
        let stack = session.stack();
        let nothing = Snapshot::new(
            FactoryInfo::default(),
            stack.name().to_string(),
            Timestamp::new(""),
        );
        let sealed = Snapshot {
            lineage: Some(stack.lineage()),
            outputs: recorded.values,
            sensitive_outputs: recorded.sensitive,
            ..nothing
        };
        let open = session.reveal_snapshot(sealed).await?;
        Ok(StackOutputs {
            values: open.outputs,
            sensitive: open.sensitive_outputs,
        })
    }

    /// Records new stack outputs and returns the previous ones. Returns `None` and records nothing if they are equal.
    pub(crate) async fn set_outputs(&self, outputs: StackOutputs) -> Result<Option<StackOutputs>> {
        let old = self.outputs().await?;
        if old == outputs {
            return Ok(None);
        }
        match self {
            Self::Durable { update, .. } => update.set_outputs(outputs).await?,
            Self::Draft(draft) => draft.set_outputs(outputs)?,
        }
        Ok(Some(old))
    }
}
