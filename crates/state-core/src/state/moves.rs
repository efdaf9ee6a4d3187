//! Moves of entries between stacks: how the records of a move change each side's state.

use super::{Checked, State, refuse};
use crate::address::EntryKey;
use crate::id::MutationId;
use crate::journal::Record;
use crate::moves::{MoveEnd, MoveIn, MoveOut, MoveOutcome, StackMove};
use crate::mutation::EditChange;
use crate::verify::{Rule, Violation};
use std::collections::BTreeSet;
use std::sync::Arc;

impl State {
    /// Pending moves from other stacks, oldest first. Their entries are not part of this state yet, but they reserve
    /// their place in it: no other change may use their keys or uids, or remove entries to which they refer.
    pub fn incoming(&self) -> impl Iterator<Item = &MoveIn> {
        self.incoming.iter().map(|incoming| &**incoming)
    }

    /// Moves to other stacks that are not confirmed yet, oldest first. Their entries are no longer part of this state.
    pub fn departed(&self) -> impl Iterator<Item = &MoveOut> {
        self.departed.iter().map(|leaving| &**leaving)
    }

    /// Whether a record must be refused if it prevents incoming entries from being added to the state later. Three
    /// kinds of records are exempt:
    ///
    /// - the result of a mutation, because the resource has already changed;
    /// - [`MoveIn`], which checks the reservations itself, and [`MoveEnd`], which ends a reservation;
    /// - records without a mutation id, which change no entry.
    ///
    /// If the reservations are already violated, all records are exempt, so that the stack stays usable.
    pub(super) fn must_respect_reservations(&self, record: &Record) -> bool {
        let concerns = !matches!(record, Record::End(_) | Record::MoveIn(_) | Record::MoveEnd(_));
        !self.incoming.is_empty()
            && record.mutation().is_some()
            && concerns
            && self.check_reservations().is_ok()
    }

    /// Checks that all incoming entries can still be added to the state, and that no operation is pending on their
    /// keys.
    pub(super) fn check_reservations(&self) -> Checked {
        let mut after = self.clone();
        for incoming in &self.incoming {
            let with_move = |mut violation: Violation| {
                let MoveIn { id, from, .. } = &**incoming;
                violation.detail = format!(
                    "{}: it conflicts with pending move {id} from {from}",
                    violation.detail
                );
                violation
            };
            let arrived = after.edited(&appended(incoming));
            after =
                arrived.map_err(|violations| violations.into_iter().map(with_move).collect::<Vec<_>>())?;
            self.refuse_pending(incoming.entries.iter().map(|entry| entry.key()))?;
        }
        Ok(())
    }

    pub(super) fn move_in(&mut self, incoming: &MoveIn) -> Checked {
        self.refuse_known(incoming.id)?;
        if incoming.from.lineage == self.lineage || incoming.entries.is_empty() {
            return refuse(Rule::Target, "a move needs at least one entry of another stack");
        }
        // Conflicts are refused here, because the move can still be withdrawn. Once the source stack has removed the
        // entries, this stack must be able to add them.
        let mut next = self.clone();
        next.incoming.push_back(Arc::new(incoming.clone()));
        next.check_reservations()?;
        *self = next;
        Ok(())
    }

    pub(super) fn move_out(&mut self, leaving: &MoveOut) -> Checked {
        self.require_update()?;
        self.refuse_known(leaving.id)?;
        if leaving.to.lineage == self.lineage || leaving.entries.is_empty() {
            return refuse(
                Rule::Target,
                "a move needs at least one entry and another stack as its destination",
            );
        }
        self.refuse_pending(leaving.entries.iter().cloned())?;
        let removed: Vec<_> = leaving.entries.iter().cloned().map(EditChange::Remove).collect();
        // One edit removes all entries, so that references between them don't prevent the removal.
        let mut next = self.edited(&removed)?;
        next.departed.push_back(Arc::new(leaving.clone()));
        next.moved(leaving.id, StackMove::Out(leaving.to.clone()));
        *self = next;
        Ok(())
    }

    pub(super) fn move_end(&mut self, end: &MoveEnd) -> Checked {
        let MoveEnd { id, outcome } = end;
        match outcome {
            MoveOutcome::Arrived => {
                self.require_update()?;
                let place = self.index_of_incoming(*id)?;
                let incoming = Arc::clone(&self.incoming[place]);
                let mut next = self.edited(&appended(&incoming))?;
                next.incoming.remove(place);
                next.moved(*id, StackMove::In(incoming.from.clone()));
                *self = next;
            }
            MoveOutcome::Withdrawn => {
                let place = self.index_of_incoming(*id)?;
                self.incoming.remove(place);
                // The move had no effect. Its id is kept in `recent`, so that no other move can use the id.
                self.recent.push(*id, false);
            }
            MoveOutcome::Confirmed => {
                // `move_out` has already recorded the id as that of a mutation that took effect.
                let place = self.departed.iter().position(|leaving| leaving.id == *id);
                let place = place.ok_or_else(|| no_such_move(*id))?;
                self.departed.remove(place);
            }
        }
        Ok(())
    }

    /// Records a move that took effect, in the recent mutations and in the metadata of the open update.
    fn moved(&mut self, id: MutationId, moved: StackMove) {
        self.recent.push(id, true);
        if let Some(update) = self.update_mut() {
            update.moved = Some(moved);
        }
    }

    fn index_of_incoming(&self, id: MutationId) -> Checked<usize> {
        let place = self.incoming.iter().position(|incoming| incoming.id == id);
        place.ok_or_else(|| no_such_move(id))
    }

    /// Refuses an id that another move or mutation has used.
    fn refuse_known(&self, id: MutationId) -> Checked {
        let is_known = self.recent.get(id).is_some()
            || self.incoming().any(|incoming| incoming.id == id)
            || self.departed().any(|leaving| leaving.id == id);
        if is_known {
            return refuse(Rule::Begun, format!("move {id} already exists"));
        }
        Ok(())
    }

    /// Refuses to move entries on which an operation is pending.
    fn refuse_pending(&self, keys: impl Iterator<Item = EntryKey>) -> Checked {
        if self.pending.is_empty() {
            return Ok(());
        }
        let keys: BTreeSet<EntryKey> = keys.collect();
        let detail = "the resource has a pending operation and can't be moved";
        let pending = self.pending.iter().map(|operation| &operation.target);
        let found: Vec<Violation> = pending
            .filter(|target| keys.contains(target))
            .map(|target| Violation::of(Rule::Begun, target.clone(), detail))
            .collect();
        if found.is_empty() { Ok(()) } else { Err(found) }
    }
}

fn appended(incoming: &MoveIn) -> Vec<EditChange> {
    incoming.entries.iter().cloned().map(EditChange::Append).collect()
}

fn no_such_move(id: MutationId) -> Vec<Violation> {
    vec![Violation::whole(Rule::Begun, format!("move {id} is not pending"))]
}
