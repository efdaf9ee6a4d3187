//! Where history begins: what a collection dropped is gone for every reader at once, before its bytes are.

use state_core::backend::JournalView;
use state_core::head::Collection;
use state_core::journal::UpdateEnd;
use state_core::{Backend, Base, Error, Head, Lineage, Result, Serial, Slot};

/// How often a reader starts over because a checkpoint or a collection was quicker.
pub(crate) const ATTEMPTS: usize = 8;

/// What the head says of collected history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HistoryFloor(pub(crate) Option<Collection>);

impl HistoryFloor {
    pub(crate) fn of(head: &Head) -> Self {
        Self(head.collection.clone())
    }

    /// The serial of the oldest revision that may be left.
    pub(crate) fn serial(&self) -> Serial {
        self.0
            .as_ref()
            .map_or(Serial::ZERO, |collection| collection.serial)
    }

    /// Whether a revision with this serial was collected.
    pub(crate) fn hides(&self, serial: Serial) -> bool {
        serial < self.serial()
    }

    /// That a revision was collected.
    pub(crate) fn collected(&self, object: String) -> Error {
        Error::collected(object, format_args!("serial {}", self.serial()))
    }

    /// Where replay begins to get to a mark that is left: at the base that it names, unless that was collected.
    pub(crate) fn base_of<'a>(&'a self, mark: &'a UpdateEnd) -> &'a Base {
        match &self.0 {
            Some(collection) if mark.base.start < collection.base.start => &collection.base,
            _ => &mark.base,
        }
    }

    /// Where the whole history that is left can be replayed from.
    pub(crate) fn beginning(&self, lineage: Lineage) -> Base {
        match &self.0 {
            Some(collection) => collection.base.clone(),
            None => Base::empty(lineage),
        }
    }
}

/// Head and journal, from where history begins.
pub(crate) async fn whole_journal(backend: &dyn Backend, lineage: Lineage) -> Result<JournalView> {
    let mut floor = backend.read_head(lineage).await?.floor;
    for _ in 1..ATTEMPTS {
        match backend.read_journal(lineage, Some(floor)).await {
            Err(error @ Error::Collected { .. }) => {
                let now = backend.read_head(lineage).await?.floor;
                if now == floor {
                    return Err(error);
                }
                floor = now;
            }
            // Frames before a floor that rose meanwhile do no harm, but are none of the history any more.
            Ok(mut view) => {
                let floor = view.head.collection.as_ref().map_or(Slot::ZERO, |c| c.base.start);
                view.frames.retain(|frame| frame.slot() >= floor);
                return Ok(view);
            }
            other => return other,
        }
    }
    backend.read_journal(lineage, Some(floor)).await
}
