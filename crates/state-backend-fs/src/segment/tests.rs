//! Tests which incomplete last frames count as torn writes and which as damage.

use super::{Segment, SegmentName};
use proptest::prelude::*;
use state_core::backend::Holder;
use state_core::journal::{Fence, FrameKind, genesis};
use state_core::{Digest, Epoch, Frame, Lineage, Nonce, Result, Slot};

/// Returns a segment with frames of these payloads, the end of each frame, and the chain at the start.
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

/// Returns how many frames of these bytes are valid.
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
fn zeros_after_the_last_frame_are_ignored() {
    let (bytes, _, start) = segment(&[b"{}\n"]);
    for zeros in [0, 1, 63, 64, 511, 512, 5000] {
        let mut bytes = bytes.clone();
        bytes.resize(bytes.len() + zeros, 0);
        assert_eq!(count(bytes, start).unwrap(), 2, "{zeros}");
    }
}

#[test]
fn other_bytes_after_the_last_frame_are_corrupt() {
    let (bytes, _, start) = segment(&[b"{}\n"]);
    for junk in [&b"x"[..], b"SJFX", b"\0\0\0\0\0\0x", &[b'x'; 600]] {
        let bytes = [&bytes[..], junk].concat();
        assert!(count(bytes, start).is_err(), "{junk:?}");
    }
}

#[test]
fn last_frame_with_an_unwritten_sector_is_torn() {
    let (bytes, ends, start) = segment(&[b"{}\n", &[b'x'; 3000]]);
    for sector in ends[1] / 512..bytes.len().div_ceil(512) {
        let (from, to) = (ends[1].max(sector * 512), bytes.len().min((sector + 1) * 512));
        let mut torn = bytes.clone();
        torn[from..to].fill(0);
        assert_eq!(count(torn, start).unwrap(), 2, "sector {sector}");
        let mut damaged = bytes.clone();
        damaged[from + 1..to].fill(0);
        assert!(count(damaged, start).is_err(), "sector {sector}, except one byte");
    }
}

#[test]
fn zeroed_frame_before_another_is_corrupt() {
    let (bytes, ends, start) = segment(&[&[b'x'; 3000], b"{}\n"]);
    let mut damaged = bytes;
    let sector = ends[0].next_multiple_of(512);
    damaged[sector..sector + 512].fill(0);
    assert!(count(damaged, start).is_err());
}

#[test]
fn cut_frame_before_another_is_corrupt() {
    let (bytes, ends, start) = segment(&[&[b'x'; 3000], b"{}\n"]);
    let bytes = [&bytes[..ends[0] + 1000], &bytes[ends[1]..]].concat();
    assert!(count(bytes, start).is_err());
}

#[test]
fn fewer_than_8_zeros_at_a_sector_edge_are_corrupt() {
    let (_, ends, _) = segment(&[b""]);
    for over in 1..=8 {
        // The frame extends this many bytes into its last sector. `MIN_ZERO_RUN` is 8: fewer zeros may be data.
        let payload = vec![b'x'; 2048 + over - ends[1]];
        let (mut bytes, _, start) = segment(&[&payload]);
        let length = bytes.len();
        assert_eq!(length % 512, over);
        bytes[length - over..].fill(0);
        assert_eq!(count(bytes, start).is_ok(), over == 8, "{over}");
    }
}

#[test]
fn changed_byte_before_trailing_zeros_is_corrupt() {
    let (bytes, ends, start) = segment(&[b"{}\n", b"{\"a\":1}\n"]);
    for at in ends[1]..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        damaged.resize(8192, 0);
        assert!(count(damaged, start).is_err(), "byte {at}");
    }
}

#[test]
fn incomplete_fence_is_corrupt() {
    let (bytes, ends, start) = segment(&[]);
    for cut in 0..ends[0] {
        assert!(count(bytes[..cut].to_vec(), start).is_err(), "{cut}");
    }
    assert!(count(vec![0; 1024], start).is_err());
}

proptest! {
    #[test]
    fn overwritten_segment_never_changes_acknowledged_frames(
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
            // Only the last frame can count as torn, and only if the junk touched it.
            Ok(frames) => prop_assert!(frames == ends.len() || (frames + 1 == ends.len() && end > ends[frames - 1])),
            Err(error) => prop_assert!(changed != bytes, "{}", error),
        }
    }
}
