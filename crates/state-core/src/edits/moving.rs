//! Changes the address of an entry, or the addresses of all members of a group or of all entries in a container.

use super::refusal::refuse_pending;
use super::selection::{contained, place_in};
use super::{Refusal, StateEditor, put};
use crate::address::{Address, Dependency, EntryKey};
use crate::entry::{Entry, SharedEntry};
use crate::mutation::EditChange;
use crate::state::State;
use std::collections::BTreeSet;

impl StateEditor {
    /// Moves the entry at `from`, the members of the group with this name, or the entries in the container with this name.
    pub(super) fn move_all(&mut self, from: &Address, to: &Address) -> Result<(), Refusal> {
        if self.state.generations(from).next().is_some() {
            return self.change(plan(&self.state, from, to)?);
        }
        let members: Vec<EntryKey> = self
            .state
            .entries()
            .filter(|entry| entry.group.as_ref() == Some(from))
            .map(|entry| entry.key())
            .collect();
        if members.is_empty() {
            return self.move_container(from, to);
        }
        let addresses: BTreeSet<Address> = members.iter().map(|member| member.address.clone()).collect();
        for address in addresses {
            let index = address.as_str().strip_prefix(from.as_str());
            let moved = index
                .filter(|index| index.starts_with('['))
                .and_then(|index| Address::new(format!("{to}{index}")).ok());
            let Some(moved) = moved else {
                return Err(Refusal::Unprefixed {
                    group: from.clone(),
                    member: EntryKey::live(address),
                });
            };
            self.change(plan(&self.state, &address, &moved)?)?;
        }
        Ok(())
    }

    /// Moves all entries in the container at `from`, such as a module.
    fn move_container(&mut self, from: &Address, to: &Address) -> Result<(), Refusal> {
        let addresses: BTreeSet<Address> = contained(&self.state, from)
            .map(|entry| entry.address.clone())
            .collect();
        if addresses.is_empty() {
            let address = from.clone();
            return Err(Refusal::NoEntry { address, live: false });
        }
        // Two containers are never merged: it couldn't be undone by a move back.
        let is_taken = |entry: &SharedEntry| entry.address == *to || !addresses.contains(&entry.address);
        let occupied = || contained(&self.state, to).chain(self.state.generations(to));
        if occupied().any(is_taken) {
            return Err(Refusal::Taken { address: to.clone() });
        }
        for address in &addresses {
            let place = place_in(address, from).unwrap_or_default();
            let moved = Address::new(format!("{to}{place}")).map_err(|_| Refusal::TooLong {
                address: address.clone(),
            })?;
            self.change(plan(&self.state, address, &moved)?)?;
        }
        Ok(())
    }
}

/// Returns the changes that move all generations of an address.
fn plan(state: &State, from: &Address, to: &Address) -> Result<Vec<EditChange>, Refusal> {
    if state.generations(to).next().is_some() {
        return Err(Refusal::Taken { address: to.clone() });
    }
    let groups = Groups::new(state, from, to);
    let targets = groups.targets();
    let concerns = |key: &EntryKey| key.address == *from || key.address == *to;
    refuse_pending(state, concerns, |reference| targets.contains(reference))?;
    let mut changes = Vec::new();
    for entry in state.generations(from) {
        let mut moved = groups.follow(entry).unwrap_or_else(|| Entry::clone(entry));
        moved.address = to.clone();
        if let Some((old, new)) = &groups.renamed
            && moved.group.as_ref() == Some(old)
        {
            moved.group = Some(new.clone());
        }
        changes.push(put(entry, moved));
    }
    let mut seen = BTreeSet::new();
    for target in &targets {
        for entry in state.dependents(target) {
            if entry.address != *from
                && seen.insert(entry.key())
                && let Some(followed) = groups.follow(entry)
            {
                changes.push(put(entry, followed));
            }
        }
    }
    Ok(changes)
}

/// How references to a moved entry and to its group change.
struct Groups<'a> {
    from: &'a Address,
    to: &'a Address,
    /// Group that is renamed together with the address: old and new name.
    renamed: Option<(Address, Address)>,
    /// Whether the moved entry is a live member of the group. If so, the dependents of the group are updated.
    is_member: bool,
    /// Whether the moved entry is the only member of the old group.
    is_last: bool,
}

impl<'a> Groups<'a> {
    /// Determines which group is renamed when an entry moves from `from` to `to`: the group whose name equals the old
    /// address without indexes.
    fn new(state: &State, from: &'a Address, to: &'a Address) -> Self {
        let (old, new) = (without_indexes(from), without_indexes(to));
        let follows = state
            .generations(from)
            .any(|entry| entry.group.as_ref().is_some_and(|group| group.as_str() == old));
        let renamed = Address::new(old).ok().zip(Address::new(new).ok());
        let renamed = renamed.filter(|(old, new)| follows && old != new);
        let (mut is_member, mut is_last) = (false, true);
        for member in renamed.iter().flat_map(|(old, _)| state.members(old)) {
            let is_moved = member.address == *from;
            is_member |= is_moved;
            is_last &= is_moved;
        }
        Self {
            from,
            to,
            renamed,
            is_member,
            is_last,
        }
    }

    /// Returns the targets whose dependents must be updated.
    fn targets(&self) -> Vec<Dependency> {
        let group = self.renamed.iter().map(|(old, _)| Dependency::Group(old.clone()));
        std::iter::once(Dependency::Entry(self.from.clone()))
            .chain(group)
            .collect()
    }

    /// Returns the entry with updated references; `None` if none of them changes.
    fn follow(&self, entry: &Entry) -> Option<Entry> {
        let group = self.renamed.as_ref().filter(|_| self.is_member);
        // An entry can't depend on its own group, so a member of the new group depends on the moved entry instead.
        let new_group = |new: &Address| match &entry.group {
            Some(own) if own == new && entry.is_live() => Dependency::Entry(self.to.clone()),
            _ => Dependency::Group(new.clone()),
        };
        let mut followed = entry.with_references(|_, to| match (to, group) {
            (Dependency::Entry(address), _) if address == self.from => {
                Some(Dependency::Entry(self.to.clone()))
            }
            (Dependency::Group(named), Some((old, new))) if named == old && self.is_last => {
                Some(new_group(new))
            }
            _ => Some(to.clone()),
        });
        // The old group has other members, so a dependent of the group keeps this dependency. It also gets a dependency
        // on the new group: otherwise it would no longer depend on the moved entry.
        if let Some((old, new)) = group.filter(|_| !self.is_last) {
            let waits = entry
                .references()
                .any(|reference| reference.to == Dependency::Group(old.clone()));
            let also = new_group(new);
            let has = entry.references().any(|reference| reference.to == also);
            if waits && !has {
                followed
                    .get_or_insert_with(|| entry.clone())
                    .depends_on
                    .push(also);
            }
        }
        followed
    }
}

/// Strips the indexes of an address: `module.m.web` for `module.m["a"].web[0]`.
fn without_indexes(address: &Address) -> String {
    let (mut quoted, mut escaped, mut depth) = (false, false, 0_u32);
    let mut text = String::new();
    for c in address.as_str().chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' if depth > 0 => quoted = !quoted,
            '[' if !quoted => depth += 1,
            ']' if !quoted && depth > 0 => {
                depth -= 1;
                continue;
            }
            _ => {}
        }
        if depth == 0 {
            text.push(c);
        }
    }
    text
}
