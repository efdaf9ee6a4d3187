//! The state of a stack at its revisions.

use crate::context::StackContext;
use crate::keys::authenticate::{self, Authenticated, ReadSnapshots};
use crate::objects::document::{RevisionDocument, RevisionRecord};
use crate::objects::in_use::StateKey;
use crate::read::replay::{self, ReplayResult};
use crate::read::revision_lookup::{RevisionLookup, find};
use crate::read::stored;
use crate::read::tip::Tip;
use state_core::{Base, Error, Frame, Result, RevisionId, Snapshot, State};
use std::sync::Arc;

/// The content of a revision.
pub(crate) async fn snapshot(stack: &StackContext, tip: &Tip, revision: &RevisionId) -> Result<Snapshot> {
    let lookup = find(stack, tip, revision).await?;
    let document = &lookup.document;
    match (&document.made, tip.floor.base_of(document)) {
        (RevisionRecord::UpdateEnd(mark), Some(base)) => {
            let unchanged = tip.replayed.ends_with_mark && tip.replayed.state.update().is_none();
            // Shortcut: if the tip is the revision itself, its state needs no second replay.
            let earlier;
            let state = if unchanged && tip.replayed.state.current() == Some(revision) {
                &tip.replayed.state
            } else {
                earlier = state_at(stack, tip, &lookup, &base).await?;
                &earlier
            };
            let mut snapshot = state.snapshot(stack.name().to_string(), replay::moment(mark).clone());
            snapshot.serial = Some(mark.serial);
            Ok(snapshot)
        }
        _ => {
            let snapshot = authenticate::detached(stack, document).await?;
            let mut snapshot = snapshot.into_value();
            snapshot.serial = Some(document.revision.serial());
            Ok(snapshot)
        }
    }
}

/// Calls `pick` on the state at a revision and at each earlier revision after the same base. Returns the results,
/// oldest first.
pub(crate) async fn at_marks<T>(
    stack: &StackContext,
    tip: &Tip,
    document: &Authenticated<RevisionDocument>,
    base: &Authenticated<Base>,
    pick: impl Fn(&State) -> T,
) -> Result<Vec<(RevisionId, T)>> {
    let from = async |base: &Authenticated<Base>| {
        let frames = frames_until(stack, tip, base, document).await?;
        replay::at_marks(stack, base.by_ref(), frames.all(), tip.loaded(), &pick).await
    };
    let picked = match from(base).await {
        // The snapshot of the base may be lost. The whole journal leads to the revision, too.
        Err(lost @ Error::Corrupt { .. }) => from(&tip.floor.beginning).await.map_err(|_| lost)?,
        picked => picked?,
    };
    if picked.last().is_some_and(|(last, _)| *last == document.revision) {
        return Ok(picked);
    }
    Err(not_reached(stack, &document.revision))
}

/// The state at a revision: that of the checkpoint after it, or replayed from a base before it up to its frame. The tip
/// keeps it in use.
async fn state_at(
    stack: &StackContext,
    tip: &Tip,
    lookup: &RevisionLookup,
    base: &Authenticated<Base>,
) -> Result<Arc<State>> {
    let document = &lookup.document;
    let in_use = &stack.store().in_use.states;
    let key = |base: &Base| StateKey::new(base, document.slot, document.chain);
    for base in lookup.checkpoint.iter().chain([base, &tip.floor.beginning]) {
        let known = in_use.get(stack.lineage(), key(base));
        if let Some(known) = known.filter(|known| is_at(known, document)) {
            return Ok(known);
        }
    }
    let (from, replayed) = replayed(stack, tip, lookup, base).await?;
    if !is_at(&replayed.state, document) {
        return Err(not_reached(stack, &document.revision));
    }
    let state = Arc::clone(&replayed.state);
    in_use.add(stack.lineage(), key(from), &state);
    tip.keep_earlier(replayed);
    Ok(state)
}

/// Reads the state at a revision. Also returns the base from which the replay began.
async fn replayed<'b>(
    stack: &StackContext,
    tip: &'b Tip,
    lookup: &'b RevisionLookup,
    base: &'b Authenticated<Base>,
) -> Result<(&'b Base, ReplayResult)> {
    let document = &lookup.document;
    let known = ReadSnapshots::in_use(stack);
    if let Some(checkpoint) = &lookup.checkpoint {
        // An error isn't returned: the checkpoint may be damaged, or collected because only a deleted revision needed it.
        // The frames still lead to the revision.
        let stored = replay::at_base(stack, checkpoint.by_ref(), &known).await.ok();
        if let Some(stored) = stored.filter(|stored| is_at(&stored.state, document)) {
            return Ok((checkpoint, stored));
        }
    }
    match from_base(stack, tip, base, document, &known).await {
        // The snapshot of the base may be lost. The whole journal leads to the revision, too.
        Err(lost @ Error::Corrupt { .. }) => {
            let beginning = &tip.floor.beginning;
            let replayed = from_base(stack, tip, beginning, document, &known).await;
            Ok((beginning, replayed.map_err(|_| lost)?))
        }
        replayed => Ok((base, replayed?)),
    }
}

/// Replays the frames from a base on up to the frame that made a revision.
async fn from_base(
    stack: &StackContext,
    tip: &Tip,
    base: &Authenticated<Base>,
    document: &Authenticated<RevisionDocument>,
    known: &ReadSnapshots,
) -> Result<ReplayResult> {
    let frames = frames_until(stack, tip, base, document).await?;
    replay::from_base(stack, base.by_ref(), frames.all(), known).await
}

/// Whether this is the state right after the update that made a revision.
fn is_at(state: &State, document: &RevisionDocument) -> bool {
    state.current() == Some(&document.revision) && state.update().is_none()
}

/// The frames from a base on up to the frame that made a revision.
///
/// # Errors
/// `Corrupt` if the frames don't lead to the slot and the chain digest in the document.
async fn frames_until(
    stack: &StackContext,
    tip: &Tip,
    base: &Base,
    document: &Authenticated<RevisionDocument>,
) -> Result<Authenticated<Vec<Frame>>> {
    let end = document.slot.next();
    if let Some(frames) = tip.frames_from(base) {
        let frames = frames.ending_before(end).to_vec();
        return match frames.last() {
            Some(last) if document.is_made_by(last) => Ok(frames),
            _ => Err(not_reached(stack, &document.revision)),
        };
    }
    if let Some(frames) = stored::frames_to(stack, &tip.head, base, document).await? {
        return Ok(frames);
    }
    let read = stored::journal_of(stack, &tip.head, base.start).await?;
    let frames = read.frames.without_those_from(end);
    match frames.last() {
        Some(last) if document.is_made_by(last) => Ok(frames),
        _ => Err(not_reached(stack, &document.revision)),
    }
}

fn not_reached(stack: &StackContext, revision: &RevisionId) -> Error {
    let object = format!("revision {revision} of stack {}", stack.lineage());
    Error::corrupt(object, 0, "replaying the journal doesn't reach it")
}
