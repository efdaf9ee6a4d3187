//! Shows what an edit of the state changes: the resources, and the names of their changed fields.

use crate::context::Context;
use crate::marks::count;
use crate::render::Page;
use serde::Serialize;
use state_core::{Entry, EntryKey, Json, SharedEntry, Uid, codec};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How many resources a preview names.
const NAMED: usize = 100;

/// Fields whose values may be shown, because they are names or marks and never secrets.
const SHOWN: [&str; 11] = [
    "deleted-with",
    "depends-on",
    "external",
    "group",
    "parent",
    "pending-replacement",
    "property-dependencies",
    "protect",
    "replace-with",
    "retain-on-delete",
    "tainted",
];

/// The change of one resource.
#[derive(Debug, Serialize)]
#[serde(tag = "change", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub(super) enum EntryChange {
    Removed {
        entry: String,
    },
    Added {
        entry: String,
    },
    Changed {
        entry: String,
        /// The previous address, if the resource was moved.
        #[serde(skip_serializing_if = "Option::is_none")]
        moved_from: Option<String>,
        fields: Vec<FieldChange>,
    },
}

/// The change of a field. Has values only for fields that can't hold secrets.
#[derive(Debug, Serialize)]
pub(super) struct FieldChange {
    field: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    old: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    new: Option<Json>,
}

/// The differences: removed resources in the old order, then the others in the new order. Resources with the same uid but
/// different addresses count as moved, not as removed and added.
pub(super) fn changes<'a>(
    before: impl Iterator<Item = &'a SharedEntry>,
    after: impl Iterator<Item = &'a SharedEntry>,
) -> Vec<EntryChange> {
    let before: Vec<&SharedEntry> = before.collect();
    let by_uid: BTreeMap<Uid, &SharedEntry> = before.iter().filter_map(|e| Some((e.uid?, *e))).collect();
    let by_key: BTreeMap<EntryKey, &SharedEntry> = before.iter().map(|e| (e.key(), *e)).collect();
    let mut kept: BTreeSet<EntryKey> = BTreeSet::new();
    let mut later = Vec::new();
    for new in after {
        let same = new.uid.and_then(|uid| by_uid.get(&uid));
        let old = same.or_else(|| by_key.get(&new.key()).filter(|_| new.uid.is_none()));
        let Some(old) = old else {
            later.push(EntryChange::Added {
                entry: new.key().to_string(),
            });
            continue;
        };
        kept.insert(old.key());
        if !Arc::ptr_eq(old, new) && old != &new {
            later.push(changed(old, new));
        }
    }
    let gone = before.iter().filter(|old| !kept.contains(&old.key()));
    let removed = gone.map(|old| EntryChange::Removed {
        entry: old.key().to_string(),
    });
    removed.chain(later).collect()
}

fn changed(old: &Entry, new: &Entry) -> EntryChange {
    let moved = old.key() != new.key();
    EntryChange::Changed {
        entry: new.key().to_string(),
        moved_from: moved.then(|| old.key().to_string()),
        fields: fields(old, new),
    }
}

fn fields(old: &Entry, new: &Entry) -> Vec<FieldChange> {
    let members = |entry: &Entry| -> BTreeMap<String, Json> {
        let json = Json::parse(&codec::entry_text(entry)).unwrap_or_else(|_| Json::null());
        let members = json.view().members().into_iter().flatten();
        members
            .map(|(name, value)| (name.into_owned(), Json::from_view(value)))
            .collect()
    };
    let (old, new) = (members(old), members(new));
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let differing = names
        .into_iter()
        .filter(|name| old.get(*name) != new.get(*name) && !["address", "deposed"].contains(&name.as_str()));
    let change = |name: &String| {
        let shown = SHOWN.contains(&name.as_str());
        FieldChange {
            field: name.clone(),
            old: old.get(name).filter(|_| shown).cloned(),
            new: new.get(name).filter(|_| shown).cloned(),
        }
    };
    differing.map(change).collect()
}

/// Shows the changes on stderr before the confirmation. Prints nothing with `--json`, where the result contains them.
pub(super) fn show(context: &Context, changes: &[EntryChange]) {
    context.output.announce(|page| {
        for change in changes.iter().take(NAMED) {
            print(page, change);
        }
        if changes.len() > NAMED {
            page.line(format_args!("  … and {} more", changes.len() - NAMED));
        }
        page.line(format_args!("{}; no real resource is changed", summary(changes)));
    });
}

fn print(page: &mut Page, change: &EntryChange) {
    match change {
        EntryChange::Removed { entry } => page.line(format_args!("  - {entry}")),
        EntryChange::Added { entry } => page.line(format_args!("  + {entry}")),
        EntryChange::Changed {
            entry,
            moved_from,
            fields,
        } => {
            match moved_from {
                Some(from) => page.line(format_args!("  {from} -> {entry}")),
                None => page.line(format_args!("  ~ {entry}")),
            }
            for FieldChange { field, old, new } in fields {
                let text = |value: &Option<Json>| value.as_ref().map_or("none", Json::as_str).to_owned();
                if old.is_none() && new.is_none() {
                    page.line(format_args!("      {field}"));
                } else {
                    page.line(format_args!("      {field}: {} -> {}", text(old), text(new)));
                }
            }
        }
    }
}

/// The number of removed, added, moved and changed resources.
pub(super) fn summary(changes: &[EntryChange]) -> String {
    let (mut removed, mut added, mut moved, mut changed) = (0, 0, 0, 0);
    for change in changes {
        match change {
            EntryChange::Removed { .. } => removed += 1,
            EntryChange::Added { .. } => added += 1,
            EntryChange::Changed {
                moved_from: Some(_), ..
            } => moved += 1,
            EntryChange::Changed { .. } => changed += 1,
        }
    }
    let parts: Vec<String> = [
        (removed, "removed"),
        (added, "added"),
        (moved, "moved"),
        (changed, "changed"),
    ]
    .into_iter()
    .filter(|(number, _)| *number > 0)
    .map(|(number, what)| format!("{} {what}", count(number, "resource", "resources")))
    .collect();
    if parts.is_empty() {
        return "no resource changed".to_owned();
    }
    parts.join(", ")
}
