//! Decides whether this client accepts the stack to which a name leads. Compares the name pointer, the head of the
//! stack that this client remembers under the name, and the pin of that stack. Lookups, lists and creation use this
//! module.
//!
//! Anyone with write access to the store can delete or exchange name pointers. When a name no longer leads to the
//! remembered stack, that stack's own head must therefore prove that the stack was removed or renamed.
//!
//! | the name leads to | the head of the remembered stack says | result |
//! |---|---|---|
//! | the remembered stack | – | accepted |
//! | nothing | removed, or renamed | accepted; unless it has the policy `plaintext`, it stays remembered under the name |
//! | nothing | it still has this name, or it is missing | refused |
//! | another stack | removed, or renamed | accepted if the remembered stack has the policy `plaintext`, else refused |
//! | another stack | anything else | refused |
//!
//! The head of a sealed stack is accepted only with a valid tag, and head and journal must continue the pinned
//! position: an older head with another name proves nothing. The head of a stack without a data key has no tag and is
//! accepted as it is.
//!
//! Another stack under the name of a sealed stack, or of one that isn't sealed yet, is refused even if this client knows the other stack. The client may
//! know it from an unimportant name, and under the present name the client would seal values for the wrong recipients.
//! The user can accept the other stack explicitly.

use crate::context::StoreContext;
use crate::keys::proof::Proof;
use crate::read::open;
use state_core::{Error, ErrorKind, Lineage, Result, StackName};

/// Checks the stack to which a name leads, and remembers it. `now` is none if the name leads to no stack.
///
/// # Errors
/// As [`check`].
pub(crate) async fn follow(store: &StoreContext, name: &StackName, now: Option<Lineage>) -> Result<()> {
    if let Believed::Changed = check(store, name, now).await?
        && let Some(known_stacks) = store.known_stacks()
    {
        known_stacks.remember_name(name, now).await;
    }
    Ok(())
}

/// Whether the client's memory of an accepted name must change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Believed {
    /// The client's memory of the name stays as it is.
    Unchanged,
    /// The client must remember the stack to which the name leads now. The name is new, or the stack that had the name
    /// before is proven to have been removed or renamed.
    Changed,
}

/// Checks the stack to which a name leads, without remembering it.
///
/// # Errors
/// `Distrusted` when it isn't proven that the remembered stack was removed or renamed, or when another stack has taken
/// the name of a sealed one.
pub(crate) async fn check(store: &StoreContext, name: &StackName, now: Option<Lineage>) -> Result<Believed> {
    let Some(known_stacks) = store.known_stacks() else {
        return Ok(Believed::Unchanged);
    };
    let before = match known_stacks.named(name).await? {
        before if before == now => return Ok(Believed::Unchanged),
        None => return Ok(Believed::Changed),
        Some(before) => before,
    };
    match (require_released(store, name, before).await?, now) {
        (Release::Plain, _) => Ok(Believed::Changed),
        // This client keeps the stack in memory under its name: the user must accept the next stack with this name, or
        // this client must create it.
        (Release::Kept, None) => Ok(Believed::Unchanged),
        (Release::Kept, Some(now)) => Err(replaced(name, before, now)),
    }
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
            follow(store, &name, None).await?;
        }
    }
    Ok(())
}

/// How it is known that a stack released its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Release {
    /// The stack has the policy `plaintext`: anyone could have written the head, and nothing is sealed under its name.
    Plain,
    /// The stack is sealed, and a holder of the data key signed the head. Or it has no data key yet: the next stack under
    /// its name would decide for whom this client seals its first values.
    Kept,
}

/// Requires a proof that the remembered stack doesn't have the name any more.
async fn require_released(store: &StoreContext, name: &StackName, before: Lineage) -> Result<Release> {
    let pin = match store.known_stacks() {
        Some(known_stacks) => known_stacks.seen(before).await?,
        None => None,
    };
    // The caller's expectations apply to the stack that has the name now, not to the stack that had it before.
    let stack = store.stack(name.clone(), before).without_expectations();
    let (tip, standing) = match open::tip(&stack).await {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(refused(
                name,
                before,
                "the store doesn't contain that stack any more: it was deleted without a removal, or another store \
                 replaced this one",
            ));
        }
        // Anyone can damage the stack, so damage doesn't prove that it gave the name up.
        Err(error) if error.kind() == ErrorKind::Corrupt => {
            let reason = format!("that stack is damaged, so a removal or a rename is not proven: {error}");
            return Err(refused(name, before, &reason));
        }
        read => read?,
    };
    if let Some(regression) = standing.regression {
        return Err(refused(name, before, &regression));
    }
    let head = &tip.head;
    let release = match (head.proof(), &pin) {
        (Proof::Mac(_), _) => Release::Kept,
        (Proof::Plain, Some(pin)) if pin.is_plain_by_choice() => Release::Plain,
        (Proof::Plain, Some(_)) => Release::Kept,
        (Proof::Plain, None) | (Proof::Unchecked | Proof::Published, _) => {
            return Err(refused(
                name,
                before,
                "this client can't authenticate its head, so a removal or a rename is not proven",
            ));
        }
    };
    if head.removed || head.name.folded() != name.folded() {
        return Ok(release);
    }
    Err(refused(
        name,
        before,
        "that stack still has this name: the name was deleted or exchanged in the store",
    ))
}

fn replaced(name: &StackName, before: Lineage, now: Lineage) -> Error {
    let reason = format!(
        "the name pointed to stack {before}, and now points to {now}: the stack was removed and created again, \
         or replaced by a foreign one"
    );
    Error::distrusted(format!("stack {}", name.short()), reason)
}

fn refused(name: &StackName, before: Lineage, reason: &str) -> Error {
    let object = format!("stack {}", name.short());
    Error::distrusted(
        object,
        format!("the name pointed to stack {before}, and {reason}"),
    )
}
