//! The history one revision at a time: a long one is never held as a whole.

use crate::document::RevisionDocument;
use crate::history::{self, Revision};
use crate::horizon::Horizon;
use crate::load::Replayed;
use crate::stack::Stack;
use state_core::{Error, Result, RevisionId};
use std::collections::{BTreeMap, BTreeSet};

/// A stack's revisions as they were when this was made, newest first. Only their ids are held.
#[derive(Debug)]
pub struct Revisions {
    stack: Stack,
    current: Option<RevisionId>,
    pub(crate) horizon: Horizon,
    /// What is to come, in ascending order.
    ids: BTreeSet<RevisionId>,
    /// Those that the live journal tells of.
    live: BTreeMap<RevisionId, RevisionDocument>,
}

impl Revisions {
    pub(crate) async fn of(stack: &Stack, tip: Replayed) -> Result<Self> {
        let mut ids = history::stored_ids(stack, &tip.horizon).await?;
        let documents = tip.revisions.into_iter();
        let live: BTreeMap<_, _> = documents
            .map(|document| (document.revision.clone(), document))
            .collect();
        ids.extend(live.keys().cloned());
        ids.retain(|id| !tip.state.is_forgotten(id) && !tip.horizon.hides(id.serial()));
        Ok(Self {
            stack: stack.clone(),
            current: tip.state.current().cloned(),
            horizon: tip.horizon,
            ids,
            live,
        })
    }

    /// The next older revision; none after the oldest.
    ///
    /// # Errors
    /// `Corrupt` when what is stored of it is damaged; a call after that goes on with the one before it.
    ///
    /// # Cancellation
    /// A call that is dropped may skip a revision.
    pub async fn next(&mut self) -> Result<Option<Revision>> {
        let document = self.next_document().await?;
        Ok(document.map(|document| document.into_revision(self.current.as_ref())))
    }

    /// As [`Self::next`], with all that is known of it.
    pub(crate) async fn next_document(&mut self) -> Result<Option<RevisionDocument>> {
        while let Some(id) = self.ids.pop_last() {
            if let Some(live) = self.live.remove(&id) {
                return Ok(Some(live));
            }
            match history::stored_document(&self.stack, &id).await {
                Err(Error::NotFound { .. }) if self.was_collected(&id).await? => {}
                document => return document.map(Some),
            }
        }
        Ok(None)
    }

    /// Whether a revision was collected while this went from one to the next.
    async fn was_collected(&self, id: &RevisionId) -> Result<bool> {
        let collection = self
            .stack
            .backend()
            .read_head(self.stack.lineage())
            .await?
            .collection;
        let now = Horizon(collection);
        Ok(now.hides(id.serial()) || now.0.is_some_and(|collection| collection.forgotten.contains(id)))
    }

    /// The current revision.
    pub(crate) const fn current(&self) -> Option<&RevisionId> {
        self.current.as_ref()
    }
}
