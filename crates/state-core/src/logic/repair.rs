//! Repairs snapshots that violate integrity rules. A repair is deterministic, changes little, and describes every step.
//!
//! | violation | repair |
//! |---|---|
//! | duplicate key, same object | the later entry is dropped: a deposed copy would make the next update delete the object |
//! | duplicate key, different objects | a person chooses the entry to keep; see [`Duplicates`] |
//! | duplicate uid | the first entry keeps the uid, later entries lose it |
//! | an external entry is tainted or pending replacement | the flag is cleared |
//! | a reference to a missing target | the reference is dropped; a child of a missing parent gets no other parent, because the ancestors are unknown |
//! | a dependency cycle | the references of one entry to the next in the cycle are dropped. Dependencies are dropped rather than a parent, references to later entries rather than to earlier ones, few references rather than many |
//! | an entry comes before its dependency | the dependency moves to just before the entry; all other entries keep their order |
//! | no earlier entry of the provider has the referenced id | the provider entry with that id moves before the referring entry if possible; otherwise the reference gets the id of an earlier entry with the provider's address |
//! | two pending operations have the same id | the later one gets another id, derived from it |
//! | the highest serial of another tool is lower than the serial of its last import | the highest serial is raised |
//! | the open update's number of recorded entries exceeds the number of all entries | the former number is lowered |
//!
//! Repair can't supply unknown information, such as a missing kind or the missing entry of a pending operation.
//! [`RepairResult::remaining`] lists these violations. Repair never removes an object, a pending operation or a value that
//! is recorded only once, unless a person chose so. If a choice is missing, repair makes no step, and
//! [`RepairResult::undecided`] lists the entries to choose from.
//!
//! Repair is idempotent: a second repair makes no step.
//!
//! ```
//! use state_core::{Entry, Dependency, FactoryInfo, Snapshot, Timestamp, repair, verify};
//!
//! let mut subnet = Entry::leaf("subnet".parse()?, "aws_subnet");
//! subnet.depends_on = vec![Dependency::Entry("vpc".parse()?), Dependency::Entry("gone".parse()?)];
//! let mut snapshot = Snapshot::new(FactoryInfo::default(), "net", Timestamp::new("2026-01-01T00:00:00Z"));
//! snapshot.entries = vec![subnet.into(), Entry::leaf("vpc".parse()?, "aws_vpc").into()];
//!
//! let repaired = repair::repair(&snapshot);
//! assert!(verify::verify(&repaired.snapshot).is_valid());
//! let steps: Vec<String> = repaired.steps.iter().map(ToString::to_string).collect();
//! assert_eq!(steps, ["subnet: drop depends-on gone, which does not exist", "vpc: move before subnet, which needs it"]);
//! # Ok::<(), state_core::Error>(())
//! ```

mod duplicates;
mod references;
mod step;
#[cfg(test)]
mod tests;

pub use duplicates::{Choice, DuplicateKey, Duplicates};
pub use step::{Reason, Step};

use crate::digest::Digest;
use crate::entry::SharedEntry;
use crate::id::MutationId;
use crate::snapshot::Snapshot;
use crate::verify::{self, Violation};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// The result of a repair.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairResult {
    /// Snapshot after all steps.
    pub snapshot: Snapshot,
    /// Steps of the repair, in order. Empty for a valid snapshot.
    pub steps: Vec<Step>,
    /// Violations that only a person can resolve.
    pub remaining: Vec<Violation>,
    /// Keys that several entries share although they record different objects. Not empty only if nothing was repaired.
    pub undecided: Vec<DuplicateKey>,
}

impl RepairResult {
    /// Whether no violation remains.
    pub const fn is_valid(&self) -> bool {
        self.remaining.is_empty()
    }
}

/// Repairs a snapshot without any choice of a person. Equal snapshots are always repaired in the same way.
pub fn repair(snapshot: &Snapshot) -> RepairResult {
    repair_with(snapshot, Duplicates::Choose(&[]))
}

/// Repairs a snapshot. Equal snapshots and equal choices always give the same result.
pub fn repair_with(snapshot: &Snapshot, duplicates: Duplicates<'_>) -> RepairResult {
    let mut repaired = snapshot.clone();
    let before = verify::verify(&repaired).violations;
    let mut steps = Vec::new();
    if !before.is_empty() {
        // The order of the repairs matters: cycles are reported by key, so keys must become unique first; and a
        // topological order exists only after all cycles are broken.
        let undecided = duplicates::resolve(&mut repaired.entries, duplicates, &mut steps);
        if !undecided.is_empty() {
            return RepairResult {
                snapshot: snapshot.clone(),
                steps: Vec::new(),
                remaining: before,
                undecided,
            };
        }
        let entries = &mut repaired.entries;
        unique_uids(entries, &mut steps);
        consistent_marks(entries, &mut steps);
        references::prune_missing(entries, &mut steps);
        references::break_cycles_and_order(entries, &mut steps);
        references::repair_providers(entries, &mut steps);
        repair_header(&mut repaired, &mut steps);
    }
    let remaining = if steps.is_empty() {
        before
    } else {
        verify::verify(&repaired).violations
    };
    RepairResult {
        snapshot: repaired,
        steps,
        remaining,
        undecided: Vec::new(),
    }
}

/// Clears the uid of each entry that has the same uid as an earlier entry.
fn unique_uids(entries: &mut [SharedEntry], steps: &mut Vec<Step>) {
    let mut holders = HashMap::with_capacity(entries.len());
    for entry in entries {
        let Some(uid) = entry.uid else { continue };
        let key = entry.key();
        if let Some(holder) = holders.get(&uid).cloned() {
            Arc::make_mut(entry).uid = None;
            steps.push(Step::DropUid { entry: key, holder });
        } else {
            holders.insert(uid, key);
        }
    }
}

/// Clears `pending-replacement` and `tainted` of external entries: only managed entries can have these flags.
fn consistent_marks(entries: &mut [SharedEntry], steps: &mut Vec<Step>) {
    for entry in entries.iter_mut().filter(|entry| entry.external) {
        let mut drop = |mark| {
            steps.push(Step::DropMark {
                entry: entry.key(),
                mark,
            });
        };
        let (pending_replacement, tainted) = (entry.pending_replacement, entry.tainted);
        if pending_replacement {
            drop("pending-replacement");
        }
        if tainted {
            drop("tainted");
        }
        if pending_replacement || tainted {
            let entry = Arc::make_mut(entry);
            (entry.pending_replacement, entry.tainted) = (false, false);
        }
    }
}

/// Repairs those parts of the header that the snapshot's own content determines.
fn repair_header(snapshot: &mut Snapshot, steps: &mut Vec<Step>) {
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

/// Assigns another id to each pending operation that has the same id as an earlier one.
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

/// Returns a new id that depends only on `id`, so that the repair is deterministic.
fn derived(id: MutationId) -> MutationId {
    let digest = Digest::of(id.as_bytes());
    let mut bits = [0; 16];
    bits.copy_from_slice(&digest.as_bytes()[..16]);
    MutationId::from_bits(bits)
}
