//! Opens a stack for writing: acquires the lock, authenticates and replays the journal, finishes the work of a crashed
//! writer, and starts the queue.

use crate::client_lock;
use crate::context::StackContext;
use crate::keys::authenticate::{self, Authenticated, OpenedHead, OpenedJournal, SessionHead};
use crate::keys::position::StackPosition;
use crate::keys::proof::Proof;
use crate::keys::sealing::SessionSealer;
use crate::keys::trust;
use crate::keys::wrapped;
use crate::objects::document::RevisionDocument;
use crate::read::replay::ReplayResult;
use crate::read::tip::Tip;
use crate::read::{open, view};
use crate::write::background::{BackgroundWriter, Publication};
use crate::write::checkpointer::Checkpointer;
use crate::write::locked_stack::{LockedStack, OpenedTip, watermark_at};
use crate::write::naming;
use crate::write::parked::ParkedResults;
use crate::write::queue::{Published, Queue, WAITING};
use crate::write::resets::Loads;
use crate::write::session_history::SessionHistory;
use state_core::backend::{Acquire, JournalView, ObjectKind, ObjectName, Tail};
use state_core::head::SealingPolicy;
use state_core::mutation::StackOutputs;
use state_core::{Epoch, Head, Result, Serial, State, Timestamp, UpdateResult, Writer};
use std::sync::Arc;
use tokio::sync::{mpsc, watch};

/// Takes the writer lock and opens the stack, if [`client_lock::gate`] allows this client to write. Doesn't settle the
/// moves between stacks that a crash interrupted; `lock.rs` does.
pub(crate) async fn acquire(
    stack: &StackContext,
    operation: &str,
    break_epoch: Option<Epoch>,
) -> Result<LockedStack> {
    let head = open::head_alone(stack).await?;
    acquire_after(stack, operation, break_epoch, &head).await
}

/// As [`acquire`], for a caller that has just read the head.
pub(crate) async fn acquire_after(
    stack: &StackContext,
    operation: &str,
    break_epoch: Option<Epoch>,
    head: &Authenticated<Head>,
) -> Result<LockedStack> {
    // The client lock is checked before the acquisition: a client that may not write must not raise the epoch or break
    // a lock.
    client_lock::gate(stack, head)?;
    require_openable(stack, head).await?;
    let locked = Box::pin(acquire_gated(stack, operation, break_epoch)).await;
    if locked.is_err() {
        Box::pin(trust::remember_opened(stack.store(), stack.lineage())).await;
    }
    locked
}

/// Requires that this client could open the stack after a takeover. A refused takeover would still raise the epoch. After a few of
/// them, the epoch of an older copy of the stack would pass for that of the stack that this client knows.
///
/// # Errors
/// `Distrusted` if the head is older than what this client knows; `Sealed` if it can't open the data key.
pub(crate) async fn require_openable(stack: &StackContext, head: &Authenticated<Head>) -> Result<()> {
    Box::pin(open::refuse_older_head(stack, head)).await?;
    if let Some(id) = head.key_id {
        wrapped::unwrap_current(stack, head, id).await?;
    }
    Ok(())
}

async fn acquire_gated(
    stack: &StackContext,
    operation: &str,
    break_epoch: Option<Epoch>,
) -> Result<LockedStack> {
    let (writer, journal) = Box::pin(acquire_writer(stack, operation, break_epoch)).await?;
    // The caller checked the client lock before the acquisition. Another client may have set one since.
    if let Err(refused) = client_lock::gate(stack, &journal.head) {
        release_refused(&*writer).await;
        return Err(refused);
    }
    Box::pin(open(stack, writer, journal)).await
}

/// Takes the writer lock and opens the stack, even if a client lock of another client is set.
pub(crate) async fn acquire_ungated(stack: &StackContext, operation: &str) -> Result<LockedStack> {
    let (writer, journal) = Box::pin(acquire_writer(stack, operation, None)).await?;
    Box::pin(open(stack, writer, journal)).await
}

/// Takes the writer lock, and authenticates the head and the journal that the backend read under it. Releases the lock
/// if they are refused.
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
            release_refused(&*writer).await;
            Err(refused)
        }
    }
}

/// Releases the lock of a writer that was refused before its session began. Not every store releases the lock of a
/// dropped writer: other writers would wait until the lease of this client expires, or until its lock is broken.
async fn release_refused(writer: &dyn Writer) {
    // The caller returns the reason of the refusal, which matters more than a failed release.
    drop(writer.release().await);
}

/// The data from which a session starts: the authenticated head, and the state and the history that were replayed from
/// the journal.
struct SessionStart {
    writer: Arc<dyn Writer>,
    seal: SessionSealer,
    head: Arc<SessionHead>,
    state: State,
    tail: Tail,
    /// Time of the last update end; empty if there is none.
    updated: Timestamp,
    /// The revisions of the journal from the head's base on, oldest first.
    revisions: Vec<RevisionDocument>,
    /// Size in bytes of the journal from the head's base on, which decides when the next checkpoint is due.
    journal_bytes: u64,
    /// The stored snapshots that were loaded for that journal.
    loads: Loads,
    /// The stack as it was read under the lock; none for a session that continues another one.
    opened: Option<Tip>,
    /// The outputs of the current revision, if the previous writer left them unpublished.
    unpublished: Option<(Publication, Serial, StackOutputs)>,
}

impl SessionStart {
    /// Returns the locked stack, and its queue, which the caller must run.
    fn into_session(self, stack: &StackContext) -> (LockedStack, Queue) {
        let (sender, requests) = mpsc::channel(WAITING);
        let head = self.head.current();
        let history = SessionHistory::new(Arc::clone(&self.head), self.revisions);
        let task = BackgroundWriter {
            writer: Arc::clone(&self.writer),
            stack: stack.clone(),
            name: head.name.to_string(),
            history: history.clone(),
            queue: sender.downgrade(),
            seal: self.seal.clone(),
            head: Arc::clone(&self.head),
        };
        let base = head.base.clone();
        let is_reset_costly = self.loads.would_be_too_many();
        let checkpointer = Checkpointer::start(task, base, self.journal_bytes, self.loads, self.unpublished);
        let recovered = self.state.pending().cloned().collect();
        let (publish, published) = watch::channel(Published {
            state: Arc::new(self.state),
            tail: self.tail,
            updated: self.updated,
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
            parked: ParkedResults::default(),
            requests: sender,
            published,
            recovered,
            seal: self.seal,
            history,
            head: self.head,
            logs: Arc::default(),
            storing: Arc::default(),
            is_reset_costly,
            opened: Arc::new(OpenedTip::new(self.opened, self.tail)),
        };
        (locked, queue)
    }
}

/// Replays the journal, ends the update that the previous writer left open, and starts the queue.
async fn open(stack: &StackContext, writer: Arc<dyn Writer>, journal: OpenedJournal) -> Result<LockedStack> {
    let start = match check(stack, Arc::clone(&writer), &journal).await {
        Ok(start) => start,
        Err(refused) => {
            release_refused(&*writer).await;
            return Err(refused);
        }
    };
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

/// Starts a new queue for a session after a rotation of the data key. The queue of `before` must have ended. `opened`
/// is the head that names the new key, `state` is sealed with that key, and `tail` is the end of the journal. The
/// writer lock stays held all the time, so no other writer can append between the two queues.
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
        updated: before.updated(),
        revisions: Vec::new(),
        journal_bytes: 0,
        loads: Loads::default(),
        opened: None,
        unpublished: None,
    };
    let (locked, queue) = start.into_session(&before.stack);
    let _detached = tokio::spawn(queue.run(state));
    locked
}

/// Refuses a stack whose store was rolled back to an earlier state. Then finishes an interrupted rename, gives a stack
/// without a data key its first one, and finds the outputs that the previous writer left unpublished.
async fn check(
    stack: &StackContext,
    writer: Arc<dyn Writer>,
    journal: &OpenedJournal,
) -> Result<SessionStart> {
    // This check precedes the first write of this function: a stack that was rolled back must not get a data key.
    let tip = open::under_lock(stack, journal).await?;
    let replayed = &tip.replayed;
    let session = SessionHead::new(stack.object(), journal.opened_head());
    // An interrupted rename is finished before the stack gets its first key, because that key signs the pointer of the
    // stack's name. It is finished before the queue starts, because no job may run while the stack has two possible
    // names.
    naming::finish_rename(stack, &*writer, &session, watermark_at(journal.tail)).await?;
    let opened = with_key(stack, &*writer, session, journal.tail).await?;
    if opened.head.proof() != journal.head.proof() {
        // The first key is pinned at once, not at the end of the session: after a crash in between, this client would
        // accept the old head without a key again.
        let proof = opened.head.proof();
        let sealed = StackPosition::at_end(proof, &opened.head, &replayed.state, journal.tail);
        trust::remember_position(stack, &sealed).await;
    } else if opened.head.proof() == Proof::Plain {
        trust::remember_unsealed_writing(stack).await;
    }
    let seal = SessionSealer::new(opened.head.policy, opened.key.clone());
    let unpublished = match Publication::of(&opened.head) {
        Some(publication) => unpublished(stack, replayed)
            .await?
            .map(|(serial, outputs)| (publication, serial, outputs)),
        None => None,
    };
    Ok(SessionStart {
        writer,
        seal,
        state: State::clone(&replayed.state),
        tail: journal.tail,
        updated: replayed.moment.clone(),
        revisions: replayed
            .revisions
            .iter()
            .map(|document| RevisionDocument::clone(document))
            .collect(),
        journal_bytes: replayed.journal_bytes,
        loads: Loads::of(&journal.head.base, replayed.snapshots.clone()),
        opened: Some(tip.with_head(opened.head.clone())),
        head: Arc::new(SessionHead::new(stack.object(), opened)),
        unpublished,
    })
}

/// Returns the head with which this session begins. Gives a stack without a data key its first one, except when its
/// policy is plaintext or this client has no key provider.
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
    trust::announce_key(stack, key.id()).await;
    let next = tail.next;
    let keys = head.successor(&*key, next, files, &wrapped_key.recipients);
    // The frames that were written before the stack had a key have no MAC. The head's tag covers the watermark, whose
    // chain digest covers these frames: a later change of one of them is detected.
    let written = watermark_at(tail);
    head.sign_pointer(stack, &*key).await?;
    let change = |head: &mut Head| {
        // Nothing signed the client lock of a stack without a key. It is kept only for a session under that lock.
        let held = stack.client_lock_id();
        head.client_lock = head
            .client_lock
            .take()
            .filter(|lock| Some(lock.id.as_str()) == held);
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
    Ok(Some((
        current.serial(),
        view::tip(stack).await?.root_outputs().await?,
    )))
}
