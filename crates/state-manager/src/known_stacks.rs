//! A client's memory of each stack, with which it detects a store that was exchanged, forged or rolled back.
//!
//! age doesn't authenticate who wrapped a data key, and a store that was restored to an earlier state is consistent in
//! itself: only a client that saw the later state can detect it. Therefore a client pins each stack to the first key
//! that it saw, follows a new key only if the previous one endorses it, and remembers the end of the journal.
//!
//! ```text
//!           first contact            later
//!  key      is trusted               the same, or endorsed by the previous key, link by link
//!  journal  its end is remembered    that end lies on the chain that leads to the new end
//!  name     its stack is remembered  the same stack, if that stack has a key
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

/// The state of a stack when this client last read or wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct StackPin {
    /// The data key with which head and journal were authenticated; none for a stack without a key, or whose key this
    /// client could never open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<KeyId>,
    /// The epoch of the head.
    #[serde(default)]
    pub epoch: Epoch,
    /// The highest serial in the state.
    #[serde(default)]
    pub serial: Serial,
    /// The slot after the last frame of the journal.
    #[serde(default)]
    pub next: Slot,
    /// The chain digest of the journal before that slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<Digest>,
    /// The published outputs that were last read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<OutputsPin>,
}

/// The outputs document of a stack that this client last read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct OutputsPin {
    /// The key with which the outputs are sealed.
    pub key: KeyId,
    /// The serial of the revision to which the outputs belong.
    pub serial: Serial,
}

impl StackPin {
    /// A pin with nothing but a key, which the user received through another channel.
    pub fn pinned(key: KeyId) -> Self {
        Self {
            key: Some(key),
            ..Self::default()
        }
    }
}

/// The memory of one client for the stacks of one store. Use a separate memory for each store.
///
/// Implementations should keep pins across processes. A failed write is not returned, because it matters only at a
/// later read: the implementation reports it, for instance as a warning.
#[async_trait]
pub trait KnownStacks: fmt::Debug + Send + Sync {
    /// The pin of a stack; none if the stack isn't known.
    ///
    /// # Errors
    /// `Invalid` when the memory can't be read: it must not be treated as empty, because an empty memory trusts any
    /// store.
    async fn seen(&self, lineage: Lineage) -> Result<Option<StackPin>>;

    /// Stores the pin of a stack; none removes it.
    async fn remember(&self, lineage: Lineage, seen: Option<&StackPin>);

    /// The stack to which a name pointed when the name was last read.
    ///
    /// # Errors
    /// As [`KnownStacks::seen`].
    async fn named(&self, name: &StackName) -> Result<Option<Lineage>>;

    /// Stores the stack that has a name; none removes the name.
    async fn remember_name(&self, name: &StackName, lineage: Option<Lineage>);
}

/// A [`KnownStacks`] in memory: for a program that opens a stack more than once.
#[derive(Debug, Default)]
pub struct MemoryKnownStacks(Mutex<PinTable>);

#[derive(Debug, Default)]
struct PinTable {
    stacks: BTreeMap<Lineage, StackPin>,
    names: BTreeMap<(String, String), Lineage>,
}

impl MemoryKnownStacks {
    fn pin_table(&self) -> MutexGuard<'_, PinTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl KnownStacks for MemoryKnownStacks {
    async fn seen(&self, lineage: Lineage) -> Result<Option<StackPin>> {
        Ok(self.pin_table().stacks.get(&lineage).cloned())
    }

    async fn remember(&self, lineage: Lineage, seen: Option<&StackPin>) {
        let mut pin_table = self.pin_table();
        match seen {
            Some(seen) => pin_table.stacks.insert(lineage, seen.clone()),
            None => pin_table.stacks.remove(&lineage),
        };
    }

    async fn named(&self, name: &StackName) -> Result<Option<Lineage>> {
        Ok(self.pin_table().names.get(&name.folded()).copied())
    }

    async fn remember_name(&self, name: &StackName, lineage: Option<Lineage>) {
        let mut pin_table = self.pin_table();
        match lineage {
            Some(lineage) => pin_table.names.insert(name.folded(), lineage),
            None => pin_table.names.remove(&name.folded()),
        };
    }
}
