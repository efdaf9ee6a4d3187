//! Graph traversals that place each entry after its dependencies.

use super::graph::Graph;
use super::lists::{Lists, NONE};
use super::rank_queue::RankQueue;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The result of a complete traversal.
pub(super) struct Traversal {
    pub(super) order: Vec<u32>,
    /// For each address, the entry after which its dependents were placed: the live one if it was placed before the
    /// address was opened, otherwise the deposed one that was placed first.
    pub(super) first: Vec<u32>,
}

/// The state of a traversal that could not place all entries, because the remaining ones depend on a cycle.
pub(super) struct Blocked {
    /// Entries that were not placed.
    pub(super) entries: Vec<u32>,
    /// Whether each node was opened, so that its dependents no longer waited for it.
    pub(super) open: Vec<bool>,
}

/// Places entries one by one: of the entries whose dependencies are placed, the one with the smallest rank is next.
/// `ranks` contains the rank of each entry and is a permutation of the positions.
pub(super) fn walk(graph: &Graph<'_>, ranks: &[u32]) -> Result<Traversal, Blocked> {
    let mut walk = Walk::new(graph, ranks);
    loop {
        while let Some(rank) = walk.ready.pop() {
            walk.place(walk.by_rank[rank as usize]);
        }
        // An address is opened early only when no entry can be placed otherwise. A dependent that is placed before some
        // generation of its dependency is deleted after this generation in the reverse order.
        let Some(Reverse((_, _, node))) = walk.half_open.pop() else {
            break;
        };
        walk.open(node);
    }
    if walk.order.len() == graph.entries.len() {
        return Ok(Traversal {
            order: walk.order,
            first: walk.first,
        });
    }
    let entries = (0..graph.len())
        .filter(|&entry| walk.unmet[entry as usize] > 0)
        .collect();
    Err(Blocked {
        entries,
        open: walk.open,
    })
}

/// A traversal in progress.
struct Walk<'g> {
    graph: &'g Graph<'g>,
    /// Rank of each entry.
    ranks: &'g [u32],
    /// Entry with each rank.
    by_rank: Vec<u32>,
    /// Entries that refer to each node.
    dependents: Lists,
    /// Number of unsatisfied references of each entry.
    unmet: Vec<u32>,
    /// Number of entries of each node that are not placed.
    absent: Vec<u32>,
    /// Whether each node is open: references to the node are satisfied.
    open: Vec<bool>,
    /// The entry of each address that [`Traversal::first`] returns, or [`NONE`].
    first: Vec<u32>,
    /// Ranks of the entries that can be placed next.
    ready: RankQueue,
    /// Addresses of which only some generations are placed. The fields of an item are: whether the placed entry is
    /// deposed, the rank of the placed entry, and the node of the address.
    half_open: BinaryHeap<Reverse<(bool, u32, u32)>>,
    order: Vec<u32>,
}

impl<'g> Walk<'g> {
    fn new(graph: &'g Graph<'g>, ranks: &'g [u32]) -> Self {
        let mut by_rank = vec![0; ranks.len()];
        for (position, &rank) in (0..).zip(ranks) {
            by_rank[rank as usize] = position;
        }
        let exists = |node: &&u32| **node != NONE;
        let unmet: Vec<u32> = (0..graph.len())
            .map(|entry| graph.needs.get(entry).iter().filter(exists).count() as u32)
            .collect();
        let mut ready = RankQueue::new(graph.len());
        for (&rank, _) in ranks.iter().zip(&unmet).filter(|(_, unmet)| **unmet == 0) {
            ready.insert(rank);
        }
        let references = graph.needs.pairs().filter(|(_, node)| *node != NONE);
        Self {
            graph,
            ranks,
            by_rank,
            dependents: Lists::collect(graph.nodes(), references.map(|(entry, node)| (node, entry))),
            unmet,
            absent: (0..graph.nodes())
                .map(|node| graph.members(node).len() as u32)
                .collect(),
            open: vec![false; graph.nodes() as usize],
            first: vec![NONE; graph.addresses() as usize],
            ready,
            half_open: BinaryHeap::new(),
            order: Vec::with_capacity(ranks.len()),
        }
    }

    /// Appends an entry to the order, and opens its group and address if all their entries are placed.
    fn place(&mut self, entry: u32) {
        self.order.push(entry);
        let group = self.graph.group_of(entry);
        if group != NONE && self.remove_member(group) == 0 {
            self.open(group);
        }
        let address = self.graph.address_of[entry as usize];
        let left = self.remove_member(address);
        if self.open[address as usize] {
            return;
        }
        // Whether the entry is live matters only for an address with several entries.
        let is_first = self.first[address as usize] == NONE;
        let is_live = (left > 0 || !is_first) && self.graph.entries[entry as usize].is_live();
        if is_live || is_first {
            self.first[address as usize] = entry;
        }
        if left == 0 {
            self.open(address);
        } else {
            let rank = self.ranks[entry as usize];
            self.half_open.push(Reverse((!is_live, rank, address)));
        }
    }

    /// Counts an entry of the node as placed; returns how many are not placed yet.
    fn remove_member(&mut self, node: u32) -> u32 {
        let absent = &mut self.absent[node as usize];
        *absent -= 1;
        *absent
    }

    /// Opens a node: marks the references to it as satisfied.
    fn open(&mut self, node: u32) {
        if std::mem::replace(&mut self.open[node as usize], true) {
            return;
        }
        for &entry in self.dependents.get(node) {
            let unmet = &mut self.unmet[entry as usize];
            *unmet -= 1;
            if *unmet == 0 {
                self.ready.insert(self.ranks[entry as usize]);
            }
        }
    }
}

/// Returns the given order, with each late dependency moved to just before the first entry that needs it. `first` is
/// [`Traversal::first`]: the entry to move for each address; `None` if each address has one entry. Each moved dependency
/// precedes its dependent in the order of that traversal, so that no visit needs itself. Without a traversal this may
/// happen: returns `None` if the references form a cycle.
pub(super) fn pulled(graph: &Graph<'_>, first: Option<&[u32]>) -> Option<Vec<u32>> {
    let nodes = graph.nodes() as usize;
    // If addresses are unique, an entry and its address have the same number, and are done together.
    let first_entry = if graph.has_unique_addresses() { 0 } else { nodes };
    let count = nodes.max(first_entry + graph.entries.len());
    let mut pull = Pull {
        graph,
        first,
        first_entry,
        needs: short_needs(graph),
        open: Bits::new(count),
        done: Bits::new(count),
        order: Vec::with_capacity(graph.entries.len()),
    };
    // An explicit stack: a chain of dependencies may be deeper than the thread's stack allows.
    let mut stack = Vec::new();
    for entry in 0..graph.len() {
        if pull.is_placed(entry) {
            continue;
        }
        stack.push((Visit::Entry(entry), 0));
        while let Some((visit, done)) = stack.pop() {
            match pull.advance(visit, done) {
                Step::End => {}
                Step::First(next, done) => stack.extend([(visit, done), (next, 0)]),
                Step::Cycle => return None,
            }
        }
    }
    Some(pull.order)
}

/// A visit of [`pulled`]: places an entry, or all members of a group, after their dependencies.
#[derive(Clone, Copy)]
enum Visit {
    Entry(u32),
    Group(u32),
}

/// The result of a step of a visit.
enum Step {
    /// The visit is at its end.
    End,
    /// Another visit must come first. The number is that of the dependencies that are satisfied after it.
    First(Visit, usize),
    /// The visit waits for itself: the references form a cycle.
    Cycle,
}

/// The state of [`pulled`].
struct Pull<'g> {
    graph: &'g Graph<'g>,
    first: Option<&'g [u32]>,
    /// Number of the first entry in `open` and `done`, which contain nodes and entries.
    first_entry: usize,
    needs: Vec<ShortNeeds>,
    /// Entries and groups whose visits have begun.
    open: Bits,
    /// Nodes to which references are satisfied, and entries that are part of the order.
    done: Bits,
    order: Vec<u32>,
}

impl Pull<'_> {
    /// Continues a visit whose first `done` dependencies are satisfied.
    fn advance(&mut self, visit: Visit, done: usize) -> Step {
        match visit {
            Visit::Entry(entry) => self.advance_entry(entry, done),
            Visit::Group(node) => self.advance_group(node, done),
        }
    }

    fn advance_entry(&mut self, entry: u32, done: usize) -> Step {
        let number = self.first_entry + entry as usize;
        if self.done.contains(number) {
            return Step::End;
        }
        if !self.open.insert(number) && done == 0 {
            return Step::Cycle;
        }
        let needs = match &self.needs[entry as usize] {
            [TOO_MANY, ..] => self.graph.needs.get(entry),
            short => short,
        };
        let is_missing = |node: &u32| *node != NONE && !self.done.contains(*node as usize);
        if let Some(met) = needs[done..].iter().position(is_missing) {
            let node = needs[done + met];
            let next = if self.graph.is_address(node) {
                Visit::Entry(self.first.map_or(node, |first| first[node as usize]))
            } else {
                Visit::Group(node)
            };
            return Step::First(next, done + met + 1);
        }
        self.done.insert(number);
        if self.first_entry > 0 {
            let address = self.graph.address_of[entry as usize];
            self.done.insert(address as usize);
        }
        self.order.push(entry);
        Step::End
    }

    fn advance_group(&mut self, node: u32, done: usize) -> Step {
        if self.done.contains(node as usize) {
            return Step::End;
        }
        if !self.open.insert(node as usize) && done == 0 {
            return Step::Cycle;
        }
        let members = &self.graph.members(node)[done..];
        if let Some(met) = members.iter().position(|&member| !self.is_placed(member)) {
            return Step::First(Visit::Entry(members[met]), done + met + 1);
        }
        self.done.insert(node as usize);
        Step::End
    }

    fn is_placed(&self, entry: u32) -> bool {
        self.done.contains(self.first_entry + entry as usize)
    }
}

/// The nodes to which an entry refers, filled up with [`NONE`]; or [`TOO_MANY`].
type ShortNeeds = [u32; 4];

/// Begins the [`ShortNeeds`] of an entry with more references. No node has this number.
const TOO_MANY: u32 = NONE - 1;

/// Copies the references of all entries. The visits of entries that are far from each other wait for memory, and a copy
/// needs one access where [`Lists`] needs two.
fn short_needs(graph: &Graph<'_>) -> Vec<ShortNeeds> {
    let short = |entry| {
        let needs = graph.needs.get(entry);
        let mut short = [NONE; 4];
        match short.get_mut(..needs.len()) {
            Some(places) => places.copy_from_slice(needs),
            None => short[0] = TOO_MANY,
        }
        short
    };
    (0..graph.len()).map(short).collect()
}

/// A set of small numbers. For a million numbers that is 122 KiB, which stay in the processor's cache.
struct Bits(Vec<u64>);

impl Bits {
    /// Creates an empty set for numbers below `limit`.
    fn new(limit: usize) -> Self {
        Self(vec![0; limit.div_ceil(64)])
    }

    fn contains(&self, number: usize) -> bool {
        self.0[number / 64] >> (number % 64) & 1 == 1
    }

    /// Adds a number; returns whether it was missing.
    fn insert(&mut self, number: usize) -> bool {
        let word = &mut self.0[number / 64];
        let bit = 1 << (number % 64);
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }
}
