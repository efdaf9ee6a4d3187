//! What there is of a history, where it can be cut, and what a cut leaves without a use.

use crate::context::StackContext;
use crate::gc::retention::{Retention, oldest_kept};
use crate::objects::document::{Made, RevisionDocument};
use crate::objects::snapshots;
use crate::read::history;
use crate::read::history_floor::whole_journal;
use crate::read::replay::{self, checkpoints, frame_object, rebases};
use crate::read::tip::Tip;
use state_core::backend::{JournalView, ObjectName, StoredItem, StoredItemName};
use state_core::head::Collection;
use state_core::journal::{Fence, FrameKind};
use state_core::{Base, Digest, Result, RevisionId, Serial, Slot, Timestamp, Writer};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The most revisions deleted by hand whose names one head carries; the rest go with the next collection.
const MAX_FORGOTTEN: usize = 1000;

/// All that is left of a history.
pub(super) struct Survey {
    view: JournalView,
    pub(super) tip: Tip,
    /// The revisions that weren't deleted, oldest first.
    pub(super) documents: Vec<RevisionDocument>,
    /// Points with a full snapshot that the head or the journal vouches for.
    bases: BTreeMap<Slot, Base>,
    /// The stored snapshots that frames need, by the frame; with the revision that is nothing else, if it is one.
    needed: Vec<(Slot, ObjectName, Option<RevisionId>)>,
}

/// Where history is to begin, and what that drops.
#[derive(Debug)]
pub(super) struct Cut {
    pub(super) start: Slot,
    /// The chain before it.
    chain: Digest,
    pub(super) serial: Serial,
    pub(super) dropped: Vec<RevisionId>,
    pub(super) forgotten: BTreeSet<RevisionId>,
    pub(super) held_back: usize,
}

impl Cut {
    /// The cut that was made.
    pub(super) fn again(made: &Collection) -> Self {
        Self {
            start: made.base.start,
            chain: made.base.chain,
            serial: made.serial,
            dropped: Vec::new(),
            forgotten: made.forgotten.clone(),
            held_back: 0,
        }
    }
}

impl Survey {
    pub(super) async fn of(stack: &StackContext) -> Result<Self> {
        let view = whole_journal(stack.backend(), stack.lineage()).await?;
        let tip = Tip::of(stack, &view).await?;
        let documents = history::documents(stack, &tip).await?;
        let mut survey = Self {
            bases: BTreeMap::new(),
            needed: Vec::new(),
            tip,
            documents,
            view,
        };
        let head = &survey.view.head;
        let mut vouched = vec![survey.tip.floor.beginning(stack.lineage()), head.base.clone()];
        for frame in &survey.view.frames {
            let object = frame_object(stack.lineage(), frame);
            for reference in rebases(stack.lineage(), frame)? {
                survey.needed.push((frame.slot(), reference.object(), None));
            }
            vouched.extend(checkpoints(stack.lineage(), frame)?);
            match RevisionDocument::of_frame(&object, frame)? {
                Some(RevisionDocument {
                    revision,
                    made: Made::DetachedRevision(stored),
                    ..
                }) => {
                    let object = stored.snapshot.object();
                    survey.needed.push((frame.slot(), object, Some(revision)));
                }
                Some(RevisionDocument {
                    made: Made::UpdateEnd(mark),
                    ..
                }) => vouched.push(mark.base),
                None => {}
            }
        }
        let floor = vouched.first().map_or(Slot::ZERO, |base| base.start);
        vouched.retain(|base| base.start >= floor);
        survey.bases = vouched.into_iter().map(|base| (base.start, base)).collect();
        Ok(survey)
    }

    /// The latest place where the journal can be cut so that all that is to be kept is left.
    pub(super) fn cut(&self, retention: &Retention, now: &Timestamp) -> Result<Cut> {
        let made: Vec<Option<&Timestamp>> = self.documents.iter().map(moment).collect();
        let current = self.tip.replayed.state.current();
        let current = self.documents.iter().position(|d| Some(&d.revision) == current);
        let oldest = oldest_kept(&made, current, retention, now)?;
        let limit = self
            .documents
            .get(oldest)
            .map_or(Slot::ZERO, |document| document.slot);
        let (start, chain) = self.border(limit)?;
        let behind = self.documents.partition_point(|document| document.slot < start);
        let (serial, start, chain) = match self.documents.get(behind) {
            Some(first) if behind > 0 => (first.revision.serial(), start, chain),
            // Nothing would be dropped: history begins where it began.
            _ => {
                let beginning = self.tip.floor.beginning(self.view.head.lineage);
                (self.tip.floor.serial(), beginning.start, beginning.chain)
            }
        };
        Ok(Cut {
            start,
            chain,
            serial,
            dropped: self.documents[..behind.min(oldest)]
                .iter()
                .map(|document| document.revision.clone())
                .collect(),
            forgotten: BTreeSet::new(),
            held_back: oldest.saturating_sub(behind),
        })
    }

    /// The latest border at or before a slot: a base with its snapshot, or a fence, at which one can be made.
    fn border(&self, limit: Slot) -> Result<(Slot, Digest)> {
        let base = self.bases.range(..=limit).next_back();
        let base = base.map(|(slot, base)| (*slot, base.chain));
        let fences = self.view.frames.iter().filter(|frame| frame.slot() <= limit);
        let fence = fences.rev().find(|frame| frame.kind() == FrameKind::Fence);
        let fence = match fence {
            None => None,
            Some(frame) => {
                let object = frame_object(self.view.head.lineage, frame);
                Some((frame.slot(), Fence::decode(&object, frame.payload())?.chain))
            }
        };
        let beginning = self.tip.floor.beginning(self.view.head.lineage);
        let borders = [Some((beginning.start, beginning.chain)), fence, base];
        Ok(borders
            .into_iter()
            .flatten()
            .max_by_key(|(slot, _)| *slot)
            .unwrap_or((Slot::ZERO, beginning.chain)))
    }

    /// The base where a cut begins; its snapshot is stored if there is none yet.
    pub(super) async fn base_of(&self, stack: &StackContext, writer: &dyn Writer, cut: &Cut) -> Result<Base> {
        let beginning = self.tip.floor.beginning(stack.lineage());
        let nearest = self.bases.range(..=cut.start).next_back();
        let nearest = nearest.map_or(beginning, |(_, base)| base.clone());
        if nearest.start == cut.start {
            return Ok(nearest);
        }
        let frames = &self.view.frames;
        let between = frames.partition_point(|frame| frame.slot() < nearest.start)
            ..frames.partition_point(|frame| frame.slot() < cut.start);
        let led_to = replay::from_base(stack, &nearest, &frames[between]).await?;
        // Dated by what it holds, so that a run that is repeated makes the same bytes.
        let mut snapshot = led_to
            .state
            .snapshot(self.view.head.name.to_string(), led_to.moment);
        snapshot.continuation = Some(led_to.state.continuation());
        let reference = snapshots::store(writer, Arc::new(snapshot), cut.start).await?;
        Ok(Base {
            snapshot: Some(reference),
            start: cut.start,
            chain: cut.chain,
        })
    }

    /// Adds the revisions that were deleted by hand, are not below the cut, and still have bytes.
    pub(super) fn add_forgotten(&self, cut: &mut Cut, stored_items: &[StoredItem]) {
        let there: BTreeSet<&StoredItemName> = stored_items.iter().map(|piece| &piece.name).collect();
        let is_there = |object| there.contains(&StoredItemName::Object(object));
        let listed = stored_items.iter().filter_map(|piece| match &piece.name {
            StoredItemName::Object(ObjectName::Update(revision)) => Some(revision),
            _ => None,
        });
        let kept = self.needed_from(cut.start, &|other| self.tip.replayed.state.is_forgotten(other));
        let stored = self.needed.iter().filter_map(|(_, object, by)| {
            let by = by.as_ref()?;
            (!kept.contains(object) && is_there(object.clone())).then_some(by)
        });
        let forgotten = listed.chain(stored).filter(|revision| {
            revision.serial() >= cut.serial && self.tip.replayed.state.is_forgotten(revision)
        });
        let forgotten: BTreeSet<RevisionId> = forgotten.cloned().collect();
        cut.forgotten = forgotten.into_iter().take(MAX_FORGOTTEN).collect();
    }

    /// What of these nobody can ask for any more once a cut is made.
    pub(super) fn doomed(&self, stored_items: Vec<StoredItem>, cut: &Cut) -> Vec<StoredItem> {
        let serials: BTreeSet<Serial> = cut.forgotten.iter().map(RevisionId::serial).collect();
        let is_forgotten = |revision: &RevisionId| cut.forgotten.contains(revision);
        let released: BTreeSet<&ObjectName> = self
            .needed
            .iter()
            .filter(|(_, _, by)| by.as_ref().is_some_and(is_forgotten))
            .map(|(_, object, _)| object)
            .collect();
        let kept = self.needed_from(cut.start, &is_forgotten);
        let is_doomed = |piece: &StoredItem| match &piece.name {
            StoredItemName::Journal(_) => true,
            StoredItemName::Object(ObjectName::Update(revision)) => {
                revision.serial() < cut.serial || is_forgotten(revision)
            }
            StoredItemName::Object(ObjectName::Log(serial) | ObjectName::Outputs(serial)) => {
                *serial < cut.serial || serials.contains(serial)
            }
            StoredItemName::Object(name @ ObjectName::Snapshot { slot, .. }) => {
                (*slot < cut.start || released.contains(name)) && !kept.contains(name)
            }
            // Data keys open what may be kept elsewhere; other kinds are somebody else's.
            StoredItemName::Object(_) => false,
        };
        let mut doomed = stored_items;
        doomed.retain(is_doomed);
        doomed.sort_by(|left, right| left.name.cmp(&right.name));
        doomed
    }

    /// The snapshots that frames from a slot on need, other than for revisions that are gone.
    fn needed_from(&self, from: Slot, is_gone: &dyn Fn(&RevisionId) -> bool) -> BTreeSet<&ObjectName> {
        let needed = self.needed.iter();
        let needed = needed.filter(|(slot, _, by)| *slot >= from && !by.as_ref().is_some_and(is_gone));
        needed.map(|(_, object, _)| object).collect()
    }

    /// The oldest revision from a serial on.
    pub(super) fn first_from(&self, serial: Serial) -> Option<RevisionId> {
        let mut revisions = self.documents.iter().map(|document| &document.revision);
        revisions.find(|revision| revision.serial() >= serial).cloned()
    }
}

/// When a revision was made; none for one that was stored, which doesn't say.
fn moment(document: &RevisionDocument) -> Option<&Timestamp> {
    match &document.made {
        Made::UpdateEnd(mark) => Some(replay::moment(mark)),
        Made::DetachedRevision(_) => None,
    }
}
