//! `mv --to-stack`: entries go to another stack of the store.

use super::Mv;
use super::operate::{named, refused, still_referenced};
use super::preview::{self, EntryChange};
use crate::context::{CommandResult, Context};
use crate::error::CliError;
use crate::marks::count;
use crate::settings::quoted;
use crate::store;
use serde::Serialize;
use state_core::edits::{MovePlan, MoveRequest, Refusal};
use state_core::{MutationId, RevisionId, StackName, State, UpdateKind};
use state_manager::{Session, Stack, Stacks};

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
pub(super) async fn run(context: &Context, args: &Mv, to: &StackName) -> CommandResult {
    let stacks = context.store.open().await?;
    let source = context.store.chosen(&stacks).await?;
    let there = context.store.find(&stacks, to).await?;
    if source.lineage() == there.lineage() {
        return Err(describe(Refusal::SameStack, &source.tip().await?.state));
    }
    if args.dry_run {
        let (now, now_there) = (source.tip().await?.state, there.tip().await?.state);
        let plan = plan(&now, &now_there, args)?;
        let done = prepared([&source, &there], [&*now, &*now_there], &plan, true);
        return report(context, &done, Vec::new());
    }
    let [source, there] = as_holder(context, [source, there]).await?;
    let lock = async |stack: &Stack| context.store.lock(stack, "mv").await.map_err(CliError::from);
    let (session, session_there) = Stacks::lock_both(&source, &there, lock).await?;
    let done = make(context, args, &session, &session_there).await;
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

async fn make(context: &Context, args: &Mv, source: &Session, there: &Session) -> Result<Done, CliError> {
    let (now, now_there) = (source.state(), there.state());
    let plan = plan(&now, &now_there, args)?;
    let stacks = [source.stack(), there.stack()];
    let mut done = prepared(stacks, [&*now, &*now_there], &plan, false);
    show(context, &done);
    let object = format!("stack {}", source.stack().name().short());
    let question = format!(
        "Move {} from {object} to stack {}?",
        count(done.entries.len(), "entry", "entries"),
        there.stack().name().short()
    );
    context.prompt.confirm(&object, &question)?;
    let message = by_default(args, there.stack().name());
    let update = args.remember.request(UpdateKind::Edit, &message);
    let moved = source.move_to(there, update, &plan).await?;
    done.id = Some(moved.id);
    done.changed = true;
    done.source.revision = Some(moved.source);
    done.destination.revision = Some(moved.destination);
    Ok(done)
}

fn plan(source: &State, there: &State, args: &Mv) -> Result<MovePlan, CliError> {
    let entries = MoveRequest {
        addresses: args.addresses.clone(),
        with_dependents: args.with_dependents,
        with_dependencies: args.with_dependencies,
    };
    MovePlan::new(source, there, &entries).map_err(|refusal| describe(refusal, source))
}

/// What would be done.
fn prepared(stacks: [&Stack; 2], now: [&State; 2], plan: &MovePlan, dry_run: bool) -> Done {
    let side = |stack: &Stack, before: &State, after: &State| Side {
        stack: stack.name().to_string(),
        revision: before.current().cloned(),
        changes: preview::changes(before.entries(), after.entries()),
    };
    let moved = plan.entries().iter().map(|entry| entry.key().to_string());
    Done {
        id: None,
        changed: false,
        dry_run,
        entries: moved.collect(),
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
        let moved = count(done.entries.len(), "entry", "entries");
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
fn by_default(args: &Mv, to: &StackName) -> String {
    let to = quoted(&to.short());
    format!("mv{} --to-stack {to}", named(&args.addresses))
}

/// A refusal, with what to do.
fn describe(refusal: Refusal, source: &State) -> CliError {
    match refusal {
        Refusal::Dependents(bonds) => {
            let message = "something that stays depends on what would go; nothing was moved";
            still_referenced("the move", message, bonds)
                .with_hint("move what depends on it too: `--with-dependents`")
        }
        Refusal::Dependencies(bonds) => {
            let message = "what would go depends on something that stays; nothing was moved";
            still_referenced("the move", message, bonds)
                .with_hint("move what it depends on too: `--with-dependencies`")
        }
        Refusal::SameStack => CliError::usage("the move", "it is the same stack")
            .with_hint("to give an entry another address, say `statectl mv SRC DST`"),
        Refusal::Taken { address } => {
            let message = format!("there is an entry {address} in the other stack already");
            CliError::conflict("the move", &message)
                .with_hint("give it another address first: `statectl mv SRC DST`")
        }
        other => refused(other, source, None),
    }
}
