//! Decides whether this client accepts the stack to which a name leads. Compares the name pointer, the head of the
//! stack that this client remembers under the name, and the pin of that stack. Lookups, lists and creation use this
//! module.
//!
//! Anyone with write access to the store can delete or exchange name pointers. When a name no longer leads to the
//! remembered stack, that stack's own head must therefore prove that the stack was removed or renamed. After a rename,
//! the new name must lead to the stack: otherwise a deleted new name would hide a stack that this client remembers under
//! the old one.
//!
//! | the name leads to | the head of the remembered stack says | result |
//! |---|---|---|
//! | the remembered stack | – | accepted |
//! | nothing | removed, or renamed | accepted; unless it has the policy `plaintext`, it stays remembered under the name, else under its new name |
//! | nothing | it still has this name, it is missing, or its new name doesn't lead to it | refused |
//! | nothing | and a sealed stack that is remembered under another name isn't found | refused |
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
use crate::keys::authenticate::{UncheckedHead, UncheckedName};
use crate::keys::proof::Proof;
use crate::known_stacks::StackPin;
use crate::read::history_floor::ATTEMPTS;
use crate::read::open;
use futures_util::{StreamExt, TryStreamExt, stream};
use state_core::{Error, ErrorKind, Lineage, Result, StackName};
use std::collections::BTreeMap;

/// The number of heads that are read at the same time.
const CONCURRENT_HEADS: usize = 16;

/// Checks that a name leads to no stack, and forgets the stack that had it. Returns the stack that this client still
/// remembers under the name.
///
/// # Errors
/// As [`check`].
pub(crate) async fn follow_to_none(store: &StoreContext, name: &StackName) -> Result<Option<Lineage>> {
    while let Believed::Changed { before: Some(before) } = check(store, name, None).await? {
        if store.forget_name(name, before).await {
            break;
        }
        // Another process of this client remembered another stack meanwhile, which may have the name.
    }
    match store.known_stacks() {
        Some(known_stacks) => known_stacks.named(name).await,
        None => Ok(None),
    }
}

/// Whether the client's memory of an accepted name must change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Believed {
    /// The client's memory of the name stays as it is.
    Unchanged,
    /// The client must remember the stack to which the name leads now. The name is new, or the stack that had the name
    /// before is proven to have been removed or renamed.
    Changed {
        /// The stack that this client remembers under the name.
        before: Option<Lineage>,
    },
}

/// Checks the stack to which a name leads, without remembering it. Remembers only the new name of a known stack that
/// was renamed and has the policy `plaintext`.
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
        None => return Ok(Believed::Changed { before: None }),
        Some(before) => before,
    };
    let (release, renamed) = require_released(store, name, before).await?;
    match (release, now) {
        (Release::Plain, _) => {
            // Without its former name, the client would forget the stack: a deleted new name would then count as unused.
            if let Some(renamed) = renamed {
                // False if this client already remembers a stack under the new name: that one stays.
                known_stacks.replace_name(&renamed, None, Some(before)).await;
            }
            Ok(Believed::Changed { before: Some(before) })
        }
        // This client keeps the stack in memory under its name: the user must accept the next stack with this name, or
        // this client must create it.
        (Release::Kept, None) => Ok(Believed::Unchanged),
        (Release::Kept, Some(now)) => Err(replaced(name, before, now)),
    }
}

/// The refusal of a list of the store in which a known name is missing, although its pointer leads to the known stack.
/// The list may be outdated: another process of this client may have created the stack, or renamed it to this name, after
/// the names were listed. The error counts if the name is missing in the next lists too.
#[derive(Debug)]
pub(crate) struct Outdated(Error);

/// Checks all names that this client remembers and that a list of the store doesn't contain.
///
/// # Errors
/// As [`check`].
pub(crate) async fn check_absent(store: &StoreContext, listed: &[StackName]) -> Result<Result<(), Outdated>> {
    let Some(known_stacks) = store.known_stacks() else {
        return Ok(Ok(()));
    };
    for name in known_stacks.names().await? {
        if listed.iter().any(|one| one.folded() == name.folded()) {
            continue;
        }
        match follow_to_none(store, &name).await {
            Err(error) if error.kind() == ErrorKind::Distrusted => {
                let remembered = known_stacks.named(&name).await?;
                match remembered {
                    Some(lineage) if leads_to(store, &name, lineage).await? => {
                        return Ok(Err(Outdated(error)));
                    }
                    _ => return Err(error),
                }
            }
            followed => drop(followed?),
        }
    }
    Ok(Ok(()))
}

/// Repeats the reading of a list until it isn't outdated any more.
///
/// # Errors
/// `Distrusted` if a known name is missing in each list; errors of `read`.
pub(crate) async fn repeated<T>(read: impl AsyncFn() -> Result<Result<T, Outdated>>) -> Result<T> {
    let mut attempt = 1;
    loop {
        match read().await? {
            Err(_) if attempt < ATTEMPTS => attempt += 1,
            Err(Outdated(error)) => return Err(error),
            Ok(list) => return Ok(list),
        }
    }
}

/// Requires that every sealed stack that this client knows is still found, before a name counts as unused: a known stack
/// may have been renamed to it, and its new name deleted. `except` is a stack that takes the name itself. Returns whether
/// the name leads to a known stack by now, because a rename ended meanwhile.
///
/// # Errors
/// `Distrusted` about a known stack that isn't found under the name that its head gives it, or whose head is missing.
pub(crate) async fn require_unused(
    store: &StoreContext,
    name: &StackName,
    except: Option<Lineage>,
) -> Result<bool> {
    let Some(known_stacks) = store.known_stacks() else {
        return Ok(false);
    };
    let mut known = BTreeMap::new();
    for other in known_stacks.names().await? {
        if let Some(lineage) = known_stacks.named(&other).await?
            && Some(lineage) != except
            && other.folded() != name.folded()
        {
            known.insert(lineage, other);
        }
    }
    let checks = known.into_iter().map(|(lineage, other)| async move {
        // The head isn't authenticated yet: it only decides whether the proof of a rename or a removal is needed.
        let now = match UncheckedHead::read(store, lineage).await {
            Ok(head) => (!head.is_removed()).then(|| head.name().clone()),
            Err(error) if is_lost(&error) => {
                // A renamed stack keeps its own key and recipients under each name, so a rename needs no more proof than
                // the pointer. A stack that is created would be sealed for whom the store says.
                if except.is_some() && leads_to(store, &other, lineage).await? {
                    return Ok(false);
                }
                None
            }
            Err(error) => return Err(error),
        };
        let has = |name: &StackName| now.as_ref().is_some_and(|now| now.folded() == name.folded());
        let takes_name = has(name);
        if has(&other) {
            match leads_to(store, &other, lineage).await {
                // A damaged pointer proves nothing, and a head that the stack's key authenticates proves its name.
                Err(error) if error.kind() == ErrorKind::Corrupt => {
                    if keeps_name(store, &other, lineage).await {
                        return Ok(false);
                    }
                }
                leads => {
                    if leads? {
                        return Ok(false);
                    }
                }
            }
        }
        let pin = known_stacks.seen(lineage).await?;
        if takes_name || pin.is_some_and(|pin| pin.is_sealed()) {
            require_released(store, &other, lineage).await?;
        }
        Ok(takes_name)
    });
    let checks = stream::iter(checks.collect::<Vec<_>>()).buffer_unordered(CONCURRENT_HEADS);
    checks
        .try_fold(false, |any, one| async move { Ok(any || one) })
        .await
}

/// Whether the error says that an object is damaged or missing.
fn is_lost(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Corrupt)
}

/// Whether a stack of which this client knows the key still has this name, as its head says.
async fn keeps_name(store: &StoreContext, name: &StackName, lineage: Lineage) -> bool {
    let stack = store.stack(name.clone(), lineage).without_expectations();
    let Ok((tip, standing)) = open::tip(&stack).await else {
        return false;
    };
    let pin = match store.known_stacks() {
        Some(known_stacks) => known_stacks.seen(lineage).await.ok().flatten(),
        None => None,
    };
    let is_proven = standing.regression.is_none() && proven(tip.head.proof(), pin.as_ref()).is_some();
    is_proven && !tip.head.removed && tip.head.name.folded() == name.folded()
}

/// Whether the pointer of a name leads to this stack. The pointer isn't authenticated: a lookup by this name does that.
async fn leads_to(store: &StoreContext, name: &StackName, lineage: Lineage) -> Result<bool> {
    let pointer = UncheckedName::read(store.backend(), name).await?;
    Ok(pointer.is_some_and(|pointer| pointer.lineage() == Some(lineage)))
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

/// Requires a proof that the remembered stack doesn't have the name any more. Returns also the name that the stack has
/// now; none if it was removed.
async fn require_released(
    store: &StoreContext,
    name: &StackName,
    before: Lineage,
) -> Result<(Release, Option<StackName>)> {
    let mut renamed: Option<StackName> = None;
    for _ in 0..ATTEMPTS {
        let (release, now) = release(store, name, before).await?;
        let Some(now) = now else {
            return Ok((release, None));
        };
        if leads_to(store, &now, before).await? {
            return Ok((release, Some(now)));
        }
        // The head was read before the pointer: another rename or a removal may have come between the two.
        if renamed.as_ref() == Some(&now) {
            break;
        }
        renamed = Some(now);
    }
    let now = renamed.map_or_else(|| name.short(), |now| now.short());
    let reason = format!(
        "that stack is named {now} now, and the name {now} doesn't lead to it: the name was deleted or exchanged in the store"
    );
    Err(refused(name, before, &reason))
}

/// How the remembered stack released the name, and the name that it has now; none if it was removed.
async fn release(
    store: &StoreContext,
    name: &StackName,
    before: Lineage,
) -> Result<(Release, Option<StackName>)> {
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
    let release = proven(head.proof(), pin.as_ref()).ok_or_else(|| {
        let reason = "this client can't authenticate its head, so a removal or a rename is not proven";
        refused(name, before, reason)
    })?;
    if head.removed {
        return Ok((release, None));
    }
    if head.name.folded() != name.folded() {
        return Ok((release, Some(head.name.clone())));
    }
    Err(refused(
        name,
        before,
        "that stack still has this name: the name was deleted or exchanged in the store",
    ))
}

/// What a head with this proof is worth; none if it proves nothing.
fn proven(proof: Proof, pin: Option<&StackPin>) -> Option<Release> {
    match (proof, pin) {
        (Proof::Mac(_), _) => Some(Release::Kept),
        (Proof::Plain, Some(pin)) if pin.is_plain_by_choice() => Some(Release::Plain),
        (Proof::Plain, Some(_)) => Some(Release::Kept),
        (Proof::Plain, None) | (Proof::Unchecked | Proof::Published, _) => None,
    }
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
