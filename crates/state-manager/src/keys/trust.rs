//! Decides what this client accepts as a stack: a head and a journal written by holders of the data key, under the
//! pinned key or one that it endorses, and at a position that is not before the last one seen.

use crate::context::StackContext;
use crate::keys::wrapped;
use crate::known_stacks::{KnownStacks, StackPin};
use state_core::backend::{JournalView, Tail};
use state_core::journal::Frame;
use state_core::sealing::StackKey;
use state_core::{
    Base, Crypter, Digest, Epoch, Error, Head, KeyId, Lineage, Result, Serial, Slot, StackName, State,
};
use std::sync::Arc;

/// The data key of the head, if an identity opens it: reading needs no key. Authenticates the head with it.
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
/// be opened here. A client that can't open it may read on when the endorsement can't be verified: it sees no sealed
/// value.
///
/// # Errors
/// `Distrusted`.
pub(crate) async fn require_key(stack: &StackContext, head: &Head, key: Option<&dyn StackKey>) -> Result<()> {
    let Some(pinned) = pinned(stack).await? else {
        return Ok(());
    };
    let Some(now) = head.key_id else {
        let reason = format!("it was sealed with key {pinned}, and its head says now that it is plaintext");
        return Err(distrusted(stack, reason));
    };
    if now == pinned {
        return Ok(());
    }
    match endorsement(stack, head, pinned, now).await? {
        Endorsement::Given => return Ok(()),
        // A client without the key sees no sealed value, so an endorsement that it can't verify exposes nothing to it.
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

/// Whether the keys from the pinned one to the one in use endorse each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Endorsement {
    /// Each key endorses the next one.
    Given,
    /// No available identity opens one of the keys on the way.
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
            // Links from before the pinned key are skipped: this client trusts the pinned key without them.
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

/// Compares the position of the stack with the pinned one, and pins it if it lies ahead. Returns a description of the
/// regression if the stack has gone back.
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

/// Pins the position at which a session ended.
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
/// `Distrusted`.
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

/// Checks that a name points to the same stack as before, if that stack had a key; then remembers the name.
///
/// # Errors
/// `Distrusted`.
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
        // A stack without a key can be replaced by anyone with write access, so only a change away from a sealed one
        // counts.
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

/// A position of a stack. All of its parts only grow.
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

    /// A description of how this position lies before or beside the pinned one; none as far as it lies ahead.
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

    /// A description of a journal that differs from the one seen before the pinned position.
    fn fork(&self, before: &StackPin) -> Option<String> {
        // No digest for that slot: a collection or a checkpoint removed those frames, so a fork can't be seen here.
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
