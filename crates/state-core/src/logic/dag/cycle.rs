//! Cycles, which prevent a list from having a topological order.

use super::graph::{Graph, Lists, NONE};
use super::order::Blocked;
use crate::address::EntryKey;
use crate::verify::{Rule, Violation};
use std::collections::VecDeque;

/// The number of edges that the search for a smaller cycle visits after it has found one.
const SEARCH_EDGES: usize = 4_000_000;

/// Entries that refer to each other in a cycle, so that none of them can come first.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", format_cycle(witness))]
pub struct Cycle {
    /// Keys of the cycle. Each entry refers to the next and the last to the first; the smallest key comes first. The
    /// cycle is the shortest one, except in very large graphs, where it is the shortest that a bounded search finds.
    pub witness: Vec<EntryKey>,
}

/// Formats the entries of a cycle, ending with the first entry again.
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
    /// Finds the smallest cycle among the blocked entries. Of several cycles with the same length, returns one with
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

/// The part of a graph that can't be ordered. Its entries are numbered in the order of their keys.
struct CyclicSubgraph {
    positions: Vec<u32>,
    needs: Lists,
    members: Lists,
    /// Whether an entry may be part of a cycle.
    alive: Vec<bool>,
}

impl CyclicSubgraph {
    fn new(graph: &Graph<'_>, blocked: &Blocked) -> Self {
        let positions = graph.by_key(blocked.entries.iter().copied());
        let needs = (0..).zip(&positions).flat_map(|(local, &position)| {
            let closed = |node: &&u32| !blocked.open[**node as usize];
            let needs = graph.needs.get(position).iter().filter(closed);
            needs.map(move |&node| (local, node))
        });
        let members = (0..).zip(&positions).flat_map(|(local, &position)| {
            let nodes = [
                graph.address_of[position as usize],
                graph.group_of[position as usize],
            ];
            nodes.into_iter().map(move |node| (node, local))
        });
        let mut subgraph = Self {
            needs: Lists::collect(positions.len() as u32, needs),
            members: Lists::collect(graph.nodes, members.filter(|(node, _)| *node != NONE)),
            alive: vec![true; positions.len()],
            positions,
        };
        subgraph.trim(graph.nodes);
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

    /// Searches for each cycle from its smallest entry, visiting only larger entries.
    fn shortest(&self) -> Vec<u32> {
        let mut search = Search {
            subgraph: self,
            node_seen: vec![NONE; self.members.len()],
            entry_seen: vec![NONE; self.positions.len()],
            before: vec![NONE; self.positions.len()],
            depth: vec![0; self.positions.len()],
            looked_at: 0,
        };
        let mut best = Vec::new();
        for start in (0..self.len()).filter(|&local| self.alive[local as usize]) {
            let limit = if best.is_empty() { usize::MAX } else { best.len() };
            if let Some(found) = search.from(start, limit) {
                best = found;
            }
            if best.len() == 1 || (!best.is_empty() && search.looked_at > SEARCH_EDGES) {
                break;
            }
        }
        best
    }
}

struct Search<'t> {
    subgraph: &'t CyclicSubgraph,
    /// The last start from which a node, or an entry, was reached.
    node_seen: Vec<u32>,
    entry_seen: Vec<u32>,
    /// Predecessor of each entry on the search path, and its distance from the start.
    before: Vec<u32>,
    depth: Vec<usize>,
    looked_at: usize,
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
                self.looked_at += 1;
                if std::mem::replace(&mut self.node_seen[node as usize], start) == start {
                    continue;
                }
                for &member in subgraph.members.get(node) {
                    self.looked_at += 1;
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
