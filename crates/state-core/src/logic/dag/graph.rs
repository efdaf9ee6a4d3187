//! The dependency graph as arrays of numbers, so that a graph of a million entries needs only a few allocations.

use crate::address::Dependency;
use crate::entry::SharedEntry;
use crate::hashing::{FastMap, map_for};

/// Marks the absence of a node number.
pub(super) const NONE: u32 = u32::MAX;

/// A list of lists of numbers in two arrays: list `n` is `items[starts[n]..starts[n + 1]]`.
#[derive(Debug)]
pub(super) struct Lists {
    starts: Vec<u32>,
    items: Vec<u32>,
}

impl Lists {
    /// Distributes items over `count` lists; within a list they keep their order.
    pub(super) fn collect(count: u32, pairs: impl Iterator<Item = (u32, u32)> + Clone) -> Self {
        let mut starts = vec![0; count as usize + 1];
        for (list, _) in pairs.clone() {
            starts[list as usize + 1] += 1;
        }
        for list in 0..count as usize {
            starts[list + 1] += starts[list];
        }
        let mut next = starts.clone();
        let mut items = vec![0; starts[count as usize] as usize];
        for (list, item) in pairs {
            let at = &mut next[list as usize];
            items[*at as usize] = item;
            *at += 1;
        }
        Self { starts, items }
    }

    /// The number of lists.
    pub(super) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns one of the lists.
    pub(super) fn get(&self, list: u32) -> &[u32] {
        let list = list as usize;
        &self.items[self.starts[list] as usize..self.starts[list + 1] as usize]
    }

    /// Returns all pairs of list number and item, list by list.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (u32, u32)> + Clone + '_ {
        (0..self.len() as u32).flat_map(move |list| self.get(list).iter().map(move |&item| (list, item)))
    }
}

/// A bipartite graph of entries and nodes. Entries are numbered by position and refer to nodes; each node lists its
/// entries. Nodes are numbered too: first the addresses, then the groups with live members.
#[derive(Debug)]
pub(super) struct Graph<'a> {
    pub(super) entries: &'a [SharedEntry],
    /// Number of nodes that are addresses.
    pub(super) addresses: u32,
    /// Number of all nodes.
    pub(super) nodes: u32,
    /// Node of each entry's address.
    pub(super) address_of: Vec<u32>,
    /// Node of each live entry's group, or [`NONE`].
    pub(super) group_of: Vec<u32>,
    /// Nodes that each entry refers to.
    pub(super) needs: Lists,
    /// Entries of each node, in list order: the live entry and all deposed ones of an address, or all live members of a
    /// group.
    pub(super) members: Lists,
}

impl<'a> Graph<'a> {
    pub(super) fn new(entries: &'a [SharedEntry]) -> Self {
        let mut by_address = map_for(entries.len());
        let address_of: Vec<u32> = entries
            .iter()
            .map(|entry| number(&mut by_address, entry.address.as_str()))
            .collect();
        let addresses = by_address.len() as u32;
        let mut by_group = FastMap::default();
        let group_of: Vec<u32> = entries
            .iter()
            .map(|entry| entry.live_group())
            .map(|group| group.map_or(NONE, |group| addresses + number(&mut by_group, group.as_str())))
            .collect();
        let nodes = addresses + by_group.len() as u32;
        let needs = needs(entries, |dependency| match dependency {
            Dependency::Entry(address) => by_address.get(address.as_str()).copied(),
            Dependency::Group(group) => by_group.get(group.as_str()).map(|group| addresses + group),
        });
        let of_address = address_of.iter().copied().zip(0..);
        let of_group = group_of
            .iter()
            .copied()
            .zip(0..)
            .filter(|(node, _)| *node != NONE);
        let members = Lists::collect(nodes, of_address.chain(of_group));
        Self {
            entries,
            addresses,
            nodes,
            address_of,
            group_of,
            needs,
            members,
        }
    }

    /// The number of entries.
    pub(super) fn len(&self) -> u32 {
        self.entries.len() as u32
    }

    /// The number of edges: references to existing targets, and memberships.
    #[cfg(test)]
    pub(super) fn edges(&self) -> usize {
        self.needs.items.len() + self.members.items.len()
    }

    /// Sorts entries by key, then by position.
    pub(super) fn by_key(&self, positions: impl Iterator<Item = u32>) -> Vec<u32> {
        // Sorting the texts themselves avoids following the pointers of entry and address in each comparison.
        let mut keys: Vec<_> = positions
            .map(|position| {
                let entry = &self.entries[position as usize];
                (entry.address.as_str(), entry.deposed.as_ref(), position)
            })
            .collect();
        keys.sort_unstable();
        keys.into_iter().map(|(.., position)| position).collect()
    }

    /// Returns the rank of each entry in the order of keys, by position.
    pub(super) fn ranks(&self) -> Vec<u32> {
        let mut ranks = vec![0; self.entries.len()];
        for (rank, position) in (0..).zip(self.by_key(0..self.len())) {
            ranks[position as usize] = rank;
        }
        ranks
    }

    /// Whether the given list is in topological order.
    pub(super) fn is_in_order(&self) -> bool {
        self.needs.pairs().all(|(entry, node)| {
            let members = self.members.get(node);
            // Members are in list order. One earlier generation satisfies a reference to an address, but a group
            // needs all of its live members earlier.
            if node < self.addresses {
                members.first().is_some_and(|&first| first < entry)
            } else {
                members.last().is_none_or(|&last| last < entry)
            }
        })
    }
}

/// Returns the number of a name. A new name gets the next number.
fn number<'a>(numbers: &mut FastMap<&'a str, u32>, name: &'a str) -> u32 {
    let next = numbers.len() as u32;
    *numbers.entry(name).or_insert(next)
}

/// Collects the nodes to which each entry refers. `node` returns `None` for a dependency without an existing target.
fn needs(entries: &[SharedEntry], node: impl Fn(&Dependency) -> Option<u32>) -> Lists {
    let mut starts = Vec::with_capacity(entries.len() + 1);
    let mut items = Vec::new();
    starts.push(0);
    for entry in entries {
        items.extend(entry.references().filter_map(|reference| node(&reference.to)));
        starts.push(items.len() as u32);
    }
    Lists { starts, items }
}
