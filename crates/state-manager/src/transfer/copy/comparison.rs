//! Compares the source of a copy with the copy.

use super::StackContents;
use state_core::backend::Tail;
use state_core::{Digest, Error, Frame, Result, Slot};
use std::collections::BTreeMap;

/// How the journals of a source and its copy relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    /// Both end at the same frame.
    Equal,
    /// The copy is a beginning of the source, which has this many more frames.
    SourceAhead(u64),
    /// The source is a beginning of the copy, which has this many more frames.
    CopyAhead(u64),
    /// The source has deleted the frames after the end of the copy.
    Collected,
    /// The journals have different frames in this slot.
    Diverged(Slot),
}

impl Relation {
    /// Compares the journals by their chains. Two journals with the same chain digest at a slot have the same frames before
    /// it, because the chain covers all of them.
    pub(super) fn of(source: &StackContents, copy: &StackContents) -> Self {
        let (here, there) = (source.journal.tail, copy.journal.tail);
        let behind = |more: Slot, less: Slot| more.get().saturating_sub(less.get());
        if here == there {
            Self::Equal
        } else if source.passes(there) {
            Self::SourceAhead(behind(here.next, there.next))
        } else if copy.passes(here) {
            Self::CopyAhead(behind(there.next, here.next))
        } else if source.before.next > there.next {
            Self::Collected
        } else {
            Self::Diverged(first_difference(source, copy))
        }
    }

    /// Describes the difference, and what the user can do; none if there is no difference.
    pub(super) fn describe(self) -> Option<String> {
        let frames = |count| match count {
            1 => "1 frame".to_owned(),
            count => format!("{count} frames"),
        };
        match self {
            Self::Equal => None,
            Self::SourceAhead(count) => Some(format!("the source is ahead by {}: copy again", frames(count))),
            Self::CopyAhead(count) => Some(format!(
                "the copy is ahead by {}: continue with the copy",
                frames(count)
            )),
            Self::Collected => Some(
                "the source has deleted the frames that follow the end of the copy: copy to an empty store"
                    .to_owned(),
            ),
            Self::Diverged(slot) => Some(format!(
                "the two journals diverge from slot {slot} on: decide which stack to keep, and copy to an empty store"
            )),
        }
    }
}

impl StackContents {
    /// Whether the journal passes this point: with a frame that ends there, or with its beginning or end.
    fn passes(&self, point: Tail) -> bool {
        let ends_there = |frame: &Frame| Tail::after(frame) == point;
        self.before == point || self.journal.tail == point || self.journal.frames.iter().any(ends_there)
    }
}

/// Compares source and copy. Journals are compared by their chain, which covers every byte.
///
/// # Errors
/// If source and copy differ: `Conflict` if the copy existed before, because either stack may have been changed since;
/// `Corrupt` for a new copy.
pub(super) fn compare(
    object: &str,
    source: &StackContents,
    copy: &StackContents,
    was_there: bool,
) -> Result<()> {
    let differ = |what: &str| {
        if was_there {
            return existing(object, what);
        }
        Error::corrupt(object, 0, format!("the copy differs from the source: {what}"))
    };
    if let Some(way) = Relation::of(source, copy).describe() {
        return Err(differ(&way));
    }
    if source.sealing() != copy.sealing() {
        return Err(differ("its data key or its policy differs"));
    }
    if (source.before, &source.journal.head.base) != (copy.before, &copy.journal.head.base) {
        return Err(differ("its base or the beginning of its journal differs"));
    }
    // The copy may hold more objects: the source may have collected some since an earlier copy.
    let missing = source
        .objects
        .iter()
        .find(|(name, digest)| copy.objects.get(*name) != Some(*digest));
    match missing {
        Some((name, _)) => Err(differ(&format!("{name} is missing or different"))),
        None => Ok(()),
    }
}

/// The error for a copy that exists, and differs from the source.
pub(super) fn existing(object: &str, what: &str) -> Error {
    Error::conflict(object, format!("a copy exists already, and {what}"))
}

/// The first slot with different frames in two journals. If none of their common slots differs, the end of the shorter
/// journal.
fn first_difference(source: &StackContents, copy: &StackContents) -> Slot {
    let (source, copy) = (&source.journal, &copy.journal);
    let there: BTreeMap<Slot, &Digest> = copy
        .frames
        .iter()
        .map(|frame| (frame.slot(), frame.chain()))
        .collect();
    let differs = |frame: &&Frame| {
        there
            .get(&frame.slot())
            .is_some_and(|chain| *chain != frame.chain())
    };
    let first = source.frames.iter().find(differs).map(Frame::slot);
    first.unwrap_or(source.tail.next.min(copy.tail.next))
}
