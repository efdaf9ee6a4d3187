//! The planner: decides the action for a resource from its goal, its entry and the provider's diff. Its submodules
//! decide the deletions at the end of a run, and build the entries that steps record. All functions are pure.

mod deletion;
mod entry;
mod schedule;
#[cfg(test)]
mod tests;

pub(crate) use deletion::{
    DeletionMethod, DesiredResources, PlannedDeletion, ReferencedNames, may_be_needed, names_of,
    needed_by_pending, pending_dependent, planned_deletions,
};
pub(crate) use entry::{applied, as_found, goal_entry, ignoring, mark_joined, without_references_to};
pub(crate) use schedule::Schedule;

use crate::goal::Goal;
use crate::provider::Diff;
use state_core::entry::Provider;
use state_core::{Address, Entry};
use std::collections::BTreeSet;

/// The action that the planner decides for one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// The object stays as it is; only its entry is recorded with the options of the goal.
    Same,
    /// The object doesn't exist and is created.
    Create,
    /// The object is updated in place.
    Update,
    /// The object is replaced by a new one.
    Replace {
        /// Whether the create or the delete comes first.
        first: First,
        /// The reasons for the replacement: names of properties whose change forces it, or phrases.
        why: Vec<String>,
    },
    /// The object is only read and never changed, because the stack doesn't own it.
    Read {
        /// Id of the object to read.
        id: String,
    },
    /// The object is imported. If the entry has another object, the import replaces it.
    Import {
        /// Id of the object to import.
        id: String,
        /// Whether the entry has another object, which the import replaces.
        replaces: bool,
    },
    /// The action is refused, with the reason.
    Refuse(String),
}

/// Which part of a replacement comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum First {
    Create,
    Delete,
}

/// The facts from which the planner decides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts<'a> {
    /// The desired state of the resource.
    pub(crate) goal: &'a Goal,
    /// The live entry of the resource, if any.
    pub(crate) old: Option<&'a Entry>,
    /// The provider's diff. `None` if [`needs_diff`] is false.
    pub(crate) diff: Option<&'a Diff>,
    /// The provider that the goal selects. `None` if this provider isn't itself a resource of the stack.
    pub(crate) provider: Option<&'a Provider>,
    /// The resources of `replace_with` and `deleted_with` that were replaced.
    pub(crate) replaced: &'a [Address],
    /// Whether the user requested the replacement.
    pub(crate) forced: bool,
}

/// Whether the planner needs the provider's diff of the object and the goal.
pub(crate) fn needs_diff(goal: &Goal, old: Option<&Entry>) -> bool {
    old.is_some_and(|old| {
        !old.pending_replacement && !old.external && is_of_kind(old, goal) && goal.options.read.is_none()
    })
}

fn is_of_kind(old: &Entry, goal: &Goal) -> bool {
    old.kind.as_deref() == Some(&*goal.kind)
}

/// Decides the action for a goal.
pub(crate) fn decide(facts: &Facts<'_>) -> Action {
    let Facts { goal, old, .. } = *facts;
    if let Some(id) = &goal.options.read {
        return read(old, id);
    }
    let Some(old) = old else {
        return match &goal.options.import {
            Some(id) => import(id, false),
            None => Action::Create,
        };
    };
    if let Some(id) = &goal.options.import
        && (old.id.as_ref() != Some(id) || old.external)
    {
        let is_there = !old.pending_replacement;
        if is_there && old.protect {
            return protected(goal, "replace");
        }
        return import(id, is_there);
    }
    if old.pending_replacement {
        return Action::Create;
    }
    let why = reasons_to_replace(facts, old);
    if why.is_empty() {
        let differs = facts.diff.is_some_and(|diff| !diff.changed.is_empty());
        return match differs || !old.init_errors.is_empty() || !goal.unknown.is_empty() {
            true => Action::Update,
            false => Action::Same,
        };
    }
    if old.protect {
        return protected(goal, "replace");
    }
    let provider_says = facts.diff.is_some_and(|diff| diff.delete_before_replace);
    // An external object is never deleted, so a delete can't come first.
    let deletes_first = goal.options.delete_before_replace.unwrap_or(provider_says) && !old.external;
    let first = if deletes_first {
        First::Delete
    } else {
        First::Create
    };
    Action::Replace { first, why }
}

fn read(old: Option<&Entry>, id: &str) -> Action {
    match old {
        Some(old) if !old.external && !old.pending_replacement => Action::Refuse(
            "cannot read it as an external object: this stack manages it; remove it from the state first (statectl rm)".to_owned(),
        ),
        _ => Action::Read { id: id.to_owned() },
    }
}

fn import(id: &str, replaces: bool) -> Action {
    Action::Import {
        id: id.to_owned(),
        replaces,
    }
}

fn protected(goal: &Goal, what: &str) -> Action {
    Action::Refuse(format!(
        "cannot {what} {}: it is protected; unprotect it first",
        goal.address
    ))
}

/// The reasons that force a replacement; empty if no replacement is necessary.
fn reasons_to_replace(facts: &Facts<'_>, old: &Entry) -> Vec<String> {
    let reasons = [
        (old.external, "it was an external object until now"),
        (facts.forced, "requested by the user"),
        (old.tainted, "it is tainted"),
        (!is_of_kind(old, facts.goal), "its kind changed"),
        (old.provider.as_ref() != facts.provider, "its provider changed"),
    ];
    let holding = reasons.into_iter().filter(|(holds, _)| *holds);
    let mut why: Vec<String> = holding.map(|(_, reason)| reason.to_owned()).collect();
    why.extend(facts.replaced.iter().map(|with| format!("{with} was replaced")));
    if let Some(diff) = facts.diff {
        let asked = facts.goal.options.replace_on_changes.iter();
        let asked = asked.filter(|name| diff.changed.contains(*name));
        let names: BTreeSet<&String> = diff.replace.iter().chain(asked).collect();
        why.extend(names.into_iter().cloned());
    }
    why
}
