//! Background writer of published outputs and checkpoints. Mutations never wait for it.
//!
//! Ordering: a checkpoint stores its snapshot and the history pages of all earlier revisions, then swaps the head that
//! names them. A crash before the swap leaves objects that nothing names; a collection deletes them.

use crate::context::StackContext;
use crate::keys::authenticate::{Authenticated, SessionHead};
use crate::keys::sealing::SessionSealer;
use crate::objects::document::{RevisionDocument, RevisionRecord};
use crate::objects::snapshots;
use crate::write::queue::batch::{Job, Request, Work};
use crate::write::session_history::SessionHistory;
use state_core::backend::{ObjectName, Tail};
use state_core::head::SealingPolicy;
use state_core::journal::{CheckpointNote, Frame, Record};
use state_core::mutation::StackOutputs;
use state_core::sealing::StackKey;
use state_core::state::LoadedSnapshots;
use state_core::{Base, Error, Head, Result, Serial, StackName, State, Writer};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

/// A checkpoint is due when the frames since the last started checkpoint have more bytes than this limit, and more
/// bytes than the base's snapshot.
const CHECKPOINT_BYTES: u64 = 1 << 20;

/// The queue's handle for the background task: sends work to the task and stops it.
pub(crate) struct Checkpointer {
    tasks: mpsc::UnboundedSender<Task>,
    base: watch::Receiver<Base>,
    /// Total size in bytes of the frames since the last started checkpoint; at first, of the frames since the base.
    journal_bytes: u64,
    /// The background task; none after [`Self::stop`].
    running: Option<JoinHandle<()>>,
    head: Arc<SessionHead>,
    history: SessionHistory,
    /// Its single permit is taken from the start of a checkpoint to its end.
    checkpointing: Arc<tokio::sync::Semaphore>,
}

/// Work for the background task, done in the order in which it was sent.
enum Task {
    /// Publish the outputs of the revision with this serial.
    Outputs(Publication, Serial, StackOutputs),
    /// Store a checkpoint of `state`. `start` is the end of the journal after that state.
    Checkpoint {
        state: Arc<State>,
        start: Tail,
        permit: tokio::sync::OwnedSemaphorePermit,
    },
}

/// State owned by the background task.
pub(crate) struct CheckpointTask {
    pub(crate) writer: Arc<dyn Writer>,
    pub(crate) stack: StackContext,
    /// Name of the stack in snapshots.
    pub(crate) name: String,
    pub(crate) history: SessionHistory,
    /// Channel on which the task queues the record of a stored checkpoint. Weak, because the task must not keep the
    /// queue alive.
    pub(crate) queue: mpsc::WeakSender<Request>,
    /// Provides the key that seals published outputs. Its policy isn't used: the [`Publication`] has the policy.
    pub(crate) seal: SessionSealer,
    pub(crate) head: Arc<SessionHead>,
}

/// The recipients for whom outputs are published, and the policy with which the outputs are sealed.
#[derive(Clone, Debug)]
pub(crate) struct Publication {
    /// Name of the stack. Readers accept an outputs document only under this name.
    stack: StackName,
    policy: SealingPolicy,
    recipients: Vec<String>,
}

impl Publication {
    /// The publication that the head configures; none when there are no recipients for outputs.
    pub(crate) fn of(head: &Authenticated<Head>) -> Option<Self> {
        let recipients = head.keys.as_ref().map(|keys| keys.outputs.clone())?;
        (!recipients.is_empty()).then_some(Self {
            stack: head.name.clone(),
            policy: head.policy,
            recipients,
        })
    }

    /// Writes the outputs document of a revision.
    async fn publish(
        &self,
        writer: &dyn Writer,
        key: &dyn StackKey,
        serial: Serial,
        outputs: &StackOutputs,
    ) -> Result<()> {
        let document = key.outputs_document(self.policy, &self.stack, serial, outputs, &self.recipients)?;
        writer.create(&ObjectName::Outputs(serial), document.into()).await
    }
}

impl Checkpointer {
    /// Starts the background task. It first publishes the outputs that the previous owner left unpublished, if any.
    pub(crate) fn start(
        task: CheckpointTask,
        base: Base,
        journal_bytes: u64,
        unpublished: Option<(Publication, Serial, StackOutputs)>,
    ) -> Self {
        let (tasks, todo) = mpsc::unbounded_channel();
        if let Some((publication, serial, outputs)) = unpublished {
            let _ = tasks.send(Task::Outputs(publication, serial, outputs)).ok();
        }
        let head = Arc::clone(&task.head);
        let history = task.history.clone();
        let (set_base, base) = watch::channel(base);
        let running = Some(tokio::spawn(task.run(todo, set_base)));
        Self {
            tasks,
            base,
            journal_bytes,
            running,
            head,
            history,
            checkpointing: Arc::new(tokio::sync::Semaphore::new(1)),
        }
    }

    /// The base from which replay begins now.
    pub(crate) fn base(&self) -> Base {
        self.base.borrow().clone()
    }

    /// Notes that a frame is durable. `ending` is the record that made a revision, and `state` the state after the
    /// frame.
    pub(crate) fn appended(&mut self, frame: &Frame, ending: Option<Record>, state: &State) {
        self.journal_bytes += frame.bytes().len() as u64;
        // Documents are derived from durable frames only: a document written earlier could name a revision that never
        // became durable.
        if let Some(document) = ending.and_then(|record| RevisionDocument::of_record(frame, record)) {
            // The recipients are those of the present head: the update that ends here may have added some.
            if matches!(document.made, RevisionRecord::UpdateEnd(_))
                && let Some(publication) = Publication::of(&self.head.current())
            {
                let serial = document.revision.serial();
                let outputs = Task::Outputs(publication, serial, state.outputs().clone());
                let _ = self.tasks.send(outputs).ok();
            }
            self.history.add(document);
        }
    }

    /// Whether a checkpoint is due and none is in progress.
    pub(crate) fn wants_checkpoint(&self) -> bool {
        let base = self
            .base
            .borrow()
            .snapshot
            .as_ref()
            .map_or(0, |reference| reference.length);
        // The journal must be larger than the snapshot: otherwise checkpoints of a large state would write far more
        // bytes than its mutations.
        self.journal_bytes > base.max(CHECKPOINT_BYTES) && self.checkpointing.available_permits() > 0
    }

    /// Starts a checkpoint of an acknowledged state; `start` is the end of the journal after that state.
    pub(crate) fn checkpoint(&mut self, state: Arc<State>, start: Tail) {
        // There is one permit: while a checkpoint is being written, another one would repeat most of its work.
        if let Ok(permit) = Arc::clone(&self.checkpointing).try_acquire_owned() {
            self.journal_bytes = 0;
            let _ = self.tasks.send(Task::Checkpoint { state, start, permit }).ok();
        }
    }

    /// Finishes all tasks that were sent, then stops.
    pub(crate) async fn stop(&mut self) {
        let (tasks, _) = mpsc::unbounded_channel();
        // Replacing the sender closes the channel, so that the task ends after its last item.
        drop(std::mem::replace(&mut self.tasks, tasks));
        if let Some(running) = self.running.take() {
            // If the task panicked, at most a checkpoint is missing, or outputs, which the next owner publishes.
            let _ = running.await.ok();
        }
    }
}

impl CheckpointTask {
    async fn run(self, mut todo: mpsc::UnboundedReceiver<Task>, base: watch::Sender<Base>) {
        while let Some(task) = todo.recv().await {
            match task {
                // A failure is ignored: the next owner publishes the outputs of the current revision.
                Task::Outputs(publication, serial, outputs) => {
                    let _ = self.publish(&publication, serial, &outputs).await.ok();
                }
                Task::Checkpoint { state, start, permit } => {
                    // A failed checkpoint changes nothing: the old base stays, and the bytes that make the next
                    // checkpoint due are counted from zero.
                    if let Ok(made) = self.checkpoint(state, start).await {
                        base.send_replace(made.clone());
                        self.note(made);
                    }
                    drop(permit);
                }
            }
        }
    }

    async fn publish(&self, publication: &Publication, serial: Serial, outputs: &StackOutputs) -> Result<()> {
        match self.seal.key() {
            Some(key) => publication.publish(&*self.writer, key, serial, outputs).await,
            None => Ok(()),
        }
    }

    async fn checkpoint(&self, state: Arc<State>, start: Tail) -> Result<Base> {
        let mut snapshot = state.snapshot(&self.name, self.stack.now());
        // With the continuation (pending operations, open update, moves), replay can start at the snapshot as if it had
        // read the whole journal.
        snapshot.continuation = Some(state.continuation());
        let reference = snapshots::store(&*self.writer, Arc::new(snapshot), start.next).await?;
        let made = Base {
            snapshot: Some(reference),
            start: start.next,
            chain: start.chain,
        };
        let open = state.update().is_some();
        let paging = self.history.begin().await;
        let writer = &*self.writer;
        let history = paging.up_to(&self.stack, writer, start.next, &state).await?;
        let change = |head: &mut Head| {
            // An open update began before the new base. Readers of the current revision must therefore replay from the
            // earlier base until that update has ended.
            head.rev_base = open.then(|| head.rev_base.clone().unwrap_or_else(|| head.base.clone()));
            // A collection may have raised the base since this checkpoint began, and deleted what lies before.
            if made.start < head.base.start {
                return Err(Error::conflict(
                    self.stack.object(),
                    "its base is later than the checkpoint",
                ));
            }
            // The pages and the base change in one swap, so that each revision is always in the live journal or on a
            // page.
            history.apply(head)?;
            head.base = made.clone();
            Ok(())
        };
        self.head.swap(writer, self.stack.nonce(), &change).await?;
        Ok(made)
    }

    /// Queues a record of the checkpoint. It is written with the next batch; until then only the head names the new
    /// base.
    fn note(&self, base: Base) {
        let (reply, _) = oneshot::channel();
        let work = Work::Prepared(vec![Record::Checkpoint(CheckpointNote { base }).into()]);
        if let Some(queue) = self.queue.upgrade() {
            // A full or closed queue drops the note, because the head is sufficient: this task never waits for the
            // queue.
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
