//! When checkpoints are due, and the queue's handle of the background task that writes them.
//!
//! A reset of the state (an import, a rollback) can make a checkpoint due at once. Its objects are then stored while the
//! frame of the reset is appended, and the head that closes the journal names them: on an object store, a command that
//! makes such a reset waits for no further request.

use crate::keys::authenticate::SessionHead;
use crate::objects::document::{RevisionDocument, RevisionRecord};
use crate::write::background::{BackgroundEnd, BackgroundWriter, Publication, Task};
use crate::write::checkpoint::CheckpointPoint;
use crate::write::queue::batch::Batch;
use crate::write::resets::{Loads, Reset};
use crate::write::session_history::SessionHistory;
use state_core::backend::Tail;
use state_core::journal::{Frame, Record};
use state_core::mutation::StackOutputs;
use state_core::{Base, Serial, State};
use std::sync::Arc;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

/// The queue's handle for the background task: sends work to the task and stops it.
pub(crate) struct Checkpointer {
    tasks: mpsc::UnboundedSender<Task>,
    base: watch::Receiver<Base>,
    /// Total size in bytes of the frames since the last started checkpoint; at first, of the frames since the base.
    journal_bytes: u64,
    /// The size of these frames from which a checkpoint can be due. It is due if they also have more bytes than the snapshots of
    /// the base.
    min_bytes: u64,
    /// What a reader loads for the frames since the last started checkpoint; at first, for those since the base.
    loads: Loads,
    /// The background task; none after [`Self::stop`].
    running: Option<JoinHandle<BackgroundEnd>>,
    head: Arc<SessionHead>,
    history: SessionHistory,
    /// Its single permit is taken from the start of a checkpoint to its end.
    checkpointing: Arc<tokio::sync::Semaphore>,
}

impl Checkpointer {
    /// Starts the background task. It first publishes the outputs that the previous owner left unpublished, if any.
    pub(crate) fn start(
        task: BackgroundWriter,
        base: Base,
        journal_bytes: u64,
        loads: Loads,
        unpublished: Option<(Publication, Serial, StackOutputs)>,
    ) -> Self {
        let (tasks, todo) = mpsc::unbounded_channel();
        if let Some((publication, serial, outputs)) = unpublished {
            let _ = tasks.send(Task::Outputs(publication, serial, outputs)).ok();
        }
        let head = Arc::clone(&task.head);
        let min_bytes = task.stack.store().checkpoint_bytes;
        let history = task.history.clone();
        let (set_base, base) = watch::channel(base);
        let running = Some(tokio::spawn(task.run(todo, set_base)));
        Self {
            tasks,
            base,
            journal_bytes,
            min_bytes,
            loads,
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

    /// Notes that a frame is durable. `ending` is the record that made a revision, `resets` are the snapshots to which
    /// the frame resets the state, and `state` is the state after the frame.
    pub(crate) fn appended(
        &mut self,
        frame: &Frame,
        ending: Option<Record>,
        resets: Vec<Reset>,
        state: &State,
    ) {
        self.journal_bytes += frame.bytes().len() as u64;
        for reset in resets {
            self.loads.add(reset);
        }
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

    /// Whether a checkpoint of this state is due and none is in progress.
    pub(crate) fn wants_checkpoint(&self, state: &State) -> bool {
        self.checkpointing.available_permits() > 0 && (self.is_long() || self.loads.are_too_many_for(state))
    }

    fn is_long(&self) -> bool {
        let base: u64 = self.base.borrow().snapshots().map(|one| one.length).sum();
        // The journal must be larger than the base: otherwise checkpoints of a large state would write far more
        // bytes than its mutations.
        self.journal_bytes > base.max(self.min_bytes)
    }

    /// Stores the objects of a checkpoint that will be due once this frame is durable: a reset in it makes a reader load too
    /// much. `batch` is the frame's batch. Nothing names the objects if the append fails.
    pub(crate) fn prepare(&self, batch: &Batch, frame: &Frame) {
        if batch.resets().is_empty() || self.checkpointing.available_permits() == 0 {
            return;
        }
        let mut loads = self.loads.clone();
        batch.resets().iter().cloned().for_each(|reset| loads.add(reset));
        if loads.are_too_many_for(batch.state()) {
            let ending = batch.ending().cloned();
            let point = CheckpointPoint {
                state: Arc::new(batch.state().clone()),
                start: Tail::after(frame),
                reset: loads.into_last(),
                ending: ending.and_then(|record| RevisionDocument::of_record(frame, record)),
            };
            let _ = self.tasks.send(Task::Store(point)).ok();
        }
    }

    /// Starts a checkpoint of an acknowledged state; `start` is the end of the journal after that state.
    pub(crate) fn checkpoint(&mut self, state: Arc<State>, start: Tail) {
        // There is one permit: while a checkpoint is being written, another one would repeat most of its work.
        if let Ok(permit) = Arc::clone(&self.checkpointing).try_acquire_owned() {
            let point = self.point(state, start);
            let _ = self.tasks.send(Task::Checkpoint(point, permit)).ok();
        }
    }

    /// Whether a checkpoint is due before the session ends: the next reader would load snapshots that a later one replaces.
    /// A long journal waits for the next session, because its checkpoint stores a whole snapshot.
    pub(crate) fn wants_last_checkpoint(&self, state: &State) -> bool {
        self.checkpointing.available_permits() > 0 && self.loads.are_too_many_for(state)
    }

    /// Stores a checkpoint of the state at the end of the session, which [`Self::stop`] then returns.
    pub(crate) fn last_checkpoint(&mut self, state: Arc<State>, start: Tail) {
        let point = self.point(state, start);
        let _ = self.tasks.send(Task::Last(point)).ok();
    }

    fn point(&mut self, state: Arc<State>, start: Tail) -> CheckpointPoint {
        self.journal_bytes = 0;
        CheckpointPoint {
            state,
            start,
            reset: std::mem::take(&mut self.loads).into_last(),
            ending: None,
        }
    }

    /// Finishes all tasks that were sent, then stops.
    pub(crate) async fn stop(&mut self) -> BackgroundEnd {
        let (tasks, _) = mpsc::unbounded_channel();
        // Replacing the sender closes the channel, so that the task ends after its last item.
        drop(std::mem::replace(&mut self.tasks, tasks));
        // If the task panicked, at most a checkpoint is missing, or outputs, which the next owner publishes.
        match self.running.take() {
            Some(running) => running.await.unwrap_or_default(),
            None => BackgroundEnd::default(),
        }
    }
}
