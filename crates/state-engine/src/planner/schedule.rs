//! The order of the deletions at the end of a run, as a scheduler without side effects: the caller asks for the next
//! item, executes it, and reports its end.

use std::collections::BTreeSet;

/// Schedules items that depend on each other. Of several ready items, the item with the lowest number begins first.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    /// For each item, the items that it still waits for.
    waits_for: Vec<BTreeSet<usize>>,
    /// For each item, the items that wait for it.
    awaited_by: Vec<Vec<usize>>,
    ready: BTreeSet<usize>,
    /// For each item, whether it succeeded, failed or will never begin.
    over: Vec<bool>,
}

impl Schedule {
    /// Creates a schedule of `count` items. The second item of each pair must wait for the first. Pairs must not form
    /// a cycle.
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

    /// Returns the next item that may begin. `None` if all remaining items wait for other items. No item is returned
    /// twice.
    pub(crate) fn begin(&mut self) -> Option<usize> {
        self.ready.pop_first()
    }

    /// Records a success: items that waited only for this item become ready.
    pub(crate) fn succeeded(&mut self, item: usize) {
        self.over[item] = true;
        for after in std::mem::take(&mut self.awaited_by[item]) {
            self.waits_for[after].remove(&item);
            // A refused deletion was reported as failed before it began. It must not begin when the items that it
            // waits for succeed.
            if self.waits_for[after].is_empty() && !self.over[after] {
                self.ready.insert(after);
            }
        }
    }

    /// Records a failure. Returns the items that will never begin, because they wait for this item directly or
    /// transitively, in ascending order and without those that an earlier call returned.
    pub(crate) fn failed(&mut self, item: usize) -> Vec<usize> {
        self.over[item] = true;
        // The item may fail without having begun, as a refused deletion does.
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
