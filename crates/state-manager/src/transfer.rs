//! Entries and stacks that go elsewhere: moves between two stacks of a store, and copies to another store.

pub(crate) mod copy;
pub(crate) mod moves;
pub(crate) mod settling;
