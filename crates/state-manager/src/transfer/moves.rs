//! Moving entries to another stack: the three writes in their order. A move that was cut short is
//! [settled](super::settling) later.

use crate::intent::UpdateRequest;
use crate::objects::snapshots::check_size;
use crate::write::locked_stack::LockedStack;
use state_core::edits::MovePlan;
use state_core::journal::{MAX_PAYLOAD, Record, encode_records};
use state_core::moves::{MoveEnd, MoveIn, MoveOut, MoveOutcome, Peer};
use state_core::state::LoadedSnapshots;
use state_core::{Base, EntryKey, Error, ErrorKind, MutationId, Result, RevisionId, State};

/// A move that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoveDone {
    /// Its id, on both sides.
    pub id: MutationId,
    /// The revision of the source without the entries.
    pub source: RevisionId,
    /// The revision of the destination with them.
    pub destination: RevisionId,
}

/// Moves entries to another stack of the same store, which is locked too: one revision on each side. The revision of
/// the source is the commit point.
pub(crate) async fn move_to(
    source: &LockedStack,
    destination: &LockedStack,
    request: UpdateRequest,
    plan: &MovePlan,
) -> Result<MoveDone> {
    let incoming = MoveIn {
        id: MutationId::random(source.entropy()),
        from: peer(source),
        entries: destination.seal.adopt(&source.seal, plan.entries())?,
        at: Some(source.stack.now()),
    };
    let id = incoming.id;
    let (planned, planned_there) = plan.planned_on();
    expect_move(destination, incoming, planned_there.cloned()).await?;
    let entries: Vec<EntryKey> = plan.entries().iter().map(|entry| entry.key()).collect();
    let leaving = MoveOut {
        id,
        to: peer(destination),
        entries,
        at: Some(source.stack.now()),
    };
    let left = let_go(source, leaving, request.clone(), planned.cloned()).await;
    let left = match left {
        Ok(revision) => revision,
        Err(error) => {
            if certainly_not_done(&error) {
                // If this fails too, whoever locks the destination next finds out the same.
                drop(withdraw(destination, id).await);
            }
            return Err(error);
        }
    };
    let arrived = take_in(destination, id, request).await;
    let arrived = arrived.map_err(|error| waits_there(id, source, destination, &error))?;
    // Worth no sync by itself: the next lock of the source finds out the same.
    let confirmed = Record::MoveEnd(MoveEnd {
        id,
        outcome: MoveOutcome::Confirmed,
    });
    drop(source.submit(vec![confirmed.into()], false).await);
    Ok(MoveDone {
        id,
        source: left,
        destination: arrived,
    })
}

/// Durable at the destination before anything leaves the source.
async fn expect_move(destination: &LockedStack, incoming: MoveIn, planned: Option<RevisionId>) -> Result<()> {
    for entry in &incoming.entries {
        check_size(entry)?;
    }
    let record = Record::MoveIn(incoming);
    let length = encode_records([&record]).len();
    if length > MAX_PAYLOAD {
        let reason = format!("{length} bytes are more than one move may take: move fewer entries at once");
        return Err(Error::invalid("the move", reason));
    }
    let object = destination.stack.object();
    let build = move |state: &State, _: &Base| {
        require_planned(state, planned.as_ref(), object)?;
        Ok(vec![record])
    };
    destination.built(LoadedSnapshots::new(), build).await.map(drop)
}

/// The commit point.
async fn let_go(
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

/// The entries that wait for this move become entries of this stack, as one revision.
pub(super) async fn take_in(
    destination: &LockedStack,
    id: MutationId,
    request: UpdateRequest,
) -> Result<RevisionId> {
    let outcome = MoveOutcome::Arrived;
    let build = move |_: &State| Ok(vec![Record::MoveEnd(MoveEnd { id, outcome })]);
    destination.commit(request, LoadedSnapshots::new(), build).await
}

/// The entries that wait for this move never left the other stack. Only for a caller that knows that they never will.
pub(super) async fn withdraw(destination: &LockedStack, id: MutationId) -> Result<()> {
    end_move(destination, id, MoveOutcome::Withdrawn).await
}

pub(super) async fn end_move(locked: &LockedStack, id: MutationId, outcome: MoveOutcome) -> Result<()> {
    let end = Record::MoveEnd(MoveEnd { id, outcome });
    locked.submit(vec![end.into()], true).await.map(drop)
}

fn peer(locked: &LockedStack) -> Peer {
    Peer {
        lineage: locked.stack.lineage(),
        name: locked.stack.name().clone(),
    }
}

fn waits_there(id: MutationId, source: &LockedStack, destination: &LockedStack, error: &Error) -> Error {
    let (from, to) = (source.stack.name().short(), destination.stack.name().short());
    let reason = format!(
        "the entries left stack {from} and wait at stack {to}, which takes them in when it is locked again: {error}"
    );
    Error::Indeterminate {
        object: format!("move {id} from stack {from} to stack {to}"),
        mutations: vec![id],
        source: reason.into(),
    }
}

fn require_planned(state: &State, planned: Option<&RevisionId>, object: String) -> Result<()> {
    if state.current() == planned && state.update().is_none() {
        return Ok(());
    }
    let reason = "another revision was made in the meantime; nothing was moved";
    Err(Error::conflict(object, reason))
}

/// Whether the commit point was certainly not reached, and can't be by this session any more.
fn certainly_not_done(error: &Error) -> bool {
    match error {
        Error::Fenced { indeterminate, .. } => !indeterminate,
        other => matches!(
            other.kind(),
            ErrorKind::Conflict | ErrorKind::Integrity | ErrorKind::Invalid | ErrorKind::NotApplied
        ),
    }
}
