//! Going back across a move: entries would be in two stacks, or in none.

use crate::context::StackContext;
use crate::objects::document::RevisionKind;
use crate::read::history::Revisions;
use crate::read::{tip, view};
use state_core::moves::StackMove;
use state_core::{
    EntryKey, Error, ErrorKind, Result, RevisionId, SharedEntry, Snapshot, State, Timestamp, Uid,
};
use std::collections::{BTreeMap, BTreeSet};

/// A move that a rollback would take back on this side only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrossedMove {
    /// The revision that made it.
    pub revision: RevisionId,
    /// The stack on the other side. `Out`: the entries would come back, and may live there. `In`: they would go, and no
    /// stack has them then.
    pub moved: StackMove,
    /// The entries in question.
    pub entries: Vec<EntryKey>,
}

/// The moves that bringing back a revision would take back on this side only, newest first.
pub(crate) async fn crossed_moves(
    stack: &StackContext,
    now: &State,
    to: &RevisionId,
) -> Result<Vec<CrossedMove>> {
    let then = view::snapshot(stack, to).await?;
    crossed(stack, now, to, &then).await
}

/// Refuses to bring back a revision from before a move.
pub(crate) async fn refuse(
    stack: &StackContext,
    now: &State,
    to: &RevisionId,
    then: &Snapshot,
) -> Result<()> {
    let crossed = crossed(stack, now, to, then).await?;
    let Some(CrossedMove { moved, entries, .. }) = crossed.first() else {
        return Ok(());
    };
    let reason = match moved {
        StackMove::Out(there) => format!(
            "it would bring back {} of this stack that moved to {there}",
            counted(entries)
        ),
        StackMove::In(there) => format!("it would drop {} that moved here from {there}", counted(entries)),
        _ => format!("it would take back one side of the move of {}", counted(entries)),
    };
    let reason = format!("{reason}; nothing was changed");
    Err(Error::conflict(stack.object(), reason))
}

async fn crossed(
    stack: &StackContext,
    now: &State,
    to: &RevisionId,
    then: &Snapshot,
) -> Result<Vec<CrossedMove>> {
    let now: Vec<SharedEntry> = now.entries().cloned().collect();
    let mut coming = only_in(&then.entries, &now);
    let mut going = only_in(&now, &then.entries);
    let mut crossed = Vec::new();
    let (tip, _) = tip::read(stack).await?;
    let mut revisions = Revisions::of(stack, &tip).await?;
    while !coming.is_empty() || !going.is_empty() {
        let Some(revision) = revisions.next().await? else {
            break;
        };
        if revision.id <= *to {
            // What came in before belongs to that revision; what left before may still come back with it.
            going.clear();
        }
        let RevisionKind::Update(info) = revision.kind else {
            continue;
        };
        let Some(moved) = info.moved else { continue };
        let before = content_of(stack, info.parent.as_ref()).await?;
        let after = content_of(stack, Some(&revision.id)).await?;
        let sides = before.as_ref().zip(after.as_ref());
        if sides.is_none() && revision.id <= *to {
            // So old that what was before it was collected: of what came back by force since, nobody can tell.
            continue;
        }
        let mut entries = match &moved {
            StackMove::Out(_) => taken(&mut coming, sides),
            // Whatever came in was here last: it lives nowhere else.
            _ => {
                drop(taken(&mut coming, sides.or(Some((then, then)))));
                taken(&mut going, sides)
            }
        };
        entries.sort_unstable();
        if !entries.is_empty() {
            crossed.push(CrossedMove {
                revision: revision.id,
                moved,
                entries,
            });
        }
    }
    Ok(crossed)
}

/// What a revision holds; none when it was deleted.
async fn content_of(stack: &StackContext, revision: Option<&RevisionId>) -> Result<Option<Snapshot>> {
    let Some(revision) = revision else {
        let nothing = State::new(stack.lineage());
        return Ok(Some(nothing.snapshot("", Timestamp::new(""))));
    };
    match view::snapshot(stack, revision).await {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

/// Takes those that a move took from one side to the other. When a side of it can't be read any more, all of them.
fn taken(entries: &mut BTreeMap<Identity, EntryKey>, sides: Option<(&Snapshot, &Snapshot)>) -> Vec<EntryKey> {
    let Some((before, after)) = sides else {
        return std::mem::take(entries).into_values().collect();
    };
    let mut moved = only_in(&before.entries, &after.entries);
    moved.append(&mut only_in(&after.entries, &before.entries));
    moved
        .keys()
        .filter_map(|identity| entries.remove(identity))
        .collect()
}

fn only_in(one: &[SharedEntry], other: &[SharedEntry]) -> BTreeMap<Identity, EntryKey> {
    let known: BTreeSet<Identity> = other.iter().map(identity).collect();
    let only = one.iter().map(|entry| (identity(entry), entry.key()));
    only.filter(|(identity, _)| !known.contains(identity)).collect()
}

type Identity = (Option<Uid>, Option<EntryKey>);

/// What stays of an entry when it gets another address: its uid, or its key if it has none.
fn identity(entry: &SharedEntry) -> Identity {
    match entry.uid {
        Some(uid) => (Some(uid), None),
        None => (None, Some(entry.key())),
    }
}

fn counted(entries: &[EntryKey]) -> String {
    match entries {
        [one] => format!("entry {one}"),
        several => format!("{} entries", several.len()),
    }
}
