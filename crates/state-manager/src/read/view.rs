//! What readers of a stack ask for: its state at one moment, its current revision, its history.

use crate::context::StackContext;
use crate::objects::document::{Made, Revision};
use crate::read::history;
use crate::read::tip::{self, Tip, reading};
use state_core::mutation::StackOutputs;
use state_core::sealing::StackKey;
use state_core::{Error, Head, Result, RevisionId, Snapshot, SnapshotMeta, StackName, State, Timestamp};
use std::sync::Arc;

/// A stack at one moment.
#[derive(Clone, Debug)]
pub struct View {
    /// The state.
    pub state: Arc<State>,
    /// The head.
    pub head: Head,
    /// The stack's name.
    pub name: StackName,
    /// Whether it is known to be from those who have the stack's key.
    pub authenticity: Authenticity,
    /// How the store went back in time since this client [saw](crate::KnownStacks) the stack last. Writing to it is refused.
    pub regression: Option<String>,
    moment: Timestamp,
}

/// Whether what was read is from those who have the stack's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authenticity {
    /// The stack has no key: whoever can write to the store can write anything.
    None,
    /// There was no identity at hand to check it with. Damage would still have been seen.
    Unchecked,
    /// Head and journal were made with the key.
    Checked,
}

impl Authenticity {
    fn of(head: &Head, key: Option<&dyn StackKey>) -> Self {
        match (head.key_id, key) {
            (None, _) => Self::None,
            (Some(_), None) => Self::Unchecked,
            (Some(_), Some(_)) => Self::Checked,
        }
    }
}

impl View {
    /// The state as a snapshot, dated when the last thing in it was recorded.
    pub fn snapshot(&self) -> Snapshot {
        self.state.snapshot(self.name.to_string(), self.moment.clone())
    }

    /// The state as a snapshot, unless nothing was ever written.
    pub(crate) fn recorded(&self) -> Option<Snapshot> {
        self.moment().map(|_| self.snapshot())
    }

    /// When the last thing in it was recorded; none for a stack that was never written to.
    pub fn moment(&self) -> Option<&Timestamp> {
        Some(&self.moment).filter(|moment| !moment.as_str().is_empty())
    }

    /// Whether somebody is in the middle of an update, or died there.
    pub fn update_open(&self) -> bool {
        self.state.update().is_some()
    }

    /// Whether the state is known to say what the world is.
    pub fn is_reliable(&self) -> bool {
        self.state.is_reliable()
    }
}

/// The current revision with all that is known of it.
#[derive(Clone, Debug)]
pub(crate) struct CurrentRevision {
    pub(crate) revision: RevisionId,
    pub(crate) meta: SnapshotMeta,
    pub(crate) snapshot: Snapshot,
}

/// The state after the last acknowledged mutation.
pub(crate) async fn tip(stack: &StackContext) -> Result<View> {
    let (tip, regression) = tip::read(stack).await?;
    Ok(View {
        authenticity: Authenticity::of(&tip.head, tip.key.as_deref()),
        state: Arc::new(tip.replayed.state),
        head: tip.head,
        name: stack.name().clone(),
        regression,
        moment: tip.replayed.moment,
    })
}

pub(crate) async fn current(stack: &StackContext) -> Result<Snapshot> {
    reading!(stack, tip => current_snapshot(stack, &tip, &require_current(stack, &tip)?).await)
}

pub(crate) async fn current_id(stack: &StackContext) -> Result<RevisionId> {
    let (tip, _) = tip::read(stack).await?;
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

/// The current revision with all that is known of it; none when nothing was committed yet.
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
    let version = match document.map_err(missing_of_current)?.made {
        Made::UpdateEnd(mark) => mark.update.version,
        Made::DetachedRevision(_) => String::new(),
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

/// The journal names it as current, so something of it must be there.
fn missing_of_current(error: Error) -> Error {
    match error {
        Error::NotFound { object } => Error::corrupt(object, 0, "it is current and its document is missing"),
        other => other,
    }
}
