//! `pending`: settle what was begun and never ended.

mod moves;
mod spool;

use crate::context::{CommandResult, Context};
use crate::entry::PendingView;
use crate::error::CliError;
use crate::marks::ResourceStatus;
use crate::render::time::age;
use serde::Serialize;
use state_core::mutation::Resolution;
use state_core::{Entry, Op, PendingOperation, RevisionId, State, UpdateKind};
use state_manager::{Session, Stack, UpdateRequest};
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List what was begun and never ended.
    #[command(visible_alias = "ls")]
    List,
    /// Say what became of one operation, after a look at the world.
    Resolve(Resolve),
    /// Say that the state is right, after a look at the world: a writer died who was changing it.
    Trust,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Resolve {
    /// The operation's id, or the beginning of it.
    #[arg(
        value_name = "OPERATION",
        required_unless_present = "from",
        conflicts_with = "from"
    )]
    operation: Option<String>,
    #[command(flatten)]
    answer: Answer,
    /// With `--done`: the id that the provider gave to the object.
    #[arg(long, value_name = "ID", requires = "done")]
    id: Option<String>,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Answer {
    /// It never happened: the operation is forgotten.
    #[arg(long)]
    not_done: bool,
    /// It happened as it was meant to: the entry is recorded, or goes.
    #[arg(long)]
    done: bool,
    /// Take the result that came back and was refused, and is on record.
    #[arg(long)]
    accept: bool,
    /// Take the result that is kept in this file, because the store was gone when it came back.
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
}

/// Runs one of them.
pub(crate) async fn run(context: &Context, command: &Command) -> CommandResult {
    match command {
        Command::List => list(context).await,
        Command::Resolve(args) => resolve(context, args).await,
        Command::Trust => trust(context).await,
    }
}

async fn list(context: &Context) -> CommandResult {
    let stack = context.store.open_stack().await?;
    // Before the look: whoever ends meanwhile may have begun what it sees.
    let holder = stack.lock_status().await?.holder;
    let view = stack.tip().await?;
    let kept = spool::waiting(&stack);
    let operations = view.state.pending().map(|operation| PendingView {
        kept_in: kept.get(&operation.id).map(|file| file.display().to_string()),
        ..PendingView::new(operation)
    });
    let lines: Vec<_> = operations.chain(moves::views(&view.state)).collect();
    let now = context.now();
    let mut warnings: Vec<String> = ResourceStatus::of(&view).doubt().into_iter().collect();
    if let Some(holder) = holder.filter(|_| view.update_open() && !lines.is_empty()) {
        warnings.push(format!(
            "a run is under way, of {holder}: what is begun and not ended belongs to it; don't settle it before that has ended"
        ));
    }
    context.report("pending-list", &lines, warnings, |page| {
        if lines.is_empty() {
            page.line("nothing is pending");
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
                    format!("refused: {}", line.violations.join("; "))
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
struct Resolved {
    stack: String,
    revision: Option<RevisionId>,
    operation: PendingView,
    resolution: &'static str,
    still_pending: usize,
}

async fn resolve(context: &Context, args: &Resolve) -> CommandResult {
    if let Some(file) = &args.answer.from {
        return spool::resolve(context, file).await;
    }
    let wanted = args.operation.as_deref().unwrap_or_default();
    let stack = context.store.open_stack().await?;
    // A first look without the lock: a mistake in the command line needs none.
    let state = stack.tip().await?.state;
    if let Some(found) = moves::find(&state, wanted)? {
        return moves::resolve(context, &stack, args, found).await;
    }
    find(&state, wanted)?;
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
        Ok((PendingView::new(&operation), revision, still_pending))
    };
    let (done, warnings) = context.store.locked(&stack, "pending resolve", work).await?;
    let (operation, revision, still_pending) = done;
    let resolved = Resolved {
        stack: stack.name().to_string(),
        revision: Some(revision),
        operation,
        resolution: answer(&args.answer),
        still_pending,
    };
    self::resolved(context, &resolved, warnings)
}

fn resolved(context: &Context, resolved: &Resolved, warnings: Vec<String>) -> CommandResult {
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
struct Trusted {
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
        let message = "the state is right as it is";
        let request = UpdateRequest::new(UpdateKind::Edit).with_message(message);
        let revision = session.mark_reliable(request).await.map_err(CliError::from);
        let revision =
            revision.map_err(|error| error.with_hint("`statectl pending list` lists what is pending"))?;
        Ok((revision, changed))
    };
    let ((revision, changed), warnings) = context.store.locked(&stack, "pending trust", work).await?;
    let trusted = Trusted {
        stack: stack.name().to_string(),
        revision,
        changed,
    };
    context.report("pending-trust", &trusted, warnings, |page| {
        if trusted.changed {
            page.line(format_args!(
                "the state counts as reliable again: now revision {}",
                trusted.revision
            ));
        } else {
            page.line("nothing to do: nobody marked the state as unreliable");
        }
    })
}

const fn answer(answer: &Answer) -> &'static str {
    if answer.done {
        "done"
    } else if answer.accept {
        "accepted"
    } else {
        "not done"
    }
}

/// The one operation whose id begins so.
fn find(state: &State, wanted: &str) -> Result<PendingOperation, CliError> {
    let object = || format!("pending operation {wanted}");
    let wanted_folded = wanted.to_ascii_lowercase();
    let mut fitting = state
        .pending()
        .filter(|operation| operation.id.to_string().starts_with(&wanted_folded));
    match (fitting.next(), fitting.next()) {
        (Some(one), None) => Ok(one.clone()),
        (None, _) => Err(CliError::not_found(object(), "nothing like it is pending")
            .with_hint("`statectl pending list` lists what is")),
        (Some(_), Some(_)) => Err(ambiguous(wanted)),
    }
}

fn ambiguous(wanted: &str) -> CliError {
    let object = format!("pending operation {wanted}");
    CliError::usage(object, "several begin like this")
        .with_hint("give more of the id, as `statectl pending list` prints it")
}

/// What to do about an operation whose answer was refused, and whose result waits in a file.
fn kept(stack: &Stack, operation: &PendingOperation, error: CliError) -> CliError {
    match spool::waiting(stack).get(&operation.id) {
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
            CliError::refused(object(), "no result came back, so there is none to accept")
                .with_hint("say `--done` with the object's `--id`, or `--not-done`")
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
        return Err(CliError::usage(
            object(),
            "what was made has an id in the world, and it isn't on record",
        )
        .with_hint("look it up there and say `--done --id ID`"));
    }
    Ok(Resolution::Done(Some(Arc::new(entry))))
}
