//! Changes of a state by hand that leave it whole: move, remove, mark.
//!
//! A [`Surgery`] performs [`Operation`]s on a copy of a state, one after the other, each of them judged by the rules
//! of the state; what comes out is one list of [`EditChange`]s for one [`Edit`](crate::mutation::Edit). Nothing
//! touches the world, and no entry goes that wasn't named, or depends on one that was and `cascade` was said.
//!
//! | operation | does |
//! |---|---|
//! | mv | every generation of an address, or every member of a group, gets another address; whatever refers to it follows; uids stay |
//! | rm | entries go; refused while something depends on them, unless `cascade` (the dependents go too) or `force` (their references are pruned) |
//! | protect, unprotect, taint, untaint | the mark of live entries |
//!
//! A [`MovePlan`] says which entries can go to another stack; they keep everything, so whatever is bound to them goes
//! too or nothing goes.
//!
//! An entry that goes hands its dependencies down to its dependents, so that an order which was only implied through it
//! isn't lost: tools reduce lists of dependencies in that way.
//!
//! ```
//! use state_core::edits::{Operation, Surgery};
//! use state_core::{Dependency, Entry, FactoryInfo, Lineage, Snapshot, State, Timestamp};
//!
//! let mut subnet = Entry::leaf("subnet".parse()?, "aws_subnet");
//! subnet.depends_on.push(Dependency::Entry("vpc".parse()?));
//! let mut snapshot = Snapshot::new(FactoryInfo::default(), "net", Timestamp::new("2026-01-01T00:00:00Z"));
//! snapshot.lineage = Some(Lineage::from_bits([1; 16]));
//! snapshot.entries = vec![Entry::leaf("vpc".parse()?, "aws_vpc").into(), subnet.into()];
//! let state = State::from_snapshot(Lineage::from_bits([1; 16]), &snapshot)?;
//!
//! let mut edits = Surgery::on(&state);
//! edits.perform(&Operation::Mv { from: "vpc".parse()?, to: "network".parse()? })?;
//! assert_eq!(edits.changes().len(), 2); // the entry, and the one that refers to it
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod across;
mod mark;
mod moving;
mod refusal;
mod removal;
#[cfg(test)]
mod tests;

pub use across::{MovePlan, MoveRequest};
pub use refusal::{Dependent, Refusal};

use crate::address::{Address, DeposedKey, EntryKey};
use crate::entry::Entry;
use crate::mutation::EditChange;
use crate::state::State;
use mark::EntryFlag;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One operation. In JSON: `{"op": "mv", "from": "a", "to": "b"}`, `{"op": "rm", "addresses": ["a"], "cascade": true}`,
/// `{"op": "taint", "addresses": ["a"]}`, `{"op": "protect", "all": true}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Operation {
    /// Gives an entry another address, all of its generations alike. The address of a group moves its members, which
    /// keep what their addresses have behind it, `[0]` say.
    ///
    /// A group that is the address without its indexes, as Terraform has it, follows the address. Any other group stays.
    Mv {
        /// The address now.
        from: Address,
        /// The address then; nothing may have it.
        to: Address,
    },
    /// Takes entries out of the record.
    Rm {
        /// Which, each with all of its generations.
        addresses: Vec<Address>,
        /// Only the generations with this key.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deposed: Option<DeposedKey>,
        /// What depends on them goes too.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        cascade: bool,
        /// Protected entries and those with pending operations go as well; what depends on an entry that goes is pruned.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        force: bool,
    },
    /// Deleting them is refused from now on.
    Protect {
        /// Which live entries.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        addresses: Vec<Address>,
        /// All live entries.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        all: bool,
    },
    /// Deleting them is allowed again.
    Unprotect {
        /// Which live entries.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        addresses: Vec<Address>,
        /// All live entries.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        all: bool,
    },
    /// They are to be replaced at the next update.
    Taint {
        /// Which live entries.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        addresses: Vec<Address>,
        /// All live resources that are ours.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        all: bool,
    },
    /// They are not to be replaced after all.
    Untaint {
        /// Which live entries.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        addresses: Vec<Address>,
        /// All live entries.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        all: bool,
    },
}

/// Operations on a copy of a state.
#[derive(Clone, Debug)]
pub struct Surgery {
    state: State,
    changes: Vec<EditChange>,
}

impl Surgery {
    /// Begins. The state itself stays as it is.
    pub fn on(state: &State) -> Self {
        Self {
            state: state.clone(),
            changes: Vec::new(),
        }
    }

    /// The state as it would be.
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// What is to be changed so far, in this order.
    pub fn changes(&self) -> &[EditChange] {
        &self.changes
    }

    /// What is to be changed, in this order. Empty when the operations changed nothing.
    pub fn into_changes(self) -> Vec<EditChange> {
        self.changes
    }

    /// Performs an operation.
    ///
    /// # Errors
    /// Why it is refused; then nothing of it was done.
    pub fn perform(&mut self, operation: &Operation) -> Result<(), Refusal> {
        let (state, changes) = (self.state.clone(), self.changes.len());
        let performed = self.try_perform(operation);
        if performed.is_err() {
            self.state = state;
            self.changes.truncate(changes);
        }
        performed
    }

    fn try_perform(&mut self, operation: &Operation) -> Result<(), Refusal> {
        match operation {
            Operation::Mv { from, to } => self.move_all(from, to),
            Operation::Rm {
                addresses,
                deposed,
                cascade,
                force,
            } => {
                let request = removal::Request {
                    addresses,
                    deposed: deposed.as_ref(),
                    cascade: *cascade,
                    force: *force,
                };
                self.change(removal::plan(&self.state, &request)?)
            }
            Operation::Protect { addresses, all } => self.mark(EntryFlag::Protect, true, addresses, *all),
            Operation::Unprotect { addresses, all } => self.mark(EntryFlag::Protect, false, addresses, *all),
            Operation::Taint { addresses, all } => self.mark(EntryFlag::Taint, true, addresses, *all),
            Operation::Untaint { addresses, all } => self.mark(EntryFlag::Taint, false, addresses, *all),
        }
    }

    /// Puts another entry in the place of one; its key may be another one too, but what refers to it doesn't follow.
    ///
    /// # Errors
    /// Why it is refused; then nothing was done.
    pub fn put(&mut self, target: &EntryKey, entry: Entry) -> Result<(), Refusal> {
        if self.state.entry(target).is_some_and(|old| **old == entry) {
            return Ok(());
        }
        self.change(vec![EditChange::Put {
            target: target.clone(),
            entry: Arc::new(entry),
        }])
    }

    fn mark(
        &mut self,
        mark: EntryFlag,
        value: bool,
        addresses: &[Address],
        all: bool,
    ) -> Result<(), Refusal> {
        self.change(mark.plan(&self.state, value, addresses, all)?)
    }

    fn change(&mut self, changes: Vec<EditChange>) -> Result<(), Refusal> {
        if !changes.is_empty() {
            self.state = self
                .state
                .edited(&changes)
                .map_err(|violations| Refusal::Breaks { violations })?;
            self.changes.extend(changes);
        }
        Ok(())
    }
}

/// A change of an entry in its place.
fn put(target: &Entry, entry: Entry) -> EditChange {
    EditChange::Put {
        target: target.key(),
        entry: Arc::new(entry),
    }
}
