//! A stack whose writer lock is held, with the queue behind it: how every change of a stack is recorded.

use crate::context::StackContext;
use crate::intent::UpdateRequest;
use crate::keys::sealing::SessionSealer;
use crate::keys::trust::{self, Point};
use crate::write::log_buffer::{LogBuffer, UnsavedLogs};
use crate::write::queue::batch::{Job, JobReply, Prepared, Request, Work};
use crate::write::queue::{Published, ended};
use state_core::backend::{HeadChange, Tail};
use state_core::head::Watermark;
use state_core::journal::{CompletionReason, Record, UpdateEnd};
use state_core::state::LoadedSnapshots;
use state_core::{
    Base, Entropy, Error, Head, PendingOperation, Result, RevisionId, Slot, State, Timestamp, UpdateId,
    UpdateInfo, UpdateKind, UpdateResult, Writer,
};
use std::sync::Arc;
use tokio::sync::{RwLock, mpsc, oneshot, watch};

/// A stack that this process may write to. Clones share the lock and the queue; [`LockedStack::close`] ends all of
/// them.
#[derive(Clone, Debug)]
pub(crate) struct LockedStack {
    pub(crate) stack: StackContext,
    pub(crate) writer: Arc<dyn Writer>,
    pub(crate) seal: SessionSealer,
    pub(crate) recovered: Arc<[PendingOperation]>,
    /// Logs of ended updates that couldn't be stored yet.
    pub(crate) logs: Arc<UnsavedLogs>,
    /// Shared while a stored snapshot isn't named by a record yet; exclusive during a collection.
    pub(crate) storing: Arc<RwLock<()>>,
    pub(super) requests: mpsc::Sender<Request>,
    pub(super) published: watch::Receiver<Published>,
}

impl LockedStack {
    /// The state as last acknowledged.
    pub(crate) fn state(&self) -> Arc<State> {
        Arc::clone(&self.published.borrow().state)
    }

    /// The state as last acknowledged, and the end of the journal there.
    pub(super) fn published(&self) -> (Arc<State>, Tail) {
        let published = self.published.borrow();
        (Arc::clone(&published.state), published.tail)
    }

    pub(crate) fn entropy(&self) -> &dyn Entropy {
        &*self.stack.environment().entropy
    }

    /// Queues records that the caller knows already. Those that aren't `durable` are acknowledged at once and ride with
    /// the next batch.
    pub(crate) async fn submit(&self, records: Vec<Prepared>, durable: bool) -> Result<JobReply> {
        self.queue(Work::Prepared(records), LoadedSnapshots::new(), durable)
            .await
    }

    /// Queues records that are built from the state when their turn comes.
    pub(crate) async fn built<F>(&self, loaded: LoadedSnapshots, build: F) -> Result<JobReply>
    where
        F: FnOnce(&State, &Base) -> Result<Vec<Record>> + Send + 'static,
    {
        self.queue(Work::Built(Box::new(build)), loaded, true).await
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
        let during = loaded.clone();
        let build = move |state: &State, base: &Base| {
            let mut records = vec![started(state, info)];
            records.extend(build(state)?);
            finished(state, base, records, UpdateResult::Succeeded, &end, &during)
        };
        let answer = self.built(loaded, build).await?;
        self.made(answer)
    }

    /// Ends the open update with a mark.
    pub(crate) async fn end_update(&self, result: UpdateResult) -> Result<RevisionId> {
        let end = self.stack.now();
        let build = move |state: &State, base: &Base| {
            finished(state, base, Vec::new(), result, &end, &LoadedSnapshots::new())
        };
        let answer = self.built(LoadedSnapshots::new(), build).await?;
        self.made(answer)
    }

    /// Stores the log of an update that ended. A log that can't be stored now is tried again at the close.
    pub(crate) async fn keep_log(&self, revision: &RevisionId, log: &LogBuffer) {
        if self.logs.add(revision.serial(), log).is_ok() && self.logs.store(&*self.writer).await.is_err() {
            // It stays, and the close returns the error.
        }
    }

    pub(crate) fn made(&self, answer: JobReply) -> Result<RevisionId> {
        answer.revision.ok_or_else(|| self.gone())
    }

    async fn queue(&self, work: Work, loaded: LoadedSnapshots, durable: bool) -> Result<JobReply> {
        let (reply, answer) = oneshot::channel();
        let job = Job {
            work,
            loaded,
            durable,
            reply,
        };
        let queued = self.requests.send(Request::Job(job)).await;
        queued.map_err(|_| self.gone())?;
        answer.await.map_err(|_| self.gone())?
    }

    /// What a request says of an update that starts now.
    pub(crate) fn update_info(&self, request: UpdateRequest) -> UpdateInfo {
        let environment = self.stack.environment();
        let id = UpdateId::random(self.entropy());
        let mut info = UpdateInfo::new(id, request.kind, self.stack.now());
        info.who.clone_from(&environment.actor.who);
        info.host.clone_from(&environment.actor.host);
        info.version.clone_from(&environment.writer_version);
        info.message = request.message;
        info.environment = request.environment;
        info.forced = request.forced;
        info
    }

    /// Changes the head, signed if the stack has a key.
    pub(crate) async fn swap_head(&self, change: HeadChange<'_>) -> Result<Head> {
        let nonce = self.stack.nonce();
        self.seal.swap_head(&*self.writer, nonce, change).await
    }

    /// Fails if the queue has ended because of a failure.
    pub(crate) fn still_writes(&self) -> Result<()> {
        match &self.published.borrow().failure {
            Some(error) => Err(ended(error)),
            None => Ok(()),
        }
    }

    /// Writes what is queued, closes the journal with a watermark and frees the lock.
    pub(crate) async fn close(self) -> Result<()> {
        let logged = self.logs.store(&*self.writer).await;
        let marked = match self.end_queue().await {
            Ok(tail) => self.set_watermark(tail).await,
            Err(error) => Err(error),
        };
        let released = self.writer.release().await;
        marked.and(released).and(logged)
    }

    /// Closes, then returns the result of the work: its error comes before one of the close.
    pub(crate) async fn close_after<T>(self, worked: Result<T>) -> Result<T> {
        let closed = self.close().await;
        let value = worked?;
        closed.map(|()| value)
    }

    /// Lets the next owner notice a cut journal, and this client a store that was put back.
    async fn set_watermark(&self, tail: Tail) -> Result<()> {
        let Some(last) = tail.next.get().checked_sub(1) else {
            return Ok(());
        };
        let point = Point {
            epoch: self.writer.epoch(),
            serial: self.state().serial(),
            tail,
            journal: None,
        };
        trust::keep(&self.stack, &point, self.seal.key()).await;
        let watermark = Watermark {
            slot: Slot(last),
            chain: tail.chain,
        };
        self.swap_head(&|head| head.watermark = Some(watermark))
            .await
            .map(drop)
    }

    /// Writes what is queued and ends the queue; the lock stays.
    pub(crate) async fn end_queue(&self) -> Result<Tail> {
        let (reply, answer) = oneshot::channel();
        let asked = self.requests.send(Request::Close(reply)).await;
        asked.map_err(|_| self.gone())?;
        answer.await.map_err(|_| self.gone())?
    }

    fn gone(&self) -> Error {
        if let Err(error) = self.still_writes() {
            return error;
        }
        Error::closed(self.stack.object(), "its queue has ended: open the stack again")
    }
}

/// The record with which an update begins.
pub(crate) fn started(state: &State, mut info: UpdateInfo) -> Record {
    info.parent = state.current().cloned();
    Record::UpdateStart(info)
}

/// The records, then the mark that ends their update. The mark tells what the update did, so they are applied to
/// a copy first.
pub(crate) fn finished(
    state: &State,
    base: &Base,
    mut records: Vec<Record>,
    result: UpdateResult,
    end: &Timestamp,
    loaded: &LoadedSnapshots,
) -> Result<Vec<Record>> {
    let mut after = state.clone();
    for record in &records {
        let applied = after.apply(record, loaded);
        applied.map_err(|violations| Error::integrity("the change", violations))?;
    }
    let Some(update) = after.update() else {
        return Err(Error::conflict("the update", "it has ended already"));
    };
    if is_vouched_for(&after, update, result) {
        records.push(Record::Validate(CompletionReason::Succeeded));
    }
    let update = UpdateInfo {
        end: Some(end.clone()),
        result: Some(result),
        ..update.clone()
    };
    let mark = UpdateEnd {
        serial: after.serial().next(),
        update,
        base: base.clone(),
        entries: after.len() as u64,
    };
    records.push(Record::UpdateEnd(mark));
    Ok(records)
}

/// Whether an update that ends says what the world is, of a state that is marked as unreliable: it changed the world,
/// compared itself with it or came from elsewhere, all of it went well, and nothing is pending. A change by hand says
/// nothing of the world, and one who failed may not have seen all of it.
fn is_vouched_for(after: &State, update: &UpdateInfo, result: UpdateResult) -> bool {
    let looks_at_the_world = update.kind.is_driven() || update.kind == UpdateKind::Import;
    after.invalidated().is_some()
        && after.pending().next().is_none()
        && looks_at_the_world
        && result == UpdateResult::Succeeded
}
