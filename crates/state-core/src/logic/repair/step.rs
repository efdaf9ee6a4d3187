//! The steps of a repair, with a description of each.

use crate::address::{Address, Dependency, DeposedKey, EntryKey};
use crate::dag::format_cycle;
use crate::entry::ReferenceField;
use crate::id::MutationId;
use serde::Serialize;
use std::fmt;

/// One step of a repair. Contains names but never property values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "step", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
#[non_exhaustive]
pub enum Step {
    /// An entry was dropped, because another entry records the same object under the same key.
    DropCopy {
        /// Key that the entries shared.
        entry: EntryKey,
    },
    /// An entry was dropped, because a person chose another entry with the same key. Its object is no longer managed.
    Forget {
        /// Key that the entries shared.
        entry: EntryKey,
    },
    /// An entry with a duplicate key became deposed.
    Depose {
        /// Key before the step.
        entry: EntryKey,
        /// Deposed key that the step assigned.
        key: DeposedKey,
    },
    /// The uid of an entry was cleared, because an earlier entry has the same uid.
    DropUid {
        /// Entry whose uid was cleared.
        entry: EntryKey,
        /// Entry that keeps the uid.
        holder: EntryKey,
    },
    /// A flag of an external entry was cleared.
    DropMark {
        /// Entry with the flag.
        entry: EntryKey,
        /// Name of the flag.
        mark: &'static str,
    },
    /// A reference was dropped.
    DropReference {
        /// Entry with the reference.
        entry: EntryKey,
        /// Field that contained the reference.
        field: ReferenceField,
        /// Target of the reference.
        to: Dependency,
        /// Reason for dropping the reference.
        reason: Reason,
    },
    /// An entry moved within the list.
    Move {
        /// Key of the entry that moved.
        entry: EntryKey,
        /// Entry before which it was placed. Other moved entries may come between the two.
        before: EntryKey,
    },
    /// The provider reference of an entry got the id of an earlier entry with the provider's address.
    ChangeIncarnation {
        /// Entry with the provider reference.
        entry: EntryKey,
        /// Address of the provider.
        provider: Address,
    },
    /// A pending operation got another id.
    RenameOperation {
        /// Id before the step.
        from: MutationId,
        /// New id of the operation.
        to: MutationId,
        /// Entry that the operation changes.
        target: EntryKey,
    },
    /// The highest serial of another system was raised to the imported one.
    RaiseSerial {
        /// Name of the other system.
        system: String,
    },
    /// The number of entries that the open update has recorded was lowered to the number of all entries.
    LowerRecorded,
}

/// The reason for dropping a reference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Reason {
    /// The target does not exist.
    Missing,
    /// The reference closes this cycle.
    Circle(Vec<EntryKey>),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DropCopy { entry } => {
                write!(f, "{entry}: occurs twice for the same object; drop one copy")
            }
            Self::Forget { entry } => {
                write!(
                    f,
                    "{entry}: occurs twice for different objects; forget the one that was not chosen"
                )
            }
            Self::Depose { entry, key } => {
                write!(f, "{entry}: occurs twice; depose the later resource as {key}")
            }
            Self::DropUid { entry, holder } => {
                write!(f, "{entry}: drop its uid, which belongs to {holder}")
            }
            Self::DropMark { entry, mark } => {
                write!(
                    f,
                    "{entry}: clear the flag {mark}, because the resource is external"
                )
            }
            Self::DropReference {
                entry,
                field,
                to,
                reason: Reason::Missing,
            } => write!(f, "{entry}: drop {field} {to}, which does not exist"),
            Self::DropReference {
                entry,
                field,
                to,
                reason: Reason::Circle(circle),
            } => {
                let circle = format_cycle(circle);
                write!(f, "{entry}: drop {field} {to}, which closes the cycle {circle}")
            }
            Self::Move { entry, before } => write!(f, "{entry}: move before {before}, which needs it"),
            Self::ChangeIncarnation { entry, provider } => {
                write!(f, "{entry}: refer to the existing id of provider {provider}")
            }
            Self::RenameOperation { from, to, target } => write!(
                f,
                "{target}: change the id of the later pending operation to {to}, because {from} is in use"
            ),
            Self::RaiseSerial { system } => {
                write!(f, "raise the highest serial of {system} to the imported one")
            }
            Self::LowerRecorded => {
                f.write_str("lower the number of recorded resources to the number of resources")
            }
        }
    }
}
