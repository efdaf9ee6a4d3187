//! The rule of the torn tail, case by case.

use super::{Segment, SegmentName};
use proptest::prelude::*;
use state_core::backend::Holder;
use state_core::journal::{Fence, FrameKind, genesis};
use state_core::{Digest, Epoch, Frame, Lineage, Nonce, Result, Slot};

/// A segment with frames of these payloads; and where each frame ends.
fn segment(payloads: &[&[u8]]) -> (Vec<u8>, Vec<usize>, Digest) {
    let start = genesis(Lineage::from_bits([1; 16]));
    let fence = Fence {
        previous: None,
        chain: start,
        holder: Holder::default(),
    };
    let (mut bytes, mut ends, mut chain) = (Vec::new(), Vec::new(), start);
    let payloads = std::iter::once(fence.encode()).chain(payloads.iter().map(|payload| payload.to_vec()));
    for (slot, payload) in payloads.enumerate() {
        let kind = if slot == 0 {
            FrameKind::Fence
        } else {
            FrameKind::Data
        };
        let nonce = Nonce::from_bits([9; 16]);
        let frame = Frame::new(kind, Epoch(1), Slot(slot as u64), nonce, &payload, &chain).unwrap();
        chain = *frame.chain();
        bytes.extend_from_slice(frame.bytes());
        ends.push(bytes.len());
    }
    (bytes, ends, start)
}

/// How many frames of these bytes count.
fn count(bytes: Vec<u8>, start: Digest) -> Result<usize> {
    let segment = Segment {
        name: SegmentName {
            epoch: Epoch(1),
            slot: Slot::ZERO,
        },
        object: "segment".to_owned(),
        bytes: bytes.into(),
    };
    segment.fence()?;
    Ok(segment.content(start, None)?.frames.len())
}

#[test]
fn zeros_from_a_frames_end_on_are_the_end() {
    let (bytes, _, start) = segment(&[b"{}\n"]);
    for zeros in [0, 1, 63, 64, 511, 512, 5000] {
        let mut bytes = bytes.clone();
        bytes.resize(bytes.len() + zeros, 0);
        assert_eq!(count(bytes, start).unwrap(), 2, "{zeros}");
    }
}

#[test]
fn anything_else_after_a_frames_end_is_corrupt() {
    let (bytes, _, start) = segment(&[b"{}\n"]);
    for junk in [&b"x"[..], b"SJFX", b"\0\0\0\0\0\0x", &[b'x'; 600]] {
        let bytes = [&bytes[..], junk].concat();
        assert!(count(bytes, start).is_err(), "{junk:?}");
    }
}

#[test]
fn a_last_frame_of_which_a_sector_never_reached_the_disk_is_torn() {
    let (bytes, ends, start) = segment(&[b"{}\n", &[b'x'; 3000]]);
    for sector in ends[1] / 512..bytes.len().div_ceil(512) {
        let (from, to) = (ends[1].max(sector * 512), bytes.len().min((sector + 1) * 512));
        let mut torn = bytes.clone();
        torn[from..to].fill(0);
        assert_eq!(count(torn, start).unwrap(), 2, "sector {sector}");
        let mut damaged = bytes.clone();
        damaged[from + 1..to].fill(0);
        assert!(
            count(damaged, start).is_err(),
            "sector {sector}, but for one byte"
        );
    }
}

#[test]
fn a_frame_is_not_torn_if_another_follows_it() {
    let (bytes, ends, start) = segment(&[&[b'x'; 3000], b"{}\n"]);
    let mut damaged = bytes;
    let sector = ends[0].next_multiple_of(512);
    damaged[sector..sector + 512].fill(0);
    assert!(count(damaged, start).is_err());
}

#[test]
fn a_frame_that_is_cut_is_not_torn_if_another_follows_it() {
    let (bytes, ends, start) = segment(&[&[b'x'; 3000], b"{}\n"]);
    let bytes = [&bytes[..ends[0] + 1000], &bytes[ends[1]..]].concat();
    assert!(count(bytes, start).is_err());
}

#[test]
fn a_few_zeros_at_the_edge_of_a_sector_prove_no_lost_write() {
    let (_, ends, _) = segment(&[b""]);
    for over in 1..=8 {
        // The frame reaches so many bytes into its last sector.
        let payload = vec![b'x'; 2048 + over - ends[1]];
        let (mut bytes, _, start) = segment(&[&payload]);
        let length = bytes.len();
        assert_eq!(length % 512, over);
        bytes[length - over..].fill(0);
        assert_eq!(count(bytes, start).is_ok(), over == 8, "{over}");
    }
}

#[test]
fn a_changed_byte_is_not_excused_by_zeros_that_follow_the_frame() {
    let (bytes, ends, start) = segment(&[b"{}\n", b"{\"a\":1}\n"]);
    for at in ends[1]..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        damaged.resize(8192, 0);
        assert!(count(damaged, start).is_err(), "byte {at}");
    }
}

#[test]
fn a_fence_that_is_not_whole_is_corrupt() {
    let (bytes, ends, start) = segment(&[]);
    for cut in 0..ends[0] {
        assert!(count(bytes[..cut].to_vec(), start).is_err(), "{cut}");
    }
    assert!(count(vec![0; 1024], start).is_err());
}

proptest! {
    #[test]
    fn whatever_is_written_over_a_segment_no_acknowledged_frame_changes(
        payloads in prop::collection::vec(prop::collection::vec(b'a'..=b'z', 0..700), 1..4),
        at in any::<prop::sample::Index>(),
        junk in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let payloads: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
        let (bytes, ends, start) = segment(&payloads);
        let at = at.index(bytes.len());
        let mut changed = bytes.clone();
        let end = bytes.len().min(at + junk.len());
        changed[at..end].copy_from_slice(&junk[..end - at]);
        match count(changed.clone(), start) {
            // Only the last frame can pass for torn, and only if it was touched.
            Ok(frames) => prop_assert!(frames == ends.len() || (frames + 1 == ends.len() && end > ends[frames - 1])),
            Err(error) => prop_assert!(changed != bytes, "{}", error),
        }
    }
}
