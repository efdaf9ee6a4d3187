//! Finds the intact frames in the journal files of a stack, wherever damage lies between them. Each frame is found by the
//! digest chain after it, which covers the frame and all frames before it.

use bytes::Bytes;
use state_core::backend::Tail;
use state_core::journal::ParsedFrame;
use state_core::{Digest, Epoch, Frame, Lineage, Slot};
use std::collections::{BTreeMap, BTreeSet};

/// Length of the digest chain at the end of a frame, and of the MAC that may follow it.
const CHAIN: usize = 32;
const MAC: usize = 16;

/// The first bytes of a frame.
const MAGIC: &[u8] = b"SJF1";

/// A frame, and the digest chain before it.
#[derive(Clone, Debug)]
struct LinkedFrame {
    frame: Frame,
    before: Digest,
}

/// The intact frames of a stack, by the digest chain after each.
#[derive(Clone, Debug, Default)]
pub(super) struct FrameIndex(BTreeMap<Digest, LinkedFrame>);

/// What a scan of a journal file found.
#[derive(Clone, Debug)]
pub(super) struct FrameScan {
    /// Length of the intact beginning in bytes.
    pub(super) length: usize,
    /// Why the frame after the intact beginning can't be read; none if the bytes end there.
    pub(super) reason: Option<&'static str>,
    /// Whether intact frames follow the damage. An interrupted write leaves none.
    pub(super) continues: bool,
}

/// Linked frames, oldest first.
#[derive(Clone, Debug)]
pub(super) struct FrameChain {
    /// The position of the first frame.
    pub(super) before: Tail,
    pub(super) frames: Vec<Frame>,
}

impl FrameChain {
    /// A journal without frames.
    pub(super) fn empty(lineage: Lineage) -> Self {
        Self {
            before: Tail::genesis(lineage),
            frames: Vec::new(),
        }
    }

    /// The position after the last frame.
    pub(super) fn tail(&self) -> Tail {
        self.frames.last().map_or(self.before, Tail::after)
    }

    /// Whether the frames begin, pass or end at a position.
    pub(super) fn passes(&self, position: Tail) -> bool {
        self.before == position || self.frames.iter().any(|frame| Tail::after(frame) == position)
    }
}

impl FrameIndex {
    /// Adds the intact frames from an offset on. The first of them follows `chain`, if the caller knows the chain.
    pub(super) fn scan(&mut self, bytes: &Bytes, start: usize, chain: Option<Digest>) -> FrameScan {
        let mut scan = FrameScan {
            length: start,
            reason: None,
            continues: false,
        };
        let mut next = chain.map(|chain| (start, chain));
        let mut searched = start;
        loop {
            if let Some((at, before)) = next.take() {
                let (end, reason) = self.scan_run(bytes, at, before);
                scan.continues |= scan.reason.is_some() && end > at;
                if scan.reason.is_none() {
                    (scan.length, scan.reason) = (end, reason);
                }
                searched = end;
                if reason.is_none() {
                    return scan;
                }
            } else if scan.reason.is_none() {
                scan.reason = Some("its first frame can't be read");
            }
            match find_frame(bytes, searched) {
                Some(found) => next = Some(found),
                None => return scan,
            }
        }
    }

    /// Adds consecutive frames. Returns the offset after the last one, and why the next one can't be read.
    fn scan_run(
        &mut self,
        bytes: &Bytes,
        mut at: usize,
        mut before: Digest,
    ) -> (usize, Option<&'static str>) {
        loop {
            match Frame::parse(bytes, at, &before) {
                ParsedFrame::Frame(frame) => {
                    at += frame.bytes().len();
                    let chain = *frame.chain();
                    self.0.insert(chain, LinkedFrame { frame, before });
                    before = chain;
                }
                ParsedFrame::End => return (at, None),
                ParsedFrame::Short { reason } | ParsedFrame::Bad { reason } => return (at, Some(reason)),
            }
        }
    }

    /// The position after the newest frame: the highest epoch counts first, because a writer that was fenced may have
    /// appended frames that don't count. None without a frame.
    pub(super) fn newest(&self, highest: Option<Epoch>) -> Option<Digest> {
        let frames = self.0.values().map(|linked| &linked.frame);
        let counting = frames.filter(|frame| highest.is_none_or(|highest| frame.epoch() <= highest));
        let newest = counting.max_by_key(|frame| (frame.epoch(), frame.slot()));
        newest.map(|frame| *frame.chain())
    }

    /// The linked frames that lead to a position, as far back as they are intact.
    pub(super) fn back_from(&self, end: &Digest) -> Option<FrameChain> {
        let mut frames = Vec::new();
        let mut at = self.0.get(end)?;
        loop {
            frames.push(at.frame.clone());
            match self.0.get(&at.before) {
                // Only damage that was made on purpose can lead to a slot that isn't the one before.
                Some(before) if before.frame.slot().next() == at.frame.slot() => at = before,
                _ => break,
            }
        }
        let before = Tail {
            next: at.frame.slot(),
            chain: at.before,
        };
        frames.reverse();
        Some(FrameChain { before, frames })
    }

    /// The chains with which a file could begin whose first frame has this slot.
    pub(super) fn chains_before(&self, slot: Slot, lineage: Lineage) -> Vec<Digest> {
        let genesis = (slot == Slot::ZERO).then(|| Tail::genesis(lineage).chain);
        let frames = self
            .0
            .values()
            .filter(|linked| linked.frame.slot().next() == slot);
        frames
            .map(|linked| *linked.frame.chain())
            .chain(genesis)
            .collect()
    }

    pub(super) fn contains(&self, chain: &Digest) -> bool {
        self.0.contains_key(chain)
    }

    /// Whether there is an intact frame for each slot from `start` on, up to `end`, which is not included.
    pub(super) fn has_slots(&self, start: Slot, end: Slot) -> bool {
        let slots: BTreeSet<Slot> = self.frames().map(Frame::slot).collect();
        let expected = end.get().saturating_sub(start.get());
        slots.range(start..end.max(start)).count() as u64 == expected
    }

    /// All intact frames, in no particular order.
    pub(super) fn frames(&self) -> impl Iterator<Item = &Frame> {
        self.0.values().map(|linked| &linked.frame)
    }
}

/// The next frame behind damage, and the chain before it: the frame before it ends with that chain, and perhaps a MAC.
fn find_frame(bytes: &Bytes, from: usize) -> Option<(usize, Digest)> {
    let starts = bytes.windows(MAGIC.len()).enumerate().skip(from + 1);
    for (at, _) in starts.filter(|(_, window)| *window == MAGIC) {
        if Frame::peek(&bytes[at..]).is_none() {
            continue;
        }
        for behind in [0, MAC] {
            let Some(end) = at.checked_sub(behind) else {
                continue;
            };
            let chain = end.checked_sub(CHAIN).and_then(|start| bytes.get(start..end));
            let Some(chain) = chain.and_then(|chain| chain.try_into().ok()) else {
                continue;
            };
            let chain = Digest::from_bytes(chain);
            if matches!(Frame::parse(bytes, at, &chain), ParsedFrame::Frame(_)) {
                return Some((at, chain));
            }
        }
    }
    None
}
