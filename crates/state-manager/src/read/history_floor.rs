//! The floor: the slot at which a stack's history begins after a collection. When a collection raises the floor,
//! readers stop seeing the collected revisions at once, before their bytes are deleted.

use crate::context::StackContext;
use crate::keys::authenticate::{Authenticated, OpenedJournal};
use crate::objects::document::RevisionDocument;
use crate::read::stored;
use state_core::{Base, Error, Head, Result, Serial};

/// Number of attempts of a reader when a checkpoint or a collection changes the store during its read.
pub(crate) const ATTEMPTS: usize = 8;

/// The beginning of the remaining history, as the head describes it.
#[derive(Clone, Debug)]
pub(crate) struct HistoryFloor {
    /// The serial at which the remaining history begins; none if nothing was collected.
    pub(crate) collected_before: Option<Serial>,
    /// The base from which the whole remaining history can be replayed.
    pub(crate) beginning: Authenticated<Base>,
}

impl HistoryFloor {
    pub(crate) fn of(head: &Authenticated<Head>) -> Self {
        Self {
            collected_before: head.collection.as_ref().map(|collection| collection.serial),
            beginning: head.beginning(),
        }
    }

    /// The serial at which the remaining history begins; zero if nothing was collected.
    pub(crate) fn serial(&self) -> Serial {
        self.collected_before.unwrap_or(Serial::ZERO)
    }

    /// Whether a revision with this serial was collected.
    pub(crate) fn hides(&self, serial: Serial) -> bool {
        serial < self.serial()
    }

    /// The error for a revision that was collected.
    pub(crate) fn collected(&self, object: String) -> Error {
        Error::collected(object, format_args!("serial {}", self.serial()))
    }

    /// The base from which the state at a revision can be replayed: the base in its document, or the floor's base if
    /// the former was collected. None for a detached revision.
    pub(crate) fn base_of(&self, document: &Authenticated<RevisionDocument>) -> Option<Authenticated<Base>> {
        let base = document.base()?;
        Some(match base.start < self.beginning.start {
            true => self.beginning.clone(),
            false => base.cloned(),
        })
    }
}

/// Head and journal from the beginning of the remaining history, authenticated, but not compared with what this client
/// remembers. Outside of `read`, only a survey of damage calls this function: all others call
/// [`open::journal`](super::open::journal).
pub(crate) async fn whole_journal(stack: &StackContext) -> Result<OpenedJournal> {
    let mut floor = stored::head(stack).await?.head.floor;
    // A collection may raise the floor between the two reads. The journal is then read again from the new floor.
    for _ in 1..ATTEMPTS {
        match stored::journal(stack, Some(floor)).await {
            Err(error @ Error::Collected { .. }) => {
                let now = stored::head(stack).await?.head.floor;
                if now == floor {
                    return Err(error);
                }
                floor = now;
            }
            // The floor may have risen during the read. Frames before the new floor are intact, but no longer part of
            // history.
            Ok(journal) => {
                let floor = HistoryFloor::of(&journal.head).beginning.start;
                return Ok(journal.without_frames_before(floor));
            }
            other => return other,
        }
    }
    stored::journal(stack, Some(floor)).await
}
