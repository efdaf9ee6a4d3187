//! How a stack gets locked: the lock is acquired, what was read under it is authenticated, replayed and finished, then
//! the queue starts.

use crate::client_lock;
use crate::context::StackContext;
use crate::keys::sealing::SessionSealer;
use crate::keys::trust::{self, Point};
use crate::keys::wrapped;
use crate::objects::document::RevisionDocument;
use crate::read::replay::{self, Replayed};
use crate::read::view;
use crate::write::checkpointer::{CheckpointTask, Checkpointer, Publication, Unwritten};
use crate::write::locked_stack::LockedStack;
use crate::write::naming;
use crate::write::queue::{Published, Queue, WAITING};
use state_core::backend::{Acquire, Acquired, ObjectKind, ObjectName};
use state_core::head::SealingPolicy;
use state_core::mutation::StackOutputs;
use state_core::{Epoch, Head, Result, Serial, UpdateResult};
use std::sync::Arc;
use tokio::sync::{mpsc, watch};

/// Takes the writer lock unless a client lock of someone else holds. Leaves moves that were cut short as they are.
pub(crate) async fn acquire(
    stack: &StackContext,
    operation: &str,
    break_epoch: Option<Epoch>,
) -> Result<LockedStack> {
    // Checked before, so that a client that may not write doesn't take a new epoch, let alone break a lock.
    client_lock::gate(stack, &stack.head().await?)?;
    let acquired = acquire_writer(stack, operation, break_epoch).await?;
    if let Err(refused) = client_lock::gate(stack, &acquired.head) {
        acquired.writer.release().await?;
        return Err(refused);
    }
    open(stack, acquired).await
}

/// Takes the writer lock whatever client lock holds. Returns the head of that moment with it.
pub(crate) async fn acquire_ungated(stack: &StackContext, operation: &str) -> Result<(LockedStack, Head)> {
    let acquired = acquire_writer(stack, operation, None).await?;
    let head = acquired.head.clone();
    Ok((open(stack, acquired).await?, head))
}

async fn acquire_writer(
    stack: &StackContext,
    operation: &str,
    break_epoch: Option<Epoch>,
) -> Result<Acquired> {
    let request = Acquire {
        holder: stack.environment().holder(operation),
        break_epoch,
        head_nonce: stack.nonce(),
        fence_nonce: stack.nonce(),
    };
    stack.backend().acquire(stack.lineage(), &request).await
}

/// What a writer found, and accepted.
struct Checked {
    seal: SessionSealer,
    replayed: Replayed,
    publication: Option<Publication>,
    unwritten: Unwritten,
}

/// Replays the journal, ends what the writer before left open, and starts the queue.
async fn open(stack: &StackContext, acquired: Acquired) -> Result<LockedStack> {
    let checked = check(stack, &acquired).await?;
    let Acquired {
        head, tail, writer, ..
    } = acquired;
    let state = checked.replayed.state;
    let interrupted = state.update().is_some();
    let (sender, requests) = mpsc::channel(WAITING);
    let environment = stack.environment();
    let task = CheckpointTask {
        writer: Arc::clone(&writer),
        environment: environment.clone(),
        stack: head.name.to_string(),
        queue: sender.downgrade(),
        seal: checked.seal.clone(),
        publication: checked.publication,
    };
    let journal_bytes = checked.replayed.journal_bytes;
    let checkpointer = Checkpointer::start(task, head.base.clone(), journal_bytes, checked.unwritten);
    let (publish, published) = watch::channel(Published {
        state: Arc::new(state.clone()),
        tail,
        failure: None,
    });
    let queue = Queue {
        object: stack.object(),
        writer: Arc::clone(&writer),
        entropy: Arc::clone(&environment.entropy),
        tail,
        requests,
        published: publish,
        checkpointer,
        key: checked.seal.shared_key(),
    };
    let locked = LockedStack {
        stack: stack.clone(),
        writer,
        requests: sender,
        published,
        recovered: state.pending().cloned().collect(),
        seal: checked.seal,
        logs: Arc::default(),
        storing: Arc::default(),
    };
    naming::finish_rename(&locked, &head).await?;
    let _detached = tokio::spawn(queue.run(state));
    if interrupted {
        locked.end_update(UpdateResult::Interrupted).await?;
    }
    Ok(locked)
}

/// Head and journal must be from those who have the key, and must not have gone back. Then what the writer before left
/// unwritten is found.
async fn check(stack: &StackContext, acquired: &Acquired) -> Result<Checked> {
    let (head, frames, tail) = (&acquired.head, &acquired.frames, acquired.tail);
    let seal = seal_for_writing(stack, acquired).await?;
    let replayed = replay::from_base(stack, &head.base, frames).await?;
    let point = Point {
        epoch: head.epoch,
        serial: replayed.state.serial(),
        tail,
        journal: Some((&head.base, frames)),
    };
    trust::require_onward(stack, &point, seal.key()).await?;
    let publication = Publication::of(head);
    let outputs = match &publication {
        Some(_) => unpublished(stack, &replayed).await?,
        None => None,
    };
    let unwritten = Unwritten {
        documents: missing_documents(stack, &replayed).await?,
        outputs,
    };
    Ok(Checked {
        seal,
        replayed,
        publication,
        unwritten,
    })
}

/// What the owner seals with, once head and frames are known to be authentic. A stack without a key gets its first
/// here, unless it is plaintext.
async fn seal_for_writing(stack: &StackContext, acquired: &Acquired) -> Result<SessionSealer> {
    let (head, writer) = (&acquired.head, &*acquired.writer);
    if head.key_id.is_none() {
        trust::require_key(stack, head, None).await?;
    }
    match (head.policy, head.key_id, stack.keyring().provider()) {
        (SealingPolicy::Plaintext, None, _) | (_, None, None) => Ok(SessionSealer::new(head.policy, None)),
        (_, Some(id), _) => {
            let key = wrapped::unwrap(stack, id).await?;
            head.authenticate(&format!("head of {}", stack.object()), &*key)?;
            replay::authenticate(head, &acquired.frames, &*key)?;
            trust::require_key(stack, head, Some(&*key)).await?;
            Ok(SessionSealer::new(head.policy, Some(key)))
        }
        (_, None, Some(provider)) => {
            let key = provider.generate(stack.lineage())?;
            let wrapped_key = provider.wrap(key.id(), None)?;
            let files = wrapped::store(stack, writer, key.id(), &wrapped_key).await?;
            let next = acquired.tail.next;
            let keys = wrapped::successor(head, None, &*key, next, files, &wrapped_key.recipients);
            let seal = SessionSealer::new(head.policy, Some(Arc::clone(&key)));
            let change = |head: &mut Head| {
                head.key_id = Some(key.id());
                head.keys = Some(keys.clone());
            };
            seal.swap_head(writer, stack.nonce(), &change).await?;
            stack.keyring().keep(&key);
            Ok(seal)
        }
    }
}

/// The revisions of the live journal whose documents are not written yet. Deleted ones need none: theirs may have been
/// collected.
async fn missing_documents(stack: &StackContext, replayed: &Replayed) -> Result<Vec<RevisionDocument>> {
    if replayed.revisions.is_empty() {
        return Ok(Vec::new());
    }
    let there = stack.backend().list(stack.lineage(), ObjectKind::Update).await?;
    let is_missing = |document: &&RevisionDocument| {
        !replayed.state.is_forgotten(&document.revision)
            && !there.contains(&ObjectName::Update(document.revision.clone()))
    };
    Ok(replayed.revisions.iter().filter(is_missing).cloned().collect())
}

/// The current revision's outputs, if the writer before died before it published them.
async fn unpublished(stack: &StackContext, replayed: &Replayed) -> Result<Option<(Serial, StackOutputs)>> {
    let Some(current) = replayed.state.current() else {
        return Ok(None);
    };
    let name = ObjectName::Outputs(current.serial());
    let there = stack.backend().list(stack.lineage(), ObjectKind::Outputs).await?;
    if there.contains(&name) {
        return Ok(None);
    }
    Ok(Some((current.serial(), view::root_outputs(stack).await?)))
}
