//! Prints a plan or an outcome as a tree of resources: a sign for each step, and the properties that change.

use super::outcome::{FailureView, Outcome, PendingAdvice, SkippedResource};
use super::step::StepView;
use crate::approvals;
use crate::marks::{count, first};
use crate::render::{Page, Style};
use state_core::diff::short_text;
use state_engine::StepOp;
use std::collections::{BTreeMap, BTreeSet};

/// Placeholder for a value that is unknown until apply.
const LATER: &str = "(known after apply)";

/// How many addresses a line about steps that were not begun lists.
const NAMED: usize = 10;

/// Prints a plan: before the confirmation, or as the result of a preview.
pub(super) fn preview(page: &mut Page, outcome: &Outcome) {
    for renamed in &outcome.renamed {
        let text = format_args!("{} → {}", renamed.from, renamed.to);
        page.labelled(Style::Warn, ">", text);
    }
    steps(page, outcome);
    derived_commands(page, outcome);
    outputs(page, outcome);
    troubles(page, outcome);
    page.line(summary(outcome));
}

/// Prints the commands that a manipulated state could have chosen, in full: the changes of a step show only the inputs that
/// differ from the recorded ones.
fn derived_commands(page: &mut Page, outcome: &Outcome) {
    let commands = &outcome.derived_commands;
    if !commands.is_empty() {
        page.line("commands and files that use outputs of other resources:");
        approvals::print(page, commands.iter().map(|(key, command)| (key, command)));
    }
}

/// Prints the final report of a command.
pub(super) fn report(page: &mut Page, done: &Outcome) {
    for settled in &done.settled {
        page.line(match done.applies {
            true => settled.describe(),
            false => settled.foresee(),
        });
    }
    if done.preview {
        return preview(page, done);
    }
    if done.created_store {
        page.line("created the store");
    }
    if done.created_stack {
        page.line(format_args!("created stack {}", done.short_name));
    }
    outputs(page, done);
    troubles(page, done);
    let summary = summary(done);
    match &done.revision {
        Some(revision) if done.changed => page.line(format_args!("{summary}: now revision {revision}")),
        _ => page.line(summary),
    }
}

fn steps(page: &mut Page, outcome: &Outcome) {
    let mut of: BTreeMap<&str, Vec<&StepView>> = BTreeMap::new();
    let mut order: Vec<&str> = Vec::new();
    for step in &outcome.steps {
        // Unchanged ancestors are shown too. Parents come from providers and may form a cycle, so a repeated address ends
        // the walk.
        let mut line = vec![&*step.address];
        while let Some(parent) = line.last().and_then(|child| outcome.parents.get(*child))
            && !line.contains(&&**parent)
        {
            line.push(parent);
        }
        for address in line.into_iter().rev() {
            if !of.contains_key(address) {
                of.insert(address, Vec::new());
                order.push(address);
            }
        }
        of.entry(&step.address).or_default().push(step);
    }
    let mut children: BTreeMap<Option<&str>, Vec<&str>> = BTreeMap::new();
    for address in order {
        let parent = outcome.parents.get(address).map(String::as_str);
        children
            .entry(parent.filter(|parent| of.contains_key(parent)))
            .or_default()
            .push(address);
    }
    let mut open: Vec<(&str, usize)> = Vec::new();
    let mut seen = BTreeSet::new();
    let put = |open: &mut Vec<_>, of: Option<&str>, depth| {
        let below = children.get(&of).into_iter().flatten().rev();
        open.extend(below.map(|&child| (child, depth)));
    };
    put(&mut open, None, 0);
    while let Some((address, depth)) = open.pop() {
        if !seen.insert(address) {
            continue;
        }
        let steps = of.get(address).map(Vec::as_slice).unwrap_or_default();
        if steps.is_empty() {
            page.space(&indent(depth));
            page.styled(Style::Dim, &format!("   {address}"));
            page.space("\n");
        }
        for one in steps {
            step(page, one, depth);
        }
        put(&mut open, Some(address), depth + 1);
    }
}

fn indent(depth: usize) -> String {
    "  ".repeat(depth)
}

fn step(page: &mut Page, step: &StepView, depth: usize) {
    page.space(&indent(depth));
    page.styled(style(step), &format!("{:<2}", step.sign()));
    page.styled(Style::Plain, &format!(" {}", step.name()));
    page.styled(Style::Dim, &format!(" ({})", step.kind));
    if let Some(note) = note(step) {
        page.styled(Style::Dim, &format!("  {note}"));
    }
    page.space("\n");
    for change in &step.changes {
        let name = change.pointer.strip_prefix("/inputs/").map(str::to_owned);
        let name = name.unwrap_or_else(|| change.pointer.trim_start_matches('/').to_owned());
        page.space(&indent(depth));
        match (step.unknown.contains(&name), &change.old) {
            (true, Some(old)) => {
                let old = short_text(old);
                page.space("    ");
                page.labelled(Style::Warn, "~", format_args!("{name}: {old} → {LATER}"));
            }
            _ => page.diff_line(&change.line_as(&name)),
        }
    }
    let is_printed = |name: &String| {
        let pointer = format!("/inputs/{name}");
        step.changes.iter().any(|change| change.pointer == pointer)
    };
    for name in step.unknown.iter().filter(|name| !is_printed(name)) {
        page.space(&indent(depth));
        page.space("    ");
        page.labelled(Style::Warn, "~", format_args!("{name}: {LATER}"));
    }
}

/// A note for steps whose sign isn't self-explanatory.
fn note(step: &StepView) -> Option<String> {
    match step.does {
        StepOp::Refresh if step.gone => Some("no longer exists".to_owned()),
        StepOp::Refresh => Some("changed outside of statectl".to_owned()),
        StepOp::Same => Some("only the state changes".to_owned()),
        StepOp::Discard => Some("removed from the state, not deleted".to_owned()),
        _ if !step.why.is_empty() => Some(format!("must be replaced: {}", step.why.join(", "))),
        _ => None,
    }
}

/// The style of a step's sign.
pub(super) fn style(step: &StepView) -> Style {
    match step.sign() {
        "+" | "=" => Style::Good,
        "-" => Style::Bad,
        "<" | "." => Style::Dim,
        _ => Style::Warn,
    }
}

fn outputs(page: &mut Page, outcome: &Outcome) {
    // Outputs that a failed run left unknown keep their old values: print them as unknown only in a plan.
    let unknown = outcome.unknown_outputs.iter().filter(|_| outcome.preview);
    if outcome.outputs.is_empty() && unknown.clone().next().is_none() {
        return;
    }
    page.line("outputs");
    for change in &outcome.outputs {
        page.diff_line(&change.line());
    }
    for name in unknown {
        page.space("    ");
        page.labelled(Style::Warn, "~", format_args!("{name}: {LATER}"));
    }
}

/// Prints failures, skipped resources, pending operations, and the error that stopped the run.
fn troubles(page: &mut Page, outcome: &Outcome) {
    for failure in &outcome.failures {
        let op = failure.op.map(|op| format!("{op} of ")).unwrap_or_default();
        page.labelled(Style::Bad, "failed:", format_args!("{op}{}", failure.address));
        for reason in &failure.reasons {
            page.block(&format!("  {reason}"));
        }
    }
    for skipped in outcome.skipped.iter().filter(|skipped| !skipped.not_begun) {
        let text = format_args!("{}: {}", skipped.address, skipped.reason);
        page.labelled(Style::Warn, "skipped:", text);
    }
    not_begun(page, outcome);
    for pending in &outcome.pending {
        let text = format_args!("{} of {}, {}", pending.op, pending.target, pending.id);
        page.labelled(Style::Warn, "pending:", text);
    }
    if let Some(first) = outcome.pending.first()
        && !outcome.belongs_to_other_run
    {
        page.hint(&pending_hint(outcome.pending_advice, &first.id));
    }
    if let Some(error) = &outcome.error {
        page.labelled(Style::Bad, "error:", error);
    }
    if let Some(hint) = &outcome.hint {
        page.hint(hint);
    }
}

fn pending_hint(advice: PendingAdvice, id: &str) -> String {
    let refresh = match advice {
        PendingAdvice::Refresh => "statectl refresh",
        PendingAdvice::ConfirmedRefresh => "statectl refresh --yes",
        PendingAdvice::Resolve => {
            return format!(
                "the providers can't determine the outcome: wait for commands that still run, check the real resource, then run \
                 `statectl pending resolve {id} --not-done`, or `--done` with its id"
            );
        }
    };
    format!("run `{refresh}` to ask the providers for the outcome, or `statectl pending resolve ID`")
}

/// Prints the steps that were never begun, one line for each reason.
fn not_begun(page: &mut Page, outcome: &Outcome) {
    let mut of: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for SkippedResource { address, reason, .. } in outcome.skipped.iter().filter(|skipped| skipped.not_begun)
    {
        of.entry(reason).or_default().push(address);
    }
    for (reason, addresses) in of {
        let named = first(NAMED, &addresses, ", ");
        page.labelled(Style::Warn, "skipped:", format_args!("{named}: {reason}"));
    }
}

/// The number of failed steps by their effect on the state.
fn failed(outcome: &Outcome) -> Vec<String> {
    let number =
        |fits: &dyn Fn(&FailureView) -> bool| outcome.failures.iter().filter(|one| fits(one)).count();
    let unfinished = number(&|failure| failure.unfinished && failure.pending.is_none());
    let pending = number(&|failure| failure.pending.is_some());
    let others = number(&|failure| !failure.unfinished && failure.pending.is_none());
    let groups = [
        (unfinished, "failed and recorded as unfinished"),
        (others, "failed"),
        (pending, "left pending"),
    ];
    let groups = groups.into_iter().filter(|(number, _)| *number > 0);
    groups.map(|(number, what)| format!("{number} {what}")).collect()
}

/// The parts of the summary: the wording in a plan, the wording after a run, and the steps that are counted.
const DONE: [(&str, &str, &[StepOp]); 9] = [
    ("to create", "created", &[StepOp::Create]),
    ("to import", "imported", &[StepOp::Import]),
    ("to update", "updated", &[StepOp::Update]),
    (
        "to replace",
        "replaced",
        &[StepOp::CreateReplacement, StepOp::ImportReplacement],
    ),
    ("to delete", "deleted", &[StepOp::Delete]),
    ("to read", "read", &[StepOp::Read]),
    (
        "to update in the state",
        "updated in the state",
        &[StepOp::Refresh, StepOp::Same],
    ),
    (
        "to forget",
        "forgotten",
        &[StepOp::Discard, StepOp::RemovePendingReplace],
    ),
    (
        "replaced to delete",
        "replaced deleted",
        &[StepOp::DeleteReplaced],
    ),
];

/// The extent of a plan for the confirmation: the number of steps, renames and outputs.
pub(super) fn extent(seen: &Outcome) -> String {
    let steps = seen.steps.len();
    let renamed = match &*seen.renamed {
        [] => None,
        [one] => Some(format!("{} becomes {}", one.from, one.to)),
        several => Some(format!("{} to rename", several.len())),
    };
    let outputs = seen.outputs.len();
    let outputs = (outputs > 0).then(|| count(outputs, "output", "outputs"));
    let steps = match (steps, &renamed, &outputs) {
        (0, None, Some(_)) => outputs,
        (0, Some(_), _) => None,
        _ => Some(count(steps, "step", "steps")),
    };
    steps.into_iter().chain(renamed).collect::<Vec<_>>().join(", ")
}

/// Counts the changes by kind, in one line.
pub(super) fn summary(outcome: &Outcome) -> String {
    let mut parts = Vec::new();
    let replaces = outcome.steps.iter().any(StepView::is_replacement);
    for (before, after, ops) in DONE {
        let steps = outcome.steps.iter().filter(|step| ops.contains(&step.does));
        // The deletion of a replaced resource is counted as part of its replacement.
        let number = steps
            .filter(|step| !(replaces && step.does == StepOp::DeleteReplaced))
            .count();
        if number > 0 {
            parts.push(format!(
                "{number} {}",
                if outcome.preview { before } else { after }
            ));
        }
    }
    if !outcome.renamed.is_empty() {
        let renamed = if outcome.preview { "to rename" } else { "renamed" };
        parts.push(format!("{} {renamed}", outcome.renamed.len()));
    }
    if !outcome.outputs.is_empty() {
        parts.push(count(outcome.outputs.len(), "output changed", "outputs changed"));
    }
    let has_changes = !parts.is_empty();
    parts.extend(failed(outcome));
    if !outcome.skipped.is_empty() {
        parts.push(format!("{} skipped", outcome.skipped.len()));
    }
    // Resolved pending operations are listed above the summary.
    let nothing = match outcome.settled.is_empty() {
        true => "nothing",
        false => "nothing else",
    };
    let failed = match (outcome.interrupted, outcome.preview) {
        (true, _) => "interrupted",
        (false, true) => "planning failed",
        (false, false) => "failed",
    };
    let failed_or_interrupted = outcome.interrupted || !outcome.succeeded();
    if failed_or_interrupted && !has_changes && !outcome.preview && !parts.is_empty() {
        parts.insert(0, "0 done".to_owned());
    }
    match (failed_or_interrupted, parts.is_empty()) {
        (false, false) => parts.join(", "),
        (false, true) => format!("{nothing} to do"),
        (true, false) => format!("{failed}: {}", parts.join(", ")),
        (true, true) => format!("{failed}: {nothing} done"),
    }
}
