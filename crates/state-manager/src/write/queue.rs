//! The serial mutation queue: one task owns a stack's state, takes all that waits, appends once, acknowledges
//! all.
//!
//! - A job that breaks a rule is refused alone; its records reach nobody's journal.
//! - While a batch syncs, the next one is prepared on the state behind it. Exactly one append is in flight.
//! - What isn't worth a sync by itself rides with the next batch, or with the close.
//! - A mark ends its frame: the chain there is in the revision's id.
//! - After a failed append nothing is acknowledged any more: the outcome is for the store to tell at the next
//!   opening.

pub(crate) mod batch;

use crate::write::checkpointer::Checkpointer;
use batch::{Batch, Request};
use state_core::backend::Tail;
use state_core::journal::{Frame, FrameKind};
use state_core::sealing::StackKey;
use state_core::{Entropy, Error, Nonce, Result, State, Writer};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot, watch};

/// How many jobs may wait before callers do.
pub(crate) const WAITING: usize = 1024;

/// What readers of a session see: the state of the last acknowledgement.
#[derive(Clone, Debug)]
pub(crate) struct Published {
    pub(crate) state: Arc<State>,
    pub(crate) tail: Tail,
    /// Why nothing more is acknowledged.
    pub(crate) failure: Option<Arc<Error>>,
}

/// State owned by the queue task.
pub(crate) struct Queue {
    pub(crate) object: String,
    pub(crate) writer: Arc<dyn Writer>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) tail: Tail,
    pub(crate) requests: mpsc::Receiver<Request>,
    pub(crate) published: watch::Sender<Published>,
    pub(crate) checkpointer: Checkpointer,
    /// What frames are tagged with.
    pub(crate) key: Option<Arc<dyn StackKey>>,
}

/// Who may still ask.
#[derive(Default)]
struct Intake {
    ended: bool,
    closing: Option<oneshot::Sender<Result<Tail>>>,
}

impl Queue {
    /// Runs until it is closed, every handle is gone, or an append fails.
    pub(crate) async fn run(mut self, state: State) {
        let mut intake = Intake::default();
        let mut next = Batch::on(state);
        let mut failure = None;
        while failure.is_none() {
            self.collect(&mut next, &mut intake).await;
            if next.is_empty() && intake.ended {
                break;
            }
            if next.must_be_sent() || intake.ended {
                match self.send(next, &mut intake).await {
                    Ok(following) => next = following,
                    Err(error) => {
                        failure = Some(self.publish_failure(error));
                        next = Batch::on(State::clone(&self.published.borrow().state));
                    }
                }
            }
        }
        if let Some(error) = &failure {
            self.refuse_all(&mut intake, error).await;
        }
        self.checkpointer.stop().await;
        if let Some(reply) = intake.closing {
            let _ = reply
                .send(failure.map_or(Ok(self.tail), |error| Err(ended(&error))))
                .ok();
        }
    }

    /// Takes all that waits; waits itself while there is nothing to send.
    async fn collect(&mut self, next: &mut Batch, intake: &mut Intake) {
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

    fn take(&mut self, request: Request, next: &mut Batch, intake: &mut Intake) {
        match request {
            Request::Job(job) => next.add(job, &self.checkpointer.base()),
            Request::Close(reply) => {
                self.requests.close();
                if intake.closing.is_some() {
                    let _ = reply.send(Err(self.closed("it is being closed already"))).ok();
                } else {
                    intake.closing = Some(reply);
                }
            }
        }
    }

    /// Appends a batch and acknowledges it; meanwhile prepares the next one, which comes back.
    async fn send(&mut self, mut sending: Batch, intake: &mut Intake) -> Result<Batch> {
        let frame = match self.next_frame(&sending).await {
            Ok(frame) => frame,
            Err(error) => {
                sending.fail(&error);
                return Err(error);
            }
        };
        let revision = sending.settle(frame.chain());
        let mut next = Batch::on(sending.state().clone());
        let writer = Arc::clone(&self.writer);
        let mut append = writer.append(&frame);
        let outcome = loop {
            tokio::select! {
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
            next.fail(&ended(&error));
            return Err(error);
        }
        self.tail = Tail {
            next: frame.slot().next(),
            chain: *frame.chain(),
        };
        let ending = sending.take_ending();
        self.checkpointer.appended(&frame, ending, sending.state());
        let state = Arc::new(sending.state().clone());
        self.published.send_replace(Published {
            state,
            tail: self.tail,
            failure: None,
        });
        sending.acknowledge(revision.as_ref());
        Ok(next)
    }

    /// The frame of a batch. A checkpoint that is due begins here, between two appends.
    async fn next_frame(&mut self, batch: &Batch) -> Result<Frame> {
        if self.checkpointer.wants_checkpoint() {
            let before = self.tail;
            self.tail = self.writer.rotate(before, Nonce::random(&*self.entropy)).await?;
            self.checkpointer
                .checkpoint(Arc::clone(&self.published.borrow().state), before);
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

    /// After a failure: everybody who waits or comes later hears why.
    async fn refuse_all(&mut self, intake: &mut Intake, error: &Error) {
        self.requests.close();
        while let Some(request) = self.requests.recv().await {
            match request {
                Request::Job(job) => job.refuse(ended(error)),
                Request::Close(reply) => intake.closing = Some(reply),
            }
        }
    }

    /// From here on every handle can tell why.
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

/// What those hear who come after a failure: nothing of theirs was written.
pub(crate) fn ended(error: &Error) -> Error {
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
