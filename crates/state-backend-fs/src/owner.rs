//! The operations of the owner of a stack, each of which runs on the calling thread.

use crate::collection::{ItemFolder, locate};
use crate::compaction::Compactor;
use crate::dir::Dir;
use crate::error::WriteError;
use crate::journal_end::{JournalEnd, SharedEnd};
use crate::layout::{CompactionName, MAX_OBJECT, MAX_SEGMENT, lock_file};
use crate::lock::LockFile;
use crate::reader::segments_hold;
use crate::stack::{HeadVersion, Stack};
use crate::takeover::{Takeover, open_segment};
use state_core::backend::{Holder, ObjectName, StoredItemName, Tail, next_epoch};
use state_core::journal::{FrameKind, ParsedFrame, Previous};
use state_core::{Epoch, Error, Frame, Head, Nonce, Result, Slot};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The holder of a stack's writer lock, for one epoch.
#[derive(Debug)]
pub(crate) struct Owner {
    stack: Stack,
    journal: Dir,
    pub(crate) epoch: Epoch,
    holder: Holder,
    /// The writer lock, until the owner releases it.
    lock: Mutex<Option<LockFile>>,
    /// The reason why no further write is allowed; `None` while writes are allowed.
    closed: Mutex<Option<CloseReason>>,
    /// The head as it was last read.
    seen: Mutex<HeadVersion>,
    end: SharedEnd,
    compactor: Mutex<Compactor>,
    /// The nonce of the head that closed the journal, once the head's name is durable.
    closed_head: Mutex<Option<Nonce>>,
}

/// Why an owner may not write any more.
#[derive(Clone, Debug)]
enum CloseReason {
    Failed(String),
    Fenced(Epoch),
}

/// The outcome of a head swap.
#[derive(Debug)]
pub(crate) enum SwapOutcome {
    /// The head was replaced.
    Swapped(Head),
    /// The head changed since it was read; contains the current head.
    Stale(HeadVersion),
}

impl Owner {
    pub(crate) fn new(stack: Stack, holder: Holder, taken: Takeover) -> Self {
        let end = JournalEnd::of(&taken.journal, taken.segment);
        Self {
            stack,
            journal: taken.journal,
            epoch: taken.seen.head.epoch,
            holder,
            lock: Mutex::new(Some(taken.lock)),
            closed: Mutex::new(None),
            seen: Mutex::new(taken.seen),
            end: SharedEnd::new(end),
            compactor: Mutex::new(taken.compactor),
            closed_head: Mutex::default(),
        }
    }

    /// Appends a frame: write, sync, check the head's epoch, acknowledge. A takeover replaces the head and then reads
    /// the segments, so either it reads this frame, or this call sees the new epoch and returns an error.
    pub(crate) fn append(&self, frame: &Frame) -> Result<()> {
        self.check_open()?;
        let mut end = self.open_end()?;
        self.check_follows(frame, &end)
            .inspect_err(|error| self.close(CloseReason::Failed(error.to_string())))?;
        self.close_if_poisoned(end.write(frame))?;
        // After the sync, not before the write: a takeover in between would not have read this frame.
        self.check_ownership_after_write()?;
        // The end moves only after all checks. After an error it stays, and the owner is closed.
        end.acknowledge(frame);
        lock(&self.compactor).push(frame.clone());
        Ok(())
    }

    /// The end of the journal, for a job that may outlive the owner.
    pub(crate) fn journal_end(&self) -> SharedEnd {
        self.end.clone()
    }

    /// The end of the journal, unless this owner closed the journal: a later frame would be acknowledged, and readers of the
    /// closed head would miss it.
    fn open_end(&self) -> Result<MutexGuard<'_, JournalEnd>> {
        let end = self.end.lock();
        if end.ended {
            let reason = "its journal was closed by this lock holder";
            return Err(Error::conflict(self.stack.dir.path(), reason));
        }
        Ok(end)
    }

    fn check_follows(&self, frame: &Frame, end: &JournalEnd) -> Result<()> {
        let next = end.tail.next;
        let fits = frame.kind() == FrameKind::Data && frame.epoch() == self.epoch && frame.slot() == next;
        // A frame doesn't store the chain before it, so parsing it with this chain is the only check that it was made
        // for this place.
        let linked = matches!(
            Frame::parse(frame.bytes(), 0, &end.tail.chain),
            ParsedFrame::Frame(_)
        );
        if !fits || !linked {
            let reason = format!(
                "the frame doesn't follow the end of the journal: slot {next} of epoch {} is expected",
                self.epoch
            );
            return Err(Error::conflict(&end.object, reason));
        }
        if end.length + frame.bytes().len() as u64 > MAX_SEGMENT {
            let full = io::Error::other("the segment is full: make a checkpoint");
            return Err(WriteError::not_applied(&end.object, full).error);
        }
        Ok(())
    }

    /// Starts a new segment, whose fence records the end of the current one.
    pub(crate) fn rotate(&self, tail: Tail, nonce: Nonce) -> Result<Tail> {
        self.check_open()?;
        let mut end = self.open_end()?;
        if tail != end.tail {
            let reason = format!("slot {} isn't the end of the journal", tail.next);
            return Err(Error::conflict(&end.object, reason));
        }
        let previous = Previous {
            segment: end.name.to_string(),
            length: end.length,
            last_slot: Slot(tail.next.get().saturating_sub(1)),
        };
        let segment = open_segment(
            &self.journal,
            self.epoch,
            tail,
            Some(previous),
            &self.holder,
            nonce,
        );
        // The new segment may exist after any error, and readers would then ignore frames that follow in the old one.
        // Close the owner, so that it writes no such frames.
        let segment = self.close_if_poisoned(segment.map_err(|failure| WriteError {
            poisons: true,
            ..failure
        }))?;
        self.check_ownership_after_write()?;
        lock(&self.compactor).push(segment.fence.clone());
        end.rotate(segment);
        Ok(end.tail)
    }

    /// Reads the head again; fails if another process took the stack over.
    pub(crate) fn head(&self) -> Result<HeadVersion> {
        self.check_open()?;
        let last = lock(&self.seen).clone();
        let seen = self.stack.head_after(&last)?;
        if seen.head.epoch != self.epoch {
            self.close(CloseReason::Fenced(seen.head.epoch));
            return Err(self.fenced(seen.head.epoch, false));
        }
        *lock(&self.seen) = seen.clone();
        Ok(seen)
    }

    /// Replaces the head that the caller read. Lineage, epoch and generation stay as they are, because only a takeover
    /// or a removal may change them; a removed stack stays removed. The compactions are those that this owner stored. After
    /// a change that closes the journal, this owner appends nothing more.
    pub(crate) fn swap_head(&self, seen: &HeadVersion, changed: Head, nonce: Nonce) -> Result<SwapOutcome> {
        self.check_open()?;
        let head_lock = self.stack.lock_head(&self.holder)?;
        // Compare under the lock: a check before it could be outdated by the time the head is replaced.
        let now = self.head()?;
        if now.bytes != seen.bytes {
            return Ok(SwapOutcome::Stale(now));
        }
        let mut head = changed;
        head.lineage = now.head.lineage;
        head.epoch = now.head.epoch;
        head.generation = now.head.generation;
        head.removed |= now.head.removed;
        head.nonce = nonce;
        head.compactions.clone_from(&now.head.compactions);
        head.compactions.retain(|old| old.start == head.base.start);
        if head.closed {
            self.close_journal(&mut head);
        }
        lock(&self.closed_head).take();
        let seen = self.close_if_poisoned(self.stack.replace_head(head, &head_lock))?;
        // Before the lock is released: another owner might store a compaction of the same name.
        remove_replaced(&self.journal, &now.head, &seen.head);
        lock(&self.compactor).drop_before(seen.head.base.start);
        *lock(&self.seen) = seen.clone();
        *lock(&self.closed_head) = seen.head.closed.then_some(seen.head.nonce);
        Ok(SwapOutcome::Swapped(seen.head))
    }

    /// Prepares a head that marks the journal as closed. The caller holds `head.lock`.
    fn close_journal(&self, head: &mut Head) {
        // Waits for an append in progress, and excludes later ones before the head says that there are none.
        let mut end = self.end.lock();
        let tail = head.watermark.map(|mark| Tail {
            next: mark.slot.next(),
            chain: mark.chain,
        });
        // Readers of a closed journal read nothing beyond the watermark.
        head.closed = tail == Some(end.tail);
        if head.closed {
            end.ended = true;
            end.trim();
            head.compactions = lock(&self.compactor).store(&self.journal, head.base.start, end.name);
        }
    }

    /// Marks the head as removed. The next epoch fences writers that still hold the old one.
    pub(crate) fn remove(&self, nonce: Nonce) -> Result<()> {
        self.check_open()?;
        let head_lock = self.stack.lock_head(&self.holder)?;
        let mut head = self.head()?.head;
        head.removed = true;
        head.epoch = next_epoch(self.stack.dir.path(), head.epoch)?;
        head.nonce = nonce;
        self.close_if_poisoned(self.stack.replace_head(head, &head_lock))?;
        self.close(CloseReason::Failed("the stack was removed".to_owned()));
        Ok(())
    }

    /// Creates an object; an object with the same bytes counts as created.
    pub(crate) fn create(&self, name: &ObjectName, bytes: &[u8]) -> Result<()> {
        self.check_open()?;
        let dir = match self.stack.objects_if_any(name.kind())? {
            Some(dir) => dir,
            None => self.close_if_poisoned(self.stack.make_objects(name.kind()))?,
        };
        if bytes.len() as u64 > MAX_OBJECT {
            let reason = format!(
                "its {} bytes are more than the {MAX_OBJECT} that an object may have",
                bytes.len()
            );
            return Err(Error::invalid(dir.object(&name.file_name()), reason));
        }
        self.close_if_poisoned(dir.create(&name.file_name(), bytes))
    }

    /// Deletes items in their order, and syncs the folders, also after an error.
    pub(crate) fn delete(&self, stored_items: &[StoredItemName]) -> Result<()> {
        // Read the head now: `locate` refuses each item that this head still needs.
        let head = self.head()?.head;
        let mut touched: BTreeMap<ItemFolder, Dir> = BTreeMap::new();
        let mut outcome = Ok(());
        for item in stored_items {
            outcome = self.delete_one(item, &head, &mut touched);
            if outcome.is_err() {
                break;
            }
        }
        for dir in touched.values() {
            self.close_if_poisoned(dir.sync())?;
        }
        outcome
    }

    fn delete_one(
        &self,
        item: &StoredItemName,
        head: &Head,
        touched: &mut BTreeMap<ItemFolder, Dir>,
    ) -> Result<()> {
        let (place, file) = locate(item, head)?;
        let found = match (touched.get(&place), place) {
            (Some(dir), _) => Some(dir.clone()),
            (None, Some(kind)) => self.stack.objects_if_any(kind)?,
            (None, None) => Some(self.stack.journal()?),
        };
        let Some(dir) = found else {
            return Ok(());
        };
        touched.insert(place, dir.clone());
        self.close_if_poisoned(dir.remove(&file))
    }

    /// Closes the owner and frees the writer lock.
    pub(crate) fn release(&self) {
        self.end.lock().trim();
        self.close(CloseReason::Failed("its lock was released".to_owned()));
        let Some(mut held) = lock(&self.lock).take() else {
            return;
        };
        if let Some(nonce) = *lock(&self.closed_head) {
            let generation = lock(&self.seen).head.generation;
            held.leave_closed(&self.stack.dir, &lock_file(generation), nonce);
        }
    }

    /// Closes the owner after a panic on one of its threads, which may have left a write half done.
    pub(crate) fn close_after_panic(&self) -> Error {
        let reason = "a thread of the store failed";
        self.close(CloseReason::Failed(reason.to_owned()));
        WriteError::indeterminate(self.stack.dir.path(), io::Error::other(reason)).error
    }

    /// Checks after a write that this process still owns the stack. If the head can't be read, the write may count or
    /// not, so the result is indeterminate.
    fn check_ownership_after_write(&self) -> Result<()> {
        let last = lock(&self.seen).bytes.clone();
        // The head that this owner saw last has its epoch: equal bytes need no parsing.
        let checked = match self.check_open().and_then(|()| self.stack.is_head(&last)) {
            Ok(true) => Ok(()),
            Ok(false) => self.head().map(drop),
            Err(error) => Err(error),
        };
        match checked {
            Ok(()) => Ok(()),
            Err(Error::Fenced { theirs, .. }) => Err(self.fenced(theirs, true)),
            Err(error) => {
                let failure = WriteError::indeterminate(self.stack.dir.path(), io::Error::other(error));
                self.close_if_poisoned(Err(failure))
            }
        }
    }

    fn check_open(&self) -> Result<()> {
        match lock(&self.closed).clone() {
            None => Ok(()),
            Some(CloseReason::Fenced(theirs)) => Err(self.fenced(theirs, false)),
            Some(CloseReason::Failed(reason)) => Err(Error::Closed {
                object: self.stack.dir.path().to_owned(),
                reason,
            }),
        }
    }

    fn fenced(&self, theirs: Epoch, indeterminate: bool) -> Error {
        Error::Fenced {
            object: self.stack.dir.path().to_owned(),
            mine: self.epoch,
            theirs,
            indeterminate,
        }
    }

    /// Refuses all further writes. The first reason is kept, since later errors only follow from it.
    fn close(&self, reason: CloseReason) {
        lock(&self.closed).get_or_insert(reason);
    }

    /// Closes the owner if the error makes its handles unusable.
    fn close_if_poisoned<T>(&self, result: Result<T, WriteError>) -> Result<T> {
        result.map_err(|failure| {
            if failure.poisons {
                self.close(CloseReason::Failed(format!(
                    "an earlier write failed: {}",
                    failure.error
                )));
            }
            failure.error
        })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the compactions that the head before named, and this head doesn't. One that holds frames of a damaged segment stays:
/// earlier revisions need these frames, and a salvage finds them there. An error is ignored: a collection removes what is left.
fn remove_replaced(journal: &Dir, before: &Head, now: &Head) {
    for old in &before.compactions {
        let is_replaced = now.compactions.iter().all(|kept| kept.start != old.start);
        if is_replaced && segments_hold(journal, before, old) {
            drop(journal.remove(&CompactionName { start: old.start }.to_string()));
        }
    }
}
