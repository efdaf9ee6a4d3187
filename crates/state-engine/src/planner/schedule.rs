//! Who may go now: a dependency scheduler. Pure: it is told what ended, and says what may begin.

use std::collections::BTreeSet;

/// Items, some of which wait for others. Of several that may begin the one with the lowest number is first.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    /// For whom each waits still.
    waits_for: Vec<BTreeSet<usize>>,
    /// Who waits for each.
    awaited_by: Vec<Vec<usize>>,
    ready: BTreeSet<usize>,
    over: Vec<bool>,
}

impl Schedule {
    /// So many items, and pairs of one that comes before another. Pairs must not go in circles.
    pub(crate) fn new(count: usize, pairs: impl IntoIterator<Item = (usize, usize)>) -> Self {
        let mut waits_for = vec![BTreeSet::new(); count];
        let mut awaited_by = vec![Vec::new(); count];
        for (before, after) in pairs {
            if before != after && waits_for[after].insert(before) {
                awaited_by[before].push(after);
            }
        }
        let ready = (0..count).filter(|item| waits_for[*item].is_empty()).collect();
        Self {
            waits_for,
            awaited_by,
            ready,
            over: vec![false; count],
        }
    }

    /// The next that may begin; it is given out once.
    pub(crate) fn begin(&mut self) -> Option<usize> {
        self.ready.pop_first()
    }

    /// It went well: who waited only for it may begin.
    pub(crate) fn succeeded(&mut self, item: usize) {
        self.over[item] = true;
        for after in std::mem::take(&mut self.awaited_by[item]) {
            self.waits_for[after].remove(&item);
            if self.waits_for[after].is_empty() && !self.over[after] {
                self.ready.insert(after);
            }
        }
    }

    /// It didn't: whoever waits for it, however far, never begins, and comes back in order.
    pub(crate) fn failed(&mut self, item: usize) -> Vec<usize> {
        self.over[item] = true;
        self.ready.remove(&item);
        let mut lost = BTreeSet::new();
        let mut open = self.awaited_by[item].clone();
        while let Some(next) = open.pop() {
            if !self.over[next] && lost.insert(next) {
                self.over[next] = true;
                open.extend(&self.awaited_by[next]);
            }
        }
        lost.into_iter().collect()
    }
}
