//! Client locks: hold a stack across commands, and give it back.

use crate::context::{CommandResult, Context};
use crate::error::CliError;
use crate::render::time::duration;
use serde::Serialize;
use state_core::backend::ClientLock;
use state_manager::{Stack, client_lock};
use std::time::Duration;

/// Keep everybody else from changing the stack until the lock is released. Prints the lock's id: `--lock-id` or
/// STATECTL_LOCK_ID lets its holder work.
#[derive(Debug, clap::Args)]
pub(crate) struct AcquireArgs {
    /// Why, for those who find the stack locked.
    #[arg(long, short, value_name = "TEXT", default_value = "")]
    message: String,
    /// End by itself after this while, such as 30m or 12h. Whether it has ended is judged by the clock of whoever
    /// wants to work.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    expires: Option<Duration>,
}

/// Give back a lock that `lock acquire` took.
#[derive(Debug, clap::Args)]
pub(crate) struct ReleaseArgs {
    /// Its id. Default: that of `--lock-id`; else the stack's lock, if you took it yourself on this machine.
    id: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Changed {
    stack: String,
    client_lock: ClientLock,
}

impl Changed {
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
    let changed = Changed::new(&stack, lock);
    context.report("lock-acquire", &changed, Vec::new(), |page| {
        let lock = &changed.client_lock;
        page.line(format_args!("locked stack {}", stack.name().short()));
        page.field("id", &lock.id);
        if let Some(expires) = &lock.expires {
            page.field("expires", expires);
        }
        page.line(format_args!(
            "work with `--lock-id {id}`, give it back with `statectl lock release {id}`",
            id = lock.id
        ));
    })
}

pub(super) async fn release(context: &Context, args: &ReleaseArgs) -> CommandResult {
    let stack = context.store.open_stack().await?;
    let id = match args.id.as_ref().or(context.settings.lock_id.as_ref()) {
        Some(id) => id.clone(),
        None => own(context, &stack).await?,
    };
    let lock = free(&stack, "lock release", &id).await?;
    let changed = Changed::new(&stack, lock);
    context.report("lock-release", &changed, Vec::new(), |page| {
        page.line(format_args!(
            "released client lock {id} of stack {}",
            stack.name().short()
        ));
    })
}

/// Frees the lock of somebody else.
pub(super) async fn break_by_id(context: &Context, id: &str) -> CommandResult {
    let stack = context.store.open_stack().await?;
    let object = format!("stack {}", stack.name().short());
    let held = stack.lock_status().await?.client_lock;
    if let Some(lock) = held.filter(|lock| lock.id == id) {
        let question = format!(
            "{object} is kept locked by {}. Free it?",
            describe(context, &lock)
        );
        context.prompt.confirm(&object, &question)?;
    }
    let lock = free(&stack, "lock break", id).await?;
    let changed = Changed::new(&stack, lock);
    context.report("lock-break-client", &changed, Vec::new(), |page| {
        page.line(format_args!(
            "broke client lock {id} of {object} that {} held",
            changed.client_lock.holder
        ));
    })
}

/// A lock in words: who, why, until when.
pub(super) fn describe(context: &Context, lock: &ClientLock) -> String {
    let mut words = lock.holder.to_string();
    if !lock.message.is_empty() {
        words.push_str(&format!(": {}", lock.message));
    }
    match &lock.expires {
        Some(expires) if client_lock::holds(lock, &context.now()) => {
            words.push_str(&format!(" (until {expires})"));
        }
        Some(expires) => words.push_str(&format!(" (expired {expires}, keeps nobody out)")),
        None => {}
    }
    words
}

async fn free(stack: &Stack, operation: &str, id: &str) -> Result<ClientLock, CliError> {
    stack.free_client_lock(operation, id).await.map_err(|error| {
        CliError::from(error).with_hint("look again with `statectl lock status`; a writer has to end first")
    })
}

/// The id of the stack's client lock, if the same user took it on this machine.
async fn own(context: &Context, stack: &Stack) -> Result<String, CliError> {
    let object = format!("stack {}", stack.name().short());
    let actor = &context.environment.actor;
    match stack.lock_status().await?.client_lock {
        Some(lock) if lock.holder.who == actor.who && lock.holder.host == actor.host => Ok(lock.id),
        Some(lock) => {
            let message = format!("its client lock is held by {}", describe(context, &lock));
            Err(CliError::refused(object, &message).with_hint(format!(
                "if its holder is gone: `statectl lock break --id {}`",
                lock.id
            )))
        }
        None => Err(
            CliError::conflict(object, "it has no client lock: there is nothing to release")
                .with_hint("`statectl lock status` shows who holds it"),
        ),
    }
}
