//! The dependency graph of a list of entries: topological orders and cycles.
//!
//! In *topological order*, each of an entry's [references](crate::Entry::references) is satisfied by entries that
//! come strictly earlier. A reference to an address needs *one* entry with this address, live or deposed; a reference
//! to a group needs *all* of its live members. In the graph, references lead from an entry to the node of an address or
//! group, and from the node to its entries. A group of N members with M dependents therefore has only N + M edges.
//! References to missing targets are ignored here; [`verify`](crate::verify) reports them.
//!
//! These functions find an order if and only if one exists. They place the entries one by one. When an address has
//! several generations (a live entry and deposed ones), a dependent waits until *all* of them are placed: deletions run
//! in the reverse order, and so delete the dependent before each generation. If no entry can be placed under this rule,
//! one address is *opened early*: its dependents then no longer wait for its remaining generations. An address whose
//! live entry has been placed is opened before an address of which only deposed entries have been placed. Of several
//! such addresses, the one whose placed entry has the smallest key is opened first (in [`stable_order`], the smallest
//! position).
//!
//! All functions are linear in the number of entries and references, apart from sorting by key. Most of the time goes
//! into looking up addresses. A caller that needs several of these functions, [`verify`](crate::verify) or
//! [`merge`](crate::merge) for one list makes a [`Graph`] once.

mod builder;
mod by_text;
mod cycle;
#[cfg(test)]
mod definition;
mod graph;
mod lists;
mod members;
mod names;
mod order;
mod rank_queue;
#[cfg(test)]
mod tests;

use crate::entry::SharedEntry;
pub use cycle::Cycle;
pub(crate) use cycle::format_cycle;
pub use graph::Graph;

/// Returns the positions of the entries in canonical order, which depends only on keys and references and not on the
/// given order: of the entries that may come next, the one with the smallest [`EntryKey`](crate::EntryKey) is next.
/// Entries with equal keys, which are invalid in a snapshot, keep their given order.
///
/// # Errors
/// A smallest [`Cycle`] if no order exists.
///
/// # Panics
/// If the list is too long for a [`Graph`].
pub fn topological_order(entries: &[SharedEntry]) -> Result<Vec<usize>, Cycle> {
    Graph::new(entries).topological_order()
}

/// Returns the positions of the entries in an order that moves few of them: a dependency that comes too late is moved
/// to just before the first entry that needs it; all other entries keep their order. A list in topological order is
/// returned unchanged.
///
/// # Errors
/// A smallest [`Cycle`] if no order exists.
///
/// # Panics
/// If the list is too long for a [`Graph`].
pub fn stable_order(entries: &[SharedEntry]) -> Result<Vec<usize>, Cycle> {
    Graph::new(entries).stable_order()
}
