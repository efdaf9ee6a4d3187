//! What this client accepts as a stack: a head and a journal from someone who has its key, under a key that the pinned
//! one vouches for, and at a point that is not before the last one seen.

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

/// The key under which the head says that it is, if it can be had: reading needs none.
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

/// A document below the live journal must be from those who had the key at its time. That of a key which can't be had
/// here any more stays unchecked: reading needs none.
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
        return Ok(());
    }
    let known = |id| head.key_id == Some(id) || keys.succession.iter().any(|link| link.old == id);
    let Some(id) = document.key_id().filter(|id| known(*id)) else {
        return forged("it is under none of the stack's keys: somebody changed the store");
    };
    match wrapped::unwrap(stack, id).await {
        Err(Error::Sealed { .. }) => Ok(()),
        Err(other) => Err(other),
        Ok(key) if document.is_authentic(&*key) => Ok(()),
        Ok(_) => forged("it wasn't written by anyone who has the data key: somebody changed the store"),
    }
}

/// What seals and opens single values with the key in use.
pub(crate) async fn crypter(stack: &StackContext) -> Result<Arc<dyn Crypter>> {
    let head = stack.head().await?;
    let missing = |reason: &str| Error::sealed(stack.object(), reason);
    let Some(key) = for_reading(stack, &head).await? else {
        return Err(match head.key_id {
            None => missing("it has no data key: seal the stack first"),
            Some(id) => missing(&format!("no identity at hand opens its key {id}")),
        });
    };
    key.crypter(Arc::clone(&stack.environment().entropy))
}

/// The head must name the key that the client knows, or one that it vouches for. `key` is the head's, if it is at
/// hand: who can't open it reads on where nobody here can tell whether it was vouched for, and sees nothing of what it
/// seals.
///
/// # Errors
/// `Distrusted`.
pub(crate) async fn require_key(stack: &StackContext, head: &Head, key: Option<&dyn StackKey>) -> Result<()> {
    let Some(pinned) = pinned(stack).await? else {
        return Ok(());
    };
    let Some(now) = head.key_id else {
        let reason = format!("it was sealed with key {pinned}, and now it says that it is plain");
        return Err(distrusted(stack, reason));
    };
    if now == pinned {
        return Ok(());
    }
    match endorsement(stack, head, pinned, now).await? {
        Endorsement::Given => return Ok(()),
        Endorsement::Unknown if key.is_none() => return Ok(()),
        Endorsement::Unknown | Endorsement::Missing => {}
    }
    let reason = format!(
        "its data key is {now} now, and nobody who had {pinned} vouched for it: the key was changed by somebody without it"
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

/// What is known of the way from the pinned key to the one in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Endorsement {
    /// Each key vouched for the next.
    Given,
    /// Nobody here opens a key on the way.
    Unknown,
    /// A link isn't there, or wasn't made with the key before.
    Missing,
}

async fn endorsement(stack: &StackContext, head: &Head, pinned: KeyId, now: KeyId) -> Result<Endorsement> {
    let Some(keys) = &head.keys else {
        return Ok(Endorsement::Missing);
    };
    let mut vouched = pinned;
    for link in &keys.succession {
        if link.old != vouched || vouched == now {
            continue;
        }
        let old = match wrapped::unwrap(stack, link.old).await {
            Err(Error::Sealed { .. }) => return Ok(Endorsement::Unknown),
            other => other?,
        };
        if old.endorse(link.new, link.generation) != link.endorsement {
            return Ok(Endorsement::Missing);
        }
        vouched = link.new;
    }
    Ok(match vouched == now {
        true => Endorsement::Given,
        false => Endorsement::Missing,
    })
}

/// Compares where the stack is with where it was, and remembers it if it has only gone on. What comes back is how it
/// went back.
///
/// # Errors
/// When the memory can't be read.
pub(crate) async fn look(
    stack: &StackContext,
    point: &Point<'_>,
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
    if before.as_ref() != Some(&now) {
        known_stacks.remember(stack.lineage(), Some(&now)).await;
    }
    Ok(None)
}

/// Remembers what a session left behind.
pub(crate) async fn keep(stack: &StackContext, point: &Point<'_>, key: Option<&dyn StackKey>) {
    if let Some(known_stacks) = stack.known_stacks()
        && let Ok(before) = known_stacks.seen(stack.lineage()).await
    {
        let now = point.seen(before.as_ref(), key);
        known_stacks.remember(stack.lineage(), Some(&now)).await;
    }
}

/// As [`look`], for who is about to write: going back is an error.
///
/// # Errors
/// `Distrusted`.
pub(crate) async fn require_onward(
    stack: &StackContext,
    point: &Point<'_>,
    key: Option<&dyn StackKey>,
) -> Result<()> {
    match look(stack, point, key).await? {
        None => Ok(()),
        Some(regression) => Err(distrusted(stack, regression)),
    }
}

/// A name must lead to the stack that it led to, if that one had a key; the name is remembered then.
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
        && has_key(before).await?
        && !has_key(lineage).await?
    {
        let reason = format!(
            "the name led to the sealed stack {before}, and now to {lineage}: somebody removed the stack and made \
             another one, or put a foreign one in its place"
        );
        return Err(Error::distrusted(format!("stack {}", name.short()), reason));
    }
    known_stacks.remember_name(name, Some(lineage)).await;
    Ok(())
}

fn distrusted(stack: &StackContext, reason: String) -> Error {
    Error::distrusted(stack.object(), reason)
}

/// Where a stack is: what of it only grows.
#[derive(Debug)]
pub(crate) struct Point<'a> {
    pub(crate) epoch: Epoch,
    pub(crate) serial: Serial,
    pub(crate) tail: Tail,
    /// The live journal and the base that it begins at; none where only the end is known.
    pub(crate) journal: Option<(&'a Base, &'a [Frame])>,
}

impl<'a> Point<'a> {
    /// Where it is as a reader sees it.
    pub(crate) fn of(view: &'a JournalView, state: &State) -> Self {
        Self {
            epoch: view.head.epoch,
            serial: state.serial(),
            tail: view.tail,
            journal: Some((&view.head.base, &view.frames)),
        }
    }

    /// What is to be remembered of it, after what was known before.
    fn seen(&self, before: Option<&StackPin>, key: Option<&dyn StackKey>) -> StackPin {
        StackPin {
            key: key.map(|key| key.id()).or(before.and_then(|before| before.key)),
            outputs: before.and_then(|before| before.outputs.clone()),
            epoch: self.epoch,
            serial: self.serial,
            next: self.tail.next,
            chain: Some(self.tail.chain),
        }
    }

    /// How it went back, or aside; none when it only went on, as far as can be told from here.
    fn regression(&self, before: &StackPin) -> Option<String> {
        let back = |what: &str, was: u64, is: u64| {
            (is < was).then(|| {
                format!("the store went back in time: {what} was {was} when it was seen last, and is {is}")
            })
        };
        back("its serial", before.serial.get(), self.serial.get())
            .or_else(|| back("its epoch", before.epoch.get(), self.epoch.get()))
            .or_else(|| back("the end of its journal", before.next.get(), self.tail.next.get()))
            .or_else(|| self.fork(before))
    }

    /// Whether it took another way than the one that was seen.
    fn fork(&self, before: &StackPin) -> Option<String> {
        let (was, is) = (before.chain?, self.chain_at(before.next)?);
        (was != is).then(|| {
            let next = before.next;
            format!("the store has another past than the one that was seen: its journal differs before slot {next}")
        })
    }

    /// The chain before a slot; none where this view of the journal doesn't reach.
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
