//! Compaction: stores many frames in one object, so that a reader needs one request instead of a thousand.
//!
//! The single slots stay, and fencing and integrity depend only on them, so a compaction may be missing. A lock holder
//! compacts in the background after many frames, which doesn't delay appends, and once more when it closes the journal:
//! readers of a closed journal read no single slot. The head names one compaction, or two if the journal since the base
//! is longer than [`SMALL`]: then a session with few frames doesn't write all frames again.
//!
//! ```text
//!  base                                     watermark
//!   ├────────────── 9 MiB ──────────────┼─ 70 KiB ─┤
//! ```

use crate::objects::Objects;
use bytes::{Bytes, BytesMut};
use state_backend_generic::protocol::{JournalName, Owner};
use state_core::head::{Compaction, MAX_COMPACTIONS};
use state_core::{Digest, Frame, Head, Result, Slot};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Limit on the buffered frames, in bytes. A longer journal is read slot by slot until the next checkpoint.
const MAX_BYTES: usize = 64 << 20;

/// A compaction with fewer bytes is included in the next one. Also a bound for what a short session writes at its end.
const SMALL: u64 = 1 << 20;

/// The number of frames that are worth a compaction when the journal is closed: a single one is read as its slot.
const AT_CLOSE: u64 = 2;

/// Collects the frames since the head's base, and compacts them.
#[derive(Debug)]
pub(crate) struct Compactor {
    objects: Objects,
    buffer: Mutex<FrameBuffer>,
    /// The compactions that exist, in the order of the journal, from the base on: they were read, or stored by this lock
    /// holder. The head may name others, which are missing.
    stored: Mutex<Vec<Compaction>>,
    /// The compactions that the head named before the journal was closed, and doesn't name any more.
    replaced: Mutex<Vec<Compaction>>,
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

/// A compaction that is ready to be stored.
#[derive(Debug)]
pub(crate) struct Plan {
    /// All compactions that the head names afterwards. The last one is the new one.
    pub(crate) compactions: Vec<Compaction>,
    /// The content of the new one.
    bytes: Bytes,
}

impl Compactor {
    /// `read` are the compactions that were read at the takeover.
    pub(crate) fn new(objects: Objects, read: Vec<Compaction>) -> Self {
        Self {
            objects,
            buffer: Mutex::default(),
            stored: Mutex::new(read),
            replaced: Mutex::default(),
        }
    }

    /// Returns the number of new frames that are worth a compaction while the journal is extended.
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
                drop(compactor.compact(&owner).await);
                compactor.buffer().busy = false;
            }));
        }
    }

    async fn compact(&self, owner: &Owner) -> Result<()> {
        let head = owner.head().await?.1;
        let Some(plan) = self.plan(self.threshold(), &head) else {
            return Ok(());
        };
        self.store(owner, &plan).await?;
        owner.set_compactions(plan.compactions).await
    }

    /// Plans the compaction of the rest of a journal that is about to be closed. Returns `None` if there is nothing to
    /// compact.
    pub(crate) fn at_close(&self, head: &Head) -> Option<Plan> {
        self.plan(AT_CLOSE, head)
    }

    fn plan(&self, threshold: u64, head: &Head) -> Option<Plan> {
        let mut stored = lock(&self.stored).clone();
        if stored.first().is_some_and(|first| first.start != head.base.start) {
            // The base moved.
            stored.clear();
        }
        self.buffer().plan(threshold, head.base.start, stored)
    }

    /// Remembers which of the compactions that the previous head named are superseded by those of this one. The compactions
    /// before a base that moved stay: readers of earlier revisions find them by their names, and a collection deletes them
    /// with the history.
    pub(crate) fn replaced(&self, before: Vec<Compaction>, head: &Head) {
        let is_superseded =
            |old: &Compaction| old.start >= head.base.start && !head.compactions.contains(old);
        let unused = before.into_iter().filter(is_superseded);
        lock(&self.replaced).extend(unused);
    }

    /// Deletes the replaced compactions. Readers of an earlier head that miss one read its slots instead.
    pub(crate) async fn delete_replaced(&self, owner: &Owner) {
        let replaced = std::mem::take(&mut *lock(&self.replaced));
        // A failure is ignored: the next collection deletes what is left.
        drop(owner.delete_compactions(&replaced).await);
    }

    /// Stores the new object. The head may name it already: a reader that doesn't find it reads the slots.
    pub(crate) async fn store(&self, owner: &Owner, plan: &Plan) -> Result<()> {
        let Some(new) = plan.compactions.last() else {
            return Ok(());
        };
        let key = owner.stack.paths.in_journal(&JournalName::of_compaction(new));
        self.objects
            .create_named_by_digest(&owner.stack, &key, &plan.bytes)
            .await?;
        lock(&self.stored).clone_from(&plan.compactions);
        Ok(())
    }

    fn buffer(&self) -> MutexGuard<'_, FrameBuffer> {
        lock(&self.buffer)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FrameBuffer {
    fn add(&mut self, frame: Frame) {
        // Give up on this journal. `plan` requires the first frame of the base, so nothing is compacted until a
        // checkpoint moves the base.
        if self.bytes > MAX_BYTES {
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

    /// Plans a compaction of the frames from the base on that the `stored` compactions don't cover, if there are at least
    /// `threshold`.
    fn plan(&mut self, threshold: u64, base: Slot, stored: Vec<Compaction>) -> Option<Plan> {
        let passed = self.frames.partition_point(|frame| frame.slot() < base);
        for frame in self.frames.drain(..passed) {
            self.bytes -= frame.bytes().len();
        }
        self.settled = self.settled.saturating_sub(passed);
        // A gap after the base would make readers of the compactions miss frames.
        if self.frames.front()?.slot() != base {
            return None;
        }
        let mut compactions = stored;
        let covered = compactions.last().map_or(base, |last| last.end);
        // A failed attempt may have settled more.
        self.settled = self.settled.max(self.place(covered));
        let uncovered = self.frames.range(self.place(covered)..);
        if (uncovered.len() as u64) < threshold {
            return None;
        }
        self.settled = self.frames.len();
        let added: u64 = uncovered.map(|frame| frame.bytes().len() as u64).sum();
        // A small predecessor is included. If both are too large together, all frames become one compaction.
        let last = compactions.pop_if(|last| last.length < SMALL);
        if last.is_some_and(|last| last.length + added >= SMALL) || compactions.len() == MAX_COMPACTIONS {
            compactions.clear();
        }
        let start = compactions.last().map_or(base, |last| last.end);
        let mut content = BytesMut::new();
        for frame in self.frames.range(self.place(start)..) {
            content.extend_from_slice(frame.bytes());
        }
        compactions.push(Compaction {
            start,
            end: self.frames.back()?.slot().next(),
            digest: Digest::of(&content),
            length: content.len() as u64,
        });
        Some(Plan {
            compactions,
            bytes: content.freeze(),
        })
    }

    /// Returns the place of the first frame from this slot on.
    fn place(&self, start: Slot) -> usize {
        self.frames.partition_point(|frame| frame.slot() < start)
    }
}
