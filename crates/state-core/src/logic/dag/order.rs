//! Graph traversals that place each entry after its dependencies.

use super::graph::{Graph, NONE};
use super::lists::Lists;
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
                .map(|node| graph.members.get(node).len() as u32)
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
/// [`Traversal::first`]: the entry to move for each address. Each moved dependency precedes its dependent in the order
/// of that traversal, so the visits always end.
pub(super) fn pulled(graph: &Graph<'_>, first: &[u32]) -> Vec<u32> {
    let mut pull = Pull {
        graph,
        first,
        placed: vec![false; graph.entries.len()],
        open: vec![false; graph.nodes() as usize],
        order: Vec::with_capacity(graph.entries.len()),
    };
    // An explicit stack: a chain of dependencies may be deeper than the thread's stack allows.
    let mut stack = Vec::new();
    for entry in 0..graph.len() {
        stack.push((Visit::Entry(entry), 0));
        while let Some((visit, done)) = stack.pop() {
            if let Some((next, done)) = pull.advance(visit, done) {
                stack.extend([(visit, done), (next, 0)]);
            }
        }
    }
    pull.order
}

/// A step of [`pulled`]: places an entry, or all members of a group, after their dependencies.
#[derive(Clone, Copy)]
enum Visit {
    Entry(u32),
    Group(u32),
}

/// The state of [`pulled`].
struct Pull<'g> {
    graph: &'g Graph<'g>,
    first: &'g [u32],
    /// Whether each entry is part of the order.
    placed: Vec<bool>,
    /// Whether each node is open: references to the node are satisfied.
    open: Vec<bool>,
    order: Vec<u32>,
}

impl Pull<'_> {
    /// Continues a visit whose first `done` dependencies are satisfied. Returns `None` at the end of the visit.
    /// Otherwise, returns the visit that must come first, and the number of dependencies that are satisfied after it.
    fn advance(&mut self, visit: Visit, done: usize) -> Option<(Visit, usize)> {
        match visit {
            Visit::Entry(entry) => {
                if self.placed[entry as usize] {
                    return None;
                }
                let is_closed = |node: &u32| *node != NONE && !self.open[*node as usize];
                let needs = &self.graph.needs.get(entry)[done..];
                if let Some(met) = needs.iter().position(is_closed) {
                    let node = needs[met];
                    let next = if self.graph.is_address(node) {
                        Visit::Entry(self.first[node as usize])
                    } else {
                        Visit::Group(node)
                    };
                    return Some((next, done + met + 1));
                }
                self.placed[entry as usize] = true;
                self.open[self.graph.address_of[entry as usize] as usize] = true;
                self.order.push(entry);
                None
            }
            Visit::Group(node) => {
                let members = &self.graph.members.get(node)[done..];
                let absent = |member: &u32| !self.placed[*member as usize];
                if let Some(met) = members.iter().position(absent) {
                    return Some((Visit::Entry(members[met]), done + met + 1));
                }
                self.open[node as usize] = true;
                None
            }
        }
    }
}
