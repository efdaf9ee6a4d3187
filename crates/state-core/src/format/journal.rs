//! The journal: what happened to a stack, frame by frame, each linked to the one before.

mod fence;
mod frame;
mod record;

pub use fence::{Fence, Previous};
pub use frame::{Frame, FrameKind, MAX_OVERHEAD, MAX_PAYLOAD, Parsed};
pub use record::{
    CheckpointNote, CompletionReason, DetachedRevision, Record, ResetBase, ResetCause, UpdateEnd,
    decode_records, encode_records,
};

use crate::digest::Digest;
use crate::id::Lineage;

/// The chain before a stack's first frame.
pub fn genesis(lineage: Lineage) -> Digest {
    Digest::of_parts(&[b"state journal 1\n", lineage.as_bytes()])
}
