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

mod circle;
mod header;
mod identity;
mod order;
mod provider;
mod reference;
mod step;
#[cfg(test)]
mod tests;

pub use step::{Reason, Step};

use crate::snapshot::Snapshot;
use crate::verify::{self, Violation};

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
        identity::unique_keys(entries, &mut steps);
        identity::unique_uids(entries, &mut steps);
        identity::consistent_marks(entries, &mut steps);
        reference::prune_missing(entries, &mut steps);
        circle::break_all(entries, &mut steps);
        order::restore(entries, &mut steps);
        provider::settle(entries, &mut steps);
        header::settle(&mut snapshot, &mut steps);
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
