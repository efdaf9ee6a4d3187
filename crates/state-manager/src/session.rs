//! The writer lock of a stack, with the queue behind it.

mod across;
mod opening;
mod records;
mod revealing;
mod settling;
mod storing;
mod surgery;
mod whole;

pub use across::MoveDone;
pub use settling::MoveSettled;

use crate::intent::UpdateRequest;
use crate::logs;
use crate::queue::{Answer, Job, Prepared, Published, Request, Work, ended};
use crate::sealing::Seal;
use crate::stack::Stack;
use crate::update::Update;
use crate::witness::{self, Point};
use records::{finished, finished_with, started};
use state_core::backend::Tail;
use state_core::head::Watermark;
use state_core::journal::{Rebase, RebaseCause, Record, Stored, Vouch};
use state_core::mutation::{Resolution, Resolve};
use state_core::state::Loaded;
use state_core::{
    Base, Entry, Epoch, Error, MutationId, Nonce, PendingOperation, Result, RevisionId, Snapshot, State,
    UpdateId, UpdateInfo, UpdateKind, UpdateResult, Writer,
};
use std::sync::Arc;
use tokio::sync::{RwLock, mpsc, oneshot, watch};

/// A stack that we may write to. Clones share the lock and the queue; [`Session::close`] ends all of them.
///
/// When every clone is dropped without a close, what is queued is still written and the lock is freed; only the
/// watermark that lets the next owner notice a cut journal is not.
#[derive(Clone, Debug)]
pub struct Session {
    stack: Stack,
    writer: Arc<dyn Writer>,
    /// The same without a key.
    untagged: Arc<dyn Writer>,
    requests: mpsc::Sender<Request>,
    published: watch::Receiver<Published>,
    recovered: Arc<[PendingOperation]>,
    seal: Seal,
    /// Logs of updates that ended, as far as they couldn't be stored yet.
    logs: Arc<logs::Unsaved>,
    /// Held by whoever stores a snapshot until a record names it, and by a collection alone.
    storing: Arc<RwLock<()>>,
}

impl Session {
    /// The stack that is held.
    pub const fn stack(&self) -> &Stack {
        &self.stack
    }

    /// The state as last acknowledged.
    pub fn state(&self) -> Arc<State> {
        Arc::clone(&self.published.borrow().state)
    }

    /// What the writer before left pending: to be resolved, never dropped.
    pub fn recovered(&self) -> &[PendingOperation] {
        &self.recovered
    }

    /// Whether the lock is still ours: to be asked before the world is touched.
    ///
    /// # Errors
    /// `Fenced` when it isn't.
    pub async fn check(&self) -> Result<()> {
        self.writer.check().await
    }

    /// The fencing token of this lock.
    pub fn epoch(&self) -> Epoch {
        self.writer.epoch()
    }

    /// What became of a mutation; none when nobody remembers.
    pub fn lookup(&self, id: MutationId) -> Option<bool> {
        self.state().lookup(id)
    }

    /// Starts an update: what is there becomes its base.
    ///
    /// # Errors
    /// `Integrity` when an update is open.
    pub async fn start_update(&self, request: UpdateRequest) -> Result<Update> {
        let info = self.update_info(request);
        let id = info.id;
        self.built(move |state, _| Ok(vec![started(state, info)]), Loaded::new())
            .await?;
        Ok(Update::new(self.clone(), id))
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
        self.rebase(request, snapshot, RebaseCause::Import { foreign }, None)
            .await
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
        let cause = RebaseCause::Import { foreign: None };
        self.rebase(request, snapshot, cause, Some(parent.cloned())).await
    }

    /// Brings back what a revision holds, as a new revision on top of the current one.
    ///
    /// # Errors
    /// `NotFound` when there is no such revision; `Conflict` while operations are pending, and when the request isn't
    /// forced and takes back a move on this side only: see [`Stack::crossed_moves`].
    pub async fn rollback(&self, request: UpdateRequest, to: &RevisionId) -> Result<RevisionId> {
        let object = || format!("stack {}", self.stack.name().short());
        let pending = self.state().pending().count();
        if pending > 0 {
            let reason = format!("{pending} operation(s) are pending: resolve them first");
            return Err(Error::conflict(object(), reason));
        }
        let snapshot = self.stack.get(to).await?;
        if !request.forced {
            let now = self.state();
            self.stack.refuse_crossing(&now, to, &snapshot).await?;
        }
        // It may be sealed with an earlier key, or not at all.
        let snapshot = self.stack.reveal(snapshot).await?;
        let cause = RebaseCause::Restore { revision: to.clone() };
        self.rebase(request, snapshot, cause, None).await
    }

    /// Makes a stored or earlier revision current: seed 003's `SetCurrent`. The new revision comes back.
    ///
    /// # Errors
    /// As [`Session::rollback`].
    pub async fn set_current(&self, to: &RevisionId) -> Result<RevisionId> {
        self.rollback(UpdateRequest::new(UpdateKind::Restore), to).await
    }

    /// Stores a snapshot as a revision that isn't current: seed 003's `Write`.
    ///
    /// # Errors
    /// `Integrity` with all violations when the snapshot breaks a rule.
    pub async fn write(&self, snapshot: Snapshot) -> Result<RevisionId> {
        let _storing = self.storing.read().await;
        let (reference, snapshot) = self.store(snapshot).await?;
        let entries = snapshot.entries.len() as u64;
        let build = move |state: &State, _: &Base| {
            Ok(vec![Record::Stored(Stored {
                serial: state.serial().next(),
                snapshot: reference,
                entries,
            })])
        };
        self.built(build, Loaded::new())
            .await
            .and_then(|answer| self.made(answer))
    }

    /// Forgets a revision. One that isn't there, or not any more, is fine (seed 003).
    ///
    /// # Errors
    /// `Conflict` for the current revision.
    pub async fn delete(&self, revision: &RevisionId) -> Result<()> {
        let state = self.state();
        if state.current() == Some(revision) {
            let reason = "it is the current revision: make another one current first";
            return Err(Error::conflict(format!("revision {revision}"), reason));
        }
        if state.is_forgotten(revision) || !self.stack.list().await?.contains(revision) {
            return Ok(());
        }
        let revision = revision.clone();
        self.built(move |_, _| Ok(vec![Record::Forget(revision)]), Loaded::new())
            .await
            .map(drop)
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
        let resolution = self.sealed_resolution(id, resolution)?;
        let info = self.update_info(request);
        let end = self.now();
        let build = move |state: &State, base: &Base| {
            let is_last = state.pending().count() == 1;
            let mut records = vec![started(state, info), Record::Resolve(Resolve { id, resolution })];
            if is_last && state.invalidated().is_some() {
                records.push(Record::Validate(Vouch::Resolved));
            }
            finished(state, base, records, UpdateResult::Succeeded, &end)
        };
        self.built(build, Loaded::new())
            .await
            .and_then(|answer| self.made(answer))
    }

    /// Writes what is queued, closes the journal with a watermark and frees the lock.
    ///
    /// # Errors
    /// What kept the last batch, or the log of an update, from being written. The lock is freed in any case.
    pub async fn close(self) -> Result<()> {
        let logged = self.logs.store(&*self.writer).await;
        let marked = match self.end_queue().await {
            Ok(tail) if tail.next.get() > 0 => {
                let point = Point {
                    epoch: self.epoch(),
                    serial: self.state().serial(),
                    tail,
                    journal: None,
                };
                witness::keep(&self.stack, &point, self.seal.key()).await;
                let last = tail.next.get() - 1;
                let watermark = Watermark {
                    slot: state_core::Slot(last),
                    chain: tail.chain,
                };
                let nonce = Nonce::random(&*self.stack.environment().entropy);
                self.writer
                    .swap_head(nonce, &|head| head.watermark = Some(watermark))
                    .await
                    .map(drop)
            }
            other => other.map(drop),
        };
        let released = self.writer.release().await;
        marked.and(released).and(logged)
    }

    /// Writes what is queued and ends the queue; the lock stays.
    pub(crate) async fn end_queue(&self) -> Result<Tail> {
        let (reply, answer) = oneshot::channel();
        let asked = self.requests.send(Request::Close(reply)).await;
        asked.map_err(|_| self.gone())?;
        answer.await.map_err(|_| self.gone())?
    }

    pub(crate) fn untagged_writer(&self) -> Arc<dyn Writer> {
        Arc::clone(&self.untagged)
    }

    pub(crate) fn storing(&self) -> &RwLock<()> {
        &self.storing
    }

    /// How values are stored.
    pub(crate) const fn seal(&self) -> &Seal {
        &self.seal
    }

    /// What is true of a pending operation, as it is stored: under the uid that the entry will be recorded with.
    fn sealed_resolution(&self, id: MutationId, resolution: Resolution) -> Result<Resolution> {
        let Resolution::Done(Some(entry)) = resolution else {
            return Ok(resolution);
        };
        let state = self.state();
        let operation = state.pending().find(|operation| operation.id == id);
        let begun = operation.and_then(|operation| operation.entry.as_ref()?.uid);
        let sealed = self.seal.entry(Entry {
            uid: begun.or(entry.uid),
            ..Entry::clone(&entry)
        })?;
        Ok(Resolution::Done(Some(Arc::new(sealed))))
    }

    pub(crate) fn writer(&self) -> &dyn Writer {
        &*self.writer
    }

    /// Ends the open update with a mark.
    pub(crate) async fn end_update(&self, result: UpdateResult) -> Result<RevisionId> {
        let end = self.now();
        let build = move |state: &State, base: &Base| finished(state, base, Vec::new(), result, &end);
        self.built(build, Loaded::new())
            .await
            .and_then(|answer| self.made(answer))
    }

    /// Stores the log of an update that ended. What can't be stored now is tried again at the close.
    pub(crate) async fn keep_log(&self, revision: &RevisionId, log: &logs::Buffer) {
        if self.logs.add(revision.serial(), log).is_ok() && self.logs.store(&*self.writer).await.is_err() {
            // It stays, and the close tells.
        }
    }

    /// Queues records that the caller encoded.
    pub(crate) async fn submit(&self, records: Vec<Prepared>, durable: bool) -> Result<Answer> {
        self.queue(Work::Prepared(records), Loaded::new(), durable).await
    }

    async fn built<F>(&self, build: F, loaded: Loaded) -> Result<Answer>
    where
        F: FnOnce(&State, &Base) -> Result<Vec<Record>> + Send + 'static,
    {
        self.queue(Work::Built(Box::new(build)), loaded, true).await
    }

    async fn queue(&self, work: Work, loaded: Loaded, durable: bool) -> Result<Answer> {
        let (reply, answer) = oneshot::channel();
        let job = Job {
            work,
            loaded,
            durable,
            reply,
        };
        self.requests
            .send(Request::Job(job))
            .await
            .map_err(|_| self.gone())?;
        answer.await.map_err(|_| self.gone())?
    }

    async fn rebase(
        &self,
        request: UpdateRequest,
        mut snapshot: Snapshot,
        cause: RebaseCause,
        parent: Option<Option<RevisionId>>,
    ) -> Result<RevisionId> {
        let _storing = self.storing.read().await;
        let pending = std::mem::take(&mut snapshot.pending_operations);
        let (reference, snapshot) = self.store(snapshot).await?;
        let pending = match &cause {
            RebaseCause::Import { foreign: Some(_) } => self.adopted(pending, &snapshot)?,
            _ => Vec::new(),
        };
        let id = MutationId::random(&*self.stack.environment().entropy);
        let loaded = Loaded::from([(reference.digest, snapshot)]);
        let info = self.update_info(request);
        let end = self.now();
        let during = loaded.clone();
        let object = format!("stack {}", self.stack.name().short());
        let build = move |state: &State, base: &Base| {
            if parent.is_some_and(|parent| parent.as_ref() != state.current()) {
                let reason = "another revision was made in the meantime";
                return Err(Error::conflict(object, reason));
            }
            let rebase = Record::Rebase(Rebase {
                id,
                snapshot: reference,
                cause,
                pending,
            });
            let records = vec![started(state, info), rebase];
            finished_with(state, base, records, UpdateResult::Succeeded, &end, &during)
        };
        self.built(build, loaded)
            .await
            .and_then(|answer| self.made(answer))
    }

    fn update_info(&self, request: UpdateRequest) -> UpdateInfo {
        let environment = self.stack.environment();
        let UpdateRequest {
            kind,
            message,
            environment: remembered,
            forced,
        } = request;
        let mut info = UpdateInfo::new(
            UpdateId::random(&*environment.entropy),
            kind,
            environment.clock.now(),
        );
        info.who.clone_from(&environment.actor.who);
        info.host.clone_from(&environment.actor.host);
        info.version.clone_from(&environment.writer_version);
        info.message = message;
        info.environment = remembered;
        info.forced = forced;
        info
    }

    pub(crate) fn now(&self) -> state_core::Timestamp {
        self.stack.environment().clock.now()
    }

    fn made(&self, answer: Answer) -> Result<RevisionId> {
        answer.revision.ok_or_else(|| self.gone())
    }

    fn gone(&self) -> Error {
        if let Some(error) = &self.published.borrow().failure {
            return ended(error);
        }
        let reason = "its queue has ended: open the stack again".to_owned();
        Error::Closed {
            object: format!("stack {}", self.stack.name().short()),
            reason,
        }
    }
}
