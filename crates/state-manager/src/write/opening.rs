//! Opens a stack for writing: acquires the lock, authenticates and replays the journal, finishes the work of a crashed
//! writer, and starts the queue.

use crate::client_lock;
use crate::context::StackContext;
use crate::keys::authenticate::{self, OpenedHead, OpenedJournal, SessionHead};
use crate::keys::position::StackPosition;
use crate::keys::proof::Proof;
use crate::keys::sealing::SessionSealer;
use crate::keys::trust::{self, PinComparison};
use crate::keys::wrapped;
use crate::read::descent;
use crate::read::replay::{self, ReplayResult};
use crate::read::sealing_changes;
use crate::read::tip::Tip;
use crate::read::view;
use crate::write::checkpointer::{CheckpointTask, Checkpointer, Publication};
use crate::write::locked_stack::{LockedStack, watermark_at};
use crate::write::naming;
use crate::write::queue::{Published, Queue, WAITING};
use crate::write::session_history::SessionHistory;
use state_core::backend::{Acquire, JournalView, ObjectKind, ObjectName};
use state_core::head::SealingPolicy;
use state_core::mutation::StackOutputs;
use state_core::{Epoch, Head, Result, Serial, UpdateResult, Writer};
use std::sync::Arc;
use tokio::sync::{mpsc, watch};

/// Takes the writer lock unless another client's lock holds. Does not settle interrupted moves.
pub(crate) async fn acquire(
    stack: &StackContext,
    operation: &str,
    break_epoch: Option<Epoch>,
) -> Result<LockedStack> {
    // The client lock is checked before the acquisition: a client that may not write must not raise the epoch or break
    // a lock.
    client_lock::gate(stack, &authenticate::head(stack).await?.head)?;
    let (writer, journal) = acquire_writer(stack, operation, break_epoch).await?;
    // It is checked again under the writer lock: it may have been set between the read above and the acquisition.
    if let Err(refused) = client_lock::gate(stack, &journal.head) {
        writer.release().await?;
        return Err(refused);
    }
    open(stack, writer, journal).await
}

/// Takes the writer lock even if a client lock holds.
pub(crate) async fn acquire_ungated(stack: &StackContext, operation: &str) -> Result<LockedStack> {
    let (writer, journal) = acquire_writer(stack, operation, None).await?;
    open(stack, writer, journal).await
}

/// Takes the writer lock, and authenticates the head and the journal that were read under it.
async fn acquire_writer(
    stack: &StackContext,
    operation: &str,
    break_epoch: Option<Epoch>,
) -> Result<(Arc<dyn Writer>, OpenedJournal)> {
    let request = Acquire {
        holder: stack.environment().holder(operation),
        break_epoch,
        head_nonce: stack.nonce(),
        fence_nonce: stack.nonce(),
    };
    let acquired = stack.backend().acquire(stack.lineage(), &request).await?;
    let writer = acquired.writer;
    let view = JournalView {
        head: acquired.head,
        frames: acquired.frames,
        tail: acquired.tail,
    };
    match authenticate::acquired(stack, view).await {
        Ok(journal) => Ok((writer, journal)),
        Err(refused) => {
            // Nothing was written yet. A refused client must not keep others out until its lease ends.
            drop(writer.release().await);
            Err(refused)
        }
    }
}

/// The accepted content of a stack, and the objects that its previous writer left unwritten.
struct OpeningCheck {
    seal: SessionSealer,
    head: Arc<SessionHead>,
    replayed: ReplayResult,
    publication: Option<Publication>,
    unpublished: Option<(Serial, StackOutputs)>,
}

/// Replays the journal, ends the update that the previous writer left open, and starts the queue.
async fn open(stack: &StackContext, writer: Arc<dyn Writer>, journal: OpenedJournal) -> Result<LockedStack> {
    let checked = check(stack, &writer, &journal).await?;
    let OpenedJournal { head, tail, .. } = journal;
    let state = checked.replayed.state;
    let interrupted = state.update().is_some();
    let (sender, requests) = mpsc::channel(WAITING);
    let environment = stack.environment();
    let history = SessionHistory::new(Arc::clone(&checked.head), checked.replayed.revisions);
    let task = CheckpointTask {
        writer: Arc::clone(&writer),
        stack: stack.clone(),
        name: head.name.to_string(),
        history: history.clone(),
        queue: sender.downgrade(),
        seal: checked.seal.clone(),
        head: Arc::clone(&checked.head),
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
        head: checked.head,
        logs: Arc::default(),
        storing: Arc::default(),
    };
    // A rename is finished before the queue starts: the first job must not run while the stack's name is undecided.
    naming::finish_rename(&locked).await?;
    // The task ends by itself when the queue is closed or its last handle is dropped.
    let _detached = tokio::spawn(queue.run(state));
    if interrupted {
        // The end is recorded under the new epoch, so that the history shows the crashed update as interrupted.
        locked.end_update(UpdateResult::Interrupted).await?;
    }
    Ok(locked)
}

/// Requires that the stack was not rolled back. Then gives a stack without a data key its first one, and finds the
/// outputs that the previous writer left unpublished.
async fn check(
    stack: &StackContext,
    writer: &Arc<dyn Writer>,
    journal: &OpenedJournal,
) -> Result<OpeningCheck> {
    descent::require(stack, journal).await?;
    let replayed = replay::from_base(stack, &journal.head.base, journal.live()).await?;
    // This check precedes the first write: a stack that was rolled back must not get a key either.
    match trust::advance_pin(stack, journal, &replayed.state).await? {
        PinComparison::Advanced => {}
        PinComparison::RolledBack(regression) => return Err(trust::distrusted(stack, regression)),
        PinComparison::Changed(change) => {
            let tip = Tip::of(stack, journal).await?;
            sealing_changes::report(stack, &tip, change).await;
        }
    }
    let opened = with_key(stack, &**writer, journal).await?;
    if opened.head.proof() != journal.head.proof() {
        // The first key is pinned at once: otherwise this client would accept another first key after a crash.
        let proof = opened.head.proof();
        let sealed = StackPosition::at_end(proof, &opened.head, &replayed.state, journal.tail);
        trust::remember_position(stack, &sealed).await;
    } else if opened.head.proof() == Proof::Plain {
        trust::remember_unsealed_writing(stack).await;
    }
    let seal = SessionSealer::new(opened.head.policy, opened.key.clone());
    let publication = Publication::of(&opened.head);
    let unpublished = match &publication {
        Some(_) => unpublished(stack, &replayed).await?,
        None => None,
    };
    Ok(OpeningCheck {
        seal,
        head: Arc::new(SessionHead::new(stack.object(), opened)),
        replayed,
        publication,
        unpublished,
    })
}

/// The head with which this session begins. A stack without a key gets its first one here, unless its policy is
/// plaintext or this client has no key provider.
async fn with_key(stack: &StackContext, writer: &dyn Writer, journal: &OpenedJournal) -> Result<OpenedHead> {
    let opened = journal.opened_head();
    let provider = match (
        opened.head.policy,
        opened.head.proof(),
        stack.keyring().provider(),
    ) {
        (SealingPolicy::Plaintext, Proof::Plain, _) | (_, Proof::Plain, None) => return Ok(opened),
        (_, Proof::Mac(_) | Proof::Unchecked, _) => return Ok(opened),
        (_, Proof::Plain, Some(provider)) => provider,
    };
    // The key files are durable before the head names the key: a crash between the two leaves unused files, never a
    // head whose key can't be read.
    let key = provider.generate(stack.lineage())?;
    let wrapped_key = provider.wrap(key.id(), None)?;
    let files = wrapped::store(stack, writer, key.id(), &wrapped_key).await?;
    trust::announce_key(stack, key.id()).await;
    let head = SessionHead::new(stack.object(), opened);
    let next = journal.tail.next;
    let keys = head.successor(&*key, next, files, &wrapped_key.recipients);
    // The frames before the first tagged one have no MAC. The signed watermark binds them by their chain, as the head
    // binds base and history by their digests.
    let written = watermark_at(journal.tail);
    let change = |head: &mut Head| {
        head.key_id = Some(key.id());
        head.keys = Some(keys.clone());
        head.watermark = written.or(head.watermark);
        Ok(())
    };
    let sealed = head.swap_key(&key, writer, stack.nonce(), &change).await?;
    stack.keyring().keep(&key);
    Ok(sealed)
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
