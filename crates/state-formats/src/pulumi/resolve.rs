//! The steps of an import that need all resources: unique deposed keys, missing providers of resources that await
//! replacement, and the outputs of the stack.

use super::facts::{EXTENSION, EntryFacts, KeptField};
use super::{field, urn};
use crate::error::Result;
use state_core::json::{Json, ObjectWriter, Properties};
use state_core::{DeposedKey, Entry, EntryKey, SharedEntry, Snapshot};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// Makes the deposed keys unique, and moves references to missing providers into the extension.
pub(super) fn resolve(snapshot: &mut Snapshot) -> Result<()> {
    // Number of deposed entries so far with the same URN and id.
    let mut taken: HashMap<EntryKey, usize> = HashMap::new();
    let mut seen = HashSet::new();
    for entry in &mut snapshot.entries {
        if entry.deposed.is_some() {
            // Only an entry whose URN and id occurred before gets a number. The keys of other entries depend only
            // on their ids, so a key stays the same when entries with other ids are added or removed.
            let count = taken.entry(entry.key()).or_default();
            *count += 1;
            if let (2.., Some(first)) = (*count, &entry.deposed) {
                let key = DeposedKey::new(format!("{first}-{count}"))?;
                Arc::make_mut(entry).deposed = Some(key);
            }
        }
        let is_external = entry.external && awaits_replacement(entry)?;
        let provider = entry.provider.as_ref();
        let is_unmet = provider.is_some_and(|provider| is_external || !seen.contains(&provider.address));
        if is_unmet && (is_external || entry.pending_replacement) {
            forget_provider(entry)?;
        }
        seen.insert(entry.address.clone());
    }
    Ok(())
}

/// Whether an external resource awaits replacement. Only the extension of the resource records this, because the model
/// doesn't allow the flag for external resources.
fn awaits_replacement(entry: &Entry) -> Result<bool> {
    let known: EntryFacts = EXTENSION.of_entry(entry)?.unwrap_or_default();
    let mark = known
        .kept
        .get("pendingReplacement")
        .and_then(|kept| kept.was.as_ref());
    Ok(mark.is_some_and(|mark| mark.as_str() == "true"))
}

/// Moves the provider reference of an entry into its extension. Pulumi allows a resource that awaits replacement to
/// name a missing provider, which our integrity rules would refuse.
fn forget_provider(entry: &mut SharedEntry) -> Result<()> {
    let mut known: EntryFacts = EXTENSION.of_entry(entry)?.unwrap_or_default();
    let was = field::value(entry, &known, "provider");
    known
        .kept
        .insert("provider".to_owned(), KeptField { was, ours: None });
    let entry = Arc::make_mut(entry);
    entry.provider = None.into();
    EXTENSION.store_in_entry(entry, &known)
}

/// The position of the root stack resource; None if there is none or several.
pub(super) fn root(entries: &[SharedEntry]) -> Option<usize> {
    let is_root = |entry: &SharedEntry| entry.is_live() && entry.kind.as_deref() == Some(urn::ROOT_TYPE);
    let first = entries.iter().position(is_root)?;
    (!entries[first + 1..].iter().any(is_root)).then_some(first)
}

/// Moves the outputs of the root resource to the snapshot. Returns whether it had any.
pub(super) fn move_outputs_to_stack(snapshot: &mut Snapshot) -> bool {
    let Some(root) = root(&snapshot.entries) else {
        return false;
    };
    let root = Arc::make_mut(&mut snapshot.entries[root]);
    let Some(outputs) = root.outputs.take() else {
        return false;
    };
    for (name, value) in outputs.view().members().into_iter().flatten() {
        snapshot.outputs.insert(name.into_owned(), Json::from_view(value));
    }
    snapshot.sensitive_outputs = std::mem::take(&mut root.sensitive_outputs);
    true
}

/// The outputs of the snapshot as properties of the root resource.
pub(super) fn root_outputs(snapshot: &Snapshot) -> Properties {
    let mut text = String::new();
    let mut object = ObjectWriter::new(&mut text);
    for (name, value) in &snapshot.outputs {
        object.raw(name, value.as_str());
    }
    object.finish();
    Properties::new(Json::from_canonical(&text)).unwrap_or_default()
}

/// Remarks about the entries for the user.
pub(super) fn notes(snapshot: &Snapshot) -> Vec<String> {
    let stacks: BTreeSet<_> = snapshot
        .entries
        .iter()
        .filter_map(|entry| urn::identity(entry.address.as_str()))
        .collect();
    if stacks.len() < 2 {
        return Vec::new();
    }
    let names: Vec<_> = stacks.iter().take(5).map(String::as_str).collect();
    vec![format!(
        "its URNs name {} stacks: {}; Pulumi imports a state only if all its URNs name the target stack",
        stacks.len(),
        names.join(", ")
    )]
}
