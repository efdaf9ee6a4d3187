//! The record of a run: durable, or in a preview a copy that nobody sees.
//!
//! Both keep the same rules, because both change by [`State::apply`]. This is the only place that makes a
//! [`Committed`], and it does so with the acknowledgement in its hands.

mod draft;
mod unrecorded;

use crate::ledger::Committed;
use draft::Draft;
use state_core::mutation::{EditChange, StackOutputs, StepChange};
use state_core::verify::Violation;
use state_core::{
    Entry, EntryKey, FactoryInfo, MutationId, Outcome, Result, SharedEntry, Snapshot, State, Timestamp,
};
use state_manager::{Environment, Intent, Mutation, Session, Update};
use std::sync::Arc;
pub(crate) use unrecorded::unrecorded_dependencies;

/// Where steps are recorded.
pub(crate) enum Recorder {
    /// In an update of a stack that is held.
    Durable {
        /// The lock.
        session: Box<Session>,
        /// The update.
        update: Box<Update>,
    },
    /// In a copy.
    Draft(Draft),
}

/// A step whose intent is durable: now the world may be touched, and not before.
///
/// Dropped without an end it stays pending on record.
#[derive(Debug)]
#[must_use = "a step that isn't ended stays on record as pending"]
pub(crate) struct Begun {
    key: EntryKey,
    id: MutationId,
    mutation: Option<Mutation>,
}

impl Begun {
    pub(crate) const fn id(&self) -> MutationId {
        self.id
    }
}

/// How the record took a result.
#[derive(Debug)]
pub(crate) enum Ended {
    /// It is durable. None: the entry went.
    Committed(Option<Committed>),
    /// It breaks these rules: it is durable too, but on the operation, which stays pending.
    Refused(Vec<Violation>),
}

impl Recorder {
    /// A copy of a state.
    pub(crate) fn draft(state: State, environment: &Environment) -> Result<Self> {
        Draft::new(state, environment).map(Self::Draft)
    }

    pub(crate) fn state(&self) -> Arc<State> {
        match self {
            Self::Durable { session, .. } => session.state(),
            Self::Draft(draft) => draft.state(),
        }
    }

    /// An entry with its values open.
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

    /// An entry that is on record, as committed.
    pub(crate) fn committed(&self, key: &EntryKey) -> Result<Option<Committed>> {
        Ok(self.entry(key)?.map(Committed::new))
    }

    /// Records intent.
    pub(crate) async fn begin(&self, intent: Intent) -> Result<Begun> {
        let key = intent.target.clone();
        let (id, mutation) = match self {
            Self::Durable { update, .. } => {
                let mutation = update.begin(intent).await?;
                (mutation.id(), Some(mutation))
            }
            Self::Draft(draft) => (draft.begin(intent)?, None),
        };
        Ok(Begun { key, id, mutation })
    }

    /// Records what came back.
    pub(crate) async fn end(
        &self,
        begun: Begun,
        outcome: Outcome,
        entry: Option<Entry>,
        reasons: Vec<String>,
    ) -> Result<Ended> {
        let Begun { key, id, mutation } = begun;
        let refused = match (self, mutation) {
            (Self::Draft(draft), _) => draft.end(id, outcome, entry.clone(), reasons)?,
            (_, Some(mutation)) => mutation.end(outcome, entry.clone(), reasons).await?,
            (Self::Durable { .. }, None) => Vec::new(),
        };
        if !refused.is_empty() {
            return Ok(Ended::Refused(refused));
        }
        let state = self.state();
        let uid = state.entry(&key).and_then(|recorded| recorded.uid);
        let committed = entry.map(|entry| Committed::new(Arc::new(Entry { uid, ..entry })));
        Ok(Ended::Committed(committed))
    }

    /// Records that an entry was looked at; it takes its place in the order of this run.
    pub(crate) async fn same(&self, entry: Entry) -> Result<Committed> {
        let committed = Committed::new(Arc::new(entry.clone()));
        match self {
            Self::Durable { update, .. } => update.same(entry).await?,
            Self::Draft(draft) => draft.step(StepChange::Same(Arc::new(entry)))?,
        }
        Ok(committed)
    }

    /// Records what the world says of an entry.
    pub(crate) async fn refresh(&self, target: EntryKey, entry: Option<Entry>) -> Result<()> {
        match self {
            Self::Durable { update, .. } => update.refresh(target, entry).await,
            Self::Draft(draft) => draft.step(StepChange::Refresh {
                target,
                entry: entry.map(Arc::new),
            }),
        }
    }

    /// Marks that a create and a delete belong together.
    pub(crate) async fn replace(&self, target: EntryKey) -> Result<()> {
        match self {
            Self::Durable { update, .. } => update.replace(target).await,
            Self::Draft(draft) => draft.step(StepChange::Replace(target)),
        }
    }

    /// Drops a tombstone.
    pub(crate) async fn remove_pending_replace(&self, target: EntryKey) -> Result<()> {
        match self {
            Self::Durable { update, .. } => update.remove_pending_replace(target).await,
            Self::Draft(draft) => draft.step(StepChange::RemovePendingReplace(target)),
        }
    }

    /// Changes that touch no world: an entry gets another name.
    pub(crate) async fn edit(&self, changes: Vec<EditChange>) -> Result<()> {
        match self {
            Self::Durable { update, .. } => update.edit(changes).await,
            Self::Draft(draft) => draft.edit(changes),
        }
    }

    /// The stack's own outputs, open.
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
        let open = stack.reveal(sealed).await?;
        Ok(StackOutputs {
            values: open.outputs,
            sensitive: open.sensitive_outputs,
        })
    }

    /// Records the stack's own outputs, if they aren't those that are there. Those before come back then.
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
