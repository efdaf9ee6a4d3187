//! The steps of a repair, for display and JSON, and the choice between objects that share an address.

use crate::context::Context;
use crate::error::CliError;
use crate::exit::ExitCode;
use crate::invocation::quoted;
use crate::marks::count;
use crate::render::Page;
use crate::settings::{HIDDEN, HIDE};
use serde::Serialize;
use state_core::repair::{Choice, DuplicateKey, Duplicates, RepairResult, Step, repair, repair_with};
use state_core::verify::Violation;
use state_core::{Entry, Snapshot};
use state_formats::mark_secrets;

/// The flag that chooses between different objects with the same address.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct KeepArg {
    /// Of different objects with the same address, keep the one with this id
    ///
    /// `ADDR=@2` keeps the second object, for objects without an id. The other objects keep existing, and the state no longer
    /// manages them. Repeat the flag for several addresses.
    #[arg(long, value_name = "ADDR=ID")]
    keep: Vec<String>,
}

/// A repair step as JSON, with its description.
#[derive(Serialize)]
pub(crate) struct StepView<'a> {
    #[serde(flatten)]
    step: &'a Step,
    text: String,
}

impl KeepArg {
    /// Whether the flag isn't given.
    pub(crate) const fn is_empty(&self) -> bool {
        self.keep.is_empty()
    }

    /// Repairs a snapshot. `command` is the command line to which `--keep` can be added.
    ///
    /// # Errors
    /// If several objects share an address and no flag chooses one of them, or if a flag names no such object. A
    /// confirmation by `--yes` doesn't choose: a wrong choice would orphan a real object.
    pub(crate) fn repair(
        &self,
        object: &str,
        command: &[&str],
        snapshot: &Snapshot,
    ) -> Result<RepairResult, CliError> {
        let repaired = repair(snapshot);
        let mut unused: Vec<&String> = self.keep.iter().collect();
        let mut choices = Vec::new();
        for duplicate in &repaired.undecided {
            let mut named = self.keep.iter().filter_map(|flag| {
                let value = flag.strip_prefix(&duplicate.key.to_string())?.strip_prefix('=')?;
                Some((flag, position(duplicate, value)?))
            });
            if let Some((flag, keep)) = named.next() {
                unused.retain(|other| *other != flag);
                choices.push(Choice {
                    key: duplicate.key.clone(),
                    keep,
                });
            }
        }
        if let Some(flag) = unused.first() {
            let message = format!(
                "`--keep {}` names no object that shares its address with another one",
                quoted(flag)
            );
            return Err(CliError::usage(object, &message)
                .with_hint("run the command without `--keep`: it lists the objects to choose from"));
        }
        let repaired = match choices.is_empty() {
            true => repaired,
            false => repair_with(snapshot, Duplicates::Choose(&choices)),
        };
        match repaired.undecided.as_slice() {
            [] => Ok(repaired),
            undecided => Err(undecided_error(object, command, snapshot, undecided)),
        }
    }
}

/// The position of the object that a flag names: by its id, or `@1` for the first one.
fn position(duplicate: &DuplicateKey, value: &str) -> Option<usize> {
    let count = duplicate.entries.len();
    if let Some(number) = value
        .strip_prefix('@')
        .and_then(|number| number.parse::<usize>().ok())
    {
        return number.checked_sub(1).filter(|position| *position < count);
    }
    let mut with_id = (0..count).filter(|at| duplicate.entries[*at].id.as_deref() == Some(value));
    // An id that several objects share doesn't choose one of them.
    let first = with_id.next()?;
    with_id.next().is_none().then_some(first)
}

/// The names of the objects of a duplicate: each id, or `@1` if the id is missing, secret, or shared.
fn names(snapshot: &Snapshot, duplicate: &DuplicateKey) -> Vec<String> {
    // The snapshot of a file has only the marks of the file. Ids may contain values that are known to be secret.
    let mut marked = Snapshot {
        entries: duplicate.entries.clone(),
        outputs: snapshot.outputs.clone(),
        ..snapshot.clone()
    };
    mark_secrets(&mut marked);
    let ids: Vec<Option<String>> = marked.entries.iter().map(|entry| shown_id(entry)).collect();
    let is_unique = |id: &String| ids.iter().flatten().filter(|other| *other == id).count() == 1;
    let name = |(at, id): (usize, &Option<String>)| match id {
        Some(id) if is_unique(id) => id.clone(),
        _ => format!("@{}", at + 1),
    };
    ids.iter().enumerate().map(name).collect()
}

fn shown_id(entry: &Entry) -> Option<String> {
    HIDE.id(entry).filter(|id| id != HIDDEN && !id.starts_with('@'))
}

fn undecided_error(
    object: &str,
    command: &[&str],
    snapshot: &Snapshot,
    undecided: &[DuplicateKey],
) -> CliError {
    let named: Vec<(String, Vec<String>)> = undecided
        .iter()
        .map(|duplicate| (duplicate.key.to_string(), names(snapshot, duplicate)))
        .collect();
    let lines: Vec<String> = named
        .iter()
        .map(|(key, ids)| format!("{key} is recorded for {} objects: {}", ids.len(), ids.join(", ")))
        .collect();
    let message = format!("cannot repair without a choice: {}", lines.join("; "));
    let command: Vec<String> = command.iter().map(|word| quoted(word)).collect();
    let keep = |pick: &dyn Fn(&[String]) -> String| {
        let flags = named
            .iter()
            .map(|(key, ids)| format!(" --keep {}", quoted(&format!("{key}={}", pick(ids)))));
        format!("`statectl {}{}`", command.join(" "), flags.collect::<String>())
    };
    let (first, last) = (
        keep(&|ids| ids.first().cloned().unwrap_or_default()),
        keep(&|ids| ids.last().cloned().unwrap_or_default()),
    );
    CliError::new(ExitCode::Integrity, object, &message).with_hint(format!(
        "find out which object is in use, and keep it: {first} or {last}; the other one keeps existing, unmanaged"
    ))
}

/// The steps of a repair as JSON.
pub(crate) fn steps(repaired: &RepairResult) -> Vec<StepView<'_>> {
    let view = |step| StepView {
        step,
        text: step.to_string(),
    };
    repaired.steps.iter().map(view).collect()
}

/// Prints the steps of a repair.
pub(crate) fn print(page: &mut Page, steps: &[Step]) {
    for step in steps {
        page.line(format_args!("  {step}"));
    }
    page.line(count(steps.len(), "repair step", "repair steps"));
}

/// Shows the steps on stderr before the confirmation. Prints nothing with `--json`, where the result contains them.
pub(crate) fn announce(context: &Context, repaired: &RepairResult) {
    if !repaired.steps.is_empty() {
        context.output.announce(|page| print(page, &repaired.steps));
    }
}

/// The message of the history for a change that a repair made.
pub(crate) fn message(given: Option<&str>) -> String {
    match given {
        Some(given) => format!("repair: {given}"),
        None => "repair".to_owned(),
    }
}

/// The error for violations that a repair can't fix.
pub(crate) fn unrepairable(object: &str, remaining: &[Violation]) -> CliError {
    let violations = count(remaining.len(), "violation", "violations");
    let message = format!("cannot repair the state: {violations} would remain");
    let mut error = CliError::new(ExitCode::Integrity, object, &message)
        .with_hint("correct the state with `statectl edit`, or the file before the import");
    error.violations = remaining.to_vec();
    error
}
