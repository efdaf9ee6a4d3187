//! Encrypted values that no mark names as sensitive: the next replacement of the data key stores them in plain text, because
//! the policy `sensitive` encrypts marked values only.

use crate::context::Context;
use crate::error::CliError;
use crate::marks::{count, first};
use crate::settings::quoted;
use state_core::head::SealingPolicy;
use state_core::json::{View, child_pointer};
use state_core::sensitive::{OutputMarks, SecretStrings, covered_pointers};
use state_core::{Entry, SharedEntry, Snapshot, StackName, State, sealed};
use state_manager::{Session, Stack};
use std::collections::{BTreeMap, BTreeSet};

/// How many places a warning names.
const NAMED: usize = 5;

/// The places of encrypted values that no mark covers, neither by its path nor as a copy of a marked value. `opened` is
/// the snapshot with all values decrypted.
fn places(stored: &Snapshot, opened: &Snapshot) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (entry, open) in stored.entries.iter().zip(&opened.entries) {
        // Nothing was decrypted in it.
        if SharedEntry::ptr_eq(entry, open) {
            continue;
        }
        collect_entry(&entry.key().to_string(), entry, open, &mut found);
    }
    let pending = stored.pending_operations.iter();
    for (operation, open) in pending.zip(&opened.pending_operations) {
        let owner = format!("pending:{}", operation.id);
        for (entry, open) in operation.entries().zip(open.entries()) {
            collect_entry(&owner, entry, open, &mut found);
        }
    }
    let secrets = SecretStrings::of_outputs(opened);
    let marks = OutputMarks::of(&opened.outputs, &opened.sensitive_outputs);
    for (name, value) in &stored.outputs {
        let marked = marks.spans(name, &secrets).into_iter().map(|span| span.pointer);
        let owner = format!("outputs:{}", child_pointer("", name));
        collect(value.view(), "", &marked.collect(), &owner, &mut found);
    }
    found
}

/// Collects the encrypted values of an entry that no mark covers. `open` is the entry with all values decrypted.
fn collect_entry(owner: &str, entry: &Entry, open: &Entry, found: &mut BTreeSet<String>) {
    let secrets = SecretStrings::of_entry(open);
    let sides = [
        ("inputs", &entry.inputs, &open.inputs, &open.sensitive_inputs),
        ("outputs", &entry.outputs, &open.outputs, &open.sensitive_outputs),
    ];
    for (side, stored, opened, marks) in sides {
        let (Some(stored), Some(opened)) = (stored, opened) else {
            continue;
        };
        let marked = covered_pointers(opened.json(), marks, &secrets)
            .into_iter()
            .collect();
        collect(stored.view(), "", &marked, &format!("{owner}:/{side}"), found);
    }
}

/// Warns about encrypted values that an edit leaves without a mark. With `--yes` the warnings belong to the report; otherwise
/// they are shown now, before the question.
pub(crate) async fn lost_by_edit<'a>(
    context: &Context,
    session: &Session,
    before: &State,
    after: impl Iterator<Item = &'a SharedEntry>,
) -> Result<Vec<String>, CliError> {
    // Most edits change no mark: they must not pay for decrypting the state, or for a search in it.
    let marked = before
        .entries()
        .filter(|entry| !(entry.sensitive_inputs.is_empty() && entry.sensitive_outputs.is_empty()));
    let (mut by_key, mut by_uid) = (BTreeMap::new(), BTreeMap::new());
    for entry in marked {
        by_key.insert(entry.key(), entry);
        by_uid.extend(entry.uid.map(|uid| (uid, entry)));
    }
    let has_lost_mark = |entry: &&SharedEntry| {
        let is_lost = |was: &[String], is: &[String]| was.iter().any(|mark| !is.contains(mark));
        // An edit can also change the address.
        let by_uid = || by_uid.get(&entry.uid?);
        by_key.get(&entry.key()).or_else(by_uid).is_some_and(|was| {
            is_lost(&was.sensitive_inputs, &entry.sensitive_inputs)
                || is_lost(&was.sensitive_outputs, &entry.sensitive_outputs)
        })
    };
    let changed: Vec<SharedEntry> = match by_key.is_empty() {
        true => Vec::new(),
        false => after.filter(has_lost_mark).cloned().collect(),
    };
    let stack = session.stack();
    if changed.is_empty() || stack.policy().await? != SealingPolicy::Sensitive {
        return Ok(Vec::new());
    }
    let mut stored = before.snapshot(stack.name().to_string(), context.now());
    stored.outputs.clear();
    stored.pending_operations.clear();
    stored.entries = changed;
    let opened = session.reveal_snapshot(stored.clone()).await?;
    let lost: Vec<String> = places(&stored, &opened).into_iter().collect();
    if lost.is_empty() {
        return Ok(Vec::new());
    }
    let marks = count(lost.len(), "encrypted value loses", "encrypted values lose");
    let warning = format!(
        "{marks} the mark as sensitive, so the next `statectl rekey`, or the next `up` or `refresh` that changes the resource, \
         stores plain text: {}; keep the mark, or change the secret at its source",
        first(NAMED, &lost, ", ")
    );
    Ok(context.warn_before_question(&warning))
}

/// Warns about encrypted values that a replacement of the data key stores in plain text; see [`lost_by_edit`]. `policy` is
/// the policy after it; none if it stays as it is.
pub(crate) async fn lost_by_rekey(
    context: &Context,
    stack: &Stack,
    policy: Option<SealingPolicy>,
) -> Result<Vec<String>, CliError> {
    // One read answers all three questions: policy, values and data key.
    let view = stack.tip().await?;
    if policy.unwrap_or(view.head.policy) != SealingPolicy::Sensitive {
        return Ok(Vec::new());
    }
    let stored = view.snapshot();
    let (opened, unopened) = view.reveal_if_possible(stored.clone()).await?;
    // Without an identity the key can't be replaced, and the command reports why.
    let unmarked: Vec<String> = match unopened {
        Some(_) => Vec::new(),
        None => places(&stored, &opened).into_iter().collect(),
    };
    if unmarked.is_empty() {
        return Ok(Vec::new());
    }
    let values = count(unmarked.len(), "encrypted value has", "encrypted values have");
    let warning = format!(
        "{values} no mark as sensitive and will be stored in plain text: {}; to keep it encrypted, mark it first with \
         `statectl edit`",
        first(NAMED, &unmarked, ", ")
    );
    Ok(context.warn_before_question(&warning))
}

/// Warns about encrypted values that a stack with the policy `sensitive` stores in plain text, when it receives a snapshot of
/// another stack, or of a time when it encrypted all values. `opened` is the snapshot with all values decrypted.
pub(crate) fn lost_by_policy(
    context: &Context,
    stack: &StackName,
    stored: &Snapshot,
    opened: &Snapshot,
) -> Vec<String> {
    let unmarked: Vec<String> = places(stored, opened).into_iter().collect();
    if unmarked.is_empty() {
        return Vec::new();
    }
    let values = count(unmarked.len(), "encrypted value has", "encrypted values have");
    let warning = format!(
        "{values} no mark as sensitive, and stack {} encrypts marked values only, so they are stored in plain text: {}; to \
         keep them encrypted, first run `statectl encrypt --policy all --stack {}`",
        stack.short(),
        first(NAMED, &unmarked, ", "),
        quoted(&stack.short())
    );
    context.warn_before_question(&warning)
}

/// Collects the encrypted values outside of the marked ones.
fn collect(
    value: View<'_>,
    pointer: &str,
    marks: &BTreeSet<String>,
    owner: &str,
    found: &mut BTreeSet<String>,
) {
    if marks.contains(pointer) {
        return;
    }
    if sealed::key_of(value).is_some() {
        found.insert(format!("{owner}{pointer}"));
        return;
    }
    for (name, below) in value.members().into_iter().flatten() {
        collect(below, &child_pointer(pointer, &name), marks, owner, found);
    }
    for (index, below) in value.elements().into_iter().flatten().enumerate() {
        collect(
            below,
            &child_pointer(pointer, &index.to_string()),
            marks,
            owner,
            found,
        );
    }
}
