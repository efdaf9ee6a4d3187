//! Which revision each property of an entry is from.

use crate::context::StackContext;
use crate::objects::document::{Made, Revision};
use crate::read::history::{self, Revisions};
use crate::read::tip::{self, Tip, reading};
use state_core::diff::{self, Property};
use state_core::{Address, Entry, Error, Result, RevisionId, SharedEntry, Snapshot, State, Timestamp};

/// What an entry says, and since when it says so.
#[derive(Clone, Debug)]
pub struct Blame {
    /// The entry.
    pub entry: SharedEntry,
    /// Its address first (the pointer `/address`), then its other properties.
    pub lines: Vec<BlameLine>,
}

/// One property, and what last changed it.
#[derive(Clone, Debug)]
pub struct BlameLine {
    /// The property.
    pub property: Property,
    /// The revision that last changed it; none while no revision has it, because an update is open say.
    pub revision: Option<Revision>,
}

/// Walks from the newest revision to the oldest, and stops when all properties are settled. Each stretch of the journal
/// between two bases is replayed once.
///
/// Revisions that were stored and never became current are no part of what happened; what a deleted revision changed is
/// told of the next one that remains.
pub(crate) async fn blame(stack: &StackContext, address: &Address, at: Option<&RevisionId>) -> Result<Blame> {
    reading!(stack, tip => blame_from(stack, &tip, address, at).await)
}

async fn blame_from(
    stack: &StackContext,
    tip: &Tip,
    address: &Address,
    at: Option<&RevisionId>,
) -> Result<Blame> {
    let missing = || Error::not_found(format!("entry {address} of {}", stack.object()));
    let newest = match at {
        Some(revision) => history::snapshot(stack, tip, revision).await?,
        None => tip.replayed.state.snapshot("", Timestamp::new("")),
    };
    let entry = find(&newest, address).cloned().ok_or_else(missing)?;
    let mut walk = Walk::new(entry.clone());
    let mut revisions = Revisions::of(stack, tip).await?;
    // What stands in `walk.entry` was made by this revision, or by one before it.
    let mut made_by: Option<Revision> = None;
    // The object at revisions that come next, the next one last.
    let mut known: Vec<(RevisionId, Option<SharedEntry>)> = Vec::new();
    while walk.is_open() {
        let Some(document) = revisions.next_document().await? else {
            break;
        };
        let id = document.revision.clone();
        if at.is_some_and(|at| id > *at) {
            continue;
        }
        if let Made::Mark(mark) = &document.made {
            while known.last().is_some_and(|(other, _)| *other > id) {
                known.pop();
            }
            if known.last().is_none_or(|(other, _)| *other != id) {
                let pick = |state: &State| same_object(state, &walk.entry).cloned();
                let base = revisions.base_of(mark);
                known = history::at_marks(stack, &document, base, pick).await?;
            }
            let before = known.pop().and_then(|(_, before)| before);
            walk.back_to(before, made_by.as_ref());
        } else if at != Some(&id) {
            continue;
        }
        made_by = Some(document.into_revision(revisions.current()));
    }
    walk.back_to(None, made_by.as_ref());
    Ok(Blame {
        entry,
        lines: walk.lines,
    })
}

/// The live entry of an address, or else one of its deposed objects.
fn find<'a>(snapshot: &'a Snapshot, address: &Address) -> Option<&'a SharedEntry> {
    let mut generations: Vec<_> = snapshot
        .entries
        .iter()
        .filter(|entry| entry.address == *address)
        .collect();
    generations.sort_by_key(|entry| entry.key());
    generations.first().copied()
}

/// The object in another state: by uid; by key where uids don't tell.
fn same_object<'a>(state: &'a State, entry: &Entry) -> Option<&'a SharedEntry> {
    let by_uid = || state.entries().find(|other| other.uid == entry.uid);
    let by_key = || state.entry(&entry.key());
    match by_key() {
        Some(other) if other.uid == entry.uid || other.uid.is_none() => Some(other),
        other if entry.uid.is_none() => other,
        _ => by_uid(),
    }
}

struct Walk {
    /// The object as it was where the walk stands.
    entry: SharedEntry,
    lines: Vec<BlameLine>,
    is_settled: Vec<bool>,
    ended: bool,
}

impl Walk {
    fn new(entry: SharedEntry) -> Self {
        let lines: Vec<BlameLine> = std::iter::once(diff::address_property(&entry))
            .chain(diff::properties(&entry))
            .map(|property| BlameLine {
                property,
                revision: None,
            })
            .collect();
        Self {
            entry,
            is_settled: vec![false; lines.len()],
            lines,
            ended: false,
        }
    }

    fn is_open(&self) -> bool {
        !self.ended && self.is_settled.contains(&false)
    }

    /// Goes from where the walk stands, which `made_by` made, to what was before.
    fn back_to(&mut self, before: Option<SharedEntry>, made_by: Option<&Revision>) {
        if self.ended {
            return;
        }
        let Some(before) = before else {
            self.settle(made_by, |_| true);
            self.ended = true;
            return;
        };
        let changes = diff::entry_changes(&before, &self.entry);
        let is_moved = before.key() != self.entry.key();
        self.settle(made_by, |pointer| {
            (is_moved && pointer == "/address")
                || changes.iter().any(|change| {
                    leads_into(&change.pointer, pointer) || leads_into(pointer, &change.pointer)
                })
        });
        self.entry = before;
    }

    fn settle(&mut self, revision: Option<&Revision>, is_changed: impl Fn(&str) -> bool) {
        for (line, is_settled) in self.lines.iter_mut().zip(&mut self.is_settled) {
            if !*is_settled && is_changed(&line.property.pointer) {
                line.revision = revision.cloned();
                *is_settled = true;
            }
        }
    }
}

/// Whether a pointer leads to the place of another, or into it.
fn leads_into(outer: &str, inner: &str) -> bool {
    inner
        .strip_prefix(outer)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
