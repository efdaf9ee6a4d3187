//! Reads the journal of a stack without a lock: the head first, then all slots concurrently.
//!
//! ```text
//!  head ──► snapshot of the base, prefetched for the next read
//!       ├─► compactions that the head names ─┐
//!       ├─► list ──► slot, slot, … ──────────┴─► the next slot, until one is missing
//!       │   not for a closed journal, which ends at the watermark
//!       └─► the frame before the first one, for its chain, if the head doesn't record this chain
//! ```
//!
//! Stored frames are durable, and a slot is written only after the slot below it. Every gapless sequence of frames from
//! the head's base on is therefore a state that existed. If a frame is missing, the reader reads the head again. If the
//! head changed, a collection deleted the frame meanwhile, and the reader starts over; if the head is the same, the
//! journal is damaged.

use crate::compactions::usable;
use crate::layout::{JournalName, MAX_FRAME, MAX_OBJECT};
use crate::prefetch::FetchedObjects;
use crate::stack::Stack;
use crate::store::Value;
use bytes::Bytes;
use futures_util::future::join;
use futures_util::{StreamExt, TryStreamExt, stream};
use state_core::backend::{ChainAnchors, JournalView, Tail};
use state_core::head::Compaction;
use state_core::journal::{ParsedFrame, genesis};
use state_core::{Digest, Epoch, Error, Frame, Head, Result, Slot};

/// The number of attempts of a reader that races with changes of the head.
const ATTEMPTS: usize = 16;

/// A consistent view of the journal from a slot on.
#[derive(Debug)]
pub(crate) struct JournalRead {
    pub(crate) frames: Vec<Frame>,
    pub(crate) tail: Tail,
    /// The epoch of the last frame. Epochs never decrease, so it is the highest.
    pub(crate) epoch: Epoch,
    /// The compactions that were read. Others that the head names may be missing.
    pub(crate) compactions: Vec<Compaction>,
}

impl JournalRead {
    /// Whether the frames belong to this head. The head's epoch is not below the last frame's epoch, so the head is not
    /// older than the frames. A head whose epoch is more than `Epoch::MAX_STEP` higher was forged or damaged.
    fn fits(&self, head: &Head) -> bool {
        self.frames.is_empty() || self.epoch.leads_to(head.epoch)
    }

    fn with_head(self, head: Head) -> JournalView {
        JournalView {
            head,
            frames: self.frames,
            tail: self.tail,
        }
    }
}

/// Reads a consistent view of head and journal. `known` is a head that the caller has read already.
///
/// A read from the head's base on also prefetches the base's snapshot, which the caller needs next.
pub async fn read_journal(
    stack: &Stack,
    known: Option<&Head>,
    from: Option<Slot>,
    fetched: &FetchedObjects,
) -> Result<JournalView> {
    // A known head may be outdated. If the journal doesn't fit it, the head is read again before damage is reported.
    if let Some(head) = known {
        match read_with_snapshot(stack, head, from, fetched).await {
            Ok(journal) if journal.fits(head) => return Ok(journal.with_head(head.clone())),
            Err(error) if !may_be_a_race(&error) => return Err(error),
            Ok(_) | Err(_) => {}
        }
    }
    let mut seen = stack.head().await?;
    for _ in 0..ATTEMPTS {
        let result = read_with_snapshot(stack, &seen.head, from, fetched).await;
        match result {
            Ok(journal) if journal.fits(&seen.head) => return Ok(journal.with_head(seen.head)),
            Err(error) if !may_be_a_race(&error) => return Err(error),
            Ok(_) | Err(_) => {}
        }
        let now = stack.head().await?;
        // The head didn't change, so no race explains the result: the journal is damaged.
        if now.found.bytes == seen.found.bytes {
            return match result {
                Ok(journal) => Err(epoch_beyond_head(stack, &journal, &now.head)),
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

/// Reads the frames that belong to a head. From the head's base on, also prefetches the snapshot of the base.
pub(crate) async fn read_with_snapshot(
    stack: &Stack,
    head: &Head,
    from: Option<Slot>,
    fetched: &FetchedObjects,
) -> Result<JournalRead> {
    let journal = read_from(stack, head, from, fetched);
    match from {
        Some(_) => journal.await,
        None => join(journal, fetched.fetch(stack, head)).await.0,
    }
}

const fn may_be_a_race(error: &Error) -> bool {
    matches!(error, Error::Corrupt { .. } | Error::Collected { .. })
}

fn epoch_beyond_head(stack: &Stack, journal: &JournalRead, head: &Head) -> Error {
    let (last, epoch) = (journal.epoch, head.epoch);
    let reason = match last > epoch {
        true => format!("it has frames of epoch {last}, later than {epoch} in the head"),
        false => format!("its last frame has epoch {last}, too far below epoch {epoch} in the head"),
    };
    Error::corrupt(stack.store.shown(&stack.paths.journal()), 0, reason)
}

/// Reads the frames from a position of the journal on, up to a slot. Needs few requests for frames before the head's base,
/// if a compaction of them was kept.
///
/// # Errors
/// `Corrupt` if a frame is missing or doesn't follow the one before it; `Collected` if a collection deleted the frames.
pub async fn read_frames(
    stack: &Stack,
    head: &Head,
    from: Tail,
    until: Slot,
    fetched: &FetchedObjects,
) -> Result<Vec<Frame>> {
    match frames_between(stack, head, from, until, fetched).await {
        // A collection may have deleted frames since the head was read.
        Err(error) if may_be_a_race(&error) => {
            let now = stack.head().await?.head;
            frames_between(stack, &now, from, until, fetched).await
        }
        read => read,
    }
}

async fn frames_between(
    stack: &Stack,
    head: &Head,
    from: Tail,
    until: Slot,
    fetched: &FetchedObjects,
) -> Result<Vec<Frame>> {
    require_kept(stack, head, from.next)?;
    let mut cursor = JournalCursor::new(stack, head, from, fetched);
    cursor.check_anchor()?;
    let named = head.compactions.iter().filter(|named| named.start < until);
    let named: Vec<_> = named.copied().collect();
    cursor.read_compactions(&named).await?;
    while cursor.read_so_far.tail.next < until && cursor.read_kept_compaction().await {}
    if let Some(last) = until.get().checked_sub(1).map(Slot)
        && last >= cursor.read_so_far.tail.next
    {
        cursor.read_listed(last).await?;
    }
    let mut frames = cursor.read_so_far.frames;
    frames.truncate(frames.partition_point(|frame| frame.slot() < until));
    Ok(frames)
}

fn require_kept(stack: &Stack, head: &Head, from: Slot) -> Result<()> {
    if !head.is_collected(from) {
        return Ok(());
    }
    let object = format!("slot {from} of {}", stack.store.shown(&stack.paths.journal()));
    Err(Error::collected(object, format_args!("slot {}", head.floor)))
}

/// Reads all frames from a slot on, or from the head's base if no slot is given.
pub(crate) async fn read_from(
    stack: &Stack,
    head: &Head,
    from: Option<Slot>,
    fetched: &FetchedObjects,
) -> Result<JournalRead> {
    let from = from.unwrap_or(head.base.start);
    require_kept(stack, head, from)?;
    let tail = Tail {
        next: from,
        chain: chain_before(stack, head, from).await?,
    };
    let mut cursor = JournalCursor::new(stack, head, tail, fetched);
    cursor.check_anchor()?;
    cursor.read_compactions(&head.compactions).await?;
    match head.watermark.filter(|_| head.closed) {
        Some(watermark) => cursor.read_listed(watermark.slot).await?,
        None => cursor.read_slots().await?,
    }
    cursor.finish()
}

/// Returns the chain value before the first frame: from the head, or from the preceding frame. That frame itself is
/// not verified; the first frame's own chain check confirms the value.
async fn chain_before(stack: &Stack, head: &Head, slot: Slot) -> Result<Digest> {
    let Some(before) = slot.get().checked_sub(1).map(Slot) else {
        return Ok(genesis(stack.lineage));
    };
    if let Some(chain) = ChainAnchors::of(head).chain_before(slot) {
        return Ok(chain);
    }
    let path = stack.paths.slot(before);
    let Some(found) = stack.store.read(&path, MAX_FRAME).await? else {
        let reason = format!("slot {slot} is beyond the end of the journal");
        return Err(Error::invalid(stack.store.shown(&stack.paths.journal()), reason));
    };
    Frame::unverified_chain(&found.bytes)
        .ok_or_else(|| Error::corrupt(stack.store.shown(&path), 0, "it contains no frame"))
}

/// A journal while it is read, with the frames read so far.
pub(crate) struct JournalCursor<'a> {
    stack: &'a Stack,
    anchors: ChainAnchors<'a>,
    fetched: &'a FetchedObjects,
    read_so_far: JournalRead,
}

impl<'a> JournalCursor<'a> {
    fn new(stack: &'a Stack, head: &'a Head, from: Tail, fetched: &'a FetchedObjects) -> Self {
        Self {
            stack,
            fetched,
            anchors: ChainAnchors::of(head),
            read_so_far: JournalRead {
                frames: Vec::new(),
                tail: from,
                epoch: Epoch::ZERO,
                compactions: Vec::new(),
            },
        }
    }

    fn check_anchor(&self) -> Result<()> {
        let tail = self.read_so_far.tail;
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
        let reached = self.anchors.finish(self.read_so_far.tail);
        let journal = || self.stack.store.shown(&self.stack.paths.journal());
        reached.map_err(|reason| Error::corrupt(journal(), 0, reason))?;
        Ok(self.read_so_far)
    }

    /// Reads the frames of the compactions, if one starts at the next slot. If an object is missing, isn't the one that the head
    /// names, or doesn't hold the frames of its slots, the caller reads the remaining slots instead: a compaction is an
    /// optimisation, and the next lock holder replaces it.
    async fn read_compactions(&mut self, compactions: &[Compaction]) -> Result<()> {
        let (stack, kept) = (self.stack, &self.fetched.compactions);
        // The head's tag doesn't cover the compactions: a forged one must not make a reader fetch an unlimited number of
        // bytes.
        let wanted = usable(self.read_so_far.tail.next, compactions);
        let objects = wanted.iter().map(|compaction| async move {
            let path = stack.paths.in_journal(&JournalName::of_compaction(compaction));
            if let Some(bytes) = kept.get(&path) {
                return Ok((compaction, path, Some(bytes)));
            }
            match stack.store.read(&path, compaction.length.min(MAX_OBJECT)).await {
                // It is longer than the head says.
                Err(Error::Corrupt { .. }) => Ok((compaction, path, None)),
                read => Ok::<_, Error>((compaction, path, read?.map(|found| found.bytes))),
            }
        });
        let mut objects = stream::iter(objects.collect::<Vec<_>>()).buffered(stack.store.concurrency());
        while let Some((compaction, path, found)) = objects.try_next().await? {
            // A replaced object must not be read, even if its frames form a valid chain.
            let Some(found) = found.filter(|bytes| Digest::of(bytes) == compaction.digest) else {
                break;
            };
            // The tag of the head doesn't cover its compactions, so a forged head may name an object without these frames.
            if !self.push_compaction(&path, &found, compaction.end) {
                break;
            }
            kept.keep(&path, &found);
            self.read_so_far.compactions.push(*compaction);
        }
        Ok(())
    }

    /// Reads the compaction that an earlier head named from the next slot on, if it was kept. Returns whether it was. The
    /// head doesn't vouch for such an object: if it is damaged, or no continuation of the frames before it, or if it can't be
    /// found or read, the caller reads the slots, which report the errors of the store.
    async fn read_kept_compaction(&mut self) -> bool {
        let (stack, next) = (self.stack, self.read_so_far.tail.next);
        let (journal, after) = (stack.paths.journal(), stack.paths.slot(next));
        // The names of these objects begin with that of the slot, so they directly follow it.
        let listed = stack.store.list_first(&journal, &after).await;
        let listed = listed.unwrap_or_default();
        let kept = listed
            .iter()
            .filter_map(|listed| match JournalName::parse(listed.file())? {
                JournalName::Compaction(start, end, short) if start == next && end > next => {
                    Some((end, short, listed))
                }
                _ => None,
            });
        let Some((end, short, listed)) = kept.max_by_key(|(end, ..)| *end) else {
            return false;
        };
        let found = stack.store.read(&listed.key, listed.bytes.min(MAX_OBJECT)).await;
        let Some(bytes) = found.ok().flatten().map(|found| found.bytes) else {
            return false;
        };
        Digest::of(&bytes).short() == short && self.push_compaction(&listed.key, &bytes, end)
    }

    /// Adds the frames of a compaction, which ends before the slot `end`, to those that were read. Returns false, and adds none, if
    /// they aren't the next ones.
    fn push_compaction(&mut self, path: &str, bytes: &Bytes, end: Slot) -> bool {
        let object = self.stack.store.shown(path);
        let (mut tail, mut epoch, mut frames) = (self.read_so_far.tail, self.read_so_far.epoch, Vec::new());
        let mut at = 0;
        while at < bytes.len() {
            let Ok(frame) = follow(&object, bytes, at, tail, epoch) else {
                return false;
            };
            at += frame.bytes().len();
            (tail, epoch) = (Tail::after(&frame), frame.epoch());
            if self.anchors.pass(tail).is_err() {
                return false;
            }
            frames.push(frame);
        }
        if tail.next != end {
            return false;
        }
        self.read_so_far.frames.append(&mut frames);
        (self.read_so_far.tail, self.read_so_far.epoch) = (tail, epoch);
        true
    }

    /// Reads the listed slots concurrently, then one slot at a time: frames may have been appended after the list,
    /// and a list may be stale.
    async fn read_slots(&mut self) -> Result<()> {
        let listed = self.list_slots().await?;
        if let Some(last) = listed.last().copied() {
            self.read_listed(last).await?;
        }
        while let Some(found) = self.read_slot(self.read_so_far.tail.next).await? {
            self.push_slot(&found)?;
        }
        Ok(())
    }

    /// Lists the slots from the next one on.
    async fn list_slots(&self) -> Result<Vec<Slot>> {
        let paths = &self.stack.paths;
        let next = self.read_so_far.tail.next;
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

    /// Reads all slots up to an existing one, if there are any. A missing slot below it is an error, since slots are
    /// written in order.
    async fn read_listed(&mut self, last: Slot) -> Result<()> {
        let (stack, first) = (self.stack, self.read_so_far.tail.next.get());
        let slots = stream::iter(first..=last.get()).map(|slot| async move {
            let path = stack.paths.slot(Slot(slot));
            match stack.store.read(&path, MAX_FRAME).await? {
                Some(found) => Ok(found),
                None => {
                    let reason = format!("it is missing, but slot {last} exists");
                    Err(Error::corrupt(stack.store.shown(&path), 0, reason))
                }
            }
        });
        let mut slots = slots.buffered(stack.store.concurrency());
        while let Some(found) = slots.try_next().await? {
            self.push_slot(&found)?;
        }
        Ok(())
    }

    async fn read_slot(&self, slot: Slot) -> Result<Option<Value>> {
        self.stack
            .store
            .read(&self.stack.paths.slot(slot), MAX_FRAME)
            .await
    }

    fn push_slot(&mut self, found: &Value) -> Result<()> {
        let object = self
            .stack
            .store
            .shown(&self.stack.paths.slot(self.read_so_far.tail.next));
        let length = self.push_frame(&object, &found.bytes, 0)?;
        if length == found.bytes.len() {
            return Ok(());
        }
        Err(Error::corrupt(
            object,
            length as u64,
            "extra bytes follow its frame",
        ))
    }

    /// Reads the frame at an offset, which must be the next one; returns its length.
    fn push_frame(&mut self, object: &str, bytes: &Bytes, at: usize) -> Result<usize> {
        let frame = follow(object, bytes, at, self.read_so_far.tail, self.read_so_far.epoch)?;
        let length = frame.bytes().len();
        self.read_so_far.epoch = frame.epoch();
        self.read_so_far.tail = Tail::after(&frame);
        self.read_so_far.frames.push(frame);
        self.check_anchor()?;
        Ok(length)
    }
}

/// Parses the frame at an offset and checks that it follows the tail: slot, chain and epoch.
pub(crate) fn follow(object: &str, bytes: &Bytes, at: usize, tail: Tail, epoch: Epoch) -> Result<Frame> {
    let reason = match Frame::parse(bytes, at, &tail.chain) {
        ParsedFrame::Frame(frame) if frame.slot() != tail.next => "it contains the frame of another slot",
        ParsedFrame::Frame(frame) if frame.epoch() < epoch => {
            "its epoch is lower than that of the frame before"
        }
        ParsedFrame::Frame(frame) if epoch > Epoch::ZERO && !epoch.leads_to(frame.epoch()) => {
            "its epoch is too far above that of the frame before"
        }
        ParsedFrame::Frame(frame) => return Ok(frame),
        ParsedFrame::End => "it is empty",
        ParsedFrame::Short { reason } | ParsedFrame::Bad { reason } => reason,
    };
    Err(Error::corrupt(object, at as u64, reason))
}
