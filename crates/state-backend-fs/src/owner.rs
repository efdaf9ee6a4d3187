//! What the owner of a stack does, step by step, on whichever thread calls it.

use crate::collection::{Place, locate};
use crate::counts::Call;
use crate::dir::Dir;
use crate::failure::Failure;
use crate::files::{FileHandle, SyncScope};
use crate::layout::{MAX_OBJECT, MAX_SEGMENT, SegmentName};
use crate::lock::LockFile;
use crate::stack::{Seen, Stack};
use crate::takeover::{Opened, Taken, open_segment};
use state_core::backend::{Holder, ObjectName, StoredItemName, Tail};
use state_core::journal::{FrameKind, ParsedFrame, Previous};
use state_core::{Epoch, Error, Frame, Head, Nonce, Result, Slot};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The owner of one epoch.
#[derive(Debug)]
pub(crate) struct Owner {
    stack: Stack,
    journal: Dir,
    pub(crate) epoch: Epoch,
    holder: Holder,
    /// The writer lock, until it is released.
    lock: Mutex<Option<LockFile>>,
    /// Why nothing more may be written.
    closed: Mutex<Option<Closed>>,
    /// The head as it was last read.
    seen: Mutex<Seen>,
    end: Mutex<End>,
}

#[derive(Clone, Debug)]
enum Closed {
    Because(String),
    Fenced(Epoch),
}

/// Where the next frame goes.
#[derive(Debug)]
struct End {
    name: SegmentName,
    file: FileHandle,
    length: u64,
    tail: Tail,
}

impl End {
    /// The end of a segment that holds its fence only.
    fn of(opened: Opened) -> Self {
        Self {
            length: opened.fence.bytes().len() as u64,
            tail: opened.tail(),
            name: opened.name,
            file: opened.file,
        }
    }
}

/// What became of a head swap.
#[derive(Debug)]
pub(crate) enum Swap {
    Done(Head),
    /// The head isn't the one that was read: here is the one that stands now.
    Stale(Seen),
}

impl Owner {
    pub(crate) fn new(stack: Stack, holder: Holder, taken: Taken) -> Self {
        Self {
            stack,
            journal: taken.journal,
            epoch: taken.seen.head.epoch,
            holder,
            lock: Mutex::new(Some(taken.lock)),
            closed: Mutex::new(None),
            seen: Mutex::new(taken.seen),
            end: Mutex::new(End::of(taken.opened)),
        }
    }

    /// Write, sync, look at the head, acknowledge: in this order. Whoever takes over swaps the head and then reads
    /// the segment, so either they read this frame, or their epoch is seen here.
    pub(crate) fn append(&self, frame: &Frame) -> Result<()> {
        self.check_open()?;
        let mut end = lock(&self.end);
        self.check_follows(frame, &end)
            .inspect_err(|error| self.close(Closed::Because(error.to_string())))?;
        let object = self.journal.object(&end.name.to_string());
        let length = end.length + frame.bytes().len() as u64;
        self.settle(self.write(&end, frame.bytes(), &object))?;
        let sync = || end.file.sync(SyncScope::Data);
        let synced = self.journal.meter().run(Call::Sync, &object, sync);
        self.settle(synced.map_err(|e| Failure::unknown(&object, e)))?;
        self.check_mine_after_write()?;
        end.length = length;
        end.tail = Tail::after(frame);
        Ok(())
    }

    fn check_follows(&self, frame: &Frame, end: &End) -> Result<()> {
        let object = self.journal.object(&end.name.to_string());
        let next = end.tail.next;
        let fits = frame.kind() == FrameKind::Data && frame.epoch() == self.epoch && frame.slot() == next;
        // The chain that a frame was made for isn't in it, so make it again.
        let linked = matches!(
            Frame::parse(frame.bytes(), 0, &end.tail.chain),
            ParsedFrame::Frame(_)
        );
        if !fits || !linked {
            let reason = format!(
                "the frame doesn't follow: slot {next} of epoch {} is next",
                self.epoch
            );
            return Err(Error::conflict(object, reason));
        }
        if end.length + frame.bytes().len() as u64 > MAX_SEGMENT {
            let full = io::Error::other("the segment is full: make a checkpoint");
            return Err(Failure::unwritten(&object, full).error);
        }
        Ok(())
    }

    fn write(&self, end: &End, bytes: &[u8], object: &str) -> Result<(), Failure> {
        let mut written = 0;
        while written < bytes.len() {
            let rest = &bytes[written..];
            let write = || end.file.write_at(rest, end.length + written as u64);
            match self.journal.meter().run(Call::Write(rest.len()), object, write) {
                Ok(0) => {
                    return Err(Failure::unappended(
                        object,
                        written,
                        io::ErrorKind::WriteZero.into(),
                    ));
                }
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Failure::unappended(object, written, error)),
            }
        }
        Ok(())
    }

    /// Begins another segment, with a fence that ends this one.
    pub(crate) fn rotate(&self, tail: Tail, nonce: Nonce) -> Result<Tail> {
        self.check_open()?;
        let mut end = lock(&self.end);
        let object = self.journal.object(&end.name.to_string());
        if tail != end.tail {
            let reason = format!("slot {} isn't the end of the journal", tail.next);
            return Err(Error::conflict(object, reason));
        }
        let previous = Previous {
            segment: end.name.to_string(),
            length: end.length,
            last_slot: Slot(tail.next.get().saturating_sub(1)),
        };
        let opened = open_segment(
            &self.journal,
            self.epoch,
            tail,
            Some(previous),
            &self.holder,
            nonce,
        );
        // Whatever failed: a segment that nobody counted on may stand there.
        let opened = self.settle(opened.map_err(|failure| Failure {
            poisons: true,
            ..failure
        }))?;
        self.check_mine_after_write()?;
        *end = End::of(opened);
        Ok(end.tail)
    }

    /// The head, read afresh, if the stack is still ours.
    pub(crate) fn head(&self) -> Result<Seen> {
        self.check_open()?;
        let last = lock(&self.seen).clone();
        let seen = self.stack.head_after(&last)?;
        if seen.head.epoch != self.epoch {
            self.close(Closed::Fenced(seen.head.epoch));
            return Err(self.fenced(seen.head.epoch, false));
        }
        *lock(&self.seen) = seen.clone();
        Ok(seen)
    }

    /// Replaces the head that was seen; what isn't the caller's to change stays as it is.
    pub(crate) fn swap_head(&self, seen: &Seen, changed: Head, nonce: Nonce) -> Result<Swap> {
        self.check_open()?;
        let head_lock = self.stack.lock_head(&self.holder)?;
        let now = self.head()?;
        if now.bytes != seen.bytes {
            return Ok(Swap::Stale(now));
        }
        let mut head = changed;
        head.lineage = now.head.lineage;
        head.epoch = now.head.epoch;
        head.generation = now.head.generation;
        head.removed = now.head.removed;
        head.nonce = nonce;
        let seen = self.settle(self.stack.replace_head(head, &head_lock))?;
        *lock(&self.seen) = seen.clone();
        Ok(Swap::Done(seen.head))
    }

    /// Makes the head a tombstone.
    pub(crate) fn remove(&self, nonce: Nonce) -> Result<()> {
        self.check_open()?;
        let head_lock = self.stack.lock_head(&self.holder)?;
        let mut head = self.head()?.head;
        head.removed = true;
        head.epoch = head.epoch.next();
        head.nonce = nonce;
        self.settle(self.stack.replace_head(head, &head_lock))?;
        self.close(Closed::Because("the stack was removed".to_owned()));
        Ok(())
    }

    /// Creates an object.
    pub(crate) fn create(&self, name: &ObjectName, bytes: &[u8]) -> Result<()> {
        self.check_open()?;
        let dir = match self.stack.objects_if_any(name.kind())? {
            Some(dir) => dir,
            None => self.settle(self.stack.make_objects(name.kind()))?,
        };
        if bytes.len() as u64 > MAX_OBJECT {
            let reason = format!(
                "its {} bytes are more than the {MAX_OBJECT} that an object may have",
                bytes.len()
            );
            return Err(Error::invalid(dir.object(&name.file_name()), reason));
        }
        self.settle(dir.create(&name.file_name(), bytes))
    }

    /// Deletes pieces in their order, and makes that durable.
    pub(crate) fn delete(&self, stored_items: &[StoredItemName]) -> Result<()> {
        let head = self.head()?.head;
        let mut touched: BTreeMap<Place, Dir> = BTreeMap::new();
        let mut outcome = Ok(());
        for piece in stored_items {
            outcome = self.delete_one(piece, &head, &mut touched);
            if outcome.is_err() {
                break;
            }
        }
        for dir in touched.values() {
            self.settle(dir.sync())?;
        }
        outcome
    }

    fn delete_one(
        &self,
        piece: &StoredItemName,
        head: &Head,
        touched: &mut BTreeMap<Place, Dir>,
    ) -> Result<()> {
        let (place, file) = locate(piece, head)?;
        let found = match (touched.get(&place), place) {
            (Some(dir), _) => Some(dir.clone()),
            (None, Some(kind)) => self.stack.objects_if_any(kind)?,
            (None, None) => Some(self.stack.journal()?),
        };
        let Some(dir) = found else {
            return Ok(());
        };
        touched.insert(place, dir.clone());
        self.settle(dir.remove(&file))
    }

    /// Frees the writer lock.
    pub(crate) fn release(&self) {
        self.close(Closed::Because("its lock was released".to_owned()));
        drop(lock(&self.lock).take());
    }

    /// Closes it after something that should never happen.
    pub(crate) fn lost(&self) -> Error {
        let reason = "a thread of the store failed";
        self.close(Closed::Because(reason.to_owned()));
        Failure::unknown(self.stack.dir.path(), io::Error::other(reason)).error
    }

    /// After a write: it counts only if the stack is still ours.
    fn check_mine_after_write(&self) -> Result<()> {
        match self.head() {
            Ok(_) => Ok(()),
            Err(Error::Fenced { theirs, .. }) => Err(self.fenced(theirs, true)),
            Err(error) => {
                let failure = Failure::unknown(self.stack.dir.path(), io::Error::other(error));
                self.settle(Err(failure))
            }
        }
    }

    fn check_open(&self) -> Result<()> {
        match lock(&self.closed).clone() {
            None => Ok(()),
            Some(Closed::Fenced(theirs)) => Err(self.fenced(theirs, false)),
            Some(Closed::Because(reason)) => Err(Error::Closed {
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

    /// The first reason stays.
    fn close(&self, why: Closed) {
        lock(&self.closed).get_or_insert(why);
    }

    fn settle<T>(&self, result: Result<T, Failure>) -> Result<T> {
        result.map_err(|failure| {
            if failure.poisons {
                self.close(Closed::Because(format!(
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
