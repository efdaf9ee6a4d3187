//! `pending resolve --from FILE`: a result that waited in a file while its store was gone.

use crate::context::Context;
use crate::error::CliError;
use crate::output::Report;
use crate::store;
use serde::Serialize;
use state_core::{RevisionId, UpdateKind};
use state_manager::{BroughtBack, Session, Spooled, UpdateRequest};
use std::path::Path;

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Brought {
    stack: String,
    operation: String,
    /// None when the result had been recorded all the same.
    revision: Option<RevisionId>,
    still_pending: usize,
}

/// Records the result.
pub(super) async fn resolve(context: &Context, file: &Path) -> Result<Report, CliError> {
    let spooled = Spooled::read(file)?;
    let stacks = store::open(context).await?;
    let name = context.global.stack.as_ref().unwrap_or(&spooled.stack);
    let stack = store::find(context, &stacks, name).await?;
    let id = spooled.end.id;
    let work = async |session: &Session| {
        let message = format!("pending operation {id}: its result from a file");
        let request = UpdateRequest::new(UpdateKind::Edit).with_message(message);
        let back = session.bring_back(request, &spooled).await?;
        Ok((back, session.state().pending().count()))
    };
    let session = store::lock(context, &stack, "pending resolve").await?;
    let ((back, still_pending), warnings) = store::held(session, work).await?;
    let brought = Brought {
        stack: stack.name().to_string(),
        operation: id.to_string(),
        revision: match back {
            BroughtBack::Recorded(revision) => Some(revision),
            _ => None,
        },
        still_pending,
    };
    Report::new(context, "pending-resolve-from", &brought, warnings, |page| {
        match &brought.revision {
            Some(revision) => page.line(format_args!(
                "recorded the result of {id}: now revision {revision}"
            )),
            None => page.line(format_args!("the result of {id} was recorded already")),
        }
        page.line(format_args!("{} isn't needed any more", file.display()));
        if brought.still_pending > 0 {
            page.line(format_args!("still pending: {}", brought.still_pending));
        }
    })
}
