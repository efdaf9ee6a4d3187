//! Names of the objects of one stack: the files beside its head and journal. All backends use the same names.

use crate::counter::{Serial, Slot};
use crate::digest::KeyId;
use crate::id::Lineage;
use std::fmt;

/// The kinds of objects that are written once and never changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ObjectKind {
    /// Full snapshots: checkpoints, imports, detached revisions.
    Snapshot,
    /// Pages of the history: metadata of revisions (update kind, result, times), derived from the journal.
    Update,
    /// Log output of the engine and the providers during an update.
    Log,
    /// Encrypted (wrapped) data keys.
    Key,
    /// A stack's outputs for recipients who may not read the rest of the stack. Outputs are stored in a separate
    /// folder, so that access rules of the store can grant access to this folder alone.
    Outputs,
}

impl ObjectKind {
    /// All kinds of objects.
    pub const ALL: [Self; 5] = [Self::Snapshot, Self::Update, Self::Log, Self::Key, Self::Outputs];

    /// Path, relative to the store's root, of the folder with a stack's objects of this kind.
    pub fn path(self, lineage: Lineage) -> String {
        match self {
            Self::Outputs => format!("{}/{lineage}", self.folder()),
            _ => format!("stacks/{lineage}/{}", self.folder()),
        }
    }

    /// The name of the folder with objects of this kind.
    pub const fn folder(self) -> &'static str {
        match self {
            Self::Snapshot => "snapshots",
            Self::Update => "updates",
            Self::Log => "logs",
            Self::Key => "keys",
            Self::Outputs => "outputs",
        }
    }
}

/// The name of one object within its stack. Names of one kind sort by slot or serial.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ObjectName {
    /// Stored in the file `snapshots/<slot:020>-<digest16>.json.zst`.
    Snapshot {
        /// Slot of the first frame that is not part of the snapshot.
        slot: Slot,
        /// First 16 hexadecimal digits of the snapshot's digest.
        short: String,
    },
    /// Stored in the file `updates/<serial:020>-<digest16>.page`.
    HistoryPage {
        /// Serial of the first revision on the page.
        first: Serial,
        /// First 16 hexadecimal digits of the page's digest.
        short: String,
    },
    /// Stored in the file `updates/<serial:020>-<digest16>.index`.
    HistoryIndex {
        /// Serial of the first revision on the first page of the index.
        first: Serial,
        /// First 16 hexadecimal digits of the index's digest.
        short: String,
    },
    /// Stored in the file `logs/<serial:020>.jsonl.zst`.
    Log(Serial),
    /// Stored in the file `keys/<number:020>-<key-id:32>.age`.
    Key {
        /// Sequence number of the stack's wrapped key files.
        number: u64,
        /// The id of the data key in the file.
        id: KeyId,
    },
    /// Stored in the file `outputs/<lineage>/<serial:020>.json`, relative to the store's root.
    Outputs(Serial),
}

impl ObjectName {
    /// The kind of the object.
    pub const fn kind(&self) -> ObjectKind {
        match self {
            Self::Snapshot { .. } => ObjectKind::Snapshot,
            Self::HistoryPage { .. } | Self::HistoryIndex { .. } => ObjectKind::Update,
            Self::Log(_) => ObjectKind::Log,
            Self::Key { .. } => ObjectKind::Key,
            Self::Outputs(_) => ObjectKind::Outputs,
        }
    }

    /// The file name within the folder of the kind.
    pub fn file_name(&self) -> String {
        match self {
            Self::Snapshot { slot, short } => format!("{:020}-{short}.json.zst", slot.get()),
            Self::HistoryPage { first, short } => format!("{:020}-{short}.page", first.get()),
            Self::HistoryIndex { first, short } => format!("{:020}-{short}.index", first.get()),
            Self::Log(serial) => format!("{:020}.jsonl.zst", serial.get()),
            Self::Key { number, id } => format!("{number:020}-{id}.age"),
            Self::Outputs(serial) => format!("{:020}.json", serial.get()),
        }
    }

    /// Parses a file name in the folder of a kind; `None` if the file is not an object of the stack.
    pub fn from_file_name(kind: ObjectKind, file: &str) -> Option<Self> {
        let (stem, extension) = file.split_once('.')?;
        let (number, short) = stem.split_once('-').unwrap_or((stem, ""));
        let number = number.parse().ok()?;
        let name = match (kind, extension) {
            (ObjectKind::Snapshot, "json.zst") if is_short_digest(short) => Self::Snapshot {
                slot: Slot(number),
                short: short.to_owned(),
            },
            (ObjectKind::Update, "page") if is_short_digest(short) => Self::HistoryPage {
                first: Serial(number),
                short: short.to_owned(),
            },
            (ObjectKind::Update, "index") if is_short_digest(short) => Self::HistoryIndex {
                first: Serial(number),
                short: short.to_owned(),
            },
            (ObjectKind::Log, "jsonl.zst") => Self::Log(Serial(number)),
            (ObjectKind::Key, "age") => Self::Key {
                number,
                id: short.parse().ok()?,
            },
            (ObjectKind::Outputs, "json") => Self::Outputs(Serial(number)),
            _ => return None,
        };
        // Another spelling of a name, such as `7.jsonl.zst` without leading zeros, isn't an object of the stack.
        (name.file_name() == file).then_some(name)
    }
}

/// Whether a text is the short form of a digest, as file names contain it.
fn is_short_digest(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind().folder(), self.file_name())
    }
}

#[cfg(test)]
mod tests {
    use super::{ObjectKind, ObjectName};
    use crate::counter::{Serial, Slot};
    use crate::digest::KeyId;

    #[test]
    fn object_names_survive_a_round_trip() {
        let short = "0123456789abcdef".to_owned();
        for name in [
            ObjectName::Snapshot {
                slot: Slot(u64::MAX),
                short: short.clone(),
            },
            ObjectName::HistoryPage {
                first: Serial(7),
                short: short.clone(),
            },
            ObjectName::HistoryIndex {
                first: Serial(7),
                short,
            },
            ObjectName::Log(Serial(7)),
            ObjectName::Key {
                number: 3,
                id: KeyId::from_bytes([7; 16]).unwrap(),
            },
            ObjectName::Outputs(Serial(7)),
        ] {
            let file = name.file_name();
            for kind in ObjectKind::ALL {
                let read = ObjectName::from_file_name(kind, &file);
                assert_eq!(
                    read,
                    (kind == name.kind()).then(|| name.clone()),
                    "{file} as {kind:?}"
                );
            }
        }
    }

    #[test]
    fn foreign_file_names_are_rejected() {
        for file in [
            "",
            "7.jsonl.zst",
            "00000000000000000007-.jsonl.zst",
            "00000000000000000007-0123456789abcdef.jsonl.zst",
            "+0000000000000000007.jsonl.zst",
            "7.json",
            "00000000000000000007-0123456789ABCDEF.page",
            "00000000000000000007-0123456789abcdef.json",
            "00000000000000000007-0123.json.zst",
            "00000000000000000007-0123456789ABCDEF.json.zst",
            ".tmp-7",
        ] {
            for kind in ObjectKind::ALL {
                assert_eq!(ObjectName::from_file_name(kind, file), None, "{file} as {kind:?}");
            }
        }
    }
}
