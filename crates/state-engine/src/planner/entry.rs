//! Builds the entries that steps record, from goals and from the objects that providers return.

use crate::goal::Goal;
use crate::kind::{members, properties_of};
use crate::provider::Object;
use state_core::entry::Provider;
use state_core::json::View;
use state_core::sensitive::{SecretStrings, kept_inputs};
use state_core::{Address, Dependency, Entry, EntryType, Properties, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// Builds the entry for a goal. `stays` is the recorded entry if the resource continues to use its object, and `None`
/// for a new object.
pub(crate) fn goal_entry(goal: &Goal, stays: Option<&Entry>, provider: Option<Provider>) -> Entry {
    let options = &goal.options;
    let mut entry = match stays {
        Some(old) => old.clone(),
        None => Entry::leaf(goal.address.clone(), &goal.kind),
    };
    entry.entry_type = EntryType::Leaf;
    entry.kind = Some(goal.kind.clone());
    entry.inputs = Some(goal.inputs.clone());
    entry.sensitive_inputs.clone_from(&goal.sensitive_inputs);
    // `sensitive_inputs` and `sensitive_outputs` mark secret values by name or JSON pointer. Marks that a user added to
    // the recorded entry stay, although the program doesn't declare them.
    let kept = kept_inputs(&entry, goal.inputs.view());
    add_marks(&mut entry.sensitive_inputs, &kept);
    // Marks of outputs are only added: the provider also reports secret outputs, which the goal doesn't repeat.
    add_marks(&mut entry.sensitive_outputs, &goal.sensitive_outputs);
    entry.depends_on = goal.recorded_dependencies();
    entry.property_dependencies = property_dependencies(&options.property_dependencies).into();
    entry.parent.clone_from(&options.parent);
    entry.provider = provider.into();
    entry.deleted_with = options.deleted_with.clone().into();
    entry.replace_with = options.replace_with.clone().into();
    entry.protect = options.protect;
    entry.external = options.read.is_some();
    entry.retain_on_delete = options.retain_on_delete;
    entry.pending_replacement = false;
    entry.tainted = false;
    entry.init_errors.clear();
    entry
}

/// Returns the entry with the id and outputs of its object, and with updated timestamps.
pub(crate) fn applied(mut entry: Entry, object: &Object, now: Timestamp) -> Entry {
    set_object(&mut entry, object);
    entry.created.get_or_insert_with(|| now.clone());
    entry.modified = Some(now);
    entry
}

/// Copies id and outputs of an object into the entry. An output string that contains a secret of the entry is marked as
/// secret too: a connection string, for example, contains its password. A string that equals a secret needs no mark:
/// the manager encrypts equal strings when it records the entry.
pub(super) fn set_object(entry: &mut Entry, object: &Object) {
    entry.id = Some(object.id.clone());
    entry.outputs = Some(object.outputs.clone());
    add_marks(&mut entry.sensitive_outputs, &object.sensitive_outputs);
    let secrets = SecretStrings::of_entry(entry);
    if !secrets.is_empty() {
        let is_more = |text: &str| secrets.occur_in(text) && !secrets.contains(text);
        let marks = repeating(object.outputs.view(), is_more);
        add_marks(&mut entry.sensitive_outputs, &marks);
    }
}

/// Returns the entry with the values that a read of its object found. `modified` stays unchanged because the engine
/// didn't modify the object.
pub(crate) fn as_found(old: &Entry, object: &Object) -> Entry {
    let mut entry = old.clone();
    set_object(&mut entry, object);
    if let Some(inputs) = &object.inputs {
        entry.inputs = Some(inputs.clone());
    }
    entry
}

/// Marks as secret the outputs that contain a secret which the program embedded in a longer input string. The embedded
/// secret isn't recorded as a value of its own, so no later check can recognize it.
pub(crate) fn mark_joined(entry: &mut Entry, joined: &SecretStrings) {
    if let Some(outputs) = entry.outputs.as_ref().filter(|_| !joined.is_empty()) {
        let marks = repeating(outputs.view(), |text| joined.occur_in(text));
        add_marks(&mut entry.sensitive_outputs, &marks);
    }
}

/// Returns JSON pointers to the strings in a value for which `repeats` is true.
fn repeating(value: View<'_>, repeats: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![(String::new(), value)];
    while let Some((pointer, view)) = open.pop() {
        if view.as_str().is_some_and(|text| repeats(&text)) {
            found.push(pointer);
            continue;
        }
        let elements = view.elements().into_iter().flatten().enumerate();
        open.extend(elements.map(|(index, element)| (format!("{pointer}/{index}"), element)));
        let members = view.members().into_iter().flatten();
        open.extend(members.map(|(name, member)| {
            let token = name.replace('~', "~0").replace('/', "~1");
            (format!("{pointer}/{token}"), member)
        }));
    }
    found.sort();
    found
}

/// Returns the inputs `new`, except that each input in `names` has its old value. An input in `names` without an old
/// value is left out.
pub(crate) fn ignoring(names: &[String], old: &Properties, new: &Properties) -> Properties {
    if names.is_empty() {
        return new.clone();
    }
    let mut all = members(new);
    all.retain(|name, _| !names.contains(name));
    let ignored = members(old).into_iter().filter(|(name, _)| names.contains(name));
    all.extend(ignored);
    properties_of(&all)
}

/// Returns the entry without references to the given addresses.
pub(crate) fn without_references_to(entry: &Entry, gone: &BTreeSet<Address>) -> Entry {
    let pruned = entry.with_references(|_, to| match to {
        Dependency::Entry(address) if gone.contains(address) => None,
        kept => Some(kept.clone()),
    });
    pruned.unwrap_or_else(|| entry.clone())
}

fn property_dependencies(of_goal: &BTreeMap<String, Vec<Address>>) -> BTreeMap<String, Vec<Dependency>> {
    let named = of_goal.iter().filter(|(_, on)| !on.is_empty());
    named
        .map(|(name, on)| (name.clone(), on.iter().cloned().map(Dependency::Entry).collect()))
        .collect()
}

fn add_marks(marks: &mut Vec<String>, more: &[String]) {
    for mark in more {
        if !marks.contains(mark) {
            marks.push(mark.clone());
        }
    }
}
