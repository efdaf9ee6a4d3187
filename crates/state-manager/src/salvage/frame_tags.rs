//! Damaged tags of frames. The digest chain doesn't cover the tag of a frame, so a frame whose tag is damaged still continues the
//! chain, and only a client with the data key notices.
//!
//! What such a frame contains is proven if a later frame, whose tag covers the chain up to it, is authentic, or if the chain leads to a
//! position that the signed head names. Then the frame gets its tag again.

use crate::salvage::frame_index::FrameChain;
use crate::salvage::head_template::HeadTemplate;
use state_core::backend::Tail;
use state_core::journal::FrameKind;
use state_core::sealing::StackKey;
use state_core::{Digest, Frame, Head, Result, Slot};
use std::collections::BTreeSet;

/// Gives frames whose content is proven the tag that they must have.
///
/// # Errors
/// `Invalid` if a payload is too long, which a frame that was read can't have.
pub(super) fn mend(template: &HeadTemplate, chain: &mut FrameChain) -> Result<()> {
    let Some(key) = &template.key else {
        return Ok(());
    };
    let from = tagged_from(&template.head);
    let named = positions(template);
    let mut is_proven = false;
    for index in (0..chain.frames.len()).rev() {
        let frame = &chain.frames[index];
        let after = Tail::after(frame);
        is_proven |= named.contains(&(after.next, after.chain));
        if frame.kind() != FrameKind::Data || frame.slot() < from {
            continue;
        }
        if frame.is_authentic(&**key) {
            is_proven = true;
        } else if is_proven {
            let before = index.checked_sub(1).map(|before| &chain.frames[before]);
            let before = before.map_or(chain.before.chain, |before| *before.chain());
            chain.frames[index] = tagged_again(frame, &**key, &before)?;
        }
    }
    Ok(())
}

/// The slot from which the present key tags the frames.
fn tagged_from(head: &Head) -> Slot {
    let Some(keys) = &head.keys else {
        return Slot::ZERO;
    };
    let replaced = keys.succession.iter().map(|link| link.until);
    replaced.chain([keys.since]).max().unwrap_or_default()
}

/// The positions that the tag of the stored head covers.
fn positions(template: &HeadTemplate) -> BTreeSet<(Slot, Digest)> {
    if !template.is_stored {
        return BTreeSet::new();
    }
    let head = &template.head;
    let bases = head.bases().map(|(_, base)| (base.start, base.chain));
    let watermark = head.watermark.map(|last| (last.slot.next(), last.chain));
    bases.chain(watermark).collect()
}

fn tagged_again(frame: &Frame, key: &dyn StackKey, before: &Digest) -> Result<Frame> {
    let tagged = Frame::tagged(
        Some(key),
        frame.kind(),
        frame.epoch(),
        frame.slot(),
        frame.nonce(),
        frame.payload(),
        before,
    )?;
    // A frame that was made without a tag, or with that of another key, has another chain.
    Ok(match tagged.chain() == frame.chain() {
        true => tagged,
        false => frame.clone(),
    })
}
