//! Published outputs: a stack's outputs in documents with their own recipients, who can read nothing else of the stack.
//!
//! One document is written for each revision after the revision is durable, as long as the stack has such recipients.
//! If the writer crashes before it writes the document, the next writer publishes the outputs of the current revision.
//! Outputs of earlier revisions are not needed any more.

use crate::context::{StackContext, StoreContext};
use crate::keys::authenticate::{self, Authenticated, UncheckedName};
use crate::keys::wrapped;
use crate::known_stacks::{KnownStacks, OutputsPin, StackPin};
use crate::read::stored;
use state_core::mutation::StackOutputs;
use state_core::sealing::OpenedOutputs;
use state_core::{Error, ErrorKind, Head, KeyId, Lineage, Result, Serial, StackName};

/// The published outputs of one revision.
#[derive(Clone, Debug, PartialEq)]
pub struct PublishedOutputs {
    /// Lineage of the stack.
    pub lineage: Lineage,
    /// Serial of the revision.
    pub serial: Serial,
    /// The outputs with their values opened.
    pub outputs: StackOutputs,
}

/// The latest outputs that a stack published; none if it published none. Reads the name pointer and the outputs
/// document only, unless this client opened the stack's data key before.
///
/// # Errors
/// `NotFound` if the name leads to no stack. `Sealed` if this client can't open the outputs, or if their serial isn't
/// the one in the document's name. `Distrusted` if the name leads to another stack than before, if the outputs belong
/// to another stack, or if they don't continue the outputs that this client last read: missing ones and those that it
/// can't open any more included.
pub(crate) async fn published_outputs(
    store: &StoreContext,
    name: &StackName,
) -> Result<Option<PublishedOutputs>> {
    let object = || format!("stack {}", name.short());
    let pointer = UncheckedName::read(store.backend(), name).await?;
    let lineage = pointer.and_then(|pointer| pointer.lineage());
    let named = match store.known_stacks() {
        Some(known_stacks) => require_same_stack(known_stacks, name, lineage).await?,
        None => None,
    };
    let Some(lineage) = lineage else {
        return Err(Error::not_found(object()));
    };
    let opened = match authenticate::outputs(store, lineage, &object()).await {
        Ok(Some(opened)) => opened,
        missing => {
            let cause = missing.as_ref().err().map(Error::to_string);
            if matches!(missing, Ok(_) | Err(Error::Sealed { .. }))
                && let Some(known_stacks) = store.known_stacks()
                && let Some(outputs) = known_stacks.seen(lineage).await?.and_then(|pin| pin.outputs)
                && !outputs.gone
            {
                let cause = cause.unwrap_or_else(|| "there are none now".to_owned());
                let reason = format!(
                    "this client read published outputs of serial {}, and {cause}",
                    outputs.serial
                );
                return Err(Error::distrusted(object(), reason));
            }
            return missing.map(|_| None);
        }
    };
    store
        .expectations
        .require_key(&object(), Some(opened.key), Some(opened.key))?;
    if opened.stack.folded() != name.folded() {
        let reason = format!(
            "its name leads to the outputs of stack {}: the stack was renamed and has made no revision since, or the store was \
             altered",
            opened.stack.short()
        );
        return Err(Error::distrusted(object(), reason));
    }
    if let Some(known_stacks) = store.known_stacks() {
        require_derived_key(store, known_stacks, name, lineage, &opened).await?;
        require_no_regression(known_stacks, lineage, &opened)
            .await?
            .map_err(|reason| Error::distrusted(object(), reason))?;
        store.remember_name(name, named, lineage).await?;
    }
    Ok(Some(PublishedOutputs {
        lineage,
        serial: opened.serial,
        outputs: opened.into_value().outputs,
    }))
}

/// The key of a stack's published outputs, with their serial if this client is one of their recipients; none if the stack
/// publishes none. A holder of the data key derives the key; a recipient of the outputs reads it from the document.
pub(crate) async fn key(stack: &StackContext, head: &Head) -> Result<(Option<KeyId>, Option<Serial>)> {
    let publishes = head.keys.as_ref().is_some_and(|keys| !keys.outputs.is_empty());
    let Some(id) = head.key_id.filter(|_| publishes) else {
        return Ok((None, None));
    };
    let derived = match wrapped::unwrap(stack, id).await {
        Ok(key) => key.outputs_id(),
        Err(error) if error.kind() == ErrorKind::Sealed => None,
        Err(error) => return Err(error),
    };
    match authenticate::outputs(stack.store(), stack.lineage(), &stack.object()).await {
        Ok(Some(opened)) if derived.is_none_or(|derived| derived == opened.key) => {
            Ok((Some(opened.key), Some(opened.serial)))
        }
        Ok(_) => Ok((derived, None)),
        // The document was replaced after it was listed, is sealed for others, or can't be opened by this kind of key.
        Err(Error::Sealed { .. } | Error::NotFound { .. } | Error::Unsupported { .. }) => Ok((derived, None)),
        Err(error) => Err(error),
    }
}

/// Requires that the name leads to the stack whose outputs this client last read under this name. Refuses another stack
/// even if the former one was removed or renamed: a reader of outputs can't authenticate the head that records a
/// removal or a rename. Returns the stack that this client remembers under the name.
async fn require_same_stack(
    known_stacks: &dyn KnownStacks,
    name: &StackName,
    now: Option<Lineage>,
) -> Result<Option<Lineage>> {
    let named = known_stacks.named(name).await?;
    let Some(before) = named.filter(|before| Some(*before) != now) else {
        return Ok(named);
    };
    let Some(pin) = known_stacks.seen(before).await? else {
        return Ok(named);
    };
    if pin.is_plain_by_choice() {
        return Ok(named);
    }
    let leads = now.map_or_else(|| "to no stack".to_owned(), |now| format!("to {now}"));
    let reason = format!(
        "the name led to the outputs of stack {before} when this client last read them, and leads {leads} now"
    );
    Err(Error::distrusted(format!("stack {}", name.short()), reason))
}

/// Requires that the outputs are sealed with the key that is derived from the data key, if this client opened the data key
/// before. Anyone can wrap a key of their own to this client's public recipient, and only a client that is merely a
/// recipient of outputs has to rely on the document.
///
/// # Errors
/// `Distrusted` if the outputs have another key; any error of opening the stack's head and its data key.
async fn require_derived_key(
    store: &StoreContext,
    known_stacks: &dyn KnownStacks,
    name: &StackName,
    lineage: Lineage,
    opened: &Authenticated<OpenedOutputs>,
) -> Result<()> {
    let pin = known_stacks.seen(lineage).await?;
    if !pin.is_some_and(|pin| pin.key.is_some() && !pin.unopened) {
        return Ok(());
    }
    let stack = store.stack(name.clone(), lineage);
    let derived = stored::head(&stack).await?.key.and_then(|key| key.outputs_id());
    if derived == Some(opened.key) {
        return Ok(());
    }
    let reason = format!(
        "this client opened its data key, and its published outputs have key {}, which isn't derived from that",
        opened.key
    );
    Err(Error::distrusted(stack.object(), reason))
}

/// Requires that the outputs are sealed with the same key as before and belong to no older revision; then updates the
/// pin. A new key is refused: only a record that the old key endorsed could prove it, and recipients of outputs can't
/// open the data keys that verify the record.
async fn require_no_regression(
    known_stacks: &dyn KnownStacks,
    lineage: Lineage,
    opened: &Authenticated<OpenedOutputs>,
) -> Result<Result<(), String>> {
    loop {
        let before = known_stacks.seen(lineage).await?;
        if let Some(reason) = before.as_ref().and_then(StackPin::refusal) {
            return Ok(Err(reason));
        }
        let mut now = before.clone().unwrap_or_default();
        if let Some(outputs) = &now.outputs {
            if outputs.key != opened.key {
                let (was, is) = (outputs.key, opened.key);
                return Ok(Err(format!(
                    "its outputs were sealed with key {was} when this client last read them, and are now sealed with {is}"
                )));
            }
            if outputs.serial > opened.serial {
                let (was, is) = (outputs.serial, opened.serial);
                return Ok(Err(format!(
                    "the store was rolled back: this client read outputs of serial {was}, and the latest are now of serial {is}"
                )));
            }
        }
        now.outputs = Some(OutputsPin::new(opened.key, opened.serial));
        if before.as_ref() == Some(&now) || known_stacks.replace(lineage, before.as_ref(), Some(&now)).await {
            return Ok(Ok(()));
        }
    }
}
