//! The serial mutation queue: one task owns a stack's state, takes all waiting jobs, appends once and acknowledges all
//! of them.
//!
//! - A job that breaks a rule is refused alone; none of its records is written.
//! - While a batch is being appended, the next batch is prepared on the state after that batch. There is only one
//!   append at a time.
//! - A durable job is acknowledged once its records are synced. Any other job is acknowledged at once, and its records
//!   are written with the next durable job, in a full batch, or at the close.
//! - A record that makes a revision is the last record of its frame, because the id of the revision contains the chain
//!   digest after that frame.
//! - After a failed append nothing more is acknowledged, because the frame may or may not be durable. The next opening
//!   reads the outcome from the store.

pub(crate) mod batch;
pub(crate) mod draft;

use crate::read::replay;
use crate::write::checkpointer::Checkpointer;
use batch::{Batch, QueueEnd, Request};
use state_core::backend::Tail;
use state_core::journal::{Frame, FrameKind, Record};
use state_core::sealing::StackKey;
use state_core::{Entropy, Error, Nonce, Result, State, Timestamp, Writer};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot, watch};

/// Maximum number of jobs in the channel; further callers wait until they can send.
pub(crate) const WAITING: usize = 1024;

/// The state that readers of a session see: the state after the last acknowledged batch.
#[derive(Clone, Debug)]
pub(crate) struct Published {
    pub(crate) state: Arc<State>,
    /// The end of the journal after that batch.
    pub(crate) tail: Tail,
    /// Time of the last update end; empty if there is none.
    pub(crate) updated: Timestamp,
    /// The error that stopped the queue; none while it runs.
    pub(crate) failure: Option<Arc<Error>>,
}

/// State owned by the queue task.
pub(crate) struct Queue {
    /// Name of the stack in errors.
    pub(crate) object: String,
    pub(crate) writer: Arc<dyn Writer>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) tail: Tail,
    pub(crate) requests: mpsc::Receiver<Request>,
    pub(crate) published: watch::Sender<Published>,
    pub(crate) checkpointer: Checkpointer,
    /// Key with which frames are tagged; none on a plaintext stack.
    pub(crate) key: Option<Arc<dyn StackKey>>,
}

/// Whether further requests can arrive, and the caller that waits for the close.
#[derive(Default)]
struct IntakeState {
    /// Whether the channel is closed and empty.
    ended: bool,
    /// The reply channel of the close request; none until a close request has arrived.
    closing: Option<oneshot::Sender<Result<QueueEnd>>>,
}

impl Queue {
    /// Runs until the queue is closed, all handles are dropped, or a batch can't be written.
    pub(crate) async fn run(mut self, state: State) {
        let mut intake = IntakeState::default();
        let mut next = Batch::on(state);
        let mut failure = None;
        while failure.is_none() {
            self.collect(&mut next, &mut intake).await;
            // A close request is answered only after the batch before it has been sent, because the answer contains the
            // final tail.
            if next.is_empty() && intake.ended {
                break;
            }
            // A batch without durable jobs isn't sent until it is full: no caller waits for its records, so they can be
            // written together with the next durable job.
            if next.must_be_sent() || intake.ended {
                match self.send(next, &mut intake).await {
                    Ok(following) => next = following,
                    Err(error) => {
                        // `next` was prepared on a state that may never become durable, so the published state
                        // replaces it.
                        failure = Some(self.publish_failure(error));
                        next = Batch::on(State::clone(&self.published.borrow().state));
                    }
                }
            }
        }
        // The failure is published before the channel closes: a caller whose send fails reads the reason from the
        // published state.
        if let Some(error) = &failure {
            self.refuse_all(&mut intake, error).await;
        }
        if failure.is_none() && intake.closing.is_some() {
            failure = self.checkpoint_at_end().await;
        }
        // The checkpointer stops before the reply: the caller then releases the lock, after which no task may swap the
        // head.
        let background = self.checkpointer.stop().await;
        if let Some(reply) = intake.closing {
            let end = QueueEnd {
                tail: self.tail,
                checkpoint: background.checkpoint,
                publication: background.publication,
            };
            let _ = reply
                .send(failure.map_or(Ok(end), |error| Err(error_after(&error))))
                .ok();
        }
    }

    /// Takes waiting requests until none waits or the batch is full. If the batch needs no sync yet, first waits for a
    /// request.
    async fn collect(&mut self, next: &mut Batch, intake: &mut IntakeState) {
        if !next.must_be_sent() && !intake.ended {
            match self.requests.recv().await {
                Some(request) => self.take(request, next, intake),
                None => intake.ended = true,
            }
        }
        while !next.is_full() && !intake.ended {
            match self.requests.try_recv() {
                Ok(request) => self.take(request, next, intake),
                Err(mpsc::error::TryRecvError::Empty) => return,
                Err(mpsc::error::TryRecvError::Disconnected) => intake.ended = true,
            }
        }
    }

    fn take(&mut self, request: Request, next: &mut Batch, intake: &mut IntakeState) {
        match request {
            Request::Job(job) => next.add(job, &self.checkpointer.base()),
            Request::Jobs(jobs) => {
                let base = self.checkpointer.base();
                for job in jobs {
                    next.add(job, &base);
                }
            }
            Request::Close(reply) => {
                // No request is accepted after a close, so that the returned tail is the end of the journal.
                self.requests.close();
                if intake.closing.is_some() {
                    let _ = reply.send(Err(self.closed("it is being closed already"))).ok();
                } else {
                    intake.closing = Some(reply);
                }
            }
        }
    }

    /// Appends a batch and acknowledges its jobs. During the append, prepares the next batch, which it returns.
    ///
    /// # Errors
    /// Any error of the append, or of the rotation before it. All jobs of both batches that wait for a sync have then
    /// been answered with an error.
    async fn send(&mut self, mut sending: Batch, intake: &mut IntakeState) -> Result<Batch> {
        let frame = match self.next_frame(&sending).await {
            Ok(frame) => frame,
            Err(error) => {
                sending.fail(&error);
                return Err(error);
            }
        };
        // `settle` sets the id of the new revision in the state. It runs before the append, because the next batch is
        // prepared on this state during the append, and its records may refer to the id.
        let revision = sending.settle(frame.chain());
        self.checkpointer.prepare(&sending, &frame);
        let mut next = Batch::on(sending.state().clone());
        let writer = Arc::clone(&self.writer);
        let mut append = writer.append(&frame);
        let outcome = loop {
            tokio::select! {
                // `biased` polls the append first: a stream of new requests must not delay the acknowledgement.
                biased;
                outcome = &mut append => break outcome,
                request = self.requests.recv(), if !intake.ended && !next.is_full() => match request {
                    Some(request) => self.take(request, &mut next, intake),
                    None => intake.ended = true,
                },
            }
        };
        if let Err(error) = outcome {
            sending.fail(&error);
            // The next batch was built on records whose outcome is unknown, so its jobs are refused too. Their records
            // were never written.
            next.fail(&error_after(&error));
            return Err(error);
        }
        self.tail = Tail {
            next: frame.slot().next(),
            chain: *frame.chain(),
        };
        let ending = sending.take_ending();
        let updated = match &ending {
            Some(Record::UpdateEnd(end)) => replay::moment(end).clone(),
            _ => self.published.borrow().updated.clone(),
        };
        let resets = sending.take_resets();
        self.checkpointer
            .appended(&frame, ending, resets, sending.state());
        let state = Arc::new(sending.state().clone());
        // Order matters: the new state is published before jobs are acknowledged, so that a caller that reads the state
        // after its acknowledgement sees its own change.
        self.published.send_replace(Published {
            state,
            tail: self.tail,
            updated,
            failure: None,
        });
        sending.acknowledge(revision.as_ref());
        Ok(next)
    }

    /// Returns the frame of a batch. Starts a checkpoint first if one is due, because no append is running at this
    /// point.
    async fn next_frame(&mut self, batch: &Batch) -> Result<Frame> {
        // The checkpoint stores the published state. This batch isn't durable yet: if its append failed, a base that
        // contains it would show changes that were never acknowledged.
        let published = Arc::clone(&self.published.borrow().state);
        if self.checkpointer.wants_checkpoint(&published) {
            let before = self.rotate().await?;
            self.checkpointer.checkpoint(published, before);
        }
        let nonce = Nonce::random(&*self.entropy);
        let Tail { next, chain } = self.tail;
        Frame::tagged(
            self.key.as_deref(),
            FrameKind::Data,
            self.writer.epoch(),
            next,
            nonce,
            batch.payload(),
            &chain,
        )
    }

    /// Begins a new segment of the journal, and returns the end of the journal before it. No append may be running.
    ///
    /// Replay from a base can start only at the beginning of a segment, so a segment begins right after the state of a
    /// checkpoint.
    async fn rotate(&mut self) -> Result<Tail> {
        let before = self.tail;
        self.tail = self.writer.rotate(before, Nonce::random(&*self.entropy)).await?;
        Ok(before)
    }

    /// Stores the checkpoint that is due before the session ends. Returns the failure that stops the queue.
    async fn checkpoint_at_end(&mut self) -> Option<Arc<Error>> {
        let published = Arc::clone(&self.published.borrow().state);
        if !self.checkpointer.wants_last_checkpoint(&published) {
            return None;
        }
        match self.rotate().await {
            Ok(before) => {
                self.checkpointer.last_checkpoint(published, before);
                None
            }
            Err(error) => Some(self.publish_failure(error)),
        }
    }

    /// Stops accepting requests, and answers all waiting jobs with the reason of the failure. A waiting close request
    /// is answered by `run`.
    async fn refuse_all(&mut self, intake: &mut IntakeState, error: &Error) {
        self.requests.close();
        while let Some(request) = self.requests.recv().await {
            match request {
                Request::Job(job) => job.refuse(error_after(error)),
                Request::Jobs(jobs) => jobs.into_iter().for_each(|job| job.refuse(error_after(error))),
                Request::Close(reply) => intake.closing = Some(reply),
            }
        }
    }

    /// Publishes a failure, so that every handle of the session returns its reason from then on.
    fn publish_failure(&self, error: Error) -> Arc<Error> {
        let error = Arc::new(error);
        self.published
            .send_modify(|published| published.failure = Some(Arc::clone(&error)));
        error
    }

    fn closed(&self, reason: &str) -> Error {
        Error::closed(self.object.clone(), reason)
    }
}

/// The error for requests after a failure: none of their records was written.
pub(crate) fn error_after(error: &Error) -> Error {
    let object = error.object().to_owned();
    match error {
        Error::Fenced { mine, theirs, .. } => Error::Fenced {
            object,
            mine: *mine,
            theirs: *theirs,
            indeterminate: false,
        },
        other => Error::closed(object, other.to_string()),
    }
}
