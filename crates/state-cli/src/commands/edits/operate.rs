//! Performs edit operations under one writer lock, as one revision.

use super::preview::{self, EntryChange};
use crate::context::{CommandResult, Context};
use crate::edit_review::{self, EffectView, Review};
use crate::error::CliError;
use crate::exit::ExitCode;
use crate::invocation::quoted;
use crate::marks::{count, first};
use crate::reserve::with_reserve;
use crate::unmarked_secrets;
use clap::Args;
use serde::Serialize;
use state_core::edits::{Dependent, Operation, Refusal, StateEditor, selected};
use state_core::verify::{Rule, Violation};
use state_core::{Address, DeposedKey, RevisionId, SharedEntry, StackName, State, UpdateKind};
use state_manager::{Session, UpdateRequest};
use std::fmt::Display;

/// The edit operations of a command.
pub(super) struct Request {
    /// The command's name, which is also the kind of its JSON document.
    pub(super) kind: &'static str,
    pub(super) operations: Vec<Operation>,
    pub(super) message: Option<String>,
}

impl Request {
    /// A request with one operation, and the history message to use if `--message` isn't given.
    pub(super) fn of(
        kind: &'static str,
        operation: Operation,
        remember: &MessageArg,
        default: String,
    ) -> Self {
        Self {
            kind,
            operations: vec![operation],
            message: Some(remember.message.clone().unwrap_or(default)),
        }
    }
}

/// Arguments of the flag `--message`, shared by all edits.
#[derive(Debug, Args)]
pub(crate) struct MessageArg {
    /// Message to record in the history
    #[arg(long, short)]
    pub(super) message: Option<String>,
}

impl MessageArg {
    /// The request for an update, with the default message if `--message` isn't given.
    pub(super) fn request(&self, kind: UpdateKind, default: &str) -> UpdateRequest {
        let message = self.message.as_deref().unwrap_or(default);
        UpdateRequest::new(kind).with_message(message)
    }
}

/// Parses the key of a deposed resource from the command line.
pub(super) fn deposed_key(text: &str) -> Result<DeposedKey, String> {
    DeposedKey::new(text).map_err(|error| error.to_string())
}

/// How many addresses a default history message names.
const NAMED: usize = 5;

/// How many resources an error lists.
const LISTED: usize = 20;

/// Addresses for a default history message, with a space in front; empty for no addresses.
pub(super) fn named(addresses: &[impl Display]) -> String {
    match addresses {
        [] => String::new(),
        some => format!(" {}", first(NAMED, some, " ")),
    }
}

/// The report of an edit command.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct EditReport {
    pub(super) stack: String,
    pub(super) revision: Option<RevisionId>,
    pub(super) changed: bool,
    pub(super) changes: Vec<EntryChange>,
    /// What the system of the stack's format will do because of the edit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) effects: Vec<EffectView>,
    /// Warnings for the end of the command.
    #[serde(skip)]
    pub(super) warnings: Vec<String>,
}

impl EditReport {
    /// A report with changes that are not written yet.
    pub(super) fn prepared(session: &Session, changes: Vec<EntryChange>) -> Self {
        Self {
            stack: session.stack().name().to_string(),
            revision: session.state().current().cloned(),
            changed: false,
            changes,
            effects: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Checks the edit against the rules of the stack's format, and adds what the format's system will do.
    pub(super) fn reviewed<'a>(
        mut self,
        context: &Context,
        session: &Session,
        before: &'a State,
        after: impl Iterator<Item = &'a SharedEntry>,
    ) -> Result<Self, CliError> {
        let object = format!("stack {}", session.stack().name().short());
        let origin = edit_review::origin(context, before);
        let Review { effects, remarks } = edit_review::review(&object, origin, before.entries(), after)?;
        self.effects = effects;
        self.warnings.extend(remarks);
        Ok(self)
    }

    /// Shows the changes and asks for confirmation.
    pub(super) fn confirm(&self, context: &Context, session: &Session) -> Result<(), CliError> {
        preview::show(context, &self.changes);
        edit_review::announce(context, &self.effects);
        let object = format!("stack {}", session.stack().name().short());
        let question = format!("Change the state of {object}?");
        context.prompt.confirm(&object, &question)
    }

    /// The report after the changes were written as a revision.
    pub(super) fn committed(self, revision: RevisionId) -> Self {
        Self {
            revision: Some(revision),
            changed: true,
            ..self
        }
    }
}

/// Performs the operations of a request.
pub(super) async fn run(context: &Context, request: &Request) -> CommandResult {
    let work = async |session: &Session| {
        let operations = managed_only(context, session, &request.operations);
        let edits = perform(session, &operations, request.kind == "apply-edits")?;
        commit(context, session, edits, request).await
    };
    locked(context, request.kind, work).await
}

/// Runs an edit under the writer lock and prints its report.
pub(super) async fn locked(
    context: &Context,
    kind: &'static str,
    work: impl AsyncFnOnce(&Session) -> Result<EditReport, CliError>,
) -> CommandResult {
    let stack = context.store.open_stack().await?;
    let edited = context.store.locked(&stack, kind, work);
    let (mut done, mut warnings) = match kind {
        "rm" => with_reserve(&stack, edited).await?,
        _ => edited.await?,
    };
    warnings.append(&mut done.warnings);
    context.report(kind, &done, warnings, |page| {
        let summary = preview::summary(&done.changes);
        match done.revision.as_ref().filter(|_| done.changed) {
            Some(revision) => page.line(format_args!("{summary}: now revision {revision}")),
            None => page.line("nothing changed"),
        }
    })
}

/// The operations, with the resources of `taint --all` and of groups and modules listed: those that the system of the stack's format can replace.
fn managed_only(context: &Context, session: &Session, operations: &[Operation]) -> Vec<Operation> {
    let state = session.state();
    let list = |operation: &Operation| match operation {
        Operation::Taint { addresses, all } => {
            let origin = edit_review::origin(context, &state);
            let is_managed =
                |entry: &&SharedEntry| entry.is_live() && (entry.tainted || origin.is_managed(entry));
            let named = state.entries().filter(|_| *all).filter(is_managed);
            let mut chosen: Vec<Address> = named.map(|entry| entry.address.clone()).collect();
            for address in addresses {
                let group = selected(&state, address).into_iter().filter(is_managed);
                let group: Vec<Address> = group.map(|entry| entry.address.clone()).collect();
                // A resource that is named itself, or not found, stays in the list: its refusal names it.
                match group.is_empty() || state.generations(address).next().is_some() {
                    true => chosen.push(address.clone()),
                    false => chosen.extend(group),
                }
            }
            Operation::Taint {
                addresses: chosen,
                all: false,
            }
        }
        other => other.clone(),
    };
    operations.iter().map(list).collect()
}

/// Performs the operations on a copy of the state. In a batch of the user, the error names the number of the refused
/// operation.
fn perform(session: &Session, operations: &[Operation], is_batch: bool) -> Result<StateEditor, CliError> {
    let mut edits = StateEditor::on(&session.state());
    for (index, operation) in operations.iter().enumerate() {
        if let Err(refusal) = edits.perform(operation) {
            let number = (is_batch && operations.len() > 1).then_some(index + 1);
            let stack = session.stack().name();
            return Err(refusal_to_error(refusal, edits.state(), stack, number));
        }
    }
    Ok(edits)
}

/// Shows the changes, asks for confirmation, and writes the revision.
pub(super) async fn commit(
    context: &Context,
    session: &Session,
    edits: StateEditor,
    request: &Request,
) -> Result<EditReport, CliError> {
    let state = session.state();
    let changes = preview::changes(state.entries(), edits.state().entries());
    let mut done = EditReport::prepared(session, changes);
    if done.changes.is_empty() {
        return Ok(done);
    }
    done = done.reviewed(context, session, &state, edits.state().entries())?;
    let lost = unmarked_secrets::lost_by_edit(context, session, &state, edits.state().entries()).await?;
    done.warnings.extend(lost);
    done.confirm(context, session)?;
    let is_forced = |operation: &Operation| matches!(operation, Operation::Rm { force: true, .. });
    let edit = UpdateRequest {
        message: request.message.clone().unwrap_or_else(|| request.kind.to_owned()),
        forced: request.operations.iter().any(is_forced),
        ..UpdateRequest::new(UpdateKind::Edit)
    };
    let revision = session.edit(edit, &state, edits.into_changes()).await?;
    Ok(done.committed(revision))
}

/// The error for a refused operation on a stack; `number` is the operation's position in a batch.
pub(super) fn refusal_to_error(
    refusal: Refusal,
    state: &State,
    stack: &StackName,
    number: Option<usize>,
) -> CliError {
    let stack = format!("stack {}", stack.short());
    let object = match number {
        None => stack.clone(),
        Some(number) => format!("operation {number}"),
    };
    let new = |code, message: &str| CliError::new(code, object.as_str(), message);
    match refusal {
        Refusal::NoEntry { address, live } => {
            let candidates = state.entries().map(|entry| entry.address.as_str());
            let live = if live { "live " } else { "" };
            let message = match number {
                None => format!("no {live}resource `{address}` in {stack}"),
                Some(_) => format!("{object}: no {live}resource `{address}` in {stack}"),
            };
            let error = CliError {
                message,
                ..new(ExitCode::NotFound, "")
            };
            let hint = "list all resources with `statectl list`";
            error.with_nearest(address.as_str(), candidates, hint, hint)
        }
        Refusal::NoDeposed {
            ref address,
            ref known,
            ..
        } => new(ExitCode::NotFound, &refusal.to_string()).with_hint(deposed_hint(address, known)),
        Refusal::Dependents(dependents) => {
            let dependent = count(dependents.len(), "resource depends", "resources depend");
            let message = format!("cannot remove the resources: {dependent} on them");
            still_referenced(&object, &message, dependents)
                .with_hint("also remove the resources that depend on them: `--cascade`; or only the references: `--force`")
        }
        Refusal::Protected(keys) => {
            let message = format!(
                "cannot remove protected resources: {}",
                first(LISTED, &keys, "; ")
            );
            new(ExitCode::Refused, &message)
                .with_hint("unprotect them first with `statectl unprotect ADDR`, or use `--force`")
        }
        Refusal::Pending(keys) => {
            let message = format!("operations are pending on {}", first(LISTED, &keys, "; "));
            new(ExitCode::Conflict, &message)
                .with_hint("resolve them first: `statectl pending list`, then `statectl pending resolve ID`")
        }
        Refusal::Taken { address } => {
            let message = format!("a resource `{address}` already exists");
            new(ExitCode::Conflict, &message)
                .with_hint("choose another address; list all resources with `statectl list`")
        }
        Refusal::Breaks { violations } => {
            let message = "cannot change the state: integrity rules would be violated";
            CliError {
                violations,
                ..new(ExitCode::Integrity, message)
            }
        }
        other => new(ExitCode::Conflict, &other.to_string()),
    }
}

/// The hint for an address without a deposed resource of the requested key.
fn deposed_hint(address: &Address, known: &[DeposedKey]) -> String {
    match known.first() {
        Some(key) => format!(
            "it has the deposed {} {}: `statectl rm {} --deposed {key}`",
            if known.len() == 1 { "resource" } else { "resources" },
            first(LISTED, known, ", "),
            quoted(address.as_str())
        ),
        None => "list all resources, with their deposed keys, with `statectl list`".to_owned(),
    }
}

/// The error for resources that others still depend on.
pub(super) fn still_referenced(object: &str, message: &str, dependents: Vec<Dependent>) -> CliError {
    let violation =
        |Dependent { entry, on }| Violation::of(Rule::StillReferenced, entry, format!("it depends on {on}"));
    CliError {
        violations: dependents.into_iter().map(violation).collect(),
        ..CliError::refused(object, message)
    }
}
