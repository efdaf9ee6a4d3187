//! Fences that no correct writer makes: loops, gaps and foreign chains.

use super::{Head, Segment, SegmentName, WalkStart, walk};
use state_core::backend::Holder;
use state_core::journal::{Fence, FrameKind, Previous, genesis};
use state_core::{Digest, Epoch, ErrorKind, Frame, Lineage, Nonce, Slot};

fn name(slot: u64) -> SegmentName {
    SegmentName {
        epoch: Epoch(1),
        slot: Slot(slot),
    }
}

fn segment(slot: u64, previous: Option<(&str, u64)>, chain: Digest) -> Segment {
    let fence = Fence {
        previous: previous.map(|(segment, last)| Previous {
            segment: segment.to_owned(),
            length: 10,
            last_slot: Slot(last),
        }),
        chain,
        holder: Holder::default(),
    };
    let nonce = Nonce::from_bits([1; 16]);
    let frame = Frame::new(
        FrameKind::Fence,
        Epoch(1),
        Slot(slot),
        nonce,
        &fence.encode(),
        &chain,
    );
    Segment {
        name: name(slot),
        object: "segment".to_owned(),
        bytes: frame.unwrap().bytes().clone(),
    }
}

fn walked(segments: &[Segment]) -> ErrorKind {
    let lineage = Lineage::from_bits([1; 16]);
    let head = Head::new(lineage, "a".parse().unwrap(), Nonce::from_bits([1; 16]));
    let start = WalkStart {
        head: &head,
        from: Slot::ZERO,
        newest: Epoch(1),
        resume: None,
        folder: "journal",
    };
    let names: Vec<_> = segments.iter().map(|segment| segment.name).collect();
    let mut loads = 0;
    let mut load = |name| {
        loads += 1;
        assert!(loads < 100, "the walk doesn't end");
        Ok(segments.iter().find(|segment| segment.name == name).cloned())
    };
    walk(&start, &names, &mut load).unwrap_err().kind()
}

#[test]
fn fences_in_a_loop_or_out_of_order_are_corrupt() {
    let chain = genesis(Lineage::from_bits([1; 16]));
    let (five, nine) = (name(5).to_string(), name(9).to_string());
    let to = |slot, previous| segment(slot, previous, chain);
    for segments in [
        vec![to(5, Some((&nine, 4))), to(9, Some((&five, 8)))],
        vec![to(5, Some((&five, 4)))],
        vec![to(5, Some(("../../head.json", 4)))],
        vec![to(5, Some((&name(0).to_string(), 3)))],
        vec![to(5, Some((&name(0).to_string(), 4)))],
        vec![to(5, None)],
        vec![to(0, None), to(5, Some((&name(0).to_string(), 4)))],
        vec![segment(0, None, Digest::of(b"another stack"))],
        vec![to(0, Some((&name(0).to_string(), u64::MAX)))],
    ] {
        assert_eq!(walked(&segments), ErrorKind::Corrupt, "{segments:?}");
    }
}
