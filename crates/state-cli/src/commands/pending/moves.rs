//! `pending` for moves between stacks that were interrupted. Their outcome is read from the other stack.

use super::{ResolutionArgs, Resolve, ResolveReport, answer};
use crate::context::{CommandResult, Context};
use crate::entry::PendingView;
use crate::error::CliError;
use crate::marks::first;
use state_core::{EntryKey, Error, ErrorKind, MutationId, State, Timestamp};
use state_manager::{MoveSettled, Session, Stack};

/// How many resources of a move are named in a table.
const NAMED: usize = 3;

/// Moves into this stack that aren't finished, and moves out of it whose arrival isn't confirmed.
pub(super) fn views(state: &State) -> Vec<PendingView> {
    let incoming = state.incoming().map(|incoming| {
        let keys: Vec<EntryKey> = incoming.entries.iter().map(|entry| entry.key()).collect();
        let from = ("from", incoming.from.name.to_string());
        view("move-in", incoming.id, incoming.at.as_ref(), &keys, from)
    });
    let departed = state.departed().map(|leaving| {
        let to = ("to", leaving.to.name.to_string());
        view("move-out", leaving.id, leaving.at.as_ref(), &leaving.entries, to)
    });
    incoming.chain(departed).collect()
}

fn view(
    op: &'static str,
    id: MutationId,
    at: Option<&Timestamp>,
    keys: &[EntryKey],
    (direction, stack): (&str, String),
) -> PendingView {
    let named: Vec<String> = keys.iter().map(ToString::to_string).collect();
    let target = first(NAMED, &named, ", ");
    let leading = keys.first();
    PendingView {
        id: id.to_string(),
        op,
        address: leading.map(|key| key.address.to_string()).unwrap_or_default(),
        deposed: leading.and_then(|key| Some(key.deposed.as_ref()?.to_string())),
        begun: at.cloned(),
        has_result: false,
        violations: Vec::new(),
        kept_in: None,
        target: format!("{target} {direction} stack {stack}"),
        other_stack: Some(stack),
        entries: Some(named),
    }
}

/// The only unfinished move whose id has this prefix; none if there is no such move.
pub(super) fn find(state: &State, wanted: &str) -> Result<Option<PendingView>, CliError> {
    let wanted_folded = wanted.to_ascii_lowercase();
    let mut fitting = views(state)
        .into_iter()
        .filter(|view| view.id.starts_with(&wanted_folded));
    match (fitting.next(), fitting.next()) {
        (one, None) => Ok(one),
        _ => Err(super::ambiguous(wanted)),
    }
}

/// Resolves a move. The two stacks record its outcome; the user's answer counts only if the source stack can't be read.
pub(super) async fn resolve(
    context: &Context,
    stack: &Stack,
    args: &Resolve,
    found: PendingView,
) -> CommandResult {
    let object = format!("{} of {}", found.op, found.target);
    if args.answer.accept || args.id.is_some() {
        let message = "a move has no result to accept";
        return Err(CliError::usage(object, message).with_hint("use `--done` or `--not-done`"));
    }
    let id: MutationId = found.id.parse()?;
    let work = async |session: &Session| settle(session, id, &args.answer, &object).await;
    let (done, mut warnings) = context.store.locked(stack, "pending resolve", work).await?;
    let (resolution, state) = done;
    if resolution != answer(&args.answer) {
        warnings.push(format!(
            "resolved as {resolution}, because the other stack records that outcome"
        ));
    }
    let resolved = ResolveReport {
        stack: stack.name().to_string(),
        revision: state.current().cloned(),
        operation: found,
        resolution,
        still_pending: state.pending().count() + state.incoming().count(),
    };
    super::resolved(context, &resolved, warnings)
}

async fn settle(
    session: &Session,
    id: MutationId,
    said: &ResolutionArgs,
    object: &str,
) -> Result<(&'static str, std::sync::Arc<State>), CliError> {
    let settled = match session.settle_move(id).await {
        // Taking the lock resolved the move already, or only the other stack can resolve it.
        Err(error) if error.kind() == ErrorKind::NotFound && !waits(&session.state(), id) => {
            return settled_before(session, id, object);
        }
        Err(error) if is_gone(&error) => session.resolve_move(id, said.done).await?,
        other => other.map_err(|error| undecided(error, object))?,
    };
    let resolution = match settled {
        MoveSettled::Withdrawn => "not done",
        _ => "done",
    };
    Ok((resolution, session.state()))
}

fn settled_before(
    session: &Session,
    id: MutationId,
    object: &str,
) -> Result<(&'static str, std::sync::Arc<State>), CliError> {
    let state = session.state();
    if state.departed().any(|leaving| leaving.id == id) {
        let message = "cannot finish the move: the other stack did not accept the resources";
        return Err(CliError::conflict(object, message)
            .with_hint("resolve the move in the other stack: `statectl pending list --stack STACK`"));
    }
    match state.lookup(id) {
        Some(false) => Ok(("not done", state)),
        _ => Ok(("done", state)),
    }
}

fn waits(state: &State, id: MutationId) -> bool {
    state.incoming().any(|incoming| incoming.id == id)
}

/// Whether the error means that the source stack can't be read.
fn is_gone(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::NotFound | ErrorKind::Corrupt | ErrorKind::Denied | ErrorKind::Unavailable
    )
}

fn undecided(error: Error, object: &str) -> CliError {
    let hint = match error.kind() {
        ErrorKind::Locked => {
            "the lock holder of the other stack may still finish the move: wait for it, or run `statectl lock break` for \
             that stack, then run the command again"
        }
        ErrorKind::Integrity => {
            "move or remove the conflicting resources in this stack with `statectl mv` or `statectl rm`, then run the \
             command again"
        }
        _ => return error.into(),
    };
    let mut error = CliError::from(error).with_hint(hint);
    error.message = format!("{object}: {}", error.message);
    error
}
