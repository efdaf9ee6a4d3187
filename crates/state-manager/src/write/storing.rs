//! Whole snapshots on their way into the store: made ours, judged, stored.

use crate::objects::limits::check_size;
use crate::objects::snapshots;
use crate::write::locked_stack::LockedStack;
use state_core::repair;
use state_core::verify::{self, Violation};
use state_core::{Entropy, Entry, EntryKey, Error, Op, PendingOperation, Result, Snapshot, SnapshotRef, Uid};
use std::collections::HashMap;
use std::sync::Arc;

/// Says what becomes of a snapshot that may break rules; the words name it in errors.
type Judge = fn(&str, Snapshot, &dyn Entropy) -> Result<(Snapshot, Vec<Violation>)>;

/// Makes a snapshot ours, verifies it and stores it.
pub(super) async fn store(locked: &LockedStack, snapshot: Snapshot) -> Result<(SnapshotRef, Arc<Snapshot>)> {
    let (reference, snapshot, _) = store_as(locked, snapshot, refuse).await?;
    Ok((reference, snapshot))
}

/// Makes a snapshot ours and stores it; one that breaks rules is stored repaired, and those come back.
pub(super) async fn store_repaired(
    locked: &LockedStack,
    snapshot: Snapshot,
) -> Result<(SnapshotRef, Arc<Snapshot>, Vec<Violation>)> {
    store_as(locked, snapshot, mend).await
}

/// What is pending in a snapshot from another system, as it is stored here: under the uids of the entries that it is
/// about.
pub(super) fn adopted(
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
        let is_same = matches!(operation.op, Op::Update | Op::Read);
        let uid = uids.get(&operation.target).copied().filter(|_| is_same);
        let mut open = Entry::clone(entry);
        open.uid = uid.or(open.uid).or_else(|| Some(Uid::random(entropy)));
        *entry = locked.seal.entry(open)?.into();
        check_size(entry)?;
    }
    Ok(pending)
}

async fn store_as(
    locked: &LockedStack,
    mut snapshot: Snapshot,
    judge: Judge,
) -> Result<(SnapshotRef, Arc<Snapshot>, Vec<Violation>)> {
    let (state, tail) = locked.published();
    snapshot.lineage = Some(locked.stack.lineage());
    snapshot.serial = Some(state.serial().next());
    snapshot.stack = locked.stack.name().to_string();
    snapshot.continuation = None;
    snapshot.pending_operations = Vec::new();
    snapshot.invalidated = None;
    let entropy = Arc::clone(&locked.stack.environment().entropy);
    let object = format!("snapshot for {}", locked.stack.object());
    let seal = locked.seal.clone();
    let (snapshot, broken) = snapshots::blocking(move || {
        // What a snapshot says of itself comes first: mixed with those that are there now, its uids could meet.
        identify(&mut snapshot, &*entropy, |entry| {
            let known = state.entry(&entry.key()).filter(|old| old.id == entry.id);
            known.and_then(|old| old.uid)
        });
        let (snapshot, broken) = judge(&object, snapshot, &*entropy)?;
        Ok::<_, Error>((seal.snapshot(snapshot)?, broken))
    })
    .await??;
    let snapshot = Arc::new(snapshot);
    let reference = snapshots::store(&*locked.writer, Arc::clone(&snapshot), tail.next).await?;
    Ok((reference, snapshot, broken))
}

/// Gives each entry that has none a uid: the one that is known, or a new one.
fn identify(snapshot: &mut Snapshot, entropy: &dyn Entropy, known: impl Fn(&Entry) -> Option<Uid>) {
    for entry in &mut snapshot.entries {
        if entry.uid.is_none() {
            let uid = known(entry).unwrap_or_else(|| Uid::random(entropy));
            Arc::make_mut(entry).uid = Some(uid);
        }
    }
}

fn refuse(object: &str, snapshot: Snapshot, _: &dyn Entropy) -> Result<(Snapshot, Vec<Violation>)> {
    verify::check(object, &snapshot).map(|()| (snapshot, Vec::new()))
}

fn mend(object: &str, snapshot: Snapshot, entropy: &dyn Entropy) -> Result<(Snapshot, Vec<Violation>)> {
    let broken = verify::verify(&snapshot).violations;
    if broken.is_empty() {
        return Ok((snapshot, broken));
    }
    let repaired = repair::repair(&snapshot);
    if !repaired.is_valid() {
        return Err(Error::Integrity {
            object: object.to_owned(),
            violations: broken,
        });
    }
    let mut mended = repaired.snapshot;
    // Of two with one uid the later one lost it: nobody knows which of them had it before.
    identify(&mut mended, entropy, |_| None);
    Ok((mended, broken))
}
