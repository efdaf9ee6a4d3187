//! Compaction: stores many frames in one object, so that a reader needs one request instead of a thousand.
//!
//! The single slots stay, and fencing and integrity depend only on them, so a compaction may be missing. The owner
//! creates it in the background from frames that it wrote or read, and then names it in the head. This costs two writes
//! per thousand batches, and doesn't delay appends.

use crate::objects::Objects;
use bytes::{Bytes, BytesMut};
use state_backend_generic::protocol::{JournalName, Owner};
use state_core::head::Compaction;
use state_core::{Digest, Frame, Result, Slot};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Limit on the buffered frames, in bytes. A longer journal is read slot by slot until the next checkpoint.
const MOST: usize = 64 << 20;

/// Collects the frames since the head's base, and compacts them.
#[derive(Debug)]
pub(crate) struct Compactor {
    objects: Objects,
    buffer: Mutex<FrameBuffer>,
}

#[derive(Debug, Default)]
struct FrameBuffer {
    frames: VecDeque<Frame>,
    bytes: usize,
    /// The latest attempt at a compaction covered this many frames from the front of `frames`. A failed attempt is not
    /// repeated before there are enough new frames.
    settled: usize,
    /// Whether a compaction is running.
    busy: bool,
}

impl Compactor {
    pub(crate) fn new(objects: Objects) -> Self {
        Self {
            objects,
            buffer: Mutex::default(),
        }
    }

    /// Returns the number of new frames that are worth a compaction.
    fn threshold(&self) -> u64 {
        self.objects.options.compaction.max(1)
    }

    /// Adds frames, and starts a compaction in the background if there are enough.
    pub(crate) fn gather(self: &Arc<Self>, owner: &Arc<Owner>, frames: impl IntoIterator<Item = Frame>) {
        let mut buffer = self.buffer();
        for frame in frames {
            buffer.add(frame);
        }
        if !buffer.busy && buffer.is_enough(self.threshold()) {
            buffer.busy = true;
            let (compactor, owner) = (Arc::clone(self), Arc::clone(owner));
            drop(tokio::spawn(async move {
                // A failure is ignored: without a compaction readers only need more requests.
                drop(compactor.compaction(&owner).await);
                compactor.buffer().busy = false;
            }));
        }
    }

    async fn compaction(&self, owner: &Owner) -> Result<()> {
        let base = owner.head().await?.1.base;
        let Some((compaction, bytes)) = self.buffer().begin(self.threshold(), base.start) else {
            return Ok(());
        };
        let key = owner
            .stack
            .paths
            .in_journal(&JournalName::of_compaction(&compaction));
        // The object must exist before the head names it, because a crash may come between the two writes.
        self.objects
            .create_named_by_digest(&owner.stack, &key, &bytes)
            .await?;
        owner.set_compaction(compaction).await
    }

    fn buffer(&self) -> MutexGuard<'_, FrameBuffer> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FrameBuffer {
    fn add(&mut self, frame: Frame) {
        // Give up on this journal. `begin` requires the first frame of the base, so nothing is compacted until a
        // checkpoint moves the base.
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

    /// Returns the compaction of all buffered frames from the base on, if there are enough new frames.
    fn begin(&mut self, threshold: u64, base: Slot) -> Option<(Compaction, Bytes)> {
        let passed = self.frames.partition_point(|frame| frame.slot() < base);
        for frame in self.frames.drain(..passed) {
            self.bytes -= frame.bytes().len();
        }
        self.settled = self.settled.saturating_sub(passed);
        let is_enough = self.is_enough(threshold);
        let (first, last) = (self.frames.front()?.slot(), self.frames.back()?.slot());
        // A gap after the base would make readers of the compaction miss frames.
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
