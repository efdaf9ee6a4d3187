//! Changes that make one revision each (edits, resolutions, confirmations), and the deletion of revisions.

use crate::compute::compute;
use crate::intent::UpdateRequest;
use crate::keys::sealing::SessionSealer;
use crate::objects::snapshots::check_size;
use crate::write::locked_stack::LockedStack;
use crate::write::steps::sealed_change;
use state_core::journal::{CompletionReason, Record};
use state_core::mutation::{Edit, EditChange, Resolution, Resolve, StackOutputs};
use state_core::state::LoadedSnapshots;
use state_core::{Entropy, Entry, Error, MutationId, Result, RevisionId, SharedEntry, State, Uid};
use std::sync::Arc;

/// Changes entries by hand. `expected` is the state for which the changes were made.
pub(crate) async fn edit(
    locked: &LockedStack,
    request: UpdateRequest,
    expected: &State,
    changes: Vec<EditChange>,
) -> Result<RevisionId> {
    let seal = &locked.seal;
    let changes = changes.into_iter().map(|change| checked(seal, change));
    let changes = changes.collect::<Result<Vec<_>>>()?;
    commit_changes(locked, request, expected, changes, None).await
}

/// Records the changes that another system made to resources and outputs. `expected` is the state for which the changes were
/// computed. An entry without a uid gets a new one.
pub(crate) async fn record_changes(
    locked: &LockedStack,
    request: UpdateRequest,
    expected: &State,
    changes: Vec<EditChange>,
    outputs: Option<StackOutputs>,
) -> Result<RevisionId> {
    let seal = locked.seal.clone();
    let entropy = Arc::clone(&locked.stack.environment().entropy);
    // Sealing runs on a background thread: thousands of changed entries would delay all other tasks.
    let (changes, outputs) = compute(move || {
        let identified = changes.into_iter().map(|change| with_uid(change, &*entropy));
        let sealed = identified.map(|change| checked(&seal, change));
        let changes = sealed.collect::<Result<Vec<_>>>()?;
        let outputs = outputs.map(|outputs| seal.outputs(outputs)).transpose()?;
        Ok::<_, Error>((changes, outputs))
    })
    .await??;
    commit_changes(locked, request, expected, changes, outputs).await
}

/// Seals the entry of a change, and checks its size.
fn checked(seal: &SessionSealer, change: EditChange) -> Result<EditChange> {
    let change = sealed_change(seal, change)?;
    if let EditChange::Put { entry, .. } | EditChange::Append(entry) = &change {
        check_size(entry)?;
    }
    Ok(change)
}

/// Commits changes that are sealed already.
async fn commit_changes(
    locked: &LockedStack,
    request: UpdateRequest,
    expected: &State,
    changes: Vec<EditChange>,
    outputs: Option<StackOutputs>,
) -> Result<RevisionId> {
    let current = expected.current().cloned();
    let object = locked.stack.object();
    let id = MutationId::random(locked.entropy());
    let build = move |state: &State| {
        // The revisions are compared when the queue reaches the job: otherwise a revision made between the caller's
        // read and this point would be overwritten.
        if state.current() != current.as_ref() {
            let reason = "another revision was made in the meantime; nothing was changed";
            return Err(Error::conflict(object, reason));
        }
        let mut records = Vec::new();
        if !changes.is_empty() {
            records.push(Record::Edit(Edit { id, changes }));
        }
        records.extend(outputs.map(Record::SetOutputs));
        Ok(records)
    };
    locked.commit(request, LoadedSnapshots::new(), build).await
}

/// The change with a new uid on an entry that has none.
fn with_uid(change: EditChange, entropy: &dyn Entropy) -> EditChange {
    let identified = |entry: SharedEntry| match entry.uid {
        Some(_) => entry,
        None => Arc::new(Entry {
            uid: Some(Uid::random(entropy)),
            ..Entry::clone(&entry)
        }),
    };
    match change {
        EditChange::Put { target, entry } => EditChange::Put {
            target,
            entry: identified(entry),
        },
        EditChange::Append(entry) => EditChange::Append(identified(entry)),
        other => other,
    }
}

/// Resolves a pending operation by hand. The operator who resolves the last pending operation has checked the real
/// resources, so the unreliable mark of a crashed writer is then cleared.
pub(crate) async fn resolve(
    locked: &LockedStack,
    request: UpdateRequest,
    id: MutationId,
    resolution: Resolution,
) -> Result<RevisionId> {
    let resolution = sealed_resolution(locked, id, resolution)?;
    let build = move |state: &State| {
        let is_last = state.pending().count() == 1;
        let mut records = vec![Record::Resolve(Resolve { id, resolution })];
        if is_last && state.invalidated().is_some() {
            records.push(Record::Validate(CompletionReason::Resolved));
        }
        Ok(records)
    };
    locked.commit(request, LoadedSnapshots::new(), build).await
}

/// The resolution sealed for storage, with the uid under which its entry will be recorded.
fn sealed_resolution(locked: &LockedStack, id: MutationId, resolution: Resolution) -> Result<Resolution> {
    let Resolution::Done(Some(entry)) = resolution else {
        return Ok(resolution);
    };
    let state = locked.state();
    let operation = state.pending().find(|operation| operation.id == id);
    let begun = operation.and_then(|operation| operation.entry.as_ref()?.uid);
    // A sealed value is bound to the uid of its entry, so the uid of the begin record must be set before sealing.
    let sealed = locked.seal.entry(Entry {
        uid: begun.or(entry.uid),
        ..Entry::clone(&entry)
    })?;
    Ok(Resolution::Done(Some(Arc::new(sealed))))
}

/// Records that the state matches the real resources although a crashed writer had marked it as unreliable.
pub(crate) async fn mark_reliable(locked: &LockedStack, request: UpdateRequest) -> Result<RevisionId> {
    let object = locked.stack.object();
    let build = move |state: &State| {
        // Operations are counted when the queue reaches the job: another task of this session may begin one before
        // that.
        let pending = state.pending().count();
        if pending > 0 {
            let noun = if pending == 1 {
                "operation is"
            } else {
                "operations are"
            };
            let reason = format!("{pending} {noun} pending: resolve them one by one");
            return Err(Error::conflict(object, reason));
        }
        if state.invalidated().is_none() {
            return Err(Error::conflict(object, "it is not marked as unreliable"));
        }
        Ok(vec![Record::Validate(CompletionReason::Resolved)])
    };
    locked.commit(request, LoadedSnapshots::new(), build).await
}

/// Deletes a revision from the history. Succeeds without effect if the revision doesn't exist.
pub(crate) async fn delete(locked: &LockedStack, revision: &RevisionId) -> Result<()> {
    let state = locked.state();
    if state.current() == Some(revision) {
        let reason = "it is the current revision: make another one current first";
        return Err(Error::conflict(format!("revision {revision}"), reason));
    }
    // Deleting twice succeeds, because the answer to the first call may have been lost.
    if state.is_forgotten(revision) {
        return Ok(());
    }
    let mut revisions = locked.view().await?.history().await?.into_iter();
    if !revisions.any(|listed| listed.id == *revision) {
        return Ok(());
    }
    let forget = Record::Forget(revision.clone());
    locked.submit(vec![forget.into()], true).await.map(drop)
}
