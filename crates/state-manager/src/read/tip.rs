//! The tip of a stack: head, key and replayed journal at one moment, authenticated as far as this client can.

use crate::context::StackContext;
use crate::keys::authenticate::{Authenticated, OpenedJournal, ReadSnapshots};
use crate::objects::document::RevisionDocument;
use crate::read::history_floor::HistoryFloor;
use crate::read::latest_page::LatestPage;
use crate::read::replay::{self, ReplayResult};
use state_core::{Base, Frame, Head, Result, RevisionId};
use std::sync::{Arc, Mutex, PoisonError};

/// Head and state of a stack at one moment.
#[derive(Debug)]
pub(crate) struct Tip {
    pub(crate) head: Authenticated<Head>,
    pub(crate) replayed: ReplayResult,
    /// The journal from the base on. Queries replay earlier revisions from it without another read.
    journal: Authenticated<Vec<Frame>>,
    /// The latest page of the history, if it was read with the journal.
    pub(super) latest_page: Option<Arc<LatestPage>>,
    /// The earlier revision that was replayed last: a caller often asks several questions about one revision.
    earlier: Mutex<Option<Arc<EarlierRevision>>>,
    /// The beginning of history when the journal was read.
    pub(crate) floor: HistoryFloor,
}

/// The replayed state at a revision before the tip.
#[derive(Debug)]
pub(super) struct EarlierRevision {
    pub(super) revision: RevisionId,
    pub(super) replayed: ReplayResult,
}

impl Tip {
    /// Replays a journal that was read from its head's base on, or from before it. Snapshots that this client still uses
    /// aren't read again.
    pub(crate) async fn of(stack: &StackContext, journal: &OpenedJournal) -> Result<Self> {
        Self::knowing(stack, journal, &ReadSnapshots::in_use(stack)).await
    }

    /// As [`Tip::of`], but reads all snapshots from the store: a check of the store must not use what was read before.
    pub(crate) async fn read_anew(stack: &StackContext, journal: &OpenedJournal) -> Result<Self> {
        Self::knowing(stack, journal, &ReadSnapshots::default()).await
    }

    async fn knowing(stack: &StackContext, journal: &OpenedJournal, known: &ReadSnapshots) -> Result<Self> {
        let replayed = replay::from_base(stack, journal.head.base(), journal.live(), known).await?;
        Ok(Self {
            replayed,
            journal: journal.live().to_vec(),
            latest_page: None,
            earlier: Mutex::default(),
            floor: HistoryFloor::of(&journal.head),
            head: journal.head.clone(),
        })
    }

    /// The frames from a base on; none if this tip doesn't have them all.
    pub(crate) fn frames_from(&self, base: &Base) -> Option<Authenticated<&[Frame]>> {
        let is_here = base.start >= self.head.base.start;
        is_here.then(|| self.journal.all().starting_at(base.start))
    }

    /// The revisions that the journal from the base on made, oldest first.
    pub(crate) fn revisions(&self) -> &[Authenticated<RevisionDocument>] {
        &self.replayed.revisions
    }

    /// The snapshots that were read for this tip.
    pub(crate) const fn loaded(&self) -> &ReadSnapshots {
        &self.replayed.loaded
    }

    /// The state at an earlier revision, if it was the last one that was replayed.
    pub(super) fn earlier(&self, revision: &RevisionId) -> Option<Arc<EarlierRevision>> {
        let earlier = self.earlier.lock().unwrap_or_else(PoisonError::into_inner);
        earlier.clone().filter(|earlier| earlier.revision == *revision)
    }

    /// Keeps the state at an earlier revision for the next question.
    pub(super) fn keep_earlier(&self, earlier: &Arc<EarlierRevision>) {
        let mut kept = self.earlier.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = Some(Arc::clone(earlier));
    }

    /// The same tip with a head that the owner of the lock wrote since. The journal is still the same.
    pub(crate) fn with_head(self, head: Authenticated<Head>) -> Self {
        Self { head, ..self }
    }

    /// Whether a revision was neither deleted nor collected.
    pub(crate) fn lists(&self, revision: &RevisionId) -> bool {
        !self.replayed.state.is_forgotten(revision) && !self.floor.hides(revision.serial())
    }
}
