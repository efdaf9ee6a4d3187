//! The tip of a stack: head, key and replayed journal at one moment, authenticated as far as this client can.

use crate::context::StackContext;
use crate::keys::authenticate::{Authenticated, OpenedJournal};
use crate::objects::document::RevisionDocument;
use crate::read::history_floor::HistoryFloor;
use crate::read::replay::{self, ReplayResult};
use state_core::{Head, Result, RevisionId};

/// Head and state of a stack at one moment.
pub(crate) struct Tip {
    pub(crate) head: Authenticated<Head>,
    pub(crate) replayed: ReplayResult,
    /// The revisions that the journal from the base on made, oldest first.
    pub(crate) revisions: Vec<Authenticated<RevisionDocument>>,
    /// The beginning of history when the journal was read.
    pub(crate) floor: HistoryFloor,
}

impl Tip {
    /// Replays a journal that was read from its head's base on, or from before it.
    pub(crate) async fn of(stack: &StackContext, journal: &OpenedJournal) -> Result<Self> {
        let replayed = replay::from_base(stack, &journal.head.base, journal.live()).await?;
        Ok(Self {
            revisions: journal.documents(&replayed.revisions),
            replayed,
            floor: HistoryFloor::of(&journal.head),
            head: journal.head.clone(),
        })
    }

    /// Whether a revision was neither deleted nor collected.
    pub(crate) fn lists(&self, revision: &RevisionId) -> bool {
        !self.replayed.state.is_forgotten(revision) && !self.floor.hides(revision.serial())
    }
}
