//! Checks an edit of the state against the rules of the stack's format, and shows what the format's system will do.

use crate::context::Context;
use crate::error::CliError;
use crate::formats::{self, Format};
use crate::marks::count;
use crate::render::Page;
use crate::settings::HIDE;
use serde::Serialize;
use state_core::{SharedEntry, Snapshot, State};
use state_formats::{Action, EditProblem, EditReview, Effect, StateEdit};

/// How many effects a preview lists.
const LISTED: usize = 20;

/// How many problems an error lists.
const PROBLEMS: usize = 5;

/// The parts of a review that a command shows.
#[derive(Debug, Default)]
pub(crate) struct Review {
    /// What the system of the stack's format will do because of the edit.
    pub(crate) effects: Vec<EffectView>,
    /// What the format can't express.
    pub(crate) remarks: Vec<String>,
}

/// What the system of the stack's format will do with an object, for display and JSON.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct EffectView {
    action: Action,
    entry: String,
    /// Id of the object; masked if it is secret.
    id: Option<String>,
    text: String,
}

/// The format that the resources of a state came from.
pub(crate) fn origin(context: &Context, state: &State) -> Format {
    formats::all().origin(&state.snapshot(String::new(), context.now()))
}

/// Checks an edit of a state in this format.
///
/// # Errors
/// If the format can't hold the edited state. The error names the reason for each resource.
pub(crate) fn review<'a>(
    object: &str,
    format: Format,
    before: impl Iterator<Item = &'a SharedEntry>,
    after: impl Iterator<Item = &'a SharedEntry>,
) -> Result<Review, CliError> {
    let review = format.review(&StateEdit::between(before, after));
    if !review.problems.is_empty() {
        return Err(refusal(object, format, &review.problems));
    }
    Ok(shown(format, review))
}

fn shown(format: Format, review: EditReview) -> Review {
    let system = format.description().system;
    Review {
        effects: review.effects.iter().map(|effect| view(system, effect)).collect(),
        remarks: review.remarks,
    }
}

/// Checks the replacement of a snapshot by an earlier one in the format of the former. With `force`, problems become
/// remarks: a recorded state can always be restored.
///
/// # Errors
/// If the format can't hold the new snapshot.
pub(crate) fn restored(
    object: &str,
    before: &Snapshot,
    after: &Snapshot,
    force: bool,
) -> Result<Review, CliError> {
    let origin = formats::all().origin(before);
    let review = origin.review(&StateEdit::between(before.entries.iter(), after.entries.iter()));
    if review.problems.is_empty() {
        return Ok(shown(origin, review));
    }
    let refusal = refusal(object, origin, &review.problems);
    if !force {
        return Err(refusal.with_hint("restore the state anyway with `--force`"));
    }
    let mut forced = shown(origin, review);
    forced.remarks.push(refusal.message);
    Ok(forced)
}

fn refusal(object: &str, format: Format, problems: &[EditProblem]) -> CliError {
    let system = format.description().system;
    let listed: Vec<String> = problems
        .iter()
        .take(PROBLEMS)
        .map(|problem| format!("`{}`: {}", problem.entry, problem.reason))
        .collect();
    let more = match problems.len() - listed.len() {
        0 => String::new(),
        more => format!("; and {}", count(more, "more problem", "more problems")),
    };
    let message = format!(
        "cannot change the state: {system} could not load it: {}{more}",
        listed.join("; ")
    );
    let hint = problems.iter().find_map(|problem| problem.hint.clone());
    let error = CliError::refused(object, &message);
    match hint {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}

fn view(system: &str, effect: &Effect) -> EffectView {
    let entry = effect.entry.key().to_string();
    let id = HIDE.id(&effect.entry);
    let object = id.as_deref().unwrap_or("the object");
    let text = match effect.action {
        Action::Destroy => format!("{system} will DESTROY {object} ({entry})"),
        Action::Replace => format!("{system} will REPLACE {object} ({entry})"),
        Action::DestroyUnlessMoved => {
            format!("{system} will DESTROY {object} unless the configuration declares it as {entry}")
        }
        // Also for actions that a later version of the formats adds.
        _ => format!("{system} will FORGET {object} ({entry}): the object stays"),
    };
    EffectView {
        action: effect.action,
        entry,
        id,
        text,
    }
}

/// Prints one line for each effect, up to a limit.
pub(crate) fn print(page: &mut Page, effects: &[EffectView]) {
    for effect in effects.iter().take(LISTED) {
        page.line(format_args!("  ! {}", effect.text));
    }
    if effects.len() > LISTED {
        page.line(format_args!("  … and {} more", effects.len() - LISTED));
    }
}

/// Shows the effects on stderr before the confirmation. Prints nothing with `--json`, where the result contains them.
pub(crate) fn announce(context: &Context, effects: &[EffectView]) {
    if !effects.is_empty() {
        context.output.announce(|page| print(page, effects));
    }
}
