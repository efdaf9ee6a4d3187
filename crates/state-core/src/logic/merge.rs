//! Seed 004's merge in value form: what an update has recorded so far, then what it hasn't touched.
//!
//! Seed 004 tells entries apart by pointer; here an [`EntryKey`] does, so lists can be copied, stored and
//! replayed.
//!
//! # Why the result is in topological order
//! Given that
//!
//! 1. `base` and `new` are each in topological order;
//! 2. an entry that is done leaves no gap: whenever an entry that is left of `base` refers to an address, some
//!    entry with that address is in `new`, or is left of `base` and stands earlier there;
//! 3. a group that an entry of `new` depends on has no live member left in `base`;
//!
//! then look at any entry of the result.
//!
//! - *It is from `new`.* What stands before it there stands before it here, so its addresses are met. A
//!   group's live members in `new` stand before it by (1); by (3) there are no others.
//! - *It is left of `base`.* All of `new` stands before it, and what is left of `base` keeps its order. An
//!   address is met by (2). A group's live members are in `new`, or left of `base`, where they stand earlier by
//!   (1).
//!
//! Keys are unique if they are in each list and the keys that `new` shares with `base` are in `done`.
//!
//! A tool keeps (2) and (3) by itself when it ends a step only after the steps of all that the entry refers to,
//! and deletes an entry only after what refers to it.

use crate::address::EntryKey;
use crate::entry::SharedEntry;
use std::collections::BTreeSet;

#[cfg(test)]
mod tests;

/// `new`, then what is left of `base` without the keys in `done`. Entries are shared, not copied.
///
/// In topological order under the conditions that the [module](self) states; they are not checked here.
pub fn merge(base: &[SharedEntry], new: &[SharedEntry], done: &BTreeSet<EntryKey>) -> Vec<SharedEntry> {
    let left = base.iter().filter(|entry| !done.contains(&entry.key()));
    new.iter().chain(left).cloned().collect()
}
