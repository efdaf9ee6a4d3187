//! The rules of Terraform for edits of a state: addresses, types and providers that a state file can hold.

use super::address::{InstanceAddress, Mode};
use super::facts::EXTENSION;
use crate::edits::{EditProblem, EditReview, EntryChange, StateEdit, effects};
use state_core::sealed::key_of_text;
use state_core::{Entry, EntryKey, EntryType, SharedEntry};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Checks an edit of a Terraform state.
pub(super) fn review(edit: &StateEdit<'_>) -> EditReview {
    let mut review = EditReview {
        effects: effects(edit, is_managed),
        remarks: remarks(edit),
        ..EditReview::default()
    };
    let mut touched = HashSet::new();
    for change in edit.changes() {
        let Some(after) = change.after else { continue };
        // A stack may also hold resources of a program of its own, which Terraform never loads.
        if change.before.is_some_and(|before| address(before).is_err()) {
            continue;
        }
        match address(after).and_then(|address| inspect(change, after, &address).map(|()| address)) {
            Ok(address) if change.before.is_none_or(|before| before.address != after.address) => {
                touched.insert(address.resource.to_string());
            }
            Ok(_) => {}
            Err(problem) => review.problems.push(problem),
        }
    }
    if !touched.is_empty() {
        review.problems.extend(provider_problems(edit, &touched));
    }
    review
}

/// Whether Terraform creates and deletes the object of an entry: a data source is only read.
pub(super) fn is_managed(entry: &Entry) -> bool {
    let address = InstanceAddress::parse(entry.address.as_str());
    entry.entry_type == EntryType::Leaf
        && !entry.external
        && address.is_none_or(|address| address.resource.mode == Mode::Managed)
}

fn problem(entry: &Entry, reason: impl Into<String>) -> EditProblem {
    EditProblem {
        entry: entry.key(),
        reason: reason.into(),
        hint: None,
    }
}

/// The address of an entry in the form that Terraform reads and writes.
fn address(entry: &Entry) -> Result<InstanceAddress, EditProblem> {
    let text = entry.address.as_str();
    let form = "an address of Terraform is [module.NAME[KEY].][data.]TYPE.NAME[KEY], for example \
                `aws_instance.web`, `aws_instance.web[0]` or `module.vpc.aws_subnet.private[\"a\"]`";
    let invalid = |reason: String| EditProblem {
        hint: Some(form.to_owned()),
        ..problem(entry, reason)
    };
    let Some(address) = InstanceAddress::parse(text).filter(InstanceAddress::is_valid) else {
        return Err(invalid("it isn't an address that Terraform accepts".to_owned()));
    };
    let canonical = address.to_string();
    if canonical != text {
        return Err(invalid(format!("Terraform writes this address as `{canonical}`")));
    }
    Ok(address)
}

/// Checks the rules about one entry.
fn inspect(change: &EntryChange<'_>, after: &Entry, address: &InstanceAddress) -> Result<(), EditProblem> {
    if after.entry_type != EntryType::Leaf {
        return Err(problem(
            after,
            "Terraform has resources only, neither library calls nor actions",
        ));
    }
    if let Some(before) = change.before {
        same_kind(before, after, address)?;
    }
    if after.kind.as_deref() != Some(&*address.resource.kind) {
        let reason = format!(
            "its type must be `{}`, as its address says",
            address.resource.kind
        );
        return Err(problem(after, reason));
    }
    let group = address.resource.group();
    if after.group.as_ref().is_none_or(|own| own.as_str() != group) {
        return Err(problem(
            after,
            format!("its group must be `{group}`, as its address says"),
        ));
    }
    if after.deposed.as_ref().is_some_and(|key| key.as_str().len() != 8) {
        return Err(problem(
            after,
            "a deposed key of Terraform has exactly 8 characters",
        ));
    }
    let was_tainted = change.before.is_some_and(|before| before.tainted);
    if after.tainted && !was_tainted && address.resource.mode == Mode::Data {
        return Err(problem(
            after,
            "a data source can't be replaced, because Terraform only reads it",
        ));
    }
    Ok(())
}

/// Refuses a change of the resource type or the mode: the object at the provider would stay what it was.
fn same_kind(before: &Entry, after: &Entry, address: &InstanceAddress) -> Result<(), EditProblem> {
    let Some(old) = InstanceAddress::parse(before.address.as_str()) else {
        return Ok(());
    };
    if before.address == after.address && before.kind == after.kind {
        return Ok(());
    }
    if old.resource.mode != address.resource.mode {
        return Err(problem(
            after,
            format!(
                "`{}` can't become it: a move can't change a managed resource to a data source or back",
                before.address
            ),
        ));
    }
    let new_kind = if before.address == after.address {
        after.kind.as_deref().unwrap_or_default()
    } else {
        &address.resource.kind
    };
    if old.resource.kind == new_kind {
        return Ok(());
    }
    let reason = format!(
        "`{}` can't become it: a move can't change the type of an object, which is `{}`",
        before.address, old.resource.kind
    );
    Err(EditProblem {
        hint: Some(format!(
            "keep the type: `statectl mv {} {}.NAME`; to change the type, use a `moved` block if the provider supports it, or \
             `terraform import`",
            before.address, old.resource.kind
        )),
        ..problem(after, reason)
    })
}

/// The rules about providers: each resource has one, and all instances of a resource have the same.
fn provider_problems(edit: &StateEdit<'_>, touched: &HashSet<String>) -> Vec<EditProblem> {
    let mut resources: BTreeMap<String, Vec<&SharedEntry>> = BTreeMap::new();
    for entry in edit.after() {
        let address = InstanceAddress::parse(entry.address.as_str());
        let resource = address.map(|address| address.resource.to_string());
        if let Some(resource) = resource.filter(|resource| touched.contains(resource)) {
            resources.entry(resource).or_default().push(entry);
        }
    }
    let mut problems = Vec::new();
    for (resource, entries) in resources {
        let providers: BTreeSet<String> = entries.iter().filter_map(|entry| provider(entry)).collect();
        if entries
            .iter()
            .all(|entry| !entry.extensions.contains_key(EXTENSION.name))
        {
            let reason = "no provider is recorded for it, because it wasn't imported from Terraform";
            problems.extend(entries.first().map(|entry| EditProblem {
                hint: Some("create it with `terraform import`, and import the state again".to_owned()),
                ..problem(entry, reason)
            }));
        } else if providers.len() > 1 {
            let reason = format!(
                "the instances of `{resource}` would have different providers: {}",
                providers.into_iter().collect::<Vec<_>>().join(", ")
            );
            problems.extend(entries.first().map(|entry| problem(entry, reason)));
        }
    }
    problems
}

/// The provider of an entry; `None` if OpenTofu stores it in the instance.
fn provider(entry: &Entry) -> Option<String> {
    let facts = entry.extensions.get(EXTENSION.name)?;
    let provider = facts.view().get("provider")?.as_str()?;
    // Two encrypted texts differ even if their values are equal.
    let is_readable = key_of_text(&provider).is_none();
    is_readable.then(|| provider.into_owned())
}

/// Returns whether an entry has a value in one of its fields.
type IsSet = fn(&Entry) -> bool;

/// Fields that an edit may set and that a Terraform state has no place for, with the way to express them in a
/// configuration.
const UNSUPPORTED: [(&str, IsSet, &str); 6] = [
    (
        "protect",
        |entry| entry.protect,
        "statectl refuses to remove it, but Terraform doesn't: add `lifecycle { prevent_destroy = true }` to its configuration",
    ),
    ("parent", |entry| entry.parent.is_some(), "Terraform ignores it"),
    ("external", |entry| entry.external, "Terraform ignores it"),
    (
        "retain-on-delete",
        |entry| entry.retain_on_delete,
        "use a `removed` block with `destroy = false` instead",
    ),
    (
        "pending-replacement",
        |entry| entry.pending_replacement,
        "use `statectl taint` instead",
    ),
    ("inputs", |entry| entry.inputs.is_some(), "Terraform ignores them"),
];

/// How many resources a remark names.
const NAMED: usize = 3;

fn remarks(edit: &StateEdit<'_>) -> Vec<String> {
    let mut remarks = Vec::new();
    for (field, is_set, instead) in UNSUPPORTED {
        let set = edit.changes().iter().filter_map(|change| {
            let after = change.after.filter(|after| is_set(after))?;
            let was_set = change.before.is_some_and(|before| is_set(before));
            (!was_set).then(|| after.key())
        });
        let set: Vec<EntryKey> = set.collect();
        if set.is_empty() {
            continue;
        }
        let names: Vec<_> = set.iter().take(NAMED).map(ToString::to_string).collect();
        let more = match set.len() - names.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        remarks.push(format!(
            "a Terraform state can't store `{field}` of {}{more}: {instead}",
            names.join(", ")
        ));
    }
    remarks
}
