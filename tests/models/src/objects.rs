//! The journal on an object store: `state-backend-generic` and `state-backend-object-store`.
//!
//! # Steps and code
//!
//! | step | code |
//! |---|---|
//! | [`Takeover::ReadHead`] | `acquire_after` in `state-manager/src/write/opening.rs` (the client lock); `claim_known` and `claim_lease` in `state-backend-generic/src/takeover.rs` |
//! | [`Takeover::TakeLease`] | `assess` and `write_lease` in `takeover.rs` |
//! | [`Takeover::ReadClosedJournal`] | `claim` in `takeover.rs` |
//! | [`Takeover::RaiseEpoch`] | `raise_epoch` in `takeover.rs` |
//! | [`Takeover::ListSlots`], [`Takeover::ReadSlots`] | `fence` in `takeover.rs`; `JournalCursor::read_slots` in `reader.rs` |
//! | [`Takeover::PutFence`], [`Takeover::PutFenceLate`] | `put_fence` in `takeover.rs`; `acquire_gated` in `opening.rs` (the client lock) |
//! | [`Owner::Append`], [`Owner::AppendWithoutAnswer`], [`Owner::AppendLate`], [`Owner::GiveUp`] | `Owner::append` in `state-backend-generic/src/owner.rs`; `SettledStore::create` in `settle.rs` |
//! | [`Owner::Checkpoint`], [`Owner::CheckpointLate`], [`Owner::ReadHeadAgain`] | `BackgroundWriter::checkpoint` in `state-manager/src/write/background.rs`; `Owner::swap_head` and `Owner::head` in `owner.rs` |
//! | [`Owner::Close`], [`Owner::CloseWithCheckpoint`], [`Owner::CloseLate`] | `set_watermark` in `state-manager/src/write/locked_stack.rs`; `Owner::swap_head` |
//! | [`Owner::CloseWithCompaction`] | `ObjectWriter::swap_head` in `state-backend-object-store/src/writer.rs` |
//! | [`Owner::StoreCompaction`], [`Owner::NameCompaction`] | `Compactor::compact` in `compaction.rs`; `Owner::set_compactions` |
//! | [`Owner::RaiseFloor`] | `collect` in `state-manager/src/gc/collect.rs` |
//! | [`Owner::BeginDeletion`], [`Owner::DeleteSlot`] | `delete` in `state-backend-generic/src/collection.rs` |
//! | [`Owner::SetClientLock`], [`Owner::ClearClientLock`] | `LockedStack::swap_head`, called by `lock.rs` |
//! | [`Owner::RotateKey`] | `rotate` in `state-manager/src/keys/rotation.rs` |
//! | [`Read`] | `read_journal` in `state-backend-generic/src/reader.rs` |
//!
//! # What the model simplifies
//! - A lease may end or be broken at any time, so it excludes no one; only its epoch counts. A takeover reads and replaces the lease
//!   in one step, because a replacement of another lease than the one that was read fails. Renewals, and the requests around an append
//!   past the lease, only refuse more, so they are left out.
//! - A process that stops for ever is one that takes no more steps. [`Owner::GiveUp`] also covers a crash with an append in flight.
//! - Slots that exist are read in one step after the list: stored slots don't change, and only slots below the floor disappear.
//! - One compaction is named instead of up to two. A base is its start and its records; snapshots are durable before a head names them.
//! - The grace of a collection is that a deletion begins only after the takeovers and reads that began before its floor have ended.
//!   [`Flaw::NoGrace`] is the protocol without it, as with a grace of zero: see `docs/models.md`.

pub mod owner;
pub mod reader;
pub mod rules;
pub mod state;
pub mod store;
pub mod takeover;

use crate::extensions::Extension;
use owner::Owner;
use reader::Read;
use rules::ObjectRule;
use state::{Flaw, Objects, State, Writer};
use stateright::{Model, Property};
use takeover::Takeover;

/// One step of one process, or of the network. The number of a writer is its place in the state before the step, which is sorted
/// after each step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A writer takes the stack over.
    TakesOver(u8, Takeover),
    /// A writer that took the stack over writes.
    Writes(u8, Owner),
    /// The reader takes one of its steps.
    Reads(Read),
    /// A late request takes effect, if its condition holds.
    Lands(u8),
}

impl Model for Objects {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            writers: vec![Writer::default(); usize::from(self.writers)],
            ..State::default()
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for writer in 0..self.writers {
            let at = usize::from(writer);
            Takeover::next(self, state, at, &mut |step| {
                actions.push(Action::TakesOver(writer, step));
            });
            Owner::next(self, state, at, &mut |step| {
                actions.push(Action::Writes(writer, step));
            });
        }
        Read::next(self, state, &mut |step| actions.push(Action::Reads(step)));
        actions.extend((0..).zip(&state.store.late).map(|(at, _)| Action::Lands(at)));
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::TakesOver(writer, step) => step.take(self, &mut next, usize::from(writer)),
            Action::Writes(writer, step) => step.take(self, &mut next, usize::from(writer)),
            Action::Reads(step) => step.take(&mut next),
            Action::Lands(at) => next.store.land(usize::from(at)),
        }
        let deletes = self.has(Extension::Collection);
        next.store
            .drop_spent_requests(deletes, deletes && self.is(Flaw::FencesDeleted));
        next.sort_writers();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        ObjectRule::properties()
    }
}
