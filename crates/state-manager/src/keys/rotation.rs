//! Changes the data key, the sealing policy or the recipients of a stack.
//!
//! A new key takes effect with one head swap. The key's files and a snapshot sealed with the key are durable before the
//! swap; all frames after it are tagged with the key. After a crash at any moment the stack opens with exactly one of
//! the two keys.

use crate::context::StackContext;
use crate::gc::collect::collect;
use crate::gc::retention::Retention;
use crate::intent::UpdateRequest;
use crate::keys::{authenticate, trust, wrapped};
use crate::lock;
use crate::objects::snapshots;
use crate::read::view;
use crate::write::locked_stack::LockedStack;
use crate::write::steps;
use state_core::head::{Keys, SealingPolicy, Watermark};
use state_core::journal::{CheckpointNote, Record};
use state_core::mutation::StackOutputs;
use state_core::sealing::{KeyProvider, StackKey};
use state_core::{
    Base, Error, Head, Result, RevisionId, Serial, Slot, Snapshot, State, UpdateKind, UpdateResult,
};
use std::collections::BTreeMap;
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
    /// The recipients of the new key.
    pub recipients: Vec<String>,
    /// Revisions that are still sealed with an earlier key or contain plain values, oldest first.
    pub older: Vec<RevisionId>,
}

/// Gives the stack a new data key, and seals its current state with it. Also gives a plaintext stack its first key.
pub(crate) async fn rekey(stack: &StackContext, operation: &str, request: Rekey) -> Result<RekeyReport> {
    let provider = require_provider(stack)?;
    let locked = lock::lock(stack, operation, None).await?;
    let policy = request.policy.unwrap_or_else(|| locked.seal.policy());
    if let Err(refused) = require_possible(stack, policy, &request) {
        locked.close().await?;
        return Err(refused);
    }
    let (message, forget_history) = (request.message.clone(), request.forget_history);
    let (base, recipients) = rotate(locked, provider, policy, request).await?;
    // Without this revision the current one would still be sealed with the old key.
    let revision = mark_rekeyed(stack, operation, message, Some(base)).await?;
    if forget_history {
        forget_all_but_the_current(stack, operation).await?;
    }
    let older = view::revisions(stack).await?.into_iter().rev();
    Ok(RekeyReport {
        older: older.map(|older| older.id).filter(|id| *id != revision).collect(),
        revision,
        recipients,
    })
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

async fn forget_all_but_the_current(stack: &StackContext, operation: &str) -> Result<()> {
    let locked = lock::lock(stack, operation, None).await?;
    // The grace period is zero: the caller asked to delete these revisions so that the old key opens nothing any more.
    let retention = Retention {
        keep_for: Duration::ZERO,
        keep_last: 1,
        grace: Duration::ZERO,
    };
    let collected = collect(&locked, &retention).await;
    locked.close_after(collected).await.map(drop)
}

/// Makes a revision of the present state, sealed with the present key for the present recipients. A `base` is recorded
/// as a checkpoint.
async fn mark_rekeyed(
    stack: &StackContext,
    operation: &str,
    message: String,
    base: Option<Base>,
) -> Result<RevisionId> {
    let locked = lock::lock(stack, operation, None).await?;
    let request = UpdateRequest::new(UpdateKind::Rekey).with_message(message);
    steps::start(&locked, request, false).await?;
    if let Some(base) = base {
        let note = Record::Checkpoint(CheckpointNote { base });
        locked.submit(vec![note.into()], false).await?;
    }
    let revision = locked.end_update(UpdateResult::Succeeded).await?;
    locked.close().await?;
    Ok(revision)
}

/// Changes the key. Then releases the lock, because the session still has the old key. Returns the new base and the
/// recipients of the new key.
async fn rotate(
    locked: LockedStack,
    provider: &dyn KeyProvider,
    policy: SealingPolicy,
    request: Rekey,
) -> Result<(Base, Vec<String>)> {
    // The queue is ended first: a frame tagged with the old key must not follow the head swap.
    let tail = locked.end_queue().await?;
    let (stack, writer) = (&locked.stack, &*locked.writer);
    let old = locked.seal.shared_key();
    let known = locked.head.current().keys.clone().map(|keys| keys.recipients);
    let key = provider.generate(stack.lineage())?;
    let wrapped = provider.wrap(key.id(), request.recipients.or(known).as_deref())?;
    let files = wrapped::store(stack, writer, key.id(), &wrapped).await?;
    // A base can start only at a segment, so the new base needs a rotation.
    let after = writer.rotate(tail, stack.nonce()).await?;
    let snapshot = resealed(stack, &locked.state(), old.clone(), &key, policy).await?;
    let base = Base {
        snapshot: Some(snapshots::store(writer, Arc::new(snapshot), tail.next).await?),
        start: tail.next,
        chain: tail.chain,
    };
    let paging = locked.history.begin().await;
    let history = paging.up_to(stack, writer, base.start, &locked.state()).await?;
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
        head.base = base.clone();
        head.rev_base = None;
        head.policy = policy;
        head.key_id = Some(key.id());
        head.keys = Some(keys.clone());
        head.watermark = Some(Watermark {
            slot: Slot(after.next.get().saturating_sub(1)),
            chain: after.chain,
        });
        Ok(())
    };
    let opened = locked.head.swap_key(&key, writer, stack.nonce(), &change).await?;
    trust::remember_sealing(stack, &opened.head).await;
    stack.keyring().keep(&key);
    writer.release().await?;
    Ok((base, wrapped.recipients))
}

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
    snapshots::blocking(move || {
        // The old key opens the snapshot first: the new key can't open values that the old key sealed.
        let open = match old {
            Some(old) => old.open_snapshot(&snapshot)?,
            None => snapshot,
        };
        new.seal_snapshot(policy, &open)
    })
    .await?
}

fn require_provider(stack: &StackContext) -> Result<&dyn KeyProvider> {
    let missing = || Error::sealed(stack.object(), "no identity or recipient is available");
    stack.keyring().provider().ok_or_else(missing)
}

/// The keys in the authenticated head; none for a stack without a data key.
pub(crate) async fn keys(stack: &StackContext) -> Result<Option<Keys>> {
    Ok(authenticate::head(stack).await?.head.into_value().keys)
}

/// Wraps the stack's data key to more recipients, under `name` if one is given, and makes a revision that records them.
/// Sealed values are not sealed again. Returns all recipients of the key.
pub(crate) async fn add_recipients(
    stack: &StackContext,
    operation: &str,
    more: &[String],
    name: Option<&str>,
) -> Result<Vec<String>> {
    let locked = lock::lock(stack, operation, None).await?;
    let added = wrap_to_more(&locked, more, name).await;
    let recipients = locked.close_after(added).await?;
    let added = more.join(", ");
    let message = match name {
        Some(name) => format!("added {name} ({added})"),
        None => format!("added {added}"),
    };
    mark_rekeyed(stack, operation, message, None).await?;
    Ok(recipients)
}

/// Wraps the key to more recipients, and stores `name` for each recipient in `more`. Returns all recipients.
async fn wrap_to_more(locked: &LockedStack, more: &[String], name: Option<&str>) -> Result<Vec<String>> {
    let stack = &locked.stack;
    let provider = require_provider(stack)?;
    let Some(head) = locked.head.sealed() else {
        return Err(unsealed(stack));
    };
    let id = head.key().id();
    let known = head.keys.as_ref().map(|keys| keys.recipients.clone());
    let recipients = with_more(known.unwrap_or_default(), more);
    let wrapped = provider.wrap(id, Some(&recipients))?;
    // The name is stored under the recipient's spelling in the head, which may differ from the argument.
    let spelled = recipients.iter().zip(&wrapped.recipients);
    let added = spelled.filter(|(given, _)| more.contains(given));
    let named = added.filter_map(|(_, recipient)| Some((recipient.clone(), name?.to_owned())));
    let named: BTreeMap<String, String> = named.collect();
    let files = wrapped::store(stack, &*locked.writer, id, &wrapped).await?;
    let change = |head: &mut Head| {
        if let Some(keys) = &mut head.keys {
            keys.files.clone_from(&files);
            keys.recipients.clone_from(&wrapped.recipients);
            keys.names.extend(named.clone());
        }
        Ok(())
    };
    let head = locked.swap_head(&change).await?;
    trust::remember_sealing(stack, &head).await;
    Ok(wrapped.recipients)
}

/// Adds recipients of the stack's outputs, and makes a revision whose outputs are published to them. Returns all
/// recipients of the outputs.
pub(crate) async fn add_output_recipients(
    stack: &StackContext,
    operation: &str,
    more: &[String],
) -> Result<Vec<String>> {
    let locked = lock::lock(stack, operation, None).await?;
    let added = publish_to_more(&locked, more).await;
    let recipients = locked.close_after(added).await?;
    let message = format!("outputs for {}", more.join(", "));
    mark_rekeyed(stack, operation, message, None).await?;
    Ok(recipients)
}

async fn publish_to_more(locked: &LockedStack, more: &[String]) -> Result<Vec<String>> {
    let Some(head) = locked.head.sealed() else {
        return Err(unsealed(&locked.stack));
    };
    let known = head.keys.as_ref().map(|keys| keys.outputs.clone());
    let outputs = with_more(known.unwrap_or_default(), more);
    // An empty document is sealed first: a malformed recipient must be refused before the head changes.
    head.key().outputs_document(
        head.policy,
        &head.name,
        Serial::ZERO,
        &StackOutputs::default(),
        &outputs,
    )?;
    let change = |head: &mut Head| {
        if let Some(keys) = &mut head.keys {
            keys.outputs.clone_from(&outputs);
        }
        Ok(())
    };
    let head = locked.swap_head(&change).await?;
    trust::remember_sealing(&locked.stack, &head).await;
    Ok(outputs)
}

fn unsealed(stack: &StackContext) -> Error {
    Error::sealed(stack.object(), "it has no data key: rekey the stack first")
}

fn with_more(mut recipients: Vec<String>, more: &[String]) -> Vec<String> {
    for one in more {
        if !recipients.contains(one) {
            recipients.push(one.clone());
        }
    }
    recipients
}
