//! `mv --to-stack`: moves resources to another stack of the same store.

use super::Mv;
use super::operate::{named, refusal_to_error, still_referenced};
use super::preview::{self, EntryChange};
use crate::context::{CommandResult, Context};
use crate::edit_review::{self, EffectView};
use crate::error::CliError;
use crate::marks::count;
use crate::reading::opened;
use crate::settings::quoted;
use crate::store;
use crate::unmarked_secrets::lost_by_policy;
use serde::Serialize;
use state_core::edits::{MovePlan, MoveRequest, Refusal};
use state_core::head::SealingPolicy;
use state_core::{MutationId, RevisionId, Snapshot, StackName, State, UpdateKind};
use state_manager::{Session, Stack, Stacks};

/// The report of a move between stacks.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct MoveReport {
    /// The id of the move, which is the same in both stacks; none if nothing moved.
    id: Option<MutationId>,
    changed: bool,
    dry_run: bool,
    /// The moved resources, in the order of the state.
    entries: Vec<String>,
    source: MoveSide,
    destination: MoveSide,
}

/// The changes in one of the two stacks.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct MoveSide {
    stack: String,
    revision: Option<RevisionId>,
    changes: Vec<EntryChange>,
    /// What the system of the stack's format will do because of the move.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    effects: Vec<EffectView>,
}

/// Runs the command `mv --to-stack` and returns its report.
pub(super) async fn run(context: &Context, args: &Mv, to: &StackName) -> CommandResult {
    let stacks = context.store.open().await?;
    let source = context.store.chosen(&stacks).await?;
    let target = context.store.find(&stacks, to).await?;
    if source.lineage() == target.lineage() {
        let state = source.tip().await?.state;
        return Err(refusal_error(Refusal::SameStack, &state, source.name()));
    }
    if args.dry_run {
        let (view, target_view) = (source.tip().await?, target.tip().await?);
        let (now, target_state) = (&view.state, &target_view.state);
        let plan = plan(now, target_state, args, source.name())?;
        let (is_encrypted, policy) = (view.head.key_id.is_some(), target_view.head.policy);
        refuse_plaintext((&source, is_encrypted), (&target, policy))?;
        let (done, mut warnings) = prepared(context, [&source, &target], [now, target_state], &plan, true)?;
        // Only this policy can leave values in plain text, so other moves don't pay for decrypting.
        if is_encrypted && policy == SealingPolicy::Sensitive {
            let stored = moved_snapshot(context, now, &plan);
            let opened = opened(&view, stored.clone()).await?;
            warnings.extend(lost_by_policy(context, target.name(), &stored, &opened));
        }
        return report(context, &done, warnings);
    }
    let [source, target] = as_holder(context, [source, target]).await?;
    let lock = async |stack: &Stack| context.store.lock(stack, "mv").await.map_err(CliError::from);
    let (session, target_session) = Stacks::lock_both(&source, &target, lock).await?;
    let done = move_locked(context, args, &session, &target_session).await;
    let closed = [store::close(session).await, store::close(target_session).await];
    let (done, mut warnings) = done?;
    let [source, target] = closed;
    warnings.extend(source?.into_iter().chain(target?));
    report(context, &done, warnings)
}

/// Refuses a move from an encrypted stack to one that stores values in plain text.
fn refuse_plaintext(source: (&Stack, bool), target: (&Stack, SealingPolicy)) -> Result<(), CliError> {
    let ((source, is_encrypted), (target, policy)) = (source, target);
    if policy != SealingPolicy::Plaintext || !is_encrypted {
        return Ok(());
    }
    let (source, target) = (source.name().short(), target.name().short());
    let message = format!("it stores values in plain text, and stack {source} encrypts them");
    Err(
        CliError::conflict(format!("stack {target}"), &message).with_hint(format!(
            "encrypt it first: `statectl encrypt --stack {}`",
            quoted(&target)
        )),
    )
}

/// The resources that a plan moves, as the source stores them.
fn moved_snapshot(context: &Context, source: &State, plan: &MovePlan) -> Snapshot {
    let mut stored = source.snapshot(String::new(), context.now());
    stored.outputs.clear();
    stored.pending_operations.clear();
    stored.entries = plan.entries().to_vec();
    stored
}

/// The client lock of `--lock-id` belongs to at most one of the two stacks: opens the other one without it, because a
/// stack refuses the id of a lock that it doesn't have.
async fn as_holder(context: &Context, stacks: [Stack; 2]) -> Result<[Stack; 2], CliError> {
    let Some(id) = &context.settings.lock_id else {
        return Ok(stacks);
    };
    let mut held = Vec::new();
    for stack in &stacks {
        let client_lock = stack.lock_status().await?.client_lock;
        held.push(client_lock.is_some_and(|lock| lock.id == *id));
    }
    let [source, target] = stacks;
    Ok(match held.as_slice() {
        [true, false] => [source, target.without_client_lock()],
        [false, true] => [source.without_client_lock(), target],
        _ => [source, target],
    })
}

async fn move_locked(
    context: &Context,
    args: &Mv,
    source: &Session,
    target: &Session,
) -> Result<(MoveReport, Vec<String>), CliError> {
    let (now, target_state) = (source.state(), target.state());
    let plan = plan(&now, &target_state, args, source.stack().name())?;
    let (is_encrypted, policy) = (source.is_sealed(), target.policy());
    refuse_plaintext((source.stack(), is_encrypted), (target.stack(), policy))?;
    let stacks = [source.stack(), target.stack()];
    let (mut done, mut warnings) = prepared(context, stacks, [&*now, &*target_state], &plan, false)?;
    show(context, &done);
    if is_encrypted && policy == SealingPolicy::Sensitive {
        let stored = moved_snapshot(context, &now, &plan);
        let opened = source.reveal_snapshot(stored.clone()).await?;
        warnings.extend(lost_by_policy(context, target.stack().name(), &stored, &opened));
    }
    let object = format!("stack {}", source.stack().name().short());
    let question = format!(
        "Move {} from {object} to stack {}?",
        count(done.entries.len(), "resource", "resources"),
        target.stack().name().short()
    );
    context.prompt.confirm(&object, &question)?;
    let message = by_default(args, target.stack().name());
    let update = args.remember.request(UpdateKind::Edit, &message);
    let moved = source.move_to(target, update, &plan).await?;
    done.id = Some(moved.id);
    done.changed = true;
    done.source.revision = Some(moved.source);
    done.destination.revision = Some(moved.destination);
    Ok((done, warnings))
}

fn plan(source: &State, target: &State, args: &Mv, name: &StackName) -> Result<MovePlan, CliError> {
    let entries = MoveRequest {
        addresses: args.addresses.clone(),
        with_dependents: args.with_dependents,
        with_dependencies: args.with_dependencies,
    };
    MovePlan::new(source, target, &entries).map_err(|refusal| refusal_error(refusal, source, name))
}

/// The report of a move that isn't performed yet, with warnings.
fn prepared(
    context: &Context,
    stacks: [&Stack; 2],
    now: [&State; 2],
    plan: &MovePlan,
    dry_run: bool,
) -> Result<(MoveReport, Vec<String>), CliError> {
    let mut warnings = Vec::new();
    let mut side = |stack: &Stack, before: &State, after: &State| {
        let object = format!("stack {}", stack.name().short());
        // An empty stack takes on the format of the resources that arrive.
        let origin = edit_review::origin(context, if before.is_empty() { after } else { before });
        let review = edit_review::review(&object, origin, before.entries(), after.entries())?;
        warnings.extend(review.remarks);
        Ok::<_, CliError>(MoveSide {
            stack: stack.name().to_string(),
            revision: before.current().cloned(),
            changes: preview::changes(before.entries(), after.entries()),
            effects: review.effects,
        })
    };
    let source = side(stacks[0], now[0], plan.source())?;
    let destination = side(stacks[1], now[1], plan.destination())?;
    let moved = plan.entries().iter().map(|entry| entry.key().to_string());
    let done = MoveReport {
        id: None,
        changed: false,
        dry_run,
        entries: moved.collect(),
        source,
        destination,
    };
    Ok((done, warnings))
}

fn show(context: &Context, done: &MoveReport) {
    for side in [&done.source, &done.destination] {
        context
            .output
            .announce(|page| page.line(format_args!("stack {}:", side.stack)));
        preview::show(context, &side.changes);
        edit_review::announce(context, &side.effects);
    }
}

fn report(context: &Context, done: &MoveReport, warnings: Vec<String>) -> CommandResult {
    if done.dry_run {
        show(context, done);
    }
    context.report("mv-to-stack", done, warnings, |page| {
        let moved = count(done.entries.len(), "resource", "resources");
        let (from, to) = (&done.source, &done.destination);
        match (&from.revision, &to.revision) {
            (Some(left), Some(arrived)) if done.changed => page.line(format_args!(
                "moved {moved}: stack {} is now at revision {left}, stack {} at revision {arrived}",
                from.stack, to.stack
            )),
            _ => page.line(format_args!(
                "would move {moved} from stack {} to stack {}",
                from.stack, to.stack
            )),
        }
    })
}

/// The history message of both stacks, if `--message` isn't given.
fn by_default(args: &Mv, to: &StackName) -> String {
    let to = quoted(&to.short());
    format!("mv{} --to-stack {to}", named(&args.addresses))
}

/// The error for a refused move, with a hint.
fn refusal_error(refusal: Refusal, source: &State, name: &StackName) -> CliError {
    match refusal {
        Refusal::Dependents(bonds) => {
            let message = "cannot move the resources: others depend on them and would stay";
            still_referenced("move", message, bonds)
                .with_hint("also move the resources that depend on them: `--with-dependents`")
        }
        Refusal::Dependencies(bonds) => {
            let message = "cannot move the resources: they depend on others, which would stay";
            still_referenced("move", message, bonds)
                .with_hint("also move the resources that they depend on: `--with-dependencies`")
        }
        Refusal::SameStack => CliError::usage("move", "source and target are the same stack")
            .with_hint("to change an address within a stack, use `statectl mv SRC DST`"),
        Refusal::Taken { address } => {
            let message = format!("the other stack already has a resource `{address}`");
            CliError::conflict("move", &message)
                .with_hint("change one of the two addresses first: `statectl mv SRC DST`")
        }
        other => refusal_to_error(other, source, name, None),
    }
}
