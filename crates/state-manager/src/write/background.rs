//! The background task of a session: it publishes outputs and writes checkpoints. Mutations never wait for it.

use crate::context::StackContext;
use crate::keys::authenticate::{Authenticated, SessionHead};
use crate::keys::sealing::SessionSealer;
use crate::write::checkpoint::{CheckpointPoint, StoredCheckpoint};
use crate::write::queue::batch::{Job, Request, Work};
use crate::write::session_history::{Paging, SessionHistory};
use state_core::backend::ObjectName;
use state_core::head::SealingPolicy;
use state_core::journal::{CheckpointNote, Record};
use state_core::mutation::StackOutputs;
use state_core::sealing::StackKey;
use state_core::state::LoadedSnapshots;
use state_core::{Base, Error, ErrorKind, Head, Result, Serial, StackName, Writer};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot, watch};

/// Work for the background task, done in the order in which it was sent.
pub(crate) enum Task {
    /// Publish the outputs of the revision with this serial.
    Outputs(Publication, Serial, StackOutputs),
    /// Store the objects of a checkpoint that is about to be due. The frame before it may not be durable yet.
    Store(CheckpointPoint),
    /// Make a checkpoint of an acknowledged state. The task keeps the permit until the end.
    Checkpoint(CheckpointPoint, OwnedSemaphorePermit),
    /// Store a checkpoint of the state at the end of the session. The head that closes the journal names it.
    Last(CheckpointPoint),
}

/// The result of the background task.
#[derive(Debug)]
pub(crate) struct BackgroundEnd {
    /// The checkpoint that the head which closes the journal names, if there is one.
    pub(crate) checkpoint: Option<StoredCheckpoint>,
    /// The error of the last publication of outputs.
    pub(crate) publication: Result<()>,
}

impl Default for BackgroundEnd {
    fn default() -> Self {
        Self {
            checkpoint: None,
            publication: Ok(()),
        }
    }
}

/// State owned by the background task.
pub(crate) struct BackgroundWriter {
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

impl BackgroundWriter {
    /// Does all work, until the channel is closed.
    pub(crate) async fn run(
        self,
        mut todo: mpsc::UnboundedReceiver<Task>,
        base: watch::Sender<Base>,
    ) -> BackgroundEnd {
        let mut stored = None;
        let mut publication = Ok(());
        while let Some(task) = todo.recv().await {
            match task {
                // A failure is reported when the session closes. A later publication makes it obsolete, because recipients
                // read only the latest outputs.
                Task::Outputs(recipients, serial, outputs) => {
                    publication = self.publish(&recipients, serial, &outputs).await;
                }
                Task::Store(point) => {
                    // A collection may delete these objects before the head names them. The turn of the checkpoint shows
                    // this later.
                    let paging = self.history.begin().await;
                    stored = self.store(point, &paging).await.ok();
                }
                Task::Checkpoint(point, permit) => {
                    // A failed checkpoint changes nothing: the old base stays, and the bytes that make the next
                    // checkpoint due are counted from zero.
                    if let Ok(made) = self.checkpoint(stored.take(), point).await {
                        base.send_replace(made.clone());
                        self.note(made);
                    }
                    drop(permit);
                }
                Task::Last(point) => {
                    let last = self.stored_at(stored, point).await.ok();
                    return BackgroundEnd {
                        checkpoint: last.map(|(stored, _)| stored),
                        publication,
                    };
                }
            }
        }
        BackgroundEnd {
            checkpoint: None,
            publication,
        }
    }

    async fn publish(&self, publication: &Publication, serial: Serial, outputs: &StackOutputs) -> Result<()> {
        let Some(key) = self.seal.key() else {
            return Ok(());
        };
        let published = publication.publish(&*self.writer, key, serial, outputs).await;
        published.map_err(|error| {
            let object = format!(
                "the outputs document of revision {serial} of stack {}",
                publication.stack.short()
            );
            match error.kind() {
                ErrorKind::Indeterminate => Error::indeterminate(object, error),
                _ => Error::not_applied(object, error),
            }
        })
    }

    async fn store(&self, point: CheckpointPoint, paging: &Paging<'_>) -> Result<StoredCheckpoint> {
        StoredCheckpoint::store(point, &self.name, &self.stack, &*self.writer, paging).await
    }

    /// Returns the stored checkpoint if it is the one at this point and still valid. Otherwise stores one. No collection
    /// deletes its objects while the caller keeps the second value.
    async fn stored_at(
        &self,
        stored: Option<StoredCheckpoint>,
        point: CheckpointPoint,
    ) -> Result<(StoredCheckpoint, Paging<'_>)> {
        if let Some(stored) = stored.filter(|stored| stored.is_at(point.start))
            && let Some(paging) = stored.resume(&self.history).await
        {
            return Ok((stored, paging));
        }
        let paging = self.history.begin().await;
        Ok((self.store(point, &paging).await?, paging))
    }

    async fn checkpoint(&self, stored: Option<StoredCheckpoint>, point: CheckpointPoint) -> Result<Base> {
        let (stored, _paging) = self.stored_at(stored, point).await?;
        let change = |head: &mut Head| stored.apply(head);
        self.head.swap(&*self.writer, self.stack.nonce(), &change).await?;
        Ok(stored.base().clone())
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
