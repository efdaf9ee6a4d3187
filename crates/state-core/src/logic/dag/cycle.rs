//! What keeps a list from having an order.

use super::graph::{Graph, Lists, NONE};
use super::order::Stuck;
use crate::address::EntryKey;
use crate::verify::{Rule, Violation};
use std::collections::VecDeque;

/// How many edges the search for a smaller cycle looks at, once it has one.
const SEARCH_EDGES: usize = 4_000_000;

/// Entries that refer to each other in a circle, so that none of them can come first.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", round(witness))]
pub struct Cycle {
    /// Each refers to the next, the last to the first; the smallest key comes first. No shorter cycle exists in a
    /// graph of ordinary size; in a huge tangle, the shortest that a bounded search finds.
    pub witness: Vec<EntryKey>,
}

/// The entries of a circle, back to the first.
pub(crate) fn round(circle: &[EntryKey]) -> String {
    let keys = circle.iter().chain(circle.first()).map(ToString::to_string);
    keys.collect::<Vec<_>>().join(" -> ")
}

impl From<Cycle> for Violation {
    fn from(cycle: Cycle) -> Self {
        Self {
            rule: Rule::Acyclic,
            detail: format!("references go round in a circle: {cycle}"),
            entry: cycle.witness.into_iter().next(),
        }
    }
}

impl Cycle {
    /// The smallest cycle among the entries that could not stand. Of several with the same length it is one whose
    /// first key is smallest.
    pub(super) fn smallest(graph: &Graph<'_>, stuck: &Stuck) -> Self {
        let tangle = Tangle::new(graph, stuck);
        let witness = tangle.shortest().into_iter().map(|local| {
            let position = tangle.positions[local as usize];
            graph.entries[position as usize].key()
        });
        Self {
            witness: witness.collect(),
        }
    }
}

/// The part of a graph where nothing can stand. Its entries are numbered in the order of their keys.
struct Tangle {
    positions: Vec<u32>,
    needs: Lists,
    members: Lists,
    /// Whether an entry may be part of a cycle.
    alive: Vec<bool>,
}

impl Tangle {
    fn new(graph: &Graph<'_>, stuck: &Stuck) -> Self {
        let positions = graph.by_key(stuck.entries.iter().copied());
        let needs = (0..).zip(&positions).flat_map(|(local, &position)| {
            let closed = |node: &&u32| !stuck.open[**node as usize];
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
        let mut tangle = Self {
            needs: Lists::collect(positions.len() as u32, needs),
            members: Lists::collect(graph.nodes, members.filter(|(node, _)| *node != NONE)),
            alive: vec![true; positions.len()],
            positions,
        };
        tangle.trim(graph.nodes);
        tangle
    }

    fn len(&self) -> u32 {
        self.positions.len() as u32
    }

    /// Takes out, again and again, entries that no other refers to: they only hang on a cycle.
    fn trim(&mut self, nodes: u32) {
        let mut askers = vec![0_u32; nodes as usize];
        for (_, node) in self.needs.pairs() {
            askers[node as usize] += 1;
        }
        let mut asked = vec![0_u32; self.positions.len()];
        for (node, local) in self.members.pairs() {
            asked[local as usize] += u32::from(askers[node as usize] > 0);
        }
        let mut idle: Vec<u32> = (0..self.len()).filter(|&l| asked[l as usize] == 0).collect();
        while let Some(local) = idle.pop() {
            self.alive[local as usize] = false;
            for &node in self.needs.get(local) {
                askers[node as usize] -= 1;
                if askers[node as usize] > 0 {
                    continue;
                }
                for &member in self.members.get(node) {
                    asked[member as usize] -= 1;
                    if asked[member as usize] == 0 {
                        idle.push(member);
                    }
                }
            }
        }
    }

    /// Each cycle is looked for from its smallest entry, among larger ones only.
    fn shortest(&self) -> Vec<u32> {
        let mut search = Search {
            tangle: self,
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
    tangle: &'t Tangle,
    /// The last start from which a node, or an entry, was reached.
    node_seen: Vec<u32>,
    entry_seen: Vec<u32>,
    /// The entry from which an entry was reached, and in how many steps.
    before: Vec<u32>,
    depth: Vec<usize>,
    looked_at: usize,
}

impl Search<'_> {
    /// The shortest cycle that begins at `start`, is shorter than `limit` and has no smaller entry.
    fn from(&mut self, start: u32, limit: usize) -> Option<Vec<u32>> {
        let tangle = self.tangle;
        self.depth[start as usize] = 1;
        let mut queue = VecDeque::from([start]);
        while let Some(local) = queue.pop_front() {
            let depth = self.depth[local as usize];
            if depth >= limit {
                return None;
            }
            for &node in tangle.needs.get(local) {
                self.looked_at += 1;
                if std::mem::replace(&mut self.node_seen[node as usize], start) == start {
                    continue;
                }
                for &member in tangle.members.get(node) {
                    self.looked_at += 1;
                    if member == start {
                        return Some(self.path(start, local));
                    }
                    let is_new = member > start && tangle.alive[member as usize];
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
