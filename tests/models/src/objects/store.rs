//! The store of the model: lease, head, slots and compactions, with the two conditional writes that an object store has.

use crate::records::Records;

/// Largest number of slots that a search may use.
const SLOTS: usize = 14;

/// The content of a slot. Once stored, a slot is never replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Frame {
    /// The first frame of a writer, without a record.
    Fence {
        /// Epoch of the writer.
        epoch: u8,
    },
    /// A frame with a record.
    Data {
        /// Epoch of the writer.
        epoch: u8,
        /// The record in the frame.
        record: u8,
        /// Generation of the data key with which the frame is tagged.
        key: u8,
    },
}

impl Frame {
    /// The epoch of the writer that made the frame.
    pub const fn epoch(self) -> u8 {
        match self {
            Self::Fence { epoch } | Self::Data { epoch, .. } => epoch,
        }
    }

    /// The records in the frame.
    pub fn records(self) -> Records {
        match self {
            Self::Fence { .. } => Records::NONE,
            Self::Data { record, .. } => Records::NONE.with(record),
        }
    }
}

/// Frames that are stored once more in one object, whose name is its digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Compaction {
    /// The slot of its first frame.
    pub start: u8,
    /// The slot after the last one.
    pub end: u8,
    /// The records up to the end.
    pub content: Records,
}

/// The one mutable document of the stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Head {
    /// The nonce, which is different after each swap.
    pub version: u8,
    /// The epoch of the last takeover.
    pub epoch: u8,
    /// The slot from which readers replay the journal.
    pub start: u8,
    /// The records in the base snapshot.
    pub content: Records,
    /// Whether the journal ends at the watermark until the next takeover.
    pub closed: bool,
    /// The slot after the last frame that the journal must reach.
    pub watermark: u8,
    /// The compaction that the head names.
    pub compaction: Option<Compaction>,
    /// The history floor: what lies below it may be deleted.
    pub floor: u8,
    /// The client that set a client lock.
    pub client_lock: Option<u8>,
    /// Generation of the data key.
    pub key: u8,
}

/// The frames that a read from the base on returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Journal {
    /// The records of the base and of all frames.
    pub records: Records,
    /// The slot after the last frame.
    pub end: u8,
    /// The epoch of the last frame.
    pub epoch: u8,
}

/// Why a read of the journal failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Damage {
    /// A slot is missing before the end.
    MissingSlot,
    /// A frame has a lower epoch than the frame before it.
    EpochFell,
    /// A frame is tagged with another key than the head names.
    OtherKey,
    /// The journal doesn't reach the watermark.
    Truncated,
}

/// A write that was sent, and whose answer its sender no longer awaits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Request {
    /// Creation of a slot.
    Create(u8, Frame),
    /// Replacement of the head with this version.
    Swap(u8, Head),
}

/// All objects of one stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Store {
    /// The epoch in the lease.
    pub lease: u8,
    /// The head as it is stored now.
    pub head: Head,
    slots: [Option<Frame>; SLOTS],
    /// The objects of compactions, sorted.
    compactions: Vec<Compaction>,
    /// The writes that may land later, sorted.
    pub late: Vec<Request>,
}

impl Store {
    /// Returns the frame in a slot.
    ///
    /// # Panics
    /// Panics if the bounds of the search need more slots than the model has.
    pub fn slot(&self, slot: u8) -> Option<Frame> {
        self.slots[usize::from(slot)]
    }

    /// Creates a slot; returns the frame that it holds afterwards.
    pub fn create(&mut self, slot: u8, frame: Frame) -> Frame {
        *self.slots[usize::from(slot)].get_or_insert(frame)
    }

    /// Deletes a slot, if it exists.
    pub fn delete(&mut self, slot: u8) {
        self.slots[usize::from(slot)] = None;
    }

    /// Drops late writes that can't take effect any more: the head has another version, or a slot holds a fence, which is never
    /// deleted. So states with and without them count as one.
    pub fn drop_spent_requests(&mut self, deletes_slots: bool, deletes_fences: bool) {
        let (slots, version) = (self.slots, self.head.version);
        self.late.retain(|request| match request {
            Request::Create(slot, _) => match slots[usize::from(*slot)] {
                None => true,
                Some(Frame::Data { .. }) => deletes_slots,
                Some(Frame::Fence { .. }) => deletes_fences,
            },
            Request::Swap(expected, _) => *expected == version,
        });
    }

    /// Replaces the head if it has the expected version. Of all swaps that expect a version only one takes effect, so the next
    /// number is a unique version.
    pub fn swap(&mut self, expected: u8, head: Head) -> bool {
        let is_current = self.head.version == expected;
        if is_current {
            self.head = Head {
                version: expected + 1,
                ..head
            };
        }
        is_current
    }

    /// Stores a compaction under its digest.
    pub fn store_compaction(&mut self, compaction: Compaction) {
        if let Err(at) = self.compactions.binary_search(&compaction) {
            self.compactions.insert(at, compaction);
        }
    }

    /// Deletes a compaction, if it exists.
    pub fn delete_compaction(&mut self, compaction: Compaction) {
        self.compactions.retain(|stored| *stored != compaction);
    }

    /// Adds a write that may land later.
    pub fn send_late(&mut self, request: Request) {
        if let Err(at) = self.late.binary_search(&request) {
            self.late.insert(at, request);
        }
    }

    /// Lets a late write land: it takes effect if its condition holds.
    pub fn land(&mut self, at: usize) {
        match self.late.remove(at) {
            Request::Create(slot, frame) => {
                self.create(slot, frame);
            }
            Request::Swap(expected, head) => {
                self.swap(expected, head);
            }
        }
    }

    /// Lists the slots: returns the slot after the last one that exists.
    pub fn list(&self) -> u8 {
        let last = self.slots.iter().rposition(Option::is_some);
        last.map_or(0, |last| slot_number(last) + 1)
    }

    /// Returns the slots below the floor whose frames may be deleted.
    pub fn deletable(&self, floor: u8, and_fences: bool) -> Option<u8> {
        let may_go = |slot: &u8| match self.slot(*slot) {
            Some(Frame::Data { .. }) => true,
            Some(Frame::Fence { .. }) => and_fences,
            None => false,
        };
        (0..floor).find(may_go)
    }

    /// Reads the journal that belongs to a head. `listed` is the result of an earlier [`Store::list`]; a closed journal is read
    /// without it.
    ///
    /// # Errors
    /// Fails if a frame is missing or doesn't fit.
    pub fn read(&self, head: &Head, listed: u8) -> Result<Journal, Damage> {
        let mut journal = Journal {
            records: head.content,
            end: head.start,
            epoch: 0,
        };
        let usable = |named: &Compaction| named.start == head.start && self.compactions.contains(named);
        if let Some(compaction) = head.compaction.filter(usable) {
            journal.records = journal.records.and(compaction.content);
            journal.end = compaction.end;
        }
        let until = if head.closed { head.watermark } else { listed };
        while journal.end < until || !head.closed {
            match self.slot(journal.end) {
                Some(frame) => journal.push(frame, head.key)?,
                None if journal.end < until => return Err(Damage::MissingSlot),
                None => break,
            }
        }
        if journal.end < head.watermark {
            return Err(Damage::Truncated);
        }
        Ok(journal)
    }
}

impl Journal {
    /// Adds the next frame.
    ///
    /// # Errors
    /// Fails if the frame doesn't follow.
    pub fn push(&mut self, frame: Frame, key: u8) -> Result<(), Damage> {
        if frame.epoch() < self.epoch {
            return Err(Damage::EpochFell);
        }
        if matches!(frame, Frame::Data { key: tagged, .. } if tagged != key) {
            return Err(Damage::OtherKey);
        }
        self.records = self.records.and(frame.records());
        self.epoch = frame.epoch();
        self.end += 1;
        Ok(())
    }
}

fn slot_number(slot: usize) -> u8 {
    u8::try_from(slot).expect("a model has few slots")
}
