//! May an imported state replace the one that a stack has? Terraform's rules, with one hole closed, and those of systems
//! that count no serial.

use crate::error::Result;
use crate::imported::Imported;
use crate::{PULUMI, UNOBIN, pulumi, terraform, unobin};
use state_core::{Serial, Snapshot};
use std::fmt;

/// The answer of [`check_import`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImportVerdict {
    /// It may.
    Accepted,
    /// Only if a person forces it.
    Refused(Refusal),
}

/// Why an import is refused. Shows as a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The new state has another lineage: it is about other objects.
    Unrelated {
        /// The lineage of the stack.
        existing: String,
        /// The lineage of the new state.
        new: String,
    },
    /// The new state has no lineage and would wipe out one that is known.
    LineageLost {
        /// The lineage of the stack.
        existing: String,
    },
    /// The stack has entries and never was of the system that the new state is of.
    OtherSystem,
    /// The stack has a higher serial.
    Older {
        /// The serial of the stack.
        existing: u64,
        /// The serial of the new state.
        new: u64,
    },
    /// The stack changed since its last import, and the system of the new state counts no serial.
    ChangedHere,
    /// The serials are equal, the states aren't.
    SameSerial {
        /// The serial of both.
        serial: u64,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unrelated { existing, new } => write!(
                f,
                "the new state has lineage `{}`, the stack `{}`: they are about different objects",
                new.escape_debug(),
                existing.escape_debug()
            ),
            Self::LineageLost { existing } => write!(
                f,
                "the new state has no lineage, and the stack's `{}` would be lost",
                existing.escape_debug()
            ),
            Self::OtherSystem => {
                f.write_str("the stack has entries of its own and never was a state of this kind")
            }
            Self::Older { existing, new } => write!(
                f,
                "the new state has serial {new}, the stack {existing}: newer changes would be lost"
            ),
            Self::ChangedHere => {
                f.write_str("the stack was changed here since its last import: these changes would be lost")
            }
            Self::SameSerial { serial } => write!(
                f,
                "both have serial {serial}, but what they hold differs: one of them was changed elsewhere"
            ),
        }
    }
}

/// What identifies a state, by its own system.
struct Meta {
    lineage: String,
    serial: u64,
}

/// Compares a state with the one that a stack has.
///
/// A stack without entries and outputs takes anything. Otherwise the lineages must agree, and the serial must be
/// higher, or equal with equal content. A state without lineage may follow another one without, but doesn't replace
/// a lineage that is known (Terraform lets it). Those of Pulumi and unobin have neither: there project and stack, or
/// factory and deployment, must agree, and the stack must be as it was imported. Whoever forces an import doesn't ask.
///
/// # Errors
/// [`Error`](crate::Error) when a snapshot's extension can't be read, or its content not be compared.
pub fn check_import(existing: Option<&Snapshot>, new: &Imported) -> Result<ImportVerdict> {
    let Some(existing) = existing.filter(|old| !old.entries.is_empty() || !old.outputs.is_empty()) else {
        return Ok(ImportVerdict::Accepted);
    };
    if let Some(meta) = &new.foreign
        && let Some(known) = uncounted(existing, meta.system)?
    {
        let refusal = refuse_uncounted(existing, meta.system, known, &meta.lineage);
        return Ok(refusal.map_or(ImportVerdict::Accepted, ImportVerdict::Refused));
    }
    let is_foreign = new.foreign.is_some();
    let (old_meta, new_meta) = match &new.foreign {
        Some(meta) => {
            let meta = Meta {
                lineage: meta.lineage.clone(),
                serial: meta.serial,
            };
            (foreign_meta(existing)?, meta)
        }
        None => (Some(own_meta(existing)), own_meta(&new.snapshot)),
    };
    let Some(old_meta) = old_meta else {
        return Ok(ImportVerdict::Refused(Refusal::OtherSystem));
    };
    let refusal = refuse(&old_meta, &new_meta, || {
        if is_foreign {
            terraform::same_state(existing, &new.snapshot)
        } else {
            Ok(existing.entries == new.snapshot.entries && existing.outputs == new.snapshot.outputs)
        }
    })?;
    Ok(refusal.map_or(ImportVerdict::Accepted, ImportVerdict::Refused))
}

/// What identifies the existing state in a system that counts no serial, if it is of that system; none for a system that
/// does.
fn uncounted(existing: &Snapshot, system: &str) -> Result<Option<Option<String>>> {
    match system {
        PULUMI => pulumi::identity_of(existing).map(Some),
        UNOBIN => unobin::identity_of(existing).map(Some),
        _ => Ok(None),
    }
}

fn refuse_uncounted(existing: &Snapshot, system: &str, known: Option<String>, new: &str) -> Option<Refusal> {
    let Some(known) = known else {
        return Some(Refusal::OtherSystem);
    };
    if known != new && !known.is_empty() {
        if new.is_empty() {
            return Some(Refusal::LineageLost { existing: known });
        }
        let new = new.to_owned();
        return Some(Refusal::Unrelated { existing: known, new });
    }
    (!is_untouched(existing, system)).then_some(Refusal::ChangedHere)
}

/// Whether nothing happened to a snapshot since it was imported.
pub(crate) fn is_untouched(snapshot: &Snapshot, system: &str) -> bool {
    let known = snapshot.foreign_serials.get(system);
    known.is_some_and(|known| snapshot.serial.is_none_or(|serial| serial <= known.at))
}

fn foreign_meta(snapshot: &Snapshot) -> Result<Option<Meta>> {
    let lineage = terraform::lineage_of(snapshot)?;
    let both = lineage.zip(terraform::serial_of(snapshot));
    Ok(both.map(|(lineage, serial)| Meta { lineage, serial }))
}

fn own_meta(snapshot: &Snapshot) -> Meta {
    Meta {
        lineage: snapshot
            .lineage
            .map(|lineage| lineage.to_string())
            .unwrap_or_default(),
        serial: snapshot.serial.unwrap_or(Serial::ZERO).get(),
    }
}

fn refuse(old: &Meta, new: &Meta, same: impl FnOnce() -> Result<bool>) -> Result<Option<Refusal>> {
    if old.lineage.is_empty() {
        return Ok(None);
    }
    let existing = old.lineage.clone();
    if new.lineage.is_empty() {
        return Ok(Some(Refusal::LineageLost { existing }));
    }
    if new.lineage != existing {
        let new = new.lineage.clone();
        return Ok(Some(Refusal::Unrelated { existing, new }));
    }
    if new.serial < old.serial {
        return Ok(Some(Refusal::Older {
            existing: old.serial,
            new: new.serial,
        }));
    }
    if new.serial > old.serial || same()? {
        return Ok(None);
    }
    Ok(Some(Refusal::SameSerial { serial: new.serial }))
}
