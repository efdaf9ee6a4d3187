//! Who needs whom, drawn so that people can read it: siblings are one node, nodes stand in groups, and a large graph is
//! only drawn around an entry.

pub(crate) mod drawing;
mod naming;
mod scope;
pub(crate) mod tree;

#[cfg(test)]
mod tests;

use state_core::entry::ReferenceField;
use state_core::{Address, Dependency, Digest, Entry, SharedEntry};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) use naming::GroupBy;
pub(crate) use scope::{NODES, around};

/// An entry, or the siblings that share a declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    /// The address, or what the siblings' addresses have in common.
    pub(crate) name: String,
    /// How many entries it stands for.
    pub(crate) count: usize,
    /// The group that it stands in.
    pub(crate) group: String,
    /// The resource's type.
    pub(crate) kind: Option<String>,
}

impl Node {
    /// `name`, or `name x37`.
    pub(crate) fn label(&self) -> String {
        if self.count == 1 {
            self.name.clone()
        } else {
            format!("{} x{}", self.name, self.count)
        }
    }

    /// The same in every drawing, whatever else is in it.
    pub(crate) fn id(&self) -> String {
        format!("n{}", Digest::of(self.name.as_bytes()).short())
    }
}

/// What an edge says of where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Link {
    /// It stands after the other.
    Needs,
    /// It is a part of the other.
    PartOf,
}

impl Link {
    /// The name in JSON.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Needs => "needs",
            Self::PartOf => "part-of",
        }
    }
}

/// Nodes sorted by name, and edges between their positions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    pub(crate) nodes: Vec<Node>,
    pub(crate) edges: BTreeSet<(usize, usize, Link)>,
    /// The node that it is drawn around.
    pub(crate) center: Option<usize>,
    /// How many nodes in scope were left out.
    pub(crate) omitted: usize,
}

impl Graph {
    /// The graph of a list of entries. The entries of `center` are a node of their own, without their siblings; if it is
    /// the name of siblings, these are the centre. None if it is neither.
    pub(crate) fn of(entries: &[SharedEntry], by: GroupBy, center: Option<&Address>) -> Option<Self> {
        let mut names: BTreeMap<String, Vec<&Entry>> = BTreeMap::new();
        for entry in entries {
            names.entry(name_of(entry, center)).or_default().push(entry);
        }
        let mut graph = Self::default();
        // What a dependency leads to: an address is in one node, a group perhaps in two.
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

    /// What each node needs, or what needs it; each list sorted and without repetitions.
    pub(crate) fn neighbours(&self, backwards: bool) -> Vec<Vec<usize>> {
        let mut lists = vec![BTreeSet::new(); self.nodes.len()];
        for &(from, to, _) in &self.edges {
            let (at, other) = if backwards { (to, from) } else { (from, to) };
            lists[at].insert(other);
        }
        lists.into_iter().map(|list| list.into_iter().collect()).collect()
    }

    /// The nodes by group, both sorted.
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
    Node {
        // One alone has a name of its own.
        name: match members {
            [only] => only.key().to_string(),
            _ => name.to_owned(),
        },
        count: members.len(),
        group: first.map(|entry| by.group(entry, name)).unwrap_or_default(),
        kind: first.and_then(|entry| crate::entry::kind(entry)),
    }
}
