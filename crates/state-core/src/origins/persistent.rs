//! The contract of Terraform's state manager: a transient snapshot in memory and a persistent one in the store.
//!
//! The *transient* snapshot belongs to one program; the *persistent* one is shared. [`Refresher::refresh`] reads the
//! persistent snapshot into memory. [`Persister::persist`] writes the transient snapshot to the store. Persisting
//! fails if another program has persisted since this program's last refresh or persist, so that no changes are lost.
//! [`Full`] combines all of these traits.

use crate::environment::Timestamp;
use crate::error::Result;
use crate::mutation::StackOutputs;
use crate::snapshot::{FactoryInfo, Snapshot};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Access to the snapshot in memory.
pub trait Transient {
    /// Returns a copy of the snapshot. `None` before the first refresh or write, and after a refresh if the store has
    /// no snapshot.
    fn read(&self) -> Option<Snapshot>;

    /// Replaces the snapshot in memory. Nothing is stored.
    fn write(&self, snapshot: Snapshot);
}

/// Reads the persistent snapshot from the store.
#[async_trait]
pub trait Refresher {
    /// Reads the latest persistent snapshot into memory. The result is always a complete snapshot, even if others
    /// persist at the same time.
    ///
    /// # Errors
    /// The error that prevented reading; the snapshot in memory stays unchanged. A missing persistent snapshot is not
    /// an error.
    async fn refresh(&self) -> Result<()>;
}

/// Writes the transient snapshot to the store.
#[async_trait]
pub trait Persister {
    /// Stores the transient snapshot as a new revision. Writes nothing if the snapshot hasn't changed since the last
    /// refresh or persist.
    ///
    /// # Errors
    /// `Conflict` if another program has persisted since that refresh or persist, or if the snapshot has another
    /// lineage; nothing was written in either case. The call may be repeated after any error.
    async fn persist(&self) -> Result<()>;
}

/// Reads a stack's outputs without the rest of its state.
#[async_trait]
pub trait OutputReader {
    /// Returns the outputs of the persistent snapshot.
    ///
    /// # Errors
    /// `NoCurrent` if there is no persistent snapshot.
    async fn root_outputs(&self) -> Result<StackOutputs>;
}

/// Metadata of the last known persistent snapshot.
pub trait PersistentMeta {
    /// Metadata of the snapshot that was last refreshed or persisted; `None` before the first refresh or persist, and
    /// while the store has no snapshot.
    fn snapshot_meta(&self) -> Option<SnapshotMeta>;
}

/// All traits of the persistent snapshot: reading it into memory, storing a new one, and reading its outputs.
pub trait Persistent: Refresher + Persister + OutputReader {}

impl<T: Refresher + Persister + OutputReader + ?Sized> Persistent for T {}

/// All traits together: a manager of a stack's snapshots.
pub trait Full: Transient + Persistent + PersistentMeta + Send + Sync {}

impl<T: Transient + Persistent + PersistentMeta + Send + Sync + ?Sized> Full for T {}

/// Identifies a snapshot without its content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SnapshotMeta {
    /// Lineage of the stack. Empty in old documents of other tools.
    pub lineage: String,
    /// Number of the persistent snapshot within its lineage.
    pub serial: u64,
    /// Version of the program that wrote the snapshot; empty if unknown.
    pub version: String,
}

impl SnapshotMeta {
    /// Compares this snapshot with another one by lineage and serial. The version is ignored.
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

/// The relation of one snapshot to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Relation {
    /// Same lineage, higher serial.
    Newer,
    /// Same lineage, lower serial.
    Older,
    /// Same lineage, same serial.
    Equal,
    /// Different or empty lineages: the serials can't be compared.
    Unrelated,
}

impl Snapshot {
    /// Returns a copy for the comparison of snapshots, with entries, outputs and fields of other tools, but without
    /// lineage, serial, times, manifest and pending operations.
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
    use crate::testkit::run::property_config;
    use proptest::prelude::*;

    fn meta() -> impl Strategy<Value = SnapshotMeta> {
        ("[ab]{0,1}", 0..4u64, "[0-9]").prop_map(|(lineage, serial, version)| SnapshotMeta {
            lineage,
            serial,
            version,
        })
    }

    proptest! {
        #![proptest_config(property_config())]

        #[test]
        fn newer_and_older_are_symmetric(left in meta(), right in meta()) {
            let reverse = match left.relation_to(&right) {
                Relation::Newer => Relation::Older,
                Relation::Older => Relation::Newer,
                same => same,
            };
            prop_assert_eq!(right.relation_to(&left), reverse);
        }

        #[test]
        fn snapshots_are_related_only_by_nonempty_lineage(left in meta(), right in meta()) {
            let related = left.relation_to(&right) != Relation::Unrelated;
            prop_assert_eq!(related, !left.lineage.is_empty() && left.lineage == right.lineage);
            if related {
                prop_assert_eq!(left.relation_to(&right) == Relation::Newer, left.serial > right.serial);
                prop_assert_eq!(left.relation_to(&right) == Relation::Equal, left.serial == right.serial);
            }
        }
    }
}
