//! One segment of the journal: parses its frames and finds its end, also after a crash in a write.

use crate::error::read_failed;
use crate::files::FileHandle;
use crate::layout::{MAX_PREALLOCATED, SegmentName};
use crate::torn::{has_unwritten_mac, is_cut, is_unwritten};
use bytes::Bytes;
use state_core::backend::Holder;
use state_core::journal::{Fence, FrameKind, MAX_OVERHEAD, MAX_PAYLOAD, ParsedFrame, Previous};
use state_core::{Digest, Epoch, Error, Frame, Result};

/// The bytes of a segment as they were read.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) name: SegmentName,
    /// Path of the file, for messages.
    pub(crate) object: String,
    pub(crate) bytes: Bytes,
}

/// The valid frames of a segment.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    pub(crate) frames: Vec<Frame>,
    /// Length of these frames in bytes.
    pub(crate) length: u64,
}

/// The length of the largest frame in bytes.
const MAX_FRAME: u64 = (MAX_PAYLOAD + MAX_OVERHEAD) as u64;

/// Length of the chain digest at the start of a segment that was copied from another store.
const ADOPTED_PREFIX: usize = 32;

impl Segment {
    /// Whether the segment was copied from another store.
    pub(crate) fn is_adopted(&self) -> bool {
        self.name.epoch == Epoch::ZERO
    }

    /// Returns the fence at the segment's start, or for a copied segment an equivalent fence with the stored chain.
    pub(crate) fn beginning(&self) -> Result<Fence> {
        if !self.is_adopted() {
            return self.fence();
        }
        let Some(chain) = self.bytes.first_chunk::<ADOPTED_PREFIX>() else {
            return Err(self.corrupt(0, "it is too short for the chain at its start"));
        };
        Ok(Fence {
            previous: None,
            chain: Digest::from_bytes(*chain),
            holder: Holder::default(),
        })
    }

    /// Parses the fence at the segment's start. A torn fence is corrupt, because a segment gets its name only after its
    /// fence was synced.
    ///
    /// Whether the fence continues the journal is checked by the walk.
    pub(crate) fn fence(&self) -> Result<Fence> {
        let Some(payload) = Frame::unverified_payload(&self.bytes) else {
            return Err(self.corrupt(0, "it doesn't begin with a fence"));
        };
        let fence = Fence::decode(&self.object, payload)?;
        match Frame::parse(&self.bytes, 0, &fence.chain) {
            ParsedFrame::Frame(frame) => self.check(&frame, 0, 0).map(|()| fence),
            ParsedFrame::End => Err(self.corrupt(0, "it is empty")),
            ParsedFrame::Short { reason } | ParsedFrame::Bad { reason } => Err(self.corrupt(0, reason)),
        }
    }

    /// Parses and checks all frames; the first must follow `chain`.
    ///
    /// With the end that the next segment's fence records, the frames must end exactly there: a fenced writer wrote
    /// the bytes that follow. Without such an end, this is the last segment, and it ends after its last whole frame; a
    /// torn write after that frame is ignored.
    pub(crate) fn content(&self, chain: Digest, end: Option<&Previous>) -> Result<Content> {
        let bytes = match end {
            Some(end) => self.counted(end.length)?,
            None => self.bytes.clone(),
        };
        let mut frames: Vec<Frame> = Vec::new();
        // Only the last segment can be torn: the next fence records the length that a takeover counted, and a copied
        // segment is complete before its head exists.
        let whole = end.is_some() || self.is_adopted();
        let (mut at, mut chain) = (if self.is_adopted() { ADOPTED_PREFIX } else { 0 }, chain);
        loop {
            match Frame::parse(&bytes, at, &chain) {
                ParsedFrame::Frame(frame) if !whole && has_unwritten_mac(&bytes, at, &frame) => break,
                ParsedFrame::Frame(frame) => {
                    self.check(&frame, at, frames.len())?;
                    at += frame.bytes().len();
                    chain = *frame.chain();
                    frames.push(frame);
                }
                ParsedFrame::End => break,
                ParsedFrame::Short { reason } | ParsedFrame::Bad { reason } if whole => {
                    return Err(self.corrupt(at, reason));
                }
                // A crash cut the last write. It was never acknowledged, because an acknowledgement follows the sync of
                // the whole frame.
                ParsedFrame::Short { .. } if is_cut(&bytes, at) => break,
                ParsedFrame::Bad { .. } | ParsedFrame::Short { .. } if is_unwritten(&bytes, at) => break,
                ParsedFrame::Short { reason } | ParsedFrame::Bad { reason } => {
                    return Err(self.corrupt(at, reason));
                }
            }
        }
        let last = frames.last().map(Frame::slot);
        if end.is_some_and(|end| Some(end.last_slot) != last) {
            return Err(self.corrupt(
                at,
                "it doesn't end at the slot that the next segment's fence names",
            ));
        }
        Ok(Content {
            frames,
            length: at as u64,
        })
    }

    /// Returns the bytes that count according to the next segment's fence.
    fn counted(&self, length: u64) -> Result<Bytes> {
        match usize::try_from(length) {
            Ok(length) if length <= self.bytes.len() => Ok(self.bytes.slice(..length)),
            _ => Err(self.corrupt(
                self.bytes.len(),
                format!("it was cut: the next segment's fence counts {length} bytes of it"),
            )),
        }
    }

    /// Checks that a parsed frame has the slot, epoch and kind that its place requires.
    fn check(&self, frame: &Frame, at: usize, index: usize) -> Result<()> {
        let expected = self.name.slot.get().checked_add(index as u64);
        if Some(frame.slot().get()) != expected {
            return Err(self.corrupt(at, format!("slot {} is out of order", frame.slot())));
        }
        // A copied segment holds all frames of its source, which have several epochs and fences in the middle.
        if self.is_adopted() {
            return Ok(());
        }
        if frame.epoch() != self.name.epoch {
            return Err(self.corrupt(at, format!("it contains a frame of epoch {}", frame.epoch())));
        }
        if (frame.kind() == FrameKind::Fence) != (index == 0) {
            return Err(self.corrupt(
                at,
                "a fence must be the first frame of a segment, and only the first",
            ));
        }
        Ok(())
    }

    pub(crate) fn corrupt(&self, at: usize, reason: impl Into<String>) -> Error {
        Error::corrupt(&self.object, at as u64, reason)
    }
}

/// Refuses a segment of which more than one frame and preallocated space are left after its last whole frame. A write adds
/// one frame, so an interrupted write can't leave so much. Only the headers of the frames are read: the length of a file costs its owner
/// nothing, and must not decide how much memory a reader allocates.
pub(crate) fn examine_length(object: &str, name: SegmentName, file: &FileHandle, length: u64) -> Result<()> {
    // Also keeps the reading of ordinary segments at one request.
    if length <= 2 * MAX_FRAME {
        return Ok(());
    }
    let start = if name.epoch == Epoch::ZERO {
        ADOPTED_PREFIX as u64
    } else {
        0
    };
    let at = end_of_headers(file, start, length).map_err(|error| read_failed(object, error))?;
    if length - at <= MAX_FRAME + MAX_PREALLOCATED {
        return Ok(());
    }
    let reason = format!("no frame begins here, and {} bytes follow", length - at);
    Err(Error::corrupt(object, at, reason))
}

/// Whether the first `length` bytes of a file can be allocated: they are few, or consist of frames as far as their headers
/// say.
pub(crate) fn is_plausible(file: &FileHandle, length: u64) -> std::io::Result<bool> {
    Ok(length <= 2 * MAX_FRAME || end_of_headers(file, 0, length)? == length)
}

/// Returns the offset at which no header of a frame that ends within `length` begins, from `start` on.
fn end_of_headers(file: &FileHandle, start: u64, length: u64) -> std::io::Result<u64> {
    let mut at = start;
    loop {
        let header = read_header(file, at)?;
        let frame = Frame::extent(&header) as u64;
        if !Frame::header_anywhere(&header) || frame > length - at {
            return Ok(at);
        }
        at += frame;
    }
}

/// Reads the header of a frame; shorter at the end of the file.
fn read_header(file: &FileHandle, at: u64) -> std::io::Result<Vec<u8>> {
    let mut header = vec![0; MAX_OVERHEAD];
    let mut length = 0;
    while length < header.len() {
        match file.read_at(&mut header[length..], at + length as u64)? {
            0 => break,
            more => length += more,
        }
    }
    // The bytes after the header could begin the next frame, which isn't searched for.
    header.truncate(length.min(Frame::extent(&[])));
    Ok(header)
}

#[cfg(test)]
mod tests;
