//! `mv --to-stack`: entries go to another stack of the store.

use super::operate::named;
use super::preview::{self, EntryChange};
use super::refusal;
use crate::context::{CommandResult, Context};
use crate::error::CliError;
use crate::settings::quoted;
use crate::store;
use serde::Serialize;
use state_core::surgery::{Dependent, MovePlan, MoveRequest, Refusal};
use state_core::verify::{Rule, Violation};
use state_core::{MutationId, RevisionId, StackName, State, UpdateKind};
use state_manager::{Session, Stack, Stacks, UpdateRequest};

/// What is to be done.
pub(super) struct Request<'a> {
    pub(super) entries: MoveRequest,
    pub(super) to: &'a StackName,
    pub(super) dry_run: bool,
    pub(super) message: Option<&'a str>,
}

/// What became of it.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Done {
    /// The move's id, on both sides.
    id: Option<MutationId>,
    changed: bool,
    dry_run: bool,
    /// What went, in order.
    entries: Vec<String>,
    source: Side,
    destination: Side,
}

/// One of the two stacks.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Side {
    stack: String,
    revision: Option<RevisionId>,
    changes: Vec<EntryChange>,
}

/// Moves entries to another stack.
pub(super) async fn run(context: &Context, request: &Request<'_>) -> CommandResult {
    let stacks = context.store.open().await?;
    let source = context.store.chosen(&stacks).await?;
    let there = context.store.find(&stacks, request.to).await?;
    if source.lineage() == there.lineage() {
        return Err(told(Refusal::SameStack, &source.tip().await?.state));
    }
    if request.dry_run {
        let (now, now_there) = (source.tip().await?.state, there.tip().await?.state);
        let plan = plan(&now, &now_there, request)?;
        let done = prepared([&source, &there], [&*now, &*now_there], &plan, request);
        return report(context, &done, Vec::new());
    }
    let [source, there] = as_holder(context, [source, there]).await?;
    let lock = async |stack: &Stack| context.store.lock(stack, "mv").await.map_err(CliError::from);
    let (session, session_there) = Stacks::lock_both(&source, &there, lock).await?;
    let done = make(context, request, &session, &session_there).await;
    let warnings = [store::closed(session).await, store::closed(session_there).await];
    let warnings = warnings.into_iter().flatten().collect();
    report(context, &done?, warnings)
}

/// The client lock of `--lock-id` stands at one of the two stacks: the other one is nobody's.
async fn as_holder(context: &Context, stacks: [Stack; 2]) -> Result<[Stack; 2], CliError> {
    let Some(id) = &context.settings.lock_id else {
        return Ok(stacks);
    };
    let mut held = Vec::new();
    for stack in &stacks {
        let standing = stack.lock_status().await?.client_lock;
        held.push(standing.is_some_and(|lock| lock.id == *id));
    }
    let [source, there] = stacks;
    Ok(match held.as_slice() {
        [true, false] => [source, there.without_client_lock()],
        [false, true] => [source.without_client_lock(), there],
        _ => [source, there],
    })
}

async fn make(
    context: &Context,
    request: &Request<'_>,
    source: &Session,
    there: &Session,
) -> Result<Done, CliError> {
    let (now, now_there) = (source.state(), there.state());
    let plan = plan(&now, &now_there, request)?;
    let mut done = prepared(
        [source.stack(), there.stack()],
        [&*now, &*now_there],
        &plan,
        request,
    );
    show(context, &done);
    let object = format!("stack {}", source.stack().name().short());
    let question = format!(
        "Move {} from {object} to stack {}?",
        crate::marks::count(done.entries.len(), "entry", "entries"),
        there.stack().name().short()
    );
    context.prompt.confirm(&object, &question)?;
    let message = request.message.map_or_else(|| by_default(request), str::to_owned);
    let update = UpdateRequest::new(UpdateKind::Edit).with_message(message);
    let moved = source.move_to(there, update, &plan).await?;
    done.id = Some(moved.id);
    done.changed = true;
    done.source.revision = Some(moved.source);
    done.destination.revision = Some(moved.destination);
    Ok(done)
}

fn plan(source: &State, there: &State, request: &Request<'_>) -> Result<MovePlan, CliError> {
    MovePlan::new(source, there, &request.entries).map_err(|refusal| told(refusal, source))
}

/// What would be done.
fn prepared(stacks: [&Stack; 2], now: [&State; 2], plan: &MovePlan, request: &Request<'_>) -> Done {
    let side = |stack: &Stack, before: &State, after: &State| Side {
        stack: stack.name().to_string(),
        revision: before.current().cloned(),
        changes: preview::changes(before.entries(), after.entries()),
    };
    Done {
        id: None,
        changed: false,
        dry_run: request.dry_run,
        entries: plan
            .entries()
            .iter()
            .map(|entry| entry.key().to_string())
            .collect(),
        source: side(stacks[0], now[0], plan.source()),
        destination: side(stacks[1], now[1], plan.destination()),
    }
}

fn show(context: &Context, done: &Done) {
    for side in [&done.source, &done.destination] {
        context
            .output
            .announce(|page| page.line(format_args!("stack {}:", side.stack)));
        preview::show(context, &side.changes);
    }
}

fn report(context: &Context, done: &Done, warnings: Vec<String>) -> CommandResult {
    if done.dry_run {
        show(context, done);
    }
    context.report("mv-to-stack", done, warnings, |page| {
        let moved = crate::marks::count(done.entries.len(), "entry", "entries");
        let (from, to) = (&done.source, &done.destination);
        match (&from.revision, &to.revision) {
            (Some(left), Some(arrived)) if done.changed => page.line(format_args!(
                "{moved} moved: {} is now revision {left}, {} is now revision {arrived}",
                from.stack, to.stack
            )),
            _ => page.line(format_args!(
                "{moved} would move from {} to {}",
                from.stack, to.stack
            )),
        }
    })
}

/// What the history tells, on both sides, when nobody says anything else.
fn by_default(request: &Request<'_>) -> String {
    let to = quoted(&request.to.short());
    format!("mv{} --to-stack {to}", named(&request.entries.addresses))
}

/// A refusal, with what to do.
fn told(refusal: Refusal, source: &State) -> CliError {
    let bound = |bonds: Vec<Dependent>, message: &str, hint: &str| {
        let mut error = CliError::refused("the move", message).with_hint(hint);
        let violation = |Dependent { entry, on }| {
            Violation::of(Rule::StillReferenced, entry, format!("it depends on {on}"))
        };
        error.violations = bonds.into_iter().map(violation).collect();
        error
    };
    match refusal {
        Refusal::Dependents(bonds) => bound(
            bonds,
            "something that stays depends on what would go; nothing was moved",
            "move what depends on it too: `--with-dependents`",
        ),
        Refusal::Dependencies(bonds) => bound(
            bonds,
            "what would go depends on something that stays; nothing was moved",
            "move what it depends on too: `--with-dependencies`",
        ),
        Refusal::SameStack => CliError::usage("the move", "it is the same stack")
            .with_hint("to give an entry another address, say `statectl mv SRC DST`"),
        Refusal::Taken { address } => {
            let message = format!("there is an entry {address} in the other stack already");
            CliError::conflict("the move", &message)
                .with_hint("give it another address first: `statectl mv SRC DST`")
        }
        other => refusal::told(other, source, None),
    }
}
