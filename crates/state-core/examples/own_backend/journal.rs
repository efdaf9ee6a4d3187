//! Reading a journal: one frame a key, checked link by link.

use crate::shelf::Shelf;
use bytes::Bytes;
use state_core::backend::{JournalView, Tail};
use state_core::journal::{Frame, Parsed};
use state_core::{Base, Epoch, Error, Head, Lineage, Result, Slot};

/// The key of a slot. Twenty digits, so that keys sort as slots do.
pub(crate) fn key(lineage: Lineage, slot: Slot) -> String {
    format!("stacks/{lineage}/journal/{:020}", slot.get())
}

/// Everything from the head's base on, or from an earlier or later slot, to the end.
pub(crate) fn read(shelf: &Shelf, head: Head, from: Option<Slot>) -> Result<JournalView> {
    let lineage = head.lineage;
    let from = from.unwrap_or(head.base.start);
    // Links are checked from a point whose chain is known: the base, or the very beginning.
    let origin = if from < head.base.start {
        Base::empty(lineage)
    } else {
        head.base.clone()
    };
    let mut tail = Tail {
        next: origin.start,
        chain: origin.chain,
    };
    let mut marked = head.watermark.is_none_or(|mark| mark.slot < tail.next);
    let (mut frames, mut epoch) = (Vec::new(), Epoch::ZERO);
    while let Some((_, bytes)) = shelf.get(&key(lineage, tail.next)) {
        let frame = parse(&head, tail, epoch, &bytes)?;
        epoch = frame.epoch();
        tail = after(&frame);
        marked |= head
            .watermark
            .is_some_and(|mark| mark.slot == frame.slot() && mark.chain == *frame.chain());
        if frame.slot() >= from {
            frames.push(frame);
        }
    }
    if from > tail.next {
        return Err(Error::invalid(
            format!("journal of stack {lineage}"),
            "it ends before",
        ));
    }
    if !marked {
        let object = key(lineage, tail.next);
        return Err(Error::corrupt(object, 0, "the journal was cut here"));
    }
    Ok(JournalView { head, frames, tail })
}

/// The frame of a slot: whole, linked, and of an epoch that can be.
fn parse(head: &Head, tail: Tail, epoch: Epoch, bytes: &Bytes) -> Result<Frame> {
    match Frame::parse(bytes, 0, &tail.chain) {
        Parsed::Frame(frame)
            if frame.slot() == tail.next
                && frame.bytes() == bytes
                && frame.epoch() >= epoch
                && frame.epoch() <= head.epoch =>
        {
            Ok(frame)
        }
        _ => {
            let object = key(head.lineage, tail.next);
            Err(Error::corrupt(object, 0, "it doesn't follow the frame before it"))
        }
    }
}

/// The end of a journal whose last frame this is.
pub(crate) fn after(frame: &Frame) -> Tail {
    Tail {
        next: frame.slot().next(),
        chain: *frame.chain(),
    }
}

/// Whether a frame is the one that goes there, byte for byte.
pub(crate) fn follows(tail: Tail, frame: &Frame) -> bool {
    let parsed = Frame::parse(frame.bytes(), 0, &tail.chain);
    frame.slot() == tail.next && matches!(parsed, Parsed::Frame(same) if same == *frame)
}
