//! The most recent mutations and their outcomes, which [`State::lookup`](crate::State::lookup) reads.

use crate::id::MutationId;
use imbl::{OrdMap, Vector};

/// The number of recent mutations that a state remembers.
const LENGTH: usize = 1024;

/// Remembers the last [`LENGTH`] mutations that ended, and whether each took effect.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    order: Vector<MutationId>,
    applied: OrdMap<MutationId, bool>,
}

impl Window {
    pub(super) fn push(&mut self, id: MutationId, applied: bool) {
        if self.applied.insert(id, applied).is_none() {
            self.order.push_back(id);
        }
        if self.order.len() > LENGTH
            && let Some(oldest) = self.order.pop_front()
        {
            self.applied.remove(&oldest);
        }
    }

    /// Forgets a mutation that is pending again, so that its outcome is unknown.
    pub(super) fn remove(&mut self, id: MutationId) {
        if self.applied.remove(&id).is_some() {
            self.order.retain(|known| *known != id);
        }
    }

    pub(super) fn get(&self, id: MutationId) -> Option<bool> {
        self.applied.get(&id).copied()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (MutationId, bool)> + '_ {
        self.order
            .iter()
            .filter_map(|id| self.applied.get(id).map(|applied| (*id, *applied)))
    }
}

impl FromIterator<(MutationId, bool)> for Window {
    fn from_iter<I: IntoIterator<Item = (MutationId, bool)>>(mutations: I) -> Self {
        let mut window = Self::default();
        for (id, applied) in mutations {
            window.push(id, applied);
        }
        window
    }
}
