//! The steps of a takeover: head, lease, head, journal, fence.

use super::state::{Flaw, Objects, Phase, State, Writer};
use super::store::{Frame, Head, Request};
use crate::extensions::Extension;

/// A step of a writer that takes the stack over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takeover {
    /// Reads the head as it is stored now.
    ReadHead,
    /// Replaces the lease that is stored now, with an epoch above those of lease and head. A lease may end or be broken at any
    /// time, so a takeover waits for no one.
    TakeLease,
    /// Reads the journal of a closed head while the lease is written.
    ReadClosedJournal,
    /// Replaces the head by one with the new epoch, or reads it again because it changed.
    RaiseEpoch,
    /// Lists the slots that exist now.
    ListSlots,
    /// Reads the listed slots, and those after them.
    ReadSlots,
    /// Creates the fence in the first free slot, or reads the frame that is there.
    PutFence,
    /// Sends the fence, and gives up before it lands.
    PutFenceLate,
}

impl Takeover {
    /// Adds the steps that a writer may take next.
    pub fn next(model: &Objects, state: &State, at: usize, add: &mut impl FnMut(Self)) {
        let writer = &state.writers[at];
        match writer.phase {
            Phase::Idle if state.store.lease < model.takeovers => add(Self::ReadHead),
            Phase::HeadRead if state.store.lease < model.takeovers => add(Self::TakeLease),
            Phase::LeaseTaken => {
                if writer.seen.closed && writer.early.is_none() {
                    add(Self::ReadClosedJournal);
                }
                add(Self::RaiseEpoch);
            }
            Phase::HeadRaised => add(Self::ListSlots),
            Phase::Listed(_) => add(Self::ReadSlots),
            Phase::JournalRead => {
                add(Self::PutFence);
                if model.late_requests && state.store.slot(writer.journal.end).is_none() {
                    add(Self::PutFenceLate);
                }
            }
            Phase::Idle | Phase::HeadRead | Phase::Open => {}
        }
    }

    /// Changes the state as the step does.
    pub fn take(self, model: &Objects, state: &mut State, at: usize) {
        let epoch = state.writers[at].epoch;
        match self {
            Self::ReadHead => read_head(model, state, at),
            Self::TakeLease => {
                let store = &mut state.store;
                store.lease = store.lease.max(state.writers[at].seen.epoch) + 1;
                state.writers[at].epoch = store.lease;
                state.writers[at].phase = Phase::LeaseTaken;
            }
            Self::ReadClosedJournal => {
                let seen = state.writers[at].seen;
                if let Ok(journal) = state.store.read(&seen, 0) {
                    state.writers[at].early = Some((seen.version, journal));
                }
            }
            Self::RaiseEpoch => raise_epoch(model, state, at),
            Self::ListSlots => state.writers[at].phase = Phase::Listed(state.store.list()),
            Self::ReadSlots => read_slots(model, state, at),
            Self::PutFence => put_fence(model, state, at),
            Self::PutFenceLate => {
                let request = Request::Create(state.writers[at].journal.end, Frame::Fence { epoch });
                state.store.send_late(request);
                state.stop(at);
            }
        }
    }
}

/// A client that may not write takes nothing over: the first of the two comparisons with the client lock.
fn read_head(model: &Objects, state: &mut State, at: usize) {
    let head = state.store.head;
    if is_locked(head.client_lock, at) {
        return;
    }
    let writer = &mut state.writers[at];
    writer.phase = Phase::HeadRead;
    writer.seen = head;
    if model.is(Flaw::ClientLockOfFirstHead) || model.is(Flaw::KeyOfFirstHead) {
        writer.first = (head.client_lock, head.key);
    }
}

fn raise_epoch(model: &Objects, state: &mut State, at: usize) {
    let writer = &mut state.writers[at];
    let current = state.store.head;
    if writer.seen.version != current.version && !model.is(Flaw::EpochRaisedBlindly) {
        if current.epoch >= writer.epoch {
            return state.stop(at);
        }
        writer.seen = current;
        return;
    }
    let replaced = writer.seen;
    let raised = Head {
        epoch: writer.epoch,
        closed: false,
        ..replaced
    };
    state.store.swap(current.version, raised);
    let raised = state.store.head;
    let early = writer.early.take();
    *writer = Writer {
        seen: raised,
        phase: if replaced.closed {
            Phase::Listed(0)
        } else {
            Phase::HeadRaised
        },
        was_closed: replaced.closed,
        ..*writer
    };
    if let Some((version, journal)) = early
        && version == replaced.version
    {
        writer.journal = journal;
        writer.was_closed = false;
        writer.phase = opened(model);
    }
}

/// The phase after the journal was read.
fn opened(model: &Objects) -> Phase {
    match model.is(Flaw::NoFence) {
        true => Phase::Open,
        false => Phase::JournalRead,
    }
}

fn read_slots(model: &Objects, state: &mut State, at: usize) {
    let writer = &mut state.writers[at];
    let Phase::Listed(listed) = writer.phase else {
        return;
    };
    // The end of a journal that was closed is known, until the new owner appends to it.
    let read_as = Head {
        closed: writer.was_closed,
        ..writer.seen
    };
    match state.store.read(&read_as, listed) {
        Ok(journal) if journal.epoch > writer.epoch => state.stop(at),
        Ok(journal) => {
            writer.journal = journal;
            writer.was_closed = false;
            writer.phase = opened(model);
        }
        Err(_) => {
            state.false_alarm |= state.store.head.version == writer.seen.version;
            state.stop(at);
        }
    }
}

fn put_fence(model: &Objects, state: &mut State, at: usize) {
    let writer = &mut state.writers[at];
    let fence = Frame::Fence { epoch: writer.epoch };
    let frame = state.store.create(writer.journal.end, fence);
    if frame != fence && frame.epoch() >= writer.epoch {
        return state.stop(at);
    }
    if writer.journal.push(frame, writer.seen.key).is_err() {
        state.false_alarm = true;
        return state.stop(at);
    }
    if frame != fence {
        return;
    }
    let (first_lock, first_key) = writer.first;
    if model.is(Flaw::KeyOfFirstHead) {
        writer.seen.key = first_key;
    }
    let lock = match model.is(Flaw::ClientLockOfFirstHead) {
        true => first_lock,
        false => writer.seen.client_lock,
    };
    writer.first = (None, 0);
    writer.phase = Phase::Open;
    // The second comparison with the client lock: another client may have set one since the first.
    if model.has(Extension::ClientLock) && is_locked(lock, at) {
        state.stop(at);
    }
}

fn is_locked(client_lock: Option<u8>, at: usize) -> bool {
    client_lock.is_some_and(|client| usize::from(client) != at)
}
