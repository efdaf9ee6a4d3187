//! The planner: from what is wanted, what is recorded and what the provider says differs, to what is done. Pure.

mod deletion;
mod entry;
mod schedule;
#[cfg(test)]
mod tests;

pub(crate) use deletion::{Condemned, How, Wanted, condemned, may_be_needed, needed_by_unsettled, unsettled};
pub(crate) use entry::{applied, as_found, goal_entry, ignoring, mark_joined, without_references_to};
pub(crate) use schedule::Schedule;

use crate::goal::Goal;
use crate::provider::Diff;
use state_core::entry::Provider;
use state_core::{Address, Entry};
use std::collections::BTreeSet;

/// What is done about one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Nothing: what is recorded stands, with what the program says of how it is handled.
    Same,
    /// An object is made where none is.
    Create,
    /// The object changes in its place.
    Update,
    /// Another object takes its place.
    Replace {
        /// Which comes first.
        first: First,
        /// The properties that make it so, or other reasons.
        why: Vec<String>,
    },
    /// It is read; it isn't ours.
    Read {
        /// The object.
        id: String,
    },
    /// It is taken over; what is there now, if anything, is replaced.
    Import {
        /// The object.
        id: String,
        /// Something is there.
        replaces: bool,
    },
    /// It can't be done.
    Refuse(String),
}

/// Which part of a replacement comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum First {
    Create,
    Delete,
}

/// What the planner is told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts<'a> {
    /// What is wanted.
    pub(crate) goal: &'a Goal,
    /// The live entry.
    pub(crate) old: Option<&'a Entry>,
    /// What differs: given where [`needs_diff`] says so.
    pub(crate) diff: Option<&'a Diff>,
    /// The provider entry that is in charge now.
    pub(crate) provider: Option<&'a Provider>,
    /// Of what it is to be replaced with: those that this run replaced.
    pub(crate) replaced: &'a [Address],
    /// Somebody asked for its replacement.
    pub(crate) forced: bool,
}

/// Whether the provider has to compare.
pub(crate) fn needs_diff(goal: &Goal, old: Option<&Entry>) -> bool {
    old.is_some_and(|old| {
        !old.pending_replacement && !old.external && is_of_kind(old, goal) && goal.options.read.is_none()
    })
}

fn is_of_kind(old: &Entry, goal: &Goal) -> bool {
    old.kind.as_deref() == Some(&*goal.kind)
}

/// What is to be done about a goal.
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
            return protected(goal, "take the place of");
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
    // What isn't ours is never deleted, so nothing can come before.
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
            "it is to be read only, but this stack made it and would forget it: take it out of the record first".to_owned(),
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
        "{} is protected, so nothing may {what} it: unprotect it first",
        goal.address
    ))
}

/// Why the object can't stay; empty: it can.
fn reasons_to_replace(facts: &Facts<'_>, old: &Entry) -> Vec<String> {
    let reasons = [
        (old.external, "it was only read until now"),
        (facts.forced, "it was asked for"),
        (old.tainted, "it is tainted"),
        (!is_of_kind(old, facts.goal), "it is of another kind"),
        (
            old.provider.as_ref() != facts.provider,
            "its provider is another one",
        ),
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
