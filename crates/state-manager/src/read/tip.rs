//! The tip of a stack: head, key and replayed journal at one moment, authenticated as far as this client can.

use crate::context::StackContext;
use crate::keys::trust::{self, StackPosition};
use crate::read::history_floor::{ATTEMPTS, HistoryFloor};
use crate::read::replay::{self, ReplayResult};
use state_core::backend::JournalView;
use state_core::sealing::StackKey;
use state_core::{Error, Head, Result, RevisionId};
use std::sync::Arc;

/// Head and state of a stack at one moment.
pub(crate) struct Tip {
    pub(crate) head: Head,
    /// The data key, if an available identity opens it.
    pub(crate) key: Option<Arc<dyn StackKey>>,
    pub(crate) replayed: ReplayResult,
    /// The beginning of history when the journal was read.
    pub(crate) floor: HistoryFloor,
}

impl Tip {
    /// Authenticates and replays a journal that was read from the head's base or from an earlier slot.
    pub(crate) async fn of(stack: &StackContext, view: &JournalView) -> Result<Self> {
        let key = trust::for_reading(stack, &view.head).await?;
        let base = &view.head.base;
        let before = view.frames.partition_point(|frame| frame.slot() < base.start);
        let frames = &view.frames[before..];
        if let Some(key) = &key {
            // Frames before the base need no tag check: the authenticated head contains the chain digest up to the
            // base.
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

/// Reads the tip. Also returns a description of the regression if the stack was rolled back since this client last saw
/// it.
pub(crate) async fn read(stack: &StackContext) -> Result<(Tip, Option<String>)> {
    let mut attempt = 1;
    loop {
        let view = stack.backend().read_journal(stack.lineage(), None).await?;
        match Tip::of(stack, &view).await {
            // A checkpoint may have moved the base during the read, and a collection may have deleted the old base's
            // snapshot.
            Err(error) if attempt < ATTEMPTS => {
                if stack.head().await?.base == view.head.base {
                    // The base is unchanged, so the error isn't caused by a concurrent writer.
                    return Err(error);
                }
                attempt += 1;
            }
            tip => {
                let tip = tip?;
                let point = StackPosition::of(&view, &tip.replayed.state);
                let regression = trust::advance_pin(stack, &point, tip.key.as_deref()).await?;
                return Ok((tip, regression));
            }
        }
    }
}

/// Reads the tip and, with it, a part of the history; retries if a collection ran meanwhile. The number of attempts
/// needs no limit, because each retry requires another collection. A macro, because the future of a closure couldn't be
/// proven to be `Send`.
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

/// Whether a read that began with this floor may have failed because a collection ran meanwhile.
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
