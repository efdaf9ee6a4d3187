//! Cycles, which prevent a list from having a topological order.

use super::graph::Graph;
use super::lists::{Lists, NONE};
use super::order::Blocked;
use crate::address::EntryKey;
use crate::verify::{Rule, Violation};
use std::collections::VecDeque;

/// The search for a shorter cycle stops after this number of visited edges, if it has found a cycle.
const SEARCH_EDGES: usize = 4_000_000;

/// Entries that refer to each other in a cycle, so that none of them can come first.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", format_cycle(witness))]
pub struct Cycle {
    /// Keys of the cycle. Each entry refers to the next and the last to the first; the smallest key comes first. No
    /// cycle is shorter, except in very large graphs, where the search is bounded.
    pub witness: Vec<EntryKey>,
}

/// Formats the entries of a cycle in order, with the first entry repeated at the end.
pub(crate) fn format_cycle(circle: &[EntryKey]) -> String {
    let keys = circle.iter().chain(circle.first()).map(ToString::to_string);
    keys.collect::<Vec<_>>().join(" -> ")
}

impl From<Cycle> for Violation {
    fn from(cycle: Cycle) -> Self {
        Self {
            rule: Rule::Acyclic,
            detail: format!("the references form a cycle: {cycle}"),
            entry: cycle.witness.into_iter().next(),
        }
    }
}

impl Cycle {
    /// Finds the shortest cycle among the blocked entries. Of several cycles with the same length, returns one with
    /// the smallest first key.
    pub(super) fn smallest(graph: &Graph<'_>, blocked: &Blocked) -> Self {
        let subgraph = CyclicSubgraph::new(graph, blocked);
        let witness = subgraph.shortest().into_iter().map(|local| {
            let position = subgraph.positions[local as usize];
            graph.entries[position as usize].key()
        });
        Self {
            witness: witness.collect(),
        }
    }
}

/// The part of a graph that can't be ordered. Its entries are numbered in the order of their keys; its nodes (addresses
/// and groups) have the same numbers as in the graph.
struct CyclicSubgraph {
    /// Position of each entry in the graph.
    positions: Vec<u32>,
    /// Nodes that each entry refers to, except those that were opened before the traversal was blocked.
    needs: Lists,
    /// Entries of the subgraph in each node.
    members: Lists,
    /// Whether an entry may be part of a cycle.
    alive: Vec<bool>,
}

impl CyclicSubgraph {
    fn new(graph: &Graph<'_>, blocked: &Blocked) -> Self {
        let positions = graph.by_key(blocked.entries.iter().copied());
        let needs = (0..).zip(&positions).flat_map(|(local, &position)| {
            let closed = |node: &&u32| **node != NONE && !blocked.open[**node as usize];
            let needs = graph.needs.get(position).iter().filter(closed);
            needs.map(move |&node| (local, node))
        });
        let members = (0..).zip(&positions).flat_map(|(local, &position)| {
            let nodes = [graph.address_of[position as usize], graph.group_of(position)];
            nodes.into_iter().map(move |node| (node, local))
        });
        let mut subgraph = Self {
            needs: Lists::collect(positions.len() as u32, needs),
            members: Lists::collect(graph.nodes(), members.filter(|(node, _)| *node != NONE)),
            alive: vec![true; positions.len()],
            positions,
        };
        subgraph.trim(graph.nodes());
        subgraph
    }

    fn len(&self) -> u32 {
        self.positions.len() as u32
    }

    /// Repeatedly removes entries that no other entry refers to: they depend on a cycle but aren't part of it.
    fn trim(&mut self, nodes: u32) {
        let mut references = vec![0_u32; nodes as usize];
        for (_, node) in self.needs.pairs() {
            references[node as usize] += 1;
        }
        let mut referenced = vec![0_u32; self.positions.len()];
        for (node, local) in self.members.pairs() {
            referenced[local as usize] += u32::from(references[node as usize] > 0);
        }
        let mut idle: Vec<u32> = (0..self.len()).filter(|&l| referenced[l as usize] == 0).collect();
        while let Some(local) = idle.pop() {
            self.alive[local as usize] = false;
            for &node in self.needs.get(local) {
                references[node as usize] -= 1;
                if references[node as usize] > 0 {
                    continue;
                }
                for &member in self.members.get(node) {
                    referenced[member as usize] -= 1;
                    if referenced[member as usize] == 0 {
                        idle.push(member);
                    }
                }
            }
        }
    }

    /// Returns the shortest cycle. The search begins at each entry in turn and visits only entries with greater keys,
    /// so that each cycle is found from its smallest entry.
    fn shortest(&self) -> Vec<u32> {
        let mut search = Search {
            subgraph: self,
            node_seen: vec![NONE; self.members.len()],
            entry_seen: vec![NONE; self.positions.len()],
            before: vec![NONE; self.positions.len()],
            depth: vec![0; self.positions.len()],
            visited_edges: 0,
        };
        let mut best = Vec::new();
        for start in (0..self.len()).filter(|&local| self.alive[local as usize]) {
            let limit = if best.is_empty() { usize::MAX } else { best.len() };
            if let Some(found) = search.from(start, limit) {
                best = found;
            }
            if best.len() == 1 || (!best.is_empty() && search.visited_edges > SEARCH_EDGES) {
                break;
            }
        }
        best
    }
}

/// Breadth-first searches for cycles, one from each start.
struct Search<'t> {
    subgraph: &'t CyclicSubgraph,
    /// For each node, the last start from which it was reached.
    node_seen: Vec<u32>,
    /// For each entry, the last start from which it was reached.
    entry_seen: Vec<u32>,
    /// Predecessor of each entry on the search path.
    before: Vec<u32>,
    /// Number of entries on the path from the start to each entry, both included.
    depth: Vec<usize>,
    /// Number of edges visited by all searches.
    visited_edges: usize,
}

impl Search<'_> {
    /// Finds the shortest cycle that begins at `start`, is shorter than `limit` and contains no smaller entry.
    fn from(&mut self, start: u32, limit: usize) -> Option<Vec<u32>> {
        let subgraph = self.subgraph;
        self.depth[start as usize] = 1;
        let mut queue = VecDeque::from([start]);
        while let Some(local) = queue.pop_front() {
            let depth = self.depth[local as usize];
            if depth >= limit {
                return None;
            }
            for &node in subgraph.needs.get(local) {
                self.visited_edges += 1;
                if std::mem::replace(&mut self.node_seen[node as usize], start) == start {
                    continue;
                }
                for &member in subgraph.members.get(node) {
                    self.visited_edges += 1;
                    if member == start {
                        return Some(self.path(start, local));
                    }
                    let is_new = member > start && subgraph.alive[member as usize];
                    if is_new && std::mem::replace(&mut self.entry_seen[member as usize], start) != start {
                        self.before[member as usize] = local;
                        self.depth[member as usize] = depth + 1;
                        queue.push_back(member);
                    }
                }
            }
        }
        None
    }

    /// Returns the entries on the search path from `start` to `end`.
    fn path(&self, start: u32, end: u32) -> Vec<u32> {
        let mut path = vec![end];
        let mut at = end;
        while at != start {
            at = self.before[at as usize];
            path.push(at);
        }
        path.reverse();
        path
    }
}
