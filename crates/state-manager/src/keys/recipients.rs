//! The recipients of a stack, and the changes that add some. Each change is made within an update, under one lock, as
//! those of [`rotation`](super::rotation) are.

use crate::context::StackContext;
use crate::keys::rotation::{announce, require_provider};
use crate::keys::{trust, wrapped};
use crate::lock;
use crate::write::locked_stack::LockedStack;
use state_core::backend::HeadChange;
use state_core::head::Keys;
use state_core::mutation::StackOutputs;
use state_core::{Error, Head, Result, Serial, UpdateResult};
use std::collections::BTreeMap;

/// The recipients of a stack, as its head lists them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recipients {
    /// The recipients to whom the data key is wrapped; empty for a stack without a data key.
    pub of_stack: Vec<String>,
    /// The recipients who can read the published outputs and nothing else of the stack.
    pub of_outputs: Vec<String>,
    /// The names that people gave to recipients, by recipient.
    pub names: BTreeMap<String, String>,
}

impl Recipients {
    pub(crate) fn of(head: &Head) -> Self {
        head.keys.as_ref().map_or_else(Self::default, |keys| Self {
            of_stack: keys.recipients.clone(),
            of_outputs: keys.outputs.clone(),
            names: keys.names.clone(),
        })
    }
}

/// Wraps the stack's data key to more recipients, and makes a revision that records them. If `name` is given, the head
/// stores it for each of them. Sealed values are not sealed again. Returns all recipients of the key.
pub(crate) async fn add_recipients(
    stack: &StackContext,
    operation: &str,
    more: &[String],
    name: Option<&str>,
) -> Result<Recipients> {
    let locked = lock::lock_patiently(stack, operation).await?;
    let recipients = wrap_to_more(&locked, more, name).await;
    locked.close_after(recipients).await
}

/// Wraps the key to more recipients, and stores `name` for each recipient in `more`. Returns all recipients.
async fn wrap_to_more(locked: &LockedStack, more: &[String], name: Option<&str>) -> Result<Recipients> {
    let stack = &locked.stack;
    let provider = require_provider(stack)?;
    let Some(head) = locked.head.sealed() else {
        return Err(unsealed(stack));
    };
    let id = head.key().id();
    let known = head.keys.as_ref().map(|keys| keys.recipients.clone());
    // Names and known recipients are compared in the spelling of the head.
    let more: Vec<String> = more
        .iter()
        .map(|one| provider.spelling(one))
        .collect::<Result<_>>()?;
    let known = known.unwrap_or_default();
    let are_known = more.iter().all(|one| known.contains(one));
    let recipients = with_more(known, &more);
    let wrapped = provider.wrap(id, Some(&recipients))?;
    require_no_escrow_key(&locked.stack, head.keys.as_ref(), &more, name)?;
    let named = more
        .iter()
        .filter_map(|one| Some((one.clone(), name?.to_owned())));
    let named: BTreeMap<String, String> = named.collect();
    let files = wrapped::store(stack, &*locked.writer, id, &wrapped).await?;
    let change = |head: &mut Head| {
        if let Some(keys) = &mut head.keys {
            keys.files.clone_from(&files);
            keys.recipients.clone_from(&wrapped.recipients);
            keys.names.extend(named.clone());
        }
        Ok(())
    };
    let added = more.join(", ");
    let message = match name {
        Some(name) if are_known => format!("named {name} ({added})"),
        Some(name) => format!("added {name} ({added})"),
        None => format!("added {added}"),
    };
    change_recipients(locked, message, &change).await
}

/// Adds recipients of the stack's outputs, and makes a revision whose outputs are published to them. Returns all
/// recipients of the outputs.
pub(crate) async fn add_output_recipients(
    stack: &StackContext,
    operation: &str,
    more: &[String],
) -> Result<Recipients> {
    let locked = lock::lock_patiently(stack, operation).await?;
    let outputs = publish_to_more(&locked, more).await;
    locked.close_after(outputs).await
}

async fn publish_to_more(locked: &LockedStack, more: &[String]) -> Result<Recipients> {
    let Some(head) = locked.head.sealed() else {
        return Err(unsealed(&locked.stack));
    };
    let known = head.keys.as_ref().map(|keys| keys.outputs.clone());
    let outputs = with_more(known.unwrap_or_default(), more);
    // An empty document is sealed first: a malformed recipient must be refused before the head changes.
    head.key().outputs_document(
        head.policy,
        &head.name,
        Serial::ZERO,
        &StackOutputs::default(),
        &outputs,
    )?;
    let change = |head: &mut Head| {
        if let Some(keys) = &mut head.keys {
            keys.outputs.clone_from(&outputs);
        }
        Ok(())
    };
    let message = format!("outputs for {}", more.join(", "));
    change_recipients(locked, message, &change).await
}

fn unsealed(stack: &StackContext) -> Error {
    Error::sealed(stack.object(), "it has no data key: encrypt the stack first")
}

/// Refuses another name for an escrow key: the name is its only mark, which protects it from being removed like another
/// recipient.
fn require_no_escrow_key(
    stack: &StackContext,
    keys: Option<&Keys>,
    more: &[String],
    name: Option<&str>,
) -> Result<()> {
    let (Some(keys), Some(name)) = (keys, name) else {
        return Ok(());
    };
    let is_escrow = |one: &&String| keys.names.get(*one).is_some_and(|name| name == Keys::ESCROW);
    match more.iter().find(is_escrow).filter(|_| name != Keys::ESCROW) {
        None => Ok(()),
        Some(one) => Err(Error::conflict(
            stack.object(),
            format!("recipient {one} is an escrow key, and can't have the name `{name}`"),
        )),
    }
}

fn with_more(mut recipients: Vec<String>, more: &[String]) -> Vec<String> {
    for one in more {
        if !recipients.contains(one) {
            recipients.push(one.clone());
        }
    }
    recipients
}

/// Changes the recipients in the head within an update, which makes one revision.
async fn change_recipients(
    locked: &LockedStack,
    message: String,
    change: HeadChange<'_>,
) -> Result<Recipients> {
    announce(locked, message).await?;
    let former = locked.seal.key().map(|key| key.id());
    let swapped = locked.swap_head(change).await;
    let result = match &swapped {
        Ok(head) => {
            trust::remember_sealing(&locked.stack, head, former).await;
            UpdateResult::Succeeded
        }
        // The swap may have taken effect although its answer was lost, so the history shows the update either way.
        Err(_) => UpdateResult::Interrupted,
    };
    let ended = locked.end_update(result).await;
    let head = swapped?;
    ended?;
    Ok(Recipients::of(&head))
}
