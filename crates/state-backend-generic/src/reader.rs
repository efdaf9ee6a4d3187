//! Reads the journal of a stack, without a lock: head first, then all slots at once.
//!
//! ```text
//!  head ──► the base's snapshot, for who asks for it next
//!       ├─► compaction, if it names one ─┐
//!       ├─► list ──► slot, slot, … ┴─► the next slot, until there is none
//!       └─► the frame before the first one, when nothing else tells the chain there
//! ```
//!
//! What is there is durable, and a slot is written only when those below it are known. So whatever a reader gets in
//! one piece from the head's base on is a state that existed. When something is missing it looks at the head again: if
//! that changed, a collection was quicker, and it starts over; if not, the journal is damaged.

use crate::layout::{JournalName, MAX_FRAME, MAX_OBJECT};
use crate::prefetch::SnapshotPrefetch;
use crate::stack::Stack;
use crate::store::Value;
use bytes::Bytes;
use futures_util::future::join;
use futures_util::{StreamExt, TryStreamExt, stream};
use state_core::backend::{ChainAnchors, JournalView, Tail};
use state_core::head::Compaction;
use state_core::journal::{ParsedFrame, genesis};
use state_core::{Digest, Epoch, Error, Frame, Head, Result, Slot};

/// How often a reader starts over because the head changed.
const ATTEMPTS: usize = 16;

/// The journal of one moment, from a slot on.
#[derive(Debug)]
pub(crate) struct JournalRead {
    pub(crate) frames: Vec<Frame>,
    pub(crate) tail: Tail,
    /// That of the last frame, which is the highest.
    pub(crate) epoch: Epoch,
}

/// Head and journal of one moment.
///
/// From the head's base on its snapshot is needed too: it is fetched at the same time.
pub async fn read_journal(
    stack: &Stack,
    from: Option<Slot>,
    fetched: &SnapshotPrefetch,
) -> Result<JournalView> {
    let mut seen = stack.head().await?;
    for _ in 0..ATTEMPTS {
        let result = match from {
            Some(_) => walk(stack, &seen.head, from).await,
            None => {
                join(walk(stack, &seen.head, from), fetched.fetch(stack, &seen.head))
                    .await
                    .0
            }
        };
        match result {
            // Nobody of a later epoch has written: no takeover in between, or none that matters yet.
            Ok(walked) if walked.epoch <= seen.head.epoch => {
                return Ok(JournalView {
                    head: seen.head,
                    frames: walked.frames,
                    tail: walked.tail,
                });
            }
            Err(error) if !may_be_a_race(&error) => return Err(error),
            Ok(_) | Err(_) => {}
        }
        let now = stack.head().await?;
        if now.found.bytes == seen.found.bytes {
            return match result {
                Ok(walked) => Err(later(stack, &walked, &now.head)),
                Err(error) => Err(error),
            };
        }
        seen = now;
    }
    Err(Error::conflict(
        stack.shown(),
        "its head keeps changing; try again",
    ))
}

const fn may_be_a_race(error: &Error) -> bool {
    matches!(error, Error::Corrupt { .. } | Error::Collected { .. })
}

fn later(stack: &Stack, walked: &JournalRead, head: &Head) -> Error {
    let reason = format!(
        "it has frames of epoch {}, later than {} in the head",
        walked.epoch, head.epoch
    );
    Error::corrupt(stack.store.shown(&stack.paths.journal()), 0, reason)
}

/// Reads all frames from a slot on (none: from the head's base).
pub(crate) async fn walk(stack: &Stack, head: &Head, from: Option<Slot>) -> Result<JournalRead> {
    let from = from.unwrap_or(head.base.start);
    if head.is_collected(from) {
        let object = format!("slot {from} of {}", stack.store.shown(&stack.paths.journal()));
        return Err(Error::collected(object, format_args!("slot {}", head.floor)));
    }
    let mut walk = Walk {
        stack,
        anchors: ChainAnchors::of(head),
        walked: JournalRead {
            frames: Vec::new(),
            tail: Tail {
                next: from,
                chain: chain_before(stack, head, from).await?,
            },
            epoch: Epoch::ZERO,
        },
    };
    walk.pass()?;
    // The fold that the head names, if the walk can begin with it.
    if let Some(compaction) = head
        .compaction
        .filter(|compaction| compaction.start == from && compaction.end > from)
    {
        walk.take_compaction(&compaction).await?;
    }
    walk.take_slots().await?;
    walk.finish()
}

/// The chain before the first frame: from the head, or from the frame before, of which the next one tells whether it is
/// true.
async fn chain_before(stack: &Stack, head: &Head, slot: Slot) -> Result<Digest> {
    let Some(before) = slot.get().checked_sub(1).map(Slot) else {
        return Ok(genesis(stack.lineage));
    };
    if let Some(chain) = ChainAnchors::of(head).chain_before(slot) {
        return Ok(chain);
    }
    let path = stack.paths.slot(before);
    let Some(found) = stack.store.read(&path, MAX_FRAME).await? else {
        let reason = format!("slot {slot} is beyond its end");
        return Err(Error::invalid(stack.store.shown(&stack.paths.journal()), reason));
    };
    Frame::unverified_chain(&found.bytes)
        .ok_or_else(|| Error::corrupt(stack.store.shown(&path), 0, "no frame is in it"))
}

/// A journal as far as it was read.
pub(crate) struct Walk<'a> {
    stack: &'a Stack,
    anchors: ChainAnchors<'a>,
    walked: JournalRead,
}

impl Walk<'_> {
    fn pass(&self) -> Result<()> {
        let tail = self.walked.tail;
        let corrupt = |reason| {
            Error::corrupt(
                self.stack.store.shown(&self.stack.paths.slot(tail.next)),
                0,
                reason,
            )
        };
        self.anchors.pass(tail).map_err(corrupt)
    }

    fn finish(self) -> Result<JournalRead> {
        let reached = self.anchors.finish(self.walked.tail);
        let journal = || self.stack.store.shown(&self.stack.paths.journal());
        reached.map_err(|reason| Error::corrupt(journal(), 0, reason))?;
        Ok(self.walked)
    }

    /// Takes the frames of a fold. If it isn't there, the slots are.
    async fn take_compaction(&mut self, compaction: &Compaction) -> Result<()> {
        let path = self
            .stack
            .paths
            .in_journal(&JournalName::of_compaction(compaction));
        let most = compaction.length.min(MAX_OBJECT);
        let Some(found) = self.stack.store.read(&path, most).await? else {
            return Ok(());
        };
        let object = self.stack.store.shown(&path);
        if Digest::of(&found.bytes) != compaction.digest {
            return Err(Error::corrupt(object, 0, "its digest isn't the one in the head"));
        }
        let mut at = 0;
        while at < found.bytes.len() {
            at += self.take(&object, &found.bytes, at)?;
        }
        if self.walked.tail.next == compaction.end {
            return Ok(());
        }
        Err(Error::corrupt(
            object,
            at as u64,
            "it doesn't end where the head says",
        ))
    }

    /// Takes what the list shows, then what came later.
    async fn take_slots(&mut self) -> Result<()> {
        let listed = self.listed().await?;
        if let Some(last) = listed.last().copied() {
            self.take_listed(last).await?;
        }
        while let Some(found) = self.read(self.walked.tail.next).await? {
            self.take_slot(&found)?;
        }
        Ok(())
    }

    /// The slots from the next one on that a list shows.
    async fn listed(&self) -> Result<Vec<Slot>> {
        let paths = &self.stack.paths;
        let next = self.walked.tail.next;
        let offset = next.get().checked_sub(1).map(|before| paths.slot(Slot(before)));
        let listed = self.stack.store.list(&paths.journal(), offset.as_deref()).await?;
        let slots = listed
            .iter()
            .filter_map(|object| match JournalName::parse(object.file()) {
                Some(JournalName::Slot(slot)) if slot >= next => Some(slot),
                _ => None,
            });
        Ok(slots.collect())
    }

    /// Takes all slots up to one that is there. None of those below it can be missing.
    async fn take_listed(&mut self, last: Slot) -> Result<()> {
        let (stack, first) = (self.stack, self.walked.tail.next.get());
        let slots = stream::iter(first..=last.get()).map(|slot| async move {
            let path = stack.paths.slot(Slot(slot));
            match stack.store.read(&path, MAX_FRAME).await? {
                Some(found) => Ok(found),
                None => {
                    let reason = format!("it is missing, but slot {last} is there");
                    Err(Error::corrupt(stack.store.shown(&path), 0, reason))
                }
            }
        });
        let mut slots = slots.buffered(stack.store.concurrency());
        while let Some(found) = slots.try_next().await? {
            self.take_slot(&found)?;
        }
        Ok(())
    }

    async fn read(&self, slot: Slot) -> Result<Option<Value>> {
        self.stack
            .store
            .read(&self.stack.paths.slot(slot), MAX_FRAME)
            .await
    }

    fn take_slot(&mut self, found: &Value) -> Result<()> {
        let object = self
            .stack
            .store
            .shown(&self.stack.paths.slot(self.walked.tail.next));
        let length = self.take(&object, &found.bytes, 0)?;
        if length == found.bytes.len() {
            return Ok(());
        }
        Err(Error::corrupt(
            object,
            length as u64,
            "there are bytes behind its frame",
        ))
    }

    /// Takes the frame at an offset, which must be the one that follows; its length.
    fn take(&mut self, object: &str, bytes: &Bytes, at: usize) -> Result<usize> {
        let frame = follow(object, bytes, at, self.walked.tail, self.walked.epoch)?;
        let length = frame.bytes().len();
        self.walked.epoch = frame.epoch();
        self.walked.tail = Tail::after(&frame);
        self.walked.frames.push(frame);
        self.pass()?;
        Ok(length)
    }
}

/// The frame at an offset, if it is the one that follows.
pub(crate) fn follow(object: &str, bytes: &Bytes, at: usize, tail: Tail, epoch: Epoch) -> Result<Frame> {
    let reason = match Frame::parse(bytes, at, &tail.chain) {
        ParsedFrame::Frame(frame) if frame.slot() != tail.next => "it holds the frame of another slot",
        ParsedFrame::Frame(frame) if frame.epoch() < epoch => {
            "its epoch is lower than that of the frame before"
        }
        ParsedFrame::Frame(frame) => return Ok(frame),
        ParsedFrame::End => "it is empty",
        ParsedFrame::Short { reason } | ParsedFrame::Bad { reason } => reason,
    };
    Err(Error::corrupt(object, at as u64, reason))
}
