//! How a session begins: what was read under the lock is checked, replayed and finished, then the queue starts.

use super::Session;
use crate::load::{self, Replayed};
use crate::outputs::{self, Publication};
use crate::queue::{Published, Queue, WAITING};
use crate::scribe::{Desk, Scribe, Unwritten};
use crate::sealing::Seal;
use crate::stack::Stack;
use crate::witness::{self, Point};
use crate::{keys, recovery};
use state_core::backend::Acquired;
use state_core::{Result, UpdateResult, Writer};
use std::sync::Arc;
use tokio::sync::{mpsc, watch};

/// What a writer found, and took for true.
struct Checked {
    seal: Seal,
    /// Tags what it writes.
    writer: Arc<dyn Writer>,
    replayed: Replayed,
    publication: Option<Publication>,
    unwritten: Unwritten,
}

impl Session {
    /// Replays the journal, ends what the writer before left open, and starts the queue.
    pub(crate) async fn open(stack: Stack, acquired: Acquired) -> Result<Self> {
        let checked = check(&stack, &acquired).await?;
        let Acquired {
            head, tail, writer, ..
        } = acquired;
        let state = checked.replayed.state;
        let interrupted = state.update().is_some();
        let (sender, requests) = mpsc::channel(WAITING);
        let environment = stack.environment().clone();
        let desk = Desk {
            writer: Arc::clone(&checked.writer),
            environment: environment.clone(),
            stack: head.name.to_string(),
            queue: sender.downgrade(),
            key: checked.seal.shared_key(),
            publication: checked.publication,
        };
        let journal_bytes = checked.replayed.journal_bytes;
        let scribe = Scribe::start(desk, head.base, journal_bytes, checked.unwritten);
        let (publish, published) = watch::channel(Published {
            state: Arc::new(state.clone()),
            tail,
            failure: None,
        });
        let queue = Queue {
            object: format!("stack {}", stack.name().short()),
            writer: Arc::clone(&checked.writer),
            entropy: environment.entropy,
            tail,
            requests,
            published: publish,
            scribe,
            key: checked.seal.shared_key(),
        };
        let session = Self {
            stack,
            writer: checked.writer,
            untagged: writer,
            requests: sender,
            published,
            recovered: state.pending().cloned().collect(),
            seal: checked.seal,
            logs: Arc::default(),
            storing: Arc::default(),
        };
        let _detached = tokio::spawn(queue.run(state));
        if interrupted {
            session.end_update(UpdateResult::Interrupted).await?;
        }
        Ok(session)
    }
}

/// Head and journal must be from those who have the key, and must not have gone back. Then a rename is finished that the
/// writer before began, and what it left unwritten is found.
async fn check(stack: &Stack, acquired: &Acquired) -> Result<Checked> {
    let (head, frames, tail) = (&acquired.head, &acquired.frames, acquired.tail);
    let writer = Arc::clone(&acquired.writer);
    let (seal, writer) = keys::for_writing(stack, writer, head, frames, tail.next).await?;
    let replayed = load::from_base(stack.backend(), stack.lineage(), &head.base, frames).await?;
    let point = Point {
        epoch: head.epoch,
        serial: replayed.state.serial(),
        tail,
        journal: Some((&head.base, frames)),
    };
    witness::require_onward(stack, &point, seal.key()).await?;
    recovery::finish_rename(stack, &*writer, head).await?;
    let publication = Publication::of(head);
    let unwritten = Unwritten {
        documents: recovery::missing_documents(stack, &replayed).await?,
        outputs: outputs::unpublished(stack, publication.as_ref(), &replayed).await?,
    };
    Ok(Checked {
        seal,
        writer,
        replayed,
        publication,
        unwritten,
    })
}
