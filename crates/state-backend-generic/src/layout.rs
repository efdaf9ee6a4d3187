//! Formats and parses the keys of a store, and defines the small documents `meta.json` and `lease.json`.
//!
//! ```text
//! names/<project>/<stack>.json                       → lineage, or a tombstone     swapped
//! stacks/<lineage>/meta.json                         lineage                       created once
//! stacks/<lineage>/head.json                         base, epoch, name, …          swapped
//! stacks/<lineage>/lease.json                        lock: epoch, holder           swapped
//! stacks/<lineage>/journal/<slot:020>                one frame                     created once
//! stacks/<lineage>/journal/<slot:020>-<slot:020>-<digest16>   many frames          created once
//! stacks/<lineage>/snapshots/, keys/, updates/, logs/                              created once
//! outputs/<lineage>/<serial:020>.json                                              created once
//! ```

use serde::{Deserialize, Serialize};
use state_core::backend::{Holder, ObjectKind, ObjectName};
use state_core::head::Compaction;
use state_core::journal::{MAX_OVERHEAD, MAX_PAYLOAD};
use state_core::{Enveloped, Epoch, Lineage, Nonce, Slot, StackName};
use std::fmt;

/// The largest head, name pointer, lease or metadata document that is read, in bytes.
pub const MAX_DOCUMENT: u64 = 1 << 20;

/// The largest object that is read or written, in bytes.
pub const MAX_OBJECT: u64 = 1 << 30;

/// The largest frame that is read, in bytes.
pub const MAX_FRAME: u64 = (MAX_PAYLOAD + MAX_OVERHEAD) as u64;

/// The key prefix of all name pointers.
pub(crate) const NAMES: &str = "names";

/// Returns the key of the pointer of a stack name.
pub(crate) fn name_key(name: &StackName) -> String {
    let (project, stack) = name.folded();
    format!("{NAMES}/{project}/{stack}.json")
}

/// The content of `meta.json`, which marks the folder of a stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Meta {
    pub(crate) lineage: Lineage,
}

impl Enveloped for Meta {
    const KIND: &'static str = "meta";
}

/// The content of `lease.json`, which names the lock holder. It is never deleted, because it records the last epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Lease {
    /// The epoch of the lock holder.
    pub epoch: Epoch,
    /// The nonce of the acquisition. Together with the number of renewals it makes the bytes of every lease unique.
    pub nonce: Nonce,
    /// The identity of the lock holder.
    pub holder: Holder,
    /// The time in milliseconds for which the lease lasts without a renewal.
    pub milliseconds: u64,
    /// The number of renewals so far.
    pub renewals: u64,
    /// Whether the holder released the lock.
    pub released: bool,
}

impl Enveloped for Lease {
    const KIND: &'static str = "lease";

    fn validate(&self) -> Result<(), String> {
        self.epoch.require_valid()
    }
}

/// Builds the keys of one stack.
#[derive(Clone, Copy, Debug)]
pub struct StackPaths {
    lineage: Lineage,
}

impl StackPaths {
    /// Creates the key builder of a stack.
    pub const fn new(lineage: Lineage) -> Self {
        Self { lineage }
    }

    /// Returns the key of a file in the stack's folder.
    pub fn in_stack(&self, file: &str) -> String {
        format!("stacks/{}/{file}", self.lineage)
    }

    pub(crate) fn meta(&self) -> String {
        self.in_stack("meta.json")
    }

    pub(crate) fn head(&self) -> String {
        self.in_stack("head.json")
    }

    pub(crate) fn lease(&self) -> String {
        self.in_stack("lease.json")
    }

    /// Returns the folder of the journal.
    pub(crate) fn journal(&self) -> String {
        self.in_stack("journal")
    }

    /// Returns the key of the frame in a slot.
    pub(crate) fn slot(&self, slot: Slot) -> String {
        self.in_journal(&JournalName::Slot(slot))
    }

    /// Returns the key of a journal object.
    pub fn in_journal(&self, name: &JournalName) -> String {
        format!("{}/{name}", self.journal())
    }

    /// Returns the folder of the objects of one kind.
    pub(crate) fn folder(&self, kind: ObjectKind) -> String {
        kind.path(self.lineage)
    }

    /// Returns the key of an object.
    pub fn object(&self, name: &ObjectName) -> String {
        format!("{}/{}", self.folder(name.kind()), name.file_name())
    }
}

/// The name of a journal object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum JournalName {
    /// The frame in one slot.
    Slot(Slot),
    /// Compacted frames: the first slot, the slot after the last one, and the first digits of the digest.
    Compaction(Slot, Slot, String),
}

impl JournalName {
    /// Returns the name of the object that a compaction wrote.
    pub fn of_compaction(compaction: &Compaction) -> Self {
        Self::Compaction(compaction.start, compaction.end, compaction.digest.short())
    }

    /// Whether no reader needs this object any more when the history begins at this slot. A compaction in which the history
    /// begins is useless, because readers use one only from its beginning on, and holds frames that were deleted.
    pub(crate) const fn is_before(&self, floor: Slot) -> bool {
        match self {
            Self::Slot(slot) => slot.next().get() <= floor.get(),
            Self::Compaction(start, ..) => start.get() < floor.get(),
        }
    }

    /// Parses the name of a file; returns `None` for files that other programs placed there.
    pub(crate) fn parse(file: &str) -> Option<Self> {
        let slot = |text: &str| text.parse().ok().map(Slot);
        let mut parts = file.splitn(3, '-');
        let first = slot(parts.next()?)?;
        let name = match (parts.next(), parts.next()) {
            (None, _) => Self::Slot(first),
            (Some(end), Some(short)) if short.len() == 16 => {
                Self::Compaction(first, slot(end)?, short.to_owned())
            }
            _ => return None,
        };
        (name.to_string() == file).then_some(name)
    }
}

impl fmt::Display for JournalName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slot(slot) => write!(f, "{:020}", slot.get()),
            Self::Compaction(start, end, short) => write!(f, "{:020}-{:020}-{short}", start.get(), end.get()),
        }
    }
}
#[cfg(test)]
mod tests {
    use super::{JournalName, Slot};

    #[test]
    fn compaction_in_which_the_history_begins_is_not_needed() {
        let compaction = JournalName::Compaction(Slot(3), Slot(9), "0123456789abcdef".to_owned());
        let is_before = |floor| compaction.is_before(Slot(floor));
        assert_eq!([0, 3, 4, 9].map(is_before), [false, false, true, true]);
        let is_before = |floor| JournalName::Slot(Slot(3)).is_before(Slot(floor));
        assert_eq!([3, 4].map(is_before), [false, true]);
    }

    #[test]
    fn journal_names_round_trip_and_other_files_do_not_parse() {
        let compaction = JournalName::Compaction(Slot(3), Slot(1_003), "0123456789abcdef".to_owned());
        for name in [JournalName::Slot(Slot(u64::MAX)), compaction] {
            assert_eq!(JournalName::parse(&name.to_string()), Some(name));
        }
        for other in [
            "",
            "7",
            "+0000000000000000007",
            "00000000000000000007.tmp",
            "00000000000000000007-00000000000000000009",
            "00000000000000000007-00000000000000000009-short",
            "00000000000000000007-9-0123456789abcdef",
        ] {
            assert_eq!(JournalName::parse(other), None, "{other}");
        }
    }
}
