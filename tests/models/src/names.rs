//! Name pointers: creation, rename, removal and key rotation, with a crash anywhere.
//!
//! # Steps and code
//! Files are those of `state-manager/src`, if no other folder is named.
//!
//! | phase before the step | code |
//! |---|---|
//! | [`Phase::Start`] | `resolve` in `read/names.rs`, `named` in `keys/authenticate/name.rs`; for a creation, `create` in `write/naming.rs` |
//! | [`Phase::HeadCreated`] | `create` and `swap_pointer` in `write/naming.rs`; `names.rs` in `state-backend-fs/src` and `state-backend-generic/src` |
//! | [`Phase::Found`] | `acquire` in `write/opening.rs` |
//! | [`Phase::Locked`], [`Phase::Decided`] | `finish_rename` in `write/naming.rs` |
//! | [`Phase::GaveUp`], [`Phase::Releases`] | `commit_rename` and `remove` in `write/naming.rs` |
//! | [`Phase::Ready`], [`Phase::Resolved`], [`Phase::Announced`], [`Phase::Lost`], [`Phase::Pointed`], [`Phase::Commits`] | `rename_locked`, `commit_rename` and `remove` in `write/naming.rs` |
//! | [`Phase::Signs`], [`Phase::Signed`] | `rotate` in `keys/rotation.rs`; `sign_pointer` in `keys/authenticate/name.rs` |
//!
//! # What the model simplifies
//! - A lock may end or be broken at any time, so it excludes no one; a takeover changes the head, which stops the former lock holder.
//! - A lookup reads a pointer and its head in one step.
//! - Swaps have a known outcome. One with an unknown outcome is a crash right before or after it.
//! - The memory of clients (`known_stacks`) isn't modelled.

pub mod rules;
pub mod state;
pub mod steps;

use rules::NameRule;
use state::{Names, Phase, State};
use stateright::{Model, Property};

/// One step of one client, which is named by its operation's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The client takes its next step, from this phase.
    Step(u8, Phase),
    /// The client crashes before its next step.
    Crash(u8),
}

impl Model for Names {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(self.operations.len())]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (at, client) in (0..).zip(&state.clients) {
            if matches!(client.phase, Phase::Done | Phase::Refused | Phase::Crashed) {
                continue;
            }
            actions.push(Action::Step(at, client.phase));
            if client.phase != Phase::Start && state.crashes < self.crashes {
                actions.push(Action::Crash(at));
            }
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Step(at, _) => steps::take(self, &mut next, usize::from(at)).then_some(next),
            Action::Crash(at) => {
                next.crashes += 1;
                next.clients[usize::from(at)].phase = Phase::Crashed;
                Some(next)
            }
        }
    }

    fn properties(&self) -> Vec<Property<Self>> {
        NameRule::properties()
    }
}
