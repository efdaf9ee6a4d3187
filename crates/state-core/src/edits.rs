//! Manual changes of a state that keep the state consistent: moving and removing entries, and setting their flags.
//!
//! A [`StateEditor`] performs [`Operation`]s on a copy of a state, one after the other, and checks each against the
//! integrity rules. The result is a list of [`EditChange`]s for one [`Edit`](crate::mutation::Edit). No operation
//! changes real resources. An operation removes only the entries that it names; with `cascade`, it also removes their
//! dependents. The live entry of an address and its deposed entries are called *generations* of the address.
//!
//! | operation | effect |
//! |---|---|
//! | mv | every generation of an address, every member of a group, or every entry in a container gets another address; references to them are updated; uids stay |
//! | rm | removes entries; refused while an entry depends on them, except with `cascade` (removes the dependents too) or `force` (prunes their references) |
//! | protect, unprotect, taint, untaint | sets or clears a flag of live entries |
//!
//! A [`MovePlan`] moves entries to another stack. The entries keep all their references, so entries that refer to each
//! other move together or not at all.
//!
//! A removed entry passes its dependencies on to its dependents. Tools leave out dependencies that follow from others:
//! if `a` depends on `b` and `b` on `c`, the list of `a` may not contain `c`. If the removal of `b` didn't give `a` the
//! dependency on `c`, a later update could delete `c` before `a`.
//!
//! ```
//! use state_core::edits::{Operation, StateEditor};
//! use state_core::{Dependency, Entry, FactoryInfo, Lineage, Snapshot, State, Timestamp};
//!
//! let mut subnet = Entry::leaf("subnet".parse()?, "aws_subnet");
//! subnet.depends_on.push(Dependency::Entry("vpc".parse()?));
//! let mut snapshot = Snapshot::new(FactoryInfo::default(), "net", Timestamp::new("2026-01-01T00:00:00Z"));
//! snapshot.lineage = Some(Lineage::from_bits([1; 16]));
//! snapshot.entries = vec![Entry::leaf("vpc".parse()?, "aws_vpc").into(), subnet.into()];
//! let state = State::from_snapshot(Lineage::from_bits([1; 16]), &snapshot)?;
//!
//! let mut edits = StateEditor::on(&state);
//! edits.perform(&Operation::Mv { from: "vpc".parse()?, to: "network".parse()? })?;
//! assert_eq!(edits.changes().len(), 2); // the moved entry, and the entry that refers to it
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod across;
mod mark;
mod moving;
mod refusal;
mod removal;
mod selection;
#[cfg(test)]
mod tests;

pub use across::{MovePlan, MoveRequest};
pub use refusal::{Dependent, Refusal};
pub use selection::selected;

use crate::address::{Address, DeposedKey, EntryKey};
use crate::entry::Entry;
use crate::mutation::EditChange;
use crate::state::State;
use mark::EntryFlag;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One edit operation. In JSON: `{"op": "mv", "from": "a", "to": "b"}`, `{"op": "rm", "addresses": ["a"], "cascade":
/// true}`, `{"op": "taint", "addresses": ["a"]}`, `{"op": "protect", "all": true}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Operation {
    /// Changes the address of an entry and all of its generations. If `from` is the address of a group, changes the
    /// addresses of all its members; the part after the group's name, such as `[0]`, is kept. If `from` is neither, it is
    /// a container, such as a module: changes the addresses of all entries [in it](selected), if `to` contains none.
    ///
    /// A group whose name equals the address without indexes, as in Terraform, is renamed too. Other groups keep their
    /// names.
    Mv {
        /// Current address of the entry.
        from: Address,
        /// New address, which must be free.
        to: Address,
    },
    /// Removes entries from the state without deleting their resources.
    Rm {
        /// Addresses of the entries, each with all generations, or of groups or containers of entries.
        addresses: Vec<Address>,
        /// Restricts the removal to generations with this deposed key.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deposed: Option<DeposedKey>,
        /// Also removes the entries that depend on the removed entries.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        cascade: bool,
        /// Also removes protected entries and entries with pending operations, and prunes references to removed
        /// entries.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        force: bool,
    },
    /// Protects the entries from deletion.
    Protect {
        /// Addresses of live entries.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        addresses: Vec<Address>,
        /// Selects all live entries.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        all: bool,
    },
    /// Allows deletion of the entries again.
    Unprotect {
        /// Addresses of live entries.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        addresses: Vec<Address>,
        /// Selects all live entries.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        all: bool,
    },
    /// Marks the entries for replacement by the next update.
    Taint {
        /// Addresses of live entries.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        addresses: Vec<Address>,
        /// Selects all live resources that this stack manages.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        all: bool,
    },
    /// Clears the mark for replacement.
    Untaint {
        /// Addresses of live entries.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        addresses: Vec<Address>,
        /// Selects all live entries.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        all: bool,
    },
}

/// Performs edit operations on a copy of a state.
#[derive(Clone, Debug)]
pub struct StateEditor {
    state: State,
    changes: Vec<EditChange>,
}

impl StateEditor {
    /// Creates an editor on a copy of the state.
    pub fn on(state: &State) -> Self {
        Self {
            state: state.clone(),
            changes: Vec::new(),
        }
    }

    /// The state after the changes so far.
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// The changes so far, in order.
    pub fn changes(&self) -> &[EditChange] {
        &self.changes
    }

    /// Returns the changes, in order. Empty if the operations changed nothing.
    pub fn into_changes(self) -> Vec<EditChange> {
        self.changes
    }

    /// Performs an operation completely or not at all.
    ///
    /// # Errors
    /// Returns the reason for refusing the operation, and leaves the editor unchanged.
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

    /// Replaces an entry, possibly under another key. References to the entry are not updated.
    ///
    /// # Errors
    /// Returns the reason for refusing the change, and leaves the editor unchanged.
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

    /// Applies the changes to the copy and records them; refuses them if they break an integrity rule.
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

/// Returns the change that replaces an entry in place.
fn put(target: &Entry, entry: Entry) -> EditChange {
    EditChange::Put {
        target: target.key(),
        entry: Arc::new(entry),
    }
}
