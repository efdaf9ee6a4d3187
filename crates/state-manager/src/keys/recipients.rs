//! To whom a stack's data key and its outputs are wrapped.

use crate::context::StackContext;
use crate::keys::{rotation, trust, wrapped};
use crate::lock;
use crate::write::locked_stack::LockedStack;
use state_core::head::Keys;
use state_core::mutation::StackOutputs;
use state_core::{Error, Head, Result, Serial};

/// The keys that the head names, once it is authenticated; none for a stack without a key.
pub(crate) async fn keys(stack: &StackContext) -> Result<Option<Keys>> {
    let head = stack.head().await?;
    trust::for_reading(stack, &head).await?;
    Ok(head.keys)
}

/// Wraps the stack's data key to more recipients. Sealed values stay as they are.
pub(crate) async fn add(stack: &StackContext, operation: &str, more: &[String]) -> Result<Vec<String>> {
    let locked = lock::lock(stack, operation, None).await?;
    let added = wrap_to_more(&locked, more).await;
    locked.close_after(added).await
}

async fn wrap_to_more(locked: &LockedStack, more: &[String]) -> Result<Vec<String>> {
    let stack = &locked.stack;
    let provider = rotation::require_provider(stack)?;
    let head = stack.head().await?;
    let (Some(key), Some(keys)) = (locked.seal.key(), head.keys) else {
        return Err(unsealed(stack));
    };
    let recipients = with_more(keys.recipients, more);
    let wrapped = provider.wrap(key.id(), Some(&recipients))?;
    let files = wrapped::store(stack, &*locked.writer, key.id(), &wrapped).await?;
    let change = |head: &mut Head| {
        if let Some(keys) = &mut head.keys {
            keys.files.clone_from(&files);
            keys.recipients.clone_from(&wrapped.recipients);
        }
    };
    locked.swap_head(&change).await?;
    Ok(wrapped.recipients)
}

/// Wraps the stack's outputs to more recipients, and makes a revision whose outputs they get.
pub(crate) async fn add_for_outputs(
    stack: &StackContext,
    operation: &str,
    more: &[String],
) -> Result<Vec<String>> {
    let locked = lock::lock(stack, operation, None).await?;
    let added = publish_to_more(&locked, more).await;
    let recipients = locked.close_after(added).await?;
    let message = format!("outputs for {}", more.join(", "));
    rotation::mark_rekeyed(stack, operation, message, None).await?;
    Ok(recipients)
}

async fn publish_to_more(locked: &LockedStack, more: &[String]) -> Result<Vec<String>> {
    let head = locked.stack.head().await?;
    let (Some(key), Some(keys)) = (locked.seal.key(), head.keys) else {
        return Err(unsealed(&locked.stack));
    };
    let outputs = with_more(keys.outputs, more);
    // A document that can't be wrapped to them is refused before anything changes.
    key.outputs_document(head.policy, Serial::ZERO, &StackOutputs::default(), &outputs)?;
    let change = |head: &mut Head| {
        if let Some(keys) = &mut head.keys {
            keys.outputs.clone_from(&outputs);
        }
    };
    locked.swap_head(&change).await?;
    Ok(outputs)
}

fn unsealed(stack: &StackContext) -> Error {
    Error::sealed(stack.object(), "it has no data key: seal the stack first")
}

fn with_more(mut recipients: Vec<String>, more: &[String]) -> Vec<String> {
    for one in more {
        if !recipients.contains(one) {
            recipients.push(one.clone());
        }
    }
    recipients
}
