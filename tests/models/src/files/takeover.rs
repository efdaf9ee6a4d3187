//! The steps of a takeover: lock file, head, segments, a new segment with a fence.

use super::disk::{GENERATIONS, Head, Segment};
use super::state::{Files, Flaw, Phase, State, process};
use crate::extensions::Extension;

/// A step of a writer that takes the stack over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takeover {
    /// Reads the head, to acquire the lock.
    ReadHead,
    /// Reads the head, to break the lock of another process.
    ReadHeadToBreak,
    /// Takes the lock file of the generation, or gives up because another process holds it.
    TakeLock,
    /// Reads the head again: the lock may have been broken in between.
    ReadHeadAgain,
    /// Takes `head.lock`, once it is free.
    TakeHeadLock,
    /// Compares the whole head, and reads the segments to find damage.
    CompareHead,
    /// Replaces the head by one with the next epoch.
    ReplaceHead,
    /// Syncs the folder of the head.
    SyncHead,
    /// Reads the segments that count, unless the journal was closed.
    ReadJournal,
    /// Writes the last frame again, and syncs segments and folder.
    SyncJournal,
    /// Creates a segment, whose fence names the end of the journal.
    CreateSegment,
    /// Syncs the folder of the journal, frees `head.lock`, and opens the stack.
    SyncSegment,
}

impl Takeover {
    /// Adds the steps that a writer may take next.
    pub fn next(model: &Files, state: &State, at: usize, add: &mut impl FnMut(Self)) {
        let writer = &state.writers[at];
        let disk = &state.disk;
        match writer.phase {
            Phase::Idle if disk.head.epoch < model.takeovers && !disk.head.removed => {
                add(Self::ReadHead);
                let generation = usize::from(disk.head.generation);
                let is_held = disk.locks[generation].is_some_and(|holder| holder != process(at));
                if is_held && state.count.breaks < model.breaks && generation + 1 < GENERATIONS {
                    add(Self::ReadHeadToBreak);
                }
            }
            Phase::HeadRead => add(Self::TakeLock),
            Phase::Locked if !model.is(Flaw::HeadNotReadAgain) => add(Self::ReadHeadAgain),
            Phase::Locked | Phase::Checked if disk.head_lock.is_none() || model.is(Flaw::NoHeadLock) => {
                add(Self::TakeHeadLock);
            }
            Phase::HeadLocked => add(Self::CompareHead),
            Phase::Compared => add(Self::ReplaceHead),
            Phase::HeadReplaced => add(Self::SyncHead),
            Phase::HeadDurable => add(Self::ReadJournal),
            Phase::JournalRead => add(Self::SyncJournal),
            Phase::JournalDurable => add(Self::CreateSegment),
            Phase::SegmentCreated => add(Self::SyncSegment),
            Phase::Idle | Phase::Locked | Phase::Checked | Phase::Open | Phase::Closed => {}
        }
    }

    /// Changes the state as the step does.
    pub fn take(self, model: &Files, state: &mut State, at: usize) {
        match self {
            Self::ReadHead => read_head(model, state, at, false),
            Self::ReadHeadToBreak => read_head(model, state, at, true),
            Self::TakeLock => take_lock(model, state, at),
            Self::ReadHeadAgain => read_head_again(state, at),
            Self::TakeHeadLock => {
                if !model.is(Flaw::NoHeadLock) {
                    state.disk.head_lock = Some(process(at));
                }
                state.writers[at].phase = Phase::HeadLocked;
            }
            Self::CompareHead => compare_head(model, state, at),
            Self::ReplaceHead => replace_head(model, state, at),
            Self::SyncHead => {
                if !model.is(Flaw::HeadNameNotSynced) {
                    state.disk.sync_head();
                }
                if model.is(Flaw::HeadLockFreedEarly) || model.is(Flaw::ForwardWalk) {
                    free_head_lock(state, at);
                }
                state.writers[at].phase = Phase::HeadDurable;
            }
            Self::ReadJournal => read_journal(model, state, at),
            Self::SyncJournal => sync_journal(model, state, at),
            Self::CreateSegment => create_segment(model, state, at),
            Self::SyncSegment => open(model, state, at),
        }
    }
}

/// A client that may not write takes nothing over: the first of the two comparisons with the client lock.
fn read_head(model: &Files, state: &mut State, at: usize, breaks: bool) {
    let head = state.disk.head;
    if is_locked(head.client_lock, at) {
        return;
    }
    state.count.breaks += u8::from(breaks);
    let writer = &mut state.writers[at];
    writer.phase = Phase::HeadRead;
    writer.breaks = breaks;
    writer.generation = head.generation + u8::from(breaks && !model.is(Flaw::BreakWithoutLock));
    writer.seen = head;
    if model.is(Flaw::ClientLockOfFirstHead) || model.is(Flaw::KeyOfFirstHead) {
        writer.first = (head.client_lock, head.key);
    }
}

fn take_lock(model: &Files, state: &mut State, at: usize) {
    let writer = &mut state.writers[at];
    let is_alone = writer.breaks && model.is(Flaw::BreakWithoutLock);
    let lock = &mut state.disk.locks[usize::from(writer.generation)];
    if lock.is_some() && !is_alone {
        return state.stop(at);
    }
    if !is_alone {
        *lock = Some(process(at));
        // The lock file names its holder now, instead of a closed head.
        state.disk.proof = state
            .disk
            .proof
            .filter(|(generation, _)| *generation != writer.generation);
    }
    writer.phase = if writer.breaks {
        Phase::Checked
    } else {
        Phase::Locked
    };
}

fn read_head_again(state: &mut State, at: usize) {
    let head = state.disk.head;
    let writer = &mut state.writers[at];
    if head.generation != writer.generation || head.removed {
        return state.stop(at);
    }
    writer.seen = head;
    writer.phase = Phase::Checked;
}

fn compare_head(model: &Files, state: &mut State, at: usize) {
    let current = state.disk.head;
    let skips = model.is(Flaw::HeadNotCompared) || model.is(Flaw::HeadChangedInPlace);
    let writer = &mut state.writers[at];
    if (current != writer.seen && !skips) || current.removed {
        return state.stop(at);
    }
    let seen = writer.seen;
    match state.disk.read(&seen, model.walk(seen.epoch)) {
        Ok(journal) => {
            writer.journal = journal;
            // A closed journal is durable, and takes no frame of its last owner.
            writer.was_closed = seen.closed && journal.end == seen.watermark;
            writer.phase = Phase::Compared;
        }
        Err(_) => {
            state.false_alarm |= current == seen;
            state.stop(at);
        }
    }
}

fn replace_head(model: &Files, state: &mut State, at: usize) {
    let current = state.disk.head;
    let others = state.writers.iter().enumerate().filter(|(other, _)| *other != at);
    let holds = |phase: Phase| {
        !matches!(
            phase,
            Phase::Idle
                | Phase::HeadRead
                | Phase::Locked
                | Phase::Checked
                | Phase::HeadLocked
                | Phase::Compared
        )
    };
    let is_live = others
        .filter(|(_, other)| other.epoch == current.epoch)
        .any(|(_, other)| holds(other.phase));
    let writer = &mut state.writers[at];
    state.stolen |= is_live && !writer.breaks;
    let from = match model.is(Flaw::HeadChangedInPlace) {
        true => current,
        false => writer.seen,
    };
    let head = state.disk.replace_head(Head {
        epoch: from.epoch + 1,
        generation: writer.generation.max(from.generation),
        closed: false,
        ..from
    });
    state.went_back |= head.epoch <= current.epoch;
    writer.epoch = head.epoch;
    writer.seen = head;
    writer.phase = Phase::HeadReplaced;
}

fn read_journal(model: &Files, state: &mut State, at: usize) {
    let writer = &mut state.writers[at];
    if writer.was_closed {
        writer.phase = Phase::JournalDurable;
        return;
    }
    writer.phase = Phase::JournalRead;
    if model.is(Flaw::JournalReadBeforeHead) {
        return;
    }
    // No segment has the new epoch yet.
    match state.disk.read(&writer.seen, model.walk(writer.epoch - 1)) {
        Ok(journal) => writer.journal = journal,
        Err(_) => {
            state.false_alarm |= state.disk.head == writer.seen;
            state.stop(at);
        }
    }
}

fn sync_journal(model: &Files, state: &mut State, at: usize) {
    let writer = &mut state.writers[at];
    writer.phase = Phase::JournalDurable;
    let journal = writer.journal;
    if model.is(Flaw::TakeoverWithoutSync) || journal.end == writer.seen.watermark {
        return;
    }
    if let Some(last) = state.disk.segment_mut(journal.end.segment)
        && !model.is(Flaw::LastFrameNotRewritten)
    {
        last.dropped = false;
    }
    state.disk.segments.iter_mut().for_each(Segment::sync);
    state.disk.sync_names();
}

fn create_segment(model: &Files, state: &mut State, at: usize) {
    let writer = &mut state.writers[at];
    let key = match model.is(Flaw::KeyOfFirstHead) {
        true => writer.first.1,
        false => writer.seen.key,
    };
    writer.segment = Segment::first_of(writer.epoch);
    writer.phase = Phase::SegmentCreated;
    let segment = Segment::new(writer.segment, writer.journal.end, key);
    if !state.disk.create_segment(segment) {
        state.went_back = true;
        state.stop(at);
    }
}

fn free_head_lock(state: &mut State, at: usize) {
    if state.disk.head_lock == Some(process(at)) {
        state.disk.head_lock = None;
    }
}

fn open(model: &Files, state: &mut State, at: usize) {
    state.disk.sync_names();
    free_head_lock(state, at);
    let writer = &mut state.writers[at];
    state.shown_version = state.shown_version.max(writer.seen.version);
    writer.phase = Phase::Open;
    let lock = match model.is(Flaw::ClientLockOfFirstHead) {
        true => writer.first.0,
        false => writer.seen.client_lock,
    };
    writer.first = (None, 0);
    writer.was_closed = false;
    // The second comparison with the client lock: another client may have set one since the first.
    if model.has(Extension::ClientLock) && is_locked(lock, at) {
        state.stop(at);
    }
}

fn is_locked(client_lock: Option<u8>, at: usize) -> bool {
    client_lock.is_some_and(|client| client != process(at))
}
