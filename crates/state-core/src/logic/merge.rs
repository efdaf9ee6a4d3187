//! Merges the entries that an update has recorded (`new`) with the rest of the snapshot on which it began (`base`). The
//! keys in `done` are those of base entries that the update has recorded again or deleted.
//!
//! Pulumi's snapshot manager identifies entries by pointer. Here an [`EntryKey`] identifies them, so lists can be
//! copied, stored and replayed.
//!
//! This is a function for tools that keep both lists themselves. [`State`](crate::State) keeps its entries in the same order
//! by positions, and doesn't call it.
//!
//! # Why the result is in topological order
//! Suppose that
//!
//! 1. `base` and `new` are each in topological order;
//! 2. removing the entries in `done` leaves no gap: whenever a remaining entry of `base` refers to an address, some
//!    entry with that address is in `new`, or remains in `base` and comes earlier there;
//! 3. a group that an entry of `new` depends on has no remaining live member in `base`.
//!
//! Then every entry of the result comes after its dependencies:
//!
//! - *Entries of `new`.* All entries before such an entry in `new` are before it in the result, so its references to
//!   addresses are satisfied. The live members of a group in `new` come before the entry by (1); by (3) the group has
//!   no other live members.
//! - *Remaining entries of `base`.* All entries of `new` come before them, and they keep their own order. Their
//!   references to addresses are satisfied by (2). The live members of a group that they depend on are in `new`, or
//!   remain in `base`, where they come earlier by (1).
//!
//! Keys are unique if they are unique in each list, and `done` contains the keys that `new` shares with `base`.
//!
//! A tool satisfies (2) and (3) if it ends a step only after the steps of all dependencies of the entry, and deletes
//! an entry only after its dependents.

use crate::address::EntryKey;
use crate::entry::SharedEntry;
use std::collections::BTreeSet;

#[cfg(test)]
mod tests;

/// Returns `new`, followed by the entries of `base` whose keys are not in `done`. Entries are shared, not copied.
///
/// The result is in topological order under the conditions in the [module documentation](self), which this function
/// does not check.
pub fn merge(base: &[SharedEntry], new: &[SharedEntry], done: &BTreeSet<EntryKey>) -> Vec<SharedEntry> {
    let left = base.iter().filter(|entry| !done.contains(&entry.key()));
    new.iter().chain(left).cloned().collect()
}
