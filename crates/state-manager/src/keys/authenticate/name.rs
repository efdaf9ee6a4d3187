//! Name pointers: a pointer is valid only if the head of its stack confirms it and, on a sealed stack, if it has a
//! valid tag too.
//!
//! | the stack's authenticated head says | the pointer must have | the name leads to |
//! |---|---|---|
//! | this name, or a rename to it that the pointer completes | a tag under the key in use | the stack; no stack if the head is marked as removed |
//! | this name and no removal, but the pointer records a removal or a rename | – | refused |
//! | another name | a tag under any key of the stack, if the stack was sealed from its first session on | no stack |
//!
//! A rotation adds the new tag before the head names the new key, so the key that the head names verifies the
//! pointer at any moment. Pointers of names that the stack gave up aren't tagged again, because the head already says
//! that it gave them up.

use super::{Authenticated, OpenedHead, UncheckedHead, open_head};
use crate::context::{StackContext, StoreContext};
use crate::keys::proof::Proof;
use crate::keys::wrapped;
use crate::known_stacks::StackPin;
use state_core::backend::{NamePointer, NameTarget};
use state_core::head::PendingRename;
use state_core::sealing::StackKey;
use state_core::{Backend, Error, ErrorKind, Head, Lineage, Nonce, Result, Slot, StackName};

/// A name pointer as the store returned it. Until it is authenticated, callers can only read the stack of which it
/// speaks, replace the pointer, and copy it to another store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UncheckedName(NamePointer);

impl UncheckedName {
    /// Reads the pointer of a name; none if there is none.
    pub(crate) async fn read(backend: &dyn Backend, name: &StackName) -> Result<Option<Self>> {
        Ok(backend.read_name(name).await?.map(Self))
    }

    /// Reads the pointers of all names.
    pub(crate) async fn list(backend: &dyn Backend) -> Result<Vec<Self>> {
        Ok(backend.names().await?.into_iter().map(Self).collect())
    }

    pub(crate) const fn name(&self) -> &StackName {
        &self.0.name
    }

    /// The stack that has or had the name.
    pub(crate) const fn subject(&self) -> Lineage {
        self.0.subject()
    }

    /// The stack that has the name; none if it gave the name up.
    pub(crate) const fn lineage(&self) -> Option<Lineage> {
        self.0.lineage()
    }

    /// The nonce with which the pointer can be replaced.
    pub(crate) const fn nonce(&self) -> Nonce {
        self.0.nonce
    }

    /// Whether the pointer completes this rename of a stack, which has this key. The nonce decides, not the lineage: if
    /// only the spelling changes, the old pointer has the lineage too.
    pub(crate) fn completes(&self, moving: &PendingRename, key: Option<&dyn StackKey>) -> bool {
        self.0.nonce == moving.nonce && key.is_none_or(|key| self.0.is_authentic(key))
    }

    /// Whether this head announces a rename that the pointer completes.
    pub(super) fn completes_rename_in(&self, head: &Head) -> bool {
        is_moving_to(head, &self.0)
    }

    /// Stores the pointer unchanged in another store, for a copy of its stack by a client that can't sign a pointer.
    /// `before` is the nonce of the pointer there.
    pub(crate) async fn store_in(&self, backend: &dyn Backend, before: Option<Nonce>) -> Result<()> {
        backend.swap_name(&self.0.name, before, &self.0).await
    }
}

/// A name that was looked up.
#[derive(Debug)]
pub(crate) struct ResolvedName {
    pub(crate) pointer: Authenticated<NamePointer>,
    /// The stack that has the name, as its head spells the name; none if it gave the name up. Its key is unwrapped
    /// already, unless the head was known.
    pub(crate) stack: Option<StackContext>,
    /// The head that authenticates the pointer; none if it is missing.
    pub(crate) head: Option<Authenticated<Head>>,
}

/// Authenticates a pointer by the head of its stack, which is read unless the caller has read it after the pointer.
///
/// # Errors
/// `Distrusted` if the pointer wasn't written by a holder of the stack's key, or contradicts the stack's head.
/// `Corrupt` if the pointer leads to a stack whose head is missing.
pub(crate) async fn named(
    store: &StoreContext,
    unchecked: &UncheckedName,
    head: Option<UncheckedHead>,
) -> Result<ResolvedName> {
    let UncheckedName(pointer) = unchecked;
    let lineage = pointer.subject();
    let read = match head {
        Some(head) => Ok(head),
        None => UncheckedHead::read(store, lineage).await,
    };
    let UncheckedHead(head) = match read {
        Ok(head) => head,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return match pointer.target {
                // The head is written before its pointer, so a pointer without a head means damage.
                NameTarget::Lineage(_) => {
                    let object = error.object().to_owned();
                    let reason = "a name points to this stack, but its head is missing";
                    Err(Error::corrupt(object, 0, reason))
                }
                // Nothing is left of the stack that had the name.
                NameTarget::Removed(_) | NameTarget::MovedTo { .. } => Ok(ResolvedName {
                    pointer: Authenticated::new(pointer.clone(), Proof::Unchecked),
                    stack: None,
                    head: None,
                }),
            };
        }
        Err(error) => return Err(error),
    };
    let has_name = head.name.folded() == pointer.name.folded();
    let is_target = matches!(pointer.target, NameTarget::Lineage(_));
    let is_bound = is_target && !head.removed && (has_name || is_moving_to(&head, pointer));
    let stack = match is_bound {
        true => store.stack(head.name.clone(), lineage),
        // The caller's expectations apply only to the stack that has the name. A message names the stack as its head does:
        // nothing is found under the name that it gave up.
        false => store.stack(head.name.clone(), lineage).without_expectations(),
    };
    let opened = open_head(&stack, head).await?;
    let proof = match &opened.key {
        Some(key) if has_name || is_bound => require_tag(pointer, &**key)?,
        Some(key) => require_earlier_tag(&stack, pointer, &opened.head, &**key).await?,
        None => opened.head.proof(),
    };
    if has_name && !is_target && !opened.head.removed {
        let reason =
            "it says that the stack gave up this name, and the head of the stack says that it has the name";
        return Err(refused(&pointer.name, reason));
    }
    Ok(ResolvedName {
        pointer: Authenticated::new(pointer.clone(), proof),
        stack: is_bound.then_some(stack),
        head: Some(opened.head),
    })
}

/// The stack of a pointer whose head this client authenticated before, without its data key. None if the head isn't
/// known, or isn't that of a stack under this name.
///
/// The pointer's tag isn't checked: the head says that the stack has the name, so the pointer adds nothing.
pub(crate) fn named_by_known(
    store: &StoreContext,
    UncheckedName(pointer): &UncheckedName,
    head: &UncheckedHead,
    pin: &StackPin,
) -> Option<ResolvedName> {
    let head = head.known(pin)?;
    let is_bound = pointer.lineage() == Some(head.lineage)
        && !head.removed
        && head.name.folded() == pointer.name.folded();
    is_bound.then(|| ResolvedName {
        pointer: Authenticated::new(pointer.clone(), head.proof()),
        stack: Some(store.stack(head.name.clone(), head.lineage)),
        head: Some(head),
    })
}

/// Returns the pointer if it leads to an opened stack under the name that the stack's head has. None for a stack that
/// was removed or is being renamed: [`named`] decides about those.
///
/// # Errors
/// `Distrusted` if the pointer wasn't written by a holder of the stack's key.
pub(crate) fn leading_to(
    opened: &OpenedHead,
    UncheckedName(pointer): UncheckedName,
) -> Result<Option<Authenticated<NamePointer>>> {
    let head = &opened.head;
    let is_bound = pointer.lineage() == Some(head.lineage)
        && !head.removed
        && head.name.folded() == pointer.name.folded();
    if !is_bound {
        return Ok(None);
    }
    let proof = match &opened.key {
        Some(key) => require_tag(&pointer, &**key)?,
        None => head.proof(),
    };
    Ok(Some(Authenticated::new(pointer, proof)))
}

/// Whether a head announces a rename that this pointer completes.
fn is_moving_to(head: &Head, pointer: &NamePointer) -> bool {
    let moving = head.moving_to.as_ref();
    moving.is_some_and(|to| to.nonce == pointer.nonce && to.name.folded() == pointer.name.folded())
}

/// Requires that the pointer has a valid tag under the key in use.
fn require_tag(pointer: &NamePointer, key: &dyn StackKey) -> Result<Proof> {
    if pointer.is_authentic(key) {
        return Ok(Proof::Mac(key.id()));
    }
    let reason = match pointer.tags.contains_key(&key.id()) {
        true => "its tag doesn't match the stack's data key",
        false => "it has no tag under the stack's data key",
    };
    Err(refused(&pointer.name, reason))
}

/// Requires that the pointer of a name that the stack gave up has a valid tag under the key in use or an earlier key. A
/// tag under an earlier key that this client can't open is accepted. No tag is required if the stack was written to
/// before it was sealed.
async fn require_earlier_tag(
    stack: &StackContext,
    pointer: &NamePointer,
    head: &Head,
    key: &dyn StackKey,
) -> Result<Proof> {
    if pointer.is_authentic(key) {
        return Ok(Proof::Mac(key.id()));
    }
    let Some(keys) = &head.keys else {
        return require_tag(pointer, key);
    };
    for id in keys.succession.iter().map(|link| link.old) {
        if !pointer.tags.contains_key(&id) {
            continue;
        }
        match wrapped::unwrap(stack, id).await {
            Ok(old) if pointer.is_authentic(&*old) => return Ok(Proof::Mac(id)),
            Ok(_) => {}
            // A recipient who was added later can't open the former key. Then the authenticated head is enough to show
            // that the stack gave up the name.
            Err(error) if error.kind() == ErrorKind::Sealed => return Ok(Proof::Unchecked),
            Err(error) => return Err(error),
        }
    }
    // A stack that its first session sealed has tags from slot 1 on, after the fence in slot 0. A later `since` means
    // that the stack was written to before it was sealed, so its old pointers have no tag.
    if pointer.tags.is_empty() && keys.since > Slot(1) {
        return Ok(Proof::Unchecked);
    }
    require_tag(pointer, key)
}

/// Replaces the pointer of a stack's name by a pointer with tags under exactly these keys. Called before the head names
/// the last of these keys. `head` is the authenticated head of the locked stack.
///
/// # Errors
/// `Distrusted` if the name doesn't lead to the stack.
pub(super) async fn sign_pointer(stack: &StackContext, head: &Head, keys: &[&dyn StackKey]) -> Result<()> {
    let found = stack.backend().read_name(&head.name).await?;
    let Some(found) = found.filter(|pointer| pointer.lineage() == Some(stack.lineage())) else {
        return Err(refused(
            &head.name,
            "it doesn't lead to the stack that has this name",
        ));
    };
    let before = found.nonce;
    // The name in the pointer isn't authenticated yet; the one in the head is.
    let mut signed = NamePointer::new(head.name.clone(), found.target, stack.nonce());
    for key in keys {
        signed.sign(*key);
    }
    stack.backend().swap_name(&head.name, Some(before), &signed).await
}

/// The error for a pointer that isn't authentic. It names the pointer's file.
fn refused(name: &StackName, reason: &str) -> Error {
    let (project, stack) = name.folded();
    let object = format!(
        "stack {}: name pointer names/{project}/{stack}.json",
        name.short()
    );
    Error::distrusted(object, format!("{reason}: the store was altered"))
}
