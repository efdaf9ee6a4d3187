//! Steps as a tree: what contains what, a sign for what happens to it, and which properties change.

use super::outcome::Outcome;
use super::step::StepView;
use crate::marks::count;
use crate::render::page::{Page, Style};
use state_engine::StepOp;
use std::collections::{BTreeMap, BTreeSet};

/// What stands for a value that nobody knows yet.
const LATER: &str = "(known after it is done)";

/// What would be done, before somebody is asked, or by a command that only looks.
pub(super) fn preview(page: &mut Page, told: &Outcome) {
    for renamed in &told.renamed {
        page.styled(Style::Warn, ">");
        page.line(format_args!(" {} → {}", renamed.from, renamed.to));
    }
    steps(page, told);
    outputs(page, told);
    troubles(page, told);
    page.line(summary(told));
}

/// What a command says in the end.
pub(super) fn report(page: &mut Page, done: &Outcome) {
    for settled in &done.settled {
        page.line(settled.told());
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

fn steps(page: &mut Page, told: &Outcome) {
    let mut of: BTreeMap<&str, Vec<&StepView>> = BTreeMap::new();
    let mut order: Vec<&str> = Vec::new();
    for step in &told.steps {
        // What contains it is shown too, changed or not. Parents come from outside: they could go in a circle.
        let mut line = vec![&*step.address];
        while let Some(parent) = line.last().and_then(|child| told.parents.get(*child))
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
        let parent = told.parents.get(address).map(String::as_str);
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
                let old = crate::render::change::short(old);
                page.space("    ");
                page.styled(Style::Warn, "~");
                page.line(format_args!(" {name}: {old} → {LATER}"));
            }
            _ => change.print_as(page, &name),
        }
    }
    let is_told = |name: &String| {
        let pointer = format!("/inputs/{name}");
        step.changes.iter().any(|change| change.pointer == pointer)
    };
    for name in step.unknown.iter().filter(|name| !is_told(name)) {
        page.space(&indent(depth));
        page.space("    ");
        page.styled(Style::Warn, "~");
        page.line(format_args!(" {name}: {LATER}"));
    }
}

/// What the sign doesn't tell.
fn note(step: &StepView) -> Option<String> {
    match step.does {
        StepOp::Refresh if !step.stays => Some("it is gone".to_owned()),
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

fn outputs(page: &mut Page, told: &Outcome) {
    // What a run that failed left unknown stays as it was: its failures say more.
    let unknown = told.unknown_outputs.iter().filter(|_| told.preview);
    if told.outputs.is_empty() && unknown.clone().next().is_none() {
        return;
    }
    page.line("outputs");
    for change in &told.outputs {
        change.print(page);
    }
    for name in unknown {
        page.space("    ");
        page.styled(Style::Warn, "~");
        page.line(format_args!(" {name}: {LATER}"));
    }
}

/// What failed, what couldn't be tried, what is pending, and what ended it.
fn troubles(page: &mut Page, told: &Outcome) {
    for failure in &told.failures {
        page.styled(Style::Bad, "failed:");
        let op = failure.op.map(|op| format!("{op} of ")).unwrap_or_default();
        page.line(format_args!(" {op}{}", failure.address));
        for reason in &failure.reasons {
            page.block(&format!("  {reason}"));
        }
    }
    for skipped in &told.skipped {
        page.styled(Style::Warn, "skipped:");
        page.line(format_args!(" {}: {}", skipped.address, skipped.reason));
    }
    for pending in &told.pending {
        page.styled(Style::Warn, "pending:");
        page.line(format_args!(
            " {} of {}, {}",
            pending.op, pending.target, pending.id
        ));
    }
    if !told.pending.is_empty() {
        page.styled(Style::Good, "hint:");
        page.line(
            " the next `up` or `refresh` asks the providers what became of it; or say it: `statectl pending resolve`",
        );
    }
    if let Some(error) = &told.error {
        page.styled(Style::Bad, "error:");
        page.line(format_args!(" {error}"));
    }
    if let Some(hint) = &told.hint {
        page.styled(Style::Good, "hint:");
        page.line(format_args!(" {hint}"));
    }
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

/// How many of each, in one line.
pub(super) fn summary(told: &Outcome) -> String {
    let mut parts = Vec::new();
    let replaces = told.steps.iter().any(StepView::is_replacement);
    for (before, after, ops) in DONE {
        let steps = told.steps.iter().filter(|step| ops.contains(&step.does));
        // The second half of a replacement is told with the first.
        let number = steps
            .filter(|step| !(replaces && step.does == StepOp::DeleteReplaced))
            .count();
        if number > 0 {
            parts.push(format!("{number} {}", if told.preview { before } else { after }));
        }
    }
    if !told.renamed.is_empty() {
        parts.push(format!("{} renamed", told.renamed.len()));
    }
    if !told.outputs.is_empty() {
        parts.push(count(told.outputs.len(), "output changed", "outputs changed"));
    }
    let ended = match (told.interrupted, told.went_well()) {
        (true, _) => ", then interrupted",
        (false, false) => ", and not all went well",
        (false, true) => "",
    };
    // What was settled is told before.
    match (parts.is_empty(), told.settled.is_empty()) {
        (true, true) if told.went_well() => "nothing to do".to_owned(),
        (true, false) if told.went_well() => "nothing else was to be done".to_owned(),
        (true, true) => format!("nothing done{ended}"),
        (true, false) => format!("nothing else done{ended}"),
        (false, _) => format!("{}{ended}", parts.join(", ")),
    }
}
