//! Random valid snapshots that start a lifecycle, and the objects that they describe.

use super::draw::{Random, resource};
use super::groups::regroup;
use crate::harness::Harness;
use crate::program::Spec;
use state_core::entry::Provider;
use state_core::mutation::EditChange;
use state_core::{Address, Dependency, DeposedKey, Entry, SharedEntry, Uid};
use std::collections::BTreeMap;

/// Populates the stack with random entries, each after its dependencies. Some entries are deposed (the object was
/// replaced and isn't deleted yet), tombstones (the object was deleted and its replacement isn't created yet), tainted
/// or protected. Some describe missing objects.
/// With `groups`, some entries are members of groups, and some depend on groups. Returns the number of references to
/// groups.
pub(super) async fn populate(
    harness: &Harness,
    random: &Random,
    groups: Option<&Random>,
    history: &mut Vec<String>,
) -> usize {
    let mut names = ["a", "b", "c", "d", "e", "f"];
    random.shuffle(&mut names);
    let mut specs: Vec<Spec> = Vec::new();
    let mut ids: BTreeMap<String, String> = BTreeMap::new();
    let mut entries = Vec::new();
    let mut count = 0_u8;
    for name in names {
        if random.one_in(3) {
            continue;
        }
        let spec = resource(random, name, &specs);
        let twins = if random.one_in(5) { random.below(3) } else { 0 };
        let (before, after) = (twins & 1 == 1, twins & 2 == 2);
        let mut add = |deposed: bool, id_of_live: &mut Option<String>| {
            count += 1;
            let mut entry = entry(harness, &spec, &ids);
            entry.uid = Some(Uid::from_bits([count; 16]));
            let containers = crate::cloud::ids(&entry.inputs.clone().unwrap_or_default(), "in");
            if containers
                .iter()
                .any(|id| !harness.cloud.things().contains_key(id))
            {
                // The container of the object is missing, so the object is missing too.
                harness.cloud.lose(entry.id.as_deref().unwrap_or_default());
            }
            if deposed {
                entry.deposed = Some(DeposedKey::new(format!("old{count}")).unwrap());
            } else {
                vary_live_entry(harness, random, &mut entry);
                id_of_live.clone_from(&entry.id);
            }
            entries.push(entry);
        };
        let mut id = None;
        if before {
            add(true, &mut id);
        }
        add(false, &mut id);
        if after {
            add(true, &mut id);
        }
        ids.extend(id.map(|id| (name.to_owned(), id)));
        specs.push(spec);
    }
    let references = groups.map_or(0, |groups| regroup(groups, &mut entries));
    describe("starts with", &entries, history);
    let appended = |entry| EditChange::Append(SharedEntry::new(entry));
    let changes: Vec<EditChange> = entries.into_iter().map(appended).collect();
    if !changes.is_empty() {
        harness.edit(changes).await;
    }
    references
}

/// Adds a line for each entry to the history that is printed if the lifecycle fails.
pub(super) fn describe(what: &str, entries: &[Entry], history: &mut Vec<String>) {
    for entry in entries {
        let refers: Vec<String> = entry
            .references()
            .map(|reference| format!("{} {}", reference.field, reference.to))
            .collect();
        let marks = [
            ("tainted", entry.tainted),
            ("tombstone", entry.pending_replacement),
            ("protect", entry.protect),
            ("retain", entry.retain_on_delete),
        ];
        let marks: Vec<&str> = marks.iter().filter(|mark| mark.1).map(|mark| mark.0).collect();
        history.push(format!(
            "{what} {} {:?} {:?} {marks:?} {refers:?} {:?}",
            entry.key(),
            entry.kind,
            entry.id,
            entry.group,
        ));
    }
}

/// Creates the object of a resource in the simulated cloud, and returns the entry that describes the object. `ids`
/// contains the ids of the objects that the resource may refer to.
fn entry(harness: &Harness, spec: &Spec, ids: &BTreeMap<String, String>) -> Entry {
    let address: Address = spec.name.parse().unwrap();
    let (inputs, _) = spec.inputs(|name| ids.get(name).cloned());
    let on = |names: &[String]| -> Vec<Dependency> {
        names
            .iter()
            .map(|name| Dependency::Entry(name.parse().unwrap()))
            .collect()
    };
    let one = |name: &Option<String>| -> Option<Address> { name.as_ref().map(|name| name.parse().unwrap()) };
    let mut entry = Entry::leaf(address.clone(), spec.kind());
    entry.id = Some(harness.cloud.put(spec.kind(), &address, &inputs, false));
    entry.inputs = Some(inputs);
    entry.depends_on = on(&spec.depends_on);
    for (input, names) in [("uses", &spec.uses), ("needs", &spec.needs)] {
        if !names.is_empty() {
            entry.depends_on.extend(on(names));
            entry.property_dependencies.insert(input.to_owned(), on(names));
        }
    }
    *entry.deleted_with = one(&spec.inside);
    if let Some(container) = &spec.inside {
        let on = on(std::slice::from_ref(container));
        entry.property_dependencies.insert("in".to_owned(), on);
    }
    entry.parent = one(&spec.parent);
    *entry.provider = one(&spec.provider).and_then(|address| {
        let id = ids.get(address.as_str())?.clone();
        Some(Provider {
            address,
            id: Some(id),
        })
    });
    *entry.replace_with = spec
        .replace_with
        .iter()
        .map(|name| name.parse().unwrap())
        .collect();
    entry.protect = spec.protect;
    entry.retain_on_delete = spec.retain;
    entry
}

/// Applies random conditions that only live entries can have.
fn vary_live_entry(harness: &Harness, random: &Random, entry: &mut Entry) {
    match random.below(10) {
        0 => entry.tainted = true,
        1 => {
            // A tombstone: the object is deleted, and not recreated yet.
            if let Some(id) = &entry.id {
                harness.cloud.lose(id);
            }
            entry.pending_replacement = true;
        }
        2 => {
            // The object was deleted outside of the engine.
            if let Some(id) = &entry.id {
                harness.cloud.lose(id);
            }
        }
        3 => entry.init_errors = vec!["the object doesn't answer".to_owned()],
        _ => {}
    }
}
