//! Computes the changes that turn the state of a stack into an imported state.

use crate::comparison::{has_same_output_marks, is_same_entry};
use state_core::digest::{Digest, Digester};
use state_core::mutation::{EditChange, StackOutputs};
use state_core::sensitive::ADDED_MARKS;
use state_core::{Entry, EntryKey, SharedEntry, Snapshot, State};
use state_formats::{Formats, Imported, StateFormat};
use state_manager::compute;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The changes of one import.
pub(crate) struct Changes {
    pub(crate) entries: Vec<EditChange>,
    /// The new outputs; none if they are unchanged.
    pub(crate) outputs: Option<StackOutputs>,
}

impl Changes {
    /// The changes after which the stack exports exactly the imported state; none if changes of resources and outputs alone
    /// don't have that effect. `existing` is the state with all values opened.
    pub(crate) async fn between(
        formats: &Formats,
        state: &Arc<State>,
        existing: Snapshot,
        new: &mut Imported,
    ) -> state_core::Result<Option<Self>> {
        let Some(foreign) = &new.foreign else {
            return Ok(None);
        };
        let Ok(format) = formats.named(foreign.system) else {
            return Ok(None);
        };
        let name = format.name();
        let now = new.snapshot.generated_at.clone();
        let snapshot = crate::take(&mut new.snapshot, &now);
        let (formats, state) = (formats.clone(), Arc::clone(state));
        let computed = compute(move || {
            let changes = Self::reproducing(&formats, name, &state, existing, &snapshot);
            (changes, snapshot)
        });
        let (changes, snapshot) = computed.await?;
        new.snapshot = snapshot;
        Ok(changes)
    }

    fn reproducing(
        formats: &Formats,
        format: &str,
        state: &State,
        existing: Snapshot,
        new: &Snapshot,
    ) -> Option<Self> {
        let format = formats.named(format).ok()?;
        // The record of the marks that an import added to outputs belongs to the snapshot, which changes don't replace.
        if existing.extensions.get(ADDED_MARKS) != new.extensions.get(ADDED_MARKS) {
            return None;
        }
        let entries = entry_changes(&existing, new);
        // Changes may violate an order that the new list has, for example if an old resource now depends on a new one.
        state.edited(&entries).ok()?;
        let is_same_outputs = existing.outputs == new.outputs && has_same_output_marks(&existing, new);
        let outputs = (!is_same_outputs).then(|| StackOutputs {
            values: new.outputs.clone(),
            sensitive: new.sensitive_outputs.clone(),
        });
        let predicted = predicted(existing, new, &entries);
        let is_exact = digest(formats, &predicted, format)? == digest(formats, new, format)?;
        is_exact.then_some(Self { entries, outputs })
    }
}

/// The snapshot after the changes.
fn predicted(mut existing: Snapshot, new: &Snapshot, changes: &[EditChange]) -> Snapshot {
    let mut entries: Vec<SharedEntry> = Vec::with_capacity(new.entries.len());
    let mut put: HashMap<&EntryKey, &SharedEntry> = HashMap::new();
    let mut removed: HashSet<&EntryKey> = HashSet::new();
    let mut appended: Vec<&SharedEntry> = Vec::new();
    for change in changes {
        match change {
            EditChange::Put { target, entry } => drop(put.insert(target, entry)),
            EditChange::Remove(key) => drop(removed.insert(key)),
            EditChange::Append(entry) => appended.push(entry),
            _ => {}
        }
    }
    for entry in std::mem::take(&mut existing.entries) {
        let key = entry.key();
        if let Some(new) = put.get(&key) {
            entries.push(Arc::clone(new));
        } else if !removed.contains(&key) {
            entries.push(entry);
        }
    }
    entries.extend(appended.into_iter().cloned());
    existing.serial = existing.serial.map(|serial| serial.next());
    Snapshot {
        entries,
        outputs: new.outputs.clone(),
        sensitive_outputs: new.sensitive_outputs.clone(),
        ..existing
    }
}

/// The changes from the entries of one snapshot to those of another. New entries are appended in their topological order.
fn entry_changes(existing: &Snapshot, new: &Snapshot) -> Vec<EditChange> {
    let mut old: HashMap<EntryKey, &SharedEntry> = existing
        .entries
        .iter()
        .map(|entry| (entry.key(), entry))
        .collect();
    let mut changes = Vec::new();
    let mut appended = Vec::new();
    for entry in &new.entries {
        match old.remove(&entry.key()) {
            Some(old) if is_same_entry(old, entry) => {}
            Some(old) => changes.push(EditChange::Put {
                target: old.key(),
                entry: identified(old, entry),
            }),
            None => appended.push(EditChange::Append(Arc::clone(entry))),
        }
    }
    // In the order of the list, so that equal states give equal records.
    let left = existing.entries.iter().map(|entry| entry.key());
    let removed = left.filter(|key| old.contains_key(key)).map(EditChange::Remove);
    removed.chain(changes).chain(appended).collect()
}

/// The entry with the uid of the old entry if both describe the same object.
fn identified(old: &SharedEntry, new: &SharedEntry) -> SharedEntry {
    match new.uid.is_none() && old.id == new.id {
        true => Arc::new(Entry {
            uid: old.uid,
            ..Entry::clone(new)
        }),
        false => Arc::clone(new),
    }
}

/// Digest of an export; none if the snapshot can't be exported.
fn digest(formats: &Formats, snapshot: &Snapshot, format: &dyn StateFormat) -> Option<Digest> {
    let mut digester = Digester::default();
    formats
        .export_to(snapshot, format, &mut |piece| digester.add(piece))
        .ok()?;
    Some(digester.finish())
}
