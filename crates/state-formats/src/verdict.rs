//! Whether an imported state may replace the one that a stack has: Terraform's rules, with one hole closed, and rules
//! for systems that count no serial.

use crate::error::Result;
use crate::format::{Imported, StateFormat};
use state_core::Snapshot;

/// The answer of [`Formats::check_import`](crate::Formats::check_import).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImportVerdict {
    /// It may.
    Accepted,
    /// Only if a person forces it.
    Refused(Refusal),
}

/// Why an import is refused. Shows as a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The new state has another lineage: it is about other objects.
    #[error(
        "the new state has lineage `{}`, the stack `{}`: they are about different objects",
        new.escape_debug(),
        existing.escape_debug()
    )]
    Unrelated {
        /// The lineage of the stack.
        existing: String,
        /// The lineage of the new state.
        new: String,
    },
    /// The new state has no lineage and would wipe out one that is known.
    #[error("the new state has no lineage, and the stack's `{}` would be lost", existing.escape_debug())]
    LineageLost {
        /// The lineage of the stack.
        existing: String,
    },
    /// The stack has entries and never was of the system that the new state is of.
    #[error("the stack has entries of its own and never was a state of this kind")]
    OtherSystem,
    /// The stack has a higher serial.
    #[error("the new state has serial {new}, the stack {existing}: newer changes would be lost")]
    Older {
        /// The serial of the stack.
        existing: u64,
        /// The serial of the new state.
        new: u64,
    },
    /// The stack changed since its last import, and the system of the new state counts no serial.
    #[error("the stack was changed here since its last import: these changes would be lost")]
    ChangedHere,
    /// The serials are equal, the states aren't.
    #[error("both have serial {serial}, but what they hold differs: one of them was changed elsewhere")]
    SameSerial {
        /// The serial of both.
        serial: u64,
    },
}

/// Why a stack that isn't empty doesn't take a state of a format, if so.
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

/// A state without lineage may follow another one without, but doesn't replace one that is known.
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

/// Whether nothing happened to a snapshot since it was imported.
pub(crate) fn is_untouched(snapshot: &Snapshot, system: &str) -> bool {
    let known = snapshot.foreign_serials.get(system);
    known.is_some_and(|known| snapshot.serial.is_none_or(|serial| serial <= known.at))
}
