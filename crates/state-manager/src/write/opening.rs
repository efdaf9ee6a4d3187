//! Opens a stack for writing: acquires the lock, authenticates and replays the journal, finishes the work of a crashed
//! writer, and starts the queue.

use crate::client_lock;
use crate::context::StackContext;
use crate::keys::authenticate::{self, OpenedHead, OpenedJournal, SessionHead};
use crate::keys::sealing::SessionSealer;
use crate::keys::trust::{self, StackPosition};
use crate::keys::wrapped;
use crate::known_stacks::SealingPin;
use crate::objects::document::RevisionDocument;
use crate::read::replay::ReplayResult;
use crate::read::{open, view};
use crate::write::checkpointer::{CheckpointTask, Checkpointer, Publication};
use crate::write::locked_stack::LockedStack;
use crate::write::naming;
use crate::write::queue::{Published, Queue, WAITING};
use crate::write::session_history::SessionHistory;
use state_core::backend::{Acquire, JournalView, ObjectKind, ObjectName, Tail};
use state_core::head::{SealingPolicy, Watermark};
use state_core::mutation::StackOutputs;
use state_core::{Epoch, Head, Result, Serial, Slot, State, UpdateResult, Writer};
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
    client_lock::gate(stack, &open::head_alone(stack).await?)?;
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

/// The accepted content of a stack, from which a session starts.
struct SessionStart {
    writer: Arc<dyn Writer>,
    seal: SessionSealer,
    head: Arc<SessionHead>,
    state: State,
    tail: Tail,
    /// The revisions of the journal from the head's base on, oldest first.
    revisions: Vec<RevisionDocument>,
    journal_bytes: u64,
    /// The outputs of the current revision, if the previous writer left them unpublished.
    unpublished: Option<(Publication, Serial, StackOutputs)>,
}

impl SessionStart {
    /// Returns the locked stack, and its queue, which the caller must run.
    fn into_session(self, stack: &StackContext) -> (LockedStack, Queue) {
        let (sender, requests) = mpsc::channel(WAITING);
        let head = self.head.current();
        let history = SessionHistory::new(Arc::clone(&self.head), self.revisions);
        let task = CheckpointTask {
            writer: Arc::clone(&self.writer),
            stack: stack.clone(),
            name: head.name.to_string(),
            history: history.clone(),
            queue: sender.downgrade(),
            seal: self.seal.clone(),
            head: Arc::clone(&self.head),
        };
        let base = head.base.clone();
        let checkpointer = Checkpointer::start(task, base, self.journal_bytes, self.unpublished);
        let recovered = self.state.pending().cloned().collect();
        let (publish, published) = watch::channel(Published {
            state: Arc::new(self.state),
            tail: self.tail,
            failure: None,
        });
        let queue = Queue {
            object: stack.object(),
            writer: Arc::clone(&self.writer),
            entropy: Arc::clone(&stack.environment().entropy),
            tail: self.tail,
            requests,
            published: publish,
            checkpointer,
            key: self.seal.shared_key(),
        };
        let locked = LockedStack {
            stack: stack.clone(),
            writer: self.writer,
            requests: sender,
            published,
            recovered,
            seal: self.seal,
            history,
            head: self.head,
            logs: Arc::default(),
            storing: Arc::default(),
        };
        (locked, queue)
    }
}

/// Replays the journal, ends the update that the previous writer left open, and starts the queue.
async fn open(stack: &StackContext, writer: Arc<dyn Writer>, journal: OpenedJournal) -> Result<LockedStack> {
    let start = check(stack, writer, &journal).await?;
    let state = start.state.clone();
    let interrupted = state.update().is_some();
    let (locked, queue) = start.into_session(stack);
    // The task ends by itself when the queue is closed or its last handle is dropped.
    let _detached = tokio::spawn(queue.run(state));
    if interrupted {
        // The end is recorded under the new epoch, so that the history shows the crashed update as interrupted.
        locked.end_update(UpdateResult::Interrupted).await?;
    }
    Ok(locked)
}

/// Continues a session, whose queue has ended, under the data key of a new head. The lock stays held, so that no other
/// writer can come in between. `state` is sealed with the new key, and `tail` is the end of the journal.
pub(crate) fn continue_under(
    before: &LockedStack,
    opened: OpenedHead,
    state: State,
    tail: Tail,
) -> LockedStack {
    let start = SessionStart {
        writer: Arc::clone(&before.writer),
        seal: SessionSealer::new(opened.head.policy, opened.key.clone()),
        head: Arc::new(SessionHead::new(before.stack.object(), opened)),
        state: state.clone(),
        tail,
        revisions: Vec::new(),
        journal_bytes: 0,
        unpublished: None,
    };
    let (locked, queue) = start.into_session(&before.stack);
    let _detached = tokio::spawn(queue.run(state));
    locked
}

/// Requires that the stack was not rolled back. Then gives a stack without a data key its first one, and finds the
/// outputs that the previous writer left unpublished.
async fn check(
    stack: &StackContext,
    writer: Arc<dyn Writer>,
    journal: &OpenedJournal,
) -> Result<SessionStart> {
    // This check precedes the first write: a stack that was rolled back must not get a key either.
    let replayed = open::under_lock(stack, journal).await?;
    let point = journal.position(replayed.state.serial());
    let session = SessionHead::new(stack.object(), journal.opened_head());
    // Before the first key: the key signs the pointer of the stack's name. And before the queue starts: the first job must
    // not run while the name is undecided.
    naming::finish_rename(stack, &*writer, &session).await?;
    let opened = with_key(stack, &*writer, session, journal.tail).await?;
    if opened.head.proof() != journal.head.proof() {
        // The first key is pinned at once: otherwise this client would accept another first key after a crash.
        let sealed = StackPosition {
            proof: opened.head.proof(),
            sealing: SealingPin::of(&opened.head),
            ..point
        };
        trust::remember_position(stack, &sealed).await;
    }
    let seal = SessionSealer::new(opened.head.policy, opened.key.clone());
    let unpublished = match Publication::of(&opened.head) {
        Some(publication) => unpublished(stack, &replayed)
            .await?
            .map(|(serial, outputs)| (publication, serial, outputs)),
        None => None,
    };
    Ok(SessionStart {
        writer,
        seal,
        head: Arc::new(SessionHead::new(stack.object(), opened)),
        state: replayed.state,
        tail: journal.tail,
        revisions: replayed.revisions,
        journal_bytes: replayed.journal_bytes,
        unpublished,
    })
}

/// The head with which this session begins. A stack without a key gets its first one here, unless its policy is
/// plaintext or this client has no key provider.
async fn with_key(
    stack: &StackContext,
    writer: &dyn Writer,
    head: SessionHead,
    tail: Tail,
) -> Result<OpenedHead> {
    let policy = head.current().policy;
    let provider = match (policy, head.key(), stack.keyring().provider()) {
        (SealingPolicy::Plaintext, None, _) | (_, None, None) | (_, Some(_), _) => return Ok(head.opened()),
        (_, None, Some(provider)) => provider,
    };
    // The key files are durable before the head names the key: a crash between the two leaves unused files, never a
    // head whose key can't be read.
    let key = provider.generate(stack.lineage())?;
    let wrapped_key = provider.wrap(key.id(), None)?;
    let files = wrapped::store(stack, writer, key.id(), &wrapped_key).await?;
    let next = tail.next;
    let keys = head.successor(&*key, next, files, &wrapped_key.recipients);
    // The frames before the first tagged one have no MAC. The signed watermark binds them by their chain, as the head
    // binds base and history by their digests.
    let written = next.get().checked_sub(1).map(|last| Watermark {
        slot: Slot(last),
        chain: tail.chain,
    });
    head.sign_pointer(stack, &*key).await?;
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
