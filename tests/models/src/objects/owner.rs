//! The steps of a writer that took the stack over: appends, head swaps, compaction, collection, key rotation.

use super::state::{Flaw, Objects, Phase, State, Writer};
use super::store::{Compaction, Frame, Head, Request};
use crate::extensions::Extension;

/// A step of a writer that may append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Creates the next slot and gets an answer, or sends an append in doubt again and reads the slot back.
    Append,
    /// Creates the next slot, and gets no answer.
    AppendWithoutAnswer,
    /// Sends the next slot, and stops waiting before it lands.
    AppendLate,
    /// Reports that the outcome of the append is unknown, and writes nothing more.
    GiveUp,
    /// Reports an append in doubt as not applied, and uses its slot for the next record ([`Flaw::SlotTriedAgain`]).
    TrySlotAgain,
    /// Swaps the head for one whose base is the acknowledged state.
    Checkpoint,
    /// Sends the swap of a checkpoint, and stops waiting before it lands.
    CheckpointLate,
    /// Reads the head again, because an earlier swap may have landed late.
    ReadHeadAgain,
    /// Swaps the head for one that closes the journal at its end, and releases the lock.
    Close,
    /// As [`Owner::Close`], with a head that names a checkpoint too.
    CloseWithCheckpoint,
    /// As [`Owner::Close`], with a head that names a compaction, which is stored or, after a crash, missing.
    CloseWithCompaction {
        /// Whether the compaction was stored.
        is_stored: bool,
    },
    /// Sends the swap that closes the journal, and stops waiting before it lands.
    CloseLate,
    /// Stores a compaction of the frames since the base.
    StoreCompaction,
    /// Swaps the head for one that names the compaction.
    NameCompaction,
    /// Swaps the head for one whose history floor is its base.
    RaiseFloor,
    /// Reads the head before a deletion.
    BeginDeletion,
    /// Deletes a slot below the floor.
    DeleteSlot,
    /// Swaps the head for one with a client lock of this process.
    SetClientLock,
    /// Swaps the head for one without a client lock.
    ClearClientLock,
    /// Swaps the head for one with a new data key, whose base is sealed with that key.
    RotateKey,
}

impl Owner {
    /// Adds the steps that a writer may take next.
    pub fn next(model: &Objects, state: &State, at: usize, add: &mut impl FnMut(Self)) {
        let writer = &state.writers[at];
        if writer.phase != Phase::Open {
            return;
        }
        append_steps(model, state, writer, add);
        if writer.head_unknown {
            add(Self::ReadHeadAgain);
        } else {
            swap_steps(model, state, writer, add);
            extension_steps(model, state, at, add);
        }
        collection_steps(model, state, writer, add);
    }

    /// Changes the state as the step does.
    pub fn take(self, model: &Objects, state: &mut State, at: usize) {
        let writer = state.writers[at];
        let journal = writer.journal;
        match self {
            Self::Append => append(state, at),
            Self::AppendWithoutAnswer => {
                let (record, frame) = next_frame(state, at);
                state.store.create(journal.end, frame);
                state.writers[at].in_doubt = Some(record);
            }
            Self::AppendLate => {
                let (record, frame) = next_frame(state, at);
                state.store.send_late(Request::Create(journal.end, frame));
                state.writers[at].in_doubt = Some(record);
            }
            Self::GiveUp => state.stop(at),
            Self::TrySlotAgain => {
                state.not_applied = state.not_applied.with(next_frame(state, at).0);
                state.writers[at].in_doubt = None;
            }
            Self::StoreCompaction => {
                state.store.store_compaction(compaction(&writer));
                state.writers[at].compaction = Some(compaction(&writer));
            }
            Self::NameCompaction => name_compaction(model, state, at),
            Self::BeginDeletion => begin_deletion(model, state, at),
            Self::DeleteSlot => delete_slot(model, state, at),
            _ => self.change_head(model, state, at),
        }
    }

    /// Takes a step that changes the head.
    fn change_head(self, model: &Objects, state: &mut State, at: usize) {
        let writer = state.writers[at];
        match self {
            Self::Checkpoint => swap(state, at, moved_base(writer.seen, &writer)),
            Self::CheckpointLate => swap_late(state, at, moved_base(writer.seen, &writer)),
            Self::ReadHeadAgain => read_head_again(state, at),
            Self::Close => close(state, at, writer.seen),
            Self::CloseWithCheckpoint => close(state, at, moved_base(writer.seen, &writer)),
            Self::CloseWithCompaction { is_stored } => close_with_compaction(state, at, is_stored),
            Self::CloseLate => {
                swap_late(state, at, closed(writer.seen, &writer));
                if !model.is(Flaw::AppendAfterClose) {
                    state.stop(at);
                }
            }
            Self::RaiseFloor => {
                let floor = writer.seen.start;
                swap(state, at, Head { floor, ..writer.seen });
            }
            Self::SetClientLock => {
                state.client_locks += 1;
                let client_lock = u8::try_from(at).ok();
                swap(
                    state,
                    at,
                    Head {
                        client_lock,
                        ..writer.seen
                    },
                );
            }
            Self::ClearClientLock => {
                let client_lock = None;
                swap(
                    state,
                    at,
                    Head {
                        client_lock,
                        ..writer.seen
                    },
                );
            }
            Self::RotateKey => {
                let head = moved_base(writer.seen, &writer);
                let (key, watermark) = (head.key + 1, writer.journal.end);
                swap(
                    state,
                    at,
                    Head {
                        key,
                        watermark,
                        ..head
                    },
                );
            }
            _ => {}
        }
    }
}

fn append_steps(model: &Objects, state: &State, writer: &Writer, add: &mut impl FnMut(Owner)) {
    let is_in_doubt = writer.in_doubt.is_some();
    if is_in_doubt {
        add(Owner::GiveUp);
    }
    if is_in_doubt || state.appended < model.appends {
        add(Owner::Append);
        let is_free = state.store.slot(writer.journal.end).is_none();
        if is_free {
            add(Owner::AppendWithoutAnswer);
        }
        if model.late_requests && !is_in_doubt {
            add(Owner::AppendLate);
        }
        if is_free && is_in_doubt && model.is(Flaw::SlotTriedAgain) {
            add(Owner::TrySlotAgain);
        }
    }
}

fn swap_steps(model: &Objects, state: &State, writer: &Writer, add: &mut impl FnMut(Owner)) {
    let has_new = writer.journal.records != writer.seen.content;
    if has_new {
        add(Owner::Checkpoint);
    }
    let may_be_late = model.late_requests && state.store.late.len() < 3;
    if has_new && may_be_late {
        add(Owner::CheckpointLate);
    }
    // The queue settles its last append before the journal is closed.
    if writer.in_doubt.is_none() {
        add(Owner::Close);
        if may_be_late {
            add(Owner::CloseLate);
        }
        if has_new {
            add(Owner::CloseWithCheckpoint);
        }
    }
}

fn extension_steps(model: &Objects, state: &State, at: usize, add: &mut impl FnMut(Owner)) {
    let writer = &state.writers[at];
    let is_settled = writer.in_doubt.is_none();
    if model.has(Extension::Compaction) {
        let next = compaction(writer);
        let is_new = next.end > next.start && writer.seen.compaction != Some(next);
        if is_new && writer.compaction.is_none() {
            add(Owner::StoreCompaction);
        }
        if is_new && is_settled {
            add(Owner::CloseWithCompaction { is_stored: true });
            add(Owner::CloseWithCompaction { is_stored: false });
        }
        if writer.compaction.is_some() {
            add(Owner::NameCompaction);
        }
    }
    if model.has(Extension::Collection) && writer.seen.floor < writer.seen.start {
        add(Owner::RaiseFloor);
    }
    if model.has(Extension::ClientLock) {
        match writer.seen.client_lock {
            None if state.client_locks == 0 => add(Owner::SetClientLock),
            None => {}
            Some(_) => add(Owner::ClearClientLock),
        }
    }
    // The queue is ended before a rotation, so it has no append in flight.
    let may_rotate = is_settled || model.is(Flaw::RotationDuringAppend);
    if model.has(Extension::KeyRotation) && may_rotate && writer.seen.key == 0 {
        add(Owner::RotateKey);
    }
}

fn collection_steps(model: &Objects, state: &State, writer: &Writer, add: &mut impl FnMut(Owner)) {
    if !model.has(Extension::Collection) {
        return;
    }
    let fences = model.is(Flaw::FencesDeleted);
    let remains = |below: u8| state.store.deletable(below, fences).is_some();
    let floor = state.store.head.floor;
    let is_over = model.is(Flaw::NoGrace) || !state.is_read_below(floor);
    if writer.deleting == 0 && remains(floor) && is_over {
        add(Owner::BeginDeletion);
    }
    if remains(writer.deleting) {
        add(Owner::DeleteSlot);
    }
}

/// The record and the frame that the writer appends next: a new record, unless an append is in doubt.
fn next_frame(state: &mut State, at: usize) -> (u8, Frame) {
    let writer = &state.writers[at];
    let record = writer.in_doubt.unwrap_or(state.appended);
    state.appended = state.appended.max(record + 1);
    let frame = Frame::Data {
        epoch: writer.epoch,
        record,
        key: writer.seen.key,
    };
    (record, frame)
}

fn append(state: &mut State, at: usize) {
    let (record, frame) = next_frame(state, at);
    let writer = &mut state.writers[at];
    let stored = state.store.create(writer.journal.end, frame);
    if stored != frame {
        // The slot will never hold the frame, so it is certain that the record isn't applied.
        state.not_applied = state.not_applied.with(record);
        return state.stop(at);
    }
    state.acknowledged = state.acknowledged.with(record);
    writer.in_doubt = None;
    state.false_alarm |= writer.journal.push(frame, frame_key(frame)).is_err();
}

fn frame_key(frame: Frame) -> u8 {
    match frame {
        Frame::Data { key, .. } => key,
        Frame::Fence { .. } => 0,
    }
}

/// A head whose base is the state after the acknowledged frames.
const fn moved_base(head: Head, writer: &Writer) -> Head {
    Head {
        start: writer.journal.end,
        content: writer.journal.records,
        compaction: None,
        ..head
    }
}

const fn closed(head: Head, writer: &Writer) -> Head {
    Head {
        closed: true,
        watermark: writer.journal.end,
        ..head
    }
}

const fn compaction(writer: &Writer) -> Compaction {
    Compaction {
        start: writer.seen.start,
        end: writer.journal.end,
        content: writer.journal.records,
    }
}

const fn named(head: Head, compaction: Compaction) -> Head {
    Head {
        compaction: Some(compaction),
        ..head
    }
}

/// Replaces the head, or reads it again because an earlier swap of this writer landed late. A head of another epoch fences the
/// writer. Returns whether the head was replaced.
fn try_swap(state: &mut State, at: usize, head: Head) -> bool {
    let seen = state.writers[at].seen;
    let current = state.store.head;
    if current.version == seen.version {
        state.store.swap(seen.version, head);
        state.writers[at].seen = state.store.head;
        return true;
    }
    if current.epoch != state.writers[at].epoch {
        state.stop(at);
    } else {
        state.writers[at].seen = current;
    }
    false
}

fn swap(state: &mut State, at: usize, head: Head) {
    try_swap(state, at, head);
}

fn swap_late(state: &mut State, at: usize, head: Head) {
    let expected = state.writers[at].seen.version;
    state.store.send_late(Request::Swap(expected, head));
    state.writers[at].head_unknown = true;
}

fn read_head_again(state: &mut State, at: usize) {
    let head = state.store.head;
    if head.epoch != state.writers[at].epoch {
        return state.stop(at);
    }
    state.writers[at].seen = head;
    state.writers[at].head_unknown = false;
}

fn close(state: &mut State, at: usize, head: Head) {
    let head = closed(head, &state.writers[at]);
    let before = state.writers[at].seen.compaction;
    if try_swap(state, at, head) {
        let unused = before.filter(|before| head.compaction != Some(*before));
        if let Some(unused) = unused {
            state.store.delete_compaction(unused);
        }
        state.stop(at);
    }
}

fn close_with_compaction(state: &mut State, at: usize, is_stored: bool) {
    let writer = state.writers[at];
    let compaction = compaction(&writer);
    if is_stored {
        state.store.store_compaction(compaction);
    }
    close(state, at, named(writer.seen, compaction));
}

fn name_compaction(model: &Objects, state: &mut State, at: usize) {
    let writer = &mut state.writers[at];
    let Some(compaction) = writer.compaction.take() else {
        return;
    };
    let head = named(writer.seen, compaction);
    if model.is(Flaw::CompactionNamedBlindly) {
        let current = state.store.head.version;
        state.store.swap(current, head);
        state.writers[at].seen = state.store.head;
    } else if compaction.start == writer.seen.start {
        // A checkpoint may have moved the base since the compaction was stored.
        swap(state, at, head);
    }
}

fn begin_deletion(model: &Objects, state: &mut State, at: usize) {
    let head = state.store.head;
    let writer = &mut state.writers[at];
    if head.epoch != writer.epoch {
        return state.stop(at);
    }
    writer.deleting = match model.is(Flaw::DeletedAboveFloor) {
        true => writer.journal.end,
        false => head.floor,
    };
}

fn delete_slot(model: &Objects, state: &mut State, at: usize) {
    let fences = model.is(Flaw::FencesDeleted);
    let deleting = state.writers[at].deleting;
    if let Some(slot) = state.store.deletable(deleting, fences) {
        state.store.delete(slot);
    }
    if state.store.deletable(deleting, fences).is_none() {
        state.writers[at].deleting = 0;
    }
}
