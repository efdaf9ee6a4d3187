//! Marks of live entries.

use super::{Refusal, put};
use crate::address::{Address, EntryKey};
use crate::entry::{Entry, EntryType};
use crate::mutation::EditChange;
use crate::state::State;

/// What can be marked by hand.
#[derive(Clone, Copy, Debug)]
pub(super) enum EntryFlag {
    Protect,
    Taint,
}

impl EntryFlag {
    /// The changes that give entries the mark, or take it from them; none for those that have it as it should be.
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
            let key = EntryKey::live(address.clone());
            chosen.push(state.entry(&key).ok_or_else(missing)?);
        }
        let mut changes: Vec<EditChange> = Vec::new();
        for entry in chosen {
            let mut marked = Entry::clone(entry);
            match self {
                Self::Protect => marked.protect = value,
                Self::Taint => marked.tainted = value,
            }
            let change = put(entry, marked);
            let says_something = matches!(&change, EditChange::Put { entry: new, .. } if new != entry);
            if says_something && !changes.contains(&change) {
                changes.push(change);
            }
        }
        Ok(changes)
    }

    /// Whether `all` includes it: only what is ours to replace can be tainted.
    fn concerns(self, entry: &Entry) -> bool {
        match self {
            Self::Protect => true,
            Self::Taint => entry.tainted || (entry.entry_type == EntryType::Leaf && !entry.external),
        }
    }
}
