//! The tip of a stack: head, key and replayed journal at one moment, authenticated as far as this client can.

use crate::context::StackContext;
use crate::keys::authenticate::{Authenticated, OpenedJournal};
use crate::objects::document::RevisionDocument;
use crate::read::history_floor::HistoryFloor;
use crate::read::replay::{self, ReplayResult};
use crate::read::stored;
use state_core::{Error, Head, Result, RevisionId};

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

/// Reads the tip and, with it, a part of the history; retries if a collection ran meanwhile. The number of attempts
/// needs no limit, because each retry requires another collection. A macro, because the future of a closure couldn't be
/// proven to be `Send`.
macro_rules! reading {
    ($stack:expr, $tip:ident => $read:expr) => {
        loop {
            let ($tip, _) = $crate::read::open::tip($stack).await?;
            let read = async { $read }.await;
            if !$crate::read::tip::must_start_over($stack, &read, &$tip.head).await? {
                break read;
            }
        }
    };
}
pub(crate) use reading;

/// Whether a read that began with this head may have failed because a collection ran meanwhile.
pub(crate) async fn must_start_over<T>(
    stack: &StackContext,
    read: &Result<T>,
    before: &Head,
) -> Result<bool> {
    match read {
        Err(Error::NotFound { .. } | Error::Collected { .. } | Error::Corrupt { .. }) => {
            let now = stored::head(stack).await?.head;
            Ok((&now.collection, &now.history) != (&before.collection, &before.history))
        }
        _ => Ok(false),
    }
}
