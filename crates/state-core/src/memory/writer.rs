//! The writer of a stack in memory, which holds the stack's writer lock until it is released or dropped.

use super::MemoryBackend;
use super::store::StoredStack;
use crate::backend::{HeadChange, ObjectName, StoredItemName, Tail, Writer, next_epoch};
use crate::counter::Epoch;
use crate::error::{Error, Result};
use crate::head::Head;
use crate::id::{Lineage, Nonce};
use crate::journal::Frame;
use async_trait::async_trait;
use bytes::Bytes;
use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};

/// The writer holds the lock, as far as it knows.
const OPEN: u8 = 0;
/// An append failed, so the writer refuses further appends.
const POISONED: u8 = 1;
/// The lock was released, so the writer refuses all calls.
const RELEASED: u8 = 2;

pub(super) struct MemoryWriter {
    backend: MemoryBackend,
    lineage: Lineage,
    epoch: Epoch,
    state: AtomicU8,
}

impl MemoryWriter {
    pub(super) const fn new(backend: MemoryBackend, lineage: Lineage, epoch: Epoch) -> Self {
        Self {
            backend,
            lineage,
            epoch,
            state: AtomicU8::new(OPEN),
        }
    }

    /// Runs `act` on the stack if this writer still holds the lock.
    fn act<T>(&self, act: impl FnOnce(&mut StoredStack) -> Result<T>) -> Result<T> {
        if self.state.load(Ordering::Acquire) == RELEASED {
            return Err(self.closed("the lock was released"));
        }
        self.backend.with_stack(self.lineage, |stack| {
            stack.owned_by(self.epoch)?;
            act(stack)
        })
    }

    /// Runs `act`, which extends the journal. After a failure, this writer refuses all further appends.
    fn extend<T>(&self, act: impl FnOnce(&mut StoredStack) -> Result<T>) -> Result<T> {
        // After a failed append, the caller's next frame would leave a gap in the chain or repeat a slot.
        if self.state.load(Ordering::Acquire) == POISONED {
            return Err(self.closed("an earlier append failed"));
        }
        let result = self.act(act);
        if result.is_err() {
            // `fetch_max` keeps RELEASED, the higher state, which must not become POISONED.
            self.state.fetch_max(POISONED, Ordering::AcqRel);
        }
        result
    }

    fn closed(&self, reason: &str) -> Error {
        Error::Closed {
            object: format!("stack {}", self.lineage),
            reason: reason.to_owned(),
        }
    }

    fn free(&self) {
        self.state.store(RELEASED, Ordering::Release);
        if let Ok(stack) = self.backend.contents().stack(self.lineage) {
            stack.free(self.epoch);
        }
    }
}

impl fmt::Debug for MemoryWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryWriter")
            .field("lineage", &self.lineage)
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}

impl Drop for MemoryWriter {
    fn drop(&mut self) {
        self.free();
    }
}

#[async_trait]
impl Writer for MemoryWriter {
    fn epoch(&self) -> Epoch {
        self.epoch
    }

    async fn append(&self, frame: &Frame) -> Result<()> {
        self.extend(|stack| stack.append(frame))
    }

    async fn rotate(&self, tail: Tail, nonce: Nonce) -> Result<Tail> {
        self.extend(|stack| stack.rotate(tail, nonce))
    }

    async fn swap_head(&self, nonce: Nonce, change: HeadChange<'_>) -> Result<Head> {
        loop {
            let before = self.act(|stack| Ok(stack.head.clone()))?;
            // The change runs twice, because other backends may repeat it. It runs without the lock on the contents,
            // because the caller's code may call this backend again.
            change(&mut before.clone())?;
            let mut after = before.clone();
            change(&mut after)?;
            after.epoch = before.epoch;
            after.generation = before.generation;
            after.lineage = before.lineage;
            after.nonce = nonce;
            after.removed |= before.removed;
            let swapped = self.act(|stack| {
                stack.check_head(&after)?;
                let is_fresh = stack.head == before;
                if is_fresh {
                    stack.head = after.clone();
                }
                Ok(is_fresh)
            })?;
            if swapped {
                return Ok(after);
            }
        }
    }

    async fn remove(&self, nonce: Nonce) -> Result<()> {
        self.act(|stack| {
            stack.head.epoch = next_epoch(stack.name(), stack.head.epoch)?;
            stack.head.removed = true;
            stack.head.nonce = nonce;
            stack.free(self.epoch);
            Ok(())
        })
    }

    async fn create(&self, name: &ObjectName, bytes: Bytes) -> Result<()> {
        self.act(|stack| match stack.objects.get(name) {
            Some(there) if *there != bytes => Err(Error::conflict(
                format!("{name} of {}", stack.name()),
                "the object exists with other content",
            )),
            Some(_) => Ok(()),
            None => {
                stack.objects.insert(name.clone(), bytes);
                Ok(())
            }
        })
    }

    async fn delete(&self, stored_items: &[StoredItemName]) -> Result<()> {
        self.act(|stack| stack.delete(stored_items))
    }

    async fn check(&self) -> Result<()> {
        self.act(|_| Ok(()))
    }

    async fn release(&self) -> Result<()> {
        self.act(|_| Ok(()))?;
        self.free();
        Ok(())
    }
}
