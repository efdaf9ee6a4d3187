//! The command `pending`: lists and resolves operations that were begun and have no recorded outcome.

mod moves;
pub(super) mod spool;

use crate::commands::deploy::registry;
use crate::context::{CommandResult, Context};
use crate::entry::PendingView;
use crate::error::CliError;
use crate::marks::StackStatus;
use crate::render::time::age;
use serde::Serialize;
use state_core::mutation::Resolution;
use state_core::{Entry, Op, PendingOperation, RevisionId, State, UpdateKind};
use state_engine::{EarlierWork, Registry};
use state_manager::{Session, Stack, UpdateRequest};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// All subcommands of `statectl pending`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List the pending operations of a stack
    #[command(visible_alias = "ls")]
    List,
    /// Record the outcome of a pending operation
    Resolve(Resolve),
    /// Mark an unreliable state as reliable again
    ///
    /// A state is unreliable if a writer crashed while it was changing resources. Compare the state with the real
    /// resources before you run this command, or run `statectl refresh` instead.
    Trust,
}

/// Arguments of `pending resolve`.
#[derive(Debug, clap::Args)]
pub(crate) struct Resolve {
    /// The operation's id, or a prefix of it
    #[arg(
        value_name = "OPERATION",
        required_unless_present = "from",
        conflicts_with = "from"
    )]
    operation: Option<String>,
    #[command(flatten)]
    answer: ResolutionArgs,
    /// With `--done`: the id that the provider assigned
    #[arg(long, value_name = "ID", requires = "done")]
    id: Option<String>,
    /// With `--from`: record the resource of a settled operation
    ///
    /// For a file whose operation was settled otherwise, for example as not done, although the resource exists.
    #[arg(long = "as", value_name = "PLACE", requires = "from")]
    placement: Option<Placement>,
}

/// The entry under which the resource in a file is recorded.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Placement {
    /// As the resource at its address
    Entry,
    /// As a replaced resource, which the next `up` deletes
    Deposed,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct ResolutionArgs {
    /// The operation did not happen; remove it from the state
    #[arg(long)]
    not_done: bool,
    /// The operation happened as planned; record its planned result
    #[arg(long)]
    done: bool,
    /// Record the stored result that violates a rule
    #[arg(long)]
    accept: bool,
    /// Record the result kept in this file
    ///
    /// A run keeps a result in a file if the store is unreachable.
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
}

/// Runs a subcommand of `pending`.
pub(crate) async fn run(context: &Context, command: &Command) -> CommandResult {
    match command {
        Command::List => list(context).await,
        Command::Resolve(args) => resolve(context, args).await,
        Command::Trust => trust(context).await,
    }
}

async fn list(context: &Context) -> CommandResult {
    let stack = context.store.open_stack().await?;
    // The lock status is read before the state: a holder that ends between the two reads may have begun the operations
    // that the state shows, and must still be reported.
    let holder = stack.lock_holder().await?;
    let view = stack.tip().await?;
    let files = spool::files(&stack);
    let kept = spool::by_operation(&files);
    let operations = view.state.pending().map(|operation| PendingView {
        kept_in: kept.get(&operation.id).map(|file| file.display().to_string()),
        ..PendingView::new(operation)
    });
    let lines: Vec<_> = operations.chain(moves::views(&view.state)).collect();
    let now = context.now();
    let mut warnings: Vec<String> = StackStatus::of(&view)
        .invalidation_warning()
        .into_iter()
        .collect();
    warnings.extend(spool::unmatched(&files, &view.state));
    if let Some(holder) = holder.filter(|_| view.update_open() && !lines.is_empty()) {
        warnings.push(format!(
            "{holder} is changing the stack: these operations may belong to that run; wait until it ends before you resolve them"
        ));
    }
    context.report("pending-list", &lines, warnings, |page| {
        if lines.is_empty() {
            page.line("no pending operations");
            return;
        }
        let rows = lines.iter().map(|line| {
            [
                line.id.clone(),
                line.op.to_owned(),
                line.target.clone(),
                line.begun
                    .as_ref()
                    .map(|begun| age(&now, begun))
                    .unwrap_or_default(),
                if line.has_result {
                    format!("rejected: {}", line.violations.join("; "))
                } else if line.kept_in.is_some() {
                    "kept in a file".to_owned()
                } else {
                    String::new()
                },
            ]
        });
        page.table(["ID", "OP", "TARGET", "BEGUN", "RESULT"], rows);
        for file in lines.iter().filter_map(|line| line.kept_in.as_deref()) {
            page.hint(&spool::hint(Path::new(file)));
        }
    })
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct ResolveReport {
    stack: String,
    revision: Option<RevisionId>,
    operation: PendingView,
    resolution: &'static str,
    still_pending: usize,
}

async fn resolve(context: &Context, args: &Resolve) -> CommandResult {
    if let Some(file) = &args.answer.from {
        return spool::resolve(context, file, args.placement).await;
    }
    let wanted = args.operation.as_deref().unwrap_or_default();
    let stack = context.store.open_stack().await?;
    // Check the arguments before taking the lock, so that a mistyped id is reported without waiting for the lock.
    let state = stack.tip().await?.state;
    if let Some(found) = moves::find(&state, wanted)? {
        return moves::resolve(context, &stack, args, found).await;
    }
    find(&state, wanted)?;
    let registry = registry(context)?;
    let work = async |session: &Session| {
        let operation = find(&session.state(), wanted)?;
        let resolution = resolution(args, &operation).map_err(|error| kept(&stack, &operation, error))?;
        let request = UpdateRequest::new(UpdateKind::Edit).with_message(format!(
            "pending {} of {}: {}",
            operation.op,
            operation.target,
            answer(&args.answer)
        ));
        let revision = session.resolve(request, operation.id, resolution).await?;
        let still_pending = session.state().pending().count();
        let running = running(&registry, &session.state(), &operation);
        Ok((PendingView::new(&operation), revision, still_pending, running))
    };
    let (done, mut warnings) = context.store.locked(&stack, "pending resolve", work).await?;
    let (operation, revision, still_pending, running) = done;
    if args.answer.not_done
        && let Ok(id) = operation.id.parse()
    {
        warnings.extend(spool::contradiction(&stack, id));
        warnings.extend(running);
    }
    let resolved = ResolveReport {
        stack: stack.name().to_string(),
        revision: Some(revision),
        operation,
        resolution: answer(&args.answer),
        still_pending,
    };
    self::resolved(context, &resolved, warnings)
}

/// A warning about the work for an operation that may go on although the operation is settled; none if it ended.
fn running(registry: &Registry, state: &State, operation: &PendingOperation) -> Option<String> {
    let entry = operation
        .entry
        .as_ref()
        .or_else(|| state.entry(&operation.target));
    let kind = entry?.kind.as_deref()?;
    match registry.earlier_work(kind, operation.id) {
        EarlierWork::Running(work) => Some(format!(
            "{work}: what it changes from now on isn't recorded. Stop it, or wait until it ends and look for its resource before the \
             next `statectl up`, which could make another one"
        )),
        EarlierWork::Unseen(_) => Some(
            "make sure that its command doesn't run any more on another machine or for another user: what it changes from now on isn't \
             recorded"
                .to_owned(),
        ),
        EarlierWork::Ended => {
            registry.forget_work(kind, operation.id);
            None
        }
    }
}

fn resolved(context: &Context, resolved: &ResolveReport, warnings: Vec<String>) -> CommandResult {
    context.report("pending-resolve", resolved, warnings, |page| {
        let operation = &resolved.operation;
        let mut line = format!(
            "resolved the {} of {} as {}",
            operation.op, operation.target, resolved.resolution
        );
        if let Some(revision) = &resolved.revision {
            line.push_str(&format!(": now revision {revision}"));
        }
        page.line(line);
        if resolved.still_pending > 0 {
            page.line(format_args!("still pending: {}", resolved.still_pending));
        }
    })
}

#[derive(Serialize)]
struct TrustReport {
    stack: String,
    revision: RevisionId,
    changed: bool,
}

async fn trust(context: &Context) -> CommandResult {
    let stack = context.store.open_stack().await?;
    let work = async |session: &Session| {
        let state = session.state();
        let changed = state.invalidated().is_some();
        if let (false, Some(current)) = (changed, state.current()) {
            return Ok((current.clone(), changed));
        }
        let message = "marked the state as reliable";
        let request = UpdateRequest::new(UpdateKind::Edit).with_message(message);
        let revision = session.mark_reliable(request).await.map_err(CliError::from);
        let revision = revision
            .map_err(|error| error.with_hint("list pending operations with `statectl pending list`"))?;
        Ok((revision, changed))
    };
    let ((revision, changed), warnings) = context.store.locked(&stack, "pending trust", work).await?;
    let trusted = TrustReport {
        stack: stack.name().to_string(),
        revision,
        changed,
    };
    context.report("pending-trust", &trusted, warnings, |page| {
        if trusted.changed {
            page.line(format_args!(
                "marked the state as reliable: now revision {}",
                trusted.revision
            ));
        } else {
            page.line("nothing to do: the state is not marked as unreliable");
        }
    })
}

const fn answer(answer: &ResolutionArgs) -> &'static str {
    if answer.done {
        "done"
    } else if answer.accept {
        "accepted"
    } else {
        "not done"
    }
}

/// The only pending operation whose id has this prefix.
fn find(state: &State, wanted: &str) -> Result<PendingOperation, CliError> {
    let object = || format!("pending operation {wanted}");
    let wanted_folded = wanted.to_ascii_lowercase();
    let mut fitting = state
        .pending()
        .filter(|operation| operation.id.to_string().starts_with(&wanted_folded));
    match (fitting.next(), fitting.next()) {
        (Some(one), None) => Ok(one.clone()),
        (None, _) => Err(CliError::not_found(object(), "no such operation")
            .with_hint("list pending operations with `statectl pending list`")),
        (Some(_), Some(_)) => Err(ambiguous(wanted)),
    }
}

fn ambiguous(wanted: &str) -> CliError {
    let object = format!("pending operation {wanted}");
    CliError::usage(object, "several operations have this id prefix")
        .with_hint("use a longer prefix of the id, as printed by `statectl pending list`")
}

/// Adds a hint to an error if the operation's result is saved in a file.
fn kept(stack: &Stack, operation: &PendingOperation, error: CliError) -> CliError {
    match spool::by_operation(&spool::files(stack)).get(&operation.id) {
        Some(file) => error.with_hint(spool::hint(file)),
        None => error,
    }
}

fn resolution(args: &Resolve, operation: &PendingOperation) -> Result<Resolution, CliError> {
    let object = || format!("pending {} of {}", operation.op, operation.target);
    if args.answer.not_done {
        return Ok(Resolution::NotDone);
    }
    if args.answer.accept {
        let result = operation.result.as_ref().ok_or_else(|| {
            CliError::refused(object(), "cannot accept a result: the provider returned none")
                .with_hint("use `--done --id ID` with the resource's id, or `--not-done`")
        })?;
        return Ok(Resolution::Done(result.entry.clone()));
    }
    let Some(meant) = &operation.entry else {
        return Ok(Resolution::Done(None));
    };
    let mut entry = Entry::clone(meant);
    if let Some(id) = &args.id {
        entry.id = Some(id.clone());
    }
    if entry.id.is_none() && matches!(operation.op, Op::Create | Op::Import) {
        return Err(
            CliError::usage(object(), "the id of the created resource is unknown")
                .with_hint("look the id up at the provider and pass it: `--done --id ID`"),
        );
    }
    Ok(Resolution::Done(Some(Arc::new(entry))))
}
