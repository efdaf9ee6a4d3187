//! The state of the model: the store, its processes, and what callers were shown.

use super::store::{Head, Journal, Store};
use crate::extensions::{Extension, Extensions};
use crate::records::Records;

/// The model of the object protocol, with its bounds.
#[derive(Clone, Copy, Debug)]
pub struct Objects {
    /// Number of processes that write.
    pub writers: u8,
    /// Number of takeovers, of all writers together.
    pub takeovers: u8,
    /// Number of records that the writers may append together.
    pub appends: u8,
    /// Number of reads by a client without a lock.
    pub reads: u8,
    /// Whether a write may land after its sender stopped waiting.
    pub late_requests: bool,
    /// The parts of the protocol that the search adds.
    pub extensions: Extensions,
    /// The known error of this variant.
    pub flaw: Option<Flaw>,
}

/// A known error in a variant of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// A takeover opens the journal without a fence.
    NoFence,
    /// A takeover writes its fence, and raises the epoch in the head without comparing the head.
    EpochRaisedBlindly,
    /// After an append with an unknown outcome, the writer puts another record into the same slot.
    SlotTriedAgain,
    /// A writer goes on after it tried to close the journal.
    AppendAfterClose,
    /// The head that names a compaction replaces any other head.
    CompactionNamedBlindly,
    /// A collection deletes fences together with the frames between them.
    FencesDeleted,
    /// A collection deletes up to the end of the journal instead of the history floor.
    DeletedAboveFloor,
    /// A deletion doesn't wait until the takeovers that began before it have ended.
    NoGrace,
    /// A takeover compares the client lock of the head that it read first.
    ClientLockOfFirstHead,
    /// A takeover tags its frames with the key of the head that it read first.
    KeyOfFirstHead,
    /// A key rotation doesn't wait for an append in flight.
    RotationDuringAppend,
}

/// How far a writer is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// It holds nothing. Also after it was fenced, or closed the journal, or crashed.
    #[default]
    Idle,
    /// It read the head.
    HeadRead,
    /// It wrote its epoch into the lease.
    LeaseTaken,
    /// It wrote its epoch into the head.
    HeadRaised,
    /// It listed the slots; this is the one after the last.
    Listed(u8),
    /// It read the journal.
    JournalRead,
    /// Its fence is stored: it may append.
    Open,
}

/// A process that writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Writer {
    /// How far the writer is.
    pub phase: Phase,
    /// The epoch of its takeover.
    pub epoch: u8,
    /// The head as it last read or wrote it.
    pub seen: Head,
    /// The client lock and the key in the head that it read first.
    pub first: (Option<u8>, u8),
    /// The journal of a closed head that it read beside the write of the lease, and the version of that head.
    pub early: Option<(u8, Journal)>,
    /// The journal as it knows it.
    pub journal: Journal,
    /// The record of an append whose outcome it doesn't know.
    pub in_doubt: Option<u8>,
    /// Whether one of its head swaps may land late, so that it must read the head again.
    pub head_unknown: bool,
    /// Whether the head that its takeover replaced had closed the journal.
    pub was_closed: bool,
    /// The compaction that it stored and didn't name yet.
    pub compaction: Option<super::store::Compaction>,
    /// The slot up to which it deletes.
    pub deleting: u8,
}

/// A process that reads without a lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Reader {
    /// Number of its reads that ended.
    pub reads: u8,
    /// The head, after the reader read it.
    pub head: Option<Head>,
    /// The slot after the last one that it listed.
    pub listed: Option<u8>,
    /// What was acknowledged or shown before it began.
    pub required: Records,
}

/// The state of the model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    /// The store or disk with all that is stored.
    pub store: Store,
    /// The processes that write.
    pub writers: Vec<Writer>,
    /// The process that reads.
    pub reader: Reader,
    /// Number of records that the writers tried to append.
    pub appended: u8,
    /// Number of client locks that were set.
    pub client_locks: u8,
    /// The records whose appends were acknowledged.
    pub acknowledged: Records,
    /// The records that a reader returned.
    pub shown: Records,
    /// The records whose appends were reported as not applied.
    pub not_applied: Records,
    /// Whether a reader returned a state without a record that was acknowledged or shown before it began.
    pub missed: bool,
    /// Whether a reader or a takeover reported damage although the head was unchanged.
    pub false_alarm: bool,
}

impl Objects {
    /// The base model: writers that race, with requests whose answers are lost.
    pub const fn base(writers: u8, takeovers: u8, appends: u8) -> Self {
        Self {
            writers,
            takeovers,
            appends,
            reads: 0,
            late_requests: false,
            extensions: Extensions::NONE,
            flaw: None,
        }
    }

    /// Returns this model with a number of reads.
    #[must_use]
    pub const fn with_reads(self, reads: u8) -> Self {
        Self { reads, ..self }
    }

    /// Returns this model with requests that land late.
    #[must_use]
    pub const fn with_late_requests(self) -> Self {
        Self {
            late_requests: true,
            ..self
        }
    }

    /// Returns this model with extensions.
    #[must_use]
    pub fn with(self, extensions: &[Extension]) -> Self {
        Self {
            extensions: Extensions::of(extensions),
            ..self
        }
    }

    /// Returns this model with an error.
    #[must_use]
    pub const fn with_flaw(self, flaw: Flaw) -> Self {
        Self {
            flaw: Some(flaw),
            ..self
        }
    }

    /// Whether this variant has the error.
    pub fn is(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// Whether the search adds the extension.
    pub const fn has(&self, extension: Extension) -> bool {
        self.extensions.has(extension)
    }
}

impl State {
    /// What no later state may lose.
    pub const fn promised(&self) -> Records {
        self.acknowledged.and(self.shown)
    }

    /// Ends the session or the takeover of a writer.
    pub fn stop(&mut self, at: usize) {
        self.writers[at] = Writer::default();
    }

    /// Sorts the writers, which are alike: states in which they only exchange their parts count as one.
    pub fn sort_writers(&mut self) {
        let mut order: Vec<usize> = (0..self.writers.len()).collect();
        order.sort_by_key(|at| self.writers[*at]);
        let place = |client: &mut Option<u8>| {
            let found = client.and_then(|client| order.iter().position(|at| *at == usize::from(client)));
            *client = found.and_then(|at| u8::try_from(at).ok());
        };
        self.writers = order.iter().map(|at| self.writers[*at]).collect();
        for writer in &mut self.writers {
            place(&mut writer.seen.client_lock);
            place(&mut writer.first.0);
        }
        place(&mut self.store.head.client_lock);
        if let Some(head) = &mut self.reader.head {
            place(&mut head.client_lock);
        }
        for request in &mut self.store.late {
            if let super::store::Request::Swap(_, head) = request {
                place(&mut head.client_lock);
            }
        }
    }

    /// Whether a takeover or a read may still use what lies below this floor.
    pub fn is_read_below(&self, floor: u8) -> bool {
        let takes_over = |writer: &Writer| {
            let ended = matches!(writer.phase, Phase::Idle | Phase::Open);
            !ended && writer.seen.floor < floor
        };
        let reads = self.reader.head.is_some_and(|head| head.floor < floor);
        reads || self.writers.iter().any(takes_over)
    }
}
