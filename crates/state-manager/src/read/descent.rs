//! Checks that a stack's history contains the revision that a caller expects.

use crate::context::StackContext;
use crate::keys::authenticate::{self, Authenticated, OpenedJournal};
use crate::objects::document::{RevisionDocument, RevisionRecord};
use crate::read::history_floor::whole_journal;
use state_core::{Error, Frame, Result, RevisionId};

/// Requires that this journal contains the expected revision of the context, so that its end is this revision or a
/// descendant. The frame that made the revision must lie on the digest chain of the journal. A stored revision document
/// alone isn't accepted as a proof.
///
/// # Errors
/// `Conflict` if the revision isn't in the history, if it was collected, or if the journal changed during the check.
pub(crate) async fn require(stack: &StackContext, journal: &OpenedJournal) -> Result<()> {
    let Some(expected) = &stack.expectations().revision else {
        return Ok(());
    };
    if makes(stack, journal.frames(), expected)? {
        return Ok(());
    }
    let whole = whole_journal(stack).await?;
    if !passes(&whole, journal) {
        // The second read doesn't contain the end of the first one: a collection ran, or the store shows two histories.
        let reason = format!("its journal changed while revision {expected} was looked up; try again");
        return Err(Error::conflict(stack.object(), reason));
    }
    if makes(stack, whole.frames(), expected)? {
        return Ok(());
    }
    let collected = whole.head.collection.as_ref();
    let reason = match collected.filter(|collection| expected.serial() < collection.serial) {
        Some(collection) => format!(
            "revision {expected} is expected, and the history begins at serial {}: expect a later revision",
            collection.serial
        ),
        None => format!(
            "revision {expected} is expected, and it isn't in the history: the store was rolled back or replaced"
        ),
    };
    Err(Error::conflict(stack.object(), reason))
}

/// Whether one of the frames makes this revision the current one.
fn makes(stack: &StackContext, frames: Authenticated<&[Frame]>, revision: &RevisionId) -> Result<bool> {
    for frame in frames.each() {
        let document = authenticate::document(stack.lineage(), frame)?;
        let is_current = |document: &RevisionDocument| matches!(document.made, RevisionRecord::UpdateEnd(_));
        if document.is_some_and(|document| document.revision == *revision && is_current(&document)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether the journal `whole` contains the end of `journal`.
fn passes(whole: &OpenedJournal, journal: &OpenedJournal) -> bool {
    let end = journal.tail;
    let is_end = |frame: &Frame| frame.slot().next() == end.next && *frame.chain() == end.chain;
    whole.tail == end || whole.frames.iter().any(is_end)
}
