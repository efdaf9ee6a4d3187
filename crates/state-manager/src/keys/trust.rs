//! Decides which head and journal of a stack this client accepts. Holders of the data key must have written both, the
//! key must be the pinned key or one that it endorses, and the journal must not end before the pinned position.

use crate::context::StackContext;
use crate::keys::wrapped;
use crate::known_stacks::{KnownStacks, StackPin};
use crate::objects::document::RevisionDocument;
use state_core::backend::{JournalView, ObjectName, Tail};
use state_core::journal::Frame;
use state_core::sealing::StackKey;
use state_core::{
    Base, Crypter, Digest, Epoch, Error, Head, KeyId, Lineage, Result, Serial, Slot, StackName, State,
};
use std::sync::Arc;

/// Opens the data key of the head, and authenticates the head with this key. Returns `None` if the stack has no key, or
/// if no available identity opens it: reading needs no key.
pub(crate) async fn for_reading(stack: &StackContext, head: &Head) -> Result<Option<Arc<dyn StackKey>>> {
    let key = match head.key_id {
        None => None,
        Some(id) => match wrapped::unwrap(stack, id).await {
            Err(Error::Sealed { .. }) => None,
            other => Some(other?),
        },
    };
    if let Some(key) = &key {
        head.authenticate(&format!("head of {}", stack.object()), &**key)?;
    }
    require_key(stack, head, key.as_deref()).await?;
    Ok(key)
}

/// Checks the document of a revision before the head's base: a holder of the data key that was in use when the revision
/// was made must have written it. If that key can't be opened here, the document stays unchecked: reading needs no key.
pub(crate) async fn authenticate_document(
    stack: &StackContext,
    head: &Head,
    document: &RevisionDocument,
) -> Result<()> {
    let Some(keys) = &head.keys else {
        return Ok(());
    };
    let forged = |reason| {
        let name = ObjectName::Update(document.revision.clone());
        Err(Error::sealed(format!("{}: {name}", stack.object()), reason))
    };
    if document.slot < keys.since {
        // Documents from before the first key were written on a plaintext stack and have no tag.
        return Ok(());
    }
    let known = |id| head.key_id == Some(id) || keys.succession.iter().any(|link| link.old == id);
    let Some(id) = document.key_id().filter(|id| known(*id)) else {
        return forged("it is tagged with none of the stack's keys: the store was altered");
    };
    match wrapped::unwrap(stack, id).await {
        Err(Error::Sealed { .. }) => Ok(()),
        Err(other) => Err(other),
        Ok(key) if document.is_authentic(&*key) => Ok(()),
        Ok(_) => forged("its tag doesn't match the data key: the store was altered"),
    }
}

/// The crypter for single values, with the key in use.
pub(crate) async fn crypter(stack: &StackContext) -> Result<Arc<dyn Crypter>> {
    let head = stack.head().await?;
    let missing = |reason: &str| Error::sealed(stack.object(), reason);
    let Some(key) = for_reading(stack, &head).await? else {
        return Err(match head.key_id {
            None => missing("it has no data key: rekey the stack first"),
            Some(id) => missing(&format!("no available identity opens its key {id}")),
        });
    };
    key.crypter(Arc::clone(&stack.environment().entropy))
}

/// Checks that the head names the pinned key, or one that the pinned key endorses. `key` is the head's key, if it can
/// be opened here. A client that can't open the head's key may read even if the endorsement can't be verified.
///
/// # Errors
/// `Distrusted` if the head names no key, or a key that the pinned key doesn't endorse.
pub(crate) async fn require_key(stack: &StackContext, head: &Head, key: Option<&dyn StackKey>) -> Result<()> {
    let Some(pinned) = pinned(stack).await? else {
        return Ok(());
    };
    let Some(now) = head.key_id else {
        let reason = format!("it was sealed with key {pinned}, and its head now states that it is plaintext");
        return Err(distrusted(stack, reason));
    };
    if now == pinned {
        return Ok(());
    }
    match endorsement(stack, head, pinned, now).await? {
        Endorsement::Given => return Ok(()),
        // A client without the head's key can open no sealed value, so an unverified endorsement exposes nothing.
        Endorsement::Unknown if key.is_none() => return Ok(()),
        Endorsement::Unknown | Endorsement::Missing => {}
    }
    let reason = format!(
        "its data key is {now} now, and {pinned} doesn't endorse it: the key was replaced without the pinned key"
    );
    Err(distrusted(stack, reason))
}

async fn pinned(stack: &StackContext) -> Result<Option<KeyId>> {
    match stack.known_stacks() {
        Some(known_stacks) => Ok(known_stacks
            .seen(stack.lineage())
            .await?
            .and_then(|seen| seen.key)),
        None => Ok(None),
    }
}

/// Whether each key from the pinned one on endorses the next key, up to the key in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Endorsement {
    /// Each key endorses the next one.
    Given,
    /// One of the keys in between can't be opened with any available identity.
    Unknown,
    /// A link is missing, or was not made with the key before it.
    Missing,
}

async fn endorsement(stack: &StackContext, head: &Head, pinned: KeyId, now: KeyId) -> Result<Endorsement> {
    let Some(keys) = &head.keys else {
        return Ok(Endorsement::Missing);
    };
    let mut endorsed = pinned;
    for link in &keys.succession {
        if link.old != endorsed || endorsed == now {
            // Skip the links before the pinned key, which this client trusts without them, and those after the key in
            // use.
            continue;
        }
        let old = match wrapped::unwrap(stack, link.old).await {
            Err(Error::Sealed { .. }) => return Ok(Endorsement::Unknown),
            other => other?,
        };
        if old.endorse(link.new, link.generation) != link.endorsement {
            return Ok(Endorsement::Missing);
        }
        endorsed = link.new;
    }
    Ok(match endorsed == now {
        true => Endorsement::Given,
        false => Endorsement::Missing,
    })
}

/// Compares the position of the stack with the pinned one, and pins it if it is ahead. Returns a description of the
/// regression if the stack was rolled back.
///
/// # Errors
/// When the known stacks can't be read.
pub(crate) async fn advance_pin(
    stack: &StackContext,
    point: &StackPosition<'_>,
    key: Option<&dyn StackKey>,
) -> Result<Option<String>> {
    let Some(known_stacks) = stack.known_stacks() else {
        return Ok(None);
    };
    let before = known_stacks.seen(stack.lineage()).await?;
    if let Some(before) = &before
        && let Some(regression) = point.regression(before)
    {
        return Ok(Some(regression));
    }
    let now = point.seen(before.as_ref(), key);
    // A regression returns above without a write: the pin must stay at the highest position that was seen.
    if before.as_ref() != Some(&now) {
        known_stacks.remember(stack.lineage(), Some(&now)).await;
    }
    Ok(None)
}

/// Pins the position at which a session ended. Doesn't check for a regression: the session checked the position when it
/// opened, and the lock has excluded other writers since.
pub(crate) async fn remember_position(
    stack: &StackContext,
    point: &StackPosition<'_>,
    key: Option<&dyn StackKey>,
) {
    if let Some(known_stacks) = stack.known_stacks()
        && let Ok(before) = known_stacks.seen(stack.lineage()).await
    {
        let now = point.seen(before.as_ref(), key);
        known_stacks.remember(stack.lineage(), Some(&now)).await;
    }
}

/// As [`advance_pin`], for a client that is about to write: a regression is an error.
///
/// # Errors
/// `Distrusted` if the stack was rolled back or its history was replaced.
pub(crate) async fn require_no_regression(
    stack: &StackContext,
    point: &StackPosition<'_>,
    key: Option<&dyn StackKey>,
) -> Result<()> {
    match advance_pin(stack, point, key).await? {
        None => Ok(()),
        Some(regression) => Err(distrusted(stack, regression)),
    }
}

/// Checks that the name of a sealed stack still points to this stack, or to another one whose key this client has
/// pinned, for example after stacks were renamed; then remembers the name.
///
/// # Errors
/// `Distrusted` if the name of a sealed stack now points to an unknown stack.
pub(crate) async fn require_name(
    known_stacks: &dyn KnownStacks,
    name: &StackName,
    lineage: Lineage,
) -> Result<()> {
    let before = known_stacks.named(name).await?;
    if before == Some(lineage) {
        return Ok(());
    }
    let has_key = async |lineage| -> Result<bool> {
        let seen = known_stacks.seen(lineage).await?;
        Ok(seen.is_some_and(|seen| seen.key.is_some()))
    };
    if let Some(before) = before
        // A stack without a key can be replaced by anyone with write access, so only a name that pointed to a sealed
        // stack counts.
        && has_key(before).await?
        && !has_key(lineage).await?
    {
        let reason = format!(
            "the name pointed to the sealed stack {before}, and now points to {lineage}: the stack was removed and created \
             again, or replaced by a foreign one"
        );
        return Err(Error::distrusted(format!("stack {}", name.short()), reason));
    }
    known_stacks.remember_name(name, Some(lineage)).await;
    Ok(())
}

fn distrusted(stack: &StackContext, reason: String) -> Error {
    Error::distrusted(stack.object(), reason)
}

/// A position of a stack. The epoch, the serial and the end of the journal never decrease.
#[derive(Debug)]
pub(crate) struct StackPosition<'a> {
    pub(crate) epoch: Epoch,
    pub(crate) serial: Serial,
    pub(crate) tail: Tail,
    /// The live journal and the base at which it begins; none where only its end is known.
    pub(crate) journal: Option<(&'a Base, &'a [Frame])>,
}

impl<'a> StackPosition<'a> {
    /// The position as a reader sees it.
    pub(crate) fn of(view: &'a JournalView, state: &State) -> Self {
        Self {
            epoch: view.head.epoch,
            serial: state.serial(),
            tail: view.tail,
            journal: Some((&view.head.base, &view.frames)),
        }
    }

    /// The pin for this position, based on the previous pin.
    fn seen(&self, before: Option<&StackPin>, key: Option<&dyn StackKey>) -> StackPin {
        StackPin {
            // A reader that can't open the key must not remove the key from the pin.
            key: key.map(|key| key.id()).or(before.and_then(|before| before.key)),
            outputs: before.and_then(|before| before.outputs.clone()),
            epoch: self.epoch,
            serial: self.serial,
            next: self.tail.next,
            chain: Some(self.tail.chain),
        }
    }

    /// Describes why this position doesn't continue the pinned one; none if it does, or if a fork can't be detected.
    fn regression(&self, before: &StackPin) -> Option<String> {
        let back = |what: &str, was: u64, is: u64| {
            (is < was).then(|| {
                format!("the store was rolled back: {what} was {was} when this client last saw it, and is now {is}")
            })
        };
        back("its serial", before.serial.get(), self.serial.get())
            .or_else(|| back("its epoch", before.epoch.get(), self.epoch.get()))
            .or_else(|| back("the end of its journal", before.next.get(), self.tail.next.get()))
            .or_else(|| self.fork(before))
    }

    /// Describes a journal whose part before the pinned position differs from the one that this client saw.
    fn fork(&self, before: &StackPin) -> Option<String> {
        // A fork can't be detected if one of the digests is unknown: the pin may have none, and a checkpoint or a
        // collection may have removed the frames before the pinned slot.
        let (was, is) = (before.chain?, self.chain_at(before.next)?);
        (was != is).then(|| {
            let next = before.next;
            format!(
                "the store's history was replaced: its journal differs from the one seen before slot {next}"
            )
        })
    }

    /// The chain digest before a slot; none where this view of the journal doesn't contain it.
    fn chain_at(&self, next: Slot) -> Option<Digest> {
        if next == self.tail.next {
            return Some(self.tail.chain);
        }
        let (base, frames) = self.journal?;
        if next == base.start {
            return Some(base.chain);
        }
        let last = Slot(next.get().checked_sub(1)?);
        let at = frames.binary_search_by_key(&last, Frame::slot).ok()?;
        Some(*frames[at].chain())
    }
}
