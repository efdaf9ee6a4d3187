//! What a client remembers of the stacks that it saw, so that a store can't be exchanged, forged or put back unnoticed.
//!
//! age doesn't say who wrapped a data key, and a store that was put back to an earlier state is right in itself: only
//! whoever was there before can tell. So a client pins each stack to the key that it saw first, follows a new key only
//! if the one before vouches for it, and remembers how far the stack had come.
//!
//! ```text
//!               first contact            later
//!  key          is trusted               the same, or endorsed by the one before, link by link
//!  journal      its end is remembered    that end is still on the way to the new one
//!  name         its stack is remembered  the same stack, if that one has a key
//! ```

mod regression;

pub(crate) use regression::Point;

use crate::keys;
use crate::stack::Stack;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use state_core::sealing::StackKey;
use state_core::{Digest, Epoch, Error, Head, KeyId, Lineage, Result, Serial, Slot, StackName};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a client saw last of a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Seen {
    /// The data key that head and journal were authenticated with; none for a stack that has none, or whose key never
    /// was at hand here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<KeyId>,
    /// The epoch of the head.
    #[serde(default)]
    pub epoch: Epoch,
    /// The highest serial.
    #[serde(default)]
    pub serial: Serial,
    /// The slot after the last frame.
    #[serde(default)]
    pub next: Slot,
    /// The journal's chain there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<Digest>,
    /// The outputs that were published apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<SeenOutputs>,
}

/// What a client saw last of the outputs that a stack published apart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SeenOutputs {
    /// The key that sealed them.
    pub key: KeyId,
    /// The serial of the revision that they were of.
    pub serial: Serial,
}

impl Seen {
    /// Nothing yet, but the key that somebody told on another way.
    pub fn pinned(key: KeyId) -> Self {
        Self {
            key: Some(key),
            ..Self::default()
        }
    }
}

/// The memory of one client for the stacks of one store. Another store needs another one.
///
/// What it is told to remember it should find again in the next process. A failure to remember is the caller's loss
/// only later: it is for the implementation to tell.
#[async_trait]
pub trait Witness: fmt::Debug + Send + Sync {
    /// What was remembered of a stack.
    ///
    /// # Errors
    /// `Invalid` when the memory can't be read: it isn't taken for an empty one.
    async fn seen(&self, lineage: Lineage) -> Result<Option<Seen>>;

    /// Remembers a stack; none: forgets it.
    async fn remember(&self, lineage: Lineage, seen: Option<&Seen>);

    /// The stack that went by a name.
    ///
    /// # Errors
    /// As [`Witness::seen`].
    async fn named(&self, name: &StackName) -> Result<Option<Lineage>>;

    /// Remembers the stack that goes by a name; none: forgets the name.
    async fn remember_name(&self, name: &StackName, lineage: Option<Lineage>);
}

/// A [`Witness`] that remembers until it is dropped: for a program that opens a stack more than once.
#[derive(Debug, Default)]
pub struct ProcessWitness(Mutex<Memories>);

#[derive(Debug, Default)]
struct Memories {
    stacks: BTreeMap<Lineage, Seen>,
    names: BTreeMap<(String, String), Lineage>,
}

impl ProcessWitness {
    fn memories(&self) -> MutexGuard<'_, Memories> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Witness for ProcessWitness {
    async fn seen(&self, lineage: Lineage) -> Result<Option<Seen>> {
        Ok(self.memories().stacks.get(&lineage).cloned())
    }

    async fn remember(&self, lineage: Lineage, seen: Option<&Seen>) {
        let mut memories = self.memories();
        match seen {
            Some(seen) => memories.stacks.insert(lineage, seen.clone()),
            None => memories.stacks.remove(&lineage),
        };
    }

    async fn named(&self, name: &StackName) -> Result<Option<Lineage>> {
        Ok(self.memories().names.get(&name.folded()).copied())
    }

    async fn remember_name(&self, name: &StackName, lineage: Option<Lineage>) {
        let mut memories = self.memories();
        match lineage {
            Some(lineage) => memories.names.insert(name.folded(), lineage),
            None => memories.names.remove(&name.folded()),
        };
    }
}

/// The head must name the key that the client knows, or one that it vouches for. `key` is the head's, if it is at
/// hand: who can't open it reads on where nobody here can tell whether it was vouched for, and sees nothing of what it
/// seals.
///
/// # Errors
/// `Distrusted`.
pub(crate) async fn require_key(stack: &Stack, head: &Head, key: Option<&dyn StackKey>) -> Result<()> {
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

async fn pinned(stack: &Stack) -> Result<Option<KeyId>> {
    match stack.witness() {
        Some(witness) => Ok(witness.seen(stack.lineage()).await?.and_then(|seen| seen.key)),
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

async fn endorsement(stack: &Stack, head: &Head, pinned: KeyId, now: KeyId) -> Result<Endorsement> {
    let Some(keys) = &head.keys else {
        return Ok(Endorsement::Missing);
    };
    let mut vouched = pinned;
    for link in &keys.succession {
        if link.old != vouched || vouched == now {
            continue;
        }
        let old = match keys::unwrap(stack, link.old).await {
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
    stack: &Stack,
    point: &Point<'_>,
    key: Option<&dyn StackKey>,
) -> Result<Option<String>> {
    let Some(witness) = stack.witness() else {
        return Ok(None);
    };
    let before = witness.seen(stack.lineage()).await?;
    if let Some(before) = &before
        && let Some(regression) = point.regression(before)
    {
        return Ok(Some(regression));
    }
    let now = point.seen(before.as_ref(), key);
    if before.as_ref() != Some(&now) {
        witness.remember(stack.lineage(), Some(&now)).await;
    }
    Ok(None)
}

/// Remembers what a session left behind.
pub(crate) async fn keep(stack: &Stack, point: &Point<'_>, key: Option<&dyn StackKey>) {
    if let Some(witness) = stack.witness()
        && let Ok(before) = witness.seen(stack.lineage()).await
    {
        let now = point.seen(before.as_ref(), key);
        witness.remember(stack.lineage(), Some(&now)).await;
    }
}

/// As [`look`], for who is about to write: going back is an error.
///
/// # Errors
/// `Distrusted`.
pub(crate) async fn require_onward(
    stack: &Stack,
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
pub(crate) async fn require_name(witness: &dyn Witness, name: &StackName, lineage: Lineage) -> Result<()> {
    let before = witness.named(name).await?;
    if before == Some(lineage) {
        return Ok(());
    }
    let has_key = async |lineage| -> Result<bool> {
        let seen = witness.seen(lineage).await?;
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
    witness.remember_name(name, Some(lineage)).await;
    Ok(())
}

fn distrusted(stack: &Stack, reason: String) -> Error {
    Error::distrusted(format!("stack {}", stack.name().short()), reason)
}
