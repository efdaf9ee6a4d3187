//! `up`, `preview`, `refresh`, `destroy`: bring the world to what a program says, the record to what the world is, or
//! both to nothing.
//!
//! All of them plan, show the plan, ask, and then execute that plan: the lock is held from planning to the end.

mod document;
mod flags;
mod live;
mod outcome;
mod place;
mod progress_view;
mod record;
mod run;
mod step;
mod tree;

use crate::context::Context;
use crate::error::CliError;
use crate::identities::NewStack;
use crate::output::Report;
use crate::store;
use crate::target::Target;
use document::{Document, ProgramArgs};
use flags::{Answers, Bounds, Flags};
use outcome::Outcome;
use place::Place;
use run::{Deploy, Goal};

/// Bring the world to what a program says: make what lacks, change what differs, delete what isn't in it any more.
/// Makes the store, and the stack `default`, where there is none.
///
/// The program is compared with what is recorded. What somebody changed behind its back is seen with `--refresh`, or after
/// `statectl refresh`. Operations that a run before left pending are settled first, by asking their providers.
///
/// A run that began tells what it did, whether it went well or not, with `--json` too: look at `result` and the exit code,
/// which is 18 when something stays pending, and 130 when it was interrupted.
#[derive(Debug, clap::Args)]
pub(crate) struct Up {
    #[command(flatten)]
    program: ProgramArgs,
    #[command(flatten)]
    bounds: Bounds,
    /// Only show what it would do.
    #[arg(long)]
    preview: bool,
    /// What to remember in the history.
    #[arg(long, short)]
    message: Option<String>,
    /// Exit with 3 when there are differences.
    #[arg(long)]
    detailed_exitcode: bool,
    #[command(flatten)]
    sealing: NewStack,
}

/// Show what `up` would do. Nothing is written, no lock is taken, and the world isn't changed.
#[derive(Debug, clap::Args)]
pub(crate) struct Preview {
    #[command(flatten)]
    program: ProgramArgs,
    #[command(flatten)]
    bounds: Bounds,
    /// Exit with 3 when there are differences.
    #[arg(long)]
    detailed_exitcode: bool,
}

/// Bring the record to what the world is: what is recorded is read, what differs is recorded, and what is gone goes.
/// The world isn't changed.
///
/// Operations that are pending are settled first: each by what its provider says, or by what you say of it.
#[derive(Debug, clap::Args)]
pub(crate) struct Refresh {
    #[command(flatten)]
    bounds: Bounds,
    #[command(flatten)]
    answers: Answers,
    /// Only show what it would record.
    #[arg(long)]
    preview: bool,
    /// What to remember in the history.
    #[arg(long, short)]
    message: Option<String>,
    /// Exit with 3 when there are differences.
    #[arg(long)]
    detailed_exitcode: bool,
}

/// Delete all that is recorded, in the reverse order of its dependencies. The stack and its history stay.
#[derive(Debug, clap::Args)]
pub(crate) struct Destroy {
    #[command(flatten)]
    bounds: Bounds,
    /// Read all that is recorded before.
    #[arg(long)]
    refresh: bool,
    /// Only show what it would do.
    #[arg(long)]
    preview: bool,
    /// What to remember in the history.
    #[arg(long, short)]
    message: Option<String>,
    /// Exit with 3 when there are differences.
    #[arg(long)]
    detailed_exitcode: bool,
}

/// Brings the world to what a program says.
pub(crate) async fn up(context: &Context, args: &Up) -> Result<Report, CliError> {
    let document = Document::read(context, &args.program)?;
    let flags = Flags {
        replace: &args.program.replace,
        refresh: args.program.refresh,
        message: args.message.as_deref(),
        ..Flags::new("up", &args.bounds)
    };
    let place = Place::find(context).await?;
    let mut deploy = Deploy::new(context, &flags, Goal::Update(&document), place.stacks.clone());
    if args.preview {
        let done = deploy.preview(&place.name).await?;
        return reported(context, "up", &done, args.detailed_exitcode);
    }
    if !place.exists
        && let Some(done) = deploy.ask(&place.name).await?
    {
        return reported(context, "up", &done, args.detailed_exitcode);
    }
    let target = Target::prepare(context, &args.sealing).await?;
    deploy.go_to(store::with_spool(target.stacks.clone()), !target.created_stack);
    let done = match deploy.hold(target.stack.name()).await {
        Ok(done) => done.made_at(&target),
        Err(error) => return Err(target.give_up(error).await),
    };
    reported(context, "up", &done, args.detailed_exitcode)
}

/// Shows what `up` would do.
pub(crate) async fn preview(context: &Context, args: &Preview) -> Result<Report, CliError> {
    let document = Document::read(context, &args.program)?;
    let flags = Flags {
        replace: &args.program.replace,
        refresh: args.program.refresh,
        ..Flags::new("preview", &args.bounds)
    };
    let place = Place::find(context).await?;
    let deploy = Deploy::new(context, &flags, Goal::Update(&document), place.stacks.clone());
    let done = deploy.preview(&place.name).await?;
    reported(context, "preview", &done, args.detailed_exitcode)
}

/// Brings the record to what the world is.
pub(crate) async fn refresh(context: &Context, args: &Refresh) -> Result<Report, CliError> {
    let flags = Flags {
        message: args.message.as_deref(),
        answers: Some(&args.answers),
        ..Flags::new("refresh", &args.bounds)
    };
    let done = of_record(context, &flags, Goal::Refresh, args.preview).await?;
    reported(context, "refresh", &done, args.detailed_exitcode)
}

/// Deletes all that is recorded.
pub(crate) async fn destroy(context: &Context, args: &Destroy) -> Result<Report, CliError> {
    let flags = Flags {
        refresh: args.refresh,
        message: args.message.as_deref(),
        ..Flags::new("destroy", &args.bounds)
    };
    let done = of_record(context, &flags, Goal::Destroy, args.preview).await?;
    reported(context, "destroy", &done, args.detailed_exitcode)
}

/// What needs no program, but a stack that is there.
async fn of_record(
    context: &Context,
    flags: &Flags<'_>,
    goal: Goal<'_>,
    preview: bool,
) -> Result<Outcome, CliError> {
    let stacks = store::with_spool(context.store.open().await?);
    let stack = context.store.chosen(&stacks).await?;
    let deploy = Deploy::new(context, flags, goal, stacks);
    match preview {
        true => deploy.preview(stack.name()).await,
        false => deploy.hold(stack.name()).await,
    }
}

fn reported(
    context: &Context,
    kind: &'static str,
    done: &Outcome,
    detailed: bool,
) -> Result<Report, CliError> {
    let report = context.report(kind, done, done.warnings.clone(), |page| {
        tree::report(page, done);
    })?;
    Ok(report.with_code(done.exit_code(detailed)))
}
