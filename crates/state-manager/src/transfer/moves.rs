//! Moves resources to another stack: three writes in a fixed order. If a move is interrupted between two of them, later
//! locks of the two stacks [settle](super::settling) it:
//!
//! ```text
//!  1. destination: MoveIn    the entries wait, not yet part of its state     crash after 1: move withdrawn
//!  2. source:      MoveOut   commit point: the entries leave the source      crash after 2: move completed
//!  3. destination: MoveEnd   the entries become part of its state
//! ```

use crate::intent::UpdateRequest;
use crate::objects::snapshots::check_size;
use crate::write::locked_stack::LockedStack;
use state_core::edits::MovePlan;
use state_core::journal::{MAX_PAYLOAD, Record, encode_records};
use state_core::moves::{MoveEnd, MoveIn, MoveOut, MoveOutcome, Peer};
use state_core::state::LoadedSnapshots;
use state_core::{Base, EntryKey, Error, ErrorKind, MutationId, Result, RevisionId, State};

/// The result of a move between two stacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoveReport {
    /// The id of the move, the same in both stacks.
    pub id: MutationId,
    /// The revision of the source without the resources.
    pub source: RevisionId,
    /// The revision of the destination with the resources.
    pub destination: RevisionId,
}

/// Moves resources to another locked stack of the same store, as one revision in each stack. The revision of the source
/// is the commit point.
pub(crate) async fn move_to(
    source: &LockedStack,
    destination: &LockedStack,
    request: UpdateRequest,
    plan: &MovePlan,
) -> Result<MoveReport> {
    let incoming = MoveIn {
        id: MutationId::random(source.entropy()),
        from: peer(source),
        entries: destination.seal.adopt(&source.seal, plan.entries())?,
        at: Some(source.stack.now()),
    };
    let id = incoming.id;
    let (planned, planned_there) = plan.planned_on();
    announce_arrival(destination, incoming, planned_there.cloned()).await?;
    let entries: Vec<EntryKey> = plan.entries().iter().map(|entry| entry.key()).collect();
    let leaving = MoveOut {
        id,
        to: peer(destination),
        entries,
        at: Some(source.stack.now()),
    };
    // The commit point: before this record the move has no effect, after it, the next owner of each stack's lock
    // completes the move.
    let left = commit_departure(source, leaving, request.clone(), planned.cloned()).await;
    let left = match left {
        Ok(revision) => revision,
        Err(error) => {
            // After an indeterminate error the commit may be durable. The entries then keep waiting until the source
            // can be read.
            if certainly_not_committed(&error) {
                // If the withdrawal fails too, the next lock of the destination withdraws the entries.
                drop(withdraw(destination, id).await);
            }
            return Err(error);
        }
    };
    let arrived = complete_arrival(destination, id, request).await;
    let arrived = arrived.map_err(|error| arrival_outstanding(id, source, destination, &error))?;
    // This record needs no sync of its own: if it is lost, the next lock of the source confirms the move.
    let confirmed = Record::MoveEnd(MoveEnd {
        id,
        outcome: MoveOutcome::Confirmed,
    });
    drop(source.submit(vec![confirmed.into()], false).await);
    Ok(MoveReport {
        id,
        source: left,
        destination: arrived,
    })
}

/// Records the entries as waiting at the destination. Call this before any entry leaves the source: the durable record
/// ensures that a crash after the commit point can't lose the entries.
async fn announce_arrival(
    destination: &LockedStack,
    incoming: MoveIn,
    planned: Option<RevisionId>,
) -> Result<()> {
    for entry in &incoming.entries {
        check_size(entry)?;
    }
    let record = Record::MoveIn(incoming);
    let length = encode_records([&record]).len();
    if length > MAX_PAYLOAD {
        let reason = format!("{length} bytes are too many for one move: move fewer resources at once");
        return Err(Error::invalid("the move", reason));
    }
    let object = destination.stack.object();
    let build = move |state: &State, _: &Base| {
        require_planned(state, planned.as_ref(), object)?;
        Ok(vec![record])
    };
    destination.built(LoadedSnapshots::new(), build).await.map(drop)
}

/// Removes the entries from the source: the commit point of the move.
async fn commit_departure(
    source: &LockedStack,
    leaving: MoveOut,
    request: UpdateRequest,
    planned: Option<RevisionId>,
) -> Result<RevisionId> {
    let object = source.stack.object();
    let build = move |state: &State| {
        require_planned(state, planned.as_ref(), object)?;
        Ok(vec![Record::MoveOut(leaving)])
    };
    source.commit(request, LoadedSnapshots::new(), build).await
}

/// Makes the waiting entries part of the destination's state, as one revision.
pub(super) async fn complete_arrival(
    destination: &LockedStack,
    id: MutationId,
    request: UpdateRequest,
) -> Result<RevisionId> {
    let outcome = MoveOutcome::Arrived;
    let build = move |_: &State| Ok(vec![Record::MoveEnd(MoveEnd { id, outcome })]);
    destination.commit(request, LoadedSnapshots::new(), build).await
}

/// Discards the waiting entries. Call it only when it is certain that the entries never left the source and never will.
pub(super) async fn withdraw(destination: &LockedStack, id: MutationId) -> Result<()> {
    record_move_end(destination, id, MoveOutcome::Withdrawn).await
}

/// Records the end of a move in one of its two stacks.
pub(super) async fn record_move_end(
    locked: &LockedStack,
    id: MutationId,
    outcome: MoveOutcome,
) -> Result<()> {
    let end = Record::MoveEnd(MoveEnd { id, outcome });
    locked.submit(vec![end.into()], true).await.map(drop)
}

/// This stack, as a record of the other stack names it.
fn peer(locked: &LockedStack) -> Peer {
    Peer {
        lineage: locked.stack.lineage(),
        name: locked.stack.name().clone(),
        sealed: locked.seal.key().is_some(),
    }
}

/// The error for a move whose resources left the source, and which the destination couldn't record yet.
fn arrival_outstanding(
    id: MutationId,
    source: &LockedStack,
    destination: &LockedStack,
    error: &Error,
) -> Error {
    let (from, to) = (source.stack.name().short(), destination.stack.name().short());
    let reason = format!(
        "the resources left stack {from} and wait at stack {to}, which records them when it is locked again: {error}"
    );
    Error::Indeterminate {
        object: format!("move {id} from stack {from} to stack {to}"),
        mutations: vec![id],
        source: reason.into(),
    }
}

/// Checks that the stack still has the revision for which the move was planned, and that no update is open.
fn require_planned(state: &State, planned: Option<&RevisionId>, object: String) -> Result<()> {
    if state.current() == planned && state.update().is_none() {
        return Ok(());
    }
    let reason = "another revision was made in the meantime, or an update is open; nothing was moved";
    Err(Error::conflict(object, reason))
}

/// Whether the commit point was certainly not reached, and can't be reached by this session any more.
fn certainly_not_committed(error: &Error) -> bool {
    match error {
        Error::Fenced { indeterminate, .. } => !indeterminate,
        other => matches!(
            other.kind(),
            ErrorKind::Conflict | ErrorKind::Integrity | ErrorKind::Invalid | ErrorKind::NotApplied
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::certainly_not_committed;
    use state_core::{Epoch, Error};

    /// A move is withdrawn only after these errors of the commit: entries whose commit may have been stored would
    /// otherwise be in neither stack.
    #[test]
    fn commit_with_unknown_outcome_withdraws_no_move() {
        let fenced = |indeterminate| Error::Fenced {
            object: "journal".to_owned(),
            mine: Epoch(1),
            theirs: Epoch(2),
            indeterminate,
        };
        let object = || "journal".to_owned();
        for unknown in [
            fenced(true),
            Error::indeterminate(object(), Error::closed("journal", "timeout")),
            Error::Unavailable {
                object: object(),
                source: "timeout".into(),
            },
            Error::closed("journal", "the queue has ended"),
        ] {
            assert!(!certainly_not_committed(&unknown), "{unknown:?}");
        }
        for refused in [
            fenced(false),
            Error::not_applied(object(), Error::closed("journal", "no space left")),
            Error::conflict(object(), "another revision was made"),
        ] {
            assert!(certainly_not_committed(&refused), "{refused:?}");
        }
    }
}
