//! Resolves a name to a stack, and accepts a stack in place of the remembered one.

use crate::context::{StackContext, StoreContext};
use crate::keys::authenticate::{self, ResolvedName, UncheckedHead, UncheckedName};
use crate::keys::trust;
use crate::known_stacks::{KnownStacks, MemoryKnownStacks, OutputsPin, SealingChange, SealingPin, StackPin};
use crate::read::history_floor::ATTEMPTS;
use crate::read::name_memory::Believed;
use crate::read::{name_memory, outputs, stored, view};
use crate::standing::Authenticity;
use state_core::{Error, ErrorKind, KeyId, Lineage, Result, RevisionId, Serial, StackName};
use std::sync::Arc;

/// The stack with this name; none if it doesn't exist. A new name is remembered when the stack is opened: a name from a
/// head that turns out to be an older one must not replace the remembered name.
pub(crate) async fn find(store: &StoreContext, name: &StackName) -> Result<Option<StackContext>> {
    find_after(store, name, Pointer::Unread).await
}

/// What a caller knows about the pointer of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pointer {
    /// A read just now found that the name has none.
    Missing,
    /// The pointer wasn't read, or there may be one by now.
    Unread,
}

/// As [`find`]. The first attempt doesn't read a pointer that is known to be missing.
pub(crate) async fn find_after(
    store: &StoreContext,
    name: &StackName,
    pointer: Pointer,
) -> Result<Option<StackContext>> {
    let mut led_to = None;
    for attempt in 0..ATTEMPTS {
        let resolved = match pointer {
            Pointer::Missing if attempt == 0 => None,
            _ => resolve(store, name).await?,
        };
        if let Some(found) = resolved.and_then(|name| name.stack) {
            if let Believed::Changed { before } =
                name_memory::check(store, name, Some(found.lineage())).await?
            {
                found.note_new_name(name.clone(), before);
            }
            return Ok(Some(found));
        }
        match name_memory::follow_to_none(store, name).await {
            // The head was read after the pointer: a rename to this name, or the creation of the stack, may have ended between
            // the two.
            Err(error) if error.kind() == ErrorKind::Distrusted => {
                let pointer = UncheckedName::read(store.backend(), name).await?;
                let is_same = led_to == pointer;
                if is_same || pointer.as_ref().is_none_or(|pointer| pointer.lineage().is_none()) {
                    return Err(error);
                }
                led_to = pointer;
                continue;
            }
            released => drop(released?),
        }
        if !name_memory::require_unused(store, name, None).await? {
            return Ok(None);
        }
        // A rename to this name ended after the name was looked up.
    }
    let reason = "the name changed during each attempt to read it; try again";
    Err(Error::conflict(format!("stack {}", name.short()), reason))
}

/// The pointer of a name, and the stack to which it leads; none if the name has no pointer. Both are authenticated as
/// far as this client has the stack's key.
///
/// # Errors
/// `Distrusted` when a pointer wasn't written by a holder of the stack's key, or contradicts the stack's head.
pub(crate) async fn resolve(store: &StoreContext, name: &StackName) -> Result<Option<ResolvedName>> {
    let pointer = UncheckedName::read(store.backend(), name).await?;
    resolve_from(store, name, pointer, None).await
}

/// As [`resolve`], from a pointer that was read already, and perhaps the head to which it leads, which was read after it.
pub(crate) async fn resolve_from(
    store: &StoreContext,
    name: &StackName,
    mut pointer: Option<UncheckedName>,
    mut head: Option<UncheckedHead>,
) -> Result<Option<ResolvedName>> {
    for _ in 1..ATTEMPTS {
        let Some(found) = &pointer else {
            return Ok(None);
        };
        let pin = trust::pin(store, found.subject()).await?;
        let refused = match authenticate::named(store, found, head.take()).await {
            Ok(named) => return Ok(Some(named)),
            Err(error) if error.kind() == ErrorKind::Distrusted => error,
            Err(error) => return Err(error),
        };
        // The head was read after the pointer: a rename, a removal or a new key may have come between the two. Or another
        // process of this client pinned a later head than the one that was read.
        let again = UncheckedName::read(store.backend(), name).await?;
        if again == pointer && trust::pin(store, found.subject()).await? == pin {
            return Err(refused);
        }
        pointer = again;
    }
    match &pointer {
        Some(found) => authenticate::named(store, found, None).await.map(Some),
        None => Ok(None),
    }
}

/// The stack with this name, or `NotFound`.
pub(crate) async fn require(store: &StoreContext, name: &StackName) -> Result<StackContext> {
    let found = find(store, name).await?;
    found.ok_or_else(|| Error::not_found(format!("stack {}", name.short())))
}

/// The head of the stack with this name, whether or not this client accepts the stack.
pub(crate) async fn bound_head(store: &StoreContext, name: &StackName) -> Result<Option<UncheckedHead>> {
    match UncheckedName::read(store.backend(), name).await? {
        Some(pointer) => bound(store, &pointer).await,
        None => Ok(None),
    }
}

/// The head to which a name pointer leads, without a check of the pointer; none if the stack was removed or has another
/// name. A pointer alone is not sufficient, because a rename swaps pointer and head in two steps.
pub(crate) async fn bound(store: &StoreContext, pointer: &UncheckedName) -> Result<Option<UncheckedHead>> {
    let Some(lineage) = pointer.lineage() else {
        return Ok(None);
    };
    let head = UncheckedHead::read(store, lineage).await;
    let head = head.map_err(|error| match error {
        // The head is written before its pointer, so a pointer without a head means damage.
        Error::NotFound { object } => {
            Error::corrupt(object, 0, "a name points to this stack, but its head is missing")
        }
        other => other,
    })?;
    if head.is_removed() {
        // Anyone with write access can set the mark, so on a sealed stack the head's tag must be valid.
        let stack = store.stack(pointer.name().clone(), lineage);
        stored::head(&stack).await?;
        return Ok(None);
    }
    let is_named = head.name().folded() == pointer.name().folded();
    let is_bound = is_named || head.is_moving_to(pointer);
    Ok(is_bound.then_some(head))
}

/// A stack as a client without memory reads it, for a user who compares it with what their client remembers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PresentStack {
    /// Lineage of the stack.
    pub lineage: Lineage,
    /// Id of its data key; none for a stack without one.
    pub key: Option<KeyId>,
    /// The highest serial in the state.
    pub serial: Serial,
    /// The revision that is current; none when nothing was committed.
    pub revision: Option<RevisionId>,
    /// Whether head and journal were authenticated with the data key. False for a stack without one.
    pub authentic: bool,
    /// Id of the key of its published outputs; none if it publishes none, or if this client can't know the key.
    pub outputs_key: Option<KeyId>,
    /// Serial of the published outputs, if this client opened them as a recipient of outputs.
    pub outputs_serial: Option<Serial>,
    /// Policy, recipients and name in the head.
    sealing: SealingPin,
}

impl PresentStack {
    /// The changes of policy, recipients, data key and name since this client last saw the stack; none without a change.
    pub fn change_since(&self, pin: &StackPin) -> Option<SealingChange> {
        SealingChange::between(pin.sealing.as_ref()?, &self.sealing)
    }
}

/// Reads the stack with this name as a client without memory does.
pub(crate) async fn present(store: &StoreContext, name: &StackName) -> Result<PresentStack> {
    Ok(read_afresh(store, name).await?.0)
}

/// Reads a stack as a client without memory does; returns also the pin that such a client gets.
async fn read_afresh(
    store: &StoreContext,
    name: &StackName,
) -> Result<(PresentStack, view::View, Option<StackPin>)> {
    let fresh = Arc::new(MemoryKnownStacks::default());
    let unprejudiced = store.afresh(Arc::clone(&fresh) as Arc<dyn KnownStacks>);
    let stack = require(&unprejudiced, name).await?;
    let view = view::tip(&stack).await?;
    let lineage = stack.lineage();
    let (outputs_key, outputs_serial) = outputs::key(&stack, &view.head).await?;
    let present = PresentStack {
        lineage,
        key: view.head.key_id,
        serial: view.state.serial(),
        revision: view.state.current().cloned(),
        authentic: view.authenticity == Authenticity::Checked,
        outputs_key,
        outputs_serial,
        sealing: SealingPin::of(&view.head),
    };
    let pin = fresh.seen(lineage).await?;
    Ok((present, view, pin))
}

/// Trusts the present state of the stack with this name, and replaces what this client remembers of the stack. The memory
/// stays as it is until the stack was read as a client without memory reads it.
pub(crate) async fn trust(
    store: &StoreContext,
    name: &StackName,
    shown: Option<&PresentStack>,
) -> Result<view::View> {
    let Some(known) = store.known_stacks() else {
        return view::tip(&require(store, name).await?).await;
    };
    // What this client remembers is read before the store: what another process of this client remembers meanwhile is
    // later, and isn't replaced.
    let named = known.named(name).await?;
    let pointer = UncheckedName::read(store.backend(), name).await?;
    let lineage = pointer.and_then(|pointer| pointer.lineage());
    let before = match lineage {
        Some(lineage) => known.seen(lineage).await?,
        None => None,
    };
    let (found, view, pin) = read_afresh(store, name).await?;
    let object = format!("stack {}", name.short());
    if shown.is_some_and(|shown| *shown != found) {
        // Between the question and the answer, someone put another stack, another key or another revision in the place
        // of the one that the user accepted.
        return Err(Error::conflict(
            object,
            "it isn't the stack that was shown; try again",
        ));
    }
    let now = accepted(&found, pin, before.as_ref());
    let is_same = lineage == Some(found.lineage);
    if !is_same || !known.replace(found.lineage, before.as_ref(), now.as_ref()).await {
        let reason = "the stack, or what this client remembers of it, changed while it was read; try again";
        return Err(Error::conflict(object, reason));
    }
    store.remember_name(name, named, found.lineage).await?;
    // A memory that can't be written is only a warning to other commands. This one has nothing else to do.
    // Another process of this client may have remembered a later state since, which is as good.
    if before != now && known.seen(found.lineage).await? == before {
        let reason = "this client could not remember the stack";
        return Err(Error::not_applied(format!("memory of {object}"), reason));
    }
    Ok(view)
}

/// The pin of a stack that the user accepted. `fresh` is the pin that a client without memory gets: none if it can't open
/// the data key.
fn accepted(found: &PresentStack, fresh: Option<StackPin>, before: Option<&StackPin>) -> Option<StackPin> {
    let was = before.cloned().unwrap_or_default();
    // A client that can't open the key must not forget that the stack is sealed: a holder of an earlier key could then
    // put a stack of their own in the place of the accepted one.
    let unopened = |key| match was.key == Some(key) && was.serial <= found.serial {
        true => StackPin {
            unopened: true,
            ..was.clone()
        },
        false => StackPin::unopened(key),
    };
    let was_sealed = was.key.is_some() || was.unreadable.is_some();
    let mut now = fresh.or_else(|| found.key.filter(|_| was_sealed).map(unopened));
    let outputs = match (found.outputs_key, found.outputs_serial) {
        (Some(key), Some(serial)) => Some(OutputsPin::new(key, serial)),
        (Some(key), None) => was.outputs.map(|_| OutputsPin::new(key, Serial::ZERO)),
        // The outputs are missing, or this client can't open them. The next ones must have the remembered key, which a
        // person compared once.
        (None, _) => was.outputs.map(|outputs| OutputsPin {
            gone: true,
            ..outputs
        }),
    };
    if outputs.is_some() {
        now.get_or_insert_default().outputs = outputs;
    }
    now
}
