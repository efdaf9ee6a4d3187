//! Queries of readers: the state at one moment, the current revision, the history.

use crate::context::StackContext;
use crate::objects::document::{Revision, RevisionRecord};
use crate::read::retrying::reading;
use crate::read::revision_spec::RevisionList;
use crate::read::tip::Tip;
use crate::read::{history, open};
use crate::standing::{Authenticity, Standing};
use state_core::mutation::StackOutputs;
use state_core::{Error, Head, Result, RevisionId, Snapshot, SnapshotMeta, StackName, State, Timestamp};
use std::sync::Arc;

/// A stack as it was at one moment.
#[derive(Clone, Debug)]
pub struct View {
    /// The state after the last acknowledged mutation.
    pub state: Arc<State>,
    /// The head of the stack.
    pub head: Head,
    /// The name of the stack.
    pub name: StackName,
    /// Whether the stack was authenticated with its data key.
    pub authenticity: Authenticity,
    /// Describes how the stack was rolled back since this client [last saw](crate::KnownStacks) it; none if it wasn't.
    /// Such a stack can't be locked.
    pub regression: Option<String>,
    moment: Timestamp,
}

impl View {
    /// The state as a snapshot, dated by [`Self::moment`].
    pub fn snapshot(&self) -> Snapshot {
        self.state.snapshot(self.name.to_string(), self.moment.clone())
    }

    /// The state as a snapshot; none if nothing was ever written.
    pub(crate) fn recorded(&self) -> Option<Snapshot> {
        self.moment().map(|_| self.snapshot())
    }

    /// Start of the open update, or else the time of the last update end; none for a stack that was never written to.
    pub fn moment(&self) -> Option<&Timestamp> {
        Some(&self.moment).filter(|moment| !moment.as_str().is_empty())
    }

    /// Whether an update is open, because its writer is working or has crashed.
    pub fn update_open(&self) -> bool {
        self.state.update().is_some()
    }

    /// Whether the state is known to match the real resources.
    pub fn is_reliable(&self) -> bool {
        self.state.is_reliable()
    }
}

/// The current revision with its metadata and content.
#[derive(Clone, Debug)]
pub(crate) struct CurrentRevision {
    pub(crate) revision: RevisionId,
    pub(crate) meta: SnapshotMeta,
    pub(crate) snapshot: Snapshot,
}

/// The state after the last acknowledged mutation.
pub(crate) async fn tip(stack: &StackContext) -> Result<View> {
    let (tip, standing) = open::tip(stack).await?;
    let Standing {
        authenticity,
        regression,
    } = standing;
    Ok(View {
        authenticity,
        state: Arc::new(tip.replayed.state),
        head: tip.head.into_value(),
        name: stack.name().clone(),
        regression,
        moment: tip.replayed.moment,
    })
}

pub(crate) async fn current(stack: &StackContext) -> Result<Snapshot> {
    reading!(stack, tip => current_snapshot(stack, &tip, &require_current(stack, &tip)?).await)
}

pub(crate) async fn current_id(stack: &StackContext) -> Result<RevisionId> {
    let (tip, _) = open::tip(stack).await?;
    require_current(stack, &tip)
}

pub(crate) async fn root_outputs(stack: &StackContext) -> Result<StackOutputs> {
    let snapshot = current(stack).await?;
    Ok(StackOutputs {
        values: snapshot.outputs,
        sensitive: snapshot.sensitive_outputs,
    })
}

pub(crate) async fn snapshot_meta(stack: &StackContext) -> Result<SnapshotMeta> {
    reading!(stack, tip => meta(stack, &tip, &require_current(stack, &tip)?).await)
}

/// The current revision with its metadata and content; none when nothing was committed yet.
pub(crate) async fn current_revision(stack: &StackContext) -> Result<Option<CurrentRevision>> {
    reading!(stack, tip => {
        let Some(revision) = tip.replayed.state.current().cloned() else {
            return Ok(None);
        };
        Ok(Some(CurrentRevision {
            snapshot: current_snapshot(stack, &tip, &revision).await?,
            meta: meta(stack, &tip, &revision).await?,
            revision,
        }))
    })
}

pub(crate) async fn snapshot(stack: &StackContext, revision: &RevisionId) -> Result<Snapshot> {
    reading!(stack, tip => history::snapshot(stack, &tip, revision).await)
}

/// All revisions, newest first.
pub(crate) async fn revisions(stack: &StackContext) -> Result<Vec<Revision>> {
    page(stack, None, usize::MAX).await
}

/// All revisions and the beginning of the history, of one moment.
pub(crate) async fn revision_list(stack: &StackContext) -> Result<RevisionList> {
    reading!(stack, tip => {
        let revisions = history::page(stack, &tip, None, usize::MAX).await?;
        let begins = tip.floor.0.as_ref().map(|collection| collection.serial);
        Ok(RevisionList::new(revisions, begins))
    })
}

pub(crate) async fn page(
    stack: &StackContext,
    before: Option<&RevisionId>,
    limit: usize,
) -> Result<Vec<Revision>> {
    reading!(stack, tip => history::page(stack, &tip, before, limit).await)
}

async fn current_snapshot(stack: &StackContext, tip: &Tip, revision: &RevisionId) -> Result<Snapshot> {
    let snapshot = history::snapshot(stack, tip, revision).await;
    snapshot.map_err(missing_of_current)
}

async fn meta(stack: &StackContext, tip: &Tip, revision: &RevisionId) -> Result<SnapshotMeta> {
    let document = history::document(stack, tip, revision).await;
    let version = match document.map_err(missing_of_current)?.into_value().made {
        RevisionRecord::UpdateEnd(mark) => mark.update.version,
        RevisionRecord::DetachedRevision(_) => String::new(),
    };
    Ok(SnapshotMeta {
        lineage: stack.lineage().to_string(),
        serial: revision.serial().get(),
        version,
    })
}

fn require_current(stack: &StackContext, tip: &Tip) -> Result<RevisionId> {
    let current = tip.replayed.state.current().cloned();
    current.ok_or_else(|| Error::NoCurrent {
        object: stack.object(),
    })
}

/// Reports a missing current revision as damage: the journal names it, so its document must exist.
fn missing_of_current(error: Error) -> Error {
    match error {
        Error::NotFound { object } => Error::corrupt(
            object,
            0,
            "it is the current revision, but its document is missing",
        ),
        other => other,
    }
}
