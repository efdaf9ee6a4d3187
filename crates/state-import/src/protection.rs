//! Keeps the protection of resources against deletion, which the formats of some systems can't express.

use state_core::{EntryKey, Snapshot};
use state_formats::{Formats, Imported};
use std::collections::BTreeSet;
use std::sync::Arc;

/// How many resources a note names.
const NAMED: usize = 5;

/// Protects the resources that are protected in the stack, if the format of the new state can't express protection. Adds a
/// note about protected resources that are missing in the new state.
pub(crate) fn keep_protection(formats: &Formats, existing: &Snapshot, new: &mut Imported) {
    let foreign = new.foreign.as_ref();
    let format = foreign.and_then(|foreign| formats.named(foreign.system).ok());
    if format.is_none_or(|format| format.expresses_protection()) {
        return;
    }
    let protected = existing.entries.iter().filter(|entry| entry.protect);
    let mut missing: BTreeSet<EntryKey> = protected.map(|entry| entry.key()).collect();
    for entry in &mut new.snapshot.entries {
        if !missing.is_empty() && missing.remove(&entry.key()) {
            Arc::make_mut(entry).protect = true;
        }
    }
    if missing.is_empty() {
        return;
    }
    let them = if missing.len() == 1 { "it" } else { "them" };
    let mut named: Vec<String> = missing.iter().take(NAMED).map(EntryKey::to_string).collect();
    if missing.len() > NAMED {
        named.push(format!("and {} more", missing.len() - NAMED));
    }
    let named = named.join(", ");
    new.notes.push(format!(
        "no longer protected, because the file doesn't contain {them}: {named}"
    ));
}
