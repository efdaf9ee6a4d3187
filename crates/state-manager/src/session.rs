//! The writer lock of a stack: façade over the rooms that write, move and collect.
//!
//! | methods | room |
//! |---|---|
//! | `start_update`, `edit`, `resolve`, `import`, `rollback`, `write`, `delete`, `close`, … | [`write`](crate::write) |
//! | `move_to`, `settle_move`, `resolve_move` | [`transfer`](crate::transfer) |
//! | `collect` | [`gc`](crate::gc) |

use crate::gc::collect::{self, CollectionReport};
use crate::gc::retention::Retention;
use crate::intent::UpdateRequest;
use crate::stack::Stack;
use crate::transfer::moves::{self, MoveDone};
use crate::transfer::settling::{self, MoveSettled};
use crate::update::Update;
use crate::write::locked_stack::LockedStack;
use crate::write::spool::{self, BroughtBack, Spooled};
use crate::write::{edits, snapshots, steps};
use state_core::edits::MovePlan;
use state_core::journal::ResetCause;
use state_core::mutation::{EditChange, Resolution};
use state_core::{
    Epoch, MutationId, PendingOperation, Result, RevisionId, SharedEntry, Snapshot, State, UpdateKind,
};
use std::sync::Arc;

/// A stack that we may write to. Clones share the lock and the queue; [`Session::close`] ends all of them.
///
/// When every clone is dropped without a close, what is queued is still written and the lock is freed; only the
/// watermark that lets the next owner notice a cut journal is not.
#[derive(Clone, Debug)]
pub struct Session {
    stack: Stack,
    locked: LockedStack,
}

impl Session {
    /// The stack that is held.
    pub const fn stack(&self) -> &Stack {
        &self.stack
    }

    /// The state as last acknowledged.
    pub fn state(&self) -> Arc<State> {
        self.locked.state()
    }

    /// What the writer before left pending: to be resolved, never dropped.
    pub fn recovered(&self) -> &[PendingOperation] {
        &self.locked.recovered
    }

    /// The fencing token of this lock.
    pub fn epoch(&self) -> Epoch {
        self.locked.writer.epoch()
    }

    /// Whether the lock is still ours: to be asked before the world is touched.
    ///
    /// # Errors
    /// `Fenced` when it isn't.
    pub async fn check(&self) -> Result<()> {
        self.locked.writer.check().await
    }

    /// What became of a mutation; none when nobody remembers.
    pub fn lookup(&self, id: MutationId) -> Option<bool> {
        self.state().lookup(id)
    }

    /// An entry of [`Session::state`] with its values open. What was sealed with an earlier key than the stack's is
    /// none of this state's.
    ///
    /// # Errors
    /// `Sealed` when a value was changed in the store.
    pub fn reveal(&self, entry: &SharedEntry) -> Result<SharedEntry> {
        self.locked.seal.reveal(entry)
    }

    /// Starts an update: what is there becomes its base.
    ///
    /// # Errors
    /// `Integrity` when an update is open.
    pub async fn start_update(&self, request: UpdateRequest) -> Result<Update> {
        let id = steps::start(&self.locked, request, false).await?;
        Ok(Update::new(self.locked.clone(), id))
    }

    /// Changes entries by hand, as one revision. `expected` is the state that the changes were made for: its current
    /// revision must be current still.
    ///
    /// # Errors
    /// `Conflict` when another revision was made in the meantime; `Integrity` with every rule that the changes would
    /// break. Nothing is written then.
    pub async fn edit(
        &self,
        request: UpdateRequest,
        expected: &State,
        changes: Vec<EditChange>,
    ) -> Result<RevisionId> {
        edits::edit(&self.locked, request, expected, changes).await
    }

    /// Settles a pending operation by hand, as one revision. Whoever settles the last one has looked at the world: a
    /// mark that a writer left who died goes with it.
    ///
    /// # Errors
    /// `Integrity` when it isn't pending, or what is said to be there breaks a rule.
    pub async fn resolve(
        &self,
        request: UpdateRequest,
        id: MutationId,
        resolution: Resolution,
    ) -> Result<RevisionId> {
        edits::resolve(&self.locked, request, id, resolution).await
    }

    /// Says that the record is right, as one revision, when a writer died who had marked it as unreliable: after a look
    /// at the world.
    ///
    /// # Errors
    /// `Conflict` when nothing is marked, or operations are pending: those are settled one by one.
    pub async fn vouch(&self, request: UpdateRequest) -> Result<RevisionId> {
        edits::vouch(&self.locked, request).await
    }

    /// Records a result that waited in a file, as one revision.
    ///
    /// # Errors
    /// `Conflict` when it is of another stack; `NotFound` when its mutation isn't pending any more and nobody remembers
    /// it; `Integrity` when it breaks a rule; `Invalid` for a deletion that was done in part: look at the world, and
    /// resolve it by hand.
    pub async fn bring_back(&self, request: UpdateRequest, spooled: &Spooled) -> Result<BroughtBack> {
        spool::bring_back(&self.locked, request, spooled).await
    }

    /// Replaces all entries by those of a snapshot from elsewhere, as one revision. Entries that come without a
    /// uid keep the one that was there before under the same key, and with the same id; pending operations stay.
    ///
    /// `foreign` is the system that it came from and its serial there. What is pending in a snapshot of another system is
    /// pending here from then on.
    ///
    /// # Errors
    /// `Integrity` with all violations when the snapshot breaks a rule: nothing is written.
    pub async fn import(
        &self,
        request: UpdateRequest,
        snapshot: Snapshot,
        foreign: Option<(String, u64)>,
    ) -> Result<RevisionId> {
        let cause = ResetCause::Import { foreign };
        snapshots::replace(&self.locked, request, snapshot, cause, None).await
    }

    /// As [`Session::import`], but only while this revision (none: none at all) is still the current one.
    ///
    /// # Errors
    /// `Conflict` when it isn't: nothing is written that anyone could see.
    pub async fn import_onto(
        &self,
        request: UpdateRequest,
        snapshot: Snapshot,
        parent: Option<&RevisionId>,
    ) -> Result<RevisionId> {
        let cause = ResetCause::Import { foreign: None };
        let parent = Some(parent.cloned());
        snapshots::replace(&self.locked, request, snapshot, cause, parent).await
    }

    /// Replaces all entries, the outputs and the header by those of a snapshot that a person edited or repaired, as one
    /// revision. Entries that were there before under the same key, and with the same id, keep their uid; pending
    /// operations stay.
    ///
    /// # Errors
    /// `Integrity` with all violations when the snapshot breaks a rule: nothing is written.
    pub async fn replace_entries(&self, request: UpdateRequest, snapshot: Snapshot) -> Result<RevisionId> {
        snapshots::replace(&self.locked, request, snapshot, ResetCause::Edit, None).await
    }

    /// Brings back what a revision holds, as a new revision on top of the current one.
    ///
    /// # Errors
    /// `NotFound` when there is no such revision; `Conflict` while operations are pending, and when the request isn't
    /// forced and takes back a move on this side only: see [`Stack::crossed_moves`].
    pub async fn rollback(&self, request: UpdateRequest, to: &RevisionId) -> Result<RevisionId> {
        snapshots::rollback(&self.locked, request, to).await
    }

    /// Makes a stored or earlier revision current: seed 003's `SetCurrent`. The new revision comes back.
    ///
    /// # Errors
    /// As [`Session::rollback`].
    pub async fn set_current(&self, to: &RevisionId) -> Result<RevisionId> {
        self.rollback(UpdateRequest::new(UpdateKind::Restore), to).await
    }

    /// The revision that [`Session::undo`] brings back: the one from which the update began that made the current one.
    ///
    /// # Errors
    /// `NoCurrent` when there is no current revision; `Conflict` when it is the first one.
    pub async fn before_current(&self) -> Result<RevisionId> {
        edits::before_current(&self.locked.stack, &self.state()).await
    }

    /// Takes back what made the current revision: the revision before it comes back, as a new one on top. So undoing an
    /// undo redoes.
    ///
    /// # Errors
    /// As [`Session::before_current`] and [`Session::rollback`].
    pub async fn undo(&self, message: String) -> Result<RevisionId> {
        let before = self.before_current().await?;
        let request = UpdateRequest::new(UpdateKind::Rollback).with_message(message);
        self.rollback(request, &before).await
    }

    /// Stores a snapshot as a revision that isn't current: seed 003's `Write`.
    ///
    /// # Errors
    /// `Integrity` with all violations when the snapshot breaks a rule.
    pub async fn write(&self, snapshot: Snapshot) -> Result<RevisionId> {
        snapshots::write(&self.locked, snapshot).await
    }

    /// Forgets a revision. One that isn't there, or not any more, is fine (seed 003).
    ///
    /// # Errors
    /// `Conflict` for the current revision.
    pub async fn delete(&self, revision: &RevisionId) -> Result<()> {
        edits::delete(&self.locked, revision).await
    }

    /// Moves entries to another stack of the same store, which is held too: one revision on each side. The revision of
    /// the source is the commit point. What is cut short before it never happened; what is cut short behind it is
    /// finished when one of the two stacks is locked again.
    ///
    /// Locks are taken by [`Stacks::lock_both`](crate::Stacks::lock_both), so that two moves can't wait for each other.
    ///
    /// # Errors
    /// `Conflict` when one of the stacks has another revision than the plan was made for, `Integrity` with every rule
    /// that would be broken, `Invalid` when it is too much for one move, `Sealed`
    /// when values can't be sealed anew for the destination: nothing moved. `Indeterminate` with the id of
    /// the move when nobody can say yet on which side the entries are, or when they left the source and the
    /// destination couldn't take them in: they wait there, and come in when it is locked again.
    ///
    /// # Cancellation
    /// A future that is dropped is a move that is cut short.
    pub async fn move_to(
        &self,
        destination: &Self,
        request: UpdateRequest,
        plan: &MovePlan,
    ) -> Result<MoveDone> {
        moves::move_to(&self.locked, &destination.locked, request, plan).await
    }

    /// Settles a move whose entries wait at this stack, as its source says. Every lock of a stack does so with all of
    /// its moves, as far as the other stacks can be asked.
    ///
    /// # Errors
    /// `NotFound` when nothing waits for this move; `Locked` while somebody writes to the source and may still let the
    /// entries go; `Integrity` when the stack has no room for them any more; whatever keeps the source from being read.
    /// The entries wait on.
    pub async fn settle_move(&self, id: MutationId) -> Result<MoveSettled> {
        settling::settle_move(&self.locked, id).await
    }

    /// Settles a move whose entries wait at this stack by hand, for who knows better than a source that can't be read
    /// any more: either they left it, and arrive; or they never did.
    ///
    /// # Errors
    /// `Conflict` when the source can be read: then it says what is true, and [`Session::settle_move`] does it.
    pub async fn resolve_move(&self, id: MutationId, left: bool) -> Result<MoveSettled> {
        settling::resolve_move(&self.locked, id, left).await
    }

    /// Drops the revisions that retention doesn't ask for, and deletes what was dropped a grace ago. Reads the whole
    /// history. Imports and writes of other handles wait meanwhile.
    ///
    /// It may be called again after any failure: what was dropped stays dropped, and the rest is deleted then.
    ///
    /// # Errors
    /// `Unsupported` by a store that can't delete; `Corrupt` when stored bytes are damaged; `Fenced`.
    ///
    /// # Cancellation
    /// As a failure.
    pub async fn collect(&self, retention: &Retention) -> Result<CollectionReport> {
        collect::collect(&self.locked, retention).await
    }

    /// Writes what is queued, closes the journal with a watermark and frees the lock.
    ///
    /// # Errors
    /// What kept the last batch, or the log of an update, from being written. The lock is freed in any case.
    pub async fn close(self) -> Result<()> {
        self.locked.close().await
    }
}

impl Session {
    /// Starts an update that marks the stack as unreliable at once.
    pub(crate) async fn start_unreliable_update(&self, request: UpdateRequest) -> Result<Update> {
        let id = steps::start(&self.locked, request, true).await?;
        Ok(Update::new(self.locked.clone(), id))
    }

    pub(crate) fn of(locked: LockedStack) -> Self {
        Self {
            stack: Stack::of(locked.stack.clone()),
            locked,
        }
    }

    pub(crate) fn into_locked(self) -> LockedStack {
        self.locked
    }
}
