//! The tip of a stack: head, key and replayed journal of one moment, authenticated as far as this client can.

use crate::context::StackContext;
use crate::keys::trust::{self, Point};
use crate::read::history_floor::{ATTEMPTS, HistoryFloor};
use crate::read::replay::{self, Replayed};
use state_core::backend::JournalView;
use state_core::sealing::StackKey;
use state_core::{Error, Head, Result, RevisionId};
use std::sync::Arc;

/// Head and state of one moment.
pub(crate) struct Tip {
    pub(crate) head: Head,
    /// The key, if an identity at hand opens it.
    pub(crate) key: Option<Arc<dyn StackKey>>,
    pub(crate) replayed: Replayed,
    /// Where history began when the journal was read.
    pub(crate) floor: HistoryFloor,
}

impl Tip {
    /// Authenticates and replays a journal that was read from its head's base, or from before it.
    pub(crate) async fn of(stack: &StackContext, view: &JournalView) -> Result<Self> {
        let key = trust::for_reading(stack, &view.head).await?;
        let base = &view.head.base;
        let before = view.frames.partition_point(|frame| frame.slot() < base.start);
        let frames = &view.frames[before..];
        if let Some(key) = &key {
            // The base's chain vouches for the frames before it.
            replay::authenticate(&view.head, frames, &**key)?;
        }
        Ok(Self {
            replayed: replay::from_base(stack, base, frames).await?,
            floor: HistoryFloor::of(&view.head),
            head: view.head.clone(),
            key,
        })
    }

    /// Whether a revision was neither deleted nor collected.
    pub(crate) fn lists(&self, revision: &RevisionId) -> bool {
        !self.replayed.state.is_forgotten(revision) && !self.floor.hides(revision.serial())
    }
}

/// Reads the tip, and how the stack went back since this client saw it last.
pub(crate) async fn read(stack: &StackContext) -> Result<(Tip, Option<String>)> {
    let mut attempt = 1;
    loop {
        let view = stack.backend().read_journal(stack.lineage(), None).await?;
        match Tip::of(stack, &view).await {
            // The base may have moved on, and the snapshot that it named before may be collected.
            Err(error) if attempt < ATTEMPTS => {
                if stack.head().await?.base == view.head.base {
                    return Err(error);
                }
                attempt += 1;
            }
            tip => {
                let tip = tip?;
                let point = Point::of(&view, &tip.replayed.state);
                let regression = trust::look(stack, &point, tip.key.as_deref()).await?;
                return Ok((tip, regression));
            }
        }
    }
}

/// Reads the tip and with it something of the history; starts over if a collection was quicker. A closure can't do
/// it: its future wouldn't be known to be `Send`.
macro_rules! reading {
    ($stack:expr, $tip:ident => $read:expr) => {
        loop {
            let ($tip, _) = tip::read($stack).await?;
            let read = async { $read }.await;
            if !tip::must_start_over($stack, &read, &$tip.floor).await? {
                break read;
            }
        }
    };
}
pub(crate) use reading;

/// Whether a read that began with this floor failed only because a collection was quicker.
pub(crate) async fn must_start_over<T>(
    stack: &StackContext,
    read: &Result<T>,
    before: &HistoryFloor,
) -> Result<bool> {
    match read {
        Err(Error::NotFound { .. } | Error::Collected { .. } | Error::Corrupt { .. }) => {
            Ok(HistoryFloor::of(&stack.head().await?) != *before)
        }
        _ => Ok(false),
    }
}
