//! The disk of the model: what processes see, and what a power loss leaves of it.

use crate::records::Records;

/// Number of segments that one epoch may have.
const SEGMENTS: u8 = 4;

/// Number of lock files, one a generation.
pub const GENERATIONS: usize = 4;

/// A place in the journal: a segment, and how many of its frames count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The number of the segment; 0 means none.
    pub segment: u8,
    /// The number of frames after its fence.
    pub length: u8,
}

/// The one file that is replaced while the stack exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Head {
    /// The nonce, which is different after each replacement.
    pub version: u8,
    /// The epoch of the last takeover, or of the removal.
    pub epoch: u8,
    /// The number of the lock file.
    pub generation: u8,
    /// Whether the stack was removed.
    pub removed: bool,
    /// The segment from which readers replay the journal; 0 is its beginning.
    pub start: u8,
    /// The records in the base snapshot.
    pub content: Records,
    /// Whether the journal ends at the watermark until the next takeover.
    pub closed: bool,
    /// The end that the journal must reach.
    pub watermark: Place,
    /// The compaction that the head names by its digest.
    pub compaction: Option<Compaction>,
    /// The history floor: segments below it may be deleted.
    pub floor: u8,
    /// The client that set a client lock.
    pub client_lock: Option<u8>,
    /// Generation of the data key.
    pub key: u8,
}

/// The content of the file with all frames from the base on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Compaction {
    /// The base with which it begins.
    pub start: u8,
    /// The end of the journal at that time.
    pub end: Place,
    /// The records up to the end.
    pub content: Records,
}

/// A file of the journal: a fence, then frames.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Segment {
    /// Number of the segment: its epoch, then its position in the epoch.
    pub number: u8,
    /// The end of the segment before it, as the fence names it.
    pub previous: Place,
    /// The records of its frames.
    pub frames: Vec<u8>,
    /// How many of the frames are durable.
    pub synced: u8,
    /// Whether the sync of the last frame failed: later syncs succeed without writing it.
    pub dropped: bool,
    /// Whether the name of the file is durable.
    pub is_named: bool,
    /// Generation of the data key with which its frames are tagged.
    pub key: u8,
}

impl Segment {
    /// The number of the first segment of an epoch.
    pub const fn first_of(epoch: u8) -> u8 {
        epoch * SEGMENTS
    }

    /// Makes a segment whose fence is durable, and whose name isn't yet.
    pub const fn new(number: u8, previous: Place, key: u8) -> Self {
        Self {
            number,
            previous,
            frames: Vec::new(),
            synced: 0,
            dropped: false,
            is_named: false,
            key,
        }
    }

    /// The epoch of the writer that made it.
    pub const fn epoch(&self) -> u8 {
        self.number / SEGMENTS
    }

    /// The number of frames after the fence.
    pub fn length(&self) -> u8 {
        u8::try_from(self.frames.len()).expect("a model has few frames")
    }

    /// Its end, as the fence of the next segment names it.
    pub fn end(&self) -> Place {
        Place {
            segment: self.number,
            length: self.length(),
        }
    }

    /// Makes the frames durable, except for one whose sync failed before.
    pub fn sync(&mut self) {
        if !self.dropped {
            self.synced = self.length();
        }
    }

    fn records(&self, length: u8) -> Records {
        let counted = self.frames.iter().take(usize::from(length));
        counted.fold(Records::NONE, |all, record| all.with(*record))
    }
}

/// The journal as a read from the base on returned it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Journal {
    /// The records of the base and of all frames that count.
    pub records: Records,
    /// The end of the journal.
    pub end: Place,
    /// The epoch of the last segment; 0 if there is none.
    pub epoch: u8,
}

/// Why a read of the journal failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Damage {
    /// A segment is missing that a later one continues, or the one with the base.
    MissingSegment,
    /// A segment has fewer frames than the next fence names.
    ShortSegment,
    /// A segment has a later epoch than the head.
    EpochBeyondHead,
    /// The journal doesn't reach the watermark.
    Truncated,
    /// A frame is tagged with another key than the head names.
    OtherKey,
}

/// How a process finds the segments that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walk {
    /// The segments that the process listed, as bits; none means all that exist now.
    pub listed: Option<u32>,
    /// The latest epoch that a segment may have.
    pub newest: u8,
    /// Whether the compaction of a closed head suffices.
    pub closed_suffices: bool,
    /// Whether the content of the compaction is compared with its digest in the head.
    pub compares: bool,
    /// Whether the walk goes forward through all segments, as in an earlier design.
    pub forward: bool,
}

/// All files of one stack, and the locks on them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Disk {
    /// The head as processes see it.
    pub head: Head,
    /// The head that a power loss leaves at least.
    pub durable_head: Head,
    /// The segments, by number.
    pub segments: Vec<Segment>,
    /// The content of the compaction's file.
    pub compaction: Option<Compaction>,
    /// Its content before the last close, which a power loss may leave.
    pub older_compaction: Option<Compaction>,
    /// The version of the closed head whose nonce is in a lock file, and the generation of that file.
    pub proof: Option<(u8, u8)>,
    /// The process that holds `head.lock`.
    pub head_lock: Option<u8>,
    /// The processes that hold the writer locks, by generation.
    pub locks: [Option<u8>; GENERATIONS],
}

impl Disk {
    /// Replaces the head. Its name is durable only after a sync of the folder.
    pub fn replace_head(&mut self, head: Head) -> Head {
        self.head = Head {
            version: self.head.version + 1,
            ..head
        };
        self.head
    }

    /// Syncs the folder of the head.
    pub fn sync_head(&mut self) {
        self.durable_head = self.head;
    }

    /// Syncs the folder of the journal.
    pub fn sync_names(&mut self) {
        self.segments
            .iter_mut()
            .for_each(|segment| segment.is_named = true);
    }

    /// Returns the segment with a number.
    pub fn segment(&self, number: u8) -> Option<&Segment> {
        self.segments.iter().find(|segment| segment.number == number)
    }

    /// As [`Disk::segment`], to change it.
    pub fn segment_mut(&mut self, number: u8) -> Option<&mut Segment> {
        self.segments.iter_mut().find(|segment| segment.number == number)
    }

    /// Creates a segment; returns whether its name was free.
    pub fn create_segment(&mut self, segment: Segment) -> bool {
        let found = self
            .segments
            .binary_search_by_key(&segment.number, |other| other.number);
        if let Err(at) = found {
            self.segments.insert(at, segment);
        }
        found.is_err()
    }

    /// Lists the segments, as bits.
    pub fn list(&self) -> u32 {
        self.segments
            .iter()
            .fold(0, |all, segment| all | 1 << segment.number)
    }

    /// Frees all locks of a process.
    pub fn free_locks(&mut self, process: u8) {
        let locks = self.locks.iter_mut().chain([&mut self.head_lock]);
        locks
            .filter(|lock| **lock == Some(process))
            .for_each(|lock| *lock = None);
    }

    /// The compaction that a reader of this head uses.
    fn usable_compaction(&self, head: &Head, walk: Walk) -> Option<Compaction> {
        let named = head.compaction.filter(|named| named.start == head.start)?;
        match walk.compares {
            true => self.compaction.filter(|stored| *stored == named),
            false => self.compaction,
        }
    }

    /// Reads the journal that belongs to a head.
    ///
    /// # Errors
    /// Fails if a segment is missing or doesn't fit.
    pub fn read(&self, head: &Head, walk: Walk) -> Result<Journal, Damage> {
        let is_listed =
            |segment: &&Segment| walk.listed.is_none_or(|listed| listed & 1 << segment.number != 0);
        let mut journal = Journal {
            records: head.content,
            ..Journal::default()
        };
        let Some(last) = self.segments.iter().rfind(is_listed) else {
            return match head.start {
                0 => Ok(journal),
                _ => Err(Damage::MissingSegment),
            };
        };
        if last.epoch() > walk.newest {
            return Err(Damage::EpochBeyondHead);
        }
        journal.end = last.end();
        journal.epoch = last.epoch();
        let compaction = self.usable_compaction(head, walk);
        let mut stop = head.start;
        if let Some(compaction) = compaction {
            journal.records = journal.records.and(compaction.content);
            stop = compaction.end.segment;
            let is_whole = compaction.end == head.watermark || !walk.compares;
            if walk.closed_suffices && head.closed && is_whole && last.epoch() == head.epoch {
                journal.end = compaction.end;
                return Ok(journal);
            }
        }
        match walk.forward {
            true => self.walk_forward(head, &mut journal),
            false => self.walk_back(head, stop, &mut journal)?,
        }
        Ok(journal)
    }

    /// Walks from the last segment back: each fence names the segment before it, and how much of that counts.
    fn walk_back(&self, head: &Head, stop: u8, journal: &mut Journal) -> Result<(), Damage> {
        let mut place = journal.end;
        // A watermark before the first segment that is read was reached when that base was stored.
        let mut is_reached = head.watermark.segment < stop || head.watermark == Place::default();
        loop {
            let segment = self.segment(place.segment).ok_or(Damage::MissingSegment)?;
            if segment.length() < place.length {
                return Err(Damage::ShortSegment);
            }
            if place.length > 0 && segment.key != head.key {
                return Err(Damage::OtherKey);
            }
            journal.records = journal.records.and(segment.records(place.length));
            is_reached |= head.watermark.segment == place.segment && head.watermark.length <= place.length;
            if place.segment == stop {
                break;
            }
            if segment.previous.segment == 0 {
                match stop {
                    0 => break,
                    _ => return Err(Damage::MissingSegment),
                }
            }
            place = segment.previous;
        }
        match is_reached {
            true => Ok(()),
            false => Err(Damage::Truncated),
        }
    }

    /// Walks forward: every segment counts, up to the length that the fence of the next one names.
    fn walk_forward(&self, head: &Head, journal: &mut Journal) {
        let from = self
            .segments
            .partition_point(|segment| segment.number < head.start);
        let segments = &self.segments[from..];
        for (at, segment) in segments.iter().enumerate() {
            let next = segments.get(at + 1);
            let length = next.map_or(segment.length(), |next| {
                next.previous.length.min(segment.length())
            });
            journal.records = journal.records.and(segment.records(length));
        }
    }
}
