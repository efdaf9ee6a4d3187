//! The names in the tree, both ways, and its small documents.

use crate::options::Options;
use object_store::path::Path;
use serde::{Deserialize, Serialize};
use state_core::backend::{Holder, ObjectKind, ObjectName};
use state_core::head::Fold;
use state_core::journal::MAX_OVERHEAD;
use state_core::journal::MAX_PAYLOAD;
use state_core::{Enveloped, Epoch, Lineage, Nonce, Slot, StackName};
use std::time::Duration;

/// The version of the tree that this build reads and writes.
pub(crate) const LAYOUT: u64 = 1;

/// The largest head, name, lease, format or metadata that is read, in bytes.
pub(crate) const MAX_DOCUMENT: u64 = 1 << 20;

/// The largest object in bytes.
pub(crate) const MAX_OBJECT: u64 = 1 << 30;

/// The largest frame in bytes.
pub(crate) const MAX_FRAME: u64 = (MAX_PAYLOAD + MAX_OVERHEAD) as u64;

/// The longest lease that is believed, whatever a document says.
pub(crate) const LONGEST_LEASE: Duration = Duration::from_secs(60 * 60);

/// What stands in `format`. Fields of later layouts are ignored, so that their number can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Layout {
    pub(crate) layout: u64,
    /// What was found out when the store was tried, before it was made; none if it wasn't.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) proved: Option<Proved>,
}

/// What a store that was tried needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Proved {
    /// Its endpoint takes ETags only without their quotes.
    pub(crate) unquoted_etags: bool,
}

impl Enveloped for Layout {
    const KIND: &'static str = "format";
}

/// What stands in `meta.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Meta {
    pub(crate) lineage: Lineage,
}

impl Enveloped for Meta {
    const KIND: &'static str = "meta";
}

/// What stands in `lease.json`: who may write. It is never deleted, for it remembers the epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Lease {
    pub(crate) epoch: Epoch,
    /// One acquisition: with the number of renewals it makes these bytes unique.
    pub(crate) nonce: Nonce,
    pub(crate) holder: Holder,
    /// How long it holds without a renewal.
    pub(crate) milliseconds: u64,
    pub(crate) renewals: u64,
    pub(crate) released: bool,
}

impl Enveloped for Lease {
    const KIND: &'static str = "lease";
}

impl Lease {
    pub(crate) fn duration(&self) -> Duration {
        Duration::from_millis(self.milliseconds).min(LONGEST_LEASE)
    }
}

/// Where everything of a store stands.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    root: Path,
}

impl Tree {
    pub(crate) fn of(options: &Options) -> Self {
        Self {
            root: options.prefix.clone(),
        }
    }

    pub(crate) fn format(&self) -> Path {
        self.root.clone().join("format")
    }

    pub(crate) fn names(&self) -> Path {
        self.root.clone().join("names")
    }

    pub(crate) fn name(&self, name: &StackName) -> Path {
        let (project, stack) = name.folded();
        self.names().join(project).join(format!("{stack}.json"))
    }

    pub(crate) fn stack(&self, lineage: Lineage) -> Branch {
        Branch {
            root: self.root.clone().join("stacks").join(lineage.to_string()),
            store: self.root.clone(),
            lineage,
        }
    }
}

/// Where everything of a stack stands.
#[derive(Clone, Debug)]
pub(crate) struct Branch {
    root: Path,
    store: Path,
    lineage: Lineage,
}

impl Branch {
    pub(crate) fn meta(&self) -> Path {
        self.root.clone().join("meta.json")
    }

    pub(crate) fn head(&self) -> Path {
        self.root.clone().join("head.json")
    }

    pub(crate) fn lease(&self) -> Path {
        self.root.clone().join("lease.json")
    }

    pub(crate) fn clock(&self) -> Path {
        self.root.clone().join("clock.json")
    }

    pub(crate) fn journal(&self) -> Path {
        self.root.clone().join("journal")
    }

    pub(crate) fn slot(&self, slot: Slot) -> Path {
        self.in_journal(&JournalName::Slot(slot))
    }

    pub(crate) fn in_journal(&self, name: &JournalName) -> Path {
        self.journal().join(name.to_string())
    }

    pub(crate) fn folder(&self, kind: ObjectKind) -> Path {
        let path = kind.path(self.lineage);
        path.split('/')
            .fold(self.store.clone(), |folder, part| folder.join(part))
    }

    pub(crate) fn object(&self, name: &ObjectName) -> Path {
        self.folder(name.kind()).join(name.file_name())
    }
}

/// The name of an object in a journal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum JournalName {
    /// One frame.
    Slot(Slot),
    /// Many frames: first slot, the slot behind the last, the first digits of the digest.
    Fold(Slot, Slot, String),
}

impl JournalName {
    pub(crate) fn of_fold(fold: &Fold) -> Self {
        Self::Fold(fold.start, fold.end, fold.digest.short())
    }

    /// The slot behind the last one in it.
    pub(crate) const fn end(&self) -> Slot {
        match self {
            Self::Slot(slot) => slot.next(),
            Self::Fold(_, end, _) => *end,
        }
    }

    /// The name that a file stands for; none for a stranger.
    pub(crate) fn parse(file: &str) -> Option<Self> {
        let slot = |text: &str| text.parse().ok().map(Slot);
        let mut parts = file.splitn(3, '-');
        let first = slot(parts.next()?)?;
        let name = match (parts.next(), parts.next()) {
            (None, _) => Self::Slot(first),
            (Some(end), Some(short)) if short.len() == 16 => Self::Fold(first, slot(end)?, short.to_owned()),
            _ => return None,
        };
        (name.to_string() == file).then_some(name)
    }
}

impl std::fmt::Display for JournalName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Slot(slot) => write!(f, "{:020}", slot.get()),
            Self::Fold(start, end, short) => write!(f, "{:020}-{:020}-{short}", start.get(), end.get()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{JournalName, Slot};

    #[test]
    fn names_in_a_journal_read_back_and_strangers_do_not() {
        let fold = JournalName::Fold(Slot(3), Slot(1_003), "0123456789abcdef".to_owned());
        for name in [JournalName::Slot(Slot(u64::MAX)), fold] {
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
