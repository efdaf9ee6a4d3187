//! Moving entries to another stack: the three writes in their order. What is cut short is [settled](super::settling).

use super::{Session, finished, started};
use crate::intent::UpdateRequest;
use crate::queue::Answer;
use state_core::journal::{MAX_PAYLOAD, Record, encode_records};
use state_core::moves::{MoveEnd, MoveIn, MoveOut, MoveOutcome, Peer};
use state_core::state::Loaded;
use state_core::surgery::MovePlan;
use state_core::{Base, EntryKey, Error, ErrorKind, MutationId, Result, RevisionId, State, UpdateResult};

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

impl Session {
    /// Moves entries to another stack of the same store, which is held too: one revision on each side. The revision of
    /// the source is the commit point. What is cut short before it never happened; what is cut short behind it is
    /// finished when one of the two stacks is locked again.
    ///
    /// Locks are taken by [`Stacks::lock_both`](crate::Stacks::lock_both), so that two moves can't wait for each other.
    ///
    /// # Errors
    /// `Conflict` when one of the stacks has another revision than the plan was made for, `Integrity` with every rule
    /// that would be broken, `Invalid` when it is too much for one move, `Sealed`
    /// when values can't be sealed anew for the destination: nothing moved. `Indeterminate` with the id of
    /// the move when nobody can say yet on which side the entries are, or when they left the source and the
    /// destination couldn't take them in: they wait there, and come in when it is locked again.
    ///
    /// # Cancellation
    /// A future that is dropped is a move that is cut short.
    pub async fn move_to(
        &self,
        destination: &Self,
        request: UpdateRequest,
        plan: &MovePlan,
    ) -> Result<MoveDone> {
        let environment = self.stack.environment();
        let incoming = MoveIn {
            id: MutationId::random(&*environment.entropy),
            from: self.peer(),
            entries: destination.seal.adopt(&self.seal, plan.entries())?,
            at: Some(self.now()),
        };
        let id = incoming.id;
        let (planned, planned_there) = plan.planned_on();
        destination.expect_move(incoming, planned_there.cloned()).await?;
        let entries: Vec<EntryKey> = plan.entries().iter().map(|entry| entry.key()).collect();
        let leaving = MoveOut {
            id,
            to: destination.peer(),
            entries,
            at: Some(self.now()),
        };
        let left = self.let_go(leaving, request.clone(), planned.cloned()).await;
        let source = match left {
            Ok(revision) => revision,
            Err(error) => {
                if certainly_not_done(&error) {
                    // If this fails too, whoever locks the destination next finds out the same.
                    drop(destination.withdraw(id).await);
                }
                return Err(error);
            }
        };
        let arrived = destination.take_in(id, request).await;
        let destination = arrived.map_err(|error| self.waits_there(id, destination, &error))?;
        // Worth no sync by itself: the next lock of the source finds out the same.
        let confirmed = Record::MoveEnd(MoveEnd {
            id,
            outcome: MoveOutcome::Confirmed,
        });
        drop(self.submit(vec![confirmed.into()], false).await);
        Ok(MoveDone {
            id,
            source,
            destination,
        })
    }

    /// Durable at the destination before anything leaves the source.
    async fn expect_move(&self, incoming: MoveIn, planned: Option<RevisionId>) -> Result<()> {
        for entry in &incoming.entries {
            crate::update::check_size(entry)?;
        }
        let record = Record::MoveIn(incoming);
        let length = encode_records([&record]).len();
        if length > MAX_PAYLOAD {
            let reason =
                format!("{length} bytes are more than one move may take: move fewer entries at once");
            return Err(Error::invalid("the move", reason));
        }
        let object = self.object();
        let build = move |state: &State, _: &Base| {
            require_planned(state, planned.as_ref(), object)?;
            Ok(vec![record])
        };
        self.built(build, Loaded::new()).await.map(drop)
    }

    /// The commit point.
    async fn let_go(
        &self,
        leaving: MoveOut,
        request: UpdateRequest,
        planned: Option<RevisionId>,
    ) -> Result<RevisionId> {
        let object = self.object();
        let info = self.update_info(request);
        let end = self.now();
        let build = move |state: &State, base: &Base| {
            require_planned(state, planned.as_ref(), object)?;
            let records = vec![started(state, info), Record::MoveOut(leaving)];
            finished(state, base, records, UpdateResult::Succeeded, &end)
        };
        let answer = self.built(build, Loaded::new()).await;
        answer.and_then(|answer| self.made(answer))
    }

    /// The entries that wait for this move become entries of this stack, as one revision.
    pub(super) async fn take_in(&self, id: MutationId, request: UpdateRequest) -> Result<RevisionId> {
        let info = self.update_info(request);
        let end = self.now();
        let build = move |state: &State, base: &Base| {
            let outcome = MoveOutcome::Arrived;
            let records = vec![started(state, info), Record::MoveEnd(MoveEnd { id, outcome })];
            finished(state, base, records, UpdateResult::Succeeded, &end)
        };
        let answer = self.built(build, Loaded::new()).await;
        answer.and_then(|answer| self.made(answer))
    }

    /// The entries that wait for this move never left the other stack. Only for who knows that they never will.
    pub(super) async fn withdraw(&self, id: MutationId) -> Result<()> {
        self.end_move(id, MoveOutcome::Withdrawn).await.map(drop)
    }

    pub(super) async fn end_move(&self, id: MutationId, outcome: MoveOutcome) -> Result<Answer> {
        let end = Record::MoveEnd(MoveEnd { id, outcome });
        self.submit(vec![end.into()], true).await
    }

    fn peer(&self) -> Peer {
        Peer {
            lineage: self.stack.lineage(),
            name: self.stack.name().clone(),
        }
    }

    fn waits_there(&self, id: MutationId, destination: &Self, error: &Error) -> Error {
        let (from, to) = (self.stack.name().short(), destination.stack.name().short());
        let source = format!(
            "the entries left stack {from} and wait at stack {to}, which takes them in when it is locked again: {error}"
        );
        Error::Indeterminate {
            object: format!("move {id} from stack {from} to stack {to}"),
            mutations: vec![id],
            source: source.into(),
        }
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
