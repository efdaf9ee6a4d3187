//! Opens a stack for writing: acquires the lock, authenticates and replays what was read under it, repairs what a crash
//! left unfinished, and starts the queue.

use crate::client_lock;
use crate::context::StackContext;
use crate::keys::sealing::SessionSealer;
use crate::keys::trust::{self, StackPosition};
use crate::keys::wrapped;
use crate::read::replay::{self, ReplayResult};
use crate::read::view;
use crate::write::checkpointer::{CheckpointTask, Checkpointer, Publication};
use crate::write::locked_stack::LockedStack;
use crate::write::naming;
use crate::write::queue::{Published, Queue, WAITING};
use crate::write::session_history::SessionHistory;
use state_core::backend::{Acquire, Acquired, ObjectKind, ObjectName};
use state_core::head::{SealingPolicy, Watermark};
use state_core::mutation::StackOutputs;
use state_core::{Epoch, Head, Result, Serial, Slot, UpdateResult};
use std::sync::Arc;
use tokio::sync::{mpsc, watch};

/// Takes the writer lock unless another client's lock holds. Does not settle interrupted moves.
pub(crate) async fn acquire(
    stack: &StackContext,
    operation: &str,
    break_epoch: Option<Epoch>,
) -> Result<LockedStack> {
    // Checked before the acquisition too: a client that may not write must not raise the epoch, let alone break a lock.
    client_lock::gate(stack, &stack.head().await?)?;
    let acquired = acquire_writer(stack, operation, break_epoch).await?;
    // Checked again under the lock: a client lock may have been set between the read above and the acquisition.
    if let Err(refused) = client_lock::gate(stack, &acquired.head) {
        acquired.writer.release().await?;
        return Err(refused);
    }
    open(stack, acquired).await
}

/// Takes the writer lock even if a client lock holds. Also returns the head as it was at the acquisition.
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

/// The accepted content of a stack, and what its previous writer left to be written.
struct OpeningCheck {
    seal: SessionSealer,
    replayed: ReplayResult,
    publication: Option<Publication>,
    unpublished: Option<(Serial, StackOutputs)>,
}

/// Replays the journal, ends the update that the previous writer left open, and starts the queue.
async fn open(stack: &StackContext, acquired: Acquired) -> Result<LockedStack> {
    let checked = check(stack, &acquired).await?;
    let Acquired {
        head, tail, writer, ..
    } = acquired;
    let state = checked.replayed.state;
    let interrupted = state.update().is_some();
    let (sender, requests) = mpsc::channel(WAITING);
    let environment = stack.environment();
    let history = SessionHistory::new(&head, checked.replayed.revisions);
    let task = CheckpointTask {
        writer: Arc::clone(&writer),
        stack: stack.clone(),
        name: head.name.to_string(),
        history: history.clone(),
        queue: sender.downgrade(),
        seal: checked.seal.clone(),
        publication: checked.publication,
    };
    let journal_bytes = checked.replayed.journal_bytes;
    let checkpointer = Checkpointer::start(task, head.base.clone(), journal_bytes, checked.unpublished);
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
        history,
        logs: Arc::default(),
        storing: Arc::default(),
    };
    // Before the queue starts: the first job must not run while the stack's name is undecided.
    naming::finish_rename(&locked, &head).await?;
    // The task ends by itself when the queue is closed or its last handle is dropped.
    let _detached = tokio::spawn(queue.run(state));
    if interrupted {
        // Recorded under the new epoch, so that the history shows the crashed update as interrupted.
        locked.end_update(UpdateResult::Interrupted).await?;
    }
    Ok(locked)
}

/// Requires that head and journal were written by holders of the data key and have not gone back. Then finds the
/// outputs that the previous writer left unpublished.
async fn check(stack: &StackContext, acquired: &Acquired) -> Result<OpeningCheck> {
    let (head, frames, tail) = (&acquired.head, &acquired.frames, acquired.tail);
    let seal = seal_for_writing(stack, acquired).await?;
    let replayed = replay::from_base(stack, &head.base, frames).await?;
    let point = StackPosition {
        epoch: head.epoch,
        serial: replayed.state.serial(),
        tail,
        journal: Some((&head.base, frames)),
    };
    // Only after authentication: a forged journal must not move the pin.
    trust::require_no_regression(stack, &point, seal.key()).await?;
    let publication = Publication::of(head);
    let unpublished = match &publication {
        Some(_) => unpublished(stack, &replayed).await?,
        None => None,
    };
    Ok(OpeningCheck {
        seal,
        replayed,
        publication,
        unpublished,
    })
}

/// The sealer of this session, after head and frames were authenticated. A stack without a key gets its first one here,
/// unless its policy is plaintext.
async fn seal_for_writing(stack: &StackContext, acquired: &Acquired) -> Result<SessionSealer> {
    let (head, writer) = (&acquired.head, &*acquired.writer);
    if head.key_id.is_none() {
        // Without a key there are no tags to check. The pin must confirm that the stack never had one.
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
            // The key files are durable before the head names the key: a crash between the two leaves unused files,
            // never a head whose key can't be read.
            let key = provider.generate(stack.lineage())?;
            let wrapped_key = provider.wrap(key.id(), None)?;
            let files = wrapped::store(stack, writer, key.id(), &wrapped_key).await?;
            let next = acquired.tail.next;
            let keys = wrapped::successor(head, None, &*key, next, files, &wrapped_key.recipients);
            let seal = SessionSealer::new(head.policy, Some(Arc::clone(&key)));
            // The frames before the first tagged one have no MAC. The signed watermark binds them by their chain, as the
            // head binds base and history by their digests.
            let written = next.get().checked_sub(1).map(|last| Watermark {
                slot: Slot(last),
                chain: acquired.tail.chain,
            });
            let change = |head: &mut Head| {
                head.key_id = Some(key.id());
                head.keys = Some(keys.clone());
                head.watermark = written.or(head.watermark);
            };
            seal.swap_head(writer, stack.nonce(), &change).await?;
            stack.keyring().keep(&key);
            Ok(seal)
        }
    }
}

/// The current revision's outputs, if the previous writer crashed before it published them.
async fn unpublished(
    stack: &StackContext,
    replayed: &ReplayResult,
) -> Result<Option<(Serial, StackOutputs)>> {
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
