//! A stack whose writer lock is held, with the queue behind it: every change of a stack is recorded through this type.

use crate::context::StackContext;
use crate::intent::UpdateRequest;
use crate::keys::authenticate::{Authenticated, SessionHead};
use crate::keys::position::StackPosition;
use crate::keys::sealing::SessionSealer;
use crate::keys::trust;
use crate::read::tip::Tip;
use crate::read::view::{self, View};
use crate::standing::Standing;
use crate::write::checkpoint::StoredCheckpoint;
use crate::write::log_buffer::UnsavedLogs;
use crate::write::parked::{self, ParkedResults, SendOnDrop};
use crate::write::queue::batch::{Job, JobReply, Prepared, QueueEnd, Request, Work};
use crate::write::queue::draft::Draft;
use crate::write::queue::{Published, error_after};
use crate::write::session_history::SessionHistory;
use bytes::Bytes;
use state_core::backend::{HeadChange, Tail};
use state_core::head::{ClosedState, Watermark};
use state_core::journal::{CompletionReason, LogRef, Record, UpdateEnd};
use state_core::state::LoadedSnapshots;
use state_core::{
    Base, Entropy, Error, Head, PendingOperation, Result, RevisionId, Slot, State, Timestamp, UpdateId,
    UpdateInfo, UpdateKind, UpdateResult, Writer,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{RwLock, mpsc, oneshot, watch};

/// A stack that this process may write to. Clones share the lock and the queue; [`LockedStack::close`] ends all of
/// them.
#[derive(Clone, Debug)]
pub(crate) struct LockedStack {
    pub(crate) stack: StackContext,
    pub(crate) writer: Arc<dyn Writer>,
    pub(crate) seal: SessionSealer,
    pub(crate) history: SessionHistory,
    pub(crate) head: Arc<SessionHead>,
    /// The operations that were pending when the lock was taken.
    pub(crate) recovered: Arc<[PendingOperation]>,
    /// Logs of ended updates that could not be stored yet.
    pub(crate) logs: Arc<UnsavedLogs>,
    /// Held shared while a stored snapshot isn't yet named by a record; held exclusively by a collection, which would
    /// otherwise delete that snapshot as unused.
    pub(crate) storing: Arc<RwLock<()>>,
    /// Whether a reset made a checkpoint due when the session began.
    pub(super) is_reset_costly: bool,
    /// The stack as it was read under the lock, until the first change.
    pub(super) opened: Arc<OpenedTip>,
    /// Results that wait for the next step's intent.
    pub(super) parked: ParkedResults,
    pub(super) requests: mpsc::Sender<Request>,
    pub(super) published: watch::Receiver<Published>,
}

/// The stack as it was read under the lock. Queries about the history use it instead of reading the store again.
#[derive(Debug)]
pub(crate) struct OpenedTip {
    tip: Mutex<Option<Arc<Tip>>>,
    /// The end of the journal that was read.
    tail: Tail,
}

impl OpenedTip {
    pub(super) fn new(tip: Option<Tip>, tail: Tail) -> Self {
        let tip = Mutex::new(tip.map(Arc::new));
        Self { tip, tail }
    }

    /// Forgets the tip: it is about to become outdated.
    fn forget(&self) {
        drop(self.held().take());
    }

    fn held(&self) -> MutexGuard<'_, Option<Arc<Tip>>> {
        self.tip.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LockedStack {
    /// The stack after the last acknowledged batch, for queries about its history. Reads the store only if the session has
    /// changed the stack.
    pub(crate) async fn view(&self) -> Result<View> {
        let tip = self.opened.held().clone();
        // A collection changes the head and not the journal.
        let is_present =
            |tip: &Arc<Tip>| self.published().1 == self.opened.tail && *self.head.current() == *tip.head;
        let Some(tip) = tip.filter(is_present) else {
            return view::tip(&self.stack).await;
        };
        let standing = Standing {
            authenticity: tip.head.proof().into(),
            regression: None,
        };
        let now = self.stack.environment().clock.elapsed();
        Ok(View::new(self.stack.clone(), tip, standing, now))
    }

    /// The state after the last acknowledged batch.
    pub(crate) fn state(&self) -> Arc<State> {
        Arc::clone(&self.published.borrow().state)
    }

    /// The state after the last acknowledged batch, and the end of the journal after that batch.
    pub(super) fn published(&self) -> (Arc<State>, Tail) {
        // Both are read with one borrow: a batch acknowledged between two borrows would pair an old state with a newer
        // end.
        let published = self.published.borrow();
        (Arc::clone(&published.state), published.tail)
    }

    /// Time of the last update end; empty if there is none.
    pub(super) fn updated(&self) -> Timestamp {
        self.published.borrow().updated.clone()
    }

    pub(crate) fn entropy(&self) -> &dyn Entropy {
        &*self.stack.environment().entropy
    }

    /// Reads the pages of the history that the next reset's checkpoint will merge, if the reset makes one due.
    pub(super) async fn read_pages_ahead(&self) {
        if self.is_reset_costly {
            self.history.read_ahead(&self.stack).await;
        }
    }

    /// Queues records that the caller has built. Records that aren't `durable` are acknowledged at once and written
    /// with the next batch.
    pub(crate) async fn submit(&self, records: Vec<Prepared>, durable: bool) -> Result<JobReply> {
        self.queue(Work::Prepared(records), LoadedSnapshots::new(), durable)
            .await
    }

    /// Queues a function that builds records from the state at the time when the queue reaches the job.
    pub(crate) async fn built<F>(&self, loaded: LoadedSnapshots, build: F) -> Result<JobReply>
    where
        F: FnOnce(&State, &Base) -> Result<Vec<Record>> + Send + 'static,
    {
        self.drafted(loaded, move |draft| {
            let records = build(draft.state(), draft.base())?;
            draft.add_all(records)
        })
        .await
    }

    /// Queues a function that adds records to a draft when the queue reaches the job.
    pub(crate) async fn drafted<F>(&self, loaded: LoadedSnapshots, build: F) -> Result<JobReply>
    where
        F: FnOnce(&mut Draft<'_>) -> Result<()> + Send + 'static,
    {
        self.queue(Work::Built(Box::new(build)), loaded, true).await
    }

    /// As [`Self::built`], but acknowledges the records at once and writes them with the next batch.
    pub(crate) async fn built_without_sync<F>(&self, build: F) -> Result<JobReply>
    where
        F: FnOnce(&State, &Base) -> Result<Vec<Record>> + Send + 'static,
    {
        let build = move |draft: &mut Draft<'_>| {
            let records = build(draft.state(), draft.base())?;
            draft.add_all(records)
        };
        self.queue(Work::Built(Box::new(build)), LoadedSnapshots::new(), false)
            .await
    }

    /// Makes one revision: an update that consists of these records and succeeds.
    pub(crate) async fn commit<F>(
        &self,
        request: UpdateRequest,
        loaded: LoadedSnapshots,
        build: F,
    ) -> Result<RevisionId>
    where
        F: FnOnce(&State) -> Result<Vec<Record>> + Send + 'static,
    {
        let info = self.update_info(request);
        let end = self.stack.now();
        let build = move |draft: &mut Draft<'_>| {
            let before = draft.state().clone();
            draft.add(update_start_record(&before, info))?;
            draft.add_all(build(&before)?)?;
            end_update(draft, UpdateResult::Succeeded, end, None)
        };
        let answer = self.drafted(loaded, build).await?;
        self.require_revision(answer)
    }

    /// Ends the open update, which makes a revision.
    pub(crate) async fn end_update(&self, result: UpdateResult) -> Result<RevisionId> {
        self.end_update_with_log(result, None).await
    }

    /// As [`Self::end_update`]; the revision names the log, which is stored after the revision is durable.
    pub(crate) async fn end_update_with_log(
        &self,
        result: UpdateResult,
        log: Option<LogRef>,
    ) -> Result<RevisionId> {
        let end = self.stack.now();
        let build = move |draft: &mut Draft<'_>| end_update(draft, result, end, log);
        let answer = self.drafted(LoadedSnapshots::new(), build).await?;
        self.require_revision(answer)
    }

    /// Stores the log of an ended update. A log that can't be stored now is stored at the close.
    pub(crate) async fn keep_log(&self, revision: &RevisionId, log: Bytes) {
        self.logs.add(revision.serial(), log);
        if self.logs.store(&*self.writer).await.is_err() {
            // The log stays in `logs`; the close stores it again and returns the error.
        }
    }

    /// The revision that a job made; an error if the reply contains none.
    pub(crate) fn require_revision(&self, answer: JobReply) -> Result<RevisionId> {
        answer.revision.ok_or_else(|| self.queue_ended())
    }

    async fn queue(&self, work: Work, loaded: LoadedSnapshots, durable: bool) -> Result<JobReply> {
        self.opened.forget();
        let (reply, answer) = oneshot::channel();
        let job = Job {
            work,
            loaded,
            durable,
            reply,
        };
        self.send_after_parked(job).await?;
        answer.await.map_err(|_| self.queue_ended())?
    }

    /// Sends a job behind the parked results: a job that overtook them could end the update of their steps. Once the job
    /// is in the channel it runs to its end, even if the caller drops its future.
    async fn send_after_parked(&self, job: Job) -> Result<()> {
        // The permits come first: a future that is dropped while it waits for one must not take parked results along.
        let permits = self.requests.reserve_many(2).await;
        let mut permits = permits.map_err(|_| self.queue_ended())?;
        let requests = match job.work.is_within(parked::MOST_BYTES) {
            true => [None, Some(self.parked.request_with(job))],
            false => [self.parked.request(), Some(Request::Job(job))],
        };
        for (permit, request) in permits.by_ref().zip(requests.into_iter().flatten()) {
            permit.send(request);
        }
        Ok(())
    }

    /// Queues the records of a result that the next step's intent may accompany. Calls `parked` once the result waits, so
    /// that the caller can begin that step.
    pub(super) async fn submit_parked(
        &self,
        records: Vec<Prepared>,
        parked: impl FnOnce() + Send,
    ) -> Result<JobReply> {
        let work = Work::Prepared(records);
        if !work.is_within(parked::MOST_BYTES) {
            parked();
            return self.queue(work, LoadedSnapshots::new(), true).await;
        }
        self.opened.forget();
        let (reply, mut answer) = oneshot::channel();
        let job = Job {
            work,
            loaded: LoadedSnapshots::new(),
            durable: true,
            reply,
        };
        let refused = self.parked.park(job).err();
        let mut sends = SendOnDrop {
            is_armed: true,
            parked: &self.parked,
            requests: &self.requests,
        };
        parked();
        if let Some(job) = refused {
            self.send_after_parked(job).await?;
        }
        let clock = &self.stack.environment().clock;
        let answered = tokio::select! {
            biased;
            answered = &mut answer => answered,
            () = clock.sleep(parked::LIMIT) => match self.send_parked().await {
                Ok(()) => answer.await,
                // Another job may have taken the result along before the queue ended.
                Err(ended) => return answer.try_recv().unwrap_or(Err(ended)),
            }
        };
        sends.is_armed = false;
        answered.map_err(|_| self.queue_ended())?
    }

    /// Sends the results that wait for a step's intent: no step begins.
    pub(crate) async fn send_parked(&self) -> Result<()> {
        let permit = self.requests.reserve().await.map_err(|_| self.queue_ended())?;
        if let Some(request) = self.parked.request() {
            permit.send(request);
        }
        Ok(())
    }

    /// The description of an update that starts now.
    pub(crate) fn update_info(&self, request: UpdateRequest) -> UpdateInfo {
        let environment = self.stack.environment();
        let id = UpdateId::random(self.entropy());
        let mut info = UpdateInfo::new(id, request.kind, self.stack.now());
        info.who.clone_from(&environment.actor.who);
        info.host.clone_from(&environment.actor.host);
        info.version.clone_from(&environment.writer_version);
        info.program = request.program;
        info.message = request.message;
        info.environment = request.environment;
        info.forced = request.forced;
        info
    }

    /// Changes the head, and signs it if the stack has a key: see [`SessionHead::swap`].
    pub(crate) async fn swap_head(&self, change: HeadChange<'_>) -> Result<Authenticated<Head>> {
        self.head.swap(&*self.writer, self.stack.nonce(), change).await
    }

    /// Fails if the queue was stopped by a failure.
    pub(crate) fn still_writes(&self) -> Result<()> {
        match &self.published.borrow().failure {
            Some(error) => Err(error_after(error)),
            None => Ok(()),
        }
    }

    /// Writes all queued jobs, closes the journal with a watermark and releases the lock.
    pub(crate) async fn close(self) -> Result<()> {
        let (closed, publication) = self.end().await;
        closed.and(publication)
    }

    /// As [`Self::close`]. Also returns the outcome of publishing the outputs.
    async fn end(self) -> (Result<()>, Result<()>) {
        // Logs can be created only while the lock is held. A failure must not keep the journal from being closed.
        let logged = self.logs.store(&*self.writer).await;
        let (marked, publication) = match self.end_queue().await {
            Ok(end) => (
                self.set_watermark(end.tail, end.checkpoint).await,
                end.publication,
            ),
            Err(error) => {
                self.remember_acknowledged().await;
                (Err(error), Ok(()))
            }
        };
        // The lock is released last, whatever failed before: the head may only be swapped while it is held.
        let released = self.writer.release().await;
        (marked.and(released).and(logged), publication)
    }

    /// Closes, then returns the result of the preceding work. An error of the work takes precedence over an error of
    /// the close. Outputs that couldn't be published are no error of the work, which is recorded: the next session
    /// publishes them.
    pub(crate) async fn close_after<T>(self, worked: Result<T>) -> Result<T> {
        let (closed, _publication) = self.end().await;
        let value = worked?;
        closed.map(|()| value)
    }

    /// Records the end of the journal, in the head and in the known stacks, and the checkpoint at that end. The next owner compares the journal with
    /// the head to detect a truncated journal. This client compares it with its known stacks to detect a rolled-back
    /// store.
    async fn set_watermark(&self, tail: Tail, checkpoint: Option<StoredCheckpoint>) -> Result<()> {
        let Some(watermark) = watermark_at(tail) else {
            return Ok(());
        };
        let head = self.head.current();
        // The position has the watermark of the present head, because a crash before the swap below leaves that head in
        // the store. The pin is written before the head. A crash between the two leaves a pin whose journal end is already
        // durable.
        self.remember_end(&head, tail).await;
        let closed_state = closed_state(&self.state(), self.updated(), watermark);
        // Without its turn the checkpoint is left out: the old base is right as well.
        let paging = match &checkpoint {
            Some(stored) => stored.resume(&self.history).await,
            None => None,
        };
        let checkpoint = checkpoint.filter(|_| paging.is_some());
        let change = |head: &mut Head| {
            // A checkpoint that doesn't fit this head changes nothing in it.
            drop(checkpoint.as_ref().map(|stored| stored.apply(head)));
            head.watermark = Some(watermark);
            head.closed_state.clone_from(&closed_state);
            head.closed = true;
            Ok(())
        };
        let marked = self.swap_head(&change).await?;
        // The acknowledged watermark is pinned as well: otherwise the head before this session, without its client lock
        // for example, would be accepted until the next read.
        self.remember_end(&marked, tail).await;
        Ok(())
    }

    /// Pins the end of the last acknowledged batch after a failure: callers rely on these frames, so this client must
    /// notice if they vanish.
    async fn remember_acknowledged(&self) {
        let (state, tail) = self.published();
        let point = self.position(&self.head.current(), &state, tail);
        trust::remember_position(&self.stack, &point).await;
    }

    /// Pins the position of this session with this head, at this end of the journal.
    pub(super) async fn remember_end(&self, head: &Authenticated<Head>, tail: Tail) {
        trust::remember_position(&self.stack, &self.position(head, &self.state(), tail)).await;
    }

    /// The position of this session with this head and state, at this end of the journal.
    fn position(&self, head: &Authenticated<Head>, state: &State, tail: Tail) -> StackPosition<'static> {
        StackPosition {
            epoch: self.writer.epoch(),
            ..StackPosition::at_end(head.proof(), head, state, tail)
        }
    }

    /// The watermark at the end of the acknowledged journal. A head that removes or renames the stack contains it, so
    /// that clients can distinguish the head from those of earlier sessions.
    pub(super) fn watermark(&self) -> Option<Watermark> {
        watermark_at(self.published().1)
    }

    /// Writes all queued jobs and ends the queue; the lock stays held.
    pub(crate) async fn end_queue(&self) -> Result<QueueEnd> {
        self.send_parked().await?;
        let (reply, answer) = oneshot::channel();
        let asked = self.requests.send(Request::Close(reply)).await;
        asked.map_err(|_| self.queue_ended())?;
        answer.await.map_err(|_| self.queue_ended())?
    }

    fn queue_ended(&self) -> Error {
        if let Err(error) = self.still_writes() {
            return error;
        }
        Error::closed(self.stack.object(), "its session has ended: lock the stack again")
    }
}

/// The state at the end of a session's journal, for lists of stacks. None if a list shows more of it: an open update,
/// pending operations and moves, or an unreliable state.
fn closed_state(state: &State, updated: Timestamp, watermark: Watermark) -> Option<ClosedState> {
    let is_settled = state.update().is_none() && state.is_reliable();
    let revision = state
        .current()
        .filter(|_| is_settled && !updated.as_str().is_empty())?;
    Some(ClosedState {
        slot: watermark.slot,
        revision: revision.clone(),
        updated,
        resources: state.len() as u64,
    })
}

/// The watermark at the end of a journal; none if the journal is empty.
pub(super) fn watermark_at(tail: Tail) -> Option<Watermark> {
    tail.next.get().checked_sub(1).map(|last| Watermark {
        slot: Slot(last),
        chain: tail.chain,
    })
}

/// The record that starts an update.
pub(crate) fn update_start_record(state: &State, mut info: UpdateInfo) -> Record {
    // The parent is set when the queue reaches the job: the revision that was current earlier may be outdated by then.
    info.parent = state.current().cloned();
    Record::UpdateStart(info)
}

/// Ends the open update of a draft. The record describes the state after the records before it.
///
/// # Errors
/// `Conflict` if no update is open.
pub(crate) fn end_update(
    draft: &mut Draft<'_>,
    result: UpdateResult,
    end: Timestamp,
    log: Option<LogRef>,
) -> Result<()> {
    let Some(update) = draft.state().update().cloned() else {
        return Err(Error::conflict("the update", "it has ended already"));
    };
    if confirms_resources(draft.state(), &update, result) {
        draft.add(Record::Validate(CompletionReason::Succeeded))?;
    }
    let after = draft.state();
    let mark = UpdateEnd {
        serial: after.serial().next(),
        update: UpdateInfo {
            end: Some(end),
            result: Some(result),
            ..update
        },
        base: draft.base().clone(),
        entries: after.len() as u64,
        changed: after.changes(),
        log,
    };
    draft.add(Record::UpdateEnd(mark))
}

/// Whether an ending update confirms that the state matches the real resources. If so, the unreliable mark is cleared.
/// The update must have changed or read the resources or imported the state, have succeeded, and have left no operation
/// pending. An edit by hand doesn't check the resources, and a failed update may not have reached all of them.
fn confirms_resources(after: &State, update: &UpdateInfo, result: UpdateResult) -> bool {
    let checks_resources = update.kind.is_driven() || update.kind == UpdateKind::Import;
    after.invalidated().is_some()
        && after.pending().next().is_none()
        && checks_resources
        && result == UpdateResult::Succeeded
}
