//! A checkpoint: the state at a point of the journal, stored so that replay can start there.
//!
//! Its snapshot and the history pages of all earlier revisions are stored first; then one head swap names them. A crash
//! before the swap leaves objects that nothing names; a collection deletes them.

use crate::context::StackContext;
use crate::objects::document::RevisionDocument;
use crate::objects::snapshots;
use crate::write::resets::Reset;
use crate::write::session_history::{HistoryChange, Paging, SessionHistory, Turn};
use futures_util::future::try_join;
use state_core::backend::Tail;
use state_core::{Base, Error, Head, Result, State, Writer};
use std::sync::Arc;

/// A point of the journal at which a checkpoint is made.
#[derive(Debug)]
pub(crate) struct CheckpointPoint {
    pub(crate) state: Arc<State>,
    /// The end of the journal after that state.
    pub(crate) start: Tail,
    /// The last reset before the state; none if there was none since the last checkpoint.
    pub(crate) reset: Option<Reset>,
    /// The document of the revision that the frame before `start` makes, if that frame isn't durable yet.
    pub(crate) ending: Option<RevisionDocument>,
}

/// A checkpoint whose objects are stored, and which no head names yet.
#[derive(Debug)]
pub(crate) struct StoredCheckpoint {
    object: String,
    base: Base,
    /// Whether an update is open at the base.
    is_open: bool,
    history: HistoryChange,
    turn: Turn,
}

impl StoredCheckpoint {
    /// Stores the objects of a checkpoint. `name` is the name of the stack in the snapshot. Until `paging` ends, no collection
    /// deletes the objects.
    pub(crate) async fn store(
        point: CheckpointPoint,
        name: &str,
        stack: &StackContext,
        writer: &dyn Writer,
        paging: &Paging<'_>,
    ) -> Result<Self> {
        let CheckpointPoint {
            state,
            start,
            reset,
            ending,
        } = point;
        let mut snapshot = state.snapshot(name, stack.now());
        let content = reset.filter(|reset| reset.has_content_of(&snapshot));
        if content.is_some() {
            (snapshot.entries, snapshot.extensions) = Default::default();
        }
        // With the continuation (pending operations, open update, moves), replay can start at the snapshot as if it had
        // read the whole journal.
        snapshot.continuation = Some(state.continuation());
        // Neither counts before the head names it, so both are written at the same time.
        let (reference, history) = try_join(
            snapshots::store(writer, Arc::new(snapshot), start.next),
            paging.up_to(stack, writer, start.next, &state, ending),
        )
        .await?;
        Ok(Self {
            object: stack.object(),
            base: Base {
                snapshot: Some(reference),
                content: content.map(|reset| Box::new(reset.reference)),
                start: start.next,
                chain: start.chain,
            },
            is_open: state.update().is_some(),
            history,
            turn: paging.turn(),
        })
    }

    pub(crate) const fn base(&self) -> &Base {
        &self.base
    }

    /// Whether this is the checkpoint at this end of the journal.
    pub(crate) fn is_at(&self, start: Tail) -> bool {
        (self.base.start, self.base.chain) == (start.next, start.chain)
    }

    /// Waits until the pages may be changed. Returns `None` if they may have been changed since the checkpoint was stored:
    /// a collection may then have deleted its objects.
    pub(crate) async fn resume<'a>(&self, history: &'a SessionHistory) -> Option<Paging<'a>> {
        history.resume(self.turn).await
    }

    /// Makes the head name the checkpoint. The caller holds what [`Self::resume`] returned.
    ///
    /// # Errors
    /// `Conflict` if the history was collected up to a later point, or its pages were changed. The head is then as before.
    pub(crate) fn apply(&self, head: &mut Head) -> Result<()> {
        // A collection may have raised the base since this checkpoint began, and deleted what lies before.
        let content = self.base.content.as_ref();
        if self.base.start < head.base.start || content.is_some_and(|content| content.slot < head.floor) {
            let reason = "its history was collected since the checkpoint began";
            return Err(Error::conflict(self.object.clone(), reason));
        }
        // The pages and the base change in one swap, so that each revision is always in the live journal or on a page.
        self.history.apply(head)?;
        // An open update began before the new base. Readers of the current revision must therefore replay from the
        // earlier base until that update has ended.
        let before = head.rev_base.clone().unwrap_or_else(|| head.base.clone());
        head.rev_base = self.is_open.then_some(before);
        head.base = self.base.clone();
        Ok(())
    }
}
