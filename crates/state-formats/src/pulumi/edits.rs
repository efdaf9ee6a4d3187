//! The rules of Pulumi for edits of a state: URNs and types that a checkpoint can hold.

use super::urn;
use crate::edits::{EditProblem, EditReview, StateEdit, effects};
use state_core::{Entry, EntryType};

/// Checks an edit of a Pulumi state.
pub(super) fn review(edit: &StateEdit<'_>) -> EditReview {
    let mut review = EditReview {
        effects: effects(edit, is_managed),
        ..EditReview::default()
    };
    for change in edit.changes() {
        let Some(after) = change.after else { continue };
        if let Some((reason, hint)) = refusal(change.before.map(|before| &**before), after) {
            review.problems.push(EditProblem {
                entry: after.key(),
                reason,
                hint,
            });
        }
    }
    review
}

/// Whether Pulumi creates and deletes the object of an entry. A provider resource has no object of its own.
pub(super) fn is_managed(entry: &Entry) -> bool {
    let is_provider = entry
        .kind
        .as_deref()
        .is_some_and(|kind| kind.starts_with("pulumi:providers:"));
    entry.entry_type == EntryType::Leaf && !entry.external && !is_provider
}

type Refusal = (String, Option<String>);

fn refusal(before: Option<&Entry>, after: &Entry) -> Option<Refusal> {
    let address = after.address.as_str();
    let Some((identity, kind)) = urn::identity(address).zip(urn::kind(address)) else {
        let form = "an address of Pulumi is a URN: `urn:pulumi:STACK::PROJECT::TYPE::NAME`";
        return Some(("it isn't a URN".to_owned(), Some(form.to_owned())));
    };
    let own = match after.entry_type {
        EntryType::Leaf => after.kind.as_deref(),
        _ => after.library_type.as_deref().or(after.kind.as_deref()),
    };
    if own.is_some_and(|own| own != kind) {
        let reason = format!(
            "its URN has the type `{kind}`, but its type is `{}`",
            own.unwrap_or_default()
        );
        let hint = "an edit can't change the type of an object: keep the type in the URN";
        return Some((reason, Some(hint.to_owned())));
    }
    let old = urn::identity(before?.address.as_str())?;
    if old != identity {
        let reason = format!("its URN names `{identity}`, but the state is of `{old}` (project/stack)");
        let hint = "keep project and stack in the URN; `pulumi stack rename` renames a stack";
        return Some((reason, Some(hint.to_owned())));
    }
    None
}
