//! Makes a snapshot valid that breaks rules: deterministic, with as little change as it takes, every step explained.
//!
//! | broken | mended by |
//! |---|---|
//! | a key is there twice | the first keeps it, later ones become deposed: `repair01`, `repair02`, … |
//! | a uid is there twice | the first keeps it, later ones lose theirs |
//! | an external entry is tainted or pending replacement | the mark goes |
//! | a reference names nothing | the reference goes; of the missing entry nothing is known, so a child of it has no parent |
//! | entries refer to each other in a circle | one reference of the circle goes: a dependency rather than a parent, one that isn't met rather than one that is, the fewest |
//! | an entry stands before what it refers to | what it refers to moves to just before it; all else stays where it is |
//! | no incarnation of a provider with that id stands earlier | the incarnation moves there if it can; else the entry names the one that is there |
//! | two pending operations have one id | the later one gets another id, derived from it |
//! | a foreign serial's highest is lower than the imported one | it is raised |
//!
//! What would have to be invented stays broken and is told in [`Repaired::remaining`]: a missing kind, the entry that a
//! pending operation lacks. Nothing else goes: no entry, no pending operation, no value.
//!
//! A valid snapshot takes no step, so repairing twice is repairing once.
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

mod references;
mod step;
#[cfg(test)]
mod tests;

pub use step::{Reason, Step};

use crate::address::{Address, DeposedKey, EntryKey};
use crate::digest::Digest;
use crate::entry::SharedEntry;
use crate::id::MutationId;
use crate::snapshot::Snapshot;
use crate::verify::{self, Violation};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// What a repair did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Repaired {
    /// The snapshot after all steps.
    pub snapshot: Snapshot,
    /// What was done, in this order. Empty when nothing had to be.
    pub steps: Vec<Step>,
    /// What is still broken: nobody but a person can say what belongs there.
    pub remaining: Vec<Violation>,
}

impl Repaired {
    /// Whether nothing is broken any more.
    pub const fn is_valid(&self) -> bool {
        self.remaining.is_empty()
    }
}

/// Repairs a snapshot. The same snapshot is always repaired in the same way.
pub fn repair(snapshot: &Snapshot) -> Repaired {
    let mut snapshot = snapshot.clone();
    let before = verify::verify(&snapshot).violations;
    let mut steps = Vec::new();
    if !before.is_empty() {
        let entries = &mut snapshot.entries;
        unique_keys(entries, &mut steps);
        unique_uids(entries, &mut steps);
        consistent_marks(entries, &mut steps);
        references::prune_missing(entries, &mut steps);
        references::break_circles(entries, &mut steps);
        references::restore_order(entries, &mut steps);
        references::settle_providers(entries, &mut steps);
        settle_header(&mut snapshot, &mut steps);
    }
    let remaining = if steps.is_empty() {
        before
    } else {
        verify::verify(&snapshot).violations
    };
    Repaired {
        snapshot,
        steps,
        remaining,
    }
}

/// Gives a deposed key to each entry whose key is taken.
fn unique_keys(entries: &mut [SharedEntry], steps: &mut Vec<Step>) {
    // A derived key must not be one that a later entry has.
    let mut taken: HashSet<EntryKey> = entries.iter().map(|entry| entry.key()).collect();
    if taken.len() == entries.len() {
        return;
    }
    let mut seen: HashSet<EntryKey> = HashSet::with_capacity(entries.len());
    for entry in entries {
        let old = entry.key();
        if seen.insert(old.clone()) {
            continue;
        }
        if let Some(key) = free_key(&old.address, &taken) {
            Arc::make_mut(entry).deposed = Some(key.clone());
            taken.insert(entry.key());
            seen.insert(entry.key());
            steps.push(Step::Depose { entry: old, key });
        }
    }
}

fn free_key(address: &Address, taken: &HashSet<EntryKey>) -> Option<DeposedKey> {
    (1..=taken.len() + 1)
        .filter_map(|number| DeposedKey::new(format!("repair{number:02}")).ok())
        .find(|key| {
            !taken.contains(&EntryKey {
                address: address.clone(),
                deposed: Some(key.clone()),
            })
        })
}

/// Takes its uid from each entry that has the one of an earlier entry.
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

/// Takes the marks from external entries that only our own can have.
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

/// Mends what can be mended without inventing anything.
fn settle_header(snapshot: &mut Snapshot, steps: &mut Vec<Step>) {
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
