//! Writers on one stack.

use super::history::NEVER;
use super::oracle::{AppendAttempt, Oracle, WriteOutcome, pushed, write_outcome};
use super::*;
use bytes::Bytes;
use state_core::backend::{
    Acquire, ClientLock, CollectableStore, Holder, NamePointer, NameTarget, ObjectName, StoredItemName, Tail,
};
use state_core::head::{Base, Collection, SnapshotRef};
use state_core::journal::FrameKind;
use state_core::testkit::clock::SeededEntropy;
use state_core::{
    Backend, Digest, Epoch, Frame, Head, Lineage, Nonce, Result, Serial, Slot, StackName, Timestamp, Writer,
};
use std::collections::{BTreeMap, BTreeSet};

/// One process: its handle to the store, and the lock if it holds it.
pub(crate) struct Actor {
    pub(crate) who: String,
    pub(crate) backend: ObjectBackend,
    lineage: Lineage,
    entropy: Arc<SeededEntropy>,
    oracle: Arc<Oracle>,
    pub(crate) held: Option<(Arc<dyn Writer>, Tail)>,
    count: u64,
}

impl Actor {
    pub(crate) fn new(
        who: &str,
        backend: ObjectBackend,
        lineage: Lineage,
        entropy: &Arc<SeededEntropy>,
        oracle: &Arc<Oracle>,
    ) -> Self {
        Self {
            who: who.to_owned(),
            backend,
            lineage,
            entropy: Arc::clone(entropy),
            oracle: Arc::clone(oracle),
            held: None,
            count: 0,
        }
    }

    fn nonce(&self) -> Nonce {
        Nonce::random(&*self.entropy)
    }

    pub(crate) async fn acquire(&mut self, break_epoch: Option<Epoch>) -> Result<()> {
        let request = Acquire {
            holder: Holder::new(&self.who, "host", 1, "test", None),
            break_epoch,
            head_nonce: self.nonce(),
            fence_nonce: self.nonce(),
        };
        let called = self.oracle.lock_history.moment();
        let acquired = self.backend.acquire(self.lineage, &request).await;
        write_outcome(&acquired);
        let acquired = acquired?;
        let time = called..self.oracle.lock_history.moment();
        let epoch = (acquired.writer.epoch(), time);
        self.oracle.epochs.lock().unwrap().push(epoch);
        self.held = Some((acquired.writer, acquired.tail));
        Ok(())
    }

    pub(crate) async fn break_lock(&mut self) -> Result<()> {
        let epoch = self.backend.lock_status(self.lineage).await?.epoch;
        self.acquire(Some(epoch)).await
    }

    /// Appends one frame, and records the result.
    pub(crate) async fn append(&mut self) -> Result<()> {
        let Some((writer, tail)) = self.held.clone() else {
            return Ok(());
        };
        self.count += 1;
        let payload = format!("\"{} {}\"\n", self.who, self.count).into_bytes();
        let frame = Frame::new(
            FrameKind::Data,
            writer.epoch(),
            tail.next,
            self.nonce(),
            &payload,
            &tail.chain,
        )?;
        // Recorded before, because the writer may die meanwhile.
        let attempt = AppendAttempt {
            who: self.who.clone(),
            slot: tail.next,
            payload,
            write_outcome: WriteOutcome::Unknown,
            time: self.oracle.lock_history.moment()..NEVER,
        };
        let at = pushed(&self.oracle.tried, attempt);
        let result = writer.append(&frame).await;
        let attempt = &mut self.oracle.tried.lock().unwrap()[at];
        attempt.write_outcome = write_outcome(&result);
        if result.is_ok() {
            attempt.time.end = self.oracle.lock_history.moment();
        }
        self.held = result.is_ok().then(|| {
            let tail = Tail {
                next: frame.slot().next(),
                chain: *frame.chain(),
            };
            (writer, tail)
        });
        result
    }

    /// Changes the head, and records the result.
    pub(crate) async fn freeze(&mut self) -> Result<()> {
        let Some((writer, _)) = self.held.clone() else {
            return Ok(());
        };
        self.count += 1;
        let id = format!("{} {}", self.who, self.count);
        let lock = ClientLock {
            id: id.clone(),
            holder: Holder::default(),
            message: String::new(),
            expires: None,
        };
        let change = |head: &mut Head| {
            head.client_lock = Some(lock.clone());
            Ok(())
        };
        let write = self.oracle.lock_history.write(Some(id.clone()));
        let at = pushed(&self.oracle.locks, (id, WriteOutcome::Unknown));
        let result = writer.swap_head(self.nonce(), &change).await;
        self.oracle.locks.lock().unwrap()[at].1 = write_outcome(&result);
        if result.is_ok() {
            self.oracle.lock_history.acknowledge(write);
        }
        result.map(drop)
    }

    /// Creates a snapshot, and moves the head's base behind it.
    pub(crate) async fn checkpoint(&mut self) -> Result<()> {
        let Some((writer, tail)) = self.held.clone() else {
            return Ok(());
        };
        let tail = writer.rotate(tail, self.nonce()).await?;
        let content = format!("{}", tail.next);
        let reference = SnapshotRef {
            slot: tail.next,
            digest: Digest::of(content.as_bytes()),
            length: content.len() as u64,
        };
        writer.create(&reference.object(), Bytes::from(content)).await?;
        let base = Base {
            snapshot: Some(reference),
            content: None,
            start: tail.next,
            chain: tail.chain,
        };
        let result = writer
            .swap_head(self.nonce(), &|head| {
                head.base = base.clone();
                Ok(())
            })
            .await;
        write_outcome(&result);
        result.map(drop)
    }

    /// Drops everything before the base from the head, and deletes it at once.
    pub(crate) async fn collect(&mut self) -> Result<()> {
        self.drop_before_base().await?;
        self.delete_dropped().await
    }

    /// Drops everything before the base from the head.
    pub(crate) async fn drop_before_base(&mut self) -> Result<()> {
        let Some((writer, _)) = self.held.clone() else {
            return Ok(());
        };
        let change = |head: &mut Head| {
            head.floor = head.base.start;
            head.collection = Some(Collection {
                base: head.base.clone(),
                serial: Serial(1),
                since: Timestamp::new("2026-01-01T00:00:00Z"),
                forgotten: BTreeSet::new(),
            });
            Ok(())
        };
        let swapped = writer.swap_head(self.nonce(), &change).await;
        write_outcome(&swapped);
        swapped.map(drop)
    }

    /// Deletes what the head has dropped.
    pub(crate) async fn delete_dropped(&mut self) -> Result<()> {
        let Some((writer, _)) = self.held.clone() else {
            return Ok(());
        };
        let head = self.backend.read_head(self.lineage).await?;
        let stored_items = self.backend.stored_items(self.lineage, head.floor).await?;
        let doomed: Vec<StoredItemName> = stored_items
            .into_iter()
            .map(|piece| piece.name)
            .filter(|name| match name {
                StoredItemName::Journal(_) => true,
                StoredItemName::Object(ObjectName::Snapshot { slot, .. }) => *slot < head.floor,
                StoredItemName::Object(_) => false,
            })
            .collect();
        let deleted = writer.delete(&doomed).await;
        write_outcome(&deleted);
        deleted
    }

    /// Replaces the stack's name pointer by an equal one with a new nonce.
    pub(crate) async fn rename(&mut self) -> Result<()> {
        let name = name();
        let called = self.oracle.pointer_history.moment();
        let there = self.backend.read_name(&name).await?;
        let seen = there.as_ref().map(|there| there.nonce.to_string());
        self.oracle.pointer_history.read(called, seen);
        let pointer = NamePointer::new(name.clone(), NameTarget::Lineage(self.lineage), self.nonce());
        let expected = there.map(|there| there.nonce);
        let write = self.oracle.pointer_history.write(Some(pointer.nonce.to_string()));
        let at = pushed(&self.oracle.pointers, (pointer.clone(), WriteOutcome::Unknown));
        let result = self.backend.swap_name(&name, expected, &pointer).await;
        self.oracle.pointers.lock().unwrap()[at].1 = write_outcome(&result);
        if result.is_ok() {
            self.oracle.pointer_history.acknowledge(write);
        }
        result
    }

    pub(crate) async fn release(&mut self) -> Result<()> {
        let Some((writer, _)) = self.held.take() else {
            return Ok(());
        };
        let result = writer.release().await;
        write_outcome(&result);
        result
    }

    /// Checks that a reader's view fits the results so far, whatever else fails.
    pub(crate) async fn check_reader_view(&self) -> Result<()> {
        let view = self.backend.read_journal(self.lineage, None).await;
        write_outcome(&view);
        self.oracle.judge(&view?.frames, Slot::ZERO, false);
        Ok(())
    }

    /// As [`Self::check_reader_view`], on a store whose lists and reads are current: the view also contains each frame that
    /// was acknowledged before, and all of it stays.
    pub(crate) async fn check_current_view(&self) -> Result<()> {
        let acknowledged = self.oracle.acknowledged();
        let called = self.oracle.lock_history.moment();
        let view = self.backend.read_journal(self.lineage, None).await;
        write_outcome(&view);
        let view = view?;
        self.oracle.judge(&view.frames, Slot::ZERO, false);
        let frames: BTreeMap<Slot, &[u8]> = view
            .frames
            .iter()
            .map(|frame| (frame.slot(), frame.payload()))
            .collect();
        for (slot, payload) in acknowledged.range(view.head.base.start..) {
            let shown = frames.get(slot).copied();
            assert_eq!(shown, Some(&**payload), "an acknowledged frame isn't shown");
        }
        self.oracle.show(&view.frames);
        let lock = view.head.client_lock.map(|lock| lock.id);
        self.oracle.lock_history.read(called, lock);
        Ok(())
    }
}

pub(super) fn name() -> StackName {
    StackName::new("shop", "production").unwrap()
}

/// Creates the stack that the writers share.
pub(crate) async fn new_stack(backend: &ObjectBackend, entropy: &SeededEntropy) -> Result<Lineage> {
    let lineage = Lineage::random(entropy);
    backend
        .create_stack(&Head::new(lineage, name(), Nonce::random(entropy)))
        .await?;
    Ok(lineage)
}
