//! The frames of an authenticated journal, and what their records name: revisions, snapshots and bases.

use super::{Authenticated, frame_object};
use crate::keys::proof::Proof;
use crate::objects::document::RevisionDocument;
use state_core::journal::{Frame, FrameKind, Record, decode_records};
use state_core::{Base, Lineage, Result, Slot, SnapshotRef};

impl Authenticated<Vec<Frame>> {
    pub(crate) fn all(&self) -> Authenticated<&[Frame]> {
        Authenticated::new(self, self.proof())
    }

    /// Drops the frames from a slot on.
    pub(crate) fn without_those_from(self, slot: Slot) -> Self {
        let proof = self.proof();
        let mut frames = self.into_value();
        frames.truncate(frames.partition_point(|frame| frame.slot() < slot));
        Self::new(frames, proof)
    }

    /// Drops the frames before a slot.
    pub(crate) fn without_those_before(self, slot: Slot) -> Self {
        let proof = self.proof();
        let mut frames = self.into_value();
        frames.retain(|frame| frame.slot() >= slot);
        Self::new(frames, proof)
    }
}

impl<'a> Authenticated<&'a [Frame]> {
    /// An empty list of frames, for a replay of a base alone. It needs no proof, because it says nothing.
    pub(crate) const fn none() -> Self {
        Self::new(&[], Proof::Unchecked)
    }

    /// The frames whose slots are at or above a slot.
    pub(crate) fn starting_at(self, slot: Slot) -> Self {
        let at = self.partition_point(|frame| frame.slot() < slot);
        Self::new(&self.into_value()[at..], self.proof())
    }

    /// The frames whose slots are below a slot.
    pub(crate) fn ending_before(self, slot: Slot) -> Self {
        let at = self.partition_point(|frame| frame.slot() < slot);
        Self::new(&self.into_value()[..at], self.proof())
    }

    /// The frames one by one, oldest first, each with the proof of all.
    pub(crate) fn each(self) -> impl Iterator<Item = Authenticated<&'a Frame>> {
        let proof = self.proof();
        let frames = self.into_value().iter();
        frames.map(move |frame| Authenticated::new(frame, proof))
    }

    pub(crate) fn to_vec(self) -> Authenticated<Vec<Frame>> {
        Authenticated::new(self.into_value().to_vec(), self.proof())
    }
}

impl Authenticated<&Frame> {
    /// The document of the revision that `record`, a record of this frame, makes; none if it makes no revision.
    pub(crate) fn document_of(&self, record: Record) -> Option<Authenticated<RevisionDocument>> {
        let document = RevisionDocument::of_record(self, record)?;
        Some(Authenticated::new(document, self.proof()))
    }
}

/// The document of the revision that a frame makes; none if the frame makes no revision.
///
/// # Errors
/// `Corrupt`, which names the frame, if its last record can't be decoded.
pub(crate) fn document(
    lineage: Lineage,
    frame: Authenticated<&Frame>,
) -> Result<Option<Authenticated<RevisionDocument>>> {
    let document = RevisionDocument::of_frame(&frame_object(lineage, &frame), &frame)?;
    Ok(document.map(|document| Authenticated::new(document, frame.proof())))
}

/// The snapshots to which a frame resets the state.
///
/// # Errors
/// `Corrupt`, which names the frame, if such a record can't be decoded.
pub(crate) fn rebases(
    lineage: Lineage,
    frame: Authenticated<&Frame>,
) -> Result<Vec<Authenticated<SnapshotRef>>> {
    let records = records(lineage, &frame, br#"{"reset-base":"#)?.into_iter();
    let snapshots = records.filter_map(|record| match record {
        Record::ResetBase(rebase) => Some(Authenticated::new(rebase.snapshot, frame.proof())),
        _ => None,
    });
    Ok(snapshots.collect())
}

/// The bases of the checkpoints that a frame records.
///
/// # Errors
/// `Corrupt`, which names the frame, if such a record can't be decoded.
pub(crate) fn checkpoints(
    lineage: Lineage,
    frame: Authenticated<&Frame>,
) -> Result<Vec<Authenticated<Base>>> {
    let records = records(lineage, &frame, br#"{"checkpoint":"#)?.into_iter();
    let bases = records.filter_map(|record| match record {
        Record::Checkpoint(note) => Some(Authenticated::new(note.base, frame.proof())),
        _ => None,
    });
    Ok(bases.collect())
}

/// The records of a frame whose lines begin with these bytes. Other lines aren't parsed, which saves most of the work.
fn records(lineage: Lineage, frame: &Frame, beginning: &[u8]) -> Result<Vec<Record>> {
    let mut found = Vec::new();
    if frame.kind() == FrameKind::Data {
        // Each record is encoded as an object with its kind as the first key, so the first bytes of a line identify it.
        let lines = frame.payload().split_inclusive(|&b| b == b'\n');
        for line in lines.filter(|line| line.starts_with(beginning)) {
            found.extend(decode_records(&frame_object(lineage, frame), line)?);
        }
    }
    Ok(found)
}
