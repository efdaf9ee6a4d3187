//! The entries of the nodes of a graph.

use super::lists::{Lists, NONE};
use std::slice;

/// The entries of each node, in list order.
#[derive(Debug)]
pub(super) enum Members {
    /// Each address has one entry, whose position is the number of the node. Only groups have lists.
    UniqueAddresses { addresses: u32, groups: Lists },
    /// The entries of all nodes.
    All(Lists),
}

impl Members {
    /// Collects the entries of the nodes: first the addresses, then the groups.
    pub(super) fn collect(addresses: u32, address_of: &[u32], groups: u32, group_of: &[u32]) -> Self {
        let of_group = group_of.iter().copied().zip(0..);
        let of_group = of_group.filter(|(node, _)| *node != NONE);
        if addresses as usize == address_of.len() {
            let of_group = of_group.map(|(node, entry)| (node - addresses, entry));
            return Self::UniqueAddresses {
                addresses,
                groups: Lists::collect(groups, of_group),
            };
        }
        let of_address = address_of.iter().copied().zip(0..);
        Self::All(Lists::collect(addresses + groups, of_address.chain(of_group)))
    }

    /// Returns the entries of a node. `address_of` contains the node of each entry's address.
    pub(super) fn get<'m>(&'m self, node: u32, address_of: &'m [u32]) -> &'m [u32] {
        match self {
            // The entry with the same number has this node, so that the node's number also serves as its only member.
            Self::UniqueAddresses { addresses, .. } if node < *addresses => {
                slice::from_ref(&address_of[node as usize])
            }
            Self::UniqueAddresses { addresses, groups } => groups.get(node - addresses),
            Self::All(lists) => lists.get(node),
        }
    }
}
