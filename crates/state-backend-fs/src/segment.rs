//! One segment of the journal: its frames, and where it ends.

use crate::layout::SegmentName;
use bytes::Bytes;
use state_core::backend::Holder;
use state_core::journal::{Fence, FrameKind, ParsedFrame, Previous};
use state_core::{Digest, Epoch, Error, Frame, Result};

/// The unit in which a disk loses writes, in bytes.
const SECTOR: usize = 512;

/// A piece of a sector proves a lost write only if so many bytes of it are zero: one or two may be zero by
/// chance, or by the damage of one byte.
const PROOF: usize = 8;

/// A segment as it was read.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) name: SegmentName,
    /// The path, for messages.
    pub(crate) object: String,
    pub(crate) bytes: Bytes,
}

/// The frames of a segment that count.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    pub(crate) frames: Vec<Frame>,
    /// How many bytes they take.
    pub(crate) length: u64,
}

/// Bytes of the chain with which a segment from another store begins.
const BEFORE: usize = 32;

impl Segment {
    /// Whether it holds the journal of a stack that came from another store.
    pub(crate) fn is_adopted(&self) -> bool {
        self.name.epoch == Epoch::ZERO
    }

    /// What it begins with: a fence, or the chain before the frames that came from another store.
    pub(crate) fn beginning(&self) -> Result<Fence> {
        if !self.is_adopted() {
            return self.fence();
        }
        let Some(chain) = self.bytes.first_chunk::<BEFORE>() else {
            return Err(self.corrupt(0, "it doesn't begin with a chain"));
        };
        Ok(Fence {
            previous: None,
            chain: Digest::from_bytes(*chain),
            holder: Holder::default(),
        })
    }

    /// The fence that it begins with. It is whole: a segment gets its name only after its fence was synced.
    ///
    /// That it continues the journal isn't checked yet.
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

    /// All frames, each checked, of which the first follows `chain`.
    ///
    /// With the successor's word for where it ends, it must end there: what follows was written by somebody who
    /// was fenced. Without, it ends where a whole frame ends, or where a write was torn.
    pub(crate) fn content(&self, chain: Digest, end: Option<&Previous>) -> Result<Content> {
        let bytes = match end {
            Some(end) => self.counted(end.length)?,
            None => self.bytes.clone(),
        };
        let mut frames: Vec<Frame> = Vec::new();
        let whole = end.is_some() || self.is_adopted();
        let (mut at, mut chain) = (if self.is_adopted() { BEFORE } else { 0 }, chain);
        loop {
            match Frame::parse(&bytes, at, &chain) {
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

    /// The bytes that count, by the word of the next segment's fence.
    fn counted(&self, length: u64) -> Result<Bytes> {
        match usize::try_from(length) {
            Ok(length) if length <= self.bytes.len() => Ok(self.bytes.slice(..length)),
            _ => Err(self.corrupt(
                self.bytes.len(),
                format!("it was cut: the next segment's fence counts {length} bytes of it"),
            )),
        }
    }

    /// Whether a frame whose bytes are whole is also in its place.
    fn check(&self, frame: &Frame, at: usize, index: usize) -> Result<()> {
        let expected = self.name.slot.get().checked_add(index as u64);
        if Some(frame.slot().get()) != expected {
            return Err(self.corrupt(at, format!("slot {} stands out of its order", frame.slot())));
        }
        if self.is_adopted() {
            return Ok(());
        }
        if frame.epoch() != self.name.epoch {
            return Err(self.corrupt(at, format!("a frame of epoch {} is in it", frame.epoch())));
        }
        if (frame.kind() == FrameKind::Fence) != (index == 0) {
            return Err(self.corrupt(at, "a fence stands where none may, or is missing where it must"));
        }
        Ok(())
    }

    pub(crate) fn corrupt(&self, at: usize, reason: impl Into<String>) -> Error {
        Error::corrupt(&self.object, at as u64, reason)
    }
}

/// Whether the bytes end within the frame at `at`, as they do when a write wasn't finished.
fn is_cut(bytes: &[u8], at: usize) -> bool {
    let rest = &bytes[at..];
    let magic = &rest[..rest.len().min(4)];
    at > 0 && Frame::is_header_prefix(magic) && !frame_follows(rest)
}

/// Whether the frame at `at` isn't whole because sectors of it never reached the disk: at least one of those
/// that hold it reads as zeros, from where the frame or the sector begins to where the sector or the file ends.
fn is_unwritten(bytes: &[u8], at: usize) -> bool {
    let rest = &bytes[at..];
    if at == 0 || frame_follows(rest) {
        return false;
    }
    let zero = |range: std::ops::Range<usize>| bytes[range].iter().all(|byte| *byte == 0);
    if zero(at..bytes.len()) {
        return true;
    }
    let frame_end = at.saturating_add(Frame::extent(rest)).min(bytes.len());
    (at / SECTOR..frame_end.div_ceil(SECTOR)).any(|sector| {
        let begin = at.max(sector * SECTOR);
        let end = bytes.len().min((sector + 1) * SECTOR);
        end.min(frame_end) - begin >= PROOF && zero(begin..end)
    })
}

/// Whether another frame begins somewhere after the first byte: batches are synced one by one, so nothing
/// follows one that was torn.
fn frame_follows(rest: &[u8]) -> bool {
    Frame::header_anywhere(rest.get(1..).unwrap_or_default())
}

#[cfg(test)]
mod tests;
