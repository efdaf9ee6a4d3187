//! Queries of readers: the state at one moment, the current revision, the history.
//!
//! A [`View`] was read once, and all of its queries answer from that moment: they read only the objects that the view
//! doesn't have yet. So a caller with several questions sends each request once, and gets answers that fit together.

use crate::context::StackContext;
use crate::keys::authenticate::Authenticated;
use crate::keys::reveal;
use crate::objects::document::{Revision, RevisionKind, RevisionRecord};
use crate::read::blame::{self, Blame};
use crate::read::history::{self, Revisions};
use crate::read::open;
use crate::read::retrying::reading;
use crate::read::revision_lookup;
use crate::read::revision_spec::{self, RevisionSpec, UnresolvedRevision};
use crate::read::revision_state;
use crate::read::rollback_guard::{self, CrossedMove};
use crate::read::tip::Tip;
use crate::read::trail::Trail;
use crate::standing::{Authenticity, Standing};
use state_core::mutation::StackOutputs;
use state_core::{
    Address, EntryKey, Error, Head, Result, RevisionId, Serial, Snapshot, SnapshotMeta, StackName, State,
    Timestamp, UpdateKind,
};
use std::sync::Arc;
use std::time::Duration;

/// A stack as it was at one moment.
///
/// The queries answer for that moment, with one exception: if a collection replaced the history since, a query of the
/// history starts over with the present one.
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
    stack: StackContext,
    tip: Arc<Tip>,
    /// The time of the client's clock before the stack was read.
    read_at: Duration,
    is_rebuilt: bool,
}

impl View {
    /// The view of a stack that was opened.
    pub(crate) fn new(stack: StackContext, tip: Arc<Tip>, standing: Standing, read_at: Duration) -> Self {
        Self {
            state: Arc::clone(&tip.replayed.state),
            head: Head::clone(&tip.head),
            name: stack.name().clone(),
            authenticity: standing.authenticity,
            regression: standing.regression,
            stack,
            tip,
            read_at,
            is_rebuilt: false,
        }
    }

    /// The view of a stack that was rebuilt from what is intact.
    #[cfg(feature = "fs")]
    pub(crate) fn rebuilt(self) -> Self {
        Self {
            is_rebuilt: true,
            ..self
        }
    }

    /// Whether the stack is damaged, and was rebuilt in memory from what is intact. Its history may begin later than that of the
    /// stack, as if earlier revisions had been collected.
    pub const fn is_rebuilt(&self) -> bool {
        self.is_rebuilt
    }

    pub(super) fn tip(&self) -> &Tip {
        &self.tip
    }

    pub(crate) fn opened_head(&self) -> &Authenticated<Head> {
        &self.tip.head
    }

    pub(crate) const fn read_at(&self) -> Duration {
        self.read_at
    }

    pub(crate) const fn context(&self) -> &StackContext {
        &self.stack
    }

    /// The state as a snapshot, dated by [`Self::moment`].
    pub fn snapshot(&self) -> Snapshot {
        self.state.snapshot(self.name.to_string(), self.dated().clone())
    }

    /// The state as a snapshot; none if nothing was ever written.
    pub(crate) fn recorded(&self) -> Option<Snapshot> {
        self.moment().map(|_| self.snapshot())
    }

    /// Start of the open update, or else the time of the last update end; none for a stack that was never written to.
    pub fn moment(&self) -> Option<&Timestamp> {
        Some(self.dated()).filter(|moment| !moment.as_str().is_empty())
    }

    fn dated(&self) -> &Timestamp {
        &self.tip.replayed.moment
    }

    /// Whether an update is open, because its writer is working or has crashed.
    pub fn update_open(&self) -> bool {
        self.state.update().is_some()
    }

    /// Whether the state is known to match the real resources.
    pub fn is_reliable(&self) -> bool {
        self.state.is_reliable()
    }

    /// A copy of a snapshot of this stack with all sealed values opened.
    ///
    /// # Errors
    /// As [`Stack::reveal`](crate::Stack::reveal).
    pub async fn reveal(&self, snapshot: Snapshot) -> Result<Snapshot> {
        Box::pin(reveal::reveal(&self.stack, &self.tip.head, snapshot)).await
    }

    /// As [`Self::reveal`]. If no available identity opens a key with which values are sealed, returns the snapshot
    /// unchanged, together with the error that [`Self::reveal`] would return.
    ///
    /// # Errors
    /// `Sealed` when a value was altered or copied from another entry.
    pub async fn reveal_if_possible(&self, snapshot: Snapshot) -> Result<(Snapshot, Option<Error>)> {
        Box::pin(reveal::reveal_if_possible(&self.stack, &self.tip.head, snapshot)).await
    }

    /// The id of the current revision.
    ///
    /// # Errors
    /// `NoCurrent` when nothing was committed yet.
    pub fn current_rev(&self) -> Result<RevisionId> {
        require_current(&self.stack, &self.tip)
    }

    /// The content of the current revision.
    ///
    /// # Errors
    /// `NoCurrent` when nothing was committed yet; `Corrupt` when the revision can't be read.
    pub async fn current(&self) -> Result<Snapshot> {
        let stack = &self.stack;
        reading!(stack, &self.tip, tip => current_snapshot(stack, &tip, &require_current(stack, &tip)?).await)
    }

    /// The outputs of the current revision.
    pub(crate) async fn root_outputs(&self) -> Result<StackOutputs> {
        let snapshot = self.current().await?;
        Ok(StackOutputs {
            values: snapshot.outputs,
            sensitive: snapshot.sensitive_outputs,
        })
    }

    /// Lineage and serial of the current revision.
    pub(crate) async fn snapshot_meta(&self) -> Result<SnapshotMeta> {
        let stack = &self.stack;
        reading!(stack, &self.tip, tip => meta(stack, &tip, &require_current(stack, &tip)?).await)
    }

    /// The current revision with its metadata and content; none when nothing was committed yet.
    pub(crate) async fn current_revision(&self) -> Result<Option<CurrentRevision>> {
        let stack = &self.stack;
        reading!(stack, &self.tip, tip => {
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

    /// The content of a revision.
    ///
    /// # Errors
    /// `NotFound` when the revision doesn't exist or was deleted; `Collected` when a collection deleted it; `Corrupt`
    /// when stored bytes are damaged.
    pub async fn get(&self, revision: &RevisionId) -> Result<Snapshot> {
        let stack = &self.stack;
        reading!(stack, &self.tip, tip => revision_state::snapshot(stack, &tip, revision).await)
    }

    /// The content of the revision `to`, for a rollback to it.
    ///
    /// # Errors
    /// As [`Self::get`]; `Conflict` if the rollback would revert a move between stacks in this stack but not in the other
    /// one, unless `forced`.
    pub(crate) async fn restorable(&self, to: &RevisionId, forced: bool) -> Result<Snapshot> {
        let stack = &self.stack;
        reading!(stack, &self.tip, tip => {
            let then = revision_state::snapshot(stack, &tip, to).await?;
            if !forced {
                rollback_guard::refuse(stack, &tip, to, &then).await?;
            }
            Ok(then)
        })
    }

    /// The update or write that made a revision.
    ///
    /// # Errors
    /// `NotFound` when the revision doesn't exist or was deleted; `Collected` when a collection deleted it; `Corrupt`
    /// when stored bytes are damaged.
    pub async fn revision(&self, revision: &RevisionId) -> Result<Revision> {
        let stack = &self.stack;
        reading!(stack, &self.tip, tip => {
            let document = revision_lookup::document(stack, &tip, revision).await?.into_value();
            Ok(document.into_revision(tip.replayed.state.current()))
        })
    }

    /// The revision that an undo restores: the parent of the current revision.
    ///
    /// # Errors
    /// `NoCurrent` when there is no current revision; `Conflict` when the current revision is the first one, or changed
    /// the data key or the recipients; those of [`Self::revision`].
    pub async fn before_current(&self) -> Result<RevisionId> {
        let (current, object) = (self.current_rev()?, self.stack.object());
        match self.revision(&current).await?.kind {
            // The data key and the recipients are in the head, not in the state, so restoring a state doesn't restore
            // them.
            RevisionKind::Update(info) if info.kind == UpdateKind::Rekey => {
                let what = match info.message.is_empty() {
                    true => String::new(),
                    false => format!(" ({})", info.message),
                };
                let reason = format!(
                    "its current revision changed the data key or the recipients{what}, which can't be undone"
                );
                Err(Error::conflict(object, reason))
            }
            RevisionKind::Update(info) => info.parent.ok_or_else(|| {
                Error::conflict(object, "its current revision is the first one: nothing to undo")
            }),
            RevisionKind::Detached => Err(Error::not_found(format!("revision {current}"))),
        }
    }

    /// The revisions, newest first, read one at a time.
    pub fn revisions(&self) -> Revisions {
        Revisions::of(&self.stack, &self.tip)
    }

    /// At most `limit` revisions that are older than `before`, newest first; without `before`, from the newest one on.
    ///
    /// # Errors
    /// `Corrupt` when stored bytes are damaged.
    pub async fn history_page(&self, before: Option<&RevisionId>, limit: usize) -> Result<Vec<Revision>> {
        let stack = &self.stack;
        reading!(stack, &self.tip, tip => history::page(stack, &tip, before, limit).await)
    }

    /// All revisions, newest first.
    ///
    /// # Errors
    /// `Corrupt` when stored bytes are damaged.
    pub async fn history(&self) -> Result<Vec<Revision>> {
        self.history_page(None, usize::MAX).await
    }

    /// The first serial of the history after the last collection; none if nothing was collected.
    pub fn collected_before(&self) -> Option<Serial> {
        self.head.collection.as_ref().map(|collection| collection.serial)
    }

    /// The revision that a specification matches, such as `@-`, a serial or the beginning of an id. Reads only the part of
    /// the history that may match. The inner result has the reason why no revision, or not exactly one, matches.
    ///
    /// # Errors
    /// `Corrupt` when stored bytes are damaged.
    pub async fn resolve(
        &self,
        spec: &RevisionSpec,
    ) -> Result<std::result::Result<RevisionId, UnresolvedRevision>> {
        let stack = &self.stack;
        reading!(stack, &self.tip, tip => revision_spec::resolve(stack, &tip, spec).await)
    }

    /// The update before the current revision; none when the current one is the first. As [`Self::resolve`].
    ///
    /// # Errors
    /// As [`Self::resolve`].
    pub async fn previous_update(
        &self,
    ) -> Result<std::result::Result<Option<RevisionId>, UnresolvedRevision>> {
        Ok(match self.resolve(&RevisionSpec::previous()).await? {
            Err(UnresolvedRevision::Missing { .. }) => Ok(None),
            found => found.map(Some),
        })
    }

    /// The revision that last set each property of a resource, in the state or in a given revision. Follows the
    /// resource through renames. Reads only as many revisions as are needed to attribute all properties.
    ///
    /// # Errors
    /// `NotFound` when the revision doesn't exist, or the resource isn't in it.
    pub async fn blame(&self, address: &Address, at: Option<&RevisionId>) -> Result<Blame> {
        let stack = &self.stack;
        reading!(stack, &self.tip, tip => blame::blame(stack, &tip, address, at).await)
    }

    /// The revisions that changed a resource, newest first, at most `limit`. Follows the resource back through renames, and
    /// includes former resources of its address.
    ///
    /// # Errors
    /// `Corrupt` when stored bytes are damaged.
    pub async fn resource_history(&self, address: &Address, limit: usize) -> Result<Vec<Revision>> {
        let stack = &self.stack;
        reading!(stack, &self.tip, tip => resource_history(stack, &tip, address, limit).await)
    }

    /// The moves between stacks that a rollback to the revision `to` would revert in this stack but not in the other
    /// one, newest first.
    ///
    /// # Errors
    /// `NotFound` when the revision doesn't exist.
    pub async fn crossed_moves(&self, to: &RevisionId) -> Result<Vec<CrossedMove>> {
        let stack = &self.stack;
        reading!(stack, &self.tip, tip => rollback_guard::crossed_moves(stack, &tip, to).await)
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
    let read_at = stack.environment().clock.elapsed();
    let (tip, standing) = open::tip(stack).await?;
    Ok(View::new(stack.clone(), Arc::new(tip), standing, read_at))
}

async fn resource_history(
    stack: &StackContext,
    tip: &Tip,
    address: &Address,
    limit: usize,
) -> Result<Vec<Revision>> {
    let present = tip.replayed.state.generations(address).next();
    let mut trail = match present {
        Some(entry) => Trail::of_entry(stack, tip, entry),
        None => Trail::of_former(stack, tip, EntryKey::live(address.clone())),
    };
    trail.since_newest().await?;
    let mut changed = Vec::new();
    while changed.len() < limit
        && let Some((revision, _)) = trail.next_change().await?
    {
        changed.push(revision);
    }
    Ok(changed)
}

async fn current_snapshot(stack: &StackContext, tip: &Tip, revision: &RevisionId) -> Result<Snapshot> {
    let snapshot = revision_state::snapshot(stack, tip, revision).await;
    snapshot.map_err(missing_of_current)
}

async fn meta(stack: &StackContext, tip: &Tip, revision: &RevisionId) -> Result<SnapshotMeta> {
    let document = revision_lookup::document(stack, tip, revision).await;
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
