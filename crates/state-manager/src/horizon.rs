//! Where history begins: what a collection dropped is gone for every reader at once, before its bytes are.

use crate::keys;
use crate::load::{self, Replayed};
use crate::stack::Stack;
use crate::witness::{self, Point};
use state_core::backend::JournalView;
use state_core::head::Collection;
use state_core::journal::Mark;
use state_core::sealing::StackKey;
use state_core::{Backend, Base, Error, Head, Lineage, Result, RevisionId, Serial, Slot};
use std::sync::Arc;

/// How often a reader starts over because a checkpoint or a collection was quicker.
const ATTEMPTS: usize = 8;

/// What the head says of collected history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Horizon(pub(crate) Option<Collection>);

impl Horizon {
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
    pub(crate) fn collected(&self, stack: &Stack, revision: &RevisionId) -> Error {
        let object = format!("revision {revision} of stack {}", stack.name().short());
        Error::collected(object, format_args!("serial {}", self.serial()))
    }

    /// Where replay begins to get to a mark that is left: at the base that it names, unless that was collected.
    pub(crate) fn base_of<'a>(&'a self, mark: &'a Mark) -> &'a Base {
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

/// Reads the tip and with it something of the history; starts over if a collection was quicker. A closure can't do
/// it: its future wouldn't be known to be `Send`.
macro_rules! reading {
    ($stack:expr, $tip:ident => $read:expr) => {
        loop {
            let $tip = $stack.replay_tip().await?;
            let before = $tip.horizon.clone();
            let read = async { $read }.await;
            if !$stack.must_start_over(&read, &before).await? {
                break read;
            }
        }
    };
}
pub(crate) use reading;

/// Head and state of one moment.
pub(crate) struct Tip {
    pub(crate) head: Head,
    /// The key if it can be had.
    pub(crate) key: Option<Arc<dyn StackKey>>,
    pub(crate) replayed: Replayed,
    /// How the stack went back since it was seen last.
    pub(crate) regression: Option<String>,
}

impl Stack {
    /// Reads the tip.
    pub(crate) async fn read_tip(&self) -> Result<Tip> {
        let mut attempt = 1;
        loop {
            let view = self.backend().read_journal(self.lineage(), None).await?;
            let key = keys::for_reading(self, &view.head).await?;
            match load::tip(self.backend(), &view, key.as_deref()).await {
                // The base may have moved on, and what it named before may be collected.
                Err(error) if attempt < ATTEMPTS => {
                    if self.backend().read_head(self.lineage()).await?.base == view.head.base {
                        return Err(error);
                    }
                    attempt += 1;
                }
                read => {
                    let replayed = read?;
                    let point = Point::of(&view, &replayed.state);
                    let regression = witness::look(self, &point, key.as_deref()).await?;
                    return Ok(Tip {
                        head: view.head,
                        key,
                        replayed,
                        regression,
                    });
                }
            }
        }
    }

    pub(crate) async fn replay_tip(&self) -> Result<Replayed> {
        Ok(self.read_tip().await?.replayed)
    }

    /// Whether a read that began with this horizon failed only because a collection was quicker.
    pub(crate) async fn must_start_over<T>(&self, read: &Result<T>, before: &Horizon) -> Result<bool> {
        match read {
            Err(Error::NotFound { .. } | Error::Collected { .. } | Error::Corrupt { .. }) => {
                let head = self.backend().read_head(self.lineage()).await?;
                Ok(Horizon::of(&head) != *before)
            }
            _ => Ok(false),
        }
    }

    /// The serial with which history begins since the last collection; none while it is whole. Revisions with a lower
    /// serial were collected.
    ///
    /// # Errors
    /// `Corrupt` when the head is damaged.
    pub async fn collected_before(&self) -> Result<Option<Serial>> {
        let head = self.backend().read_head(self.lineage()).await?;
        Ok(head.collection.map(|collection| collection.serial))
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
