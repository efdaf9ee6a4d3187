//! The steps of a reader, which takes no lock.

use super::state::{Objects, Reader, State};

/// A step of the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// Reads the head as it is stored now.
    ReadHead,
    /// Lists the slots that exist now.
    ListSlots,
    /// Reads the slots, and returns the state or starts over.
    ReadSlots,
}

impl Read {
    /// Adds the step that the reader takes next.
    pub fn next(model: &Objects, state: &State, add: &mut impl FnMut(Self)) {
        match (state.reader.head, state.reader.listed) {
            (None, _) if state.reader.reads < model.reads => add(Self::ReadHead),
            (None, _) => {}
            (Some(head), None) if !head.closed => add(Self::ListSlots),
            (Some(_), _) => add(Self::ReadSlots),
        }
    }

    /// Changes the state as the step does.
    pub fn take(self, state: &mut State) {
        match self {
            Self::ReadHead => {
                state.reader.required = state.promised();
                state.reader.head = Some(state.store.head);
            }
            Self::ListSlots => state.reader.listed = Some(state.store.list()),
            Self::ReadSlots => read_slots(state),
        }
    }
}

fn read_slots(state: &mut State) {
    let reader = state.reader;
    let Some(head) = reader.head else {
        return;
    };
    state.reader = Reader {
        reads: reader.reads,
        ..Reader::default()
    };
    match state.store.read(&head, reader.listed.unwrap_or(0)) {
        Ok(journal) if journal.epoch <= head.epoch => {
            state.missed |= !journal.records.contains(reader.required);
            state.shown = state.shown.and(journal.records);
            state.reader.reads += 1;
        }
        // With another head, a takeover or a collection explains the result, and the reader starts over.
        Ok(_) | Err(_) => state.false_alarm |= state.store.head.version == head.version,
    }
}
