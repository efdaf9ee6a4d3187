//! Compares a name with the stack that this client remembers under it. The names of a store are files that anyone with
//! write access can delete or exchange, so a remembered stack must not vanish, or make room for another one, without a
//! proof by its own head.
//!
//! | the name leads to | the head of the remembered stack says | |
//! |---|---|---|
//! | the remembered stack | – | accepted |
//! | nothing | removed, or renamed | accepted; a name of a sealed stack isn't forgotten |
//! | nothing | it still has this name, or it is missing | refused |
//! | another stack | removed, or renamed | accepted if this client also knows the other stack's key |
//! | another stack | anything else | refused |
//!
//! The head of a sealed stack counts only with its tag. A plain stack proves nothing: its head is believed, and a plain
//! stack without a head is forgotten.

use crate::context::StoreContext;
use crate::keys::authenticate;
use crate::keys::proof::Proof;
use crate::known_stacks::{KnownStacks, StackPin};
use state_core::{Error, ErrorKind, Lineage, Result, StackName};

/// Checks the stack to which a name leads now (none: to no stack), and remembers it.
///
/// # Errors
/// `Distrusted` when the remembered stack didn't give up the name.
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
                // Not forgotten: the next stack with this name must be accepted by the user, or made by this client.
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
    let head = match authenticate::head(&stack).await {
        Ok(opened) => opened.head,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return match is_sealed {
                true => Err(refused(
                    name,
                    before,
                    "the store doesn't contain that stack any more: it was deleted without its key, or a foreign store replaced it",
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
            "no identity at hand can authenticate what became of that stack",
        ));
    }
    if head.removed || head.name.folded() != name.folded() {
        // A removal and a rename take the lock, which raises the epoch. A head that isn't newer than the last one that was
        // seen under this name may be the one from before the name was given.
        return match head.epoch > pin.epoch {
            true => Ok(()),
            false => Err(refused(
                name,
                before,
                "the head that names that stack otherwise is not newer than the last one that was seen here",
            )),
        };
    }
    Err(refused(
        name,
        before,
        "that stack still has this name: the name was deleted or exchanged in the store",
    ))
}

/// Refuses another stack in the place of a sealed one, unless this client opened the other stack as well. Otherwise
/// anyone could make a stack of their own under a name that became free.
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
