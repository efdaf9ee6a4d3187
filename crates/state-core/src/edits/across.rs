//! Which entries can go to another stack, and what both stacks are then.

use super::refusal::refuse_pending;
use super::{Dependent, Refusal};
use crate::address::{Address, Dependency, EntryKey};
use crate::entry::{Entry, SharedEntry};
use crate::environment::Timestamp;
use crate::mutation::EditChange;
use crate::revision::RevisionId;
use crate::state::State;
use crate::verify;
use std::collections::BTreeSet;

/// Which entries are to go to another stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MoveRequest {
    /// Their addresses, each with all of its generations, or groups with all of their members.
    pub addresses: Vec<Address>,
    /// What depends on them goes too.
    pub with_dependents: bool,
    /// What they depend on goes too.
    pub with_dependencies: bool,
}

/// A move that both stacks come through whole: nothing that stays depends on an entry that goes, nor the other way
/// round, and the destination has room for all of them.
///
/// Entries keep their order, their uids and their marks. In the destination they are the last ones.
#[derive(Clone, Debug)]
pub struct MovePlan {
    entries: Vec<SharedEntry>,
    source: State,
    destination: State,
}

impl MovePlan {
    /// Plans it. Neither state changes.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn new(source: &State, destination: &State, request: &MoveRequest) -> Result<Self, Refusal> {
        if source.lineage() == destination.lineage() {
            return Err(Refusal::SameStack);
        }
        let going = Going::of(source, request)?;
        let entries: Vec<SharedEntry> = source
            .entries()
            .filter(|entry| going.has(&entry.address))
            .cloned()
            .collect();
        going.refuse_bonds(&entries)?;
        going.refuse_pending(source)?;
        going.refuse_pending(destination)?;
        if let Some(address) = going
            .addresses
            .iter()
            .find(|address| is_there(destination, address))
        {
            let address = address.clone();
            return Err(Refusal::Taken { address });
        }
        let removed: Vec<_> = entries
            .iter()
            .map(|entry| EditChange::Remove(entry.key()))
            .collect();
        let appended: Vec<_> = entries.iter().cloned().map(EditChange::Append).collect();
        Ok(Self {
            source: changed(source, &removed)?,
            destination: changed(destination, &appended)?,
            entries,
        })
    }

    /// The entries that go, in order.
    pub fn entries(&self) -> &[SharedEntry] {
        &self.entries
    }

    /// The source as it would be.
    pub const fn source(&self) -> &State {
        &self.source
    }

    /// The destination as it would be.
    pub const fn destination(&self) -> &State {
        &self.destination
    }

    /// The current revisions, of source and destination, that it was planned on.
    pub const fn planned_on(&self) -> (Option<&RevisionId>, Option<&RevisionId>) {
        (self.source.current(), self.destination.current())
    }
}

/// The state after the changes, if both the rules of changes and the verifier find it whole.
fn changed(state: &State, changes: &[EditChange]) -> Result<State, Refusal> {
    let after = state
        .edited(changes)
        .map_err(|violations| Refusal::Breaks { violations })?;
    let violations = verify::verify(&after.snapshot("", Timestamp::new(""))).violations;
    if violations.is_empty() {
        return Ok(after);
    }
    Err(Refusal::Breaks { violations })
}

fn is_there(state: &State, address: &Address) -> bool {
    state.generations(address).next().is_some()
}

/// The addresses that go, each with all of its generations.
struct Going<'a> {
    state: &'a State,
    addresses: BTreeSet<Address>,
}

impl<'a> Going<'a> {
    fn of(state: &'a State, request: &MoveRequest) -> Result<Self, Refusal> {
        let mut going = Self {
            state,
            addresses: BTreeSet::new(),
        };
        let mut open = Vec::new();
        for address in &request.addresses {
            if is_there(state, address) {
                open.push(address.clone());
                continue;
            }
            let before = open.len();
            let members = state
                .entries()
                .filter(|entry| entry.group.as_ref() == Some(address));
            open.extend(members.map(|member| member.address.clone()));
            if open.len() == before {
                let address = address.clone();
                return Err(Refusal::NoEntry { address, live: false });
            }
        }
        let mut groups = BTreeSet::new();
        while let Some(address) = open.pop() {
            if !going.addresses.insert(address.clone()) {
                continue;
            }
            for generation in state.generations(&address) {
                if request.with_dependents {
                    open.extend(going.dependents(generation, &mut groups));
                }
                if request.with_dependencies {
                    open.extend(going.dependencies(generation));
                }
            }
        }
        Ok(going)
    }

    fn has(&self, address: &Address) -> bool {
        self.addresses.contains(address)
    }

    /// What refers to an entry, or to its group. Groups that were looked at are left out.
    fn dependents(&self, entry: &Entry, groups: &mut BTreeSet<Address>) -> Vec<Address> {
        let own = Dependency::Entry(entry.address.clone());
        let group = entry.live_group().filter(|group| groups.insert((*group).clone()));
        std::iter::once(own)
            .chain(group.cloned().map(Dependency::Group))
            .flat_map(|target| {
                let dependents = self.state.dependents(&target);
                dependents.map(|entry| entry.address.clone()).collect::<Vec<_>>()
            })
            .collect()
    }

    /// What an entry refers to: addresses, and the members of groups.
    fn dependencies(&self, entry: &Entry) -> Vec<Address> {
        let mut addresses = Vec::new();
        for reference in entry.references() {
            match reference.to {
                Dependency::Entry(address) => addresses.push(address),
                Dependency::Group(group) => {
                    let members = self.state.members(&group);
                    addresses.extend(members.map(|member| member.address.clone()));
                }
            }
        }
        addresses
    }

    /// Refused while something on one side of the cut depends on the other.
    fn refuse_bonds(&self, entries: &[SharedEntry]) -> Result<(), Refusal> {
        let mut targets = BTreeSet::new();
        let mut dependencies = BTreeSet::new();
        for entry in entries {
            targets.insert(Dependency::Entry(entry.address.clone()));
            targets.extend(entry.live_group().cloned().map(Dependency::Group));
            for reference in entry.references() {
                let stays = match &reference.to {
                    Dependency::Entry(address) => !self.has(address),
                    Dependency::Group(group) => {
                        self.state.members(group).any(|member| !self.has(&member.address))
                    }
                };
                if stays {
                    dependencies.insert(dependent(entry, &reference.to));
                }
            }
        }
        let mut dependents = BTreeSet::new();
        for target in &targets {
            let staying = self
                .state
                .dependents(target)
                .filter(|entry| !self.has(&entry.address));
            dependents.extend(staying.map(|entry| dependent(entry, target)));
        }
        if !dependents.is_empty() {
            return Err(Refusal::Dependents(dependents.into_iter().collect()));
        }
        if !dependencies.is_empty() {
            return Err(Refusal::Dependencies(dependencies.into_iter().collect()));
        }
        Ok(())
    }

    /// Refused while an operation is pending on what goes, or refers to it.
    fn refuse_pending(&self, state: &State) -> Result<(), Refusal> {
        let concerns = |key: &EntryKey| self.has(&key.address);
        refuse_pending(state, concerns, |to| match to {
            Dependency::Entry(address) => self.has(address),
            Dependency::Group(group) => self.state.members(group).any(|member| self.has(&member.address)),
        })
    }
}

fn dependent(entry: &Entry, on: &Dependency) -> Dependent {
    Dependent {
        entry: entry.key(),
        on: on.clone(),
    }
}
