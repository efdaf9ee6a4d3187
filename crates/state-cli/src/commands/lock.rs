//! The command `lock`: shows and breaks the writer lock of a stack. The module `client` handles client locks.

mod client;

use crate::context::{CommandResult, Context};
use crate::error::CliError;
use crate::store;
use serde::Serialize;
use state_core::Epoch;
use state_core::backend::{Holder, LockStatus};
use state_manager::client_lock;

/// All subcommands of `statectl lock`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Show who holds the stack's locks
    Status,
    Acquire(client::AcquireArgs),
    Release(client::ReleaseArgs),
    /// Take the writer lock away from its holder
    ///
    /// All later writes of that holder are refused.
    Break {
        /// Break the client lock with this id, not the writer lock
        #[arg(long, value_name = "ID", conflicts_with = "epoch")]
        id: Option<String>,
        /// Only break the lock if it still has this epoch
        #[arg(long, value_name = "N")]
        epoch: Option<u64>,
    },
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct StatusReport {
    stack: String,
    held: bool,
    #[serde(flatten)]
    lock: LockStatus,
}

/// Runs a subcommand of `lock`.
pub(crate) async fn run(context: &Context, command: &Command) -> CommandResult {
    match command {
        Command::Status => status(context).await,
        Command::Acquire(args) => client::acquire(context, args).await,
        Command::Release(args) => client::release(context, args).await,
        Command::Break { id: Some(id), .. } => client::break_by_id(context, id).await,
        Command::Break { id: None, epoch } => break_lock(context, *epoch).await,
    }
}

async fn status(context: &Context) -> CommandResult {
    let stack = context.store.open_stack().await?;
    let lock = stack.lock_status().await?;
    let status = StatusReport {
        stack: stack.name().to_string(),
        held: lock.holder.is_some(),
        lock,
    };
    context.report("lock-status", &status, Vec::new(), |page| {
        let name = stack.name().short();
        let client_lock = status.lock.client_lock.as_ref();
        let active = client_lock.filter(|lock| client_lock::holds(lock, &context.now()));
        match (&status.lock.holder, active) {
            (Some(holder), _) => page.line(format_args!("stack {name} is locked by {holder}")),
            (None, Some(lock)) => {
                let describe = client::describe(context, lock);
                page.line(format_args!("stack {name} is locked by {describe}"));
            }
            (None, None) => page.line(format_args!("stack {name} is unlocked")),
        }
        page.field("epoch", status.lock.epoch);
        if let Some(lock) = client_lock {
            let describe = client::describe(context, lock);
            page.field("client lock", format_args!("{} by {describe}", lock.id));
        }
    })
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct BreakReport {
    stack: String,
    broken: bool,
    holder: Option<Holder>,
    fenced_epoch: Option<u64>,
}

/// The error for a lock that can't be broken, because its holder is replacing the head of the stack. It holds a lock of the file
/// system meanwhile, which only the end of its process frees.
fn during_takeover(error: state_core::Error, object: &str) -> CliError {
    let hint = match &error {
        state_core::Error::Locked { holder, .. } if holder.pid != 0 => format!(
            "{holder} was stopped while it took {object} over: on its machine, let it go on with `kill -CONT {pid}`, or end it \
             with `kill -9 {pid}`; readers don't wait for it",
            pid = holder.pid
        ),
        _ => return error.into(),
    };
    CliError::from(error).with_hint(hint)
}

async fn break_lock(context: &Context, epoch: Option<u64>) -> CommandResult {
    let stack = context.store.open_stack().await?;
    let object = format!("stack {}", stack.name().short());
    let seen = stack.lock_status().await?;
    if let Some(epoch) = epoch.filter(|&epoch| epoch != seen.epoch.get()) {
        let message = format!(
            "cannot break the lock: its epoch is {}, not {epoch}, so the lock holder has changed",
            seen.epoch
        );
        return Err(CliError::conflict(object, &message)
            .with_hint("show the current holder with `statectl lock status`"));
    }
    let mut warnings = Vec::new();
    if let Some(holder) = &seen.holder {
        let question =
            format!("{object} is locked by {holder}. All its later writes will be refused. Break the lock?");
        context.prompt.confirm(&object, &question)?;
        let broken = stack.break_lock("lock break", Epoch(seen.epoch.get())).await;
        let session = broken.map_err(|error| during_takeover(error, &object))?;
        ((), warnings) = store::run_and_close(session, async |_| Ok(())).await?;
    }
    let broken = BreakReport {
        stack: stack.name().to_string(),
        broken: seen.holder.is_some(),
        fenced_epoch: seen.holder.as_ref().map(|_| seen.epoch.get()),
        holder: seen.holder,
    };
    if let (None, Some(lock)) = (&broken.holder, &seen.client_lock) {
        warnings.push(format!(
            "{object} has a client lock of {}; break it with `statectl lock break --id {}`",
            client::describe(context, lock),
            lock.id
        ));
    }
    context.report("lock-break", &broken, warnings, |page| match &broken.holder {
        Some(holder) => page.line(format_args!(
            "broke the lock of {object} held by {holder}; the stack is unlocked now"
        )),
        None => page.line(format_args!("nothing to break: {object} has no writer lock")),
    })
}
