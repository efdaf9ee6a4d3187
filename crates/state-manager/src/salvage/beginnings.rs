//! The beginnings from which the history of a rebuilt stack can be replayed: the empty stack, the bases that its head, revisions
//! and checkpoints name, and revisions that replaced all resources.

use crate::objects::snapshots;
use crate::salvage::frame_index::FrameChain;
use crate::salvage::head_template::HeadTemplate;
use crate::salvage::stack_files::StackFiles;
use bytes::Bytes;
use state_core::backend::{ObjectName, Tail};
use state_core::journal::{FrameKind, Record, ResetCause, decode_records};
use state_core::snapshot::{Continuation, ForeignSerial};
use state_core::{
    Base, Digest, Frame, MutationId, Result, RevisionId, Serial, Slot, SnapshotRef, State, Timestamp,
};
use std::collections::{BTreeMap, BTreeSet};

/// A beginning of the history.
pub(super) struct Candidate {
    pub(super) base: Base,
    /// A snapshot that isn't stored: the empty state before a revision that replaced all resources.
    pub(super) made: Option<(ObjectName, Bytes)>,
}

/// The possible beginnings of the history, earliest first.
pub(super) fn candidates(
    files: &StackFiles,
    template: &HeadTemplate,
    chain: &FrameChain,
) -> Result<Vec<Candidate>> {
    let mut bases = vec![Base::empty(files.lineage)];
    if template.is_stored {
        bases.extend(template.head.bases().map(|(_, base)| base.clone()));
    }
    for document in files.revisions.values() {
        bases.extend(document.base().cloned());
    }
    for frame in chain
        .frames
        .iter()
        .filter(|frame| frame.kind() == FrameKind::Data)
    {
        for record in records(frame) {
            if let Record::Checkpoint(note) = record {
                bases.push(note.base);
            }
        }
    }
    let positions = chain.frames.iter().map(Tail::after);
    let positions: BTreeMap<Slot, Digest> = std::iter::once(chain.before)
        .chain(positions)
        .map(|tail| (tail.next, tail.chain))
        .collect();
    let is_here = |base: &Base| positions.get(&base.start) == Some(&base.chain);
    let is_stored = |snapshot: &SnapshotRef| files.objects.contains(&snapshot.object());
    bases.retain(|base| is_here(base) && base.snapshots().all(is_stored));
    let stored = bases.into_iter().map(|base| Candidate { base, made: None });
    let mut candidates: Vec<Candidate> = stored.chain(replacements(files, chain)?).collect();
    candidates.sort_by_key(|candidate| (candidate.base.start, candidate.made.is_some()));
    candidates.dedup_by(|one, other| one.base == other.base);
    Ok(candidates)
}

fn records(frame: &Frame) -> Vec<Record> {
    decode_records("journal frame", frame.payload()).unwrap_or_default()
}

/// Beginnings right before a revision that replaced all resources by those of a stored snapshot: its state needs nothing
/// that was recorded before, except for the serials of imported states, as long as nothing was pending then.
fn replacements(files: &StackFiles, chain: &FrameChain) -> Result<Vec<Candidate>> {
    let mut found = Vec::new();
    // Without the frames from the first one on, it is unknown what was pending.
    if chain.before != Tail::genesis(files.lineage) {
        return Ok(found);
    }
    let mut outlasting = OutlastingState::default();
    let mut at = chain.before;
    for frame in &chain.frames {
        let records = match frame.kind() {
            FrameKind::Data => decode_records("journal frame", frame.payload()),
            _ => Ok(Vec::new()),
        };
        // A frame that this version can't decode may begin an operation, so nothing after it is known to be settled.
        let Ok(records) = records else {
            return Ok(found);
        };
        let begins = matches!(records.first(), Some(Record::UpdateStart(_)));
        let replaces = records.iter().any(|record| match record {
            Record::ResetBase(reset) => files.objects.contains(&reset.snapshot.object()),
            _ => false,
        });
        if begins && replaces && outlasting.is_settled() {
            found.push(empty_before(files, at, &outlasting)?);
        }
        for record in &records {
            outlasting.note(record);
        }
        at = Tail::after(frame);
    }
    Ok(found)
}

/// A base with the empty state after the last revision, and what outlasts a replacement of the resources.
fn empty_before(files: &StackFiles, at: Tail, outlasting: &OutlastingState) -> Result<Candidate> {
    let mut snapshot = State::new(files.lineage).snapshot(String::new(), Timestamp::new(""));
    snapshot.serial = Some(outlasting.serial);
    snapshot.foreign_serials.clone_from(&outlasting.foreign_serials);
    snapshot.continuation = Some(Continuation {
        forgotten: outlasting.forgotten.iter().cloned().collect(),
        ..Continuation::default()
    });
    let packed = snapshots::pack(&snapshot, at.next)?;
    let base = Base {
        snapshot: Some(packed.reference.clone()),
        content: None,
        start: at.next,
        chain: at.chain,
    };
    Ok(Candidate {
        base,
        made: Some((packed.reference.object(), packed.bytes)),
    })
}

/// What a state has that outlasts a replacement of its resources.
#[derive(Default)]
struct OutlastingState {
    serial: Serial,
    foreign_serials: BTreeMap<String, ForeignSerial>,
    forgotten: BTreeSet<RevisionId>,
    pending: BTreeSet<MutationId>,
    is_update_open: bool,
    /// Whether there were moves between stacks, or imported pending operations, of which an end isn't noted here.
    is_entangled: bool,
    is_invalidated: bool,
}

impl OutlastingState {
    fn note(&mut self, record: &Record) {
        match record {
            Record::UpdateStart(_) => self.is_update_open = true,
            Record::UpdateEnd(end) => {
                self.is_update_open = false;
                self.serial = end.serial;
            }
            Record::DetachedRevision(detached) => self.serial = detached.serial,
            Record::Begin(begin) => drop(self.pending.insert(begin.id)),
            Record::End(end) => drop(self.pending.remove(&end.id)),
            Record::Resolve(resolve) => drop(self.pending.remove(&resolve.id)),
            Record::ResetBase(reset) => {
                self.is_entangled |= !reset.pending.is_empty();
                if let ResetCause::Import {
                    foreign: Some((system, imported)),
                } = &reset.cause
                {
                    let before = self.foreign_serials.get(system).copied();
                    let known = ForeignSerial::after_import(before, *imported, self.serial.next());
                    self.foreign_serials.insert(system.clone(), known);
                }
            }
            Record::MoveIn(_) | Record::MoveOut(_) | Record::MoveEnd(_) => self.is_entangled = true,
            Record::Forget(revision) => drop(self.forgotten.insert(revision.clone())),
            Record::Invalidate(_) => self.is_invalidated = true,
            Record::Validate(_) => self.is_invalidated = false,
            _ => {}
        }
    }

    fn is_settled(&self) -> bool {
        let is_idle = self.pending.is_empty() && !self.is_update_open;
        is_idle && !self.is_entangled && !self.is_invalidated && self.serial > Serial::ZERO
    }
}
