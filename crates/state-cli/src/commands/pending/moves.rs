//! Moves between stacks that were cut short: shown by name, and settled by what the other stack says.

use super::{Answer, Resolve, Resolved, answer};
use crate::context::{CommandResult, Context};
use crate::entry::PendingView;
use crate::error::CliError;
use crate::marks::first;
use state_core::{EntryKey, Error, ErrorKind, MutationId, State, Timestamp};
use state_manager::{MoveSettlement, Session, Stack};

/// How many entries are named.
const NAMED: usize = 3;

/// What waits here, and what left and isn't known to have arrived.
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

/// The one move whose id begins so; none if nothing like it waits.
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

/// Settles a move. Its stacks know what became of it; only when the source can't be read any more the answer counts.
pub(super) async fn resolve(
    context: &Context,
    stack: &Stack,
    args: &Resolve,
    found: PendingView,
) -> CommandResult {
    let object = format!("{} of {}", found.op, found.target);
    if args.answer.accept || args.id.is_some() {
        let message = "no result came back of a move, so there is none to accept";
        return Err(CliError::usage(object, message).with_hint("say `--done` or `--not-done`"));
    }
    let id: MutationId = found.id.parse()?;
    let work = async |session: &Session| settle(session, id, &args.answer, &object).await;
    let (done, mut warnings) = context.store.locked(stack, "pending resolve", work).await?;
    let (resolution, state) = done;
    if resolution != answer(&args.answer) {
        warnings.push(format!("the other stack knows better: it is {resolution}"));
    }
    let resolved = Resolved {
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
    said: &Answer,
    object: &str,
) -> Result<(&'static str, std::sync::Arc<State>), CliError> {
    let settled = match session.settle_move(id).await {
        // The lock settled it already, or it is for the other stack to settle.
        Err(error) if error.kind() == ErrorKind::NotFound && !waits(&session.state(), id) => {
            return settled_before(session, id, object);
        }
        Err(error) if is_gone(&error) => session.resolve_move(id, said.done).await?,
        other => other.map_err(|error| undecided(error, object))?,
    };
    let resolution = match settled {
        MoveSettlement::Withdrawn => "not done",
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
        let message = "the entries left this stack, and the other one couldn't be made to take them in";
        return Err(CliError::conflict(object, message)
            .with_hint("settle it there: `statectl pending list --stack` that stack"));
    }
    match state.lookup(id) {
        Some(false) => Ok(("not done", state)),
        _ => Ok(("done", state)),
    }
}

fn waits(state: &State, id: MutationId) -> bool {
    state.incoming().any(|incoming| incoming.id == id)
}

/// Whether the source can't be asked any more.
fn is_gone(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::NotFound | ErrorKind::Corrupt | ErrorKind::Denied | ErrorKind::Unavailable
    )
}

fn undecided(error: Error, object: &str) -> CliError {
    let hint = match error.kind() {
        ErrorKind::Locked => {
            "whoever holds the other stack may still let the entries go: wait, or break that lock, and run it again"
        }
        ErrorKind::Integrity => {
            "make room for the entries: move or remove what is in their way, and run it again"
        }
        _ => return error.into(),
    };
    let mut describe = CliError::from(error).with_hint(hint);
    describe.message = format!("{object}: {}", describe.message);
    describe
}
