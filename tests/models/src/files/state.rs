//! The state of the model: the disk, its processes, and what callers were shown.

use super::disk::{Disk, Head, Journal, Place, Walk};
use crate::extensions::{Extension, Extensions};
use crate::records::Records;

/// The number of the reader among the processes that hold locks.
pub const READER: u8 = 100;

/// The model of the file protocol, with its bounds.
#[derive(Clone, Copy, Debug)]
pub struct Files {
    /// Number of processes that write.
    pub writers: u8,
    /// Number of takeovers and removals, of all writers together.
    pub takeovers: u8,
    /// Number of records that the writers may append together.
    pub appends: u8,
    /// Number of locks that are broken.
    pub breaks: u8,
    /// Number of processes that are killed.
    pub deaths: u8,
    /// Number of power losses.
    pub power_losses: u8,
    /// Number of syncs that fail.
    pub failed_syncs: u8,
    /// Number of checkpoints, of all writers together.
    pub checkpoints: u8,
    /// Number of removals of the stack.
    pub removals: u8,
    /// Number of reads by a client without a lock.
    pub reads: u8,
    /// The parts of the protocol that the search adds.
    pub extensions: Extensions,
    /// The known error of this variant.
    pub flaw: Option<Flaw>,
}

/// A known error in a variant of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// An acquire doesn't read the head again after it took the lock.
    HeadNotReadAgain,
    /// A break doesn't take the lock file of the next generation.
    BreakWithoutLock,
    /// A takeover replaces the head without comparing it.
    HeadNotCompared,
    /// A takeover changes the head that it finds, instead of the one that it read.
    HeadChangedInPlace,
    /// The head is replaced without `head.lock`.
    NoHeadLock,
    /// A takeover counts the segments as it read them before it replaced the head.
    JournalReadBeforeHead,
    /// A takeover doesn't sync the segments that it read.
    TakeoverWithoutSync,
    /// A takeover syncs the last frame, but doesn't write it again.
    LastFrameNotRewritten,
    /// A process doesn't sync the folder after it replaced the head.
    HeadNameNotSynced,
    /// A writer acknowledges without reading the head's epoch.
    EpochNotChecked,
    /// A reader doesn't sync what it returns.
    ReaderWithoutSync,
    /// A reader doesn't read the head again.
    ReaderWithoutCheck,
    /// A reader doesn't wait for a takeover that has raised the epoch and stored no segment yet.
    ReaderIgnoresTakeover,
    /// A takeover frees `head.lock` before its segment exists.
    HeadLockFreedEarly,
    /// Readers and takeovers walk forward through all segments, and a takeover frees `head.lock` before its segment exists.
    ForwardWalk,
    /// A removal doesn't raise the epoch.
    RemovalKeepsEpoch,
    /// A writer leaves the nonce of the closed head before that head is durable.
    ProofBeforeSync,
    /// A writer goes on appending after it closed the journal.
    AppendAfterClose,
    /// A reader uses the compaction without comparing it with its digest in the head.
    CompactionNotCompared,
    /// A collection deletes segments up to the end of the journal instead of the history floor.
    DeletedAboveFloor,
    /// A takeover compares the client lock of the head that it read first.
    ClientLockOfFirstHead,
    /// A takeover tags its frames with the key of the head that it read first.
    KeyOfFirstHead,
}

/// How far a writer is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// The writer holds nothing.
    #[default]
    Idle,
    /// It read the head.
    HeadRead,
    /// It holds the lock file of a generation.
    Locked,
    /// It knows that this generation is the present one, or it breaks the lock.
    Checked,
    /// The process holds `head.lock` now.
    HeadLocked,
    /// It compared the head, and read the segments once.
    Compared,
    /// It replaced the head.
    HeadReplaced,
    /// The new head is durable.
    HeadDurable,
    /// It read the segments.
    JournalRead,
    /// The segments are durable.
    JournalDurable,
    /// The segment of its epoch exists.
    SegmentCreated,
    /// The writer may append records.
    Open,
    /// Its swap closed the journal, and it still holds the lock.
    Closed,
}

/// An append of a writer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Append {
    /// None is in flight.
    #[default]
    None,
    /// The frame is written.
    Written(u8),
    /// The frame is synced.
    Synced(u8),
}

/// A change of the head by a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Change {
    /// The base moves to this segment, with these records.
    Checkpoint(u8, Records),
    /// The journal is closed at its end.
    Close,
    /// As [`Change::Close`], with a base that moves to this segment, with these records.
    CloseWithCheckpoint(u8, Records),
    /// The stack is removed.
    Remove,
    /// The history floor moves to the base.
    RaiseFloor,
    /// The client lock is set or cleared.
    ClientLock(Option<u8>),
    /// The base moves to this segment, and the data key changes.
    RotateKey(u8),
}

/// How far a change of the head is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Swap {
    /// None is under way.
    #[default]
    None,
    /// A segment for the new base was created; its name isn't durable.
    Rotated(Change),
    /// The change is due.
    Due(Change),
    /// The writer holds `head.lock`.
    Locked(Change),
    /// The head was replaced.
    Replaced(Change),
}

/// A process that writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Writer {
    /// How far the writer is.
    pub phase: Phase,
    /// Whether it breaks the lock of another process.
    pub breaks: bool,
    /// The generation whose lock file it takes.
    pub generation: u8,
    /// The epoch of its takeover.
    pub epoch: u8,
    /// The head as it last read or replaced it.
    pub seen: Head,
    /// The client lock and the key in the head that it read first.
    pub first: (Option<u8>, u8),
    /// Whether the head that it replaced ended at the journal's end.
    pub was_closed: bool,
    /// The journal as it knows it.
    pub journal: Journal,
    /// The segment to which it appends.
    pub segment: u8,
    /// Its append in flight.
    pub append: Append,
    /// Its change of the head.
    pub swap: Swap,
    /// The segment up to which it deletes.
    pub deleting: u8,
}

/// How far a reader is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ReadPhase {
    /// It has not begun.
    #[default]
    Idle,
    /// It read the head.
    HeadRead,
    /// It listed the segments, as bits.
    Listed(u32),
    /// It read the segments.
    JournalRead,
    /// What it read is durable.
    Durable,
    /// The process holds `head.lock` now.
    Locked,
    /// It read head and segments under the lock.
    ReadUnderLock,
}

/// A process that reads without a lock, if it can.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Reader {
    /// How far the reader is.
    pub phase: ReadPhase,
    /// Number of its reads that ended.
    pub reads: u8,
    /// The head that it read.
    pub head: Head,
    /// The journal that it read.
    pub journal: Journal,
    /// What was acknowledged or shown before it began.
    pub required: Records,
}

/// The state of the model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    /// The store or disk with all that is stored.
    pub disk: Disk,
    /// The processes that write.
    pub writers: Vec<Writer>,
    /// The process that reads.
    pub reader: Reader,
    /// How often each bounded event has happened.
    pub count: Count,
    /// The records whose appends were acknowledged.
    pub acknowledged: Records,
    /// The records that a reader returned.
    pub shown: Records,
    /// The latest version of the head that a reader returned, or whose replacement was acknowledged.
    pub shown_version: u8,
    /// Whether a reader returned a state without a record that was acknowledged or shown before it began.
    pub missed: bool,
    /// Whether a reader or a takeover reported damage although there is none.
    pub false_alarm: bool,
    /// Whether an acquire took the stack from a writer that was open, without breaking its lock.
    pub stolen: bool,
    /// Whether a head was replaced by one with a lower epoch, or an epoch was taken twice.
    pub went_back: bool,
    /// Whether an append was acknowledged after the stack was removed.
    pub late_acknowledgement: bool,
}

/// Numbers of events that have a bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Count {
    /// Records that the writers tried to append.
    pub appends: u8,
    /// Locks that were broken.
    pub breaks: u8,
    /// Processes that were killed.
    pub deaths: u8,
    /// Power losses that happened so far.
    pub power_losses: u8,
    /// Syncs that failed so far.
    pub failed_syncs: u8,
    /// Checkpoints that were begun so far.
    pub checkpoints: u8,
    /// Client locks that were set.
    pub client_locks: u8,
}

impl Files {
    /// The base model: writers that race and break each other's locks.
    pub const fn base(writers: u8, takeovers: u8, appends: u8) -> Self {
        Self {
            writers,
            takeovers,
            appends,
            breaks: 1,
            deaths: 0,
            power_losses: 0,
            failed_syncs: 0,
            checkpoints: 0,
            removals: 0,
            reads: 0,
            extensions: Extensions::NONE,
            flaw: None,
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

    /// How a process reads all segments that exist now.
    pub fn walk(&self, newest: u8) -> Walk {
        Walk {
            listed: None,
            newest,
            closed_suffices: false,
            compares: !self.is(Flaw::CompactionNotCompared),
            forward: self.is(Flaw::ForwardWalk),
        }
    }
}

impl State {
    /// What no later state may lose.
    pub const fn promised(&self) -> Records {
        self.acknowledged.and(self.shown)
    }

    /// Ends the session or the takeover of a writer, and frees its locks.
    pub fn stop(&mut self, at: usize) {
        self.disk.free_locks(process(at));
        self.writers[at] = Writer::default();
    }

    /// Sorts the writers, which are alike: states in which they only exchange their parts count as one.
    pub fn sort_writers(&mut self) {
        let mut order: Vec<usize> = (0..self.writers.len()).collect();
        order.sort_by_key(|at| self.writers[*at]);
        let place = |holder: &mut Option<u8>| {
            let moved = |held: u8| order.iter().position(|at| process(*at) == held).map(process);
            *holder = holder.map(|held| moved(held).unwrap_or(held));
        };
        self.writers = order.iter().map(|at| self.writers[*at]).collect();
        for writer in &mut self.writers {
            place(&mut writer.seen.client_lock);
            place(&mut writer.first.0);
            if let Swap::Due(change) | Swap::Locked(change) | Swap::Replaced(change) = &mut writer.swap
                && let Change::ClientLock(client) = change
            {
                place(client);
            }
        }
        self.disk.locks.iter_mut().for_each(place);
        let disk = &mut self.disk;
        place(&mut disk.head_lock);
        place(&mut disk.head.client_lock);
        place(&mut disk.durable_head.client_lock);
        place(&mut self.reader.head.client_lock);
    }
}

impl Writer {
    /// The end of the journal at which its head is closed.
    pub fn end(&self, disk: &Disk) -> Place {
        let segment = disk.segment(self.segment);
        segment.map_or(self.journal.end, super::disk::Segment::end)
    }
}

/// The number of a writer among the processes that hold locks.
pub fn process(at: usize) -> u8 {
    u8::try_from(at).expect("a model has few writers")
}
