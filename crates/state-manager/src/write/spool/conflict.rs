//! Spooled results of operations that were settled before the result was recorded: compares both outcomes, and records the
//! resource of a result that no entry describes.

use super::{authentic, opened};
use crate::intent::{UpdateRequest, deposed_key};
use crate::objects::spooled_result::SpooledResult;
use crate::write::edits;
use crate::write::locked_stack::LockedStack;
use state_core::mutation::{EditChange, End};
use state_core::{
    Dependency, Entry, EntryKey, Error, MutationId, Outcome, Result, RevisionId, SharedEntry, State, Uid,
};
use std::sync::Arc;

/// A spooled result that contradicts the recorded outcome of its operation, or that the state doesn't prove to be recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpoolConflict {
    /// The operation of the result.
    pub operation: MutationId,
    /// The contradiction, as text for the user.
    pub reason: String,
    /// Key of the resource in the result, if no entry of the state describes that resource.
    /// [`Session::record_spooled_resource`](crate::Session::record_spooled_resource) records it.
    pub missing: Option<EntryKey>,
}

/// The entry under which the resource of a spooled result is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpoolPlacement {
    /// The live entry at the address in the result.
    Entry,
    /// A deposed entry at that address: the next update deletes the resource.
    Deposed,
}

/// Compares the result with the settled outcome of its operation. Returns `None` if the state proves that the result is
/// recorded.
pub(super) async fn compare(locked: &LockedStack, end: &End) -> Result<Option<SpoolConflict>> {
    let state = locked.state();
    let settled = state.lookup(end.id);
    let conflict = |reason: String, missing: Option<EntryKey>| {
        Ok(Some(SpoolConflict {
            operation: end.id,
            reason,
            missing,
        }))
    };
    let Some(entry) = &end.entry else {
        let reported = match end.outcome {
            Outcome::Failed => "the provider reported that it changed nothing",
            _ => "the provider deleted the resource",
        };
        return match (settled, end.outcome) {
            (None, _) => Err(Error::not_found(format!("pending operation {}", end.id))),
            (Some(false), Outcome::Failed) => Ok(None),
            (Some(true), Outcome::Succeeded) => Ok(None),
            (Some(done), _) => conflict(format!("{}, but {reported}", settlement(Some(done))), None),
        };
    };
    let known = entry.id.as_ref().and_then(|_| same_resource(&state, entry));
    match known {
        Some(known) if has_same_values(locked, known, entry).await? => Ok(None),
        Some(known) => {
            let reason = format!(
                "{}, and {} has other values than the result",
                settlement(settled),
                known.key()
            );
            conflict(reason, None)
        }
        // The recorded entry can't be compared without an id.
        None if settled == Some(true) && entry.id.is_none() => Ok(None),
        None => {
            let resource = describe(entry);
            let reason = format!(
                "{}, but no resource in the state is {resource}",
                settlement(settled)
            );
            conflict(reason, Some(entry.key()))
        }
    }
}

/// Records the resource of a spooled result whose operation is settled, as one revision.
pub(crate) async fn record_resource(
    locked: &LockedStack,
    request: UpdateRequest,
    spooled: &SpooledResult,
    placement: SpoolPlacement,
) -> Result<RevisionId> {
    let end = authentic(locked, spooled).await?;
    let state = locked.state();
    let object = format!("spooled result of operation {}", end.id);
    let refused = |reason: String| Err(Error::conflict(object.clone(), reason));
    if state.pending().any(|operation| operation.id == end.id) {
        return refused("the operation is pending: its result can be recorded as it is".to_owned());
    }
    let Some(entry) = &end.entry else {
        return refused("it contains no resource".to_owned());
    };
    let known = entry.id.as_ref().and_then(|_| same_resource(&state, entry));
    let mut entry = opened(locked, Entry::clone(entry)).await?;
    entry.init_errors.clone_from(&end.reasons);
    let mut entry = without_missing_references(entry, &state);
    let change = match (placement, known) {
        (SpoolPlacement::Entry, Some(known)) if known.is_live() => {
            entry.address = known.address.clone();
            entry.uid = known.uid;
            put(known.key(), entry)
        }
        (_, Some(known)) => return refused(format!("{} is recorded already", known.key())),
        (SpoolPlacement::Entry, None) => {
            entry.uid = free_uid(locked, &state, &entry);
            match state.entry(&entry.key()) {
                None => EditChange::Append(Arc::new(entry)),
                Some(old) if old.pending_replacement => put(old.key(), entry),
                Some(old) => {
                    let reason = format!("{} is {}: record the result as deposed", old.key(), describe(old));
                    return refused(reason);
                }
            }
        }
        (SpoolPlacement::Deposed, None) => {
            entry.uid = free_uid(locked, &state, &entry);
            entry.deposed = Some(deposed_key(locked.entropy())?);
            // Only a live entry can be protected or wait for its replacement.
            entry.pending_replacement = false;
            EditChange::Append(Arc::new(entry))
        }
    };
    edits::edit(locked, request, &state, vec![change]).await
}

fn put(target: EntryKey, entry: Entry) -> EditChange {
    EditChange::Put {
        target,
        entry: Arc::new(entry),
    }
}

const fn settlement(settled: Option<bool>) -> &'static str {
    match settled {
        Some(true) => "the operation is settled as done",
        Some(false) => "the operation is settled as not done",
        None => "the state doesn't know the operation",
    }
}

fn describe(entry: &Entry) -> String {
    let kind = entry.kind.as_deref().unwrap_or("resource");
    match &entry.id {
        Some(id) => format!("the {kind} {id}"),
        None => format!("a {kind} without an id"),
    }
}

/// The entry that describes the same real resource.
fn same_resource<'a>(state: &'a State, entry: &Entry) -> Option<&'a SharedEntry> {
    let mut entries = state.entries();
    entries.find(|other| (&other.kind, &other.id) == (&entry.kind, &entry.id))
}

/// Whether both entries have the same inputs and outputs. Sealed values are opened first: the same value is sealed
/// differently each time.
async fn has_same_values(locked: &LockedStack, known: &Entry, entry: &Entry) -> Result<bool> {
    let known = opened(locked, known.clone()).await?;
    let entry = opened(locked, entry.clone()).await?;
    Ok((&known.inputs, &known.outputs) == (&entry.inputs, &entry.outputs))
}

/// The uid of the intent, unless another entry has it meanwhile.
fn free_uid(locked: &LockedStack, state: &State, entry: &Entry) -> Option<Uid> {
    let is_free = |uid: &Uid| state.entries().all(|other| other.uid.as_ref() != Some(uid));
    let new = || Uid::random(locked.entropy());
    Some(entry.uid.filter(is_free).unwrap_or_else(new))
}

/// Returns the entry without references to addresses that have no entry any more: a reference must not keep an existing
/// resource out of the state.
fn without_missing_references(entry: Entry, state: &State) -> Entry {
    let pruned = entry.with_references(|_, to| match to {
        Dependency::Entry(address) if state.generations(address).next().is_none() => None,
        kept => Some(kept.clone()),
    });
    pruned.unwrap_or(entry)
}
