//! `lock`: who holds a stack, holding it across commands, and taking a lock from a holder that is gone.

mod client;

use crate::context::{CommandResult, Context};
use crate::error::CliError;
use crate::store;
use serde::Serialize;
use state_core::Epoch;
use state_core::backend::{Holder, LockStatus};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Show who holds the stack.
    Status,
    Acquire(client::AcquireArgs),
    Release(client::ReleaseArgs),
    /// Take the lock from its holder. What the holder writes from then on is refused.
    Break {
        /// Break the client lock with this id instead, as `lock status` prints it.
        #[arg(long, value_name = "ID", conflicts_with = "epoch")]
        id: Option<String>,
        /// Only if this is still the epoch of the holder, as `lock status` prints it.
        #[arg(long, value_name = "N")]
        epoch: Option<u64>,
    },
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Status {
    stack: String,
    held: bool,
    #[serde(flatten)]
    lock: LockStatus,
}

/// Runs one of them.
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
    let status = Status {
        stack: stack.name().to_string(),
        held: lock.holder.is_some(),
        lock,
    };
    context.report("lock-status", &status, Vec::new(), |page| {
        let name = stack.name().short();
        match &status.lock.holder {
            Some(holder) => page.line(format_args!("stack {name} is held by {holder}")),
            None => page.line(format_args!("stack {name} is free")),
        }
        page.field("epoch", status.lock.epoch);
        if let Some(lock) = &status.lock.client_lock {
            let describe = client::describe(context, lock);
            page.field("client lock", format_args!("{} by {describe}", lock.id));
        }
    })
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Broken {
    stack: String,
    broken: bool,
    holder: Option<Holder>,
    fenced_epoch: Option<u64>,
}

async fn break_lock(context: &Context, epoch: Option<u64>) -> CommandResult {
    let stack = context.store.open_stack().await?;
    let object = format!("stack {}", stack.name().short());
    let seen = stack.lock_status().await?;
    if let Some(epoch) = epoch.filter(|&epoch| epoch != seen.epoch.get()) {
        let message = format!(
            "its epoch is {}, not {epoch}: another holder is there now",
            seen.epoch
        );
        return Err(CliError::conflict(object, &message).with_hint("look again with `statectl lock status`"));
    }
    let mut warnings = Vec::new();
    if let Some(holder) = &seen.holder {
        let question =
            format!("{object} is held by {holder}. Its writes will be refused from now on. Break the lock?");
        context.prompt.confirm(&object, &question)?;
        let session = stack.break_lock("lock break", Epoch(seen.epoch.get())).await?;
        ((), warnings) = store::held(session, async |_| Ok(())).await?;
    }
    let broken = Broken {
        stack: stack.name().to_string(),
        broken: seen.holder.is_some(),
        fenced_epoch: seen.holder.as_ref().map(|_| seen.epoch.get()),
        holder: seen.holder,
    };
    if let (None, Some(lock)) = (&broken.holder, &seen.client_lock) {
        warnings.push(format!(
            "{object} is kept locked by {}: `statectl lock break --id {}` frees it",
            client::describe(context, lock),
            lock.id
        ));
    }
    context.report("lock-break", &broken, warnings, |page| match &broken.holder {
        Some(holder) => page.line(format_args!(
            "broke the lock of {object} that {holder} held; it is free now"
        )),
        None => page.line(format_args!("{object} isn't held: there is nothing to break")),
    })
}
