//! Steps as a tree: what contains what, a sign for what happens to it, and which properties change.

use super::outcome::{FailureView, Outcome, Skipped};
use super::step::StepView;
use crate::marks::{count, first};
use crate::render::{Page, Style};
use state_core::diff::short_text;
use state_engine::StepOp;
use std::collections::{BTreeMap, BTreeSet};

/// What stands for a value that nobody knows yet.
const LATER: &str = "(known after it is done)";

/// How many of those that were never begun are named.
const NAMED: usize = 10;

/// What would be done, before somebody is asked, or by a command that only looks.
pub(super) fn preview(page: &mut Page, describe: &Outcome) {
    for renamed in &describe.renamed {
        let text = format_args!("{} → {}", renamed.from, renamed.to);
        page.labelled(Style::Warn, ">", text);
    }
    steps(page, describe);
    outputs(page, describe);
    troubles(page, describe);
    page.line(summary(describe));
}

/// What a command says in the end.
pub(super) fn report(page: &mut Page, done: &Outcome) {
    for settled in &done.settled {
        page.line(settled.describe());
    }
    if done.preview {
        return preview(page, done);
    }
    if done.created_store {
        page.line("made the store");
    }
    if done.created_stack {
        page.line(format_args!("made stack {}", done.short_name));
    }
    outputs(page, done);
    troubles(page, done);
    let summary = summary(done);
    match &done.revision {
        Some(revision) if done.changed => page.line(format_args!("{summary}: now revision {revision}")),
        _ => page.line(summary),
    }
}

fn steps(page: &mut Page, describe: &Outcome) {
    let mut of: BTreeMap<&str, Vec<&StepView>> = BTreeMap::new();
    let mut order: Vec<&str> = Vec::new();
    for step in &describe.steps {
        // What contains it is shown too, changed or not. Parents come from outside: they could go in a circle.
        let mut line = vec![&*step.address];
        while let Some(parent) = line.last().and_then(|child| describe.parents.get(*child))
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
        let parent = describe.parents.get(address).map(String::as_str);
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
    let is_told = |name: &String| {
        let pointer = format!("/inputs/{name}");
        step.changes.iter().any(|change| change.pointer == pointer)
    };
    for name in step.unknown.iter().filter(|name| !is_told(name)) {
        page.space(&indent(depth));
        page.space("    ");
        page.labelled(Style::Warn, "~", format_args!("{name}: {LATER}"));
    }
}

/// What the sign doesn't tell.
fn note(step: &StepView) -> Option<String> {
    match step.does {
        StepOp::Refresh if step.gone => Some("it is gone".to_owned()),
        StepOp::Refresh => Some("it was changed".to_owned()),
        StepOp::Same => Some("in the record only".to_owned()),
        StepOp::Discard => Some("forgotten, not deleted".to_owned()),
        _ if !step.why.is_empty() => Some(format!("because of {}", step.why.join(", "))),
        _ => None,
    }
}

/// How a step's sign stands out.
pub(super) fn style(step: &StepView) -> Style {
    match step.sign() {
        "+" | "=" => Style::Good,
        "-" => Style::Bad,
        "<" | "." => Style::Dim,
        _ => Style::Warn,
    }
}

fn outputs(page: &mut Page, describe: &Outcome) {
    // What a run that failed left unknown stays as it was: its failures say more.
    let unknown = describe.unknown_outputs.iter().filter(|_| describe.preview);
    if describe.outputs.is_empty() && unknown.clone().next().is_none() {
        return;
    }
    page.line("outputs");
    for change in &describe.outputs {
        page.diff_line(&change.line());
    }
    for name in unknown {
        page.space("    ");
        page.labelled(Style::Warn, "~", format_args!("{name}: {LATER}"));
    }
}

/// What failed, what couldn't be tried, what is pending, and what ended it.
fn troubles(page: &mut Page, describe: &Outcome) {
    for failure in &describe.failures {
        let op = failure.op.map(|op| format!("{op} of ")).unwrap_or_default();
        page.labelled(Style::Bad, "failed:", format_args!("{op}{}", failure.address));
        for reason in &failure.reasons {
            page.block(&format!("  {reason}"));
        }
    }
    for skipped in describe.skipped.iter().filter(|skipped| !skipped.not_begun) {
        let text = format_args!("{}: {}", skipped.address, skipped.reason);
        page.labelled(Style::Warn, "skipped:", text);
    }
    not_begun(page, describe);
    for pending in &describe.pending {
        let text = format_args!("{} of {}, {}", pending.op, pending.target, pending.id);
        page.labelled(Style::Warn, "pending:", text);
    }
    if !describe.pending.is_empty() && !describe.is_anothers {
        page.hint(
            "the next `up` or `refresh` asks the providers what became of it; or say it: `statectl pending resolve`",
        );
    }
    if let Some(error) = &describe.error {
        page.labelled(Style::Bad, "error:", error);
    }
    if let Some(hint) = &describe.hint {
        page.hint(hint);
    }
}

/// What was never begun, in a line for each reason.
fn not_begun(page: &mut Page, describe: &Outcome) {
    let mut of: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for Skipped { address, reason, .. } in describe.skipped.iter().filter(|skipped| skipped.not_begun) {
        of.entry(reason).or_default().push(address);
    }
    for (reason, addresses) in of {
        let named = first(NAMED, &addresses, ", ");
        page.labelled(Style::Warn, "skipped:", format_args!("{named}: {reason}"));
    }
}

/// How many failed and are on record, and how.
fn failed(describe: &Outcome) -> Vec<String> {
    let number =
        |fits: &dyn Fn(&FailureView) -> bool| describe.failures.iter().filter(|one| fits(one)).count();
    let unfinished = number(&|failure| failure.unfinished && failure.pending.is_none());
    let pending = number(&|failure| failure.pending.is_some());
    let describe = [
        (unfinished, "failed, recorded as unfinished"),
        (pending, "left pending"),
    ];
    let describe = describe.into_iter().filter(|(number, _)| *number > 0);
    describe
        .map(|(number, what)| format!("{number} {what}"))
        .collect()
}

/// What is done about things, as it is said before and after; and which steps do it.
const DONE: [(&str, &str, &[StepOp]); 9] = [
    ("to create", "created", &[StepOp::Create]),
    ("to take over", "taken over", &[StepOp::Import]),
    ("to update", "updated", &[StepOp::Update]),
    (
        "to replace",
        "replaced",
        &[StepOp::CreateReplacement, StepOp::ImportReplacement],
    ),
    ("to delete", "deleted", &[StepOp::Delete]),
    ("to read", "read", &[StepOp::Read]),
    (
        "to record anew",
        "recorded anew",
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

/// How much there is to do, for who is asked.
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

/// How many of each, in one line.
pub(super) fn summary(describe: &Outcome) -> String {
    let mut parts = Vec::new();
    let replaces = describe.steps.iter().any(StepView::is_replacement);
    for (before, after, ops) in DONE {
        let steps = describe.steps.iter().filter(|step| ops.contains(&step.does));
        // The second half of a replacement is told with the first.
        let number = steps
            .filter(|step| !(replaces && step.does == StepOp::DeleteReplaced))
            .count();
        if number > 0 {
            parts.push(format!(
                "{number} {}",
                if describe.preview { before } else { after }
            ));
        }
    }
    if !describe.renamed.is_empty() {
        let renamed = if describe.preview { "to rename" } else { "renamed" };
        parts.push(format!("{} {renamed}", describe.renamed.len()));
    }
    if !describe.outputs.is_empty() {
        parts.push(count(describe.outputs.len(), "output changed", "outputs changed"));
    }
    let failed = failed(describe);
    let tells_of_failures = !failed.is_empty();
    parts.extend(failed);
    let ended = match (describe.interrupted, describe.went_well()) {
        (true, _) => ", then interrupted",
        (false, false) if tells_of_failures => "",
        (false, false) => ", and not all went well",
        (false, true) => "",
    };
    // What was settled is told before.
    match (parts.is_empty(), describe.settled.is_empty()) {
        (true, true) if describe.went_well() => "nothing to do".to_owned(),
        (true, false) if describe.went_well() => "nothing else was to be done".to_owned(),
        (true, true) => format!("nothing done{ended}"),
        (true, false) => format!("nothing else done{ended}"),
        (false, _) => format!("{}{ended}", parts.join(", ")),
    }
}
