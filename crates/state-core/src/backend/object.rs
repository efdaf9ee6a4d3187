//! Names of the objects of one stack, both ways. The same on every backend.

use crate::counter::{Serial, Slot};
use crate::revision::RevisionId;
use std::fmt;

/// The kinds of objects that are created once and never rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ObjectKind {
    /// Full snapshots: checkpoints, imports, writes.
    Snapshot,
    /// What made each revision, derived from the journal.
    Update,
}

impl ObjectKind {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Snapshot, Self::Update];

    /// The folder that holds them.
    pub const fn folder(self) -> &'static str {
        match self {
            Self::Snapshot => "snapshots",
            Self::Update => "updates",
        }
    }
}

/// The name of one object inside its stack. Names of one kind sort by slot or serial.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ObjectName {
    /// `snapshots/<slot:020>-<digest16>.json.zst`
    Snapshot {
        /// All frames before this slot are in it.
        slot: Slot,
        /// First 16 hexadecimal digits of its digest.
        short: String,
    },
    /// `updates/<serial:020>-<rev16>.json`
    Update(RevisionId),
}

impl ObjectName {
    /// The kind of the object.
    pub const fn kind(&self) -> ObjectKind {
        match self {
            Self::Snapshot { .. } => ObjectKind::Snapshot,
            Self::Update(_) => ObjectKind::Update,
        }
    }

    /// The file name in the kind's folder.
    pub fn file_name(&self) -> String {
        match self {
            Self::Snapshot { slot, short } => format!("{:020}-{short}.json.zst", slot.get()),
            Self::Update(revision) => format!("{:020}-{}.json", revision.serial().get(), revision.short()),
        }
    }

    /// The name that a file in the kind's folder stands for; none for a stranger.
    pub fn from_file_name(kind: ObjectKind, file: &str) -> Option<Self> {
        let (stem, extension) = file.split_once('.')?;
        let (number, short) = stem.split_once('-')?;
        let name = match (kind, extension) {
            (ObjectKind::Snapshot, "json.zst") => Self::Snapshot {
                slot: Slot(number.parse().ok()?),
                short: short.to_owned(),
            },
            (ObjectKind::Update, "json") => {
                let serial = Serial(number.parse().ok()?);
                Self::Update(format!("{serial}-{short}").parse().ok()?)
            }
            _ => return None,
        };
        (short.len() == 16 && name.file_name() == file).then_some(name)
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind().folder(), self.file_name())
    }
}
