//! Compaction: a file with all frames since the head's base, so that a reader of a closed journal opens one file instead of
//! one segment for each session.
//!
//! ```text
//! journal/
//!   <base>-7.log  <b>-8.log  <c>-9.log     segments: fences and frames, which decide
//!   <base>.frames                          the same frames, byte for byte, up to the last clean close
//! ```
//!
//! The lock holder that closes the journal adds the frames that are missing in the file, and names the file's length and digest in
//! the head that marks the journal as closed.
//!
//! # Cost
//! A session writes its own frames once more, and those of the sessions before it that didn't close cleanly: each frame is
//! written at most twice, however many sessions follow and however short they are. Only a file that was lost or damaged is
//! written anew, with all frames since the base; checkpoints keep those at about 1 MiB. A close adds one write and no sync.
//!
//! # Why nothing depends on the file
//! The segments stay until a collection, fencing rests on them, and a takeover ends the journal by them. So the file isn't
//! synced. After a power loss, or damage, its bytes don't have the digest in the head: readers then read the segments, and
//! the next lock holder writes the file again. A reader reads no byte beyond the length in the head, so bytes of a close
//! that was cut short don't count. An error of the write, such as a full disk, leaves the head with the compaction as it was
//! before, and isn't reported: the acknowledged frames are safe in the segments.
//!
//! The file is changed only under `head.lock`, by the owner of the head's epoch: a fenced owner doesn't touch it, and no
//! takeover comes between the file and the head that names it.
//!
//! # Whose bytes
//! A session adds its own frames from memory, and frames of others as its takeover read them. Reading the own segment again
//! would cost a read of all that was appended, and it would copy damage: the chain doesn't cover a frame's tag, so a backend
//! can't see every damaged byte. The frame in memory is the one that the session made, signed and synced, and for which
//! `append` was acknowledged. So a close after damage to the segment keeps an intact copy; the next takeover and every
//! reader of the history still report the segment.
//!
//! # Other versions
//! An earlier version ignores the file: it reads the segments, which are complete. If it closes the journal, the compaction
//! that it leaves in the head ends before the watermark, and readers read on in the segments. If it moves the base, the
//! compaction doesn't begin at the base, and doesn't count. Neither needs another format version.

use crate::counts::Call;
use crate::dir::Dir;
use crate::files::{Access, FileHandle};
use crate::layout::{CompactionName, MAX_SEGMENT, SegmentName};
use crate::segment::is_plausible;
use crate::staged::StagedFile;
use bytes::Bytes;
use state_core::backend::{ChainAnchors, Tail};
use state_core::digest::Digester;
use state_core::head::Compaction;
use state_core::journal::ParsedFrame;
use state_core::{Error, Frame, Head, Result, Slot};
use std::collections::VecDeque;
use std::io;

/// Limit on the frames that a session appends and keeps in memory for its close, in bytes. A longer session leaves its
/// frames to its segments, and the next session adds them.
const MAX_BYTES: usize = 64 << 20;

/// The frames of the compaction that a head names.
#[derive(Debug)]
pub(crate) struct CompactedFrames {
    pub(crate) frames: Vec<Frame>,
    pub(crate) tail: Tail,
    pub(crate) stored: StoredCompaction,
}

/// A compaction whose content was read or written by this process.
#[derive(Clone, Debug)]
pub(crate) struct StoredCompaction {
    compaction: Compaction,
    /// The digest of the content, which more frames can be added to.
    digester: Digester,
}

/// Reads the compaction that the head names. Returns `None` if the head names none from its base on, or if the file
/// doesn't have the content that the head names: the caller then reads the segments.
///
/// # Errors
/// `Corrupt` if the content has the digest in the head, but doesn't hold the frames from the base on.
pub(crate) fn read(journal: &Dir, head: &Head) -> Result<Option<CompactedFrames>> {
    let [compaction] = head.compactions.as_slice() else {
        return Ok(None);
    };
    if compaction.start != head.base.start || compaction.end <= compaction.start {
        return Ok(None);
    }
    let name = CompactionName {
        start: compaction.start,
    }
    .to_string();
    // An error of the read is no damage of the journal, which the segments hold.
    let Ok(Some(bytes)) = read_named(journal, &name, compaction.length) else {
        return Ok(None);
    };
    let mut digester = Digester::default();
    digester.add(&bytes);
    if digester.finish() != compaction.digest {
        return Ok(None);
    }
    let (frames, tail) = parse(&journal.object(&name), &bytes, head, compaction)?;
    let stored = StoredCompaction {
        compaction: *compaction,
        digester,
    };
    Ok(Some(CompactedFrames { frames, tail, stored }))
}

/// Reads the first `length` bytes of a file; `None` if it has fewer, or can't hold so many frames.
fn read_named(journal: &Dir, name: &str, length: u64) -> Result<Option<Bytes>, io::Error> {
    let opened = journal.open(name, Access::Read).map_err(io::Error::other)?;
    let Some(file) = opened else {
        return Ok(None);
    };
    // No tag covers the length in the head, and the length of a sparse file costs nothing: neither decides how much memory
    // is allocated.
    if length > MAX_SEGMENT || file.status()?.length < length || !is_plausible(&file, length)? {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    let wanted = usize::try_from(length).map_err(io::Error::other)?;
    bytes.try_reserve_exact(wanted).map_err(io::Error::other)?;
    file.read(length, &mut bytes)?;
    Ok((bytes.len() == wanted).then(|| bytes.into()))
}

/// Parses the frames of a compaction, and checks their slots, their epochs, their chain and the points that the head records.
fn parse(object: &str, bytes: &Bytes, head: &Head, compaction: &Compaction) -> Result<(Vec<Frame>, Tail)> {
    let anchors = ChainAnchors::of(head);
    let mut tail = Tail {
        next: compaction.start,
        chain: head.base.chain,
    };
    let (mut frames, mut at): (Vec<Frame>, usize) = (Vec::new(), 0);
    while at < bytes.len() {
        let corrupt = |reason: String| Error::corrupt(object, at as u64, reason);
        let frame = match Frame::parse(bytes, at, &tail.chain) {
            ParsedFrame::Frame(frame) => frame,
            ParsedFrame::End => break,
            ParsedFrame::Short { reason } | ParsedFrame::Bad { reason } => {
                return Err(corrupt(reason.to_owned()));
            }
        };
        if frame.slot() != tail.next {
            return Err(corrupt(format!("slot {} is out of order", frame.slot())));
        }
        let before = frames.last().map(Frame::epoch);
        let follows = before.is_none_or(|before| before.leads_to(frame.epoch()));
        if !follows || frame.epoch() > head.epoch {
            return Err(corrupt(format!(
                "it contains a frame of epoch {}, which doesn't fit the frame before it and the head",
                frame.epoch()
            )));
        }
        tail = Tail::after(&frame);
        anchors.pass(tail).map_err(corrupt)?;
        at += frame.bytes().len();
        frames.push(frame);
    }
    if tail.next != compaction.end {
        let reason = "its last slot does not match the head";
        return Err(Error::corrupt(object, at as u64, reason));
    }
    Ok((frames, tail))
}

/// Keeps the frames that are missing in the compaction of a stack, for the close.
#[derive(Debug)]
pub(crate) struct Compactor {
    /// The compaction as it was read at the takeover; `None` if there was none that counts.
    stored: Option<StoredCompaction>,
    /// The frames that it doesn't hold, from the base on.
    frames: VecDeque<Frame>,
    /// How many bytes of them this session appended.
    appended: usize,
}

impl Compactor {
    /// `frames` are those from the base on, and `stored` holds the first of them.
    pub(crate) fn new(stored: Option<StoredCompaction>, frames: &[Frame]) -> Self {
        let covered = stored.as_ref().map_or(Slot::ZERO, |stored| stored.compaction.end);
        let missing_from = frames.partition_point(|frame| frame.slot() < covered);
        Self {
            stored,
            frames: frames[missing_from..].iter().cloned().collect(),
            appended: 0,
        }
    }

    /// Adds an appended frame.
    pub(crate) fn push(&mut self, frame: Frame) {
        if self.appended > MAX_BYTES {
            // `store` requires the first frame after the base or after the stored ones, so nothing is written until a
            // checkpoint moves the base behind this gap.
            self.frames.clear();
            self.appended = 0;
        }
        self.appended += frame.bytes().len();
        self.frames.push_back(frame);
    }

    /// Drops the frames before the base, which readers don't need any more.
    pub(crate) fn drop_before(&mut self, base: Slot) {
        let passed = self.frames.partition_point(|frame| frame.slot() < base);
        for frame in self.frames.drain(..passed) {
            self.appended = self.appended.saturating_sub(frame.bytes().len());
        }
    }

    /// Adds the frames up to the end of the journal to the compaction, and returns what the head names afterwards. After
    /// an error, that is the compaction as it was. `last` is the segment that the session appends to.
    ///
    /// The head that names the result must be swapped under the same lock of the head.
    pub(crate) fn store(&mut self, journal: &Dir, base: Slot, last: SegmentName) -> Vec<Compaction> {
        self.drop_before(base);
        let stored = self
            .stored
            .take()
            .filter(|stored| stored.compaction.start == base);
        let from = stored.as_ref().map_or(base, |stored| stored.compaction.end);
        // A gap would make readers miss frames.
        let is_gapless = self.frames.front().is_some_and(|first| first.slot() == from);
        // A journal in one segment is read from that segment.
        let is_needed = stored.is_some() || from < last.slot;
        self.stored = match is_gapless && is_needed {
            true => self.add(journal, base, stored.as_ref()).ok().or(stored),
            false => stored,
        };
        self.stored.iter().map(|stored| stored.compaction).collect()
    }

    fn add(
        &self,
        journal: &Dir,
        base: Slot,
        stored: Option<&StoredCompaction>,
    ) -> io::Result<StoredCompaction> {
        let mut digester = stored.map_or_else(Digester::default, |stored| stored.digester.clone());
        let mut bytes = Vec::new();
        let mut end = base;
        for frame in &self.frames {
            digester.add(frame.bytes());
            bytes.extend_from_slice(frame.bytes());
            end = frame.slot().next();
        }
        let before = stored.map_or(0, |stored| stored.compaction.length);
        let name = CompactionName { start: base }.to_string();
        match stored {
            Some(_) => append(journal, &name, before, &bytes)?,
            None => {
                // Another file of this name is the rest of a close that was cut short, or damaged.
                let staged = StagedFile::write_unsynced(journal, &journal.object(&name), &bytes);
                let moved = staged.and_then(|staged| staged.replace(&name));
                moved.map_err(|failure| io::Error::other(failure.error))?;
            }
        }
        Ok(StoredCompaction {
            compaction: Compaction {
                start: base,
                end,
                digest: digester.finish(),
                length: before + bytes.len() as u64,
            },
            digester,
        })
    }
}

fn append(journal: &Dir, name: &str, at: u64, bytes: &[u8]) -> io::Result<()> {
    let opened = journal.open(name, Access::Write).map_err(io::Error::other)?;
    let file: FileHandle = opened.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    let write = || file.write_all_at(bytes, at);
    journal
        .meter()
        .run(Call::Write(bytes.len()), &journal.object(name), write)
}
