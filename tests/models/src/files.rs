//! The journal in local files: `state-backend-fs`.
//!
//! # Steps and code
//! Files are those of `state-backend-fs/src`, if no other folder is named.
//!
//! | step | code |
//! |---|---|
//! | [`Takeover::ReadHead`], [`Takeover::ReadHeadToBreak`] | `acquire_after` in `state-manager/src/write/opening.rs` (the client lock); `attempt` in `takeover.rs` |
//! | [`Takeover::TakeLock`], [`Takeover::ReadHeadAgain`], [`Takeover::TakeHeadLock`] | `attempt` in `takeover.rs`; `LockFile::take` and `LockFile::wait` in `lock.rs` |
//! | [`Takeover::CompareHead`] | `attempt` in `takeover.rs`; `examine` in `reader.rs` |
//! | [`Takeover::ReplaceHead`], [`Takeover::SyncHead`] | `Stack::replace_head` in `stack.rs`; `StagedFile` in `staged.rs` |
//! | [`Takeover::ReadJournal`], [`Takeover::SyncJournal`] | `read_to_end` and `rewrite_last_frame` in `reader.rs`; `walk` in `walk.rs` |
//! | [`Takeover::CreateSegment`], [`Takeover::SyncSegment`] | `open_segment` in `takeover.rs`; `acquire_gated` in `opening.rs` (the client lock) |
//! | [`Owner::Write`], [`Owner::Sync`], [`Owner::SyncFails`], [`Owner::Acknowledge`] | `Owner::append` in `owner.rs`; `JournalEnd::write` in `journal_end.rs` |
//! | [`Owner::Rotate`], [`Owner::SyncRotation`] | `Owner::rotate` in `owner.rs` |
//! | [`Owner::Begin`] | the callers of `Writer::swap_head`: `write/checkpoint.rs`, `write/locked_stack.rs`, `gc/collect.rs`, `keys/rotation.rs`, `lock.rs` in `state-manager/src`; `Owner::remove` |
//! | [`Owner::TakeHeadLock`], [`Owner::ReplaceHead`], [`Owner::SyncHead`] | `Owner::swap_head`, `Owner::close_journal` and `Owner::remove` in `owner.rs`; `Compactor::store` in `compaction.rs` |
//! | [`Owner::Release`] | `Owner::release` in `owner.rs`; `LockFile::leave_closed` in `lock.rs` |
//! | [`Owner::BeginDeletion`], [`Owner::DeleteSegment`] | `Owner::delete` in `owner.rs`; `locate` in `collection.rs` |
//! | [`Read`] | `read_journal` and `read_once` in `reader.rs` |
//! | [`Crash`] | the death of a process, and a power loss |
//!
//! # What the model simplifies
//! - A frame is written as a whole or not at all. Torn frames are the subject of the crash simulation in `state-backend-fs`.
//! - A power loss keeps all or none of the unsynced frames of a segment; an owner has at most one.
//! - Syncs of a read make all segments durable. Those that no fence names don't count, so their durability has no effect.
//! - A deletion is durable at once: a deleted segment that comes back lies below the floor.
//! - Head and segments that a takeover reads before it replaces the head are compared and read in one step, under `head.lock`.
//! - A reader that starts over too often takes `head.lock`; in the model it may start over without a limit.

pub mod crash;
pub mod disk;
pub mod owner;
pub mod reader;
pub mod rules;
pub mod state;
pub mod takeover;

use crash::Crash;
use owner::Owner;
use reader::Read;
use rules::FileRule;
use state::{Files, State, Writer};
use stateright::{Model, Property};
use takeover::Takeover;

/// One step of one process, or a crash. The number of a writer is its place in the state before the step, which is sorted after
/// each step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A writer takes the stack over.
    TakesOver(u8, Takeover),
    /// A writer that took the stack over writes.
    Writes(u8, Owner),
    /// The reader takes one of its steps.
    Reads(Read),
    /// A process dies, or the power fails.
    Crashes(Crash),
}

impl Model for Files {
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
        Crash::next(self, state, &mut |crash| actions.push(Action::Crashes(crash)));
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::TakesOver(writer, step) => step.take(self, &mut next, usize::from(writer)),
            Action::Writes(writer, step) => step.take(self, &mut next, usize::from(writer)),
            Action::Reads(step) => step.take(self, &mut next),
            Action::Crashes(crash) => crash.take(&mut next),
        }
        next.sort_writers();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        FileRule::properties()
    }
}
