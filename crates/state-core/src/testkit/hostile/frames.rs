//! Reads the frames of a journal from an image of a store: segments, or one object per slot.

use super::image::StoreImage;
use crate::journal::{Fence, Frame, ParsedFrame, genesis};
use crate::{Digest, Head, Lineage, Slot};

/// Returns the frames of a journal, each with the path of its object and the chain before it. In each object, reading
/// stops at the first frame that doesn't continue the chain.
pub(super) fn frames(store: &StoreImage, lineage: Lineage) -> Vec<(String, Digest, Frame)> {
    let (mut frames, head) = (Vec::new(), store.head(lineage));
    let mut chain = genesis(lineage);
    for (object, bytes) in store.below(&folder(lineage)) {
        let name = object.rsplit('/').next().unwrap_or_default();
        let is_segment = name.ends_with(".log");
        // A compaction object repeats frames that also exist as single objects.
        if name.len() > 20 && !is_segment {
            continue;
        }
        let slot = name.get(..20).and_then(|slot| slot.parse().ok()).map(Slot);
        let last = frames
            .last()
            .map(|(_, _, frame): &(_, _, Frame)| frame.slot().next());
        // A collection deletes frames before a base of the head, and leaves fences. After such a gap, the chain
        // continues with the value that the base or the fence contains.
        let mut bases = head.iter().flat_map(Head::bases);
        let base = bases.find(|(_, base)| last != slot && Some(base.start) == slot);
        let fence = Frame::unverified_payload(bytes).and_then(fence);
        if let Some((_, base)) = base {
            chain = base.chain;
        } else if let Some(fence) = fence.filter(|_| is_segment || last != slot) {
            chain = fence.chain;
        }
        let mut offset = 0;
        while let ParsedFrame::Frame(frame) = Frame::parse(bytes, offset, &chain) {
            offset += frame.bytes().len();
            let before = std::mem::replace(&mut chain, *frame.chain());
            frames.push((object.to_owned(), before, frame));
        }
    }
    frames
}

/// Returns the path of the folder that contains a stack's journal.
pub(super) fn folder(lineage: Lineage) -> String {
    format!("stacks/{lineage}/journal/")
}

/// Decodes the payload of a frame as a fence; `None` if it isn't one.
pub(super) fn fence(payload: &[u8]) -> Option<Fence> {
    Fence::decode("fence", payload).ok()
}
