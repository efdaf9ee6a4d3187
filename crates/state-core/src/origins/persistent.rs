//! The contract of seed 002: a snapshot in memory, the one in the store, and how the two meet.
//!
//! The *transient* snapshot belongs to one program; the *persistent* one is shared. [`Refresher::refresh`] takes
//! the persistent one into memory, [`Persister::persist`] brings the transient one into the store, and notices when
//! somebody else did so first: nobody's changes are destroyed. Whoever implements all of it is [`Full`].

use crate::environment::Timestamp;
use crate::error::Result;
use crate::mutation::StackOutputs;
use crate::snapshot::{FactoryInfo, Snapshot};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The snapshot in memory.
pub trait Transient {
    /// A copy of it: what is done to the copy is not seen here. None before the first refresh or write, and after a
    /// refresh when there is nothing in the store.
    fn read(&self) -> Option<Snapshot>;

    /// Puts a snapshot in its place. Nothing is stored.
    fn write(&self, snapshot: Snapshot);
}

/// Reads from the store.
#[async_trait]
pub trait Refresher {
    /// Takes the latest persistent snapshot into memory. What it takes is a snapshot that existed, whatever others
    /// persist meanwhile.
    ///
    /// # Errors
    /// What kept it from being read: then the one in memory stays. That there is none is no error.
    async fn refresh(&self) -> Result<()>;
}

/// Writes to the store.
#[async_trait]
pub trait Persister {
    /// Makes the transient snapshot the persistent one, as a new revision. When nothing changed since it was last
    /// read or persisted, nothing is written.
    ///
    /// # Errors
    /// `Conflict` when somebody else persisted since then, or the snapshot is of another lineage: nothing was
    /// written, and what is in the store stays. After any error it can be called again.
    async fn persist(&self) -> Result<()>;
}

/// Reads a stack's outputs, and nothing else.
#[async_trait]
pub trait OutputReader {
    /// The outputs of the persistent snapshot.
    ///
    /// # Errors
    /// `NoCurrent` when there is none.
    async fn root_outputs(&self) -> Result<StackOutputs>;
}

/// Tells which persistent snapshot is known.
pub trait PersistentMeta {
    /// Of the snapshot that was last read by a refresh or written by a persist; none before, and while there is
    /// none in the store.
    fn snapshot_meta(&self) -> Option<SnapshotMeta>;
}

/// Seed 002's `Persistent`.
pub trait Persistent: Refresher + Persister + OutputReader {}

impl<T: Refresher + Persister + OutputReader + ?Sized> Persistent for T {}

/// Everything of it: a manager of a stack's snapshots.
pub trait Full: Transient + Persistent + PersistentMeta + Send + Sync {}

impl<T: Transient + Persistent + PersistentMeta + Send + Sync + ?Sized> Full for T {}

/// Which snapshot it is, without its content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SnapshotMeta {
    /// The identity of its stack, compared byte for byte. Empty in old documents of other tools.
    pub lineage: String,
    /// Counts the persistent snapshots of a lineage.
    pub serial: u64,
    /// The version of the program that made it; empty if it didn't say.
    pub version: String,
}

impl SnapshotMeta {
    /// How this snapshot relates to another one. The version doesn't count.
    ///
    /// ```
    /// use state_core::persistent::{Relation, SnapshotMeta};
    /// let meta = |lineage: &str, serial| SnapshotMeta { lineage: lineage.into(), serial, version: String::new() };
    /// assert_eq!(meta("a", 2).relation_to(&meta("a", 1)), Relation::Newer);
    /// assert_eq!(meta("", 2).relation_to(&meta("", 2)), Relation::Unrelated);
    /// ```
    pub fn relation_to(&self, other: &Self) -> Relation {
        if self.lineage.is_empty() || self.lineage != other.lineage {
            return Relation::Unrelated;
        }
        match self.serial.cmp(&other.serial) {
            std::cmp::Ordering::Greater => Relation::Newer,
            std::cmp::Ordering::Less => Relation::Older,
            std::cmp::Ordering::Equal => Relation::Equal,
        }
    }
}

impl fmt::Display for SnapshotMeta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "serial {} of lineage {}", self.serial, self.lineage)
    }
}

/// How one snapshot relates to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Relation {
    /// The same lineage, a higher serial.
    Newer,
    /// The same lineage, a lower serial.
    Older,
    /// The same lineage and serial.
    Equal,
    /// Different lineages, or none: their serials say nothing.
    Unrelated,
}

impl Snapshot {
    /// What counts when two snapshots are compared: entries, outputs and what a foreign system wants kept. Blank
    /// are lineage and serial, when it was made and by what, and what is pending.
    #[must_use]
    pub fn content(&self) -> Self {
        Self {
            entries: self.entries.clone(),
            outputs: self.outputs.clone(),
            sensitive_outputs: self.sensitive_outputs.clone(),
            extensions: self.extensions.clone(),
            unknown: self.unknown.clone(),
            ..Self::new(FactoryInfo::default(), "", Timestamp::new(""))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn meta() -> impl Strategy<Value = SnapshotMeta> {
        ("[ab]{0,1}", 0..4u64, "[0-9]").prop_map(|(lineage, serial, version)| SnapshotMeta {
            lineage,
            serial,
            version,
        })
    }

    proptest! {
        #[test]
        fn newer_and_older_are_each_others_reverse(left in meta(), right in meta()) {
            let reverse = match left.relation_to(&right) {
                Relation::Newer => Relation::Older,
                Relation::Older => Relation::Newer,
                same => same,
            };
            prop_assert_eq!(right.relation_to(&left), reverse);
        }

        #[test]
        fn snapshots_are_related_exactly_when_they_share_a_lineage_that_is_not_empty(left in meta(), right in meta()) {
            let related = left.relation_to(&right) != Relation::Unrelated;
            prop_assert_eq!(related, !left.lineage.is_empty() && left.lineage == right.lineage);
            if related {
                prop_assert_eq!(left.relation_to(&right) == Relation::Newer, left.serial > right.serial);
                prop_assert_eq!(left.relation_to(&right) == Relation::Equal, left.serial == right.serial);
            }
        }
    }
}
