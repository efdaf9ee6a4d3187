//! Turns stored bytes into a state: loads the base snapshot and replays the frames after it.

use crate::context::StackContext;
use crate::keys::authenticate::{self, Authenticated, ReadSnapshots, frame_object};
use crate::objects::document::{RevisionDocument, RevisionRecord};
use state_core::journal::{Frame, ParsedFrame, Record, UpdateEnd};
use state_core::state::replay;
use state_core::{Base, Error, Lineage, Result, RevisionId, Slot, Snapshot, SnapshotRef, State, Timestamp};
use std::sync::Arc;

/// A replayed state, with facts about the frames that were read for it.
#[derive(Clone, Debug)]
pub(crate) struct ReplayResult {
    pub(crate) state: Arc<State>,
    /// The time of the state: the start of the open update, else the time of the last update end, else the time of the
    /// base snapshot.
    pub(crate) moment: Timestamp,
    /// The revisions that the frames made.
    pub(crate) revisions: Vec<Authenticated<RevisionDocument>>,
    /// The stored snapshots that were read: that of the base, and those to which the frames reset the state.
    pub(crate) loaded: ReadSnapshots,
    /// The references of these snapshots, in the order of the journal.
    pub(crate) snapshots: Vec<SnapshotRef>,
    /// Total size of the frames in bytes.
    pub(crate) journal_bytes: u64,
    /// Whether the frames contain an update end, and no mutation ended after the last update end. A mutation can end
    /// after its update, when the update didn't wait for it.
    pub(crate) ends_with_mark: bool,
}

/// Replays `frames`, which begin right after the base. Snapshots in `known` aren't read again.
pub(crate) async fn from_base(
    stack: &StackContext,
    base: Authenticated<&Base>,
    frames: Authenticated<&[Frame]>,
    known: &ReadSnapshots,
) -> Result<ReplayResult> {
    let lineage = stack.lineage();
    require_link(lineage, &base, &frames)?;
    if base.start == Slot::ZERO && !base.snapshots().is_empty() {
        // Each snapshot describes frames, and no frame precedes the first slot.
        return Err(Error::corrupt(
            stack.object(),
            0,
            "its base names a snapshot before the first frame of the journal",
        ));
    }
    let wanted = wanted(stack, base.snapshots(), frames)?;
    let snapshots = wanted
        .iter()
        .map(|reference| SnapshotRef::clone(reference))
        .collect();
    let loaded = authenticate::snapshots(stack, wanted, known).await?;
    let (mut state, mut moment) = state_of(stack, &base, &loaded)?;
    let mut revisions = Vec::new();
    let mut ends_with_mark = false;
    for frame in frames.each() {
        for record in state.replay_frame(&frame, &loaded)? {
            // A mutation that ended after the update changed the state, so the state isn't that of the revision any more.
            ends_with_mark &= !matches!(record, Record::End(_));
            let Some(document) = frame.document_of(record) else {
                continue;
            };
            if let RevisionRecord::UpdateEnd(mark) = &document.made {
                ends_with_mark = true;
                moment = self::moment(mark).clone();
            }
            revisions.push(document);
        }
    }
    // An open update has no end time yet, so its start is the last time that the state contains.
    if let Some(update) = state.update() {
        moment = update.start.clone();
    }
    Ok(ReplayResult {
        state: Arc::new(state),
        moment,
        revisions,
        loaded,
        snapshots,
        journal_bytes: frames.iter().map(|frame| frame.bytes().len() as u64).sum(),
        ends_with_mark,
    })
}

/// The state of a base. A snapshot in `known` isn't read again.
pub(crate) async fn at_base(
    stack: &StackContext,
    base: Authenticated<&Base>,
    known: &ReadSnapshots,
) -> Result<ReplayResult> {
    from_base(stack, base, Authenticated::none(), known).await
}

/// Replays `frames`, which begin right after the base, and calls `pick` on the state at each update end. Returns the
/// results, oldest first. Holds one state in memory.
pub(crate) async fn at_marks<T>(
    stack: &StackContext,
    base: Authenticated<&Base>,
    frames: Authenticated<&[Frame]>,
    known: &ReadSnapshots,
    pick: impl Fn(&State) -> T,
) -> Result<Vec<(RevisionId, T)>> {
    let lineage = stack.lineage();
    let mut state = Arc::unwrap_or_clone(at_base(stack, base, known).await?.state);
    require_link(lineage, &base, &frames)?;
    let mut picked = Vec::new();
    let mut from = base.start;
    for frame in frames.each() {
        let document = authenticate::document(lineage, frame)?;
        let Some(document) =
            document.filter(|document| matches!(document.made, RevisionRecord::UpdateEnd(_)))
        else {
            continue;
        };
        // Snapshots are loaded for the frames of one revision at a time, so that the snapshots of the whole history are
        // never in memory at once.
        let next = frame.slot().next();
        let update_frames = frames.starting_at(from).ending_before(next);
        let wanted = wanted(stack, Vec::new(), update_frames)?;
        let loaded = authenticate::snapshots(stack, wanted, known).await?;
        state = replay(state, update_frames.iter(), &loaded)?;
        from = next;
        // Always true in an intact journal. The caller reports an error if its revision is missing from the results.
        if state.current() == Some(&document.revision) {
            picked.push((document.revision.clone(), pick(&state)));
        }
    }
    Ok(picked)
}

/// The snapshots of a base, and those to which the frames reset the state.
fn wanted(
    stack: &StackContext,
    of_base: Vec<Authenticated<SnapshotRef>>,
    frames: Authenticated<&[Frame]>,
) -> Result<Vec<Authenticated<SnapshotRef>>> {
    let mut wanted = of_base;
    for frame in frames.each() {
        wanted.extend(authenticate::rebases(stack.lineage(), frame)?);
    }
    Ok(wanted)
}

/// The state of a base and its time.
fn state_of(stack: &StackContext, base: &Base, loaded: &ReadSnapshots) -> Result<(State, Timestamp)> {
    let of = |reference: &SnapshotRef| loaded.get(&reference.digest);
    let Some(snapshot) = base.snapshot.as_ref().and_then(of) else {
        return Ok((State::new(stack.lineage()), Timestamp::new("")));
    };
    let moment = snapshot.generated_at.clone();
    let Some(content) = &base.content else {
        return Ok((State::from_snapshot(stack.lineage(), snapshot)?, moment));
    };
    // With content of its own as well, it would be open which one counts.
    let has_none = snapshot.entries.is_empty() && snapshot.extensions.is_empty();
    let Some(content) = of(content).filter(|_| has_none) else {
        let reason = "its base takes the content from another snapshot, and has content of its own";
        return Err(Error::corrupt(stack.object(), 0, reason));
    };
    let whole = Snapshot {
        entries: content.entries.clone(),
        extensions: content.extensions.clone(),
        ..Snapshot::clone(snapshot)
    };
    Ok((State::from_snapshot(stack.lineage(), &whole)?, moment))
}

/// The end time of an update, or its start time if no end was recorded.
pub(crate) fn moment(mark: &UpdateEnd) -> &Timestamp {
    mark.update.end.as_ref().unwrap_or(&mark.update.start)
}

/// Checks that the first frame continues the chain of the base. Later frames are linked to the first one.
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
        "it doesn't continue the chain of its base",
    ))
}
