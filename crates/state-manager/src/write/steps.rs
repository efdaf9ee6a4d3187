//! Writes the records of an open update: its start, its intents (a change of a real resource is about to begin), its
//! steps (no real resource changes) and its edits by hand. Each record is sealed, checked and encoded in the caller's
//! task, and then queued.

use crate::intent::{Intent, UpdateRequest};
use crate::keys::sealing::SessionSealer;
use crate::objects::snapshots::check_size;
use crate::write::locked_stack::{LockedStack, update_start_record};
use crate::write::queue::batch::Prepared;
use state_core::journal::Record;
use state_core::mutation::{Edit, EditChange, Step, StepChange};
use state_core::snapshot::Invalidation;
use state_core::state::LoadedSnapshots;
use state_core::{
    Base, Entropy, Entry, EntryKey, MutationId, Properties, Result, SharedEntry, State, Uid, UpdateId,
};
use std::sync::Arc;

/// Starts an update. With `marked`, the update also marks the stack as unreliable: its entries may differ from the real
/// resources until the mark is cleared.
pub(crate) async fn start(locked: &LockedStack, request: UpdateRequest, marked: bool) -> Result<UpdateId> {
    let info = locked.update_info(request);
    let id = info.id;
    let since = info.start.clone();
    let build = move |state: &State, _: &Base| {
        let mut records = vec![update_start_record(state, info)];
        // Both records are in one job, because a crash between two jobs would leave an open update without the mark.
        if marked {
            records.push(Record::Invalidate(Invalidation { update: id, since }));
        }
        Ok(records)
    };
    locked.built(LoadedSnapshots::new(), build).await?;
    Ok(id)
}

/// Records the intent to change a real resource. Returns the mutation's id, and the uid of its entry. Calls `note` with the id
/// before the intent is written.
pub(crate) async fn begin(
    locked: &LockedStack,
    intent: Intent,
    note: impl FnOnce(MutationId),
) -> Result<(MutationId, Uid)> {
    let now = locked.stack.now();
    let (mut begin, uid) = intent.begin(&locked.state(), locked.entropy(), Some(now))?;
    if let Some(entry) = begin.entry.take() {
        let sealed = locked.seal.entry(Arc::unwrap_or_clone(entry))?;
        begin.entry = Some(Arc::new(sealed));
    }
    let (id, entry) = (begin.id, begin.entry.clone());
    let record = Prepared::checked(Record::Begin(begin), entry.as_deref())?;
    note(id);
    // The record is durable before the provider is called, so that a crash during the call leaves a pending operation.
    locked.submit(vec![record], true).await?;
    Ok((id, uid))
}

/// Records that a resource was checked and needs no change.
pub(crate) async fn same(locked: &LockedStack, entry: Entry) -> Result<()> {
    let state = locked.state();
    let old = state.entry(&entry.key());
    if let Some(old) = old.filter(|old| is_recorded_as(&locked.seal, old, &entry)) {
        return unchanged(locked, old).await;
    }
    let entry = Arc::new(sealed_as(&locked.seal, entry, old)?);
    // The record of an unchanged entry isn't synced on its own: if a crash loses it, only the fact that this update
    // checked the entry is lost.
    let unchanged = old.is_some_and(|old| entry.is_unchanged_from(old));
    let change = StepChange::Same(Arc::clone(&entry));
    step(locked, change, Some(&*entry), !unchanged).await
}

/// Whether a live entry is recorded exactly as `entry`, so that a reference to it suffices. The recorded values are
/// opened for the comparison; if they can't be, the entry is recorded in full.
fn is_recorded_as(seal: &SessionSealer, recorded: &SharedEntry, entry: &Entry) -> bool {
    let is_same = |open: &SharedEntry| match entry.uid == open.uid {
        true => **open == *entry,
        // A step of this kind keeps the uid of the recorded entry, whichever uid the caller passes.
        false => {
            let uid = open.uid;
            **open == Entry { uid, ..entry.clone() }
        }
    };
    recorded.is_live() && seal.reveal(recorded).is_ok_and(|open| is_same(&open))
}

/// Records by a reference that an entry stays as it is.
async fn unchanged(locked: &LockedStack, recorded: &SharedEntry) -> Result<()> {
    let recorded = Arc::clone(recorded);
    let id = MutationId::random(locked.entropy());
    let build = move |state: &State, _: &Base| {
        // A job between the comparison and this one may have changed the entry. The compared entry is then recorded in
        // full, because a reference would record the other content.
        let is_there = state
            .entry(&recorded.key())
            .is_some_and(|now| Arc::ptr_eq(now, &recorded) || *now == recorded);
        Ok(vec![match is_there {
            true => Record::Unchanged(vec![recorded.address.clone()]),
            false => Record::Step(Step {
                id,
                change: StepChange::Same(recorded),
            }),
        }])
    };
    // Without a sync of its own: if a crash loses the record, only the fact that this update checked the entry is lost.
    locked.built_without_sync(build).await.map(drop)
}

/// Records the entry of a resource as the provider reports it. `entry` is none if the resource no longer exists.
pub(crate) async fn refresh(locked: &LockedStack, target: EntryKey, entry: Option<Entry>) -> Result<()> {
    let state = locked.state();
    let sealed = |entry| sealed_as(&locked.seal, entry, state.entry(&target));
    let entry = entry.map(sealed).transpose()?.map(Arc::new);
    let change = StepChange::Refresh {
        target: target.clone(),
        entry: entry.clone(),
    };
    step(locked, change, entry.as_deref(), true).await
}

/// Records outputs that a program registered for a resource after the step of the resource was recorded.
pub(crate) async fn outputs(
    locked: &LockedStack,
    target: EntryKey,
    outputs: Properties,
    sensitive: Vec<String>,
) -> Result<()> {
    let state = locked.state();
    let old = state.entry(&target);
    let registered = Entry {
        outputs: Some(outputs),
        sensitive_outputs: sensitive,
        ..match old {
            Some(old) => Entry::clone(old),
            None => Entry::leaf(target.address.clone(), ""),
        }
    };
    let sealed = sealed_as(&locked.seal, registered, old)?;
    check_size(&sealed)?;
    let change = if old.is_some_and(|old| old.inputs != sealed.inputs) {
        // Sealing changed the inputs too, because an output that became sensitive has the same value as an input. So
        // the whole entry is recorded.
        StepChange::Refresh {
            target,
            entry: Some(Arc::new(sealed)),
        }
    } else {
        StepChange::Outputs {
            target,
            outputs: sealed.outputs.unwrap_or_default(),
            sensitive: sealed.sensitive_outputs,
        }
    };
    step(locked, change, None, true).await
}

/// Records a step that changes no real resource. Checks the size of `entry`, if there is one. Returns once the record
/// is durable, or once it is queued if `durable` is false.
pub(crate) async fn step(
    locked: &LockedStack,
    change: StepChange,
    entry: Option<&Entry>,
    durable: bool,
) -> Result<()> {
    let id = MutationId::random(locked.entropy());
    let record = Prepared::checked(Record::Step(Step { id, change }), entry)?;
    locked.submit(vec![record], durable).await.map(drop)
}

/// Records edits that a user made by hand, within the open update: all of them, or none if one breaks a rule.
pub(crate) async fn edit(locked: &LockedStack, changes: Vec<EditChange>) -> Result<()> {
    let id = MutationId::random(locked.entropy());
    let state = locked.state();
    let changes = changes
        .into_iter()
        .map(|change| sealed_change(&locked.seal, identified(change, &state, locked.entropy())))
        .collect::<Result<_>>()?;
    record(locked, Record::Edit(Edit { id, changes })).await
}

/// Queues one record and waits until it is durable.
pub(crate) async fn record(locked: &LockedStack, record: Record) -> Result<()> {
    locked.submit(vec![record.into()], true).await.map(drop)
}

/// Returns the entry sealed for storage, with the uid of `old`, which is the entry that it replaces.
fn sealed_as(seal: &SessionSealer, entry: Entry, old: Option<&SharedEntry>) -> Result<Entry> {
    // The uid must be final before sealing: a sealed value is bound to the uid of its entry.
    seal.entry(Entry {
        uid: old.and_then(|old| old.uid).or(entry.uid),
        ..entry
    })
}

/// Returns the change with its entry sealed for storage.
pub(crate) fn sealed_change(seal: &SessionSealer, change: EditChange) -> Result<EditChange> {
    let sealed = |entry: &SharedEntry| seal.entry(Entry::clone(entry)).map(Arc::new);
    Ok(match change {
        EditChange::Put { target, entry } => EditChange::Put {
            entry: sealed(&entry)?,
            target,
        },
        EditChange::Append(entry) => EditChange::Append(sealed(&entry)?),
        other => other,
    })
}

/// Returns the change with a uid on its entry: the entry's own uid, or that of the entry that it replaces, or a new
/// one.
fn identified(change: EditChange, state: &State, entropy: &dyn Entropy) -> EditChange {
    let with = |entry: SharedEntry, known: Option<Uid>| match entry.uid {
        Some(_) => entry,
        None => Arc::new(Entry {
            uid: known.or_else(|| Some(Uid::random(entropy))),
            ..Entry::clone(&entry)
        }),
    };
    match change {
        EditChange::Put { target, entry } => {
            let known = state.entry(&target).and_then(|old| old.uid);
            EditChange::Put {
                entry: with(entry, known),
                target,
            }
        }
        EditChange::Append(entry) => EditChange::Append(with(entry, None)),
        other => other,
    }
}
