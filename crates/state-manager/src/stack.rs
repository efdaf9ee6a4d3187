//! One stack, read without a lock: façade over the rooms that read, lock, collect and rekey it.
//!
//! | methods | room |
//! |---|---|
//! | `tip`, `current`, `get`, `list`, `history`, `blame`, `logs`, `verify`, … | [`read`](crate::read) |
//! | `lock`, `lock_within`, `break_lock`, `force_unlock`, client locks | [`lock`] |
//! | `reveal`, `policy`, `recipients`, `rekey` | [`keys`](crate::keys) |
//! | `plan_collection` | [`gc`](crate::gc) |

use crate::context::StackContext;
use crate::gc::collect::{self, CollectionReport};
use crate::gc::retention::Retention;
use crate::keys::rotation::{self, Rekey, Rekeyed};
use crate::keys::wrapped;
use crate::lock;
use crate::objects::document::Revision;
use crate::read::blame::{self, Blame};
use crate::read::history::Revisions;
use crate::read::logs::{self, LogQuery, Logs, StoredLine};
use crate::read::revision_spec::RevisionList;
use crate::read::rollback_guard::{self, CrossedMove};
use crate::read::tip;
use crate::read::verify::{self, VerifyReport};
use crate::read::view::{self, CurrentRevision, View};
use crate::session::Session;
use state_core::backend::{ClientLock, LockStatus};
use state_core::head::SealingPolicy;
use state_core::mutation::StackOutputs;
use state_core::{
    Address, Epoch, Lineage, Result, RevisionId, Serial, Snapshot, SnapshotMeta, StackName, State,
};
use std::time::Duration;

/// A stack of a store. Cheap to clone. Reading takes no lock and never waits for a writer.
#[derive(Clone, Debug)]
pub struct Stack {
    context: StackContext,
}

impl Stack {
    /// The name by which it was found.
    pub const fn name(&self) -> &StackName {
        self.context.name()
    }

    /// Its identity.
    pub const fn lineage(&self) -> Lineage {
        self.context.lineage()
    }

    /// Works from now on as the holder of the client lock with this id: [`Stack::lock`] then requires that it holds.
    #[must_use]
    pub fn with_client_lock(mut self, id: impl Into<String>) -> Self {
        self.context.set_client_lock_id(Some(id.into()));
        self
    }

    /// Works from now on as the holder of no client lock.
    #[must_use]
    pub fn without_client_lock(mut self) -> Self {
        self.context.set_client_lock_id(None);
        self
    }

    /// The state after the last acknowledged mutation, whether or not an update is open.
    ///
    /// # Errors
    /// `Corrupt` when stored bytes are damaged.
    pub async fn tip(&self) -> Result<View> {
        view::tip(&self.context).await
    }

    /// The current revision's content.
    ///
    /// # Errors
    /// `NoCurrent` when nothing was committed yet; `Corrupt` when it can't be read.
    pub async fn current(&self) -> Result<Snapshot> {
        view::current(&self.context).await
    }

    /// The id of the current revision.
    ///
    /// # Errors
    /// `NoCurrent` when nothing was committed yet.
    pub async fn current_rev(&self) -> Result<RevisionId> {
        view::current_id(&self.context).await
    }

    /// The outputs of the current revision (seed 002).
    ///
    /// # Errors
    /// As [`Stack::current`].
    pub async fn root_outputs(&self) -> Result<StackOutputs> {
        view::root_outputs(&self.context).await
    }

    /// Which snapshot is current, without its content (seed 002).
    ///
    /// # Errors
    /// As [`Stack::current`].
    pub async fn snapshot_meta(&self) -> Result<SnapshotMeta> {
        view::snapshot_meta(&self.context).await
    }

    /// A copy of a snapshot of this stack with all that is sealed in it open. What comes from [`Stack::get`] and the
    /// like stays sealed until it is asked for here.
    ///
    /// # Errors
    /// `Sealed` when there is no identity at hand that opens its key, or a value was changed or stood elsewhere.
    pub async fn reveal(&self, snapshot: Snapshot) -> Result<Snapshot> {
        wrapped::reveal(&self.context, snapshot).await
    }

    /// A revision's content.
    ///
    /// # Errors
    /// `NotFound` when there is no such revision, or it was deleted; `Collected`, of the same kind, when history begins
    /// later.
    pub async fn get(&self, revision: &RevisionId) -> Result<Snapshot> {
        view::snapshot(&self.context, revision).await
    }

    /// The revisions, oldest first.
    ///
    /// # Errors
    /// `Corrupt` when stored bytes are damaged.
    pub async fn list(&self) -> Result<Vec<RevisionId>> {
        let newest_first = view::revisions(&self.context).await?.into_iter();
        Ok(newest_first.rev().map(|revision| revision.id).collect())
    }

    /// The revisions with what made them, newest first.
    ///
    /// # Errors
    /// `Corrupt` when stored bytes are damaged.
    pub async fn history(&self) -> Result<Vec<Revision>> {
        view::revisions(&self.context).await
    }

    /// A page of the history: at most so many revisions, newest first, that are older than `before` (none: from the
    /// newest on). The last one of a page leads to the next.
    ///
    /// # Errors
    /// `Corrupt` when stored bytes are damaged.
    pub async fn history_page(&self, before: Option<&RevisionId>, limit: usize) -> Result<Vec<Revision>> {
        view::page(&self.context, before, limit).await
    }

    /// The revisions with what made them, newest first, read one at a time.
    ///
    /// # Errors
    /// `Corrupt` when stored bytes are damaged.
    pub async fn revisions(&self) -> Result<Revisions> {
        let (tip, _) = tip::read(&self.context).await?;
        Revisions::of(&self.context, &tip).await
    }

    /// The serial with which history begins since the last collection; none while it is whole. Revisions with a lower
    /// serial were collected.
    ///
    /// # Errors
    /// `Corrupt` when the head is damaged.
    pub async fn collected_before(&self) -> Result<Option<Serial>> {
        let head = self.context.head().await?;
        Ok(head.collection.map(|collection| collection.serial))
    }

    /// The revisions, to find some by the names that people use for them.
    ///
    /// # Errors
    /// `Corrupt` when stored bytes are damaged.
    pub async fn revision_list(&self) -> Result<RevisionList> {
        let revisions = self.history().await?;
        Ok(RevisionList::new(revisions, self.collected_before().await?))
    }

    /// Which revision each property of an entry is from, in the tip or in a revision. Follows the object through
    /// moves. Reads as many revisions as it takes to settle all properties.
    ///
    /// # Errors
    /// `NotFound` when there is no such revision, or no such entry in it.
    pub async fn blame(&self, address: &Address, at: Option<&RevisionId>) -> Result<Blame> {
        blame::blame(&self.context, address, at).await
    }

    /// The moves that bringing back a revision would take back on this side only, newest first.
    ///
    /// # Errors
    /// `NotFound` when there is no such revision.
    pub async fn crossed_moves(&self, now: &State, to: &RevisionId) -> Result<Vec<CrossedMove>> {
        rollback_guard::crossed_moves(&self.context, now, to).await
    }

    /// The lines of ended updates that fit a query, oldest update first, each update's in the order in which they
    /// came.
    ///
    /// # Errors
    /// `Invalid` when `since` or `until` is no moment; `Corrupt` when a stored log is damaged.
    pub async fn logs(&self, query: &LogQuery) -> Result<Vec<StoredLine>> {
        logs::lines(&self.context, query).await
    }

    /// As [`Stack::logs`], one update at a time: all of them are never held at once. The query's limit doesn't count.
    ///
    /// # Errors
    /// `Invalid` when `since` or `until` is no moment.
    pub async fn log_walk(&self, query: &LogQuery) -> Result<Logs> {
        Logs::of(&self.context, query).await
    }

    /// Reads everything and checks every rule. `deep` reads the whole history too, and compares each checkpoint
    /// with what the journal before it leads to.
    ///
    /// # Errors
    /// `Corrupt` when stored bytes are damaged. Violations of integrity rules are in the report.
    pub async fn verify(&self, deep: bool) -> Result<VerifyReport> {
        verify::verify(&self.context, deep).await
    }

    /// What [`Session::collect`] would do now. Takes no lock and changes nothing. Reads the whole history.
    ///
    /// # Errors
    /// `Unsupported` by a store that can't delete; `Corrupt` when stored bytes are damaged.
    pub async fn plan_collection(&self, retention: &Retention) -> Result<CollectionReport> {
        collect::plan(&self.context, retention).await
    }

    /// Who holds the writer lock.
    ///
    /// # Errors
    /// `Corrupt` when the head is damaged.
    pub async fn lock_status(&self) -> Result<LockStatus> {
        let lineage = self.context.lineage();
        self.context.backend().lock_status(lineage).await
    }

    /// Takes the writer lock. Doesn't wait. Whatever the writer before left open is ended first; moves from and to
    /// other stacks that were cut short are settled, as far as those can be asked.
    ///
    /// # Errors
    /// `Locked` names the holder, of a client lock too; `Conflict` when the own client lock is gone.
    pub async fn lock(&self, operation: &str) -> Result<Session> {
        lock::lock(&self.context, operation, None).await.map(Session::of)
    }

    /// Takes the writer lock, and waits for its holder as long as `limit` allows. Asks seldom: after 50 ms, then
    /// after twice as long, up to once a second. With a limit of zero it is [`Stack::lock`].
    ///
    /// # Errors
    /// `Locked` names the holder who was there at the last attempt. Everything else is told at once.
    ///
    /// # Cancellation
    /// A future that is dropped leaves nothing: neither a place in a queue nor a lock.
    pub async fn lock_within(&self, operation: &str, limit: Duration) -> Result<Session> {
        let locked = lock::lock_within(&self.context, operation, limit).await;
        locked.map(Session::of)
    }

    /// Takes the writer lock from a holder that has it at the epoch that was seen, and fences that holder.
    ///
    /// # Errors
    /// `Conflict` when the epoch moved on: another holder is there now; `Locked` by a client lock of somebody else.
    pub async fn break_lock(&self, operation: &str, seen: Epoch) -> Result<Session> {
        let locked = lock::lock(&self.context, operation, Some(seen)).await;
        locked.map(Session::of)
    }

    /// Frees the writer lock that somebody holds at the epoch that was seen, and fences that holder. A lock that
    /// is free at that epoch is fine.
    ///
    /// # Errors
    /// `Conflict` when the epoch moved on: another holder is there now, or was.
    pub async fn force_unlock(&self, seen: Epoch) -> Result<()> {
        lock::force_unlock(&self.context, seen).await
    }

    /// Takes the client lock, for as long as it isn't freed, or for a while. Doesn't wait. Its id comes back in it:
    /// what [`Stack::with_client_lock`] and [`Stack::free_client_lock`] want.
    ///
    /// # Errors
    /// `Locked` when somebody writes, or another client lock holds; `Invalid` when the end is beyond the calendar.
    ///
    /// # Cancellation
    /// A future that is dropped leaves the lock taken or not taken: [`Stack::lock_status`] tells.
    pub async fn acquire_client_lock(
        &self,
        operation: &str,
        message: &str,
        expires_in: Option<Duration>,
    ) -> Result<ClientLock> {
        lock::acquire_client_lock(&self.context, operation, message, expires_in).await
    }

    /// Frees the client lock with this id, expired or not, and returns it. Whoever knows the id may: this is also
    /// how a lock is broken whose holder is gone.
    ///
    /// # Errors
    /// `Conflict` when another client lock stands there, or none; `Locked` when somebody writes.
    ///
    /// # Cancellation
    /// A future that is dropped leaves the lock freed or not freed: [`Stack::lock_status`] tells.
    pub async fn free_client_lock(&self, operation: &str, id: &str) -> Result<ClientLock> {
        lock::free_client_lock(&self.context, operation, id).await
    }

    /// How the stack's values are stored.
    ///
    /// # Errors
    /// `Corrupt` when the head is damaged.
    pub async fn policy(&self) -> Result<SealingPolicy> {
        Ok(self.context.head().await?.policy)
    }

    /// To whom the stack's data key is wrapped; empty for a stack without one.
    ///
    /// # Errors
    /// `Corrupt` when the head is damaged; `Sealed` when it is forged.
    pub async fn recipients(&self) -> Result<Vec<String>> {
        let keys = rotation::keys(&self.context).await?;
        Ok(keys.map(|keys| keys.recipients).unwrap_or_default())
    }

    /// Wraps the stack's data key to more recipients. What is sealed stays as it is.
    ///
    /// # Errors
    /// `Sealed` when the key can't be had, or the stack has none; `Invalid` for what isn't a recipient; `Locked`.
    pub async fn add_recipients(&self, operation: &str, more: &[String]) -> Result<Vec<String>> {
        rotation::add_recipients(&self.context, operation, more).await
    }

    /// To whom the stack's outputs are wrapped apart.
    ///
    /// # Errors
    /// As [`Stack::recipients`].
    pub async fn output_recipients(&self) -> Result<Vec<String>> {
        let keys = rotation::keys(&self.context).await?;
        Ok(keys.map(|keys| keys.outputs).unwrap_or_default())
    }

    /// Lets more people read the stack's outputs, and nothing else of it: see [`Stacks::published_outputs`]. A revision
    /// is made, whose outputs they get.
    ///
    /// [`Stacks::published_outputs`]: crate::Stacks::published_outputs
    ///
    /// # Errors
    /// As [`Stack::add_recipients`].
    pub async fn add_output_recipients(&self, operation: &str, more: &[String]) -> Result<Vec<String>> {
        rotation::add_output_recipients(&self.context, operation, more).await
    }

    /// Gives the stack a new data key, and seals its current state with it. The first key of a stack that was plain, too.
    ///
    /// Earlier revisions stay as they are: who could open them still can. [`Rekeyed::older`] names them.
    ///
    /// # Errors
    /// `Sealed` when the old key can't be had or there is nobody to wrap the new one to; `Locked`. Nothing changed then.
    ///
    /// # Cancellation
    /// A future that is dropped leaves the stack with the old key or the new one.
    pub async fn rekey(&self, operation: &str, request: Rekey) -> Result<Rekeyed> {
        rotation::rekey(&self.context, operation, request).await
    }
}

impl Stack {
    pub(crate) const fn of(context: StackContext) -> Self {
        Self { context }
    }

    /// The current revision with all that it holds; none before the first one.
    pub(crate) async fn current_revision(&self) -> Result<Option<CurrentRevision>> {
        view::current_revision(&self.context).await
    }

    pub(crate) const fn context(&self) -> &StackContext {
        &self.context
    }
}
