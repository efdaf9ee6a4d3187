//! The command `undo`: restores the revision before the current one.

use super::operate::{EditReport, MessageArg, locked};
use super::preview;
use crate::context::{CommandResult, Context};
use crate::edit_review;
use crate::error::CliError;
use crate::reading::opened;
use crate::rollback_guard;
use state_core::sensitive::{KeptMarks, keep_marks};
use state_core::{Error, Serial, UpdateKind};
use state_manager::{Session, UpdateRequest};

/// The way out when the current revision can't be undone.
const HINT: &str = "change recipients with `statectl recipients add RECIPIENT` and `statectl recipients remove RECIPIENT`; restore any revision \
                    with `statectl rollback REV`";

/// Undo the last change of the state
///
/// Writes a new revision with the state before the current revision. Undoing an undo restores the undone change. Only the
/// state changes; no real resource is changed. Recipients aren't part of the state, and values that were encrypted stay
/// encrypted.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Undo even a move between stacks, and restore even a state that its system can't load
    ///
    /// The moved resources would then be in both stacks, or in none.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    remember: MessageArg,
}

/// Runs the command `undo` and returns its report.
pub(super) async fn run(context: &Context, args: &Args) -> CommandResult {
    let work = async |session: &Session| {
        let view = session.view().await?;
        let before = view.before_current().await.map_err(|error| match error {
            Error::Conflict { .. } if view.state.serial() <= Serial(1) => {
                CliError::from(error).with_hint("list the revisions with `statectl history`")
            }
            Error::Conflict { .. } => CliError::from(error).with_hint(HINT),
            other => other.into(),
        })?;
        // Both states are opened: a value that was sealed since stays sealed, also in the preview.
        let now = opened(&view, view.snapshot()).await?;
        let mut then = opened(&view, view.get(&before).await?).await?;
        keep_marks(&now, &mut then, KeptMarks::All);
        let mut done =
            EditReport::prepared(session, preview::changes(now.entries.iter(), then.entries.iter()));
        let object = format!("stack {}", session.stack().name().short());
        let review = edit_review::restored(&object, &now, &then, args.force)?;
        done.effects = review.effects;
        done.warnings = review.remarks;
        preview::show(context, &done.changes);
        edit_review::announce(context, &done.effects);
        if then.outputs != now.outputs {
            context
                .output
                .announce(|page| page.line("the stack's outputs also change"));
        }
        let crossed = rollback_guard::inspect(context, &view, &before).await?;
        rollback_guard::refuse(&object, &crossed, args.force)?;
        let question = format!("Restore {object} to revision {before}?");
        context.prompt.confirm(&object, &question)?;
        let undone = view.state.current().map(ToString::to_string).unwrap_or_default();
        let request = UpdateRequest {
            forced: !crossed.is_empty(),
            ..args
                .remember
                .request(UpdateKind::Rollback, &format!("undo of {undone}"))
        };
        Ok(done.committed(session.rollback(request, &before).await?))
    };
    locked(context, "undo", work).await
}
