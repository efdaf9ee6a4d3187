//! Operations under one lock, as one revision.

use super::preview::{self, EntryChange};
use crate::context::{CommandResult, Context};
use crate::error::CliError;
use crate::exit::ExitCode;
use crate::marks::{count, first};
use clap::Args;
use serde::Serialize;
use state_core::edits::{Dependent, Operation, Refusal, StateEditor};
use state_core::verify::{Rule, Violation};
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

impl Remember {
    /// The request for an update; the history gets the default where the command line has no message.
    pub(super) fn request(&self, kind: UpdateKind, default: &str) -> UpdateRequest {
        let message = self.message.as_deref().unwrap_or(default);
        UpdateRequest::new(kind).with_message(message)
    }
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
    let work = async |session: &Session| {
        let edits = perform(&session.state(), &request.operations)?;
        commit(context, session, edits, request).await
    };
    locked(context, request.kind, work).await
}

/// Changes the stack under the writer lock, and tells what became of it.
pub(super) async fn locked(
    context: &Context,
    kind: &'static str,
    work: impl AsyncFnOnce(&Session) -> Result<Done, CliError>,
) -> CommandResult {
    let stack = context.store.open_stack().await?;
    let (done, warnings) = context.store.locked(&stack, kind, work).await?;
    context.report(kind, &done, warnings, |page| {
        let summary = preview::summary(&done.changes);
        match done.revision.as_ref().filter(|_| done.changed) {
            Some(revision) => page.line(format_args!("{summary}: now revision {revision}")),
            None => page.line("nothing changed"),
        }
    })
}

/// Performs operations on a copy. When there are several, a refusal names the one.
fn perform(state: &State, operations: &[Operation]) -> Result<StateEditor, CliError> {
    let mut edits = StateEditor::on(state);
    for (index, operation) in operations.iter().enumerate() {
        if let Err(refusal) = edits.perform(operation) {
            let number = (operations.len() > 1).then_some(index + 1);
            return Err(refused(refusal, edits.state(), number));
        }
    }
    Ok(edits)
}

/// Shows what changes, asks, and makes the revision.
pub(super) async fn commit(
    context: &Context,
    session: &Session,
    edits: StateEditor,
    request: &Request,
) -> Result<Done, CliError> {
    let state = session.state();
    let changes = preview::changes(state.entries(), edits.state().entries());
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
    let revision = session.edit(edit, &state, edits.into_changes()).await?;
    Ok(done.made(revision))
}

/// The error for a refusal; `number` counts the operations of a batch.
pub(super) fn refused(refusal: Refusal, state: &State, number: Option<usize>) -> CliError {
    let object = match number {
        None => "the change".to_owned(),
        Some(number) => format!("operation {number}"),
    };
    let new = |code, message: &str| CliError::new(code, object.as_str(), message);
    match refusal {
        Refusal::NoEntry { ref address, .. } => {
            let candidates = state.entries().map(|entry| entry.address.as_str());
            new(ExitCode::NotFound, &refusal.to_string()).with_nearest(
                address.as_str(),
                candidates,
                "`statectl list` lists all of them",
                "see what there is with `statectl list`",
            )
        }
        Refusal::Dependents(dependents) => {
            let references = count(dependents.len(), "reference is", "references are");
            let message = format!("{references} still made to what would go; nothing was changed");
            still_referenced(&object, &message, dependents)
                .with_hint("remove what depends on it too: `--cascade`; or only the references: `--force`")
        }
        Refusal::Protected(_) => new(ExitCode::Refused, &refusal.to_string())
            .with_hint("unprotect it first: `statectl unprotect ADDR`; or say `--force`"),
        Refusal::Pending(_) => new(ExitCode::Conflict, &refusal.to_string())
            .with_hint("resolve them first: `statectl pending list`, then `statectl pending resolve ID …`"),
        Refusal::Breaks { violations } => {
            let message = "it would break integrity rules; nothing was changed";
            CliError {
                violations,
                ..new(ExitCode::Integrity, message)
            }
        }
        other => new(ExitCode::Conflict, &other.to_string()),
    }
}

/// A refusal because something depends on what would go.
pub(super) fn still_referenced(object: &str, message: &str, dependents: Vec<Dependent>) -> CliError {
    let violation =
        |Dependent { entry, on }| Violation::of(Rule::StillReferenced, entry, format!("it depends on {on}"));
    CliError {
        violations: dependents.into_iter().map(violation).collect(),
        ..CliError::refused(object, message)
    }
}
