//! The command `repair`: fixes violations of integrity rules.

use super::operate::MessageArg;
use crate::context::{CommandResult, Context};
use crate::repair_steps;
use serde::Serialize;
use state_core::repair::{RepairResult, repair};
use state_core::verify::Violation;
use state_core::{RevisionId, StackName, State, UpdateKind};
use state_manager::Session;

/// Fix integrity violations in the state
///
/// The repair is deterministic and makes the smallest possible change. All steps are shown before they are done. A valid
/// state is not changed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only show the repair steps
    #[arg(long)]
    dry_run: bool,
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
}

/// Runs the command `repair` and returns its report.
pub(super) async fn run(context: &Context, args: &Args) -> CommandResult {
    let stack = context.store.open_stack().await?;
    let name = stack.name().clone();
    let of = |state: &State| repair(&state.snapshot(name.to_string(), context.now()));
    if args.dry_run {
        let view = stack.tip().await?;
        let repaired = of(&view.state);
        let now = (view.state.current().cloned(), false);
        return report(context, args, &name, &repaired, now, Vec::new());
    }
    let object = format!("stack {}", name.short());
    let work = async |session: &Session| {
        let state = session.state();
        let repaired = of(&state);
        repair_steps::announce(context, &repaired);
        if !repaired.is_valid() {
            return Err(repair_steps::unrepairable(&object, &repaired.remaining));
        }
        if repaired.steps.is_empty() {
            return Ok((repaired, state.current().cloned(), false));
        }
        let question = format!("Repair {object}?");
        context.prompt.confirm(&object, &question)?;
        let request = args.remember.request(UpdateKind::Edit, "repair");
        let snapshot = repaired.snapshot.clone();
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
    repaired: &RepairResult,
    (revision, changed): (Option<RevisionId>, bool),
    warnings: Vec<String>,
) -> CommandResult {
    let done = RepairReport {
        stack: stack.to_string(),
        revision,
        changed,
        dry_run: args.dry_run,
        steps: repair_steps::steps(repaired),
        remaining: &repaired.remaining,
    };
    context.report("repair", &done, warnings, |page| {
        if let Some(revision) = done.revision.as_ref().filter(|_| done.changed) {
            page.line(format_args!("repaired: now revision {revision}"));
        } else if repaired.steps.is_empty() && repaired.is_valid() {
            page.line("nothing to repair: the state is valid");
        } else {
            repair_steps::print(page, &repaired.steps);
            for violation in &repaired.remaining {
                page.line(format_args!("can't be repaired: {violation}"));
            }
        }
    })
}
