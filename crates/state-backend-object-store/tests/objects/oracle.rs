//! An oracle that sees only the results that the writers received.

use super::history::{History, Moment, out_of_order};
use super::model::name;
use super::*;
use state_core::backend::NamePointer;
use state_core::journal::FrameKind;
use state_core::{Backend, Epoch, Error, Frame, Lineage, Result, Slot};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
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
pub(super) struct AppendAttempt {
    pub(super) who: String,
    pub(super) slot: Slot,
    pub(super) payload: Vec<u8>,
    pub(super) write_outcome: WriteOutcome,
    pub(super) time: Range<Moment>,
}

/// The results of all writers together.
#[derive(Debug)]
pub(crate) struct Oracle {
    pub(super) tried: Mutex<Vec<AppendAttempt>>,
    /// Ids of client locks whose swap was acknowledged, and of those that may have taken effect.
    pub(super) locks: Mutex<Vec<(String, WriteOutcome)>>,
    pub(super) pointers: Mutex<Vec<(NamePointer, WriteOutcome)>>,
    /// The ids of client locks, as writers set and readers saw them. All moments are those of this history.
    pub(super) lock_history: History<Option<String>>,
    /// The name pointers, by their nonces.
    pub(super) pointer_history: History<Option<String>>,
    /// The epochs of the locks that writers took.
    pub(super) epochs: Mutex<Vec<(Epoch, Range<Moment>)>>,
    /// The payloads that readers saw, which must stay.
    pub(super) shown: Mutex<BTreeMap<Slot, Vec<u8>>>,
}

impl Default for Oracle {
    fn default() -> Self {
        Self {
            tried: Mutex::default(),
            locks: Mutex::default(),
            pointers: Mutex::default(),
            lock_history: History::new(),
            pointer_history: History::new(),
            epochs: Mutex::default(),
            shown: Mutex::default(),
        }
    }
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

/// Appends an element, and returns its index.
pub(super) fn pushed<T>(list: &Mutex<Vec<T>>, element: T) -> usize {
    let mut list = list.lock().unwrap();
    list.push(element);
    list.len() - 1
}

impl Oracle {
    /// Returns the acknowledged payloads.
    pub(super) fn acknowledged(&self) -> BTreeMap<Slot, Vec<u8>> {
        let tried = self.tried.lock().unwrap();
        let acknowledged = tried
            .iter()
            .filter(|tried| tried.write_outcome == WriteOutcome::Acknowledged);
        acknowledged
            .map(|tried| (tried.slot, tried.payload.clone()))
            .collect()
    }

    /// Records what a reader saw. Two readers never see different frames in one slot.
    pub(super) fn show(&self, frames: &[Frame]) {
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

    /// Checks that all operations took effect one after the other, each at a moment between its call and its return. Needs a
    /// store whose reads are current, and views that are read by [`Actor::check_current_view`].
    pub(crate) fn judge_order(&self) {
        assert_eq!(self.lock_history.violation(), None, "client locks");
        assert_eq!(self.pointer_history.violation(), None, "name pointers");
        assert_eq!(out_of_order(&self.epochs.lock().unwrap()), None, "epochs");
        let tried = self.tried.lock().unwrap();
        let acknowledged = tried
            .iter()
            .filter(|tried| tried.write_outcome == WriteOutcome::Acknowledged);
        let slots: Vec<_> = acknowledged
            .map(|tried| (tried.slot, tried.time.clone()))
            .collect();
        assert_eq!(out_of_order(&slots), None, "appended frames");
    }

    /// Checks that each acknowledged frame exists once, in its slot and in order, and that no refused frame exists.
    pub(super) fn judge(&self, frames: &[Frame], floor: Slot, whole: bool) {
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
