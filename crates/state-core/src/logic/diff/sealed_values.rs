//! Hides the values of a difference that are sealed in the store, whether or not a mark covers them: under the policy
//! `all`, every value is.

use super::change::{Change, Value};
use super::{EntryDiff, SnapshotDiff};
use crate::address::{Address, EntryKey};
use crate::entry::Entry;
use crate::json::{Json, View, child_pointer};
use crate::sealed::{key_of, key_of_text, occurs_in};
use crate::snapshot::Snapshot;
use std::collections::{BTreeSet, HashMap, HashSet};

impl SnapshotDiff {
    /// Also counts as secret what is sealed in one of these snapshots: the compared ones, as they were before their values
    /// were opened.
    ///
    /// ```
    /// use state_core::{FactoryInfo, Json, Snapshot, Timestamp, diff::diff, mask::Mask};
    ///
    /// let snapshot = |output: &str| -> Result<Snapshot, Box<dyn std::error::Error>> {
    ///     let mut snapshot = Snapshot::new(FactoryInfo::default(), "shop", Timestamp::new("2026-05-30T12:00:00Z"));
    ///     snapshot.outputs.insert("url".to_owned(), Json::parse(output)?);
    ///     Ok(snapshot)
    /// };
    /// let stored = snapshot(r#"{"$sealed":"v1:00112233aabbccdd:c2VhbGVk"}"#)?;
    /// let (old, new) = (snapshot(r#""one""#)?, snapshot(r#""two""#)?);
    /// let shown = diff(&old, &new).with_sealed(&old, &stored).masked(Mask::hide("***"));
    /// assert_eq!(shown.to_string(), "~ outputs\n    ~ url: (sensitive, changed)\n");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_sealed(mut self, old: &Snapshot, new: &Snapshot) -> Self {
        // Few entries of a large state change, so only their keys are built.
        let olds = self.changed.iter().map(|changed| {
            changed
                .from
                .as_ref()
                .map_or(&changed.entry.address, |from| &from.address)
        });
        let before = entries_at(old, &olds.collect());
        let news = self.changed.iter().map(|changed| &changed.entry.address);
        let after = entries_at(new, &news.collect());
        for changed in &mut self.changed {
            let pointers = entry_pointers(versions(changed, &before, &after));
            hide(&mut changed.changes, &pointers);
        }
        if self.outputs.is_empty() {
            return self;
        }
        let outputs = [old, new].into_iter().flat_map(|snapshot| &snapshot.outputs);
        let mut pointers = BTreeSet::new();
        for (name, value) in outputs {
            add_sealed(&mut pointers, child_pointer("", name), value);
        }
        hide(&mut self.outputs, &pointers);
        self
    }
}

/// Returns the entries of a snapshot at these addresses.
fn entries_at<'a>(snapshot: &'a Snapshot, addresses: &HashSet<&Address>) -> HashMap<EntryKey, &'a Entry> {
    let entries = snapshot.entries.iter();
    let chosen = entries.filter(|entry| addresses.contains(&entry.address));
    chosen.map(|entry| (entry.key(), &**entry)).collect()
}

/// Returns the two versions of a changed entry, as far as they exist.
fn versions<'a>(
    changed: &EntryDiff,
    before: &HashMap<EntryKey, &'a Entry>,
    after: &HashMap<EntryKey, &'a Entry>,
) -> impl Iterator<Item = &'a Entry> {
    let key = changed.entry.key();
    let old = before.get(changed.from.as_ref().unwrap_or(&key)).copied();
    old.into_iter().chain(after.get(&key).copied())
}

/// Returns the pointers to all sealed parts of an entry's versions.
fn entry_pointers<'a>(versions: impl Iterator<Item = &'a Entry>) -> BTreeSet<String> {
    let mut pointers = BTreeSet::new();
    for entry in versions {
        for (name, side) in [("/inputs", &entry.inputs), ("/outputs", &entry.outputs)] {
            if let Some(side) = side {
                add_sealed(&mut pointers, name.to_owned(), side.json());
            }
        }
        let mut texts = entry.id.iter().map(|id| ("/id", id));
        let mut errors = entry.init_errors.iter().map(|error| ("/init-errors", error));
        let sealed = |(_, text): &(&str, &String)| key_of_text(text).is_some();
        pointers.extend(texts.find(sealed).map(|(name, _)| name.to_owned()));
        pointers.extend(errors.find(sealed).map(|(name, _)| name.to_owned()));
    }
    pointers
}

/// Adds the pointers to the sealed values in a value at a pointer.
fn add_sealed(pointers: &mut BTreeSet<String>, at: String, value: &Json) {
    if !occurs_in(value.as_str()) {
        return;
    }
    let mut open: Vec<(String, View<'_>)> = vec![(at, value.view())];
    while let Some((pointer, view)) = open.pop() {
        if key_of(view).is_some() {
            pointers.insert(pointer);
            continue;
        }
        for (index, below) in view.elements().into_iter().flatten().enumerate() {
            open.push((format!("{pointer}/{index}"), below));
        }
        for (key, below) in view.members().into_iter().flatten() {
            open.push((child_pointer(&pointer, &key), below));
        }
    }
}

/// Makes each change secret that contains one of these locations, or lies in it.
fn hide(changes: &mut [Change], pointers: &BTreeSet<String>) {
    for change in changes {
        let at = &*change.pointer;
        let mut around = at.match_indices('/').map(|(end, _)| &at[..end]).chain([at]);
        let inside = format!("{at}/");
        let contains = || {
            let next = pointers.range(inside.clone()..).next();
            next.is_some_and(|next| next.starts_with(&inside))
        };
        if around.any(|outer| pointers.contains(outer)) || contains() {
            for side in [&mut change.old, &mut change.new] {
                *side = side.take().map(|value| Value::secret(value.revealed().clone()));
            }
        }
    }
}
