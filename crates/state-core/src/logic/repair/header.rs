//! What a snapshot says beside its entries: ids of pending operations, serials, counts.

use super::Step;
use crate::digest::Digest;
use crate::id::MutationId;
use crate::snapshot::Snapshot;
use std::collections::BTreeSet;

/// Mends what can be mended without inventing anything.
pub(super) fn settle(snapshot: &mut Snapshot, steps: &mut Vec<Step>) {
    unique_operations(snapshot, steps);
    for (system, serial) in &mut snapshot.foreign_serials {
        if serial.highest < serial.imported {
            serial.highest = serial.imported;
            steps.push(Step::RaiseSerial {
                system: system.clone(),
            });
        }
    }
    let entries = snapshot.entries.len() as u64;
    if let Some(continuation) = &mut snapshot.continuation
        && continuation.recorded > entries
    {
        continuation.recorded = entries;
        steps.push(Step::LowerRecorded);
    }
}

fn unique_operations(snapshot: &mut Snapshot, steps: &mut Vec<Step>) {
    let mut taken: BTreeSet<MutationId> = snapshot.pending_operations.iter().map(|p| p.id).collect();
    let mut seen = BTreeSet::new();
    for operation in &mut snapshot.pending_operations {
        let from = operation.id;
        if seen.insert(from) {
            continue;
        }
        let mut to = derived(from);
        while taken.contains(&to) {
            to = derived(to);
        }
        operation.id = to;
        taken.insert(to);
        seen.insert(to);
        steps.push(Step::RenameOperation {
            from,
            to,
            target: operation.target.clone(),
        });
    }
}

/// Another id that depends on nothing but this one.
fn derived(id: MutationId) -> MutationId {
    let digest = Digest::of(id.as_bytes());
    let mut bits = [0; 16];
    bits.copy_from_slice(&digest.as_bytes()[..16]);
    MutationId::from_bits(bits)
}
