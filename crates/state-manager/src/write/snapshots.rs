//! Whole snapshots that replace the content of a stack: imports, rollbacks, and saves within an update.

use crate::compute::compute;
use crate::intent::UpdateRequest;
use crate::keys::reveal::reveal;
use crate::keys::sealing::SessionSealer;
use crate::objects::snapshots::{self as stored, check_size};
use crate::write::locked_stack::{LockedStack, end_update};
use crate::write::queue::draft::Draft;
use futures_util::future::join;
use state_core::journal::{CompletionReason, DetachedRevision, Record, ResetBase, ResetCause};
use state_core::mutation::{Resolution, Resolve};
use state_core::sensitive::{KeptMarks, keep_marks};
use state_core::snapshot::Invalidation;
use state_core::state::LoadedSnapshots;
use state_core::verify::{self, Violation};
use state_core::{
    Base, Entropy, Entry, EntryKey, Error, ErrorKind, MutationId, Op, PendingOperation, Relation, Result,
    RevisionId, SharedEntry, Snapshot, SnapshotMeta, SnapshotRef, State, Timestamp, Uid, UpdateResult,
    repair, sealed,
};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Replaces all entries with those of a snapshot, as one revision. `parent` is the revision that must be current:
/// `Some(None)` requires that the stack has no current revision, and `None` accepts any. Pending operations of the
/// snapshot are recorded only if `cause` is an import from another system.
///
/// # Errors
/// `Conflict` if another revision is current; `Integrity` with all violations if the snapshot breaks a rule. Then the
/// stack is unchanged.
pub(crate) async fn replace(
    locked: &LockedStack,
    request: UpdateRequest,
    mut snapshot: Snapshot,
    cause: ResetCause,
    parent: Option<Option<RevisionId>>,
) -> Result<RevisionId> {
    // This lock is held until the record that names the stored snapshot is durable. Before that, a concurrent
    // collection would delete the snapshot as unused.
    let _storing = locked.storing.read().await;
    let pending = std::mem::take(&mut snapshot.pending_operations);
    let (reference, snapshot) = store_reset(locked, snapshot).await?;
    let pending = match &cause {
        ResetCause::Import { foreign: Some(_) } => adopted(locked, pending, &snapshot)?,
        _ => Vec::new(),
    };
    let id = MutationId::random(locked.entropy());
    let loaded = LoadedSnapshots::from([(reference.digest, snapshot)]);
    let object = locked.stack.object();
    let build = move |state: &State| {
        if parent.is_some_and(|parent| parent.as_ref() != state.current()) {
            // The parent is compared when the queue reaches the job, so that no other revision can be made in between.
            let reason = "another revision was made in the meantime";
            return Err(Error::conflict(object, reason));
        }
        Ok(vec![Record::ResetBase(ResetBase {
            id,
            snapshot: reference,
            cause,
            pending,
        })])
    };
    locked.commit(request, loaded, build).await
}

/// Replaces all entries and the entries of the pending operations by those of a snapshot, as one revision. The
/// operations stay pending. `expected` is the state from which the snapshot was made.
///
/// # Errors
/// `Conflict` if the state has changed since `expected`, or if the snapshot has other pending operations; `Integrity`
/// with all violations if the snapshot breaks a rule. Then the stack is unchanged.
pub(crate) async fn replace_with_pending(
    locked: &LockedStack,
    request: UpdateRequest,
    expected: &State,
    mut snapshot: Snapshot,
) -> Result<RevisionId> {
    let _storing = locked.storing.read().await;
    let pending = resealed(locked, std::mem::take(&mut snapshot.pending_operations))?;
    let (reference, snapshot) = store_reset(locked, snapshot).await?;
    let loaded = LoadedSnapshots::from([(reference.digest, snapshot)]);
    let reset = ResetBase {
        id: MutationId::random(locked.entropy()),
        snapshot: reference,
        cause: ResetCause::Edit,
        pending,
    };
    let object = locked.stack.object();
    let parent = expected.current().cloned();
    let build = move |state: &State| {
        let is_same_list = state
            .pending()
            .map(|operation| operation.id)
            .eq(reset.pending.iter().map(|operation| operation.id));
        if state.current() != parent.as_ref() || !is_same_list {
            let reason = "another revision was made in the meantime; nothing was changed";
            return Err(Error::conflict(object, reason));
        }
        // A reset skips operations that are pending already, so the present ones are removed first. All records are in
        // one frame: no reader sees a state without the operations.
        let removals = state.pending().map(|operation| {
            Record::Resolve(Resolve {
                id: operation.id,
                resolution: Resolution::NotDone,
            })
        });
        let mut records: Vec<Record> = removals.collect();
        records.push(Record::ResetBase(reset));
        Ok(records)
    };
    locked.commit(request, loaded, build).await
}

/// Replaces all entries with those of an exported state. A request that isn't forced is refused with `Conflict` in
/// three cases: the export has another lineage or none, its serial is older than that of the current revision, or it
/// has a pending operation that the stack doesn't have. If no revision is current, lineage and serial aren't checked.
pub(crate) async fn import_exported(
    locked: &LockedStack,
    request: UpdateRequest,
    snapshot: Snapshot,
) -> Result<RevisionId> {
    if !request.forced {
        check_fits(locked, &snapshot).await?;
    }
    let cause = ResetCause::Import { foreign: None };
    replace(locked, request, snapshot, cause, None).await
}

/// Checks the pending operations of an exported state against those of the stack, and its lineage and serial against
/// the current revision, if there is one.
async fn check_fits(locked: &LockedStack, snapshot: &Snapshot) -> Result<()> {
    let conflict = |reason: String| Err(Error::conflict(locked.stack.object(), reason));
    let known: BTreeSet<_> = locked.state().pending().map(|operation| operation.id).collect();
    let unknown = snapshot
        .pending_operations
        .iter()
        .filter(|operation| !known.contains(&operation.id))
        .count();
    if unknown > 0 {
        let noun = if unknown == 1 { "operation" } else { "operations" };
        return conflict(format!(
            "the deployment has {unknown} pending {noun} unknown to the stack: resolve them in the stack it was exported from"
        ));
    }
    let current = match locked.view().await?.snapshot_meta().await {
        Err(error) if error.kind() == ErrorKind::NoCurrent => return Ok(()),
        other => other?,
    };
    let imported = SnapshotMeta {
        lineage: snapshot
            .lineage
            .map_or_else(String::new, |lineage| lineage.to_string()),
        serial: snapshot.serial.map_or(0, |serial| serial.get()),
        version: String::new(),
    };
    match imported.relation_to(&current) {
        Relation::Newer | Relation::Equal => Ok(()),
        Relation::Older => conflict(format!(
            "the deployment has serial {}, the stack is at serial {}",
            imported.serial, current.serial
        )),
        Relation::Unrelated => conflict(
            "the deployment has another lineage or none, so it is unrelated to this stack".to_owned(),
        ),
    }
}

/// Restores the content of the revision `to`, as a new revision on top of the current one. Refuses with `Conflict` if
/// operations are pending. Unless forced, also refuses if the rollback guard does (`read/rollback_guard.rs`).
pub(crate) async fn rollback(
    locked: &LockedStack,
    request: UpdateRequest,
    to: &RevisionId,
) -> Result<RevisionId> {
    refuse_pending(locked)?;
    let view = locked.view().await?;
    let snapshot = view.restorable(to, request.forced).await?;
    // The revision may be plain or sealed with an earlier key. Its values are opened here, and `replace` seals them
    // with the present key.
    let snapshot = reveal(&locked.stack, &locked.head.current(), snapshot).await?;
    restore(locked, request, to, snapshot).await
}

/// Restores the content of the revision `to` of this stack, which may be in a backup only. `snapshot` is that content,
/// opened. Refuses with `Conflict` if operations are pending.
pub(crate) async fn restore(
    locked: &LockedStack,
    request: UpdateRequest,
    to: &RevisionId,
    mut snapshot: Snapshot,
) -> Result<RevisionId> {
    refuse_pending(locked)?;
    // A value may have been marked as sensitive after that revision. The marks of the present state are kept, so that
    // the restored value isn't stored as plain text.
    let present = locked
        .state()
        .snapshot(locked.stack.name().to_string(), locked.stack.now());
    let present = reveal(&locked.stack, &locked.head.current(), present).await?;
    let snapshot = compute(move || {
        keep_marks(&present, &mut snapshot, KeptMarks::All);
        snapshot
    })
    .await?;
    let cause = ResetCause::Restore { revision: to.clone() };
    replace(locked, request, snapshot, cause, None).await
}

/// Refuses to replace the state while operations are pending: their outcome would be recorded nowhere.
fn refuse_pending(locked: &LockedStack) -> Result<()> {
    let noun = match locked.state().pending().count() {
        0 => return Ok(()),
        1 => "1 operation is".to_owned(),
        pending => format!("{pending} operations are"),
    };
    let reason = format!("{noun} pending: resolve them first");
    Err(Error::conflict(locked.stack.object(), reason))
}

/// Stores a snapshot as a revision of its own, without making it the current revision.
pub(crate) async fn write(locked: &LockedStack, snapshot: Snapshot) -> Result<RevisionId> {
    let _storing = locked.storing.read().await;
    let (reference, snapshot) = store(locked, snapshot).await?;
    let entries = snapshot.entries.len() as u64;
    let build = move |state: &State, _: &Base| {
        Ok(vec![Record::DetachedRevision(DetachedRevision {
            serial: state.serial().next(),
            snapshot: reference,
            entries,
        })])
    };
    let answer = locked.built(LoadedSnapshots::new(), build).await?;
    locked.require_revision(answer)
}

/// Marks the stack as unreliable within the open update: its entries may differ from the real resources until the mark
/// is cleared. Fails with `Conflict` if no update is open.
pub(crate) async fn invalidate(locked: &LockedStack) -> Result<()> {
    let since = locked.stack.now();
    let build = move |state: &State, _: &Base| {
        let update = state.update().ok_or_else(update_ended)?.id;
        Ok(vec![Record::Invalidate(Invalidation { update, since })])
    };
    locked.built(LoadedSnapshots::new(), build).await.map(drop)
}

/// Replaces the content of the stack with a snapshot within the open update. A valid snapshot also clears the mark that
/// [`invalidate`] sets. A snapshot that breaks rules is repaired first; then the mark stays and the violations are
/// returned. With `end`, the update also ends at that time: as succeeded, or as failed if the snapshot was repaired.
///
/// # Errors
/// `Conflict` if the snapshot has another lineage, or no update is open; `Integrity` if it can't be repaired.
pub(crate) async fn save(
    locked: &LockedStack,
    snapshot: Snapshot,
    end: Option<Timestamp>,
) -> Result<Vec<Violation>> {
    let lineage = locked.stack.lineage();
    if let Some(other) = snapshot.lineage.filter(|other| *other != lineage) {
        let reason = format!("the snapshot has lineage {other}, so it is unrelated to this stack");
        return Err(Error::conflict(locked.stack.object(), reason));
    }
    let _storing = locked.storing.read().await;
    let (reference, snapshot, broken) = store_as(locked, snapshot, repair_if_broken).await?;
    let loaded = LoadedSnapshots::from([(reference.digest, snapshot)]);
    let mut records = vec![Record::ResetBase(ResetBase {
        id: MutationId::random(locked.entropy()),
        snapshot: reference,
        cause: ResetCause::Import { foreign: None },
        pending: Vec::new(),
    })];
    let mut result = UpdateResult::Failed;
    if broken.is_empty() {
        // A repaired snapshot may differ from the real resources, so only a valid one clears the mark.
        records.push(Record::Validate(CompletionReason::Saved));
        result = UpdateResult::Succeeded;
    }
    let build = move |draft: &mut Draft<'_>| {
        if draft.state().update().is_none() {
            return Err(update_ended());
        }
        draft.add_all(records)?;
        end.map_or(Ok(()), |end| end_update(draft, result, end, None))
    };
    locked.drafted(loaded, build).await?;
    Ok(broken)
}

fn update_ended() -> Error {
    Error::conflict("the update", "it has ended already")
}

/// A function that rejects or repairs a snapshot that breaks rules. Returns the snapshot to store, and the rules that
/// were broken before the repair. The first argument names the snapshot in errors.
type SnapshotCheck = fn(&str, Snapshot, &dyn Entropy) -> Result<(Snapshot, Vec<Violation>)>;

/// Prepares a snapshot for this stack, verifies it and stores it. Returns the snapshot as it was stored.
///
/// # Errors
/// `Integrity` with all violations if the snapshot breaks a rule.
async fn store(locked: &LockedStack, snapshot: Snapshot) -> Result<(SnapshotRef, Arc<Snapshot>)> {
    let (reference, snapshot, _) = store_as(locked, snapshot, reject_if_broken).await?;
    Ok((reference, snapshot))
}

/// As [`store`], for a snapshot to which the state is then reset.
async fn store_reset(locked: &LockedStack, snapshot: Snapshot) -> Result<(SnapshotRef, Arc<Snapshot>)> {
    // At the same time, so that no request of the reset's checkpoint follows that of its frame.
    let (stored, ()) = join(store(locked, snapshot), locked.read_pages_ahead()).await;
    stored
}

/// Prepares the pending operations of a snapshot from another system for this stack: their entries are sealed, and each
/// gets a uid. The entry of an update or a read gets the uid of the entry that it changes.
fn adopted(
    locked: &LockedStack,
    mut pending: Vec<PendingOperation>,
    snapshot: &Snapshot,
) -> Result<Vec<PendingOperation>> {
    if pending.is_empty() {
        return Ok(pending);
    }
    let entropy = locked.entropy();
    let uids: HashMap<EntryKey, Uid> = snapshot
        .entries
        .iter()
        .filter_map(|entry| Some((entry.key(), entry.uid?)))
        .collect();
    for operation in &mut pending {
        let Some(entry) = &mut operation.entry else {
            continue;
        };
        // The entry of an update or a read is the recorded resource with its uid. The entry of any other operation is
        // a different resource, so it keeps its own uid or gets a new one.
        let is_same = matches!(operation.op, Op::Update | Op::Read);
        let uid = uids.get(&operation.target).copied().filter(|_| is_same);
        let mut open = Entry::clone(entry);
        open.uid = uid.or(open.uid).or_else(|| Some(Uid::random(entropy)));
        *entry = locked.seal.entry(open)?.into();
        check_size(entry)?;
    }
    Ok(pending)
}

/// Pending operations of this stack with their entries sealed again. The entries keep their uids, to which their sealed
/// values are bound.
fn resealed(locked: &LockedStack, mut pending: Vec<PendingOperation>) -> Result<Vec<PendingOperation>> {
    for entry in pending.iter_mut().flat_map(PendingOperation::entries_mut) {
        *entry = locked.seal.entry(Entry::clone(entry))?.into();
        check_size(entry)?;
    }
    Ok(pending)
}

/// Prepares a snapshot for this stack, applies `check` and stores the result. Returns the snapshot as it was stored,
/// and the violations that `check` returned.
async fn store_as(
    locked: &LockedStack,
    mut snapshot: Snapshot,
    check: SnapshotCheck,
) -> Result<(SnapshotRef, Arc<Snapshot>, Vec<Violation>)> {
    let (state, tail) = locked.published();
    snapshot.lineage = Some(locked.stack.lineage());
    snapshot.serial = Some(state.serial().next());
    snapshot.stack = locked.stack.name().to_string();
    // A stored snapshot replaces the entries and outputs only. Pending operations and the unreliable mark change
    // through records of the journal.
    snapshot.continuation = None;
    snapshot.pending_operations = Vec::new();
    snapshot.invalidated = None;
    let entropy = Arc::clone(&locked.stack.environment().entropy);
    let object = format!("snapshot for {}", locked.stack.object());
    let seal = locked.seal.clone();
    // Verification and sealing run on a background thread: on a large snapshot they would delay all other tasks.
    let (snapshot, broken) = compute(move || {
        // Only entries without a uid get one. If the stack's present uids replaced uids of the snapshot, two entries
        // could get the same uid.
        identify(&mut snapshot, &*entropy, |entry| {
            let known = state
                .entry(&entry.key())
                .filter(|old| has_id_of(entry, old, &seal));
            known.and_then(|old| old.uid)
        });
        let (snapshot, broken) = check(&object, snapshot, &*entropy)?;
        Ok::<_, Error>((seal.snapshot(snapshot)?, broken))
    })
    .await??;
    let snapshot = Arc::new(snapshot);
    let reference = stored::store(&*locked.writer, Arc::clone(&snapshot), tail.next).await?;
    Ok((reference, snapshot, broken))
}

/// Whether an entry has the id of the stack's entry, which may be sealed.
fn has_id_of(entry: &Entry, old: &SharedEntry, seal: &SessionSealer) -> bool {
    if old.id == entry.id {
        return true;
    }
    let is_sealed = old
        .id
        .as_deref()
        .is_some_and(|id| sealed::key_of_text(id).is_some());
    // An entry that can't be opened counts as another one: its replacement then gets a uid of its own.
    is_sealed && seal.reveal(old).is_ok_and(|open| open.id == entry.id)
}

/// Gives each entry without a uid the uid that `known` returns for it, or a new uid.
fn identify(snapshot: &mut Snapshot, entropy: &dyn Entropy, known: impl Fn(&Entry) -> Option<Uid>) {
    for entry in &mut snapshot.entries {
        if entry.uid.is_none() {
            let uid = known(entry).unwrap_or_else(|| Uid::random(entropy));
            Arc::make_mut(entry).uid = Some(uid);
        }
    }
}

fn reject_if_broken(object: &str, snapshot: Snapshot, _: &dyn Entropy) -> Result<(Snapshot, Vec<Violation>)> {
    verify::check(object, &snapshot).map(|()| (snapshot, Vec::new()))
}

fn repair_if_broken(
    object: &str,
    snapshot: Snapshot,
    entropy: &dyn Entropy,
) -> Result<(Snapshot, Vec<Violation>)> {
    let broken = verify::verify(&snapshot).violations;
    if broken.is_empty() {
        return Ok((snapshot, broken));
    }
    // The result of an update must be recorded without asking a person. The stack stays marked as unreliable.
    let repaired = repair::repair_with(&snapshot, repair::Duplicates::Depose);
    if !repaired.is_valid() {
        return Err(Error::integrity(object, broken));
    }
    let mut repaired_snapshot = repaired.snapshot;
    // Of two entries with the same uid, the repair removed the uid of the later one. To which of them the uid belonged
    // is unknown, so the later entry gets a new uid.
    identify(&mut repaired_snapshot, entropy, |_| None);
    Ok((repaired_snapshot, broken))
}
