//! The dependency graph as arrays of numbers, so that a graph of a million entries needs only a few allocations.

use super::builder::Nodes;
use super::lists::{Lists, NONE};
use super::members::Members;
use super::names::Names;
use super::{Cycle, by_text, order};
use crate::address::Address;
use crate::entry::{ReferenceField, SharedEntry};
use crate::hashing::PositionTable;
use std::ops::Range;

/// The dependency graph of a list of entries. The addresses of the list are looked up once, when the graph is made; all
/// functions that take a graph work with numbers from then on.
///
/// ```
/// use state_core::{Dependency, Entry, SharedEntry, dag::Graph};
///
/// let mut subnet = Entry::leaf("subnet".parse()?, "aws_subnet");
/// subnet.depends_on.push(Dependency::Entry("vpc".parse()?));
/// let entries: Vec<SharedEntry> = vec![subnet.into(), Entry::leaf("vpc".parse()?, "aws_vpc").into()];
///
/// let graph = Graph::new(&entries);
/// assert!(!graph.is_in_order());
/// assert_eq!(graph.topological_order()?, [1, 0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
// A bipartite graph of entries and nodes. Entries are numbered by position and refer to nodes; each node lists its
// entries. Nodes are numbered too: first the addresses, then the groups with live members.
#[derive(Debug)]
pub struct Graph<'a> {
    pub(super) entries: &'a [SharedEntry],
    addresses: Names<'a>,
    groups: Names<'a>,
    /// Node of each entry's address.
    pub(super) address_of: Vec<u32>,
    /// Node of each live entry's group, or [`NONE`]. Empty if there are no groups.
    group_of: Vec<u32>,
    /// The node of each reference of each entry, in the order of [`Entry::references`](crate::Entry::references);
    /// [`NONE`] for a missing target.
    pub(super) needs: Lists,
    members: Members,
}

impl<'a> Graph<'a> {
    /// The number of entries from which on a list is too long.
    pub(crate) const LIMIT: usize = PositionTable::LIMIT as usize / 2;

    /// Makes the graph of a list, in one pass over its entries.
    ///
    /// # Panics
    /// If the list has 2,147,483,647 or more entries.
    pub fn new(entries: &'a [SharedEntry]) -> Self {
        Self::inspecting(entries, |_| ())
    }

    /// Makes the graph of a list like [`Graph::new`], and calls `inspect` with the positions of each block of
    /// entries. A second pass over a long list would load all entries from memory again.
    pub(crate) fn inspecting(entries: &'a [SharedEntry], inspect: impl FnMut(Range<usize>)) -> Self {
        // Each entry adds at most two nodes, so all numbers are smaller than `NONE`.
        assert!(
            entries.len() < Self::LIMIT,
            "a list of {} entries is too long",
            entries.len()
        );
        let Nodes {
            addresses,
            groups,
            address_of,
            group_of,
            needs,
        } = Nodes::collect(entries, inspect);
        let members = Members::collect(addresses.len(), &address_of, groups.len(), &group_of);
        Self {
            entries,
            addresses,
            groups,
            address_of,
            group_of,
            needs,
            members,
        }
    }

    /// Returns the positions of the entries in canonical order: see [`topological_order`](super::topological_order()).
    ///
    /// # Errors
    /// A smallest [`Cycle`] if no order exists.
    pub fn topological_order(&self) -> Result<Vec<usize>, Cycle> {
        match order::walk(self, &self.ranks()) {
            Ok(traversal) => Ok(positions(&traversal.order)),
            Err(blocked) => Err(Cycle::smallest(self, &blocked)),
        }
    }

    /// Returns the positions of the entries in an order that moves few of them: see
    /// [`stable_order`](super::stable_order()).
    ///
    /// # Errors
    /// A smallest [`Cycle`] if no order exists.
    pub fn stable_order(&self) -> Result<Vec<usize>, Cycle> {
        if self.is_in_order() {
            return Ok((0..self.entries.len()).collect());
        }
        // With one entry for each address, there is no choice of the entry to move, so a cycle is all that can prevent an
        // order. The traversal by position is needed only to report the cycle.
        if self.has_unique_addresses()
            && let Some(order) = order::pulled(self, None)
        {
            return Ok(positions(&order));
        }
        let given: Vec<u32> = (0..self.len()).collect();
        let traversal = order::walk(self, &given).map_err(|blocked| Cycle::smallest(self, &blocked))?;
        let order = order::pulled(self, Some(&traversal.first));
        Ok(positions(&order.unwrap_or(traversal.order)))
    }

    /// Whether the list is in topological order. References to missing targets are ignored.
    pub fn is_in_order(&self) -> bool {
        (0..self.len()).all(|entry| {
            let needs = self.needs.get(entry).iter();
            needs
                .filter(|node| **node != NONE)
                .all(|&node| self.is_met(node, entry))
        })
    }

    /// Whether all targets of an entry exist and come earlier.
    pub(crate) fn is_satisfied(&self, position: usize) -> bool {
        let mut needs = self.needs.get(position as u32).iter();
        needs.all(|&node| node != NONE && self.is_met(node, position as u32))
    }

    /// Whether the reference to a node is satisfied at a position.
    pub(super) fn is_met(&self, node: u32, entry: u32) -> bool {
        if !self.is_address(node) {
            // A group needs all of its live members earlier.
            return self.members(node).last().is_none_or(|&last| last < entry);
        }
        if self.has_unique_addresses() {
            return node < entry;
        }
        // Members are in list order. One earlier generation satisfies a reference to an address.
        self.members(node).first().is_some_and(|&first| first < entry)
    }

    /// Whether each address has one entry. An entry and the node of its address then have the same number.
    pub(super) fn has_unique_addresses(&self) -> bool {
        self.addresses() == self.len()
    }

    /// Entries of a node, in list order: the live entry and all deposed ones of an address, or all live members of a
    /// group.
    pub(super) fn members(&self, node: u32) -> &[u32] {
        self.members.get(node, &self.address_of)
    }

    /// The references of the entry at a position, each with the positions of the entries that it refers to: all
    /// generations of an address, or all live members of a group; none if the target is missing.
    pub fn references(
        &self,
        position: usize,
    ) -> impl Iterator<Item = (ReferenceField, impl Iterator<Item = usize> + '_)> + '_ {
        let fields = self.entries[position].targets().map(|(field, _)| field);
        fields.zip(self.needs.get(position as u32)).map(|(field, &node)| {
            let members = if node == NONE { &[] } else { self.members(node) };
            (field, members.iter().map(|&member| member as usize))
        })
    }

    /// The entries of which this is the graph.
    pub fn entries(&self) -> &'a [SharedEntry] {
        self.entries
    }

    /// The number of entries.
    pub(super) fn len(&self) -> u32 {
        self.entries.len() as u32
    }

    /// Number of nodes that are addresses.
    pub(super) fn addresses(&self) -> u32 {
        self.addresses.len()
    }

    /// Number of all nodes.
    pub(super) fn nodes(&self) -> u32 {
        self.addresses.len() + self.groups.len()
    }

    /// Whether a node is an address; otherwise it is a group.
    pub(super) fn is_address(&self, node: u32) -> bool {
        node < self.addresses()
    }

    /// Node of a live entry's group, or [`NONE`].
    pub(super) fn group_of(&self, entry: u32) -> u32 {
        self.group_of.get(entry as usize).copied().unwrap_or(NONE)
    }

    /// The entries of an address, in list order.
    pub(crate) fn generations(&self, address: &Address) -> &[u32] {
        let node = self.addresses.find_text(address.as_str());
        node.map_or(&[], |node| self.members(node))
    }

    /// The live members of a group, in list order.
    pub(crate) fn live_members(&self, group: &Address) -> &[u32] {
        let group = self.groups.find_text(group.as_str());
        group.map_or(&[], |group| self.members(self.addresses() + group))
    }

    /// The entries of each address with several entries.
    pub(crate) fn shared_addresses(&self) -> impl Iterator<Item = &[u32]> {
        let nodes = if self.has_unique_addresses() {
            0..0
        } else {
            0..self.addresses()
        };
        nodes
            .map(|node| self.members(node))
            .filter(|members| members.len() > 1)
    }

    /// The number of edges: references to existing targets, and memberships.
    #[cfg(test)]
    pub(super) fn edges(&self) -> usize {
        let needs = self.needs.items().iter().filter(|node| **node != NONE);
        needs.count()
            + (0..self.nodes())
                .map(|node| self.members(node).len())
                .sum::<usize>()
    }

    /// Sorts entries by key, then by position.
    pub(super) fn by_key(&self, positions: impl Iterator<Item = u32>) -> Vec<u32> {
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
    fn ranks(&self) -> Vec<u32> {
        let mut ranks = vec![0; self.entries.len()];
        let mut rank = 0..;
        for node in by_text::sorted(&self.addresses.texts()) {
            let mut place = |position: u32| ranks[position as usize] = rank.next().unwrap_or(NONE);
            match self.members(node) {
                [only] => place(*only),
                several => self.by_key(several.iter().copied()).into_iter().for_each(place),
            }
        }
        ranks
    }
}

fn positions(order: &[u32]) -> Vec<usize> {
    order.iter().map(|&entry| entry as usize).collect()
}
