//! What a repair does, one thing at a time, in words.

use crate::address::{Address, Dependency, DeposedKey, EntryKey};
use crate::dag::round;
use crate::entry::ReferenceField;
use crate::id::MutationId;
use serde::Serialize;
use std::fmt;

/// One thing that a repair did. Names, never values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "step", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
#[non_exhaustive]
pub enum Step {
    /// An entry whose key was taken became deposed.
    Depose {
        /// Its key until then.
        entry: EntryKey,
        /// Its key now.
        key: DeposedKey,
    },
    /// An entry whose uid was taken has none any more.
    DropUid {
        /// The entry.
        entry: EntryKey,
        /// Whose uid it is.
        holder: EntryKey,
    },
    /// An external entry lost a mark.
    DropMark {
        /// The entry.
        entry: EntryKey,
        /// The mark.
        mark: &'static str,
    },
    /// A reference went.
    DropReference {
        /// The entry that referred.
        entry: EntryKey,
        /// The field.
        field: ReferenceField,
        /// What it named.
        to: Dependency,
        /// Why.
        reason: Reason,
    },
    /// An entry moved.
    Move {
        /// The entry.
        entry: EntryKey,
        /// Where to: just before this one, with others perhaps that move there too.
        before: EntryKey,
    },
    /// An entry names another incarnation of its provider.
    ChangeIncarnation {
        /// The entry.
        entry: EntryKey,
        /// The provider.
        provider: Address,
    },
    /// A pending operation got another id.
    RenameOperation {
        /// The id until then.
        from: MutationId,
        /// The id now.
        to: MutationId,
        /// What it is about.
        target: EntryKey,
    },
    /// The highest serial of a foreign system was raised to the imported one.
    RaiseSerial {
        /// The system.
        system: String,
    },
    /// A count of recorded entries was lowered to that of all entries.
    LowerRecorded,
}

/// Why a reference goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Reason {
    /// What it names does not exist.
    Missing,
    /// It closes this circle.
    Circle(Vec<EntryKey>),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Depose { entry, key } => {
                write!(
                    f,
                    "{entry}: make the later one deposed as {key}, for the key is taken"
                )
            }
            Self::DropUid { entry, holder } => {
                write!(f, "{entry}: drop its uid, which is the one of {holder}")
            }
            Self::DropMark { entry, mark } => {
                write!(f, "{entry}: drop the mark {mark}, for it is external")
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
                let circle = round(circle);
                write!(f, "{entry}: drop {field} {to}, which closes the circle {circle}")
            }
            Self::Move { entry, before } => write!(f, "{entry}: move before {before}, which needs it"),
            Self::ChangeIncarnation { entry, provider } => write!(
                f,
                "{entry}: name the incarnation of provider {provider} that is there"
            ),
            Self::RenameOperation { from, to, target } => write!(
                f,
                "{target}: call the later pending operation {to}, for {from} is taken"
            ),
            Self::RaiseSerial { system } => {
                write!(f, "raise the highest serial of {system} to the imported one")
            }
            Self::LowerRecorded => f.write_str("lower the count of recorded entries to that of all"),
        }
    }
}
