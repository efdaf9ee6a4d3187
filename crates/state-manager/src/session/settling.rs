//! Moves that were cut short, and what becomes of them: whoever locks one of the two stacks finds out.
//!
//! The source knows: a move that it remembers is committed, and so are the entries that wait at the destination. One
//! that it doesn't remember can still be committed by its writer; so it is withdrawn only under the source's lock.

use super::Session;
use crate::intent::UpdateRequest;
use crate::stack::Stack;
use state_core::moves::{MoveIn, MoveOut, MoveOutcome, Peer};
use state_core::{Error, MutationId, Result, RevisionId, State, UpdateKind};

/// What became of entries that waited at a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MoveSettled {
    /// They had left the source, and are in the destination now, as this revision.
    Arrived(RevisionId),
    /// They are in the source, and stay there.
    Withdrawn,
}

/// Where entries are that wait at a destination.
enum Fate {
    /// They left the source.
    Left,
    /// They are in the source, which is held so that it stays so; or it was removed, and nobody writes to it again.
    Stayed(Option<Box<Session>>),
}

impl Session {
    /// Settles a move whose entries wait at this stack, as its source says. Every lock of a stack does so with all of
    /// its moves, as far as the other stacks can be asked.
    ///
    /// # Errors
    /// `NotFound` when nothing waits for this move; `Locked` while somebody writes to the source and may still let the
    /// entries go; `Integrity` when the stack has no room for them any more; whatever keeps the source from being read.
    /// The entries wait on.
    pub async fn settle_move(&self, id: MutationId) -> Result<MoveSettled> {
        let incoming = find(&self.state(), id)?;
        match self.fate(&incoming).await? {
            Fate::Left => self.arrived(&incoming).await.map(MoveSettled::Arrived),
            Fate::Stayed(source) => {
                let withdrawn = self.withdraw(id).await;
                if let Some(source) = source {
                    // What was withdrawn is durable, or the error says so.
                    drop(source.close().await);
                }
                withdrawn.map(|()| MoveSettled::Withdrawn)
            }
        }
    }

    /// Settles a move whose entries wait at this stack by hand, for who knows better than a source that can't be read
    /// any more: either they left it, and arrive; or they never did.
    ///
    /// # Errors
    /// `Conflict` when the source can be read: then it says what is true, and [`Session::settle_move`] does it.
    pub async fn resolve_move(&self, id: MutationId, left: bool) -> Result<MoveSettled> {
        let incoming = find(&self.state(), id)?;
        if let Ok((source, _)) = self.stack.sibling(incoming.from.lineage).await
            && source.tip().await.is_ok()
        {
            let reason = format!("{} can be read, so it is asked and nobody else", incoming.from);
            return Err(Error::conflict(format!("move {id}"), reason));
        }
        if left {
            return self.arrived(&incoming).await.map(MoveSettled::Arrived);
        }
        self.withdraw(id).await.map(|()| MoveSettled::Withdrawn)
    }

    /// Settles all moves of this stack as far as others can be asked; the rest stays as it is.
    ///
    /// # Errors
    /// What ended this session's queue.
    pub(crate) async fn settle_moves(&self) -> Result<()> {
        let state = self.state();
        for incoming in state.incoming() {
            if self.settle_move(incoming.id).await.is_err() {
                self.still_writes()?;
            }
        }
        for leaving in state.departed() {
            if self.has_arrived(leaving).await {
                self.end_move(leaving.id, MoveOutcome::Confirmed).await?;
            }
        }
        Ok(())
    }

    /// Settles the moves from another stack that is held too: so nobody else could.
    ///
    /// # Errors
    /// What ended this session's queue.
    pub(crate) async fn settle_moves_from(&self, source: &Self) -> Result<()> {
        let (state, there) = (self.state(), source.state());
        let lineage = source.stack.lineage();
        for incoming in state
            .incoming()
            .filter(|incoming| incoming.from.lineage == lineage)
        {
            let id = incoming.id;
            let settled = if !remembers(&there, id) {
                self.withdraw(id).await
            } else if let Err(error) = self.arrived(incoming).await {
                Err(error)
            } else {
                source.end_move(id, MoveOutcome::Confirmed).await.map(drop)
            };
            if settled.is_err() {
                self.still_writes()?;
            }
        }
        Ok(())
    }

    async fn fate(&self, incoming: &MoveIn) -> Result<Fate> {
        let (source, head) = self.stack.sibling(incoming.from.lineage).await?;
        if remembers(&source.tip().await?.state, incoming.id) {
            return Ok(Fate::Left);
        }
        if head.removed {
            return Ok(Fate::Stayed(None));
        }
        let source = source.lock_unsettled("settle a move").await?;
        if remembers(&source.state(), incoming.id) {
            source.close().await?;
            return Ok(Fate::Left);
        }
        Ok(Fate::Stayed(Some(Box::new(source))))
    }

    /// Whether the destination has the entries that left; it is made to take them, if it can be.
    async fn has_arrived(&self, leaving: &MoveOut) -> bool {
        let MoveOut { id, to, .. } = leaving;
        let Ok((destination, _)) = self.stack.sibling(to.lineage).await else {
            return false;
        };
        let waits = |state: &State| state.incoming().any(|incoming| incoming.id == *id);
        match destination.tip().await {
            Ok(tip) if !waits(&tip.state) => true,
            Ok(_) => take_in_there(&destination, *id).await.is_ok(),
            Err(_) => false,
        }
    }

    async fn arrived(&self, incoming: &MoveIn) -> Result<RevisionId> {
        let MoveIn {
            id, from, entries, ..
        } = incoming;
        self.take_in(*id, request(from, entries.len())).await
    }

    fn still_writes(&self) -> Result<()> {
        match &self.published.borrow().failure {
            Some(error) => Err(crate::queue::ended(error)),
            None => Ok(()),
        }
    }
}

/// As the source, which knows that the entries left.
async fn take_in_there(destination: &Stack, id: MutationId) -> Result<()> {
    let session = destination.lock_unsettled("settle a move").await?;
    let arrived = match find(&session.state(), id) {
        Ok(incoming) => session.arrived(&incoming).await.map(drop),
        Err(_) => Ok(()),
    };
    let closed = session.close().await;
    arrived.and(closed)
}

fn request(from: &Peer, count: usize) -> UpdateRequest {
    let entries = if count == 1 { "entry" } else { "entries" };
    let message = format!("move of {count} {entries} from {from}, finished");
    UpdateRequest::new(UpdateKind::Edit).with_message(message)
}

fn remembers(state: &State, id: MutationId) -> bool {
    state.departed().any(|leaving| leaving.id == id)
}

fn find(state: &State, id: MutationId) -> Result<MoveIn> {
    let found = state.incoming().find(|incoming| incoming.id == id);
    found
        .cloned()
        .ok_or_else(|| Error::not_found(format!("move {id}, waiting here")))
}
