//! Rebuilt stacks whose data key was replaced. Frames that precede the replacement have tags of the former key, which proves
//! nothing any more: a removed recipient may know it. They count only if the stored head, which the present key signs, or
//! a page that it names contains a chain digest that covers them.

use crate::objects::document::RevisionDocument;
use crate::objects::history_page::{self, PageLimits};
use crate::salvage::frame_index::FrameChain;
use crate::salvage::head_template::{Client, HeadTemplate};
use crate::salvage::stack_files::StackFiles;
use bytes::Bytes;
use state_core::backend::Tail;
use state_core::history::HistoryPageRef;
use state_core::{Base, Digest, Frame, Head, Slot};
use std::collections::BTreeSet;

/// The slot before which the stored head or one of its pages proves all frames of a chain; none if neither proves any.
pub(super) fn proven_before(files: &StackFiles, template: &HeadTemplate, chain: &FrameChain) -> Option<Slot> {
    if !template.is_stored {
        return None;
    }
    let head = &template.head;
    let frames = chain.frames.iter().map(Tail::after);
    let passed: BTreeSet<(Slot, Digest)> = std::iter::once(chain.before)
        .chain(frames)
        .map(|position| (position.next, position.chain))
        .collect();
    let bases = head.bases().map(|(_, base)| (base.start, base.chain));
    let watermark = head.watermark.map(|last| (last.slot.next(), last.chain));
    let paged = files.paged.iter().map(|position| (position.next, position.chain));
    let positions = bases.chain(watermark).chain(paged);
    let proven = positions.filter(|position| passed.contains(position));
    proven.map(|(slot, _)| slot).max()
}

/// Lets readers of a rebuilt head accept frames that precede the last replacement of the key and are proven: the head requires
/// tags only of the frames after them. No key authenticates frames that were lost.
pub(super) fn accept(head: &mut Head, proven_before: Option<Slot>) {
    if !seal_state(head) {
        return;
    }
    let (Some(keys), Some(proven)) = (&mut head.keys, proven_before) else {
        return;
    };
    keys.since = keys.since.max(proven);
    for link in &mut keys.succession {
        link.until = link.until.min(proven);
    }
}

/// Whether a state that is replayed from the base of a head contains values that an earlier key sealed.
pub(super) fn seal_state(head: &Head) -> bool {
    let keys = head.keys.as_ref();
    keys.is_some_and(|keys| keys.succession.iter().any(|link| head.base.start < link.until))
}

/// A variant of a rebuilt head that keeps the base of the stored head, from which the key was replaced, with pages for the
/// revisions before it. Otherwise the present state would be replayed from values that the former key sealed. None if the key
/// wasn't replaced after the beginning of the history, or if the stored base lies outside of the journal.
pub(super) fn with_later_base(
    client: &Client,
    template: &HeadTemplate,
    head: &Head,
    frames: &[Frame],
) -> Option<(Head, Vec<(HistoryPageRef, Bytes)>)> {
    let stored = &template.head;
    if !template.is_stored {
        return None;
    }
    let start = head.base.start;
    let is_here = |base: &Base| {
        base.start > start
            && frames
                .iter()
                .any(|frame| (frame.slot().next(), frame.chain()) == (base.start, &base.chain))
    };
    if !seal_state(head) || !is_here(&stored.base) {
        return None;
    }
    let earlier = frames.iter().filter(|frame| frame.slot() < stored.base.start);
    let documents = earlier.filter_map(|frame| RevisionDocument::of_frame("journal frame", frame).ok()?);
    let pages = history_page::pack(documents.collect(), PageLimits::default(), || client.nonce());
    let mut later = head.clone();
    later.base = stored.base.clone();
    later.rev_base = stored
        .rev_base
        .clone()
        .filter(|base| base.start == start || is_here(base));
    later.history.pages = pages.iter().map(|(page, _)| *page).collect();
    Some((later, pages))
}
