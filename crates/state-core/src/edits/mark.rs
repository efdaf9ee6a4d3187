//! Flags of live entries that can be set manually.

use super::selection::selected;
use super::{Refusal, put};
use crate::address::Address;
use crate::entry::{Entry, EntryType};
use crate::mutation::EditChange;
use crate::state::State;

/// The flags that can be set manually.
#[derive(Clone, Copy, Debug)]
pub(super) enum EntryFlag {
    Protect,
    Taint,
}

impl EntryFlag {
    /// Returns the changes that set or clear the flag. Entries that already have the value are skipped.
    pub(super) fn plan(
        self,
        state: &State,
        value: bool,
        addresses: &[Address],
        all: bool,
    ) -> Result<Vec<EditChange>, Refusal> {
        let mut chosen = Vec::new();
        if all {
            chosen.extend(
                state
                    .entries()
                    .filter(|entry| entry.is_live() && self.concerns(entry)),
            );
        }
        for address in addresses {
            let missing = || Refusal::NoEntry {
                address: address.clone(),
                live: true,
            };
            let before = chosen.len();
            chosen.extend(
                selected(state, address)
                    .into_iter()
                    .filter(|entry| entry.is_live()),
            );
            if before == chosen.len() {
                return Err(missing());
            }
        }
        let mut changes: Vec<EditChange> = Vec::new();
        for entry in chosen {
            let mut marked = Entry::clone(entry);
            match self {
                Self::Protect => marked.protect = value,
                Self::Taint => marked.tainted = value,
            }
            let change = put(entry, marked);
            let is_change = matches!(&change, EditChange::Put { entry: new, .. } if new != entry);
            if is_change && !changes.contains(&change) {
                changes.push(change);
            }
        }
        Ok(changes)
    }

    /// Whether [`Self::plan`] with `all` selects the entry. Only managed resources can be tainted. A tainted entry of
    /// any type is selected too, so that its flag can be cleared.
    fn concerns(self, entry: &Entry) -> bool {
        match self {
            Self::Protect => true,
            Self::Taint => entry.tainted || (entry.entry_type == EntryType::Leaf && !entry.external),
        }
    }
}
