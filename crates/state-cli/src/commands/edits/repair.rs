//! `repair`: mend what breaks integrity rules.

use super::operate::Remember;
use crate::context::{CommandResult, Context};
use crate::mending;
use serde::Serialize;
use state_core::repair::{RepairResult, repair};
use state_core::verify::Violation;
use state_core::{RevisionId, StackName, State, UpdateKind};
use state_manager::Session;

/// Mend what breaks integrity rules: deterministic, with as little change as it takes, every step shown before. A state
/// that breaks no rule is left alone.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only show the steps.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    remember: Remember,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Done<'a> {
    stack: String,
    revision: Option<RevisionId>,
    changed: bool,
    dry_run: bool,
    steps: Vec<mending::StepView<'a>>,
    remaining: &'a [Violation],
}

/// Repairs.
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
        mending::announce(context, &repaired);
        if !repaired.is_valid() {
            return Err(mending::beyond(&object, &repaired.remaining));
        }
        if repaired.steps.is_empty() {
            return Ok((repaired, state.current().cloned(), false));
        }
        let question = format!("Repair {object} like this?");
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
    let done = Done {
        stack: stack.to_string(),
        revision,
        changed,
        dry_run: args.dry_run,
        steps: mending::steps(repaired),
        remaining: &repaired.remaining,
    };
    context.report("repair", &done, warnings, |page| {
        if let Some(revision) = done.revision.as_ref().filter(|_| done.changed) {
            page.line(format_args!("repaired: now revision {revision}"));
        } else if repaired.steps.is_empty() && repaired.is_valid() {
            page.line("nothing to repair: no rule is broken");
        } else {
            mending::print(page, &repaired.steps);
            for violation in &repaired.remaining {
                page.line(format_args!("stays broken: {violation}"));
            }
        }
    })
}
