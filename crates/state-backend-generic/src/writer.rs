//! Implements the writer of one locked stack: [`GenericWriter`].

use crate::collection::delete;
use crate::owner::Owner;
use async_trait::async_trait;
use bytes::Bytes;
use state_core::backend::{HeadChange, ObjectName, StoredItemName, Tail, cannot_delete};
use state_core::{Epoch, Frame, Head, Nonce, Result, Writer};

/// The writer of a stack. It holds the lock until the lock is released or broken.
#[derive(Debug)]
pub(crate) struct GenericWriter {
    owner: Owner,
    /// Whether the store implements deletion.
    deletes: bool,
}

impl GenericWriter {
    pub(crate) const fn new(owner: Owner, deletes: bool) -> Self {
        Self { owner, deletes }
    }
}

#[async_trait]
impl Writer for GenericWriter {
    fn epoch(&self) -> Epoch {
        self.owner.epoch
    }

    async fn append(&self, frame: &Frame) -> Result<()> {
        self.owner.append(frame).await
    }

    /// Only checks the tail: a journal of single frames has no segments, so a base can start at any frame.
    async fn rotate(&self, tail: Tail, _nonce: Nonce) -> Result<Tail> {
        self.owner.check_tail(tail).await
    }

    async fn swap_head(&self, nonce: Nonce, change: HeadChange<'_>) -> Result<Head> {
        self.owner.change_head(nonce, change).await
    }

    async fn remove(&self, nonce: Nonce) -> Result<()> {
        self.owner.remove(nonce).await
    }

    async fn create(&self, name: &ObjectName, bytes: Bytes) -> Result<()> {
        self.owner.check_open()?;
        self.owner.stack.create_object(name, &bytes).await
    }

    async fn delete(&self, stored_items: &[StoredItemName]) -> Result<()> {
        if self.deletes {
            return delete(&self.owner, stored_items).await;
        }
        let url = self.owner.stack.store.settings().url.clone();
        Err(cannot_delete(url))
    }

    async fn check(&self) -> Result<()> {
        self.owner.check().await
    }

    async fn release(&self) -> Result<()> {
        self.owner.release().await
    }
}
