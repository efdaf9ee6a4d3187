//! Reads the frames of a journal from an image of a store: segments, or one object per slot.

use super::image::StoreImage;
use crate::journal::{Fence, Frame, ParsedFrame, genesis};
use crate::{Digest, Head, Lineage, Slot};
use bytes::Bytes;

/// Returns the frames of a journal, each with the path of its object and the chain before it. In each object, reading
/// stops at the first frame that doesn't continue the chain.
pub(super) fn frames(store: &StoreImage, lineage: Lineage) -> Vec<(String, Digest, Frame)> {
    let (mut frames, head) = (Vec::new(), store.head(lineage));
    let mut chain = genesis(lineage);
    for (object, bytes) in store.below(&folder(lineage)) {
        let name = object.rsplit('/').next().unwrap_or_default();
        let is_segment = name.ends_with(".log");
        // A compaction repeats frames that also exist as single objects or in segments: see `compacted`.
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
        chain = add_chained(&mut frames, object, bytes, chain);
    }
    frames
}

/// Adds the frames of an object that continue a chain, each with the chain digest before it. Returns the chain digest at
/// their end.
fn add_chained(
    frames: &mut Vec<(String, Digest, Frame)>,
    object: &str,
    bytes: &Bytes,
    mut chain: Digest,
) -> Digest {
    let mut offset = 0;
    while let ParsedFrame::Frame(frame) = Frame::parse(bytes, offset, &chain) {
        offset += frame.bytes().len();
        let before = std::mem::replace(&mut chain, *frame.chain());
        frames.push((object.to_owned(), before, frame));
    }
    chain
}

/// Whether a path is that of a compaction in a file system.
pub(super) fn is_compaction(object: &str) -> bool {
    object.contains("/journal/") && object.to_ascii_lowercase().ends_with(".frames")
}

/// Returns the frames that the compactions of a file system hold, as [`frames`] does for the journal. The length in the
/// head isn't regarded: bytes beyond it don't count for readers, but this process wrote them too.
pub(super) fn compacted(store: &StoreImage, lineage: Lineage) -> Vec<(String, Digest, Frame)> {
    let (mut frames, head) = (Vec::new(), store.head(lineage));
    let folder = folder(lineage);
    for (object, bytes) in store.below(&folder).filter(|(object, _)| is_compaction(object)) {
        let start = object[folder.len()..]
            .get(..20)
            .and_then(|slot| slot.parse().ok());
        let base = head.iter().flat_map(Head::bases);
        let base = base
            .map(|(_, base)| base)
            .find(|base| Some(base.start) == start.map(Slot));
        // A base in the middle of a segment, which only a copied stack has, begins without a fence.
        let fence = Frame::unverified_payload(bytes).and_then(fence);
        let chain = match (base, fence) {
            (_, Some(fence)) => fence.chain,
            (Some(base), None) => base.chain,
            (None, None) => continue,
        };
        add_chained(&mut frames, object, bytes, chain);
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
