//! The owner of one epoch: what it knows, and whether it may still write.

use crate::layout::Lease;
use crate::objects::{Created, Swapped};
use crate::reader::{after, follow};
use crate::stack::{Seen, Stack};
use crate::takeover::{Held, Taken, release};
use state_core::backend::Tail;
use state_core::head::Fold;
use state_core::journal::FrameKind;
use state_core::{Digest, Enveloped, Epoch, Error, Frame, Head, Nonce, Result};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::OwnedMutexGuard;

/// The owner of one epoch.
#[derive(Debug)]
pub(crate) struct Owner {
    pub(crate) stack: Stack,
    pub(crate) epoch: Epoch,
    /// Our lease as it stands, until it is released.
    lease: tokio::sync::Mutex<Option<Held>>,
    /// Until when nobody can have taken the lease from us, on our own clock.
    trusted: Mutex<Duration>,
    /// Why nothing more may be written.
    closed: Mutex<Option<Closed>>,
    /// The head as it was last read or written; none if a swap of ours may still be under way.
    head: Arc<tokio::sync::Mutex<Option<Seen>>>,
    tail: tokio::sync::Mutex<Tail>,
}

#[derive(Clone, Debug)]
enum Closed {
    Because(String),
    Fenced(Epoch),
}

/// What became of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewal {
    Done,
    /// The store didn't answer. It is to be tried again soon.
    Unsure,
    /// There is nothing more to renew.
    Over,
}

/// The head, for one who changes it; nobody else does meanwhile.
pub(crate) type HeadGuard = OwnedMutexGuard<Option<Seen>>;

impl Owner {
    pub(crate) fn new(stack: Stack, taken: Taken) -> Self {
        let owner = Self {
            epoch: taken.lease.lease.epoch,
            trusted: Mutex::default(),
            closed: Mutex::default(),
            head: Arc::new(tokio::sync::Mutex::new(Some(taken.seen))),
            tail: tokio::sync::Mutex::new(taken.tail),
            lease: tokio::sync::Mutex::default(),
            stack,
        };
        owner.trust_from(taken.lease.sent);
        Self {
            lease: tokio::sync::Mutex::new(Some(taken.lease)),
            ..owner
        }
    }

    /// One PUT. Nothing is asked before it, and nothing after it, while the lease is trusted.
    pub(crate) async fn append(&self, frame: &Frame) -> Result<()> {
        self.check_open()?;
        let mut tail = self.tail.lock().await;
        self.close_on_error(self.check_follows(frame, *tail))?;
        if !self.is_trusted() {
            self.close_on_error(self.check_before(frame).await)?;
        }
        let path = self.stack.branch.slot(frame.slot());
        let created = self.stack.objects.create(&path, frame.bytes()).await;
        match self.close_on_error(created)? {
            Created::Ours(_) => {}
            Created::Taken(there) => {
                let taken = self.taken(&self.stack.objects.shown(&path), &there.bytes).await;
                return self.close_on_error(Err(taken));
            }
        }
        if !self.is_trusted() {
            // We slept, or the store did. The frame counts, but whether others saw that is for the head to say.
            self.close_on_error(self.check_after(frame).await)?;
        }
        *tail = after(frame);
        Ok(())
    }

    fn check_follows(&self, frame: &Frame, tail: Tail) -> Result<()> {
        let object = self.stack.objects.shown(&self.stack.branch.slot(tail.next));
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
            Renewal::Unsure => Err(Error::NotApplied {
                object: self.stack.objects.shown(&self.stack.branch.slot(frame.slot())),
                source: "the lease ran out, and the store doesn't say whether it is still ours".into(),
            }),
        }
    }

    async fn check_after(&self, frame: &Frame) -> Result<()> {
        match self.stack.head().await {
            Ok(seen) if seen.head.epoch == self.epoch => Ok(()),
            Ok(seen) => Err(self.stack.fenced(self.epoch, seen.head.epoch, true)),
            Err(error) => Err(Error::Indeterminate {
                object: self.stack.objects.shown(&self.stack.branch.slot(frame.slot())),
                mutations: Vec::new(),
                source: Box::new(error),
            }),
        }
    }

    /// Where the journal ends, if that is where the caller thinks.
    pub(crate) async fn check_tail(&self, tail: Tail) -> Result<Tail> {
        self.check_open()?;
        if *self.tail.lock().await == tail {
            return Ok(tail);
        }
        let reason = format!("slot {} isn't the end of the journal", tail.next);
        Err(Error::conflict(
            self.stack.objects.shown(&self.stack.branch.journal()),
            reason,
        ))
    }

    /// The head, for one who changes it, as it is now.
    pub(crate) async fn head(&self) -> Result<(HeadGuard, Head)> {
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
    pub(crate) async fn swap_head(
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
        head.fold = seen.head.fold.filter(|fold| fold.start == head.base.start);
        head.nonce = nonce;
        self.put_head(guard, &seen, head).await
    }

    /// Lets the head name a fold, if its base is still where that begins.
    pub(crate) async fn set_fold(&self, fold: Fold) -> Result<()> {
        let (mut guard, mut head) = self.head().await?;
        let Some(seen) = guard.take_if(|seen| seen.head.base.start == fold.start) else {
            return Ok(());
        };
        // Unique, as the fold is; nobody is asked for randomness here.
        let nonce = Digest::of_parts(&[head.nonce.as_bytes(), fold.digest.as_bytes()]);
        let nonce = std::array::from_fn(|at| nonce.as_bytes()[at]);
        head.fold = Some(fold);
        head.nonce = Nonce::from_bytes(nonce);
        self.put_head(&mut guard, &seen, head).await.map(drop)
    }

    /// The head by the word of the store, if it is still of our epoch.
    pub(crate) async fn read_head(&self) -> Result<Head> {
        let head = self.stack.head().await?.head;
        self.mine(head, false)
    }

    async fn put_head(&self, guard: &mut HeadGuard, seen: &Seen, head: Head) -> Result<Option<Head>> {
        let path = self.stack.branch.head();
        match self
            .stack
            .objects
            .swap(&path, &head.encode().into(), &seen.found)
            .await?
        {
            Swapped::Ours(found) => {
                **guard = Some(Seen {
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

    /// Makes the head a tombstone.
    pub(crate) async fn remove(&self, nonce: Nonce) -> Result<()> {
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
    pub(crate) async fn check(&self) -> Result<()> {
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
    pub(crate) async fn renew(&self) -> Renewal {
        let mut guard = self.lease.lock().await;
        // Once more after an earlier renewal that was given up, and came late.
        for _ in 0..2 {
            let Some(held) = guard.clone() else {
                return Renewal::Over;
            };
            let sent = self.stack.objects.options.clock.elapsed();
            let lease = Lease {
                renewals: held.lease.renewals.saturating_add(1),
                ..held.lease
            };
            let path = self.stack.branch.lease();
            let swapped = self
                .stack
                .objects
                .swap(&path, &lease.encode().into(), &held.found)
                .await;
            let now = match swapped {
                Ok(Swapped::Ours(found)) => {
                    *guard = Some(Held { lease, found, sent });
                    self.trust_from(sent);
                    return Renewal::Done;
                }
                Ok(Swapped::Changed { now: Some(now), .. }) => now,
                Ok(Swapped::Changed { now: None, .. }) | Err(_) => return Renewal::Unsure,
            };
            match self.stack.parse_lease(&now) {
                Ok(there) if there.epoch == self.epoch && there.nonce == lease.nonce => {
                    *guard = Some(Held {
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
                _ => return Renewal::Unsure,
            }
        }
        Renewal::Unsure
    }

    /// Frees the lock; nothing more is written.
    pub(crate) async fn release(&self) -> Result<()> {
        self.close(Closed::Because("its lock was released".to_owned()));
        self.free_lease().await
    }

    async fn free_lease(&self) -> Result<()> {
        match self.lease.lock().await.take() {
            Some(held) => release(&self.stack, &held).await,
            None => Ok(()),
        }
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        match lock(&self.closed).clone() {
            None => Ok(()),
            Some(Closed::Fenced(theirs)) => Err(self.stack.fenced(self.epoch, theirs, false)),
            Some(Closed::Because(reason)) => Err(Error::Closed {
                object: self.stack.shown(),
                reason,
            }),
        }
    }

    fn trust_from(&self, sent: Duration) {
        let options = &self.stack.objects.options;
        *lock(&self.trusted) = sent.saturating_add(options.lease).saturating_sub(options.margin);
    }

    fn is_trusted(&self) -> bool {
        self.stack.objects.options.clock.elapsed() < *lock(&self.trusted)
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
