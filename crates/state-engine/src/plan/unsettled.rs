//! What an operation of which nobody knows how it ended may need: that must not go before it is settled.

use state_core::{Address, Entry, EntryKey, State};
use std::collections::BTreeMap;

/// Addresses and groups that something with a pending operation refers to, if it was made as it was meant to be.
pub(crate) fn needed_by_unsettled(state: &State) -> BTreeMap<Address, EntryKey> {
    let mut needed = BTreeMap::new();
    for operation in state.pending() {
        for reference in operation.entry.iter().flat_map(|meant| meant.references()) {
            let address = reference.to.address().clone();
            needed.entry(address).or_insert_with(|| operation.target.clone());
        }
    }
    needed
}

/// Who may need an entry, whichever generation it is: nobody can tell which one was meant.
pub(crate) fn unsettled<'n>(needed: &'n BTreeMap<Address, EntryKey>, entry: &Entry) -> Option<&'n EntryKey> {
    let group = || entry.group.as_ref().and_then(|group| needed.get(group));
    let by = needed.get(&entry.address).or_else(group);
    by.filter(|by| **by != entry.key())
}

/// Why it may not go.
pub(crate) fn may_be_needed(by: &EntryKey) -> String {
    format!("{by} may need it and has a pending operation, which has to be settled first")
}
