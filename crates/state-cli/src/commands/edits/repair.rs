//! The command `repair`: fixes violations of integrity rules.

use super::operate::MessageArg;
use crate::context::{CommandResult, Context};
use crate::edit_review::{self, EffectView};
use crate::error::CliError;
use crate::repair_steps::{self, KeepArg};
use serde::Serialize;
use state_core::repair::RepairResult;
use state_core::verify::Violation;
use state_core::{RevisionId, StackName, State, UpdateKind};
use state_manager::{Session, UpdateRequest};

/// Fix integrity violations in the state
///
/// The repair is deterministic and makes the smallest possible change. All steps are shown before they are done. A valid
/// state is not changed. A repair never deletes or orphans a real object: of an object that is recorded twice, one copy is
/// dropped; between different objects with the same address, you choose with `--keep`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only show the repair steps
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    keep: KeepArg,
    #[command(flatten)]
    remember: MessageArg,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct RepairReport<'a> {
    stack: String,
    revision: Option<RevisionId>,
    changed: bool,
    dry_run: bool,
    steps: Vec<repair_steps::StepView<'a>>,
    remaining: &'a [Violation],
    /// What the system of the stack's format will do because of the repair.
    #[serde(skip_serializing_if = "<[EffectView]>::is_empty")]
    effects: &'a [EffectView],
}

/// A repair, and what the system of the stack's format will do because of it.
struct Repair {
    result: RepairResult,
    effects: Vec<EffectView>,
}

fn repaired(context: &Context, args: &Args, object: &str, state: &State) -> Result<Repair, CliError> {
    let snapshot = state.snapshot(String::new(), context.now());
    let result = args.keep.repair(object, &["repair"], &snapshot)?;
    let origin = edit_review::origin(context, state);
    let review = edit_review::review(
        object,
        origin,
        snapshot.entries.iter(),
        result.snapshot.entries.iter(),
    )?;
    Ok(Repair {
        result,
        effects: review.effects,
    })
}

/// Runs the command `repair` and returns its report.
pub(super) async fn run(context: &Context, args: &Args) -> CommandResult {
    let stack = context.store.open_stack().await?;
    let name = stack.name().clone();
    let object = format!("stack {}", name.short());
    if args.dry_run {
        let view = stack.tip().await?;
        let repaired = repaired(context, args, &object, &view.state)?;
        let now = (view.state.current().cloned(), false);
        return report(context, args, &name, &repaired, now, Vec::new());
    }
    let work = async |session: &Session| {
        let state = session.state();
        let repaired = repaired(context, args, &object, &state)?;
        let result = &repaired.result;
        repair_steps::announce(context, result);
        edit_review::announce(context, &repaired.effects);
        if !result.is_valid() {
            return Err(repair_steps::unrepairable(&object, &result.remaining));
        }
        if result.steps.is_empty() {
            return Ok((repaired, state.current().cloned(), false));
        }
        let question = format!("Repair {object}?");
        context.prompt.confirm(&object, &question)?;
        let message = repair_steps::message(args.remember.message.as_deref());
        let request = UpdateRequest::new(UpdateKind::Edit).with_message(message);
        let snapshot = result.snapshot.clone();
        let revision = session.replace_entries(request, snapshot).await?;
        Ok((repaired, Some(revision), true))
    };
    let ((repaired, revision, changed), warnings) = context.store.locked(&stack, "repair", work).await?;
    let made = (revision, changed);
    report(context, args, &name, &repaired, made, warnings)
}

fn report(
    context: &Context,
    args: &Args,
    stack: &StackName,
    repair: &Repair,
    (revision, changed): (Option<RevisionId>, bool),
    warnings: Vec<String>,
) -> CommandResult {
    let repaired = &repair.result;
    let done = RepairReport {
        stack: stack.to_string(),
        revision,
        changed,
        dry_run: args.dry_run,
        steps: repair_steps::steps(repaired),
        remaining: &repaired.remaining,
        effects: &repair.effects,
    };
    context.report("repair", &done, warnings, |page| {
        if let Some(revision) = done.revision.as_ref().filter(|_| done.changed) {
            page.line(format_args!("repaired: now revision {revision}"));
        } else if repaired.steps.is_empty() && repaired.is_valid() {
            page.line("nothing to repair: the state is valid");
        } else {
            repair_steps::print(page, &repaired.steps);
            edit_review::print(page, &repair.effects);
            for violation in &repaired.remaining {
                page.line(format_args!("can't be repaired: {violation}"));
            }
        }
    })
}
