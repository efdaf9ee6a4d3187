//! The steps of a reader, which takes no lock unless a takeover is under way.

use super::disk::{Segment, Walk};
use super::state::{Files, Flaw, READER, ReadPhase, Reader, State};

/// A step of the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// Reads the head as it is stored now.
    ReadHead,
    /// Lists the segments that exist now.
    ListSegments,
    /// Reads the segments that count.
    ReadJournal,
    /// Syncs what it read, unless that is known to be durable.
    Sync,
    /// Reads the head again, and returns the state or starts over.
    Finish,
    /// Takes `head.lock`, because a takeover has raised the epoch and stored no segment yet.
    TakeHeadLock,
    /// Reads head and segments under the lock.
    ReadUnderLock,
    /// Syncs what it read, returns the state, and frees the lock.
    FinishUnderLock,
}

impl Read {
    /// Adds the step that the reader takes next.
    pub fn next(model: &Files, state: &State, add: &mut impl FnMut(Self)) {
        let reader = &state.reader;
        match reader.phase {
            ReadPhase::Idle if reader.reads < model.reads => add(Self::ReadHead),
            ReadPhase::Idle => {}
            ReadPhase::HeadRead => add(Self::ListSegments),
            ReadPhase::Listed(_) => add(Self::ReadJournal),
            ReadPhase::JournalRead => add(Self::Sync),
            ReadPhase::Durable if !is_takeover_under_way(model, reader) => add(Self::Finish),
            ReadPhase::Durable if state.disk.head_lock.is_none() => add(Self::TakeHeadLock),
            ReadPhase::Durable => {}
            ReadPhase::Locked => add(Self::ReadUnderLock),
            ReadPhase::ReadUnderLock => add(Self::FinishUnderLock),
        }
    }

    /// Changes the state as the step does.
    pub fn take(self, model: &Files, state: &mut State) {
        match self {
            Self::ReadHead => {
                state.reader.required = state.promised();
                state.reader.head = state.disk.head;
                state.reader.phase = ReadPhase::HeadRead;
                if state.disk.head.removed {
                    start_over(state);
                    state.reader.reads += 1;
                }
            }
            Self::ListSegments => state.reader.phase = ReadPhase::Listed(state.disk.list()),
            Self::ReadJournal => {
                if let ReadPhase::Listed(listed) = state.reader.phase {
                    read(model, state, Some(listed), ReadPhase::JournalRead);
                }
            }
            Self::Sync => {
                sync(model, state);
                state.reader.phase = ReadPhase::Durable;
            }
            Self::Finish => {
                let is_current = state.disk.head.epoch == state.reader.head.epoch;
                match is_current || model.is(Flaw::ReaderWithoutCheck) {
                    true => show(state),
                    false => start_over(state),
                }
            }
            Self::TakeHeadLock => {
                state.disk.head_lock = Some(READER);
                state.reader.phase = ReadPhase::Locked;
            }
            Self::ReadUnderLock => {
                state.reader.head = state.disk.head;
                read(model, state, None, ReadPhase::ReadUnderLock);
            }
            Self::FinishUnderLock => {
                sync(model, state);
                show(state);
            }
        }
    }
}

/// Whether the head's epoch had no segment. A journal that ends at the watermark has no frame that was acknowledged and could
/// be missing.
fn is_takeover_under_way(model: &Files, reader: &Reader) -> bool {
    let lacks_segment = reader.head.epoch > 0 && reader.journal.epoch != reader.head.epoch;
    lacks_segment && reader.journal.end != reader.head.watermark && !model.is(Flaw::ReaderIgnoresTakeover)
}

fn start_over(state: &mut State) {
    state.disk.free_locks(READER);
    state.reader = Reader {
        reads: state.reader.reads,
        ..Reader::default()
    };
}

fn read(model: &Files, state: &mut State, listed: Option<u32>, then: ReadPhase) {
    let head = state.reader.head;
    let walk = Walk {
        listed,
        closed_suffices: true,
        ..model.walk(head.epoch)
    };
    match state.disk.read(&head, walk) {
        Ok(journal) => {
            state.reader.journal = journal;
            state.reader.phase = then;
        }
        // With another head, a takeover or a collection explains the result, and the reader starts over.
        Err(_) => {
            state.false_alarm |= state.disk.head == head;
            start_over(state);
        }
    }
}

fn sync(model: &Files, state: &mut State) {
    if model.is(Flaw::ReaderWithoutSync) {
        return;
    }
    let Reader { head, journal, .. } = state.reader;
    // The frames up to the watermark were durable before the watermark was written.
    if journal.end != head.watermark {
        state.disk.segments.iter_mut().for_each(Segment::sync);
        state.disk.sync_names();
    }
    let is_proven = head.closed && state.disk.proof == Some((head.generation, head.version));
    if !is_proven {
        state.disk.sync_head();
    }
}

fn show(state: &mut State) {
    let reader = state.reader;
    state.missed |= !reader.journal.records.contains(reader.required);
    state.shown = state.shown.and(reader.journal.records);
    state.shown_version = state.shown_version.max(reader.head.version);
    start_over(state);
    state.reader.reads += 1;
}
