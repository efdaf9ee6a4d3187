//! Operations under one lock, as one revision.

use super::preview::{self, EntryChange};
use super::refusal;
use crate::context::{CommandResult, Context};
use crate::error::CliError;
use crate::marks::first;
use clap::Args;
use serde::Serialize;
use state_core::surgery::{Operation, Surgery};
use state_core::{Address, DeposedKey, RevisionId, State, UpdateKind};
use state_manager::{Session, UpdateRequest};

/// What is to be done.
pub(super) struct Request {
    /// The command's name, and the kind of what it prints.
    pub(super) kind: &'static str,
    pub(super) operations: Vec<Operation>,
    pub(super) message: Option<String>,
}

impl Request {
    /// One operation, and what the history tells of it by default.
    pub(super) fn of(kind: &'static str, operation: Operation, remember: &Remember, default: String) -> Self {
        Self {
            kind,
            operations: vec![operation],
            message: Some(remember.message.clone().unwrap_or(default)),
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Remember {
    /// What to remember in the history.
    #[arg(long, short)]
    pub(super) message: Option<String>,
}

/// The key of a deposed object, for the command line.
pub(super) fn deposed_key(text: &str) -> Result<DeposedKey, String> {
    DeposedKey::new(text).map_err(|error| error.to_string())
}

/// How many addresses the history tells of.
const NAMED: usize = 5;

/// Addresses as the history tells of them, with a space in front; empty for none.
pub(super) fn named(addresses: &[Address]) -> String {
    match addresses {
        [] => String::new(),
        some => format!(" {}", first(NAMED, some, " ")),
    }
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
    ) -> CommandResult {
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

impl Done {
    /// That a session changes these entries, and nothing yet.
    pub(super) fn prepared(session: &Session, changes: Vec<EntryChange>) -> Self {
        Self {
            stack: session.stack().name().to_string(),
            revision: session.state().current().cloned(),
            changed: false,
            changes,
        }
    }

    /// Shows what changes, and asks.
    pub(super) fn confirm(&self, context: &Context, session: &Session) -> Result<(), CliError> {
        preview::show(context, &self.changes);
        let object = format!("stack {}", session.stack().name().short());
        let question = format!("Change the record of {object} like this?");
        context.prompt.confirm(&object, &question)
    }

    /// That it was changed.
    pub(super) fn made(self, revision: RevisionId) -> Self {
        Self {
            revision: Some(revision),
            changed: true,
            ..self
        }
    }
}

/// Performs them.
pub(super) async fn run(context: &Context, request: &Request) -> CommandResult {
    let stack = context.store.open_stack().await?;
    let work = async |session: &Session| {
        let surgery = perform(&session.state(), &request.operations)?;
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
    let changes = preview::changes(state.entries(), surgery.state().entries());
    let done = Done::prepared(session, changes);
    if done.changes.is_empty() {
        return Ok(done);
    }
    done.confirm(context, session)?;
    let is_forced = |operation: &Operation| matches!(operation, Operation::Rm { force: true, .. });
    let edit = UpdateRequest {
        message: request.message.clone().unwrap_or_else(|| request.kind.to_owned()),
        forced: request.operations.iter().any(is_forced),
        ..UpdateRequest::new(UpdateKind::Edit)
    };
    let revision = session.edit(edit, &state, surgery.into_changes()).await?;
    Ok(done.made(revision))
}
