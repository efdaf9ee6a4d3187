//! The journal, found backwards: each segment's fence names the one before and how much of it counts.
//!
//! ```text
//!  seg 0, epoch 1        seg 5, epoch 2            seg 9, epoch 2      (greatest epoch, then slot: the top)
//!  ├──────────────┤◄─────┤fence: 0-1, 830 B├──┤◄───┤fence: 5-2, 412 B├── to the last whole frame
//!                 └ bytes of a stale writer: beyond the 830, so they don't count
//!  seg 7, epoch 1: a stale writer's too; no fence leads to it, so it doesn't count
//! ```

use crate::layout::SegmentName;
use crate::segment::Segment;
use state_core::backend::{ChainAnchors, Tail};
use state_core::journal::{Fence, Previous, genesis};
use state_core::{Digest, Epoch, Error, Frame, Head, Result, Slot};

/// The journal of one moment.
#[derive(Debug)]
pub(crate) struct Walked {
    /// All frames from the slot that was asked for.
    pub(crate) frames: Vec<Frame>,
    pub(crate) tail: Tail,
    /// The last segment and its end, as the next fence must name them; none if there is no segment.
    pub(crate) last: Option<(SegmentName, Previous)>,
}

/// What a walk begins with.
pub(crate) struct Start<'a> {
    pub(crate) head: &'a Head,
    /// The first slot that is wanted.
    pub(crate) from: Slot,
    /// No segment may be of a later epoch.
    pub(crate) newest: Epoch,
    /// The journal's folder, for messages.
    pub(crate) folder: &'a str,
}

/// A segment on the way, and its end by the word of the one after it.
struct Step {
    segment: Segment,
    fence: Fence,
    end: Option<Previous>,
}

/// Walks the journal back from its top and reads it forward again. `load` reads a segment; none if it isn't there.
pub(crate) fn walk(
    start: &Start<'_>,
    names: &[SegmentName],
    load: &mut dyn FnMut(SegmentName) -> Result<Option<Segment>>,
) -> Result<Walked> {
    if start.head.is_collected(start.from) {
        let object = format!("slot {} of {}", start.from, start.folder);
        return Err(Error::collected(
            object,
            format_args!("slot {}", start.head.floor),
        ));
    }
    let Some(&top) = names.iter().max() else {
        return nothing(start);
    };
    if top.epoch > start.newest {
        let reason = format!(
            "its epoch is later than {} in the head: the head went back",
            start.newest
        );
        return Err(Error::corrupt(format!("{}/{top}", start.folder), 0, reason));
    }
    let steps = back(start, top, load)?;
    forward(start, steps)
}

fn nothing(start: &Start<'_>) -> Result<Walked> {
    let tail = Tail::genesis(start.head.lineage);
    let passed = ChainAnchors::of(start.head).pass(tail);
    passed.map_err(|reason| Error::corrupt(start.folder, 0, reason))?;
    finish(start, tail, start.folder, 0)?;
    Ok(Walked {
        frames: Vec::new(),
        tail,
        last: None,
    })
}

/// The segments from the one that holds `from` to the top, latest first.
fn back(
    start: &Start<'_>,
    top: SegmentName,
    load: &mut dyn FnMut(SegmentName) -> Result<Option<Segment>>,
) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    let (mut name, mut end) = (top, None);
    loop {
        let Some(segment) = load(name)? else {
            let object = format!("{}/{name}", start.folder);
            let reason = "the segment is missing, but a later one continues it";
            return Err(Error::corrupt(object, 0, reason));
        };
        let fence = segment.beginning()?;
        let previous = fence.previous.clone();
        let before = match &previous {
            Some(previous) => Some(predecessor(&segment, previous)?),
            None => None,
        };
        if before.is_none() && name.slot != Slot::ZERO && !segment.is_adopted() {
            return Err(segment.corrupt(0, "its fence names no segment before it, but it isn't the first"));
        }
        steps.push(Step { segment, fence, end });
        match before {
            Some(before) if name.slot > start.from => (name, end) = (before, previous),
            _ => return Ok(steps),
        }
    }
}

/// The segment that a fence continues, if it can be.
fn predecessor(segment: &Segment, previous: &Previous) -> Result<SegmentName> {
    let Some(name) = SegmentName::parse(&previous.segment) else {
        return Err(segment.corrupt(0, "its fence names a segment before it that can't be one"));
    };
    let follows = previous.last_slot.next() == segment.name.slot
        && name.slot <= previous.last_slot
        && name.epoch <= segment.name.epoch;
    if follows {
        Ok(name)
    } else {
        Err(segment.corrupt(0, "its fence doesn't follow the segment that it names"))
    }
}

fn forward(start: &Start<'_>, steps: Vec<Step>) -> Result<Walked> {
    let mut walked: Option<Walked> = None;
    for step in steps.into_iter().rev() {
        let Step { segment, fence, end } = step;
        let tail = match &walked {
            Some(walked) => walked.tail,
            None => Tail {
                next: segment.name.slot,
                chain: first_chain(start, &segment, &fence)?,
            },
        };
        if fence.chain != tail.chain {
            return Err(segment.corrupt(0, "its fence doesn't continue the chain of the segment before"));
        }
        let content = segment.content(tail.chain, end.as_ref())?;
        let (tail, frames) = through(start, &segment, tail, content.frames)?;
        let last = Previous {
            segment: segment.name.to_string(),
            length: content.length,
            last_slot: Slot(tail.next.get().saturating_sub(1)),
        };
        let mut all = walked.map_or_else(Vec::new, |walked| walked.frames);
        all.extend(frames);
        walked = Some(Walked {
            frames: all,
            tail,
            last: Some((segment.name, last)),
        });
    }
    let Some(walked) = walked else {
        return nothing(start);
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

/// The chain before the first segment that was reached.
fn first_chain(start: &Start<'_>, segment: &Segment, fence: &Fence) -> Result<Digest> {
    let genesis = genesis(start.head.lineage);
    if segment.name.slot == Slot::ZERO && fence.chain != genesis {
        return Err(segment.corrupt(0, "it doesn't begin this stack's journal"));
    }
    Ok(fence.chain)
}

/// Passes all of a segment's points that the head knows; gives back its end and the frames that were asked for.
fn through(
    start: &Start<'_>,
    segment: &Segment,
    before: Tail,
    frames: Vec<Frame>,
) -> Result<(Tail, Vec<Frame>)> {
    let anchors = ChainAnchors::of(start.head);
    let (mut tail, mut at) = (before, 0);
    let pass = |tail, at| anchors.pass(tail).map_err(|reason| segment.corrupt(at, reason));
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

/// The journal must reach what the head knows of it.
fn finish(start: &Start<'_>, tail: Tail, object: &str, at: u64) -> Result<()> {
    let reached = ChainAnchors::of(start.head).finish(tail);
    reached.map_err(|reason| Error::corrupt(object, at, reason))
}

#[cfg(test)]
mod tests;
