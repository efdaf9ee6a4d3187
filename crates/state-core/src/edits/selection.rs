//! The entries that an address selects: an entry, the members of a group, or the entries in a container such as a module.

use crate::address::Address;
use crate::entry::SharedEntry;
use crate::state::State;

/// Returns the entries that an address selects, in the order of the state: all generations at the address; if it has none,
/// the members of the group with this name; if there is no such group, the entries in the container with this name.
///
/// The entries in a container are those whose address continues the name with `.` or `[`, such as `module.a.web[0]` and
/// `module.a["x"].web` for `module.a`.
pub fn selected<'s>(state: &'s State, address: &'s Address) -> Vec<&'s SharedEntry> {
    let exact: Vec<_> = state.generations(address).collect();
    if !exact.is_empty() {
        return exact;
    }
    let members: Vec<_> = state
        .entries()
        .filter(|entry| entry.group.as_ref() == Some(address))
        .collect();
    if !members.is_empty() {
        return members;
    }
    contained(state, address).collect()
}

/// Returns the entries in a container, in the order of the state.
pub(super) fn contained<'s>(
    state: &'s State,
    container: &'s Address,
) -> impl Iterator<Item = &'s SharedEntry> {
    state
        .entries()
        .filter(move |entry| place_in(&entry.address, container).is_some())
}

/// Returns the part of an address after the name of its container; `None` if the address isn't in the container.
pub(super) fn place_in<'a>(address: &'a Address, container: &Address) -> Option<&'a str> {
    let place = address.as_str().strip_prefix(container.as_str())?;
    place.starts_with(['.', '[']).then_some(place)
}
