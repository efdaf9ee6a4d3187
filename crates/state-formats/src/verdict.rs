//! Decides whether an imported state may replace the state of a stack. The rules are Terraform's, except that a state
//! without lineage can't replace one with a lineage, and extra rules cover systems without serials.

use crate::error::Result;
use crate::format::{Imported, StateFormat};
use state_core::Snapshot;

/// The result of [`Formats::check_import`](crate::Formats::check_import).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImportVerdict {
    /// The state may replace the existing one.
    Accepted,
    /// The state may replace the existing one only if the user forces the import.
    Refused(Refusal),
}

/// The reason why an import is refused; displays as a sentence for the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The new state has another lineage, so it describes other objects.
    #[error(
        "the new state has lineage `{}` but the stack has `{}`: they describe different objects",
        new.escape_debug(),
        existing.escape_debug()
    )]
    Unrelated {
        /// Lineage of the stack.
        existing: String,
        /// Lineage of the new state.
        new: String,
    },
    /// The new state has no lineage and would erase the lineage of the stack.
    #[error("the new state has no lineage: the stack would lose its lineage `{}`", existing.escape_debug())]
    LineageLost {
        /// Lineage of the stack.
        existing: String,
    },
    /// The stack has resources, and they weren't imported from the system of the new state.
    #[error("the stack has resources that weren't imported from a state of this format")]
    OtherSystem,
    /// The stack has a higher serial than the new state.
    #[error("the new state has serial {new} but the stack has {existing}: newer changes would be lost")]
    Older {
        /// Serial of the stack.
        existing: u64,
        /// Serial of the new state.
        new: u64,
    },
    /// The stack changed since its last import, and the system of the new state has no serials to compare.
    #[error("the stack has changed since its last import: these changes would be lost")]
    ChangedHere,
    /// The serials are equal, but the states differ.
    #[error(
        "the new state and the stack both have serial {serial} but differ in content: one was changed elsewhere"
    )]
    SameSerial {
        /// Serial of both states.
        serial: u64,
    },
}

/// The reason why a stack that isn't empty refuses a state of this format; None if it accepts the state.
pub(crate) fn refusal(
    format: &dyn StateFormat,
    existing: &Snapshot,
    new: &Imported,
) -> Result<Option<Refusal>> {
    let Some(known) = format.identity(existing)? else {
        return Ok(Some(Refusal::OtherSystem));
    };
    let own = match &new.foreign {
        Some(_) => None,
        None => format.identity(&new.snapshot)?,
    };
    let (lineage, serial) = match (&new.foreign, &own) {
        (Some(meta), _) => (&*meta.lineage, meta.serial),
        (None, Some(own)) => (&*own.lineage, own.serial.unwrap_or_default()),
        (None, None) => ("", 0),
    };
    if let Some(refusal) = refuse_lineage(&known.lineage, lineage) {
        return Ok(Some(refusal));
    }
    let Some(existing_serial) = known.serial else {
        return Ok((!is_untouched(existing, format.name())).then_some(Refusal::ChangedHere));
    };
    if known.lineage.is_empty() || serial > existing_serial {
        return Ok(None);
    }
    if serial < existing_serial {
        return Ok(Some(Refusal::Older {
            existing: existing_serial,
            new: serial,
        }));
    }
    let is_same = format.same_content(existing, &new.snapshot)?;
    Ok((!is_same).then_some(Refusal::SameSerial { serial }))
}

/// Refuses a different lineage. A state without lineage may replace only a state without lineage.
fn refuse_lineage(known: &str, new: &str) -> Option<Refusal> {
    if known.is_empty() || known == new {
        return None;
    }
    let existing = known.to_owned();
    Some(if new.is_empty() {
        Refusal::LineageLost { existing }
    } else {
        let new = new.to_owned();
        Refusal::Unrelated { existing, new }
    })
}

/// Whether a snapshot is unchanged since it was imported.
pub(crate) fn is_untouched(snapshot: &Snapshot, system: &str) -> bool {
    let known = snapshot.foreign_serials.get(system);
    known.is_some_and(|known| snapshot.serial.is_none_or(|serial| serial <= known.at))
}
