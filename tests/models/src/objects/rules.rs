//! The rules that every state must keep.

use super::state::{Objects, Phase, State, Writer};
use crate::check::Rule;
use crate::extensions::Extension;
use crate::records::Records;
use stateright::Property;

/// What must hold in every state, or must happen in some state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectRule {
    /// P1: a read from the present head on returns all that was promised.
    PromisedIsReadable,
    /// P3: the journal that belongs to the present head has no damage.
    JournalIsWhole,
    /// P2: the state of the writer with the head's epoch has all that was promised.
    OwnerHasPromised,
    /// P4: what was reported as not applied is in no readable state.
    NotAppliedIsAbsent,
    /// P6: a reader returns all that was promised before it began.
    ReaderMissesNothing,
    /// P3: without damage, no reader and no takeover reports damage.
    NoFalseAlarm,
    /// A writer that passed the gate holds the client lock, or no client lock is set.
    ClientLockExcludes,
    /// All takeovers and appends within the bounds succeed.
    AllSucceed,
    /// A writer that was taken over still believes that it may append.
    StaleWriterIsOpen,
    /// All extensions of the search take effect.
    ExtensionsTakeEffect,
}

impl ObjectRule {
    const ALL: [Self; 10] = [
        Self::PromisedIsReadable,
        Self::JournalIsWhole,
        Self::OwnerHasPromised,
        Self::NotAppliedIsAbsent,
        Self::ReaderMissesNothing,
        Self::NoFalseAlarm,
        Self::ClientLockExcludes,
        Self::AllSucceed,
        Self::StaleWriterIsOpen,
        Self::ExtensionsTakeEffect,
    ];

    /// The rules as the checker evaluates them.
    pub fn properties() -> Vec<Property<Objects>> {
        Self::ALL.iter().map(|rule| rule.property()).collect()
    }
}

impl Rule<Objects> for ObjectRule {
    fn sentence(self) -> &'static str {
        match self {
            Self::PromisedIsReadable => "every acknowledged or shown record can be read",
            Self::JournalIsWhole => "the journal of the present head has no gap and no foreign frame",
            Self::OwnerHasPromised => "the present writer knows every acknowledged or shown record",
            Self::NotAppliedIsAbsent => "no record that was reported as not applied can be read",
            Self::ReaderMissesNothing => {
                "a reader returns every record that was acknowledged before it began"
            }
            Self::NoFalseAlarm => "damage is reported only if there is damage",
            Self::ClientLockExcludes => "no client writes while another one has a client lock",
            Self::AllSucceed => "all takeovers and appends succeed",
            Self::StaleWriterIsOpen => "a writer that was taken over may still try to append",
            Self::ExtensionsTakeEffect => "each extension of the search takes effect",
        }
    }

    fn property(self) -> Property<Objects> {
        let name = self.sentence();
        match self {
            Self::PromisedIsReadable => Property::always(name, |_, state| promised_is_readable(state)),
            Self::JournalIsWhole => Property::always(name, |_, state| journal_is_whole(state)),
            Self::OwnerHasPromised => Property::always(name, |_, state| owner_has_promised(state)),
            Self::NotAppliedIsAbsent => Property::always(name, |_, state| not_applied_is_absent(state)),
            Self::ReaderMissesNothing => Property::always(name, |_, state: &State| !state.missed),
            Self::NoFalseAlarm => Property::always(name, |_, state: &State| !state.false_alarm),
            Self::ClientLockExcludes => Property::always(name, |_, state| client_lock_excludes(state)),
            Self::AllSucceed => Property::sometimes(name, all_succeed),
            Self::StaleWriterIsOpen => Property::sometimes(name, |_, state| stale_writer_is_open(state)),
            Self::ExtensionsTakeEffect => Property::sometimes(name, extensions_take_effect),
        }
    }
}

fn promised_is_readable(state: &State) -> bool {
    let read = state.store.read(&state.store.head, state.store.list());
    read.map_or(true, |journal| journal.records.contains(state.promised()))
}

fn journal_is_whole(state: &State) -> bool {
    let read = state.store.read(&state.store.head, state.store.list());
    read.is_ok_and(|journal| journal.epoch <= state.store.head.epoch)
}

fn not_applied_is_absent(state: &State) -> bool {
    let read = state.store.read(&state.store.head, state.store.list());
    read.map_or(true, |journal| !journal.records.overlaps(state.not_applied))
}

/// The writers that may append, with their numbers.
fn open_writers(state: &State) -> impl Iterator<Item = (usize, &Writer)> {
    let writers = state.writers.iter().enumerate();
    writers.filter(|(_, writer)| writer.phase == Phase::Open)
}

/// The writers among them whose epoch is the one in the head.
fn present_writers(state: &State) -> impl Iterator<Item = (usize, &Writer)> {
    open_writers(state).filter(|(_, writer)| writer.epoch == state.store.head.epoch)
}

fn owner_has_promised(state: &State) -> bool {
    present_writers(state).all(|(_, writer)| {
        let known = writer.journal.records;
        // A reader may return a frame before the writer gets its answer.
        let known = writer.in_doubt.map_or(known, |record| known.with(record));
        known.contains(state.promised())
    })
}

fn client_lock_excludes(state: &State) -> bool {
    let lock = state.store.head.client_lock.map(usize::from);
    present_writers(state).all(|(at, _)| lock.is_none_or(|client| client == at))
}

fn all_succeed(model: &Objects, state: &State) -> bool {
    let all = (0..model.appends).fold(Records::NONE, Records::with);
    state.store.head.epoch == model.takeovers && state.acknowledged.contains(all)
}

fn stale_writer_is_open(state: &State) -> bool {
    open_writers(state).any(|(_, writer)| writer.epoch < state.store.head.epoch)
}

fn extensions_take_effect(model: &Objects, state: &State) -> bool {
    let head = &state.store.head;
    let takes_effect = |extension| match extension {
        Extension::Compaction => head.compaction.is_some(),
        Extension::Collection => (0..head.floor).any(|slot| state.store.slot(slot).is_none()),
        Extension::ClientLock => head.client_lock.is_some(),
        Extension::KeyRotation => head.key > 0,
    };
    let mut added = Extension::ALL
        .into_iter()
        .filter(|extension| model.has(*extension));
    added.all(takes_effect)
}
