//! Walks through the graph that let each entry stand after what it needs.

use super::graph::{Graph, Lists, NONE};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// All entries in an order.
pub(super) struct Walked {
    pub(super) order: Vec<u32>,
    /// For each address the generation that it was opened by: the live one if that stood.
    pub(super) first: Vec<u32>,
}

/// Where a walk could not go on.
pub(super) struct Stuck {
    /// The entries that never stood.
    pub(super) entries: Vec<u32>,
    /// Which nodes were opened.
    pub(super) open: Vec<bool>,
}

/// Lets the entry with the smallest rank stand, of those that have all that they need, until all stand. Ranks are
/// a permutation of positions.
pub(super) fn walk(graph: &Graph<'_>, ranks: &[u32]) -> Result<Walked, Stuck> {
    let mut walk = Walk::new(graph, ranks);
    loop {
        while let Some(Reverse(rank)) = walk.ready.pop() {
            walk.stand(walk.by_rank[rank as usize]);
        }
        let Some(Reverse((_, _, node))) = walk.half_open.pop() else {
            break;
        };
        walk.open(node);
    }
    if walk.order.len() == graph.entries.len() {
        return Ok(Walked {
            order: walk.order,
            first: walk.first,
        });
    }
    let entries = (0..graph.len())
        .filter(|&entry| walk.lacks[entry as usize] > 0)
        .collect();
    Err(Stuck {
        entries,
        open: walk.open,
    })
}

struct Walk<'g> {
    graph: &'g Graph<'g>,
    ranks: &'g [u32],
    by_rank: Vec<u32>,
    /// The entries that refer to each node.
    dependents: Lists,
    /// How many of an entry's references aren't met.
    lacks: Vec<u32>,
    /// How many of a node's entries don't stand.
    absent: Vec<u32>,
    open: Vec<bool>,
    first: Vec<u32>,
    ready: BinaryHeap<Reverse<u32>>,
    /// Addresses with some generations standing, some not: whether the live one is among the latter, the rank
    /// of the one that stands, the node.
    half_open: BinaryHeap<Reverse<(bool, u32, u32)>>,
    order: Vec<u32>,
}

impl<'g> Walk<'g> {
    fn new(graph: &'g Graph<'g>, ranks: &'g [u32]) -> Self {
        let mut by_rank = vec![0; ranks.len()];
        for (position, &rank) in (0..).zip(ranks) {
            by_rank[rank as usize] = position;
        }
        let lacks: Vec<u32> = (0..graph.len())
            .map(|entry| graph.needs.get(entry).len() as u32)
            .collect();
        let ready = ranks
            .iter()
            .zip(&lacks)
            .filter(|(_, lacks)| **lacks == 0)
            .map(|(&rank, _)| Reverse(rank))
            .collect();
        Self {
            graph,
            ranks,
            by_rank,
            dependents: Lists::collect(
                graph.nodes,
                graph.needs.pairs().map(|(entry, node)| (node, entry)),
            ),
            lacks,
            absent: (0..graph.nodes)
                .map(|node| graph.members.get(node).len() as u32)
                .collect(),
            open: vec![false; graph.nodes as usize],
            first: vec![NONE; graph.addresses as usize],
            ready,
            half_open: BinaryHeap::new(),
            order: Vec::with_capacity(ranks.len()),
        }
    }

    fn stand(&mut self, entry: u32) {
        self.order.push(entry);
        let group = self.graph.group_of[entry as usize];
        if group != NONE && self.one_less(group) == 0 {
            self.open(group);
        }
        let address = self.graph.address_of[entry as usize];
        let left = self.one_less(address);
        if self.open[address as usize] {
            return;
        }
        let is_live = self.graph.entries[entry as usize].is_live();
        if is_live || self.first[address as usize] == NONE {
            self.first[address as usize] = entry;
        }
        if left == 0 {
            self.open(address);
        } else {
            let rank = self.ranks[entry as usize];
            self.half_open.push(Reverse((!is_live, rank, address)));
        }
    }

    fn one_less(&mut self, node: u32) -> u32 {
        let absent = &mut self.absent[node as usize];
        *absent -= 1;
        *absent
    }

    fn open(&mut self, node: u32) {
        if std::mem::replace(&mut self.open[node as usize], true) {
            return;
        }
        for &entry in self.dependents.get(node) {
            let lacks = &mut self.lacks[entry as usize];
            *lacks -= 1;
            if *lacks == 0 {
                self.ready.push(Reverse(self.ranks[entry as usize]));
            }
        }
    }
}

/// The given order, with what an entry lacks pulled to just before it. `first` says, for each address, which
/// generation to pull; it comes from a [`walk`], whose order every pull follows backwards, so none goes round.
pub(super) fn pulled(graph: &Graph<'_>, first: &[u32]) -> Vec<u32> {
    let mut pull = Pull {
        graph,
        first,
        stands: vec![false; graph.entries.len()],
        open: vec![false; graph.nodes as usize],
        order: Vec::with_capacity(graph.entries.len()),
    };
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

#[derive(Clone, Copy)]
enum Visit {
    Entry(u32),
    Group(u32),
}

struct Pull<'g> {
    graph: &'g Graph<'g>,
    first: &'g [u32],
    stands: Vec<bool>,
    open: Vec<bool>,
    order: Vec<u32>,
}

impl Pull<'_> {
    /// Goes on with a visit whose first `done` needs are met: to the end, or to what must be visited before, with
    /// the number of needs that are met by then.
    fn advance(&mut self, visit: Visit, done: usize) -> Option<(Visit, usize)> {
        match visit {
            Visit::Entry(entry) => {
                if self.stands[entry as usize] {
                    return None;
                }
                let lacking = |node: &u32| !self.open[*node as usize];
                let needs = &self.graph.needs.get(entry)[done..];
                if let Some(met) = needs.iter().position(lacking) {
                    let node = needs[met];
                    let next = if node < self.graph.addresses {
                        Visit::Entry(self.first[node as usize])
                    } else {
                        Visit::Group(node)
                    };
                    return Some((next, done + met + 1));
                }
                self.stands[entry as usize] = true;
                self.open[self.graph.address_of[entry as usize] as usize] = true;
                self.order.push(entry);
                None
            }
            Visit::Group(node) => {
                let members = &self.graph.members.get(node)[done..];
                let absent = |member: &u32| !self.stands[*member as usize];
                if let Some(met) = members.iter().position(absent) {
                    return Some((Visit::Entry(members[met]), done + met + 1));
                }
                self.open[node as usize] = true;
                None
            }
        }
    }
}
