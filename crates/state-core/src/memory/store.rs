//! One stack in memory: head, journal, objects, and the lock holder.

use crate::backend::{
    Acquire, CopyUpdate, Holder, JournalView, LockStatus, ObjectName, StoredItem, StoredItemName, Tail,
    next_epoch,
};
use crate::counter::{Epoch, Slot};
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::head::{Base, Head};
use crate::id::Nonce;
use crate::journal::{Fence, Frame, FrameKind, ParsedFrame, genesis};
use bytes::Bytes;
use std::collections::BTreeMap;

/// The stored documents of one stack, and the holder of its writer lock.
pub(super) struct StoredStack {
    pub(super) head: Head,
    pub(super) objects: BTreeMap<ObjectName, Bytes>,
    /// The frames of the journal by slot, without those that a collection of old history deleted.
    frames: BTreeMap<Slot, Frame>,
    /// Epoch and holder of the writer lock, if it is held.
    held: Option<(Epoch, Holder)>,
}

impl StoredStack {
    pub(super) const fn new(head: Head) -> Self {
        Self {
            head,
            objects: BTreeMap::new(),
            frames: BTreeMap::new(),
            held: None,
        }
    }

    /// Creates a stack from a copy of another store's stack.
    pub(super) fn adopted(
        head: Head,
        before: Tail,
        frames: &[Frame],
        objects: BTreeMap<ObjectName, Bytes>,
    ) -> Result<Self> {
        let mut stack = Self::new(head);
        stack.objects = objects;
        stack.extend(before, frames)?;
        stack.verify(None)?;
        Ok(stack)
    }

    /// Brings a copy of another store's stack up to date.
    pub(super) fn update(&mut self, update: &CopyUpdate) -> Result<()> {
        let object = self.name();
        if update.is_made(&object, &self.head)? {
            return Ok(());
        }
        if let Some((_, holder)) = &self.held {
            return Err(Error::locked(object, holder.clone()));
        }
        let head = update.last_head(&update.first_head(&object, &self.head)?);
        update.require_follows(&object, self.tail())?;
        self.extend(self.tail(), &update.frames)?;
        self.head = head;
        self.verify(None)
    }

    /// Adds frames to the journal, whose end is `before`.
    fn extend(&mut self, before: Tail, frames: &[Frame]) -> Result<()> {
        let mut tail = before;
        for frame in frames {
            let follows = matches!(Frame::parse(frame.bytes(), 0, &tail.chain), ParsedFrame::Frame(_));
            if !follows || frame.slot() != tail.next {
                let reason = format!(
                    "the frame of slot {} doesn't follow its predecessor",
                    frame.slot()
                );
                return Err(Error::invalid(self.journal(), reason));
            }
            tail = Tail::after(frame);
            self.frames.insert(frame.slot(), frame.clone());
        }
        Ok(())
    }

    pub(super) fn name(&self) -> String {
        format!("stack {}", self.head.lineage)
    }

    fn journal(&self) -> String {
        format!("journal of stack {}", self.head.lineage)
    }

    /// The digest chain before a slot; `None` beyond the end, or if the frame was collected.
    fn chain_before(&self, slot: Slot) -> Option<Digest> {
        let Some(last) = slot.get().checked_sub(1) else {
            return Some(genesis(self.head.lineage));
        };
        if let Some(frame) = self.frames.get(&Slot(last)) {
            return Some(*frame.chain());
        }
        let begins = self.head.collection.as_ref().map(|collection| &collection.base);
        begins.filter(|base| base.start == slot).map(|base| base.chain)
    }

    pub(super) fn tail(&self) -> Tail {
        match self.frames.last_key_value() {
            None => Tail::genesis(self.head.lineage),
            Some((_, frame)) => Tail::after(frame),
        }
    }

    /// Checks that the writer of this epoch still holds the lock.
    pub(super) fn owned_by(&self, mine: Epoch) -> Result<()> {
        let holds = self.held.as_ref().is_some_and(|(epoch, _)| *epoch == mine);
        // A removal raises the epoch, so the check of the epoch also refuses writers of a removed stack.
        if holds && self.head.epoch == mine {
            return Ok(());
        }
        Err(Error::Fenced {
            object: self.name(),
            mine,
            theirs: self.head.epoch,
            indeterminate: false,
        })
    }

    /// Frees the lock if the writer of this epoch holds it.
    pub(super) fn free(&mut self, mine: Epoch) {
        if self.held.as_ref().is_some_and(|(epoch, _)| *epoch == mine) {
            self.held = None;
        }
    }

    pub(super) fn lock_status(&self) -> LockStatus {
        LockStatus {
            epoch: self.head.epoch,
            holder: self.held.as_ref().map(|(_, holder)| holder.clone()),
            client_lock: self.head.client_lock.clone(),
        }
    }

    /// Gives the lock to a new writer at the next epoch, and appends its fence.
    pub(super) fn acquire(&mut self, request: &Acquire) -> Result<JournalView> {
        if self.head.removed {
            return Err(Error::conflict(self.name(), "the stack was removed"));
        }
        if request.break_epoch.is_some_and(|seen| seen != self.head.epoch) {
            return Err(Error::conflict(
                self.name(),
                format!(
                    "the lock is at epoch {}, not at the epoch to break",
                    self.head.epoch
                ),
            ));
        }
        if let (Some((_, holder)), None) = (&self.held, request.break_epoch) {
            return Err(Error::locked(self.name(), holder.clone()));
        }
        self.verify(None)?;
        // On a filesystem, breaking a held lock switches to the next lock file. This backend raises the generation in
        // the same case.
        if self.held.is_some() {
            self.head.generation = self.head.generation.next();
        }
        self.head.epoch = next_epoch(self.name(), self.head.epoch)?;
        self.head.closed = false;
        self.head.nonce = request.head_nonce;
        self.held = Some((self.head.epoch, request.holder.clone()));
        self.fence(request.fence_nonce, &request.holder)?;
        self.view(None)
    }

    /// Appends a fence of the current epoch: a frame without records, which begins the segment of a new writer.
    fn fence(&mut self, nonce: Nonce, holder: &Holder) -> Result<()> {
        let tail = self.tail();
        let fence = Fence {
            previous: None,
            chain: tail.chain,
            holder: holder.clone(),
        };
        let frame = Frame::new(
            FrameKind::Fence,
            self.head.epoch,
            tail.next,
            nonce,
            &fence.encode(),
            &tail.chain,
        )?;
        self.frames.insert(tail.next, frame);
        Ok(())
    }

    /// Appends a fence that begins a new segment, if the journal ends where the writer expects.
    pub(super) fn rotate(&mut self, tail: Tail, nonce: Nonce) -> Result<Tail> {
        if tail != self.tail() {
            return Err(Error::conflict(
                self.journal(),
                "the journal doesn't end where its writer expects",
            ));
        }
        let holder = match &self.held {
            Some((_, holder)) => holder.clone(),
            None => Holder::default(),
        };
        self.fence(nonce, &holder)?;
        Ok(self.tail())
    }

    /// Appends the next frame. Its bytes must follow the journal.
    pub(super) fn append(&mut self, frame: &Frame) -> Result<()> {
        let tail = self.tail();
        let follows = matches!(
            Frame::parse(frame.bytes(), 0, &tail.chain),
            ParsedFrame::Frame(parsed) if parsed == *frame
        );
        if frame.slot() != tail.next || frame.epoch() != self.head.epoch || !follows {
            return Err(Error::conflict(
                self.journal(),
                format!("the frame of slot {} is not the next one", frame.slot()),
            ));
        }
        self.frames.insert(tail.next, frame.clone());
        Ok(())
    }

    /// Checks that a base begins a segment (at a fence, or at the first adopted frame) and matches the digest chain.
    pub(super) fn check_base(&self, base: &Base) -> Result<()> {
        let first = self.frames.keys().next();
        let begins_segment = base.start == Slot::ZERO
            || first == Some(&base.start)
            || self
                .frames
                .get(&base.start)
                .is_some_and(|frame| frame.kind() == FrameKind::Fence);
        if begins_segment && self.chain_before(base.start) == Some(base.chain) {
            return Ok(());
        }
        Err(Error::invalid(
            self.name(),
            format!(
                "a base at slot {} must begin a segment and match the digest chain",
                base.start
            ),
        ))
    }

    /// Returns the head and the frames from a slot on; `None` means the slot of the base.
    pub(super) fn view(&self, from: Option<Slot>) -> Result<JournalView> {
        let from = from.unwrap_or(self.head.base.start);
        self.require_kept(from)?;
        self.verify(Some(from))?;
        let tail = self.tail();
        if from > tail.next {
            return Err(Error::invalid(
                self.journal(),
                format!("slot {from} is beyond the end"),
            ));
        }
        Ok(JournalView {
            head: self.head.clone(),
            frames: self
                .frames
                .range(from..)
                .map(|(_, frame)| frame.clone())
                .collect(),
            tail,
        })
    }

    fn require_kept(&self, from: Slot) -> Result<()> {
        if !self.head.is_collected(from) {
            return Ok(());
        }
        let object = format!("slot {from} of the {}", self.journal());
        Err(Error::collected(object, format_args!("slot {}", self.head.floor)))
    }

    /// Returns the frames from a position on, up to a slot.
    pub(super) fn frames_between(&self, from: Tail, until: Slot) -> Result<Vec<Frame>> {
        self.require_kept(from.next)?;
        let mut frames = Vec::new();
        let (mut tail, mut epoch) = (from, Epoch::ZERO);
        for (_, stored) in self.frames.range(from.next..until.max(from.next)) {
            match Frame::parse(stored.bytes(), 0, &tail.chain) {
                ParsedFrame::Frame(frame) if frame.slot() == tail.next && frame.epoch() >= epoch => {
                    (tail, epoch) = (Tail::after(&frame), frame.epoch());
                    frames.push(frame);
                }
                _ => {
                    let reason = format!("the frame of slot {} doesn't follow its predecessor", tail.next);
                    return Err(Error::corrupt(self.journal(), 0, reason));
                }
            }
        }
        if tail.next < until {
            let reason = format!("it ends before slot {until}");
            return Err(Error::corrupt(self.journal(), 0, reason));
        }
        Ok(frames)
    }

    /// Checks all properties of the journal on which a reader relies: base, links, slots, epochs and watermark.
    fn verify(&self, from: Option<Slot>) -> Result<()> {
        let corrupt = |reason: String| Err(Error::corrupt(self.journal(), 0, reason));
        let base = &self.head.base;
        if self.chain_before(base.start) != Some(base.chain) {
            return corrupt(format!("it doesn't match the base at slot {}", base.start));
        }
        // The watermark is the slot and chain at which the journal ended at the last clean close. If its slot is before
        // the floor, a collection has deleted that frame, so the collection's base is checked instead.
        let floor = self.head.collection.as_ref().map_or(Slot::ZERO, |c| c.base.start);
        if let Some(watermark) = &self.head.watermark
            && watermark.slot.next() >= floor
            && self.chain_before(watermark.slot.next()) != Some(watermark.chain)
        {
            return corrupt(format!("it was truncated before slot {}", watermark.slot.next()));
        }
        let first = from.map_or(base.start, |from| from.min(base.start));
        let (mut epoch, mut expected) = (Epoch::ZERO, first);
        for (&slot, frame) in self.frames.range(first..) {
            let previous = self.chain_before(slot).unwrap_or(base.chain);
            let linked = matches!(Frame::parse(frame.bytes(), 0, &previous), ParsedFrame::Frame(_));
            let in_order = slot == expected && frame.slot() == slot;
            if !linked || !in_order || frame.epoch() < epoch || frame.epoch() > self.head.epoch {
                return corrupt(format!("the frame of slot {slot} doesn't follow its predecessor"));
            }
            (epoch, expected) = (frame.epoch(), slot.next());
        }
        Ok(())
    }

    /// Rejects an inconsistent head: invalid bases, or a floor that decreases, differs from the start of its
    /// collection, or exceeds a base.
    pub(super) fn check_head(&self, after: &Head) -> Result<()> {
        for (_, base) in after.bases() {
            self.check_base(base)?;
        }
        let Some(collection) = &after.collection else {
            return Ok(());
        };
        let floor = after.floor;
        let held = after.bases().all(|(_, base)| base.start >= floor);
        if floor == collection.base.start && floor >= self.head.floor && held {
            return Ok(());
        }
        let reason = format!("a floor at slot {floor} decreases, or doesn't match the head's bases");
        Err(Error::invalid(self.name(), reason))
    }

    /// Lists all objects, and the frames before a slot.
    pub(super) fn stored_items(&self, before: Slot) -> Vec<StoredItem> {
        let objects = self.objects.iter().map(|(name, bytes)| StoredItem {
            name: StoredItemName::Object(name.clone()),
            bytes: bytes.len() as u64,
        });
        let frames = self.frames.range(..before).map(|(slot, frame)| StoredItem {
            name: StoredItemName::Journal(slot.to_string()),
            bytes: frame.bytes().len() as u64,
        });
        objects.chain(frames).collect()
    }

    /// Deletes items, including fences: this backend needs no fence to stop a stale writer, because every call checks
    /// the lock.
    pub(super) fn delete(&mut self, stored_items: &[StoredItemName]) -> Result<()> {
        let floor = self
            .head
            .collection
            .as_ref()
            .map(|collection| collection.base.start);
        let mut slots = Vec::new();
        for item in stored_items {
            item.check_not_referenced(&self.head)?;
            if let StoredItemName::Journal(name) = item {
                match (name.parse().map(Slot), floor) {
                    (Ok(slot), Some(floor)) if slot < floor => slots.push(slot),
                    _ => return Err(item.refuse_delete("it is not before the floor")),
                }
            }
        }
        for slot in slots {
            self.frames.remove(&slot);
        }
        for item in stored_items {
            if let StoredItemName::Object(name) = item {
                self.objects.remove(name);
            }
        }
        Ok(())
    }
}
