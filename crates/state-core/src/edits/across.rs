//! Plans moves to another stack: selects the entries, and computes both stacks after the move.

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

/// A request to move entries to another stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MoveRequest {
    /// Addresses of entries, each with all generations, or groups with all members.
    pub addresses: Vec<Address>,
    /// Also moves the entries that depend on the selected entries.
    pub with_dependents: bool,
    /// Also moves the entries that the selected entries depend on.
    pub with_dependencies: bool,
}

/// A validated move that leaves both stacks consistent: no dependency connects a moved entry with a remaining entry of
/// the source, and the destination contains no moved address or uid yet.
///
/// The moved entries keep their order, uids and flags, and are appended to the destination.
#[derive(Clone, Debug)]
pub struct MovePlan {
    entries: Vec<SharedEntry>,
    source: State,
    destination: State,
}

impl MovePlan {
    /// Plans the move. Neither state changes.
    ///
    /// # Errors
    /// The reason for refusing the move.
    pub fn new(source: &State, destination: &State, request: &MoveRequest) -> Result<Self, Refusal> {
        if source.lineage() == destination.lineage() {
            return Err(Refusal::SameStack);
        }
        let moving = MoveSet::of(source, request)?;
        let entries: Vec<SharedEntry> = source
            .entries()
            .filter(|entry| moving.has(&entry.address))
            .cloned()
            .collect();
        moving.refuse_bonds(&entries)?;
        moving.refuse_pending(source)?;
        moving.refuse_pending(destination)?;
        if let Some(address) = moving
            .addresses
            .iter()
            .find(|address| exists(destination, address))
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

    /// The moved entries, in topological order.
    pub fn entries(&self) -> &[SharedEntry] {
        &self.entries
    }

    /// The source after the move.
    pub const fn source(&self) -> &State {
        &self.source
    }

    /// The destination after the move.
    pub const fn destination(&self) -> &State {
        &self.destination
    }

    /// The current revisions of source and destination at the time of planning.
    pub const fn planned_on(&self) -> (Option<&RevisionId>, Option<&RevisionId>) {
        (self.source.current(), self.destination.current())
    }
}

/// Returns the state after the changes if neither the incremental check nor the full verifier reports a violation.
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

fn exists(state: &State, address: &Address) -> bool {
    state.generations(address).next().is_some()
}

/// The addresses that move, each with all generations.
struct MoveSet<'a> {
    state: &'a State,
    addresses: BTreeSet<Address>,
}

impl<'a> MoveSet<'a> {
    /// Selects the requested entries, and then their transitive dependents and dependencies as requested.
    fn of(state: &'a State, request: &MoveRequest) -> Result<Self, Refusal> {
        let mut moving = Self {
            state,
            addresses: BTreeSet::new(),
        };
        let mut open = Vec::new();
        for address in &request.addresses {
            if exists(state, address) {
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
            if !moving.addresses.insert(address.clone()) {
                continue;
            }
            for generation in state.generations(&address) {
                if request.with_dependents {
                    open.extend(moving.dependents(generation, &mut groups));
                }
                if request.with_dependencies {
                    open.extend(moving.dependencies(generation));
                }
            }
        }
        Ok(moving)
    }

    fn has(&self, address: &Address) -> bool {
        self.addresses.contains(address)
    }

    /// Addresses of the entries that refer to an entry or to its group. Groups in `groups` have been visited and are
    /// skipped.
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

    /// Addresses of the dependencies of an entry, including the members of groups.
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

    /// Refuses the move if a dependency connects a moved entry with a remaining entry.
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

    /// Refuses the move if a pending operation of `state` targets a moved address, or stores an entry that refers to a
    /// moved address.
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
