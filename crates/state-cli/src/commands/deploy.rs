//! The commands `up`, `preview`, `refresh` and `destroy`.
//!
//! All but `preview` plan, show the plan, ask for confirmation, and then execute exactly that plan: the writer lock is
//! held from planning to the end, so that the state can't change between the plan and its execution.

mod deploy_target;
mod document;
mod flags;
mod live;
mod outcome;
mod progress_view;
mod run;
mod settlements;
mod spool_intake;
mod stack_choice;
mod step;
mod tree;
mod unfinished;

use crate::context::Context;
use crate::error::CliError;
use crate::exit::ExitCode;
use crate::identities::NewStack;
use crate::output::Report;
use crate::store;
use crate::target::Target;
use deploy_target::DeployTarget;
use document::{DeclaringArgs, Document, ProgramArgs};
pub(crate) use document::{PROGRAM_NAMES, registry};
use flags::{Flags, PendingAnswers, ScopeArgs};
use outcome::Outcome;
use run::{Deploy, Goal};

/// Create, update and delete resources to match a program
///
/// Works on the stack that `--stack` names, else on the stack with the program's name (`default` for a program without a
/// name), else on the only stack if this program made it. Creates the store if it is missing, and the stack if the store
/// has no stacks or `--stack` names a new one.
///
/// The program is compared with the recorded state. Drift (a change made outside of statectl) is detected only with
/// `--refresh`, or after `statectl refresh`. Operations that an earlier run left pending are resolved first: by the results
/// that this machine kept in files, else by asking their providers.
///
/// A run that has begun always reports its outcome, also when it fails and with `--json`: check `result` and the exit
/// code, which is 18 if an operation stays pending, and 130 if the run was interrupted.
#[derive(Debug, clap::Args)]
pub(crate) struct Up {
    #[command(flatten)]
    program: ProgramArgs,
    #[command(flatten)]
    bounds: ScopeArgs,
    /// Only show the plan
    #[arg(long)]
    preview: bool,
    /// Message to record in the history
    #[arg(long, short)]
    message: Option<String>,
    /// Exit with code 3 if there are differences
    #[arg(long)]
    detailed_exitcode: bool,
    #[command(flatten)]
    sealing: NewStack,
}

/// Show what `up` would do
///
/// Takes no lock, writes nothing, and changes no resource. Asks the providers for the outcomes of pending operations, shows how
/// `up` would resolve them, and plans from the state after that.
#[derive(Debug, clap::Args)]
pub(crate) struct Preview {
    #[command(flatten)]
    program: ProgramArgs,
    #[command(flatten)]
    bounds: ScopeArgs,
    /// Exit with code 3 if there are differences
    #[arg(long)]
    detailed_exitcode: bool,
}

/// Update the state from the real resources
///
/// Reads every recorded resource from its provider, records the differences, and removes resources that no longer
/// exist. No real resource is changed.
///
/// Pending operations are resolved first: by the results that this machine kept in files, by asking their providers, or as
/// `--clear-pending` and `--import-pending` say.
#[derive(Debug, clap::Args)]
pub(crate) struct Refresh {
    #[command(flatten)]
    program: DeclaringArgs,
    #[command(flatten)]
    bounds: ScopeArgs,
    #[command(flatten)]
    answers: PendingAnswers,
    /// Only show what would be recorded
    #[arg(long)]
    preview: bool,
    /// Message to record in the history
    #[arg(long, short)]
    message: Option<String>,
    /// Exit with code 3 if there are differences
    #[arg(long)]
    detailed_exitcode: bool,
}

/// Delete all resources of a stack
///
/// Resources are deleted in reverse dependency order. The stack and its history stay.
#[derive(Debug, clap::Args)]
pub(crate) struct Destroy {
    #[command(flatten)]
    program: DeclaringArgs,
    #[command(flatten)]
    bounds: ScopeArgs,
    /// Read all recorded resources from their providers first
    #[arg(long)]
    refresh: bool,
    /// Only show the plan
    #[arg(long)]
    preview: bool,
    /// Message to record in the history
    #[arg(long, short)]
    message: Option<String>,
    /// Exit with code 3 if there are differences
    #[arg(long)]
    detailed_exitcode: bool,
}

/// Runs the command `up` and returns its report.
pub(crate) async fn up(context: &Context, args: &Up) -> Result<Report, CliError> {
    let document = Document::read(context, &args.program)?;
    let flags = Flags {
        replace: &args.program.replace,
        refresh: args.program.refresh,
        message: args.message.as_deref(),
        ..Flags::new("up", &args.bounds)
    };
    let place = found(context, &document, args.bounds.adopt).await?;
    // If the stack doesn't exist yet, the plan is confirmed before anything is created: a refusal leaves no trace.
    let mut deploy = Deploy::new(context, &flags, Goal::Update(&document), place.stacks.clone());
    if args.preview {
        let done = deploy.preview(&place.stack).await?;
        return reported(context, "up", &done, args.detailed_exitcode);
    }
    if place.exists {
        let done = deploy.run_locked(&place.stack).await?;
        return reported(context, "up", &done, args.detailed_exitcode);
    }
    if let Some(done) = deploy.ask(&place.stack).await? {
        return reported(context, "up", &done, args.detailed_exitcode);
    }
    let name = place.stack.name().clone();
    let target = Target::prepare_named(context, &args.sealing, Some(name)).await?;
    deploy.retarget(target.stacks.clone(), !target.created_stack);
    let done = match deploy.run_locked(&target.stack).await {
        Ok(done) => done.with_target(&target),
        Err(error) => return Err(target.give_up(error).await),
    };
    reported(context, "up", &done, args.detailed_exitcode)
}

/// The stack that `up` would change. Another first `up` of this user may create the identity and the stack while this one looks for
/// them: then they are looked for again.
async fn found(context: &Context, document: &Document, adopt: bool) -> Result<DeployTarget, CliError> {
    let name = document.name();
    let find = || DeployTarget::find(context, &name, adopt);
    match find().await {
        Err(error) if error.code != ExitCode::Undecipherable => Err(error),
        Ok(place) if !place.exists || !context.store.keys.find_new()? => Ok(place),
        _ => {
            context.store.keys.find_new()?;
            find().await
        }
    }
}

/// Runs the command `preview` and returns its report.
pub(crate) async fn preview(context: &Context, args: &Preview) -> Result<Report, CliError> {
    let document = Document::read(context, &args.program)?;
    let flags = Flags {
        replace: &args.program.replace,
        refresh: args.program.refresh,
        ..Flags::new("preview", &args.bounds)
    };
    let place = DeployTarget::find(context, &document.name(), args.bounds.adopt).await?;
    let deploy = Deploy::new(context, &flags, Goal::Update(&document), place.stacks.clone());
    let done = deploy.preview(&place.stack).await?;
    reported(context, "preview", &done, args.detailed_exitcode)
}

/// Runs the command `refresh` and returns its report.
pub(crate) async fn refresh(context: &Context, args: &Refresh) -> Result<Report, CliError> {
    let flags = Flags {
        message: args.message.as_deref(),
        answers: Some(&args.answers),
        ..Flags::new("refresh", &args.bounds)
    };
    let declaring = Document::read_named(context, &args.program)?;
    let goal = Goal::Refresh(declaring.as_ref());
    let done = on_existing_stack(context, &flags, goal, args.preview).await?;
    reported(context, "refresh", &done, args.detailed_exitcode)
}

/// Runs the command `destroy` and returns its report.
pub(crate) async fn destroy(context: &Context, args: &Destroy) -> Result<Report, CliError> {
    let flags = Flags {
        refresh: args.refresh,
        message: args.message.as_deref(),
        ..Flags::new("destroy", &args.bounds)
    };
    let declaring = Document::read_named(context, &args.program)?;
    let goal = Goal::Destroy(declaring.as_ref());
    let done = on_existing_stack(context, &flags, goal, args.preview).await?;
    reported(context, "destroy", &done, args.detailed_exitcode)
}

/// Runs a command that needs an existing stack, and a program only for its commands: `refresh` or `destroy`.
async fn on_existing_stack(
    context: &Context,
    flags: &Flags<'_>,
    goal: Goal<'_>,
    preview: bool,
) -> Result<Outcome, CliError> {
    let stacks = store::with_spool(context.store.open().await?);
    let program = match goal.document() {
        Some(declaring) => Some(declaring.name()),
        None => document::program_at_hand()?,
    };
    let stack = stack_choice::existing(context, &stacks, program.as_ref(), flags.bounds.adopt).await?;
    let mut deploy = Deploy::new(context, flags, goal, stacks);
    deploy.program = program;
    match preview {
        true => deploy.preview(&stack).await,
        false => deploy.run_locked(&stack).await,
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
