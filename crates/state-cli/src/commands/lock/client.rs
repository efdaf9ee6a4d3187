//! `lock acquire`, `lock release` and `lock break --id`: client locks, which are held across commands.

use crate::context::{CommandResult, Context};
use crate::error::CliError;
use crate::render::time::duration;
use serde::Serialize;
use state_core::backend::ClientLock;
use state_manager::{Stack, client_lock};
use std::time::Duration;

/// Lock the stack across commands
///
/// Until the lock is released or expires, the stack can only be changed by commands with the lock's id in `--lock-id`
/// or STATECTL_LOCK_ID. Prints that id.
#[derive(Debug, clap::Args)]
pub(crate) struct AcquireArgs {
    /// Reason shown to others who find the stack locked
    #[arg(long, short, value_name = "TEXT", default_value = "")]
    message: String,
    /// Let the lock expire after this time: `30m`, `12h`
    ///
    /// Each client compares the expiry time with its own clock.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    expires: Option<Duration>,
}

/// Release a lock taken by `lock acquire`
#[derive(Debug, clap::Args)]
pub(crate) struct ReleaseArgs {
    /// The lock's id [default: `--lock-id`, or your own lock]
    id: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct ClientLockReport {
    stack: String,
    client_lock: ClientLock,
}

impl ClientLockReport {
    fn new(stack: &Stack, client_lock: ClientLock) -> Self {
        Self {
            stack: stack.name().to_string(),
            client_lock,
        }
    }
}

pub(super) async fn acquire(context: &Context, args: &AcquireArgs) -> CommandResult {
    let stack = context.store.open_stack().await?;
    let lock = stack
        .acquire_client_lock("lock acquire", &args.message, args.expires)
        .await?;
    let changed = ClientLockReport::new(&stack, lock);
    context.report("lock-acquire", &changed, Vec::new(), |page| {
        let lock = &changed.client_lock;
        page.line(format_args!("locked stack {}", stack.name().short()));
        page.field("id", &lock.id);
        if let Some(expires) = &lock.expires {
            page.field("expires", expires);
        }
        let use_it = format!(
            "use it with `--lock-id {id}`, release it with `statectl lock release {id}`",
            id = lock.id
        );
        page.line(context.settings.invocation().apply(&use_it));
    })
}

pub(super) async fn release(context: &Context, args: &ReleaseArgs) -> CommandResult {
    let stack = context.store.open_stack().await?;
    let id = match args.id.as_ref().or(context.settings.lock_id.as_ref()) {
        Some(id) => id.clone(),
        None => own(context, &stack).await?,
    };
    let lock = free(&stack, "lock release", &id).await?;
    let changed = ClientLockReport::new(&stack, lock);
    context.report("lock-release", &changed, Vec::new(), |page| {
        page.line(format_args!(
            "released client lock {id} of stack {}",
            stack.name().short()
        ));
    })
}

/// Runs `lock break --id`: removes another client's lock.
pub(super) async fn break_by_id(context: &Context, id: &str) -> CommandResult {
    let stack = context.store.open_stack().await?;
    let object = format!("stack {}", stack.name().short());
    let held = stack.lock_status().await?.client_lock;
    if let Some(lock) = held.filter(|lock| lock.id == id) {
        let question = format!(
            "{object} is locked by {}. Break the lock?",
            describe(context, &lock)
        );
        context.prompt.confirm(&object, &question)?;
    }
    let lock = free(&stack, "lock break", id).await?;
    let changed = ClientLockReport::new(&stack, lock);
    context.report("lock-break-client", &changed, Vec::new(), |page| {
        page.line(format_args!(
            "broke client lock {id} of {object} held by {}",
            changed.client_lock.holder
        ));
    })
}

/// Describes a client lock: its holder, its message and its expiry.
pub(super) fn describe(context: &Context, lock: &ClientLock) -> String {
    let mut words = lock.holder.to_string();
    if !lock.message.is_empty() {
        words.push_str(&format!(": {}", lock.message));
    }
    match &lock.expires {
        Some(expires) if client_lock::holds(lock, &context.now()) => {
            words.push_str(&format!(" (until {expires})"));
        }
        Some(expires) => words.push_str(&format!(" (expired {expires})")),
        None => {}
    }
    words
}

async fn free(stack: &Stack, operation: &str, id: &str) -> Result<ClientLock, CliError> {
    stack.free_client_lock(operation, id).await.map_err(|error| {
        CliError::from(error).with_hint(
            "wait until the current command on the stack ends; show locks with `statectl lock status`",
        )
    })
}

/// The id of the stack's client lock, if the same user took it on this machine.
async fn own(context: &Context, stack: &Stack) -> Result<String, CliError> {
    let object = format!("stack {}", stack.name().short());
    let actor = &context.environment.actor;
    match stack.lock_status().await?.client_lock {
        Some(lock) if lock.holder.who == actor.who && lock.holder.host == actor.host => Ok(lock.id),
        Some(lock) => {
            let message = format!("the client lock belongs to {}", describe(context, &lock));
            Err(CliError::refused(object, &message).with_hint(format!(
                "if the holder no longer uses it, break it: `statectl lock break --id {}`",
                lock.id
            )))
        }
        None => Err(CliError::conflict(object, "no client lock to release")
            .with_hint("show the stack's locks with `statectl lock status`")),
    }
}
