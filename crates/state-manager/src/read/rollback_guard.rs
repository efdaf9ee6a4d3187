//! Finds the moves between stacks that a rollback would revert in only one of the two stacks. After such a rollback a
//! resource would be in both stacks or in none, so the rollback is refused unless the caller forces it.

use crate::context::StackContext;
use crate::objects::document::RevisionKind;
use crate::read::history::Revisions;
use crate::read::revision_state;
use crate::read::tip::Tip;
use state_core::diff::common_ends;
use state_core::moves::StackMove;
use state_core::{
    Address, DeposedKey, Entry, EntryKey, Error, ErrorKind, Result, RevisionId, SharedEntry, Snapshot, State,
    Timestamp, Uid,
};
use std::collections::{HashMap, HashSet};

/// A move between stacks that a rollback would revert in this stack but not in the other one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrossedMove {
    /// The revision that made the move.
    pub revision: RevisionId,
    /// The direction and the other stack. `Out`: the rollback would restore resources that now belong to the other
    /// stack. `In`: it would drop resources that no other stack contains.
    pub moved: StackMove,
    /// Keys of the affected resources.
    pub entries: Vec<EntryKey>,
}

/// Returns the moves that a rollback from the tip to the revision `to` would revert in this stack but not in the other
/// one, newest first.
pub(super) async fn crossed_moves(
    stack: &StackContext,
    tip: &Tip,
    to: &RevisionId,
) -> Result<Vec<CrossedMove>> {
    let then = revision_state::snapshot(stack, tip, to).await?;
    crossed(stack, tip, to, &then).await
}

/// Refuses a rollback that would revert a move in this stack but not in the other one. `then` is the content of `to`.
///
/// # Errors
/// `Conflict`, which names the newest of these moves.
pub(super) async fn refuse(stack: &StackContext, tip: &Tip, to: &RevisionId, then: &Snapshot) -> Result<()> {
    let crossed = crossed(stack, tip, to, then).await?;
    let Some(CrossedMove { moved, entries, .. }) = crossed.first() else {
        return Ok(());
    };
    let reason = match moved {
        StackMove::Out(there) => format!(
            "it would restore {} that moved from this stack to {there}",
            counted(entries)
        ),
        StackMove::In(there) => format!("it would drop {} that moved here from {there}", counted(entries)),
        _ => format!("it would revert one side of the move of {}", counted(entries)),
    };
    let reason = format!("{reason}; nothing was changed");
    Err(Error::conflict(stack.object(), reason))
}

async fn crossed(
    stack: &StackContext,
    tip: &Tip,
    to: &RevisionId,
    then: &Snapshot,
) -> Result<Vec<CrossedMove>> {
    let now: Vec<SharedEntry> = tip.replayed.state.entries().cloned().collect();
    let (mut restored, mut dropped) = differing(&then.entries, &now);
    let mut crossed = Vec::new();
    let mut revisions = Revisions::of(stack, tip);
    while !restored.is_empty() || !dropped.is_empty() {
        let Some(revision) = revisions.next_readable().await? else {
            break;
        };
        if revision.id <= *to {
            // Resources that arrived before `to` are part of that revision, so the rollback doesn't drop them.
            // Resources that left before `to` are still checked: an earlier forced rollback may have made them part of
            // `to` again.
            dropped.clear();
        }
        let RevisionKind::Update(info) = revision.kind else {
            continue;
        };
        let Some(moved) = info.moved else { continue };
        let before = content_of(stack, tip, info.parent.as_ref()).await?;
        let after = content_of(stack, tip, Some(&revision.id)).await?;
        let sides = before.as_ref().zip(after.as_ref());
        if sides.is_none() && revision.id <= *to {
            // The revision before the move was collected. Resources that a later forced rollback restored can't be
            // detected then.
            continue;
        }
        let mut entries = match &moved {
            StackMove::Out(_) => take_moved(&mut restored, sides),
            // A resource that arrived here is in no other stack, so restoring it is safe.
            _ => {
                drop(take_moved(&mut restored, sides.or(Some((then, then)))));
                take_moved(&mut dropped, sides)
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

/// The content of a revision; none if it was deleted. Without a revision, the content of an empty stack.
async fn content_of(
    stack: &StackContext,
    tip: &Tip,
    revision: Option<&RevisionId>,
) -> Result<Option<Snapshot>> {
    let Some(revision) = revision else {
        let nothing = State::new(stack.lineage());
        return Ok(Some(nothing.snapshot("", Timestamp::new(""))));
    };
    match revision_state::snapshot(stack, tip, revision).await {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

/// Removes and returns the entries that a move transferred. Returns all entries if the content before or after the move
/// can't be read any more.
fn take_moved(entries: &mut Entries<'_>, sides: Option<(&Snapshot, &Snapshot)>) -> Vec<EntryKey> {
    let Some((before, after)) = sides else {
        return std::mem::take(entries).into_values().map(Entry::key).collect();
    };
    let (mut moved, arrived) = differing(&before.entries, &after.entries);
    moved.extend(arrived);
    let taken = entries.extract_if(|identity, _| moved.contains_key(identity));
    taken.map(|(_, entry)| entry.key()).collect()
}

/// Entries by their identity.
type Entries<'s> = HashMap<Identity<'s>, &'s Entry>;

/// The entries of each list whose identity isn't in the other list.
fn differing<'s>(one: &'s [SharedEntry], other: &'s [SharedEntry]) -> (Entries<'s>, Entries<'s>) {
    let is_same = |one: &SharedEntry, other: &SharedEntry| identity(one) == identity(other);
    let (beginning, end) = common_ends(one, other, is_same);
    let one = &one[beginning..one.len() - end];
    let other = &other[beginning..other.len() - end];
    (only_in(one, other), only_in(other, one))
}

fn only_in<'s>(one: &'s [SharedEntry], other: &[SharedEntry]) -> Entries<'s> {
    let known: HashSet<Identity<'_>> = other.iter().map(|entry| identity(entry)).collect();
    one.iter()
        .map(|entry| (identity(entry), &**entry))
        .filter(|(identity, _)| !known.contains(identity))
        .collect()
}

/// The identity of an entry that survives a change of its address.
#[derive(PartialEq, Eq, Hash)]
enum Identity<'s> {
    Uid(Uid),
    /// For an entry without a uid.
    Key(&'s Address, Option<&'s DeposedKey>),
}

fn identity(entry: &Entry) -> Identity<'_> {
    match entry.uid {
        Some(uid) => Identity::Uid(uid),
        None => Identity::Key(&entry.address, entry.deposed.as_ref()),
    }
}

fn counted(entries: &[EntryKey]) -> String {
    match entries {
        [one] => format!("resource {one}"),
        several => format!("{} resources", several.len()),
    }
}
