//! Finds the valid journal backwards: each segment's fence names the segment before it and how much of it counts.
//!
//! ```text
//!  seg 0, epoch 1        seg 5, epoch 2            seg 9, epoch 2      (greatest epoch, then slot: the top)
//!  ├──────────────┤◄─────┤fence: 0-1, 830 B├──┤◄───┤fence: 5-2, 412 B├── to the last whole frame
//!                 └ bytes of a fenced writer: beyond the 830, so they don't count
//!  seg 7, epoch 1: also of a fenced writer; no fence names it, so it doesn't count
//! ```

use crate::layout::SegmentName;
use crate::segment::Segment;
use state_core::backend::{ChainAnchors, Tail, require_epoch};
use state_core::journal::{Fence, Previous, genesis};
use state_core::{Digest, Epoch, Error, Frame, Head, Result, Slot};

/// The valid frames of a journal, at one moment.
#[derive(Debug)]
pub(crate) struct WalkResult {
    /// All frames from the requested slot on.
    pub(crate) frames: Vec<Frame>,
    pub(crate) tail: Tail,
    /// The last segment and its end, as the next fence must name them; `None` if the journal has no segment.
    pub(crate) last: Option<(SegmentName, Previous)>,
}

/// Where a walk starts and ends, and the head that it checks the journal against.
pub(crate) struct WalkStart<'a> {
    pub(crate) head: &'a Head,
    /// The first slot whose frame is requested.
    pub(crate) from: Slot,
    /// The latest epoch that a segment may have. A takeover passes the epoch before its own.
    pub(crate) newest: Epoch,
    /// The end of the frames that were read from a compaction: the journal must pass this point. `from` is its slot.
    pub(crate) resume: Option<Tail>,
    /// Path of the journal's folder, for messages.
    pub(crate) folder: &'a str,
}

/// A segment that the walk reached, and its end as the fence of its successor records it; `None` for the last segment.
struct SegmentStep {
    segment: Segment,
    fence: Fence,
    end: Option<Previous>,
}

/// Walks the journal back from its last segment to the requested slot, then checks and reads it forward. `load`
/// reads a segment, and returns `None` if the file doesn't exist.
pub(crate) fn walk(
    start: &WalkStart<'_>,
    names: &[SegmentName],
    load: &mut dyn FnMut(SegmentName) -> Result<Option<Segment>>,
) -> Result<WalkResult> {
    match last_segment(start, names)? {
        Some(top) => replay_forward(start, collect_back(start, top, load)?),
        None => empty_journal(start),
    }
}

/// Returns the last segment, whose epoch must fit the head; `None` if there is no segment.
pub(crate) fn last_segment(start: &WalkStart<'_>, names: &[SegmentName]) -> Result<Option<SegmentName>> {
    if start.head.is_collected(start.from) {
        let object = format!("slot {} of {}", start.from, start.folder);
        return Err(Error::collected(
            object,
            format_args!("slot {}", start.head.floor),
        ));
    }
    // A fenced writer may still have created a segment, but only of its older epoch: the greatest name is current.
    let Some(&top) = names.iter().max() else {
        return Ok(None);
    };
    // A takeover replaces the head before it creates its segment. A segment of a later epoch than the head's thus means
    // that the head is an older version. Writing under the older head would fork the journal and reuse an epoch.
    if top.epoch > start.newest {
        let reason = format!(
            "its epoch is later than {} in the head: head.json was restored to an older version",
            start.newest
        );
        return Err(Error::corrupt(format!("{}/{top}", start.folder), 0, reason));
    }
    // An attacker who raises the epoch to the highest one would end fencing for good.
    require_epoch(format!("the head of {}", start.folder), top.epoch, start.newest)?;
    Ok(Some(top))
}

fn empty_journal(start: &WalkStart<'_>) -> Result<WalkResult> {
    let tail = Tail::genesis(start.head.lineage);
    let passed = ChainAnchors::of(start.head).pass(tail);
    passed.map_err(|reason| Error::corrupt(start.folder, 0, reason))?;
    finish(start, tail, start.folder, 0)?;
    Ok(WalkResult {
        frames: Vec::new(),
        tail,
        last: None,
    })
}

/// Returns the segments from the last one back to the one that holds slot `from`.
fn collect_back(
    start: &WalkStart<'_>,
    top: SegmentName,
    load: &mut dyn FnMut(SegmentName) -> Result<Option<Segment>>,
) -> Result<Vec<SegmentStep>> {
    let mut steps = Vec::new();
    let (mut name, mut end) = (top, None);
    loop {
        let Some(segment) = load(name)? else {
            let object = format!("{}/{name}", start.folder);
            let reason = "the segment is missing, but a later segment continues it";
            return Err(Error::corrupt(object, 0, reason));
        };
        let fence = segment.beginning()?;
        let previous = fence.previous.clone();
        let before = match &previous {
            Some(previous) => Some(predecessor(&segment, previous)?),
            None => None,
        };
        if before.is_none() && name.slot != Slot::ZERO && !segment.is_adopted() {
            return Err(segment.corrupt(
                0,
                "its fence names no previous segment, but it isn't the first segment",
            ));
        }
        steps.push(SegmentStep { segment, fence, end });
        // Stop at the segment that holds the requested slot: older segments may have been collected.
        match before {
            Some(before) if name.slot > start.from => (name, end) = (before, previous),
            _ => return Ok(steps),
        }
    }
}

/// Returns the segment that a fence continues. Its name and slots must lie before those of the fence, so that no
/// loop of fences can trap the walk.
fn predecessor(segment: &Segment, previous: &Previous) -> Result<SegmentName> {
    let Some(name) = SegmentName::parse(&previous.segment) else {
        return Err(segment.corrupt(0, "its fence names a previous segment by an invalid name"));
    };
    let follows = previous.last_slot.next() == segment.name.slot
        && name.slot <= previous.last_slot
        && name.epoch.leads_to(segment.name.epoch);
    if follows {
        Ok(name)
    } else {
        Err(segment.corrupt(0, "its fence doesn't follow the end of the segment that it names"))
    }
}

fn replay_forward(start: &WalkStart<'_>, steps: Vec<SegmentStep>) -> Result<WalkResult> {
    let mut walked: Option<WalkResult> = None;
    for step in steps.into_iter().rev() {
        let SegmentStep { segment, fence, end } = step;
        let tail = match &walked {
            Some(walked) => walked.tail,
            None => Tail {
                next: segment.name.slot,
                chain: first_chain(start, &segment, &fence)?,
            },
        };
        if fence.chain != tail.chain {
            return Err(segment.corrupt(0, "its fence doesn't continue the chain of the previous segment"));
        }
        let content = segment.content(tail.chain, end.as_ref())?;
        let (tail, frames) = check_anchors(start, &segment, tail, content.frames)?;
        let last = Previous {
            segment: segment.name.to_string(),
            length: content.length,
            last_slot: Slot(tail.next.get().saturating_sub(1)),
        };
        let mut all = walked.map_or_else(Vec::new, |walked| walked.frames);
        all.extend(frames);
        walked = Some(WalkResult {
            frames: all,
            tail,
            last: Some((segment.name, last)),
        });
    }
    let Some(walked) = walked else {
        return empty_journal(start);
    };
    if let Some((name, last)) = &walked.last {
        finish(
            start,
            walked.tail,
            &format!("{}/{name}", start.folder),
            last.length,
        )?;
    }
    Ok(walked)
}

/// Returns the chain before the first segment that the walk reached.
fn first_chain(start: &WalkStart<'_>, segment: &Segment, fence: &Fence) -> Result<Digest> {
    let genesis = genesis(start.head.lineage);
    if segment.name.slot == Slot::ZERO && fence.chain != genesis {
        return Err(segment.corrupt(0, "it isn't the beginning of this stack's journal"));
    }
    Ok(fence.chain)
}

/// Checks a segment against the anchors in the head; returns its end and the requested frames.
fn check_anchors(
    start: &WalkStart<'_>,
    segment: &Segment,
    before: Tail,
    frames: Vec<Frame>,
) -> Result<(Tail, Vec<Frame>)> {
    let anchors = ChainAnchors::of(start.head);
    let (mut tail, mut at) = (before, 0);
    let pass = |tail: Tail, at| match start.resume {
        Some(end) if end.next == tail.next && end.chain != tail.chain => {
            let reason = format!(
                "the chain before slot {} differs from the one in the compaction",
                end.next
            );
            Err(segment.corrupt(at, reason))
        }
        _ => anchors.pass(tail).map_err(|reason| segment.corrupt(at, reason)),
    };
    // A checkpoint rotates the segment, so its base lies at the start of a segment, before the first frame.
    pass(tail, at)?;
    for frame in &frames {
        at += frame.bytes().len();
        tail = Tail::after(frame);
        pass(tail, at)?;
    }
    let mut wanted = frames;
    wanted.retain(|frame| frame.slot() >= start.from);
    Ok((tail, wanted))
}

/// Checks that the journal reaches every slot that the head refers to.
fn finish(start: &WalkStart<'_>, tail: Tail, object: &str, at: u64) -> Result<()> {
    let reached = ChainAnchors::of(start.head).finish(tail);
    let reached = reached.and_then(|()| match start.resume {
        Some(end) if end.next > tail.next => Err(format!(
            "the journal was truncated: it ends before slot {}, but a compaction ends before slot {}",
            tail.next, end.next
        )),
        _ => Ok(()),
    });
    reached.map_err(|reason| Error::corrupt(object, at, reason))
}

#[cfg(test)]
mod tests;
