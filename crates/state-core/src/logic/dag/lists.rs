//! Lists of numbers in compressed form.

use std::ops::Range;

/// Marks the absence of a node number.
pub(super) const NONE: u32 = u32::MAX;

/// A list of lists of numbers in two arrays: list `n` is `items[starts[n]..starts[n + 1]]`.
#[derive(Debug)]
pub(super) struct Lists {
    starts: Vec<usize>,
    items: Vec<u32>,
}

impl Lists {
    /// Creates no lists, with room for this number of lists and items.
    pub(super) fn with_capacity(lists: usize, items: usize) -> Self {
        let mut starts = Vec::with_capacity(lists + 1);
        starts.push(0);
        Self {
            starts,
            items: Vec::with_capacity(items),
        }
    }

    /// Distributes items over `count` lists; within a list they keep their order.
    pub(super) fn collect(count: u32, pairs: impl Iterator<Item = (u32, u32)> + Clone) -> Self {
        let count = count as usize;
        // While the items are distributed, `starts[n + 1]` is the place of the next item of list `n`. At the end, this is
        // the place after its last item: the start of the next list.
        let mut starts = vec![0_usize; count + 2];
        pairs.clone().for_each(|(list, _)| starts[list as usize + 2] += 1);
        for list in 2..count + 2 {
            starts[list] += starts[list - 1];
        }
        let mut items = vec![0; starts[count + 1]];
        pairs.for_each(|(list, item)| {
            let at = &mut starts[list as usize + 1];
            items[*at] = item;
            *at += 1;
        });
        starts.pop();
        Self { starts, items }
    }

    /// The number of lists.
    pub(super) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// The items of all lists, list by list.
    #[cfg(test)]
    pub(super) fn items(&self) -> &[u32] {
        &self.items
    }

    /// Returns one of the lists.
    pub(super) fn get(&self, list: u32) -> &[u32] {
        &self.items[self.places(list)]
    }

    /// The places of the items of a list.
    pub(super) fn places(&self, list: u32) -> Range<usize> {
        let list = list as usize;
        self.starts[list]..self.starts[list + 1]
    }

    /// All items, list by list.
    pub(super) fn items_mut(&mut self) -> &mut [u32] {
        &mut self.items
    }

    /// Adds a list of this length. Its items are added afterwards, by [`Lists::push`].
    pub(super) fn announce(&mut self, length: usize) {
        let end = self.starts.last().map_or(0, |start| start + length);
        self.starts.push(end);
    }

    /// Adds an item of the announced lists, and returns its place.
    pub(super) fn push(&mut self, item: u32) -> usize {
        self.items.push(item);
        self.items.len() - 1
    }

    /// Returns the item at a place.
    pub(super) fn at(&self, place: usize) -> u32 {
        self.items[place]
    }

    /// Replaces the item at a place.
    pub(super) fn set(&mut self, place: usize, item: u32) {
        self.items[place] = item;
    }

    /// Returns all pairs of list number and item, list by list.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (u32, u32)> + Clone + '_ {
        (0..self.len() as u32).flat_map(move |list| self.get(list).iter().map(move |&item| (list, item)))
    }
}
