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

#[cfg(feature = "fs")]
mod file;

#[cfg(feature = "fs")]
pub use file::{FileKnownStacks, StoreIdentity};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use state_core::{Digest, Epoch, KeyId, Lineage, Result, Serial, Slot, StackName};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a client saw last of a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct StackPin {
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

impl StackPin {
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
pub trait KnownStacks: fmt::Debug + Send + Sync {
    /// What was remembered of a stack.
    ///
    /// # Errors
    /// `Invalid` when the memory can't be read: it isn't taken for an empty one.
    async fn seen(&self, lineage: Lineage) -> Result<Option<StackPin>>;

    /// Remembers a stack; none: forgets it.
    async fn remember(&self, lineage: Lineage, seen: Option<&StackPin>);

    /// The stack that went by a name.
    ///
    /// # Errors
    /// As [`KnownStacks::seen`].
    async fn named(&self, name: &StackName) -> Result<Option<Lineage>>;

    /// Remembers the stack that goes by a name; none: forgets the name.
    async fn remember_name(&self, name: &StackName, lineage: Option<Lineage>);
}

/// A [`KnownStacks`] that remembers until it is dropped: for a program that opens a stack more than once.
#[derive(Debug, Default)]
pub struct MemoryKnownStacks(Mutex<Memories>);

#[derive(Debug, Default)]
struct Memories {
    stacks: BTreeMap<Lineage, StackPin>,
    names: BTreeMap<(String, String), Lineage>,
}

impl MemoryKnownStacks {
    fn memories(&self) -> MutexGuard<'_, Memories> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl KnownStacks for MemoryKnownStacks {
    async fn seen(&self, lineage: Lineage) -> Result<Option<StackPin>> {
        Ok(self.memories().stacks.get(&lineage).cloned())
    }

    async fn remember(&self, lineage: Lineage, seen: Option<&StackPin>) {
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
