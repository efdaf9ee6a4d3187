//! Compares a name with the stack that this client remembers under it. Anyone with write access to the store can delete
//! or exchange its name pointers. So when a name no longer leads to the remembered stack, that stack's own head must
//! prove that the stack was removed or renamed.
//!
//! | the name leads to | the head of the remembered stack says | |
//! |---|---|---|
//! | the remembered stack | – | accepted |
//! | nothing | removed, or renamed | accepted; a sealed stack stays remembered under the name |
//! | nothing | it still has this name, or it is missing | refused |
//! | another stack | removed, or renamed | accepted if this client also knows the other stack's key |
//! | another stack | anything else | refused |
//!
//! The head of a sealed stack is accepted only with a valid tag. The head of a plain stack has no tag and is accepted
//! as it is. A plain stack whose head is missing is forgotten.

use crate::context::StoreContext;
use crate::keys::proof::Proof;
use crate::known_stacks::{KnownStacks, StackPin};
use crate::read::stored;
use state_core::{Error, ErrorKind, Lineage, Result, StackName};

/// Checks the stack to which a name leads, and remembers it. `now` is none if the name leads to no stack.
///
/// # Errors
/// `Distrusted` when it isn't proven that the remembered stack was removed or renamed, or when an unknown stack has
/// taken the name of a sealed one.
pub(crate) async fn check(store: &StoreContext, name: &StackName, now: Option<Lineage>) -> Result<()> {
    let Some(known_stacks) = store.known_stacks() else {
        return Ok(());
    };
    let before = known_stacks.named(name).await?;
    if before == now {
        return Ok(());
    }
    if let Some(before) = before {
        let pin = known_stacks.seen(before).await?.unwrap_or_default();
        require_released(store, name, before, &pin).await?;
        if pin.key.is_some() {
            match now {
                Some(now) => require_known_key(known_stacks, name, before, now).await?,
                // This client keeps the sealed stack in memory under its name: the user must accept the next stack with
                // this name, or this client must create it.
                None => return Ok(()),
            }
        }
    }
    known_stacks.remember_name(name, now).await;
    Ok(())
}

/// Checks all names that this client remembers and that a list of the store doesn't contain.
///
/// # Errors
/// As [`check`].
pub(crate) async fn check_absent(store: &StoreContext, listed: &[StackName]) -> Result<()> {
    let Some(known_stacks) = store.known_stacks() else {
        return Ok(());
    };
    for name in known_stacks.names().await? {
        if !listed.iter().any(|one| one.folded() == name.folded()) {
            check(store, &name, None).await?;
        }
    }
    Ok(())
}

/// Requires a proof that the remembered stack doesn't have the name any more.
async fn require_released(
    store: &StoreContext,
    name: &StackName,
    before: Lineage,
    pin: &StackPin,
) -> Result<()> {
    let is_sealed = pin.key.is_some();
    let stack = store.stack(name.clone(), before);
    let head = match stored::head(&stack).await {
        Ok(opened) => opened.head,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return match is_sealed {
                true => Err(refused(
                    name,
                    before,
                    "the store doesn't contain that stack any more: it was deleted without a signed removal, or \
                     another store replaced this one",
                )),
                false => Ok(()),
            };
        }
        Err(error) => return Err(error),
    };
    if is_sealed && !matches!(head.proof(), Proof::Mac(_)) {
        return Err(refused(
            name,
            before,
            "none of your identities can authenticate its head, so a removal or a rename is not proven",
        ));
    }
    if head.removed || head.name.folded() != name.folded() {
        // A removal and a rename take the lock, which raises the epoch. A head whose epoch isn't above the pinned one
        // may be an old head, from before the stack got this name.
        return match head.epoch > pin.epoch {
            true => Ok(()),
            false => Err(refused(
                name,
                before,
                "the head that shows its removal or its new name is not newer than the head that this client last saw",
            )),
        };
    }
    Err(refused(
        name,
        before,
        "that stack still has this name: the name was deleted or exchanged in the store",
    ))
}

/// Refuses another stack under the name of a sealed one, unless this client has opened the other stack's key before.
/// Otherwise anyone with write access could put their own stack under a name that became free.
async fn require_known_key(
    known_stacks: &dyn KnownStacks,
    name: &StackName,
    before: Lineage,
    now: Lineage,
) -> Result<()> {
    let pin = known_stacks.seen(now).await?;
    if pin.is_some_and(|pin| pin.key.is_some()) {
        return Ok(());
    }
    let reason = format!(
        "the name pointed to the sealed stack {before}, and now points to {now}: the stack was removed and created again, \
         or replaced by a foreign one"
    );
    Err(Error::distrusted(format!("stack {}", name.short()), reason))
}

fn refused(name: &StackName, before: Lineage, reason: &str) -> Error {
    let object = format!("stack {}", name.short());
    Error::distrusted(
        object,
        format!("the name pointed to stack {before}, and {reason}"),
    )
}
