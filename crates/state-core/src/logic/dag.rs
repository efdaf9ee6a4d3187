//! The graph of a list of entries: orders in which each entry comes after what it refers to, and cycles.
//!
//! The *topological law*: each of an entry's [references](crate::Entry::references) is met by what stands
//! strictly earlier. An address is met by any entry that has it, live or deposed; a group is met when all of
//! its live members stand. So an address asks for *one* of its generations and a group for *all* of its members:
//! both are nodes of their own between entries, which keeps a group of N members with M dependents at N + M
//! edges. What a reference names but nobody has is ignored here: [`verify`](crate::verify) reports it.
//!
//! An order exists exactly if these functions find one, although several generations of an address leave a
//! choice: a dependent waits for *all* of them, so that a reverse order deletes it before each of them. Only
//! when nothing else can go on is an address opened early: by preference one whose live entry stands already,
//! then the one with the smallest key.
//!
//! Everything here is linear in entries and references, apart from sorting by key.

mod cycle;
mod graph;
mod order;
#[cfg(test)]
mod tests;

use crate::entry::SharedEntry;
pub use cycle::Cycle;
pub(crate) use cycle::round;
use graph::Graph;

/// The positions of the entries in the one order that depends on nothing but keys and references, not on the
/// order in which they are given: of the entries that may come next, the smallest
/// [`EntryKey`](crate::EntryKey) comes. (Equal keys, illegal in a snapshot, keep their given order.)
///
/// # Errors
/// A smallest [`Cycle`] when there is no order.
pub fn topological_order(entries: &[SharedEntry]) -> Result<Vec<usize>, Cycle> {
    let graph = Graph::new(entries);
    match order::walk(&graph, &graph.ranks()) {
        Ok(walked) => Ok(positions(&walked.order)),
        Err(stuck) => Err(Cycle::smallest(&graph, &stuck)),
    }
}

/// The positions of the entries in an order that moves little: entries stay where they are, but what one of
/// them needs and doesn't have yet is pulled to just before it. A list that is in topological order stays as
/// it is.
///
/// # Errors
/// A smallest [`Cycle`] when there is no order.
pub fn stable_order(entries: &[SharedEntry]) -> Result<Vec<usize>, Cycle> {
    let graph = Graph::new(entries);
    if graph.is_in_order() {
        return Ok((0..entries.len()).collect());
    }
    let given: Vec<u32> = (0..graph.len()).collect();
    match order::walk(&graph, &given) {
        Ok(walked) => Ok(positions(&order::pulled(&graph, &walked.first))),
        Err(stuck) => Err(Cycle::smallest(&graph, &stuck)),
    }
}

fn positions(order: &[u32]) -> Vec<usize> {
    order.iter().map(|&entry| entry as usize).collect()
}
