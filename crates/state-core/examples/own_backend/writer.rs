//! The writer lock of one stack: every write is conditional, so that a stale one has no effect.

use crate::backend::{ShelfBackend, object_key};
use crate::journal;
use async_trait::async_trait;
use bytes::Bytes;
use state_core::backend::{HeadChange, ObjectName, Tail};
use state_core::{Epoch, Error, Frame, Head, Lineage, Nonce, Result, Writer};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

#[derive(Debug)]
pub(crate) struct ShelfWriter {
    backend: ShelfBackend,
    lineage: Lineage,
    epoch: Epoch,
    /// Where the next frame goes; none after a failure, when that isn't known any more.
    tail: Mutex<Option<Tail>>,
    released: AtomicBool,
}

impl ShelfWriter {
    pub(crate) fn new(backend: ShelfBackend, lineage: Lineage, epoch: Epoch, tail: Tail) -> Self {
        Self {
            backend,
            lineage,
            epoch,
            tail: Mutex::new(Some(tail)),
            released: AtomicBool::new(false),
        }
    }

    fn closed(&self, reason: &str) -> Error {
        Error::Closed {
            object: format!("stack {}", self.lineage),
            reason: reason.to_owned(),
        }
    }

    /// The head with its version, if its epoch is still ours.
    fn owned(&self) -> Result<(u64, Head)> {
        if self.released.load(Ordering::Acquire) {
            return Err(self.closed("its lock was released"));
        }
        let (version, head) = self.backend.head(self.lineage)?;
        if head.epoch == self.epoch {
            return Ok((version, head));
        }
        Err(Error::Fenced {
            object: format!("stack {}", self.lineage),
            mine: self.epoch,
            theirs: head.epoch,
            indeterminate: false,
        })
    }

    /// Puts a frame where the journal ends.
    fn extend(&self, tail: Tail, frame: &Frame) -> Result<()> {
        self.owned()?;
        let object = journal::key(self.lineage, frame.slot());
        let previous = journal::follows(tail, frame) && frame.epoch() == self.epoch;
        if !previous {
            return Err(Error::conflict(object, "it isn't the frame that follows"));
        }
        if !self.backend.shelf.create(&object, frame.bytes().clone()) {
            // A fence: somebody took over. The head says who.
            self.owned()?;
            return Err(Error::conflict(object, "the slot is taken"));
        }
        // Was it in time? A frame that came before the fence counts, but whoever took over decides.
        self.owned().map(drop).map_err(|error| match error {
            Error::Fenced {
                object, mine, theirs, ..
            } => Error::Fenced {
                object,
                mine,
                theirs,
                indeterminate: true,
            },
            other => other,
        })
    }
}

#[async_trait]
impl Writer for ShelfWriter {
    fn epoch(&self) -> Epoch {
        self.epoch
    }

    async fn append(&self, frame: &Frame) -> Result<()> {
        let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(end) = tail.take() else {
            self.owned()?;
            return Err(self.closed("an earlier append failed"));
        };
        self.extend(end, frame)?;
        *tail = Some(journal::after(frame));
        Ok(())
    }

    /// Every slot is a key of its own: a base can start at any of them.
    async fn rotate(&self, tail: Tail, _nonce: Nonce) -> Result<Tail> {
        self.owned()?;
        Ok(tail)
    }

    async fn swap_head(&self, nonce: Nonce, change: HeadChange<'_>) -> Result<Head> {
        loop {
            let (version, before) = self.owned()?;
            let mut after = before.clone();
            change(&mut after);
            after.epoch = before.epoch;
            after.generation = before.generation;
            after.lineage = before.lineage;
            after.nonce = nonce;
            if self.backend.replace_head(version, &after) {
                return Ok(after);
            }
        }
    }

    async fn remove(&self, nonce: Nonce) -> Result<()> {
        loop {
            let (version, mut head) = self.owned()?;
            head.removed = true;
            head.epoch = head.epoch.next();
            head.nonce = nonce;
            if self.backend.replace_head(version, &head) {
                return self.backend.free(self.lineage, self.epoch);
            }
        }
    }

    async fn create(&self, name: &ObjectName, bytes: Bytes) -> Result<()> {
        self.owned()?;
        let key = object_key(self.lineage, name);
        if self.backend.shelf.create(&key, bytes.clone()) {
            return Ok(());
        }
        match self.backend.shelf.get(&key) {
            Some((_, there)) if there == bytes => Ok(()),
            _ => Err(Error::conflict(key, "it exists with other bytes")),
        }
    }

    async fn check(&self) -> Result<()> {
        self.owned().map(drop)
    }

    async fn release(&self) -> Result<()> {
        self.owned()?;
        self.released.store(true, Ordering::Release);
        self.backend.free(self.lineage, self.epoch)
    }
}
