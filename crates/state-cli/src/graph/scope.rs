//! What is near an entry.

use super::Graph;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// How many nodes a drawing has at most: more can't be read.
pub(crate) const NODES: usize = 200;

/// The part of a graph that can be reached from its centre in so many steps, along what it needs or along what needs it,
/// the nearest first, [`NODES`] at most.
pub(crate) fn around(graph: &Graph, depth: usize) -> Graph {
    let Some(center) = graph.center else {
        return graph.clone();
    };
    let mut distance = BTreeMap::from([(center, 0)]);
    for backwards in [false, true] {
        let neighbours = graph.neighbours(backwards);
        let mut reached = BTreeMap::from([(center, 0)]);
        let mut edge = vec![center];
        for step in 1..=depth {
            let mut next = Vec::new();
            for &at in edge.iter().flat_map(|&at| &neighbours[at]) {
                if let Entry::Vacant(vacant) = reached.entry(at) {
                    vacant.insert(step);
                    next.push(at);
                }
            }
            if next.is_empty() {
                break;
            }
            edge = next;
        }
        for (at, steps) in reached {
            let known = distance.entry(at).or_insert(steps);
            *known = steps.min(*known);
        }
    }
    let mut nearest: Vec<(usize, usize)> = distance.into_iter().map(|(at, steps)| (steps, at)).collect();
    nearest.sort_unstable();
    let mut kept: Vec<usize> = nearest.iter().take(NODES).map(|&(_, at)| at).collect();
    kept.sort_unstable();
    part(graph, &kept, nearest.len() - kept.len())
}

/// The nodes at these positions, which ascend, and the edges between them.
fn part(graph: &Graph, kept: &[usize], omitted: usize) -> Graph {
    let place = |at: usize| kept.binary_search(&at).ok();
    Graph {
        nodes: kept.iter().map(|&at| graph.nodes[at].clone()).collect(),
        edges: graph
            .edges
            .iter()
            .filter_map(|&(from, to, link)| Some((place(from)?, place(to)?, link)))
            .collect(),
        center: graph.center.and_then(place),
        omitted,
    }
}
