//! The journal: a sequence of frames that record all changes of a stack, each linked to its predecessor.

mod changed;
mod fence;
mod frame;
mod record;

pub use changed::{ChangeKind, EntryChange, RevisionChanges};
pub use fence::{Fence, Previous};
pub use frame::{Frame, FrameKind, MAX_OVERHEAD, MAX_PAYLOAD, ParsedFrame};
pub use record::{
    CheckpointNote, CompletionReason, DetachedRevision, LogRef, Record, ResetBase, ResetCause, UpdateEnd,
    append_record, decode_records, encode_records,
};

use crate::digest::Digest;
use crate::id::Lineage;

/// The digest chain before a stack's first frame.
pub fn genesis(lineage: Lineage) -> Digest {
    Digest::of_parts(&[b"state journal 1\n", lineage.as_bytes()])
}
