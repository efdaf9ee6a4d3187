//! Changes the data key or the sealing policy of a stack.
//!
//! A new key takes effect with one head swap. The key's files and a snapshot sealed with the key are durable before the
//! swap; all frames after it are tagged with the key. After a crash at any moment the stack opens with exactly one of
//! the two keys.
//!
//! Each change is made within an update, under one lock:
//!
//! ```text
//!  start of the update ──► head swap ──► end of the update
//!                       └── after a crash the next writer ends the update as interrupted ──┘
//! ```

use crate::compute::compute;
use crate::context::StackContext;
use crate::gc::collect::collect;
use crate::gc::retention::Retention;
use crate::intent::UpdateRequest;
use crate::keys::recipients::Recipients;
use crate::keys::{trust, wrapped};
use crate::lock;
use crate::objects::snapshots;
use crate::read::view;
use crate::write::locked_stack::LockedStack;
use crate::write::{opening, steps};
use state_core::head::{SealingPolicy, Watermark};
use state_core::journal::{CheckpointNote, Record};
use state_core::sealing::{KeyProvider, StackKey};
use state_core::{Base, Error, Head, Result, RevisionId, Slot, Snapshot, State, UpdateKind, UpdateResult};
use std::sync::Arc;
use std::time::Duration;

/// The changes to make when a stack gets a new data key.
#[derive(Clone, Debug, Default)]
pub struct Rekey {
    /// Recipients of the new key. Default: the recipients of the old key, or those of the provider for a first key.
    pub recipients: Option<Vec<String>>,
    /// Recipients of the published outputs; none keeps the present recipients.
    pub outputs: Option<Vec<String>>,
    /// Sealing policy from now on; none keeps the present policy.
    pub policy: Option<SealingPolicy>,
    /// Whether to drop and delete all revisions that are plain or sealed with an earlier key. A client that reads one
    /// of them at that moment fails.
    pub forget_history: bool,
    /// The reason for the change, as the history shows it.
    pub message: String,
}

/// The result of changing the data key.
#[derive(Clone, Debug)]
pub struct RekeyReport {
    /// The revision that contains the current state, sealed with the new key.
    pub revision: RevisionId,
    /// The recipients of the new key and of the published outputs.
    pub recipients: Recipients,
    /// Revisions that are still sealed with an earlier key or contain plain values, oldest first.
    pub older: Vec<RevisionId>,
}

/// Gives the stack a new data key, and seals its current state with this key. A stack without a data key gets its first
/// one.
pub(crate) async fn rekey(stack: &StackContext, operation: &str, request: Rekey) -> Result<RekeyReport> {
    let provider = require_provider(stack)?;
    let locked = lock::lock_patiently(stack, operation).await?;
    let forget_history = request.forget_history;
    let rotated = match rotate(&locked, provider, request).await {
        Ok(rotated) => rotated,
        Err(refused) => return locked.close_after(Err(refused)).await,
    };
    let report = record(&rotated, forget_history).await;
    rotated.session.close_after(report).await
}

fn require_possible(stack: &StackContext, policy: SealingPolicy, request: &Rekey) -> Result<()> {
    if request.forget_history && stack.backend().extensions().collectable.is_none() {
        return Err(Error::unsupported(
            stack.backend().url(),
            "deletion, which forgetting the history requires,",
        ));
    }
    if policy == SealingPolicy::Plaintext {
        let reason = "a plaintext stack has no data key: choose the policy `sensitive` or `all`";
        return Err(Error::conflict(stack.object(), reason));
    }
    Ok(())
}

/// A session that continues under the new data key, with the lock under which the key was changed.
struct RotatedSession {
    session: LockedStack,
    base: Base,
    recipients: Recipients,
}

/// Starts the update of the request and changes the key. The caller must end the update in the returned session.
async fn rotate(locked: &LockedStack, provider: &dyn KeyProvider, request: Rekey) -> Result<RotatedSession> {
    let (stack, writer) = (&locked.stack, &*locked.writer);
    let policy = request.policy.unwrap_or_else(|| locked.seal.policy());
    require_possible(stack, policy, &request)?;
    let known = locked.head.sealed().and_then(|head| head.keys.clone());
    let known = known.map(|keys| keys.recipients);
    let key = provider.generate(stack.lineage())?;
    let wrapped = provider.wrap(key.id(), request.recipients.or(known).as_deref())?;
    let files = wrapped::store(stack, writer, key.id(), &wrapped).await?;
    announce(locked, request.message).await?;
    // The queue is ended first: a frame tagged with the old key must not follow the head swap.
    let tail = locked.end_queue().await?.tail;
    // A base can start only at the beginning of a segment of the journal, so the writer starts a new segment for it.
    let after = writer.rotate(tail, stack.nonce()).await?;
    let snapshot = resealed(stack, &locked.state(), locked.seal.shared_key(), &key, policy).await?;
    let snapshot = Arc::new(snapshot);
    let base = Base {
        snapshot: Some(snapshots::store(writer, Arc::clone(&snapshot), tail.next).await?),
        content: None,
        start: tail.next,
        chain: tail.chain,
    };
    let paging = locked.history.begin().await;
    let history = paging
        .up_to(stack, writer, base.start, &locked.state(), None)
        .await?;
    let mut keys = locked
        .head
        .successor(&*key, after.next, files, &wrapped.recipients);
    if let Some(outputs) = request.outputs {
        keys.outputs = outputs;
    }
    let change = |head: &mut Head| {
        // One swap changes base, policy and key together: readers see either the old key with old frames or the new key
        // with new frames.
        history.apply(head)?;
        // The update of this rotation is open and began before the new base.
        head.rev_base = Some(head.rev_base.clone().unwrap_or_else(|| head.base.clone()));
        head.base = base.clone();
        head.policy = policy;
        head.key_id = Some(key.id());
        head.keys = Some(keys.clone());
        head.watermark = Some(Watermark {
            slot: Slot(after.next.get().saturating_sub(1)),
            chain: after.chain,
        });
        Ok(())
    };
    // The pointer gets its tags before the head names the new key. A client that reads the name between the two steps
    // then finds a tag under the key that the head names.
    locked.head.sign_pointer(stack, &*key).await?;
    let former = locked.seal.key().map(|key| key.id());
    let opened = locked.head.swap_key(&key, writer, stack.nonce(), &change).await?;
    trust::remember_sealing(stack, &opened.head, former).await;
    let recipients = Recipients::of(&opened.head);
    stack.keyring().keep_made(&key);
    let state = State::from_snapshot(stack.lineage(), &snapshot)?;
    Ok(RotatedSession {
        session: opening::continue_under(locked, opened, state, after),
        base,
        recipients,
    })
}

/// Ends the update of a rotation, which makes a revision that is sealed with the new key. Then drops the earlier
/// revisions if `forget_history` is set.
async fn record(rotated: &RotatedSession, forget_history: bool) -> Result<RekeyReport> {
    let session = &rotated.session;
    let base = rotated.base.clone();
    let note = Record::Checkpoint(CheckpointNote { base });
    session.submit(vec![note.into()], false).await?;
    // Without this revision the current one would still be sealed with the old key.
    let revision = session.end_update(UpdateResult::Succeeded).await?;
    if forget_history {
        // The grace period is zero: the caller asked to delete these revisions so that the old key opens nothing any
        // more.
        let retention = Retention {
            keep_for: Duration::ZERO,
            keep_last: 1,
            grace: Duration::ZERO,
        };
        collect(session, &retention).await?;
    }
    let older = view::tip(&session.stack)
        .await?
        .history()
        .await?
        .into_iter()
        .rev();
    Ok(RekeyReport {
        older: older.map(|older| older.id).filter(|id| *id != revision).collect(),
        revision,
        recipients: rotated.recipients.clone(),
    })
}

/// Starts the update that records a change of the key or its recipients. After a crash the next writer ends the update,
/// so the history shows each change that took effect.
pub(super) async fn announce(locked: &LockedStack, message: String) -> Result<()> {
    let request = UpdateRequest::new(UpdateKind::Rekey).with_message(message);
    steps::start(locked, request, false).await.map(drop)
}

/// The state as a snapshot in which the values are sealed with the new key instead of the old one.
async fn resealed(
    stack: &StackContext,
    state: &State,
    old: Option<Arc<dyn StackKey>>,
    new: &Arc<dyn StackKey>,
    policy: SealingPolicy,
) -> Result<Snapshot> {
    let mut snapshot = state.snapshot(stack.name().to_string(), stack.now());
    snapshot.continuation = Some(state.continuation());
    let new = Arc::clone(new);
    compute(move || {
        // The old key opens the snapshot first: the new key can't open values that the old key sealed.
        let open = match old {
            Some(old) => old.open_snapshot(&snapshot)?,
            None => snapshot,
        };
        new.seal_snapshot(policy, &open)
    })
    .await?
}

pub(super) fn require_provider(stack: &StackContext) -> Result<&dyn KeyProvider> {
    let missing = || Error::sealed(stack.object(), "no identity or recipient is available");
    stack.keyring().provider().ok_or_else(missing)
}
