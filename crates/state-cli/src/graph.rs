//! The dependency graph of a state, reduced to a readable size: instances of one declaration are one node, nodes are grouped,
//! and a large graph is drawn only around one resource.

pub(crate) mod drawing;
mod naming;
pub(crate) mod tree;

#[cfg(test)]
mod tests;

use serde::Serialize;
use state_core::entry::ReferenceField;
use state_core::{Address, Dependency, Digest, Entry, SharedEntry};
use std::collections::{BTreeMap, BTreeSet, btree_map};

pub(crate) use naming::GroupBy;

/// Maximum number of nodes of a drawing; larger drawings aren't readable.
pub(crate) const NODES: usize = 200;

/// A resource, or all instances of one declaration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Node {
    /// An id that depends only on the name, so that it is the same in all drawings.
    pub(crate) id: String,
    /// The address, or the common part of the instances' addresses.
    pub(crate) name: String,
    /// The number of resources that the node represents.
    pub(crate) count: usize,
    /// The name of the node's group.
    pub(crate) group: String,
    /// The kind of the resources.
    pub(crate) kind: Option<String>,
}

impl Node {
    /// The label of the node: `name`, or `name x37` for several resources.
    pub(crate) fn label(&self) -> String {
        if self.count == 1 {
            self.name.clone()
        } else {
            format!("{} x{}", self.name, self.count)
        }
    }
}

/// The meaning of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Link {
    /// The source depends on the target.
    Needs,
    /// The source is a child of the target.
    PartOf,
}

/// Nodes sorted by name, and edges between their positions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    pub(crate) nodes: Vec<Node>,
    pub(crate) edges: BTreeSet<(usize, usize, Link)>,
    /// The node around which the graph is drawn; none for the whole graph.
    pub(crate) center: Option<usize>,
    /// The number of nodes left out because of the size limit.
    pub(crate) omitted: usize,
}

impl Graph {
    /// Builds the graph of a list of resources. If `center` is an address, its resource becomes a node of its own, separate
    /// from other instances; if it is the name of a declaration, the node with all its instances is the centre. Returns
    /// none if `center` is neither.
    pub(crate) fn of(entries: &[SharedEntry], by: GroupBy, center: Option<&Address>) -> Option<Self> {
        let mut names: BTreeMap<String, Vec<&Entry>> = BTreeMap::new();
        for entry in entries {
            names.entry(name_of(entry, center)).or_default().push(entry);
        }
        let mut graph = Self::default();
        // The nodes that a dependency points to: one for an address, but possibly two for a group, because the centre is
        // separate from the other instances.
        let mut targets: BTreeMap<Dependency, BTreeSet<usize>> = BTreeMap::new();
        for (at, (name, members)) in names.iter().enumerate() {
            graph.nodes.push(node(name, members, by));
            for entry in members {
                let live = entry.group.clone().filter(|_| entry.is_live());
                let address = Dependency::Entry(entry.address.clone());
                for target in live.map(Dependency::Group).into_iter().chain([address]) {
                    targets.entry(target).or_default().insert(at);
                }
            }
        }
        for (at, members) in names.values().enumerate() {
            for reference in members.iter().flat_map(|entry| entry.references()) {
                let link = match reference.field {
                    ReferenceField::Parent => Link::PartOf,
                    _ => Link::Needs,
                };
                for &to in targets.get(&reference.to).into_iter().flatten() {
                    if to != at {
                        graph.edges.insert((at, to, link));
                    }
                }
            }
        }
        if let Some(center) = center {
            let position = names.keys().position(|name| name == center.as_str());
            graph.center = Some(position?);
        }
        Some(graph)
    }

    /// For each node, the nodes that it depends on, or with `backwards` the nodes that depend on it, sorted.
    pub(crate) fn neighbours(&self, backwards: bool) -> Vec<Vec<usize>> {
        let mut lists = vec![BTreeSet::new(); self.nodes.len()];
        for &(from, to, _) in &self.edges {
            let (at, other) = if backwards { (to, from) } else { (from, to) };
            lists[at].insert(other);
        }
        lists.into_iter().map(|list| list.into_iter().collect()).collect()
    }

    /// The nodes within `depth` edges of the centre, either along its dependencies or along its dependents. Keeps the
    /// nearest [`NODES`] of them.
    pub(crate) fn around(self, depth: usize) -> Self {
        let Some(center) = self.center else {
            return self;
        };
        let mut distance = BTreeMap::from([(center, 0)]);
        for backwards in [false, true] {
            let neighbours = self.neighbours(backwards);
            let mut reached = BTreeMap::from([(center, 0)]);
            let mut edge = vec![center];
            for step in 1..=depth {
                let mut next = Vec::new();
                for &at in edge.iter().flat_map(|&at| &neighbours[at]) {
                    if let btree_map::Entry::Vacant(vacant) = reached.entry(at) {
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
        self.part(&kept, nearest.len() - kept.len())
    }

    /// The nodes at these positions, which must be sorted, and the edges between them.
    fn part(&self, kept: &[usize], omitted: usize) -> Self {
        let place = |at: usize| kept.binary_search(&at).ok();
        Self {
            nodes: kept.iter().map(|&at| self.nodes[at].clone()).collect(),
            edges: self
                .edges
                .iter()
                .filter_map(|&(from, to, link)| Some((place(from)?, place(to)?, link)))
                .collect(),
            center: self.center.and_then(place),
            omitted,
        }
    }

    /// The nodes of each group, sorted by group and position.
    pub(crate) fn groups(&self) -> BTreeMap<&str, Vec<usize>> {
        let mut groups: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, node) in self.nodes.iter().enumerate() {
            groups.entry(&node.group).or_default().push(at);
        }
        groups
    }
}

fn name_of(entry: &Entry, center: Option<&Address>) -> String {
    if center == Some(&entry.address) {
        return entry.address.to_string();
    }
    match &entry.group {
        Some(group) => group.to_string(),
        None => naming::declaration(entry.address.as_str()).to_owned(),
    }
}

fn node(name: &str, members: &[&Entry], by: GroupBy) -> Node {
    let first = members.first();
    // A single instance is shown with its full address.
    let shown = match members {
        [only] => only.key().to_string(),
        _ => name.to_owned(),
    };
    Node {
        id: format!("n{}", Digest::of(shown.as_bytes()).short()),
        name: shown,
        count: members.len(),
        group: first.map(|entry| by.group(entry, name)).unwrap_or_default(),
        kind: first.and_then(|entry| crate::entry::kind(entry)),
    }
}
