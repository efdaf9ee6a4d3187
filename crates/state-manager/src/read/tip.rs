//! The tip of a stack: head, key and replayed journal at one moment, authenticated as far as this client can.

use crate::context::StackContext;
use crate::keys::authenticate::{Authenticated, OpenedJournal, ReadPage, ReadSnapshots};
use crate::objects::document::RevisionDocument;
use crate::read::history_floor::HistoryFloor;
use crate::read::replay::{self, ReplayResult};
use state_core::{Base, Frame, Head, Result, RevisionId};
use std::sync::{Mutex, PoisonError};

/// Head and state of a stack at one moment.
#[derive(Debug)]
pub(crate) struct Tip {
    pub(crate) head: Authenticated<Head>,
    pub(crate) replayed: ReplayResult,
    /// The journal from the base on. Queries replay earlier revisions from it without another read.
    journal: Authenticated<Vec<Frame>>,
    /// The page of the history that was read last. A caller often asks several questions about one revision, and may take
    /// the lock then; what is kept here isn't read again for that.
    page: Mutex<Option<ReadPage>>,
    /// The state at an earlier revision that was replayed last.
    earlier: Mutex<Option<ReplayResult>>,
    /// The beginning of history when the journal was read.
    pub(crate) floor: HistoryFloor,
}

impl Tip {
    /// Replays a journal that was read from its head's base on, or from before it. Snapshots that this client still uses
    /// aren't read again.
    pub(crate) async fn of(stack: &StackContext, journal: &OpenedJournal) -> Result<Self> {
        let known = ReadSnapshots::in_use(stack);
        let replayed = replay::from_base(stack, journal.head.base(), journal.live(), &known).await?;
        Ok(Self {
            replayed,
            journal: journal.live().to_vec(),
            page: Mutex::default(),
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

    /// Keeps the state at an earlier revision in use, until that of another one is kept.
    pub(super) fn keep_earlier(&self, earlier: ReplayResult) {
        *self.earlier.lock().unwrap_or_else(PoisonError::into_inner) = Some(earlier);
    }

    /// Keeps a page of the history in use, until another one is kept.
    pub(super) fn keep_page(&self, page: ReadPage) {
        *self.page.lock().unwrap_or_else(PoisonError::into_inner) = Some(page);
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
