//! The command `undo`: restores the revision before the current one.

use super::operate::{EditReport, MessageArg, locked};
use super::preview;
use crate::context::{CommandResult, Context};
use crate::rollback_guard;
use state_core::UpdateKind;
use state_manager::{Session, UpdateRequest};

/// Undo the last change of the state
///
/// Writes a new revision with the state before the current revision. Undoing an undo restores the undone change. Only the
/// state changes; no real resource is changed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Undo even a move between stacks
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
        let state = session.state();
        let before = session.before_current().await?;
        let then = session.stack().get(&before).await?;
        let done = EditReport::prepared(session, preview::changes(state.entries(), then.entries.iter()));
        preview::show(context, &done.changes);
        if then.outputs != state.outputs().values {
            context
                .output
                .announce(|page| page.line("the stack's outputs also change"));
        }
        let object = format!("stack {}", session.stack().name().short());
        let crossed = rollback_guard::inspect(context, session.stack(), &state, &before).await?;
        rollback_guard::refuse(&object, &crossed, args.force)?;
        let question = format!("Restore {object} to revision {before}?");
        context.prompt.confirm(&object, &question)?;
        let undone = state.current().map(ToString::to_string).unwrap_or_default();
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
