//! The keys of a store, both ways, and its small documents.
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

/// The largest head, name, lease or metadata that is read, in bytes.
pub const MAX_DOCUMENT: u64 = 1 << 20;

/// The largest object in bytes.
pub const MAX_OBJECT: u64 = 1 << 30;

/// The largest frame in bytes.
pub const MAX_FRAME: u64 = (MAX_PAYLOAD + MAX_OVERHEAD) as u64;

/// The folder of the name pointers.
pub(crate) const NAMES: &str = "names";

/// The key of a name's pointer.
pub(crate) fn name_key(name: &StackName) -> String {
    let (project, stack) = name.folded();
    format!("{NAMES}/{project}/{stack}.json")
}

/// The content of `meta.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Meta {
    pub(crate) lineage: Lineage,
}

impl Enveloped for Meta {
    const KIND: &'static str = "meta";
}

/// The content of `lease.json`: who may write. It is never deleted, because it remembers the epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Lease {
    /// The epoch of its holder.
    pub epoch: Epoch,
    /// One acquisition: with the number of renewals it makes these bytes unique.
    pub nonce: Nonce,
    /// Who holds it.
    pub holder: Holder,
    /// How long it lasts without a renewal.
    pub milliseconds: u64,
    /// How often it was renewed.
    pub renewals: u64,
    /// Whether it was given back.
    pub released: bool,
}

impl Enveloped for Lease {
    const KIND: &'static str = "lease";
}

/// The keys of one stack.
#[derive(Clone, Copy, Debug)]
pub struct StackPaths {
    lineage: Lineage,
}

impl StackPaths {
    /// The keys of a stack.
    pub const fn new(lineage: Lineage) -> Self {
        Self { lineage }
    }

    /// A key in the stack's folder.
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

    /// The folder of the journal.
    pub(crate) fn journal(&self) -> String {
        self.in_stack("journal")
    }

    /// The key of one frame.
    pub(crate) fn slot(&self, slot: Slot) -> String {
        self.in_journal(&JournalName::Slot(slot))
    }

    /// A key in the journal.
    pub fn in_journal(&self, name: &JournalName) -> String {
        format!("{}/{name}", self.journal())
    }

    /// The folder of the objects of one kind.
    pub(crate) fn folder(&self, kind: ObjectKind) -> String {
        kind.path(self.lineage)
    }

    /// The key of an object.
    pub fn object(&self, name: &ObjectName) -> String {
        format!("{}/{}", self.folder(name.kind()), name.file_name())
    }
}

/// The name of an object in a journal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum JournalName {
    /// One frame.
    Slot(Slot),
    /// Many frames: first slot, the slot behind the last, the first digits of the digest.
    Compaction(Slot, Slot, String),
}

impl JournalName {
    /// The name of a fold.
    pub fn of_compaction(compaction: &Compaction) -> Self {
        Self::Compaction(compaction.start, compaction.end, compaction.digest.short())
    }

    /// The slot behind the last one in it.
    pub(crate) const fn end(&self) -> Slot {
        match self {
            Self::Slot(slot) => slot.next(),
            Self::Compaction(_, end, _) => *end,
        }
    }

    /// The name that a file stands for; none for a file of somebody else.
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
    fn names_in_a_journal_read_back_and_strangers_do_not() {
        let compaction = JournalName::Compaction(Slot(3), Slot(1_003), "0123456789abcdef".to_owned());
        for name in [JournalName::Slot(Slot(u64::MAX)), compaction] {
            assert_eq!(JournalName::parse(&name.to_string()), Some(name));
        }
        for stranger in [
            "",
            "7",
            "+0000000000000000007",
            "00000000000000000007.tmp",
            "00000000000000000007-00000000000000000009",
            "00000000000000000007-00000000000000000009-short",
            "00000000000000000007-9-0123456789abcdef",
        ] {
            assert_eq!(JournalName::parse(stranger), None, "{stranger}");
        }
    }
}
