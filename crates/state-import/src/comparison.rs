//! Compares an imported state with the state of the stack.

use state_core::{Entry, Serial, SharedEntry, Snapshot, UpdateKind};
use state_formats::Imported;
use state_manager::{RevisionKind, Session};
use std::collections::BTreeSet;

/// Whether the stack already holds the same state. Compares the imported content, but not uids, names and times that the
/// stack assigned itself.
pub(crate) fn is_same(existing: &Snapshot, new: &Imported) -> bool {
    let snapshot = &new.snapshot;
    let is_same_serial = new.foreign.as_ref().is_none_or(|foreign| {
        let known = existing.foreign_serials.get(foreign.system);
        known.map(|known| known.export(existing.serial.unwrap_or_default())) == Some(foreign.serial)
    });
    is_same_serial
        && existing.outputs == snapshot.outputs
        && has_same_output_marks(existing, snapshot)
        && existing.extensions == snapshot.extensions
        && existing.entries.len() == snapshot.entries.len()
        && existing
            .entries
            .iter()
            .zip(&snapshot.entries)
            .all(|(old, new)| is_same_entry(old, new))
}

/// Whether the same outputs are marked as sensitive, in any order.
pub(crate) fn has_same_output_marks(one: &Snapshot, other: &Snapshot) -> bool {
    let marks = |snapshot: &Snapshot| {
        snapshot
            .sensitive_outputs
            .iter()
            .cloned()
            .collect::<BTreeSet<_>>()
    };
    marks(one) == marks(other)
}

/// Whether two entries are equal except for their uids and the order of their marks.
pub(crate) fn is_same_entry(old: &SharedEntry, new: &SharedEntry) -> bool {
    let mut old = with_sorted_marks(old);
    old.uid = new.uid;
    old == with_sorted_marks(new)
}

/// The entry with sorted marks: their order depends on whether the file or the stack made them.
fn with_sorted_marks(entry: &Entry) -> Entry {
    let mut entry = entry.clone();
    entry.sensitive_inputs.sort();
    entry.sensitive_outputs.sort();
    entry
}

/// The state with the serials that it would have if the data key and the recipients had not changed since the last import.
/// Such a change makes a revision without a change of the state, so a newer state of the other system loses nothing.
pub(crate) async fn without_key_changes(
    session: &Session,
    mut existing: Snapshot,
) -> state_core::Result<Snapshot> {
    let serial = existing.serial.unwrap_or_default();
    let Some(oldest) = existing.foreign_serials.values().map(|known| known.at).min() else {
        return Ok(existing);
    };
    if oldest >= serial {
        return Ok(existing);
    }
    let mut revisions = session.view().await?.revisions();
    let mut of_keys = Vec::new();
    while let Some(revision) = revisions.next().await? {
        let made = revision.id.serial();
        if made <= oldest {
            break;
        }
        if matches!(&revision.kind, RevisionKind::Update(info) if info.kind == UpdateKind::Rekey) {
            of_keys.push(made);
        }
    }
    for known in existing.foreign_serials.values_mut() {
        let later = of_keys.iter().filter(|made| **made > known.at).count() as u64;
        known.at = Serial(known.at.get() + later);
    }
    Ok(existing)
}
