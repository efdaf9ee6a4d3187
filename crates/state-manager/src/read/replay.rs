//! From stored bytes to a state: base snapshot, frames, replay.

use crate::context::StackContext;
use crate::objects::document::{Made, RevisionDocument};
use crate::objects::snapshots;
use state_core::journal::{Frame, FrameKind, ParsedFrame, Record, UpdateEnd, decode_records};
use state_core::sealing::StackKey;
use state_core::state::{LoadedSnapshots, replay};
use state_core::{
    Base, Digest, Error, Head, Lineage, Result, RevisionId, Slot, SnapshotRef, State, Timestamp,
};
use std::collections::BTreeSet;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// A state that was read, and what was seen on the way.
#[derive(Clone)]
pub(crate) struct Replayed {
    pub(crate) state: State,
    /// When the last thing that it holds was recorded.
    pub(crate) moment: Timestamp,
    /// The revisions that its frames made.
    pub(crate) revisions: Vec<RevisionDocument>,
    /// The stored snapshots that were read.
    pub(crate) snapshots: BTreeSet<Digest>,
    /// Bytes of the frames.
    pub(crate) journal_bytes: u64,
    /// Whether a mark is in its frames and no mutation ended after the last one: one may, when its update was
    /// quicker to end.
    pub(crate) ends_with_mark: bool,
}

/// The state after these frames, which begin at the base.
pub(crate) async fn from_base(stack: &StackContext, base: &Base, frames: &[Frame]) -> Result<Replayed> {
    let lineage = stack.lineage();
    require_link(lineage, base, frames)?;
    let (state, mut moment) = match &base.snapshot {
        None => (State::new(lineage), Timestamp::new("")),
        Some(reference) => {
            let snapshot = snapshots::read(stack, reference).await?;
            (State::from_snapshot(lineage, &snapshot)?, snapshot.generated_at)
        }
    };
    let loaded = load_rebases(stack, frames).await?;
    let mut revisions = Vec::new();
    let mut ends_with_mark = false;
    for frame in frames {
        ends_with_mark &= !holds(frame, br#"{"end":"#);
        if let Some(document) = RevisionDocument::of_frame(&frame_object(lineage, frame), frame)? {
            if let Made::UpdateEnd(mark) = &document.made {
                ends_with_mark = true;
                moment = self::moment(mark).clone();
            }
            revisions.push(document);
        }
    }
    let snapshots = base
        .snapshot
        .iter()
        .map(|reference| reference.digest)
        .chain(loaded.keys().copied())
        .collect();
    let state = replay(state, frames, &loaded)?;
    if let Some(update) = state.update() {
        moment = update.start.clone();
    }
    Ok(Replayed {
        state,
        moment,
        revisions,
        snapshots,
        journal_bytes: frames.iter().map(|frame| frame.bytes().len() as u64).sum(),
        ends_with_mark,
    })
}

/// Each frame of data must have been made with the key since the stack has one. A fence needs none: see
/// [`Frame::tagged`].
pub(crate) fn authenticate(head: &Head, frames: &[Frame], key: &dyn StackKey) -> Result<()> {
    let since = head.keys.as_ref().map_or(Slot::ZERO, |keys| keys.since);
    let is_tagged = |frame: &&Frame| frame.kind() == FrameKind::Data && frame.slot() >= since;
    match frames
        .iter()
        .filter(is_tagged)
        .find(|frame| !frame.is_authentic(key))
    {
        None => Ok(()),
        Some(frame) => Err(Error::sealed(
            frame_object(head.lineage, frame),
            "it wasn't written by anyone who has the data key: somebody changed the store",
        )),
    }
}

/// What `pick` finds in the state at each mark of these frames, which begin at the base; oldest first. One pass, and no
/// more in memory than one state.
pub(crate) async fn at_marks<T>(
    stack: &StackContext,
    base: &Base,
    frames: &[Frame],
    pick: impl Fn(&State) -> T,
) -> Result<Vec<(RevisionId, T)>> {
    let lineage = stack.lineage();
    let mut state = from_base(stack, base, &[]).await?.state;
    require_link(lineage, base, frames)?;
    let mut picked = Vec::new();
    let mut from = 0;
    for (at, frame) in frames.iter().enumerate() {
        let document = RevisionDocument::of_frame(&frame_object(lineage, frame), frame)?;
        let Some(document) = document.filter(|document| matches!(document.made, Made::UpdateEnd(_))) else {
            continue;
        };
        let stretch = &frames[from..=at];
        let loaded = load_rebases(stack, stretch).await?;
        state = replay(state, stretch, &loaded)?;
        from = at + 1;
        if state.current() == Some(&document.revision) {
            picked.push((document.revision, pick(&state)));
        }
    }
    Ok(picked)
}

/// The snapshots that the frames rebase to.
async fn load_rebases(stack: &StackContext, frames: &[Frame]) -> Result<LoadedSnapshots> {
    let mut loaded = LoadedSnapshots::new();
    for frame in frames {
        for reference in rebases(stack.lineage(), frame)? {
            if let Entry::Vacant(vacant) = loaded.entry(reference.digest) {
                vacant.insert(Arc::new(snapshots::read(stack, &reference).await?));
            }
        }
    }
    Ok(loaded)
}

/// The snapshots that a frame rebases to.
pub(crate) fn rebases(lineage: Lineage, frame: &Frame) -> Result<Vec<SnapshotRef>> {
    let records = records(lineage, frame, br#"{"reset-base":"#)?.into_iter();
    let snapshots = records.filter_map(|record| match record {
        Record::ResetBase(rebase) => Some(rebase.snapshot),
        _ => None,
    });
    Ok(snapshots.collect())
}

/// The checkpoints that a frame notes.
pub(crate) fn checkpoints(lineage: Lineage, frame: &Frame) -> Result<Vec<Base>> {
    let records = records(lineage, frame, br#"{"checkpoint":"#)?.into_iter();
    let bases = records.filter_map(|record| match record {
        Record::Checkpoint(note) => Some(note.base),
        _ => None,
    });
    Ok(bases.collect())
}

/// The records of a frame whose lines begin so. Most frames hold none: other lines aren't parsed.
fn records(lineage: Lineage, frame: &Frame, beginning: &[u8]) -> Result<Vec<Record>> {
    let mut found = Vec::new();
    if frame.kind() == FrameKind::Data {
        let lines = frame.payload().split_inclusive(|&b| b == b'\n');
        for line in lines.filter(|line| line.starts_with(beginning)) {
            found.extend(decode_records(&frame_object(lineage, frame), line)?);
        }
    }
    Ok(found)
}

/// When the update of a mark ended, or began if its end wasn't recorded.
pub(crate) fn moment(mark: &UpdateEnd) -> &Timestamp {
    mark.update.end.as_ref().unwrap_or(&mark.update.start)
}

/// Whether a record in the frame begins so.
fn holds(frame: &Frame, beginning: &[u8]) -> bool {
    let mut lines = frame.payload().split(|&b| b == b'\n');
    frame.kind() == FrameKind::Data && lines.any(|line| line.starts_with(beginning))
}

/// The first frame must follow the base's chain: what comes after is linked to it.
fn require_link(lineage: Lineage, base: &Base, frames: &[Frame]) -> Result<()> {
    let Some(first) = frames.first() else {
        return Ok(());
    };
    let linked = matches!(
        Frame::parse(first.bytes(), 0, &base.chain),
        ParsedFrame::Frame(frame) if frame.slot() == base.start
    );
    if linked {
        return Ok(());
    }
    Err(Error::corrupt(
        frame_object(lineage, first),
        0,
        "it doesn't follow the base that names it",
    ))
}

pub(crate) fn frame_object(lineage: Lineage, frame: &Frame) -> String {
    format!("journal frame {} of stack {lineage}", frame.slot())
}
