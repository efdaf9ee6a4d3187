//! The writer lock of a stack: façade over the modules that write, move and collect.
//!
//! | methods | module |
//! |---|---|
//! | `start_update`, `edit`, `resolve`, `import`, `rollback`, `write`, `delete`, `close`, … | [`write`](crate::write) |
//! | `move_to`, `settle_move`, `resolve_move` | [`transfer`](crate::transfer) |
//! | `collect` | [`gc`](crate::gc) |

use crate::gc::collect::{self, CollectionReport};
use crate::gc::retention::Retention;
use crate::intent::UpdateRequest;
use crate::keys::reveal;
use crate::objects::spooled_result::SpooledResult;
use crate::read::view::View;
use crate::stack::Stack;
use crate::transfer::moves::{self, MoveReport};
use crate::transfer::settling::{self, MoveSettlement};
use crate::update::Update;
use crate::write::locked_stack::LockedStack;
use crate::write::spool::{self, SpoolOutcome, SpoolPlacement};
use crate::write::{edits, snapshots, steps};
use state_core::edits::MovePlan;
use state_core::head::SealingPolicy;
use state_core::journal::ResetCause;
use state_core::mutation::{EditChange, Resolution, StackOutputs};
use state_core::{
    Crypter, Epoch, MutationId, PendingOperation, Result, RevisionId, SharedEntry, Snapshot, State,
    UpdateKind,
};
use std::sync::Arc;

/// A stack whose writer lock this process holds. Clones share the lock and the queue; [`Session::close`] ends all of
/// them.
///
/// If every clone is dropped without a close, queued work is still written. The watermark is missing then: the recorded
/// end of the journal, by which readers detect that the journal was truncated. The lock is released at once only in a
/// store whose [`Capabilities`](state_core::backend::Capabilities) include `frees_lock_on_crash`. In any other store it
/// is held until its lease expires, or until it is broken if its lease doesn't expire.
#[derive(Clone, Debug)]
pub struct Session {
    stack: Stack,
    locked: LockedStack,
}

impl Session {
    /// The stack that is locked.
    pub const fn stack(&self) -> &Stack {
        &self.stack
    }

    /// The stack after the last acknowledged job, for queries about its history. The first call before the first change
    /// needs no further read of head and journal.
    ///
    /// # Errors
    /// As [`Stack::tip`].
    pub async fn view(&self) -> Result<View> {
        Box::pin(self.locked.view()).await
    }

    /// As [`Stack::crypter`], with the key of this session.
    ///
    /// # Errors
    /// `Sealed` when the stack has no data key, or no available identity opens it.
    pub async fn crypter(&self) -> Result<Arc<dyn Crypter>> {
        match self.stack.configured_crypter()? {
            Some(crypter) => Ok(crypter),
            None => Box::pin(reveal::crypter(&self.locked.stack, &self.locked.head.opened())).await,
        }
    }

    /// As [`Stack::reveal`], with the key of this session.
    ///
    /// # Errors
    /// As [`Stack::reveal`].
    pub async fn reveal_snapshot(&self, snapshot: Snapshot) -> Result<Snapshot> {
        Box::pin(reveal::reveal(
            &self.locked.stack,
            &self.locked.head.current(),
            snapshot,
        ))
        .await
    }

    /// The state after the last acknowledged job.
    pub fn state(&self) -> Arc<State> {
        self.locked.state()
    }

    /// The operations that were pending when this session took the lock. They stay pending until they are resolved, for
    /// example with [`Session::resolve`].
    pub fn recovered(&self) -> &[PendingOperation] {
        &self.locked.recovered
    }

    /// Whether the stack has a data key, so that secret values are stored sealed.
    pub fn is_sealed(&self) -> bool {
        self.locked.seal.key().is_some()
    }

    /// The sealing policy of the stack: which values are stored encrypted.
    pub fn policy(&self) -> SealingPolicy {
        self.locked.head.current().policy
    }

    /// The epoch of this lock. Each new lock holder gets a higher epoch, and the store refuses writes at a lower one.
    pub fn epoch(&self) -> Epoch {
        self.locked.writer.epoch()
    }

    /// Asks the store whether this session still holds the lock.
    ///
    /// # Errors
    /// `Fenced` when another writer has taken the lock.
    pub async fn check(&self) -> Result<()> {
        self.locked.writer.check().await
    }

    /// As [`Self::check`], without asking the store as long as this session surely holds its lease. Call it before
    /// changing real resources, after the intent was recorded ([`Update::begin`]): recording fails when another writer has
    /// taken the lock, so only a lock that was broken since isn't noticed.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub async fn check_held(&self) -> Result<()> {
        self.locked.writer.check_held().await
    }

    /// The outcome of a mutation: `Some(true)` if it took effect, `Some(false)` if not. `None` if it is pending,
    /// unknown, or too old to be remembered.
    pub fn lookup(&self, id: MutationId) -> Option<bool> {
        self.state().lookup(id)
    }

    /// An entry of [`Session::state`] with its values decrypted. All values of this state are sealed with the stack's
    /// present key, so earlier keys are not tried.
    ///
    /// # Errors
    /// `Sealed` when a value can't be decrypted, because it was altered in the store.
    pub fn reveal(&self, entry: &SharedEntry) -> Result<SharedEntry> {
        self.locked.seal.reveal(entry)
    }

    /// Starts an update. The current state is its base.
    ///
    /// # Errors
    /// `Integrity` when an update is already open.
    pub async fn start_update(&self, request: UpdateRequest) -> Result<Update> {
        let id = steps::start(&self.locked, request, false).await?;
        Ok(Update::new(self.locked.clone(), id))
    }

    /// Changes resources by hand, as one revision. `expected` is the state for which the changes were made: its current
    /// revision must still be the current one.
    ///
    /// # Errors
    /// `Conflict` when another revision was made in the meantime; `Integrity` with every rule that the changes would
    /// break. After these errors the stack is unchanged.
    pub async fn edit(
        &self,
        request: UpdateRequest,
        expected: &State,
        changes: Vec<EditChange>,
    ) -> Result<RevisionId> {
        edits::edit(&self.locked, request, expected, changes).await
    }

    /// Records the changes that another system made to resources and outputs, as one revision whose size depends on the changes
    /// only. `outputs` replaces all outputs of the stack; none leaves them. `expected` is the state for which the changes were
    /// computed: its current revision must still be the current one. An entry without a uid gets a new one.
    ///
    /// # Errors
    /// Those of [`Session::edit`]: a conflict if another revision was made meanwhile; then nothing is recorded.
    pub async fn record_changes(
        &self,
        request: UpdateRequest,
        expected: &State,
        changes: Vec<EditChange>,
        outputs: Option<StackOutputs>,
    ) -> Result<RevisionId> {
        Box::pin(edits::record_changes(
            &self.locked,
            request,
            expected,
            changes,
            outputs,
        ))
        .await
    }

    /// Resolves a pending operation by hand, as one revision. Resolving the last pending operation also clears the
    /// unreliable mark of a writer that crashed, because the operator has then checked the real resources.
    ///
    /// # Errors
    /// `Integrity` when the operation isn't pending, or when the resulting resource breaks a rule.
    pub async fn resolve(
        &self,
        request: UpdateRequest,
        id: MutationId,
        resolution: Resolution,
    ) -> Result<RevisionId> {
        edits::resolve(&self.locked, request, id, resolution).await
    }

    /// Confirms, as one revision, that the state matches the real resources although a crashed writer had marked it as
    /// unreliable. Call it only after checking the resources.
    ///
    /// # Errors
    /// `Conflict` when the stack isn't marked, or when operations are pending: resolve those one by one.
    pub async fn mark_reliable(&self, request: UpdateRequest) -> Result<RevisionId> {
        edits::mark_reliable(&self.locked, request).await
    }

    /// Records, as one revision, a provider result that was saved in a spool file because the store was unavailable.
    /// See [`Stacks::with_spool`](crate::Stacks::with_spool).
    ///
    /// # Errors
    /// `Conflict` when the result belongs to another stack; `Distrusted` when the stack is sealed and the file wasn't
    /// written by a session of this stack; `NotFound` when the mutation is neither pending nor remembered; `Integrity`
    /// when the result breaks a rule; `Invalid` for a deletion that was partly done: check the resource and resolve the
    /// operation by hand.
    pub async fn record_spooled(
        &self,
        request: UpdateRequest,
        spooled: &SpooledResult,
    ) -> Result<SpoolOutcome> {
        spool::record_spooled(&self.locked, request, spooled).await
    }

    /// Records, as one revision, the resource of a spooled result whose operation was settled otherwise
    /// ([`SpoolOutcome::Conflict`]). References to resources that don't exist any more are dropped.
    ///
    /// # Errors
    /// As [`Session::record_spooled`]; `Conflict` when the operation is pending, when the result contains no resource, and
    /// when another entry describes the resource or has its key.
    pub async fn record_spooled_resource(
        &self,
        request: UpdateRequest,
        spooled: &SpooledResult,
        placement: SpoolPlacement,
    ) -> Result<RevisionId> {
        spool::record_resource(&self.locked, request, spooled, placement).await
    }

    /// Replaces all resources by those of a snapshot, as one revision. A resource without a uid gets the uid of the
    /// present resource with the same key and the same id, or a new one. The stack's pending operations stay.
    ///
    /// `foreign` names the other system from which the snapshot was exported, and the snapshot's serial in that system.
    /// Operations that are pending in such a snapshot become pending in this stack. With `None`, the pending operations
    /// of the snapshot are dropped.
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

    /// As [`Session::import`] without `foreign`, but only while `parent` is still the current revision. `None` as
    /// `parent` requires that the stack has no current revision.
    ///
    /// # Errors
    /// `Conflict` when another revision is current: then no reader sees anything of the snapshot. Also as
    /// [`Session::import`].
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

    /// Replaces all resources, the outputs and the header by those of a snapshot that was edited or repaired by hand,
    /// as one revision. A resource without a uid gets the uid of the present resource with the same key and the same
    /// id, or a new one. The stack's pending operations stay.
    ///
    /// # Errors
    /// `Integrity` with all violations when the snapshot breaks a rule: nothing is written.
    pub async fn replace_entries(&self, request: UpdateRequest, snapshot: Snapshot) -> Result<RevisionId> {
        snapshots::replace(&self.locked, request, snapshot, ResetCause::Edit, None).await
    }

    /// As [`Session::replace_entries`], and also replaces the resources of the pending operations by those of the
    /// snapshot. The operations stay pending. `expected` is the state from which the snapshot was made: its current
    /// revision must still be the current one.
    ///
    /// # Errors
    /// `Conflict` when another revision was made in the meantime, or when the snapshot has other pending operations than
    /// the state; `Integrity` with all violations when the snapshot breaks a rule. After these errors the stack is
    /// unchanged.
    pub async fn replace_with_pending(
        &self,
        request: UpdateRequest,
        expected: &State,
        snapshot: Snapshot,
    ) -> Result<RevisionId> {
        snapshots::replace_with_pending(&self.locked, request, expected, snapshot).await
    }

    /// Restores the content of a revision, as a new revision on top of the current one. Values that are marked as
    /// secret now stay marked: see [`keep_marks`](state_core::sensitive::keep_marks).
    ///
    /// # Errors
    /// `NotFound` when the revision doesn't exist; `Conflict` while operations are pending. Also `Conflict` when the
    /// rollback would revert a move in this stack but not in the other one, unless the request is forced: see
    /// [`View::crossed_moves`].
    pub async fn rollback(&self, request: UpdateRequest, to: &RevisionId) -> Result<RevisionId> {
        snapshots::rollback(&self.locked, request, to).await
    }

    /// Makes the content of an earlier or detached revision current, as a new revision, which is returned.
    ///
    /// # Errors
    /// As [`Session::rollback`].
    pub async fn set_current(&self, to: &RevisionId) -> Result<RevisionId> {
        self.rollback(UpdateRequest::new(UpdateKind::Restore), to).await
    }

    /// The revision that [`Session::undo`] restores: the parent of the current revision.
    ///
    /// # Errors
    /// `NoCurrent` when there is no current revision; `Conflict` when the current revision is the first one, or changed
    /// the data key or the recipients.
    pub async fn before_current(&self) -> Result<RevisionId> {
        self.view().await?.before_current().await
    }

    /// Reverts the current revision: restores the content of the revision before it, as a new revision on top. A second
    /// undo therefore restores the content that the first undo reverted.
    ///
    /// # Errors
    /// As [`Session::before_current`] and [`Session::rollback`].
    pub async fn undo(&self, message: String) -> Result<RevisionId> {
        let before = self.before_current().await?;
        let request = UpdateRequest::new(UpdateKind::Rollback).with_message(message);
        self.rollback(request, &before).await
    }

    /// Stores a snapshot as a revision that isn't current.
    ///
    /// # Errors
    /// `Integrity` with all violations when the snapshot breaks a rule.
    pub async fn write(&self, snapshot: Snapshot) -> Result<RevisionId> {
        snapshots::write(&self.locked, snapshot).await
    }

    /// Deletes a revision from the history. Succeeds without effect if the revision doesn't exist.
    ///
    /// # Errors
    /// `Conflict` for the current revision.
    pub async fn delete(&self, revision: &RevisionId) -> Result<()> {
        edits::delete(&self.locked, revision).await
    }

    /// Moves resources from this stack to another locked stack of the same store, as one revision in each stack. The
    /// revision of this stack, the source, is the commit point. A move that is interrupted before the commit point has
    /// no effect. A move that is interrupted later is completed when one of the two stacks is locked again.
    ///
    /// Lock the stacks with [`Stacks::lock_both`](crate::Stacks::lock_both), so that two moves can't deadlock.
    ///
    /// # Errors
    /// `Conflict` when one of the stacks has another revision than the plan was made for, `Integrity` with every rule
    /// that would be broken, `Invalid` when the resources are too large for one move, `Sealed` when values can't be
    /// sealed for the destination: after these errors nothing has moved. `Indeterminate` with the id of the move when
    /// it isn't known yet whether the source committed the move. Also `Indeterminate` when the resources left the
    /// source and the destination couldn't record them: then they wait at the destination until it is locked again.
    ///
    /// # Cancellation
    /// A future that is dropped interrupts the move.
    pub async fn move_to(
        &self,
        destination: &Self,
        request: UpdateRequest,
        plan: &MovePlan,
    ) -> Result<MoveReport> {
        moves::move_to(&self.locked, &destination.locked, request, plan).await
    }

    /// Settles a move whose resources wait at this stack, according to the state of its source. Taking the lock of a
    /// stack settles all of its moves, as far as the other stacks can be read.
    ///
    /// # Errors
    /// `NotFound` when no resources of this move wait here; `Locked` while another writer holds the source and may
    /// still commit the move; `Integrity` when the resources no longer fit this stack; any error of reading the source.
    /// After an error the resources keep waiting.
    pub async fn settle_move(&self, id: MutationId) -> Result<MoveSettlement> {
        settling::settle_move(&self.locked, id).await
    }

    /// Settles by hand a move whose resources wait at this stack, when its source can't be read any more. `left` states
    /// whether the resources left the source: if so, they become resources of this stack, otherwise this stack discards
    /// them.
    ///
    /// # Errors
    /// `NotFound` when no resources of this move wait here; `Conflict` when the source can be read: then use
    /// [`Session::settle_move`], which reads the outcome from the source.
    pub async fn resolve_move(&self, id: MutationId, left: bool) -> Result<MoveSettlement> {
        settling::resolve_move(&self.locked, id, left).await
    }

    /// Drops the revisions that the retention doesn't keep: readers no longer see them. Deletes the objects of
    /// revisions that an earlier call dropped, once their grace period has passed. Reads the whole history. Imports,
    /// rollbacks and [`Session::write`] through clones of this session wait meanwhile.
    ///
    /// After a failure call `collect` again: dropped revisions stay dropped, and the next call deletes the rest.
    ///
    /// # Errors
    /// `Unsupported` by a store that can't delete; `Corrupt` when stored bytes are damaged; `Fenced` when another
    /// writer has taken the lock.
    ///
    /// # Cancellation
    /// A dropped future has the same effect as a failure.
    pub async fn collect(&self, retention: &Retention) -> Result<CollectionReport> {
        collect::collect(&self.locked, retention).await
    }

    /// Writes all queued jobs, closes the journal with a watermark and releases the lock.
    ///
    /// # Errors
    /// The error of the last batch, of storing an update's log, or of publishing its outputs. The lock is released in any
    /// case. The next session publishes outputs that are missing.
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
