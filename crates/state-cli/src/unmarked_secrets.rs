//! Encrypted values that no mark names as sensitive: the next replacement of the data key stores them in plain text, because
//! the policy `sensitive` encrypts marked values only.

use crate::context::Context;
use crate::error::CliError;
use crate::marks::{count, first};
use state_core::head::SealingPolicy;
use state_core::json::{View, child_pointer};
use state_core::{State, sealed};
use state_manager::Stack;
use std::collections::BTreeSet;

/// How many places a warning names.
const NAMED: usize = 5;

/// The places of encrypted values without a mark.
pub(crate) fn places(state: &State) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in state.entries() {
        let sides = [
            ("inputs", &entry.inputs, &entry.sensitive_inputs),
            ("outputs", &entry.outputs, &entry.sensitive_outputs),
        ];
        for (side, values, marks) in sides {
            let Some(values) = values else { continue };
            let owner = format!("{}:/{side}", entry.key());
            collect(values.view(), String::new(), &pointers(marks), &owner, &mut found);
        }
    }
    let outputs = state.outputs();
    let marks = pointers(&outputs.sensitive);
    for (name, value) in &outputs.values {
        let pointer = child_pointer("", name);
        collect(value.view(), pointer, &marks, "outputs:", &mut found);
    }
    found
}

/// Warns about encrypted values that an edit leaves without a mark. With `--yes` the warnings belong to the report; otherwise
/// they are shown now, before the question.
pub(crate) async fn lost_by_edit(
    context: &Context,
    stack: &Stack,
    before: &State,
    after: &State,
) -> Result<Vec<String>, CliError> {
    let known = places(before);
    let lost: Vec<String> = places(after).difference(&known).cloned().collect();
    if lost.is_empty() || stack.policy().await? != SealingPolicy::Sensitive {
        return Ok(Vec::new());
    }
    let marks = count(lost.len(), "encrypted value loses", "encrypted values lose");
    let warning = format!(
        "{marks} the mark as sensitive, so the next `statectl rekey` stores plain text: {}; keep the mark, or change the \
         secret at its source",
        first(NAMED, &lost, ", ")
    );
    Ok(shown(context, warning))
}

/// Warns about encrypted values that a replacement of the data key stores in plain text; see [`lost_by_edit`].
pub(crate) async fn lost_by_rekey(context: &Context, stack: &Stack) -> Result<Vec<String>, CliError> {
    if stack.policy().await? != SealingPolicy::Sensitive {
        return Ok(Vec::new());
    }
    let unmarked: Vec<String> = places(&stack.tip().await?.state).into_iter().collect();
    if unmarked.is_empty() {
        return Ok(Vec::new());
    }
    let values = count(unmarked.len(), "encrypted value has", "encrypted values have");
    let warning = format!(
        "{values} no mark as sensitive and will be stored in plain text: {}; to keep it encrypted, mark it first with \
         `statectl edit`",
        first(NAMED, &unmarked, ", ")
    );
    Ok(shown(context, warning))
}

/// The warnings of the report. Shows the warning now if a question follows.
fn shown(context: &Context, warning: String) -> Vec<String> {
    if context.prompt.yes {
        return vec![warning];
    }
    let text = context.settings.invocation().apply(&warning);
    context
        .output
        .announce(|page| page.line(format_args!("warning: {text}")));
    Vec::new()
}

/// Marks as JSON pointers: a mark can also be the name of a top-level field.
fn pointers(marks: &[String]) -> BTreeSet<String> {
    let pointer = |mark: &String| match mark.starts_with('/') {
        true => mark.clone(),
        false => child_pointer("", mark),
    };
    marks.iter().map(pointer).collect()
}

fn collect(
    value: View<'_>,
    pointer: String,
    marks: &BTreeSet<String>,
    owner: &str,
    found: &mut BTreeSet<String>,
) {
    if marks.contains(&pointer) {
        return;
    }
    if sealed::key_of(value).is_some() {
        found.insert(format!("{owner}{pointer}"));
        return;
    }
    for (name, below) in value.members().into_iter().flatten() {
        collect(below, child_pointer(&pointer, &name), marks, owner, found);
    }
    for (index, below) in value.elements().into_iter().flatten().enumerate() {
        collect(
            below,
            child_pointer(&pointer, &index.to_string()),
            marks,
            owner,
            found,
        );
    }
}
