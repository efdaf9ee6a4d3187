//! Writers on one stack, and an oracle that sees only the results that the writers received.

use super::*;
use bytes::Bytes;
use state_core::backend::{
    Acquire, ClientLock, CollectableStore, Holder, NamePointer, NameTarget, ObjectName, StoredItemName, Tail,
};
use state_core::head::{Base, Collection, SnapshotRef};
use state_core::journal::FrameKind;
use state_core::testkit::clock::SeededEntropy;
use state_core::{
    Backend, Digest, Epoch, Error, Frame, Head, Lineage, Nonce, Result, Serial, Slot, StackName, Timestamp,
    Writer,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

/// The outcome of a write, as far as its writer knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteOutcome {
    Acknowledged,
    /// The write definitely had no effect.
    NotApplied,
    Unknown,
}

/// A frame that a writer tried to append, and the result.
#[derive(Clone, Debug)]
struct AppendAttempt {
    who: String,
    slot: Slot,
    payload: Vec<u8>,
    write_outcome: WriteOutcome,
}

/// The results of all writers together.
#[derive(Debug, Default)]
pub(crate) struct Oracle {
    tried: Mutex<Vec<AppendAttempt>>,
    /// Ids of client locks whose swap was acknowledged, and of those that may have taken effect.
    locks: Mutex<Vec<(String, WriteOutcome)>>,
    pointers: Mutex<Vec<(NamePointer, WriteOutcome)>>,
    /// The payloads that readers saw, which must stay.
    shown: Mutex<BTreeMap<Slot, Vec<u8>>>,
}

pub(crate) fn write_outcome<T>(result: &Result<T>) -> WriteOutcome {
    match result {
        Ok(_) => WriteOutcome::Acknowledged,
        Err(
            Error::Indeterminate { .. }
            | Error::Fenced {
                indeterminate: true, ..
            },
        ) => WriteOutcome::Unknown,
        Err(error) => {
            assert!(
                !matches!(error, Error::Corrupt { .. } | Error::Malformed { .. }),
                "{error:?}"
            );
            WriteOutcome::NotApplied
        }
    }
}

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
        let acquired = self.backend.acquire(self.lineage, &request).await;
        write_outcome(&acquired);
        let acquired = acquired?;
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
        };
        let at = pushed(&self.oracle.tried, attempt);
        let result = writer.append(&frame).await;
        self.oracle.tried.lock().unwrap()[at].write_outcome = write_outcome(&result);
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
        let at = pushed(&self.oracle.locks, (id, WriteOutcome::Unknown));
        let result = writer.swap_head(self.nonce(), &change).await;
        self.oracle.locks.lock().unwrap()[at].1 = write_outcome(&result);
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
        let head = swapped?;
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
        let there = self.backend.read_name(&name).await?;
        let pointer = NamePointer::new(name.clone(), NameTarget::Lineage(self.lineage), self.nonce());
        let expected = there.map(|there| there.nonce);
        let at = pushed(&self.oracle.pointers, (pointer.clone(), WriteOutcome::Unknown));
        let result = self.backend.swap_name(&name, expected, &pointer).await;
        self.oracle.pointers.lock().unwrap()[at].1 = write_outcome(&result);
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
}

/// Appends an element, and returns its index.
fn pushed<T>(list: &Mutex<Vec<T>>, element: T) -> usize {
    let mut list = list.lock().unwrap();
    list.push(element);
    list.len() - 1
}

impl Actor {
    /// As [`Self::check_reader_view`], on a store whose lists and reads are current: the view also contains each frame that
    /// was acknowledged before, and all of it stays.
    pub(crate) async fn check_current_view(&self) -> Result<()> {
        let acknowledged = self.oracle.acknowledged();
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
        Ok(())
    }
}

fn name() -> StackName {
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

impl Oracle {
    /// Returns the acknowledged payloads.
    fn acknowledged(&self) -> BTreeMap<Slot, Vec<u8>> {
        let tried = self.tried.lock().unwrap();
        let acknowledged = tried
            .iter()
            .filter(|tried| tried.write_outcome == WriteOutcome::Acknowledged);
        acknowledged
            .map(|tried| (tried.slot, tried.payload.clone()))
            .collect()
    }

    /// Records what a reader saw. Two readers never see different frames in one slot.
    fn show(&self, frames: &[Frame]) {
        let mut shown = self.shown.lock().unwrap();
        for frame in frames {
            let before = shown.insert(frame.slot(), frame.payload().to_vec());
            assert!(
                before.is_none_or(|before| before == frame.payload()),
                "a frame was replaced after a reader had seen it"
            );
        }
    }

    /// Reads everything at the end, without faults, and checks it.
    pub(crate) async fn judge_store(&self, backend: &ObjectBackend, lineage: Lineage) {
        let head = backend.read_head(lineage).await.unwrap();
        let view = backend.read_journal(lineage, Some(head.floor)).await.unwrap();
        self.judge(&view.frames, head.floor, true);
        backend.read_journal(lineage, None).await.unwrap();
        let lock = head.client_lock.map(|lock| lock.id);
        check_last(&self.locks.lock().unwrap(), lock.as_ref());
        let pointer = backend.read_name(&name()).await.unwrap();
        check_last(&self.pointers.lock().unwrap(), pointer.as_ref());
    }

    /// Checks that each acknowledged frame exists once, in its slot and in order, and that no refused frame exists.
    fn judge(&self, frames: &[Frame], floor: Slot, whole: bool) {
        let tried = self.tried.lock().unwrap();
        let mut seen = BTreeSet::new();
        let mut epoch = Epoch::ZERO;
        for frame in frames {
            assert!(
                frame.epoch() >= epoch,
                "a frame of an older owner follows one of a newer owner"
            );
            epoch = frame.epoch();
            if frame.kind() == FrameKind::Fence {
                continue;
            }
            assert!(seen.insert(frame.payload().to_vec()), "a frame exists twice");
            let known = tried.iter().find(|tried| tried.payload == frame.payload());
            // A reader may see the frame before its writer gets the answer.
            let Some(known) = known else {
                assert!(!whole, "a frame that no writer wrote");
                continue;
            };
            assert_ne!(
                known.write_outcome,
                WriteOutcome::NotApplied,
                "a refused frame is visible: {known:?}"
            );
            assert_eq!(known.slot, frame.slot(), "{known:?}");
        }
        let shown = self.shown.lock().unwrap();
        for (slot, payload) in shown.range(floor..).filter(|_| whole) {
            let stays = frames
                .iter()
                .any(|frame| frame.slot() == *slot && frame.payload() == payload);
            assert!(stays, "a reader saw a frame that is gone: {slot}");
        }
        for tried in tried.iter().filter(|_| whole) {
            let is_lost = tried.write_outcome == WriteOutcome::Acknowledged
                && tried.slot >= floor
                && !seen.contains(&tried.payload);
            assert!(
                !is_lost,
                "an acknowledged frame is lost: {tried:?} of {tried:#?}",
                tried = tried.who
            );
        }
    }

    pub(crate) fn count(&self, write_outcome: WriteOutcome) -> usize {
        self.tried
            .lock()
            .unwrap()
            .iter()
            .filter(|tried| tried.write_outcome == write_outcome)
            .count()
    }
}

/// Checks the present value against all writes. It must be the last acknowledged value, or a later value whose outcome
/// is unknown. No refused value may be present, and no value that is older than an acknowledged one.
fn check_last<T: PartialEq + std::fmt::Debug>(said: &[(T, WriteOutcome)], there: Option<&T>) {
    let last = said
        .iter()
        .rposition(|(_, write_outcome)| *write_outcome == WriteOutcome::Acknowledged);
    let Some(there) = there else {
        assert_eq!(last, None, "the acknowledged value is missing: {said:?}");
        return;
    };
    let found = said.iter().position(|(value, _)| value == there);
    let found = found.unwrap_or_else(|| panic!("{there:?} was never written: {said:?}"));
    assert_ne!(
        said[found].1,
        WriteOutcome::NotApplied,
        "{there:?} was refused: {said:?}"
    );
    assert!(
        last.is_none_or(|last| found >= last),
        "{there:?} is older than what was acknowledged: {said:?}"
    );
}
