//! Operations under one lock, as one revision.

use super::preview::{self, EntryChange};
use super::refusal;
use crate::context::Context;
use crate::error::CliError;
use crate::output::Report;
use serde::Serialize;
use state_core::surgery::{Operation, Surgery};
use state_core::{RevisionId, State, UpdateKind};
use state_manager::{Session, UpdateRequest};

/// What is to be done.
pub(super) struct Request {
    /// The command's name, and the kind of what it prints.
    pub(super) kind: &'static str,
    pub(super) operations: Vec<Operation>,
    pub(super) message: Option<String>,
}

/// What became of a change by hand.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Done {
    pub(super) stack: String,
    pub(super) revision: Option<RevisionId>,
    pub(super) changed: bool,
    pub(super) changes: Vec<EntryChange>,
}

impl Done {
    /// Tells of it.
    pub(super) fn report(
        &self,
        context: &Context,
        kind: &'static str,
        warnings: Vec<String>,
    ) -> Result<Report, CliError> {
        context.report(kind, self, warnings, |page| {
            match self.revision.as_ref().filter(|_| self.changed) {
                Some(revision) => page.line(format_args!(
                    "{}: now revision {revision}",
                    preview::summary(&self.changes)
                )),
                None => page.line("nothing changed"),
            }
        })
    }
}

/// Performs them.
pub(super) async fn run(context: &Context, request: &Request) -> Result<Report, CliError> {
    let stack = context.store.open_stack().await?;
    let work = async |session: &Session| {
        let state = session.state();
        let surgery = perform(&state, &request.operations)?;
        commit(context, session, surgery, request).await
    };
    let (done, warnings) = context.store.locked(&stack, request.kind, work).await?;
    done.report(context, request.kind, warnings)
}

/// Performs operations on a copy. When there are several, a refusal names the one.
fn perform(state: &State, operations: &[Operation]) -> Result<Surgery, CliError> {
    let mut surgery = Surgery::on(state);
    for (index, operation) in operations.iter().enumerate() {
        if let Err(refused) = surgery.perform(operation) {
            let number = (operations.len() > 1).then_some(index + 1);
            return Err(refusal::told(refused, surgery.state(), number));
        }
    }
    Ok(surgery)
}

/// Shows what changes, asks, and makes the revision.
pub(super) async fn commit(
    context: &Context,
    session: &Session,
    surgery: Surgery,
    request: &Request,
) -> Result<Done, CliError> {
    let state = session.state();
    let name = session.stack().name();
    let mut done = Done {
        stack: name.to_string(),
        revision: state.current().cloned(),
        changed: false,
        changes: preview::changes(state.entries(), surgery.state().entries()),
    };
    if done.changes.is_empty() {
        return Ok(done);
    }
    preview::show(context, &done.changes);
    let object = format!("stack {}", name.short());
    context
        .prompt
        .confirm(&object, &format!("Change the record of {object} like this?"))?;
    let forced = request
        .operations
        .iter()
        .any(|operation| matches!(operation, Operation::Rm { force: true, .. }));
    let edit = UpdateRequest {
        message: request.message.clone().unwrap_or_else(|| request.kind.to_owned()),
        forced,
        ..UpdateRequest::new(UpdateKind::Edit)
    };
    done.revision = Some(session.edit(edit, &state, surgery.into_changes()).await?);
    done.changed = true;
    Ok(done)
}
