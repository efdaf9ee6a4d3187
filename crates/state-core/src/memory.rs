//! The reference backend: it keeps stacks in memory and is stricter than real backends.
//!
//! It rejects errors that other backends might not notice: a base that doesn't begin a segment or doesn't match the
//! chain, an object from a fenced writer, a frame that doesn't follow the journal. It also runs every head change
//! twice, because other backends may repeat a change after a failed compare-and-swap.

mod store;
#[cfg(test)]
mod tests;
mod writer;

use crate::backend::{
    Acquire, Acquired, Backend, Capabilities, CollectableStore, CopyTarget, CopyUpdate, Extensions,
    JournalView, LockStatus, NamePointer, ObjectKind, ObjectName, StoredItem, Tail,
};
use crate::counter::Slot;
use crate::error::{Error, Result};
use crate::head::{Base, Head};
use crate::id::{Lineage, Nonce};
use crate::journal::Frame;
use crate::name::StackName;
use async_trait::async_trait;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use store::StoredStack;
use writer::MemoryWriter;

/// A backend that keeps stacks in memory; clones share the stacks. Its futures never wait, so they run on any executor.
#[derive(Clone, Default)]
pub struct MemoryBackend {
    contents: Arc<Mutex<Contents>>,
}

#[derive(Default)]
struct Contents {
    /// Name pointers by folded name.
    names: BTreeMap<(String, String), NamePointer>,
    stacks: BTreeMap<Lineage, StoredStack>,
    /// Objects of stacks that are being copied into this store.
    adopted: BTreeMap<Lineage, BTreeMap<ObjectName, Bytes>>,
}

impl Contents {
    fn stack(&mut self, lineage: Lineage) -> Result<&mut StoredStack> {
        self.stacks
            .get_mut(&lineage)
            .ok_or_else(|| Error::not_found(format!("stack {lineage}")))
    }
}

impl MemoryBackend {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Locks the contents. Ignores poisoning: no code in this module panics while it changes the contents, so they are
    /// complete even if a thread panicked with the lock.
    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with_stack<T>(&self, lineage: Lineage, act: impl FnOnce(&mut StoredStack) -> Result<T>) -> Result<T> {
        act(self.contents().stack(lineage)?)
    }
}

/// Shows only counts, never contents.
impl fmt::Debug for MemoryBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let contents = self.contents();
        f.debug_struct("MemoryBackend")
            .field("names", &contents.names.len())
            .field("stacks", &contents.stacks.len())
            .finish()
    }
}

#[async_trait]
impl Backend for MemoryBackend {
    fn url(&self) -> String {
        "memory:".to_owned()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(false, false, true)
    }

    async fn names(&self) -> Result<Vec<NamePointer>> {
        let mut names: Vec<NamePointer> = self.contents().names.values().cloned().collect();
        names.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(names)
    }

    async fn read_name(&self, name: &StackName) -> Result<Option<NamePointer>> {
        Ok(self.contents().names.get(&name.folded()).cloned())
    }

    async fn swap_name(
        &self,
        name: &StackName,
        expected: Option<Nonce>,
        pointer: &NamePointer,
    ) -> Result<()> {
        if pointer.name.folded() != name.folded() {
            return Err(Error::invalid(
                format!("name {name}"),
                format!("the pointer is for {}", pointer.name),
            ));
        }
        let names = &mut self.contents().names;
        let found = names.get(&name.folded()).map(|pointer| pointer.nonce);
        if found != expected {
            return Err(Error::conflict(
                format!("name {name}"),
                "the pointer was changed by another writer",
            ));
        }
        names.insert(name.folded(), pointer.clone());
        Ok(())
    }

    async fn create_stack(&self, head: &Head) -> Result<()> {
        let object = format!("stack {}", head.lineage);
        if head.base != Base::empty(head.lineage) {
            return Err(Error::invalid(object, "a new stack must have an empty base"));
        }
        let stacks = &mut self.contents().stacks;
        if stacks.contains_key(&head.lineage) {
            return Err(Error::conflict(object, "the stack already exists"));
        }
        stacks.insert(head.lineage, StoredStack::new(head.clone()));
        Ok(())
    }

    async fn read_head(&self, lineage: Lineage) -> Result<Head> {
        self.with_stack(lineage, |stack| Ok(stack.head.clone()))
    }

    async fn read(&self, lineage: Lineage, name: &ObjectName) -> Result<Bytes> {
        self.with_stack(lineage, |stack| {
            let bytes = stack.objects.get(name).cloned();
            bytes.ok_or_else(|| Error::not_found(format!("{name} of stack {lineage}")))
        })
    }

    async fn list(&self, lineage: Lineage, kind: ObjectKind) -> Result<Vec<ObjectName>> {
        self.with_stack(lineage, |stack| {
            let of_kind = stack.objects.keys().filter(|name| name.kind() == kind);
            Ok(of_kind.cloned().collect())
        })
    }

    async fn read_journal(&self, lineage: Lineage, from: Option<Slot>) -> Result<JournalView> {
        self.with_stack(lineage, |stack| stack.view(from))
    }

    async fn read_frames(&self, head: &Head, from: Tail, until: Slot) -> Result<Vec<Frame>> {
        self.with_stack(head.lineage, |stack| stack.frames_between(from, until))
    }

    async fn acquire(&self, lineage: Lineage, request: &Acquire) -> Result<Acquired> {
        let view = self.with_stack(lineage, |stack| stack.acquire(request))?;
        let writer = MemoryWriter::new(self.clone(), lineage, view.head.epoch);
        Ok(Acquired {
            head: view.head,
            frames: view.frames,
            tail: view.tail,
            writer: Arc::new(writer),
        })
    }

    async fn lock_status(&self, lineage: Lineage) -> Result<LockStatus> {
        self.with_stack(lineage, |stack| Ok(stack.lock_status()))
    }

    fn extensions(&self) -> Extensions<'_> {
        Extensions::none().with_copies(self).with_collection(self)
    }
}

#[async_trait]
impl CopyTarget for MemoryBackend {
    async fn adopt_object(&self, lineage: Lineage, name: &ObjectName, bytes: Bytes) -> Result<()> {
        let mut contents = self.contents();
        let Contents { adopted, stacks, .. } = &mut *contents;
        let objects = match stacks.get_mut(&lineage) {
            Some(stack) => &mut stack.objects,
            None => adopted.entry(lineage).or_default(),
        };
        let there = objects.entry(name.clone()).or_insert_with(|| bytes.clone());
        if *there == bytes {
            return Ok(());
        }
        let object = format!("{name} of stack {lineage}");
        Err(Error::conflict(object, "the object exists with other content"))
    }

    async fn adopt_stack(&self, head: &Head, before: Tail, frames: &[Frame]) -> Result<()> {
        let mut contents = self.contents();
        if contents.stacks.contains_key(&head.lineage) {
            let object = format!("stack {}", head.lineage);
            return Err(Error::conflict(object, "the stack already exists"));
        }
        let objects = contents.adopted.get(&head.lineage).cloned().unwrap_or_default();
        let stack = StoredStack::adopted(head.clone(), before, frames, objects)?;
        contents.adopted.remove(&head.lineage);
        contents.stacks.insert(head.lineage, stack);
        Ok(())
    }

    async fn update_stack(&self, update: &CopyUpdate) -> Result<()> {
        let mut contents = self.contents();
        let lineage = update.head.lineage;
        let stack = contents.stacks.get_mut(&lineage);
        let stack = stack.ok_or_else(|| Error::not_found(format!("stack {lineage}")))?;
        stack.update(update)
    }
}

#[async_trait]
impl CollectableStore for MemoryBackend {
    async fn stored_items(&self, lineage: Lineage, before: Slot) -> Result<Vec<StoredItem>> {
        self.with_stack(lineage, |stack| Ok(stack.stored_items(before)))
    }
}
