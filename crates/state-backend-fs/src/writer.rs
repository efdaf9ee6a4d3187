//! [`Writer`] of one stack: runs the owner's operations on separate threads.

use crate::owner::{Owner, SwapOutcome};
use crate::worker::Worker;
use async_trait::async_trait;
use bytes::Bytes;
use state_core::backend::{HeadChange, ObjectName, StoredItemName, Tail};
use state_core::head::Head;
use state_core::{Epoch, Error, Frame, Nonce, Result, Writer};
use std::fmt;
use std::sync::Arc;

/// How often a head change is repeated because another task of this writer changed the head meanwhile.
const ATTEMPTS: usize = 16;

/// The writer of one stack. One thread appends frames and another writes objects and heads, so that a large checkpoint
/// doesn't delay appends.
pub(crate) struct FsWriter {
    owner: Arc<Owner>,
    frames: Worker,
    objects: Worker,
}

impl FsWriter {
    /// `threads` is the number of threads for frames, and for objects and heads: 1, or 0 in a simulation.
    pub(crate) fn new(owner: Owner, threads: usize) -> Self {
        Self {
            owner: Arc::new(owner),
            frames: Worker::new("state-journal", threads),
            objects: Worker::new("state-objects", threads),
        }
    }

    /// Runs one operation to its end, even if the caller drops the future.
    async fn step<T: Send + 'static>(
        &self,
        worker: &Worker,
        step: impl FnOnce(&Owner) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let owner = Arc::clone(&self.owner);
        match worker.run(move || step(&owner)).await {
            Some(result) => result,
            None => Err(self.owner.close_after_panic()),
        }
    }
}

impl fmt::Debug for FsWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FsWriter")
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Writer for FsWriter {
    fn epoch(&self) -> Epoch {
        self.owner.epoch
    }

    async fn append(&self, frame: &Frame) -> Result<()> {
        let (owner, frame) = (Arc::clone(&self.owner), frame.clone());
        // Without a reference to the owner: its lock must be free as soon as the writer is dropped.
        let end = owner.journal_end();
        let append = move || owner.append(&frame);
        match self.frames.run_before(append, move || end.preallocate()).await {
            Some(result) => result,
            None => Err(self.owner.close_after_panic()),
        }
    }

    async fn rotate(&self, tail: Tail, nonce: Nonce) -> Result<Tail> {
        self.step(&self.frames, move |owner| owner.rotate(tail, nonce))
            .await
    }

    async fn swap_head(&self, nonce: Nonce, change: HeadChange<'_>) -> Result<Head> {
        let mut seen = self.step(&self.objects, Owner::head).await?;
        // The change runs outside `head.lock`, so that the caller's code can't block other processes. A head that
        // changed meanwhile is detected by its bytes in the swap, and the change is applied to the new head.
        for _ in 0..ATTEMPTS {
            let mut head = seen.head.clone();
            change(&mut head)?;
            let swap = move |owner: &Owner| owner.swap_head(&seen, head, nonce);
            match self.step(&self.objects, swap).await? {
                SwapOutcome::Swapped(head) => return Ok(head),
                SwapOutcome::Stale(now) => seen = now,
            }
        }
        Err(Error::conflict(
            format!("the head of epoch {}", self.owner.epoch),
            "it keeps changing; try again",
        ))
    }

    async fn remove(&self, nonce: Nonce) -> Result<()> {
        self.step(&self.objects, move |owner| owner.remove(nonce)).await
    }

    async fn create(&self, name: &ObjectName, bytes: Bytes) -> Result<()> {
        let name = name.clone();
        self.step(&self.objects, move |owner| owner.create(&name, &bytes))
            .await
    }

    async fn delete(&self, stored_items: &[StoredItemName]) -> Result<()> {
        let stored_items = stored_items.to_vec();
        self.step(&self.objects, move |owner| owner.delete(&stored_items))
            .await
    }

    async fn check(&self) -> Result<()> {
        self.step(&self.frames, |owner| owner.head().map(drop)).await
    }

    async fn release(&self) -> Result<()> {
        self.step(&self.frames, |owner| {
            owner.release();
            Ok(())
        })
        .await
    }
}
