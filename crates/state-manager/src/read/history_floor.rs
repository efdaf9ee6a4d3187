//! The floor: the slot at which a stack's history begins after a collection. When a collection raises the floor,
//! readers stop seeing the collected revisions at once, before their bytes are deleted.

use crate::context::StackContext;
use crate::keys::authenticate::{Authenticated, OpenedJournal};
use crate::read::stored;
use state_core::head::Collection;
use state_core::journal::UpdateEnd;
use state_core::{Base, Error, Head, Lineage, Result, Serial, Slot};

/// Number of attempts of a reader when a checkpoint or a collection changes the store during its read.
pub(crate) const ATTEMPTS: usize = 8;

/// The collected part of a history, as the head describes it; none if nothing was collected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HistoryFloor(pub(crate) Option<Collection>);

impl HistoryFloor {
    pub(crate) fn of(head: &Authenticated<Head>) -> Self {
        Self(head.collection.clone())
    }

    /// The serial at which the remaining history begins; zero if nothing was collected.
    pub(crate) fn serial(&self) -> Serial {
        self.0
            .as_ref()
            .map_or(Serial::ZERO, |collection| collection.serial)
    }

    /// Whether a revision with this serial was collected.
    pub(crate) fn hides(&self, serial: Serial) -> bool {
        serial < self.serial()
    }

    /// The error for a revision that was collected.
    pub(crate) fn collected(&self, object: String) -> Error {
        Error::collected(object, format_args!("serial {}", self.serial()))
    }

    /// The base from which the state at an update end can be replayed: the base in the record, or the floor's base if
    /// the former was collected.
    pub(crate) fn base_of<'a>(&'a self, mark: &'a UpdateEnd) -> &'a Base {
        match &self.0 {
            Some(collection) if mark.base.start < collection.base.start => &collection.base,
            _ => &mark.base,
        }
    }

    /// The base from which the whole remaining history can be replayed.
    pub(crate) fn beginning(&self, lineage: Lineage) -> Base {
        match &self.0 {
            Some(collection) => collection.base.clone(),
            None => Base::empty(lineage),
        }
    }
}

/// Head and journal from the beginning of the remaining history, authenticated. Outside of `read`,
/// [`open::journal`](super::open::journal) reads them.
pub(super) async fn whole_journal(stack: &StackContext) -> Result<OpenedJournal> {
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
            Ok(mut journal) => {
                let floor = journal
                    .head
                    .collection
                    .as_ref()
                    .map_or(Slot::ZERO, |c| c.base.start);
                journal.frames.retain(|frame| frame.slot() >= floor);
                return Ok(journal);
            }
            other => return other,
        }
    }
    stored::journal(stack, Some(floor)).await
}
