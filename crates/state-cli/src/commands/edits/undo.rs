//! `undo`: the revision before the current one comes back.

use super::operate::{Done, Remember, locked};
use super::preview;
use crate::context::{CommandResult, Context};
use crate::rollback_guard;
use state_core::UpdateKind;
use state_manager::{Session, UpdateRequest};

/// Take back what made the current revision: what was before comes back as a new revision. Undoing an undo redoes.
/// Only the record changes, not the world.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Even if entries moved to or from another stack with it: they would be in both then, or in none.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    remember: Remember,
}

/// Undoes.
pub(super) async fn run(context: &Context, args: &Args) -> CommandResult {
    let work = async |session: &Session| {
        let state = session.state();
        let before = session.before_current().await?;
        let then = session.stack().get(&before).await?;
        let done = Done::prepared(session, preview::changes(state.entries(), then.entries.iter()));
        preview::show(context, &done.changes);
        if then.outputs != state.outputs().values {
            context
                .output
                .announce(|page| page.line("the stack's outputs change too"));
        }
        let object = format!("stack {}", session.stack().name().short());
        let crossed = rollback_guard::look(context, session.stack(), &state, &before).await?;
        rollback_guard::refuse(&object, &crossed, args.force)?;
        let question = format!("Bring {object} back to what revision {before} held?");
        context.prompt.confirm(&object, &question)?;
        let undone = state.current().map(ToString::to_string).unwrap_or_default();
        let request = UpdateRequest {
            forced: !crossed.is_empty(),
            ..args
                .remember
                .request(UpdateKind::Rollback, &format!("undo of {undone}"))
        };
        Ok(done.made(session.rollback(request, &before).await?))
    };
    locked(context, "undo", work).await
}
