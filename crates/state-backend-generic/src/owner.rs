//! The owner of one epoch: appends frames, changes the head, renews the lease, and stops writing once it is fenced.

use crate::compactions;
use crate::layout::{JournalName, Lease};
use crate::reader::follow;
use crate::settle::{CreateOutcome, SwapOutcome};
use crate::stack::{Stack, VersionedHead};
use crate::takeover::{HeldLease, Takeover, release};
use state_core::backend::{HeadChange, Tail, next_epoch};
use state_core::head::Compaction;
use state_core::journal::FrameKind;
use state_core::{Digest, Epoch, Error, Frame, Head, Nonce, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::OwnedMutexGuard;

/// The number of attempts at a head change that races with other changes of the head.
const ATTEMPTS: usize = 16;

/// The lock holder of a stack at one epoch, with the state that its writes depend on.
#[derive(Debug)]
pub struct Owner {
    /// The stack that the owner may write to.
    pub stack: Stack,
    /// The epoch of the owner's takeover.
    pub epoch: Epoch,
    /// The lease as last written or read; `None` after it was released or lost.
    lease: tokio::sync::Mutex<Option<HeldLease>>,
    /// The time at which the last successful renewal was sent, on the owner's clock. The time of the request rather
    /// than of the answer, because the lease may have been renewed at any time between them.
    confirmed: Mutex<Duration>,
    /// The reason why no further write is allowed; `None` while writes are allowed.
    closed: Mutex<Option<CloseReason>>,
    /// The head as last read or written; `None` if a swap by this owner may still be in flight.
    head: Arc<tokio::sync::Mutex<Option<VersionedHead>>>,
    /// The position of the next frame; `None` while an append is in flight, and after an append that failed or whose
    /// future was dropped.
    tail: tokio::sync::Mutex<Option<Tail>>,
    /// Whether the owner closed the journal, or tried to: readers of that head expect no further frame.
    ended: AtomicBool,
}

#[derive(Clone, Debug)]
enum CloseReason {
    Because(String),
    Fenced(Epoch),
}

/// The outcome of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// The store confirmed the lease.
    Confirmed,
    /// The store didn't answer. The caller should retry the renewal soon.
    Indeterminate,
    /// The lease was released or lost: there is nothing more to renew.
    Ended,
}

/// Exclusive access to the head: other tasks of this owner wait while one changes it.
pub type HeadGuard = OwnedMutexGuard<Option<VersionedHead>>;

impl Owner {
    /// Creates the owner after a takeover.
    pub fn new(stack: Stack, takeover: Takeover) -> Self {
        Self {
            epoch: takeover.lease.lease.epoch,
            confirmed: Mutex::new(takeover.lease.sent),
            closed: Mutex::default(),
            head: Arc::new(tokio::sync::Mutex::new(Some(takeover.seen))),
            tail: tokio::sync::Mutex::new(Some(takeover.tail)),
            lease: tokio::sync::Mutex::new(Some(takeover.lease)),
            ended: AtomicBool::new(false),
            stack,
        }
    }

    /// Appends a frame with a single write request. While the lease is trusted, no other request precedes or follows
    /// it.
    pub async fn append(&self, frame: &Frame) -> Result<()> {
        self.check_open()?;
        let mut tail = self.tail.lock().await;
        let Some(end) = *tail else {
            self.close(CloseReason::Because(
                "an earlier append was interrupted".to_owned(),
            ));
            return self.check_open();
        };
        if self.ended.load(Ordering::Acquire) {
            return Err(Error::conflict(
                self.stack.shown(),
                "its journal was closed by this lock holder",
            ));
        }
        // A frame that doesn't follow the tail would break the chain for every reader: refuse it before it is sent.
        self.close_on_error(self.check_follows(frame, end))?;
        if !self.is_trusted() {
            self.close_on_error(self.check_before(frame).await)?;
        }
        let path = self.stack.paths.slot(frame.slot());
        // If this future is dropped during the request, the frame may be stored or not. The tail stays `None` then, so
        // the slot is never tried with another frame: two frames in one slot would fork the journal.
        *tail = None;
        let created = self.stack.store.create(&path, frame.bytes()).await;
        match self.close_on_error(created)? {
            CreateOutcome::Ours(_) => {}
            CreateOutcome::Taken(occupant) => {
                let error = self
                    .slot_taken(&self.stack.store.shown(&path), &occupant.bytes)
                    .await;
                return self.close_on_error(Err(error));
            }
        }
        if !self.is_trusted() {
            // The process slept during the request, or the store was slow: another owner may have taken over. The frame
            // is stored. If the head still has this epoch, a later owner reads the frame. If it has another epoch, it
            // is unknown whether the new owner has read the frame.
            self.close_on_error(self.check_after(frame).await)?;
        }
        *tail = Some(Tail::after(frame));
        Ok(())
    }

    fn check_follows(&self, frame: &Frame, tail: Tail) -> Result<()> {
        let object = self.stack.store.shown(&self.stack.paths.slot(tail.next));
        let linked = follow(&object, frame.bytes(), 0, tail, self.epoch);
        let ours = frame.kind() == FrameKind::Data && frame.epoch() == self.epoch;
        if ours && linked.is_ok() {
            return Ok(());
        }
        let reason = format!(
            "the frame doesn't follow the end of the journal: slot {} of epoch {} is expected",
            tail.next, self.epoch
        );
        Err(Error::conflict(object, reason))
    }

    /// Explains why the slot is taken: by another owner's fence, or by an object that no owner wrote.
    async fn slot_taken(&self, object: &str, occupant: &[u8]) -> Error {
        match Frame::peek(occupant) {
            Some((theirs, _)) if theirs > self.epoch => self.stack.fenced(self.epoch, theirs, false),
            _ => match self.stack.head().await {
                Ok(seen) if seen.head.epoch != self.epoch => {
                    self.stack.fenced(self.epoch, seen.head.epoch, false)
                }
                _ => Error::corrupt(object, 0, "the slot contains bytes that no lock holder wrote"),
            },
        }
    }

    /// Renews a lease that may have run out, before the next frame is sent.
    async fn check_before(&self, frame: &Frame) -> Result<()> {
        match self.renew().await {
            Renewal::Confirmed => Ok(()),
            // Always an error: every path that ends the lease closes the owner first.
            Renewal::Ended => self.check_open(),
            Renewal::Indeterminate => Err(Error::not_applied(
                self.stack.store.shown(&self.stack.paths.slot(frame.slot())),
                "the lease expired, and the store does not answer whether the lock is still held",
            )),
        }
    }

    async fn check_after(&self, frame: &Frame) -> Result<()> {
        match self.stack.head().await {
            Ok(seen) if seen.head.epoch == self.epoch => Ok(()),
            Ok(seen) => Err(self.stack.fenced(self.epoch, seen.head.epoch, true)),
            Err(error) => {
                let object = self.stack.store.shown(&self.stack.paths.slot(frame.slot()));
                Err(Error::indeterminate(object, error))
            }
        }
    }

    /// Returns the end of the journal if it is the one that the caller expects.
    pub async fn check_tail(&self, tail: Tail) -> Result<Tail> {
        self.check_open()?;
        if *self.tail.lock().await == Some(tail) {
            return Ok(tail);
        }
        let reason = format!("slot {} is not the end of the journal", tail.next);
        Err(Error::conflict(
            self.stack.store.shown(&self.stack.paths.journal()),
            reason,
        ))
    }

    /// Locks the head for a change and returns its current content.
    pub async fn head(&self) -> Result<(HeadGuard, Head)> {
        let mut guard = Arc::clone(&self.head).lock_owned().await;
        self.check_open()?;
        let seen = match guard.take() {
            Some(seen) => seen,
            None => self.stack.head().await?,
        };
        let head = self.mine(seen.head.clone(), false)?;
        *guard = Some(seen);
        Ok((guard, head))
    }

    /// Replaces the head that the guard holds; returns `None` if the stored head changed since it was read, for example
    /// by an earlier swap of this owner that took effect late. The guard then holds the new head. The fields that
    /// belong to the backend keep their values, except that `compactions`, if given, replaces those from the base on. After a
    /// change that closes the journal, this owner appends nothing more.
    pub async fn swap_head(
        &self,
        guard: &mut HeadGuard,
        changed: Head,
        nonce: Nonce,
        compactions: Option<Vec<Compaction>>,
    ) -> Result<Option<Head>> {
        // Taken before the request: if this future is dropped during the swap, the next change reads the head again.
        let Some(seen) = guard.take() else {
            return Ok(None);
        };
        // The caller computed its change on a copy of the head. These fields belong to the backend, and a change of
        // them would break fencing or lose a compaction.
        let mut head = changed;
        head.lineage = seen.head.lineage;
        head.epoch = seen.head.epoch;
        head.generation = seen.head.generation;
        head.removed |= seen.head.removed;
        head.compactions = compactions::named(&head, &seen.head.compactions, compactions);
        if head.closed {
            // Waits for an append in progress, and excludes later ones before the head says that there are none.
            let tail = self.tail.lock().await;
            let end = head.watermark.map(|watermark| watermark.slot.next());
            // Readers of a closed journal read nothing beyond the watermark.
            head.closed = end.is_some() && end == tail.map(|tail| tail.next);
            self.ended.fetch_or(head.closed, Ordering::AcqRel);
        }
        head.nonce = nonce;
        self.put_head(guard, &seen, head).await
    }

    /// Records compactions in the head, if the head's base still starts where they start, and the journal wasn't closed.
    pub async fn set_compactions(&self, compactions: Vec<Compaction>) -> Result<()> {
        let (Some(first), Some(last)) = (compactions.first().copied(), compactions.last().copied()) else {
            return Ok(());
        };
        let (mut guard, mut head) = self.head().await?;
        // A checkpoint may have moved the base meanwhile. The compactions then cover frames that no reader needs.
        let is_current = |head: &Head| head.base.start == first.start && !head.closed;
        let Some(seen) = guard.take_if(|seen| is_current(&seen.head)) else {
            return Ok(());
        };
        // The nonce is derived from the previous nonce and the compaction's digest, so it is unique without a source of
        // randomness.
        let nonce = Digest::of_parts(&[head.nonce.as_bytes(), last.digest.as_bytes()]);
        let nonce = std::array::from_fn(|at| nonce.as_bytes()[at]);
        head.compactions = compactions::named(&head, &seen.head.compactions, Some(compactions));
        head.nonce = Nonce::from_bytes(nonce);
        self.put_head(&mut guard, &seen, head).await.map(drop)
    }

    /// Deletes compactions that the head doesn't name any more. A reader of an earlier head that misses one reads its
    /// slots instead.
    pub async fn delete_compactions(&self, unnamed: &[Compaction]) -> Result<()> {
        for compaction in unnamed {
            let name = JournalName::of_compaction(compaction);
            self.stack
                .store
                .delete(&self.stack.paths.in_journal(&name))
                .await?;
        }
        Ok(())
    }

    /// Reads the head from the store, bypassing the cached one, and checks that its epoch is this owner's.
    pub async fn read_head(&self) -> Result<Head> {
        let head = self.stack.head().await?.head;
        self.mine(head, false)
    }

    async fn put_head(
        &self,
        guard: &mut HeadGuard,
        seen: &VersionedHead,
        head: Head,
    ) -> Result<Option<Head>> {
        let path = self.stack.paths.head();
        match self.stack.swap(&path, &head, &seen.found).await? {
            SwapOutcome::Ours(found) => {
                **guard = Some(VersionedHead {
                    head: head.clone(),
                    found,
                });
                Ok(Some(head))
            }
            SwapOutcome::Changed { now, certain } => {
                let now = match now {
                    Some(now) => self.stack.parse_head(now)?,
                    None => self.stack.head().await?,
                };
                // After a lost answer, the head of this swap may have been stored and then replaced by the next owner,
                // so it is unknown whether the swap had an effect.
                self.mine(now.head.clone(), !certain)?;
                **guard = Some(now);
                Ok(None)
            }
        }
    }

    /// Returns a head of this owner's epoch. A head of another epoch means that this owner is fenced.
    fn mine(&self, head: Head, indeterminate: bool) -> Result<Head> {
        if head.epoch == self.epoch {
            return Ok(head);
        }
        self.close(CloseReason::Fenced(head.epoch));
        Err(self.stack.fenced(self.epoch, head.epoch, indeterminate))
    }

    /// Changes the head, and repeats the change on the new head if the head changed meanwhile.
    ///
    /// # Errors
    /// `Fenced` when the head has another epoch; `Conflict` when the head keeps changing; the error of the change.
    pub async fn change_head(&self, nonce: Nonce, change: HeadChange<'_>) -> Result<Head> {
        for _ in 0..ATTEMPTS {
            let (mut guard, mut head) = self.head().await?;
            change(&mut head)?;
            if let Some(head) = self.swap_head(&mut guard, head, nonce, None).await? {
                return Ok(head);
            }
        }
        Err(self.head_keeps_changing())
    }

    /// Returns the error for a head that changed during every attempt.
    pub fn head_keeps_changing(&self) -> Error {
        Error::conflict(
            format!("the head of {}", self.stack.shown()),
            "it keeps changing; try again",
        )
    }

    /// Removes the stack: turns its head into a tombstone with the next epoch, which fences every writer. The loop
    /// needs no limit, because within this epoch only late swaps of this owner change the head.
    pub async fn remove(&self, nonce: Nonce) -> Result<()> {
        loop {
            let (mut guard, mut head) = self.head().await?;
            let Some(seen) = guard.take() else {
                continue;
            };
            head.removed = true;
            // The next epoch fences every writer, including a takeover that computed its epoch from the old head.
            head.epoch = next_epoch(self.stack.shown(), head.epoch)?;
            head.nonce = nonce;
            if self.put_head(&mut guard, &seen, head).await?.is_some() {
                break;
            }
        }
        self.close(CloseReason::Because("the stack was removed".to_owned()));
        // An error of the release is ignored: a removed stack needs no lock, and an expiring lease ends by itself.
        drop(self.free_lease().await);
        Ok(())
    }

    /// As [`Self::check`], without a request while the lease is trusted.
    pub async fn check_held(&self) -> Result<()> {
        match self.is_trusted() {
            true => self.check_open(),
            false => self.check().await,
        }
    }

    /// Checks with the store whether the lease is still held.
    pub async fn check(&self) -> Result<()> {
        self.check_open()?;
        let current = self.stack.lease().await?;
        match current {
            Some((lease, _)) if lease.epoch == self.epoch => self.check_open(),
            Some((lease, _)) => Err(self.fence_off(lease.epoch)),
            // A missing lease proves nothing: leases only make conflicts rare, and the epoch in the head decides.
            None => {
                let head = self.stack.head().await?.head;
                self.mine(head, false).map(drop)
            }
        }
    }

    fn fence_off(&self, theirs: Epoch) -> Error {
        self.close(CloseReason::Fenced(theirs));
        self.stack.fenced(self.epoch, theirs, false)
    }

    /// Renews the lease with one conditional write.
    pub async fn renew(&self) -> Renewal {
        let mut guard = self.lease.lock().await;
        // The second attempt covers an earlier renewal that was cancelled and took effect late: its bytes are read
        // back, and the renewal is repeated on them.
        for _ in 0..2 {
            let Some(held) = guard.clone() else {
                return Renewal::Ended;
            };
            let sent = self.stack.terms.now();
            let lease = Lease {
                renewals: held.lease.renewals.saturating_add(1),
                ..held.lease
            };
            let path = self.stack.paths.lease();
            let now = match self.stack.swap(&path, &lease, &held.found).await {
                Ok(SwapOutcome::Ours(found)) => {
                    *guard = Some(HeldLease { lease, found, sent });
                    // Count the lease from the moment of sending: the store may have processed the request at any
                    // time after it.
                    *lock(&self.confirmed) = sent;
                    return Renewal::Confirmed;
                }
                Ok(SwapOutcome::Changed { now: Some(now), .. }) => now,
                Ok(SwapOutcome::Changed { now: None, .. }) | Err(_) => return Renewal::Indeterminate,
            };
            match self.stack.parse_lease(&now) {
                Ok(stored) if stored.epoch == self.epoch && stored.nonce == lease.nonce => {
                    *guard = Some(HeldLease {
                        lease: stored,
                        found: now,
                        // The time at which that renewal was sent is unknown, so the older time stays.
                        sent: held.sent,
                    });
                }
                Ok(stored) if stored.epoch > self.epoch => {
                    self.close(CloseReason::Fenced(stored.epoch));
                    *guard = None;
                    return Renewal::Ended;
                }
                _ => return Renewal::Indeterminate,
            }
        }
        Renewal::Indeterminate
    }

    /// Releases the lock. The owner writes nothing after that.
    pub async fn release(&self) -> Result<()> {
        self.close(CloseReason::Because("its lock was released".to_owned()));
        self.free_lease().await
    }

    async fn free_lease(&self) -> Result<()> {
        match self.lease.lock().await.take() {
            Some(held) => release(&self.stack, &held).await,
            None => Ok(()),
        }
    }

    /// Refuses to write after a failed append, a fence or a release.
    ///
    /// # Errors
    /// `Fenced` after another owner took over; `Closed` after a failure or a release.
    pub fn check_open(&self) -> Result<()> {
        match lock(&self.closed).clone() {
            None => Ok(()),
            Some(CloseReason::Fenced(theirs)) => Err(self.stack.fenced(self.epoch, theirs, false)),
            Some(CloseReason::Because(reason)) => Err(Error::Closed {
                object: self.stack.shown(),
                reason,
            }),
        }
    }

    fn is_trusted(&self) -> bool {
        self.stack.terms.is_trusted(*lock(&self.confirmed))
    }

    /// Closes the owner for writing. The first reason is kept, because later ones are consequences of it.
    fn close(&self, why: CloseReason) {
        lock(&self.closed).get_or_insert(why);
    }

    /// Closes the owner after a failed append: the frame may be stored in the slot, so no other frame must be tried
    /// there.
    fn close_on_error<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result {
            self.close(match error {
                Error::Fenced { theirs, .. } => CloseReason::Fenced(*theirs),
                other => CloseReason::Because(format!("an earlier write failed: {other}")),
            });
        }
        result
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
