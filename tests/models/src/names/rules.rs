//! The rules that every state must keep.

use super::state::{Names, Phase, State};
use crate::check::Rule;
use stateright::Property;

/// What must hold in every state, or must happen in some state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// A stack whose creation was acknowledged, and that isn't removed, is found under its name.
    LiveStackIsFound,
    /// The pointer of a stack's name has a tag under the key that the head names.
    PointerIsAuthentic,
    /// Each operation can succeed.
    OperationSucceeds,
}

impl NameRule {
    const ALL: [Self; 3] = [
        Self::LiveStackIsFound,
        Self::PointerIsAuthentic,
        Self::OperationSucceeds,
    ];

    /// The rules as the checker evaluates them.
    pub fn properties() -> Vec<Property<Names>> {
        Self::ALL.iter().map(|rule| rule.property()).collect()
    }
}

impl Rule<Names> for NameRule {
    fn sentence(self) -> &'static str {
        match self {
            Self::LiveStackIsFound => "every live stack is found under its name",
            Self::PointerIsAuthentic => "the pointer of a stack has a tag under its data key",
            Self::OperationSucceeds => "at least one operation succeeds",
        }
    }

    fn property(self) -> Property<Names> {
        let name = self.sentence();
        match self {
            Self::LiveStackIsFound => Property::always(name, |_, state| live_stack_is_found(state)),
            Self::PointerIsAuthentic => Property::always(name, |_, state| pointer_is_authentic(state)),
            Self::OperationSucceeds => Property::sometimes(name, |_, state: &State| {
                state.clients.iter().any(|client| client.phase == Phase::Done)
            }),
        }
    }
}

fn live_stack_is_found(state: &State) -> bool {
    let live = (0..)
        .zip(&state.heads)
        .filter(|(_, head)| head.is_known && !head.removed);
    live.into_iter()
        .all(|(stack, head)| state.resolve(head.name) == Some(stack))
}

fn pointer_is_authentic(state: &State) -> bool {
    let names = (0..).zip(&state.pointers);
    names
        .into_iter()
        .all(|(name, pointer)| match state.resolve(name) {
            Some(stack) => pointer.tags & 1 << state.heads[usize::from(stack)].key != 0,
            None => true,
        })
}
