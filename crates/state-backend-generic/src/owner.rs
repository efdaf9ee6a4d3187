//! The owner of one epoch: what it knows, and whether it may still write.

use crate::layout::Lease;
use crate::reader::follow;
use crate::settle::{Created, Swapped};
use crate::stack::{Stack, VersionedHead};
use crate::takeover::{HeldLease, Takeover, release};
use state_core::backend::{HeadChange, Tail};
use state_core::head::Compaction;
use state_core::journal::FrameKind;
use state_core::{Digest, Epoch, Error, Frame, Head, Nonce, Result};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::OwnedMutexGuard;

/// How often a head change is made anew because the head changed meanwhile.
const ATTEMPTS: usize = 16;

/// The owner of one epoch.
#[derive(Debug)]
pub struct Owner {
    /// The stack.
    pub stack: Stack,
    /// The epoch.
    pub epoch: Epoch,
    /// Our lease as it stands, until it is released.
    lease: tokio::sync::Mutex<Option<HeldLease>>,
    /// When the request was sent that last confirmed the lease, on our own clock.
    confirmed: Mutex<Duration>,
    /// Why nothing more may be written.
    closed: Mutex<Option<Closed>>,
    /// The head as it was last read or written; none if a swap of ours may still be under way.
    head: Arc<tokio::sync::Mutex<Option<VersionedHead>>>,
    /// Where the next frame goes; none while one is on its way, and after an append that was not waited for.
    tail: tokio::sync::Mutex<Option<Tail>>,
}

#[derive(Clone, Debug)]
enum Closed {
    Because(String),
    Fenced(Epoch),
}

/// The outcome of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// The lease is confirmed.
    Done,
    /// The store didn't answer. The renewal should be tried again soon.
    Indeterminate,
    /// There is nothing more to renew.
    Over,
}

/// The head, for one who changes it; nobody else does meanwhile.
pub type HeadGuard = OwnedMutexGuard<Option<VersionedHead>>;

impl Owner {
    /// The owner after a takeover.
    pub fn new(stack: Stack, taken: Takeover) -> Self {
        Self {
            epoch: taken.lease.lease.epoch,
            confirmed: Mutex::new(taken.lease.sent),
            closed: Mutex::default(),
            head: Arc::new(tokio::sync::Mutex::new(Some(taken.seen))),
            tail: tokio::sync::Mutex::new(Some(taken.tail)),
            lease: tokio::sync::Mutex::new(Some(taken.lease)),
            stack,
        }
    }

    /// One PUT. Nothing is asked before it, and nothing after it, while the lease is trusted.
    pub async fn append(&self, frame: &Frame) -> Result<()> {
        self.check_open()?;
        let mut tail = self.tail.lock().await;
        let Some(end) = *tail else {
            self.close(Closed::Because("an earlier append was interrupted".to_owned()));
            return self.check_open();
        };
        self.close_on_error(self.check_follows(frame, end))?;
        if !self.is_trusted() {
            self.close_on_error(self.check_before(frame).await)?;
        }
        let path = self.stack.paths.slot(frame.slot());
        // If nobody waits for this step any more, the slot is never tried with another frame.
        *tail = None;
        let created = self.stack.store.create(&path, frame.bytes()).await;
        match self.close_on_error(created)? {
            Created::Ours(_) => {}
            Created::Taken(there) => {
                let taken = self.taken(&self.stack.store.shown(&path), &there.bytes).await;
                return self.close_on_error(Err(taken));
            }
        }
        if !self.is_trusted() {
            // We slept, or the store did. The frame counts, but whether others saw that is for the head to say.
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
            "the frame doesn't follow: slot {} of epoch {} is next",
            tail.next, self.epoch
        );
        Err(Error::conflict(object, reason))
    }

    /// Why our slot is taken: by the fence of another owner, or by what has no business there.
    async fn taken(&self, object: &str, there: &[u8]) -> Error {
        match Frame::peek(there) {
            Some((theirs, _)) if theirs > self.epoch => self.stack.fenced(self.epoch, theirs, false),
            _ => match self.stack.head().await {
                Ok(seen) if seen.head.epoch != self.epoch => {
                    self.stack.fenced(self.epoch, seen.head.epoch, false)
                }
                _ => Error::corrupt(object, 0, "what stands there wasn't written by an owner"),
            },
        }
    }

    /// Before a frame is sent that nothing vouches for: the lease must still be ours.
    async fn check_before(&self, frame: &Frame) -> Result<()> {
        match self.renew().await {
            Renewal::Done => Ok(()),
            Renewal::Over => self.check_open(),
            Renewal::Indeterminate => Err(Error::not_applied(
                self.stack.store.shown(&self.stack.paths.slot(frame.slot())),
                "the lease ran out, and the store doesn't say whether it is still ours",
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

    /// Where the journal ends, if that is where the caller thinks.
    pub async fn check_tail(&self, tail: Tail) -> Result<Tail> {
        self.check_open()?;
        if *self.tail.lock().await == Some(tail) {
            return Ok(tail);
        }
        let reason = format!("slot {} isn't the end of the journal", tail.next);
        Err(Error::conflict(
            self.stack.store.shown(&self.stack.paths.journal()),
            reason,
        ))
    }

    /// The head, for one who changes it, as it is now.
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

    /// Replaces the head that the guard holds; none if another one of ours stands there now. What isn't the caller's
    /// to change stays as it is.
    pub async fn swap_head(
        &self,
        guard: &mut HeadGuard,
        changed: Head,
        nonce: Nonce,
    ) -> Result<Option<Head>> {
        let Some(seen) = guard.take() else {
            return Ok(None);
        };
        let mut head = changed;
        head.lineage = seen.head.lineage;
        head.epoch = seen.head.epoch;
        head.generation = seen.head.generation;
        head.removed = seen.head.removed;
        head.compaction = seen
            .head
            .compaction
            .filter(|compaction| compaction.start == head.base.start);
        head.nonce = nonce;
        self.put_head(guard, &seen, head).await
    }

    /// Lets the head name a fold, if its base is still where that begins.
    pub async fn set_compaction(&self, compaction: Compaction) -> Result<()> {
        let (mut guard, mut head) = self.head().await?;
        let Some(seen) = guard.take_if(|seen| seen.head.base.start == compaction.start) else {
            return Ok(());
        };
        // Unique, as the fold is; nobody is asked for randomness here.
        let nonce = Digest::of_parts(&[head.nonce.as_bytes(), compaction.digest.as_bytes()]);
        let nonce = std::array::from_fn(|at| nonce.as_bytes()[at]);
        head.compaction = Some(compaction);
        head.nonce = Nonce::from_bytes(nonce);
        self.put_head(&mut guard, &seen, head).await.map(drop)
    }

    /// The head by the word of the store, if it is still of our epoch.
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
            Swapped::Ours(found) => {
                **guard = Some(VersionedHead {
                    head: head.clone(),
                    found,
                });
                Ok(Some(head))
            }
            Swapped::Changed { now, certain } => {
                let now = match now {
                    Some(now) => self.stack.seen(now)?,
                    None => self.stack.head().await?,
                };
                self.mine(now.head.clone(), !certain)?;
                **guard = Some(now);
                Ok(None)
            }
        }
    }

    /// A head of our epoch. One of another means that we are fenced.
    fn mine(&self, head: Head, indeterminate: bool) -> Result<Head> {
        if head.epoch == self.epoch {
            return Ok(head);
        }
        self.close(Closed::Fenced(head.epoch));
        Err(self.stack.fenced(self.epoch, head.epoch, indeterminate))
    }

    /// Changes the head, anew whenever it changed meanwhile.
    ///
    /// # Errors
    /// `Fenced` when its epoch is another's; `Conflict` when it keeps changing.
    pub async fn change_head(&self, nonce: Nonce, change: HeadChange<'_>) -> Result<Head> {
        for _ in 0..ATTEMPTS {
            let (mut guard, mut head) = self.head().await?;
            change(&mut head);
            if let Some(head) = self.swap_head(&mut guard, head, nonce).await? {
                return Ok(head);
            }
        }
        Err(self.head_keeps_changing())
    }

    /// The error for a head that changed under every attempt.
    pub fn head_keeps_changing(&self) -> Error {
        Error::conflict(
            format!("the head of {}", self.stack.shown()),
            "it keeps changing; try again",
        )
    }

    /// Makes the head a tombstone.
    pub async fn remove(&self, nonce: Nonce) -> Result<()> {
        loop {
            let (mut guard, mut head) = self.head().await?;
            let Some(seen) = guard.take() else {
                continue;
            };
            head.removed = true;
            head.epoch = head.epoch.next();
            head.nonce = nonce;
            if self.put_head(&mut guard, &seen, head).await?.is_some() {
                break;
            }
        }
        self.close(Closed::Because("the stack was removed".to_owned()));
        // A tombstone needs no lock. If this fails the lease ends by itself.
        drop(self.free_lease().await);
        Ok(())
    }

    /// Whether the lease is still ours, by the word of the store.
    pub async fn check(&self) -> Result<()> {
        self.check_open()?;
        let there = self.stack.lease().await?;
        match there {
            Some((lease, _)) if lease.epoch == self.epoch => self.check_open(),
            Some((lease, _)) => Err(self.fence_off(lease.epoch)),
            None => {
                let head = self.stack.head().await?.head;
                self.mine(head, false).map(drop)
            }
        }
    }

    fn fence_off(&self, theirs: Epoch) -> Error {
        self.close(Closed::Fenced(theirs));
        self.stack.fenced(self.epoch, theirs, false)
    }

    /// Says that we are there.
    pub async fn renew(&self) -> Renewal {
        let mut guard = self.lease.lock().await;
        // Once more after an earlier renewal that was given up, and came late.
        for _ in 0..2 {
            let Some(held) = guard.clone() else {
                return Renewal::Over;
            };
            let sent = self.stack.terms.now();
            let lease = Lease {
                renewals: held.lease.renewals.saturating_add(1),
                ..held.lease
            };
            let path = self.stack.paths.lease();
            let now = match self.stack.swap(&path, &lease, &held.found).await {
                Ok(Swapped::Ours(found)) => {
                    *guard = Some(HeldLease { lease, found, sent });
                    *lock(&self.confirmed) = sent;
                    return Renewal::Done;
                }
                Ok(Swapped::Changed { now: Some(now), .. }) => now,
                Ok(Swapped::Changed { now: None, .. }) | Err(_) => return Renewal::Indeterminate,
            };
            match self.stack.parse_lease(&now) {
                Ok(there) if there.epoch == self.epoch && there.nonce == lease.nonce => {
                    *guard = Some(HeldLease {
                        lease: there,
                        found: now,
                        sent: held.sent,
                    });
                }
                Ok(there) if there.epoch > self.epoch => {
                    self.close(Closed::Fenced(there.epoch));
                    *guard = None;
                    return Renewal::Over;
                }
                _ => return Renewal::Indeterminate,
            }
        }
        Renewal::Indeterminate
    }

    /// Frees the lock; nothing more is written.
    pub async fn release(&self) -> Result<()> {
        self.close(Closed::Because("its lock was released".to_owned()));
        self.free_lease().await
    }

    async fn free_lease(&self) -> Result<()> {
        match self.lease.lock().await.take() {
            Some(held) => release(&self.stack, &held).await,
            None => Ok(()),
        }
    }

    /// Refuses to write after a failure, a fence or a release.
    ///
    /// # Errors
    /// `Fenced` or `Closed`.
    pub fn check_open(&self) -> Result<()> {
        match lock(&self.closed).clone() {
            None => Ok(()),
            Some(Closed::Fenced(theirs)) => Err(self.stack.fenced(self.epoch, theirs, false)),
            Some(Closed::Because(reason)) => Err(Error::Closed {
                object: self.stack.shown(),
                reason,
            }),
        }
    }

    fn is_trusted(&self) -> bool {
        self.stack.terms.is_trusted(*lock(&self.confirmed))
    }

    /// The first reason stays.
    fn close(&self, why: Closed) {
        lock(&self.closed).get_or_insert(why);
    }

    /// After a failed append nothing more is written: the slot was tried.
    fn close_on_error<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result {
            self.close(match error {
                Error::Fenced { theirs, .. } => Closed::Fenced(*theirs),
                other => Closed::Because(format!("an earlier write failed: {other}")),
            });
        }
        result
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
