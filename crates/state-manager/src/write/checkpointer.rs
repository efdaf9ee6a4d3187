//! Background writer of update documents, published outputs and checkpoints, in order, never in the way of a mutation.
//!
//! Update documents go out as their marks are acknowledged; a checkpoint's head swap comes after the documents
//! of all marks before it, because both go through one queue. What a crash leaves undone the next owner does.

use crate::environment::Environment;
use crate::keys::sealing::SessionSealer;
use crate::objects::document::{Made, RevisionDocument};
use crate::objects::snapshots;
use crate::write::queue::batch::{Job, Request, Work};
use state_core::backend::{ObjectName, Tail};
use state_core::head::SealingPolicy;
use state_core::journal::{CheckpointNote, Frame, Record};
use state_core::mutation::StackOutputs;
use state_core::sealing::StackKey;
use state_core::state::LoadedSnapshots;
use state_core::{Base, Enveloped, Head, Nonce, Result, Serial, State, Writer};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

/// A checkpoint is due when the journal behind the base is larger than this, and than the base's snapshot.
const CHECKPOINT_BYTES: u64 = 1 << 20;

/// The queue's side of it.
pub(crate) struct Checkpointer {
    tasks: mpsc::UnboundedSender<Task>,
    base: watch::Receiver<Base>,
    /// Bytes of frames since the last rotation for a checkpoint.
    journal_bytes: u64,
    running: Option<JoinHandle<()>>,
    publishes: bool,
    checkpointing: Arc<tokio::sync::Semaphore>,
}

enum Task {
    Document(Box<RevisionDocument>),
    Outputs(Serial, StackOutputs),
    Checkpoint {
        state: Arc<State>,
        start: Tail,
        permit: tokio::sync::OwnedSemaphorePermit,
    },
}

/// State owned by the background task.
pub(crate) struct CheckpointTask {
    pub(crate) writer: Arc<dyn Writer>,
    pub(crate) environment: Environment,
    pub(crate) stack: String,
    /// Where it tells the queue that a checkpoint is in force.
    pub(crate) queue: mpsc::WeakSender<Request>,
    /// What heads and documents are tagged with.
    pub(crate) seal: SessionSealer,
    /// Who gets the outputs apart.
    pub(crate) publication: Option<Publication>,
}

/// For whom a session publishes, and how.
#[derive(Clone, Debug)]
pub(crate) struct Publication {
    policy: SealingPolicy,
    recipients: Vec<String>,
}

impl Publication {
    /// What the head asks for; none when nobody but those who read the stack shall have the outputs.
    pub(crate) fn of(head: &Head) -> Option<Self> {
        let recipients = head.keys.as_ref().map(|keys| keys.outputs.clone())?;
        (!recipients.is_empty()).then_some(Self {
            policy: head.policy,
            recipients,
        })
    }

    /// Writes the document of a revision.
    async fn publish(
        &self,
        writer: &dyn Writer,
        key: &dyn StackKey,
        serial: Serial,
        outputs: &StackOutputs,
    ) -> Result<()> {
        let document = key.outputs_document(self.policy, serial, outputs, &self.recipients)?;
        writer.create(&ObjectName::Outputs(serial), document.into()).await
    }
}

/// What an earlier owner left unwritten.
#[derive(Default)]
pub(crate) struct Unwritten {
    pub(crate) documents: Vec<RevisionDocument>,
    pub(crate) outputs: Option<(Serial, StackOutputs)>,
}

impl Checkpointer {
    /// Starts it.
    pub(crate) fn start(task: CheckpointTask, base: Base, journal_bytes: u64, unwritten: Unwritten) -> Self {
        let (tasks, todo) = mpsc::unbounded_channel();
        for document in unwritten.documents {
            let _ = tasks.send(Task::Document(Box::new(document))).ok();
        }
        if let Some((serial, outputs)) = unwritten.outputs {
            let _ = tasks.send(Task::Outputs(serial, outputs)).ok();
        }
        let publishes = task.publication.is_some();
        let (set_base, base) = watch::channel(base);
        let running = Some(tokio::spawn(task.run(todo, set_base)));
        Self {
            tasks,
            base,
            journal_bytes,
            running,
            publishes,
            checkpointing: Arc::new(tokio::sync::Semaphore::new(1)),
        }
    }

    /// Where replay begins now.
    pub(crate) fn base(&self) -> Base {
        self.base.borrow().clone()
    }

    /// A frame is durable; `ending` is the mark in it, and `state` what it led to.
    pub(crate) fn appended(&mut self, frame: &Frame, ending: Option<Record>, state: &State) {
        self.journal_bytes += frame.bytes().len() as u64;
        if let Some(document) = ending.and_then(|record| RevisionDocument::of_record(frame, record)) {
            if self.publishes && matches!(document.made, Made::UpdateEnd(_)) {
                let outputs = Task::Outputs(document.revision.serial(), state.outputs().clone());
                let _ = self.tasks.send(outputs).ok();
            }
            let _ = self.tasks.send(Task::Document(Box::new(document))).ok();
        }
    }

    /// Whether a checkpoint is due and none is being made.
    pub(crate) fn wants_checkpoint(&self) -> bool {
        let base = self
            .base
            .borrow()
            .snapshot
            .as_ref()
            .map_or(0, |reference| reference.length);
        self.journal_bytes > base.max(CHECKPOINT_BYTES) && self.checkpointing.available_permits() > 0
    }

    /// Makes a checkpoint of an acknowledged state; `start` is the journal's end behind it.
    pub(crate) fn checkpoint(&mut self, state: Arc<State>, start: Tail) {
        if let Ok(permit) = Arc::clone(&self.checkpointing).try_acquire_owned() {
            self.journal_bytes = 0;
            let _ = self.tasks.send(Task::Checkpoint { state, start, permit }).ok();
        }
    }

    /// Finishes what was asked, then ends.
    pub(crate) async fn stop(&mut self) {
        let (tasks, _) = mpsc::unbounded_channel();
        drop(std::mem::replace(&mut self.tasks, tasks));
        if let Some(running) = self.running.take() {
            // A checkpointer that panicked left only derived objects undone: the next owner writes them.
            let _ = running.await.ok();
        }
    }
}

impl CheckpointTask {
    async fn run(self, mut todo: mpsc::UnboundedReceiver<Task>, base: watch::Sender<Base>) {
        // Once a document can't be written no checkpoint may pass it: its mark would fall behind the base.
        let mut behind = false;
        while let Some(task) = todo.recv().await {
            match task {
                Task::Document(document) => behind |= self.write_document(&document).await.is_err(),
                // The next owner writes those of the current revision.
                Task::Outputs(serial, outputs) => {
                    let _ = self.publish(serial, &outputs).await.ok();
                }
                Task::Checkpoint { state, start, permit } => {
                    if !behind && let Ok(made) = self.checkpoint(state, start).await {
                        base.send_replace(made.clone());
                        self.note(made);
                    }
                    drop(permit);
                }
            }
        }
    }

    async fn write_document(&self, document: &RevisionDocument) -> Result<()> {
        let name = ObjectName::Update(document.revision.clone());
        let bytes = match self.seal.key() {
            Some(key) => document.clone().tagged(key).encode(),
            None => document.encode(),
        };
        self.writer.create(&name, bytes.into()).await
    }

    async fn publish(&self, serial: Serial, outputs: &StackOutputs) -> Result<()> {
        match (&self.publication, self.seal.key()) {
            (Some(publication), Some(key)) => publication.publish(&*self.writer, key, serial, outputs).await,
            _ => Ok(()),
        }
    }

    async fn checkpoint(&self, state: Arc<State>, start: Tail) -> Result<Base> {
        let mut snapshot = state.snapshot(&self.stack, self.environment.clock.now());
        snapshot.continuation = Some(state.continuation());
        let reference = snapshots::store(&*self.writer, Arc::new(snapshot), start.next).await?;
        let made = Base {
            snapshot: Some(reference),
            start: start.next,
            chain: start.chain,
        };
        let open = state.update().is_some();
        let nonce = Nonce::random(&*self.environment.entropy);
        let change = |head: &mut Head| {
            // While an update is open its start lies before the new base: readers of the current revision
            // begin where they began before.
            head.rev_base = open.then(|| head.rev_base.clone().unwrap_or_else(|| head.base.clone()));
            head.base = made.clone();
        };
        self.seal.swap_head(&*self.writer, nonce, &change).await?;
        Ok(made)
    }

    /// Tells the journal. It rides with the next batch; without one the head vouches alone.
    fn note(&self, base: Base) {
        let (reply, _) = oneshot::channel();
        let work = Work::Prepared(vec![Record::Checkpoint(CheckpointNote { base }).into()]);
        if let Some(queue) = self.queue.upgrade() {
            let _ = queue
                .try_send(Request::Job(Job {
                    work,
                    loaded: LoadedSnapshots::new(),
                    durable: false,
                    reply,
                }))
                .ok();
        }
    }
}
