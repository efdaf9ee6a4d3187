//! Whole snapshots take the place of all that a stack holds: imports, rollbacks, and saves within an update.

use crate::intent::UpdateRequest;
use crate::keys::wrapped;
use crate::read::{rollback_guard, view};
use crate::write::locked_stack::{LockedStack, finished};
use crate::write::storing;
use state_core::journal::{Rebase, RebaseCause, Record, Stored, Vouch};
use state_core::snapshot::Invalidation;
use state_core::state::Loaded;
use state_core::verify::Violation;
use state_core::{Base, Error, MutationId, Result, RevisionId, Snapshot, State, Timestamp, UpdateResult};

/// Replaces all entries by those of a snapshot, as one revision; with a `parent` only while that one is current.
pub(crate) async fn replace(
    locked: &LockedStack,
    request: UpdateRequest,
    mut snapshot: Snapshot,
    cause: RebaseCause,
    parent: Option<Option<RevisionId>>,
) -> Result<RevisionId> {
    let _storing = locked.storing.read().await;
    let pending = std::mem::take(&mut snapshot.pending_operations);
    let (reference, snapshot) = storing::store(locked, snapshot).await?;
    let pending = match &cause {
        RebaseCause::Import { foreign: Some(_) } => storing::adopted(locked, pending, &snapshot)?,
        _ => Vec::new(),
    };
    let id = MutationId::random(locked.entropy());
    let loaded = Loaded::from([(reference.digest, snapshot)]);
    let object = locked.stack.object();
    let build = move |state: &State| {
        if parent.is_some_and(|parent| parent.as_ref() != state.current()) {
            let reason = "another revision was made in the meantime";
            return Err(Error::conflict(object, reason));
        }
        Ok(vec![Record::Rebase(Rebase {
            id,
            snapshot: reference,
            cause,
            pending,
        })])
    };
    locked.commit(request, loaded, build).await
}

/// Brings back what a revision holds, as a new revision on top of the current one.
pub(crate) async fn rollback(
    locked: &LockedStack,
    request: UpdateRequest,
    to: &RevisionId,
) -> Result<RevisionId> {
    let state = locked.state();
    let pending = state.pending().count();
    if pending > 0 {
        let reason = format!("{pending} operation(s) are pending: resolve them first");
        return Err(Error::conflict(locked.stack.object(), reason));
    }
    let snapshot = view::snapshot(&locked.stack, to).await?;
    if !request.forced {
        rollback_guard::refuse(&locked.stack, &locked.state(), to, &snapshot).await?;
    }
    // It may be sealed with an earlier key, or not at all.
    let snapshot = wrapped::reveal(&locked.stack, snapshot).await?;
    let cause = RebaseCause::Restore { revision: to.clone() };
    replace(locked, request, snapshot, cause, None).await
}

/// Stores a snapshot as a revision that isn't current.
pub(crate) async fn write(locked: &LockedStack, snapshot: Snapshot) -> Result<RevisionId> {
    let _storing = locked.storing.read().await;
    let (reference, snapshot) = storing::store(locked, snapshot).await?;
    let entries = snapshot.entries.len() as u64;
    let build = move |state: &State, _: &Base| {
        Ok(vec![Record::Stored(Stored {
            serial: state.serial().next(),
            snapshot: reference,
            entries,
        })])
    };
    let answer = locked.built(Loaded::new(), build).await?;
    locked.made(answer)
}

/// Marks the stack as unreliable within the open update.
pub(crate) async fn invalidate(locked: &LockedStack) -> Result<()> {
    let since = locked.stack.now();
    let build = move |state: &State, _: &Base| {
        let update = state.update().ok_or_else(ended)?.id;
        Ok(vec![Record::Invalidate(Invalidation { update, since })])
    };
    locked.built(Loaded::new(), build).await.map(drop)
}

/// Puts a snapshot in place of all that is there, within the open update, and takes the mark back. Returns the rules
/// that it breaks: then it is recorded repaired, and the mark stays. With `end` the update ends with it.
pub(crate) async fn save(
    locked: &LockedStack,
    snapshot: Snapshot,
    end: Option<Timestamp>,
) -> Result<Vec<Violation>> {
    let lineage = locked.stack.lineage();
    if let Some(other) = snapshot.lineage.filter(|other| *other != lineage) {
        let reason = format!("the snapshot is of lineage {other}: the two are unrelated");
        return Err(Error::conflict(locked.stack.object(), reason));
    }
    let _storing = locked.storing.read().await;
    let (reference, snapshot, broken) = storing::store_repaired(locked, snapshot).await?;
    let loaded = Loaded::from([(reference.digest, snapshot)]);
    let mut records = vec![Record::Rebase(Rebase {
        id: MutationId::random(locked.entropy()),
        snapshot: reference,
        cause: RebaseCause::Import { foreign: None },
        pending: Vec::new(),
    })];
    let mut result = UpdateResult::Failed;
    if broken.is_empty() {
        records.push(Record::Validate(Vouch::Saved));
        result = UpdateResult::Succeeded;
    }
    let during = loaded.clone();
    let build = move |state: &State, base: &Base| match end {
        None => state.update().map(|_| records).ok_or_else(ended),
        Some(end) => finished(state, base, records, result, &end, &during),
    };
    locked.built(loaded, build).await?;
    Ok(broken)
}

fn ended() -> Error {
    Error::conflict("the update", "it has ended already")
}
