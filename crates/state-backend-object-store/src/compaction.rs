//! Many frames in one object: what a reader gets with one request instead of a thousand.
//!
//! The single slots stay, and everything that guards the journal rests on them: a fold may be missing. The owner makes
//! it in the background from the frames that it wrote or read, and lets the head name it. So once in a thousand batches
//! there are two writes more, in nobody's way.

use crate::objects::Objects;
use bytes::{Bytes, BytesMut};
use state_backend_generic::protocol::{JournalName, Owner};
use state_core::head::Compaction;
use state_core::{Digest, Frame, Result, Slot};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most bytes that are kept for a fold. A journal that is longer waits for a checkpoint, which is long due.
const MOST: usize = 64 << 20;

/// Gathers the frames since the head's base.
#[derive(Debug)]
pub(crate) struct Compactor {
    objects: Objects,
    gathered: Mutex<Gathered>,
}

#[derive(Debug, Default)]
struct Gathered {
    frames: VecDeque<Frame>,
    bytes: usize,
    /// How many of them, from the first on, need not be looked at again.
    settled: usize,
    /// A fold is being made.
    busy: bool,
}

impl Compactor {
    pub(crate) fn new(objects: Objects) -> Self {
        Self {
            objects,
            gathered: Mutex::default(),
        }
    }

    /// How many frames are worth a fold.
    fn threshold(&self) -> u64 {
        self.objects.options.compaction.max(1)
    }

    /// Takes what is in the journal now, and folds it in the background when there is enough.
    pub(crate) fn gather(self: &Arc<Self>, owner: &Arc<Owner>, frames: impl IntoIterator<Item = Frame>) {
        let mut gathered = self.gathered();
        for frame in frames {
            gathered.add(frame);
        }
        if !gathered.busy && gathered.is_enough(self.threshold()) {
            gathered.busy = true;
            let (folder, owner) = (Arc::clone(self), Arc::clone(owner));
            drop(tokio::spawn(async move {
                // Without a fold readers take longer; that is all.
                drop(folder.compaction(&owner).await);
                folder.gathered().busy = false;
            }));
        }
    }

    async fn compaction(&self, owner: &Owner) -> Result<()> {
        let base = owner.head().await?.1.base;
        let Some((compaction, bytes)) = self.gathered().begin(self.threshold(), base.start) else {
            return Ok(());
        };
        let key = owner
            .stack
            .paths
            .in_journal(&JournalName::of_compaction(&compaction));
        self.objects
            .create_named_by_digest(&owner.stack, &key, &bytes)
            .await?;
        owner.set_compaction(compaction).await
    }

    fn gathered(&self) -> MutexGuard<'_, Gathered> {
        self.gathered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gathered {
    fn add(&mut self, frame: Frame) {
        if self.bytes > MOST {
            *self = Self {
                busy: self.busy,
                ..Self::default()
            };
        }
        self.bytes += frame.bytes().len();
        self.frames.push_back(frame);
    }

    fn is_enough(&self, threshold: u64) -> bool {
        (self.frames.len() - self.settled) as u64 >= threshold
    }

    /// The fold of what is there from the base on, if there is enough.
    fn begin(&mut self, threshold: u64, base: Slot) -> Option<(Compaction, Bytes)> {
        let passed = self.frames.partition_point(|frame| frame.slot() < base);
        for frame in self.frames.drain(..passed) {
            self.bytes -= frame.bytes().len();
        }
        self.settled = self.settled.saturating_sub(passed);
        let is_enough = self.is_enough(threshold);
        let (first, last) = (self.frames.front()?.slot(), self.frames.back()?.slot());
        if !is_enough || first != base {
            return None;
        }
        self.settled = self.frames.len();
        let mut bytes = BytesMut::with_capacity(self.bytes);
        for frame in &self.frames {
            bytes.extend_from_slice(frame.bytes());
        }
        let compaction = Compaction {
            start: first,
            end: last.next(),
            digest: Digest::of(&bytes),
            length: bytes.len() as u64,
        };
        Some((compaction, bytes.freeze()))
    }
}
