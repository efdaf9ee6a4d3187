//! The rules that every state must keep.

use super::disk::{Damage, Journal};
use super::state::{Append, Files, Phase, State, Writer, process};
use crate::check::Rule;
use crate::extensions::Extension;
use crate::records::Records;
use stateright::Property;

/// What must hold in every state, or must happen in some state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileRule {
    /// P1: a read from the present head on returns all that was promised, also after a power loss.
    PromisedIsReadable,
    /// P1: no head that a reader returned, or whose replacement was acknowledged, is replaced by an earlier one.
    HeadStays,
    /// P3: the journal that belongs to the present head has no damage.
    JournalIsWhole,
    /// P2: the state of the writer with the head's epoch has all that was promised.
    OwnerHasPromised,
    /// Epochs only rise, and each is taken once.
    EpochsRise,
    /// An acquire takes nothing from a live writer; only a break does.
    AcquireWaits,
    /// P2: after the removal of the stack, no append is acknowledged.
    RemovedStaysRemoved,
    /// P6: a reader returns all that was promised before it began.
    ReaderMissesNothing,
    /// P3: without damage, no reader and no takeover reports damage.
    NoFalseAlarm,
    /// A writer that passed the gate holds the client lock, or no client lock is set.
    ClientLockExcludes,
    /// All takeovers and appends within the bounds succeed.
    AllSucceed,
    /// All extensions of the search take effect.
    ExtensionsTakeEffect,
}

impl FileRule {
    const ALL: [Self; 12] = [
        Self::PromisedIsReadable,
        Self::HeadStays,
        Self::JournalIsWhole,
        Self::OwnerHasPromised,
        Self::EpochsRise,
        Self::AcquireWaits,
        Self::RemovedStaysRemoved,
        Self::ReaderMissesNothing,
        Self::NoFalseAlarm,
        Self::ClientLockExcludes,
        Self::AllSucceed,
        Self::ExtensionsTakeEffect,
    ];

    /// The rules as the checker evaluates them.
    pub fn properties() -> Vec<Property<Files>> {
        Self::ALL.iter().map(|rule| rule.property()).collect()
    }
}

impl Rule<Files> for FileRule {
    fn sentence(self) -> &'static str {
        match self {
            Self::PromisedIsReadable => "every acknowledged or shown record can be read",
            Self::HeadStays => "no head that was shown or acknowledged is undone",
            Self::JournalIsWhole => "the journal of the present head has no gap and no foreign frame",
            Self::OwnerHasPromised => "the present writer knows every acknowledged or shown record",
            Self::EpochsRise => "epochs only rise, and each is taken once",
            Self::AcquireWaits => "an acquire takes nothing from a live writer",
            Self::RemovedStaysRemoved => "no append is acknowledged after the removal",
            Self::ReaderMissesNothing => {
                "a reader returns every record that was acknowledged before it began"
            }
            Self::NoFalseAlarm => "damage is reported only if there is damage",
            Self::ClientLockExcludes => "no client writes while another one has a client lock",
            Self::AllSucceed => "all takeovers and appends succeed",
            Self::ExtensionsTakeEffect => "each extension of the search takes effect",
        }
    }

    fn property(self) -> Property<Files> {
        let name = self.sentence();
        match self {
            Self::PromisedIsReadable => Property::always(name, promised_is_readable),
            Self::HeadStays => Property::always(name, |_, state: &State| {
                state.disk.head.version >= state.shown_version
            }),
            Self::JournalIsWhole => Property::always(name, |model, state| read(model, state).is_ok()),
            Self::OwnerHasPromised => Property::always(name, |_, state| owner_has_promised(state)),
            Self::EpochsRise => Property::always(name, |_, state| epochs_rise(state)),
            Self::AcquireWaits => Property::always(name, |_, state: &State| !state.stolen),
            Self::RemovedStaysRemoved => {
                Property::always(name, |_, state: &State| !state.late_acknowledgement)
            }
            Self::ReaderMissesNothing => Property::always(name, |_, state: &State| !state.missed),
            Self::NoFalseAlarm => Property::always(name, |_, state: &State| !state.false_alarm),
            Self::ClientLockExcludes => Property::always(name, |_, state| client_lock_excludes(state)),
            Self::AllSucceed => Property::sometimes(name, all_succeed),
            Self::ExtensionsTakeEffect => Property::sometimes(name, extensions_take_effect),
        }
    }
}

/// The journal as a takeover would read it now. A removed stack isn't read any more.
fn read(model: &Files, state: &State) -> Result<Journal, Damage> {
    let head = &state.disk.head;
    if head.removed {
        return Ok(Journal {
            records: state.promised(),
            ..Journal::default()
        });
    }
    state.disk.read(head, model.walk(head.epoch))
}

fn promised_is_readable(model: &Files, state: &State) -> bool {
    read(model, state).map_or(true, |journal| journal.records.contains(state.promised()))
}

/// The writers that read the journal under the epoch in the head, with their numbers.
fn present_writers(state: &State) -> impl Iterator<Item = (usize, &Writer)> {
    let has_read = |phase: Phase| {
        matches!(
            phase,
            Phase::JournalRead | Phase::JournalDurable | Phase::SegmentCreated | Phase::Open | Phase::Closed
        )
    };
    let writers = state.writers.iter().enumerate();
    writers.filter(move |(_, writer)| has_read(writer.phase) && writer.epoch == state.disk.head.epoch)
}

fn owner_has_promised(state: &State) -> bool {
    present_writers(state).all(|(_, writer)| {
        let known = writer.journal.records;
        // A reader may return a frame before the writer acknowledges it.
        let known = match writer.append {
            Append::None => known,
            Append::Written(record) | Append::Synced(record) => known.with(record),
        };
        known.contains(state.promised())
    })
}

fn epochs_rise(state: &State) -> bool {
    !state.went_back && present_writers(state).count() <= 1
}

fn client_lock_excludes(state: &State) -> bool {
    let lock = state.disk.head.client_lock;
    let mut open = present_writers(state).filter(|(_, writer)| writer.phase == Phase::Open);
    open.all(|(at, _)| lock.is_none_or(|client| client == process(at)))
}

fn all_succeed(model: &Files, state: &State) -> bool {
    let all = (0..model.appends).fold(Records::NONE, Records::with);
    state.disk.head.epoch == model.takeovers && state.acknowledged.contains(all)
}

fn extensions_take_effect(model: &Files, state: &State) -> bool {
    let head = &state.disk.head;
    let takes_effect = |extension| match extension {
        Extension::Compaction => head.compaction.is_some(),
        Extension::Collection => {
            head.floor > 0
                && state
                    .disk
                    .segments
                    .first()
                    .is_some_and(|first| first.number >= head.floor)
        }
        Extension::ClientLock => head.client_lock.is_some(),
        Extension::KeyRotation => head.key > 0,
    };
    let mut added = Extension::ALL
        .into_iter()
        .filter(|extension| model.has(*extension));
    added.all(takes_effect)
}
